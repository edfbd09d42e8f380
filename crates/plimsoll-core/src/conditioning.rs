// SPDX-License-Identifier: Apache-2.0
//! Conditioning of every system before the first block, so that trials find it as it is after hours
//! of use, and its results.

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, clock_duration, duration, rate, signed_percent, size};

/// The requested conditioning and, as far as known, its results.
///
/// The manifest holds the request. The results are events of the run; a reader of a run folder
/// finds them here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SystemConditioning {
    /// How many times the working set is written, in order and then by the workload itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<f64>,
    /// The longest time in which each system is to become steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_within: Option<Nanos>,
    /// Steps that were done, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<SystemConditioningResult>,
}

impl SystemConditioning {
    /// The warm-up of trials: what the slowest system needed to be steady once more, and at least what
    /// is given.
    pub fn warmup(&self, given: Nanos) -> Nanos {
        let begins = self.done.iter().filter_map(|one| match &one.step {
            SystemConditioningStep::SteadyAgain(steady) => Some(steady.begins),
            _ => None,
        });
        begins.fold(given, Nanos::max)
    }

    /// Whether anything is to be done.
    pub fn is_asked(&self) -> bool {
        self.passes.is_some() || self.steady_within.is_some()
    }
}

/// One step on one system under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SystemConditioningResult {
    /// Label of the system.
    pub arm: String,
    /// Label of the workload.
    pub workload: String,
    /// The step.
    pub step: SystemConditioningStep,
}

impl SystemConditioningResult {
    /// As people read it.
    pub fn sentence(&self) -> String {
        format!(
            "{} under {}: {}",
            self.arm,
            self.workload,
            self.step.sentence()
        )
    }
}

impl SystemConditioningStep {
    /// As people read it, without the system.
    pub fn sentence(&self) -> String {
        match self {
            SystemConditioningStep::Written(written) => written.sentence(),
            SystemConditioningStep::Steady(steady) => steady.sentence(),
            SystemConditioningStep::SteadyAgain(steady) => {
                format!("once more, after the others: {}", steady.sentence())
            }
        }
    }
}

/// A step, with what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SystemConditioningStep {
    /// The working set was written.
    Written(PreconditioningResult),
    /// The workload was played until the system was steady.
    Steady(SteadyStateResult),
    /// The same once more, after the other systems had their turn: as trials find it.
    SteadyAgain(SteadyStateResult),
}

/// Data written before a system was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PreconditioningResult {
    /// Bytes written in order.
    pub ordered_bytes: u64,
    /// How long that took.
    pub ordered: Nanos,
    /// Bytes moved by the workload itself.
    pub own_bytes: u64,
    /// How long that took.
    pub own: Nanos,
}

impl PreconditioningResult {
    fn sentence(&self) -> String {
        let ordered = size(self.ordered_bytes as f64);
        let (in_order, own) = (clock_duration(self.ordered), clock_duration(self.own));
        match self.own_bytes {
            0 => format!("{ordered} written in order in {in_order}"),
            bytes => format!(
                "{ordered} written in order in {in_order}, then {} moved by the workload itself in {own}",
                size(bytes as f64)
            ),
        }
    }
}

/// Verdict on a system that was to become steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SteadyStateVerdict {
    /// The last two quarters of its time are equivalent.
    Steady,
    /// They differ by more than the margin.
    Changing,
    /// The noise allows neither to be said.
    CannotTell,
}

/// How a system became steady, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SteadyStateResult {
    /// The verdict.
    pub verdict: SteadyStateVerdict,
    /// How long the workload was played.
    pub after: Nanos,
    /// Change of the level from the third quarter of that time to the last, as a fraction.
    pub change: f64,
    /// Upper bound of the size of the change, with a confidence of 95 %.
    pub at_most: f64,
    /// Margin that the upper bound had to be below.
    pub margin: f64,
    /// The level of the last quarter: operations a second, or for an open loop the mean response time in
    /// nanoseconds.
    pub level: f64,
    /// Whether the level is a response time.
    pub is_response: bool,
    /// From when on the level was that of the end.
    pub begins: Nanos,
    /// The verdict of SNIA's rule on the same seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snia: Option<SniaSteadyState>,
}

impl SteadyStateResult {
    /// As people read it.
    pub fn sentence(&self) -> String {
        let after = clock_duration(self.after);
        let change = format!(
            "changed by {} from the third quarter of that time to the last, at most {} (limit {})",
            signed_percent(self.change),
            percent(self.at_most),
            percent(self.margin)
        );
        let level = match self.is_response {
            true => duration(Nanos(crate::num::round_u64(self.level))),
            false => format!("{} operations/s", rate(self.level)),
        };
        let snia = self
            .snia
            .map_or(String::new(), |snia| format!("; {}", snia.sentence()));
        match self.verdict {
            SteadyStateVerdict::Steady => {
                format!("steady after {after} at {level}: it {change}{snia}")
            }
            SteadyStateVerdict::Changing => {
                format!("NOT steady within {after}: at {level} it still {change}{snia}")
            }
            SteadyStateVerdict::CannotTell => format!(
                "not shown to be steady within {after}: at {level} it {change}; the noise hides whether \
                 that is a change{snia}"
            ),
        }
    }
}

/// SNIA's steady state (Performance Test Specification): of the last five rounds the largest and the
/// smallest are at most 20 % of the average apart, and the line through them rises or falls by at most
/// 10 % of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SniaSteadyState {
    /// Length of a round: one minute where there was time for it.
    pub round: Nanos,
    /// Distance of the largest from the smallest, of the average.
    pub excursion: f64,
    /// Fall or rise of the line through the rounds, of the average.
    pub slope: f64,
    /// Whether both are small enough.
    pub is_steady: bool,
}

impl SniaSteadyState {
    fn sentence(&self) -> String {
        let said = match self.is_steady {
            true => "SNIA's rule calls it steady",
            false => "SNIA's rule does not call it steady",
        };
        format!(
            "{said} (five rounds of {}: excursion {} of at most 20 %, slope {} of at most 10 %)",
            clock_duration(self.round),
            percent(self.excursion),
            percent(self.slope)
        )
    }
}

/// A step that begins on a system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SystemConditioningStart {
    /// Label of the system.
    pub arm: String,
    /// Label of the workload.
    pub workload: String,
    /// The step, as people read it.
    pub what: String,
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(verdict: SteadyStateVerdict, begins_s: u64) -> SteadyStateResult {
        SteadyStateResult {
            verdict,
            after: Nanos(47 * Nanos::SECOND.0),
            change: -0.012,
            at_most: 0.029,
            margin: 0.03,
            level: 820.0,
            is_response: false,
            begins: Nanos(begins_s * Nanos::SECOND.0),
            snia: None,
        }
    }

    #[test]
    fn trials_warm_up_as_long_as_the_slowest_system_needs_once_more() {
        let row = |step| SystemConditioningResult {
            arm: "a".into(),
            workload: "w".into(),
            step,
        };
        let mut all = SystemConditioning::default();
        assert!(!all.is_asked());
        let first = steady(SteadyStateVerdict::Steady, 100);
        all.done.push(row(SystemConditioningStep::Steady(first)));
        assert_eq!(all.warmup(Nanos::SECOND), Nanos::SECOND);
        for begins in [2, 5, 3] {
            let again = steady(SteadyStateVerdict::Steady, begins);
            all.done
                .push(row(SystemConditioningStep::SteadyAgain(again)));
        }
        assert_eq!(all.warmup(Nanos::SECOND), Nanos(5 * Nanos::SECOND.0));
        assert_eq!(
            all.warmup(Nanos(9 * Nanos::SECOND.0)),
            Nanos(9 * Nanos::SECOND.0)
        );
    }

    #[test]
    fn what_was_reached_is_said_with_its_figures() {
        for (verdict, expect) in [
            (
                SteadyStateVerdict::Steady,
                "steady after 47 s at 820 operations/s: it changed by -1.2 %",
            ),
            (SteadyStateVerdict::Changing, "NOT steady within 47 s"),
            (SteadyStateVerdict::CannotTell, "the noise hides"),
        ] {
            let said = steady(verdict, 0).sentence();
            assert!(said.contains(expect), "{said}");
            assert!(said.contains("at most 2.9 % (limit 3.0 %)"), "{said}");
        }
    }
}
