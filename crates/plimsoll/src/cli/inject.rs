// SPDX-License-Identifier: Apache-2.0
//! Options of faults that are injected in trials.

use super::design::BLOCKS_RANGE;
use super::measure::choices;
use plimsoll_console::failure::CliError;
use plimsoll_core::failover::{FaultInjection, FaultObserver, StackCondition, StackConditionKind};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units::{self, Nanos};
use std::collections::BTreeMap;

/// Observers by their names.
const OBSERVERS: [(&str, FaultObserver); 2] =
    [("stamp", FaultObserver::Stamp), ("scp", FaultObserver::Scp)];

/// Bytes of the reads and writes of the sessions, and of the file of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionFiles {
    pub(super) block_bytes: u32,
    pub(super) file_bytes: u64,
}

impl SessionFiles {
    /// Default sizes.
    const USUAL: SessionFiles = SessionFiles {
        block_bytes: 4 << 10,
        file_bytes: 16 << 20,
    };

    pub(super) fn apply(self, injection: &mut FaultInjection) {
        injection.block_bytes = self.block_bytes;
        injection.file_bytes = self.file_bytes;
    }
}

/// Faults, and who feels them.
#[derive(Debug, clap::Args)]
#[group(id = "injection")]
pub(super) struct FaultInjectionArgs {
    /// Fault to inject into a server of every stack in each trial, and to recover (failover: kill, if
    /// none is given).
    ///
    /// Sessions use the stack meanwhile, each write in a ledger; the results are the outage, the
    /// degraded time and whether acknowledged writes are missing. Several faults make trials of their
    /// own. See plimsoll failover --help for their names. Targets must be stacks.
    #[arg(long = "fault", id = "fault", value_name = "FAULT,...", value_delimiter = ',', value_parser = fault)]
    faults: Vec<FaultKind>,
    /// Inject each fault this many times into every stack (default: 5 with compare, 10 with
    /// failover).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(BLOCKS_RANGE))]
    repeat: Option<u32>,
    /// Server to inject faults into, or `active`: the one that serves just before the trial
    /// (default: another one in each block).
    #[arg(long, value_name = "SERVER")]
    victim: Option<String>,
    /// Keep each fault for at least TIME.
    #[arg(long, default_value = "10s", value_parser = units::parse_duration, value_name = "TIME")]
    fault_duration: Nanos,
    /// Wait at most TIME for stalled sessions to recover.
    #[arg(long, default_value = "120s", value_parser = units::parse_duration, value_name = "TIME")]
    recovery_timeout: Nanos,
    /// Number of sessions that use each stack.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    sessions: u32,
    /// Reads per second of each session, and as many synced writes (default: 20 with compare, 100
    /// with failover).
    #[arg(long, value_name = "PER_S")]
    rate: Option<f64>,
    /// Give the sessions this share of their maximum instead of --rate, for example 50%.
    ///
    /// The maximum is what the sessions reach without a rate beside the workload; it is measured
    /// before the first fault of each stack.
    #[arg(long = "load", value_name = "SHARE", value_parser = share, conflicts_with = "rate")]
    share: Option<f64>,
    /// Observers to run beside the sessions.
    ///
    /// `stamp` writes a line every second; `scp` copies a file again and again.
    #[arg(long = "observer", value_name = "stamp|scp,...", value_delimiter = ',', value_parser = choices(&OBSERVERS))]
    observers: Vec<FaultObserver>,
}

/// A condition by its name.
pub(super) fn condition(text: &str) -> Result<StackConditionKind, String> {
    StackConditionKind::find(text)
        .ok_or_else(|| format!("expected one of {}", StackConditionKind::names()))
}

pub(super) fn fault(text: &str) -> Result<FaultKind, String> {
    FaultKind::find(text).ok_or_else(|| format!("expected one of {}", FaultKind::names()))
}

/// Conditions of the systems; a named server is the victim of those that act on a server.
pub(super) fn conditions(
    kinds: &[StackConditionKind],
    victim: Option<&str>,
    settle_timeout: Nanos,
) -> Vec<StackCondition> {
    let condition = |kind: &StackConditionKind| StackCondition::new(*kind, victim, settle_timeout);
    kinds.iter().map(condition).collect()
}

fn share(text: &str) -> Result<f64, String> {
    units::parse_fraction(text)
        .filter(|share| (0.01..=1.0).contains(share))
        .ok_or_else(|| "expected a share from 1% to 100%".into())
}

impl FaultInjectionArgs {
    /// Conditions of the systems, with the named server, if any, as their victim.
    pub(super) fn conditions(&self, kinds: &[StackConditionKind]) -> Vec<StackCondition> {
        conditions(kinds, self.victim.as_deref(), self.recovery_timeout)
    }

    /// Whether faults are injected.
    pub(super) fn is_asked(&self) -> bool {
        !self.faults.is_empty()
    }

    /// How often each is injected, where that was said.
    pub(super) fn repeat(&self) -> Option<u32> {
        self.repeat
    }

    /// Faults to inject, each kind in trials of its own: `usual` where none is named, with sessions
    /// at `rate` where none is given.
    pub(super) fn injections(
        &self,
        usual: &[FaultKind],
        rate: f64,
    ) -> Result<Vec<FaultInjection>, CliError> {
        let rate = self.rate.unwrap_or(rate);
        let rates = FaultInjection::RATE_MIN..=FaultInjection::RATE_MAX;
        if !rates.contains(&rate) {
            return Err(CliError::invalid(format!(
                "invalid value '{rate}' for --rate: expected a number from {} to {}",
                rates.start(),
                rates.end()
            )));
        }
        let named = match self.faults.is_empty() {
            true => usual,
            false => &self.faults,
        };
        // One that is named twice is one entry.
        let faults = named.iter().enumerate();
        let faults = faults.filter(|(at, fault)| !named[..*at].contains(fault));
        let injection = |(_, fault): (usize, &FaultKind)| FaultInjection {
            fault: *fault,
            victim: self.victim.clone(),
            length: self.fault_duration,
            recovery_timeout: self.recovery_timeout,
            sessions: self.sessions,
            rate,
            share: self.share,
            block_bytes: SessionFiles::USUAL.block_bytes,
            file_bytes: SessionFiles::USUAL.file_bytes,
            observers: self.observers.clone(),
            refused: BTreeMap::new(),
        };
        Ok(faults.map(injection).collect())
    }
}
