// SPDX-License-Identifier: Apache-2.0
//! An experiment that is data: its parts are carried out by the commands that they name, and what came of
//! them is printed beside what was published.
//!
//! Manual: `docs/repro.md`.

mod consent;
mod folder;
mod part;

use super::ReproArgs;
use folder::ExperimentFolder;
use part::PartOutcome;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::experiment::{ExperimentFile, ExperimentPartResult, ExperimentProfile};
use plimsoll_core::units::{self, Nanos};
use plimsoll_run::experiment::{ExperimentMaterials, evaluate};
use plimsoll_run::experiment_file;
use plimsoll_run::trust::typed;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// A file of an experiment that this program has in it: its name and its text.
type EmbeddedFile = (&'static str, &'static str);

/// An experiment that this program has in it.
pub(super) struct EmbeddedExperiment {
    pub(super) name: &'static str,
    files: &'static [EmbeddedFile],
}

/// Files of an experiment in `examples/experiments/`, its own first.
macro_rules! embedded {
    ($name:literal, $($file:literal),+) => {
        EmbeddedExperiment {
            name: $name,
            files: &[$(($file, include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/../../examples/experiments/", $name, "/", $file
            )))),+],
        }
    };
}

/// The experiments in the order in which they are listed.
pub(super) const EMBEDDED: &[EmbeddedExperiment] = &[
    embedded!("pcp-model", "experiment.toml"),
    embedded!("pmsapp", "experiment.toml", "quick.toml", "full.toml"),
    embedded!(
        "koji",
        "experiment.toml",
        "bonnie-quick.toml",
        "bonnie-full.toml",
        "farm.toml"
    ),
    embedded!(
        "storm-lustre",
        "experiment.toml",
        "survey-quick.toml",
        "survey-full.toml",
        "servers-quick.toml",
        "servers-full.toml",
        "lustre-quick.toml",
        "lustre-full.toml"
    ),
    embedded!(
        "cloudfs",
        "experiment.toml",
        "layers-quick.toml",
        "layers-full.toml",
        "isolation-quick.toml",
        "isolation-full.toml",
        "threads-quick.toml",
        "threads-full.toml"
    ),
];

/// Files of the experiment to repeat.
pub(super) struct ExperimentSourceFiles {
    pub(super) file: ExperimentFile,
    /// The files beside it, where they are not in a folder.
    embedded: &'static [EmbeddedFile],
    /// Its own file, and the folder that it is in, where it is not in this program.
    path: Option<PathBuf>,
    folder: PathBuf,
}

impl EmbeddedExperiment {
    pub(super) fn read(&self) -> Result<ExperimentSourceFiles, CliError> {
        let (name, text) = self.files[0];
        let file = experiment_file::parse(Path::new(&format!("{}/{name}", self.name)), text)?;
        Ok(ExperimentSourceFiles {
            file,
            embedded: self.files,
            path: None,
            folder: PathBuf::new(),
        })
    }
}

/// The experiment of this name, or in this file.
pub(super) fn find(name: &str) -> Result<Option<ExperimentSourceFiles>, CliError> {
    if let Some(embedded) = EMBEDDED.iter().find(|one| one.name == name) {
        return embedded.read().map(Some);
    }
    let path = Path::new(name);
    let is_path = path.extension().is_some_and(|end| end == "toml") || name.contains('/');
    if !is_path {
        return Ok(None);
    }
    let path = match path.is_dir() {
        true => path.join("experiment.toml"),
        false => path.to_path_buf(),
    };
    let file = experiment_file::read(&path)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    Ok(Some(ExperimentSourceFiles {
        file,
        embedded: &[],
        path: Some(path),
        folder,
    }))
}

pub(super) fn main(args: &ReproArgs, source: &ExperimentSourceFiles) -> CliResult {
    let (file, profile) = (&source.file, args.profile.profile());
    let named = |word: &str| folder::beside(&source.folder, word);
    let starts = consent::starts(file, profile, &named)?;
    // Experiments built into this program are as trusted as the program.
    if let Some(path) = &source.path {
        args.shape.trust().check(path, &starts, args.dry_run)?;
    }
    if args.dry_run {
        terminal::print(&plan(file, profile, &starts));
        return Ok(ExitCode::SUCCESS);
    }
    let stop = context::stop_flag()?;
    let folder = ExperimentFolder::open(args, source, profile)?;
    let mut materials = ExperimentMaterials::new();
    let mut carried_out = Vec::new();
    let mut failures: Vec<(&str, CliError)> = Vec::new();
    for part in &file.part {
        let outcome = match stop.load(Ordering::Relaxed) {
            true => PartOutcome::left_out("it was stopped before this part"),
            false => part::carry_out(part, profile, &folder),
        };
        carried_out.push(outcome.told(part, profile));
        if let Some(failure) = outcome.failure
            && !part.optional
        {
            failures.push((&part.name, failure));
        }
        materials.insert(part.name.clone(), outcome.material);
    }
    show(args, (file, profile), (&materials, carried_out), &folder)?;
    if stop.load(Ordering::Relaxed) {
        return super::super::done(CliExitCode::Interrupted);
    }
    let worst = failures.into_iter().map(|(name, failure)| CliError {
        message: format!("part {name}: {}", failure.text()),
        is_sentence: true,
        ..failure
    });
    super::super::worst(worst.collect()).map(|()| ExitCode::SUCCESS)
}

/// Prints the results and leaves the page.
fn show(
    args: &ReproArgs,
    (file, profile): (&ExperimentFile, ExperimentProfile),
    (materials, carried_out): (&ExperimentMaterials, Vec<ExperimentPartResult>),
    folder: &ExperimentFolder,
) -> Result<(), CliError> {
    let result = evaluate(file, profile, materials, carried_out);
    let report = plimsoll_report::experiment(&result);
    let page = folder.page();
    plimsoll_archive::write_result(&page, plimsoll_report::html(&report)).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("write {}: {error}", page.display()),
        )
    })?;
    if args.json {
        let value = serde_json::to_value(&result).map_err(|error| {
            CliError::new(CliExitCode::Failed, format!("print the results: {error}"))
        })?;
        terminal::print_json(&value);
        return Ok(());
    }
    let (width, colour) = (terminal::width(), terminal::colour());
    terminal::print_coloured(&plimsoll_report::terminal(&report, width, colour, false));
    terminal::print(&format!("Page: {}", page.display()));
    Ok(())
}

/// Plan of an experiment: the commands that it would carry out.
fn plan(file: &ExperimentFile, profile: ExperimentProfile, starts: &[String]) -> String {
    let mut text = format!(
        "{}\nNothing was done. The {} profile would carry out:\n",
        file.title,
        profile.name()
    );
    let mut minutes = 0.0;
    for part in &file.part {
        let Some(command) = part.command(profile) else {
            let _ = writeln!(text, "\n{}: not in this profile", part.name);
            continue;
        };
        minutes += command.minutes;
        let takes = units::clock_duration(Nanos::from_secs_f64(command.minutes * 60.0));
        let _ = writeln!(text, "\n{}: {} (about {takes})", part.name, part.what);
        let before = command.before.iter();
        let all = before.chain([&command.run]).chain(&command.after);
        for words in all {
            let _ = writeln!(text, "  plimsoll {}", typed(words));
        }
        if let Some(memory) = &command.memory {
            let _ = writeln!(text, "  with {memory} of memory");
        }
    }
    let all = units::clock_duration(Nanos::from_secs_f64(minutes * 60.0));
    if !starts.is_empty() {
        text.push_str("\nPrograms that it would start:\n");
        let lines = starts.iter().map(|one| format!("  {one}\n"));
        text.extend(lines);
    }
    text.push('\n');
    let _ = write!(text, "In all about {all} on a small machine.");
    text
}

#[cfg(test)]
mod tests;
