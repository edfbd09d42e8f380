// SPDX-License-Identifier: Apache-2.0
//! Times as programs and shell scripts print them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::requests::text::{nanos, whole, words};

/// An instant that was read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) unix_ns: u64,
    /// Whether the text told its zone; else it was taken as UTC.
    pub(super) has_zone: bool,
}

/// Least digits of seconds since 1970: those since 2001.
const EPOCH_DIGITS_MIN: usize = 10;
/// Of a line that is searched for a time.
const WORDS_MAX: usize = 12;

/// What was found of a time so far.
#[derive(Debug, Default)]
struct Found {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    /// Since midnight.
    time_ns: Option<u64>,
    is_afternoon: Option<bool>,
    /// Seconds east of Greenwich.
    offset_s: Option<i64>,
}

/// The instant in a text: `1795220132.15`, `2026-11-21T00:15:32+01:00`, `2026-11-21 00:15:29 UTC`,
/// `11/21/26 12:15:25 AM`, `21.11.2026 00:15:25`, `Sat Nov 21 00:15:32 UTC 2026`, with any other
/// words around it. `None` when there is no date or no time of day in it.
pub(super) fn instant(text: &[u8]) -> Option<Instant> {
    let mut found = Found::default();
    for word in words(text).take(WORDS_MAX) {
        let word = trim(word);
        if let Some(unix_ns) = epoch(word) {
            return Some(Instant {
                unix_ns,
                has_zone: true,
            });
        }
        // A date and a time in one word have a T between them.
        match word.iter().position(|byte| *byte == b'T') {
            Some(at) if at >= 8 && found.date(&word[..at]) => found.word(&word[at + 1..]),
            _ => found.word(word),
        }
    }
    found.instant()
}

/// Takes off what is put around times: brackets, quotes, stars, commas.
fn trim(word: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-".contains(byte);
    let from = word.iter().position(is_part).unwrap_or(word.len());
    let to = word.iter().rposition(is_part).map_or(from, |at| at + 1);
    &word[from..to]
}

fn epoch(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (EPOCH_DIGITS_MIN..=EPOCH_DIGITS_MIN + 1)
        .contains(&digits)
        .then(|| nanos(word, 1))?
}

impl Found {
    fn word(&mut self, word: &[u8]) {
        if self.date(word) || self.time(word) || self.zone(word) {
            return;
        }
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("AM") || is("PM") {
            self.is_afternoon = Some(is("PM"));
        } else if let Some(month) = MONTHS.iter().position(|name| is(name)) {
            self.month = i8::try_from(month + 1).ok();
        } else if let Some(number) = whole(word) {
            // Beside the name of a month stand the day and, with four digits, the year.
            match word.len() {
                1 | 2 => self.day = i8::try_from(number).ok(),
                4 => self.year = i16::try_from(number).ok(),
                _ => {}
            }
        }
    }

    /// `2026-11-21`, `11/21/26`, `21.11.2026`.
    fn date(&mut self, word: &[u8]) -> bool {
        let Some(separator) = word.iter().find(|byte| b"-/.".contains(byte)) else {
            return false;
        };
        let mut parts = word.split(|byte| byte == separator).map(whole);
        let (Some(Some(a)), Some(Some(b)), Some(Some(c)), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let full = |year: u64| if year < 100 { 2000 + year } else { year };
        let (year, month, day) = match separator {
            b'-' => (a, b, c),
            b'.' => (full(c), b, a),
            // Which of the two is the month cannot always be told; sysstat and perfmon print it first.
            _ if a > 12 => (full(c), b, a),
            _ => (full(c), a, b),
        };
        self.year = i16::try_from(year).ok();
        self.month = i8::try_from(month).ok();
        self.day = i8::try_from(day).ok();
        true
    }

    /// `00:15:29.123`, perhaps with an offset such as `+0100` behind it.
    fn time(&mut self, word: &[u8]) -> bool {
        let offset = word.iter().position(|byte| b"+-Z".contains(byte));
        let (time, offset) = word.split_at(offset.unwrap_or(word.len()));
        let mut parts = time.split(|byte| *byte == b':');
        let (Some(hours), Some(minutes), Some(seconds), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        // Some locales have a comma before the fraction.
        let seconds: Vec<u8> = seconds
            .iter()
            .map(|b| if *b == b',' { b'.' } else { *b })
            .collect();
        let (Some(hours), Some(minutes), Some(seconds)) =
            (whole(hours), whole(minutes), nanos(&seconds, 1))
        else {
            return false;
        };
        if hours > 24 || minutes > 59 || seconds > 60_999_999_999 {
            return false;
        }
        self.time_ns = Some((hours * 3600 + minutes * 60) * 1_000_000_000 + seconds);
        self.zone(offset);
        true
    }

    /// `Z`, `UTC`, `GMT`, `+0100`, `-05:00`, `+01`.
    fn zone(&mut self, word: &[u8]) -> bool {
        if [&b"Z"[..], b"UTC", b"GMT"].contains(&word) {
            self.offset_s = Some(0);
            return true;
        }
        let sign = match word.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return false,
        };
        let digits: Vec<u8> = word[1..].iter().copied().filter(|b| *b != b':').collect();
        let offset = whole(&digits).and_then(|number| match digits.len() {
            2 => Some(number * 3600),
            4 => Some(number / 100 * 3600 + number % 100 * 60),
            _ => None,
        });
        let Some(offset) = offset else {
            return false;
        };
        self.offset_s = i64::try_from(offset).ok().map(|offset| sign * offset);
        true
    }

    fn instant(&self) -> Option<Instant> {
        let mut time_ns = self.time_ns?;
        const HALF_DAY_NS: u64 = 12 * 3600 * 1_000_000_000;
        match self.is_afternoon {
            // Twelve comes before one.
            Some(false) if time_ns >= HALF_DAY_NS => time_ns -= HALF_DAY_NS,
            Some(true) if time_ns < HALF_DAY_NS => time_ns += HALF_DAY_NS,
            _ => {}
        }
        let midnight = DateTime::new(self.year?, self.month?, self.day?, 0, 0, 0, 0).ok()?;
        let midnight_ns = midnight
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_nanosecond();
        let offset_ns = i128::from(self.offset_s.unwrap_or(0)) * 1_000_000_000;
        let unix_ns = midnight_ns + i128::from(time_ns) - offset_ns;
        Some(Instant {
            unix_ns: u64::try_from(unix_ns).ok()?,
            has_zone: self.offset_s.is_some(),
        })
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_that_programs_print() {
        const AT_S: u64 = 1_795_220_132;
        let cases = [
            ("1795220132", 0, true),
            ("1795220132.150", 150, true),
            ("TS 1795220132.150", 150, true),
            ("2026-11-21T00:15:32Z", 0, true),
            ("2026-11-21T01:15:32.150+01:00", 150, true),
            ("2026-11-20T19:15:32-0500", 0, true),
            ("2026-11-21 00:15:32 UTC", 0, true),
            ("2026-11-21 00:15:32", 0, false),
            ("2026-11-21 00:15:32,150000000+00:00", 150, true),
            ("11/21/26 00:15:32", 0, false),
            ("11/21/2026 12:15:32 AM", 0, false),
            ("21/11/26 00:15:32", 0, false),
            ("21.11.2026 00:15:32", 0, false),
            ("11/21/2026 00:15:32.150", 150, false),
            ("Sat Nov 21 00:15:32 UTC 2026", 0, true),
            ("zzz ***Sat Nov 21 00:15:32 UTC 2026", 0, true),
            ("Sat 21 Nov 2026 12:15:32 AM UTC", 0, true),
            ("# time: [2026-11-21T00:15:32+00:00]", 0, true),
        ];
        for (text, ms, has_zone) in cases {
            let expect = Instant {
                unix_ns: AT_S * 1_000_000_000 + ms * 1_000_000,
                has_zone,
            };
            assert_eq!(instant(text.as_bytes()), Some(expect), "{text}");
        }
        let noon = instant(b"11/21/2026 12:15:32 PM").unwrap().unix_ns;
        assert_eq!(noon, (AT_S + 12 * 3600) * 1_000_000_000);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "hello",
            "00:15:32",
            "2026-11-21",
            "2026-13-21 00:15:32",
            "99:99:99 1/1/1",
        ] {
            assert_eq!(instant(text.as_bytes()), None, "{text}");
        }
    }
}
