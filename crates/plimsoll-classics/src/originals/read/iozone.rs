// SPDX-License-Identifier: Apache-2.0
//! iozone's throughput report: `Children see throughput for 4 readers = 123.45 kB/sec`. The value
//! is the sum over the children of what each moved in its own time; the parent's, which also
//! counts the wait for the last of them, is a result of its own.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::op::OpKind;

use super::{ProgramOutputResult, RateOnlyResult, number};

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let mut readings: Vec<ProgramOutputResult> = Vec::new();
    for (line, text) in (1usize..).zip(text.lines()) {
        let Some((who, rest)) = text.split_once("throughput for") else {
            continue;
        };
        let rate = rate(who.trim(), rest).ok_or_else(|| {
            format!(
                "line {line}: '{}' has no rate in kB/sec, MB/sec or ops/sec",
                text.trim()
            )
        })?;
        let again = |reading: &ProgramOutputResult| {
            reading.phases.iter().any(|phase| phase.name == rate.name)
        };
        match readings.last_mut() {
            Some(last) if !again(last) => last.phases.push(rate.result()),
            // The same test with as many processes: the next run.
            _ => readings.push(ProgramOutputResult {
                phases: vec![rate.result()],
                ..ProgramOutputResult::default()
            }),
        }
    }
    if readings.is_empty() && text.lines().any(is_table) {
        return Err(
            "it is a table of the single-file mode (-a, -R or no -t); only the report of the \
             throughput mode is read: run iozone with -t and the number of processes"
                .into(),
        );
    }
    Ok(readings)
}

/// Whether it is the heading of the single-file mode's table, or of its form for spreadsheets.
pub(super) fn is_table(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    first == "kb" && words.next() == Some("reclen") || line.contains("The top row is records sizes")
}

fn rate(who: &str, rest: &str) -> Option<RateOnlyResult> {
    let (role, value) = rest.split_once('=')?;
    let role = role.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words = value.split_whitespace();
    let per_s = number(words.next()?)?;
    let unit = words.next()?.to_ascii_lowercase();
    let (metric, factor) = match unit.strip_suffix("/sec")? {
        "kb" => (ComparisonMetric::BytesPerSecond, 1024.0),
        "mb" => (ComparisonMetric::BytesPerSecond, f64::from(1 << 20)),
        "gb" => (ComparisonMetric::BytesPerSecond, f64::from(1 << 30)),
        "ops" => (ComparisonMetric::OpsPerSecond, 1.0),
        _ => return None,
    };
    let name = match who {
        "Parent sees" => format!("{role} (parent)"),
        _ => role.clone(),
    };
    let kind = if role.contains("read") {
        OpKind::Read
    } else {
        OpKind::Write
    };
    Some(RateOnlyResult {
        name,
        metric,
        per_s: per_s * factor,
        amount: 0.0,
        kind,
    })
}
