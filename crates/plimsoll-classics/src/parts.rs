// SPDX-License-Identifier: Apache-2.0
//! Helpers shared by the classic programs: short constructors for phases and settings, and the
//! figures that their texts take from results.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{OpStats, PhaseResult, WorkerResult};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoRegion, BlockIoWorkload,
};
use plimsoll_core::workload::files::{
    FileLoop, FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileLoopSelection, FileSet,
};
use plimsoll_core::workload::series::{ClassicProgram, PhaseSpec, PhaseWorkload};
use plimsoll_core::workload::{PhaseSeries, Workload};

use crate::error::ClassicsError;
use plimsoll_core::settings::SettingValues;
pub(crate) use plimsoll_core::settings::setting;

/// Bytes of a KiB, as a divisor of rates.
pub(crate) const KIB: f64 = 1024.0;
/// Bytes of a MiB, as a divisor of rates.
pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// A series that does the work of `program`, with its settings on record.
pub(crate) fn series(program: &str, settings: &SettingValues, phases: Vec<PhaseSpec>) -> Workload {
    Workload::Series(PhaseSeries {
        name: program.into(),
        classic: Some(ClassicProgram {
            program: program.into(),
            settings: settings.resolved(),
        }),
        phases,
    })
}

/// A phase of block I/O, compared on bytes per second.
pub(crate) fn block_phase(name: &str, groups: Vec<BlockIoGroup>) -> PhaseSpec {
    let body = PhaseWorkload::Blocks(BlockIoWorkload {
        name: name.into(),
        groups,
    });
    phase(name, body, ComparisonMetric::BytesPerSecond)
}

/// A phase of file operations, compared on operations per second.
pub(crate) fn file_phase(name: &str, files: FileLoop) -> PhaseSpec {
    phase(
        name,
        PhaseWorkload::Files(files),
        ComparisonMetric::OpsPerSecond,
    )
}

/// Threads that each repeat these operations.
pub(crate) fn threads_that(name: &str, threads: u32, ops: Vec<FileLoopOp>) -> FileLoopGroup {
    FileLoopGroup {
        name: name.into(),
        threads,
        ops,
        direct: false,
        sync: false,
    }
}

/// A loop over files that any thread may take, without a limit of its rate.
pub(crate) fn looped(name: &str, sets: Vec<FileSet>, groups: Vec<FileLoopGroup>) -> FileLoop {
    FileLoop {
        name: name.into(),
        sets,
        groups,
        over: FileLoopSelection::Rotor,
        events_per_s: None,
        sync_at_end: false,
        without_file: FileLoopNoFilePolicy::Fail,
    }
}

/// One file that all workers of a group share.
pub(crate) fn shared_file(name: &str, bytes: u64, made: BlockIoFileCreation) -> BlockIoExtent {
    BlockIoExtent {
        file: name.into(),
        shared: true,
        bytes,
        region: BlockIoRegion::Whole,
        made,
    }
}

fn phase(name: &str, body: PhaseWorkload, metric: ComparisonMetric) -> PhaseSpec {
    PhaseSpec {
        name: name.into(),
        body,
        metric,
        stonewall: false,
        limit: None,
        cold: false,
    }
}

/// Values from the first to the last, each twice the one before: the sweep of sgpdd-survey.
pub(crate) fn doubling(low: u32, high: u32) -> impl Iterator<Item = u32> {
    let next = |value: &u32| value.checked_mul(2);
    std::iter::successors(Some(low), next).take_while(move |value| *value <= high)
}

/// The words of a list setting: given again and again, between plus signs or between spaces.
///
/// # Errors
/// When there are none.
pub(crate) fn words<'a>(
    settings: &'a SettingValues,
    name: &str,
) -> Result<Vec<&'a str>, ClassicsError> {
    let texts = settings.texts(name).into_iter();
    let words = texts.flat_map(|text| text.split(|c: char| c == '+' || c.is_whitespace()));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Err(settings.wrong(name, settings.text(name), "expected at least one name"));
    }
    Ok(words)
}

/// Ends a line of a text without the blanks before its end.
pub(crate) fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// The result of the phase of this name.
pub(crate) fn find<'a>(phases: &'a [PhaseResult], name: &str) -> Option<&'a PhaseResult> {
    phases.iter().find(|phase| phase.name == name)
}

/// `amount` per second of `time`; 0 when no time has passed.
pub(crate) fn per_second(amount: f64, time: Nanos) -> f64 {
    ratio(amount, time.as_secs_f64())
}

/// Bytes that operations of this kind moved.
pub(crate) fn bytes(stats: &OpStats, kind: OpKind) -> f64 {
    stats.0.get(&kind).map_or(0.0, |kind| kind.bytes as f64)
}

/// Operations of this kind that succeeded.
pub(crate) fn done(stats: &OpStats, kind: OpKind) -> f64 {
    let done = |kind: &plimsoll_core::event::KindStats| kind.ops() - kind.errors;
    stats.0.get(&kind).map_or(0.0, |kind| done(kind) as f64)
}

/// Time that a worker took for its counted work.
pub(crate) fn elapsed(worker: &WorkerResult) -> Nanos {
    worker.ended.since(worker.began)
}

/// Least and greatest of values; zeros when there are none.
pub(crate) fn least_and_greatest(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let both = values.fold(None, |both, value| match both {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    });
    both.unwrap_or_default()
}

/// Mean and population standard deviation of values; zeros when there are none.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = ratio(values.iter().sum(), count);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, ratio(squares, count).sqrt())
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_core::op::{OpRequest, OpSample};

    use super::*;

    /// A sweep, and what has no values.
    #[test]
    fn sweeps_double_and_nothing_gives_zero() {
        for (low, high, expect) in [
            (1, 8, vec![1, 2, 4, 8]),
            (3, 13, vec![3, 6, 12]),
            (4, 2, vec![]),
            (u32::MAX, u32::MAX, vec![u32::MAX]),
        ] {
            assert_eq!(doubling(low, high).collect::<Vec<_>>(), expect);
        }
        assert_eq!(least_and_greatest(std::iter::empty()), (0.0, 0.0));
        assert_eq!(least_and_greatest([3.0, 1.0, 2.0].into_iter()), (1.0, 3.0));
        assert_eq!(mean_and_deviation(&[]), (0.0, 0.0));
        assert_eq!(mean_and_deviation(&[2.0, 4.0]), (3.0, 1.0));
    }

    /// Statistics of operations: kind, how many, bytes of each, service time of each in
    /// microseconds.
    pub(crate) fn stats(list: &[(OpKind, u64, u32, u64)]) -> OpStats {
        let mut stats = OpStats::default();
        for &(kind, count, len, service_us) in list {
            let request = OpRequest {
                kind,
                file: 0,
                offset: 0,
                len,
                intended_at: Nanos(0),
            };
            let sample = OpSample {
                request,
                submitted_at: Nanos(0),
                completed_at: Nanos(service_us * 1000),
                result: Ok(u64::from(len)),
            };
            for _ in 0..count {
                stats.0.entry(kind).or_default().record(&sample);
            }
        }
        stats
    }

    /// The result of a phase that took so long.
    pub(crate) fn result(
        name: &str,
        seconds: f64,
        list: &[(OpKind, u64, u32, u64)],
    ) -> PhaseResult {
        PhaseResult {
            name: name.into(),
            metric: ComparisonMetric::OpsPerSecond,
            value: 0.0,
            wall: Nanos::from_secs_f64(seconds),
            stats: stats(list),
            user_cpu_ns: 0,
            system_cpu_ns: 0,
            workers: Vec::new(),
        }
    }

    /// Result of a worker: its begin and end in seconds, its operations and bytes.
    pub(crate) fn worker(began: f64, ended: f64, ops: u64, bytes: u64) -> WorkerResult {
        WorkerResult {
            began: Nanos::from_secs_f64(began),
            ended: Nanos::from_secs_f64(ended),
            ops,
            bytes,
            longest_wait: Nanos(0),
        }
    }

    /// The built series of `name` with these settings.
    pub(crate) fn built(name: &str, given: &[(&str, &str)]) -> PhaseSeries {
        match crate::workload(name, &pairs(given)) {
            Ok(Workload::Series(series)) => series,
            other => panic!("{name} {given:?}: {other:?}"),
        }
    }

    /// The error of `name` with these settings.
    pub(crate) fn refused(name: &str, given: &[(&str, &str)]) -> String {
        crate::workload(name, &pairs(given))
            .unwrap_err()
            .to_string()
    }

    /// The groups of a phase of block I/O.
    pub(crate) fn groups<'a>(series: &'a PhaseSeries, phase: &str) -> &'a [BlockIoGroup] {
        let found = series.phases.iter().find(|p| p.name == phase);
        match found.map(|phase| &phase.body) {
            Some(PhaseWorkload::Blocks(blocks)) => &blocks.groups,
            other => panic!("{phase}: {other:?}"),
        }
    }

    /// The file loop of a phase.
    pub(crate) fn file_loop<'a>(series: &'a PhaseSeries, phase: &str) -> &'a FileLoop {
        let found = series.phases.iter().find(|p| p.name == phase);
        match found.map(|phase| &phase.body) {
            Some(PhaseWorkload::Files(files)) => files,
            other => panic!("{phase}: {other:?}"),
        }
    }

    /// Names of the phases, in order.
    pub(crate) fn names(series: &PhaseSeries) -> Vec<&str> {
        series.phases.iter().map(|p| p.name.as_str()).collect()
    }

    fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        given.iter().map(own).collect()
    }
}
