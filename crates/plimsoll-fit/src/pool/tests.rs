// SPDX-License-Identifier: Apache-2.0
//! Summaries against profiles, and pools in any order.
use super::*;
use plimsoll_core::model::ModelFacts;
use plimsoll_core::partial::RecordingSteps;
use plimsoll_core::profile::PoolProfile;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_trace::open;
use std::fmt::Write;
use std::path::PathBuf;

const SECOND: u64 = 1_000_000_000;

/// Recordings in a folder of their own.
struct Recordings(tempfile::TempDir);

impl Recordings {
    fn new() -> Recordings {
        Recordings(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// As the program does it, with the name as the digest.
    fn summary(&self, name: &str, text: &str, settings: &PoolSettings) -> RecordingSummary {
        let path = self.path(name, text);
        let found = summarise(&path, open(&path).unwrap(), settings).unwrap();
        RecordingSummary {
            sha256: name.into(),
            ..found
        }
    }
}

/// Counters of two disks and a volume on them, from `at` on, `n` intervals of ten seconds.
fn counters(at: u64, n: u64, rate: u64) -> String {
    let mut text = String::new();
    for i in 0..=n {
        let ops = i * rate;
        let _ = writeln!(text, "{}", at + i * 10);
        for (minor, disk, factor) in [(0, "sda", 1), (16, "sdb", 3), (0, "dm-0", 4)] {
            let ops = ops * factor;
            let _ = writeln!(
                text,
                "{} {minor} {disk} {ops} 0 {} {ops} {} 0 {} {ops} 0 {} {}",
                if disk == "dm-0" { 253 } else { 8 },
                ops * 8,
                2 * ops,
                ops * 32,
                i * 100,
                ops * 2
            );
        }
    }
    text
}

/// Requests of one disk from 1 November 2026 on.
fn requests(after_s: u64, n: u64) -> String {
    let mut text = String::new();
    for i in 0..n {
        // 100 ns since 1601.
        let at = 134_063_424_000_000_000 + after_s * 10_000_000 + i * 2_500_000;
        let way = if i % 4 == 0 { "Write" } else { "Read" };
        let bytes = if i % 2 == 0 { 4096 } else { 24_576 };
        let _ = writeln!(text, "{at},h{after_s},0,{way},{},{bytes},900", i * 65_536);
    }
    text
}

fn pooled(summaries: &[RecordingSummary]) -> PoolProfile {
    let mut pool = RecordingPool::new(PoolSettings::default());
    for summary in summaries {
        pool.add(summary).unwrap();
    }
    pool.finish().unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1e-9)
}

#[test]
fn a_summary_has_the_load_that_the_profile_of_the_recording_has() {
    let recordings = Recordings::new();
    let text = counters(1_795_220_400, 60, 70);
    let summary = recordings.summary("a", &text, &PoolSettings::default());
    assert_eq!(summary.counted_again, 1, "the volume is left out");
    let profile = pooled(&[summary]);
    let plimsoll_trace::OpenRecording::Counters(counters) =
        open(&recordings.path("a", &text)).unwrap()
    else {
        panic!("these are counters");
    };
    let span = counters.times().span();
    let alone = crate::describe(&*counters, None, &span).unwrap();
    assert!(close(profile.ops_per_s, alone.devices.ops_per_s.unwrap()));
    assert!(close(
        profile.bytes_per_s,
        alone.devices.bytes_per_s.unwrap()
    ));
    for member in &profile.busiest_devices {
        let name = member.device.as_ref().unwrap();
        let same = alone.devices.devices.iter().find(|d| d.name == *name);
        let same = same.unwrap();
        for (figure, expect) in [
            (member.ops_per_s, same.ops_per_s),
            (member.read_share, same.read_share),
            (member.busy, same.busy),
            (member.queue, same.queue),
            (member.response_ms, same.response_ms),
        ] {
            assert!(close(figure.unwrap(), expect.unwrap()), "{name}");
        }
    }
    // 600 seconds with 4 × 3 × 7 operations in each.
    let together = profile.together.unwrap();
    assert!(close(together.ops_per_s.unwrap().time, 84.0));
}

#[test]
fn requests_are_counted_by_kind_size_and_time() {
    let recordings = Recordings::new();
    let summary = recordings.summary("r", &requests(0, 4_000), &PoolSettings::default());
    let profile = pooled(std::slice::from_ref(&summary));
    let found = profile.requests.unwrap();
    let counts: Vec<u64> = found.kinds.iter().map(|kind| kind.requests).collect();
    assert_eq!(counts, [3_000, 1_000]);
    let sizes: Vec<(u64, u64)> = found
        .sizes
        .iter()
        .map(|size| (size.bytes_max, size.requests))
        .collect();
    assert_eq!(sizes, [(4096, 1_000), (32_768, 2_000), (4096, 1_000)]);
    assert_eq!(found.gaps.unwrap().max_ns, 250_000_000);
    // Four in each second, of which the last has as many.
    let peak = profile.busiest_devices[0].peak_ops_per_s;
    assert!(close(peak, 4.0), "{peak}");
    assert_eq!(summary.steps.at.len(), 2, "1000 seconds in steps of 600");
    let ops: u64 = summary.steps.reads.iter().sum();
    assert_eq!(ops, 3_000);
    assert_eq!(summary.steps.reads[0], 1_800);
}

/// A recording that says little, of random figures.
fn random(rng: &mut Rng, number: u64) -> RecordingSummary {
    let mut draw = |below: u64| rng.below(below);
    let (from, length) = (draw(40) * 600, 600 + draw(20) * 77);
    let from_unix_ns = 1_795_220_400 * SECOND + from * SECOND;
    let has_date = draw(9) > 0;
    let mut summary = RecordingSummary {
        sha256: format!("{number:064x}"),
        name: format!("r{}", draw(50)),
        host: ["a", "b", "c", ""][usize::try_from(draw(4)).unwrap()].into(),
        has_date,
        from_unix_ns,
        to_unix_ns: from_unix_ns + length * SECOND,
        notes: (0..draw(3)).map(|i| format!("note {i}")).collect(),
        ..RecordingSummary::default()
    };
    if draw(12) == 0 {
        summary.unread = Some("it is not there".into());
        return summary;
    }
    for disk in 0..=draw(3) {
        let total = |sum: u64| {
            Some(plimsoll_core::partial::CounterTotal {
                sum,
                over_ns: length * SECOND,
            })
        };
        summary.devices.push(DeviceSummary {
            name: format!("sd{disk}"),
            intervals: length / 10,
            intervals_dropped: draw(3),
            peak_milli_ops_per_s: draw(1_000_000),
            totals: plimsoll_core::partial::CounterTotals {
                reads: total(draw(1 << 40)),
                writes: total(draw(1 << 40)),
                read_bytes: total(draw(1 << 50)),
                write_bytes: total(draw(1 << 50)),
                active_ns: total(draw(length * SECOND)),
                ..Default::default()
            },
        });
    }
    for _ in 0..draw(40) {
        summary.interval_rates.record(Nanos(draw(1 << 30)));
    }
    if has_date {
        let first = from_unix_ns / (600 * SECOND);
        let at: Vec<u64> = (first..first + 1 + length / 600).collect();
        let mut column = |below| at.iter().map(|_| draw(below)).collect();
        summary.steps = RecordingSteps {
            reads: column(1 << 30),
            read_bytes: column(1 << 45),
            writes: column(1 << 30),
            write_bytes: column(1 << 45),
            device_ns: column(600 * SECOND),
            at,
        };
    }
    summary
}

fn shuffled<T: Clone>(rng: &mut Rng, values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    for end in (1..values.len()).rev() {
        let other = usize::try_from(rng.below(end as u64 + 1)).unwrap();
        values.swap(end, other);
    }
    values
}

#[test]
fn any_order_and_any_repetition_gives_the_same_bytes() {
    for seed in 0..40 {
        let mut rng = Rng::new(Seed(seed));
        let mut all: Vec<RecordingSummary> = (0..60).map(|i| random(&mut rng, i)).collect();
        let expect = serde_json::to_string(&pooled(&all)).unwrap();
        // Some come again, by another name.
        for i in 0..7 {
            let mut again = all[i * 5].clone();
            let first = again.clone();
            again.name.insert(0, 'z');
            again.notes.push("read elsewhere".into());
            all.extend([again, first]);
        }
        for _ in 0..5 {
            let order = shuffled(&mut rng, &all);
            let found = serde_json::to_string(&pooled(&order)).unwrap();
            assert_eq!(found, expect, "seed {seed}");
        }
    }
}

#[test]
fn one_recording_with_two_results_is_refused_in_either_order() {
    let mut rng = Rng::new(Seed(7));
    let one = RecordingSummary {
        unread: None,
        ..random(&mut rng, 1)
    };
    let mut two = one.clone();
    two.counted_again += 1;
    for [first, second] in [[&one, &two], [&two, &one]] {
        let mut pool = RecordingPool::new(PoolSettings::default());
        assert_eq!(pool.add(first).unwrap(), PoolAddition::Counted);
        let error = pool.add(second).unwrap_err().to_string();
        assert!(error.contains("other figures"), "{error}");
    }
}

#[test]
fn the_model_of_several_is_their_sum_and_does_not_depend_on_their_order() {
    let recordings = Recordings::new();
    let settings = PoolSettings {
        step_s: 60,
        ..PoolSettings::default()
    };
    let one = recordings.summary("1", &counters(1_795_220_400, 60, 70), &settings);
    let two = recordings.summary("2", &counters(1_795_220_430, 60, 10), &settings);
    let fitted = |order: [&RecordingSummary; 2]| {
        let mut pool = RecordingPool::new(settings.clone());
        for summary in order {
            pool.add(summary).unwrap();
        }
        pool.fit("m", ModelFacts::assumed(1 << 30)).unwrap().model
    };
    let model = fitted([&one, &two]);
    assert_eq!(fitted([&two, &one]), model);
    let cells = model.envelope.cells();
    assert_eq!(cells.len(), 11, "the last of them is 30 s long");
    assert_eq!(cells[10].length, Nanos(30 * SECOND));
    let ops: u64 = cells
        .iter()
        .map(|cell| cell.read.ops + cell.write.ops)
        .sum();
    // Two disks (1 and 3 shares), reads and twice as many writes.
    assert_eq!(ops, 60 * 80 * 4 * 3);
}

#[test]
fn a_sum_too_large_to_be_played_says_so() {
    let recordings = Recordings::new();
    let settings = PoolSettings::default();
    let mut large = recordings.summary("1", &counters(1_795_220_400, 120, 70), &settings);
    large.steps.reads.fill(60_000_000_000);
    large.steps.read_bytes.fill(60_000_000_000 * 4096);
    let mut pool = RecordingPool::new(settings);
    pool.add(&large).unwrap();
    let fitted = pool.fit("m", ModelFacts::assumed(1 << 30)).unwrap();
    let said = fitted.warnings.join("\n");
    assert!(said.contains("over the first 0 of"), "{said}");
    assert_eq!(fitted.model.envelope.cells()[0].read.ops, 60_000_000_000);
}

#[test]
fn what_cannot_be_added_up_is_refused_by_name() {
    let recordings = Recordings::new();
    let settings = PoolSettings::default();
    let dated = recordings.summary("1", &counters(1_795_220_400, 60, 70), &settings);
    let model = |summary: RecordingSummary| {
        let mut pool = RecordingPool::new(settings.clone());
        pool.add(&dated).unwrap();
        pool.add(&summary).unwrap();
        let fitted = pool.fit("m", ModelFacts::assumed(1 << 30));
        fitted.map(|_| ()).unwrap_err().to_string()
    };
    let other = |change: fn(&mut RecordingSummary)| {
        let mut summary = dated.clone();
        (summary.sha256, summary.name) = ("2".into(), "other".into());
        change(&mut summary);
        model(summary)
    };
    let error = other(|summary| summary.has_date = false);
    assert!(
        error.contains("other") && error.contains("no date"),
        "{error}"
    );
    let error = other(|summary| summary.devices[0].totals.writes = None);
    assert!(error.contains("sda lacks"), "{error}");
    let error = RecordingPool::new(settings.clone()).finish().unwrap_err();
    assert!(error.to_string().contains("no recordings"), "{error}");
}

#[test]
fn settings_choose_disks_and_a_missing_one_is_an_error() {
    let recordings = Recordings::new();
    let settings = |disk: &str| PoolSettings {
        disk: Some(disk.into()),
        ..PoolSettings::default()
    };
    let text = counters(1_795_220_400, 60, 70);
    let names = |summary: &RecordingSummary| -> Vec<String> {
        summary.devices.iter().map(|d| d.name.clone()).collect()
    };
    assert_eq!(
        names(&recordings.summary("a", &text, &settings("dm-0"))),
        ["dm-0"]
    );
    for (name, text) in [("a", text), ("r", requests(0, 100))] {
        let path = recordings.path(name, &text);
        let error = summarise(&path, open(&path).unwrap(), &settings("sdz")).unwrap_err();
        assert!(error.to_string().contains("sdz"), "{error}");
    }
}
