// SPDX-License-Identifier: Apache-2.0
//! Programs that an experiment's file would start, and consent that it may not give: only the
//! command line can.

use crate::cli::measure::asked;
use crate::cli::trust::TrustArgs;
use clap::ArgMatches;
use plimsoll_console::failure::CliError;
use plimsoll_core::experiment::{ExperimentFile, ExperimentProfile};
use plimsoll_run::request::commands_of;
use plimsoll_run::trust::typed;

/// Commands that measure: what they start is known from their words.
const MEASURING: [&str; 7] = [
    "run", "compare", "loadline", "fit-for", "layers", "failover", "tune",
];

/// Options that consent to something.
const CONSENT: [&str; 2] = ["trust", "destroy"];

/// Programs that the commands of an experiment would start, one a line; `beside` gives files their
/// full names.
///
/// # Errors
/// When its words are no command, or consent to something.
pub(super) fn starts(
    file: &ExperimentFile,
    profile: ExperimentProfile,
    beside: &dyn Fn(&str) -> String,
) -> Result<Vec<String>, CliError> {
    let commands = file.part.iter().filter_map(|part| part.command(profile));
    let all = commands.flat_map(|one| one.before.iter().chain([&one.run]).chain(&one.after));
    let mut starts = Vec::new();
    for words in all {
        let words: Vec<String> = words.iter().map(|word| beside(word)).collect();
        starts.extend(starts_of(&words)?);
    }
    starts.dedup();
    Ok(starts)
}

/// Programs that one command would start.
fn starts_of(words: &[String]) -> Result<Vec<String>, CliError> {
    let whole = format!("plimsoll {}", typed(words));
    let read = crate::cli::matches_of(words)?;
    let Some((name, given)) = read.subcommand() else {
        return Ok(vec![whole]);
    };
    refuse_consent(&whole, given)?;
    let is_stack = |one: &str| given.subcommand().is_some_and(|(verb, _)| verb == one);
    match name {
        // The file of a stack of one's own has to be trusted itself.
        "stack" if is_stack("down") || (is_stack("up") && !names_machines(given)) => Ok(Vec::new()),
        known if MEASURING.contains(&known) && !names_machines(given) => Ok(programs(given)),
        _ => Ok(vec![whole]),
    }
}

/// Whether nodes or schedulers are reached by commands.
fn names_machines(given: &ArgMatches) -> bool {
    let inner = given.subcommand().map_or(given, |(_, inner)| inner);
    let on = values(inner, "on");
    let has_inventory = on.iter().any(|on| on != "here" && on != "netns");
    has_inventory || !values(inner, "clients").is_empty()
}

/// The programs of workloads.
fn programs(given: &ArgMatches) -> Vec<String> {
    let texts = ["workload", "workloads"].map(|name| values(given, name));
    // A workload that cannot be read starts no command either, and is checked again when it is
    // carried out.
    let read = texts
        .iter()
        .flatten()
        .filter_map(|text| asked(text, None, &TrustArgs::default()).ok());
    read.flat_map(|one| commands_of(&one)).collect()
}

/// The values of an argument, if the command has it.
fn values(given: &ArgMatches, name: &str) -> Vec<String> {
    let found = given.try_get_many::<String>(name);
    found
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

fn refuse_consent(whole: &str, given: &ArgMatches) -> Result<(), CliError> {
    let inner = given.subcommand().map_or(given, |(_, inner)| inner);
    let is_given = |name: &&&str| inner.try_contains_id(name).unwrap_or(false);
    match CONSENT.iter().find(is_given) {
        None => Ok(()),
        Some(name) => Err(CliError::invalid(format!(
            "an experiment's file cannot consent to anything: '{whole}' has --{name}"
        ))
        .hint(format!(
            "remove it there, and give --{name} to plimsoll repro"
        ))),
    }
}
