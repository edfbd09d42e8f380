// SPDX-License-Identifier: Apache-2.0
//! `plimsoll failover`: faults done to a stack under load, and what came of them.
//!
//! Manual: `docs/failover.md`.

use super::stack::{Shape, choices};
use crate::campaign::{self, Arms, Consent, Load, Wanted};
use crate::cli::spec::TargetSpec;
use crate::failure::{Code, Failure, Outcome};
use plimsoll_core::failover::Failover;
use plimsoll_core::fault::Fault;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Do faults to the servers of a stack under load, and see how long it stands still and whether it
/// keeps what it acknowledged.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Faults: kill, stop, power-cut, pause, slow, link-down, one-way, flap, partition, delay,
loss, disk-slow, disk-hung, disk-full, clock-step, malformed, double.
docs/failover.md says what each does and where it can be done.

Examples:
  plimsoll failover raid1 --repeat 10
  plimsoll failover 'gluster(volume=replicate)' --fault kill,link-down -o faults.html
  plimsoll failover san --on lab.toml --fault power-cut --repeat 20"
)]
pub(super) struct Args {
    /// The stack. One that is not up is stood up, and taken down at the end.
    #[arg(value_name = "STACK")]
    name: String,
    /// What is done, one kind after the other.
    #[arg(long = "fault", value_name = "FAULT,...", default_value = "kill", value_delimiter = ',', value_parser = fault)]
    faults: Vec<Fault>,
    /// How often each kind is done.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// The server it is done to; active: whichever serves then (default: each in turn).
    #[arg(long, value_name = "SERVER")]
    victim: Option<String>,
    /// How many sessions use the stack meanwhile.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    sessions: u32,
    /// Reads, and as many synced writes, of each session per second.
    #[arg(long, default_value_t = 100.0, value_name = "PER_S")]
    rate: f64,
    /// Bytes of each.
    #[arg(long = "block", default_value = "4k", value_parser = units::parse_size, value_name = "SIZE")]
    block_bytes: u64,
    /// Size of each session's file.
    #[arg(long = "file-size", default_value = "16M", value_parser = units::parse_size, value_name = "SIZE")]
    file_bytes: u64,
    /// How long a fault lasts at least.
    #[arg(long, default_value = "10s", value_parser = units::parse_duration, value_name = "TIME")]
    lasting: Nanos,
    /// How long sessions that stand still are waited for.
    #[arg(long, default_value = "120s", value_parser = units::parse_duration, value_name = "TIME")]
    patience: Nanos,
    /// Where the moments of the faults come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report as one HTML file.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Keep the ledgers in this directory, which must not exist.
    #[arg(long, value_name = "DIR")]
    ledgers: Option<PathBuf>,
    /// Overwrite the file of the report.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: Shape,
}

pub(super) fn fault(text: &str) -> Result<Fault, String> {
    Fault::find(text).ok_or_else(|| format!("there are {}", Fault::names()))
}

pub(super) fn main(args: &Args) -> Outcome {
    if let Some(path) = &args.output {
        super::refuse_existing(path, args.force)?;
    }
    let load = args.load()?;
    let names = [args.name.clone()];
    let choice = choices(&names)?.remove(0);
    let name = choice.parts.to_string();
    let state = super::state_dir()?;
    let id = campaign::run_id();
    let options = args.shape.options(&state)?;
    let specs = [TargetSpec::Stack(Box::new(choice))];
    let mut arms = Arms::named(&names, &specs, false, options, super::nodes());
    let stop = super::stop_flag()?;
    let ledgers = Ledgers::new(args.ledgers.clone(), &id)?;
    let wanted = Wanted {
        name: &name,
        faults: &args.faults,
        repeat: args.repeat,
        victim: args.victim.as_deref(),
        load,
        lasting: Duration::from_nanos(args.lasting.0),
        patience: Duration::from_nanos(args.patience.0),
        seed: Seed(args.seed),
        ledgers: &ledgers.path,
    };
    let done = arms
        .raise(&id, &state, &[], &Consent::default(), &stop)
        .and_then(|()| campaign::failover(&wanted, &arms, &state, &stop, &mut super::say));
    let left = arms.lower(&state);
    let (done, ended) = done?;
    if !done.strikes.is_empty() {
        args.tell(&done)?;
    }
    let removed = super::raze::verdict(&left);
    if let (Err(_), Err(failure)) = (&removed, &ended) {
        // It may be why not all could be removed, and only one error ends a program.
        super::say(&failure.to_string());
    }
    removed?;
    ended?;
    if !done.kept_its_data() {
        return super::done(Code::BadData);
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn load(&self) -> Result<Load, Failure> {
        if !(0.1..=100_000.0).contains(&self.rate) {
            let text = format!(
                "use --rate {}: it must lie between 0.1 and 100000",
                self.rate
            );
            return Err(Failure::usage(text));
        }
        let wrong = |what: &str| Failure::usage(format!("use --block and --file-size: {what}"));
        let block_bytes = u32::try_from(self.block_bytes)
            .ok()
            .filter(|bytes| bytes.is_power_of_two() && (4096..=1 << 20).contains(bytes))
            .ok_or_else(|| wrong("a block is a power of two from 4 KiB to 1 MiB"))?;
        if self.file_bytes < 16 * self.block_bytes {
            return Err(wrong("a file has at least 16 blocks"));
        }
        Ok(Load {
            sessions: self.sessions,
            rate: self.rate,
            block_bytes,
            file_bytes: self.file_bytes,
        })
    }

    fn tell(&self, done: &Failover) -> Result<(), Failure> {
        let report = plimsoll_report::failover(done);
        if let Some(path) = &self.output {
            std::fs::write(path, plimsoll_report::html(&report)).map_err(|error| {
                Failure::new(Code::Failed, format!("write {}: {error}", path.display()))
            })?;
        }
        if self.json {
            super::print_json(&serde_json::to_value(done).expect("values are plain data"));
            return Ok(());
        }
        let text = plimsoll_report::terminal(&report, super::width(), super::colour(), false);
        super::print(&text);
        if let Some(path) = &self.output {
            super::print(&format!("Written: {}", path.display()));
        }
        Ok(())
    }
}

/// The directory of the ledgers; one that nobody asked for is removed in the end.
struct Ledgers {
    path: PathBuf,
    is_kept: bool,
}

impl Ledgers {
    fn new(asked: Option<PathBuf>, id: &str) -> Result<Self, Failure> {
        let is_kept = asked.is_some();
        let path = asked.unwrap_or_else(|| std::env::temp_dir().join(format!("plimsoll-{id}")));
        std::fs::create_dir(&path).map_err(|error| {
            Failure::new(Code::Failed, format!("make {}: {error}", path.display()))
        })?;
        Ok(Ledgers { path, is_kept })
    }
}

impl Drop for Ledgers {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is in the directory for such files, under our name.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
