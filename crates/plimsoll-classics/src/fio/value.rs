// SPDX-License-Identifier: Apache-2.0
//! Values of fio's options: sizes, times, and lists by direction.
//!
//! Units as in fio 3.33 with its defaults (`kb_base=1024`): there `k` and `kb` are 1024 bytes, and
//! `ki` and `kib` are 1000, the reverse of what the standard says.

use plimsoll_core::num::round_u64;
use plimsoll_core::units::Nanos;

/// Largest size that is taken.
const SIZE_MAX: f64 = 4e18;

/// Bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    unrounded(text).map(round_u64)
}

/// Operations per second. fio takes whole numbers only; half an operation per second must not
/// become one.
pub(crate) fn per_second(text: &str) -> Result<u64, String> {
    let number = unrounded(text)?;
    if number.fract() > 0.0 {
        return Err("expected an integer per second; for slower rates use thinktime".into());
    }
    Ok(round_u64(number))
}

/// A number with one of fio's units.
fn unrounded(text: &str) -> Result<f64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = lower.split_at(digits.unwrap_or(lower.len()));
    let value: f64 = number
        .parse()
        .map_err(|_| "expected a size such as 4k, 64k or 2g".to_owned())?;
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1000f64),
        None => (unit, 1024f64),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "%" => return Err("a share of the device is not supported; write bytes".into()),
        _ => return Err("unknown unit; use k, m, g, t or p".into()),
    };
    let bytes = value * base.powi(power);
    if bytes > SIZE_MAX {
        return Err("too large".into());
    }
    Ok(bytes)
}

/// A time; a number without a unit counts `unit`.
pub(crate) fn time(text: &str, unit: Nanos) -> Result<Nanos, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = lower.split_at(digits.unwrap_or(lower.len()));
    let value: f64 = number
        .parse()
        .map_err(|_| "expected a time such as 30, 5m or 200ms".to_owned())?;
    let each = match suffix {
        "" => unit.as_secs_f64(),
        "us" | "usec" => 1e-6,
        "ms" | "msec" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err("unknown unit; use us, ms, s, m, h or d".into()),
    };
    if value * each > 1e9 {
        return Err("too long".into());
    }
    Ok(Nanos::from_secs_f64(value * each))
}

/// A whole number within limits.
pub(crate) fn count(text: &str, low: u64, high: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("expected an integer from {low} to {high}")),
    }
}

/// A decimal number above 0 and up to `high`.
pub(crate) fn positive(text: &str, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= high => Ok(number),
        _ => Err(format!("expected a number above 0 and up to {high}")),
    }
}

/// Entry of a list `read,write,trim` for direction `at`: a missing entry takes the last one there
/// is, as for fio's block sizes.
pub(crate) fn by_direction(text: &str, at: usize) -> &str {
    let entries: Vec<&str> = text.split(',').map(str::trim).collect();
    match entries.get(at) {
        Some(entry) if !entry.is_empty() => entry,
        _ => entries
            .iter()
            .rev()
            .find(|e| !e.is_empty())
            .copied()
            .unwrap_or(""),
    }
}

/// Sizes with their shares in percent: `4k/60:64k/40`. Entries without a share divide what the
/// others leave.
pub(crate) fn split(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let mut entries = Vec::new();
    for entry in text.split(':') {
        let (bytes, share) = entry.split_once('/').unwrap_or((entry, ""));
        let share = match share.trim() {
            "" => None,
            text => Some(count(text, 0, 100)?),
        };
        entries.push((size(bytes.trim())?, share));
    }
    if entries.len() > 64 {
        return Err("it has more than 64 sizes".into());
    }
    let told: u64 = entries.iter().filter_map(|(_, share)| *share).sum();
    let open = entries.iter().filter(|(_, share)| share.is_none()).count();
    if told > 100 || (open == 0 && told < 100) {
        return Err(format!("its shares add up to {told} percent, not 100"));
    }
    let rest = (100 - told) as f64 / open.max(1) as f64;
    let share = |share: Option<u64>| share.map_or(rest, |percent| percent as f64);
    let all = entries
        .into_iter()
        .map(|(bytes, told)| (bytes, share(told)));
    Ok(all.filter(|(_, share)| *share > 0.0).collect())
}

/// The sizes of a range `4k-64k`, equally likely: the multiples of the smallest.
pub(crate) fn range(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let (low, high) = text
        .split_once('-')
        .ok_or("it is two sizes, such as 4k-64k")?;
    let (low, high) = (size(low.trim())?, size(high.trim())?);
    if low == 0 || low > high {
        return Err("it begins with the smaller size, above 0".into());
    }
    let n = high / low;
    if n > 64 {
        return Err("it has more than 64 sizes (the multiples of the smallest): write the sizes and their shares with bssplit".into());
    }
    Ok((1..=n).map(|k| (k * low, 100.0 / n as f64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_fio() {
        for (text, expect) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4KB", 4096),
            ("4kib", 4000),
            ("1.5g", 1_610_612_736),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(expect), "{text}");
        }
        for text in ["", "k", "4x", "50%", "9999999p"] {
            assert!(size(text).is_err(), "{text}");
        }
        for (text, expect) in [
            ("30", 30_000_000_000),
            ("2m", 120_000_000_000),
            ("5ms", 5_000_000),
        ] {
            assert_eq!(time(text, Nanos::SECOND), Ok(Nanos(expect)), "{text}");
        }
        assert_eq!(time("7", Nanos(1_000)), Ok(Nanos(7_000)));
    }

    #[test]
    fn shares_that_are_not_told_divide_the_rest() {
        for (text, expect) in [
            ("4k/60:64k/40", vec![(4096, 60.0), (65_536, 40.0)]),
            (
                "4k/50:8k/:16k",
                vec![(4096, 50.0), (8192, 25.0), (16_384, 25.0)],
            ),
            ("4k/100:8k/0", vec![(4096, 100.0)]),
        ] {
            assert_eq!(split(text), Ok(expect), "{text}");
        }
        for text in ["4k/60:8k/50", "4k/60:8k/10", "4k/x"] {
            assert!(split(text).is_err(), "{text}");
        }
        assert_eq!(by_direction("4k,8k", 0), "4k");
        assert_eq!(by_direction("4k,8k", 1), "8k");
        assert_eq!(by_direction("4k", 1), "4k");
    }
}
