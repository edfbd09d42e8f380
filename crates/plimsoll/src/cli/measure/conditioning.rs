// SPDX-License-Identifier: Apache-2.0
//! Options of what is done to systems before the first block, and of trials that end after so many bytes.

use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::written::{WrittenSize, WrittenTime};

/// The longest time for a system to become steady, where nobody says.
const STEADY_WITHIN: &str = "10m";

/// Writes that precondition every system before it is measured.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(in super::super) struct PreconditionArgs {
    /// Before the first block, write the working set of each workload TIMES over (`2x`) on every
    /// system: in order, then as the workload itself does it.
    ///
    /// For block I/O and models. A new or emptied disk is faster than a used one; SNIA's specification
    /// writes twice the capacity. Reads in the workload's own pattern count as bytes moved.
    #[arg(long, value_parser = passes, value_name = "TIMES")]
    precondition: Option<f64>,
}

/// Conditioning of systems, so that trials find them as they are after hours of use.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(in super::super) struct ConditioningArgs {
    #[command(flatten)]
    precondition: PreconditionArgs,
    /// Before the first block, play each workload on every system until the system is steady, for LIMIT
    /// at most (default: 10m).
    ///
    /// Steady: the level of the last quarter of that time differs from that of the quarter before by at
    /// most 3 %, with a confidence of 95 %. SNIA's verdict is reported beside it. Trials then warm up
    /// for as long as the slowest system needs to be steady once more; --warmup stays as given.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = STEADY_WITHIN,
        value_parser = units::parse_duration, value_name = "LIMIT")]
    steady: Option<Nanos>,
    /// End each trial when its measured part has moved SIZE bytes (`20G`), reads and writes together,
    /// or after --for at the latest (default: 1h).
    ///
    /// A trial of a fixed length may end before a fast system has filled its cache and after a slow one
    /// has.
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE")]
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
