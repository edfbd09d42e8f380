// SPDX-License-Identifier: Apache-2.0
//! Statistics of a worker's operations, passed on once a second.
//!
//! Operations whose intended start lies in the warm-up are dropped here and nowhere else. The
//! measured part is cut into seconds, counted from the end of the warm-up; an operation belongs
//! to the second in which it was seen to have ended.
//!
//! The recorder also keeps the generator's own account: how long the worker was busy between two
//! calls into its engine, and how much of that went into waiting on its feet for a due request.

use std::collections::BTreeMap;

use plimsoll_core::event::{KindStats, OpStats};
use plimsoll_core::op::{OpKind, OpSample, OpSampleBatch};
use plimsoll_core::open_load::OpenLoad;
use plimsoll_core::units::Nanos;

/// Statistics by kind with constant-time access; kinds never seen cost nothing.
#[derive(Debug, Clone, Default)]
pub struct IntervalStats {
    place: [Option<u8>; OpKind::ALL.len()],
    kinds: Vec<(OpKind, KindStats)>,
}

impl IntervalStats {
    /// Counts every one of `alike`.
    #[inline]
    pub fn record(&mut self, alike: &OpSampleBatch) {
        let place = match self.place[alike.kind.index()] {
            Some(place) => place,
            None => self.add(alike.kind),
        };
        self.kinds[usize::from(place)].1.record_alike(alike);
    }

    #[cold]
    fn add(&mut self, kind: OpKind) -> u8 {
        let place = u8::try_from(self.kinds.len()).expect("there are fewer than 256 kinds");
        self.place[kind.index()] = Some(place);
        self.kinds.push((kind, KindStats::default()));
        place
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.kinds.iter_mut().for_each(|(_, stats)| stats.clear());
    }

    /// Adds everything to `stats`.
    pub fn merge_into(&self, stats: &mut OpStats) {
        for (kind, mine) in self.kinds.iter().filter(|(_, s)| !s.service.is_empty()) {
            stats.0.entry(*kind).or_default().merge(mine);
        }
    }
}

/// Hears when a worker's measured part begins and when a second of it is over.
pub trait IntervalListener {
    /// The warm-up is over.
    fn measured_part_began(&mut self);

    /// The worker has gone from second `index` of the measured part to second `next`; `tally`
    /// holds what has ended since the call before and is to be left cleared. When it cannot be
    /// taken now, it is left as it is and grows on.
    fn passed(&mut self, index: u64, next: u64, tally: &mut IntervalStats);
}

impl IntervalListener for () {
    fn measured_part_began(&mut self) {}
    fn passed(&mut self, _: u64, _: u64, _: &mut IntervalStats) {}
}

/// The generator's own time in the measured part of one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerOverhead {
    /// Time outside the engine, pacing left out.
    pub outside: Nanos,
    /// Time spent spinning until a request was due.
    pub pacing: Nanos,
    /// Operations that ended meanwhile.
    pub ops: u64,
}

/// Facts about the operations of the measured part besides their times.
#[derive(Debug, Clone, Default)]
pub struct RequestMarks {
    /// Operations that were still in flight when the driver stopped waiting. Their times until then are
    /// recorded; they have neither ended nor failed.
    pub unfinished: u64,
    /// Those that failed, by the system's error number.
    pub errnos: BTreeMap<i32, u64>,
    /// When those of an open loop were due and ended.
    pub open: Option<OpenLoad>,
}

/// Records samples and watches for the seconds to pass.
#[derive(Debug)]
pub struct SampleRecorder<B> {
    /// Operations that have ended since they were last passed on.
    pub tally: IntervalStats,
    /// Gets the reports.
    pub boundary: B,
    warmup: Nanos,
    /// Length of what is called a second here: there may be a need for finer ones.
    step: Nanos,
    /// The current second; `None` in the warm-up.
    second: Option<u64>,
    next_at: Nanos,
    last_end: Nanos,
    own: WorkerOverhead,
    /// Bytes moved since they were last asked for.
    moved: u64,
    /// The rest that is known of the operations.
    pub marks: RequestMarks,
}

impl<B: IntervalListener> SampleRecorder<B> {
    /// A recorder for a run whose first `warmup` is not measured.
    pub fn new(warmup: Nanos, boundary: B) -> Self {
        SampleRecorder {
            tally: IntervalStats::default(),
            boundary,
            warmup,
            step: Nanos::SECOND,
            second: None,
            next_at: warmup,
            last_end: Nanos(0),
            own: WorkerOverhead::default(),
            moved: 0,
            marks: RequestMarks::default(),
        }
    }

    /// The same with seconds of another length.
    #[must_use]
    pub fn in_steps(mut self, step: Nanos) -> Self {
        self.step = step.max(Nanos(1));
        self
    }

    /// The same for an open loop whose measured part is to last so long, if that is known.
    #[must_use]
    pub fn of_open_loop(mut self, length: Option<Nanos>) -> Self {
        self.marks.open = Some(OpenLoad::new(length));
        self
    }

    /// Counts one operation, unless it belongs to the warm-up. It joins `alike`, the operations
    /// that were like the one before it and are not recorded yet, or takes their place: what was
    /// submitted together and has ended together costs as much as one.
    #[inline(always)]
    pub fn record(&mut self, sample: &OpSample, alike: &mut OpSampleBatch) {
        if sample.request.intended_at < self.warmup {
            return;
        }
        if let Err(errno) = sample.result {
            self.failed(errno);
        }
        if alike.take_in(sample) {
            return;
        }
        self.flush(alike);
        *alike = OpSampleBatch::only(sample);
    }

    /// Records `alike`, of which none are left then. To be called before time passes.
    #[inline]
    pub fn flush(&mut self, alike: &mut OpSampleBatch) {
        if alike.ops > 0 {
            self.tally.record(alike);
            self.moved = self.moved.saturating_add(alike.bytes);
            self.last_end = alike.completed_at;
            if let Some(open) = &mut self.marks.open {
                open.due_at(alike.intended_at.since(self.warmup), alike.ops);
                open.ended_at(alike.completed_at.since(self.warmup), alike.ops);
            }
            alike.ops = 0;
        }
    }

    /// Bytes that recorded operations have moved since this was last asked.
    pub(crate) fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    #[cold]
    fn failed(&mut self, errno: i32) {
        *self.marks.errnos.entry(errno).or_default() += 1;
    }

    /// Counts an operation that the driver no longer waits for: records its time until now, and that it
    /// has not ended.
    pub fn unfinished(&mut self, sample: &OpSample) {
        if sample.request.intended_at < self.warmup {
            return;
        }
        let so_far = OpSample {
            result: Ok(0),
            ..*sample
        };
        self.tally.record(&OpSampleBatch::only(&so_far));
        self.last_end = sample.completed_at;
        self.marks.unfinished += 1;
        self.due(sample.request.intended_at);
    }

    /// Says that a request of an open loop was due at `at` and will not be submitted.
    pub fn due(&mut self, at: Nanos) {
        if let Some(open) = &mut self.marks.open
            && at >= self.warmup
        {
            open.due_at(at.since(self.warmup), 1);
        }
    }

    /// Whether the times that requests waited for room in the queue are wanted.
    #[inline]
    pub fn wants_queue_times(&self) -> bool {
        self.marks.open.is_some()
    }

    /// Says that a request that was due at `intended_at` waited so long for room in the queue.
    #[inline]
    pub fn waited_for_room(&mut self, intended_at: Nanos, waited: Nanos) {
        if let Some(open) = &mut self.marks.open
            && intended_at >= self.warmup
        {
            open.queue_lag_ns = open.queue_lag_ns.saturating_add(waited.0);
        }
    }

    /// Says that the worker was at work outside its engine from one time to another.
    #[inline]
    pub fn outside(&mut self, from: Nanos, to: Nanos) {
        if from >= self.warmup {
            self.own.outside = self.own.outside + to.since(from);
        }
    }

    /// Says that the worker was spinning from one time to another.
    #[inline]
    pub fn pacing(&mut self, from: Nanos, to: Nanos) {
        if from >= self.warmup {
            self.own.pacing = self.own.pacing + to.since(from);
        }
    }

    /// Counts operations whose end was seen at `at`, unless that is in the warm-up.
    #[inline]
    pub fn ended(&mut self, at: Nanos, ops: usize) {
        if at >= self.warmup {
            self.own.ops += ops as u64;
        }
    }

    /// The generator's account of the measured part so far.
    pub fn own(&self) -> WorkerOverhead {
        self.own
    }

    /// Says that it is `now`. To be called before the operations that ended `now` are recorded.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.next_at {
            self.cross(now);
        }
    }

    #[cold]
    fn cross(&mut self, now: Nanos) {
        let second = now.since(self.warmup).0 / self.step.0;
        match self.second {
            None => self.boundary.measured_part_began(),
            Some(index) => self.boundary.passed(index, second, &mut self.tally),
        }
        self.second = Some(second);
        self.next_at = self.warmup + Nanos((second + 1) * self.step.0);
    }

    /// The second that the measured part has reached.
    pub fn second(&self) -> u64 {
        self.second.unwrap_or(0)
    }

    /// When the last recorded operation ended; 0 when none was recorded.
    pub fn last_end(&self) -> Nanos {
        self.last_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpRequest;

    fn sample(kind: OpKind, times: [u64; 3], result: Result<u64, i32>) -> OpSample {
        let [intended, submitted, completed] = times.map(Nanos);
        OpSample {
            request: OpRequest {
                kind,
                file: 0,
                offset: 0,
                len: 4096,
                intended_at: intended,
            },
            submitted_at: submitted,
            completed_at: completed,
            result,
        }
    }

    #[test]
    fn operations_that_are_alike_count_as_if_each_were_alone() {
        let (early, late) = ([100, 150, 900], [100, 160, 900]);
        let samples = [
            sample(OpKind::Read, [50, 150, 900], Ok(4096)),
            sample(OpKind::Read, early, Ok(4096)),
            sample(OpKind::Read, early, Ok(512)),
            sample(OpKind::Write, early, Ok(4096)),
            sample(OpKind::Read, early, Err(5)),
            sample(OpKind::Read, early, Ok(4096)),
            sample(OpKind::Read, late, Ok(4096)),
            sample(OpKind::Read, [150, 160, 900], Ok(4096)),
        ];
        let (mut expected, mut found) = (OpStats::default(), OpStats::default());
        for sample in &samples[1..] {
            let kind = sample.request.kind;
            expected.0.entry(kind).or_default().record(sample);
        }
        // The first one belongs to the warm-up.
        let mut recorder = SampleRecorder::new(Nanos(100), ());
        let mut alike = OpSampleBatch::NONE;
        for sample in &samples {
            recorder.record(sample, &mut alike);
        }
        recorder.flush(&mut alike);
        recorder.flush(&mut alike);
        recorder.tally.merge_into(&mut found);
        assert_eq!(found, expected);
        assert_eq!((found.ops(), found.errors()), (7, 1));
        assert_eq!(recorder.last_end(), Nanos(900));
    }
}
