// SPDX-License-Identifier: Apache-2.0
//! `plimsoll verify`: a model, or the sections of a fio job, held against a recording.

mod job;
mod on_null;
mod text;

use super::model_file;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::model::{FidelityReport, WorkloadModel};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_fit::{FidelityLoad, FidelityReference, RecordingSelection};
use plimsoll_run::spec;
use plimsoll_trace::OpenRecording;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) use self::job::{JobFidelity, JobFile, JobSectionMapping};

/// Check a model or a fio job against a recording.
///
/// The command plays the model, or computes the rates of the job, and compares the result with the
/// recording: rates, sizes, their distribution over intervals, burstiness and periods; for requests
/// also their order in time and place. Each error is printed with its gate and its noise floor: the
/// error between two plays with two seeds, and between the two halves of the recording.
///
/// RECORDING may differ from the one that the model was fitted to, for example to compare
/// yesterday's model with today's load.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll verify nas.toml --against nasdata
  plimsoll verify nas.toml --against today --disk sdi --from 11:00 --to 12:00
  plimsoll verify model.fio --against nasdata --section nas_read_load+nas_write_load=sdi@11:00..12:00

Times are in the recording's own time zone. Exit code 14 if a gate is missed.")]
pub(super) struct VerifyArgs {
    /// Model made by plimsoll fit, or fio job file (.fio).
    load: PathBuf,
    /// Recording to compare with, or prometheus:URL (docs/recordings.md).
    #[arg(long, value_name = "RECORDING")]
    against: PathBuf,
    /// Disk (instance) of the recording (default: that of the model, or the only one).
    #[arg(long)]
    disk: Option<String>,
    /// Start of the window (default: that of the model, if the recording contains it).
    ///
    /// Requests: the default is the whole recording, and TIME may count from its start, such as
    /// 10m.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the window.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Compare sections of a job file with a disk and a time. May be repeated.
    ///
    /// MAP is SECTION[+SECTION]=DISK[@FROM..TO]. Sections of one map run together. By default all
    /// sections together are compared with the recording.
    #[arg(long = "section", value_name = "MAP")]
    sections: Vec<String>,
    /// Run the job with this machine's fio for TIME (default: 10s), and judge its load.
    ///
    /// By default the rates that the job requests are judged. fio runs on its null engine, in
    /// bubblewrap. Its job file is rewritten from the options that describe a load.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "10s",
        value_parser = units::parse_duration, value_name = "TIME")]
    measured: Option<Nanos>,
    /// Save the result in the model file.
    ///
    /// A model that missed a gate then runs only with --force-model.
    #[arg(long)]
    keep: bool,
    /// List every gate, not only missed ones.
    #[arg(long)]
    gates: bool,
    /// Also write the result to FILE as an HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &VerifyArgs) -> CliResult {
    let is_job = args.load.extension().is_some_and(|ending| ending == "fio");
    let against = super::monitoring::fetched(vec![args.against.clone()])?;
    if is_job {
        job_file(args, &against[0])
    } else {
        model(args, &against[0])
    }
}

fn part(args: &VerifyArgs) -> RecordingSelection {
    RecordingSelection {
        disk: args.disk.clone(),
        from: args.from.clone(),
        to: args.to.clone(),
        of_model: false,
    }
}

fn end(passed: bool) -> CliResult {
    if passed {
        Ok(ExitCode::SUCCESS)
    } else {
        super::done(CliExitCode::Gate)
    }
}

/// The page, where one is wanted.
fn write_page(args: &VerifyArgs, reports: &[(String, &FidelityReport)]) -> Result<(), CliError> {
    let Some(path) = &args.html else {
        return Ok(());
    };
    let load = args.load.display().to_string();
    super::report::write_html(path, &plimsoll_report::verified(&load, reports))
}

fn model(args: &VerifyArgs, against: &Path) -> CliResult {
    if !args.sections.is_empty() || args.measured.is_some() {
        return Err(CliError::invalid(
            "--section and --measured need a job file of fio: leave them out for a model",
        ));
    }
    let shown = args.load.display().to_string();
    let workload = spec::workload(&shown)?.workload;
    let Workload::Model(mut model) = workload else {
        return Err(CliError::usage(format!(
            "verify {shown}: only models and job files of fio define a rate"
        )));
    };
    let (verification, warnings) = of_model(&model, against, part(args))?;
    for warning in &warnings {
        terminal::say(&format!("note: {warning}"));
    }
    let passed = verification.missed().next().is_none();
    write_page(args, &[(model.name.clone(), &verification)])?;
    if args.json {
        terminal::print_json(&serde_json::json!({
            "load": model.name,
            "verification": verification,
            "passed": passed,
        }));
    } else {
        terminal::print(&text::of_model(&model, &verification, args.gates));
    }
    if args.keep {
        model.verified = Some(Box::new(verification));
        model_file::write_again(&args.load, &model)?;
    }
    end(passed)
}

/// A model held against a recording, and what there is to be said of the recording.
pub(super) fn of_model(
    model: &WorkloadModel,
    against: &Path,
    asked: RecordingSelection,
) -> Result<(FidelityReport, Vec<String>), CliError> {
    let own = RecordingSelection::of_model(model);
    let part = match (&asked.from, &asked.to) {
        (None, None) => RecordingSelection {
            disk: asked.disk.or(own.disk),
            ..own
        },
        _ => RecordingSelection {
            disk: asked.disk.or(own.disk),
            ..asked
        },
    };
    let load = FidelityLoad::Model(model);
    let recording = plimsoll_trace::open(against).map_err(failed(CliExitCode::Usage))?;
    if model.requests.is_some() && matches!(recording, OpenRecording::Requests(_)) {
        let verification = plimsoll_fit::verify_requests(against, &part, &load);
        return Ok((
            verification.map_err(failed(CliExitCode::Usage))?,
            Vec::new(),
        ));
    }
    let reference = FidelityReference::read(against, &part).map_err(failed(CliExitCode::Usage))?;
    let verification = reference
        .verify(&load)
        .map_err(failed(CliExitCode::Usage))?;
    Ok((verification, reference.warnings))
}

fn job_file(args: &VerifyArgs, against: &Path) -> CliResult {
    if args.keep {
        return Err(CliError::invalid(
            "--keep needs a model: a job file cannot hold the result",
        ));
    }
    let file = JobFile::read(&args.load)?;
    let maps = if args.sections.is_empty() {
        vec![file.all(part(args))]
    } else {
        if args.disk.is_some() || args.from.is_some() || args.to.is_some() {
            return Err(CliError::invalid(
                "--section names disk and times: leave --disk, --from and --to out",
            ));
        }
        let maps = args
            .sections
            .iter()
            .map(|text| JobSectionMapping::parse(text));
        maps.collect::<Result<Vec<_>, _>>()?
    };
    let mut held = Vec::new();
    for map in &maps {
        held.push(file.hold(map, against, args.measured)?);
    }
    let reports = held
        .iter()
        .map(|job| (job.sections.clone(), &job.verification));
    write_page(args, &reports.collect::<Vec<_>>())?;
    if args.json {
        let all: Vec<serde_json::Value> = held.iter().map(JobFidelity::json).collect();
        terminal::print_json(&serde_json::json!({
            "load": args.load.display().to_string(),
            "passed": held.iter().all(JobFidelity::passed),
            "sections": all,
        }));
    } else {
        for job in &held {
            terminal::print(&text::of_job(job, args.gates));
        }
    }
    end(held.iter().all(JobFidelity::passed))
}
