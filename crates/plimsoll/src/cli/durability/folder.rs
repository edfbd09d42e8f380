// SPDX-License-Identifier: Apache-2.0
//! The folder of a result of durability: its files, and those of the results before it.

use plimsoll_agent::run_id;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::durability::DurabilityResult;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The file of a result.
const RESULT: &str = "durability.json";
/// Largest file of a result that is read: a hundred results with their findings.
const RESULT_MAX: u64 = 64 << 20;

/// Where the result is kept.
#[derive(Debug)]
pub(super) struct DurabilityFolder(PathBuf);

impl DurabilityFolder {
    pub(super) fn make(output: Option<&Path>) -> Result<Self, CliError> {
        let name = || format!("durability-{}", run_id::run_id());
        let path = match output {
            Some(path) => path.to_path_buf(),
            None => crate::cli::defaults::results_folder(name()),
        };
        if path.join(RESULT).exists() {
            let text = format!("{} has a result already", path.display());
            return Err(CliError::invalid(text).hint("give another folder with -o"));
        }
        std::fs::create_dir_all(&path).map_err(doing(
            CliExitCode::Failed,
            format!("create {}", path.display()),
        ))?;
        Ok(DurabilityFolder(path))
    }

    pub(super) fn page(&self) -> PathBuf {
        self.0.join("durability.html")
    }

    pub(super) fn issue(&self) -> PathBuf {
        self.0.join("for-maintainers.md")
    }

    pub(super) fn write(&self, result: &DurabilityResult) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(result).unwrap_or_default();
        let page = plimsoll_report::html(&plimsoll_report::durability(result));
        let cases = plimsoll_report::durability_junit(result);
        let issue = plimsoll_report::durability_issue(result);
        let files = [
            (self.0.join(RESULT), text),
            (self.0.join("junit.xml"), cases),
            (self.page(), page),
        ];
        for (path, bytes) in files
            .into_iter()
            .chain(issue.map(|text| (self.issue(), text)))
        {
            plimsoll_archive::write_result(&path, bytes).map_err(doing(
                CliExitCode::Failed,
                format!("write {}", path.display()),
            ))?;
        }
        Ok(())
    }
}

/// Makes a result the next one after that of a folder.
///
/// # Errors
/// When the folder has no result of the same server.
pub(super) fn follow(result: &mut DurabilityResult, folder: &Path) -> Result<(), CliError> {
    let path = folder.join(RESULT);
    let wrong = |why: &dyn Display| {
        let text = format!("--since {}: {RESULT}: {why}", folder.display());
        CliError::invalid(text).hint("give the folder of an earlier result of the same server")
    };
    let text = plimsoll_archive::read_result(&path, RESULT_MAX).map_err(|why| wrong(&why))?;
    let last = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    result.follow(last).map_err(|why| wrong(&why))
}
