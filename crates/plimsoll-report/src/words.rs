// SPDX-License-Identifier: Apache-2.0
//! Numbers as words: ratios, percentages and spreads, said the same way everywhere.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict, RatioEstimate};
use plimsoll_core::num::round_u64;
use plimsoll_stats::SummaryStats;

use crate::model::{ChartQuantity, ReportSeverity, ReportTableCell};

/// The A/A control of a system: the same once more.
pub(crate) fn control(of: &str) -> String {
    format!("{of} (A/A control)")
}

/// The workload of a comparison, without what its label says of the metric.
pub(crate) fn workload(row: &ArmComparison) -> &str {
    let metric = row.metric.name();
    let label = &row.workload;
    let shorter = label
        .strip_suffix(metric)
        .and_then(|rest| rest.strip_suffix(": "));
    shorter.unwrap_or(label)
}

/// The arm of a comparison as it is named in a report.
pub(crate) fn arm(row: &ArmComparison) -> String {
    match row.is_control {
        true => control(&row.base),
        false => row.arm.clone(),
    }
}

/// A fraction as a percentage: `4.2 %`, `37 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    let places = usize::from(value.abs() < 9.95);
    format!("{value:.places$} %")
}

/// How far two values may be apart: `4.2 %`, and beyond a doubling `a factor of 3.1`.
pub(crate) fn apart(fraction: f64) -> String {
    match fraction > 1.0 {
        true => format!(
            "a factor of {}",
            plimsoll_core::units::three_digits(1.0 + fraction)
        ),
        false => percent(fraction),
    }
}

/// Decimals that the width of the interval deserves.
fn places(ratio: &RatioEstimate) -> usize {
    let width = ratio.high - ratio.low;
    let by_width = if width >= 1.0 {
        1
    } else if width >= 0.04 {
        2
    } else {
        3
    };
    match ratio.estimate {
        // Two digits must remain of a small ratio.
        small if small < 0.1 => 3,
        large if large >= 100.0 => by_width.min(1),
        _ => by_width,
    }
}

/// The estimate as people read it: `3.12`.
pub(crate) fn estimate(ratio: &RatioEstimate) -> String {
    bounded(ratio.estimate, places(ratio))
}

/// The interval: `2.80 to 3.48`.
pub(crate) fn interval(ratio: &RatioEstimate) -> String {
    let places = places(ratio);
    format!(
        "{} to {}",
        bounded(ratio.low, places),
        bounded(ratio.high, places)
    )
}

/// How many times as good as the base an arm is, whatever the metric counts.
pub(crate) fn times_as_good(row: &ArmComparison) -> Option<RatioEstimate> {
    let ratio = row.ratio.as_ref()?;
    Some(match row.metric.more_is_better() {
        true => *ratio,
        false => ratio.inverse(),
    })
}

/// The better of both by the estimate, the other one, and how many times as good it is: 1 at least.
pub(crate) fn lead(row: &ArmComparison) -> Option<(&str, &str, RatioEstimate)> {
    let times = times_as_good(row)?;
    Some(match times.estimate >= 1.0 {
        true => (&row.arm, &row.base, times),
        false => (&row.base, &row.arm, times.inverse()),
    })
}

/// The same as a figure: `local 3.12× (2.80 to 3.48)`.
pub(crate) fn lead_in_short(row: &ArmComparison) -> Option<String> {
    let (better, _, times) = lead(row)?;
    Some(format!(
        "{better} {}× ({})",
        estimate(&times),
        interval(&times)
    ))
}

/// The same as a clause: `a has 17.8× the throughput of b`, and of times, where less is better, what the
/// other one has.
pub(crate) fn lead_in_words(row: &ArmComparison) -> Option<String> {
    let (better, other, times) = lead(row)?;
    let (metric, times) = (row.metric.name(), estimate(&times));
    Some(match row.metric.more_is_better() {
        true => format!("{better} has {times}× the {metric} of {other}"),
        false => format!("{better} has a {times}× lower {metric} than {other}"),
    })
}

/// The interval of it.
pub(crate) fn lead_interval(row: &ArmComparison) -> String {
    lead(row).map_or_else(String::new, |(_, _, times)| interval(&times))
}

fn bounded(value: f64, places: usize) -> String {
    if value > 1_000.0 {
        "> 1000".into()
    } else if value < 0.001 {
        "< 0.001".into()
    } else {
        format!("{value:.places$}")
    }
}

/// The text with a capital at its front.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// `5 blocks`, `1 block`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// Mean with the range over blocks below it; `–` when there is nothing.
pub(crate) fn spread(values: &[f64], quantity: ChartQuantity) -> ReportTableCell {
    spread_as(values, quantity, ChartQuantity::show_short)
}

/// The same with the unit, for columns whose heading gives none.
pub(crate) fn spread_with_unit(values: &[f64], quantity: ChartQuantity) -> ReportTableCell {
    spread_as(values, quantity, ChartQuantity::show)
}

fn spread_as(
    values: &[f64],
    quantity: ChartQuantity,
    show: fn(ChartQuantity, f64) -> String,
) -> ReportTableCell {
    let Some(summary) = SummaryStats::of(values.iter().copied()) else {
        return dash();
    };
    ReportTableCell::new(show(quantity, summary.mean))
        .detail(range(&summary, quantity))
        .value(summary.mean)
}

/// For what there is nothing to say of.
pub(crate) fn dash() -> ReportTableCell {
    ReportTableCell::new("–").tone(ReportSeverity::Muted)
}

/// Smallest to largest over blocks; empty for one block.
pub(crate) fn range(summary: &SummaryStats, quantity: ChartQuantity) -> String {
    if summary.count < 2 {
        return String::new();
    }
    between(summary.min, summary.max, quantity)
}

/// `11.9–12.8 ms`; both ends with their unit where they differ in it.
pub(crate) fn between(min: f64, max: f64, quantity: ChartQuantity) -> String {
    let (low, high) = (quantity.show_short(min), quantity.show_short(max));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number}–{high}"),
        (None, None) => format!("{low}–{high}"),
        _ => format!("{low} – {high}"),
    }
}

/// How a comparison is to be taken.
pub(crate) fn tone(row: &ArmComparison) -> ReportSeverity {
    let more = row.ratio.is_some_and(|r| r.estimate > 1.0);
    match row.verdict {
        ComparisonVerdict::Different if row.is_control => ReportSeverity::Bad,
        ComparisonVerdict::Different if more == row.metric.more_is_better() => ReportSeverity::Good,
        ComparisonVerdict::Different => ReportSeverity::Bad,
        ComparisonVerdict::Equivalent => ReportSeverity::Same,
        ComparisonVerdict::Inconclusive => ReportSeverity::Muted,
        ComparisonVerdict::CannotCarry if row.arm_is_overloaded() => ReportSeverity::Bad,
        ComparisonVerdict::CannotCarry => ReportSeverity::Good,
    }
}

/// The verdict with its direction.
pub(crate) fn verdict(row: &ArmComparison) -> String {
    let word = row.verdict.name();
    match (row.verdict, tone(row)) {
        (ComparisonVerdict::Different, ReportSeverity::Good) => {
            format!("{word}: better{}", certainty(row))
        }
        (ComparisonVerdict::Different, _) if !row.is_control => {
            format!("{word}: worse{}", certainty(row))
        }
        (ComparisonVerdict::CannotCarry, _) if row.base_is_overloaded() => {
            match row.arm_is_overloaded() {
                true => "neither can carry it".into(),
                false => "the base cannot carry it".into(),
            }
        }
        _ => word.into(),
    }
}

/// An interval whose ends differ by more than this factor says that there is an effect, and hardly
/// anything of its size.
const SIZE_KNOWN_MAX: f64 = 4.0;

fn certainty(row: &ArmComparison) -> &'static str {
    let is_wide = |ratio: &RatioEstimate| ratio.high > SIZE_KNOWN_MAX * ratio.low;
    match row.ratio.as_ref().is_some_and(is_wide) {
        true => ", size unknown",
        false => "",
    }
}

/// A fraction as a percentage without superfluous decimals: `95 %`, `2.5 %`.
pub(crate) fn percent_whole(fraction: f64) -> String {
    let text = format!("{:.1}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A whole number with thin spaces between thousands.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A number of unknown unit, readable at any magnitude.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        "–".into()
    } else if value.abs() >= 1e4 {
        grouped(round_u64(value))
    } else {
        plimsoll_core::units::three_digits(value)
    }
}
