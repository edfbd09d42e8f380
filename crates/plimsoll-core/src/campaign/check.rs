// SPDX-License-Identifier: Apache-2.0
//! The rules of a campaign that need no machine: all of them, once, for options and files alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path};

use super::{
    CampaignBuild, CampaignDesign, CampaignFaults, CampaignLoadLine, CampaignParameter,
    CampaignSpec, CampaignWorkload, ENTRIES_MAX, TEXT_MAX,
};
use crate::comparison::StoppingRule;
use crate::design::BlockDesign;
use crate::failover::{FaultInjection, StackConditionKind};
use crate::fault::FaultKind;
use crate::format::FormatVersion;
use crate::load_line::LoadLineSlo;
use crate::units::Nanos;

/// Shorter trials say nothing.
const LENGTH_MIN: Nanos = Nanos(100_000_000);
/// A stay of a load line has ten parts of a whole number of seconds.
const SUSTAINED_MIN: Nanos = Nanos(10 * Nanos::SECOND.0);
/// Nothing is called steady within a minute.
const STEADY_MIN: Nanos = Nanos(120 * Nanos::SECOND.0);
/// The most passes over a working set: more would be a slip of the finger.
const PASSES_MAX: f64 = 100.0;
/// Sizes of the reads and writes of a session.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 20;

/// A mistake in a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignProblem {
    /// The key that it is about: `workload[0].settings.depth`.
    pub at: String,
    /// The mistake itself.
    pub kind: CampaignProblemKind,
    /// How to mend it.
    pub hint: Option<&'static str>,
}

/// The kinds of mistakes.
#[derive(Debug, Clone, PartialEq)]
pub enum CampaignProblemKind {
    /// The value is not one of those that are possible.
    Invalid {
        /// The value.
        value: String,
        /// Those that are possible.
        expected: String,
    },
    /// It does not work with any of these keys.
    Conflict(Vec<&'static str>),
    /// It needs one of these keys.
    Needs(&'static [&'static str]),
    /// Something else, as a sentence.
    Other(String),
}

/// Keys that exclude others, and what helps.
const CONFLICTS: [(&str, &[&str], Option<&str>); 8] = [
    ("under", &["faults.inject"], None),
    (
        "closed_and_open",
        &["faults.inject", "under", "design", "load_line"],
        None,
    ),
    (
        "design",
        &["faults.inject", "load_line"],
        Some("give a number of blocks instead"),
    ),
    (
        "trial.bytes",
        &["design", "faults.inject", "load_line"],
        Some("these set the length of trials"),
    ),
    ("trial.full_replay", &["trial.for"], None),
    (
        "trial.prove_client",
        &["clients.on"],
        Some("the load comes from other machines: run it on one of them"),
    ),
    ("conditioning.steady", &["load_line"], None),
    ("faults.load", &["faults.rate"], None),
];

/// Keys that need one of others.
const NEEDS: [(&str, &[&str]); 11] = [
    ("design.budget", &["design.effect", "design.stop"]),
    ("design.pilot", &["design.effect"]),
    ("faults.victim", &["faults.inject", "under"]),
    ("faults.recovery_timeout", &["faults.inject", "under"]),
    ("faults.duration", &["faults.inject"]),
    ("faults.sessions", &["faults.inject"]),
    ("faults.rate", &["faults.inject"]),
    ("faults.load", &["faults.inject"]),
    ("faults.observers", &["faults.inject"]),
    ("faults.block", &["faults.inject"]),
    ("faults.file_size", &["faults.inject"]),
];

impl CampaignProblem {
    /// The mistake in words, where `name` is how a reader knows a key.
    pub fn words(&self, name: &dyn Fn(&str) -> String) -> String {
        let all = |keys: &[&'static str], word: &str| {
            let names: Vec<String> = keys.iter().map(|key| name(key)).collect();
            names.join(word)
        };
        let own = name(&self.at);
        match &self.kind {
            CampaignProblemKind::Invalid { value, expected } => {
                format!("invalid value '{value}' for {own}: expected {expected}")
            }
            CampaignProblemKind::Conflict(keys) => {
                let verb = if own.contains(" and ") { "do" } else { "does" };
                format!("{own} {verb} not work with {}", all(keys, ", "))
            }
            CampaignProblemKind::Needs(keys) => format!("{own} needs {}", all(keys, " or ")),
            CampaignProblemKind::Other(sentence) => sentence.clone(),
        }
    }
}

/// The mistakes found so far.
#[derive(Default)]
struct CampaignProblems(Vec<CampaignProblem>);

impl CampaignProblems {
    fn add(&mut self, at: impl Into<String>, kind: CampaignProblemKind) {
        let (at, hint) = (at.into(), None);
        self.0.push(CampaignProblem { at, kind, hint });
    }

    fn other(&mut self, at: impl Into<String>, sentence: impl Into<String>) {
        self.add(at, CampaignProblemKind::Other(sentence.into()));
    }

    /// How to mend the last one.
    fn hint(&mut self, hint: Option<&'static str>) {
        if let Some(last) = self.0.last_mut() {
            last.hint = hint;
        }
    }

    /// A value that is given must be a possible one.
    fn value<T: fmt::Display + Copy>(
        &mut self,
        at: impl Into<String>,
        given: Option<T>,
        is_possible: impl Fn(T) -> bool,
        expected: impl Into<String>,
    ) {
        if let Some(value) = given.filter(|value| !is_possible(*value)) {
            let (value, expected) = (value.to_string(), expected.into());
            self.add(at, CampaignProblemKind::Invalid { value, expected });
        }
    }
}

impl CampaignSpec {
    /// All mistakes that can be seen without a machine.
    pub fn problems(&self) -> Vec<CampaignProblem> {
        let mut found = CampaignProblems::default();
        self.check_head(&mut found);
        self.check_keys(&mut found);
        if let Some(design) = &self.design {
            self.check_design(design, &mut found);
        }
        self.check_trial(&mut found);
        if let Some(line) = &self.load_line {
            self.check_load_line(line, &mut found);
        }
        self.check_conditions(&mut found);
        self.faults.check(&mut found);
        self.check_entries(&mut found);
        if let Some(build) = &self.build {
            check_build(build, &mut found);
        }
        found.0
    }

    /// Whether a key is given that excludes others, or needs them.
    fn has(&self, key: &str) -> bool {
        let (trial, faults) = (&self.trial, &self.faults);
        match key {
            "under" => !self.under.is_empty(),
            "closed_and_open" => self.closed_and_open,
            "design" => self.design.is_some(),
            "design.effect" => self.design.is_some_and(|one| one.effect.is_some()),
            "design.stop" => self.design.is_some_and(|one| one.stop.is_some()),
            "design.budget" => self.design.is_some_and(|one| one.budget.is_some()),
            "design.pilot" => self.design.is_some_and(|one| !one.pilot),
            "load_line" => self.load_line.is_some(),
            "clients.on" => self.clients.is_some(),
            "trial.for" => trial.length.is_some(),
            "trial.bytes" => trial.bytes.is_some(),
            "trial.full_replay" => trial.full_replay,
            "trial.prove_client" => trial.prove_client,
            "conditioning.steady" => self.conditioning.steady.is_some(),
            "faults.inject" => !faults.inject.is_empty(),
            "faults.victim" => faults.victim.is_some(),
            "faults.recovery_timeout" => faults.recovery_timeout.is_some(),
            "faults.duration" => faults.duration.is_some(),
            "faults.sessions" => faults.sessions.is_some(),
            "faults.rate" => faults.rate.is_some(),
            "faults.load" => faults.load.is_some(),
            "faults.observers" => !faults.observers.is_empty(),
            "faults.block" => faults.block.is_some(),
            "faults.file_size" => faults.file_size.is_some(),
            _ => false,
        }
    }

    fn check_keys(&self, found: &mut CampaignProblems) {
        for (key, others, hint) in CONFLICTS.iter().filter(|(key, ..)| self.has(key)) {
            let with: Vec<&str> = others.iter().copied().filter(|one| self.has(one)).collect();
            if !with.is_empty() {
                found.add(*key, CampaignProblemKind::Conflict(with));
                found.hint(*hint);
            }
        }
        for (key, others) in NEEDS.iter().filter(|(key, _)| self.has(key)) {
            if !others.iter().any(|one| self.has(one)) {
                found.add(*key, CampaignProblemKind::Needs(others));
            }
        }
    }

    fn check_head(&self, found: &mut CampaignProblems) {
        let (format, ours) = (self.format, FormatVersion::CAMPAIGN);
        if !ours.reads(format) {
            let sentence = format!("its format is {format} and this program reads up to {ours}");
            found.other("format", sentence);
        }
        if self
            .seed
            .as_ref()
            .is_some_and(|seed| seed.number().is_none())
        {
            found.other("seed", "expected a whole number from 0 to 2^64 - 1");
        }
        let most = BlockDesign::BLOCKS_MAX;
        let expected = format!("a number from 1 to {most}");
        found.value("blocks", self.blocks, |n| (1..=most).contains(&n), expected);
        for (key, value, such_as) in [
            ("margin", self.margin, 0.05),
            ("confidence", self.confidence, 0.95),
        ] {
            let is_fraction = |value| value > 0.0 && value < 1.0;
            let expected = format!("a fraction between 0 and 1, such as {such_as}");
            found.value(key, value, is_fraction, expected);
        }
        let rungs = (!self.ladder.is_empty()).then_some(self.ladder.len());
        let is_each = |rungs| rungs == self.systems();
        found.value(
            "ladder",
            rungs,
            is_each,
            "as many layers as there are targets",
        );
        found.value(
            "stacks.port",
            self.stacks.port,
            |port| port > 0,
            "a port above 0",
        );
        if let Some(clients) = &self.clients {
            if clients.on.trim().is_empty() {
                found.other(
                    "clients.on",
                    "expected nodes, or a scheduler such as slurm:16",
                );
            }
            let is_share = |share| (0.0..1.0).contains(&share);
            found.value("clients.lose", clients.lose, is_share, "a share below 100%");
        }
    }

    fn check_design(&self, design: &CampaignDesign, found: &mut CampaignProblems) {
        let expected = "a percentage or a fraction, such as 5% or 0.05";
        let is_effect = |effect| CampaignDesign::EFFECTS.contains(&effect);
        found.value("design.effect", design.effect, is_effect, expected);
        let needs: &[&str] = match design.rule() {
            StoppingRule::Fixed => &[],
            StoppingRule::TwoStage => &["design.effect"],
            StoppingRule::Anytime => &["design.effect", "design.budget", "blocks"],
        };
        let has_number = design.budget.is_some() || self.blocks.is_some();
        let has_limit = has_number && design.rule() == StoppingRule::Anytime;
        if !needs.is_empty() && design.effect.is_none() && !has_limit {
            found.add("design.stop", CampaignProblemKind::Needs(needs));
        }
        if self.build.is_none() && self.systems() == 1 && self.is_designed() {
            found.other(
                "design",
                "an effect, or a rule of stopping, needs at least two targets",
            );
            found.hint(Some("to compare a system with itself, give it twice"));
        }
        let (least, pilot) = (BlockDesign::BLOCKS_LEAST, BlockDesign::PILOT_BLOCKS);
        let designed = self.blocks.filter(|_| self.has_pilot());
        let expected =
            format!("at least {least} for designed blocks, of which {pilot} are the pilot");
        found.value("blocks", designed, |blocks| blocks >= least, expected);
    }

    fn check_trial(&self, found: &mut CampaignProblems) {
        let (trial, conditioning) = (&self.trial, &self.conditioning);
        let (least, expected) = match self.load_line {
            Some(_) => (SUSTAINED_MIN, "at least 10 s"),
            None => (LENGTH_MIN, "at least 100 ms"),
        };
        found.value("trial.for", trial.length, |time| time.0 >= least, expected);
        check_limits("trial.limits", &trial.limits, found);
        if self.load_line.is_some() && !trial.limits.is_empty() {
            found.other(
                "trial.limits",
                "a load line takes its limits from load_line.limits",
            );
        }
        let is_size = |size: crate::written::WrittenSize| size.0 > 0;
        found.value(
            "trial.bytes",
            trial.bytes,
            is_size,
            "a size above 0, such as 20G",
        );
        let expected = format!("how many times, such as 2x, at most {PASSES_MAX}x");
        let is_passes = |passes| passes > 0.0 && passes <= PASSES_MAX;
        let passes = conditioning.precondition;
        found.value("conditioning.precondition", passes, is_passes, expected);
        let is_long = |time: crate::written::WrittenTime| time.0 >= STEADY_MIN;
        found.value(
            "conditioning.steady",
            conditioning.steady,
            is_long,
            "at least 2m",
        );
    }

    fn check_load_line(&self, line: &CampaignLoadLine, found: &mut CampaignProblems) {
        check_limits("load_line.limits", &line.limits, found);
        let is_requirement = self.is_requirement();
        // Its load is that of the use.
        let is_other = |one: &CampaignWorkload| !line.requirement.0.contains(&one.workload);
        if is_requirement && self.workload.iter().any(is_other) {
            found.add(
                "load_line.requirement",
                CampaignProblemKind::Conflict(vec!["workload"]),
            );
            found.hint(Some("leave out the workload: the use is it"));
        }
        if line.limits.is_empty() && !is_requirement {
            found.add(
                "load_line",
                CampaignProblemKind::Needs(&["load_line.limits"]),
            );
        }
        let (holds_one, expected) = match is_requirement {
            true => (
                line.from < 1.0 && line.to > 1.0,
                "a positive number below 1, and one above 1",
            ),
            false => (true, "two positive numbers, the smaller first"),
        };
        if !(holds_one && line.from > 0.0 && line.from < line.to && line.to.is_finite()) {
            let (value, expected) = (format!("{} to {}", line.from, line.to), expected.into());
            found.add(
                "load_line.from",
                CampaignProblemKind::Invalid { value, expected },
            );
        }
        let is_width = |width| (0.005..=1.0).contains(&width);
        found.value(
            "load_line.width",
            Some(line.width),
            is_width,
            "a fraction from 0.5% to 100%",
        );
        for (target, price) in &line.costs {
            if !self.target.iter().any(|known| known.target == *target) {
                let names: Vec<&str> = self.target.iter().map(|one| one.target.as_str()).collect();
                let expected = format!("one of the targets: {}", names.join(", "));
                found.value("load_line.costs", Some(target), |_| false, expected);
            }
            let is_price = |price| price >= 0.0 && f64::is_finite(price);
            found.value(
                "load_line.costs",
                Some(*price),
                is_price,
                "a price per hour, such as 0.12",
            );
        }
    }

    fn check_conditions(&self, found: &mut CampaignProblems) {
        let mut known = BTreeSet::new();
        for (at, name) in self.under.iter().enumerate() {
            let is_known = |name: &String| StackConditionKind::find(name).is_some();
            let expected = format!("one of {}", StackConditionKind::names());
            found.value(format!("under[{at}]"), Some(name), is_known, expected);
            if !known.insert(name) {
                found.other(format!("under[{at}]"), format!("'{name}' is given twice"));
            }
        }
    }

    fn check_entries(&self, found: &mut CampaignProblems) {
        let is_compared =
            self.design.is_some() || (self.blocks() > 1 && self.faults.inject.is_empty());
        if is_compared && self.build.is_none() && self.systems() == 1 && !self.control {
            found.other(
                "target",
                "without a control a comparison needs at least two targets",
            );
            found.hint(Some("give a second target"));
        }
        let (mut texts, mut names) = (BTreeSet::new(), BTreeSet::new());
        for (at, one) in self.target.iter().enumerate() {
            let key = format!("target[{at}]");
            check_settings(&key, &one.settings, found);
            if one.target.contains('+') && !one.settings.is_empty() {
                let sentence =
                    "give the settings of a stack with layers in its text: 'raid1(level=5)+crypt'";
                found.other(format!("{key}.settings"), sentence);
            }
            let name = one.name.as_deref();
            let is_name = |name: &str| (1..=TEXT_MAX).contains(&name.len());
            let expected = format!("a name of at most {TEXT_MAX} characters");
            found.value(format!("{key}.name"), name, is_name, expected);
            if name.is_some() && one.texts().len() > 1 {
                let sentence =
                    "a name is for one system, and the lists of its settings make several";
                found.other(format!("{key}.name"), sentence);
            }
            if name.is_some_and(|name| !names.insert(name)) {
                found.other(format!("{key}.name"), "another target has this name");
            }
            for text in one.texts() {
                // The command line may name one twice: a system beside itself.
                if !texts.insert(text.clone()) && !one.settings.is_empty() {
                    found.other(format!("{key}.target"), format!("'{text}' is given twice"));
                }
            }
        }
        for (at, one) in self.workload.iter().enumerate() {
            let key = format!("workload[{at}]");
            check_settings(&key, &one.settings, found);
            if !one.settings.is_empty() && !one.takes_settings() {
                let sentence = "settings belong to a workload by name, such as 'varmail'; a file or a program has its own";
                found.other(format!("{key}.settings"), sentence);
            }
            let name = one.name.as_deref();
            let is_name = |name: &str| (1..=TEXT_MAX).contains(&name.len());
            let expected = format!("a name of at most {TEXT_MAX} characters");
            found.value(format!("{key}.name"), name, is_name, expected);
            let is_long = |time: crate::written::WrittenTime| time.0 >= LENGTH_MIN;
            found.value(format!("{key}.for"), one.length, is_long, "at least 100 ms");
        }
        let has_load = !self.faults.inject.is_empty() || self.is_requirement();
        let needs_one = [self.build.is_none(), !has_load];
        for (key, number, is_needed) in [
            ("target", self.systems(), needs_one[0]),
            ("workload", self.workloads(), needs_one[1]),
        ] {
            if number == 0 && is_needed {
                found.other(key, format!("expected at least one [[{key}]]"));
            }
            if number > ENTRIES_MAX {
                let most =
                    format!("[[{key}]] has {number} choices: expected at most {ENTRIES_MAX}");
                found.other(key, most);
            }
        }
    }

    /// How many systems there are, with every choice of their settings.
    pub fn systems(&self) -> usize {
        let systems = self.target.iter().map(|one| choices(&one.settings));
        systems.fold(0, usize::saturating_add)
    }

    /// The same of workloads.
    pub fn workloads(&self) -> usize {
        let workloads = self.workload.iter().map(|one| choices(&one.settings));
        workloads.fold(0, usize::saturating_add)
    }

    /// Whether limits and load are those of a published use.
    fn is_requirement(&self) -> bool {
        let line = self.load_line.as_ref();
        line.is_some_and(|line| !line.requirement.0.is_empty())
    }

    /// Whether more than the number of blocks is set.
    fn is_designed(&self) -> bool {
        let design = self.design.unwrap_or_default();
        design.effect.is_some() || design.rule() != StoppingRule::Fixed
    }

    /// Whether a pilot designs the blocks that follow.
    pub fn has_pilot(&self) -> bool {
        self.design.is_some_and(|design| {
            let uses_budget = design.stop.is_some() && design.budget.is_some();
            design.pilot && (design.effect.is_some() || uses_budget)
        })
    }
}

impl CampaignFaults {
    fn check(&self, found: &mut CampaignProblems) {
        for (at, name) in self.inject.iter().enumerate() {
            let is_known = |name: &String| FaultKind::find(name).is_some();
            let expected = format!("one of {}", FaultKind::names());
            found.value(
                format!("faults.inject[{at}]"),
                Some(name),
                is_known,
                expected,
            );
        }
        let (least, most) = (FaultInjection::RATE_MIN, FaultInjection::RATE_MAX);
        let is_rate = |rate| (least..=most).contains(&rate);
        found.value(
            "faults.rate",
            self.rate,
            is_rate,
            format!("a number from {least} to {most}"),
        );
        let is_share = |share| (0.01..=1.0).contains(&share);
        found.value(
            "faults.load",
            self.load,
            is_share,
            "a share from 1% to 100%",
        );
        let is_number = |number| (1..=64).contains(&number);
        found.value(
            "faults.sessions",
            self.sessions,
            is_number,
            "a number from 1 to 64",
        );
        let block = self.block_bytes();
        let is_block = |bytes: u64| bytes.is_power_of_two() && BLOCK_BYTES.contains(&bytes);
        found.value(
            "faults.block",
            Some(block),
            is_block,
            "a power of two from 4 KiB to 1 MiB",
        );
        let file = Some(self.file_bytes()).filter(|_| is_block(block));
        found.value(
            "faults.file_size",
            file,
            |bytes| bytes >= 16 * block,
            "at least 16 blocks",
        );
    }
}

/// Number of combinations of these settings. An empty list counts as one: [`check_settings`] reports it.
fn choices(settings: &BTreeMap<String, CampaignParameter>) -> usize {
    let values = settings.values().map(|values| values.values().len().max(1));
    values.fold(1, usize::saturating_mul)
}

/// Every list of values has some.
fn check_settings(
    entry: &str,
    settings: &BTreeMap<String, CampaignParameter>,
    found: &mut CampaignProblems,
) {
    for (name, _) in settings
        .iter()
        .filter(|(_, values)| values.values().is_empty())
    {
        let key = format!("{entry}.settings.{name}");
        found.other(key, "expected a value, or a list of at least one");
    }
}

/// Refuses what is no limit on response times or errors.
fn check_limits(key: &str, limits: &[String], found: &mut CampaignProblems) {
    for (at, limit) in limits.iter().enumerate() {
        if let Err(expected) = limit.parse::<LoadLineSlo>() {
            let sentence = format!("invalid value '{limit}': {expected}");
            found.other(format!("{key}[{at}]"), sentence);
        }
    }
}

/// Built files are copied to a directory by their last names: two of one name would be one.
fn check_build(build: &CampaignBuild, found: &mut CampaignProblems) {
    if build.command.trim().is_empty() {
        found.other("build.command", "expected a command line");
    }
    if build.files.is_empty() {
        found.other("build.files", "expected at least one path");
    }
    let mut names = BTreeSet::new();
    for (at, file) in build.files.iter().enumerate() {
        let path = Path::new(file);
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let at = format!("build.files[{at}]");
        let name = path.file_name().filter(|_| is_below);
        found.value(
            &*at,
            Some(file),
            |_| name.is_some(),
            "a path below the sources",
        );
        if name.is_some() && !names.insert(name) {
            found.other(at, format!("'{file}': two files have this name"));
        }
    }
}

#[cfg(test)]
mod tests;
