// SPDX-License-Identifier: Apache-2.0
//! Whether acknowledged writes survive: how the power is cut, what is found afterwards, and the answer.

use crate::comparison::{ComparisonVerdict, RatioEstimate};
use crate::format::FormatVersion;
use crate::rng::Seed;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a disk loses its power, which decides on its contents afterwards; the hardest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceModel {
    /// A disk with a write cache that loses its contents: what was flushed, and of the rest any part.
    Volatile,
    /// A disk whose cache survives: every write that was completed.
    Protected,
    /// No cut: the server alone was killed, and its writes are in the kernel.
    Killed,
}

crate::named::named_variants! {
    DeviceModel, Display,
    /// As options and results name it.
    name:
    Volatile => "volatile",
    Protected => "protected",
    Killed => "killed",
}

impl DeviceModel {
    /// The event in the words of a reader.
    pub fn describe(self) -> &'static str {
        match self {
            DeviceModel::Volatile => "power cut, disk with a volatile write cache",
            DeviceModel::Protected => "power cut, disk with a protected write cache",
            DeviceModel::Killed => "server killed, no power cut",
        }
    }

    /// The state of the disk afterwards, in words.
    pub fn explain(self) -> &'static str {
        match self {
            DeviceModel::Volatile => {
                "the power is cut and the write cache of the disk is lost: what was flushed is there, of the rest \
                 any part"
            }
            DeviceModel::Protected => {
                "the power is cut and the write cache survives (battery, capacitors): every write that the disk \
                 completed is there"
            }
            DeviceModel::Killed => {
                "the server alone is killed (SIGKILL): its writes are in the kernel"
            }
        }
    }
}

/// The disks of a stack whose power fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CutDisks {
    /// All of them, at one instant.
    #[default]
    All,
    /// One in the middle of a load, which goes on without it.
    One,
    /// One in the middle of a load, the others later.
    InTurn,
}

crate::named::named_variants! {
    CutDisks,
    /// As options and results name it.
    name:
    All => "all",
    One => "one",
    InTurn => "in-turn",
}

impl CutDisks {
    /// Behind the words for a number of cuts.
    pub fn describe(self) -> &'static str {
        match self {
            CutDisks::All => "",
            CutDisks::One => " of one disk",
            CutDisks::InTurn => " of one disk after another",
        }
    }

    /// How it is done, where it is not all at one instant.
    #[must_use]
    pub fn explain(self) -> Option<&'static str> {
        match self {
            CutDisks::All => None,
            CutDisks::One => Some(
                "One disk, drawn for each load, loses its power in the middle of the load, which goes on. It is judged \
                 what the stack has without it, and after an orderly restart with it.",
            ),
            CutDisks::InTurn => Some(
                "One disk, drawn for each load, loses its power in the middle of the load, which goes on. The others \
                 lose theirs later, all at one instant. It is judged what the stack has without the first disk, and \
                 after a restart with all.",
            ),
        }
    }
}

/// A defect of an acknowledged write after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DurabilityFlaw {
    /// An acknowledged key is not there.
    Lost,
    /// It is there with an older acknowledged value.
    Stale,
    /// It is there although its deletion was acknowledged.
    Resurrected,
    /// It is there with contents that were never submitted.
    Wrong,
    /// Nothing at all is there.
    Empty,
    /// The file system cannot be mounted, also after a repair.
    DoesNotMount,
    /// The server is not ready on what the disk had.
    DoesNotStart,
    /// The server is ready, and what it holds cannot be read.
    Unreadable,
    /// The oldest lost write is older than the setting promises.
    OlderThanPromised,
}

crate::named::named_variants! {
    DurabilityFlaw, Display,
    /// As texts name it.
    name:
    Lost => "lost",
    Stale => "stale",
    Resurrected => "resurrected",
    Wrong => "wrong",
    Empty => "empty",
    DoesNotMount => "does not mount",
    DoesNotStart => "does not start",
    Unreadable => "cannot be read",
    OlderThanPromised => "loses more than it says",
}

impl DurabilityFlaw {
    /// Whether it means that nothing of the load is there or can be asked for.
    #[must_use]
    pub fn is_of_all(self) -> bool {
        matches!(
            self,
            DurabilityFlaw::Empty
                | DurabilityFlaw::DoesNotMount
                | DurabilityFlaw::DoesNotStart
                | DurabilityFlaw::Unreadable
        )
    }
}

// The derived one takes any key.
#[cfg(test)]
fn flaws_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "propertyNames": generator.subschema_for::<DurabilityFlaw>(),
        "additionalProperties": { "type": "integer", "minimum": 0 },
    })
}

/// Findings in one crash state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CrashFindings {
    /// Keys whose last acknowledged value was expected.
    pub acknowledged: u64,
    /// Number of keys, or 1 for the state as a whole, by flaw.
    #[cfg_attr(test, schemars(schema_with = "flaws_schema"))]
    pub flaws: BTreeMap<DurabilityFlaw, u64>,
    /// From the oldest lost acknowledgement to the cut.
    pub window: Option<Nanos>,
    /// From the mount to a server that is ready.
    pub recovery: Nanos,
    /// A key that is wrong, or the words of the program that failed.
    pub example: String,
}

impl CrashFindings {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.flaws.is_empty()
    }

    /// Whether nothing of the load is there or can be asked for: then the time of the oldest loss only says
    /// when the load began.
    pub fn has_lost_all(&self) -> bool {
        self.flaws.keys().any(|flaw| flaw.is_of_all())
    }

    /// Acknowledged writes that are lost or wrong. All of them where nothing can be asked.
    pub fn lost(&self) -> u64 {
        let of = |flaw| self.flaws.get(&flaw).copied().unwrap_or(0);
        let is_gone = [
            DurabilityFlaw::DoesNotMount,
            DurabilityFlaw::DoesNotStart,
            DurabilityFlaw::Unreadable,
        ]
        .into_iter()
        .any(|flaw| of(flaw) > 0);
        match is_gone {
            true => self.acknowledged,
            false => {
                of(DurabilityFlaw::Empty)
                    + of(DurabilityFlaw::Lost)
                    + of(DurabilityFlaw::Stale)
                    + of(DurabilityFlaw::Resurrected)
                    + of(DurabilityFlaw::Wrong)
            }
        }
    }
}

/// Losses of a setting under one model of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurabilityLosses {
    /// The model.
    pub model: DeviceModel,
    /// Loads that were cut.
    pub loads: u32,
    /// Loads of which a crash state lost something.
    pub loads_with_losses: u32,
    /// Crash states that were judged.
    pub states: u32,
    /// Crash states that lost something.
    pub states_with_losses: u32,
    /// Acknowledged writes that were asked for, in all states together.
    pub acknowledged: u64,
    /// Of these, lost or wrong.
    pub lost: u64,
    /// States by flaw.
    #[cfg_attr(test, schemars(schema_with = "flaws_schema"))]
    pub flaws: BTreeMap<DurabilityFlaw, u32>,
    /// The longest time from a lost acknowledgement to the cut, of the states in which the server answered
    /// and had not lost everything.
    pub window: Option<Nanos>,
    /// Mean time to recover.
    pub recovery: Option<Nanos>,
    /// An example of the first loss.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub example: String,
    /// With how few dropped writes the first loss still happens, and what they hit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

impl DurabilityLosses {
    /// Nothing judged yet.
    pub fn new(model: DeviceModel) -> Self {
        DurabilityLosses {
            model,
            loads: 0,
            loads_with_losses: 0,
            states: 0,
            states_with_losses: 0,
            acknowledged: 0,
            lost: 0,
            flaws: BTreeMap::new(),
            window: None,
            recovery: None,
            example: String::new(),
            cause: String::new(),
        }
    }

    /// Adds the states of one load.
    pub fn add(&mut self, states: &[CrashFindings]) {
        if states.is_empty() {
            return;
        }
        self.loads += 1;
        self.loads_with_losses += u32::from(states.iter().any(|state| !state.is_whole()));
        for state in states {
            self.recovery = Some(mean(self.recovery, self.states, state.recovery));
            self.states += 1;
            self.acknowledged += state.acknowledged;
            if state.is_whole() {
                continue;
            }
            self.states_with_losses += 1;
            self.lost += state.lost();
            if !state.has_lost_all() {
                self.window = self.window.max(state.window);
            }
            for flaw in state.flaws.keys() {
                *self.flaws.entry(*flaw).or_default() += 1;
            }
            if self.example.is_empty() {
                self.example.clone_from(&state.example);
            }
        }
    }
}

/// A mean of `count` values with one more.
fn mean(before: Option<Nanos>, count: u32, value: Nanos) -> Nanos {
    let count = u64::from(count);
    let sum = before.map_or(0, |mean| mean.0.saturating_mul(count));
    Nanos(sum.saturating_add(value.0) / (count + 1))
}

/// How much faster a setting is than the safe one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurabilityGain {
    /// Acknowledged writes a second, each trial.
    pub rates: Vec<f64>,
    /// Times as many acknowledged writes a second as the first setting; none of that one itself.
    pub ratio: Option<RatioEstimate>,
    /// The verdict on the difference.
    pub verdict: Option<ComparisonVerdict>,
}

/// A setting with what it gains and what it loses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurabilityRow {
    /// All settings by name.
    pub settings: BTreeMap<String, String>,
    /// The setting that makes the row, as `name=value`; empty where there is one row.
    pub label: String,
    /// Losses that its own manual allows; empty where it claims to be safe.
    pub may_lose: String,
    /// The longest window that its manual promises.
    pub promised: Option<Nanos>,
    /// Acknowledged writes a second on the storage that was named.
    pub gain: Option<DurabilityGain>,
    /// Losses by model of the device.
    pub losses: Vec<DurabilityLosses>,
    /// Sums over the loads that were cut.
    pub totals: DurabilityTotals,
}

/// Sums over the loads of a setting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurabilityTotals {
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// From the first acknowledgement of each load to its last, all loads together.
    #[serde(default)]
    pub acknowledging: Nanos,
    /// Requests that the disk logged.
    pub requests: u64,
    /// Loads that ended early because the log of the disk was full.
    pub full_logs: u32,
    /// Loads that ended early because as much was acknowledged as can be asked for.
    #[serde(default)]
    pub short_loads: u32,
}

impl DurabilityTotals {
    /// Acknowledged writes a second while the disk logged; none where there were too few.
    pub fn rate_on_logged_disk(&self) -> Option<f64> {
        let seconds = self.acknowledging.as_secs_f64();
        (seconds > 0.0).then(|| self.acknowledged as f64 / seconds)
    }
}

impl DurabilityRow {
    /// Whether it claims to be safe and is not, or loses more than it says.
    pub fn breaks_its_promise(&self) -> bool {
        self.losses
            .iter()
            .any(|losses| self.breaks_its_promise_by(losses))
    }

    /// Whether these losses of it break its promise.
    pub fn breaks_its_promise_by(&self, losses: &DurabilityLosses) -> bool {
        match self.may_lose.as_str() {
            "" => losses.states_with_losses > 0,
            _ => losses
                .flaws
                .contains_key(&DurabilityFlaw::OlderThanPromised),
        }
    }
}

/// The answer: settings of a server with what each gains and loses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DurabilityResult {
    /// [`FormatVersion::DURABILITY`] of the program that wrote it.
    pub format: FormatVersion,
    /// Name of the server.
    pub server: String,
    /// Its description.
    pub about: String,
    /// Version, as the server tells it.
    pub version: String,
    /// Root of what was drawn.
    pub seed: Seed,
    /// When it began.
    pub began_at: String,
    /// Length of each load.
    pub load_time: Nanos,
    /// Writers at a time.
    pub clients: u32,
    /// The storage that gains were measured on; empty where none were.
    pub gain_on: String,
    /// Kernel of the machine, which the file systems are part of.
    pub kernel: String,
    /// A row a setting, the safe one first.
    pub rows: Vec<DurabilityRow>,
    /// The disks whose power failed.
    #[serde(default)]
    pub cut_disks: CutDisks,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
    /// Results of the same server before this one, the oldest first, without those before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<DurabilityResult>,
}

/// Most results that one keeps of those before it.
const EARLIER_MAX: usize = 100;

impl DurabilityResult {
    /// Makes this the next result after another one and those before it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn follow(&mut self, mut last: DurabilityResult) -> Result<(), String> {
        if !FormatVersion::DURABILITY.reads(last.format) {
            return Err(format!("its format is {}", last.format));
        }
        if last.server != self.server {
            return Err(format!("it is of {}, not of {}", last.server, self.server));
        }
        self.earlier = std::mem::take(&mut last.earlier);
        self.earlier.push(last);
        for earlier in &mut self.earlier {
            earlier.earlier.clear();
        }
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
        Ok(())
    }
}
