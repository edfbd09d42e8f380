// SPDX-License-Identifier: Apache-2.0
//! Plan of a run: its arms, its workloads, its blocks.

use super::ClientLoadNode;
use crate::campaign::CampaignSpec;
use crate::comparison::{LoadLoopKind, VerdictPolicy};
use crate::conditioning::{SystemConditioning, SystemConditioningResult};
use crate::design::{BlockDesign, BlockDesignResult, BlocksEnd, BlocksEndCause};
use crate::failover::{FaultInjection, StackCondition};
use crate::format::FormatVersion;
use crate::load_line::LoadLineGoal;
use crate::rng::Seed;
use crate::target::{MachineFacts, TargetFacts};
use crate::units::Nanos;
use crate::workload::Workload;
use crate::workload::loops::LoadLoopPace;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One arm of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArmEntry {
    /// Label in reports.
    pub name: String,
    /// The target, as given on the command line.
    pub target: String,
    /// Description of the system, in one line.
    pub description: String,
    /// Label of the arm whose second entry this is (the A/A control).
    pub control_of: Option<String>,
    /// Facts found on it.
    pub facts: Option<TargetFacts>,
}

/// One workload of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadEntry {
    /// Label in reports, such as `nas ×12`.
    pub label: String,
    /// Factor on the rates of a model; 1 for closed loops.
    pub scale: f64,
    /// Length of the measured part of each trial.
    pub length: Nanos,
    /// The workload with every parameter resolved.
    pub workload: Workload,
    /// The fault that is injected in every trial of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject: Option<FaultInjection>,
    /// Condition of the systems in every trial of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<StackCondition>,
    /// The load line that is searched: then its trials have multiples of their own, and `length` is that of
    /// none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_line: Option<LoadLineGoal>,
    /// Condition of the clients in every trial of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientCondition>,
    /// Which of two loops with the same throughput it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_loop: Option<LoadLoopEntry>,
}

/// Condition of a client while a workload is played, to see whether the result depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientCondition {
    /// Label of the workload that is the same with the processors that the client has.
    pub of: String,
    /// Processors that the load generator may use.
    pub cpus: u32,
}

/// One of two entries that play the same throughput in different loops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLoopEntry {
    /// Which loop.
    pub kind: LoadLoopKind,
    /// Label of the workload, without the loop.
    pub of: String,
    /// Pace of both loops on each arm.
    pub paces: BTreeMap<String, LoadLoopPace>,
}

impl WorkloadEntry {
    /// The entry as it is played on an arm: an open loop is paced at what the closed one reached there.
    pub fn on_arm(&self, arm: &str) -> WorkloadEntry {
        let mut entry = self.clone();
        let twin = self.load_loop.as_ref();
        let pace = twin.and_then(|twin| Some((twin.kind, twin.paces.get(arm)?)));
        if let (Some((kind, pace)), Workload::Blocks(blocks)) = (pace, &mut entry.workload) {
            blocks.pace_as(kind, pace);
        }
        entry
    }

    /// Whether it is the open one of two loops: its load is another one on each arm.
    pub fn is_open_twin(&self) -> bool {
        let twin = self.load_loop.as_ref();
        twin.is_some_and(|twin| twin.kind == LoadLoopKind::Open)
    }

    /// Whether it has trials on this arm: a fault may not be possible there.
    pub fn is_played_on(&self, arm: &str) -> bool {
        let refused = self.inject.as_ref().map(|inject| &inject.refused);
        refused.is_none_or(|refused| !refused.contains_key(arm))
    }
}

/// The manifest of a run: systems, workloads, policy; written before the first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(transform = with_settings_of_2_7))]
#[serde(deny_unknown_fields)]
pub struct RunManifest {
    /// [`FormatVersion::RUN`] of the program that wrote it.
    pub format: FormatVersion,
    /// Version of the program.
    pub program: String,
    /// Identifier of the run.
    pub id: String,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of all randomness.
    pub seed: Seed,
    /// Name of the random number generator.
    pub generator: String,
    /// How verdicts are reached.
    pub policy: VerdictPolicy,
    /// The machine.
    pub machine: MachineFacts,
    /// Versions of the programs and packages involved.
    pub versions: BTreeMap<String, String>,
    /// The systems.
    pub arms: Vec<ArmEntry>,
    /// The workloads.
    pub entries: Vec<WorkloadEntry>,
    /// Blocks planned.
    pub blocks: u32,
    /// Goal of the blocks and how they end, where that is not just their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<BlockDesign>,
    /// Whether the systems of a block come in rows of Williams squares, though the blocks are not designed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub balanced: bool,
    /// Addition of each system to the one before it, in the order of the systems (without
    /// controls); empty unless the run climbs a ladder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<String>,
    /// The machines that generate the load; empty when it is this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_nodes: Vec<ClientLoadNode>,
    /// Conditioning of the systems before the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditioning: Option<SystemConditioning>,
    /// Bytes of the measured part after which a trial ends, if that is before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_bytes: Option<u64>,
    /// The campaign that is carried out; unknown of runs before 2.8.
    #[serde(
        default,
        alias = "settings",
        deserialize_with = "recorded_campaign",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(test, schemars(with = "Option<CampaignSpec>"))]
    pub campaign: Option<CampaignSpec>,
}

/// Allows what format 2.7 had in the place of a campaign.
#[cfg(test)]
fn with_settings_of_2_7(schema: &mut schemars::Schema) {
    if let Some(properties) = schema.get_mut("properties") {
        properties["settings"] = true.into();
    }
}

/// The campaign of a manifest. Format 2.7 had settings in its place, which decide nothing any more: such a
/// run is read, and not gone on with.
#[derive(Deserialize)]
#[serde(untagged, expecting = "its campaign is damaged")]
enum RecordedCampaign {
    Campaign(Box<CampaignSpec>),
    Older { engine: IgnoredAny },
}

fn recorded_campaign<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CampaignSpec>, D::Error> {
    Ok(match Option::deserialize(from)? {
        None => None,
        Some(RecordedCampaign::Campaign(spec)) => Some(*spec),
        Some(RecordedCampaign::Older { engine: IgnoredAny }) => None,
    })
}

impl RunManifest {
    /// Takes over the design that the pilot led to.
    pub fn adopt(&mut self, found: BlockDesignResult) {
        self.blocks = found.blocks;
        for entry in &mut self.entries {
            entry.length = match entry.workload {
                // Slices of a model are whole seconds.
                Workload::Model(_) => Nanos(found.length.0.next_multiple_of(Nanos::SECOND.0)),
                _ => found.length,
            };
        }
        if let Some(design) = &mut self.design {
            design.found = Some(found);
        }
    }

    /// Takes over what was done to a system before the first block.
    pub fn condition(&mut self, done: SystemConditioningResult) {
        self.conditioning.get_or_insert_default().done.push(done);
    }

    /// Takes over how the blocks ended: no more are planned.
    pub fn end(&mut self, ended: BlocksEnd) {
        if let Some(design) = &mut self.design {
            // Blocks that the user ended may be resumed.
            if ended.cause != BlocksEndCause::UserQuit {
                self.blocks = self.blocks.min(ended.blocks.max(1));
            }
            design.ended = Some(ended);
        }
    }

    /// The blocks that comparisons are made of.
    pub fn counted_blocks(&self) -> std::ops::Range<u32> {
        let first = self.design.as_ref().map_or(0, BlockDesign::first_block);
        first.min(self.blocks)..self.blocks
    }

    /// How many trials are planned; none of a load line, whose search says as it goes.
    pub fn planned_trials(&self) -> u64 {
        let turns = |entry: &WorkloadEntry| {
            let arms = self.arms.iter().filter(|arm| entry.is_played_on(&arm.name));
            arms.count() as u64 * u64::from(self.blocks)
        };
        let in_blocks = self
            .entries
            .iter()
            .filter(|entry| entry.load_line.is_none());
        in_blocks.map(turns).sum()
    }
}
