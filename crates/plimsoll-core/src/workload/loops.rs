// SPDX-License-Identifier: Apache-2.0
//! One workload in both loops: closed, where each client waits for its answer before it asks again, and
//! open, where requests begin at their instants.

use serde::{Deserialize, Serialize};

use super::Workload;
use super::blocks::{
    ArrivalProcess, BlockIoGroup, BlockIoPacing, BlockIoStopCondition, BlockIoWorkload,
};
use crate::comparison::LoadLoopKind;
use crate::num::{round_u64, saturating_u32};
use crate::units::Nanos;

/// Operations that each worker of an open loop may have in flight, at least: a loop that waits for a place in
/// its own queue would be half a closed one.
const OPEN_DEPTH_MIN: u32 = 256;

/// Clients of the closed twin for each that would have to be busy all the time: half their time they think.
const CLIENTS_FOR_EACH_BUSY: f64 = 2.0;

/// The pace of both loops on one system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLoopPace {
    /// Turns a second: what the closed loop reached, and what the open one is paced at.
    pub per_s: f64,
    /// Clients of the closed loop, where the workload is an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Their think time.
    #[serde(default)]
    pub think: Nanos,
}

/// Both loops of a workload, before it is known what a system does in them.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLoopTwins {
    /// The closed one.
    pub closed: BlockIoWorkload,
    /// The open one.
    pub open: BlockIoWorkload,
    /// Turns a second that the workload asks for; `None` where it is a closed loop itself.
    pub asked_per_s: Option<f64>,
}

impl Workload {
    /// The workload in both loops.
    ///
    /// # Errors
    /// Why that cannot be, as the end of a sentence.
    pub fn in_both_loops(&self) -> Result<LoadLoopTwins, &'static str> {
        let Workload::Blocks(blocks) = self else {
            return Err("is not block I/O");
        };
        let [group] = &blocks.groups[..] else {
            return Err("has several groups of workers, each with a throughput of its own");
        };
        if group.work != BlockIoStopCondition::Time {
            return Err("ends when its work is done; give one that goes on");
        }
        let (closed, open, asked_per_s) = match &group.pace {
            BlockIoPacing::Closed { .. } => (group.clone(), opened(group), None),
            BlockIoPacing::Open(process) => {
                let per_s = steady_rate(process).ok_or(
                    "has a rate that changes over time; give a rate that stays (paced, poisson, batch)",
                )?;
                (alone(group), group.clone(), Some(per_s))
            }
        };
        let with = |group| BlockIoWorkload {
            name: blocks.name.clone(),
            groups: vec![group],
        };
        Ok(LoadLoopTwins {
            closed: with(closed),
            open: with(open),
            asked_per_s,
        })
    }
}

impl LoadLoopTwins {
    /// The clients and their think time that ask so often of a system that answers one client alone in
    /// `alone`; those of the workload itself where it is a closed loop.
    pub fn closed_pace(&self, alone: Nanos) -> LoadLoopPace {
        let Some(per_s) = self.asked_per_s else {
            return LoadLoopPace {
                per_s: 0.0,
                clients: None,
                think: Nanos(0),
            };
        };
        let busy = per_s * alone.as_secs_f64();
        let clients = saturating_u32(round_u64((CLIENTS_FOR_EACH_BUSY * busy).ceil()))
            .clamp(1, self.most_clients());
        let turn = f64::from(clients) / per_s;
        LoadLoopPace {
            per_s,
            clients: Some(clients),
            think: Nanos::from_secs_f64((turn - alone.as_secs_f64()).max(0.0)),
        }
    }

    fn most_clients(&self) -> u32 {
        let groups = self.open.groups.iter();
        let places = groups.map(|group| group.workers.saturating_mul(group.depth));
        places.max().unwrap_or(1).max(1)
    }

    /// Whether a system can have led to this pace.
    pub fn allows(&self, pace: &LoadLoopPace) -> bool {
        let clients_fit = match (self.asked_per_s, pace.clients) {
            (None, None) => pace.think == Nanos(0),
            (Some(per_s), Some(clients)) => {
                let turn = Nanos::from_secs_f64(f64::from(clients) / per_s);
                (1..=self.most_clients()).contains(&clients) && pace.think <= turn
            }
            _ => false,
        };
        clients_fit && pace.per_s.is_finite() && pace.per_s > 0.0
    }

    /// Operations of a turn, in the mean.
    pub fn operations_per_turn(&self) -> f64 {
        let turns = || self.closed.groups.iter().flat_map(|group| &group.mix);
        let weights: f64 = turns().map(|turn| turn.weight).sum();
        let operations = turns().map(|turn| turn.weight * turn.kind.operations().len() as f64);
        crate::num::ratio(operations.sum(), weights).max(1.0)
    }
}

impl BlockIoWorkload {
    /// Paces it as one of both loops.
    pub fn pace_as(&mut self, kind: LoadLoopKind, pace: &LoadLoopPace) {
        for group in &mut self.groups {
            match (kind, &mut group.pace, pace.clients) {
                (LoadLoopKind::Open, BlockIoPacing::Open(process), _) => {
                    set_rate(process, pace.per_s);
                }
                (LoadLoopKind::Closed, BlockIoPacing::Closed { think, .. }, Some(clients)) => {
                    group.depth = clients;
                    *think = pace.think;
                }
                _ => {}
            }
        }
    }
}

/// The group with random arrivals; its rate is that of each system.
fn opened(group: &BlockIoGroup) -> BlockIoGroup {
    BlockIoGroup {
        pace: BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 1.0 }),
        depth: group.depth.max(OPEN_DEPTH_MIN),
        ..group.clone()
    }
}

/// The group with one client that asks again at once.
fn alone(group: &BlockIoGroup) -> BlockIoGroup {
    BlockIoGroup {
        pace: BlockIoPacing::default(),
        workers: 1,
        depth: 1,
        ..group.clone()
    }
}

fn steady_rate(process: &ArrivalProcess) -> Option<f64> {
    match process {
        ArrivalProcess::Paced { per_s }
        | ArrivalProcess::Poisson { per_s }
        | ArrivalProcess::Batch { per_s, .. } => Some(*per_s),
        ArrivalProcess::OnOff { .. } | ArrivalProcess::Envelope(_) | ArrivalProcess::Trace(_) => {
            None
        }
    }
}

fn set_rate(process: &mut ArrivalProcess, rate_per_s: f64) {
    match process {
        ArrivalProcess::Paced { per_s }
        | ArrivalProcess::Poisson { per_s }
        | ArrivalProcess::Batch { per_s, .. } => *per_s = rate_per_s,
        ArrivalProcess::OnOff { .. } | ArrivalProcess::Envelope(_) | ArrivalProcess::Trace(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pace: BlockIoPacing) -> Workload {
        let mut blocks = BlockIoWorkload::random("w", 1.0);
        blocks.groups[0].pace = pace;
        Workload::Blocks(blocks)
    }

    #[test]
    fn a_closed_loop_keeps_its_clients_and_gets_instants_at_its_throughput() {
        let mut twins = blocks(BlockIoPacing::default()).in_both_loops().unwrap();
        assert!(!twins.closed.is_open_loop() && twins.open.is_open_loop());
        assert_eq!(
            (twins.closed.groups[0].depth, twins.asked_per_s),
            (32, None)
        );
        let pace = LoadLoopPace {
            per_s: 250.0,
            ..twins.closed_pace(Nanos(5))
        };
        twins.open.pace_as(LoadLoopKind::Open, &pace);
        let expect = BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 250.0 });
        assert_eq!(twins.open.groups[0].pace, expect);
        twins.closed.pace_as(LoadLoopKind::Closed, &pace);
        assert_eq!(twins.closed.groups[0].depth, 32);
    }

    #[test]
    fn an_open_loop_gets_as_many_clients_as_its_rate_keeps_busy_twice_over() {
        let open = BlockIoPacing::Open(ArrivalProcess::Paced { per_s: 400.0 });
        let twins = blocks(open).in_both_loops().unwrap();
        // 400/s at 5 ms keep two clients busy: four, each of which asks every 10 ms.
        let pace = twins.closed_pace(Nanos(5_000_000));
        assert_eq!((pace.clients, pace.think), (Some(4), Nanos(5_000_000)));
        let mut closed = twins.closed.clone();
        closed.pace_as(LoadLoopKind::Closed, &pace);
        assert_eq!(closed.groups[0].depth, 4);
        let think = |group: &BlockIoGroup| match group.pace {
            BlockIoPacing::Closed { think, .. } => think,
            BlockIoPacing::Open(_) => panic!("a closed loop"),
        };
        assert_eq!(think(&closed.groups[0]), Nanos(5_000_000));
        // Where the answer takes longer than that, no more clients than the queue has places.
        let slow = twins.closed_pace(Nanos::SECOND);
        assert_eq!((slow.clients, slow.think), (Some(32), Nanos(0)));
    }

    #[test]
    fn what_has_no_steady_throughput_has_no_twin() {
        let on_off = ArrivalProcess::OnOff {
            per_s: 1.0,
            on: Nanos(1),
            off: Nanos(1),
        };
        let refused = blocks(BlockIoPacing::Open(on_off)).in_both_loops();
        assert!(refused.unwrap_err().contains("changes over time"));
        let mut two = BlockIoWorkload::random("w", 1.0);
        two.groups.push(two.groups[0].clone());
        assert!(Workload::Blocks(two).in_both_loops().is_err());
        let idle = Workload::idle("w");
        assert_eq!(idle.in_both_loops().unwrap_err(), "is not block I/O");
    }
}
