// SPDX-License-Identifier: Apache-2.0
//! `plimsoll record`: record what the disks of this machine do.

use crate::failure::{Code, Failure, Outcome, doing, failed};
use crate::recorder::{self, Found, INTERVAL_MIN, Sampler, Sampling, Tally, Traced, Tracing};
use plimsoll_core::units::{self, Nanos};
use plimsoll_lab::disks;
use plimsoll_lab::host::SystemClock;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record what the disks of this machine do, to be looked at or fitted.
///
/// Samples what the kernel counts of every disk into a PCP archive, which `plimsoll fit` and PCP's
/// own tools (pmlogsummary, pmrep, pmchart) read; needs no root. With --requests every request of
/// some disks is recorded into a Parquet file, as root. Ends with --for, Ctrl-C or SIGTERM; killed,
/// it leaves what it had.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll record -o nas --for 1h
  plimsoll record --disk sda --disk sdb --interval 100ms
  plimsoll fit nas --disk sda -o nas.toml
  plimsoll record --requests --disk sda -o sda.parquet --for 10m
  plimsoll record --finish sda.parquet.part")]
pub(super) struct Args {
    /// Base name of the archive to make (default: ./recording-<time>), or with --requests the file
    /// (default: ./recording-<time>.parquet). Never overwritten.
    #[arg(short, long, value_name = "BASE")]
    output: Option<PathBuf>,
    /// Time between two samples, at least 100ms.
    #[arg(long, default_value = "1s", value_parser = units::parse_duration, value_name = "TIME",
        conflicts_with_all = ["requests", "finish"])]
    interval: Nanos,
    /// How long (default: until it is stopped).
    #[arg(long = "for", id = "length", value_parser = units::parse_duration, value_name = "TIME")]
    length: Option<Nanos>,
    /// Record this disk, or these: sda, /dev/sda, or a link to it; also a volume, array or loop
    /// device, and of counters a partition (default: all whole disks; with --requests one must be
    /// named).
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<String>,
    /// Record every request by the kernel's tracer. Needs root.
    #[arg(long, requires = "disks")]
    requests: bool,
    /// Make the file of requests out of what a recorder that was killed has left (FILE.part).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requests", "disks", "length"])]
    finish: Option<PathBuf>,
    /// Print what was recorded as JSON.
    #[arg(long)]
    json: bool,
}

/// Ending of a file of requests while it grows.
const PART: &str = ".part";

pub(super) fn main(args: &Args) -> Outcome {
    let done = match &args.finish {
        Some(part) => finish(args, part),
        None if args.requests => requests(args),
        None => counters(args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The file that was asked for, or one named by the time.
fn output(args: &Args, ending: &str) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
        PathBuf::from(format!("recording-{now}{ending}"))
    })
}

fn counters(args: &Args) -> Result<(), Failure> {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::usage(format!(
            "sample every {}: the shortest interval is {}",
            units::duration(args.interval),
            units::duration(INTERVAL_MIN)
        )));
    }
    let base = output(args, "");
    recorder::check_free(&base)?;
    let sampling = Sampling {
        base,
        interval: args.interval,
        length: args.length,
        disks: named(&args.disks)?,
    };
    let stop = super::stop_flag()?;
    let mut sampler = Sampler::create(sampling.clone())?;
    let mut screen = Screen::new(args.json);
    let what = match &*sampling.disks {
        [] => "all disks".into(),
        disks => disks.join(", "),
    };
    let every = format!(" every {}", units::duration(sampling.interval));
    screen.begin(&(what + &every), &sampling.base);
    let clock = SystemClock::new();
    let ran = sampler.run(&clock, &stop, &mut |found, tally| screen.tell(found, tally));
    screen.end();
    let files = sampler.files();
    // What was sampled before a failure is kept, and whole.
    let ended = sampler.finish();
    let tally = ran?;
    ended?;
    show_samples(args, &sampling.base, &files, &tally);
    Ok(())
}

fn requests(args: &Args) -> Result<(), Failure> {
    table::check()?;
    let file = output(args, ".parquet");
    let spool = with_part(&file);
    for path in [&file, &spool] {
        check_absent(path)?;
    }
    let tracing = Tracing {
        disks: named(&args.disks)?,
        length: args.length,
        spool,
    };
    let state = super::state_dir()?;
    let stop = super::stop_flag()?;
    let mut screen = Screen::new(args.json);
    screen.begin(
        &format!("the requests of {}", tracing.disks.join(", ")),
        &file,
    );
    let id = format!("record-{}", crate::campaign::run_id());
    let traced = recorder::trace(
        &tracing,
        (&id, &state),
        super::nodes(),
        (&SystemClock::new(), &stop),
        &mut |traced| screen.tell_requests(traced),
    );
    screen.end();
    let traced = traced?;
    table::write(&tracing.spool, &file).map_err(|failure| {
        let part = tracing.spool.display();
        failure.hint(format!(
            "what was recorded is kept: plimsoll record --finish {part}"
        ))
    })?;
    show_requests(args, &file, &traced);
    Ok(())
}

/// Makes a table of what a killed recorder left.
fn finish(args: &Args, part: &Path) -> Result<(), Failure> {
    table::check()?;
    let name = part.display().to_string();
    let whole = name.strip_suffix(PART).map(PathBuf::from);
    let file = args.output.clone().or(whole).ok_or_else(|| {
        Failure::usage(format!("finish {name}: it does not end in {PART}"))
            .hint("give the file to make with -o")
    })?;
    check_absent(&file)?;
    let count = table::write(part, &file)?;
    if args.json {
        super::print_json(&serde_json::json!({ "recording": file, "requests": count }));
    } else {
        super::print(&format!("{count} requests in {}", file.display()));
    }
    Ok(())
}

fn with_part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(PART);
    PathBuf::from(name)
}

fn check_absent(path: &Path) -> Result<(), Failure> {
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
    Err(Failure::usage(format!("record into {}: it exists", path.display())).hint(hint))
}

/// Tables of requests, where this program was built with them.
#[cfg(feature = "parquet")]
mod table {
    use super::{Code, Failure, Path, failed};
    use plimsoll_trace::requests;

    pub(super) fn check() -> Result<(), Failure> {
        Ok(())
    }

    /// Makes the table, whole or not at all, and removes what it was made of; how many requests.
    pub(super) fn write(spool: &Path, file: &Path) -> Result<u64, Failure> {
        let mut recording = requests::open(spool).map_err(failed(Code::Usage))?;
        let mut early = file.as_os_str().to_owned();
        early.push(".tmp");
        let early = std::path::PathBuf::from(early);
        // One that is there was left when a recorder was killed while it made the table.
        let _ = std::fs::remove_file(&early);
        let written = requests::parquet::write(&mut *recording, &early);
        let count = written.map_err(failed(Code::Failed))?;
        let moved = std::fs::rename(&early, file).and_then(|()| std::fs::remove_file(spool));
        let what = format!("move {} to its place", file.display());
        moved.map_err(crate::failure::doing(Code::Failed, what))?;
        Ok(count)
    }
}

/// Tables of requests, where this program was built without them.
#[cfg(not(feature = "parquet"))]
mod table {
    use super::{Failure, Path};

    pub(super) fn check() -> Result<(), Failure> {
        Err(
            Failure::usage("record requests: this program was built without Parquet")
                .hint("build it with its feature `parquet`, which is there by default"),
        )
    }

    pub(super) fn write(_: &Path, _: &Path) -> Result<u64, Failure> {
        check().map(|()| 0)
    }
}

/// The kernel's names of the disks that were asked for.
fn named(disks: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for text in disks {
        let what = format!("record disk '{text}'");
        let name = disks::name_of(text).map_err(doing(Code::Usage, what))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn show_samples(args: &Args, base: &Path, files: &[PathBuf], tally: &Tally) {
    let bytes: u64 = files
        .iter()
        .filter_map(|path| path.metadata().ok())
        .map(|data| data.len())
        .sum();
    if args.json {
        return super::print_json(&serde_json::json!({
            "recording": base, "files": files, "bytes": bytes, "samples": tally.samples,
            "missed": tally.missed, "length_ns": tally.length, "late_max_ns": tally.late_max,
            "cpu_ns": tally.cpu, "cpu_share": tally.cpu_share() }));
    }
    let names: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    super::print(&format!(
        "{} samples in {}, {} missed, the latest {} after its time; {:.3} % of one processor\n{} ({})",
        tally.samples,
        units::clock_duration(tally.length),
        tally.missed,
        units::duration(tally.late_max),
        100.0 * tally.cpu_share(),
        names.join(" "),
        units::size(bytes as f64)
    ));
}

fn show_requests(args: &Args, file: &Path, traced: &Traced) {
    let bytes = file.metadata().map_or(0, |data| data.len());
    let share = traced.cpu.as_secs_f64() / traced.length.as_secs_f64().max(1e-9);
    if args.json {
        return super::print_json(&serde_json::json!({
            "recording": file, "bytes": bytes, "requests": traced.requests,
            "requested_bytes": traced.bytes, "lost_events": traced.lost,
            "length_ns": traced.length, "cpu_ns": traced.cpu, "cpu_share": share,
            "remarks": traced.odd }));
    }
    for odd in &traced.odd {
        super::say(&format!("note: {odd}"));
    }
    super::print(&format!(
        "{} requests for {} in {}, {} events lost; {:.3} % of one processor\n{} ({})",
        traced.requests,
        units::size(traced.bytes as f64),
        units::clock_duration(traced.length),
        traced.lost,
        100.0 * share,
        file.display(),
        units::size(bytes as f64)
    ));
}

/// One line on a terminal, written over once a second.
struct Screen {
    is_quiet: bool,
    is_live: bool,
    /// What was counted when it was last shown, and when that was.
    shown: Option<(Vec<Found>, Nanos)>,
}

impl Screen {
    fn new(quiet: bool) -> Self {
        Screen {
            is_quiet: quiet,
            is_live: std::io::stderr().is_terminal() && !quiet,
            shown: None,
        }
    }

    fn begin(&self, what: &str, file: &Path) {
        if !self.is_quiet {
            let file = file.display();
            super::say(&format!("recording {what} into {file}; end it with Ctrl-C"));
        }
    }

    fn tell_requests(&mut self, traced: &Traced) {
        let at = self.shown.as_ref().map_or(Nanos(0), |(_, at)| *at);
        if !self.is_live || traced.length.since(at) < Nanos::SECOND {
            return;
        }
        super::say_over(&format!(
            "{:>8}  {} requests  {}  {} events lost",
            units::clock_duration(traced.length),
            traced.requests,
            units::size(traced.bytes as f64),
            traced.lost
        ));
        self.shown = Some((Vec::new(), traced.length));
    }

    fn tell(&mut self, found: &[Found], tally: &Tally) {
        if !self.is_live {
            return;
        }
        let Some((before, at)) = &self.shown else {
            self.shown = Some((found.to_vec(), tally.length));
            return;
        };
        let passed = tally.length.since(*at);
        if passed < Nanos::SECOND {
            return;
        }
        let line = rates(before, found, passed);
        super::say_over(&format!(
            "{:>8}  {line}{}",
            units::clock_duration(tally.length),
            if tally.missed > 0 {
                format!("  {} missed", tally.missed)
            } else {
                String::new()
            }
        ));
        self.shown = Some((found.to_vec(), tally.length));
    }

    fn end(&self) {
        if self.is_live && self.shown.is_some() {
            super::say("");
        }
    }
}

/// What all disks together did in a time.
fn rates(before: &[Found], now: &[Found], passed: Nanos) -> String {
    let mut sums = [0_u64; 4];
    for (name, counted) in now {
        let Some((_, old)) = before.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let moved = [
            (counted.reads, old.reads),
            (counted.read_sectors, old.read_sectors),
            (counted.writes, old.writes),
            (counted.write_sectors, old.write_sectors),
        ];
        for (sum, (now, old)) in sums.iter_mut().zip(moved) {
            *sum = sum.saturating_add(now.saturating_sub(old));
        }
    }
    let per_s = |sum: u64, unit: f64| sum as f64 * unit / passed.as_secs_f64();
    format!(
        "{} disks  read {}/s {}  write {}/s {}",
        now.len(),
        units::rate(per_s(sums[0], 1.0)),
        units::throughput(per_s(sums[1], 512.0)),
        units::rate(per_s(sums[2], 1.0)),
        units::throughput(per_s(sums[3], 512.0)),
    )
}
