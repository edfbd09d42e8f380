// SPDX-License-Identifier: Apache-2.0
//! `plimsoll mix`: several models as one load.

use super::model_file;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::model::{ModelMixMember, ModelMixReplay, WorkloadModel};
use plimsoll_core::rng::Seed;
use plimsoll_core::units;
use plimsoll_core::workload::Workload;
use plimsoll_run::spec;
use std::fmt::Write;
use std::path::PathBuf;

/// Combine several models into one load, as a shared array sees it.
///
/// Each model works in its own region; the regions lie one after the other. The mix contains the
/// requests of all models: recorded requests unchanged, requests of counters drawn once. The mix is
/// as long as the shortest model. Any part of the mix covers the same time of all models.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll mix nas.toml db.toml@2 -o both.toml
  plimsoll compare /mnt/a /mnt/b -w both.toml

Exit code 14 if a model or the mix missed a gate; the file is written anyway.")]
pub(super) struct MixArgs {
    /// Models to combine, each with @FACTOR to multiply its rates.
    #[arg(required = true, num_args = 2.., value_name = "MODEL")]
    models: Vec<String>,
    /// Name of the mix in reports (default: that of the file).
    #[arg(long)]
    name: Option<String>,
    /// Seed of the properties that counters do not contain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the workload file to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &MixArgs) -> CliResult {
    plimsoll_console::output::check_output(&args.output, args.force)?;
    let read = args.models.iter().map(|text| member(text));
    let read = read.collect::<Result<Vec<_>, _>>()?;
    let members: Vec<ModelMixMember<'_>> = read
        .iter()
        .map(|(model, scale)| ModelMixMember {
            model,
            scale: *scale,
        })
        .collect();
    let stem = args.output.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let name = args.name.as_deref().unwrap_or(&stem);
    let seed = Seed(args.seed);
    let mut mix = WorkloadModel::mix(name, &members, seed)
        .map_err(|reason| CliError::usage(format!("mix {}: {reason}", args.models.join(", "))))?;
    if let Some(packed) = &mix.requests {
        let expected = ModelMixReplay::new(&members, seed);
        mix.fidelity
            .extend(plimsoll_fit::check_packed(expected, packed));
    }
    model_file::write(&args.output, &mut mix)?;
    if args.json {
        terminal::print_json(&serde_json::json!({
            "file": args.output,
            "members": mix.source.changes,
            "requests": mix.requests.as_ref().map_or(0, |packed| packed.requests()),
            "length_ns": mix.length(),
            "working_set_bytes": mix.facts.working_set_bytes.value,
            "fidelity": mix.fidelity,
        }));
    } else {
        terminal::print(&text(&mix, &args.output.display().to_string()));
    }
    model_file::end(&mix, &args.output)
}

fn member(text: &str) -> Result<(WorkloadModel, f64), CliError> {
    let asked = spec::workload(text)?;
    let scale = asked.scale.ok_or_else(|| {
        CliError::usage(format!(
            "mix {text} with the factor auto: only a run can find it; give a number"
        ))
    })?;
    match asked.workload {
        Workload::Model(model) => Ok((*model, scale)),
        _ => Err(CliError::usage(format!(
            "mix {text}: only models made by plimsoll fit can be mixed"
        ))),
    }
}

fn text(mix: &WorkloadModel, path: &str) -> String {
    let mut text = String::new();
    for member in &mix.source.changes {
        text.push_str(member);
        text.push('\n');
    }
    let requests = mix.requests.as_ref().map_or(0, |packed| packed.requests());
    let _ = writeln!(
        text,
        "{requests} requests over {} and {}; written to {path}",
        units::clock_duration(mix.length()),
        units::size(mix.facts.working_set_bytes.value as f64)
    );
    text
}
