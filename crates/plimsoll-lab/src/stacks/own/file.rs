// SPDX-License-Identifier: Apache-2.0
//! A user's own stack as a file: read, and held against what it may say, with the line of what is
//! wrong.

use plimsoll_core::plan::{StackFile, StackFileStep};
use plimsoll_core::units::{self, Nanos};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::ops::{Deref, Range};
use std::path::Path;
use toml::Spanned;

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Most steps.
const STEPS_MAX: usize = 1000;

/// Most nodes, and most ports of each.
const NODES_MAX: u16 = 100;

/// Placeholders: words between braces that are replaced by a value.
pub(super) const PLACEHOLDERS: [&str; 4] = ["dir", "size", "address", "port"];

/// A stack that a user wrote down, which says nothing it may not.
#[derive(Debug, Clone)]
pub struct OwnStackSpec(StackFile);

/// Where the parts of a file are, for the lines of errors.
#[derive(Deserialize)]
struct StackFilePlaces {
    description: Spanned<IgnoredAny>,
    mount_dir: Spanned<IgnoredAny>,
    nodes: Option<Spanned<IgnoredAny>>,
    ports: Option<Spanned<IgnoredAny>>,
    #[serde(default)]
    step: Vec<Spanned<IgnoredAny>>,
}

impl Deref for OwnStackSpec {
    type Target = StackFile;

    fn deref(&self) -> &StackFile {
        &self.0
    }
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
        let wrong = |error: toml::de::Error| {
            let reason = error.message().to_owned();
            match error.span() {
                Some(span) => at(text, &span, &reason),
                None => reason,
            }
        };
        let file: StackFile = toml::from_str(text).map_err(wrong)?;
        let places: StackFilePlaces = toml::from_str(text).map_err(wrong)?;
        check(&file, &places).map_err(|(span, reason)| at(text, &span, &reason))?;
        Ok(OwnStackSpec(file))
    }

    /// The programs its commands name, each once.
    pub fn programs(&self) -> Vec<String> {
        self.programs_of(|_| true)
    }

    /// Those that it names on this node, from 1; without a number on the client.
    pub(in crate::stacks) fn programs_on(&self, node: Option<usize>) -> Vec<String> {
        self.programs_of(|step| step.node.map(usize::from) == node)
    }

    fn programs_of(&self, is_meant: impl Fn(&StackFileStep) -> bool) -> Vec<String> {
        let steps = self.step.iter().filter(|step| is_meant(step));
        let commands = steps.flat_map(commands);
        let mut programs: Vec<String> = commands.filter_map(|(_, c)| c.first().cloned()).collect();
        programs.sort();
        programs.dedup();
        programs
    }
}

fn check(file: &StackFile, places: &StackFilePlaces) -> Result<(), (Range<usize>, String)> {
    if file.description.trim().is_empty() || file.description.contains('\n') {
        let reason = "description: expected one line that says what the stack is made of";
        return Err((places.description.span(), reason.into()));
    }
    let at = &file.mount_dir;
    if !at.starts_with('/') && !at.starts_with("{dir}") {
        let reason =
            "mount_dir: expected a path that begins with / or {dir}, the stack's directory";
        return Err((places.mount_dir.span(), reason.into()));
    }
    check_words(std::slice::from_ref(at)).map_err(|reason| (places.mount_dir.span(), reason))?;
    for (number, place) in [(file.nodes, &places.nodes), (file.ports, &places.ports)] {
        if number > NODES_MAX {
            let span = place.as_ref().map_or(0..0, Spanned::span);
            return Err((span, format!("expected at most {NODES_MAX}")));
        }
    }
    if file.step.is_empty() || file.step.len() > STEPS_MAX {
        let reason = format!("expected from 1 to {STEPS_MAX} steps, each under [[step]]");
        return Err((0..0, reason));
    }
    for (step, place) in file.step.iter().zip(&places.step) {
        check_step(step, file.nodes).map_err(|reason| (place.span(), reason))?;
    }
    Ok(())
}

fn commands(step: &StackFileStep) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
    [
        ("apply", &step.apply),
        ("start", &step.start),
        ("ready", &step.ready),
        ("check", &step.check),
        ("undo", &step.undo),
    ]
    .into_iter()
    .filter_map(|(name, command)| command.as_ref().map(|command| (name, command)))
}

fn check_step(step: &StackFileStep, nodes: u16) -> Result<(), String> {
    let wrong = |reason: &str| Err(format!("the step to '{}': {reason}", step.why));
    if step.why.trim().is_empty() {
        return wrong("why must not be empty: it completes 'failed to …'");
    }
    match (&step.apply, &step.start) {
        (Some(_), Some(_)) | (None, None) => {
            return wrong("expected either apply, a command that ends, or start, a daemon");
        }
        (Some(_), None) if step.ready.is_some() => {
            return wrong("ready needs start; with apply use check");
        }
        (Some(_), None) if step.undo.is_none() => {
            return wrong("undo is missing; write undo = [] if nothing has to be undone");
        }
        (None, Some(_)) if step.ready.is_none() => {
            return wrong("a daemon needs ready, a command that ends with 0 when it can be used");
        }
        (None, Some(_)) if step.undo.is_some() || step.limit.is_some() => {
            return wrong("a daemon must not have undo or limit: plimsoll ends it");
        }
        _ => {}
    }
    if step.node.is_some_and(|node| node == 0 || node > nodes) {
        return wrong(&format!(
            "node: expected a number from 1 to nodes ({nodes}), or no node for the client"
        ));
    }
    limit_s(step).map_or_else(|reason| wrong(&reason), |_| Ok(()))?;
    for (name, words) in commands(step) {
        if words.is_empty() && name == "undo" {
            continue;
        }
        check_command(words).map_or_else(|reason| wrong(&format!("{name}: {reason}")), Ok)?;
    }
    Ok(())
}

/// The longest time of a step in seconds; 0 when none is given.
pub(super) fn limit_s(step: &StackFileStep) -> Result<u32, String> {
    let Some(text) = &step.limit else {
        return Ok(0);
    };
    let wrong = |reason: &str| format!("invalid value '{text}' for limit: {reason}");
    let limit = units::parse_duration(text).map_err(|reason| wrong(&reason))?;
    match u32::try_from(limit.0.div_ceil(Nanos::SECOND.0)) {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err(wrong("expected a time from 1s to 24h")),
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
