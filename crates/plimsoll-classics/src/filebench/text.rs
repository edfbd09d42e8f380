// SPDX-License-Identifier: Apache-2.0
//! filebench's summary of a run, in its own layout and definitions (1.5-alpha3).
//!
//! * Every operation counts, those on names too: `ops` of the summary is the sum over all kinds;
//!   waiting for an event, for a signal or by intention is none.
//! * `rd` and `wr` are operations per second that read or write; `mb/s` counts bytes of both,
//!   in units of 2^20.
//! * `ms/op` is the sum of the service times of all operations by their number: a mean over unlike
//!   operations, in which every close weighs as much as an fsync.

use std::fmt::Write;

use plimsoll_core::event::{KindStats, OpStats};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use crate::parts::{MIB, per_second};

/// The text of a run of `length`: a line per kind of operation, then the `IO Summary`. filebench
/// has a line per flowop of its list; here those of one kind are one line.
pub fn summary(stats: &OpStats, length: Nanos) -> String {
    let seconds = length.as_secs_f64();
    let mut out = format!("{seconds:.3}: Per-Operation Breakdown\n");
    for (kind, stats) in &stats.0 {
        line(&mut out, flowop(*kind), stats, length);
    }
    let ops_of = |pick: fn(OpKind) -> bool| {
        let kinds = stats.0.iter().filter(|(kind, _)| pick(**kind));
        per_second(
            kinds.map(|(_, stats)| stats.ops()).sum::<u64>() as f64,
            length,
        )
    };
    let spent_ns: u64 = stats.0.values().map(|kind| kind.service.sum_ns()).sum();
    let ops = stats.ops();
    let written = writeln!(
        out,
        "{seconds:.3}: IO Summary: {ops:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
        per_second(ops as f64, length),
        ops_of(OpKind::is_read),
        ops_of(OpKind::is_write),
        per_second(stats.bytes() as f64, length) / MIB,
        ratio(spent_ns as f64, ops as f64) / 1e6,
    );
    written.expect("writing to a string does not fail");
    out
}

fn line(out: &mut String, name: &str, stats: &KindStats, length: Nanos) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let written = writeln!(
        out,
        "{name:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
        stats.ops(),
        per_second(stats.ops() as f64, length),
        per_second(stats.bytes as f64, length) / MIB,
        stats.service.mean_ns() / 1e6,
        ms(stats.service.min_ns()),
        ms(stats.service.max_ns()),
    );
    written.expect("writing to a string does not fail");
}

/// Name of the operation in filebench.
fn flowop(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Append => "appendfile",
        OpKind::Open => "openfile",
        OpKind::Create => "createfile",
        OpKind::Close => "closefile",
        OpKind::ReadWhole => "readwholefile",
        OpKind::Delete => "deletefile",
        OpKind::Stat => "statfile",
        OpKind::WriteWhole => "writewholefile",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::originals::{ProgramOutputFormat, read};
    use crate::parts::tests::stats;

    #[test]
    fn the_summary_counts_as_filebench_does() {
        let stats = stats(&[
            (OpKind::Open, 100, 0, 10),
            (OpKind::ReadWhole, 100, 1 << 20, 500),
            (OpKind::Append, 50, 1 << 19, 1_000),
            (OpKind::Fsync, 50, 0, 9_000),
            (OpKind::Close, 100, 0, 0),
        ]);
        let text = summary(&stats, Nanos(2_000_000_000));
        let last = text.lines().last().unwrap();
        // (100 · 0.01 + 100 · 0.5 + 50 · 1 + 50 · 9) / 400 ms
        let expect = "2.000: IO Summary:   400 ops 200.000 ops/s 50/25 rd/wr  62.5mb/s ";
        assert!(last.starts_with(expect), "{last}");
        let tail = last.strip_prefix(expect).unwrap();
        let mean: f64 = tail.strip_suffix("ms/op").unwrap().trim().parse().unwrap();
        assert!((mean - 1.3775).abs() < 0.02, "{mean}");
        let line = text.lines().find(|line| line.starts_with("readwholefile"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words[1..4], ["100ops", "50ops/s", "50.0mb/s"]);
        assert_eq!(text.lines().count(), 7);
    }

    #[test]
    fn the_reader_of_filebench_texts_reads_it() {
        let stats = stats(&[(OpKind::Fsync, 30, 0, 10), (OpKind::Close, 60, 0, 1)]);
        let text = summary(&stats, Nanos(3_000_000_000));
        let readings = read(ProgramOutputFormat::Filebench, &text).unwrap();
        let told = |phase: &plimsoll_core::event::PhaseResult| (phase.name.clone(), phase.value);
        let told: Vec<(String, f64)> = readings[0].phases.iter().map(told).collect();
        let expect = [("IO Summary", 30.0), ("fsync", 10.0), ("closefile", 20.0)];
        assert_eq!(told, expect.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn nothing_done_is_no_division_by_nothing() {
        let text = summary(&OpStats::default(), Nanos(0));
        assert!(
            text.contains("0 ops 0.000 ops/s 0/0 rd/wr   0.0mb/s 0.000ms/op"),
            "{text}"
        );
    }
}
