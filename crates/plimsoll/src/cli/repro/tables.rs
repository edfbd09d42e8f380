// SPDX-License-Identifier: Apache-2.0
//! The tables of the tutorial done again.

use super::pcp_model::TutorialComponentResult;
use crate::cli::verify::JobFidelity;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::model::FidelityCheck;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::{self, Nanos};
use plimsoll_report::model::{ReportItem, ReportSeverity, ReportTable, ReportTableCell};
use std::path::Path;

/// Every figure of the spreadsheet beside ours.
pub(super) fn baseline(done: &[TutorialComponentResult]) -> ReportTable {
    let mut table = ReportTable::new(
        "Averages",
        &[
            "Component",
            "Figure",
            "#Spreadsheet",
            "#Ours",
            "Same digits",
        ],
    );
    for done in done {
        for (at, (figure, theirs, ours)) in done.component.published.iter().enumerate() {
            let decimals = theirs.split_once('.').map_or(0, |(_, digits)| digits.len());
            let ours = ours(&done.profile).map(|value| format!("{value:.decimals$}"));
            let is_same = ours.as_deref() == Some(*theirs);
            let title = if at == 0 { done.component.title } else { "" };
            table.rows.push(vec![
                ReportTableCell::new(title),
                ReportTableCell::new(*figure),
                ReportTableCell::new(*theirs),
                ReportTableCell::new(ours.unwrap_or_else(|| "not recorded".into())),
                mark(is_same, "yes", "NO"),
            ]);
        }
    }
    table
}

fn mark(is_good: bool, good: &str, bad: &str) -> ReportTableCell {
    let (word, tone) = if is_good {
        (good, ReportSeverity::Good)
    } else {
        (bad, ReportSeverity::Bad)
    };
    ReportTableCell::new(word).tone(tone)
}

/// What each component is beyond its means.
pub(super) fn components(done: &[TutorialComponentResult]) -> ReportTable {
    let mut table = ReportTable::new(
        "Components",
        &[
            "Component",
            "Direction",
            "#Mean/s",
            "#Median/s",
            "#Peak/s",
            "#Burstiness (IDC)",
            "Bursts",
        ],
    );
    let rate = |value: Option<f64>| ReportTableCell::new(value.map_or("–".into(), units::rate));
    for done in done {
        for (at, direction) in done.profile.directions.iter().enumerate() {
            let of_direction =
                |b: &&plimsoll_core::model::BurstPattern| b.direction == direction.direction;
            let bursts = done.profile.bursts.iter().find(of_direction).map(|burst| {
                let share = format!(
                    "{:.0} % of operations in {:.0} % of the time",
                    burst.share * 100.0,
                    burst.duty * 100.0
                );
                match burst.period_s {
                    Some(period) => format!("every {period:.0} s, {share}"),
                    None => share,
                }
            });
            let title = if at == 0 { done.component.title } else { "" };
            table.rows.push(vec![
                ReportTableCell::new(title),
                ReportTableCell::new(direction.direction.name()),
                rate(direction.ops_per_s.map(|ops| ops.time)),
                rate(direction.rates.map(|rates| rates.median_per_s)),
                rate(direction.rates.map(|rates| rates.peak_per_s)),
                ReportTableCell::new(direction.idc.map_or("–".into(), units::rate)),
                ReportTableCell::new(bursts.unwrap_or_else(|| "none found".into())),
            ]);
        }
    }
    table
}

/// The errors of our model and of the published job, and why the latter has them.
pub(super) fn verification(done: &TutorialComponentResult) -> (ReportTable, String) {
    let job = &done.published;
    let mut columns = vec![
        "Metric".to_owned(),
        "#Recorded".into(),
        "#Gate".into(),
        "#Our model".into(),
        "#Published job".into(),
    ];
    columns.extend(job.others.iter().map(|other| format!("~#{}", other.what)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = format!("{} ({})", done.component.title, job.sections);
    let mut table = ReportTable::new(title, &columns);
    for checked in &done.ours.lines {
        let line = &checked.line;
        let theirs = job.verification.lines.iter().map(|checked| &checked.line);
        let mut row = vec![
            ReportTableCell::new(line.metric.clone()),
            ReportTableCell::new(units::three_digits(line.recorded)),
            ReportTableCell::new(format!("±{:.0} %", line.gate * 100.0)),
            error(Some(line)),
            error(same(theirs, &line.metric)),
        ];
        for other in &job.others {
            row.push(error(same(other.lines.iter(), &line.metric)));
        }
        table.rows.push(row);
    }
    (table, format!("Why: {}.", job.traps.join("; ")))
}

fn same<'a>(
    mut lines: impl Iterator<Item = &'a FidelityCheck>,
    metric: &str,
) -> Option<&'a FidelityCheck> {
    lines.find(|line| line.metric == metric)
}

fn error(line: Option<&FidelityCheck>) -> ReportTableCell {
    let Some(line) = line else {
        return ReportTableCell::new("–");
    };
    let text = line.shown(|error| format!("{:+.1} %", error * 100.0));
    let tone = if line.passed() {
        ReportSeverity::Good
    } else {
        ReportSeverity::Bad
    };
    ReportTableCell::new(text).tone(tone)
}

/// How much of the recorded operations a job asks for, in each way to take it.
pub(super) fn claims(job: &JobFidelity) -> String {
    let asked: Vec<FidelityCheck> = job
        .verification
        .lines
        .iter()
        .map(|c| c.line.clone())
        .collect();
    let ways = std::iter::once((job.what.as_str(), &asked)).chain(
        job.others
            .iter()
            .map(|other| (other.what.as_str(), &other.lines)),
    );
    let told = ways.map(|(what, lines)| {
        let of = |metric: &str| {
            same(lines.iter(), metric)
                .map_or("–".into(), |line| units::signed_percent(line.error))
        };
        format!(
            "{what}: {} reads, {} writes",
            of("read operations per second"),
            of("write operations per second")
        )
    });
    format!(
        "The published job, {}.",
        told.collect::<Vec<_>>().join("; ")
    )
}

/// Maximum, mean and standard deviation of response times, and how busy the device was.
pub(super) fn compared(results: &RunFolderContents) -> ReportTable {
    let mut table = ReportTable::new(
        "Ours",
        &[
            "Workload",
            "System",
            "Operations",
            "#Maximum",
            "#Mean",
            "#Deviation",
            "#Operations/s",
            "#In flight",
            "#Device busy",
        ],
    );
    for entry in &results.manifest.entries {
        for arm in &results.manifest.arms {
            let busy = busy(results, &entry.label, &arm.name);
            for kind in [OpKind::Read, OpKind::Write] {
                let own = |t: &&plimsoll_core::event::TrialResult| {
                    t.trial.workload == entry.label && t.trial.arm == arm.name && !t.interrupted
                };
                let (mut response, mut service) = (Histogram::new(), Histogram::new());
                let mut seconds = 0.0;
                for trial in results.trials.iter().filter(own) {
                    seconds += trial.length.as_secs_f64();
                    if let Some(stats) = trial.stats.0.get(&kind) {
                        response.merge(&stats.response);
                        service.merge(&stats.service);
                    }
                }
                if response.is_empty() {
                    continue;
                }
                table.rows.push(vec![
                    ReportTableCell::new(entry.label.clone()),
                    ReportTableCell::new(arm.name.clone()),
                    ReportTableCell::new(format!("{}s", kind.name())),
                    ReportTableCell::new(units::duration(Nanos(response.max_ns()))),
                    ReportTableCell::new(units::duration(Nanos(round_u64(response.mean_ns())))),
                    ReportTableCell::new(units::duration(Nanos(round_u64(deviation(&response))))),
                    ReportTableCell::new(units::rate(ratio(response.count() as f64, seconds))),
                    ReportTableCell::new(format!(
                        "{:.3}",
                        ratio(service.sum_ns() as f64 / 1e9, seconds)
                    )),
                    ReportTableCell::new(
                        busy.map_or("–".into(), |busy| format!("{:.1} %", busy * 100.0)),
                    ),
                ]);
            }
        }
    }
    table.notes.push(
        "In flight: operations in the storage on the mean, their service times together over the time. Overlapping operations all count.".into(),
    );
    table.notes.push(
        "Device busy: share of the time with anything in flight on the block device below the system, reads and writes of everybody, as the kernel counts it; – where this machine counts none.".into(),
    );
    table
}

/// How much of the time the device below a system was busy under a workload; `None` where no trial
/// saw one.
fn busy(results: &RunFolderContents, workload: &str, arm: &str) -> Option<f64> {
    let own = |t: &&plimsoll_core::event::TrialResult| {
        t.trial.workload == workload && t.trial.arm == arm && !t.interrupted
    };
    let used = results.trials.iter().filter(own);
    let used = used.filter_map(|trial| trial.device.as_ref());
    let times = used.filter_map(|used| Some((used.busy?, used.length)));
    let (busy, length) = times.fold((Nanos(0), Nanos(0)), |(busy, length), one| {
        (busy + one.0, length + one.1)
    });
    (length > Nanos(0)).then(|| ratio(busy.as_secs_f64(), length.as_secs_f64()))
}

/// Standard deviation in nanoseconds, of values as exact as the histogram keeps them.
fn deviation(histogram: &Histogram) -> f64 {
    let mean = histogram.mean_ns();
    let squares = histogram
        .buckets()
        .map(|(value, count)| count as f64 * (value as f64 - mean).powi(2));
    ratio(squares.sum(), histogram.count() as f64).sqrt()
}

/// The published table, where the data folder has it.
pub(super) fn published(path: &Path) -> Option<ReportItem> {
    let Ok(text) = std::fs::read_to_string(path) else {
        let text = format!(
            "The published table is left out: there is no {}.",
            path.display()
        );
        return Some(ReportItem::Notice(ReportSeverity::Care, text));
    };
    let mut rows = text.lines().map(fields);
    let head = rows.next()?;
    let place = |name: &str| head.iter().position(|field| field == name);
    let wanted = [
        ("workload", "Workload"),
        ("clat_max", "#Maximum, µs"),
        ("clat_avg_us", "#Mean, µs"),
        ("clat_stdev_us", "#Deviation, µs"),
        ("iops", "#Operations/s"),
        ("bw_KBps", "#KB/s"),
    ];
    let places: Vec<(usize, &str)> = wanted
        .iter()
        .filter_map(|(name, title)| Some((place(name)?, *title)))
        .collect();
    let titles: Vec<&str> = places.iter().map(|(_, title)| *title).collect();
    let mut table = ReportTable::new("Published: fio, one job of four", &titles);
    for row in rows {
        let cell = |(at, _): &(usize, &str)| {
            ReportTableCell::new(row.get(*at).cloned().unwrap_or_default())
        };
        table.rows.push(places.iter().map(cell).collect());
    }
    Some(ReportItem::Table(table))
}

/// The fields of a line of CSV; commas inside quotes part nothing.
pub(super) fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => {
                if let Some(field) = fields.last_mut() {
                    field.push(letter);
                }
            }
        }
    }
    fields
}

/// All of it for machines.
pub(super) fn data(
    done: &[TutorialComponentResult],
    results: Option<&RunFolderContents>,
) -> serde_json::Value {
    let components: Vec<serde_json::Value> = done
        .iter()
        .map(|done| {
            serde_json::json!({
                "component": done.component.title,
                "profile": done.profile,
                "model": done.ours,
                "published_job": done.published.json(),
            })
        })
        .collect();
    serde_json::json!({
        "components": components,
        "comparisons": results.map(|results| &results.comparisons),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_quotes_part_nothing() {
        assert_eq!(
            fields("NAS writes,361,\"1,325K\",2"),
            ["NAS writes", "361", "1,325K", "2"]
        );
    }

    #[test]
    fn the_deviation_is_that_of_the_values() {
        let mut histogram = Histogram::new();
        histogram.record_many(Nanos(100_000), 50);
        histogram.record_many(Nanos(300_000), 50);
        assert!((deviation(&histogram) / 100_000.0 - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_table_that_is_not_there_is_said_to_be_missing() {
        let item = published(Path::new("/nonexistent/pcp-fio.csv"));
        assert!(matches!(item, Some(ReportItem::Notice(..))), "{item:?}");
    }
}
