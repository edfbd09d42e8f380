// SPDX-License-Identifier: Apache-2.0
//! A part of a recording of requests, as a recording of its own.

use plimsoll_core::units::{Nanos, parse_duration};

use super::TraceRequest;
use crate::error::TraceError;
use crate::recording::{TraceReadState, TraceSource};
use crate::window::{RecordingTimes, RecordingWindow};

/// A part of a recording, in time from its origin; its end does not belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRange {
    /// Its begin.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
}

impl TraceRange {
    /// The part between two times as people type them. A time is either from the start of the
    /// recording (`90s`, `10m`) or, where it has a date, an instant in UTC as
    /// [`RecordingTimes::window`] takes it. Without one it is the recording's end on that side.
    ///
    /// # Errors
    /// When a time cannot be understood, or the part is empty or not inside the recording, which is
    /// `length` long.
    pub fn of(
        requests: &dyn TraceSource,
        length: Nanos,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<TraceRange, TraceError> {
        let name = &requests.about().name;
        let origin = requests.origin_unix_ns();
        let span = RecordingWindow {
            from_unix_ns: origin.unwrap_or(0),
            to_unix_ns: origin.unwrap_or(0).saturating_add(length.0),
        };
        let times = RecordingTimes::new(name, "UTC", span).0;
        let is_offset = |text: &str| !text.contains([':', '-']);
        let typed = [from, to].into_iter().flatten();
        let clip = match (origin, typed.clone().all(is_offset)) {
            (_, true) => TraceRange {
                from: offset(from)?.unwrap_or_default(),
                to: offset(to)?.unwrap_or(length + Nanos(1)),
            },
            (Some(origin), false) if !typed.clone().any(is_offset) => {
                let window = times.window(from, to)?;
                let since = |unix_ns: u64| Nanos(unix_ns.saturating_sub(origin));
                TraceRange {
                    from: since(window.from_unix_ns),
                    to: since(window.to_unix_ns) + Nanos(u64::from(to.is_none())),
                }
            }
            _ => {
                let reason = match origin {
                    Some(_) => "give both times as instants, or both as offsets",
                    None => "the recording has no date; give the time from its start, such as 10m",
                };
                return Err(TraceError::Time {
                    text: typed.collect::<Vec<_>>().join(" to "),
                    reason: reason.into(),
                });
            }
        };
        if clip.from >= clip.to || clip.from >= length {
            return Err(TraceError::Outside {
                window: format!("from {} to {}", clip.from, clip.to),
                recording: name.clone(),
                from: "its start".into(),
                to: format!("{length} later"),
                zone: "UTC".into(),
            });
        }
        Ok(clip)
    }

    /// How long it is, of a recording of this length.
    pub fn length(&self, whole: Nanos) -> Nanos {
        self.to.min(whole).since(self.from)
    }

    fn contains(&self, at: Nanos) -> bool {
        self.from <= at && at < self.to
    }
}

/// A time from the start of a recording.
fn offset(text: Option<&str>) -> Result<Option<Nanos>, TraceError> {
    let parse = |text: &str| {
        parse_duration(text.trim()).map_err(|reason| TraceError::Time {
            text: text.into(),
            reason,
        })
    };
    text.map(parse).transpose()
}

/// A part of a recording. Its times count from the part's begin.
#[derive(Debug)]
pub struct TraceRangeReader<R> {
    inner: R,
    clip: TraceRange,
    fresh: Vec<TraceRequest>,
}

impl<R: TraceSource> TraceRangeReader<R> {
    /// The part `clip` of a recording.
    pub fn new(inner: R, clip: TraceRange) -> TraceRangeReader<R> {
        TraceRangeReader {
            inner,
            clip,
            fresh: Vec::new(),
        }
    }
}

impl<R: TraceSource> TraceSource for TraceRangeReader<R> {
    fn state(&self) -> &TraceReadState {
        self.inner.state()
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        let origin = self.inner.origin_unix_ns()?;
        Some(origin.saturating_add(self.clip.from.0))
    }

    fn taken_up_after(&self) -> Nanos {
        self.clip.from
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        self.fresh.clear();
        let more = self.inner.read(&mut self.fresh)?;
        let inside = self.fresh.iter().filter(|r| self.clip.contains(r.at));
        into.extend(inside.map(|request| TraceRequest {
            at: request.at.since(self.clip.from),
            ..*request
        }));
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::RecordingInput;
    use crate::requests::read;
    use std::io::Cursor;

    /// Ten requests, a second apart; of MSR they have a date, of MQSim they do not.
    fn recording(tells_when: bool) -> Box<dyn TraceSource> {
        let row = |i: u64| match tells_when {
            // 2007-02-22 00:00:00 UTC and on, in 100 ns since 1601.
            true => format!(
                "{},hm,0,Read,{},4096,100\n",
                128_165_760_000_000_000 + i * 10_000_000,
                i * 4096
            ),
            false => format!("{} 0 {} 8 1\n", i * 1_000_000_000, i * 8),
        };
        let text: String = (0..10).map(row).collect();
        read(RecordingInput::new("t".into(), Box::new(Cursor::new(text.into_bytes()))).unwrap())
            .unwrap()
    }

    fn clipped(tells_when: bool, from: Option<&str>, to: Option<&str>) -> Result<Vec<u64>, String> {
        let mut whole = recording(tells_when);
        while whole.read(&mut Vec::new()).unwrap() {}
        let length = Nanos(9_000_010_000);
        let clip = TraceRange::of(&*whole, length, from, to).map_err(|e| e.to_string())?;
        let mut part = TraceRangeReader::new(recording(tells_when), clip);
        let mut found = Vec::new();
        while part.read(&mut found).unwrap() {}
        Ok(found
            .iter()
            .map(|r| r.at.0 / 1_000_000_000 * 100 + r.offset / 4096)
            .collect())
    }

    #[test]
    fn parts_begin_anew_and_end_where_they_are_told() {
        assert_eq!(clipped(false, None, None).unwrap().len(), 10);
        assert_eq!(clipped(false, Some("3s"), Some("5s")).unwrap(), [3, 104]);
        assert_eq!(clipped(false, Some("8"), None).unwrap(), [8, 109]);
        assert_eq!(clipped(true, None, Some("2s")).unwrap(), [0, 101]);
        let late = clipped(true, Some("00:00:07"), Some("00:00:09")).unwrap();
        assert_eq!(late, [7, 108]);
    }

    #[test]
    fn times_that_mean_nothing_are_told() {
        for (tells_when, from, to, expect) in [
            (false, Some("11:00"), None, "has no date"),
            (false, Some("5s"), Some("5s"), "use the window"),
            (false, Some("1h"), None, "use the window"),
            (false, Some("soon"), None, "soon"),
            (true, Some("00:00:01"), Some("5s"), "both as offsets"),
            (true, Some("23:00"), None, "covers"),
        ] {
            let error = clipped(tells_when, from, to).unwrap_err();
            assert!(error.contains(expect), "{from:?}: {error}");
        }
    }
}
