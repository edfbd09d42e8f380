// SPDX-License-Identifier: Apache-2.0
//! Results as sysbench 1.0.20 prints them.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::series::ClassicProgram;

use super::{NAME, SETTINGS, SyncRule, SysbenchOptions};
use crate::parts::{KIB, MIB, bytes, done, elapsed, find, mean_and_deviation, per_second};
use plimsoll_core::settings::SettingValues;

/// Nanoseconds of a millisecond.
const MS: f64 = 1e6;

/// The report; `None` when the phase is missing.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = SysbenchOptions::read(&settings).ok()?;
    let phase = find(phases, shape.mode.name)?;
    let mut out = options(&shape);
    operations(&mut out, phase);
    times(&mut out, &shape, phase);
    fairness(&mut out, phase);
    Some(out)
}

fn options(shape: &SysbenchOptions) -> String {
    let mut out = String::from("Running the test with following options:\n");
    let total = shape.file_bytes * u64::from(shape.files);
    let _ = write!(
        out,
        "Number of threads: {}\n\nExtra file open flags: {}\n\
         {} files, {} each\n{} total file size\nBlock size {}\n",
        shape.threads,
        flags(shape),
        shape.files,
        size(shape.file_bytes),
        size(total),
        size(shape.block_bytes),
    );
    if shape.mode.is_random {
        let _ = write!(
            out,
            "Number of IO requests: {}\nRead/Write ratio for combined random IO test: {:.2}\n",
            shape.events, shape.ratio
        );
    }
    match shape.rule {
        SyncRule::Never => {}
        SyncRule::EachWrite => out.push_str("Calling fsync() after each write operation.\n"),
        SyncRule::Periodic(writes) => {
            let _ = writeln!(
                out,
                "Periodic FSYNC enabled, calling fsync() each {writes} writes of a thread."
            );
        }
    }
    if shape.has_end_sync {
        out.push_str("Calling fsync() at the end of test, Enabled.\n");
    }
    let io = if shape.is_async {
        "asynchronous"
    } else {
        "synchronous"
    };
    let _ = write!(out, "Using {io} I/O mode\nDoing {} test\n", shape.mode.told);
    out
}

fn flags(shape: &SysbenchOptions) -> String {
    let flags = [
        (shape.flags.sync, "sync"),
        (shape.flags.dsync, "dsync"),
        (shape.flags.direct, "directio"),
    ];
    let set: Vec<&str> = flags
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    match set.is_empty() {
        true => "(none)".into(),
        false => set.join(" "),
    }
}

/// `16KiB`, `2GiB`, `1.4648MiB`: five significant digits.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut place) = (bytes as f64, 0);
    while value >= KIB && place + 1 < units.len() {
        value /= KIB;
        place += 1;
    }
    let whole_digits = round_u64(value).to_string().len();
    let decimals = 5_usize.saturating_sub(whole_digits);
    let mut text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text + units[place]
}

fn operations(out: &mut String, phase: &PhaseResult) {
    let (stats, wall) = (&phase.stats, phase.wall);
    let syncs = done(stats, OpKind::Fsync) + done(stats, OpKind::Fdatasync);
    out.push_str("\n\nFile operations:\n");
    for (name, count) in [
        ("reads/s:", done(stats, OpKind::Read)),
        ("writes/s:", done(stats, OpKind::Write)),
        ("fsyncs/s:", syncs),
    ] {
        let _ = writeln!(out, "    {name:<30}{:.2}", per_second(count, wall));
    }
    out.push_str("\nThroughput:\n");
    for (name, kind) in [
        ("read, MiB/s:", OpKind::Read),
        ("written, MiB/s:", OpKind::Write),
    ] {
        let mib_per_s = per_second(bytes(stats, kind) / MIB, wall);
        let _ = writeln!(out, "    {name:<30}{mib_per_s:.2}");
    }
}

fn times(out: &mut String, shape: &SysbenchOptions, phase: &PhaseResult) {
    let response = phase.stats.response();
    let _ = write!(
        out,
        "\nGeneral statistics:\n    {:<37}{:.4}s\n    {:<37}{}\n\nLatency (ms):\n",
        "total time:",
        phase.wall.as_secs_f64(),
        "total number of events:",
        phase.stats.ops(),
    );
    let quantile = f64::from(shape.percentile) / 100.0;
    for (name, ns) in [
        ("min:".into(), response.min_ns() as f64),
        ("avg:".into(), response.mean_ns()),
        ("max:".into(), response.max_ns() as f64),
        (
            format!("{:2}th percentile:", shape.percentile),
            response.quantile_ns(quantile) as f64,
        ),
        ("sum:".into(), response.sum_ns() as f64),
    ] {
        let _ = writeln!(out, "         {name:<16}{:>28.2}", ns / MS);
    }
}

fn fairness(out: &mut String, phase: &PhaseResult) {
    // The total counts the syncs, the workers' own counts do not: each has made its share.
    let own: u64 = phase.workers.iter().map(|worker| worker.ops).sum();
    let syncs = phase.stats.ops().saturating_sub(own);
    let share = ratio(syncs as f64, phase.workers.len() as f64);
    let events: Vec<f64> = phase
        .workers
        .iter()
        .map(|worker| worker.ops as f64 + share)
        .collect();
    let times = phase
        .workers
        .iter()
        .map(|worker| elapsed(worker).as_secs_f64());
    let (events, events_deviation) = mean_and_deviation(&events);
    let (time_s, time_deviation_s) = mean_and_deviation(&times.collect::<Vec<_>>());
    let _ = write!(
        out,
        "\nThreads fairness:\n    {:<31}{events:.4}/{events_deviation:.2}\n\
         \x20   {:<31}{time_s:.4}/{time_deviation_s:.2}\n",
        "events (avg/stddev):", "execution time (avg/stddev):",
    );
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, result, worker};

    use super::*;

    #[test]
    fn the_report_has_the_layout_and_figures_of_the_original() {
        let given = [("threads", "2"), ("file-total-size", "16M"), ("time", "2")];
        let classic = built(NAME, &given).classic.unwrap();
        let mut phase = result(
            "rndrw",
            2.0,
            &[
                (OpKind::Read, 60, 16_384, 1000),
                (OpKind::Write, 39, 16_384, 2000),
                (OpKind::Fsync, 1, 0, 100_000),
            ],
        );
        phase.workers = vec![
            worker(0.0, 1.9, 60, 60 << 14),
            worker(0.1, 1.8, 39, 39 << 14),
        ];
        let text = crate::text(&classic, &[phase]).unwrap();
        let expect = "\
Running the test with following options:
Number of threads: 2

Extra file open flags: (none)
1 files, 16MiB each
16MiB total file size
Block size 16KiB
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1.50
Periodic FSYNC enabled, calling fsync() each 40 writes of a thread.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing random r/w test


File operations:
    reads/s:                      30.00
    writes/s:                     19.50
    fsyncs/s:                     0.50

Throughput:
    read, MiB/s:                  0.47
    written, MiB/s:               0.30

General statistics:
    total time:                          2.0000s
    total number of events:              100

Latency (ms):
         min:                                    1.00
         avg:                                    2.38
         max:                                  100.00
         95th percentile:                        2.02
         sum:                                  238.00

Threads fairness:
    events (avg/stddev):           50.0000/10.50
    execution time (avg/stddev):   1.8000/0.10
";
        assert_eq!(text, expect);
        assert!(crate::text(&classic, &[]).is_none());
    }

    #[test]
    fn the_options_tell_what_is_done() {
        for (given, present, absent) in [
            (
                &[
                    ("file-test-mode", "seqrd"),
                    ("file-extra-flags", "sync,direct"),
                ][..],
                &["flags: sync directio\n", "sequential read test"][..],
                &["FSYNC", "fsync()", "Read/Write ratio"][..],
            ),
            (
                &[("file-test-mode", "seqwr"), ("file-fsync-all", "on")],
                &["after each write", "end of test", "(creation)"],
                &["Periodic", "Read/Write ratio"],
            ),
            (
                &[
                    ("file-io-mode", "async"),
                    ("events", "50"),
                    ("percentile", "99"),
                ],
                &["requests: 50\n", "Using asynchronous", "99th percentile:"],
                &[],
            ),
        ] {
            let series = built(NAME, given);
            let name = series.phases[0].name.clone();
            let phases = [result(&name, 1.0, &[(OpKind::Read, 1, 512, 1)])];
            let text = crate::text(&series.classic.unwrap(), &phases).unwrap();
            assert!(present.iter().all(|words| text.contains(words)), "{text}");
            assert!(!absent.iter().any(|words| text.contains(words)), "{text}");
        }
    }

    #[test]
    fn sizes_have_five_digits() {
        for (bytes, expect) in [
            (512, "512B"),
            (16_384, "16KiB"),
            (1_536_000, "1.4648MiB"),
            (2 << 30, "2GiB"),
            (1000 << 20, "1000MiB"),
        ] {
            assert_eq!(size(bytes), expect);
        }
    }
}
