// SPDX-License-Identifier: Apache-2.0
//! Multiples of a workload: faster where instants set the pace, more clients where the storage does.

use super::Workload;
use super::blocks::{ArrivalProcess, BlockIoPacing, BlockIoStopCondition, BlockIoWorkload};
use super::files::FileLoop;
use crate::num::{round_u64, saturating_u32};

/// Quantity that a multiple of a workload counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadMultiple {
    /// Times the rate of an open loop.
    Rate,
    /// Clients of a closed loop. One client has this number of threads: the smallest set in which the groups
    /// have their shares.
    Clients(u32),
}

impl Workload {
    /// Quantity that a multiple of it counts.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence.
    pub fn multiple(&self) -> Result<WorkloadMultiple, &'static str> {
        if !matches!(self, Workload::Series(_)) && self.ends_by_itself() {
            return Err("ends when its work is done; give one that goes on");
        }
        match self {
            Workload::Model(_) => Ok(WorkloadMultiple::Rate),
            Workload::Blocks(blocks) => of_blocks(blocks),
            Workload::Files(files) => Ok(WorkloadMultiple::Clients(client(
                files.groups.iter().map(|g| g.threads),
            ))),
            Workload::Series(_) | Workload::Commands(_) => {
                Err("has phases or programs, which have no rate; give one of them alone")
            }
        }
    }

    /// `multiple` times this workload. The rates of a model do not change: its trials have their own factor.
    pub fn times(&self, multiple: f64) -> Workload {
        let mut workload = self.clone();
        match &mut workload {
            Workload::Blocks(blocks) => multiply_blocks(blocks, multiple),
            Workload::Files(files) => multiply_files(files, multiple),
            Workload::Model(_) | Workload::Series(_) | Workload::Commands(_) => {}
        }
        workload
    }
}

fn of_blocks(blocks: &BlockIoWorkload) -> Result<WorkloadMultiple, &'static str> {
    let is_open = |pace: &BlockIoPacing| matches!(pace, BlockIoPacing::Open(_));
    let is_trace =
        |pace: &BlockIoPacing| matches!(pace, BlockIoPacing::Open(ArrivalProcess::Trace(_)));
    let groups = || blocks.groups.iter();
    if groups().any(|group| group.work != BlockIoStopCondition::Time) {
        return Err("ends when its work is done; give one that goes on");
    }
    if groups().any(|group| is_trace(&group.pace)) {
        return Err("replays recorded requests one by one; fit a model to the recording");
    }
    match groups().filter(|group| is_open(&group.pace)).count() {
        0 => Ok(WorkloadMultiple::Clients(client(
            groups().map(|group| group.workers),
        ))),
        open if open == blocks.groups.len() => Ok(WorkloadMultiple::Rate),
        _ => Err("has groups with a rate and groups without one"),
    }
}

/// Threads of the smallest set that has the same shares.
fn client(threads: impl Iterator<Item = u32> + Clone) -> u32 {
    let divisor = threads.clone().fold(0, greatest_common_divisor);
    let all: u64 = threads.map(u64::from).sum();
    saturating_u32(all / u64::from(divisor.max(1)))
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn multiply_blocks(blocks: &mut BlockIoWorkload, multiple: f64) {
    let divisor =
        (blocks.groups.iter()).fold(0, |d, group| greatest_common_divisor(d, group.workers));
    for group in &mut blocks.groups {
        match &mut group.pace {
            BlockIoPacing::Open(process) => multiply_rate(process, multiple),
            BlockIoPacing::Closed { .. } => {
                group.workers = threads(group.workers, divisor, multiple);
            }
        }
    }
}

fn multiply_files(files: &mut FileLoop, multiple: f64) {
    let divisor =
        (files.groups.iter()).fold(0, |d, group| greatest_common_divisor(d, group.threads));
    for group in &mut files.groups {
        group.threads = threads(group.threads, divisor, multiple);
    }
}

fn threads(of_all: u32, divisor: u32, clients: f64) -> u32 {
    let of_a_client = of_all / divisor.max(1);
    saturating_u32(u64::from(of_a_client).saturating_mul(round_u64(clients).max(1)))
}

fn multiply_rate(process: &mut ArrivalProcess, multiple: f64) {
    match process {
        ArrivalProcess::Paced { per_s }
        | ArrivalProcess::Poisson { per_s }
        | ArrivalProcess::Batch { per_s, .. }
        | ArrivalProcess::OnOff { per_s, .. } => *per_s *= multiple,
        ArrivalProcess::Envelope(segments) => {
            for segment in segments {
                segment.from_per_s *= multiple;
                segment.to_per_s *= multiple;
            }
        }
        // Refused above: recorded requests have no rate.
        ArrivalProcess::Trace(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::BlockIoGroup;
    use super::*;

    fn workload(groups: Vec<BlockIoGroup>) -> Workload {
        Workload::Blocks(BlockIoWorkload {
            name: "w".into(),
            groups,
        })
    }

    fn open(per_s: f64) -> BlockIoGroup {
        BlockIoGroup {
            pace: BlockIoPacing::Open(ArrivalProcess::Poisson { per_s }),
            ..BlockIoGroup::default()
        }
    }

    fn closed(workers: u32) -> BlockIoGroup {
        BlockIoGroup {
            workers,
            ..BlockIoGroup::default()
        }
    }

    #[test]
    fn an_open_loop_gets_faster() {
        let twice = workload(vec![open(100.0), open(10.0)]).times(2.5);
        let Workload::Blocks(blocks) = &twice else {
            panic!("{twice:?}")
        };
        let rates: Vec<&BlockIoPacing> = blocks.groups.iter().map(|group| &group.pace).collect();
        let poisson = |per_s| BlockIoPacing::Open(ArrivalProcess::Poisson { per_s });
        assert_eq!(rates, [&poisson(250.0), &poisson(25.0)]);
        assert_eq!(twice.multiple(), Ok(WorkloadMultiple::Rate));
    }

    #[test]
    fn a_closed_loop_gets_more_clients_whose_groups_keep_their_shares() {
        let alone = workload(vec![closed(16)]);
        assert_eq!(alone.multiple(), Ok(WorkloadMultiple::Clients(1)));
        let mixed = workload(vec![closed(50), closed(20)]);
        assert_eq!(mixed.multiple(), Ok(WorkloadMultiple::Clients(7)));
        let Workload::Blocks(three) = mixed.times(3.0) else {
            panic!("no blocks")
        };
        let workers: Vec<u32> = three.groups.iter().map(|group| group.workers).collect();
        assert_eq!(workers, [15, 6]);
    }

    #[test]
    fn what_has_no_multiple_says_why() {
        let mixed = workload(vec![open(1.0), closed(1)]).multiple();
        assert!(mixed.unwrap_err().contains("groups with a rate"));
        assert!(Workload::idle("x").multiple().is_err());
    }
}
