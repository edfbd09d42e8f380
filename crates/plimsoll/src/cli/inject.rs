// SPDX-License-Identifier: Apache-2.0
//! Options of faults that are injected while a workload runs.

use super::failover::fault;
use plimsoll_agent::failure::CliError;
use plimsoll_core::failover::FaultInjection;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units::{self, Nanos};

/// Bytes of the probes of the sessions, and of the file of each.
const BLOCK_BYTES: u32 = 4 << 10;
const FILE_BYTES: u64 = 16 << 20;

/// Faults, and who feels them.
#[derive(Debug, clap::Args)]
#[group(id = "injection")]
pub(super) struct FaultInjectionArgs {
    /// Inject this fault into a server of every target in each trial, and recover it.
    ///
    /// Targets must be stacks. Sessions probe the target meanwhile, each write in a ledger; the
    /// verdicts are on write outage, on degraded time and on the workload beside them. Several
    /// faults make trials of their own. See plimsoll failover --help for their names.
    #[arg(long = "fault", id = "fault", value_name = "FAULT,...", value_delimiter = ',', value_parser = fault, conflicts_with = "bounds")]
    faults: Vec<FaultKind>,
    /// Inject each fault this many times into every target (default: 5).
    #[arg(long, value_name = "N", requires = "fault", conflicts_with = "blocks",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Server to inject faults into, or `active`: the one that serves at that moment (default:
    /// another one in each block).
    #[arg(long, value_name = "SERVER", requires = "fault")]
    victim: Option<String>,
    /// Keep each fault for at least TIME.
    #[arg(long, default_value = "10s", value_parser = units::parse_duration, value_name = "TIME", requires = "fault")]
    fault_duration: Nanos,
    /// Wait at most TIME for stalled sessions to recover.
    #[arg(long, default_value = "120s", value_parser = units::parse_duration, value_name = "TIME", requires = "fault")]
    recovery_timeout: Nanos,
    /// Number of sessions that probe the target.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64), requires = "fault")]
    sessions: u32,
    /// Reads per second of each session, and as many synced writes.
    #[arg(long, default_value_t = 20.0, value_name = "PER_S", requires = "fault")]
    rate: f64,
}

impl FaultInjectionArgs {
    /// How often each is injected, where that was said.
    pub(super) fn repeat(&self) -> Option<u32> {
        self.repeat
    }

    /// What is injected, each kind in trials of its own.
    pub(super) fn injections(&self) -> Result<Vec<FaultInjection>, CliError> {
        super::failover::check_rate(self.rate)?;
        let injection = |fault: &FaultKind| FaultInjection {
            fault: *fault,
            victim: self.victim.clone(),
            length: self.fault_duration,
            recovery_timeout: self.recovery_timeout,
            sessions: self.sessions,
            rate: self.rate,
            block_bytes: BLOCK_BYTES,
            file_bytes: FILE_BYTES,
        };
        Ok(self.faults.iter().map(injection).collect())
    }
}
