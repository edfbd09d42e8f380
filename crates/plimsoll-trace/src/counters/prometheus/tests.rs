// SPDX-License-Identifier: Apache-2.0
//! Figures read of answers and texts, and messages about damage.

use super::super::tests::{OPENMETRICS, PROMETHEUS, open, series, sums};
use super::super::{CounterFile, CounterSource};
use crate::series::DiskMetric::{InFlight, ReadBytes, ReadTime, Reads, WriteBytes};

fn error(text: &str) -> String {
    CounterFile::from_bytes("f", text.into())
        .unwrap_err()
        .to_string()
}

/// An answer with one series of reads, of these samples.
fn reads(labels: &str, values: &str) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{"__name__":"node_disk_reads_completed_total","device":"sda"{labels}}},"values":[{values}]}}]}}}}"#
    )
}

#[test]
fn the_counters_of_an_answer_are_the_kernels_own() {
    let file = open(PROMETHEUS);
    assert_eq!(
        (file.disks(), &*file.about().host),
        (vec!["sda".into()], "db1:9100")
    );
    let found = sums(PROMETHEUS, "sda");
    assert_eq!(
        found,
        [(Reads, 550.0), (ReadBytes, 2_252_800.0), (ReadTime, 1.234)]
    );
    let sda = series(&file, "sda");
    let in_flight = sda.column(InFlight).unwrap().samples.iter();
    assert_eq!(
        in_flight.map(|s| s.value).collect::<Vec<_>>(),
        [0.0, 3.0, 1.0]
    );
    // Two answers whose ends overlap are one recording.
    let two = format!(
        "{}\n{}",
        reads("", r#"[10,"1"],[25.5,"2"]"#),
        reads("", r#"[25.5,"2"],[40,"9"]"#)
    );
    assert_eq!(sums(&two, "sda"), [(Reads, 8.0)]);
    let exported = r#"{"metric":{"__name__":"node_disk_reads_completed_total","device":"sda","instance":"a"},"values":[1,null,5],"timestamps":[1000,2000,3000]}
{"metric":{"__name__":"node_disk_reads_completed_total","device":"sda","instance":"b"},"values":[1,7],"timestamps":[1000,3000]}"#;
    let file = open(exported);
    assert_eq!(file.disks(), ["a/sda", "b/sda"]);
    assert!(file.warnings()[0].contains("1 samples are no numbers"));
    assert_eq!(sums(exported, "b/sda"), [(Reads, 6.0)]);
}

#[test]
fn a_text_of_an_exporter_is_read_with_either_unit_of_time() {
    assert_eq!(
        sums(OPENMETRICS, "sda"),
        [(Reads, 30.0), (WriteBytes, 1_024.0)]
    );
    let ms = OPENMETRICS.replace("# EOF\n", "");
    let ms: String = ms
        .lines()
        .map(|line| match line.starts_with('#') {
            true => format!("{line}\n"),
            false => format!("{line}000\n"),
        })
        .collect();
    assert_eq!(sums(&ms, "sda"), sums(OPENMETRICS, "sda"));
}

#[test]
fn disks_of_windows_and_of_containers_have_their_own_labels() {
    let two = |name: &str| format!("{name} 5 1700000000\n{name} 8 1700000015\n");
    let text = [
        r#"windows_logical_disk_reads_total{volume="C:",instance="w"}"#,
        r#"windows_logical_disk_reads_total{volume="_Total",instance="w"}"#,
        // As windows_exporter names what has no letter.
        r#"windows_logical_disk_reads_total{volume="HarddiskVolume2",instance="w"}"#,
        r#"container_fs_reads_total{device="/dev/sda",id="/",instance="k"}"#,
        r#"container_fs_reads_total{device="/dev/sda",container="db",pod="db-0",instance="k"}"#,
    ]
    .map(two)
    .concat()
        + "# EOF\n";
    let file = open(&text);
    assert_eq!(file.disks(), ["w/C:", "w/HarddiskVolume2", "k/db-0/db/sda"]);
    assert!(
        file.warnings()[0].contains("4 times a series was left out"),
        "{:?}",
        file.warnings()
    );
}

#[test]
fn what_is_no_counter_or_damaged_is_told() {
    let good = reads("", r#"[10,"1"],[20,"2"]"#);
    let unnamed = good.replace(r#""__name__":"node_disk_reads_completed_total","#, "");
    let once = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    let refused = r#"{"status":"error","error":"bad \u001b[2J","data":{"resultType":"matrix"}}"#;
    let scrape = "# HELP x y\nnode_disk_reads_completed_total{device=\"sda\"} 7\n";
    for (text, part) in [
        (unnamed.as_str(), "without a name, as rate()"),
        (
            &reads("", r#"[10,"1.5"],[20,"1.25"]"#),
            "1.5 is no count of a disk",
        ),
        (&reads("", r#"[10,"-1"],[20,"2"]"#), "-1 is no count"),
        (&reads("", r#"[10,"1e400"],[20,"2"]"#), "inf is no count"),
        (&reads("", r#"[-10,"1"]"#), "-10 is no time"),
        (
            &reads(r#","device":"sdb""#, r#"[10,"1"]"#),
            "a label stands twice",
        ),
        (&good[..good.len() - 9], "cut off"),
        (
            &good.replace("node_disk_reads", "node_cpu"),
            "no counters of disks but node_cpu",
        ),
        (once, "which has one sample"),
        (refused, "an error was answered: bad \u{fffd}[2J"),
        (scrape, "it has no time"),
    ] {
        let told = error(text);
        assert!(told.contains(part), "{part}: {told}");
    }
    let deep = format!(
        "{{\"status\":\"\",\"data\":{{\"resultType\":{}",
        "[".repeat(100_000)
    );
    assert!(error(&deep).contains("broken or cut off"));
    // Samples before the damage are kept, and the warning gives its place.
    let behind = format!("{good}\n{}", &good[..60]);
    let file = open(&behind);
    let damage = file.damage().unwrap();
    assert!((good.len() as u64..).contains(&damage.offset), "{damage}");
    let cut = OPENMETRICS.strip_suffix("# EOF\n").unwrap();
    assert!(open(cut).damage().unwrap().what.contains("# EOF"));
    let twice = OPENMETRICS.replace("device=\"sda\"} 40", "device=\"sda\",device=\"sda\"} 40");
    assert!(open(&twice).warnings()[0].contains("not understood"));
}

#[test]
fn a_machine_started_again_and_series_that_rival_are_told() {
    let text = format!(
        "{}\n{}",
        reads(r#","job":"a""#, r#"[10,"5"],[20,"9"],[30,"1"],[40,"4"]"#),
        reads(r#","job":"b""#, r#"[11,"500"]"#)
    );
    let file = open(&text);
    assert!(
        file.warnings()[0].contains("another series"),
        "{:?}",
        file.warnings()
    );
    let column = series(&file, "sda").column(Reads).unwrap().clone();
    let kept: Vec<bool> = column.intervals.iter().map(|i| i.counts()).collect();
    assert_eq!(kept, [true, false, true]);
}
