// SPDX-License-Identifier: Apache-2.0
//! Outages: how long storage did not answer probes at a steady rate.
//!
//! The input is probes: small reads and writes, each with the time it was meant to start. A probe
//! that had to wait because storage stalled keeps that time, so a stall cannot hide behind a prober
//! that stalled with it. Nothing here knows a clock or a file: the probes come from a ledger, from
//! a simulation or from a test.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, to_usize};
use crate::op::OpKind;
use crate::units::Nanos;

/// Time is cut into pieces of this length to find those in which nothing ended.
pub const BIN: Nanos = Nanos(100_000_000);

/// Bins of a second, over which a rate is counted.
const BINS_PER_S: usize = 10;

/// With fewer probes per bin than this, an empty one says nothing.
const PROBES_PER_BIN_MIN: f64 = 2.0;

/// Share of the rate before the fault that has to be reached again for the brown-out to be over.
const RESTORED: f64 = 0.9;

/// And for how long.
const RESTORED_FOR: Nanos = Nanos(10_000_000_000);

/// Window of the backlog: probes with an intended start within this time after the fault.
const BACKLOG: Nanos = Nanos(60_000_000_000);

/// A session that stalled at the end for longer than this and two of its periods did not recover.
const GONE_AFTER: Nanos = Nanos(5_000_000_000);

/// Most bins: 28 hours.
const BINS_MAX: u64 = 1_000_000;

/// A session: a client with one open file or device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutageProbeSession {
    /// Its name in reports.
    pub name: String,
    /// Time between the intended starts of its writes; `None`: it does not write.
    pub write_period: Option<Nanos>,
    /// The same of its reads.
    pub read_period: Option<Nanos>,
    /// How often it opened its file or device again, or mounted or logged in again.
    pub reopened: u64,
}

/// One probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutageProbe {
    /// Whose, by its place among the sessions.
    pub session: u32,
    /// A read or a write; errors of other kinds are counted, their ends are not.
    pub kind: OpKind,
    /// When it was meant to start.
    pub intended_at: Nanos,
    /// When its end was seen, and the system's error number if it failed. `None`: it never ended.
    pub ended: Option<(Nanos, Result<(), i32>)>,
}

/// The time of the probes and of the fault. All times are on one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutageProbeWindow {
    /// The first probe was meant to start then.
    pub from: Nanos,
    /// The last one before then.
    pub until: Nanos,
    /// The time of the fault: stalls that ended before it do not count. `None`: the longest
    /// stall stands for it, when there is one of more than half a [`BIN`].
    pub fault_at: Option<Nanos>,
}

/// A time in which no probe of a kind succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutageStall {
    /// The last success before it.
    pub from: Nanos,
    /// From there to the next success, less the period of the probes.
    pub length: Nanos,
    /// Whether no success followed: it lasted at least so long.
    pub is_open: bool,
}

/// The outage of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionOutage {
    /// Its name.
    pub session: String,
    /// Longest stall of its writes; `None`: it did not write.
    pub write_stall: Option<OutageStall>,
    /// Longest stall of its reads; `None`: it did not read.
    pub read_stall: Option<OutageStall>,
    /// Operations of any kind that failed.
    pub errors: u64,
    /// Those that never ended.
    pub unended: u64,
    /// From the fault to the first failure that was seen after it.
    pub first_error_after: Option<Nanos>,
    /// How often it had to open again.
    pub reopened: u64,
    /// Whether it worked on the same descriptor from beginning to end, the last probe that ended had
    /// succeeded, and it did not [stand still](GONE_AFTER) at the end.
    pub survived: bool,
}

/// How long the rate stayed below [what it was before](RESTORED).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BrownOut {
    /// So long after the fault.
    Lasted(Nanos),
    /// To the end of the probes, which was so long after the fault, or nearer to it than it takes
    /// to say that it was over.
    NotOver(Nanos),
    /// There was no fault and no stall, or no second before it to compare with, or nothing was done in
    /// most of those.
    Unknown,
}

/// The outage of all sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutageResult {
    /// The time of the fault, or the beginning of the longest stall instead of it.
    pub fault_at: Option<Nanos>,
    /// Whether that time was given, not inferred.
    pub fault_is_known: bool,
    /// Of each session, in their order.
    pub sessions: Vec<SessionOutage>,
    /// Sum of the [bins](BIN) in which nothing succeeded, of all sessions together, from the fault on
    /// where it is known; `None`: too few probes to say.
    pub unavailable: Option<Nanos>,
    /// How long the rate of all sessions was lower than before.
    pub brown_out: BrownOut,
    /// 99th percentile of the response time, from the intended start, of the probes meant to start
    /// in the minute after the fault. A probe that never ended counts until the end.
    pub backlog_p99: Option<Nanos>,
    /// How exactly stalls are known: the longest period of the probes.
    pub resolution: Nanos,
}

impl OutageResult {
    /// Computes the outage from the probes, in any order.
    pub fn of(
        sessions: &[OutageProbeSession],
        probes: &[OutageProbe],
        window: OutageProbeWindow,
    ) -> OutageResult {
        let mut felt: Vec<Felt<'_>> = sessions.iter().map(Felt::new).collect();
        for probe in probes {
            if let Some(session) = felt.get_mut(probe.session as usize) {
                session.take(probe);
            }
        }
        let mut of_sessions: Vec<SessionOutage> = felt
            .iter_mut()
            .map(|session| session.told(window))
            .collect();
        let fault_at = window.fault_at.or_else(|| longest(&of_sessions));
        for (outage, session) in of_sessions.iter_mut().zip(&felt) {
            outage.first_error_after = fault_at.and_then(|at| session.first_error_after(at));
        }
        let bins = Bins::of(probes, window);
        OutageResult {
            fault_at,
            fault_is_known: window.fault_at.is_some(),
            sessions: of_sessions,
            unavailable: bins.unavailable(rate(sessions), window.fault_at),
            brown_out: fault_at.map_or(BrownOut::Unknown, |at| bins.brown_out(at)),
            backlog_p99: fault_at.and_then(|at| backlog(probes, at, window.until)),
            resolution: resolution(sessions),
        }
    }

    /// The longest stall of any session, of writes or of reads.
    pub fn worst(&self, kind: OpKind) -> Option<OutageStall> {
        self.stalls(kind).into_iter().next_back()
    }

    /// Failed operations of all sessions.
    pub fn errors(&self) -> u64 {
        self.sessions.iter().map(|session| session.errors).sum()
    }

    /// Whether all sessions survived.
    pub fn survived(&self) -> bool {
        self.sessions.iter().all(|session| session.survived)
    }

    fn stalls(&self, kind: OpKind) -> Vec<OutageStall> {
        let of = |session: &SessionOutage| match kind {
            OpKind::Read => session.read_stall,
            OpKind::Write => session.write_stall,
            _ => None,
        };
        let mut stalls: Vec<OutageStall> = self.sessions.iter().filter_map(of).collect();
        stalls.sort_by_key(|stall| stall.length);
        stalls
    }
}

/// Probes of all sessions per second.
fn rate(sessions: &[OutageProbeSession]) -> f64 {
    let periods = sessions
        .iter()
        .flat_map(|session| [session.write_period, session.read_period]);
    let rates = periods.flatten().filter(|period| period.0 > 0);
    rates.map(|period| 1.0 / period.as_secs_f64()).sum()
}

fn resolution(sessions: &[OutageProbeSession]) -> Nanos {
    let periods = sessions
        .iter()
        .flat_map(|session| [session.write_period, session.read_period]);
    periods.flatten().max().unwrap_or_default()
}

/// When the longest stall of all began, if it is one.
fn longest(sessions: &[SessionOutage]) -> Option<Nanos> {
    let stalls = sessions
        .iter()
        .flat_map(|session| [session.write_stall, session.read_stall]);
    let stalls = stalls.flatten().filter(|stall| stall.length.0 > BIN.0 / 2);
    stalls
        .max_by_key(|stall| stall.length)
        .map(|stall| stall.from)
}

/// Observations of a session.
struct Felt<'a> {
    session: &'a OutageProbeSession,
    writes: Vec<Nanos>,
    reads: Vec<Nanos>,
    /// When failures were seen.
    errors: Vec<Nanos>,
    unended: u64,
    /// When the last one ended, and whether well.
    last: (Nanos, bool),
}

impl<'a> Felt<'a> {
    fn new(session: &'a OutageProbeSession) -> Self {
        Felt {
            session,
            writes: Vec::new(),
            reads: Vec::new(),
            errors: Vec::new(),
            unended: 0,
            last: (Nanos(0), false),
        }
    }

    fn take(&mut self, probe: &OutageProbe) {
        let Some((at, result)) = probe.ended else {
            self.unended += 1;
            return;
        };
        // Of several that ended at one time, a good one: it still works.
        self.last = self.last.max((at, result.is_ok()));
        match (result, probe.kind) {
            (Err(_), _) => self.errors.push(at),
            (Ok(()), OpKind::Write) => self.writes.push(at),
            (Ok(()), OpKind::Read) => self.reads.push(at),
            _ => {}
        }
    }

    fn told(&mut self, window: OutageProbeWindow) -> SessionOutage {
        let OutageProbeSession {
            write_period,
            read_period,
            reopened,
            ..
        } = *self.session;
        let stall = |ends: &mut Vec<Nanos>, period: Option<Nanos>| {
            period.map(|period| longest_stall(ends, period, window))
        };
        let write_stall = stall(&mut self.writes, write_period);
        let read_stall = stall(&mut self.reads, read_period);
        // In order by now.
        let is_gone = is_gone(&self.writes, write_period, window)
            || is_gone(&self.reads, read_period, window);
        SessionOutage {
            session: self.session.name.clone(),
            write_stall,
            read_stall,
            errors: self.errors.len() as u64,
            unended: self.unended,
            first_error_after: None,
            reopened,
            survived: reopened == 0 && self.last.1 && !is_gone,
        }
    }

    fn first_error_after(&self, fault_at: Nanos) -> Option<Nanos> {
        let after = self.errors.iter().filter(|at| **at >= fault_at);
        after.min().map(|at| at.since(fault_at))
    }
}

/// Whether the session did not recover: no success in the last [`GONE_AFTER`] and two periods before the end.
fn is_gone(ends: &[Nanos], period: Option<Nanos>, window: OutageProbeWindow) -> bool {
    period.is_some_and(|period| {
        let last = ends.last().copied().unwrap_or(window.from);
        window.until.since(last) > GONE_AFTER + period + period
    })
}

/// The longest time between two successes, with the beginning and the end as if there had been one.
/// Those that ended before the fault do not count.
fn longest_stall(ends: &mut [Nanos], period: Nanos, window: OutageProbeWindow) -> OutageStall {
    ends.sort_unstable();
    let mut worst = OutageStall {
        from: window.from,
        length: Nanos(0),
        is_open: false,
    };
    let mut before = window.from;
    let inside = ends.iter().map(|at| (*at, false));
    for (at, is_open) in inside.chain([(window.until, true)]) {
        let length = at.since(before).since(period);
        if length > worst.length && window.fault_at.is_none_or(|fault_at| at > fault_at) {
            worst = OutageStall {
                from: before,
                length,
                is_open,
            };
        }
        before = before.max(at);
    }
    worst
}

/// Successes of all sessions by the bin in which they were seen.
struct Bins {
    from: Nanos,
    counts: Vec<u32>,
}

impl Bins {
    fn of(probes: &[OutageProbe], window: OutageProbeWindow) -> Bins {
        // Only whole bins: the rest of one would be empty for no fault of the storage.
        let count = (window.until.since(window.from).0 / BIN.0).min(BINS_MAX);
        let mut counts = vec![0u32; to_usize(count)];
        for probe in probes {
            let is_probe = matches!(probe.kind, OpKind::Read | OpKind::Write);
            let Some((at, Ok(()))) = probe.ended.filter(|_| is_probe) else {
                continue;
            };
            if at < window.from {
                continue;
            }
            if let Some(count) = counts.get_mut(to_usize(at.since(window.from).0 / BIN.0)) {
                *count = count.saturating_add(1);
            }
        }
        Bins {
            from: window.from,
            counts,
        }
    }

    fn unavailable(&self, probes_per_s: f64, fault_at: Option<Nanos>) -> Option<Nanos> {
        if probes_per_s * BIN.as_secs_f64() < PROBES_PER_BIN_MIN {
            return None;
        }
        let fault = fault_at.map_or(0, |at| to_usize(at.since(self.from).0 / BIN.0));
        // The first one may lie before the first end.
        let counts = self.counts.iter().skip(fault.max(1));
        let empty = counts.filter(|count| **count == 0);
        Some(Nanos(empty.count() as u64 * BIN.0))
    }

    /// Successes in the second that begins with each bin.
    fn seconds(&self) -> Vec<u32> {
        let sum = |bins: &[u32]| bins.iter().copied().fold(0, u32::saturating_add);
        self.counts.windows(BINS_PER_S).map(sum).collect()
    }

    fn brown_out(&self, fault_at: Nanos) -> BrownOut {
        let seconds = self.seconds();
        let fault = to_usize(fault_at.since(self.from).0 / BIN.0);
        // Seconds that ended before the fault.
        let before = fault.saturating_sub(BINS_PER_S - 1).min(seconds.len());
        let mut usual = seconds[..before].to_vec();
        usual.sort_unstable();
        let median = usual.get(before / 2).filter(|median| **median > 0);
        let Some(median) = median else {
            return BrownOut::Unknown;
        };
        let wanted = f64::from(*median) * RESTORED;
        let good = |second: &u32| f64::from(*second) >= wanted;
        let length = to_usize(RESTORED_FOR.0 / BIN.0) - BINS_PER_S + 1;
        let after = seconds.get(fault..).unwrap_or_default();
        let restored = after.windows(length).position(|time| time.iter().all(good));
        let bins = |count: usize| Nanos((count as u64).saturating_mul(BIN.0));
        match restored {
            Some(bin) => BrownOut::Lasted(bins(bin)),
            None => BrownOut::NotOver(bins(self.counts.len().saturating_sub(fault))),
        }
    }
}

fn backlog(probes: &[OutageProbe], fault_at: Nanos, until: Nanos) -> Option<Nanos> {
    let mut responses: Vec<Nanos> = Vec::new();
    for probe in probes {
        let is_probe = matches!(probe.kind, OpKind::Read | OpKind::Write);
        let is_after = probe.intended_at >= fault_at && probe.intended_at < fault_at + BACKLOG;
        if !is_probe || !is_after {
            continue;
        }
        match probe.ended {
            Some((at, Ok(()))) => responses.push(at.since(probe.intended_at)),
            Some(_) => {}
            None => responses.push(until.since(probe.intended_at)),
        }
    }
    responses.sort_unstable();
    let rank = floor_u64(responses.len() as f64 * 0.99);
    responses.get(to_usize(rank)).or(responses.last()).copied()
}

impl fmt::Display for OutageStall {
    /// `6.24 s`, or `at least 6.24 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.is_open { "at least " } else { "" };
        write!(f, "{least}{}", self.length)
    }
}

impl fmt::Display for BrownOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrownOut::Lasted(time) => write!(f, "{time}"),
            BrownOut::NotOver(time) => write!(f, "not over within {time}"),
            BrownOut::Unknown => f.write_str("not known"),
        }
    }
}

impl fmt::Display for SessionOutage {
    /// `writer 1: writes stalled 6.24 s, reads 6.20 s; 0 errors; survived`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.session)?;
        let stalls = [("writes", self.write_stall), ("reads", self.read_stall)];
        let told = stalls
            .iter()
            .filter_map(|(what, stall)| stall.map(|stall| format!(" {what} stalled {stall}")));
        f.write_str(&told.collect::<Vec<_>>().join(","))?;
        write!(f, "; {} errors", self.errors)?;
        if let Some(time) = self.first_error_after {
            write!(f, ", the first after {time}")?;
        }
        if self.unended > 0 {
            write!(f, "; {} never ended", self.unended)?;
        }
        match (self.survived, self.reopened) {
            (true, _) => f.write_str("; survived"),
            (false, 0) => f.write_str("; did not survive"),
            (false, times) => write!(f, "; did not survive, reopened {times} times"),
        }
    }
}

impl fmt::Display for OutageResult {
    /// A line for each session, then of all together.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for session in &self.sessions {
            writeln!(f, "{session}")?;
        }
        match (self.fault_at, self.fault_is_known) {
            (Some(at), true) => writeln!(f, "fault: at {at}")?,
            (Some(at), false) => {
                writeln!(
                    f,
                    "fault: at {at}, inferred from the beginning of the longest stall"
                )?;
            }
            (None, _) => writeln!(f, "fault: time not given, and no stall to infer it from")?,
        }
        match self.unavailable {
            Some(time) => writeln!(f, "unavailable: {time} (bins of {BIN} without a success)")?,
            None => writeln!(f, "unavailable: unknown, too few probes")?,
        }
        writeln!(f, "brown-out: {}", self.brown_out)?;
        if let Some(time) = self.backlog_p99 {
            writeln!(f, "backlog: p99 {time} in the minute after")?;
        }
        write!(f, "resolution: ±{}", self.resolution)
    }
}

#[cfg(test)]
mod tests;
