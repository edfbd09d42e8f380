// SPDX-License-Identifier: Apache-2.0
//! `plimsoll fit`: from a production recording to a workload model.

use super::gates;
use super::pool::PoolArgs;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::model::{FidelityCheck, ModelFacts, PackedGapPrecision, PackedRequests};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_fit::{
    FitOptions, FitResult, RecordingPool, TraceDevice, TraceFitOptions, TraceShuffle,
};
use plimsoll_trace::DeviceChoices;
use plimsoll_trace::{CounterSource, OpenRecording, TraceError, TraceSource};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fit a workload model to a recording, with its error per metric.
///
/// RECORDING contains counters (a PCP archive, compressed or not, by its base name or any of its
/// files; a folder of archives; a folio; output of iostat, sadf, perfmon, esxtop or a loop over
/// /proc/diskstats) or requests (blktrace, biosnoop, fio logs, vscsiStats, a published trace).
/// docs/recordings.md lists all formats.
///
/// A model of counters keeps the recorded intervals. Properties that counters do not contain
/// (offsets, sizes around their mean) are assumed and listed. A model of requests keeps the
/// requests, packed into a file beside the model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  plimsoll fit nasdata --disk sdi --from 11:00 --to 12:00 -o nas.toml

Times are in the recording's own time zone: 11:00, 11:00:30 or '2010-07-14 11:00:00'. Times of requests
are in UTC, and may also count from the start of the recording: 90s, 10m.
Exit code 14 if the model misses a gate; the file is written anyway.")]
pub(super) struct FitArgs {
    /// Recording to read, or prometheus:URL (docs/recordings.md).
    ///
    /// Several recordings: the model describes the sum of all their disks.
    #[arg(required_unless_present = "list")]
    recording: Vec<PathBuf>,
    /// Disk (instance) to model (default: the only disk).
    ///
    /// If a recording has several disks, the error message lists them. Several recordings: the disk
    /// of this name in each (default: all disks, except layers above other disks).
    #[arg(long)]
    disk: Option<String>,
    /// Start of the window (default: start of the recording).
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the window (default: end of the recording).
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Requests only: keep exact times between requests (nanoseconds).
    ///
    /// The model becomes twice as large.
    #[arg(long)]
    exact: bool,
    /// Requests only: shuffle runs of requests within windows of this length.
    ///
    /// Shuffling hides the original order of requests. A run consists of requests of one kind, each
    /// starting where the last ended. The seed is not stored.
    #[arg(long, value_parser = window, value_name = "WINDOW")]
    shuffle: Option<Nanos>,
    /// Requests only: ignore detected dependencies and replay at recorded times.
    ///
    /// Dependencies are closed loops (requests in flight stay at their maximum for much of the
    /// time) and requests that waited for earlier ones.
    #[arg(long)]
    open_loop: bool,
    /// Write the workload file to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// List every gate, not only missed ones.
    #[arg(long)]
    gates: bool,
    /// Also write profile and fidelity to FILE as an HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print profile, fidelity, facts and warnings as JSON.
    #[arg(long)]
    json: bool,
}

/// Options that describe a model beside its recording.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// Name of the workload in reports (default: that of the output file, else of the recording).
    #[arg(long)]
    name: Option<String>,
    /// Size of the area that the load covers (default: 1G).
    ///
    /// The size is an assumption, since counters do not contain it.
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE")]
    working_set: Option<u64>,
    /// Declare facts that counters do not contain, separated by commas.
    ///
    /// Offsets: `sequential`, `random` or `skewed=EXPONENT`. `write-once`: writes reach the end of
    /// the file before any block is rewritten. `file-size=SIZE`: area of the load. `threads=N`: at
    /// most N requests in flight. Arrivals: `even`, `poisson` or `bursty`. `sync`: each write is
    /// durable when it completes (the only fact for requests).
    #[arg(long, value_name = "FACT,...")]
    declare: Option<String>,
}

/// Where a fitted model goes, and how it is shown.
pub(super) struct ModelOutput<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) html: Option<&'a Path>,
    pub(super) all_gates: bool,
    pub(super) json: bool,
}

/// Working set of a load where no option gives one.
const WORKING_SET_BYTES: u64 = 1 << 30;

/// Disks that are listed when none was chosen, those with the most requests first.
const LISTED_MAX: usize = 12;

/// A window of nothing would leave everything in its place.
fn window(text: &str) -> Result<Nanos, String> {
    match units::parse_duration(text)? {
        Nanos(0) => Err("expected a time longer than zero".into()),
        window => Ok(window),
    }
}

pub(super) fn main(args: &FitArgs) -> CliResult {
    if let Some(path) = &args.output {
        plimsoll_console::output::check_output(path, args.force)?;
    }
    let recordings = args.pool.recordings(&args.recording)?;
    let fitted = match &recordings[..] {
        [only] => of_one(args, only)?,
        several => of_several(args, several)?,
    };
    let output = ModelOutput {
        file: args.output.as_deref(),
        html: args.html.as_deref(),
        all_gates: args.gates,
        json: args.json,
    };
    show(fitted, &output)
}

fn of_one(args: &FitArgs, path: &Path) -> Result<FitResult, CliError> {
    args.pool.refuse_alone()?;
    let recording = plimsoll_trace::open(path).map_err(failed(CliExitCode::Usage))?;
    match recording {
        OpenRecording::Counters(counters) => of_counters(args, path, &*counters),
        OpenRecording::Requests(requests) => of_requests(args, path, requests),
    }
}

/// The sum of many: what adds up is fitted, what does not is refused.
fn of_several(args: &FitArgs, recordings: &[PathBuf]) -> Result<FitResult, CliError> {
    let refused = [
        (args.exact, "--exact"),
        (args.shuffle.is_some(), "--shuffle"),
        (args.open_loop, "--open-loop"),
    ];
    if let Some((_, option)) = refused.iter().find(|(is_given, _)| *is_given) {
        let text = format!("{option} is for one recording of requests");
        return Err(CliError::invalid(text).hint(
            "of several recordings the counts of each step add up; the order of requests, their \
             places and what waited for what do not",
        ));
    }
    let settings = args.pool.settings(&args.from, &args.to, &args.disk)?;
    let pool = super::pool::read_all(recordings, settings, args.pool.skip_unreadable)?;
    args.model.fit_pool(&pool, args.output.as_deref())
}

/// Writes the model, and shows what was found.
pub(super) fn show(mut fitted: FitResult, output: &ModelOutput<'_>) -> CliResult {
    if let Some(path) = output.file {
        super::model_file::write(path, &mut fitted.model)?;
    }
    for warning in &fitted.warnings {
        terminal::say(&format!("note: {warning}"));
    }
    if let Some(path) = output.html {
        let (about, profile) = (about(&fitted), &fitted.profile);
        let report = plimsoll_report::fitted(&about, profile, &fitted.model);
        super::report::write_html(path, &report)?;
    }
    if output.json {
        terminal::print_json(&serde_json::json!({
            "profile": fitted.profile,
            "fidelity": fitted.model.fidelity,
            "facts": fitted.model.facts,
            "warnings": fitted.warnings,
        }));
    } else {
        terminal::print_coloured(&text(&fitted, output));
    }
    let missed = fitted.model.fidelity.iter().any(|line| !line.passed());
    if missed {
        super::done(CliExitCode::Gate)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// Of requests, which are looked at twice or more: `first` is the recording, opened.
fn of_requests(
    args: &FitArgs,
    path: &Path,
    first: Box<dyn TraceSource>,
) -> Result<FitResult, CliError> {
    let declared = args.model.facts()?;
    let told = ModelFacts {
        sync_writes: None,
        ..declared.clone()
    };
    if args.model.working_set.is_some() || told != ModelFacts::assumed(WORKING_SET_BYTES) {
        let text = "a recording of requests needs no declared or assumed facts, except whether \
                    writes were synchronous";
        return Err(
            CliError::invalid(text).hint("declare 'sync' or nothing, and leave --working-set out")
        );
    }
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let (survey, mut requests) =
        plimsoll_fit::survey_part(path, first, from, to).map_err(failed(CliExitCode::Usage))?;
    let disk = match (&args.disk, &survey.devices[..]) {
        (Some(disk), _) => disk,
        (None, [only]) => &only.name,
        (None, _) => {
            let mut devices: Vec<&TraceDevice> = survey.devices.iter().collect();
            devices.sort_by_key(|device| std::cmp::Reverse(device.requests));
            let about = |d: &&TraceDevice| format!("{} ({} requests)", d.name, d.requests);
            let devices: Vec<String> = devices.iter().map(about).collect();
            return Err(no_disk(&path.display().to_string(), &devices));
        }
    };
    let keep = TraceFitOptions {
        gaps: args.exact.then_some(PackedGapPrecision::Exact),
        // The seed is not stored: with it the order could be found again.
        shuffle: args.shuffle.map(|window| TraceShuffle {
            window,
            seed: Seed(super::measure::drawn_seed()),
        }),
        open_loop: args.open_loop,
    };
    let fitted = plimsoll_fit::fit_requests(&mut requests, &survey, disk, &args.name(path), keep);
    let mut fitted = fitted.map_err(failed(CliExitCode::Usage))?;
    fitted.model.facts.sync_writes = declared.sync_writes;
    Ok(fitted)
}

fn no_disk(recording: &str, disks: &[String]) -> CliError {
    CliError::usage(format!("choose a disk of {recording}: --disk is missing"))
        .hint(format!("its disks are {}", list(disks)))
}

/// The first of many names, and how many more there are.
fn list(names: &[String]) -> String {
    let shown = names[..names.len().min(LISTED_MAX)].join(", ");
    match names.len().checked_sub(LISTED_MAX + 1) {
        Some(more) => format!(
            "{shown} and {} more (plimsoll profile shows their load)",
            more + 1
        ),
        None => shown,
    }
}

/// As [`no_disk`]; says which devices are set aside.
fn no_disk_of(counters: &dyn CounterSource) -> CliError {
    let DeviceChoices { disks, set_aside } = DeviceChoices::of(counters);
    let failure = no_disk(&counters.about().name, &disks);
    if set_aside.is_empty() {
        return failure;
    }
    let aside: Vec<String> = set_aside
        .iter()
        .map(|(name, layer)| format!("{name} ({})", layer.name()))
        .collect();
    let hint = failure.hint.clone().unwrap_or_default();
    failure.hint(format!(
        "{hint}; left out, since they repeat the load of these: {}",
        list(&aside)
    ))
}

/// The disk of a recording that has but one.
fn only_disk(counters: &dyn CounterSource) -> Result<String, CliError> {
    let choices = DeviceChoices::of(counters);
    match &choices.disks[..] {
        [only] => Ok(only.clone()),
        [] if choices.set_aside.is_empty() => {
            let error = TraceError::NoDisks {
                recording: counters.about().name.clone(),
                damage: counters.damage().cloned(),
            };
            Err(failed(CliExitCode::Usage)(error))
        }
        _ => Err(no_disk_of(counters)),
    }
}

/// Note on a disk whose load repeats the load of other disks.
fn twice(counters: &dyn CounterSource, disk: &str) -> Option<String> {
    let DeviceChoices { disks, set_aside } = DeviceChoices::of(counters);
    let (_, layer) = set_aside.iter().find(|(name, _)| name == disk)?;
    let all = list(&disks);
    Some(format!(
        "{disk} ({}) repeats load of {all}, or a part of it: models of both count bytes twice",
        layer.name()
    ))
}

fn of_counters(
    args: &FitArgs,
    path: &Path,
    counters: &dyn CounterSource,
) -> Result<FitResult, CliError> {
    if let Some(damage) = counters.damage() {
        terminal::say(&format!("note: {damage}"));
    }
    if args.exact || args.shuffle.is_some() {
        let text = format!("{} is a recording of counters", counters.about().name);
        return Err(
            CliError::invalid(text).hint("--exact and --shuffle are for recordings of requests")
        );
    }
    let disk = match &args.disk {
        Some(disk) => disk.clone(),
        None => only_disk(counters)?,
    };
    if let Some(note) = twice(counters, &disk) {
        terminal::say(&format!("note: {note}"));
    }
    let window = counters
        .times()
        .window(args.from.as_deref(), args.to.as_deref())
        .map_err(failed(CliExitCode::Usage))?;
    let options = FitOptions {
        disk,
        window,
        name: args.name(path),
        facts: args.model.facts()?,
    };
    plimsoll_fit::fit(counters, &options).map_err(failed(CliExitCode::Usage))
}

impl FitArgs {
    fn name(&self, recording: &Path) -> String {
        self.model.name(self.output.as_deref(), Some(recording))
    }
}

impl ModelArgs {
    /// Facts that are declared or assumed before the recording is read.
    fn facts(&self) -> Result<ModelFacts, CliError> {
        let mut facts = ModelFacts::assumed(self.working_set.unwrap_or(WORKING_SET_BYTES));
        let Some(text) = &self.declare else {
            return Ok(facts);
        };
        facts.declare(text).map_err(CliError::invalid)?;
        if self.working_set.is_some() && !facts.working_set_bytes.is_assumed() {
            let text = "--working-set and a declared file-size exclude each other";
            return Err(CliError::invalid(text).hint("leave --working-set out"));
        }
        Ok(facts)
    }

    fn name(&self, output: Option<&Path>, recording: Option<&Path>) -> String {
        let stem = |path: &Path| {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        let from_path = output.and_then(stem).or_else(|| recording.and_then(stem));
        self.name
            .clone()
            .or(from_path)
            .unwrap_or_else(|| "model".into())
    }

    /// A model of many recordings together.
    pub(super) fn fit_pool(
        &self,
        pool: &RecordingPool,
        output: Option<&Path>,
    ) -> Result<FitResult, CliError> {
        pool.fit(&self.name(output, None), self.facts()?)
            .map_err(failed(CliExitCode::Usage))
    }

    /// Refuses options of a model if no model is written.
    pub(super) fn refuse_without_model(&self) -> Result<(), CliError> {
        let given = [
            (self.name.is_some(), "--name"),
            (self.working_set.is_some(), "--working-set"),
            (self.declare.is_some(), "--declare"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(CliError::invalid(format!("{option} is for a model"))
                .hint("give -o FILE to write one")),
            None => Ok(()),
        }
    }
}

/// Format and host of the recording, as a report begins.
fn about(fitted: &FitResult) -> String {
    let source = &fitted.model.source;
    let host = match source.host.as_str() {
        "" => String::new(),
        host => format!("host {host} · "),
    };
    format!("{} · {host}", source.format)
}

fn text(fitted: &FitResult, output: &ModelOutput<'_>) -> String {
    let (model, profile) = (&fitted.model, &fitted.profile);
    let (source, about) = (&model.source, about(fitted));
    let report = plimsoll_report::profile(&source.recording, &about, profile);
    let mut text = plimsoll_report::terminal(&report, terminal::width(), terminal::colour(), false);
    match &model.requests {
        None => super::facts::append(&mut text, model),
        Some(packed) => packed_requests(&mut text, packed),
    }
    fidelity(&mut text, &model.fidelity, output.all_gates);
    if let Some(path) = output.file {
        let _ = writeln!(
            text,
            "\nWritten to {}; play it with: plimsoll run {} TARGET",
            path.display(),
            path.display()
        );
    }
    text
}

fn packed_requests(text: &mut String, packed: &PackedRequests) {
    let per_request = packed.packed_bytes() as f64 / packed.requests().max(1) as f64;
    let gaps = match packed.gaps() {
        PackedGapPrecision::Classes => "times between them to a tenth of a power of ten",
        PackedGapPrecision::Fine => "times between them to a fortieth of a power of ten",
        PackedGapPrecision::Exact => "times between them exactly",
    };
    let order = match packed.shuffled {
        None => "in their order".to_owned(),
        Some(window) => format!("in runs whose order is drawn within every {window}"),
    };
    let _ = writeln!(
        text,
        "\n{} requests {order}, packed to {} ({per_request:.2} bytes each): offsets, kinds and sizes exactly, {gaps}. {}",
        packed.requests(),
        units::size(packed.packed_bytes() as f64),
        touched(packed),
    );
}

/// The room that a play needs, which is not the bytes that are touched: those are among the figures
/// below.
fn touched(packed: &PackedRequests) -> String {
    format!(
        "They lie in zones of 1 MiB that are {} together, of a device of at least {}.",
        units::size(packed.footprint_bytes() as f64),
        units::size(packed.span_bytes() as f64),
    )
}

/// The model held against its recording: what was missed, or everything, and a line about the rest.
fn fidelity(text: &mut String, lines: &[FidelityCheck], all: bool) {
    let told = gates::told(lines, |line| line, all);
    if !told.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<62}{:>11}{:>12}{:>10}{:>8}",
            "Model against recording", "recorded", "model", "error", "gate"
        );
    }
    for line in told {
        let _ = writeln!(
            text,
            "  {:<60}{:>11}{:>12}{:>10}{:>6.1} %  {}",
            line.metric,
            number(line.recorded),
            number(line.submitted),
            line.shown(|error| format!("{:.2} %", error * 100.0)),
            line.gate * 100.0,
            if line.passed() { "pass" } else { "FAIL" }
        );
    }
    if !lines.is_empty() {
        let how = if all { "" } else { " (--gates lists them)" };
        let summary = gates::summary(lines.iter());
        let _ = writeln!(text, "\nModel against recording: {summary}{how}.");
    }
}

/// A figure of a recording or a model, whatever its unit.
pub(super) fn number(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
