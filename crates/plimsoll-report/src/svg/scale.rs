// SPDX-License-Identifier: Apache-2.0
//! Axes: where a value lies, and which values are worth a tick.

use plimsoll_core::units;

use crate::model::ChartQuantity;

/// A mapping from values to user units.
#[derive(Clone, Copy)]
pub(super) struct AxisScale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) log: bool,
}

impl AxisScale {
    /// An axis with these values at its ends, which lie at these places.
    pub(super) fn new(values: [f64; 2], places: [f64; 2], log: bool) -> AxisScale {
        let ([from, to], [start, end]) = (values, places);
        AxisScale {
            from,
            to,
            start,
            end,
            log,
        }
    }

    /// Position of a value, held within the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (from, to, value) = if self.log {
            (
                self.from.ln(),
                self.to.ln(),
                value.max(f64::MIN_POSITIVE).ln(),
            )
        } else {
            (self.from, self.to, value)
        };
        let share = if to > from {
            (value - from) / (to - from)
        } else {
            0.5
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }
}

/// Ticks of a linear axis from 0 to `max` with their labels, and the unit of the labels.
pub(super) fn linear_ticks(
    max: f64,
    quantity: ChartQuantity,
    count: f64,
) -> (Vec<(f64, String)>, &'static str) {
    let (divisor, unit) = unit(max, quantity);
    let step = nice(max / divisor / count);
    let mut ticks = Vec::new();
    let mut value = 0.0;
    // At most `count` × 2.5 + 1 rounds: `nice` never shrinks a step below 0.4 of it.
    while value <= max / divisor * 1.000_001 && ticks.len() < 50 {
        ticks.push((value * divisor, trimmed(value)));
        value += step;
    }
    (ticks, unit)
}

fn unit(max: f64, quantity: ChartQuantity) -> (f64, &'static str) {
    let table: &[(f64, &'static str)] = match quantity {
        ChartQuantity::Duration => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
        ChartQuantity::Rate => &[(1e6, "M ops/s"), (1e4, "k ops/s"), (1.0, "ops/s")],
        ChartQuantity::Throughput => &[
            (1_073_741_824.0, "GiB/s"),
            (1_048_576.0, "MiB/s"),
            (1_024.0, "KiB/s"),
            (1.0, "B/s"),
        ],
        ChartQuantity::Size => &[
            (1_073_741_824.0, "GiB"),
            (1_048_576.0, "MiB"),
            (1_024.0, "KiB"),
            (1.0, "B"),
        ],
        ChartQuantity::Share => &[(0.01, "%")],
        ChartQuantity::Number => &[(1e6, "M"), (1e3, "k"), (1.0, "")],
    };
    let fits = table.iter().find(|(divisor, _)| max >= *divisor);
    match fits.or(table.last()) {
        Some((_, "k ops/s")) => (1e3, "k ops/s"),
        Some((divisor, name)) => (*divisor, name),
        None => (1.0, ""),
    }
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
fn nice(step: f64) -> f64 {
    if step <= 0.0 || !step.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|f| f * power >= step * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// Ticks of a logarithmic axis of times, fewer the longer it is.
pub(super) fn log_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let decades = (to / from).log10();
    let factors: &[f64] = if decades > 3.2 {
        &[1.0]
    } else if decades > 0.7 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    };
    let powers = (0..12).map(|e| 10f64.powi(e));
    let values = powers.flat_map(|p| factors.iter().map(move |f| f * p));
    values
        .filter(|v| *v >= from * 0.999 && *v <= to * 1.001)
        .map(|v| (v, time_label(v)))
        .collect()
}

/// A round time without superfluous zeros: `100 µs`, `1.5 ms`.
fn time_label(ns: f64) -> String {
    let (divisor, name) = unit(ns, ChartQuantity::Duration);
    format!("{} {name}", trimmed(ns / divisor))
}

/// Ticks of a logarithmic axis of plain numbers.
pub(super) fn number_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let factors: &[f64] = match (to / from).log10() {
        decades if decades > 2.2 => &[1.0],
        decades if decades > 0.7 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    };
    let powers = (-4..8).map(|e| 10f64.powi(e));
    let values = powers.flat_map(|p| factors.iter().map(move |f| f * p));
    let inside = values.filter(|v| (from..=to).contains(v));
    inside.map(|v| (v, trimmed(v))).collect()
}

/// Ticks of an axis of ratios.
pub(super) fn ratio_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let span = to / from;
    let candidates: &[f64] = if span > 60.0 {
        &[0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    } else if (3.0..12.0).contains(&span) {
        &[
            0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0,
        ]
    } else if span >= 12.0 {
        &[0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    } else if span > 1.6 {
        &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5]
    } else {
        &[
            0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4,
        ]
    };
    let inside = candidates.iter().filter(|v| (from..=to).contains(*v));
    inside.map(|v| (*v, format!("{}×", trimmed(*v)))).collect()
}

/// At most three digits, without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = if value.abs() < 0.1 {
        format!("{value:.3}")
    } else {
        units::three_digits(value)
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |(ticks, unit): (Vec<(f64, String)>, &'static str)| {
            let labels: Vec<String> = ticks.into_iter().map(|t| t.1).collect();
            format!("{} {unit}", labels.join(" "))
        };
        let check = |max, quantity, expect| {
            assert_eq!(labels(linear_ticks(max, quantity, 4.0)), expect);
        };
        check(12.3e6, ChartQuantity::Duration, "0 5 10 ms");
        check(43_000.0, ChartQuantity::Rate, "0 20 40 k ops/s");
        check(9_000.0, ChartQuantity::Rate, "0 2500 5000 7500 ops/s");
        check(0.0, ChartQuantity::Rate, "0 ops/s");
        check(
            3.2 * 1_048_576.0,
            ChartQuantity::Throughput,
            "0 1 2 3 MiB/s",
        );
        let log: Vec<String> = log_ticks(9e4, 2e7).into_iter().map(|t| t.1).collect();
        assert_eq!(
            log.join(" "),
            "100 µs 200 µs 500 µs 1 ms 2 ms 5 ms 10 ms 20 ms"
        );
    }
}
