// SPDX-License-Identifier: Apache-2.0
//! A workload as it was asked for: the programs it starts, the room its data need, known before anything is
//! written.

use crate::trust::typed;
use plimsoll_agent::VERIFY_BYTES;
use plimsoll_console::failure::CliError;
use plimsoll_core::load_line::LoadLineGoal;
use plimsoll_core::num::round_u64;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoGroup, BlockIoOpKind, BlockIoPacing, BlockIoWorkload,
};
use plimsoll_core::workload::commands::WorkloadCommand;
use std::collections::BTreeMap;

/// Default length of the measured part: long enough for some thousand operations.
pub(crate) const LENGTH: Nanos = Nanos(10 * Nanos::SECOND.0);

/// Room a target must have besides the data, as a factor: file systems need some for themselves.
const ROOM: f64 = 1.1;

/// Time besides the measured part in which files grow: the warm-up, and what is under way at the end.
const AROUND: Nanos = Nanos(60 * Nanos::SECOND.0);

/// A workload as it was asked for.
#[derive(Debug)]
pub struct WorkloadRequest {
    /// Workload to play.
    pub workload: Workload,
    /// How much faster than recorded; `None`: the largest round factor that the slowest system should still
    /// carry is to be found.
    pub scale: Option<f64>,
    /// Where it differs from what its text says, one sentence each.
    pub notes: Vec<String>,
    /// How long it is to be run: what the user says, else what it asks for itself.
    pub length: Option<Nanos>,
    /// The load line that is searched of it.
    pub goal: Option<LoadLineGoal>,
}

impl From<Workload> for WorkloadRequest {
    /// The workload as it is, at its own rate.
    fn from(workload: Workload) -> Self {
        WorkloadRequest {
            workload,
            scale: Some(1.0),
            notes: Vec::new(),
            length: None,
            goal: None,
        }
    }
}

/// Every program that a workload starts, with its arguments.
pub fn commands_of(asked: &WorkloadRequest) -> Vec<String> {
    let Workload::Commands(commands) = &asked.workload else {
        return Vec::new();
    };
    let all = commands.prepare.iter().chain(&commands.phases);
    let all = all.chain(&commands.finish);
    all.map(|command: &WorkloadCommand| typed(&command.argv))
        .collect()
}

/// Bytes the workloads keep on one arm at the same time: a file serves all that need one of its name, and
/// stays for them.
pub(crate) fn data_bytes(asked: &[WorkloadRequest]) -> u64 {
    let mut files = BTreeMap::from([(BlockIoExtent::default().file, VERIFY_BYTES)]);
    let mut keep = |name: &str, bytes: u64| {
        let known = files.entry(name.to_owned()).or_default();
        *known = bytes.max(*known);
    };
    let mut trees = 0;
    for one in asked {
        // A search of a load line plays more clients, each with files of its own where they share none.
        let (workload, length) = match &one.goal {
            None => (one.workload.clone(), one.length),
            Some(goal) => (one.workload.times(goal.largest), Some(goal.sustained)),
        };
        match &workload {
            Workload::Files(files) => trees += files.data_set_bytes() * 2,
            Workload::Series(_) | Workload::Commands(_) => trees += workload.data_set_bytes(),
            Workload::Blocks(blocks) => {
                let grown = grown(blocks, length);
                grown
                    .files()
                    .into_iter()
                    .for_each(|(name, bytes)| keep(name, bytes));
            }
            Workload::Model(_) => {
                let name = BlockIoExtent::default().file;
                keep(&name, workload.data_set_bytes());
            }
        }
    }
    files.into_values().fold(trees, u64::saturating_add)
}

/// Whether a workload is of programs, which copy what they need and write what they like.
pub(crate) fn is_of_programs(asked: &WorkloadRequest) -> bool {
    matches!(asked.workload, Workload::Commands(_))
}

/// `blocks` with its files as they are when it has run for `length`. Files that begin empty and grow at
/// a given rate are as large as what is appended, whatever their extent allows.
fn grown(blocks: &BlockIoWorkload, length: Option<Nanos>) -> BlockIoWorkload {
    let seconds = (length.unwrap_or(LENGTH) + AROUND).as_secs_f64();
    let mut grown = blocks.clone();
    for group in &mut grown.groups {
        if let Some(per_s) = append_rate(group) {
            let largest = group.mix.iter().map(|turn| u64::from(turn.bytes)).max();
            let bytes = round_u64((per_s * seconds).ceil()).saturating_mul(largest.unwrap_or(0));
            group.extent.bytes = group.extent.bytes.min(bytes);
        }
    }
    grown
}

/// Turns per second of a group that only appends, at a rate.
fn append_rate(group: &BlockIoGroup) -> Option<f64> {
    let appends = group
        .mix
        .iter()
        .all(|turn| turn.kind == BlockIoOpKind::Append);
    match group.pace {
        BlockIoPacing::Open(
            ArrivalProcess::Paced { per_s } | ArrivalProcess::Poisson { per_s },
        ) if appends => Some(per_s),
        _ => None,
    }
}

/// Space that several arms need in the same places.
#[derive(Debug, Default)]
pub(crate) struct SpaceRequirements(BTreeMap<String, (u64, u64)>);

impl SpaceRequirements {
    /// Adds a need of `bytes` in `place`, which has `free` bytes.
    pub(crate) fn need(&mut self, place: &str, bytes: u64, free: u64) {
        let entry = self.0.entry(place.to_owned()).or_insert((0, free));
        *entry = (entry.0.saturating_add(bytes), entry.1.min(free));
    }

    /// Whether all fits.
    ///
    /// # Errors
    /// Names the first place that is too small, with both figures.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let full = |(needed, free): &(u64, u64)| *needed as f64 * ROOM > *free as f64;
        match self.0.iter().find(|(_, figures)| full(figures)) {
            None => Ok(()),
            Some((place, (needed, free))) => Err(CliError::usage(format!(
                "use target '{place}': the data need {} and {} may be used",
                units::size(*needed as f64 * ROOM),
                units::size(*free as f64)
            ))
            .hint(format!(
                "{} of data would fit, of all systems there together: give the workload less (a setting such as \
                 size, or --working-set of plimsoll fit), free some space, or choose another target (stacks: a \
                 larger --size)",
                units::size(*free as f64 / ROOM)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_needed_for_one_data_file_and_every_tree() {
        let asked = |name: &str| plimsoll_classics::workload(name, &[]).unwrap().into();
        let file = data_bytes(&[asked("randread"), asked("randwrite")]);
        assert_eq!(file, 1 << 30);
        assert!(data_bytes(&[asked("randread"), asked("varmail")]) > file);
    }

    #[test]
    fn a_file_that_grows_needs_what_is_appended_in_the_time_of_the_run() {
        let stamp = |bytes: &str, seconds: u64| {
            let given = [("bytes".to_owned(), bytes.to_owned())];
            let Ok(Workload::Blocks(blocks)) = plimsoll_classics::workload("stamp", &given) else {
                panic!("stamp is block I/O");
            };
            grown(&blocks, Some(Nanos(seconds * Nanos::SECOND.0))).data_set_bytes()
        };
        // One line a second, and a minute around the run.
        assert_eq!(stamp("64", 40), 100 * 64);
        assert_eq!(stamp("1m", 540), 600 << 20);
    }

    #[test]
    fn files_of_other_names_are_kept_beside_each_other() {
        let named = |file: &str| {
            let mut blocks = BlockIoWorkload::random(file, 0.0);
            blocks.groups[0].extent.file = file.into();
            blocks.groups[0].extent.bytes = 1 << 30;
            WorkloadRequest::from(Workload::Blocks(blocks))
        };
        let same = [named("data"), named("data")];
        assert_eq!(data_bytes(&same), 1 << 30);
        let others = [named("a"), named("b")];
        assert_eq!(data_bytes(&others), (2 << 30) + VERIFY_BYTES);
    }

    #[test]
    fn a_search_of_a_load_line_needs_room_for_its_largest_multiple() {
        let mut blocks = BlockIoWorkload::random("own files", 0.0);
        blocks.groups[0].extent.shared = false;
        blocks.groups[0].extent.bytes = 1 << 30;
        let mut asked = WorkloadRequest::from(Workload::Blocks(blocks));
        assert_eq!(data_bytes(std::slice::from_ref(&asked)), 1 << 30);
        asked.goal = Some(LoadLineGoal {
            limits: Vec::new(),
            smallest: 1.0,
            largest: 50.0,
            width: 0.1,
            short: Nanos::SECOND,
            trial: Nanos::SECOND,
            sustained: Nanos::SECOND,
            budget: Nanos::SECOND,
            costs: BTreeMap::new(),
            requirement: None,
        });
        assert_eq!(data_bytes(&[asked]), 50 << 30);
    }

    #[test]
    fn arms_that_share_a_place_need_room_together() {
        let mut room = SpaceRequirements::default();
        room.need("a", 100, 200);
        room.need("b", 100, 120);
        assert!(room.check().is_ok());
        room.need("a", 100, 200);
        assert!(room.check().unwrap_err().message.contains("'a'"));
    }
}
