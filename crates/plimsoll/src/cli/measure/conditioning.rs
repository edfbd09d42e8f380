// SPDX-License-Identifier: Apache-2.0
//! Options for the state of systems before the first block, and for trials that end after a number of bytes.

use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::written::{WrittenSize, WrittenTime};

/// Default of --steady: the longest time for a system to become steady.
const STEADY_WITHIN: &str = "10m";

/// Writes that precondition every system before it is measured.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "State of the systems")]
pub(in super::super) struct PreconditionArgs {
    /// Before the first block, write each workload's working set TIMES over (`2x`) on every system.
    ///
    /// The first writes are sequential. The workload's own pattern then moves as many bytes again;
    /// its reads count as bytes moved. For block I/O and models. A new or emptied disk is faster
    /// than a used one; SNIA's specification writes twice the capacity.
    #[arg(long, value_parser = passes, value_name = "TIMES", hide_short_help = true)]
    precondition: Option<f64>,
}

/// Conditioning of systems, so that trials find them as they are after hours of use.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "State of the systems")]
pub(in super::super) struct ConditioningArgs {
    #[command(flatten)]
    precondition: PreconditionArgs,
    /// First run each workload until the system is steady, for at most LIMIT (default: 10m).
    ///
    /// Every system is conditioned in this way before the first block. Steady: the level of the
    /// last quarter of the time differs from that of the quarter before by at most 3 %, with 95 %
    /// confidence. The report also has SNIA's verdict. All trials then warm up for the time that
    /// the slowest system needs to become steady again; --warmup stays as given.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = STEADY_WITHIN,
        value_parser = units::parse_duration, value_name = "LIMIT", hide_short_help = true)]
    steady: Option<Nanos>,
    /// End each trial after SIZE bytes (`20G`), at the latest after --for (default then: 1h).
    ///
    /// Reads and writes of the measured part count together. A trial of fixed length may end before
    /// a fast system has filled its cache, and after a slow one has.
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE", hide_short_help = true)]
    bytes: Option<u64>,
}

impl PreconditionArgs {
    /// Puts what was given into a campaign.
    pub(in super::super) fn apply(self, spec: &mut CampaignSpec) {
        let conditioning = &mut spec.conditioning;
        conditioning.precondition = self.precondition.or(conditioning.precondition);
    }
}

impl ConditioningArgs {
    /// Puts what was given into a campaign.
    pub(in super::super) fn apply(self, spec: &mut CampaignSpec) {
        self.precondition.apply(spec);
        let steady = self.steady.map(WrittenTime);
        spec.conditioning.steady = steady.or(spec.conditioning.steady);
        spec.trial.bytes = self.bytes.map(WrittenSize).or(spec.trial.bytes);
    }
}

/// Refuses what cannot be done to a workload.
pub(super) fn check_one(spec: &CampaignSpec, workload: &Workload) -> Result<(), CliError> {
    let name = workload.name();
    let refused = |option: &str, why: &str| {
        Err(CliError::invalid(format!(
            "{option} does not work with '{name}': it {why}"
        )))
    };
    if let Some(passes) = spec.conditioning.precondition
        && let Err(why) = workload.ordered_writes(passes)
    {
        return refused("--precondition", why);
    }
    if spec.conditioning.steady.is_some() && workload.ends_by_itself() {
        return refused(
            "--steady",
            "ends when its work is done; give one that goes on",
        );
    }
    if spec.conditioning.steady.is_some() && matches!(workload, Workload::Model(_)) {
        let why = "plays a load that changes over time, so no level stays; use --precondition";
        return refused("--steady", why);
    }
    if spec.trial.bytes.is_some() && workload.ends_by_itself() {
        return refused(
            "--bytes",
            "ends when its work is done; give one that goes on",
        );
    }
    Ok(())
}

/// Reads `2x` or `2`.
fn passes(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', 'X', '×']).unwrap_or(text);
    let passes = number.trim().parse();
    passes.map_err(|_| "expected how many times, such as 2x".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, expect) in [("2x", 2.0), ("2", 2.0), ("0.5x", 0.5), ("3×", 3.0)] {
            assert!((passes(text).unwrap() - expect).abs() < 1e-12, "{text}");
        }
        for text in ["", "x", "two"] {
            assert!(passes(text).is_err(), "{text}");
        }
    }
}
