// SPDX-License-Identifier: Apache-2.0
//! Tables in every form that one may have, and what of one is not believed.

use std::fmt::Write as _;

use super::super::CounterFile;
use super::super::tests::{open, sums};
use crate::recording::CounterSource;
use crate::series::DiskMetric;
use DiskMetric::{Active, QueueTime, ReadBytes, ReadTime, Reads, WriteBytes, WriteTime, Writes};

fn refused(text: &str) -> String {
    CounterFile::from_bytes("nas.csv", text.into())
        .unwrap_err()
        .to_string()
}

fn told(text: &str) -> String {
    open(text).warnings().join("; ")
}

/// Printed by aws-cli 1.46.3 of values that were put into moto 5.2.5, a mock of CloudWatch; the
/// sums are those of the values. The eighth minute is missing.
const STATISTICS: &str = include_str!("../../../tests/tables/cloudwatch_statistics.json");
const DATA: &str = include_str!("../../../tests/tables/cloudwatch_data.json");

#[test]
fn answers_of_cloudwatch_are_sums_of_their_minutes() {
    let expect = [
        (Reads, 125_956.0),
        (Writes, 87_613.0),
        (ReadBytes, 292_937_728.0),
        (WriteBytes, 330_899_456.0),
        (QueueTime, 23.5 * 60.0),
        (ReadTime, 92.339),
    ];
    assert_eq!(sums(STATISTICS, "f"), expect);
    assert_eq!(told(STATISTICS), "");
    let file = open(STATISTICS);
    let span = file.times().span();
    assert_eq!(span.from_unix_ns, 1_795_220_100_000_000_000);
    assert_eq!(
        span.to_unix_ns - span.from_unix_ns,
        12 * 60_000_000_000,
        "the last minute, too"
    );
    let reads = &super::super::tests::series(&file, "f").columns[0];
    let kept: Vec<bool> = reads
        .intervals
        .iter()
        .map(crate::CounterInterval::counts)
        .collect();
    assert_eq!(kept.len(), 12);
    assert!(
        kept.iter()
            .enumerate()
            .all(|(minute, kept)| *kept == (minute != 7)),
        "{kept:?}"
    );
    // In the other answer a label names the statistic, another one the volume.
    assert_eq!(sums(DATA, "f"), [(Reads, 125_956.0)]);
    assert_eq!(sums(DATA, "vol-0a1"), [(ReadBytes, 292_937_728.0)]);
    assert!(told(DATA).contains("statistic Sum"), "{}", told(DATA));
    let average = DATA.replace("Ops Sum", "Ops Average");
    assert_eq!(open(&average).disks(), ["vol-0a1"]);
    let average = STATISTICS.replace("\"Sum\"", "\"Maximum\"");
    assert_eq!(sums(&average, "f"), [(QueueTime, 23.5 * 60.0)]);
    assert!(
        told(&average).contains("lack the statistic Sum"),
        "{}",
        told(&average)
    );
    let mixed = STATISTICS.replacen("1795220100", "1795220130", 1);
    assert!(
        refused(&mixed).contains("30 s and 60 s"),
        "{}",
        refused(&mixed)
    );
}

/// The forms in which Grafana exports series, as its pull request 4041 shows them.
#[test]
fn series_of_grafana_are_read_beside_each_other_and_one_behind_the_other() {
    let columns = "Time;sda writes/s;sda r/s\n2015-06-11T11:50:00.000Z;1.1;2.0\n2015-06-11T11:51:00.000Z;1.2;2.3\n\
                   2015-06-11T11:52:00.000Z;1.2;2.31\n";
    let rows = "Series;Time;Value\nsda writes/s;2015-06-11T11:50:00.000Z;1.1\n\
                sda writes/s;2015-06-11T11:51:00.000Z;1.2\nsda writes/s;2015-06-11T11:52:00.000Z;1.2\n\
                sda r/s;2015-06-11T11:50:00.000Z;2.0\nsda r/s;2015-06-11T11:51:00.000Z;2.3\n\
                sda r/s;2015-06-11T11:52:00.000Z;2.31\n";
    for text in [columns, rows] {
        assert_eq!(
            sums(text, "sda"),
            [(Reads, 276.6), (Writes, 144.0)],
            "{text}"
        );
    }
    // Names of series that do not say what they are, and numbers with commas in them (issue 14578).
    let open = columns
        .replace("sda writes/s", "valA")
        .replace("sda r/s", "valB");
    assert!(
        refused(&open).contains("plimsoll new mapping"),
        "{}",
        refused(&open)
    );
    let thousands = "\"Time\";\"sda r/s\"\n\"2018-12-12T12:00:00+11:00\";1,721,992,142.283\n";
    assert!(
        refused(thousands).contains("no number"),
        "{}",
        refused(thousands)
    );
}

/// A CSV with these names, and rows of one disk from 2026-11-21 on, a second apart.
fn table(names: &str, rows: &[&str]) -> String {
    let mut text = format!("time,{names}\n");
    for (at, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "{},{row}", 1_795_220_100 + at);
    }
    text
}

#[test]
fn counters_rates_means_and_samples_of_a_row_become_what_they_are() {
    let text = table(
        "reads_total,read_sectors_total,writes/s,write_await_ms,busy_percent,read_time_ms_total,io_now",
        &[
            "100,8,,,,5,0",
            "300,808,10,2.5,50,405,3",
            "300,808,0,,0,405,1",
        ],
    );
    let expect = [
        (Reads, 200.0),
        (Writes, 10.0),
        (ReadBytes, 409_600.0),
        (Active, 0.5),
        (ReadTime, 0.4),
        (WriteTime, 0.025),
    ];
    assert_eq!(sums(&text, "f"), expect);
    // A counter that starts again follows the same rule as in all other formats.
    let text = table(
        "reads_total,read_bytes_total",
        &["9,90", "12,120", "1,10", "4,40"],
    );
    assert_eq!(sums(&text, "f"), [(Reads, 6.0), (ReadBytes, 60.0)]);
}

#[test]
fn separators_decimals_marks_and_repeated_headings_do_not_matter() {
    let expect = [(Reads, 3.0), (Writes, 2.5)];
    for text in [
        "Time,reads_total,w/s\n2026-11-21 00:00:00,7,1\n2026-11-21 00:00:01,10,2.5\n",
        "\u{feff}Time;reads_total;w/s\r\n2026-11-21 00:00:00;7;1\r\n2026-11-21 00:00:01;10;2,5\r\n",
        "sep=;\nTime;reads_total;w/s\n2026-11-21 00:00:00;7;1\n2026-11-21 00:00:01;10;2,5\n",
        "\"Time\"\t\"reads_total\"\t\"w/s\"\n\"2026-11-21 00:00:00\"\t\"7\"\t\"1\"\n\
         \"2026-11-21 00:00:01\"\t\"10\"\t\"2.5\"\n",
        "Time,reads_total,w/s\n2026-11-21 00:00:00,7,1\nTime,reads_total,w/s\n\n2026-11-21 00:00:01,10,NaN\n\
         2026-11-21 00:00:02,13,2.5\n",
    ] {
        let found = sums(text, "f");
        assert_eq!(found.last(), expect.last(), "{text}");
        assert!(told(text).contains("no time zone"), "{}", told(text));
    }
    let wide = "Time,\"sda r/s\",\"sdb r/s\"\n2026-11-21T00:00:00Z,1,2\n2026-11-21T00:00:01Z,3,4\n";
    assert_eq!(sums(wide, "sda"), [(Reads, 3.0)]);
    assert_eq!(sums(wide, "sdb"), [(Reads, 4.0)]);
    assert_eq!(told(wide), "");
}

#[test]
fn rows_of_one_metric_and_objects_are_the_same_table() {
    let long = "time,disk,metric,value\n1795220101,sda,reads_total,300\n1795220101,sda,w/s,5\n\
                1795220100,sda,reads_total,100\n1795220100,sda,cpu_user,3\n1795220100,sda,w/s,4\n";
    let lines = "{\"time\":1795220100,\"disk\":\"sda\",\"reads_total\":100,\"w/s\":4}\n\
                 {\"time\":1795220101,\"disk\":\"sda\",\"reads_total\":300,\"w/s\":5,\"more\":{}}\n";
    let list = format!("[{}]", lines.trim_end().replace('\n', ","));
    for text in [long, lines, &list] {
        assert_eq!(sums(text, "sda"), [(Reads, 200.0), (Writes, 5.0)], "{text}");
    }
    assert!(
        told(long).contains("1 metrics are none of disks"),
        "{}",
        told(long)
    );
    assert!(
        told(lines).contains("the first object lacks"),
        "{}",
        told(lines)
    );
}

#[test]
fn both_ends_of_an_interval_make_counts_of_plain_numbers_and_holes_gaps() {
    let text = "device,from_unix_ns,to_unix_ns,reads,busy,queue\n\
                sda,1795220100000000000,1795220100100000000,7,0.5,2\n\
                sda,1795220100200000000,1795220100300000000,9,,\n\
                sdb,1795220100000000000,1795220100100000000,1,1,1\n";
    let found = sums(text, "sda");
    assert_eq!(found, [(Reads, 16.0), (Active, 0.05), (QueueTime, 0.2)]);
    let series = super::super::tests::series(&open(text), "sda");
    let reads = &series.columns[0].intervals;
    assert_eq!(
        (reads.len(), reads[1].counts()),
        (3, false),
        "a tenth of a second is a hole"
    );
    let text = text.replace("1795220100", "1");
    assert!(!open(&text).times().has_date());
}

#[test]
fn missing_rows_are_gaps_and_not_load() {
    let rates = |at: &[u64]| {
        let rows = at.iter().fold(String::new(), |all, at| {
            all + &format!("{},100\n", 1_795_220_100 + 60 * at)
        });
        sums(&format!("time,r/s\n{rows}"), "f")
    };
    assert_eq!(rates(&[0, 1, 2, 3, 4]), [(Reads, 24_000.0)]);
    // Two minutes without rows, and none of the rate is known in them.
    assert_eq!(rates(&[0, 1, 2, 5, 6]), [(Reads, 24_000.0)]);
}

#[test]
fn names_that_leave_something_open_are_refused_with_the_way_out() {
    for (names, open) in [
        (
            "reads,writes",
            "'reads' does not say whether it is per second",
        ),
        (
            "sda read,sdb read",
            "'sda read' does not say whether it counts operations or bytes",
        ),
        (
            "read_kb_per_s,w/s",
            "'read_kb_per_s' does not say whether a kB has 1000 or 1024 bytes",
        ),
        ("r/s,read_await", "'read_await' does not say its unit"),
        (
            "r/s,reads_total",
            "'r/s' and 'reads_total' are of the same figure",
        ),
    ] {
        let error = refused(&table(names, &["1,2", "3,4"]));
        assert!(error.contains(open), "{error}");
        assert!(error.contains("plimsoll new mapping FILE"), "{error}");
    }
    let error = refused("time,net_bytes_total\n1795220100,5\n");
    assert!(
        error.contains("unknown recording format") && error.contains("plimsoll new mapping"),
        "{error}"
    );
    let error = refused(&table("r/s", &["\"1,234\"", "\"5,678\""]));
    assert!(error.contains("thousands or a fraction"), "{error}");
}

#[test]
fn rows_that_are_wrong_are_left_out_and_counted_never_taken_for_others() {
    let wrong = [
        ("-1,5", "negative"),
        ("inf,5", "no number"),
        ("abc,5", "no number"),
        ("1,5,9", "not as many columns"),
        ("1", "not as many columns"),
    ];
    for (row, what) in wrong {
        let text = table("reads_total,w/s", &["100,5", "200,5", row, "400,5"]);
        let told = told(&text);
        assert!(
            told.contains("1 lines were not understood") && told.contains(what),
            "{row}: {told}"
        );
        assert_eq!(sums(&text, "f")[0], (Reads, 300.0), "{row}");
    }
    // An instant twice, and rows in the wrong order.
    let twice = "time,reads_total\n1795220100,1\n1795220101,5\n1795220101,500\n1795220102,9\n";
    assert_eq!(sums(twice, "f"), [(Reads, 8.0)]);
    let series = super::super::tests::series(&open(twice), "f");
    assert!(
        series.warnings.join("").contains("not later"),
        "{:?}",
        series.warnings
    );
    let shuffled = (0..40).fold("time,reads_total\n".to_owned(), |all, n| {
        all + &format!("{},{n}\n", 1_795_220_100 + n * 17 % 40)
    });
    assert!(
        refused(&shuffled).contains("unsorted"),
        "{}",
        refused(&shuffled)
    );
    // A column of something else in the place of the times.
    let swapped = "reads_total,time\n1795220100,5\n1795220101,6\n";
    assert!(
        refused(swapped).contains("no time that is understood"),
        "{}",
        refused(swapped)
    );
    let totals = table("disk,r/s", &["_Total,9", "sda,1", "_Total,9", "sda,2"]);
    assert!(
        told(&totals).contains("all disks together"),
        "{}",
        told(&totals)
    );
    assert_eq!(open(&totals).disks(), ["sda"]);
    let cut = "[{\"time\":1795220100,\"r/s\":1},{\"time\":17952";
    assert!(refused(cut).contains("cut off"), "{}", refused(cut));
}

#[test]
fn disks_of_a_second_machine_are_no_disks_of_the_first() {
    let text = "time,hostname,disk,r/s\n1795220100,a,sda,1\n1795220100,b,sda,2\n1795220101,a,sda,3\n\
                1795220101,b,sda,4\n";
    assert_eq!(open(text).disks(), ["sda", "b:sda"]);
    assert_eq!(
        (sums(text, "sda"), sums(text, "b:sda")),
        (vec![(Reads, 3.0)], vec![(Reads, 4.0)])
    );
}

#[test]
fn a_long_line_and_many_columns_are_bounded() {
    let wide = (0..20_000).fold("time".to_owned(), |all, n| all + &format!(",nvme{n}n1 r/s"));
    let row = |at: u64| format!("\n{at}") + &",1".repeat(20_000);
    let text = wide + &row(1_795_220_100) + &row(1_795_220_101);
    assert_eq!(open(&text).disks().len(), 20_000);
    let huge = format!("time,r/s\n1795220100,{}\n", "9".repeat(1 << 20));
    assert!(
        refused(&huge).contains("no number"),
        "{}",
        refused(&huge).len()
    );
}
