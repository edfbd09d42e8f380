// SPDX-License-Identifier: Apache-2.0
//! Units and how people read them. Sizes are IEC (KiB = 1024 B); times are SI.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use crate::num::{round_u64, to_usize};

/// Nanoseconds: a point on a run's clock (0 = run start) or a length of time.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);
    /// The end of time: later than any run.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From seconds, rounded to the nearest nanosecond; negative becomes 0.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos(round_u64(seconds * 1e9))
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since `earlier`; 0 when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    /// Times of more than 584 years become that.
    fn from(length: Duration) -> Nanos {
        Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        self.since(other)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration(*self))
    }
}

/// A length of time with three significant digits: `412 ns`, `3.71 µs`, `12.0 ms`, `2.50 s`.
pub fn duration(time: Nanos) -> String {
    let ns = time.0 as f64;
    match time.0 {
        0..1_000 => format!("{} ns", time.0),
        1_000..1_000_000 => format!("{} µs", three_digits(ns / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(ns / 1e6)),
        _ => format!("{} s", three_digits(ns / 1e9)),
    }
}

/// A clock-like length for plans and ETAs: `45 s`, `3 min 05 s`, `2 h 10 min`.
pub fn clock_duration(time: Nanos) -> String {
    let seconds = round_u64(time.as_secs_f64());
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A size: `512 B`, `29.7 KiB`, `1.00 GiB`.
pub fn size(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // A sum of nothing is a negative zero.
    let mut value = bytes + 0.0;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value:.0} B")
    } else {
        format!("{} {}", three_digits(value), UNITS[unit])
    }
}

/// Bytes per second.
pub fn throughput(bytes_per_s: f64) -> String {
    format!("{}/s", size(bytes_per_s))
}

/// A rate of operations: `85.0`, `12.3k`, `1.20M`.
pub fn rate(per_s: f64) -> String {
    if per_s >= 1e6 {
        format!("{}M", three_digits(per_s / 1e6))
    } else if per_s >= 1e4 {
        format!("{}k", three_digits(per_s / 1e3))
    } else {
        three_digits(per_s)
    }
}

/// A fraction as a percentage with one decimal and a sign: `+1.2 %`.
pub fn signed_percent(fraction: f64) -> String {
    format!("{:+.1} %", fraction * 100.0)
}

/// Three significant digits, never exponent notation.
pub fn three_digits(value: f64) -> String {
    // A sum of nothing is a negative zero.
    let value = value + 0.0;
    let magnitude = value.abs();
    let decimals = if magnitude >= 99.95 {
        0
    } else if magnitude >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// Reads a size as storage people write it: `4096`, `4k`, `64KiB`, `1.5G`. Suffixes are powers of
/// 1024, with or without `iB`/`B`, upper or lower case.
///
/// # Errors
/// A sentence that names what was wrong with the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let value: f64 = number
        .parse()
        .map_err(|_| "expected a size such as 4k, 64KiB or 2G".to_owned())?;
    let suffix = suffix.trim().to_ascii_lowercase();
    let letter = suffix.trim_end_matches("ib").trim_end_matches('b');
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err("unknown unit; use k, M, G or T".into()),
    };
    let bytes = value * 1024f64.powi(power);
    if bytes >= 1e18 {
        Err("too large".into())
    } else {
        Ok(round_u64(bytes))
    }
}

/// Reads a fraction: `5%` or `0.05`. A number above 1 without a sign may be meant as a percentage.
pub fn parse_fraction(text: &str) -> Option<f64> {
    let parse = |number: &str| number.trim().parse::<f64>().ok();
    let fraction = match text.trim().strip_suffix('%') {
        Some(percent) => parse(percent).map(|percent| percent / 100.0),
        None => parse(text).filter(|fraction| *fraction <= 1.0),
    };
    fraction.filter(|fraction| fraction.is_finite())
}

/// Reads a length of time: `10` (seconds), `1.5s`, `200ms`, `2m`, `1h30m`, `2d`, `90 sec`.
///
/// # Errors
/// A sentence that names what was wrong with the text.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    const EXPECTED: &str = "expected a time such as 10s, 200ms, 2m or 1h30m";
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rest, mut seconds, mut smaller_than) = (text.trim(), 0.0, f64::INFINITY);
    if let Ok(value) = rest.parse::<f64>()
        && rest.chars().all(is_number)
    {
        (rest, seconds) = ("", value);
    } else if rest.is_empty() {
        return Err(EXPECTED.into());
    }
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
        let value: f64 = number.parse().map_err(|_| EXPECTED.to_owned())?;
        let unit = match unit.trim() {
            "" => return Err(EXPECTED.into()),
            "d" | "day" | "days" => 86_400.0,
            "h" | "hour" | "hours" => 3_600.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            _ => return Err("unknown unit; use us, ms, s, m, h or d".into()),
        };
        if unit >= smaller_than {
            return Err("expected the larger units first, such as 1h30m".into());
        }
        (rest, smaller_than) = (behind, unit);
        seconds += value * unit;
    }
    if seconds > 1e9 {
        return Err("too long".into());
    }
    Ok(Nanos::from_secs_f64(seconds))
}

/// A line of block characters, one per value, scaled to the largest: a chart for a terminal.
pub fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = values.iter().copied().fold(0.0, f64::max);
    let bar = |v: f64| {
        if top > 0.0 {
            BARS[to_usize(round_u64(v / top * 7.0)).min(7)]
        } else {
            BARS[0]
        }
    };
    values.iter().map(|v| bar(*v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_like_a_person_writes_them() {
        for (input, expect) in [
            (999, "999 ns"),
            (3_711, "3.71 µs"),
            (12_000_000, "12.0 ms"),
            (2_500_000_000, "2.50 s"),
        ] {
            assert_eq!(duration(Nanos(input)), expect);
        }
        for (input, expect) in [
            (512.0, "512 B"),
            (30_380.0, "29.7 KiB"),
            (1_073_741_824.0, "1.00 GiB"),
        ] {
            assert_eq!(size(input), expect);
        }
        assert_eq!(clock_duration(Nanos::from_secs_f64(185.0)), "3 min 05 s");
        assert_eq!(rate(12_345.0), "12.3k");
    }

    #[test]
    fn sizes_and_times_are_parsed_or_refused_with_a_reason() {
        for (input, expect) in [
            ("4096", 4096),
            ("4k", 4096),
            ("64KiB", 65_536),
            ("1.5G", 1_610_612_736),
            ("2mb", 2_097_152),
        ] {
            assert_eq!(parse_size(input), Ok(expect), "{input}");
        }
        assert!(parse_size("4q").unwrap_err().contains("unknown unit"));
        assert!(parse_size("").unwrap_err().contains("expected a size"));
        assert_eq!(parse_duration("200ms"), Ok(Nanos(200_000_000)));
        assert_eq!(parse_duration("2m"), Ok(Nanos(120_000_000_000)));
        assert_eq!(parse_duration("1d"), Ok(Nanos(86_400_000_000_000)));
        assert_eq!(parse_duration("3 min 30 sec"), Ok(Nanos(210_000_000_000)));
        assert_eq!(parse_duration("1h30m"), Ok(Nanos(5_400_000_000_000)));
        assert_eq!(parse_duration("1m 1.5s"), Ok(Nanos(61_500_000_000)));
        for wrong in [
            "soon", "", "s", "1h30", "30m1h", "1m2m", "1.5.2s", "1w", "-3s", "1e3",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
