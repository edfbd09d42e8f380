// SPDX-License-Identifier: Apache-2.0
//! Every request of some disks, by the kernel's tracer.
//!
//! A journal records the tracer instance before the instance is made.

use super::{CaptureSink, head, wait_until};
use crate::run_id;
use crate::run_id::run_header;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing, failed};
use plimsoll_core::recording::{CaptureBatch, CaptureStats, TraceRequest};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::{monotonic, thread_cpu};
use plimsoll_machine::host::HostTimeSource;
use plimsoll_machine::host::disks;
use plimsoll_machine::journal::{Journal, StateDir};
use plimsoll_machine::raise::{raise, raze};
use plimsoll_machine::tracer::{self, BlockTracer};
use plimsoll_trace::TraceError;
use plimsoll_trace::requests::{FtraceParser, recorded_events};
use std::mem;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time between two looks at the tracer's buffers, which hold several times as much.
const TURN: Duration = Duration::from_millis(20);
/// An event may have got its time this long before it can be read.
const SETTLED: Nanos = Nanos(10_000_000);
/// How often lost events are asked for: a file for each processor is read then.
const LOST_EVERY: Nanos = Nanos::SECOND;

/// The devices traced, and where the trace goes.
#[derive(Debug, Clone)]
pub(super) struct RequestCaptureOptions {
    /// The kernel's names of the disks.
    pub(super) disks: Vec<String>,
    /// How long, at most.
    pub(super) length: Option<Nanos>,
}

impl RequestCaptureOptions {
    /// Traces until its time is over or it is stopped, and removes the tracer again.
    pub(super) fn run(
        &self,
        state: &StateDir,
        (clock, stop): (&dyn HostTimeSource, &AtomicBool),
        taker: &mut dyn CaptureSink,
    ) -> Result<CaptureStats, CliError> {
        let events: Vec<&str> = recorded_events().collect();
        tracer::check(&events).map_err(doing(CliExitCode::Usage, "record requests"))?;
        let mut numbers = Vec::new();
        for (place, disk) in (0..).zip(&self.disks) {
            let found = disks::numbers_of(disk);
            let found = found.map_err(doing(
                CliExitCode::Usage,
                format!("record the requests of {disk}"),
            ))?;
            numbers.extend(found.into_iter().map(|number| (number, place)));
        }
        let id = format!("record-{}", run_id::run_id());
        let (plan, instance) = tracer::plan(&id);
        let journal = Journal::create(state, run_header(&id)).map_err(doing(
            CliExitCode::Failed,
            "begin the journal of the recording",
        ))?;
        let mut host = context::host();
        let standing = raise(&plan, None, &mut host, journal).map_err(doing(
            CliExitCode::Failed,
            "create an instance of the kernel's tracer",
        ))?;
        let traced = self.record(&instance, (&events, &numbers), (clock, stop), taker);
        let left = raze(standing.journal, &mut host).problems();
        let tally = traced?;
        if left.is_empty() {
            return Ok(tally);
        }
        Err(CliError::new(
            CliExitCode::NotCleaned,
            format!("clean up:\n  {}", left.join("\n  ")),
        )
        .hint("run `plimsoll raze` to try again; what was recorded is kept"))
    }

    /// Records by an instance that is there.
    fn record(
        &self,
        instance: &str,
        (events, numbers): (&[&str], &[(u32, u16)]),
        (clock, stop): (&dyn HostTimeSource, &AtomicBool),
        taker: &mut dyn CaptureSink,
    ) -> Result<CaptureStats, CliError> {
        let devices: Vec<u32> = numbers.iter().map(|(number, _)| *number).collect();
        let mut format = |place: &str| {
            tracer::file(place).map_err(|error| TraceError::Read {
                file: place.into(),
                source: std::io::Error::other(error),
            })
        };
        let Some(start) = taker.ready(clock) else {
            return Ok(CaptureStats::default());
        };
        if !wait_until(start, clock, stop) {
            return Ok(CaptureStats::default());
        }
        let (began, head) = (monotonic(), head(&self.disks));
        let capture = FtraceParser::new(&mut format, numbers, began.0)
            .map_err(failed(CliExitCode::Failed))?;
        taker.begin(head)?;
        let mut turns = RequestCaptureLoop {
            capture,
            taker,
            tracer: BlockTracer::begin(instance, events, &devices)
                .map_err(failed(CliExitCode::Failed))?,
            fresh: Vec::new(),
            began,
            cpu_before: thread_cpu(),
            lost_at: began,
            tally: CaptureStats::default(),
        };
        let mut due = clock.now();
        loop {
            due = clock.now().max(due + TURN);
            let over = self
                .length
                .is_some_and(|length| monotonic().since(began) >= length);
            if over || !wait_until(due, clock, stop) {
                break;
            }
            turns.turn()?;
        }
        turns.end()?;
        Ok(turns.tally)
    }
}

/// The hand-over from the tracer to its taker, turn by turn.
struct RequestCaptureLoop<'a> {
    tracer: BlockTracer,
    capture: FtraceParser,
    taker: &'a mut dyn CaptureSink,
    /// Requests that are not taken yet.
    fresh: Vec<TraceRequest>,
    began: Nanos,
    cpu_before: Nanos,
    /// When it was last asked how many events were lost.
    lost_at: Nanos,
    tally: CaptureStats,
}

impl RequestCaptureLoop<'_> {
    fn turn(&mut self) -> Result<(), CliError> {
        // Without room events wait in the kernel's buffers, and are counted when those are full.
        if !self.taker.has_room() {
            return Ok(());
        }
        // Records with an earlier time can be read now.
        let now = monotonic();
        self.read()?;
        self.capture.settle(now.since(SETTLED).0, &mut self.fresh);
        if now.since(self.lost_at) >= LOST_EVERY {
            self.tally.lost = self.tracer.lost();
            self.lost_at = now;
        }
        self.keep()
    }

    fn end(&mut self) -> Result<(), CliError> {
        self.tracer.stop().map_err(failed(CliExitCode::Failed))?;
        self.read()?;
        self.tally.odd = self.capture.finish(&mut self.fresh);
        self.tally.lost = self.tracer.lost();
        self.keep()
    }

    fn read(&mut self) -> Result<(), CliError> {
        let capture = &mut self.capture;
        let read = self.tracer.read(&mut |page| capture.page(page));
        read.map_err(failed(CliExitCode::Failed))
    }

    fn keep(&mut self) -> Result<(), CliError> {
        let fresh = mem::take(&mut self.fresh);
        self.tally.requests += fresh.len() as u64;
        let bytes = fresh.iter().map(|request| u64::from(request.bytes));
        self.tally.bytes += bytes.sum::<u64>();
        self.tally.length = monotonic().since(self.began);
        self.tally.cpu = thread_cpu().since(self.cpu_before);
        self.taker.take(CaptureBatch::Requests(fresh), &self.tally)
    }
}
