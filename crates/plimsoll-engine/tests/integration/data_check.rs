// SPDX-License-Identifier: Apache-2.0
//! Whole runs whose data are verified: on a directory that keeps them, and on one whose file is
//! damaged after the last write and before the read-back.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::data_check::{BadBlocks, DataCheckResult};
use plimsoll_core::event::TrialInterval;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
    BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::{PhaseSpec, PhaseWorkload};
use plimsoll_core::workload::{BlockIoWorkload, PhaseSeries, Workload};
use plimsoll_engine::DataCheck;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::{EngineChoice, prepare};
use plimsoll_engine::{RunOptions, RunResult};

const BYTES: u64 = 1 << 20;
const BLOCKS: u64 = BYTES / 4096;

fn group(turns: &[BlockIoOpKind]) -> BlockIoGroup {
    BlockIoGroup {
        workers: 2,
        depth: 4,
        extent: BlockIoExtent {
            bytes: BYTES,
            region: BlockIoRegion::Part,
            made: BlockIoFileCreation::During,
            ..BlockIoExtent::default()
        },
        mix: turns
            .iter()
            .map(|kind| BlockIoMixEntry::of(*kind, 4096))
            .collect(),
        offsets: OffsetPattern::Sequential,
        direct: false,
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    }
}

fn workload(group: BlockIoGroup) -> Workload {
    Workload::Blocks(BlockIoWorkload {
        name: "w".into(),
        groups: vec![group],
    })
}

fn run(
    path: &Path,
    workload: &Workload,
    data_check: DataCheck,
    on_interval: &mut dyn FnMut(TrialInterval),
) -> RunResult {
    let place = OpenTarget::in_directory(path, 0).unwrap();
    let stop = AtomicBool::new(false);
    let choice = EngineChoice::Auto;
    let mut prepared = prepare(place, workload, None, Seed(1), choice, &stop).unwrap();
    let options = RunOptions {
        length: Nanos(60_000_000_000),
        data_check,
        stamp_seed: Seed(77),
        ..RunOptions::default()
    };
    prepared.run(&options, &stop, on_interval).unwrap()
}

fn only_file(directory: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(directory).unwrap();
    entries.next().unwrap().unwrap().path()
}

#[test]
fn what_a_directory_keeps_is_read_back_whole() {
    for (turns, data_check, checked) in [
        (&[BlockIoOpKind::Write][..], DataCheck::End, BLOCKS),
        (&[BlockIoOpKind::Write][..], DataCheck::Always, BLOCKS),
        // Only with `Always` are the reads of the run itself looked at.
        (&[BlockIoOpKind::Update][..], DataCheck::End, BLOCKS),
        (&[BlockIoOpKind::Update][..], DataCheck::Always, 2 * BLOCKS),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut group = group(turns);
        group.extent.made = BlockIoFileCreation::Before;
        let outcome = run(directory.path(), &workload(group), data_check, &mut |_| ());
        let expect = DataCheckResult {
            written: BLOCKS,
            checked,
            ..DataCheckResult::default()
        };
        assert_eq!(outcome.data_check, Some(expect), "{turns:?} {data_check:?}");
    }
}

#[test]
fn a_run_that_is_not_verified_says_nothing_of_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let plain = workload(group(&[BlockIoOpKind::Write]));
    let outcome = run(directory.path(), &plain, DataCheck::Off, &mut |_| ());
    assert_eq!(outcome.data_check, None);
}

/// Changes the file that was written, at a block.
type Damage = fn(&std::fs::File, u64);

#[test]
fn damage_between_write_and_read_back_is_found_and_named() {
    let wrong: Damage = |file, at| file.write_all_at(&[0x5a; 4096], at).unwrap();
    let stale: Damage = |file, at| file.write_all_at(&[0; 4096], at).unwrap();
    let torn: Damage = |file, at| file.write_all_at(&[0; 512], at).unwrap();
    let misplaced: Damage = |file, at| {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, at + 4096).unwrap();
        file.write_all_at(&block, at).unwrap();
    };
    let none = BadBlocks::default();
    for (damage, expect) in [
        (wrong, BadBlocks { wrong: 1, ..none }),
        (stale, BadBlocks { stale: 1, ..none }),
        (torn, BadBlocks { torn: 1, ..none }),
        (
            misplaced,
            BadBlocks {
                misplaced: 1,
                ..none
            },
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let plain = workload(group(&[BlockIoOpKind::Write]));
        // The last interval comes when the workers have ended, before anything is read back.
        let mut on_interval = |_| {
            let path = only_file(directory.path());
            let file = std::fs::File::options().read(true).write(true).open(path);
            damage(&file.unwrap(), 5 * 4096);
        };
        let outcome = run(directory.path(), &plain, DataCheck::End, &mut on_interval);
        let check = outcome.data_check.unwrap();
        assert_eq!((check.bad, check.checked), (expect, BLOCKS), "{check}");
        assert_eq!(check.findings[0].offset, 5 * 4096, "{check:?}");
        assert!(check.findings[0].file.contains("data"), "{check:?}");
    }
}

#[test]
fn every_phase_of_a_series_is_verified_on_its_own() {
    let phase = |name: &str, made, kind| {
        let mut group = group(&[kind]);
        group.extent.made = made;
        PhaseSpec {
            name: name.into(),
            body: PhaseWorkload::Blocks(BlockIoWorkload {
                name: name.into(),
                groups: vec![group],
            }),
            metric: ComparisonMetric::BytesPerSecond,
            stonewall: false,
            limit: None,
            cold: false,
        }
    };
    let series = Workload::Series(PhaseSeries {
        name: "s".into(),
        classic: None,
        phases: vec![
            phase("write", BlockIoFileCreation::During, BlockIoOpKind::Write),
            phase(
                "rewrite",
                BlockIoFileCreation::Earlier,
                BlockIoOpKind::Update,
            ),
            phase("read", BlockIoFileCreation::Earlier, BlockIoOpKind::Read),
        ],
    });
    let directory = tempfile::tempdir().unwrap();
    let outcome = run(directory.path(), &series, DataCheck::End, &mut |_| ());
    let expect = DataCheckResult {
        written: 2 * BLOCKS,
        checked: 2 * BLOCKS,
        ..DataCheckResult::default()
    };
    assert_eq!(outcome.data_check, Some(expect));
    assert_eq!(outcome.phases.len(), 3);
}

#[test]
fn nothing_can_be_verified_where_nothing_is_kept() {
    let stop = AtomicBool::new(false);
    let plain = workload(group(&[BlockIoOpKind::Write]));
    let choice = EngineChoice::Auto;
    let mut prepared = prepare(OpenTarget::Null, &plain, None, Seed(1), choice, &stop).unwrap();
    let options = RunOptions {
        data_check: DataCheck::End,
        ..RunOptions::default()
    };
    let error = prepared.run(&options, &stop, &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("keeps no data to verify"),
        "{error}"
    );
}
