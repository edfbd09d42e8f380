// SPDX-License-Identifier: Apache-2.0
//! A user's own stack as a file: read, and held against what it may say, with the line of what is
//! wrong.

use plimsoll_core::units::{self, Nanos};
use serde::Deserialize;
use std::fs;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Most steps.
const STEPS_MAX: usize = 1000;

/// Most nodes, and most ports of each.
const NODES_MAX: u16 = 100;

/// What stands for something else in a word, between braces.
pub(super) const PLACEHOLDERS: [&str; 4] = ["dir", "size", "address", "port"];

/// A stack that a user wrote down.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnStackSpec {
    /// What it is made of, in one line, for reports.
    pub(super) description: Spanned<String>,
    /// The directory to measure on.
    pub(super) mount_dir: Spanned<String>,
    /// Type of file system that must be mounted there; empty where none must.
    #[serde(default)]
    pub(super) file_system: String,
    /// How many nodes it takes besides the client.
    #[serde(default)]
    pub(super) nodes: Option<Spanned<u16>>,
    /// TCP ports of each.
    #[serde(default)]
    pub(super) ports: Option<Spanned<u16>>,
    /// The steps.
    #[serde(default)]
    pub(super) step: Vec<Spanned<OwnStackStepSpec>>,
}

/// One step of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnStackStepSpec {
    /// What it is for; completes "failed to …".
    pub(super) why: String,
    /// The node it is done on, from 1; the client when absent.
    pub(super) node: Option<u16>,
    /// A command that ends.
    pub(super) apply: Option<Vec<String>>,
    /// A daemon.
    pub(super) start: Option<Vec<String>>,
    /// A command that ends with 0 when the daemon is ready.
    pub(super) ready: Option<Vec<String>>,
    /// A command that ends with 0 when what was made is there.
    pub(super) check: Option<Vec<String>>,
    /// A command that takes it away; empty where nothing has to be.
    pub(super) undo: Option<Vec<String>>,
    /// Longest time `apply` may take.
    pub(super) limit: Option<String>,
}

impl OwnStackSpec {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what it may not: with the line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
        if bytes > MAX_BYTES {
            return Err(format!("it has {bytes} bytes, too many for a stack"));
        }
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        OwnStackSpec::parse(&text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`OwnStackSpec::read`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let definition: OwnStackSpec = toml::from_str(text).map_err(|error| {
            let reason = error.message().to_owned();
            match error.span() {
                Some(span) => at(text, &span, &reason),
                None => reason,
            }
        })?;
        definition
            .check()
            .map_err(|(span, reason)| at(text, &span, &reason))?;
        Ok(definition)
    }

    /// How many nodes it takes.
    pub(super) fn nodes(&self) -> u16 {
        self.nodes.as_ref().map_or(0, |nodes| *nodes.get_ref())
    }

    /// How many ports each of them takes.
    pub(super) fn ports(&self) -> u16 {
        self.ports.as_ref().map_or(0, |ports| *ports.get_ref())
    }

    /// The programs its commands name, each once.
    #[must_use]
    pub fn programs(&self) -> Vec<String> {
        self.programs_of(|_| true)
    }

    /// Those that it names on this node, from 1; without a number on the client.
    pub(in crate::stacks) fn programs_on(&self, node: Option<usize>) -> Vec<String> {
        self.programs_of(|step| step.node.map(usize::from) == node)
    }

    fn programs_of(&self, is_meant: impl Fn(&OwnStackStepSpec) -> bool) -> Vec<String> {
        let steps = self.step.iter().map(Spanned::get_ref);
        let commands = steps
            .filter(|s| is_meant(s))
            .flat_map(OwnStackStepSpec::commands);
        let mut programs: Vec<String> = commands.filter_map(|(_, c)| c.first().cloned()).collect();
        programs.sort();
        programs.dedup();
        programs
    }

    fn check(&self) -> Result<(), (Range<usize>, String)> {
        let description = self.description.get_ref();
        if description.trim().is_empty() || description.contains('\n') {
            let reason = "description: expected one line that says what the stack is made of";
            return Err((self.description.span(), reason.into()));
        }
        let at = self.mount_dir.get_ref();
        if !at.starts_with('/') && !at.starts_with("{dir}") {
            let reason =
                "mount_dir: expected a path that begins with / or {dir}, the stack's directory";
            return Err((self.mount_dir.span(), reason.into()));
        }
        check_words(std::slice::from_ref(at)).map_err(|reason| (self.mount_dir.span(), reason))?;
        for number in [&self.nodes, &self.ports].into_iter().flatten() {
            if *number.get_ref() > NODES_MAX {
                return Err((number.span(), format!("expected at most {NODES_MAX}")));
            }
        }
        if self.step.is_empty() || self.step.len() > STEPS_MAX {
            let reason = format!("expected from 1 to {STEPS_MAX} steps, each under [[step]]");
            return Err((0..0, reason));
        }
        for step in &self.step {
            let checked = step.get_ref().check(self.nodes());
            checked.map_err(|reason| (step.span(), reason))?;
        }
        Ok(())
    }
}

impl OwnStackStepSpec {
    fn commands(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        [
            ("apply", &self.apply),
            ("start", &self.start),
            ("ready", &self.ready),
            ("check", &self.check),
            ("undo", &self.undo),
        ]
        .into_iter()
        .filter_map(|(name, command)| command.as_ref().map(|command| (name, command)))
    }

    fn check(&self, nodes: u16) -> Result<(), String> {
        let wrong = |reason: &str| Err(format!("the step to '{}': {reason}", self.why));
        if self.why.trim().is_empty() {
            return wrong("why must not be empty: it completes 'failed to …'");
        }
        match (&self.apply, &self.start) {
            (Some(_), Some(_)) | (None, None) => {
                return wrong("expected either apply, a command that ends, or start, a daemon");
            }
            (Some(_), None) if self.ready.is_some() => {
                return wrong("ready needs start; with apply use check");
            }
            (Some(_), None) if self.undo.is_none() => {
                return wrong("undo is missing; write undo = [] if nothing has to be undone");
            }
            (None, Some(_)) if self.ready.is_none() => {
                return wrong(
                    "a daemon needs ready, a command that ends with 0 when it can be used",
                );
            }
            (None, Some(_)) if self.undo.is_some() || self.limit.is_some() => {
                return wrong("a daemon must not have undo or limit: plimsoll ends it");
            }
            _ => {}
        }
        if self.node.is_some_and(|node| node == 0 || node > nodes) {
            return wrong(&format!(
                "node: expected a number from 1 to nodes ({nodes}), or no node for the client"
            ));
        }
        self.limit_s()
            .map_or_else(|reason| wrong(&reason), |_| Ok(()))?;
        for (name, words) in self.commands() {
            if words.is_empty() && name == "undo" {
                continue;
            }
            check_command(words).map_or_else(|reason| wrong(&format!("{name}: {reason}")), Ok)?;
        }
        Ok(())
    }

    /// The longest time in seconds; 0 when none is given.
    pub(super) fn limit_s(&self) -> Result<u32, String> {
        let Some(text) = &self.limit else {
            return Ok(0);
        };
        let wrong = |reason: &str| format!("invalid value '{text}' for limit: {reason}");
        let limit = units::parse_duration(text).map_err(|reason| wrong(&reason))?;
        match u32::try_from(limit.0.div_ceil(Nanos::SECOND.0)) {
            Ok(seconds @ 1..=86_400) => Ok(seconds),
            _ => Err(wrong("expected a time from 1s to 24h")),
        }
    }
}

fn check_command(words: &[String]) -> Result<(), String> {
    let Some(program) = words.first() else {
        return Err("no program is named".into());
    };
    if program.contains([' ', '{']) {
        return Err(format!(
            "invalid program '{program}': write each word of a command as a text of its own; no \
             shell splits lines"
        ));
    }
    if program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
        return Err(format!(
            "invalid program '{program}': expected a name, or a path that begins with /"
        ));
    }
    check_words(words)
}

/// Refuses what stands between braces and means nothing.
fn check_words(words: &[String]) -> Result<(), String> {
    for word in words {
        for part in word.split('{').skip(1) {
            let name = part.split_once('}').map(|(name, _)| name);
            let is_known = name.is_some_and(|name| PLACEHOLDERS.contains(&name));
            let looks_so = name.is_some_and(|n| n.chars().all(|c| c.is_ascii_lowercase()));
            if !is_known && looks_so {
                return Err(format!(
                    "unknown word in braces in '{word}'; available: {{{}}}",
                    PLACEHOLDERS.join("}, {")
                ));
            }
        }
    }
    Ok(())
}

fn at(text: &str, span: &Range<usize>, reason: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    format!("line {line}: {}", reason.trim_end())
}
