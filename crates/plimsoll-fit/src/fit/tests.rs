// SPDX-License-Identifier: Apache-2.0
//! Fits of archives that are written here, whole and damaged.

use super::*;
use plimsoll_core::model::ModelFacts;
use plimsoll_core::profile::{DeviceComposition, DeviceKind};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_trace::pcp::{PcpArchive, PcpWriter, PcpWriterOptions};
use std::fs;

const START_NS: u64 = 1_000_000_000_000_000_000;

/// The files of an archive of `sdb`: in each of `intervals` of 10 s 100 reads of 4 KiB, 50 writes of
/// 8 KiB and 2 s of work.
fn archive(intervals: u64) -> Vec<Vec<u8>> {
    let place = tempfile::tempdir().unwrap();
    let base = place.path().join("made");
    let options = PcpWriterOptions {
        host: "testhost".into(),
        zone: "EST-10".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: START_NS,
        volume_bytes: 1 << 20,
    };
    let mut writer = PcpWriter::create(&base, options).unwrap();
    for n in 0..=intervals {
        let counted = DiskCounters {
            reads: 100 * n,
            read_sectors: 800 * n,
            writes: 50 * n,
            write_sectors: 800 * n,
            active_ms: 2_000 * n,
            ..DiskCounters::default()
        };
        let sample = DeviceCounterSample {
            name: "sdb".into(),
            made: DeviceComposition::of(DeviceKind::Disk),
            counted,
        };
        writer
            .record(START_NS + n * 10_000_000_000, &[sample])
            .unwrap();
    }
    writer.finish().unwrap();
    let read = |end: &str| fs::read(place.path().join(format!("made.{end}"))).unwrap();
    vec![read("meta"), read("0")]
}

fn opened(mut files: Vec<Vec<u8>>) -> Option<PcpArchive> {
    let volumes = files.split_off(1);
    PcpArchive::from_bytes("made", files.remove(0), volumes).ok()
}

fn options(window: RecordingWindow) -> FitOptions {
    FitOptions {
        disk: "sdb".into(),
        window,
        name: "made".into(),
        facts: ModelFacts::assumed(1 << 30),
    }
}

#[test]
fn a_fit_gives_a_model_of_exactly_what_was_recorded() {
    let archive = opened(archive(40)).unwrap();
    let fitted = fit(&archive, &options(archive.times().span())).unwrap();
    let cells = fitted.model.envelope.cells();
    assert_eq!(cells.len(), 40);
    for cell in cells {
        assert_eq!((cell.read.ops, cell.read.bytes), (100, 409_600));
        assert_eq!((cell.write.ops, cell.write.bytes), (50, 409_600));
    }
    assert_eq!(fitted.model.source.from, "2001-09-09T11:46:40+10:00");
    assert_eq!(fitted.model.source.host, "testhost");
    assert!(fitted.model.fidelity.iter().all(|line| line.passed()));
    assert!(fitted.model.fidelity.len() >= 12);
    assert!(fitted.warnings.is_empty(), "{:?}", fitted.warnings);
    let near = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-9, "{got}");
    near(fitted.profile.utilisation.unwrap().time, 0.2);
    near(fitted.profile.busy_ms_per_op.unwrap(), 200.0 / 15.0);

    let small = FitOptions {
        facts: ModelFacts::assumed(4_096),
        ..options(archive.times().span())
    };
    let error = fit(&archive, &small).unwrap_err();
    assert!(
        matches!(error, TraceError::WorkingSet { needed: 32_768, .. }),
        "{error}"
    );
    let short = RecordingWindow {
        to_unix_ns: archive.times().span().from_unix_ns,
        ..archive.times().span()
    };
    let error = fit(&archive, &options(short)).unwrap_err();
    assert!(
        matches!(error, TraceError::TooFew { kept: 0, .. }),
        "{error}"
    );
}

#[test]
fn fits_of_ten_thousand_damaged_archives_neither_panic_nor_hang() {
    let whole = archive(8);
    let mut rng = Rng::new(Seed(20_260_101));
    let mut read = 0;
    for _ in 0..10_000 {
        let mut files = whole.clone();
        for _ in 0..1 + rng.below(4) {
            let file = usize::try_from(rng.below(2)).unwrap();
            let at = usize::try_from(rng.below(files[file].len() as u64)).unwrap();
            files[file][at] ^= 1 << rng.below(8);
        }
        let Some(archive) = opened(files) else {
            continue;
        };
        read += 1;
        // A flipped bit of a counter asks for billions of operations; the limit keeps them out.
        drop(fit_within(
            &archive,
            &options(archive.times().span()),
            10_000,
        ));
    }
    // Damage that is always noticed at the door would test nothing behind it.
    assert!(read > 2_000, "{read} were opened");
}

#[test]
fn bursts_that_a_play_spreads_are_told_with_their_dispersion() {
    use plimsoll_core::model::DirectionLoad;
    // Of 100 and none in turn the variance over the mean is 50, and half an interval later 0; of the
    // same in turns of ten it is 50, and later 47.5.
    for (turn, note) in [(1, Some(("50.0", "0.00"))), (10, None)] {
        let cell = |i: u64| ModelInterval {
            length: Nanos::SECOND,
            read: DirectionLoad {
                ops: i / turn % 2 * 100,
                bytes: 0,
            },
            write: DirectionLoad::default(),
        };
        let found = IntervalGrid {
            cells: (0..100).map(cell).collect(),
            ..IntervalGrid::default()
        };
        let told = super::spread_bursts(&found);
        assert_eq!(told.is_some(), note.is_some(), "{told:?}");
        if let (Some(told), Some((own, later))) = (told, note) {
            assert!(told.contains(&format!("is {own} in these")), "{told}");
            assert!(told.contains(&format!("and {later} in those")), "{told}");
        }
    }
}
