// SPDX-License-Identifier: Apache-2.0
//! `plimsoll ledger`: what storage acknowledged during faults, and whether it is still there.

mod certificate;
mod outage;
mod target;

use self::certificate::CertificateFolder;
use self::target::{LedgerTargetSpec, places};
use clap::Subcommand;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::data_check::DataCheckResult;
use plimsoll_core::ledger::{LedgerAccount, LedgerDurability};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_engine::EngineError;
use plimsoll_engine::sys::clock;
use plimsoll_ledger::{LedgerCheckOptions, LedgerWriteOptions};
use plimsoll_machine::host::medium;
use plimsoll_run::targets::DestroyConsent;
use std::io::{ErrorKind, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The length of a campaign that a power cut ends: longer than any.
const UNTIL_DEATH: Nanos = Nanos(10 * 365 * 86_400 * 1_000_000_000);

/// Between two lines where there is no terminal.
const LINE_EVERY: Nanos = Nanos(10_000_000_000);
/// The same on a terminal.
const LINE_EVERY_LIVE: Nanos = Nanos(500_000_000);

/// Record acknowledged writes, and check that they are still there.
///
/// `write` probes storage at a steady rate. It records each write durably before the write is
/// submitted, and each acknowledgement before it counts. `stamp` does this for one line per second.
/// `check` reads everything back and names every bad block. `outage` computes from the ledger how
/// long storage did not respond. `seek` searches for stamps in places that may hold only
/// ciphertext.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll ledger write /mnt/a --ledger a.ledger --for 5m
  plimsoll ledger check /mnt/a --ledger a.ledger
  plimsoll ledger outage a.ledger --fault-at 60s
  plimsoll ledger seek /dev/sdx --ledger a.ledger")]
pub(super) struct LedgerArgs {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    Write(LedgerWriteArgs),
    Stamp(LedgerStampArgs),
    Check(LedgerCheckArgs),
    Outage(outage::LedgerOutageArgs),
    Seek(LedgerSeekArgs),
}

/// Probe storage, and write the ledger.
///
/// Half of the probes write, half read. Each read is checked against the ledger at once. Storage
/// failures do not end the command: after 100 failures in a row a session reopens its file or
/// device. Put the ledger on storage that is not under test.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll ledger write /mnt/a --ledger a.ledger --for 5m
  plimsoll ledger write /dev/sdx --destroy --ledger a.ledger --sync fsync:32
  plimsoll ledger check /mnt/a --ledger a.ledger")]
struct LedgerWriteArgs {
    /// Directories, new files, block devices, or NFS exports (nfs://host/export) to probe.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// New file for the ledger.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Number of sessions per target, each with its own file or part of the device.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sessions: u32,
    /// Probes per second of each session.
    ///
    /// Outages are measured to within 2/RATE seconds.
    #[arg(long, default_value_t = 200.0, value_name = "RATE")]
    rate: f64,
    /// Size of each session's file or part of the device.
    #[arg(long, default_value = "64MiB", value_parser = units::parse_size, value_name = "SIZE")]
    size: u64,
    /// Size of each probe.
    #[arg(long, default_value = "4k", value_parser = units::parse_size, value_name = "SIZE")]
    block: u64,
    /// Probe for TIME.
    #[arg(long = "for", id = "length", default_value = "60s", value_parser = units::parse_duration, value_name = "TIME")]
    length: Nanos,
    /// Probe until the power of the storage or of this machine is cut.
    ///
    /// The ledger must be on storage that survives the cut. Afterwards run `ledger check
    /// --certificate`.
    #[arg(long, conflicts_with = "length")]
    until_death: bool,
    /// Moment from which an acknowledged write must be durable.
    ///
    /// dsync: at once. fsync:N: after the next fsync, one every N writes. none: never.
    #[arg(long, default_value = "dsync", value_parser = LedgerDurability::parse, value_name = "WHEN")]
    sync: LedgerDurability,
    /// Allow files of an earlier ledger, and block devices, to be overwritten.
    ///
    /// A device that holds a file system, a partition table or a RAID signature must be named
    /// again: --destroy=/dev/sdx.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE")]
    destroy: Vec<String>,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Write a timestamped line every second, and a ledger of lines.
///
/// The simplest observer of a failover: a text file that is opened, written and synced anew for
/// each line. The ledger records acknowledged lines. `check` names acknowledged lines that are
/// missing, `outage` prints the longest wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll ledger stamp /mnt/a --ledger a.ledger --for 5m
  plimsoll ledger check /mnt/a --ledger a.ledger")]
struct LedgerStampArgs {
    /// Directory for the file plimsoll.stamps.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// New file for the ledger.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Time between two lines.
    #[arg(long, default_value = "1s", value_parser = units::parse_duration, value_name = "TIME")]
    every: Nanos,
    /// Write lines for TIME.
    #[arg(long = "for", id = "length", default_value = "60s", value_parser = units::parse_duration, value_name = "TIME")]
    length: Nanos,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Check that everything a ledger promises is still there.
///
/// Repeat the check after the next fault, or when a machine returns: the ledger records what was
/// read, so that a later check finds old versions that reappear.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll ledger check /mnt/a --ledger a.ledger
  plimsoll ledger check /mnt/a --ledger a.ledger --second /mnt/of-another-client

Exit code 12 if anything is missing or wrong.")]
struct LedgerCheckArgs {
    /// Targets of the ledger, in the order of the ledger.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Ledger to check; the command appends its results.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Target by a second path: another mount, client or copy. Once for each target.
    #[arg(long = "second", value_name = "TARGET")]
    second: Vec<String>,
    /// Number of bytes that the storage promises to write atomically.
    ///
    /// A power of two from 512 to 1M. Unacknowledged writes may be present in pieces of this size.
    #[arg(long, default_value = "512", value_parser = units::parse_size, value_name = "SIZE")]
    atomic: u64,
    /// Add the power cut to the certificate of this disk in DIR.
    ///
    /// Allowed with a single target.
    #[arg(long, value_name = "DIR", conflicts_with = "second")]
    certificate: Option<PathBuf>,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Search raw devices below encryption for the stamps of a ledger.
///
/// Exit code 12 if a stamp is found.
#[derive(Debug, clap::Args)]
struct LedgerSeekArgs {
    /// Raw devices or files to search.
    #[arg(required = true, value_name = "RAW")]
    raw: Vec<PathBuf>,
    /// Ledger whose stamps must not be readable on these devices.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &LedgerArgs) -> CliResult {
    match &args.command {
        LedgerCommand::Write(args) => write(args),
        LedgerCommand::Stamp(args) => stamp(args),
        LedgerCommand::Check(args) => check(args),
        LedgerCommand::Outage(args) => outage::main(args),
        LedgerCommand::Seek(args) => seek(args),
    }
}

/// Mistakes of the user, and failures of the machine.
fn failure(error: EngineError) -> CliError {
    let code = match error {
        EngineError::Ledger(_) | EngineError::Workload(_) => CliExitCode::Usage,
        EngineError::Stopped(_) => CliExitCode::Interrupted,
        EngineError::LedgerDamaged(_) => CliExitCode::CannotJudge,
        _ => CliExitCode::Failed,
    };
    CliError::new(code, error)
}

fn write(args: &LedgerWriteArgs) -> CliResult {
    let consent = DestroyConsent::of(&args.destroy);
    let targets = args
        .targets
        .iter()
        .map(|text| LedgerTargetSpec::to_write(text, &consent));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    check_new(&args.ledger)?;
    if args.until_death {
        check_outlasts(&args.ledger, &targets)?;
    }
    for target in &targets {
        if target.holds(&args.ledger) {
            terminal::say(&format!(
                "warning: the ledger {} is on the storage under test ({}): a failure of that \
                 affects the ledger, too",
                args.ledger.display(),
                target.given
            ));
        }
    }
    let options = LedgerWriteOptions {
        sessions: args.sessions,
        ops_per_s: args.rate,
        bytes: args.size,
        block_bytes: saturating_u32(args.block),
        length: match args.until_death {
            true => UNTIL_DEATH,
            false => args.length,
        },
        durability: args.sync,
        destroy: consent.given,
        seed: seed(),
    };
    let stop = context::stop_flag()?;
    let mut live = Live::new();
    let account = plimsoll_ledger::write(
        &places(&targets),
        &args.ledger,
        &options,
        &stop,
        &mut |account, _| live.tell(&account),
    );
    live.end();
    written(&account.map_err(failure)?, &args.ledger, args.json)
}

/// Refuses a ledger that the power cut of its targets would also hit.
fn check_outlasts(ledger: &Path, targets: &[LedgerTargetSpec]) -> Result<(), CliError> {
    let directory = match ledger.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let below = medium::below(directory);
    let shares = |target: &&LedgerTargetSpec| {
        let disks = medium::below(Path::new(&target.given)).disks;
        target.holds(ledger) || disks.iter().any(|disk| below.disks.contains(disk))
    };
    let why = match (below.in_memory, targets.iter().find(shares)) {
        (Some(memory), _) => format!("it is in memory ({memory})"),
        (None, Some(target)) => format!("it is on the disk of {}", target.given),
        (None, None) => {
            terminal::say(&format!(
                "cut the power once writes are acknowledged; then: plimsoll ledger check {} --ledger {} --certificate DIR",
                targets
                    .iter()
                    .map(|target| target.given.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
                ledger.display()
            ));
            return Ok(());
        }
    };
    let text = format!(
        "--ledger {}: {why}, so the power cut would hit it, too",
        ledger.display()
    );
    Err(CliError::invalid(text).hint(
        "put it on another disk or, where the whole machine loses its power, on another machine (NFS, sshfs)",
    ))
}

/// Another campaign each time: stamps of an earlier one must not pass for those of this one.
fn seed() -> Seed {
    Seed(clock::wall_clock().0).derive("campaign", u64::from(std::process::id()))
}

fn check_new(ledger: &Path) -> Result<(), CliError> {
    plimsoll_console::output::check_directory_of(ledger)?;
    plimsoll_console::output::refuse_existing(ledger, false).map_err(|failure| {
        failure.hint("each ledger is a new file: remove it, or give another name")
    })
}

/// Refuses a ledger that is not there.
fn check_there(ledger: &Path) -> Result<(), CliError> {
    match ledger.metadata() {
        Ok(_) => Ok(()),
        Err(error) => Err(CliError::usage(format!(
            "open the ledger {}: {error}",
            ledger.display()
        ))
        .hint("`plimsoll ledger write` and `plimsoll ledger stamp` write one")),
    }
}

/// Tells what was written, and gives the exit code.
fn written(account: &LedgerAccount, ledger: &Path, json: bool) -> CliResult {
    if json {
        terminal::print_json(&serde_json::json!({ "ledger": ledger, "account": account }));
    } else {
        terminal::print(&format!(
            "{account}\nLedger: {} (entries took {} at most to become durable)",
            ledger.display(),
            account.ledger_sync_max
        ));
    }
    if account.bad.total() > 0 {
        return super::done(CliExitCode::BadData);
    }
    if account.interrupted {
        return super::done(CliExitCode::Interrupted);
    }
    Ok(ExitCode::SUCCESS)
}

fn stamp(args: &LedgerStampArgs) -> CliResult {
    check_new(&args.ledger)?;
    if !args.directory.is_dir() {
        return Err(file_error(&args.directory, &"it is not a directory"));
    }
    let stop = context::stop_flag()?;
    let mut live = Live::new();
    let times = (args.every, args.length);
    let tell = &mut |account: LedgerAccount| live.tell(&account);
    let account =
        plimsoll_ledger::witness(&args.directory, &args.ledger, times, seed(), &stop, tell);
    live.end();
    written(&account.map_err(failure)?, &args.ledger, args.json)
}

/// A line of what has been done so far.
struct Live {
    is_terminal: bool,
    told_at: Nanos,
}

impl Live {
    fn new() -> Self {
        Live {
            is_terminal: std::io::stderr().is_terminal(),
            told_at: clock::monotonic(),
        }
    }

    fn tell(&mut self, account: &LedgerAccount) {
        let now = clock::monotonic();
        let every = if self.is_terminal {
            LINE_EVERY_LIVE
        } else {
            LINE_EVERY
        };
        if now.since(self.told_at) < every {
            return;
        }
        self.told_at = now;
        let text = account.to_string();
        if self.is_terminal {
            terminal::say_over(&text);
        } else {
            terminal::say(&text);
        }
    }

    fn end(&self) {
        if self.is_terminal {
            terminal::say_over("");
        }
    }
}

fn check(args: &LedgerCheckArgs) -> CliResult {
    let atomic = saturating_u32(args.atomic);
    if !(512..=1 << 20).contains(&atomic) || !atomic.is_power_of_two() {
        return Err(CliError::invalid(format!(
            "invalid value '{}' for --atomic: expected a power of two from 512 to 1M",
            args.atomic
        )));
    }
    let targets = |given: &[String]| -> Result<Vec<LedgerTargetSpec>, CliError> {
        given
            .iter()
            .map(|text| LedgerTargetSpec::to_read(text))
            .collect()
    };
    check_there(&args.ledger)?;
    let (first, second) = (targets(&args.targets)?, targets(&args.second)?);
    let certificate = match (&args.certificate, first.as_slice()) {
        (None, _) => None,
        (Some(folder), [target]) => Some(CertificateFolder::open(folder, &args.ledger, target)?),
        (Some(_), _) => {
            let text = "--certificate: a certificate is of one target";
            return Err(CliError::invalid(text).hint("keep a ledger for each disk"));
        }
    };
    let stop = context::stop_flag()?;
    let options = LedgerCheckOptions {
        atomic_bytes: atomic,
        // After a power cut a file that is gone is the loss that a certificate counts.
        gone_is_lost: certificate.is_some(),
    };
    let account = plimsoll_ledger::check(
        &places(&first),
        &places(&second),
        &args.ledger,
        options,
        &stop,
    )
    .map_err(|error| unreadable(error, &args.targets))?;
    if args.json {
        terminal::print_json(&serde_json::json!({ "ledger": args.ledger, "account": account }));
    } else {
        terminal::print(&account.to_string());
    }
    if let Some(certificate) = certificate.filter(|_| !account.data.interrupted) {
        certificate.add(&account)?;
    }
    verdict(&account.data, args.json)
}

/// A file of the ledger that is not on its target may be a slip, or the worst that can be found: where the
/// target is there it is taken for that.
fn unreadable(error: EngineError, targets: &[String]) -> CliError {
    let is_absent =
        matches!(&error, EngineError::Io { source, .. } if source.kind() == ErrorKind::NotFound);
    let mut failure = failure(error);
    if is_absent {
        if targets.iter().all(|target| Path::new(target).exists()) {
            failure.code = CliExitCode::BadData;
        }
        return failure.hint(
            "what was acknowledged in it is lost, unless the target is elsewhere now, or not mounted",
        );
    }
    failure
}

/// Names the first bad blocks, and gives the exit code.
fn verdict(data: &DataCheckResult, json: bool) -> CliResult {
    if data.bad.total() > 0 {
        if !json {
            let first = data.first_words(DataCheckResult::FINDINGS_MAX);
            terminal::print(&format!("first: {first}"));
        }
        return super::done(CliExitCode::BadData);
    }
    if data.interrupted {
        return Err(CliError::sentence(
            CliExitCode::Interrupted,
            "interrupted before everything was read",
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn seek(args: &LedgerSeekArgs) -> CliResult {
    check_there(&args.ledger)?;
    for raw in &args.raw {
        raw.metadata().map_err(|error| file_error(raw, &error))?;
    }
    let stop = context::stop_flag()?;
    let mut whole = DataCheckResult::default();
    for raw in &args.raw {
        let found = plimsoll_ledger::seek(raw, &args.ledger, &stop);
        let found = found.map_err(|error| match error {
            EngineError::LedgerDamaged(_) => failure(error),
            _ => CliError::new(CliExitCode::Failed, error),
        })?;
        if found.checked == 0 && !found.interrupted {
            // Nothing found in nothing would pass for encrypted.
            return Err(file_error(raw, &"it has not one sector of 512 bytes"));
        }
        whole.merge(found);
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "ledger": args.ledger, "account": whole }));
    } else {
        let (sectors, found) = (whole.checked, whole.bad.plaintext);
        terminal::print(&format!("{sectors} sectors read, {found} stamps found"));
    }
    verdict(&whole, args.json)
}

fn file_error(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("use target '{}': {error}", path.display()))
}
