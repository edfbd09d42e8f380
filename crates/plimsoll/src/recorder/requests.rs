// SPDX-License-Identifier: Apache-2.0
//! Every request of some disks, by the kernel's tracer, into a file.
//!
//! While it goes on, requests are appended to a spool, which is readable by itself; at the end it
//! becomes a table. The instance of the tracer stands in a journal before it is made.

use super::counters::wait_until;
use crate::campaign::{problems, run_header};
use crate::failure::{Code, Failure, doing, failed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::{monotonic, thread_cpu, wall_clock};
use plimsoll_lab::disks;
use plimsoll_lab::host::{Clock, Nodes};
use plimsoll_lab::journal::{Journal, StateDir};
use plimsoll_lab::raise::{raise, raze};
use plimsoll_lab::tracer::{self, Tracer};
use plimsoll_trace::TraceError;
use plimsoll_trace::requests::{Capture, Request, Spool, recorded_events};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time between two looks at the tracer's buffers, which hold several times as much.
const TURN: Duration = Duration::from_millis(20);
/// An event may have got its time this long before it can be read.
const SETTLED: Nanos = Nanos(10_000_000);
/// How often lost events are asked for: a file for each processor is read then.
const LOST_EVERY: Nanos = Nanos::SECOND;

/// What is traced, and where it goes.
#[derive(Debug, Clone)]
pub(crate) struct Tracing {
    /// The kernel's names of the disks.
    pub(crate) disks: Vec<String>,
    /// How long, at most.
    pub(crate) length: Option<Nanos>,
    /// The file that requests are appended to.
    pub(crate) spool: PathBuf,
}

/// What tracing came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traced {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Events that found no room in the kernel's buffers.
    pub(crate) lost: u64,
    pub(crate) length: Nanos,
    /// Processor time it took, without what the kernel spends in the way of each request.
    pub(crate) cpu: Nanos,
    /// What was odd, as sentences.
    pub(crate) odd: Vec<String>,
}

/// Traces until its time is over or it is told to stop, and removes the tracer again.
pub(crate) fn trace(
    tracing: &Tracing,
    (id, state): (&str, &StateDir),
    mut nodes: Nodes,
    (clock, stop): (&dyn Clock, &AtomicBool),
    tell: &mut dyn FnMut(&Traced),
) -> Result<Traced, Failure> {
    let events: Vec<&str> = recorded_events().collect();
    tracer::check(&events).map_err(doing(Code::Usage, "record requests"))?;
    let mut numbers = Vec::new();
    for (place, disk) in (0..).zip(&tracing.disks) {
        let found = disks::numbers_of(disk);
        let found = found.map_err(doing(Code::Usage, format!("record the requests of {disk}")))?;
        numbers.extend(found.into_iter().map(|number| (number, place)));
    }
    let (plan, instance) = tracer::plan(id);
    let journal = Journal::create(state, run_header(id))
        .map_err(doing(Code::Failed, "begin the journal of the recording"))?;
    let standing = raise(&plan, None, &mut nodes, journal).map_err(doing(
        Code::Failed,
        "make an instance of the kernel's tracer",
    ))?;
    let traced = record(tracing, &instance, (&events, &numbers), (clock, stop), tell);
    let left = problems(&raze(standing.journal, &mut nodes));
    let traced = traced?;
    if left.is_empty() {
        return Ok(traced);
    }
    Err(Failure::new(
        Code::NotCleaned,
        format!("clean up:\n  {}", left.join("\n  ")),
    )
    .hint("run `plimsoll raze` to try again; what was recorded is kept"))
}

/// Records by an instance that is there.
fn record(
    tracing: &Tracing,
    instance: &str,
    (events, numbers): (&[&str], &[(u32, u16)]),
    (clock, stop): (&dyn Clock, &AtomicBool),
    tell: &mut dyn FnMut(&Traced),
) -> Result<Traced, Failure> {
    let devices: Vec<u32> = numbers.iter().map(|(number, _)| *number).collect();
    let (began, origin_unix_ns) = (monotonic(), wall_clock().0);
    let mut format = |place: &str| {
        tracer::file(place).map_err(|error| TraceError::Read {
            file: place.into(),
            source: std::io::Error::other(error),
        })
    };
    let capture = Capture::new(&mut format, numbers, began.0).map_err(failed(Code::Failed))?;
    let spool = Spool::create(&tracing.spool, origin_unix_ns, &tracing.disks);
    let mut turns = Turns {
        capture,
        spool: spool.map_err(failed(Code::Failed))?,
        tracer: Tracer::begin(instance, events, &devices).map_err(failed(Code::Failed))?,
        fresh: Vec::new(),
        lost_at: began,
        traced: Traced::default(),
    };
    let cpu_before = thread_cpu();
    let mut due = clock.now();
    loop {
        due = clock.now().max(due + TURN);
        let over = tracing
            .length
            .is_some_and(|length| monotonic().since(began) >= length);
        if over || !wait_until(due, clock, stop) {
            break;
        }
        turns.turn()?;
        turns.traced.length = monotonic().since(began);
        turns.traced.cpu = thread_cpu().since(cpu_before);
        tell(&turns.traced);
    }
    turns.end()?;
    turns.traced.length = monotonic().since(began);
    turns.traced.cpu = thread_cpu().since(cpu_before);
    Ok(turns.traced)
}

/// What goes from the tracer into the spool, turn by turn.
struct Turns {
    tracer: Tracer,
    capture: Capture,
    spool: Spool,
    /// Requests that are not in the spool yet.
    fresh: Vec<Request>,
    /// When it was last asked how many events were lost.
    lost_at: Nanos,
    traced: Traced,
}

impl Turns {
    fn turn(&mut self) -> Result<(), Failure> {
        // What got its time before this instant can be read now.
        let now = monotonic();
        self.read()?;
        self.capture.settle(now.since(SETTLED).0, &mut self.fresh);
        if now.since(self.lost_at) >= LOST_EVERY {
            self.traced.lost = self.tracer.lost();
            self.lost_at = now;
        }
        self.keep()
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.tracer.stop().map_err(failed(Code::Failed))?;
        self.read()?;
        self.traced.odd = self.capture.finish(&mut self.fresh);
        self.traced.lost = self.tracer.lost();
        self.keep()
    }

    fn read(&mut self) -> Result<(), Failure> {
        let capture = &mut self.capture;
        let read = self.tracer.read(&mut |page| capture.page(page));
        read.map_err(failed(Code::Failed))
    }

    fn keep(&mut self) -> Result<(), Failure> {
        self.traced.requests += self.fresh.len() as u64;
        let bytes = self.fresh.iter().map(|request| u64::from(request.bytes));
        self.traced.bytes += bytes.sum::<u64>();
        let kept = self.spool.append(&self.fresh, self.traced.lost);
        self.fresh.clear();
        kept.map_err(failed(Code::Failed))
    }
}
