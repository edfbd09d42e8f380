// SPDX-License-Identifier: Apache-2.0
//! `plimsoll profile`: what is in a recording.

use super::pool::PoolArgs;
use plimsoll_archive::{ResultFile, write_result};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::profile::RecordingProfile;
use plimsoll_fit::intervals;
#[cfg(feature = "parquet")]
use plimsoll_trace::TraceError;
use plimsoll_trace::{CounterSource, DiskSeries, OpenRecording, RecordingWindow, TraceSource};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Describe a recording, or many recordings together.
///
/// RECORDING contains counters or requests, in any format that plimsoll fit reads
/// (docs/recordings.md). The profile shows both averages (of interval rates and over time), metrics
/// over time, bursts and phases; for requests also sizes, order, working set, reuse and response
/// times. docs/profile.md explains every metric and its source.
///
/// Several recordings: the profile shows the spread over hosts and disks, the busiest of them, and
/// the sum of all over time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll profile nasdata
  plimsoll profile nasdata --disk sdi --from 11:00 --to 12:00 -o nas.html --xlsx nas.xlsx
  plimsoll profile hosts/*/20260714.meta
  plimsoll profile hosts/a*/20260714.meta --partial a.part

Times are in the recording's own time zone: 11:00, 11:00:30 or '2010-07-14 11:00:00'.")]
pub(super) struct ProfileArgs {
    /// Recording to read, or prometheus:URL (docs/recordings.md).
    ///
    /// Several recordings are described together.
    #[arg(required_unless_present = "list")]
    recording: Vec<PathBuf>,
    /// Disk (instance) to describe in full (default: the busiest).
    ///
    /// Several recordings: the disk of this name in each (default: all disks, except layers above
    /// other disks).
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
    /// Write a partial result to FILE for plimsoll merge; print no profile.
    #[arg(long, value_name = "FILE", conflicts_with_all = PARTIAL_EXCLUDES)]
    partial: Option<PathBuf>,
    /// Write a self-contained HTML page to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a spreadsheet to FILE: both averages, devices, bursts, phases and every interval.
    #[cfg(feature = "xlsx")]
    #[arg(long, value_name = "FILE")]
    xlsx: Option<PathBuf>,
    /// Write every interval of the disk to FILE as a Parquet table.
    ///
    /// Without --disk the table has the intervals of all disks.
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the profile as JSON.
    #[arg(long)]
    json: bool,
}

/// Options that `--partial` excludes.
const PARTIAL_EXCLUDES: &[&str] = &[
    "output",
    "json",
    #[cfg(feature = "xlsx")]
    "xlsx",
    #[cfg(feature = "parquet")]
    "parquet",
];

/// A recording that is described.
struct Described {
    description: RecordingProfile,
    source: ProfileIntervalSource,
}

/// Where the intervals of its devices are.
enum ProfileIntervalSource {
    /// Read again when they are wanted.
    Counters(Box<dyn CounterSource>, RecordingWindow),
    /// Counted from the requests of the device that is shown in full.
    Requests(DiskSeries),
}

pub(super) fn main(args: &ProfileArgs) -> CliResult {
    for path in args.files() {
        plimsoll_console::output::check_output(path, args.force)?;
    }
    let recordings = args.pool.recordings(&args.recording)?;
    if let Some(path) = &args.partial {
        let settings = args.pool.settings(&args.from, &args.to, &args.disk)?;
        let skip = args.pool.skip_unreadable;
        return super::pool::write_partial(&recordings, &settings, skip, path);
    }
    match &recordings[..] {
        [only] => of_one(args, only),
        several => of_several(args, several),
    }
}

fn of_several(args: &ProfileArgs, recordings: &[PathBuf]) -> CliResult {
    let one: [Option<&PathBuf>; 2] = [
        #[cfg(feature = "xlsx")]
        args.xlsx.as_ref(),
        #[cfg(not(feature = "xlsx"))]
        None,
        #[cfg(feature = "parquet")]
        args.parquet.as_ref(),
        #[cfg(not(feature = "parquet"))]
        None,
    ];
    if one.iter().any(Option::is_some) {
        let text = "--xlsx and --parquet are for the intervals of one recording";
        return Err(CliError::invalid(text).hint("give one recording, or leave them out"));
    }
    let settings = args.pool.settings(&args.from, &args.to, &args.disk)?;
    let pool = super::pool::read_all(recordings, settings, args.pool.skip_unreadable)?;
    super::pool::show(&pool, args.output.as_deref(), args.json)
}

fn of_one(args: &ProfileArgs, path: &Path) -> CliResult {
    args.pool.refuse_alone()?;
    let described = match plimsoll_trace::open(path).map_err(failed(CliExitCode::Usage))? {
        OpenRecording::Counters(counters) => of_counters(args, counters)?,
        OpenRecording::Requests(requests) => of_requests(args, path, requests)?,
    };
    let report = plimsoll_report::describe(&described.description);
    if let Some(path) = &args.output {
        let html = plimsoll_report::html(&report);
        write_result(path, html).map_err(|error| unwritten(path, &error))?;
    }
    #[cfg(feature = "xlsx")]
    if let Some(path) = &args.xlsx {
        spreadsheet(path, &described)?;
    }
    #[cfg(feature = "parquet")]
    if let Some(path) = &args.parquet {
        table(path, &described, args.disk.is_none()).map_err(failed(CliExitCode::Failed))?;
    }
    if args.json {
        terminal::print_json(
            &serde_json::to_value(&described.description).expect("values are plain data"),
        );
    } else {
        let text = plimsoll_report::terminal(&report, terminal::width(), terminal::colour(), false);
        terminal::print_coloured(&text);
        for path in args.files() {
            terminal::print(&format!("Written: {}", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ProfileArgs {
    /// The files that are to be written.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [
            self.output.as_deref(),
            self.partial.as_deref(),
            #[cfg(feature = "xlsx")]
            self.xlsx.as_deref(),
            #[cfg(feature = "parquet")]
            self.parquet.as_deref(),
        ];
        files.into_iter().flatten()
    }
}

impl Described {
    /// The intervals of the device that is shown in full.
    fn series(&self) -> Result<DiskSeries, CliError> {
        match &self.source {
            ProfileIntervalSource::Requests(series) => Ok(series.clone()),
            ProfileIntervalSource::Counters(counters, window) => counters
                .series(&self.description.profile.disk, window)
                .map_err(failed(CliExitCode::Usage)),
        }
    }
}

fn of_counters(
    args: &ProfileArgs,
    counters: Box<dyn CounterSource>,
) -> Result<Described, CliError> {
    let window = counters
        .times()
        .window(args.from.as_deref(), args.to.as_deref())
        .map_err(failed(CliExitCode::Usage))?;
    let description = plimsoll_fit::describe(&*counters, args.disk.as_deref(), &window)
        .map_err(failed(CliExitCode::Usage))?;
    Ok(Described {
        description,
        source: ProfileIntervalSource::Counters(counters, window),
    })
}

fn of_requests(
    args: &ProfileArgs,
    path: &Path,
    first: Box<dyn TraceSource>,
) -> Result<Described, CliError> {
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let (survey, mut requests) =
        plimsoll_fit::survey_part(path, first, from, to).map_err(failed(CliExitCode::Usage))?;
    let (description, series) =
        plimsoll_fit::describe_requests(&mut requests, &survey, args.disk.as_deref())
            .map_err(failed(CliExitCode::Usage))?;
    Ok(Described {
        description,
        source: ProfileIntervalSource::Requests(series),
    })
}

fn unwritten(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(
        CliExitCode::Failed,
        format!("write {}: {error}", path.display()),
    )
}

#[cfg(feature = "xlsx")]
fn spreadsheet(path: &Path, described: &Described) -> Result<(), CliError> {
    let series = described.series()?;
    let write = || {
        let mut out = BufWriter::new(ResultFile::create(path)?);
        let rows = intervals(&series);
        let left_out = plimsoll_report::xlsx(&described.description, rows, &mut out)?;
        out.into_inner()
            .map_err(std::io::IntoInnerError::into_error)?
            .finish()?;
        Ok(left_out)
    };
    let left_out = write().map_err(|error| unwritten(path, &error))?;
    if left_out > 0 {
        terminal::say(&format!(
            "note: a sheet ends at 1,048,576 rows; the last {left_out} intervals are not in {}",
            path.display()
        ));
    }
    Ok(())
}

/// The intervals as a table: of all disks, or of the one that is shown in full.
#[cfg(feature = "parquet")]
fn table(path: &Path, described: &Described, is_of_all: bool) -> Result<(), TraceError> {
    let unwritten = |source| TraceError::Write {
        file: path.display().to_string(),
        source,
    };
    let result = ResultFile::create(path).map_err(unwritten)?;
    let mut table = plimsoll_fit::IntervalTable::begin(result, path)?;
    match &described.source {
        ProfileIntervalSource::Requests(series) => {
            table.push(&series.disk, intervals(series))?;
        }
        ProfileIntervalSource::Counters(counters, window) => {
            let disks = match is_of_all {
                true => counters.disks(),
                false => vec![described.description.profile.disk.clone()],
            };
            plimsoll_trace::each_series(&**counters, &disks, window, |series| {
                table.push(&series.disk, intervals(&series)).map(drop)
            })?;
        }
    }
    table.finish()?.finish().map_err(unwritten)
}
