// SPDX-License-Identifier: Apache-2.0
//! `plimsoll fit`: from a production recording to a workload model.

use crate::failure::{Code, Failure, Outcome, failed};
use plimsoll_core::model::{Direction, Fidelity, Gaps, Model, Packed};
use plimsoll_core::offsets::Offsets;
use plimsoll_core::profile::{Average, Profile, QueueSource};
use plimsoll_core::units;
use plimsoll_trace::requests::Sorted;
use plimsoll_trace::{Counters, Device, FitOptions, Fitted, Recording, Requests};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fit a workload model to one disk of a production recording, and hold the model against it.
///
/// RECORDING is of counters (a PCP archive, packed or not, by its base name or any of its files; a
/// folder of archives; a folio; a file that iostat, sadf, perfmon, esxtop or a loop over
/// /proc/diskstats wrote) or of requests (blktrace, biosnoop, fio's log, vscsiStats, a published
/// trace): docs/recordings.md lists them. Of counters the model keeps the recorded intervals; what
/// they cannot tell (offsets, sizes around their mean) is assumed and listed. Of requests it keeps
/// the requests, packed into a file beside the model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  plimsoll fit nasdata --disk sdi --from 11:00 --to 12:00 -o nas.toml

Times are in the recording's own time zone: 11:00, 11:00:30 or '2010-07-14 11:00:00'.
Exit code 14 when the model misses a gate; the file is written all the same.")]
pub(super) struct Args {
    /// The recording.
    recording: PathBuf,
    /// Disk (instance) to model; without it the disks of the recording are listed.
    #[arg(long)]
    disk: Option<String>,
    /// Start of the window (default: start of the recording).
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the window (default: end of the recording).
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Name of the workload in reports (default: name of the output file, else of the recording).
    #[arg(long)]
    name: Option<String>,
    /// Bytes the load is spread over: an assumption, since no counter tells it.
    #[arg(long, default_value = "1G", value_parser = units::parse_size, value_name = "SIZE")]
    working_set: u64,
    /// Of requests: keep the times between them to the nanosecond, at about twice the size.
    #[arg(long)]
    exact: bool,
    /// Workload file to write.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file.
    #[arg(long)]
    force: bool,
    /// Print profile and fidelity as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    if let Some(path) = &args.output
        && path.exists()
        && !args.force
    {
        return Err(
            Failure::usage(format!("write {}: it exists", path.display()))
                .hint("give --force to overwrite it"),
        );
    }
    let recording = plimsoll_trace::open(&args.recording).map_err(failed(Code::Usage))?;
    let mut fitted = match recording {
        Recording::Counters(counters) => of_counters(args, &*counters)?,
        Recording::Requests(requests) => of_requests(args, requests)?,
    };
    if let Some(path) = &args.output {
        super::model_file::write(path, &mut fitted.model)?;
    }
    for warning in &fitted.warnings {
        super::say(&format!("note: {warning}"));
    }
    if args.json {
        super::print_json(&serde_json::json!({
            "profile": fitted.profile,
            "fidelity": fitted.model.fidelity,
            "facts": fitted.model.facts,
            "warnings": fitted.warnings,
        }));
    } else {
        super::print(&text(&fitted, args.output.as_deref()));
    }
    let missed = fitted.model.fidelity.iter().any(|line| !line.passed());
    if missed {
        super::done(Code::Gate)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// Of requests, which are read twice: `first` is the recording, opened.
fn of_requests(args: &Args, mut first: Box<dyn Requests>) -> Result<Fitted, Failure> {
    if args.from.is_some() || args.to.is_some() {
        let text =
            "cut a window out of a recording of requests: only recordings of counters can be";
        return Err(Failure::usage(text).hint("leave --from and --to out"));
    }
    let survey = plimsoll_trace::survey(&mut *first).map_err(failed(Code::Usage))?;
    let disk = match (&args.disk, &survey.devices[..]) {
        (Some(disk), _) => disk,
        (None, [only]) => &only.name,
        (None, _) => {
            let about = |d: &Device| format!("{} ({} requests)", d.name, d.requests);
            let devices: Vec<String> = survey.devices.iter().map(about).collect();
            return Err(no_disk(&args.recording.display().to_string(), &devices));
        }
    };
    let gaps = args.exact.then_some(Gaps::Exact);
    let again = plimsoll_trace::open(&args.recording).map_err(failed(Code::Usage))?;
    let Recording::Requests(requests) = again else {
        let text = format!("read {} again: it has changed", args.recording.display());
        return Err(Failure::usage(text));
    };
    let mut requests = Sorted::new(requests);
    plimsoll_trace::fit_requests(&mut requests, &survey, disk, &name(args), gaps)
        .map_err(failed(Code::Usage))
}

fn no_disk(recording: &str, disks: &[String]) -> Failure {
    Failure::usage(format!("choose a disk of {recording}: --disk is missing"))
        .hint(format!("its disks are {}", disks.join(", ")))
}

fn of_counters(args: &Args, counters: &dyn Counters) -> Result<Fitted, Failure> {
    if let Some(damage) = counters.damage() {
        super::say(&format!("note: {damage}"));
    }
    let Some(disk) = &args.disk else {
        return Err(no_disk(&counters.about().name, &counters.disks()));
    };
    let window = counters
        .times()
        .window(args.from.as_deref(), args.to.as_deref())
        .map_err(failed(Code::Usage))?;
    let options = FitOptions {
        disk: disk.clone(),
        window,
        name: name(args),
        working_set_bytes: args.working_set,
    };
    plimsoll_trace::fit(counters, &options).map_err(failed(Code::Usage))
}

fn name(args: &Args) -> String {
    let stem = |path: &Path| {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    let from_path = args
        .output
        .as_deref()
        .and_then(stem)
        .or_else(|| stem(&args.recording));
    args.name
        .clone()
        .or(from_path)
        .unwrap_or_else(|| "model".into())
}

fn text(fitted: &Fitted, output: Option<&Path>) -> String {
    let (model, profile) = (&fitted.model, &fitted.profile);
    let source = &model.source;
    let host = match source.host.as_str() {
        "" => String::new(),
        host => format!("host {host} · "),
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} · {} · {host}disk {}",
        source.recording, source.format, source.disk
    );
    let _ = writeln!(
        text,
        "{} to {} · {} intervals of {} s, {} dropped\n",
        source.from,
        source.to,
        profile.intervals,
        units::three_digits(profile.interval_s),
        profile.intervals_dropped
    );
    averages(&mut text, profile);
    rates(&mut text, model, profile);
    bursts(&mut text, profile);
    match &model.requests {
        None => {
            super::phases::append(&mut text, &profile.phases);
            facts(&mut text, model);
        }
        Some(packed) => packed_requests(&mut text, packed),
    }
    fidelity(&mut text, &model.fidelity);
    if let Some(path) = output {
        let _ = writeln!(
            text,
            "\nWritten to {}; play it with: plimsoll run {} TARGET",
            path.display(),
            path.display()
        );
    }
    text
}

fn facts(text: &mut String, model: &Model) {
    let facts = &model.facts;
    let offsets = match facts.offsets.value {
        Offsets::Sequential => "sequential",
        _ => "uniformly random",
    };
    let _ = write!(
        text,
        "\nWhat counters cannot tell: offsets {offsets} ({}) over {} ({}); arrivals inside an interval {} ({}); sizes are the powers of two around each interval's mean (assumed).\n",
        facts.offsets.origin,
        units::size(facts.working_set_bytes.value as f64),
        facts.working_set_bytes.origin,
        facts.arrivals.value,
        facts.arrivals.origin,
    );
}

fn packed_requests(text: &mut String, packed: &Packed) {
    let per_request = packed.packed_bytes() as f64 / packed.requests().max(1) as f64;
    let gaps = match packed.gaps() {
        Gaps::Classes => "times between them to a tenth of a power of ten",
        Gaps::Fine => "times between them to a fortieth of a power of ten",
        Gaps::Exact => "times between them exactly",
    };
    let _ = writeln!(
        text,
        "\n{} requests in their order, packed to {} ({per_request:.2} bytes each): places, kinds and sizes exactly, {gaps}. They touch {} of a device of at least {}.",
        packed.requests(),
        units::size(packed.packed_bytes() as f64),
        units::size(packed.footprint_bytes() as f64),
        units::size(packed.span_bytes() as f64),
    );
}

fn averages(text: &mut String, profile: &Profile) {
    let _ = writeln!(
        text,
        "{:<32}{:>20}{:>20}",
        "Averages", "of interval rates", "over time"
    );
    let mut row = |name: &str, average: Average, decimals: usize| {
        let _ = writeln!(
            text,
            "  {name:<30}{:>20.decimals$}{:>20.decimals$}",
            average.stochastic, average.time
        );
    };
    let kib = |average: Average| Average {
        stochastic: average.stochastic / 1024.0,
        time: average.time / 1024.0,
    };
    for direction in &profile.directions {
        let name = direction.direction.name();
        row(&format!("{name} operations/s"), direction.ops_per_s, 6);
        row(&format!("{name} KiB/s"), kib(direction.bytes_per_s), 6);
        row(&format!("{name} bytes/s"), direction.bytes_per_s, 2);
        row(
            &format!("{name} mean size, KiB"),
            kib(direction.mean_size_bytes),
            3,
        );
        row(
            &format!("{name} mean size, bytes"),
            direction.mean_size_bytes,
            1,
        );
    }
    if let Some(utilisation) = profile.utilisation {
        row("busy share of time", utilisation, 6);
        let idle = Average {
            stochastic: 1.0 - utilisation.stochastic,
            time: 1.0 - utilisation.time,
        };
        row("idle share of time", idle, 6);
    }
    if let Some(queue) = &profile.queue {
        row("mean queue", queue.average, 6);
    }
    if let Some((error, QueueSource::Sampled)) = profile
        .queue
        .as_ref()
        .and_then(|queue| Some((queue.standard_error?, queue.source)))
    {
        let _ = writeln!(
            text,
            "    (queue sampled at instants: standard error ±{})",
            units::three_digits(error)
        );
    }
    if let Some(busy) = profile.busy_ms_per_op {
        let _ = writeln!(text, "  {:<30}{:>40.3}", "busy ms per operation", busy);
    }
    let shares: Vec<String> = profile
        .directions
        .iter()
        .map(|d| format!("{:.0}", d.share * 100.0))
        .collect();
    let _ = writeln!(text, "  {:<30}{:>40}", "read : write", shares.join(" : "));
}

fn rates(text: &mut String, model: &Model, profile: &Profile) {
    let _ = writeln!(
        text,
        "\nRates per interval, operations/s      median       p95      peak   burstiness (IDC)"
    );
    for direction in &profile.directions {
        let rates = direction.rates;
        let idc = direction
            .idc
            .map_or_else(|| "–".into(), |idc| format!("{idc:.0}"));
        let _ = writeln!(
            text,
            "  {:<30}{:>12}{:>10}{:>10}{:>19}",
            direction.direction.name(),
            units::rate(rates.median_per_s),
            units::rate(rates.p95_per_s),
            units::rate(rates.peak_per_s),
            idc
        );
        let _ = writeln!(text, "    {}", spark(model, direction.direction));
    }
}

/// The direction's rate over time in at most 80 columns; each column shows its busiest interval.
fn spark(model: &Model, direction: Direction) -> String {
    let rates: Vec<f64> = model
        .envelope
        .cells()
        .iter()
        .map(|c| c.ops_per_s(direction))
        .collect();
    let per_column = rates.len().div_ceil(80).max(1);
    let columns: Vec<f64> = rates
        .chunks(per_column)
        .map(|chunk| chunk.iter().copied().fold(0.0, f64::max))
        .collect();
    units::sparkline(&columns)
}

fn bursts(text: &mut String, profile: &Profile) {
    let _ = writeln!(text, "\nBursts");
    if profile.bursts.is_empty() {
        let _ = writeln!(text, "  none found");
    }
    for burst in &profile.bursts {
        let period = match (burst.period_s, burst.autocorrelation) {
            (Some(period), Some(acf)) => format!("every {period:.0} s (autocorrelation {acf:.2})"),
            (Some(period), None) => format!("every {period:.0} s"),
            _ => "at no steady period".into(),
        };
        let _ = writeln!(
            text,
            "  {}s: {} bursts above {}/s, {period}; {:.0} % of the time, {:.0} % of the operations",
            burst.direction.name(),
            burst.count,
            units::rate(burst.threshold_per_s),
            burst.duty * 100.0,
            burst.share * 100.0
        );
    }
}

fn fidelity(text: &mut String, lines: &[Fidelity]) {
    let _ = writeln!(
        text,
        "\n{:<62}{:>11}{:>12}{:>10}{:>8}",
        "Model against recording", "recorded", "model", "error", "gate"
    );
    for line in lines {
        let _ = writeln!(
            text,
            "  {:<60}{:>11}{:>12}{:>8.2} %{:>6.1} %  {}",
            line.metric,
            number(line.recorded),
            number(line.submitted),
            line.error * 100.0,
            line.gate * 100.0,
            if line.passed() { "pass" } else { "FAIL" }
        );
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
