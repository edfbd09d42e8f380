// SPDX-License-Identifier: Apache-2.0
//! `plimsoll ledger outage`: how long nothing was answered, from the ledger alone.

use super::failure;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};
use plimsoll_core::units::{self, Nanos};
use std::path::PathBuf;
use std::process::ExitCode;

/// Seconds from here on are times of day since 1970, and below it times since the first probe.
const EPOCH_SECONDS_MIN: f64 = 1e9;

/// Compute from a ledger how long storage did not respond.
///
/// All times count from the intended start of a probe, so that a stall cannot hide behind probes
/// that it delayed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll ledger outage a.ledger
  plimsoll ledger outage a.ledger --fault-at 30s
  plimsoll ledger outage a.ledger --fault-at 1795220316.816 --json")]
pub(super) struct LedgerOutageArgs {
    /// Ledger to read.
    #[arg(value_name = "FILE")]
    ledger: PathBuf,
    /// Time of the fault (default: the beginning of the longest stall).
    ///
    /// TIME counts from the first probe (30s), or is in seconds since 1970.
    #[arg(long, value_name = "TIME")]
    fault_at: Option<String>,
    /// Print the outage as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &LedgerOutageArgs) -> CliResult {
    super::check_there(&args.ledger)?;
    let (campaign, probes) = plimsoll_ledger::probes(&args.ledger).map_err(failure)?;
    let first_at = campaign.began_at + probes.first_at;
    let fault_at = args.fault_at.as_deref();
    let fault_at = fault_at
        .map(|text| fault_at_of(text, first_at))
        .transpose()?;
    if fault_at.is_some_and(|at| at >= probes.length) {
        return Err(CliError::invalid(format!(
            "invalid value '{}' for --fault-at: the probes lasted only {}",
            args.fault_at.as_deref().unwrap_or_default(),
            probes.length
        )));
    }
    let window = OutageProbeWindow {
        from: Nanos(0),
        until: probes.length,
        fault_at,
    };
    let outage = OutageResult::of(&probes.sessions, &probes.probes, window);
    if args.json {
        let value = serde_json::json!({
            "ledger": args.ledger,
            "first_probe_unix_ns": first_at.0,
            "probed_for_ns": probes.length.0,
            "outage": outage,
        });
        terminal::print_json(&value);
    } else {
        terminal::print(&outage.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// As a time since the first probe, which was meant to start at `first_at` since 1970.
fn fault_at_of(text: &str, first_at: Nanos) -> Result<Nanos, CliError> {
    let wrong = |why: &dyn std::fmt::Display| {
        CliError::invalid(format!("invalid value '{text}' for --fault-at: {why}"))
    };
    if text
        .parse::<f64>()
        .is_ok_and(|seconds| seconds >= EPOCH_SECONDS_MIN)
    {
        // Nanoseconds since 1970 are more digits than a floating point number has.
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{part:0<9.9}");
        let at = digits.parse().map(Nanos).map_err(|error| wrong(&error))?;
        if at < first_at {
            return Err(wrong(&"that was before the first probe"));
        }
        return Ok(at.since(first_at));
    }
    units::parse_duration(text.trim_start_matches('+')).map_err(|why| wrong(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_given_by_the_first_probe_or_by_the_time_of_day() {
        let first_at = Nanos(1_795_220_300_000_000_000);
        let read = |text| fault_at_of(text, first_at).ok();
        assert_eq!(read("30s"), Some(Nanos(30_000_000_000)));
        assert_eq!(read("+1.5"), Some(Nanos(1_500_000_000)));
        assert_eq!(read("1795220316.816551361"), Some(Nanos(16_816_551_361)));
        assert_eq!(read("1795220316.8165"), Some(Nanos(16_816_500_000)));
        assert_eq!(read("1795220316"), Some(Nanos(16_000_000_000)));
        assert_eq!(read("soon"), None);
        assert_eq!(read("1795220299"), None);
    }
}
