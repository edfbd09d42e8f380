// SPDX-License-Identifier: Apache-2.0
//! Times as programs and shell scripts print them.

use std::borrow::Cow;
use std::cmp::Ordering;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::text::{columns, nanos, whole, words};

/// An instant that was read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextTimestamp {
    pub(super) unix_ns: u64,
    /// Whether the text names its zone; else it was taken as UTC.
    pub(super) has_zone: bool,
    /// Of a date whose day and month stand as two numbers: the instant in either order, where there
    /// is one.
    pub(super) either: Option<[Option<u64>; 2]>,
}

/// Which of the two numbers of a date is its month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateOrder {
    /// `11/21/26`: sysstat in English (US), perfmon.
    MonthFirst,
    /// `21/11/26`, `21-11-2026`: most other places.
    DayFirst,
}

impl DateOrder {
    const BOTH: [DateOrder; 2] = [DateOrder::MonthFirst, DateOrder::DayFirst];
}

/// Evidence in the dates of a recording for the order of day and month.
#[derive(Debug, Default)]
pub(super) struct DateEvidence {
    /// Known before.
    pub(super) order: Option<DateOrder>,
    /// Whether some date can only be read in this order: a number is above 12.
    only: [bool; 2],
    /// How far the times go in either order, there and back.
    way_ns: [u128; 2],
    last: [Option<u64>; 2],
    is_open: bool,
}

impl DateEvidence {
    pub(super) fn add(&mut self, instant: &TextTimestamp) {
        let times = match instant.either {
            None => [Some(instant.unix_ns); 2],
            Some(either) => {
                if let [Some(month_first), Some(day_first)] = either {
                    self.is_open |= month_first != day_first;
                }
                self.only[0] |= either[1].is_none();
                self.only[1] |= either[0].is_none();
                either.map(|time| time.or(Some(instant.unix_ns)))
            }
        };
        for ((time, last), way) in times.iter().zip(&mut self.last).zip(&mut self.way_ns) {
            if let (Some(time), Some(last)) = (time, *last) {
                *way += u128::from(time.abs_diff(last));
            }
            *last = *time;
        }
    }

    /// The order in which all of the dates can be read and the recording is the shorter; `None` where
    /// that is the same in both, an error where no order does for all.
    pub(super) fn order(&self) -> Result<Option<DateOrder>, ()> {
        match (self.only, self.way_ns[0].cmp(&self.way_ns[1])) {
            ([true, true], _) => Err(()),
            ([true, false], _) | ([false, false], Ordering::Less) => {
                Ok(Some(DateOrder::MonthFirst))
            }
            ([false, true], _) | ([false, false], Ordering::Greater) => {
                Ok(Some(DateOrder::DayFirst))
            }
            ([false, false], Ordering::Equal) => Ok(None),
        }
    }

    /// Whether some date says something else in the other order.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// Least digits of seconds since 1970: those since 2001.
const EPOCH_DIGITS_MIN: usize = 10;
/// Of a line that is searched for a time.
const WORDS_MAX: usize = 12;

/// Fields of a time found so far.
#[derive(Debug, Default)]
struct TimestampFields {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    /// Two numbers of which one is the month, and what stands between them.
    numbers: Option<(u64, u64, u8)>,
    /// Since midnight.
    time_ns: Option<u64>,
    is_afternoon: Option<bool>,
    /// Seconds east of Greenwich.
    offset_s: Option<i64>,
}

/// The instant in a text: `1795220132.15`, `1795220132150` (milliseconds, micro- or nanoseconds
/// without a dot), `2026-11-21T00:15:32+01:00`, `2026-11-21 00:15:29 UTC`, `11/21/26 12:15:25 AM`,
/// `21.11.2026 00:15:25`, `21-11-2026 00.15.25`, `Sat Nov 21 00:15:32 UTC 2026`,
/// `2026年11月21日 00時15分32秒`, with any other words around it. `None` when there is no date or no
/// time of day in it. Where `order` is not known, a number above 12 decides, else the separator.
pub(super) fn instant(text: &[u8], order: Option<DateOrder>) -> Option<TextTimestamp> {
    // A byte that is none of a text would part a number in two.
    str::from_utf8(text).ok()?;
    let plain = plain(text);
    let mut found = TimestampFields::default();
    for word in words(&plain).take(WORDS_MAX) {
        let word = trim(word);
        if let Some(unix_ns) = epoch(word) {
            return Some(TextTimestamp {
                unix_ns,
                has_zone: true,
                either: None,
            });
        }
        // A date and a time in one word have a T between them.
        match word.iter().position(|byte| *byte == b'T') {
            Some(at) if at >= 8 && found.date(&word[..at]) => found.word(&word[at + 1..]),
            _ => found.word(word),
        }
    }
    found.instant(order)
}

/// A time of day without a date, since midnight.
pub(super) fn time_of_day_ns(text: &[u8]) -> Option<u64> {
    let mut found = TimestampFields::default();
    let mut words = words(text).map(trim).filter(|word| !word.is_empty());
    let is_time = found.time(words.next()?) && words.next().is_none();
    found.time_ns.filter(|_| is_time)
}

/// The number of a month by the beginning of its English name.
pub(super) fn month(name: &[u8]) -> Option<u64> {
    let mut months = (1..).zip(MONTHS);
    let found = months.find(|(_, month)| name.eq_ignore_ascii_case(month.as_bytes()));
    found.map(|(number, _)| number)
}

/// Units that East Asian locales print beside the numbers of a time, and their replacements.
const UNITS: [(&str, &str); 20] = [
    ("年", "-"),
    ("月", "-"),
    ("日", " "),
    ("時", ":"),
    ("时", ":"),
    ("分", ":"),
    ("秒", " "),
    ("년 ", "-"),
    ("월 ", "-"),
    ("년", "-"),
    ("월", "-"),
    ("일", " "),
    ("시 ", ":"),
    ("분 ", ":"),
    ("초", " "),
    ("午前", " AM "),
    ("上午", " AM "),
    ("오전", " AM "),
    ("午後", " PM "),
    ("下午", " PM "),
];

/// The text with separators instead of the units of East Asian locales; that of other locales as it
/// is.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    match str::from_utf8(text) {
        Ok(told) if !told.is_ascii() => {
            let told = told.replace("오후", " PM ");
            let replace = |told: String, (unit, plain): &(&str, &str)| told.replace(unit, plain);
            Cow::Owned(UNITS.iter().fold(told, replace).into_bytes())
        }
        _ => Cow::Borrowed(text),
    }
}

/// Takes off what is put around times: brackets, quotes, stars, commas.
fn trim(word: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-".contains(byte);
    let from = word.iter().position(is_part).unwrap_or(word.len());
    let to = word.iter().rposition(is_part).map_or(from, |at| at + 1);
    &word[from..to]
}

/// Seconds since 1970, or a finer unit by the number of digits.
fn epoch(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit_ns = match digits {
        EPOCH_DIGITS_MIN | 11 => return nanos(word, 1),
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    whole(word)?.checked_mul(unit_ns)
}

impl TimestampFields {
    fn word(&mut self, word: &[u8]) {
        if self.date(word) || self.time(word) || self.zone(word) {
            return;
        }
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("AM") || is("PM") {
            self.is_afternoon = Some(is("PM"));
        } else if let Some(month) = month(word) {
            self.month = i8::try_from(month).ok();
        } else if let Some(number) = whole(word) {
            // Beside the name of a month stand the day and, with four digits, the year.
            match word.len() {
                1 | 2 => self.day = i8::try_from(number).ok(),
                4 => self.year = i16::try_from(number).ok(),
                _ => {}
            }
        }
    }

    /// `2026-11-21`, `11/21/26`, `21.11.2026`, `21-11-26`, `20261121`.
    fn date(&mut self, word: &[u8]) -> bool {
        if let (8, Some(number)) = (word.len(), whole(word)) {
            self.year = i16::try_from(number / 10_000).ok();
            self.month = i8::try_from(number / 100 % 100).ok();
            self.day = i8::try_from(number % 100).ok();
            return true;
        }
        let Some(separator) = word.iter().find(|byte| b"-/.".contains(byte)) else {
            return false;
        };
        let Some(parts) = columns::<3>(word, *separator) else {
            return false;
        };
        let is_year_first = parts[0].len() == 4;
        let [Some(a), Some(b), Some(c)] = parts.map(whole) else {
            return false;
        };
        // Some locales also write times with dots; the time comes after the date.
        if self.year.is_some() {
            return false;
        }
        if is_year_first {
            self.year = i16::try_from(a).ok();
            self.month = i8::try_from(b).ok();
            self.day = i8::try_from(c).ok();
        } else {
            let year = if c < 100 { 2000 + c } else { c };
            self.year = i16::try_from(year).ok();
            self.numbers = Some((a, b, *separator));
        }
        true
    }

    /// `00:15:29.123`, perhaps with an offset such as `+0100` behind it.
    fn time(&mut self, word: &[u8]) -> bool {
        let offset = word.iter().position(|byte| b"+-Z".contains(byte));
        let (time, offset) = word.split_at(offset.unwrap_or(word.len()));
        let is_dotted = time.len() == 8 && !time.contains(&b':');
        let separator = if is_dotted { b'.' } else { b':' };
        let Some([hours, minutes, seconds]) = columns::<3>(time, separator) else {
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

    /// `Z`, `UTC`, `CET`, `+0100`, `-05:00`, `+01`.
    fn zone(&mut self, word: &[u8]) -> bool {
        if let Some((_, minutes)) = ZONES.iter().find(|(name, _)| name.as_bytes() == word) {
            self.offset_s = Some(minutes * 60);
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

    fn instant(&self, order: Option<DateOrder>) -> Option<TextTimestamp> {
        let has_zone = self.offset_s.is_some();
        let Some((a, b, separator)) = self.numbers else {
            return Some(TextTimestamp {
                unix_ns: self.unix_ns(self.month?, self.day?)?,
                has_zone,
                either: None,
            });
        };
        let number = |number: u64| i8::try_from(number).ok();
        let either = DateOrder::BOTH.map(|order| match order {
            DateOrder::MonthFirst => self.unix_ns(number(a)?, number(b)?),
            DateOrder::DayFirst => self.unix_ns(number(b)?, number(a)?),
        });
        // Sysstat in English and perfmon print the month first, with strokes; dots stand behind days
        // in all of the world.
        let [month_first, day_first] = either;
        let order = order.unwrap_or(match separator {
            b'/' => DateOrder::MonthFirst,
            _ => DateOrder::DayFirst,
        });
        let unix_ns = match order {
            _ if separator == b'.' => day_first,
            DateOrder::MonthFirst => month_first.or(day_first),
            DateOrder::DayFirst => day_first.or(month_first),
        };
        Some(TextTimestamp {
            unix_ns: unix_ns?,
            has_zone,
            either: (separator != b'.').then_some(either),
        })
    }

    fn unix_ns(&self, month: i8, day: i8) -> Option<u64> {
        let mut time_ns = self.time_ns?;
        const HALF_DAY_NS: u64 = 12 * 3600 * 1_000_000_000;
        match self.is_afternoon {
            // Twelve comes before one.
            Some(false) if time_ns >= HALF_DAY_NS => time_ns -= HALF_DAY_NS,
            Some(true) if time_ns < HALF_DAY_NS => time_ns += HALF_DAY_NS,
            _ => {}
        }
        let midnight = DateTime::new(self.year?, month, day, 0, 0, 0, 0).ok()?;
        let midnight_ns = midnight
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_nanosecond();
        let offset_ns = i128::from(self.offset_s.unwrap_or(0)) * 1_000_000_000;
        u64::try_from(midnight_ns + i128::from(time_ns) - offset_ns).ok()
    }
}

/// Zones by the letters that `date` prints for them, and their minutes east of Greenwich. Letters that
/// several zones share (`IST`, `CST`) say nothing.
const ZONES: [(&str, i64); 24] = [
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("JST", 540),
    ("KST", 540),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("EST", -300),
    ("EDT", -240),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
];

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    const AT_S: u64 = 1_795_220_132;

    #[test]
    fn times_are_read_in_the_forms_that_programs_print() {
        let cases = [
            ("1795220132", 0, true),
            ("1795220132.150", 150, true),
            ("1795220132150", 150, true),
            ("1795220132150000", 150, true),
            ("1795220132150000000", 150, true),
            ("TS 1795220132.150", 150, true),
            ("2026-11-21T00:15:32Z", 0, true),
            ("2026-11-21T01:15:32.150+01:00", 150, true),
            ("2026-11-20T19:15:32-0500", 0, true),
            ("2026-11-21 00:15:32 UTC", 0, true),
            ("2026-11-21 00:15:32", 0, false),
            ("2026/11/21 00:15:32", 0, false),
            ("2026-11-21 00:15:32,150000000+00:00", 150, true),
            ("11/21/26 00:15:32", 0, false),
            ("11/21/2026 12:15:32 AM", 0, false),
            ("21/11/26 00:15:32", 0, false),
            ("21-11-26 00:15:32", 0, false),
            ("21.11.2026 00:15:32", 0, false),
            ("21.11.26 00.15.32", 0, false),
            ("2026年11月21日 00時15分32秒", 0, false),
            ("2026年11月21日 上午12时15分32秒", 0, false),
            ("2026년 11월 21일 오전 12시 15분 32초", 0, false),
            ("11/21/2026 00:15:32.150", 150, false),
            ("Sat Nov 21 00:15:32 UTC 2026", 0, true),
            ("zzz ***Sat Nov 21 00:15:32 UTC 2026", 0, true),
            ("Sat 21 Nov 2026 12:15:32 AM UTC", 0, true),
            ("# time: [2026-11-21T00:15:32+00:00]", 0, true),
            ("Fri Nov 20 07:15:32 PM EST 2026", 0, true),
            ("Sat 21 Nov 2026 01:15:32 AM CET", 0, true),
            ("Sat Nov 21 00:15:32 CST 2026", 0, false),
            ("20261121 00:15:32.150", 150, false),
        ];
        for (text, ms, has_zone) in cases {
            let found = instant(text.as_bytes(), None);
            let found = found.unwrap_or_else(|| panic!("{text}"));
            let expect = AT_S * 1_000_000_000 + ms * 1_000_000;
            assert_eq!(
                (found.unix_ns, found.has_zone),
                (expect, has_zone),
                "{text}"
            );
        }
        let noon = instant(b"11/21/2026 12:15:32 PM", None).unwrap().unix_ns;
        assert_eq!(noon, (AT_S + 12 * 3600) * 1_000_000_000);
        assert_eq!(time_of_day_ns(b"00:15:32"), Some(932_000_000_000));
        assert_eq!(time_of_day_ns(b"00:15:32 up 3 days"), None);
    }

    fn order(dates: &[&str]) -> Result<Option<DateOrder>, ()> {
        let mut evidence = DateEvidence::default();
        for date in dates {
            evidence.add(&instant(date.as_bytes(), None).unwrap());
        }
        evidence.order()
    }

    #[test]
    fn one_file_has_one_order_of_day_and_month() {
        use DateOrder::{DayFirst, MonthFirst};
        let cases: [(&[&str], _); 8] = [
            (
                &["11/12/26 23:59:59", "12/12/26 00:00:00"],
                Ok(Some(DayFirst)),
            ),
            (
                &["12/11/26 23:59:59", "12/12/26 00:00:00"],
                Ok(Some(MonthFirst)),
            ),
            (
                &["12/11/26 23:59:59", "13/11/26 00:00:00"],
                Ok(Some(DayFirst)),
            ),
            (
                &["11/12/26 23:59:59", "11/13/26 00:00:00"],
                Ok(Some(MonthFirst)),
            ),
            (
                &["30/11/26 23:59:59", "01/12/26 00:00:00"],
                Ok(Some(DayFirst)),
            ),
            (
                &["11-12-2026 23:59:59", "12-12-2026 00:00:00"],
                Ok(Some(DayFirst)),
            ),
            (&["11/12/26 10:00:00", "11/12/26 10:00:01"], Ok(None)),
            (&["11/13/26 10:00:00", "13/11/26 10:00:01"], Err(())),
        ];
        for (dates, expect) in cases {
            assert_eq!(order(dates), expect, "{dates:?}");
        }
        let day_first = instant(b"11/12/26 00:00:00", Some(DayFirst)).unwrap();
        assert_eq!(day_first.either.unwrap()[1], Some(day_first.unix_ns));
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
            "179522013215",
        ] {
            assert_eq!(instant(text.as_bytes(), None), None, "{text}");
        }
    }
}
