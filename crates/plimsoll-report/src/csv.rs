// SPDX-License-Identifier: Apache-2.0
//! Trial results in long form: one row per trial and kind of operation, and one for all kinds.
//!
//! Times are in nanoseconds; a percentile that rests on too few operations is an empty field.

use plimsoll_core::event::{KindStats, RunFolderContents, TrialResult};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::text::printable;

use crate::put::put;

const HEADER: &str = "workload,arm,block,place,interrupted,kind,length_s,ops,bytes,errors,\
ops_per_s,bytes_per_s,response_mean_ns,response_p50_ns,response_p90_ns,response_p99_ns,\
response_p99_9_ns,response_max_ns,service_mean_ns,service_p50_ns,service_p90_ns,service_p99_ns,\
service_p99_9_ns,service_max_ns\n";

/// The table, with a header line (RFC 4180, lines end with a line feed).
#[must_use]
pub fn csv(results: &RunFolderContents) -> String {
    let mut out = String::from(HEADER);
    for trial in &results.trials {
        let mut all = KindStats::default();
        for (kind, stats) in &trial.stats.0 {
            row(&mut out, trial, kind.name(), stats);
            all.merge(stats);
        }
        row(&mut out, trial, "all", &all);
    }
    out
}

fn row(out: &mut String, of: &TrialResult, kind: &str, stats: &KindStats) {
    let seconds = of.length.as_secs_f64();
    put!(
        *out,
        "{},{},{},{},{},{kind},{seconds},{},{},{},{:.3},{:.3}",
        field(&of.trial.workload),
        field(&of.trial.arm),
        of.trial.block,
        of.trial.place,
        of.interrupted,
        stats.ops(),
        stats.bytes,
        stats.errors,
        ratio(stats.ops() as f64, seconds),
        ratio(stats.bytes as f64, seconds),
    );
    times(out, &stats.response);
    times(out, &stats.service);
    out.push('\n');
}

fn times(out: &mut String, histogram: &Histogram) {
    put!(*out, ",{:.1}", histogram.mean_ns());
    for q in [0.5, 0.9, 0.99, 0.999] {
        if histogram.supports_quantile(q) {
            put!(*out, ",{}", histogram.quantile_ns(q));
        } else {
            out.push(',');
        }
    }
    put!(*out, ",{}", histogram.max_ns());
}

/// A name as a field. A spreadsheet takes a field that begins like a formula for one, whoever
/// gave the name, so an apostrophe goes before it (OWASP, CSV injection).
fn field(text: &str) -> String {
    let mut text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
    if text.contains(['"', ',']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
