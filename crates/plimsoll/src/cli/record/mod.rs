// SPDX-License-Identifier: Apache-2.0
//! `plimsoll record`: record what disks do, here or on nodes.

mod command;
mod on_nodes;
mod screen;
mod table;

use command::RecordedCommand;
use plimsoll_agent::recorder::{self, CaptureSink, INTERVAL_MIN};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::recording::{CaptureBatch, CaptureHeader, CaptureStats, CaptureTask};
use plimsoll_core::units::{self, Nanos};
use plimsoll_machine::host::SystemClock;
use plimsoll_run::recorder::{CaptureOutput, check_free};
use screen::CaptureScreen;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Record disk activity of this machine, or of nodes.
///
/// By default the command samples the kernel's counters of every disk into a PCP archive, which
/// `plimsoll fit` and PCP's own tools (pmlogsummary, pmrep, pmchart) read. Counters do not require
/// root. With --requests the command records every request of the given disks into a Parquet file.
/// Requests require root.
///
/// Recording stops after --for, on Ctrl-C or on SIGTERM. If the recorder is killed, everything
/// recorded so far is kept. With a command after --, the recorder starts that command, records
/// while it runs, and exits with its exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll record -o nas --for 1h
  plimsoll record --disk sda --disk sdb --interval 100ms
  plimsoll record --disk /var/lib/postgresql -o pg --for 10m
  plimsoll fit nas --disk sda -o nas.toml
  plimsoll record --requests --disk sda -o sda.parquet --for 10m
  plimsoll record -o nightly -- ./backup.sh /srv
  plimsoll record --finish sda.parquet.part
  plimsoll record --nodes n1,n2 --on lab.toml -o lab --for 10m")]
pub(super) struct RecordArgs {
    /// Base name of the archive to write (default: ./recording-<time>).
    ///
    /// With --requests: the file to write (default: ./recording-<time>.parquet). Existing files are
    /// never overwritten.
    #[arg(short, long, value_name = "BASE")]
    output: Option<PathBuf>,
    /// Sampling interval, at least 100ms.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME",
        conflicts_with_all = ["requests", "finish"])]
    interval: Nanos,
    /// Record for TIME (default: until stopped).
    #[arg(long = "for", id = "length", value_parser = units::parse_duration, value_name = "TIME")]
    length: Option<Nanos>,
    /// Disk to record (default: all whole disks). May be repeated.
    ///
    /// DISK is sda, /dev/sda or a link to it; a volume, array or loop device; for counters also a
    /// partition. A directory, such as /var/lib/postgresql, selects the device that holds it.
    /// --requests requires at least one disk.
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<String>,
    /// Record on these nodes instead of this machine.
    ///
    /// The inventory file of --on defines the nodes. All nodes start at the same time and send
    /// their recordings to this machine. Several nodes make one recording each: BASE-NODE.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Inventory file that defines the nodes (docs/stacks/inventory.md).
    #[arg(long, value_name = "FILE", requires = "nodes")]
    on: Option<PathBuf>,
    /// Record every request with the kernel's tracer. Requires root.
    #[arg(long, requires = "disks")]
    requests: bool,
    /// Convert the FILE.part of a killed recorder of requests to the Parquet file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requests", "disks", "length", "nodes"])]
    finish: Option<PathBuf>,
    /// Print a summary of the recording as JSON.
    #[arg(long)]
    json: bool,
    /// Record while this command runs; exit with its exit code (128 + N if signal N killed it).
    ///
    /// The recording begins before the command starts and ends after it ends. If the recording ends
    /// earlier (--for, Ctrl-C, a failure), the command receives SIGTERM. Messages go to standard
    /// error, because standard output belongs to the command. If recording fails, the exit code is
    /// that of the failure.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["finish", "nodes", "json"])]
    command: Vec<String>,
}

/// Ending of a file of requests while it grows.
const PART: &str = ".part";

pub(super) fn main(args: &RecordArgs) -> CliResult {
    if let Some(part) = &args.finish {
        return finish(args, part).map(|()| ExitCode::SUCCESS);
    }
    args.check()?;
    match args.nodes.is_empty() {
        true => here(args).map(ExitCode::from),
        false => on_nodes::record(args).map(|()| ExitCode::SUCCESS),
    }
}

/// A time between samples.
fn interval(text: &str) -> Result<Nanos, String> {
    let interval = units::parse_duration(text)?;
    let is_long_enough = interval >= INTERVAL_MIN;
    is_long_enough
        .then_some(interval)
        .ok_or_else(|| format!("expected at least {}", units::duration(INTERVAL_MIN)))
}

impl RecordArgs {
    fn check(&self) -> Result<(), CliError> {
        match self.requests {
            true => table::check(),
            false => Ok(()),
        }
    }

    fn task(&self) -> CaptureTask {
        CaptureTask {
            disks: self.disks.clone(),
            length: self.length,
            interval: (!self.requests).then_some(self.interval),
        }
    }

    /// The file that was asked for, or one named by the time.
    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            let ending = if self.requests { ".parquet" } else { "" };
            PathBuf::from(format!("recording-{now}{ending}"))
        })
    }

    /// Says what came of it: beside what the command prints, not in it.
    fn tell(&self, text: &str) {
        match self.command.is_empty() {
            true => terminal::print(text),
            false => terminal::say(text),
        }
    }

    /// Description of the recording on a node, or here.
    fn what(&self, node: Option<&str>) -> String {
        let disks = match &*self.disks {
            [] => "all disks".into(),
            disks => disks.join(", "),
        };
        let of = node.map(|node| format!(" of {node}")).unwrap_or_default();
        match self.requests {
            true => format!("the requests of {disks}{of}"),
            false => format!("{disks}{of} every {}", units::duration(self.interval)),
        }
    }
}

/// Where a recording goes, and from where.
struct CaptureDestination {
    /// The node; none: this machine.
    node: Option<String>,
    /// Base name of the archive, or the table of requests.
    file: PathBuf,
}

impl CaptureDestination {
    /// Refuses to write over what is there.
    fn check(&self, args: &RecordArgs) -> Result<(), CliError> {
        plimsoll_console::output::check_directory_of(&self.file)?;
        if !args.requests {
            return check_free(&self.file);
        }
        check_absent(&self.file)?;
        check_absent(&with_part(&self.file))
    }

    fn output(&self, args: &RecordArgs) -> CaptureOutput {
        match args.requests {
            true => CaptureOutput::spool(with_part(&self.file)),
            false => CaptureOutput::archive(self.file.clone()),
        }
    }

    /// Ends the file, and says what came of it; for machines as this value.
    fn end(
        &self,
        args: &RecordArgs,
        output: CaptureOutput,
        tally: &CaptureStats,
    ) -> Result<serde_json::Value, CliError> {
        let files = output.files();
        output.finish()?;
        if !args.requests {
            return Ok(self.show_samples(args, &files, tally));
        }
        let spool = with_part(&self.file);
        table::write(&spool, &self.file).map_err(|failure| {
            let part = spool.display();
            failure.hint(format!(
                "what was recorded is kept: plimsoll record --finish {part}"
            ))
        })?;
        Ok(self.show_requests(args, tally))
    }

    fn show_samples(
        &self,
        args: &RecordArgs,
        files: &[PathBuf],
        tally: &CaptureStats,
    ) -> serde_json::Value {
        let bytes: u64 = files
            .iter()
            .filter_map(|path| path.metadata().ok())
            .map(|data| data.len())
            .sum();
        if !args.json {
            let names: Vec<String> = files
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            args.tell(&format!(
                "{}{} samples in {}, {} missed, the latest {} after its time; {:.3} % of one \
                 processor\n{} ({})",
                self.who(),
                tally.samples,
                units::clock_duration(tally.length),
                tally.missed,
                units::duration(tally.late_max),
                100.0 * tally.cpu_share(),
                names.join(" "),
                units::size(bytes as f64)
            ));
        }
        serde_json::json!({
            "node": self.node, "recording": self.file, "files": files, "bytes": bytes,
            "samples": tally.samples, "missed": tally.missed, "length_ns": tally.length,
            "late_max_ns": tally.late_max, "cpu_ns": tally.cpu, "cpu_share": tally.cpu_share() })
    }

    fn show_requests(&self, args: &RecordArgs, tally: &CaptureStats) -> serde_json::Value {
        let bytes = self.file.metadata().map_or(0, |data| data.len());
        if !args.json {
            for odd in &tally.odd {
                terminal::say(&format!("note: {}{odd}", self.who()));
            }
            args.tell(&format!(
                "{}{} requests for {} in {}, {} events lost; {:.3} % of one processor\n{} ({})",
                self.who(),
                tally.requests,
                units::size(tally.bytes as f64),
                units::clock_duration(tally.length),
                tally.lost,
                100.0 * tally.cpu_share(),
                self.file.display(),
                units::size(bytes as f64)
            ));
        }
        serde_json::json!({
            "node": self.node, "recording": self.file, "bytes": bytes,
            "requests": tally.requests, "requested_bytes": tally.bytes,
            "lost_events": tally.lost, "length_ns": tally.length, "cpu_ns": tally.cpu,
            "cpu_share": tally.cpu_share(), "remarks": tally.odd })
    }

    /// The name of the node as the prefix of a message; empty for this machine.
    fn who(&self) -> String {
        let node = self.node.as_ref();
        node.map(|node| format!("{node}: ")).unwrap_or_default()
    }
}

/// A file that grows, and is shown.
struct Shown<'a> {
    /// Description of the recording.
    what: String,
    file: &'a Path,
    output: CaptureOutput,
    screen: CaptureScreen,
    command: RecordedCommand,
    stop: Arc<AtomicBool>,
}

impl CaptureSink for Shown<'_> {
    fn begin(&mut self, head: CaptureHeader) -> Result<(), CliError> {
        self.output.begin(head)?;
        self.screen.begin(&self.what, self.file);
        Ok(())
    }

    fn take(&mut self, recorded: CaptureBatch, tally: &CaptureStats) -> Result<(), CliError> {
        self.screen.tell(0, &recorded, tally);
        self.output.take(recorded, tally)?;
        // The command runs after the first sample and before the last.
        if !self.stop.load(Ordering::Relaxed) {
            self.command.start()?;
        }
        if self.command.is_over() {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Records on this machine; the exit code of the command, if one was recorded.
fn here(args: &RecordArgs) -> Result<u8, CliError> {
    let place = CaptureDestination {
        node: None,
        file: args.output(),
    };
    place.check(args)?;
    let stop = context::stop_flag()?;
    let mut shown = Shown {
        what: args.what(None),
        file: &place.file,
        output: place.output(args),
        screen: CaptureScreen::new(args.json || !args.command.is_empty(), 1),
        command: RecordedCommand::new(&args.command),
        stop: Arc::clone(&stop),
    };
    let clock = SystemClock::new();
    let ran = recorder::record(
        &args.task(),
        context::state_dir,
        (&clock, &stop),
        &mut shown,
    );
    shown.screen.end();
    let code = shown.command.finish()?;
    let tally = match ran {
        Ok(tally) if shown.output.has_begun() => tally,
        Ok(_) => {
            return Err(CliError::sentence(
                CliExitCode::Interrupted,
                "interrupted before the recording began",
            ));
        }
        // Data recorded before a failure is kept, in a file that is whole.
        Err(failure) => return shown.output.finish().and(Err(failure)),
    };
    let told = place.end(args, shown.output, &tally)?;
    if args.json {
        terminal::print_json(&told);
    }
    Ok(code.unwrap_or_default())
}

/// Makes a table of what a killed recorder left.
fn finish(args: &RecordArgs, part: &Path) -> Result<(), CliError> {
    table::check()?;
    let name = part.display().to_string();
    let whole = name.strip_suffix(PART).map(PathBuf::from);
    let file = args.output.clone().or(whole).ok_or_else(|| {
        CliError::usage(format!("finish {name}: it does not end in {PART}"))
            .hint("give the file to make with -o")
    })?;
    check_absent(&file)?;
    let count = table::write(part, &file)?;
    if args.json {
        terminal::print_json(&serde_json::json!({ "recording": file, "requests": count }));
    } else {
        terminal::print(&format!("{count} requests in {}", file.display()));
    }
    Ok(())
}

fn with_part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(PART);
    PathBuf::from(name)
}

fn check_absent(path: &Path) -> Result<(), CliError> {
    if !path.exists() {
        return Ok(());
    }
    let hint = match path.display().to_string().ends_with(PART) {
        true => format!(
            "an earlier recorder left it: plimsoll record --finish {}",
            path.display()
        ),
        false => "a recording is never overwritten; choose another name with -o".into(),
    };
    Err(CliError::usage(format!("record into {}: it exists", path.display())).hint(hint))
}
