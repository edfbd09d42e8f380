// SPDX-License-Identifier: Apache-2.0
//! `plimsoll export`: a workload in the language of another program.

use plimsoll_classics::fio;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::model::{
    ModelChange, ModelExcerpt, ModelInterval, ReplayAddressSpace, WorkloadModel,
};
use plimsoll_core::op::TraceAccess;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{ArrivalProcess, BlockIoPacing};
use plimsoll_run::spec;
use rustix::rand::{GetRandomFlags, getrandom};
use std::path::PathBuf;
use std::process::ExitCode;

/// Alignment of requests that are drawn: the smallest that devices have. Recorded ones stay as they
/// were.
const DRAWN_ALIGN_BYTES: u32 = 512;
/// Least alignment of offsets and lengths that direct I/O requires.
const SECTOR_BYTES: u64 = 512;
/// Longest log that is written: its reader keeps it in memory.
const OPERATIONS_MAX: usize = 20_000_000;

/// Export a workload as a fio job, an I/O log or a changed model.
///
/// A job file contains what fio can express. Losses are printed, and noted in comments at the head
/// of the file. A log (`--format iolog`) contains each request with its time; a model's log is one
/// play of the model. `--format plimsoll` writes a model again. Options can change a model on the
/// way: scale it, stretch it, cut it down to one of its phases, or make it anonymous.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll export --format fio randread -o randread.fio
  plimsoll export --format plimsoll nas.toml --phase scan --scale 2 -o scan.toml
  plimsoll export --format plimsoll nas.toml --anonymise -o nobodys.toml
  plimsoll export --format iolog nas.toml@12 --for 60s -o nas.iolog
  fio --name=replay --read_iolog=nas.iolog --filename=/mnt/a/data --ioengine=libaio --direct=1")]
pub(super) struct ExportArgs {
    /// Workload to export: a name or a file, as for plimsoll run.
    workload: String,
    /// Format to write.
    #[arg(long, value_parser = ["fio", "iolog", "plimsoll"])]
    format: String,
    /// Models only: multiply rates by FACTOR, as @FACTOR does.
    ///
    /// Recorded requests then take less time.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    scale: f64,
    /// Models only: spread the same requests over FACTOR times the time.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    stretch: f64,
    /// Models only: export this phase, its stretches one after the other.
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// Models only: omit names, addresses and times of the source.
    ///
    /// Touched zones of 1 MiB move to other places, drawn from --seed. Offsets inside a zone stay
    /// the same.
    #[arg(long)]
    anonymise: bool,
    /// Write to FILE (default: standard output).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run time of workloads that do not end by themselves.
    #[arg(long = "for", id = "length", default_value = "60s", value_parser = units::parse_duration, value_name = "TIME")]
    length: Nanos,
    /// Seed of a log and of anonymised zones (default: 1; drawn with --anonymise).
    ///
    /// The seed sets times and offsets of the log, and the new places of zones. The seed and the
    /// source together reveal the original zones.
    #[arg(long)]
    seed: Option<u64>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    ///
    /// The result is the file name, or without --output the text, and the losses.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &ExportArgs) -> CliResult {
    let asked = spec::workload(&args.workload)?;
    let no_factor = "export with the factor auto: only a run can find it; give a number";
    let factor = asked.scale.ok_or_else(|| CliError::usage(no_factor))?;
    let change = change(args, factor)?;
    let workload = match asked.workload {
        Workload::Model(model) => {
            Workload::Model(Box::new(changed(*model, &change, &args.format)?))
        }
        _ if !change.is_none() => {
            return Err(CliError::usage(format!(
                "change {}: only a model can be scaled, stretched, cut or made anonymous",
                args.workload
            )));
        }
        other => other,
    };
    let (text, losses) = match args.format.as_str() {
        "plimsoll" => return as_model(workload, args),
        "fio" => {
            let file = fio::export(&workload, args.length).map_err(CliError::invalid)?;
            (file.text, file.losses)
        }
        _ => {
            let trace = trace(&workload, args)?;
            let losses = losses(&workload, &trace);
            (fio::write_log(&trace).map_err(CliError::invalid)?, losses)
        }
    };
    for loss in losses.iter().filter(|_| !args.json) {
        terminal::say(&format!("lost: {loss}"));
    }
    // Without a file the text itself is the result.
    let shown = (args.json && args.output.is_none()).then(|| text.clone());
    match &args.output {
        None if args.json => {}
        None => terminal::print(&text),
        Some(path) => {
            plimsoll_console::output::check_output(path, args.force)?;
            let wrong = |error| {
                CliError::new(
                    CliExitCode::Failed,
                    format!("write {}: {error}", path.display()),
                )
            };
            plimsoll_archive::write_result(path, text).map_err(wrong)?;
        }
    }
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "file": args.output, "text": shown, "lost": losses }),
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn change(args: &ExportArgs, factor: f64) -> Result<ModelChange, CliError> {
    let anonymous = match (args.anonymise, args.seed) {
        (false, _) => None,
        (true, Some(seed)) => Some(Seed(seed)),
        (true, None) => Some(secret_seed()?),
    };
    Ok(ModelChange {
        rate: args.scale * factor,
        stretch: args.stretch,
        phase: args.phase.clone(),
        anonymous,
    })
}

/// A seed from the kernel. One from the clock has so few possible values that all of them could be tried, and
/// the old places of zones found.
fn secret_seed() -> Result<Seed, CliError> {
    let mut bytes = [0; 8];
    // Linux returns up to 256 bytes at once.
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(doing(CliExitCode::Failed, "draw a seed"))?;
    Ok(Seed(u64::from_ne_bytes(bytes)))
}

/// The model after the change, its fidelity counted again.
fn changed(
    model: WorkloadModel,
    change: &ModelChange,
    to: &str,
) -> Result<WorkloadModel, CliError> {
    if change.is_none() {
        return Ok(model);
    }
    let wrong = |reason: String| CliError::usage(format!("change {}: {reason}", model.name));
    let mut after = model.changed(change).map_err(wrong)?;
    if to != "plimsoll" {
        return Ok(after);
    }
    let expected = model.changed_requests(change).map_err(wrong)?;
    let counted = match (&after.requests, expected) {
        (Some(packed), Some((_, _, expected))) => plimsoll_fit::check_packed(expected, packed),
        _ => {
            let (lines, warnings) = plimsoll_fit::check_play(&after);
            for warning in &warnings {
                terminal::say(&format!("note: {warning}"));
            }
            lines
        }
    };
    after.fidelity.extend(counted);
    Ok(after)
}

/// Writes a model, and ends with the code of its gates.
fn as_model(workload: Workload, args: &ExportArgs) -> CliResult {
    let Workload::Model(mut model) = workload else {
        return Err(CliError::usage(format!(
            "export {} as a model: it is not a model; plimsoll fit makes models",
            args.workload
        )));
    };
    let Some(path) = &args.output else {
        return Err(CliError::invalid(
            "--format plimsoll needs the file of the model: -o FILE.toml",
        ));
    };
    plimsoll_console::output::check_output(path, args.force)?;
    super::model_file::write(path, &mut model)?;
    if args.json {
        terminal::print_json(&serde_json::json!({ "file": path, "fidelity": model.fidelity }));
    }
    super::model_file::end(&model, path)
}

fn trace(workload: &Workload, args: &ExportArgs) -> Result<Vec<TraceAccess>, CliError> {
    match workload {
        Workload::Model(model) => {
            let excerpt = model.whole(1.0);
            let cells = first(&excerpt.cells, args.length);
            let length = cells.iter().fold(Nanos(0), |sum, cell| sum + cell.length);
            let excerpt = ModelExcerpt { cells, ..excerpt };
            let requests = model.play(
                &excerpt,
                &ReplayAddressSpace::AsRecorded,
                model.requests.as_ref().map_or(DRAWN_ALIGN_BYTES, |_| 1),
                Seed(args.seed.unwrap_or(1)),
            );
            let requests = requests.take_while(|request| request.intended_at < length);
            let traced = requests
                .take(OPERATIONS_MAX + 1)
                .map(|request| TraceAccess {
                    at: request.intended_at,
                    kind: request.kind,
                    offset: request.offset,
                    bytes: request.len,
                });
            let trace: Vec<TraceAccess> = traced.collect();
            if trace.len() > OPERATIONS_MAX {
                return Err(CliError::usage(format!(
                    "export a log of more than {OPERATIONS_MAX} operations: give a shorter --for"
                )));
            }
            Ok(trace)
        }
        Workload::Blocks(blocks) => match &blocks.groups[..] {
            [group] if let BlockIoPacing::Open(ArrivalProcess::Trace(trace)) = &group.pace => {
                Ok(trace.clone())
            }
            _ => Err(no_log()),
        },
        _ => Err(no_log()),
    }
}

/// Properties of a workload that a log does not contain.
fn losses(workload: &Workload, trace: &[TraceAccess]) -> Vec<String> {
    let mut losses = Vec::new();
    let is_cut = |request: &&TraceAccess| !request.at.0.is_multiple_of(1_000);
    let cut = trace.iter().filter(is_cut).count();
    if cut > 0 {
        losses.push(format!(
            "parts of microseconds: the instants of {cut} of {} operations are cut to whole ones",
            trace.len()
        ));
    }
    let end = |request: &TraceAccess| request.offset.saturating_add(request.bytes.into());
    let is_odd = |request: &&TraceAccess| {
        !request.offset.is_multiple_of(SECTOR_BYTES) || !end(request).is_multiple_of(SECTOR_BYTES)
    };
    let odd = trace.iter().filter(is_odd).count();
    if odd > 0 {
        losses.push(format!(
            "nothing of places and lengths, but {odd} of {} operations are not of whole sectors of 512 \
             bytes: play the log with direct=0, as direct I/O refuses them",
            trace.len()
        ));
    }
    let Workload::Model(model) = workload else {
        return losses;
    };
    let last = trace.last().map_or(Nanos(0), |request| request.at);
    let all = trace.len() as u64;
    if let Some(packed) = &model.requests {
        if packed.requests() > all {
            losses.push(format!(
                "{} of {} requests: the log ends after {last}; --for takes more of the recording",
                packed.requests() - all,
                packed.requests()
            ));
        }
        if packed.linked() > 0 {
            losses.push(format!(
                "dependencies: {} requests start when an earlier one has ended; in the log all \
                 start at their instants",
                packed.linked()
            ));
        }
    } else {
        let length = model.length();
        if last.0.saturating_add(length.0 / 100) < length.0 {
            losses.push(format!(
                "all of the {length} of the recording but the first {last}: --for takes more of it"
            ));
        }
        losses.push("the distributions: the log is one sample of the model".into());
    }
    if let Some(threads) = &model.facts.threads {
        losses.push(format!(
            "the limit of {} in flight: give the player's iodepth",
            threads.value
        ));
    }
    losses
}

fn no_log() -> CliError {
    CliError::usage("export a log: only models and traces have requests at given times")
        .hint("--format fio writes a job file")
}

/// The intervals of the first part of a recording; the one that is cut there counts whole.
fn first(cells: &[ModelInterval], length: Nanos) -> Vec<ModelInterval> {
    let mut sum = Nanos(0);
    let within = |cell: &&ModelInterval| {
        let is_within = sum < length;
        sum = sum + cell.length;
        is_within
    };
    cells.iter().take_while(within).copied().collect()
}
