// SPDX-License-Identifier: Apache-2.0
//! Readers of counters held against real recordings of one machine.
//!
//! The recordings are not part of this program. Set `PLIMSOLL_TEST_DATA` to a folder that holds
//! `traces/`; without it every test here says that it was skipped.

use std::io::Write;
use std::path::PathBuf;

use plimsoll_trace::{CounterSource, DiskMetric, DiskSeries, OpenRecording};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// The disk `vda` of a recording; `None`, said loudly, when it is not there.
fn vda(file: &str) -> Option<(Box<dyn CounterSource>, DiskSeries)> {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(DEFAULT), PathBuf::from);
    let path = root.join("traces/counters").join(file);
    if !path.exists() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is absent; set PLIMSOLL_TEST_DATA",
            path.display()
        );
        return None;
    }
    let OpenRecording::Counters(counters) = plimsoll_trace::open(&path).unwrap() else {
        panic!("{file} is of requests");
    };
    let series = counters.series("vda", &counters.times().span()).unwrap();
    assert_eq!(counters.damage(), None);
    Some((counters, series))
}

fn mean(series: &DiskSeries, metric: DiskMetric) -> f64 {
    series.averages(metric).unwrap().time
}

#[test]
fn text_and_json_of_iostat_tell_the_rates_they_print() {
    if let Some((counters, series)) = vda("iostat-x.txt") {
        let reads = &series.column(DiskMetric::Reads).unwrap().intervals;
        let rates: Vec<f64> = reads
            .iter()
            .map(plimsoll_trace::CounterInterval::rate)
            .collect();
        assert_eq!(rates, [149_174.0, 156_146.0]);
        assert!((mean(&series, DiskMetric::Active) - 0.876).abs() < 1e-9);
        assert_eq!(counters.disks(), ["loop0", "loop1", "vda"]);
    }
    if let Some((counters, series)) = vda("iostat-x.json") {
        let reads = &series.column(DiskMetric::Reads).unwrap().intervals;
        assert!((reads[0].rate() - 117_496.0).abs() < 1e-6);
        assert!(
            counters
                .warnings()
                .iter()
                .any(|told| told.contains("iostat -xt"))
        );
    }
}

#[test]
fn sadf_tells_all_operations_but_not_which() {
    for (file, ops) in [("sadf-d.json", 163_522.0), ("sadf-d.csv", 163_522.0)] {
        let Some((counters, series)) = vda(file) else {
            return;
        };
        let all = &series.column(DiskMetric::Ops).unwrap().intervals;
        assert!((all[0].rate() - ops).abs() < 1e-6, "{file}");
        assert!(!counters.about().carries.direction);
        assert!(series.column(DiskMetric::Reads).is_none());
    }
}

#[test]
fn diskstats_rise_by_what_the_kernel_counted() {
    let Some((counters, series)) = vda("diskstats-1s.txt") else {
        return;
    };
    let writes = &series.column(DiskMetric::Writes).unwrap().intervals;
    assert_eq!(writes.len(), 2);
    assert!((writes[0].difference - 13.0).abs() < 1e-9);
    assert!((writes[0].seconds() - 1.003_652_524).abs() < 1e-6);
    assert_eq!(counters.disks().len(), 10);
}
