// SPDX-License-Identifier: Apache-2.0
//! The witness of a fail-over: a line with the date and time, appended at fixed instants and
//! durable when the write ends. Gaps between lines are what a user of the storage went without.

use plimsoll_core::num::{ratio, saturating_u32};
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncPolicy;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoContent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoPacing, BlockIoStopCondition, BlockIoWorkload,
};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{setting, shared_file};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

const NAME: &str = "stamp";

/// Shortest line: date and time with milliseconds, a number, the line feed.
const LINE_MIN: u64 = 40;
const LINE_MAX: u64 = 1 << 20;
/// Shortest time between lines, seconds.
const INTERVAL_MIN_S: f64 = 1e-4;
/// Longest time between lines, seconds.
const INTERVAL_MAX_S: f64 = 3600.0;
/// Lines that there should be room for: a day of one each second.
const LINES: u64 = 86_400;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "interval",
        SettingUnit::Time,
        "1s",
        "from one line to the next",
    ),
    setting("bytes", SettingUnit::Size(1), "64", "bytes of a line"),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: NAME,
    about: "the date appended once a second, each line durable: the witness of a fail-over",
    settings: SETTINGS,
    build,
}];

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let bytes = settings.bytes_within("bytes", LINE_MIN, LINE_MAX)?;
    let interval_s = settings.time("interval").as_secs_f64();
    if !(INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(&interval_s) {
        let reason = "expected a time from 100 µs to 1 h";
        return Err(settings.wrong("interval", settings.text("interval"), reason));
    }
    let group = BlockIoGroup {
        name: NAME.into(),
        // One at a time: the lines of the file are in the order of their instants.
        depth: 1,
        extent: shared_file(NAME, bytes * LINES, BlockIoFileCreation::During),
        mix: vec![BlockIoMixEntry::of(
            BlockIoOpKind::Append,
            saturating_u32(bytes),
        )],
        offsets: OffsetPattern::Sequential,
        pace: BlockIoPacing::Open(ArrivalProcess::Paced {
            per_s: ratio(1.0, interval_s),
        }),
        syncs: SyncPolicy {
            each_write: true,
            ..SyncPolicy::default()
        },
        direct: false,
        content: BlockIoContent {
            date: true,
            ..BlockIoContent::default()
        },
        work: BlockIoStopCondition::Time,
        ..BlockIoGroup::default()
    };
    Ok(Workload::Blocks(BlockIoWorkload {
        name: NAME.into(),
        groups: vec![group],
    }))
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::refused;

    use super::*;

    #[test]
    fn a_durable_line_is_appended_at_every_instant() {
        for (given, per_s, bytes) in [
            (&[][..], 1.0, 64),
            (&[("interval", "100ms"), ("bytes", "128")], 10.0, 128),
        ] {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let given: Vec<_> = given.iter().map(own).collect();
            let Ok(Workload::Blocks(blocks)) = crate::workload(NAME, &given) else {
                panic!("{given:?}: block I/O");
            };
            let [group] = blocks.groups.as_slice() else {
                panic!("{given:?}: one group");
            };
            assert_eq!(
                group.pace,
                BlockIoPacing::Open(ArrivalProcess::Paced { per_s })
            );
            assert_eq!(
                group.mix,
                [BlockIoMixEntry::of(BlockIoOpKind::Append, bytes)]
            );
            assert!(group.syncs.each_write && group.content.date && !group.direct);
            assert_eq!(
                (group.workers, group.depth, group.work),
                (1, 1, BlockIoStopCondition::Time)
            );
            assert!(blocks.is_open_loop());
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (&[("interval", "0")][..], "from 100 µs to 1 h"),
            (&[("bytes", "10")], "from 40 B"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
