// SPDX-License-Identifier: Apache-2.0
//! One workload: how every arm behaved under it.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{OpStats, WorkloadEntry};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{BlockIoGroup, BlockIoPacing};
use plimsoll_stats::SummaryStats;

use super::view::{ArmTrials, ResultsView, bytes_per_s, grouped, ops_per_s};
use super::{heat_map, phases, series};
use crate::model::{
    CentralTendency, ChartQuantity, DotChart, DotPanel, PercentileChart, PercentileLine,
    ReportChart, ReportFigure, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words;

/// Quantiles of the table, with their names.
const QUANTILES: [(f64, &str); 4] = [
    (0.5, "#p50"),
    (0.9, "#p90"),
    (0.99, "#p99"),
    (0.999, "#p99.9"),
];

/// The whole section.
pub(super) fn section(view: &ResultsView<'_>, entry: &WorkloadEntry) -> ReportSection {
    let mut section = ReportSection::new(entry.label.clone(), description(entry))
        .at(&format!("workload {}", entry.label));
    let pools = view.pools(entry);
    if pools.is_empty() {
        let none = "No trial of this workload was completed.";
        section
            .items
            .push(ReportItem::Notice(ReportSeverity::Care, none.into()));
        return section;
    }
    let errors: u64 = pools.iter().map(|p| p.stats.errors()).sum();
    if errors > 0 {
        section.items.push(ReportItem::Notice(
            ReportSeverity::Bad,
            format!(
                "{} failed; the times below include failed operations.",
                words::count(plimsoll_core::num::to_usize(errors), "operation")
            ),
        ));
    }
    section.items.extend(pools.iter().filter_map(data_check));
    if pools
        .iter()
        .any(|p| p.trials.iter().any(|t| !t.phases.is_empty()))
    {
        section.items.push(ReportItem::Table(phases::table(&pools)));
        if pools.iter().any(|p| p.stats.ops() > 0) {
            section.items.push(ReportItem::Table(kinds(&pools, false)));
        }
        return section;
    }
    section.items.push(ReportItem::Chart(blocks(&pools)));
    section
        .items
        .push(ReportItem::Chart(percentiles(&pools).beside_its_table()));
    section.items.push(ReportItem::Table(quantiles(&pools)));
    let over_time = series::figures(view, &pools).into_iter();
    let over_time = over_time.chain(heat_map::figure(view, &pools));
    section.items.extend(over_time.map(ReportItem::Chart));
    section.items.push(ReportItem::Table(kinds(&pools, true)));
    section
}

/// Outcome of the data check of an arm, where its data were verified.
fn data_check(pool: &ArmTrials<'_>) -> Option<ReportItem> {
    let check = pool.data_check()?;
    let tone = match (check.bad.total(), check.interrupted) {
        (0, false) => ReportSeverity::Good,
        (0, true) => ReportSeverity::Care,
        _ => ReportSeverity::Bad,
    };
    let text = format!("Data of {} verified: {check}.", pool.name());
    Some(ReportItem::Notice(tone, text))
}

fn description(entry: &WorkloadEntry) -> String {
    let length = if entry.workload.ends_by_itself() {
        "until the work is done".into()
    } else {
        format!("{} per trial", units::clock_duration(entry.length))
    };
    match &entry.workload {
        Workload::Model(model) => {
            let changes = match &model.source.changes[..] {
                [] => String::new(),
                changes => format!(" Changes: {}.", changes.join("; ")),
            };
            format!(
                "Open loop: the model “{}” fitted from {} ({}), rates ×{}, {length}.{changes}",
                model.name,
                model.source.recording,
                model.source.disk,
                units::three_digits(entry.scale)
            )
        }
        Workload::Blocks(blocks) => {
            let groups: Vec<String> = blocks.groups.iter().map(group).collect();
            format!("{}; {length}.", groups.join("; "))
        }
        Workload::Files(files) => {
            let groups = files.groups.iter().map(|group| {
                let ops: u64 = group.ops.iter().map(|op| u64::from(op.repeat)).sum();
                format!("{} threads repeat {ops} file operations", group.threads)
            });
            let entries: u64 = files.sets.iter().map(|set| u64::from(set.entries)).sum();
            format!(
                "Closed loop: {} on {entries} files, {length}.",
                groups.collect::<Vec<_>>().join(", ")
            )
        }
        Workload::Series(series) => {
            let names: Vec<&str> = series.phases.iter().map(|p| p.name.as_str()).collect();
            format!("Phases one after another: {}.", names.join(", "))
        }
        Workload::Commands(commands) => {
            let lines = commands.phases.iter().map(|c| c.argv.join(" "));
            format!("Programs: {}.", lines.collect::<Vec<_>>().join("; "))
        }
    }
}

/// One group of a block workload in words.
fn group(group: &BlockIoGroup) -> String {
    let total: f64 = group.mix.iter().map(|turn| turn.weight).sum();
    let mix = group.mix.iter().map(|turn| {
        let share = words::percent_whole(ratio(turn.weight, total));
        let size = units::size(f64::from(turn.bytes));
        let kind = format!("{:?}", turn.kind).to_lowercase();
        format!("{share} {kind} of {size}")
    });
    format!(
        "{}: {} of {} at depth {} on {} of data",
        if matches!(group.pace, BlockIoPacing::Open(_)) {
            "Open loop"
        } else {
            "Closed loop"
        },
        words::count(group.workers as usize, "worker"),
        mix.collect::<Vec<_>>().join(", "),
        group.depth,
        units::size(group.extent.bytes as f64),
    )
}

/// The blocks side by side, with how far they agree.
fn blocks(pools: &[ArmTrials<'_>]) -> ReportFigure {
    let spread = |pool: &ArmTrials<'_>| {
        let values = pool.values(|t| t.value(ComparisonMetric::MeanResponse));
        let summary = SummaryStats::of(values).filter(|s| s.count > 1 && s.mean > 0.0)?;
        let apart = (summary.max - summary.min) / summary.mean;
        Some(format!("{} {}", pool.name(), words::percent(apart)))
    };
    let told: Vec<String> = pools.iter().filter_map(spread).collect();
    let answer = match told.is_empty() {
        true => "There is one block, so nothing shows how far results repeat.".into(),
        false => format!(
            "Lowest to highest block, as a share of the mean response time: {}. A dot is a block, a \
             bar their mean.",
            told.join(", ")
        ),
    };
    let title = match several(pools) {
        true => "Do the blocks agree?",
        false => "How fast is it?",
    };
    ReportFigure::new(title, answer, ReportChart::Dots(dots(pools)))
}

fn dots(pools: &[ArmTrials<'_>]) -> DotChart {
    let panel = |title: &str, quantity, value: fn(&_) -> f64| DotPanel {
        title: title.into(),
        quantity,
        values: pools.iter().map(|p| p.by_block(value)).collect(),
    };
    DotChart {
        each: "block",
        row: "System",
        middle: CentralTendency::Mean,
        arms: pools.iter().map(|p| p.ink.clone()).collect(),
        panels: vec![
            panel("mean response time", ChartQuantity::Duration, |t| {
                t.value(ComparisonMetric::MeanResponse)
            }),
            panel("operations", ChartQuantity::Rate, ops_per_s),
            panel("throughput", ChartQuantity::Throughput, bytes_per_s),
        ],
    }
}

/// Whether any arm has more than one block, so that there are ranges to speak of.
fn several(pools: &[ArmTrials<'_>]) -> bool {
    pools.iter().any(|p| p.trials.len() > 1)
}

/// The distribution of response times, with how slow the slowest are.
pub(super) fn percentiles(pools: &[ArmTrials<'_>]) -> ReportFigure {
    let tail = |pool: &ArmTrials<'_>| {
        let response = pool.stats.response();
        let told = response.supports_quantile(0.99).then(|| {
            let p99 = ChartQuantity::Duration.show(response.quantile_ns(0.99) as f64);
            let range = match pool.quantile_range(0.99, OpStats::response) {
                range if range.is_empty() => range,
                range => format!(" ({range} over blocks)"),
            };
            format!("{p99} on {}{range}", pool.name())
        });
        told.unwrap_or_else(|| format!("{} has too few to say", pool.name()))
    };
    let told: Vec<String> = pools.iter().map(tail).collect();
    let bands = match several(pools) {
        true => " Bands: lowest to highest block.",
        false => "",
    };
    let answer = format!("99 of 100 end within {}.{bands}", told.join("; "));
    let lines = pools.iter().map(|pool| PercentileLine {
        ink: pool.ink.clone(),
        points: curve(&pool.stats.response()),
        band: band(pool),
    });
    let chart = PercentileChart {
        lines: lines.collect(),
    };
    let title = "How long do the slowest operations take?";
    ReportFigure::new(title, answer, ReportChart::Curves(chart))
}

/// Percentiles of a curve: `steps` per power of ten of 1/(1-p), to six nines, as far as the axis goes.
fn curve_quantiles(steps: u32) -> impl Iterator<Item = f64> {
    (1..=6 * steps).map(move |i| 1.0 - 10f64.powf(-f64::from(i) / f64::from(steps)))
}

/// The curve, as far as the count supports the percentile.
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    curve_quantiles(40)
        .filter(|q| histogram.supports_quantile(*q))
        .map(|q| (q, histogram.quantile_ns(q) as f64))
        .collect()
}

/// Lowest and highest block at every percentile that two blocks support.
fn band(pool: &ArmTrials<'_>) -> Vec<(f64, f64, f64)> {
    let blocks: Vec<Histogram> = pool.trials.iter().map(|t| t.stats.response()).collect();
    let at = |q: f64| {
        let supported = blocks.iter().filter(|block| block.supports_quantile(q));
        let values: Vec<u64> = supported.map(|block| block.quantile_ns(q)).collect();
        let (low, high) = (values.iter().min()?, values.iter().max()?);
        (values.len() > 1).then_some((q, *low as f64, *high as f64))
    };
    curve_quantiles(10).filter_map(at).collect()
}

fn quantiles(pools: &[ArmTrials<'_>]) -> ReportTable {
    let mut columns = vec!["System", "Time", "#Operations", "#mean"];
    columns.extend(QUANTILES.map(|(_, name)| name));
    columns.push("#max");
    let mut table = ReportTable::new("Distribution of times, all blocks together", &columns);
    let mut suppressed = false;
    for pool in pools {
        for (name, of) in [
            ("response", OpStats::response as fn(&OpStats) -> Histogram),
            ("service", OpStats::service),
        ] {
            let all = of(&pool.stats);
            let first = name == "response";
            let means = pool.values(|t| of(&t.stats).mean_ns());
            let mut row = vec![
                ReportTableCell::new(if first { pool.name() } else { String::new() }),
                ReportTableCell::new(name),
                ReportTableCell::new(if first {
                    grouped(all.count())
                } else {
                    String::new()
                }),
                words::spread(&means, ChartQuantity::Duration),
            ];
            for (q, _) in QUANTILES {
                suppressed |= !all.supports_quantile(q);
                row.push(quantile(pool, &all, q, of));
            }
            row.push(ReportTableCell::new(
                ChartQuantity::Duration.show(all.max_ns() as f64),
            ));
            table.rows.push(row);
        }
    }
    let mut note = String::from(
        "Response time counts from the intended start, service time from the submission.",
    );
    if several(pools) {
        note.push_str(" Below each value: its range over blocks.");
    }
    table.notes.push(note);
    if suppressed {
        table.notes.push(
            "–: too few operations for a 95 % interval of this percentile (p99 needs 299, p99.9 \
             needs 2995)."
                .into(),
        );
    }
    table
}

fn quantile(
    pool: &ArmTrials<'_>,
    all: &Histogram,
    q: f64,
    of: fn(&OpStats) -> Histogram,
) -> ReportTableCell {
    if all.supports_quantile(q) {
        ReportTableCell::new(ChartQuantity::Duration.show(all.quantile_ns(q) as f64))
            .detail(pool.quantile_range(q, of))
    } else {
        words::dash()
    }
}

/// Each kind of operation by itself. Without rates where phases follow one another: a kind is then
/// at work in a part of the run only, and a rate over all of it would be of nothing.
fn kinds(pools: &[ArmTrials<'_>], rates: bool) -> ReportTable {
    let mut columns = vec!["System", "Kind", "~#Operations"];
    if rates {
        columns.extend(["#ops/s", "#Throughput"]);
    }
    columns.extend(["#Mean response", "#p99 response", "#Errors"]);
    let mut table = ReportTable::new("By kind of operation", &columns);
    for pool in pools {
        let present = OpKind::ALL
            .into_iter()
            .filter(|k| pool.stats.0.contains_key(k));
        for (place, kind) in present.enumerate() {
            let name = if place == 0 {
                pool.name()
            } else {
                String::new()
            };
            table.rows.push(kind_row(pool, kind, name, rates));
        }
    }
    if several(pools) {
        let note = "Means over blocks, with the range over blocks below.";
        table.notes.push(note.into());
    }
    table
}

fn kind_row(pool: &ArmTrials<'_>, kind: OpKind, name: String, rates: bool) -> Vec<ReportTableCell> {
    let all = &pool.stats.0[&kind];
    let mut row = vec![
        ReportTableCell::new(name),
        ReportTableCell::new(kind.name()),
        ReportTableCell::new(grouped(all.ops())),
    ];
    if rates {
        row.extend(kind_rates(pool, kind));
    }
    // Programs may report how many there were, and nothing of their times.
    if all.response.count() == 0 {
        row.extend([words::dash(), words::dash()]);
    } else {
        let means = pool.of_kind(kind, |k, _| k.response.mean_ns());
        row.push(words::spread(&means, ChartQuantity::Duration));
        row.push(if all.response.supports_quantile(0.99) {
            ReportTableCell::new(
                ChartQuantity::Duration.show(all.response.quantile_ns(0.99) as f64),
            )
        } else {
            words::dash()
        });
    }
    let errors = ReportTableCell::new(grouped(all.errors));
    row.push(if all.errors > 0 {
        errors.tone(ReportSeverity::Bad)
    } else {
        errors
    });
    row
}

/// Operations and bytes per second of a kind.
fn kind_rates(pool: &ArmTrials<'_>, kind: OpKind) -> [ReportTableCell; 2] {
    let ops = pool.of_kind(kind, |k, seconds| ratio(k.ops() as f64, seconds));
    let bytes = pool.of_kind(kind, |k, seconds| ratio(k.bytes as f64, seconds));
    let moves = kind.is_read() || kind.is_write();
    [
        words::spread(&ops, ChartQuantity::Rate),
        if moves {
            words::spread(&bytes, ChartQuantity::Throughput)
        } else {
            words::dash()
        },
    ]
}
