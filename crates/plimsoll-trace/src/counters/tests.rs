// SPDX-License-Identifier: Apache-2.0
//! A small recording of every format, and what must be read of it.

use plimsoll_core::rng::{Rng, Seed};

use super::strangers::{FREEBSD, ZPOOL};
use super::*;
use crate::requests::{is_one as is_requests, mutate};
use crate::series::{CounterInterval, IntervalVerdict};

pub(super) const DISKSTATS: &str = "1795220132.5\n   \
8 0 sda 100 0 2000 50 10 0 160 5 0 40 55 1 0 8 2 3 4\n   \
8 1 sdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
1795220133.5\n   \
8 0 sda 300 0 6000 150 20 0 320 10 2 540 1055 2 0 16 2 5 4\n   \
8 1 sdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
damaged\n\
1795220134.5\n   \
8 0 sda 250 0 7000 160 30 0 480 15 0 640 1155 2 0 16 2 5 4\n";

const DISKSTATS_ROWS: &str = "\
2026-11-21 00:15:32 8 0 sda 100 0 2000 50 10 0 160 5 0 40 55\n\
2026-11-21 00:15:33 8 0 sda 300 0 6000 150 20 0 320 10 2 540 1055\n";

pub(super) const IOSTAT: &str = "Linux 6.18.44 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n\
11/21/26 00:15:32\n\
avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          \
32.91    4.66   15.55    0.68    0.09   46.12\n\n\
Device  r/s rkB/s rrqm/s %rrqm r_await w/s wkB/s w_await d/s dkB/s f/s aqu-sz %util\n\
sda  9999.00 8042.27 0.00 0.00 0.92 165.38 6959.03 1.39 0.00 720.57 0.18 0.40 3.96\n\n\n\
11/21/26 00:15:34\n\
avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          \
62.00    0.00   38.00    0.00    0.00    0.00\n\n\
Device  r/s rkB/s rrqm/s %rrqm r_await w/s wkB/s w_await d/s dkB/s f/s aqu-sz %util\n\
sda  100.00 1000.00 0.00 0.00 0.50 5.00 40.00 2.00 1.00 4.00 1.00 0.06 25.00\n\
damaged 1.0\n\n";

/// Of version 9, in a locale with a decimal comma, without times.
const IOSTAT_OLD: &str = "Linux 2.6.32 (db) \t11/21/2026 \t_x86_64_\t(2 CPU)\n\n\
Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
sda               0,00     0,00    9,00    9,00     9,00     9,00     9,00     9,00    9,00   9,00   9,00\n\n\
Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
sda               0,00     0,00  100,00    5,00  2000,00    80,00     9,00     0,06    0,50   9,00  25,00\n";

pub(super) const IOSTAT_JSON: &str = r#"{"sysstat": {"hosts": [{"nodename": "vm", "date": "11/21/26", "statistics": [
 {"timestamp": "11/21/26 00:15:32", "avg-cpu": {"user": 1.0},
  "disk": [{"disk_device": "sda", "r/s": 9999.0, "w/s": 0.0, "rkB/s": 0.0, "wkB/s": 0.0}]},
 {"timestamp": "11/21/26 00:15:34", "avg-cpu": {"user": 1.0},
  "disk": [{"disk_device": "sda", "r/s": 100.0, "w/s": 5.0, "d/s": 1.0, "f/s": 1.0, "rkB/s": 1000.0,
   "wkB/s": 40.0, "dkB/s": 4.0, "r_await": 0.5, "w_await": 2.0, "aqu-sz": 0.06, "util": 25.0}]}
]}]}}"#;

pub(super) const SADF_JSON: &str = r#"{"sysstat": {"hosts": [{"nodename": "vm", "timezone": "UTC", "statistics": [
 {"timestamp": {"date": "2026-11-21", "time": "00:15:34", "utc": 1, "interval": 2},
  "disk": [{"disk-device": "sda", "tps": 105.0, "rd_sec": 2000.0, "rkB": 1000.0, "wkB": 40.0,
   "dkB": 4.0, "avgqu-sz": 0.06, "aqu-sz": 0.06, "await": 0.5, "util-percent": 25.0}]}
]}]}}"#;

const SADF: &str = "# hostname;interval;timestamp;CPU;%user\n\
vm;2;2026-11-21 00:15:34 UTC;-1;12.0\n\
# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n\
vm;2;2026-11-21 00:15:34 UTC;sda;105.00;1000.00;40.00;4.00;9.00;0.06;0.50;25.00\n\
vm;-1;2026-11-21 00:16:00 UTC;LINUX-RESTART\t(2 CPU)\n\
vm;2;2026-11-21 00:16:10 UTC;sda;105.00;1000.00;40.00;4.00;9.00;0.06;0.50;25.00\n";

/// The figures of [`SADF`], as sar prints them among others.
const SAR: &str = "Linux 6.18.44 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n\
00:15:32          CPU     %user     %idle\n\
00:15:34          all     12.00     88.00\n\n\
00:15:32          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
00:15:34          sda    105.00   1000.00     40.00      4.00      9.00      0.06      0.50     25.00\n\n\
00:16:00     LINUX RESTART\t(2 CPU)\n\n\
00:16:08          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
00:16:10          sda    105.00   1000.00     40.00      4.00      9.00      0.06      0.50     25.00\n\n\
Average:          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
Average:          sda    105.00   1000.00     40.00      4.00      9.00      0.06      0.50     25.00\n";

/// Over midnight, for people, with the disk last.
pub(super) const SAR_PRETTY: &str = "Linux 6.18.44 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n\
11:59:58 PM       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV\n\
12:00:00 AM    105.00     1.0M     40.0k      4.0k      9.0k      0.06      0.50     25.0% sda\n\
12:00:00 AM      1.00      0.0k      4.0k      0.0k      4.0k      0.00      0.50      0.1% sdb\n\n\
12:00:00 AM       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV\n\
12:00:01 AM     10.00      0.0k     40.0k      4.0k      9.0k      0.06      0.50     25.0% sda\n\
damaged\n\
12:00:01 AM     10.00      0.0k\n";

const SADF_PAIRS: &str = "vm\t2\t2026-11-21 00:15:34 UTC\tall\t%user\t12.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\t-\ttps\t999.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\ttps\t105.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\trkB/s\t1000.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\twkB/s\t40.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\tdkB/s\t4.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\tareq-sz\t9.00\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\taqu-sz\t0.06\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\tawait\t0.50\n\
vm\t2\t2026-11-21 00:15:34 UTC\tsda\t%util\t25.00\n";

const SADF_XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE sysstat PUBLIC "DTD v3.11 sysstat //EN"
"http://pagesperso-orange.fr/sebastien.godard/sysstat-3.11.dtd">
<sysstat xmlns="http://pagesperso-orange.fr/sebastien.godard/sysstat">
	<host nodename="vm">
		<statistics>
			<timestamp date="2026-11-21" time="00:15:34" utc="1" interval="2">
				<cpu-load><cpu number="all" user="12.00" idle="88.00"/></cpu-load>
				<disk per="second">
					<disk-device dev="sda" tps="105.00" rd_sec="2000.00" wr_sec="80.00" dc_sec="8.00" rkB="1000.00" wkB="40.00" dkB="4.00" avgrq-sz="18.00" areq-sz="9.00" avgqu-sz="0.06" aqu-sz="0.06" await="0.50" util-percent="25.00"/>
				</disk>
			</timestamp>
		</statistics>
	</host>
</sysstat>
"#;

pub(super) const PERFMON: &str = "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\
\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Disk Reads/sec\",\"\\\\DB1\\PhysicalDisk(_Total)\\Disk Reads/sec\",\
\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Disk Writes/sec\",\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Disk Read Bytes/sec\",\
\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Disk Write Bytes/sec\",\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Avg. Disk sec/Read\",\
\"\\\\DB1\\PhysicalDisk(0 C: D:)\\% Idle Time\",\"\\\\DB1\\PhysicalDisk(0 C: D:)\\Current Disk Queue Length\"\r\n\
\"11/21/2026 01:15:32.500\",\" \",\" \",\" \",\" \",\" \",\" \",\" \",\"0\"\r\n\
\"11/21/2026 01:15:34.500\",\"100,0\",\"999\",\"5\",\"1024000\",\"40960\",\"0,0005\",\"75\",\"3\"\r\n\
\"11/21/2026 01:15:36.500\",\"100,0\",\"999\"\r\n";

const ESXTOP: &str = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx1\\Memory\\Machine MBytes\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\Commands/sec\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\Reads/sec\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\Writes/sec\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\MBytes Read/sec\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\MBytes Written/sec\",\
\"\\\\esx1\\Physical Disk SCSI Device(naa.6000c29)\\Average Guest MilliSec/Command\"\n\
\"11/21/2026 00:15:32\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"\n\
\"11/21/2026 00:15:34\",\"1\",\"105\",\"100\",\"5\",\"1.5\",\"0.5\",\"2.0\"\n";

/// Output of programs on one machine (`tests/integration/programs.rs`).
macro_rules! written {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/programs/", $name))
    };
}

const TABLE: &str = "time;disk;reads_total;read_bytes_total;write_await_ms;writes/s\n\
2026-11-21T00:15:32Z;sda;100;4096;;\n\
2026-11-21T00:15:34Z;sda;300;1028096;2,0;2,5\n";

const TABLE_JSON: &str = "{\"@timestamp\": 1795220132000, \"device\": \"sda\", \"reads_total\": 100}\n\
{\"@timestamp\": 1795220134000, \"device\": \"sda\", \"reads_total\": 300}\n";

const CLOUD: &str = "{\"Label\": \"VolumeReadOps\", \"Datapoints\": [\n\
{\"Timestamp\": \"2026-11-21T00:16:00+00:00\", \"Sum\": 200.0, \"Unit\": \"Count\"},\n\
{\"Timestamp\": \"2026-11-21T00:15:00+00:00\", \"Sum\": 100.0, \"Unit\": \"Count\"}]}\n";

/// Without its file it is refused, whatever is changed in it.
const MAPPED: &str = "recording = \"f.csv\"\n[time]\ncolumn = \"t\"\n";

/// Six samples of four metrics, as Prometheus 2.42 answers.
pub(super) const PROMETHEUS: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"node_disk_reads_completed_total","device":"sda","instance":"db1:9100","job":"node"},"values":[[1700000000.781,"100"],[1700000015.781,"400"],[1700000030.781,"650"]]},{"metric":{"__name__":"node_disk_read_bytes_total","device":"sda","instance":"db1:9100","job":"node"},"values":[[1700000000.781,"409600"],[1700000015.781,"1638400"],[1700000030.781,"2662400"]]},{"metric":{"__name__":"node_disk_read_time_seconds_total","device":"sda","instance":"db1:9100","job":"node"},"values":[[1700000000.781,"0.1"],[1700000015.781,"0.5670000000000001"],[1700000030.781,"1.334"]]},{"metric":{"__name__":"node_disk_io_now","device":"sda","instance":"db1:9100","job":"node"},"values":[[1700000000.781,"0"],[1700000015.781,"3"],[1700000030.781,"1"]]}]}}
"#;

pub(super) const OPENMETRICS: &str = "# HELP node_disk_reads_completed The total number of reads.
# TYPE node_disk_reads_completed counter
node_disk_reads_completed_total{device=\"sda\"} 10 1700000000
node_disk_reads_completed_total{device=\"sda\"} 40 1700000015
# TYPE node_disk_written_bytes counter
node_disk_written_bytes_total{device=\"sda\"} 1.024e+03 1700000000
node_disk_written_bytes_total{device=\"sda\"} 2048 1700000015
# EOF
";

/// Two points of Telegraf's `diskio` behind the heading of an export.
pub(super) const INFLUX_LINES: &str = "# DML
# CONTEXT-DATABASE:telegraf
diskio,host=db\\ 1,name=sda reads=100i,read_bytes=4096i,read_time=500i,io_time=50i,iops_in_progress=0i,serial=\"a b\" 1700000000000000000
cpu,host=db\\ 1 usage_idle=93.5 1700000000000000000
diskio,host=db\\ 1,name=sda reads=400i,read_bytes=8192i,read_time=2000i,io_time=300i,iops_in_progress=2i,serial=\"a b\" 1700000010000000000
";

pub(super) const INFLUX_CSV: &str = "#group,false,false,false,false,true,true,true,true
#datatype,string,long,dateTime:RFC3339,long,string,string,string,string
#default,_result,,,,,,,
,result,table,_time,_value,_field,_measurement,host,name
,,0,2026-11-20T00:00:00Z,100,reads,diskio,\"db, 1\",sda
,,0,2026-11-20T00:00:10Z,400,reads,diskio,\"db, 1\",sda

,result,table,_time,_value,_field,_measurement,host,name
,,1,2026-11-20T00:00:00Z,3,writes,diskio,\"db, 1\",sda
,,1,2026-11-20T00:00:10Z,10,writes,diskio,\"db, 1\",sda
";

pub(crate) const ALL: [(&str, &str); 31] = [
    ("CSV with columns by name", TABLE),
    (
        "JSON with keys by name (lines, lists, CloudWatch)",
        TABLE_JSON,
    ),
    ("JSON with keys by name (lines, lists, CloudWatch)", CLOUD),
    ("/proc/diskstats series", DISKSTATS),
    ("/proc/diskstats series", DISKSTATS_ROWS),
    ("iostat text", IOSTAT),
    ("iostat text", IOSTAT_OLD),
    ("sysstat JSON (iostat -x -o JSON, sadf -j)", IOSTAT_JSON),
    ("sysstat JSON (iostat -x -o JSON, sadf -j)", SADF_JSON),
    ("sadf -d text", SADF),
    ("sadf -p text", SADF_PAIRS),
    ("sysstat XML (sadf -x)", SADF_XML),
    ("sar -d text", SAR),
    ("sar -d text", SAR_PRETTY),
    ("perfmon or esxtop CSV (PDH 4.0)", PERFMON),
    ("perfmon or esxtop CSV (PDH 4.0)", ESXTOP),
    ("iostat text", FREEBSD),
    ("iostat text", ZPOOL),
    ("iostat text", written!("collectl.txt")),
    ("atop text (-P DSK)", written!("atop.txt")),
    ("nmon file", written!("nmon.nmon")),
    ("collectl plot text (-P)", written!("collectl-date.txt")),
    ("dstat or dool CSV", written!("dstat.csv")),
    ("dstat or dool CSV", written!("dstat-epoch.csv")),
    ("dstat or dool CSV", written!("dool.csv")),
    ("vmstat -d series", written!("vmstat.txt")),
    ("/proc/self/mountstats series", written!("mountstats.txt")),
    (influx::LINES.name, INFLUX_LINES),
    (influx::CSV.name, INFLUX_CSV),
    (prometheus::JSON.name, PROMETHEUS),
    (prometheus::TEXT.name, OPENMETRICS),
];

pub(super) fn open(text: &str) -> CounterFile {
    CounterFile::from_bytes("f", text.into()).unwrap()
}

pub(super) fn series(file: &CounterFile, disk: &str) -> DiskSeries {
    file.series(disk, &file.times().span()).unwrap()
}

/// Figures that were kept of a disk, as sums over the whole recording.
pub(super) fn sums(text: &str, disk: &str) -> Vec<(DiskMetric, f64)> {
    let columns = series(&open(text), disk).columns;
    let sum = |c: &crate::series::MetricSeries| {
        let total: f64 = c.intervals.iter().map(|i| i.difference).sum();
        (c.metric, (total * 1e6).round() / 1e6)
    };
    columns
        .iter()
        .filter(|c| c.metric.is_counter())
        .map(sum)
        .collect()
}

use DiskMetric::{
    Active, DiscardBytes, Discards, Flushes, Idle, Ops, QueueTime, ReadBytes, ReadMerges, ReadTime,
    Reads, TotalTime, WriteBytes, WriteMerges, WriteTime, Writes,
};

#[test]
fn every_fixture_is_of_exactly_its_own_format() {
    for (name, text) in ALL {
        let is = |format: &&CounterFormat| (format.is)(text.as_bytes());
        let found: Vec<_> = FORMATS
            .iter()
            .filter(is)
            .map(|format| format.name)
            .collect();
        assert_eq!(found, [name]);
        let input = RecordingInput::new("f".into(), Box::new(text.as_bytes())).unwrap();
        assert!(!is_requests(&input), "{name}");
        assert_eq!(open(text).about().format, name);
    }
}

#[test]
fn diskstats_are_totals_and_one_that_goes_down_is_dropped() {
    let file = open(DISKSTATS);
    assert_eq!(file.disks(), ["sda", "sdb"]);
    let told = file.warnings().join("; ");
    assert!(told.contains("1 lines were not understood"), "{told}");
    let series = series(&file, "sda");
    let reads = &series.column(Reads).unwrap().intervals;
    assert_eq!(reads.len(), 2);
    assert!((reads[0].difference - 200.0).abs() < 1e-9 && reads[0].counts());
    assert!(matches!(
        reads[1].verdict,
        IntervalVerdict::WentDown { as_wrap: Some(_) }
    ));
    let queue = &series.column(DiskMetric::InFlight).unwrap().samples;
    assert_eq!(queue.len(), 3);
    let of = |metric| series.averages(metric).unwrap().time;
    let expect = [
        (ReadBytes, 1_280_000.0),
        (WriteBytes, 81_920.0),
        (ReadTime, 0.055),
        (WriteTime, 0.005),
        (Active, 0.3),
        (QueueTime, 0.55),
        (Discards, 0.5),
        (DiscardBytes, 2_048.0),
        (Flushes, 1.0),
    ];
    for (metric, rate) in expect {
        assert!(
            (of(metric) - rate).abs() < 1e-9,
            "{metric:?} {}",
            of(metric)
        );
    }
    let carries = file.about().carries;
    assert!(carries.direction && carries.queue == RecordingDetail::Mean);
    let old = sums(DISKSTATS_ROWS, "sda");
    assert_eq!(old[0], (Reads, 200.0));
    assert!(!old.iter().any(|(metric, _)| *metric == Discards));
}

#[test]
fn rates_of_iostat_become_differences_and_the_first_report_is_left_out() {
    let expect = [
        (Reads, 200.0),
        (Writes, 10.0),
        (ReadBytes, 2_048_000.0),
        (WriteBytes, 81_920.0),
        (Discards, 2.0),
        (DiscardBytes, 8_192.0),
        (Flushes, 2.0),
        (ReadMerges, 0.0),
        (Active, 0.5),
        (QueueTime, 0.12),
        (ReadTime, 0.1),
        (WriteTime, 0.02),
    ];
    assert_eq!(sums(IOSTAT, "sda"), expect);
    let without: Vec<_> = expect
        .into_iter()
        .filter(|(m, _)| *m != ReadMerges)
        .collect();
    assert_eq!(sums(IOSTAT_JSON, "sda"), without);
    let file = open(IOSTAT);
    assert_eq!(file.about().host, "vm");
    assert_eq!(
        file.times().civil(file.times().span().to_unix_ns),
        "2026-11-21T00:15:34+00:00"
    );
    let told = file.warnings().join("; ");
    for part in ["no time zone", "1 lines were not understood"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn reports_without_times_count_as_a_second_and_say_so() {
    let expect = [
        (Reads, 100.0),
        (Writes, 5.0),
        (ReadBytes, 1_024_000.0),
        (WriteBytes, 40_960.0),
        (ReadMerges, 0.0),
        (WriteMerges, 0.0),
        (Active, 0.25),
        (QueueTime, 0.06),
        (TotalTime, 0.0525),
    ];
    assert_eq!(sums(IOSTAT_OLD, "sda"), expect);
    let told = open(IOSTAT_OLD).warnings().join("; ");
    assert!(told.contains("iostat -xt"), "{told}");
}

#[test]
fn sadf_does_not_tell_reads_from_writes_and_a_restart_is_a_gap() {
    let expect = [
        (ReadBytes, 2_048_000.0),
        (WriteBytes, 81_920.0),
        (Ops, 210.0),
        (DiscardBytes, 8_192.0),
        (Active, 0.5),
        (QueueTime, 0.12),
        (TotalTime, 0.105),
    ];
    for text in [SADF_JSON, SADF_PAIRS, SADF_XML] {
        let mut found = sums(text, "sda");
        // Their order is that of the columns.
        found.sort_by_key(|(metric, _)| expect.iter().position(|(known, _)| known == metric));
        assert_eq!(found, expect, "{text}");
        let file = open(text);
        assert_eq!(
            (file.about().host.as_str(), file.disks()),
            ("vm", vec!["sda".into()])
        );
        assert_eq!(file.times().span().to_unix_ns, 1_795_220_134_000_000_000);
        assert_eq!(file.warnings(), [] as [&str; 0]);
    }
    for text in [SADF, SAR] {
        let file = open(text);
        assert!(!file.about().carries.direction);
        let ops = series(&file, "sda").column(Ops).unwrap().intervals.clone();
        let kept: Vec<bool> = ops.iter().map(CounterInterval::counts).collect();
        assert_eq!(kept, [true, false, true], "{text}");
        assert_eq!(file.disks(), ["sda"]);
        let span = file.times().span();
        assert_eq!(span.from_unix_ns, 1_795_220_132_000_000_000);
        assert_eq!(span.to_unix_ns, 1_795_220_170_000_000_000);
    }
}

#[test]
fn sar_goes_on_behind_midnight_and_prints_for_people() {
    let file = open(SAR_PRETTY);
    let span = file.times().span();
    assert_eq!(span.from_unix_ns, 1_795_305_598_000_000_000);
    assert_eq!(span.to_unix_ns, 1_795_305_601_000_000_000);
    assert_eq!(file.disks(), ["sda", "sdb"]);
    let found = sums(SAR_PRETTY, "sda");
    assert!(found.contains(&(ReadBytes, 2.0 * 1_048_576.0)), "{found:?}");
    assert!(found.contains(&(Ops, 220.0)), "{found:?}");
    let told = file.warnings().join("; ");
    assert!(told.contains("2 lines were not understood"), "{told}");
}

#[test]
fn a_log_of_iostat_whose_beginning_is_cut_off_has_the_times_of_the_others() {
    let more = IOSTAT
        .replace("00:15:34", "00:15:36")
        .replace("00:15:32", "00:15:34");
    let reports = more.find("11/21/26 00:15:34").unwrap();
    // The first report lacks its time.
    let (_, cut) = IOSTAT.split_once("00:15:32\n").unwrap();
    let file = open(&format!("{cut}{}", &more[reports..]));
    let span = file.times().span();
    assert_eq!(span.to_unix_ns - span.from_unix_ns, 2_000_000_000);
    let told = file.warnings().join("; ");
    assert!(!told.contains("no times"), "{told}");
}

#[test]
fn perfmon_and_esxtop_name_their_columns() {
    let expect = [
        (Reads, 200.0),
        (Writes, 10.0),
        (ReadBytes, 2_048_000.0),
        (WriteBytes, 81_920.0),
        (Idle, 1.5),
        (ReadTime, 0.1),
    ];
    assert_eq!(sums(PERFMON, "0 C: D:"), expect);
    let file = open(PERFMON);
    assert_eq!(file.times().span().from_unix_ns, 1_795_220_132_500_000_000);
    assert_eq!(
        file.times().civil(1_795_220_132_500_000_000),
        "2026-11-21T01:15:32+01:00"
    );
    assert_eq!((file.about().host.as_str(), file.disks().len()), ("DB1", 1));
    let told = file.warnings().join("; ");
    assert!(told.contains("not as many columns"), "{told}");
    let found = sums(ESXTOP, "naa.6000c29");
    let expect = [
        (Reads, 200.0),
        (Writes, 10.0),
        (ReadBytes, 3_145_728.0),
        (WriteBytes, 1_048_576.0),
        (Ops, 210.0),
        (TotalTime, 0.42),
    ];
    assert_eq!(found, expect);
}

#[test]
fn files_without_figures_of_disks_say_what_to_do() {
    let cases = [
        ("8 0 sda 1 0 1 1 1 0 1 1 0 1 1\n", "print date"),
        (
            &IOSTAT[..IOSTAT.find("\n\n\n").unwrap()],
            "give iostat an interval",
        ),
        ("{\"sysstat\": {\"hosts\": []}}", "sadf -j -- -d"),
        (
            "# hostname;interval;timestamp;CPU;%user\nvm;1;2026-11-21 00:15:34 UTC;-1;1\n",
            "sadf -d -- -d",
        ),
        (
            "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\h\\Disque physique(0 C:)\\Lectures disque/s\"\n",
            "English or German",
        ),
        ("hello\n", "unknown recording format"),
        (
            "vm\t1\t2026-11-21 00:15:29 UTC\tall\t%user\t0.00\n",
            "sadf -p -- -d",
        ),
        (
            "<?xml version=\"1.0\"?>\n<sysstat>\n</sysstat>\n",
            "sadf -x -- -d",
        ),
    ];
    for (text, part) in cases {
        let error = CounterFile::from_bytes("f", text.into())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(part) && error.contains("read f"),
            "{part}: {error}"
        );
    }
}

/// Formats that need a file.
const OF_FILES: [(&str, &str); 2] = [
    ("mapping file of plimsoll new mapping", MAPPED),
    ("Parquet with columns by name", "PAR1 PAR1"),
];

/// Gives every reader `inputs_each` broken recordings.
fn mutated(inputs_each: usize) {
    let mut rng = Rng::new(Seed(20_261_122));
    for format in FORMATS {
        let own: Vec<_> = ALL
            .iter()
            .chain(&OF_FILES)
            .filter(|(name, _)| *name == format.name)
            .collect();
        for round in 0..inputs_each {
            let mut bytes = own[round % own.len()].1.as_bytes().to_vec();
            mutate(&mut bytes, &mut rng);
            read_all(format.name, bytes);
        }
    }
}

/// Reads every disk and checks that no more figures come out than this number of bytes can hold.
fn read_all(name: &str, bytes: Vec<u8>) {
    let length = bytes.len();
    let file = match CounterFile::from_bytes("f", bytes) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.to_string().starts_with("read f"), "{name}: {error}");
            return;
        }
    };
    for disk in file.disks() {
        for column in series(&file, &disk).columns {
            // A hole between two rates also counts as an interval.
            let figures = column.intervals.len() / 2 + column.samples.len();
            assert!(figures <= length, "{name}");
            let in_order = |pair: &[CounterInterval]| pair[0].to_unix_ns <= pair[1].from_unix_ns;
            assert!(column.intervals.windows(2).all(in_order), "{name}");
            let is_sound =
                |i: &CounterInterval| i.from_unix_ns < i.to_unix_ns && i.difference.is_finite();
            assert!(column.intervals.iter().all(is_sound), "{name}");
        }
    }
}

#[test]
fn no_mutated_fixture_breaks_a_reader() {
    mutated(1_000);
}

#[test]
#[ignore = "a million inputs for every reader take minutes; the short form always runs"]
fn a_million_mutated_fixtures_break_no_reader() {
    mutated(1_000_000);
}

/// Two reports of two disks, as XML and as JSON.
fn two_reports() -> [String; 2] {
    use std::fmt::Write as _;
    let [mut xml, mut json] = ["", ""].map(String::from);
    for s in [34, 36] {
        let _ = writeln!(
            xml,
            "<timestamp date=\"2026-11-21\" time=\"00:15:{s}\" utc=\"1\" interval=\"2\">"
        );
        let _ = writeln!(
            json,
            "{{\"timestamp\": {{\"date\": \"2026-11-21\", \"time\": \"00:15:{s}\", \"utc\": 1, \"interval\": 2}}, \"disk\": ["
        );
        for disk in ["sda", "sdb"] {
            let _ = writeln!(
                xml,
                "<disk-device dev=\"{disk}\" tps=\"105.00\" rkB=\"1000.00\"/>"
            );
            let comma = if disk == "sda" { "," } else { "" };
            let _ = writeln!(
                json,
                "{{\"disk-device\": \"{disk}\", \"tps\": 105.0, \"rkB\": 1000.0}}{comma}"
            );
        }
        xml += "</timestamp>\n";
        json += if s == 34 { "]},\n" } else { "]}\n" };
    }
    [
        format!("<?xml version=\"1.0\"?>\n<sysstat>\n{xml}</sysstat>\n"),
        format!(
            "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"vm\", \"statistics\": [\n{json}]}}]}}}}\n"
        ),
    ]
}

#[test]
fn cut_and_torn_files_are_told_by_their_byte() {
    for whole in two_reports() {
        let file = open(&whole);
        assert_eq!((file.disks().len(), file.damage()), (2, None), "{whole}");
        assert!(!file.warnings().join(" ").contains("missing"));
        let cut = &whole[..whole.rfind("\n]").or(whole.rfind("\n</times")).unwrap()];
        let damage = open(cut).damage().cloned().unwrap();
        assert_eq!(damage.offset, cut.len() as u64);
        // From the second disk of the first report to the first of the second.
        let places: Vec<usize> = whole.match_indices("rkB").map(|(at, _)| at).collect();
        let torn = whole[..places[1]].to_owned() + &whole[places[2]..];
        let told = open(&torn).warnings().join(" ");
        assert!(
            told.contains("a part of it is missing before byte"),
            "{told}"
        );
        if whole.starts_with('{') {
            let spoilt = whole
                .replacen("1000.0}", "10.00.0}", 4)
                .replacen("10.00.0", "1000.0", 2);
            let damage = open(&spoilt).damage().cloned().unwrap();
            assert_eq!(damage.offset, spoilt.find("10.00.0").unwrap() as u64);
        }
    }
}

#[test]
fn groups_of_iostat_are_no_disks() {
    // As sysstat 12.6.1 prints them: a blank stands before the name.
    let row = "sda  100.00 1000.00 0.00 0.00 0.50 5.00 40.00 2.00 1.00 4.00 1.00 0.06 25.00\n";
    let text = IOSTAT.replace(row, &(row.to_owned() + " " + &row.replace("sda", "grp")));
    let object = "{\"disk_device\": \"sda\", \"r/s\": 100.0, \"w/s\": 5.0, ";
    let group = object.replace("sda", " total") + "\"util\": 1.0}, ";
    let json = IOSTAT_JSON.replace(object, &(group + object));
    for (with, without) in [(&text, IOSTAT), (&json, IOSTAT_JSON)] {
        assert_ne!(with, without);
        let file = open(with);
        assert_eq!(file.disks(), open(without).disks());
        assert_eq!(sums(with, "sda"), sums(without, "sda"));
        assert!(file.warnings().join(" ").contains("iostat -g"));
    }
}
