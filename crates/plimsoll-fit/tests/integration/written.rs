// SPDX-License-Identifier: Apache-2.0
//! Archives that this program writes, judged by PCP's own programs and read back.
//!
//! The judges are `pmlogcheck`, `pmdumplog` and `pmlogsummary` (Debian: `pcp`); where they are
//! absent the tests that need them say that they were skipped.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use plimsoll_core::profile::{DeviceComposition, DeviceKind};
use plimsoll_core::recording::{DeviceCounterSample, DiscardCounters, DiskCounters, FlushCounters};
use plimsoll_fit::describe;
use plimsoll_trace::DeviceChoices;
use plimsoll_trace::pcp::{PcpArchive, PcpWriter, PcpWriterOptions};
use plimsoll_trace::{CounterSource, DiskMetric, IntervalVerdict};

const START_NS: u64 = 1_700_000_000_000_000_000;
const STEP_NS: u64 = 10_000_000_000;
const SAMPLES: u64 = 400;

fn heading() -> PcpWriterOptions {
    PcpWriterOptions {
        host: "testhost".into(),
        zone: "AEST-10".into(),
        zone_name: "Australia/Melbourne".into(),
        process: 4711,
        start_unix_ns: START_NS - 5_000_000,
        volume_bytes: 128 << 10,
    }
}

/// Counters of a disk after `n` intervals: rates that are exact in three digits.
fn counters(n: u64, scale: u64) -> DiskCounters {
    DiskCounters {
        // Above 32 bits, and times that go over 32 bits on the way.
        reads: (1 << 33) + 1_000 * scale * n,
        read_merges: 20 * n,
        read_sectors: 8 * 1_000 * scale * n,
        read_ms: (1 << 32) - 100_000 + 500 * n,
        writes: 50 * n,
        write_merges: 10 * n,
        write_sectors: 16 * 50 * n,
        write_ms: 2_000 * n,
        in_flight: n % 4,
        active_ms: 2_500 * n,
        queue_ms: 4_000 * n,
        discards: (scale == 1).then_some(DiscardCounters {
            discards: 30 * n,
            merges: n,
            sectors: 2_048 * n,
            ms: 10 * n,
        }),
        flushes: (scale == 1).then_some(FlushCounters {
            flushes: 70 * n,
            ms: 20 * n,
        }),
    }
}

/// Three disks; from the 200th sample on the second is gone and a third one there. No end, as
/// after a kill.
fn write(base: &Path) -> PcpWriter {
    let mut writer = PcpWriter::create(base, heading()).unwrap();
    for n in 0..SAMPLES {
        let other = if n < 200 { "sdb" } else { "nvme0n1" };
        let disks = [
            DeviceCounterSample::disk("sda", counters(n, 1)),
            DeviceCounterSample::disk(other, counters(n, 3)),
        ];
        writer.record(START_NS + STEP_NS * n, &disks).unwrap();
    }
    writer
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who judges an archive"
)]
fn judged(program: &str, args: &[&str]) -> Option<String> {
    let ran = Command::new(program).args(args).output();
    let Ok(output) = ran else {
        let skipped = format!("\nSKIPPED: {program} is not installed; install PCP (pcp)\n");
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program}: {out}{err}");
    assert_eq!(err, "", "{program}");
    Some(out)
}

#[test]
fn what_was_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    drop(write(&base));
    assert!(folder.path().join("made.3").is_file(), "several volumes");
    let archive = PcpArchive::open(&base).unwrap();
    assert_eq!(archive.damage(), None);
    assert!(archive.warnings().is_empty(), "{:?}", archive.warnings());
    assert_eq!(archive.about().format, "PCP archive, version 3");
    assert_eq!(archive.about().host, "testhost");
    assert_eq!(archive.label().zone, "AEST-10");
    assert_eq!(archive.disks(), ["sda", "sdb", "nvme0n1"]);
    let all = archive.all_series(&archive.times().span()).unwrap();
    for (series, samples) in all.iter().zip([SAMPLES, 200, SAMPLES - 200]) {
        let scale = if series.disk == "sda" { 1.0 } else { 3.0 };
        for (metric, expect) in [
            (DiskMetric::Reads, 100.0 * scale),
            (DiskMetric::Writes, 5.0),
            (DiskMetric::ReadBytes, 409_600.0 * scale),
            (DiskMetric::WriteBytes, 40_960.0),
            (DiskMetric::Active, 0.25),
            (DiskMetric::QueueTime, 0.4),
            (DiskMetric::WriteTime, 0.2),
        ] {
            let column = series.column(metric).unwrap();
            let averages = column.averages().unwrap();
            assert!((averages.time - expect).abs() < 1e-9, "{metric:?}");
            assert_eq!(averages.count, samples - 1, "{metric:?}");
            assert_eq!(column.dropped(), 0);
        }
        let in_flight = series.column(DiskMetric::InFlight).unwrap();
        assert_eq!(in_flight.samples.len() as u64, samples);
    }
    // The counter of read times went over 32 bits after 200 samples of the first disk.
    let times = all[0].column(DiskMetric::ReadTime).unwrap();
    let wrapped = IntervalVerdict::WentDown { as_wrap: Some(0.5) };
    assert_eq!(times.intervals[199].verdict, wrapped);
    assert_eq!(times.dropped(), 1);
}

#[test]
fn an_archive_cut_anywhere_keeps_the_records_before() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    let mut writer = PcpWriter::create(&base, heading()).unwrap();
    let mut ends = Vec::new();
    let volume = folder.path().join("made.0");
    for n in 0..3 {
        let disks = [DeviceCounterSample::disk("sda", counters(n, 1))];
        writer.record(START_NS + STEP_NS * n, &disks).unwrap();
        ends.push(std::fs::metadata(&volume).unwrap().len());
    }
    writer.mark(START_NS + STEP_NS * 3).unwrap();
    drop(writer);
    let whole = std::fs::read(&volume).unwrap();
    for length in (ends[0]..=whole.len() as u64).step_by(13) {
        std::fs::write(&volume, &whole[..usize::try_from(length).unwrap()]).unwrap();
        let archive = PcpArchive::open(&base).unwrap();
        let records = ends.iter().filter(|end| **end <= length).count();
        let series = archive.series("sda", &archive.times().span()).unwrap();
        let reads = series.column(DiskMetric::Reads).unwrap();
        assert_eq!(reads.intervals.len(), records - 1, "{length} bytes");
        let is_whole = ends.contains(&length) || length == whole.len() as u64;
        assert_eq!(archive.damage().is_none(), is_whole, "{length} bytes");
    }
}

#[test]
fn what_cannot_be_said_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    let long = PcpWriterOptions {
        host: "h".repeat(256),
        ..heading()
    };
    let error = PcpWriter::create(&base, long).unwrap_err().to_string();
    assert!(error.contains("does not fit into its label"), "{error}");
    let mut writer = PcpWriter::create(&base, heading()).unwrap();
    let error = PcpWriter::create(&base, heading()).unwrap_err().to_string();
    assert!(error.contains("made.meta"), "{error}");
    let mut refusal = |at_unix_ns, names: &[&str]| {
        let disk = |name: &&str| DeviceCounterSample::disk(name, counters(1, 1));
        let disks: Vec<_> = names.iter().map(disk).collect();
        let result = writer.record(at_unix_ns, &disks);
        result.map_err(|error| error.to_string())
    };
    assert!(refusal(START_NS - STEP_NS, &["sda"]).is_err());
    assert!(refusal(START_NS, &["sda", "sda"]).is_err());
    assert!(refusal(START_NS, &[""]).is_err());
    refusal(START_NS, &["sda"]).unwrap();
    let error = refusal(START_NS, &["sda"]).unwrap_err();
    assert!(error.contains("not later than the one before"), "{error}");
}

#[test]
fn pcps_own_programs_accept_and_understand_it() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    write(&base).finish().unwrap();
    let base = base.to_str().unwrap();
    let Some(complaints) = judged("pmlogcheck", &["-w", base]) else {
        return;
    };
    assert_eq!(complaints, "", "pmlogcheck finds nothing");
    let label = judged("pmdumplog", &["-L", base]).unwrap();
    for part in [
        "Format Version 3",
        "from host testhost",
        "AEST-10",
        "Melbourne",
        "4711",
    ] {
        assert!(label.contains(part), "{part} in {label}");
    }
    let instances = judged("pmdumplog", &["-i", base]).unwrap();
    assert!(instances.contains("or \"nvme0n1\""), "{instances}");
    let index = judged("pmdumplog", &["-t", base]).unwrap();
    assert!(index.lines().count() > 6, "{index}");
    let summary = judged("pmlogsummary", &["-b", base]).unwrap();
    let figure = |metric: &str| {
        let line = summary.lines().find(|line| line.starts_with(metric));
        let line = line.unwrap_or_else(|| panic!("{metric} in {summary}"));
        line.strip_prefix(metric).unwrap().trim().to_owned()
    };
    // The stochastic average and that over time.
    for (metric, expect) in [
        ("disk.dev.read [\"sda\"]", "100.000 100.000 count / sec"),
        ("disk.dev.read [\"sdb\"]", "300.000 300.000 count / sec"),
        ("disk.dev.read [\"nvme0n1\"]", "300.000 300.000 count / sec"),
        ("disk.dev.write [\"sda\"]", "5.000 5.000 count / sec"),
        (
            "disk.dev.read_bytes [\"sda\"]",
            "400.000 400.000 Kbyte / sec",
        ),
        (
            "disk.dev.write_bytes [\"sdb\"]",
            "40.000 40.000 Kbyte / sec",
        ),
        ("disk.dev.avactive [\"sda\"]", "0.250 0.250 none"),
        ("disk.dev.aveq [\"sda\"]", "0.400 0.400 none"),
        ("disk.dev.write_rawactive [\"sda\"]", "0.200 0.200 none"),
        ("disk.dev.read_rawactive [\"sda\"]", "0.050 0.050 none"),
        (
            "disk.dev.discard_bytes [\"sda\"]",
            "102.400 102.400 Kbyte / sec",
        ),
        ("disk.dev.flush [\"sda\"]", "7.000 7.000 count / sec"),
        ("disk.dev.inflight [\"sda\"]", "1.500 1.496 none"),
        ("disk.all.read ", "400.000 400.000 count / sec"),
        ("disk.all.write_bytes ", "80.000 80.000 Kbyte / sec"),
        ("disk.all.avactive ", "0.500 0.500 none"),
        ("disk.all.flush ", "7.000 7.000 count / sec"),
    ] {
        assert_eq!(figure(metric), expect, "{metric}");
    }
}

/// Two ways to one disk, another disk with a partition, a volume, an array, and from the 20th sample
/// on a second partition. The volume has the name of the array.
fn write_layers(base: &Path) {
    let made = |name: &str, made: DeviceComposition, scale: u64, n: u64| DeviceCounterSample {
        name: name.into(),
        made,
        counted: counters(n, scale),
    };
    let mut writer = PcpWriter::create(base, heading()).unwrap();
    for n in 0..40 {
        let both = DeviceComposition {
            layer: DeviceKind::Multipath,
            paths: ["sda", "sdb"].map(Into::into).to_vec(),
        };
        let mut found = vec![
            DeviceCounterSample::disk("sda", counters(n, 1)),
            DeviceCounterSample::disk("sdb", counters(n, 3)),
            DeviceCounterSample::disk("vda", counters(n, 2)),
            made("vda1", DeviceComposition::of(DeviceKind::Partition), 2, n),
            made(
                "data",
                DeviceComposition::of(DeviceKind::DeviceMapper),
                4,
                n,
            ),
            made("data", DeviceComposition::of(DeviceKind::Md), 5, n),
            made("36001", both, 4, n),
        ];
        if n >= 20 {
            found.push(made(
                "vda2",
                DeviceComposition::of(DeviceKind::Partition),
                7,
                n,
            ));
        }
        writer.record(START_NS + STEP_NS * n, &found).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn layers_are_told_apart_and_no_byte_counts_twice() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    write_layers(&base);
    let archive = PcpArchive::open(&base).unwrap();
    assert_eq!(archive.damage(), None);
    assert!(archive.warnings().is_empty(), "{:?}", archive.warnings());
    let all = [
        "sda",
        "sdb",
        "vda",
        "vda1",
        "vda2",
        "data",
        "data (md)",
        "36001",
    ];
    assert_eq!(archive.disks(), all);
    let choices = DeviceChoices::of(&archive);
    assert_eq!(choices.disks, ["vda", "36001"]);
    let aside = [
        "disk",
        "disk",
        "partition",
        "partition",
        "device mapper",
        "md",
    ];
    let layers: Vec<&str> = choices
        .set_aside
        .iter()
        .map(|(_, layer)| layer.name())
        .collect();
    assert_eq!(layers, aside);
    let window = archive.times().span();
    let told = describe(&archive, None, &window).unwrap();
    // IOPS of the disk that is reached on two paths, and of the other one.
    assert!((told.devices.ops_per_s.unwrap() - (400.0 + 5.0 + 200.0 + 5.0)).abs() < 1e-6);
    assert_eq!(told.profile.disk, "36001");
    assert_eq!(told.devices.busiest().unwrap().busy, None);
    for (disk, reads) in [("data", 400.0), ("data (md)", 500.0), ("vda2", 700.0)] {
        let series = archive.series(disk, &window).unwrap();
        let column = series.column(DiskMetric::Reads).unwrap();
        let averages = column.averages().unwrap();
        assert!((averages.time - reads).abs() < 1e-9, "{disk}");
    }
}

#[test]
fn pcps_own_programs_find_the_layers_where_they_look_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("made");
    write_layers(&base);
    let base = base.to_str().unwrap();
    let Some(complaints) = judged("pmlogcheck", &["-w", base]) else {
        return;
    };
    assert_eq!(complaints, "", "pmlogcheck finds nothing");
    let summary = judged("pmlogsummary", &["-b", base]).unwrap();
    for line in [
        "disk.partitions.read [\"vda1\"] 200.000 200.000 count / sec",
        "disk.partitions.read [\"vda2\"] 700.000 700.000 count / sec",
        "disk.dm.write_bytes [\"data\"] 40.000 40.000 Kbyte / sec",
        "disk.md.aveq [\"data\"] 0.400 0.400 none",
        "disk.wwid.read [\"36001\"] 400.000 400.000 count / sec",
        // Whole disks alone.
        "disk.all.read  600.000 600.000 count / sec",
    ] {
        assert!(summary.contains(line), "{line} in {summary}");
    }
    let described = judged("pmdumplog", &["-d", base]).unwrap();
    for metric in [
        "54.14 (disk.dm.read_rawactive)",
        "92.3 (disk.wwid.scsi_paths)",
    ] {
        assert!(described.contains(metric), "{metric} in {described}");
    }
    let values = judged("pmdumplog", &["-a", base]).unwrap();
    assert!(values.contains("value \"sda sdb\""), "{values}");
}
