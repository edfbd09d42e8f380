// SPDX-License-Identifier: Apache-2.0
//! Stretches of a recording, in the recording's own time zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use plimsoll_core::units::{Nanos, parse_duration};

use crate::error::TraceError;

/// How far outside the recording a typed time may lie: people type `10:30` for one that
/// starts at 10:30:02.
const TOLERANCE_NS: u64 = 60_000_000_000;
/// Most days searched for a time of day: the recording's first day and the next always hold it, the
/// third covers a change of summer time.
const DAYS_MAX: usize = 3;

/// A stretch of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingWindow {
    /// First instant, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// Last instant, nanoseconds since 1970.
    pub to_unix_ns: u64,
}

impl RecordingWindow {
    /// Whether an instant lies in it.
    pub fn contains(&self, at_unix_ns: u64) -> bool {
        (self.from_unix_ns..=self.to_unix_ns).contains(&at_unix_ns)
    }
}

/// The zone a label names: POSIX text (`EST-10`, where east is negative) or a name such as
/// `Europe/Berlin`. What is neither becomes UTC, with a sentence that says so.
fn zone(text: &str) -> (TimeZone, Option<String>) {
    let name = text.trim().trim_start_matches(':');
    let found = TimeZone::posix(name).or_else(|_| TimeZone::get(name));
    match found {
        Ok(zone) => (zone, None),
        Err(_) => {
            let warning = format!(
                "the recording's time zone '{name}' is not understood; times are given in UTC"
            );
            (TimeZone::UTC, Some(warning))
        }
    }
}

/// When a recording was made, and how its people say times.
#[derive(Debug, Clone)]
pub struct RecordingTimes {
    /// Name of the recording in messages.
    recording: String,
    /// The zone as the recording names it.
    zone_name: String,
    zone: TimeZone,
    span: RecordingWindow,
    /// Whether it says when it was made, and not only how long after its start.
    has_date: bool,
}

impl RecordingTimes {
    /// Times of a recording in the zone that it names, and a warning if that zone is not understood and
    /// they are in UTC.
    pub fn new(
        recording: &str,
        zone_name: &str,
        span: RecordingWindow,
    ) -> (RecordingTimes, Option<String>) {
        let (zone, warning) = zone(zone_name);
        let times = RecordingTimes {
            recording: recording.into(),
            zone_name: zone_name.into(),
            zone,
            span,
            has_date: true,
        };
        (times, warning)
    }

    /// The same of a recording whose times have no date.
    #[must_use]
    pub fn without_date(self) -> RecordingTimes {
        RecordingTimes {
            has_date: false,
            ..self
        }
    }

    /// Whether it says when it was made, and not only how long after its start.
    pub fn has_date(&self) -> bool {
        self.has_date
    }

    /// First and last instant of the recording.
    pub fn span(&self) -> RecordingWindow {
        self.span
    }

    /// The window between two times as people type them, in the recording's time zone: `11:00`,
    /// `11:00:30`, `2010-07-14 11:00:00`. A time of day means the first such time inside the
    /// recording; for `to`, the first after `from`. Without `from` or `to` the recording's ends. Where
    /// the recording has no date, also the time since its start: `90s`.
    ///
    /// # Errors
    /// When a time cannot be understood, or the window is empty or not inside the recording.
    pub fn window(
        &self,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<RecordingWindow, TraceError> {
        let span = self.span;
        let from_unix_ns = match from {
            Some(text) => self.instant(text, span.from_unix_ns.saturating_sub(TOLERANCE_NS - 1))?,
            None => span.from_unix_ns,
        };
        let to_unix_ns = match to {
            Some(text) => self.instant(text, from_unix_ns.saturating_add(1))?,
            None => span.to_unix_ns,
        };
        let early = from_unix_ns.saturating_add(TOLERANCE_NS) <= span.from_unix_ns;
        let late = to_unix_ns >= span.to_unix_ns.saturating_add(TOLERANCE_NS);
        if early || late || from_unix_ns >= to_unix_ns {
            return Err(self.outside(from, to));
        }
        Ok(RecordingWindow {
            from_unix_ns,
            to_unix_ns,
        })
    }

    /// An instant in the recording's zone with its offset, such as `2010-07-14T11:00:02+10:00`;
    /// without a date how long after the start it was.
    pub fn civil(&self, at_unix_ns: u64) -> String {
        self.civil_to(at_unix_ns, Nanos::SECOND)
    }

    /// As [`RecordingTimes::civil`], with as many digits of a second as distinguish instants that lie `step`
    /// apart: `2010-07-14T11:00:02.25+10:00`. None for a second and more.
    pub fn civil_to(&self, at_unix_ns: u64, step: Nanos) -> String {
        let digits = digits(step);
        if !self.has_date {
            return match (at_unix_ns.saturating_sub(self.span.from_unix_ns), digits) {
                (0, _) => "its start".into(),
                (after, 0) => format!("{} after its start", Nanos(after)),
                (after, _) => {
                    let seconds = Nanos(after).as_secs_f64();
                    format!("{seconds:.digits$} s after its start")
                }
            };
        }
        let Some(at) = timestamp(at_unix_ns) else {
            return format!("{at_unix_ns} ns after 1970");
        };
        let zoned = at.to_zoned(self.zone.clone());
        let seconds = match digits {
            0 => String::new(),
            digits => format!("%.{digits}f"),
        };
        let format = format!("%Y-%m-%dT%H:%M:%S{seconds}%:z");
        zoned.strftime(&format).to_string()
    }

    fn outside(&self, from: Option<&str>, to: Option<&str>) -> TraceError {
        let span = self.span;
        let window = match (from, to) {
            (Some(from), Some(to)) => format!("from {from} to {to}"),
            (Some(from), None) => format!("from {from}"),
            (None, Some(to)) => format!("to {to}"),
            (None, None) => "of the whole recording".into(),
        };
        TraceError::Outside {
            window,
            recording: self.recording.clone(),
            from: self.civil(span.from_unix_ns),
            to: self.civil(span.to_unix_ns),
            zone: self.zone_name.clone(),
        }
    }

    /// A typed time; a time of day is the first not before `not_before_unix_ns`.
    fn instant(&self, text: &str, not_before_unix_ns: u64) -> Result<u64, TraceError> {
        let text = text.trim();
        if let (false, Ok(after)) = (self.has_date, parse_duration(text)) {
            return Ok(self.span.from_unix_ns.saturating_add(after.0));
        }
        let wrong = |reason: String| TraceError::Time {
            text: text.into(),
            reason,
        };
        // jiff also reads a date without a time and a time with a date; only colons distinguish them.
        let is_time_of_day = !text.contains('-');
        if !is_time_of_day {
            let at: DateTime = text
                .parse()
                .map_err(|e: jiff::Error| wrong(e.to_string()))?;
            let unix_ns = self.unix_ns(at);
            return unix_ns.ok_or_else(|| wrong("it is before 1970 or after 2554".into()));
        }
        let time: Time = text
            .parse()
            .map_err(|e: jiff::Error| wrong(e.to_string()))?;
        let first = timestamp(not_before_unix_ns).ok_or_else(|| self.outside(Some(text), None))?;
        let mut day: Date = first.to_zoned(self.zone.clone()).date();
        for _ in 0..DAYS_MAX {
            match self.unix_ns(day.to_datetime(time)) {
                Some(at) if at >= not_before_unix_ns => return Ok(at),
                _ => {}
            }
            day = match day.checked_add(1.day()) {
                Ok(next) => next,
                Err(_) => break,
            };
        }
        Err(self.outside(Some(text), None))
    }

    fn unix_ns(&self, at: DateTime) -> Option<u64> {
        let zoned = at.to_zoned(self.zone.clone()).ok()?;
        u64::try_from(zoned.timestamp().as_nanosecond()).ok()
    }
}

/// Digits behind the point of seconds that distinguish instants so far apart.
fn digits(step: Nanos) -> usize {
    let mut unit_ns = Nanos::SECOND.0;
    let mut digits = 0;
    // Intervals of a second are a little shorter at times.
    while unit_ns / 10 * 9 > step.0 && digits < 9 {
        unit_ns /= 10;
        digits += 1;
    }
    digits
}

fn timestamp(unix_ns: u64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(unix_ns)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_the_digits_that_tell_them_apart() {
        let from_unix_ns = 1_455_591_804_370_000_000;
        let span = RecordingWindow {
            from_unix_ns,
            to_unix_ns: from_unix_ns + 2 * Nanos::SECOND.0,
        };
        let (dated, _) = RecordingTimes::new("r", "UTC", span);
        let at = from_unix_ns + 250_000_000;
        let step = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(dated.civil(at), "2016-02-16T03:03:24+00:00");
        assert_eq!(dated.civil_to(at, step(999)), "2016-02-16T03:03:24+00:00");
        assert_eq!(dated.civil_to(at, step(100)), "2016-02-16T03:03:24.6+00:00");
        assert_eq!(dated.civil_to(at, step(2)), "2016-02-16T03:03:24.620+00:00");
        let undated = dated.without_date();
        assert_eq!(undated.civil_to(at, step(20)), "0.25 s after its start");
        assert_eq!(undated.civil_to(from_unix_ns, step(20)), "its start");
        assert!(!undated.civil_to(at, Nanos(0)).contains("1970"));
    }
}
