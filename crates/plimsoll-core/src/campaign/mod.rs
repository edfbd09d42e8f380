// SPDX-License-Identifier: Apache-2.0
//! A campaign: everything that decides what a run measures, as data. Options of a command make one, a
//! campaign file is one, and a run is carried out from one. What differs between two attempts at it (the run
//! folder, how progress is shown, consent to overwrite a device, trust in a file) is no part of it.
//!
//! The words of targets and workloads are read where these are.

mod check;

pub use check::{CampaignProblem, CampaignProblemKind};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::comparison::{StoppingRule, VerdictPolicy};
use crate::data_check::DataCheck;
use crate::failover::{FaultInjection, FaultObserver, StackCondition, StackConditionKind};
use crate::fault::FaultKind;
use crate::format::FormatVersion;
use crate::load_line::LoadLineSlo;
use crate::op::EngineChoice;
use crate::units::Nanos;
use crate::written::{WrittenSeed, WrittenSize, WrittenTexts, WrittenTime};

/// Systems, and workloads, of one campaign at most.
const ENTRIES_MAX: usize = 200;

/// Characters of a name in reports at most.
const TEXT_MAX: usize = 200;

/// A campaign. A key that is absent has its default, which docs/campaigns.md lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignSpec {
    /// [`FormatVersion::CAMPAIGN`] of the program that it was written for.
    pub format: FormatVersion,
    /// The directory that relative paths count from; absent: the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Seed of all random numbers; absent: drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<WrittenSeed>,
    /// How often every system plays every workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Equivalence margin, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Confidence of the intervals, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether the base takes part a second time, as the A/A control.
    #[serde(default = "yes")]
    pub control: bool,
    /// In which order the systems of a block come.
    #[serde(default)]
    pub order: CampaignOrder,
    /// Whether each workload is played in both loops at one throughput.
    #[serde(default, skip_serializing_if = "is_no")]
    pub closed_and_open: bool,
    /// Conditions, each in trials of its own, such as `healthy` and `slow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<String>,
    /// Layers that each target adds to the one before it, where the targets are a ladder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<String>,
    /// Goal of the blocks, and when they end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<CampaignDesign>,
    /// The trials.
    #[serde(default, skip_serializing_if = "CampaignTrial::is_default")]
    pub trial: CampaignTrial,
    /// The load line that is searched instead of comparing in blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_line: Option<CampaignLoadLine>,
    /// Faults that are injected, each in trials of its own; and the server that conditions are done to.
    #[serde(default, skip_serializing_if = "CampaignFaults::is_default")]
    pub faults: CampaignFaults,
    /// Conditioning of the systems before the first block.
    #[serde(default, skip_serializing_if = "CampaignConditioning::is_default")]
    pub conditioning: CampaignConditioning,
    /// The machines that the load comes from; absent: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<CampaignClients>,
    /// The stacks that are made.
    #[serde(default, skip_serializing_if = "CampaignStacks::is_default")]
    pub stacks: CampaignStacks,
    /// The systems; the first is the base of all ratios. A gate of two builds needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<CampaignTarget>,
    /// The workloads, each played on every system. Faults may be felt by sessions alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<CampaignWorkload>,
    /// How `plimsoll gate` builds what the workloads start, of the sources here and of its reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<CampaignBuild>,
}

/// Goal of the blocks of a campaign, and when they end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignDesign {
    /// The true difference that is to be found in four of five runs, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<f64>,
    /// When the blocks end; absent: `two_stage` with an effect, else `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StoppingRule>,
    /// Time that the whole run is designed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WrittenTime>,
    /// Whether a pilot designs the trials. Without one the noise of the first blocks sets the number of all.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub pilot: bool,
}

impl Default for CampaignDesign {
    fn default() -> Self {
        CampaignDesign {
            effect: None,
            stop: None,
            budget: None,
            pilot: true,
        }
    }
}

impl CampaignDesign {
    /// Effects that may be asked for, up to ten times as much.
    pub const EFFECTS: std::ops::RangeInclusive<f64> = 1e-4..=10.0;

    /// When the blocks end.
    pub fn rule(&self) -> StoppingRule {
        match (self.stop, self.effect) {
            (Some(rule), _) => rule,
            (None, Some(_)) => StoppingRule::TwoStage,
            (None, None) => StoppingRule::Fixed,
        }
    }
}

/// The trials of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CampaignTrial {
    /// Length of the measured part; of a load line how long a multiple must be held.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<WrittenTime>,
    /// Time before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WrittenTime>,
    /// Bytes of the measured part after which a trial ends, if that is before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<WrittenSize>,
    /// How operations are submitted.
    pub engine: EngineChoice,
    /// Whether whole recordings are played instead of slices.
    #[serde(skip_serializing_if = "is_no")]
    pub full_replay: bool,
    /// Whether every system is tested by a write-verify before it is measured.
    pub verify: bool,
    /// When the data that trials write are verified.
    pub verify_data: DataCheck,
    /// Whether disk counters are recorded during the trials.
    pub record: bool,
    /// Whether each workload is also played with half and with double the client's processors.
    #[serde(skip_serializing_if = "is_no")]
    pub prove_client: bool,
    /// Limits that each trial must keep, such as `p99 < 20ms`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

impl Default for CampaignTrial {
    fn default() -> Self {
        CampaignTrial {
            length: None,
            warmup: None,
            bytes: None,
            engine: EngineChoice::Auto,
            full_replay: false,
            verify: true,
            verify_data: DataCheck::Off,
            record: true,
            prove_client: false,
            limits: Vec::new(),
        }
    }
}

/// How many times a workload each system carries within limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignLoadLine {
    /// Limits that a load must keep to be carried, such as `p99 < 20ms`; empty: those of the requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Smallest multiple.
    #[serde(default = "smallest")]
    pub from: f64,
    /// Largest multiple.
    #[serde(default = "largest")]
    pub to: f64,
    /// A search ends when its interval is this narrow, as a fraction.
    #[serde(default = "width")]
    pub width: f64,
    /// Time of the whole run, of which the searches have equal parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WrittenTime>,
    /// Price of a target per hour.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, f64>,
    /// The use whose published needs the load and the limits are, with its settings: `etcd,iops=500`; or a
    /// list of uses, and each has a load line.
    #[serde(default, skip_serializing_if = "CampaignLoadLine::has_none")]
    pub requirement: WrittenTexts,
}

/// Faults, and the sessions that feel them. Absent: what docs/campaigns.md lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CampaignFaults {
    /// The faults, each in trials of its own, such as `kill`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inject: Vec<String>,
    /// The server that they, or conditions, are done to; absent: another one in each block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// How long each is kept at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<WrittenTime>,
    /// How long a system, or its sessions, are waited for afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_timeout: Option<WrittenTime>,
    /// Number of sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Reads per second of each session, and as many synced writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Instead of that: this share of the most that they get out of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Observers beside the sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<FaultObserver>,
    /// Bytes of each read and write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<WrittenSize>,
    /// Bytes of the file of each session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<WrittenSize>,
}

/// Work on every system before the first block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CampaignConditioning {
    /// How many times the working set of each workload is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precondition: Option<f64>,
    /// Each workload is played until the system is steady, for this time at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<WrittenTime>,
}

/// The machines that the load of a campaign comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignClients {
    /// Nodes of the inventory, or hosts of a scheduler, as `--clients` names them.
    pub on: String,
    /// Share of them that a trial may lose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lose: Option<f64>,
}

/// The stacks that a campaign makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CampaignStacks {
    /// Size of each node's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<WrittenSize>,
    /// Directory of these disks, where it is not that of the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// First port to use on the loopback address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where their servers run: `here`, `netns` or an inventory file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

impl CampaignLoadLine {
    /// The smallest multiple that is tried, where no other is given.
    pub const SMALLEST: f64 = 0.02;
    /// The largest one.
    pub const LARGEST: f64 = 50.0;
    /// The width of the interval at which a search ends.
    pub const WIDTH: f64 = 0.05;

    fn has_none(uses: &WrittenTexts) -> bool {
        uses.0.is_empty()
    }
}

/// Parts that are left out of a written campaign when they are as by default.
macro_rules! left_out_by_default {
    ($($part:ty),*) => {$(
        impl $part {
            fn is_default(&self) -> bool {
                *self == Self::default()
            }
        }
    )*};
}

left_out_by_default!(
    CampaignTrial,
    CampaignFaults,
    CampaignConditioning,
    CampaignStacks
);

impl Default for CampaignSpec {
    /// One without systems and workloads, as a file without other keys is read.
    fn default() -> Self {
        CampaignSpec {
            format: FormatVersion::CAMPAIGN,
            directory: None,
            seed: None,
            blocks: None,
            margin: None,
            confidence: None,
            control: true,
            order: CampaignOrder::default(),
            closed_and_open: false,
            under: Vec::new(),
            ladder: Vec::new(),
            design: None,
            trial: CampaignTrial::default(),
            load_line: None,
            faults: CampaignFaults::default(),
            conditioning: CampaignConditioning::default(),
            clients: None,
            stacks: CampaignStacks::default(),
            target: Vec::new(),
            workload: Vec::new(),
            build: None,
        }
    }
}

impl CampaignSpec {
    /// Blocks, where no other number is given.
    pub const BLOCKS: u32 = 5;
    /// Blocks at most where their own noise sets the number, where no other is given.
    pub const BLOCKS_WITHOUT_PILOT: u32 = 40;
    /// Reads per second of a session, where no other rate is given: few, since a workload may be beside them.
    pub const RATE: f64 = 20.0;
    /// How long a fault is kept, where no other time is given.
    pub const FAULT_DURATION: Nanos = Nanos(10 * Nanos::SECOND.0);
    /// How long a system is waited for after a fault, where no other time is given.
    pub const RECOVERY_TIMEOUT: Nanos = Nanos(120 * Nanos::SECOND.0);

    /// Number of blocks: one of a load line, whose search says how many trials there are.
    pub fn blocks(&self) -> u32 {
        match self.load_line {
            Some(_) => 1,
            None => self.blocks.unwrap_or(match self.design {
                Some(design) if !design.pilot => Self::BLOCKS_WITHOUT_PILOT,
                _ => Self::BLOCKS,
            }),
        }
    }

    /// How verdicts are reached.
    pub fn policy(&self) -> VerdictPolicy {
        let usual = VerdictPolicy::default();
        VerdictPolicy {
            confidence: self.confidence.unwrap_or(usual.confidence),
            margin: self.margin.unwrap_or(usual.margin),
            stopping: self.design.map(|design| design.rule()).unwrap_or_default(),
        }
    }

    /// Limits of the load line that are valid; [`CampaignSpec::problems`] has the others.
    pub fn limits(&self) -> Vec<LoadLineSlo> {
        let limits = self.load_line.iter().flat_map(|line| &line.limits);
        limits.filter_map(|limit| limit.parse().ok()).collect()
    }

    /// Conditions that exist, each with the named server, if any, as its victim.
    pub fn conditions(&self) -> Vec<StackCondition> {
        let (victim, timeout) = (self.faults.victim.as_deref(), self.recovery_timeout());
        let kinds = self.under.iter();
        let kinds = kinds.filter_map(|name| StackConditionKind::find(name));
        kinds
            .map(|kind| StackCondition::new(kind, victim, timeout))
            .collect()
    }

    /// Faults that exist, each kind once and in trials of its own.
    pub fn injections(&self) -> Vec<FaultInjection> {
        let faults = &self.faults;
        let mut kinds: Vec<FaultKind> = Vec::new();
        for kind in faults
            .inject
            .iter()
            .filter_map(|name| FaultKind::find(name))
        {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let injection = |fault: FaultKind| FaultInjection {
            fault,
            victim: faults.victim.clone(),
            length: faults.duration.map_or(Self::FAULT_DURATION, |time| time.0),
            recovery_timeout: self.recovery_timeout(),
            sessions: faults.sessions.unwrap_or(FaultInjection::SESSIONS),
            rate: faults.rate.unwrap_or(Self::RATE),
            share: faults.load,
            block_bytes: u32::try_from(faults.block_bytes()).unwrap_or(u32::MAX),
            file_bytes: faults.file_bytes(),
            observers: faults.observers.clone(),
            refused: BTreeMap::new(),
        };
        kinds.into_iter().map(injection).collect()
    }

    fn recovery_timeout(&self) -> Nanos {
        let given = self.faults.recovery_timeout;
        given.map_or(Self::RECOVERY_TIMEOUT, |time| time.0)
    }
}

impl CampaignFaults {
    fn block_bytes(&self) -> u64 {
        self.block
            .map_or(FaultInjection::BLOCK_BYTES, |size| size.0)
    }

    fn file_bytes(&self) -> u64 {
        self.file_size
            .map_or(FaultInjection::FILE_BYTES, |size| size.0)
    }
}

/// How a program under test is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignBuild {
    /// A command line for `sh`, run in the top directory of the sources.
    pub command: String,
    /// Files that the build makes, as paths below that directory. Workloads find each by its last
    /// name in `{target}`.
    pub files: Vec<String>,
}

/// The order of the systems within a block and workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CampaignOrder {
    /// Rows of Williams squares, drawn from the seed: every system follows every other equally often.
    #[default]
    Balanced,
    /// Drawn from the seed, in each block for itself.
    Random,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn is_no(value: &bool) -> bool {
    !*value
}

fn smallest() -> f64 {
    CampaignLoadLine::SMALLEST
}

fn largest() -> f64 {
    CampaignLoadLine::LARGEST
}

fn width() -> f64 {
    CampaignLoadLine::WIDTH
}

/// One or more systems of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignTarget {
    /// As on the command line.
    pub target: String,
    /// Name in reports, where it is not to be the last part of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Settings of a stack or a simulated device; of a list of values each is a system of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, CampaignParameter>,
}

impl From<&String> for CampaignTarget {
    /// A target as it is written on the command line.
    fn from(words: &String) -> CampaignTarget {
        CampaignTarget {
            target: words.clone(),
            name: None,
            settings: BTreeMap::new(),
        }
    }
}

impl From<&String> for CampaignWorkload {
    /// A workload as it is written on the command line.
    fn from(words: &String) -> CampaignWorkload {
        CampaignWorkload {
            workload: words.clone(),
            name: None,
            length: None,
            settings: BTreeMap::new(),
        }
    }
}

/// One or more workloads of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignWorkload {
    /// As on the command line.
    pub workload: String,
    /// Name in reports, where not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Length of the measured part of its trials, such as `30s`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<WrittenTime>,
    /// Settings of a workload by name; of a list of values each is a workload of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, CampaignParameter>,
}

/// One value of a setting, or several, each of which is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a value, or a list of values")]
pub enum CampaignParameter {
    /// One for all.
    One(CampaignSetting),
    /// Each in turn.
    Each(Vec<CampaignSetting>),
}

impl CampaignParameter {
    /// Its values.
    pub fn values(&self) -> &[CampaignSetting] {
        match self {
            CampaignParameter::One(value) => std::slice::from_ref(value),
            CampaignParameter::Each(values) => values,
        }
    }
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a text, a number, true or false")]
pub enum CampaignSetting {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Words, sizes, times.
    Text(String),
}

impl std::fmt::Display for CampaignSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CampaignSetting::Switch(value) => value.fmt(f),
            CampaignSetting::Whole(value) => value.fmt(f),
            CampaignSetting::Number(value) => value.fmt(f),
            CampaignSetting::Text(value) => value.fmt(f),
        }
    }
}

impl CampaignTarget {
    /// The system with every choice of its settings, as on the command line: `raid1(level=5)`. They go behind
    /// those that its text has.
    pub fn texts(&self) -> Vec<String> {
        let text = |choice: &Vec<(&str, &CampaignSetting)>| {
            let words = joined(choice);
            match (words.is_empty(), self.target.strip_suffix(')')) {
                (true, _) => self.target.clone(),
                (false, Some(open)) => format!("{open},{words})"),
                (false, None) => format!("{}({words})", self.target),
            }
        };
        settings_choices(&self.settings).iter().map(text).collect()
    }
}

impl CampaignWorkload {
    /// The workload with every choice of its settings, as on the command line.
    pub fn texts(&self) -> Vec<String> {
        let choices = settings_choices(&self.settings);
        choices.iter().map(|choice| self.text(choice)).collect()
    }

    /// The same with one of these choices.
    pub fn text(&self, choice: &[(&str, &CampaignSetting)]) -> String {
        match choice.is_empty() {
            true => self.workload.clone(),
            false => format!("{},{}", self.workload, joined(choice)),
        }
    }

    /// Whether it is a workload by name, which has settings behind commas.
    pub(crate) fn takes_settings(&self) -> bool {
        let text = &self.workload;
        !text.contains([' ', ':', '@', '/']) && std::path::Path::new(text).extension().is_none()
    }
}

/// `depth=8,size=8M`.
pub fn joined(choice: &[(&str, &CampaignSetting)]) -> String {
    let words = choice.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(",")
}

/// Every choice of one value of each setting, the last setting changing fastest.
pub fn settings_choices<'a>(
    settings: &'a BTreeMap<String, CampaignParameter>,
) -> Vec<Vec<(&'a str, &'a CampaignSetting)>> {
    let mut choices: Vec<Vec<(&'a str, &'a CampaignSetting)>> = vec![Vec::new()];
    for (name, parameter) in settings {
        let with = |choice: &Vec<(&'a str, &'a CampaignSetting)>| {
            let longer = |value| {
                let mut longer = choice.clone();
                longer.push((name.as_str(), value));
                longer
            };
            parameter.values().iter().map(longer).collect::<Vec<_>>()
        };
        // More are refused, and never made: a file can ask for any number.
        let longer = choices.iter().flat_map(with);
        choices = longer.take(ENTRIES_MAX + 1).collect();
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_are_tried_in_every_combination() {
        let text = "format = \"1.0\"\n[[target]]\ntarget = \"a\"\n[[workload]]\nworkload = \"w\"\n\
            settings = { b = [1, 2.5], a = \"64k\", c = [true, false] }\n";
        let file: CampaignSpec = toml::from_str(text).unwrap();
        assert!(file.control && file.under.is_empty());
        let choices = settings_choices(&file.workload[0].settings);
        let words = |choice: &Vec<(&str, &CampaignSetting)>| -> String {
            let words = choice.iter().map(|(name, value)| format!("{name}={value}"));
            words.collect::<Vec<_>>().join(",")
        };
        let choices: Vec<String> = choices.iter().map(words).collect();
        assert_eq!(
            choices,
            [
                "a=64k,b=1,c=true",
                "a=64k,b=1,c=false",
                "a=64k,b=2.5,c=true",
                "a=64k,b=2.5,c=false",
            ]
        );
        assert_eq!(settings_choices(&BTreeMap::new()), [Vec::new()]);
        assert!(toml::from_str::<CampaignSpec>(&text.replace("settings", "settngs")).is_err());
    }
}
