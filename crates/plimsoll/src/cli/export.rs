// SPDX-License-Identifier: Apache-2.0
//! `plimsoll export`: a workload in the language of another program.

use super::spec::{Scale, WorkloadSpec};
use crate::failure::{Code, Failure, Outcome, failed};
use plimsoll_classics::fio;
use plimsoll_core::model::{Cell, Envelope, Excerpt, Model, Space};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Arrival, Pace, Traced};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Alignment of exported requests: what every device of today takes.
const ALIGN_BYTES: u32 = 4096;
/// Longest log that is written: its reader keeps it in memory.
const OPERATIONS_MAX: usize = 20_000_000;

/// Write a workload as a job file or as an I/O log of fio.
///
/// A job file says what fio can say; what it loses is told, and stands in comments at its head. A
/// log (`--to iolog`) holds each request with its time: of a model, one play of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll export --to fio randread -o randread.fio
  plimsoll export --to iolog nas.toml@12 --for 60s -o nas.log
  fio --name=replay --read_iolog=nas.log --filename=/mnt/a/data --ioengine=libaio --direct=1")]
pub(super) struct Args {
    /// Workload: a name or a file, as for `plimsoll run`.
    workload: String,
    /// What to write.
    #[arg(long, value_parser = ["fio", "iolog"])]
    to: String,
    /// File to write (default: the standard output).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How long work without an end of its own runs.
    #[arg(long = "for", id = "length", default_value = "60s", value_parser = units::parse_duration, value_name = "TIME")]
    length: Nanos,
    /// Seed of the instants and offsets of a log.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Overwrite the file.
    #[arg(long)]
    force: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let spec = WorkloadSpec::parse(&args.workload)?;
    let factor = factor(&spec)?;
    let workload = spec.workload;
    let text = if args.to == "fio" {
        let file =
            fio::export(&scaled(workload, factor)?, args.length).map_err(failed(Code::Usage))?;
        for loss in &file.losses {
            super::say(&format!("lost: {loss}"));
        }
        file.text
    } else {
        let trace = trace(&workload, factor, args)?;
        fio::write_log(&trace).map_err(failed(Code::Usage))?
    };
    match &args.output {
        None => super::print(&text),
        Some(path) => write(path, &text, args.force)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The workload with the rates of a model multiplied by the factor that was given.
fn factor(spec: &WorkloadSpec) -> Result<f64, Failure> {
    match spec.scale {
        Scale::Fixed(factor) => Ok(factor),
        Scale::Auto => Err(Failure::usage(
            "export with the factor auto: it is found by running; give a number",
        )),
    }
}

/// A model with all its rates multiplied.
fn scaled(workload: Workload, factor: f64) -> Result<Workload, Failure> {
    match workload {
        Workload::Model(model) => {
            let cells = model.play_whole(factor);
            let envelope = Envelope::new(cells).map_err(failed(Code::Usage))?;
            Ok(Workload::Model(Box::new(Model { envelope, ..*model })))
        }
        other => Ok(other),
    }
}

fn trace(workload: &Workload, factor: f64, args: &Args) -> Result<Vec<Traced>, Failure> {
    match workload {
        Workload::Model(model) => {
            let excerpt = model.whole(factor);
            let cells = first(&excerpt.cells, args.length);
            let length = cells.iter().fold(Nanos(0), |sum, cell| sum + cell.length);
            let excerpt = Excerpt { cells, ..excerpt };
            let requests = model.play(&excerpt, &Space::AsRecorded, ALIGN_BYTES, Seed(args.seed));
            let requests = requests.take_while(|request| request.intended_at < length);
            let traced = requests.take(OPERATIONS_MAX + 1).map(|request| Traced {
                at: request.intended_at,
                kind: request.kind,
                offset: request.offset,
                bytes: request.len,
            });
            let trace: Vec<Traced> = traced.collect();
            if trace.len() > OPERATIONS_MAX {
                return Err(Failure::usage(format!(
                    "export a log of more than {OPERATIONS_MAX} operations: give a shorter --for"
                )));
            }
            Ok(trace)
        }
        Workload::Blocks(blocks) => match &blocks.groups[..] {
            [group] if let Pace::Open(Arrival::Trace(trace)) = &group.pace => Ok(trace.clone()),
            _ => Err(no_log()),
        },
        _ => Err(no_log()),
    }
}

fn no_log() -> Failure {
    Failure::usage("export a log: only models and traces have requests at given times")
        .hint("--to fio writes a job file")
}

/// The intervals of the first part of a recording; the one that is cut there counts whole.
fn first(cells: &[Cell], length: Nanos) -> Vec<Cell> {
    let mut sum = Nanos(0);
    let within = |cell: &&Cell| {
        let is_within = sum < length;
        sum = sum + cell.length;
        is_within
    };
    cells.iter().take_while(within).copied().collect()
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let wrong = |error| Failure::new(Code::Failed, format!("write {}: {error}", path.display()));
    if !force && path.exists() {
        return Err(
            Failure::usage(format!("write {}: it exists", path.display()))
                .hint("choose another name, or give --force"),
        );
    }
    std::fs::write(path, text).map_err(wrong)
}
