// SPDX-License-Identifier: Apache-2.0
//! Options of what is done to systems before the first block, and of trials that end after so many bytes.

use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::written::{WrittenSize, WrittenTime};

/// The longest time for a system to become steady, where nobody says.
const STEADY_WITHIN: &str = "10m";
/// Less time shows too little: nothing is called steady within a minute.
const STEADY_WITHIN_MIN: Nanos = Nanos(120 * Nanos::SECOND.0);
/// The most passes: more would be a slip of the finger.
const PASSES_MAX: f64 = 100.0;

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
        value_parser = steady_within, value_name = "LIMIT")]
    steady: Option<Nanos>,
    /// End each trial when its measured part has moved SIZE bytes (`20G`), reads and writes together,
    /// or after --for at the latest (default: 1h).
    ///
    /// A trial of a fixed length may end before a fast system has filled its cache and after a slow one
    /// has.
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
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
    let passes: Option<f64> = number.trim().parse().ok();
    passes
        .filter(|passes| *passes > 0.0 && *passes <= PASSES_MAX)
        .ok_or_else(|| format!("expected how many times, such as 2x, at most {PASSES_MAX}x"))
}

fn steady_within(text: &str) -> Result<Nanos, String> {
    let limit = units::parse_duration(text)?;
    match limit >= STEADY_WITHIN_MIN {
        true => Ok(limit),
        false => Err("expected at least 2m".into()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        0 => Err("expected a size above 0, such as 20G".into()),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_limits_are_read_as_people_write_them() {
        for (text, expect) in [("2x", 2.0), ("2", 2.0), ("0.5x", 0.5), ("3×", 3.0)] {
            assert!((passes(text).unwrap() - expect).abs() < 1e-12, "{text}");
        }
        for text in ["", "x", "0x", "-1x", "nan", "inf", "1000x", "two"] {
            assert!(passes(text).is_err(), "{text}");
        }
        assert_eq!(
            steady_within("30m").unwrap(),
            Nanos(1_800 * Nanos::SECOND.0)
        );
        assert!(steady_within("2s").is_err() && bytes("0").is_err());
        assert_eq!(bytes("20G").unwrap(), 20 << 30);
    }
}
