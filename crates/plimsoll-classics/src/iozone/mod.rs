// SPDX-License-Identifier: Apache-2.0
//! iozone 3 in throughput mode: a number of children, each with a separate file, all write, read or
//! seek at the same time until the first of them has finished. Without a number of children it
//! is the single-file mode: one file, and a table.

mod text;

pub(crate) use text::text;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncPolicy;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::{ClassicProgram, PhaseSpec, PhaseWorkload};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{block_phase, series, setting, words};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(crate) const NAME: &str = "iozone";

/// The most children of the original.
const CHILDREN_MAX: u32 = 256;
/// Every child seeds its generator with 0 before each random test (iozone 3), so all of them take
/// their records in the same order, in every test and every run.
const RANDOM_ORDER: OffsetPattern = OffsetPattern::FixedPermutation { seed: 0 };
/// Sleep of the original's parent before it lets the children of the next test go.
const REST: Nanos = Nanos(2_000_000_000);
/// Largest record.
const RECORD_MAX: u64 = 256 << 20;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "i",
        SettingUnit::List,
        "0+1+2",
        "tests: 0 write, 1 read, 2 random; several by + or again",
    ),
    setting(
        "t",
        SettingUnit::Count,
        "",
        "children, each with a file of its own; without: one, and the table of the single-file mode",
    ),
    setting(
        "s",
        SettingUnit::Size(1024),
        "512",
        "size of each file, KiB",
    ),
    setting("r", SettingUnit::Size(1024), "4", "size of a record, KiB"),
    setting("e", SettingUnit::Flag, "off", "count the fsync at the end"),
    setting("c", SettingUnit::Flag, "off", "count the close at the end"),
    setting(
        "o",
        SettingUnit::Flag,
        "off",
        "each write durable when it ends (O_SYNC)",
    ),
    setting(
        "I",
        SettingUnit::Flag,
        "off",
        "bypass the page cache (O_DIRECT)",
    ),
    setting(
        "O",
        SettingUnit::Flag,
        "off",
        "print records per second instead of kB/sec",
    ),
    setting("+n", SettingUnit::Flag, "off", "no rewrite and no re-read"),
    setting(
        "x",
        SettingUnit::Flag,
        "off",
        "do not stop counting when the first child is through",
    ),
    setting(
        "w",
        SettingUnit::Flag,
        "off",
        "allowed without effect: files live as long as their trial",
    ),
    setting(
        "l",
        SettingUnit::Count,
        "",
        "refused: give the number of children with t",
    ),
    setting(
        "u",
        SettingUnit::Count,
        "",
        "refused: give the number of children with t",
    ),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: NAME,
    about: "children with own files write, read and jump about together (iozone -t)",
    settings: SETTINGS,
    build,
}];

/// One kind of test that the report has a paragraph for.
struct IozoneTest {
    /// Name of the phase.
    phase: &'static str,
    /// Name of the children in the report.
    role: &'static str,
    /// Number of the option `i` that asks for it.
    number: u32,
    /// Whether it repeats the one before.
    is_repeat: bool,
    kind: BlockIoOpKind,
    is_random: bool,
    /// Whether the children stop each other only after their sync, and leave the rest undone: all
    /// tests but the two that others count on for whole files.
    breaks_off: bool,
}

const TESTS: [IozoneTest; 6] = [
    test(
        "write",
        "initial writers",
        0,
        false,
        BlockIoOpKind::Write,
        false,
    ),
    test("rewrite", "rewriters", 0, true, BlockIoOpKind::Write, false),
    test("read", "readers", 1, false, BlockIoOpKind::Read, false),
    test("reread", "re-readers", 1, true, BlockIoOpKind::Read, false),
    test(
        "random_read",
        "random readers",
        2,
        false,
        BlockIoOpKind::Read,
        true,
    ),
    test(
        "random_write",
        "random writers",
        2,
        false,
        BlockIoOpKind::Write,
        true,
    ),
];

const fn test(
    phase: &'static str,
    role: &'static str,
    number: u32,
    is_repeat: bool,
    kind: BlockIoOpKind,
    is_random: bool,
) -> IozoneTest {
    IozoneTest {
        phase,
        role,
        number,
        is_repeat,
        kind,
        is_random,
        breaks_off: is_repeat || matches!(kind, BlockIoOpKind::Read),
    }
}

/// The settings, understood.
struct IozoneOptions {
    tests: Vec<&'static IozoneTest>,
    children: u32,
    /// Whether the job does not set the number of children.
    is_single: bool,
    record_bytes: u64,
    /// Whole records.
    file_bytes: u64,
    is_in_ops: bool,
}

impl IozoneOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        for name in ["l", "u"] {
            if settings.is_given(name) {
                let reason = "ranges are not played; give one number of children with t";
                return Err(settings.wrong(name, settings.text(name), reason));
            }
        }
        let numbers = numbers(settings)?;
        let has_repeats = !settings.flag("+n");
        let wanted =
            |test: &&IozoneTest| numbers.contains(&test.number) && (has_repeats || !test.is_repeat);
        let record_bytes = settings.bytes_within("r", 1, RECORD_MAX)?;
        if !settings.is_given("s") && settings.bytes("s") < record_bytes {
            let reason = "the default is smaller than a record (r): set s";
            return Err(settings.wrong("s", settings.text("s"), reason));
        }
        let file_bytes = settings.bytes_within("s", record_bytes, 1 << 60)?;
        if settings.flag("I") && !record_bytes.is_multiple_of(512) {
            let reason = "direct I/O (I) needs a record of whole 512-byte sectors";
            return Err(settings.wrong("r", settings.text("r"), reason));
        }
        Ok(IozoneOptions {
            tests: TESTS.iter().filter(wanted).collect(),
            children: match settings.is_given("t") {
                true => settings.count_within("t", 1, CHILDREN_MAX)?,
                false => 1,
            },
            is_single: !settings.is_given("t"),
            record_bytes,
            file_bytes: file_bytes - file_bytes % record_bytes,
            is_in_ops: settings.flag("O"),
        })
    }
}

/// The tests asked for.
fn numbers(settings: &SettingValues) -> Result<Vec<u32>, ClassicsError> {
    let number = |word| match word {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err(settings.wrong("i", word, "expected 0 (write), 1 (read) or 2 (random)")),
    };
    words(settings, "i")?.into_iter().map(number).collect()
}

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = IozoneOptions::read(settings)?;
    let phase = |(place, test): (usize, &&IozoneTest)| {
        // Files that no test before wrote are laid out; in the original an earlier run left them.
        let made = match (place, test.number) {
            (0, 0) => BlockIoFileCreation::During,
            (0, _) => BlockIoFileCreation::Before,
            _ => BlockIoFileCreation::Earlier,
        };
        PhaseSpec {
            stonewall: !settings.flag("x"),
            ..block_phase(test.phase, vec![group(&shape, test, made, settings)])
        }
    };
    let mut phases: Vec<PhaseSpec> = shape.tests.iter().enumerate().map(phase).collect();
    // Nothing follows the last one.
    if let Some(PhaseWorkload::Blocks(blocks)) = phases.last_mut().map(|phase| &mut phase.body) {
        for group in &mut blocks.groups {
            group.rest = Nanos(0);
        }
    }
    Ok(series(NAME, settings, phases))
}

/// Where its numbers differ from those of the original.
pub(crate) fn notes(classic: &ClassicProgram) -> Vec<String> {
    let mut notes = vec![
        "unlike in iozone, every record holds random bytes (there one byte again and again, which \
         some storage does not store)"
            .to_owned(),
    ];
    if classic.setting("t").is_some_and(|t| t != "1") {
        notes.push(
            "'Parent sees' ends with the last counted record, fsync or close; in iozone it goes on \
             while the others complete their files, fsync, close and exit, and is lower"
                .to_owned(),
        );
    }
    notes
}

fn group(
    shape: &IozoneOptions,
    test: &IozoneTest,
    made: BlockIoFileCreation,
    settings: &SettingValues,
) -> BlockIoGroup {
    let finish = [
        (settings.flag("e"), BlockIoFinalOp::Fsync),
        (settings.flag("c"), BlockIoFinalOp::Close),
    ];
    BlockIoGroup {
        name: "children".into(),
        workers: shape.children,
        extent: BlockIoExtent {
            file: "iozone".into(),
            shared: false,
            bytes: shape.file_bytes,
            region: BlockIoRegion::Whole,
            made,
        },
        mix: vec![BlockIoMixEntry::of(
            test.kind,
            saturating_u32(shape.record_bytes),
        )],
        offsets: if test.is_random {
            RANDOM_ORDER
        } else {
            OffsetPattern::Sequential
        },
        syncs: SyncPolicy {
            each_write: settings.flag("o"),
            ..SyncPolicy::default()
        },
        finish: finish
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, op)| op)
            .collect(),
        // Each child of the original syncs and closes its file at the end of every test.
        after: vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close],
        rest: if shape.is_single { Nanos(0) } else { REST },
        breaks_off: test.breaks_off,
        direct: settings.flag("I"),
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, groups, names, refused};

    use super::*;

    #[test]
    fn tests_are_chosen_and_repeated_as_asked() {
        for (given, expect) in [
            (
                &[][..],
                &[
                    "write",
                    "rewrite",
                    "read",
                    "reread",
                    "random_read",
                    "random_write",
                ][..],
            ),
            (
                &[("+n", "on")],
                &["write", "read", "random_read", "random_write"],
            ),
            (&[("i", "0")], &["write", "rewrite"]),
            (
                &[("i", "0"), ("i", "2"), ("+n", "on")],
                &["write", "random_read", "random_write"],
            ),
            (
                &[("i", "0+1"), ("w", "on")],
                &["write", "rewrite", "read", "reread"],
            ),
            (&[("i", "1")], &["read", "reread"]),
        ] {
            assert_eq!(names(&built(NAME, given)), expect, "{given:?}");
        }
    }

    #[test]
    fn each_test_does_its_work() {
        use BlockIoFileCreation::{During, Earlier};
        use BlockIoOpKind::{Read, Write};
        use OffsetPattern::Sequential;
        let series = built(NAME, &[("t", "4"), ("s", "1001"), ("r", "8k")]);
        for (phase, kind, offsets, made) in [
            ("write", Write, Sequential, During),
            ("rewrite", Write, Sequential, Earlier),
            ("read", Read, Sequential, Earlier),
            ("reread", Read, Sequential, Earlier),
            ("random_read", Read, RANDOM_ORDER, Earlier),
            ("random_write", Write, RANDOM_ORDER, Earlier),
        ] {
            let [group] = groups(&series, phase) else {
                panic!("{phase} has one group");
            };
            assert_eq!(group.mix, [BlockIoMixEntry::of(kind, 8192)], "{phase}");
            assert_eq!(
                (group.offsets.clone(), group.extent.made),
                (offsets, made),
                "{phase}"
            );
            assert_eq!(
                (group.workers, group.depth, group.work),
                (4, 1, BlockIoStopCondition::Pass),
                "{phase}"
            );
            // 1001 KiB hold 125 records of 8 KiB.
            assert_eq!(
                (group.extent.shared, group.extent.bytes),
                (false, 1_024_000),
                "{phase}"
            );
            assert!(group.finish.is_empty() && !group.direct, "{phase}");
            assert_eq!(
                group.after,
                [BlockIoFinalOp::Fsync, BlockIoFinalOp::Close],
                "{phase}"
            );
            // Only these two stop the others at their last record, and let them complete.
            let completes = ["write", "random_write"].contains(&phase);
            assert_eq!(group.breaks_off, !completes, "{phase}");
            let is_last = phase == "random_write";
            assert_eq!(group.rest == Nanos(0), is_last, "{phase}");
            assert!(!group.syncs.each_write, "{phase}");
        }
        assert!(series.phases.iter().all(|phase| phase.stonewall));
    }

    #[test]
    fn flags_do_what_they_say() {
        let all = [
            ("e", "on"),
            ("c", "on"),
            ("o", "on"),
            ("I", "on"),
            ("x", "on"),
            ("i", "1"),
        ];
        let series = built(NAME, &all);
        let group = &groups(&series, "read")[0];
        assert_eq!(group.finish, [BlockIoFinalOp::Fsync, BlockIoFinalOp::Close]);
        assert!(group.syncs.each_write && group.direct);
        assert!(!series.phases[0].stonewall);
        assert_eq!(group.extent.made, BlockIoFileCreation::Before);
        assert_eq!(
            groups(&built(NAME, &[("c", "on")]), "write")[0].finish,
            [BlockIoFinalOp::Close]
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (&[("i", "3")][..], "0 (write), 1 (read) or 2 (random)"),
            (&[("i", "0+x")], "'x'"),
            (&[("i", "+")], "at least one name"),
            (&[("l", "1"), ("u", "4")], "with t"),
            (&[("t", "1"), ("t", "2")], "several workloads"),
            (&[("t", "0")], "from 1 to 256"),
            (&[("s", "2"), ("r", "4")], "for s of iozone"),
            (&[("r", "100B"), ("I", "on")], "512-byte sectors"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
