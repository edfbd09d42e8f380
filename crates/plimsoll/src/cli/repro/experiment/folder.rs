// SPDX-License-Identifier: Apache-2.0
//! The folder of an experiment: its files, a folder and a record for each part, and the page.

use super::ExperimentSourceFiles;
use crate::cli::repro::ReproArgs;
use plimsoll_agent::run_id;
use plimsoll_console::failure::CliError;
use plimsoll_console::output::not_written;
use plimsoll_core::experiment::ExperimentProfile;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Name of the file that says which experiment a folder holds.
const MARK: &str = "experiment.json";

/// Where an experiment is carried out.
#[derive(Debug)]
pub(super) struct ExperimentFolder {
    path: PathBuf,
    name: String,
    /// Files beside the experiment.
    files: PathBuf,
    /// Recordings that commands name.
    data: Option<PathBuf>,
    /// The experiment's own file, if it is not in this program.
    from: Option<PathBuf>,
    /// Consent given on the command line: options by their names, with their words.
    consent: Vec<(&'static str, Vec<String>)>,
}

impl ExperimentFolder {
    /// A new folder, or that of the same experiment in the same profile.
    pub(super) fn open(
        args: &ReproArgs,
        source: &ExperimentSourceFiles,
        profile: ExperimentProfile,
    ) -> Result<ExperimentFolder, CliError> {
        let name = source.file.name.clone();
        let data = args.data_of(&source.file)?;
        let path = args.output.as_deref().map_or_else(
            || crate::cli::defaults::results_folder(format!("{name}-{}", run_id::run_id())),
            Path::to_path_buf,
        );
        let mark = json!({ "name": name, "profile": profile.name(), "experiment": source.file });
        match std::fs::read_to_string(path.join(MARK)) {
            Ok(text) => check_mark(&path, &text, &mark)?,
            Err(_) => make(&path, &mark)?,
        }
        make_directory(&path.join("parts"))?;
        let files = match source.embedded.is_empty() {
            true => source.folder.clone(),
            false => path.join("files"),
        };
        for (file, text) in source.embedded {
            write(&files.join(file), text)?;
        }
        Ok(ExperimentFolder {
            path,
            name,
            files,
            data,
            from: source.path.clone(),
            consent: args.consent(),
        })
    }

    /// The page.
    pub(super) fn page(&self) -> PathBuf {
        self.path.join(format!("{}.html", self.name))
    }

    /// The folder of a part's results.
    pub(super) fn of_part(&self, part: &str) -> PathBuf {
        self.path.join("parts").join(part)
    }

    /// The report of a part, from this folder on, where there is one.
    pub(super) fn report(&self, part: &str) -> Option<String> {
        let report = format!("parts/{part}/report.html");
        self.path.join(&report).is_file().then_some(report)
    }

    /// The experiment's own file, if it is not in this program.
    pub(super) fn from(&self) -> Option<&Path> {
        self.from.as_deref()
    }

    /// A command with all files named in full, and with what the command line consents to.
    pub(super) fn command(&self, words: &[String]) -> Vec<String> {
        let data = self.data.as_deref().unwrap_or(Path::new(""));
        let places = [("{data}", data), ("{out}", &self.path)];
        let named = words.iter().map(|word| {
            places
                .iter()
                .fold(beside(&self.files, word), |word, (name, place)| {
                    word.replace(name, &place.display().to_string())
                })
        });
        let consent = self.consent.iter();
        let granted = consent.filter(|(option, _)| crate::cli::has_option(words, option));
        named
            .chain(granted.flat_map(|(_, words)| words.clone()))
            .collect()
    }

    fn record_path(&self, part: &str) -> PathBuf {
        self.path.join("parts").join(format!("{part}.json"))
    }

    /// Record of a part that was carried out before.
    pub(super) fn record(&self, part: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.record_path(part)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps what a part left.
    pub(super) fn keep(&self, part: &str, record: &Value) -> Result<(), CliError> {
        write(&self.record_path(part), &format!("{record:#}\n"))
    }
}

/// A word of a command: a file beside the experiment is named in full.
pub(super) fn beside(files: &Path, word: &str) -> String {
    match word.strip_prefix("./") {
        Some(file) => files.join(file).display().to_string(),
        None => word.into(),
    }
}

fn check_mark(path: &Path, text: &str, mark: &Value) -> Result<(), CliError> {
    let is_same = serde_json::from_str::<Value>(text).is_ok_and(|found| found == *mark);
    match is_same {
        true => Ok(()),
        false => Err(CliError::usage(format!(
            "write {}: it holds another experiment, or another profile or version of this one",
            path.display()
        ))
        .hint("give another directory with -o")),
    }
}

fn make(path: &Path, mark: &Value) -> Result<(), CliError> {
    let has_any = std::fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some());
    if has_any {
        let text = format!("write {}: it holds something else", path.display());
        return Err(CliError::usage(text).hint("give a new directory with -o"));
    }
    write(&path.join(MARK), &format!("{mark:#}\n"))
}

/// Writes a file, and makes the directories that it is in.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    make_directory(path.parent().unwrap_or(Path::new("")))?;
    plimsoll_archive::write_result(path, text).map_err(not_written(path))
}

fn make_directory(path: &Path) -> Result<(), CliError> {
    plimsoll_archive::make_directory(path).map_err(not_written(path))
}
