// SPDX-License-Identifier: Apache-2.0
//! Campaigns as files: written by `--save`, carried out by `plimsoll run FILE.toml`.

use super::MeasureResult;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_console::{output, terminal};
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::text::shell_word;
use plimsoll_run::campaign_file::campaign_text;
use std::ops::ControlFlow;
use std::path::{Path, absolute};
use std::process::ExitCode;

/// Writes a campaign to a new file, or prints it in a dry run. Its relative paths keep their meaning,
/// wherever the file goes.
pub(super) fn save(
    spec: &CampaignSpec,
    file: &Path,
    dry_run: bool,
) -> Result<MeasureResult, CliError> {
    let text = format!(
        "# SPDX-License-Identifier: Apache-2.0\n# A campaign, which `plimsoll run` carries out: docs/campaigns.md\n{}",
        campaign_text(&in_directory(spec))?
    );
    if dry_run {
        terminal::print(&text);
        return Ok(ControlFlow::Break(ExitCode::SUCCESS));
    }
    if file.extension().is_none_or(|extension| extension != "toml") {
        let text = format!(
            "write {}: the name of a campaign ends with .toml",
            file.display()
        );
        return Err(CliError::usage(text));
    }
    output::check_directory_of(file)?;
    if file.symlink_metadata().is_ok() {
        let text = format!("write {}: it exists", file.display());
        return Err(CliError::usage(text).hint("give another name with --save, or remove the file"));
    }
    let written = plimsoll_archive::write_result(file, text);
    written.map_err(doing(
        CliExitCode::Failed,
        format!("write {}", file.display()),
    ))?;
    let (shown, word) = (file.display(), shell_word(&file.to_string_lossy()));
    terminal::print(&format!(
        "{shown} is written; plimsoll run {word} carries it out"
    ));
    Ok(ControlFlow::Break(ExitCode::SUCCESS))
}

/// The campaign with the directory that its relative paths count from.
pub(super) fn in_directory(spec: &CampaignSpec) -> CampaignSpec {
    let here = std::env::current_dir();
    let here = here.ok().and_then(|here| here.to_str().map(Into::into));
    CampaignSpec {
        directory: spec.directory.clone().or(here),
        ..spec.clone()
    }
}

/// Goes to the directory from which a campaign's relative paths count. Paths of the command line are absolute
/// by then.
///
/// # Errors
/// When it is not there, or when the journals would go elsewhere.
pub(in crate::cli) fn enter_directory(spec: &CampaignSpec) -> Result<(), CliError> {
    let Some(directory) = &spec.directory else {
        return Ok(());
    };
    let is_here = std::env::current_dir().is_ok_and(|here| here == Path::new(directory));
    let state = std::env::var_os("PLIMSOLL_STATE");
    if !is_here && state.is_some_and(|state| Path::new(&state).is_relative()) {
        return Err(CliError::usage(format!(
            "go to {directory}, where the campaign's paths count from: PLIMSOLL_STATE is relative"
        ))
        .hint("give PLIMSOLL_STATE an absolute path"));
    }
    let entered = std::env::set_current_dir(directory);
    entered.map_err(|error| {
        let text = format!("go to '{directory}', where the campaign's paths count from: {error}");
        CliError::usage(text).hint("make that directory, or change 'directory' in the file")
    })
}

/// A path of the command line that keeps its meaning in another directory.
pub(in crate::cli) fn kept(path: &Path) -> std::path::PathBuf {
    absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
