// SPDX-License-Identifier: Apache-2.0
//! Actual submission times of a worker of block I/O: played on `null`, on the machine's own clock, every
//! time kept, so that a test can compare them with the schedule.

use std::sync::atomic::AtomicBool;

use plimsoll_core::op::{OpRequest, OpSample};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

use crate::act::wake_in_time;
use crate::blocks::{self, BlockIoSharedState, BlockIoSource};
use crate::check::WorkloadChecker;
use crate::drive::{DriverLimits, drive};
use crate::error::EngineError;
use crate::ground::OpenTarget;
use crate::null::NullEngine;
use crate::recorder::SampleRecorder;
use crate::source::{NextRequest, RequestSource};
use crate::sys::clock::HostClock;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmissionTime {
    /// When it was meant to start, after the start of the run.
    pub intended_at: Nanos,
    /// When it was submitted, on the same clock.
    pub issued_at: Nanos,
}

/// Plays the first worker of the first group of block I/O on nothing, for as long as its first
/// `count` operations take, and says when each was issued. The times are kept in memory that is
/// there before the first.
///
/// # Errors
/// When the workload does not make sense or is not block I/O.
pub fn trace_issues(
    workload: &Workload,
    seed: Seed,
    count: usize,
) -> Result<Vec<SubmissionTime>, EngineError> {
    let ground = &OpenTarget::Null;
    WorkloadChecker { ground, align: 1 }.workload(workload)?;
    let Workload::Blocks(blocks) = workload else {
        return Err(EngineError::Workload(format!(
            "the issue times of '{}' cannot be traced: only those of block I/O are",
            workload.name()
        )));
    };
    let common = BlockIoSharedState::new(blocks, false);
    let posts = blocks::posts(blocks, (Nanos(0), Nanos::MAX), seed, &common);
    let Some(post) = posts.first() else {
        return Ok(Vec::new());
    };
    let mut engine = NullEngine::new(post.group.depth);
    let mut source = SubmissionTimeSource {
        inner: BlockIoSource::new(post, post.group.depth),
        left: count,
        // Written once, so that no page is missing when it counts.
        issues: vec![NOT_YET; count],
        issued: 0,
    };
    let mut recorder = SampleRecorder::new(Nanos(0), ());
    let go_on = AtomicBool::new(false);
    let limits = DriverLimits::real(Nanos::MAX);
    wake_in_time();
    let clock = HostClock::start();
    drive(
        &mut engine,
        &clock,
        &mut source,
        &mut recorder,
        limits,
        &go_on,
    )?;
    source.issues.truncate(source.issued);
    Ok(source.issues)
}

/// The initial value of the memory; not 0, or the system would not have to provide the page.
const NOT_YET: SubmissionTime = SubmissionTime {
    intended_at: Nanos::MAX,
    issued_at: Nanos::MAX,
};

/// A worker whose issues are kept.
struct SubmissionTimeSource {
    inner: BlockIoSource,
    left: usize,
    issues: Vec<SubmissionTime>,
    issued: usize,
}

impl RequestSource for SubmissionTimeSource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        if self.left == 0 {
            return Ok(NextRequest::End);
        }
        let next = self.inner.next(now, slot)?;
        self.left -= usize::from(matches!(next, NextRequest::Request(_)));
        Ok(next)
    }

    fn handed_over(&mut self, request: &OpRequest, at: Nanos) {
        if let Some(issue) = self.issues.get_mut(self.issued) {
            *issue = SubmissionTime {
                intended_at: request.intended_at,
                issued_at: at,
            };
            self.issued += 1;
        }
    }

    fn goes_on(&self, slot: u32) -> bool {
        self.inner.goes_on(slot)
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        self.inner.completed(slot, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::FileLoop;
    use plimsoll_core::workload::blocks::{
        ArrivalProcess, BlockIoGroup, BlockIoPacing, BlockIoWorkload,
    };
    use plimsoll_core::workload::files::{FileLoopOp, FileOp, FileSet, FileSizeDistribution};

    #[test]
    fn every_operation_is_issued_in_order_and_never_early() {
        let workload = Workload::Blocks(BlockIoWorkload {
            name: "arrivals".into(),
            groups: vec![BlockIoGroup {
                depth: 256,
                pace: BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 50_000.0 }),
                ..BlockIoGroup::default()
            }],
        });
        let issues = trace_issues(&workload, Seed(1), 2_000).unwrap();
        assert_eq!(issues.len(), 2_000);
        assert!(issues.iter().all(|i| i.issued_at >= i.intended_at));
        assert!(issues.is_sorted_by_key(|i| i.issued_at));
        assert!(issues.is_sorted_by_key(|i| i.intended_at));
    }

    #[test]
    fn what_is_not_block_io_is_refused() {
        let set = FileSet::flat("files", 10, 4096, FileSizeDistribution::Constant);
        let files = FileLoop::of("files", set, 1, vec![FileLoopOp::from(FileOp::Stat)]);
        let refused = trace_issues(&Workload::Files(files), Seed(1), 1).unwrap_err();
        assert!(refused.to_string().contains("block I/O"), "{refused}");
    }
}
