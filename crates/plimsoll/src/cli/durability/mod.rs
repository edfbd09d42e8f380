// SPDX-License-Identifier: Apache-2.0
//! `plimsoll durability`: whether acknowledged writes survive a power cut, and what a setting gains that
//! loses them.

mod folder;
mod subject;

use super::trust::TrustArgs;
use clap::builder::PossibleValuesParser;
use folder::DurabilityFolder;
use plimsoll_agent::run_id;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::durability::{CutDisks, DeviceModel, DurabilityResult};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_durability::bench::{self, BenchDisk, BenchJournals, BenchPlaces, DurabilityBench};
use plimsoll_durability::disk::DiskShape;
use plimsoll_durability::view;
use plimsoll_durability::{DurabilityCampaign, DurabilityError, DurabilityListener, GainBlocks};
use plimsoll_engine::sys::clock;
use plimsoll_machine::host::{Host as _, LocalHost, facts, medium};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use subject::{DurabilitySubject, StackDirs};

/// Smallest disk: xfs wants 300 MiB.
const DISK_MIN: u64 = 300 << 20;
/// Largest disk: its images are in memory.
const DISK_MAX: u64 = 16 << 30;
/// Estimated time to start, query and mount, per load or crash state. Only the plan of a dry run uses it.
const OVERHEAD: Nanos = Nanos(1_500_000_000);

/// Find which acknowledged writes a power cut loses, by setting.
///
/// No real power is cut. The server works on a disk that logs every write and flush. Plimsoll then
/// cuts this disk at many instants; the disks of a stack are all cut at one instant (see
/// --cut-disks). Each crash state is mounted, and the server is started on it and queried for
/// everything that it had acknowledged. Speed is measured on the storage of --on, without logging
/// disks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll durability files
  plimsoll durability postgresql --vary synchronous_commit --on /mnt/new
  plimsoll durability sqlite --set journal_mode=WAL --vary synchronous
  plimsoll durability 'raid1(transport=nbd)' --on /mnt/new
  plimsoll durability postgresql --over nbd --vary cache
  plimsoll durability /mnt/data
  plimsoll durability ./server.toml --clients 16 --trust ./server.toml

Requires root. docs/durability.md describes the format of a server file.
Exit code 12 if a setting that claims to be safe lost writes, or a setting lost more than it states.")]
pub(super) struct DurabilityArgs {
    /// Known server (--list), server file, stack with files as disks, or directory.
    ///
    /// A directory stands for its file system and mount options.
    #[arg(value_name = "SERVER|STACK|DIR", required_unless_present = "list")]
    subject: Option<String>,
    /// Put the data of the server on this stack.
    ///
    /// --vary then also accepts settings of the stack.
    #[arg(long, value_name = "STACK")]
    over: Option<String>,
    /// List the known servers with their settings.
    #[arg(long)]
    list: bool,
    /// Setting whose values are compared (default: the setting that the server file names).
    ///
    /// SETTING compares all values, SETTING=A,B only these. For a stack the default is each value
    /// that weakens it.
    #[arg(long, value_name = "SETTING[=A,B]")]
    vary: Option<String>,
    /// Fix the value of a setting in all rows. May be repeated.
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    /// Model of the disk's write cache in a power cut.
    ///
    /// volatile: the cache is lost. protected: the cache survives. In addition, the server is
    /// killed without a cut, once per load.
    #[arg(long, default_value = "both", value_parser = ["volatile", "protected", "both"], value_name = "MODEL")]
    device: String,
    /// Disks of a stack that lose power.
    ///
    /// all: all disks at one instant. one: one disk in the middle of each load. in-turn: one disk,
    /// and later the others.
    #[arg(long, default_value = "all", value_parser = PossibleValuesParser::new(CutDisks::ALL.map(CutDisks::name)), value_name = "DISKS")]
    cut_disks: String,
    /// Number of loads per setting.
    ///
    /// The bound on unseen losses counts loads.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    loads: u32,
    /// Number of cuts per load and device model.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cuts: u32,
    /// Length of each load.
    #[arg(long = "for", id = "length", default_value = "2s", value_parser = units::parse_duration, value_name = "TIME")]
    length: Nanos,
    /// Number of concurrent writers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Directory on the storage where speed is measured (default: plimsoll's state directory).
    ///
    /// If a directory is tested, that directory is the default.
    #[arg(long, value_name = "DIR")]
    on: Option<PathBuf>,
    /// Number of blocks in which speed is measured (0: no measurement).
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=1000))]
    blocks: u32,
    /// Size of each disk that is cut.
    ///
    /// The images of these disks are in memory.
    #[arg(long, default_value = "512MiB", value_parser = units::parse_size, value_name = "SIZE")]
    disk_size: u64,
    /// Seed of all random numbers (default: a different one each time).
    #[arg(long)]
    seed: Option<u64>,
    /// Write the result and its page to DIR (default: plimsoll-results/durability-…).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Include the results in DIR as earlier ones, so that the page shows changes.
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print the planned steps and their duration; change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn main(args: &DurabilityArgs) -> CliResult {
    let Some(subject) = args.subject.as_deref().filter(|_| !args.list) else {
        terminal::print(&list()?);
        return Ok(ExitCode::SUCCESS);
    };
    let subject = DurabilitySubject::read(subject, args)?;
    check_disk_size(args.disk_size)?;
    let cut_disks = cut_disks(&args.cut_disks);
    let host = context::host();
    let id = format!("durability-{}", run_id::run_id());
    let state = context::state_dir()?;
    let work = state.path().join(format!("cut-{}", std::process::id()));
    let storage = args.on.clone().or_else(|| subject.storage.clone());
    let storage = storage.unwrap_or_else(|| state.path().into());
    let gain = gain_directory(&storage, &id, args)?;
    let dirs = StackDirs {
        // Short: there are sockets in it.
        cut: &state.path().join(format!("c{}", std::process::id())),
        gain: gain.as_deref(),
    };
    let campaign = DurabilityCampaign {
        file: &subject.file,
        rows: subject.rows(args, &dirs, &terminal::say)?,
        loads: args.loads,
        cuts: args.cuts,
        models: models(&args.device),
        cut_disks,
        length: args.length,
        clients: args.clients,
        gain: gain.clone().map(|directory| GainBlocks {
            directory,
            blocks: args.blocks,
        }),
        seed: args.seed.map_or_else(|| Seed(clock::wall_clock().0), Seed),
    };
    check_cut_disks(&campaign)?;
    let mut result = empty_result(&campaign, &storage);
    if let Some(folder) = &args.since {
        folder::follow(&mut result, folder)?;
    }
    if args.dry_run {
        terminal::print(&plan(&campaign, args));
        return Ok(ExitCode::SUCCESS);
    }
    check_machine(&campaign, &host)?;
    let folder = DurabilityFolder::make(args.output.as_deref())?;
    let stop = context::stop_flag()?;
    let places = BenchPlaces::new(&work, &id);
    let journals = BenchJournals {
        state,
        header: run_id::run_header,
    };
    let shape = shape_of(&campaign, args);
    let mut bench = DurabilityBench::raise(places, host, journals, shape, gain.as_deref())
        .map_err(|error| failure(&error))?;
    let mut listener = DurabilityProgress { folder: &folder };
    let done = campaign.carry_out(&mut bench, &stop, &mut result, &mut listener);
    result.interrupted = done.is_err();
    let left = bench.lower();
    folder.write(&result)?;
    let ended = match done {
        Ok(()) | Err(DurabilityError::Stopped) => show(&result, &folder, args),
        Err(error) => Err(failure(&error)),
    };
    if left.is_empty() {
        return ended;
    }
    let text = format!("clean up:\n  {}", left.join("\n  "));
    Err(CliError::new(CliExitCode::NotCleaned, text).hint("run `plimsoll raze` to try again"))
}

fn check_disk_size(bytes: u64) -> Result<(), CliError> {
    if (DISK_MIN..=DISK_MAX).contains(&bytes) {
        return Ok(());
    }
    let range = [DISK_MIN, DISK_MAX].map(|bytes| units::size(bytes as f64));
    let text = format!("--disk-size: expected {} to {}", range[0], range[1]);
    Err(CliError::invalid(text))
}

fn failure(error: &DurabilityError) -> CliError {
    match error {
        DurabilityError::Witness { .. } | DurabilityError::Server { .. } => {
            CliError::sentence(CliExitCode::CannotJudge, error)
        }
        DurabilityError::Stopped => plimsoll_console::failure::stopped(),
        _ => CliError::new(CliExitCode::Failed, error),
    }
}

/// The disks that are cut: as many as the largest stack has.
fn shape_of(campaign: &DurabilityCampaign<'_>, args: &DurabilityArgs) -> DiskShape {
    let parts = campaign.rows.iter().map(|row| match &row.disk {
        BenchDisk::FileSystem(_) => 1,
        BenchDisk::Stack(stack) => stack.disks() as u64,
    });
    DiskShape {
        parts: parts.max().unwrap_or(1),
        part_bytes: args.disk_size,
    }
}

fn cut_disks(name: &str) -> CutDisks {
    let named = CutDisks::ALL.into_iter().find(|disks| disks.name() == name);
    named.unwrap_or_default()
}

/// A disk can be cut alone where others go on.
fn check_cut_disks(campaign: &DurabilityCampaign<'_>) -> Result<(), CliError> {
    let is_alone = |disk: &BenchDisk| match disk {
        BenchDisk::FileSystem(_) => true,
        BenchDisk::Stack(stack) => stack.disks() < 2,
    };
    let alone = campaign.rows.iter().any(|row| is_alone(&row.disk));
    if campaign.cut_disks == CutDisks::All || !alone {
        return Ok(());
    }
    let text = format!(
        "--cut-disks {}: {} has one disk alone",
        campaign.cut_disks.name(),
        campaign.file.name
    );
    Err(CliError::invalid(text)
        .hint("take a stack with several disks, such as raid1, here or with --over"))
}

fn models(device: &str) -> Vec<DeviceModel> {
    let cut = match device {
        "volatile" => vec![DeviceModel::Volatile],
        "protected" => vec![DeviceModel::Protected],
        _ => vec![DeviceModel::Volatile, DeviceModel::Protected],
    };
    cut.into_iter().chain([DeviceModel::Killed]).collect()
}

/// The directory that gains are measured in; none where they are not.
fn gain_directory(
    storage: &Path,
    id: &str,
    args: &DurabilityArgs,
) -> Result<Option<PathBuf>, CliError> {
    if args.blocks == 0 || args.dry_run {
        return Ok(None);
    }
    if args.on.is_some() && !storage.is_dir() {
        let text = format!("--on {}: it is no directory", storage.display());
        return Err(CliError::invalid(text));
    }
    let real = match storage.is_dir() {
        true => storage.canonicalize().map_err(doing(
            CliExitCode::Failed,
            format!("find {}", storage.display()),
        ))?,
        false => storage.to_path_buf(),
    };
    Ok(Some(real.join(format!("plimsoll-{id}"))))
}

fn check_machine(campaign: &DurabilityCampaign<'_>, host: &LocalHost) -> Result<(), CliError> {
    if !host.is_root() {
        let text = "durability needs root, for mounts and loop devices";
        return Err(CliError::invalid(text).hint("run it with sudo"));
    }
    let mut missing = Vec::new();
    let makers = campaign.rows.iter().filter_map(|row| match &row.disk {
        BenchDisk::FileSystem(file_system) => Some(format!("mkfs.{}", file_system.name)),
        BenchDisk::Stack(_) => None,
    });
    let mut programs: Vec<String> = bench::PROGRAMS.map(String::from).to_vec();
    programs.extend(makers);
    if campaign.file.witness.is_none() {
        programs.extend(view::PROGRAMS.map(String::from));
    }
    programs.sort();
    programs.dedup();
    for program in programs {
        if host.find_program(&program).is_none() {
            missing.push(program);
        }
    }
    for program in &campaign.file.programs {
        let own = campaign
            .file
            .path
            .iter()
            .any(|dir| dir.join(program).is_file());
        if !own && host.find_program(program).is_none() {
            missing.push(program.clone());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "durability of {}: these programs are missing: {}",
        campaign.file.name,
        missing.join(", ")
    );
    let hint = match campaign.file.install.as_str() {
        "" => "on Debian: apt install libnbd-bin bubblewrap util-linux e2fsprogs".to_owned(),
        install => format!("on Debian: apt install libnbd-bin bubblewrap; {install}"),
    };
    Err(CliError::invalid(text).hint(hint))
}

fn empty_result(campaign: &DurabilityCampaign<'_>, storage: &Path) -> DurabilityResult {
    let gain_on = campaign.gain.as_ref().map_or(String::new(), |_| {
        let medium = medium::below(storage);
        let words = medium
            .in_memory
            .map_or(medium.words, |memory| format!("memory: {memory}"));
        format!("{} ({words})", storage.display())
    });
    DurabilityResult {
        format: FormatVersion::DURABILITY,
        server: campaign.file.name.clone(),
        about: campaign.file.about.clone(),
        version: String::new(),
        seed: campaign.seed,
        began_at: jiff::Zoned::now().strftime("%Y-%m-%d %H:%M").to_string(),
        load_time: campaign.length,
        clients: campaign.clients,
        gain_on,
        kernel: facts::machine().kernel,
        rows: campaign.empty_rows(),
        cut_disks: campaign.cut_disks,
        interrupted: false,
        earlier: Vec::new(),
    }
}

/// Tells how far it is, and keeps what was judged.
struct DurabilityProgress<'a> {
    folder: &'a DurabilityFolder,
}

impl DurabilityListener for DurabilityProgress<'_> {
    fn begins(&mut self, text: &str) {
        terminal::say(text);
    }

    fn so_far(&mut self, result: &DurabilityResult) {
        // The last write, at the end of the run, reports a failure.
        let _ = self.folder.write(result);
    }
}

fn show(result: &DurabilityResult, folder: &DurabilityFolder, args: &DurabilityArgs) -> CliResult {
    if args.json {
        let value =
            serde_json::to_value(result).map_err(doing(CliExitCode::Failed, "print the result"))?;
        terminal::print_json(&value);
    } else {
        let report = plimsoll_report::durability(result);
        let (width, colour) = (terminal::width(), terminal::colour());
        terminal::print_coloured(&plimsoll_report::terminal(&report, width, colour, false));
        terminal::print(&format!("Page: {}", folder.page().display()));
    }
    if result.rows.iter().any(|row| row.breaks_its_promise()) {
        terminal::say(&format!(
            "{} is a text for the maintainers of {}",
            folder.issue().display(),
            result.server
        ));
        return super::done(CliExitCode::BadData);
    }
    match result.interrupted {
        true => super::done(CliExitCode::Interrupted),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The plan of a dry run.
fn plan(campaign: &DurabilityCampaign<'_>, args: &DurabilityArgs) -> String {
    let rows = campaign.rows.len() as u64;
    let models = campaign.models.len() as u64 - 1;
    let states = u64::from(campaign.loads) * u64::from(campaign.cuts) * models;
    let one = Nanos(campaign.length.0.saturating_add(2 * OVERHEAD.0));
    let cut = Nanos(states.saturating_mul(OVERHEAD.0));
    let gains = Nanos(u64::from(args.blocks).saturating_mul(one.0));
    let each = Nanos(u64::from(campaign.loads).saturating_mul(one.0)) + cut + gains;
    let all = Nanos(each.0.saturating_mul(rows));
    let mut text = format!(
        "Nothing was done. For each of {rows} settings of {}:\n",
        campaign.file.name
    );
    for row in &campaign.rows {
        let _ = writeln!(
            text,
            "  {}",
            match row.label.as_str() {
                "" => "the defaults",
                label => label,
            }
        );
    }
    let _ = writeln!(
        text,
        "it would play {} loads of {} on a logging disk of {}, judge {states} crash states,\n\
         and measure the speed in {} blocks. That takes roughly {}, most of it mounts and starts.",
        campaign.loads,
        units::clock_duration(campaign.length),
        units::size(args.disk_size as f64),
        args.blocks,
        units::clock_duration(all)
    );
    let _ = write!(
        text,
        "It needs {} of memory at most, and removes all that it makes.",
        units::size(4.0 * shape_of(campaign, args).bytes() as f64)
    );
    text
}

/// The servers that plimsoll knows.
fn list() -> Result<String, CliError> {
    let files = plimsoll_durability::read_shipped().map_err(CliError::invalid)?;
    let mut text = String::new();
    for file in files {
        let _ = writeln!(text, "{}: {}", file.name, file.about);
        for (name, setting) in &file.settings {
            let values: Vec<String> = setting
                .values
                .iter()
                .map(|value| match setting.loses.contains_key(value) {
                    true => format!("{value}*"),
                    false => value.clone(),
                })
                .collect();
            let _ = writeln!(text, "  {name} = {}", values.join(" | "));
        }
    }
    let _ = write!(text, "* may lose acknowledged writes, by its own manual");
    Ok(text)
}
