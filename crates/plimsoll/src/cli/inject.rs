// SPDX-License-Identifier: Apache-2.0
//! Options of faults that are injected in trials.

use super::design::{BLOCKS_RANGE, share};
use super::measure::choices;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::failover::{FaultObserver, StackConditionKind};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::written::WrittenTime;

/// Observers by their names.
const OBSERVERS: [(&str, FaultObserver); 2] =
    [("stamp", FaultObserver::Stamp), ("scp", FaultObserver::Scp)];

/// Faults, and who feels them.
#[derive(Debug, clap::Args)]
#[group(id = "injection")]
#[command(next_help_heading = "Faults")]
pub(super) struct FaultInjectionArgs {
    /// Fault to inject into a server of every stack in each trial (failover: kill by default).
    ///
    /// The fault is recovered within the trial. Meanwhile sessions use the stack and log each write
    /// in a ledger. The results are the outage, the degraded time and missing acknowledged writes.
    /// Several faults have separate trials. plimsoll failover --help lists the faults. Targets must
    /// be stacks.
    #[arg(long = "fault", id = "fault", value_name = "FAULT,...", value_delimiter = ',', value_parser = fault)]
    faults: Vec<String>,
    /// Inject each fault N times into every stack (default: compare 5, failover 10).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE))]
    repeat: Option<u32>,
    /// Server to inject faults into (default: a different one in each block).
    ///
    /// `active` is the server that serves just before the trial.
    #[arg(long, value_name = "SERVER", hide_short_help = true)]
    victim: Option<String>,
    /// Minimum duration of each fault (default: 10s).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    fault_duration: Option<Nanos>,
    /// Maximum wait for stalled sessions to recover (default: 120s).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME", hide_short_help = true)]
    recovery_timeout: Option<Nanos>,
    /// Number of sessions on each stack (default: 2).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    sessions: Option<u32>,
    /// Reads per second of each session (default: compare 20, failover 100).
    ///
    /// Each session makes synced writes at the same rate.
    #[arg(long, value_name = "PER_S", hide_short_help = true)]
    rate: Option<f64>,
    /// Run the sessions at this share of their maximum rate, such as 50%, instead of --rate.
    ///
    /// The maximum is the rate that sessions without pacing reach beside the workload. It is
    /// measured before the first fault of each stack.
    #[arg(long = "load", value_name = "SHARE", value_parser = share, conflicts_with = "rate", hide_short_help = true)]
    share: Option<f64>,
    /// Observers to run beside the sessions.
    ///
    /// `stamp` writes a line every second. `scp` copies a file repeatedly.
    #[arg(long = "observer", value_name = "stamp|scp,...", value_delimiter = ',', value_parser = choices(&OBSERVERS), hide_short_help = true)]
    observers: Vec<FaultObserver>,
}

/// The name of a condition.
pub(super) fn condition(text: &str) -> Result<String, String> {
    let found = StackConditionKind::find(text).map(|_| text.to_owned());
    found.ok_or_else(|| format!("expected one of {}", StackConditionKind::names()))
}

/// A fault by its name.
pub(super) fn fault_kind(text: &str) -> Result<FaultKind, String> {
    FaultKind::find(text).ok_or_else(|| format!("expected one of {}", FaultKind::names()))
}

/// The name of a fault.
fn fault(text: &str) -> Result<String, String> {
    fault_kind(text).map(|_| text.to_owned())
}

impl FaultInjectionArgs {
    /// Whether faults are named.
    pub(super) fn is_asked(&self) -> bool {
        !self.faults.is_empty()
    }

    /// How often each fault is injected, where that was given.
    pub(super) fn repeat(&self) -> Option<u32> {
        self.repeat
    }

    /// Puts what was given into a campaign.
    pub(super) fn apply(&self, spec: &mut CampaignSpec) {
        let faults = &mut spec.faults;
        faults.inject.extend(self.faults.iter().cloned());
        faults.victim = self.victim.clone().or(faults.victim.take());
        faults.duration = self.fault_duration.map(WrittenTime).or(faults.duration);
        let timeout = self.recovery_timeout.map(WrittenTime);
        faults.recovery_timeout = timeout.or(faults.recovery_timeout);
        faults.sessions = self.sessions.or(faults.sessions);
        faults.rate = self.rate.or(faults.rate);
        faults.load = self.share.or(faults.load);
        faults.observers.extend(&self.observers);
        spec.blocks = self.repeat.or(spec.blocks);
    }
}
