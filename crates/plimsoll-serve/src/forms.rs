// SPDX-License-Identifier: Apache-2.0
//! Forms of the page, checked and made into arguments.
//!
//! Invariant: nothing of a form can start a program of its own, name a file that was not offered, or become
//! an option: values stand behind `--option=`, names behind `--`. Consent to overwrite a device cannot be
//! given.

use crate::catalogue::ServerCatalogue;
use crate::error::RequestError;
use plimsoll_core::campaign::{CampaignSpec, CampaignStacks, CampaignTarget, CampaignWorkload};
use plimsoll_core::text::printable;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::Path;

/// Most targets, workloads or limits of one form, and bytes of each.
const WORDS_MAX: usize = 32;
const WORD_MAX: usize = 512;

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunKind {
    Compare,
    Run,
    LoadLine,
    Failover,
}

impl RunKind {
    /// The subcommand, and the options of a form that it has.
    fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            RunKind::Compare => (
                "compare",
                &[
                    "for", "blocks", "budget", "effect", "under", "fault", "repeat", "seed",
                    "workload",
                ],
            ),
            RunKind::Run => ("run", &["for", "budget", "seed"]),
            RunKind::LoadLine => (
                "loadline",
                &["for", "budget", "slo", "under", "seed", "workload"],
            ),
            RunKind::Failover => (
                "failover",
                &["for", "budget", "fault", "repeat", "seed", "workload"],
            ),
        }
    }
}

/// The options of a run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunFormOptions {
    #[serde(deserialize_with = "words")]
    length: Vec<String>,
    #[serde(deserialize_with = "words")]
    blocks: Vec<String>,
    #[serde(deserialize_with = "words")]
    budget: Vec<String>,
    #[serde(deserialize_with = "words")]
    effect: Vec<String>,
    #[serde(deserialize_with = "words")]
    slo: Vec<String>,
    #[serde(deserialize_with = "words")]
    under: Vec<String>,
    #[serde(deserialize_with = "words")]
    fault: Vec<String>,
    #[serde(deserialize_with = "words")]
    repeat: Vec<String>,
    #[serde(deserialize_with = "words")]
    seed: Vec<String>,
}

/// A run that is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    kind: RunKind,
    targets: Vec<String>,
    #[serde(default)]
    workloads: Vec<String>,
    #[serde(default)]
    options: RunFormOptions,
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

/// One word or several; numbers are words, too, and nothing is none.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let word = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(serde::de::Error::custom(
            "expected a text, a number, or a list of them",
        )),
    };
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => Ok(Vec::new()),
        serde_json::Value::Array(all) => all.into_iter().map(word).collect(),
        one => Ok(vec![word(one)?]),
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

fn is_digits(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit())
}

fn is_measure(text: &str) -> bool {
    text.len() <= 32 && is_made_of(text, ".% ") && text.starts_with(|c: char| c.is_ascii_digit())
}

impl RunFormOptions {
    /// Options with their values, those that were given.
    fn given(
        &self,
        offered: &ServerCatalogue,
    ) -> Result<Vec<(&'static str, String)>, RequestError> {
        let is_fault = |text: &str| offered.has_fault(text);
        let is_condition = |text: &str| offered.conditions.iter().any(|known| known == text);
        let is_limit = |text: &str| text.len() <= 64 && is_made_of(text, " .<%");
        type Check<'a> = &'a dyn Fn(&str) -> bool;
        let all: [(&'static str, &Vec<String>, Check<'_>, &str); 9] = [
            (
                "for",
                &self.length,
                &is_measure,
                "expected a time, such as 30s",
            ),
            ("blocks", &self.blocks, &is_digits, "expected a number"),
            (
                "budget",
                &self.budget,
                &is_measure,
                "expected a time, such as 10m",
            ),
            (
                "effect",
                &self.effect,
                &is_measure,
                "expected a share, such as 5%",
            ),
            (
                "slo",
                &self.slo,
                &is_limit,
                "expected a limit, such as p99 < 20ms",
            ),
            (
                "under",
                &self.under,
                &is_condition,
                "expected a condition that is offered",
            ),
            (
                "fault",
                &self.fault,
                &is_fault,
                "expected a fault that is offered",
            ),
            ("repeat", &self.repeat, &is_digits, "expected a number"),
            ("seed", &self.seed, &is_digits, "expected a number"),
        ];
        let mut given = Vec::new();
        for (name, values, is_good, expected) in all {
            if let Some(bad) = values.iter().find(|value| !is_good(value)) {
                return Err(refused(name, bad, expected));
            }
            match (name, values.as_slice()) {
                (_, []) => {}
                ("slo", limits) => given.extend(limits.iter().map(|limit| (name, limit.clone()))),
                ("under" | "fault", several) => given.push((name, several.join(","))),
                (_, [one]) => given.push((name, one.clone())),
                (_, [_, second, ..]) => return Err(refused(name, second, "expected one value")),
            }
        }
        Ok(given)
    }
}

impl RunForm {
    /// The arguments of the run, which is recorded into `folder`.
    pub(crate) fn args(
        &self,
        folder: &str,
        offered: &ServerCatalogue,
    ) -> Result<Vec<String>, RequestError> {
        for (what, given) in [("targets", &self.targets), ("workloads", &self.workloads)] {
            if given.len() > WORDS_MAX {
                return Err(RequestError::invalid(format!(
                    "more than {WORDS_MAX} {what}"
                )));
            }
        }
        self.targets
            .iter()
            .try_for_each(|target| check_target(target, offered))?;
        self.workloads
            .iter()
            .try_for_each(|one| check_workload(one, offered))?;
        let (command, known) = self.kind.command();
        let mut args = vec![command.to_owned(), format!("--output={folder}")];
        args.extend(offered.trust());
        for (name, value) in self.options.given(offered)? {
            if !known.contains(&name) {
                let text = format!("the option '{name}' is not one of plimsoll {command}");
                return Err(RequestError::invalid(text));
            }
            args.push(format!("--{name}={value}"));
        }
        if self.targets.is_empty() {
            return Err(RequestError::invalid("no target is given").hint("choose at least one"));
        }
        if self.kind == RunKind::Run {
            let ([workload], [target]) = (&*self.workloads, &*self.targets) else {
                let text = "a run has one workload and one target";
                return Err(RequestError::invalid(text).hint("compare takes several"));
            };
            args.extend(["--", workload, target].map(String::from));
            return Ok(args);
        }
        args.extend(self.workloads.iter().map(|one| format!("--workload={one}")));
        args.push("--".into());
        args.extend(self.targets.iter().cloned());
        Ok(args)
    }
}

/// Refuses to go on with a campaign that a form could not ask for: a run folder may be somebody else's, and
/// must not choose what is started.
pub(crate) fn check_campaign(
    spec: &CampaignSpec,
    offered: &ServerCatalogue,
) -> Result<(), RequestError> {
    if !spec.problems().is_empty() {
        return Err(RequestError::invalid("its campaign has mistakes"));
    }
    let here = std::env::current_dir().ok();
    let elsewhere = |directory: &String| here.as_deref() != Some(Path::new(directory));
    let is_beyond = [
        spec.clients.is_some(),
        spec.build.is_some(),
        spec.stacks != CampaignStacks::default(),
        spec.directory.as_ref().is_some_and(elsewhere),
        !spec
            .faults
            .inject
            .iter()
            .all(|name| offered.has_fault(name)),
    ];
    if is_beyond.contains(&true) {
        let text = "the run has clients, stacks or a directory that no form asks for";
        return Err(RequestError::invalid(text));
    }
    let targets = spec.target.iter().flat_map(CampaignTarget::texts);
    targets
        .into_iter()
        .try_for_each(|text| check_target(&text, offered))?;
    let mut workloads = spec.workload.iter().flat_map(CampaignWorkload::texts);
    workloads.try_for_each(|text| check_workload(&text, offered))
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
