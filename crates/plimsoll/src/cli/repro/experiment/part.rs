// SPDX-License-Identifier: Apache-2.0
//! A part of an experiment: a command of this program, carried out as if it had been typed.

use super::folder::ExperimentFolder;
use crate::cli::measure::ended::check_whole;
use crate::cli::report;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_console::terminal;
use plimsoll_core::experiment::{ExperimentPart, ExperimentPartResult, ExperimentProfile};
use plimsoll_core::units;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use plimsoll_machine::memory_limit::MemoryLimit;
use plimsoll_run::experiment::ExperimentMaterial;
use plimsoll_run::trust::typed;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Outcome of a part.
#[derive(Debug, Default)]
pub(super) struct PartOutcome {
    pub(super) material: ExperimentMaterial,
    pub(super) failure: Option<CliError>,
    seconds: f64,
    report: Option<String>,
}

impl PartOutcome {
    pub(super) fn left_out(why: &str) -> PartOutcome {
        PartOutcome {
            material: ExperimentMaterial {
                missing: Some(why.into()),
                ..ExperimentMaterial::default()
            },
            ..PartOutcome::default()
        }
    }

    /// It as a page tells it.
    pub(super) fn told(
        &self,
        part: &ExperimentPart,
        profile: ExperimentProfile,
    ) -> ExperimentPartResult {
        let command = part.command(profile);
        let command = command.map(|command| format!("plimsoll {}", typed(&command.run)));
        ExperimentPartResult {
            name: part.name.clone(),
            what: part.what.clone(),
            command: command.unwrap_or_default(),
            seconds: self.seconds,
            failed: self.material.missing.clone(),
            report: self.report.clone(),
        }
    }
}

/// Carries out a part, unless that was done before.
pub(super) fn carry_out(
    part: &ExperimentPart,
    profile: ExperimentProfile,
    folder: &ExperimentFolder,
) -> PartOutcome {
    let Some(command) = part.command(profile) else {
        let why = format!("it is not in the {} profile", profile.name());
        return PartOutcome::left_out(&why);
    };
    if let Some(record) = folder.record(&part.name) {
        let failed = record["failed"].as_str();
        let found = plimsoll_archive::open(&folder.of_part(&part.name));
        // A part that was measured whole is not measured again because it found data lost.
        if failed.is_none() || found.is_ok_and(|run| run.complete) {
            terminal::say(&format!("part {}: done before", part.name));
            let failure = failed.map(|text| CliError::sentence(CliExitCode::Failed, text));
            return outcome(part, folder, &record, failure);
        }
    }
    terminal::say(&format!("part {}: {}", part.name, part.what));
    let clock = SystemClock::new();
    let prepared = command
        .before
        .iter()
        .try_for_each(|words| helper(words, folder));
    let done = prepared.and_then(|()| {
        // The memory limit applies to the measured command, not to the setup before it.
        let _limit = command.memory.as_deref().map(limited).transpose()?;
        measured(part, &command.run, folder)
    });
    let mut tidied = Ok(());
    for words in &command.after {
        // Each of them, whatever became of those before it.
        let result = helper(words, folder);
        tidied = tidied.and(result);
    }
    let (printed, failure) = match (done, tidied) {
        (Ok(printed), Ok(())) => (printed, None),
        (Ok(printed), Err(failure)) => (printed, Some(failure)),
        (Err(failure), _) => (Value::Null, Some(failure)),
    };
    if let Some(failure) = &failure {
        terminal::say(&format!("part {}: {failure}", part.name));
    }
    let record = json!({
        "command": command.run,
        "seconds": clock.now().as_secs_f64(),
        "failed": failure.as_ref().map(CliError::text),
        "printed": printed,
    });
    let kept = folder.keep(&part.name, &record);
    outcome(part, folder, &record, failure.or(kept.err()))
}

/// Limits the memory of this program and of all that it starts.
fn limited(memory: &str) -> Result<MemoryLimit, CliError> {
    let bytes = units::parse_size(memory).map_err(CliError::invalid)?;
    MemoryLimit::set(bytes).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("limit the memory to {memory}: {error}"),
        )
    })
}

/// The command whose results are used; what it printed, where it leaves no folder.
fn measured(
    part: &ExperimentPart,
    words: &[String],
    folder: &ExperimentFolder,
) -> Result<Value, CliError> {
    let mut words = folder.command(words);
    let has_output = crate::cli::has_option(&words, "output");
    // Its output is a file, and it prints what it found.
    let is_model = words.first().is_some_and(|word| word == "fit");
    let place = folder.of_part(&part.name);
    let found = plimsoll_archive::open(&place);
    if let Some(whole) = found.ok().filter(|run| run.complete && has_output) {
        // The program was killed between the end of the run and its record.
        report::write_page(&whole, &place)?;
        return check_whole(&whole).map(|()| Value::Null);
    }
    if has_output {
        words.push("-o".into());
        words.push(match is_model {
            true => place.with_extension("toml").display().to_string(),
            false => place.display().to_string(),
        });
    }
    if is_model || (!has_output && crate::cli::has_option(&words, "json")) {
        words.push("--json".into());
    }
    let printed = printed(&words, folder)?;
    Ok(match has_output && !is_model {
        true => Value::Null,
        false => serde_json::from_str(&printed).unwrap_or(Value::Null),
    })
}

/// A command before or after it.
fn helper(words: &[String], folder: &ExperimentFolder) -> Result<(), CliError> {
    printed(&folder.command(words), folder).map(drop)
}

/// Carries out a command, and gives what it printed.
fn printed(words: &[String], folder: &ExperimentFolder) -> Result<String, CliError> {
    let is_verification = words.first().is_some_and(|word| word == "verify");
    let (ended, printed) = terminal::captured(|| crate::cli::carry_out_words(words, folder.from()));
    match ended? {
        code if code == ExitCode::SUCCESS => Ok(printed),
        // Checks that a load misses are the result of its verification, not a failure.
        code if code == CliExitCode::Gate.into() && is_verification => Ok(printed),
        code if code == CliExitCode::Interrupted.into() => Err(CliError::sentence(
            CliExitCode::Interrupted,
            "it was stopped; the same command goes on with it",
        )),
        code => {
            let text = format!("{} did not end well: {code:?}", typed(words));
            Err(CliError::sentence(CliExitCode::Failed, text))
        }
    }
}

/// Outcome of a part, from its folder and its record.
fn outcome(
    part: &ExperimentPart,
    folder: &ExperimentFolder,
    record: &Value,
    failure: Option<CliError>,
) -> PartOutcome {
    let path = folder.of_part(&part.name);
    let run = plimsoll_archive::open(&path).ok();
    let tuning = std::fs::read_to_string(path.join("tuning.json")).ok();
    let tuning = tuning.and_then(|text| serde_json::from_str(&text).ok());
    let of_run = run.as_ref().map(|run| report::as_json(run, &path));
    let printed = Some(record["printed"].clone()).filter(|value| !value.is_null());
    PartOutcome {
        material: ExperimentMaterial {
            run,
            printed: printed.or(tuning).or(of_run),
            missing: failure.as_ref().map(CliError::text),
        },
        failure,
        seconds: record["seconds"].as_f64().unwrap_or_default(),
        report: folder.report(&part.name),
    }
}
