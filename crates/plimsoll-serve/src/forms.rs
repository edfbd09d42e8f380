// SPDX-License-Identifier: Apache-2.0
//! Forms of the page: a campaign is checked by its own rules and by what is offered, a stack is made into
//! arguments.
//!
//! Invariant: nothing of a form can start a program of its own, name a file that was not offered, or become
//! an option: values stand behind `--option=`, names behind `--`. Consent to overwrite a device cannot be
//! given.

mod misread;

use crate::catalogue::ServerCatalogue;
use crate::error::{FormMistake, RequestError};
use plimsoll_core::campaign::{CampaignSpec, CampaignStacks};
use plimsoll_core::text::printable;
use plimsoll_core::written::WrittenTime;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Most targets or workloads of one form, and bytes of each.
const WORDS_MAX: usize = 32;
const WORD_MAX: usize = 512;

/// Most bytes of a campaign.
const CAMPAIGN_MAX: usize = 48 << 10;

/// A run that is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    /// A campaign, with the keys of its files.
    campaign: Value,
    /// Time after which nothing more begins.
    #[serde(default)]
    budget: Value,
}

/// A stack that is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StackForm {
    stack: String,
    #[serde(default)]
    layers: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, SettingValueForm>,
    #[serde(default)]
    size: Option<String>,
    #[serde(default)]
    inventory: Option<String>,
}

/// The value of a setting, as forms have it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum SettingValueForm {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl std::fmt::Display for SettingValueForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingValueForm::Text(text) => f.write_str(text),
            SettingValueForm::Number(number) => number.fmt(f),
            SettingValueForm::Flag(is_on) => f.write_str(if *is_on { "on" } else { "off" }),
        }
    }
}

fn refused(what: &str, given: &str, why: &str) -> RequestError {
    RequestError::invalid(format!("invalid {what} '{}': {why}", printable(given)))
}

/// Whether a text is made of these characters alone, and leads to no file.
fn is_made_of(text: &str, others: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    (1..=WORD_MAX).contains(&text.len()) && text.chars().all(is_plain) && !text.contains("..")
}

/// A workload by its name, with settings. No file, no program: a colon before an original program and a
/// slash are no characters of it.
fn check_workload(text: &str, offered: &ServerCatalogue) -> Result<(), RequestError> {
    let name = text.split([',', ' ', '@']).next().unwrap_or_default();
    if !offered.has_workload(name) {
        return Err(
            refused("workload", text, "it is none of those that are offered")
                .hint("files and programs are named on the command line, not here"),
        );
    }
    match is_made_of(text, "+._%=,@ -") {
        true => Ok(()),
        false => Err(refused(
            "workload",
            text,
            "its settings hold more than letters, digits and +._%=,@ -",
        )),
    }
}

/// A stack by its name, with settings and layers.
fn check_stack(text: &str, offered: &ServerCatalogue) -> Result<(), RequestError> {
    if !is_made_of(text, "()+._%=,- ") {
        return Err(refused(
            "stack",
            text,
            "it holds more than letters, digits and ()+._%=,-",
        ));
    }
    let mut names = parts(text).into_iter();
    let is_known = names.next().is_some_and(|name| offered.has_stack(name));
    match is_known && names.all(|name| offered.has_layer(name)) {
        true => Ok(()),
        false => Err(refused(
            "stack",
            text,
            "a part of it is none of those that are offered",
        )),
    }
}

/// The names of a stack and its layers: what stands between plus signs outside of brackets, without settings.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |c: char| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0 && c == '+'
    };
    let name = |part: &'_ str| part.find('(').unwrap_or(part.len());
    text.split(outside)
        .map(|part| part[..name(part)].trim())
        .collect()
}

fn check_target(text: &str, offered: &ServerCatalogue) -> Result<(), RequestError> {
    let is_offered = offered.targets.iter().any(|target| target == text);
    let is_simulated = text == "null" || text == "sim" || text.starts_with("sim(");
    if is_offered || (is_simulated && is_made_of(text, "()+._%=,- ")) {
        return Ok(());
    }
    check_stack(text, offered).map_err(|_| {
        refused(
            "target",
            text,
            "it is neither a stack, a simulated device, nor one of those that are offered",
        )
        .hint("start the server with --target PATH to offer it")
    })
}

fn is_measure(text: &str) -> bool {
    text.len() <= 32 && is_made_of(text, ".% ") && text.starts_with(|c: char| c.is_ascii_digit())
}

impl RunForm {
    /// Arguments of a run that is recorded into `folder`, and its campaign, which it reads from standard
    /// input.
    ///
    /// # Errors
    /// With all mistakes, each with its key.
    pub(crate) fn args(
        &self,
        folder: &Path,
        offered: &ServerCatalogue,
    ) -> Result<(Vec<String>, String), RequestError> {
        let (spec, mut mistakes) = misread::read(&self.campaign);
        let budget = Option::<WrittenTime>::deserialize(&self.budget);
        let budget = budget.map_err(|error| mistakes.push(misread::mistake("budget", &error)));
        let Some(spec) = spec else {
            return Err(refused_form(mistakes, None));
        };
        check_campaign(&spec, offered, mistakes)?;
        args_of(&spec, budget.unwrap_or_default(), folder, offered)
    }
}

/// The same for the run in `folder`, which has this campaign, to go on.
///
/// # Errors
/// With all mistakes, each with its key.
pub(crate) fn resumed_args(
    spec: &CampaignSpec,
    folder: &Path,
    offered: &ServerCatalogue,
) -> Result<(Vec<String>, String), RequestError> {
    check_campaign(spec, offered, Vec::new())?;
    args_of(spec, None, folder, offered)
}

fn args_of(
    spec: &CampaignSpec,
    budget: Option<WrittenTime>,
    folder: &Path,
    offered: &ServerCatalogue,
) -> Result<(Vec<String>, String), RequestError> {
    let text = toml::to_string(spec).map_err(RequestError::failed)?;
    if text.len() > CAMPAIGN_MAX {
        let failure = format!("the campaign has more than {CAMPAIGN_MAX} bytes");
        return Err(RequestError::invalid(failure));
    }
    let mut args = vec!["run".to_owned(), format!("--output={}", folder.display())];
    args.extend(budget.map(|budget| format!("--budget={budget}")));
    args.extend(offered.trust());
    args.extend(["--trust=-", "--", "-"].map(String::from));
    Ok((args, text))
}

/// Refuses a campaign that a form could not ask for, or in which there were mistakes already: a run folder
/// may come from another user, and must not choose which programs start.
fn check_campaign(
    spec: &CampaignSpec,
    offered: &ServerCatalogue,
    mut mistakes: Vec<FormMistake>,
) -> Result<(), RequestError> {
    let here = std::env::current_dir().ok();
    let elsewhere = |directory: &String| here.as_deref() != Some(Path::new(directory));
    let is_beyond = [
        spec.clients.is_some(),
        spec.build.is_some(),
        spec.stacks != CampaignStacks::default(),
        spec.directory.as_ref().is_some_and(elsewhere),
        spec.target.len().max(spec.workload.len()) > WORDS_MAX,
    ];
    if is_beyond.contains(&true) {
        let text =
            "the campaign has clients, stacks, a directory or more systems than a form may ask for";
        return Err(RequestError::invalid(text));
    }
    let mut hint = None;
    let mut note = |at: String, checked: Result<(), RequestError>| {
        if let Err(error) = checked {
            hint = hint.take().or(error.hint);
            mistakes.push(FormMistake {
                at,
                text: error.text,
            });
        }
    };
    let problems = spec.problems();
    for problem in &problems {
        let text = problem.words(&|key| key.to_owned());
        note(problem.at.clone(), Err(RequestError::invalid(text)));
    }
    for (at, target) in spec.target.iter().enumerate() {
        // Lists of settings may make too many of one, which the rules refuse.
        let mut texts = match problems.is_empty() {
            true => target.texts().into_iter(),
            false => vec![target.target.clone()].into_iter(),
        };
        let checked = texts.try_for_each(|text| check_target(&text, offered));
        note(format!("target[{at}]"), checked);
    }
    for (at, workload) in spec.workload.iter().enumerate() {
        let texts = match problems.is_empty() {
            true => workload.texts(),
            false => vec![workload.workload.clone()],
        };
        let checked = texts
            .iter()
            .try_for_each(|text| check_workload(text, offered));
        note(format!("workload[{at}]"), checked);
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(refused_form(mistakes, hint)),
    }
}

fn refused_form(mistakes: Vec<FormMistake>, hint: Option<String>) -> RequestError {
    let text = match &mistakes[..] {
        [one] => one.text.clone(),
        several => format!("{} mistakes: see the fields", several.len()),
    };
    RequestError {
        hint,
        mistakes,
        ..RequestError::invalid(text)
    }
}

impl StackForm {
    /// The stack as one word: its settings, and its layers.
    pub(crate) fn name(&self, offered: &ServerCatalogue) -> Result<String, RequestError> {
        if self.layers.len() > WORDS_MAX || self.settings.len() > WORDS_MAX {
            return Err(RequestError::invalid("too many layers or settings"));
        }
        let is_word = |text: &str| is_made_of(text, "._%-");
        let mut settings = Vec::new();
        for (name, value) in &self.settings {
            let value = value.to_string();
            if !is_word(name) || !is_word(&value) {
                let given = format!("{name}={value}");
                return Err(refused(
                    "setting",
                    &given,
                    "expected letters, digits and ._%-",
                ));
            }
            settings.push(format!("{name}={value}"));
        }
        let mut name = self.stack.clone();
        if !settings.is_empty() {
            name = format!("{name}({})", settings.join(","));
        }
        for layer in &self.layers {
            name = format!("{name}+{layer}");
        }
        check_stack(&name, offered)?;
        Ok(name)
    }

    /// The arguments that bring it up.
    pub(crate) fn args(
        &self,
        is_plan: bool,
        offered: &ServerCatalogue,
    ) -> Result<Vec<String>, RequestError> {
        let name = self.name(offered)?;
        let mut args = vec!["stack".to_owned(), "up".to_owned()];
        if let Some(size) = &self.size {
            if !is_measure(size) {
                return Err(refused("size", size, "expected a size, such as 2G"));
            }
            args.push(format!("--size={size}"));
        }
        if let Some(place) = &self.inventory {
            let is_offered = offered.inventories.iter().any(|one| one == place);
            if !is_offered && place != "here" && place != "netns" {
                return Err(
                    refused("inventory", place, "it is none of those that are offered")
                        .hint("start the server with --inventory FILE to offer it"),
                );
            }
            args.push(format!("--on={place}"));
        }
        if is_plan {
            args.extend(["--dry-run", "--json"].map(String::from));
        }
        args.extend(["--".to_owned(), name]);
        Ok(args)
    }
}

/// The arguments of a change of a stack that is up.
pub(crate) fn change_args(
    stack: &str,
    change: &str,
    offered: &ServerCatalogue,
) -> Result<Vec<String>, RequestError> {
    const CHANGES: [&str; 7] = [
        "degrade", "rebuild", "scrub", "grow", "switch", "snapshot", "down",
    ];
    if !CHANGES.contains(&change) {
        let text = format!("there is no change '{}' of a stack", printable(change));
        return Err(RequestError::not_found(text).hint(format!("there are {}", CHANGES.join(", "))));
    }
    check_stack(stack, offered)?;
    Ok(["stack", change, "--", stack].map(String::from).to_vec())
}

#[cfg(test)]
mod tests;
