// SPDX-License-Identifier: Apache-2.0
//! The reader against archives built in memory, whole and damaged.

use std::io::Write;

use plimsoll_core::rng::{Rng, Seed};

use super::PcpArchive;
use super::handmade::{
    BYTE_UNITS, COUNT_UNITS, COUNTER, F32, F64, I32, I64, INSTANT, KIB_UNITS, MS_UNITS,
    PcpTestArchive, PcpTestValues, U32, U64,
};
use crate::TraceError;
use crate::recording::CounterSource;
use crate::series::{DiskMetric, DiskSeries, IntervalVerdict};

const READ: u32 = 0x0f00_0004;
const WRITE: u32 = 0x0f00_0005;
const READ_BYTES: u32 = 0x0f00_0026;
const WRITE_BYTES: u32 = 0x0f00_0027;
const ACTIVE: u32 = 0x0f00_002e;
const QUEUE: u32 = 0x0f00_0065;
const START_S: u32 = 1_000_000_000;

fn described(zone: &str) -> PcpTestArchive {
    describe(PcpTestArchive::new(zone))
}

fn describe(mut writer: PcpTestArchive) -> PcpTestArchive {
    writer.describe("disk.dev.read", READ, [U64, COUNTER, COUNT_UNITS]);
    writer.other_meta();
    writer.describe("disk.dev.write", WRITE, [U64, COUNTER, COUNT_UNITS]);
    writer.describe("disk.dev.read_bytes", READ_BYTES, [U32, COUNTER, KIB_UNITS]);
    writer.describe(
        "disk.dev.write_bytes",
        WRITE_BYTES,
        [U64, COUNTER, BYTE_UNITS],
    );
    writer.describe("disk.dev.avactive", ACTIVE, [U32, COUNTER, MS_UNITS]);
    writer.describe("disk.dev.queue_len", QUEUE, [U32, INSTANT, COUNT_UNITS]);
    writer.instances(START_S, &[(0, "sda"), (7, "sdb")]);
    writer
}

/// One sample of `sdb` (instance 7) after `n` intervals of 10 s: 100 reads of 4 KiB, 50 writes of
/// 8192 bytes and 2 s of work in each, and `sda` beside it to be told apart.
fn sample(writer: &mut PcpTestArchive, n: u32) {
    let out =
        |rise: u64| PcpTestValues::OutOfLine(vec![(0, 1), (7, (1 << 40) + rise * u64::from(n))]);
    let place = |rise: u32| PcpTestValues::InPlace(vec![(0, 1), (7, 1_000 + rise * n)]);
    writer.record(
        START_S + 10 * n,
        &[
            (0x1234, PcpTestValues::Error(-12_357)),
            (READ, out(100)),
            (WRITE, out(50)),
            (READ_BYTES, place(400)),
            (WRITE_BYTES, out(50 * 8_192)),
            (ACTIVE, place(2_000)),
            (QUEUE, PcpTestValues::InPlace(vec![(7, n % 3)])),
        ],
    );
}

/// Eight samples of two disks.
pub(crate) fn made() -> PcpTestArchive {
    let mut writer = described("UTC");
    (0..8).for_each(|n| sample(&mut writer, n));
    writer
}

fn whole(archive: &PcpArchive) -> DiskSeries {
    archive.series("sdb", &archive.times().span()).unwrap()
}

fn time_average(series: &DiskSeries, metric: DiskMetric) -> f64 {
    series.averages(metric).unwrap().time
}

fn near(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{got} is not {expected}"
    );
}

#[test]
fn values_in_and_out_of_line_come_in_base_units_over_several_volumes() {
    for version in [2, 3] {
        let mut writer = describe(PcpTestArchive::of(version, "EST-10"));
        (0..3).for_each(|n| sample(&mut writer, n));
        writer.next_volume("EST-10");
        (3..7).for_each(|n| sample(&mut writer, n));
        let archive = writer.open().unwrap();
        assert_eq!(archive.disks(), ["sda", "sdb"]);
        assert_eq!(archive.label().host, "testhost");
        assert_eq!(archive.label().zone, "EST-10");
        assert_eq!(
            archive.about().format,
            format!("PCP archive, version {version}")
        );
        assert_eq!(archive.damage(), None);
        check_samples(&archive, 6);
    }
}

fn check_samples(archive: &PcpArchive, intervals: usize) {
    let series = whole(archive);
    near(time_average(&series, DiskMetric::Reads), 10.0);
    near(time_average(&series, DiskMetric::Writes), 5.0);
    near(time_average(&series, DiskMetric::ReadBytes), 40_960.0);
    near(time_average(&series, DiskMetric::WriteBytes), 40_960.0);
    near(time_average(&series, DiskMetric::Active), 0.2);
    let queue = series.averages(DiskMetric::QueueLength).unwrap();
    near(queue.stochastic, 6.0 / 7.0);
    near(queue.time, 1.0);
    let reads = series.column(DiskMetric::Reads).unwrap();
    assert_eq!(reads.intervals.len(), intervals);
    assert_eq!(
        archive.all_series(&archive.times().span()).unwrap()[1],
        series
    );
}

#[test]
fn what_is_too_much_for_memory_is_read_again_with_the_same_result() {
    let mut writer = describe(PcpTestArchive::of(3, "UTC"));
    (0..7).for_each(|n| sample(&mut writer, n));
    let open =
        |room| PcpArchive::keeping("made", writer.meta.clone(), writer.volumes.clone(), room);
    let (kept, read_again) = (open(1_000).unwrap(), open(20).unwrap());
    assert_eq!(kept.parts[0].kept.as_ref().map(Vec::len), Some(77));
    assert!(read_again.parts[0].kept.is_none());
    check_samples(&read_again, 6);
    let all = |archive: &PcpArchive| archive.all_series(&archive.times().span()).unwrap();
    assert_eq!(all(&kept), all(&read_again));
}

#[test]
fn version_3_says_only_what_changed_of_the_disks() {
    let mut writer = describe(PcpTestArchive::of(3, "UTC"));
    writer.changes(START_S + 15, &[(7, None), (9, Some("sdb"))]);
    writer.changes(START_S + 35, &[(11, Some("nvme0n1"))]);
    let pairs = [
        vec![(0, 5), (7, 0)],
        vec![(0, 6), (7, 100)],
        // From here on sdb is 9; 7 is nothing.
        vec![(0, 7), (7, 50_000), (9, 200)],
        vec![(0, 8), (7, 90_000), (9, 300)],
        vec![(0, 9), (9, 400), (11, 1)],
    ];
    for (at_s, pairs) in (START_S..).step_by(10).zip(pairs) {
        writer.record(at_s, &[(READ_BYTES, PcpTestValues::InPlace(pairs))]);
    }
    let archive = writer.open().unwrap();
    assert_eq!(archive.disks(), ["sda", "sdb", "nvme0n1"]);
    let all = archive.all_series(&archive.times().span()).unwrap();
    let intervals = |place: usize| {
        let column = all[place].column(DiskMetric::ReadBytes).unwrap();
        let verdicts = column.intervals.iter().map(|i| i.verdict);
        verdicts.collect::<Vec<IntervalVerdict>>()
    };
    let kept = IntervalVerdict::Kept;
    assert_eq!(intervals(0), [kept; 4]);
    assert_eq!(intervals(1), [kept, IntervalVerdict::Gap, kept, kept]);
    assert_eq!(intervals(2), []);
}

#[test]
fn a_metric_that_appears_late_has_only_its_own_intervals() {
    for version in [2, 3] {
        let mut writer = PcpTestArchive::of(version, "UTC");
        writer.describe("disk.dev.read", READ, [U64, COUNTER, COUNT_UNITS]);
        let reads = |n: u32| {
            (
                READ,
                PcpTestValues::OutOfLine(vec![(7, 100 * u64::from(n))]),
            )
        };
        // Before the first list of instances, the first applies.
        writer.record(START_S, &[reads(0)]);
        writer.instances(START_S + 1, &[(7, "sdb")]);
        writer.record(START_S + 10, &[reads(1)]);
        writer.describe(
            "disk.dev.write_bytes",
            WRITE_BYTES,
            [U32, COUNTER, KIB_UNITS],
        );
        for n in 2..5 {
            let written = PcpTestValues::InPlace(vec![(7, 10 * n)]);
            writer.record(START_S + 10 * n, &[(WRITE_BYTES, written), reads(n)]);
        }
        let series = whole(&writer.open().unwrap());
        near(time_average(&series, DiskMetric::Reads), 10.0);
        near(time_average(&series, DiskMetric::WriteBytes), 1_024.0);
        let intervals = |metric| series.column(metric).unwrap().intervals.len();
        assert_eq!(intervals(DiskMetric::Reads), 4);
        assert_eq!(intervals(DiskMetric::WriteBytes), 2);
    }
}

#[test]
fn a_volume_behind_a_damaged_one_is_read_after_a_gap() {
    let mut writer = described("UTC");
    (0..4).for_each(|n| sample(&mut writer, n));
    writer.next_volume("UTC");
    (4..7).for_each(|n| sample(&mut writer, n));
    writer.next_volume("UTC");
    (7..9).for_each(|n| sample(&mut writer, n));
    let short = writer.volumes[0].len() - 3;
    writer.volumes[0].truncate(short);
    writer.volumes[1][7] = 9;
    let archive = writer.open().unwrap();
    assert_eq!(archive.damage().unwrap().file, "made.0");
    assert!(archive.warnings()[0].contains("made.1 is damaged at byte 4"));
    let series = whole(&archive);
    let reads = &series.column(DiskMetric::Reads).unwrap().intervals;
    let verdicts: Vec<IntervalVerdict> = reads.iter().map(|i| i.verdict).collect();
    let kept = IntervalVerdict::Kept;
    assert_eq!(verdicts, [kept, kept, IntervalVerdict::Gap, kept]);
}

#[test]
fn missing_volumes_are_told_wherever_they_were_and_are_gaps() {
    let mut writer = described("UTC");
    for volume in 0..3 {
        if volume > 0 {
            writer.next_volume("UTC");
        }
        (4 * volume..4 * volume + 4).for_each(|n| sample(&mut writer, n));
    }
    for (missing, verdicts, part) in [
        (0, 7, "volume 0 is missing before"),
        (1, 7, "volume 1 is missing before"),
        (2, 7, "volume 2 is missing behind"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let write = |suffix: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(format!("a.{suffix}")), bytes).unwrap();
        };
        write("meta", &writer.meta);
        for (number, bytes) in writer.volumes.iter().enumerate() {
            if number != missing {
                write(&number.to_string(), bytes);
            }
        }
        // Behind the label a single entry, of the last volume.
        let mut index = vec![0; 132];
        for word in [START_S + 110, 0, 2, 0, 0] {
            index.extend(word.to_be_bytes());
        }
        write("index", &index);
        let archive = PcpArchive::open(&folder.path().join("a")).unwrap();
        let told = archive.warnings().join("; ");
        assert!(told.contains(part), "{told}");
        let reads = whole(&archive);
        let reads = &reads.column(DiskMetric::Reads).unwrap().intervals;
        assert_eq!(reads.len(), verdicts, "{missing}");
        let gaps = reads
            .iter()
            .filter(|i| i.verdict == IntervalVerdict::Gap)
            .count();
        assert_eq!(gaps, usize::from(missing == 1));
    }
}

#[test]
fn a_mark_drops_the_interval_across_it() {
    let mut writer = described("UTC");
    (0..3).for_each(|n| sample(&mut writer, n));
    writer.mark(START_S + 21);
    // The host was off for a while and its counters went on from elsewhere.
    (100..103).for_each(|n| sample(&mut writer, n));
    let series = whole(&writer.open().unwrap());
    let reads = series.column(DiskMetric::Reads).unwrap();
    let verdicts: Vec<IntervalVerdict> = reads.intervals.iter().map(|i| i.verdict).collect();
    let kept = IntervalVerdict::Kept;
    assert_eq!(verdicts, [kept, kept, IntervalVerdict::Gap, kept, kept]);
    near(time_average(&series, DiskMetric::Reads), 10.0);
}

#[test]
fn values_that_cannot_be_meant_are_missing_and_nothing_else_is() {
    let mut writer = PcpTestArchive::new("UTC");
    writer.describe("disk.dev.read", READ, [I64, COUNTER, COUNT_UNITS]);
    writer.describe("disk.dev.write", WRITE, [F64, COUNTER, COUNT_UNITS]);
    writer.describe("disk.dev.avactive", ACTIVE, [I32, COUNTER, MS_UNITS]);
    writer.describe("disk.dev.queue_len", QUEUE, [F32, INSTANT, COUNT_UNITS]);
    writer.instances(START_S, &[(7, "sdb")]);
    for n in 0..6u32 {
        let bad = n == 2;
        let (reads, busy) = if bad { (-1, -1) } else { (100, 2_000) };
        let (writes, queue) = if bad {
            (f64::NAN, f32::INFINITY)
        } else {
            (f64::from(50 * n), 1.5)
        };
        let reads = i64::from(n) * reads;
        let busy = i32::try_from(n).unwrap() * busy;
        let long = |value: u64| PcpTestValues::OutOfLine(vec![(7, value)]);
        let short = |value: u32| PcpTestValues::InPlace(vec![(7, value)]);
        writer.record(
            START_S + 10 * n,
            &[
                (READ, long(reads.cast_unsigned())),
                (WRITE, long(writes.to_bits())),
                (ACTIVE, short(busy.cast_unsigned())),
                (QUEUE, short(queue.to_bits())),
            ],
        );
    }
    let series = whole(&writer.open().unwrap());
    assert_eq!(series.damage, None);
    near(time_average(&series, DiskMetric::Reads), 10.0);
    near(time_average(&series, DiskMetric::Writes), 5.0);
    near(time_average(&series, DiskMetric::Active), 0.2);
    near(time_average(&series, DiskMetric::QueueLength), 1.5);
    for metric in [DiskMetric::Reads, DiskMetric::Writes, DiskMetric::Active] {
        assert_eq!(series.column(metric).unwrap().intervals.len(), 4);
    }
    let queue = series.column(DiskMetric::QueueLength).unwrap();
    assert_eq!(queue.samples.len(), 5);
}

#[test]
fn a_counter_that_went_down_is_dropped_and_its_wrap_is_told() {
    let mut writer = described("UTC");
    for (n, kib) in [u32::MAX - 99, 300, 700].into_iter().enumerate() {
        let at_s = START_S + 10 * u32::try_from(n).unwrap();
        writer.record(
            at_s,
            &[(READ_BYTES, PcpTestValues::InPlace(vec![(7, kib)]))],
        );
    }
    let series = whole(&writer.open().unwrap());
    let bytes = series.column(DiskMetric::ReadBytes).unwrap();
    let as_wrap = Some(400.0 * 1024.0);
    assert_eq!(
        bytes.intervals[0].verdict,
        IntervalVerdict::WentDown { as_wrap }
    );
    near(bytes.averages().unwrap().time, 40.0 * 1024.0);
}

#[test]
fn an_instance_that_changes_its_number_stays_the_same_disk_with_a_gap() {
    let mut writer = described("UTC");
    writer.instances(START_S + 15, &[(7, "sda"), (9, "sdb")]);
    let pairs = [
        vec![(7, 0)],
        vec![(7, 100)],
        // From here on 7 is another disk.
        vec![(7, 50_000), (9, 200)],
        vec![(7, 90_000), (9, 300)],
    ];
    for (at_s, pairs) in (START_S..).step_by(10).zip(pairs) {
        writer.record(at_s, &[(READ_BYTES, PcpTestValues::InPlace(pairs))]);
    }
    let series = whole(&writer.open().unwrap());
    let bytes = series.column(DiskMetric::ReadBytes).unwrap();
    assert_eq!(bytes.dropped(), 1);
    near(bytes.averages().unwrap().time, 10.0 * 1024.0);
}

#[test]
fn what_comes_before_damage_is_kept_and_the_place_is_named() {
    let mut writer = described("UTC");
    (0..6).for_each(|n| sample(&mut writer, n));
    let whole_length = writer.volumes[0].len();
    let record_length = (whole_length - 132) / 6;
    writer.volumes[0].truncate(whole_length - 17);
    let series = whole(&writer.open().unwrap());
    let damage = series.damage.clone().unwrap();
    assert_eq!(damage.file, "made.0");
    assert_eq!(damage.offset, (132 + 5 * record_length) as u64);
    assert_eq!(series.column(DiskMetric::Reads).unwrap().intervals.len(), 4);

    // A set that claims more values than its record has, in the third record.
    let mut writer = described("UTC");
    (0..6).for_each(|n| sample(&mut writer, n));
    let count_at = 132 + 2 * record_length + 16 + 8 + 4;
    writer.volumes[0][count_at..count_at + 4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    let series = whole(&writer.open().unwrap());
    let damage = series.damage.clone().unwrap();
    assert_eq!(damage.offset, (132 + 2 * record_length) as u64);
    assert_eq!(series.column(DiskMetric::Reads).unwrap().intervals.len(), 1);
}

#[test]
fn archives_that_cannot_be_read_say_why() {
    let text = |writer: &PcpTestArchive| writer.open().unwrap_err().to_string();
    let mut writer = described("UTC");
    assert!(text(&writer).contains("a label but no records"));
    writer.volumes[0][7] = 3;
    assert!(text(&writer).contains("made.0 at byte 0: the label's length is not 808"));
    writer.volumes[0][7] = 9;
    assert!(text(&writer).contains("made.0 at byte 4: this is no PCP archive"));
    writer.volumes[0].truncate(100);
    writer.volumes[0][7] = 2;
    assert!(text(&writer).contains("byte 0: the label's length"));
    writer.volumes.clear();
    assert!(matches!(writer.open(), Err(TraceError::NoVolume { .. })));
    writer.meta[7] = 1;
    assert!(text(&writer).contains("made.meta: it is a version 1 archive"));
}

#[test]
fn any_file_of_an_archive_names_it_compressed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    // A base name that itself ends like a volume, with a neighbour to be told apart.
    let path = |suffix: &str| folder.path().join(format!("2018.10.00{suffix}"));
    let mut writer = described("UTC");
    (0..3).for_each(|n| sample(&mut writer, n));
    writer.next_volume("UTC");
    (3..5).for_each(|n| sample(&mut writer, n));
    std::fs::write(path(".meta"), &writer.meta).unwrap();
    std::fs::write(path(".0"), &writer.volumes[0]).unwrap();
    std::fs::write(path(".1"), &writer.volumes[1]).unwrap();
    std::fs::write(path("-b.7"), "not ours").unwrap();
    let check = |suffixes: &[&str]| {
        for suffix in suffixes {
            let archive = PcpArchive::open(&path(suffix)).unwrap();
            let reads = whole(&archive);
            assert_eq!(reads.columns[0].intervals.len(), 4, "{suffix}");
            assert_eq!(reads.damage, None);
        }
    };
    check(&["", ".0", ".1", ".meta", ".index"]);
    // Each file may be compressed or not. A suffix may lie: the bytes count.
    let xz = |bytes: &[u8]| {
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
        xz.write_all(bytes).unwrap();
        xz.finish().unwrap()
    };
    let compressed = xz(&writer.volumes[1]);
    std::fs::write(path(".1.gz"), &compressed).unwrap();
    std::fs::remove_file(path(".1")).unwrap();
    std::fs::write(path(".meta.xz"), xz(&writer.meta)).unwrap();
    std::fs::remove_file(path(".meta")).unwrap();
    check(&["", ".0", ".1.gz", ".meta.xz", ".meta"]);
    // Cut short inside its compressed bytes: what comes out of it is kept.
    std::fs::write(path(".1.gz"), &compressed[..compressed.len() - 40]).unwrap();
    let archive = PcpArchive::open(&path("")).unwrap();
    let damage = archive.damage().unwrap();
    assert!(damage.file.ends_with(".1.gz"), "{damage}");
    assert!(damage.what.contains("cannot be read on"), "{damage}");
    assert!(whole(&archive).columns[0].intervals.len() >= 2);

    let error = PcpArchive::open(&folder.path().join("none.0")).unwrap_err();
    assert!(matches!(error, TraceError::NoArchive { .. }), "{error}");
}

/// Three archives of a host in a folder, the last one first by name, with a folio of two.
fn three_archives() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, version, from) in [("c", 2, 0), ("b", 3, 10), ("a", 2, 20)] {
        let mut writer = describe(PcpTestArchive::of(version, "UTC"));
        (from..from + 3).for_each(|n| sample(&mut writer, n));
        let path = |suffix| folder.path().join(format!("{name}.{suffix}"));
        std::fs::write(path("meta"), &writer.meta).unwrap();
        std::fs::write(path("0"), &writer.volumes[0]).unwrap();
    }
    let text = "PCPFolio\nVersion: 1\n# words\nCreated: on testhost\n\
                Archive:\ttesthost ./c\nArchive: testhost  b\n";
    std::fs::write(folder.path().join("two.folio"), text).unwrap();
    folder
}

#[test]
fn archives_of_a_folder_or_a_folio_are_one_recording_with_gaps() {
    let folder = three_archives();
    let verdicts = |archive: &PcpArchive| -> Vec<IntervalVerdict> {
        let series = whole(archive);
        let reads = series.column(DiskMetric::Reads).unwrap();
        reads.intervals.iter().map(|i| i.verdict).collect()
    };
    let (kept, gap) = (IntervalVerdict::Kept, IntervalVerdict::Gap);
    let folio = PcpArchive::open(&folder.path().join("two.folio")).unwrap();
    assert_eq!(verdicts(&folio), [kept, kept, gap, kept, kept]);
    assert_eq!(folio.disks(), ["sda", "sdb"]);
    let all = PcpArchive::open(folder.path()).unwrap();
    let expect = [kept, kept, gap, kept, kept, gap, kept, kept];
    assert_eq!(verdicts(&all), expect);
    assert_eq!(all.about().format, "3 PCP archives, the first of version 2");
    assert_eq!(
        all.times().span().to_unix_ns,
        u64::from(START_S + 220) * 1_000_000_000
    );
    // One that cannot be read does not hide the others.
    std::fs::write(folder.path().join("b.meta"), "nothing").unwrap();
    let rest = PcpArchive::open(folder.path()).unwrap();
    assert_eq!(verdicts(&rest), [kept, kept, gap, kept, kept]);
    assert!(
        rest.warnings()[0].contains("b.meta"),
        "{:?}",
        rest.warnings()
    );
}

#[test]
fn archives_that_are_not_one_recording_are_refused_by_name() {
    let folder = three_archives();
    let path = |name: &str| folder.path().join(name);
    let refusal = |name: &str| PcpArchive::open(&path(name)).unwrap_err().to_string();
    // The host's name begins at byte 24 of a label.
    let mut meta = std::fs::read(path("a.meta")).unwrap();
    meta[24] = b'b';
    std::fs::write(path("a.meta"), &meta).unwrap();
    let text = refusal("");
    assert!(
        text.contains("of several hosts") && text.contains("a (host bes"),
        "{text}"
    );
    std::fs::copy(path("c.meta"), path("a.meta")).unwrap();
    std::fs::copy(path("c.0"), path("a.0")).unwrap();
    assert!(refusal("").contains("are of the same time"));

    for (text, expect) in [
        (
            "PCPFolio\nVersion: 2\n",
            "at byte 9: the folio is not of version 1",
        ),
        (
            "PCPFolio\nVersion: 1\nArchive: x\n",
            "at byte 20: a line 'Archive:' lacks",
        ),
        ("PCPFolio\nVersion: 1\nArchive: h none\n", "none.meta"),
        ("PCPFolio\nVersion: 1\n", "find a PCP archive"),
        ("PCPFolios\nVersion: 1\n", "does not begin with"),
        ("something else", "find a PCP archive"),
    ] {
        std::fs::write(path("bad"), text).unwrap();
        let error = refusal("bad");
        assert!(error.contains(expect), "{text}: {error}");
    }
}

#[test]
fn times_are_those_of_the_archives_zone() {
    // 2001-09-09 01:46:40 UTC is 11:46:40 in a zone ten hours east.
    let mut writer = described("EST-10");
    (0..361).for_each(|n| sample(&mut writer, n));
    let archive = writer.open().unwrap();
    assert!(archive.warnings().is_empty());
    let at = |s: u32| u64::from(s) * 1_000_000_000;
    let window = archive
        .times()
        .window(Some("12:00"), Some("12:30:10"))
        .unwrap();
    assert_eq!(window.from_unix_ns, at(START_S + 800));
    assert_eq!(window.to_unix_ns, at(START_S + 800 + 1_810));
    let full = archive
        .times()
        .window(Some("2001-09-09 12:00:00"), None)
        .unwrap();
    assert_eq!(full.to_unix_ns, at(START_S + 3_600));
    // The minute in which the archive starts is inside it.
    assert!(archive.times().window(Some("11:46"), Some("12:47")).is_ok());
    for (from, to) in [
        ("02:00", "03:00"),
        ("12:30", "12:00"),
        ("2001-09-08 12:00", "12:00"),
    ] {
        let error = archive.times().window(Some(from), Some(to)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("covers 2001-09-09T11:46:40+10:00 to 2001-09-09T12:46:40+10:00"),
            "{text}"
        );
    }
    let error = archive
        .times()
        .window(Some("noon"), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("read the time 'noon'"), "{error}");
}

#[test]
fn a_zone_nobody_knows_becomes_utc_with_a_warning() {
    let mut writer = described("Atlantis/Main");
    (0..3).for_each(|n| sample(&mut writer, n));
    let archive = writer.open().unwrap();
    assert!(archive.warnings()[0].contains("'Atlantis/Main' is not understood"));
    assert_eq!(
        archive.times().civil(archive.times().span().from_unix_ns),
        "2001-09-09T01:46:40+00:00"
    );
}

/// Reads all there is to read: nothing may panic or hang, whatever comes out.
fn exhaust(meta: Vec<u8>, volumes: Vec<Vec<u8>>) -> bool {
    let Ok(archive) = PcpArchive::from_bytes("made", meta, volumes) else {
        return false;
    };
    for disk in archive.disks() {
        if let Ok(series) = archive.series(&disk, &archive.times().span()) {
            for column in &series.columns {
                assert!(
                    column
                        .intervals
                        .iter()
                        .all(|i| i.to_unix_ns > i.from_unix_ns),
                    "an interval has a length"
                );
            }
        }
    }
    true
}

#[test]
fn twenty_thousand_damaged_archives_neither_panic_nor_hang() {
    let opened: u32 = [2, 3].into_iter().map(damage_ten_thousand).sum();
    // Damage that is always noticed at the door would test nothing behind it.
    assert!(opened > 5_000, "{opened} were opened");
}

fn damage_ten_thousand(version: u32) -> u32 {
    let mut writer = describe(PcpTestArchive::of(version, "EST-10"));
    (0..4).for_each(|n| sample(&mut writer, n));
    writer.mark(START_S + 35);
    writer.next_volume("EST-10");
    (4..8).for_each(|n| sample(&mut writer, n));
    writer.instances(START_S + 25, &[(0, "sda"), (7, "sdb"), (8, "sdc")]);
    if version == 3 {
        writer.changes(START_S + 45, &[(8, None), (9, Some("sdd"))]);
    }
    let mut rng = Rng::new(Seed(20_260_101));
    let mut opened = 0;
    for _ in 0..10_000 {
        let mut files = vec![writer.meta.clone()];
        files.extend(writer.volumes.iter().cloned());
        for _ in 0..1 + rng.below(4) {
            damage(&mut files, &mut rng);
        }
        let volumes = files.split_off(1);
        opened += u32::from(exhaust(files.remove(0), volumes));
    }
    opened
}

fn damage(files: &mut [Vec<u8>], rng: &mut Rng) {
    let pick = |rng: &mut Rng, n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    let file = pick(rng, files.len());
    let bytes = &mut files[file];
    if bytes.len() < 8 {
        return;
    }
    let at = pick(rng, bytes.len() - 4);
    match rng.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + 4)),
        // Words that lie about lengths, counts and places.
        2 | 3 => {
            let lies = [0, 1, 0xffff_ffff, 0x7fff_ffff, 0x8000_0000, 20, 12, 132];
            let lie: u32 = lies[pick(rng, lies.len())];
            let at = at / 4 * 4;
            bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
        }
        _ => bytes[at] ^= 1 << rng.below(8),
    }
}
