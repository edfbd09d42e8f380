// SPDX-License-Identifier: Apache-2.0
//! `plimsoll record`: record what the disks of this machine do.

use crate::failure::{Code, Failure, Outcome, doing};
use crate::recorder::{self, Found, INTERVAL_MIN, Sampler, Sampling, Tally};
use plimsoll_core::units::{self, Nanos};
use plimsoll_lab::disks;
use plimsoll_lab::host::SystemClock;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record what the disks of this machine do, to be looked at or fitted.
///
/// Samples what the kernel counts of every disk into a PCP archive, which `plimsoll fit` and PCP's
/// own tools (pmlogsummary, pmrep, pmchart) read. Needs no root. Ends with --for, Ctrl-C or
/// SIGTERM; killed, it leaves what it had.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll record -o nas --for 1h
  plimsoll record --disk sda --disk sdb --interval 100ms
  plimsoll fit nas --disk sda -o nas.toml")]
pub(super) struct Args {
    /// Base name of the archive to make (default: ./recording-<time>). Never overwritten.
    #[arg(short, long, value_name = "BASE")]
    output: Option<PathBuf>,
    /// Time between two samples, at least 100ms.
    #[arg(long, default_value = "1s", value_parser = units::parse_duration, value_name = "TIME")]
    interval: Nanos,
    /// How long (default: until it is stopped).
    #[arg(long = "for", id = "length", value_parser = units::parse_duration, value_name = "TIME")]
    length: Option<Nanos>,
    /// Record this disk, or these: sda, /dev/sda, or a link to it; also a partition, volume, array
    /// or loop device (default: all whole disks).
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<String>,
    /// Print what was recorded as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::usage(format!(
            "sample every {}: the shortest interval is {}",
            units::duration(args.interval),
            units::duration(INTERVAL_MIN)
        )));
    }
    let base = args.output.clone().unwrap_or_else(|| {
        let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
        PathBuf::from(format!("recording-{now}"))
    });
    recorder::check_free(&base)?;
    let sampling = Sampling {
        base,
        interval: args.interval,
        length: args.length,
        disks: named(&args.disks)?,
    };
    let stop = super::stop_flag()?;
    let mut sampler = Sampler::create(sampling.clone())?;
    if !args.json {
        super::say(&format!(
            "recording {} every {} into {}; end it with Ctrl-C",
            if sampling.disks.is_empty() {
                "all disks".into()
            } else {
                sampling.disks.join(", ")
            },
            units::duration(sampling.interval),
            sampling.base.display()
        ));
    }
    let mut screen = Screen::new(args.json);
    let ran = sampler.run(&SystemClock::new(), &stop, &mut |found, tally| {
        screen.tell(found, tally);
    });
    screen.end();
    let files = sampler.files();
    // What was sampled before a failure is kept, and whole.
    let ended = sampler.finish();
    let tally = ran?;
    ended?;
    show(args, &sampling.base, &files, &tally);
    Ok(ExitCode::SUCCESS)
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

fn show(args: &Args, base: &Path, files: &[PathBuf], tally: &Tally) {
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

/// One line on a terminal, written over once a second.
struct Screen {
    is_live: bool,
    /// What was shown last, and when.
    shown: Option<(Vec<Found>, Nanos)>,
}

impl Screen {
    fn new(quiet: bool) -> Self {
        Screen {
            is_live: std::io::stderr().is_terminal() && !quiet,
            shown: None,
        }
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
