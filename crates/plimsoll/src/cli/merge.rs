// SPDX-License-Identifier: Apache-2.0
//! `plimsoll merge`: partial results as the profile or the model of all their recordings.

use super::fit::{ModelArgs, ModelOutput};
use plimsoll_archive::{PartialCollection, PartialReader};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_core::partial::PoolSettings;
use plimsoll_fit::RecordingPool;
use std::path::{Path, PathBuf};

/// Merge partial results of plimsoll profile.
///
/// The result equals that of one plimsoll profile (with -o: one plimsoll fit) of all recordings, to
/// the last digit, whatever the order and grouping of the parts. A recording that occurs several
/// times counts once. Damaged parts, and parts with different settings or format versions, are
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll merge parts/
  plimsoll merge a.part b.part --partial ab.part
  plimsoll merge parts/ -o hosts.toml --html hosts.html

Exit code 14 if the model misses a gate; the file is written anyway.")]
pub(super) struct MergeArgs {
    /// Partial result to read, or a folder: all its files that end in .part.
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// Write one partial result of all parts to FILE, for further merges; print no profile.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "html", "json", "gates"])]
    partial: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// Fit a model to the sum of all recordings, and write the workload file to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With -o: list every gate, not only missed ones.
    #[arg(long, requires = "output")]
    gates: bool,
    /// Also write a self-contained HTML page to FILE.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Most parts of one command.
const PARTS_MAX: usize = 1_000_000;

pub(super) fn main(args: &MergeArgs) -> CliResult {
    for path in [&args.partial, &args.output, &args.html]
        .into_iter()
        .flatten()
    {
        plimsoll_console::output::check_output(path, args.force)?;
    }
    if args.output.is_none() {
        args.model.refuse_without_model()?;
    }
    let parts = files(&args.parts)?;
    let mut merged = MergedParts::default();
    for part in &parts {
        merged.take(part, args.partial.is_some())?;
    }
    super::pool::say_known(merged.read, merged.recordings());
    let MergedParts {
        pool,
        collection,
        unread,
        ..
    } = merged;
    if let Some((path, collection)) = args.partial.as_ref().zip(collection) {
        return super::pool::say_written(&collection, unread, path);
    }
    let (_, pool) = pool.ok_or_else(|| CliError::usage("merge: there are no parts"))?;
    let Some(path) = args.output.as_deref() else {
        return super::pool::show(&pool, args.html.as_deref(), args.json);
    };
    let output = ModelOutput {
        file: Some(path),
        html: args.html.as_deref(),
        all_gates: args.gates,
        json: args.json,
    };
    super::fit::show(args.model.fit_pool(&pool, Some(path))?, &output)
}

/// Results read from parts.
#[derive(Default)]
struct MergedParts {
    /// With the part whose settings all others must have.
    pool: Option<(PathBuf, RecordingPool)>,
    collection: Option<PartialCollection>,
    /// Recordings, each as often as it came.
    read: usize,
    unread: usize,
}

impl MergedParts {
    fn recordings(&self) -> usize {
        self.pool.as_ref().map_or(0, |(_, pool)| pool.len())
    }

    /// Reads one part to its end; only one recording of it is held at a time.
    fn take(&mut self, part: &Path, collects: bool) -> Result<(), CliError> {
        let usage = failed(CliExitCode::Usage);
        let mut reader = PartialReader::open(part).map_err(usage)?;
        let settings = reader.settings().clone();
        let (first, pool) = self
            .pool
            .get_or_insert_with(|| (part.into(), RecordingPool::new(settings.clone())));
        check_settings(&settings, part, pool.settings(), first)?;
        if collects {
            let collection = self.collection.take();
            let mut collection = collection.unwrap_or_else(|| PartialCollection::new(settings));
            collection.begin_part(part);
            self.collection = Some(collection);
        }
        loop {
            let next = reader
                .next_recording()
                .map_err(failed(CliExitCode::Usage))?;
            let Some((summary, place)) = next else {
                return Ok(());
            };
            self.read += 1;
            if super::pool::add(pool, &summary)? == plimsoll_fit::PoolAddition::Counted {
                self.unread += usize::from(summary.unread.is_some());
            }
            if let Some(collection) = &mut self.collection {
                let added = collection.add(summary, Some(place));
                added.map_err(failed(CliExitCode::Failed))?;
            }
        }
    }
}

fn check_settings(
    found: &PoolSettings,
    part: &Path,
    expected: &PoolSettings,
    first: &Path,
) -> Result<(), CliError> {
    let Some(difference) = found.difference(expected) else {
        return Ok(());
    };
    let text = format!(
        "merge {} with {}: their settings differ: {difference}",
        part.display(),
        first.display()
    );
    Err(CliError::usage(text).hint("make all partial results with the same options"))
}

/// The parts, those of folders in the order of their names.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut parts = Vec::new();
    for path in given {
        if !path.exists() {
            let text = format!("there is no file or folder {}", path.display());
            return Err(CliError::invalid(text).hint(
                "a part is what plimsoll profile RECORDING --partial NAME.part writes; a folder is read whole",
            ));
        }
        if !path.is_dir() {
            parts.push(path.clone());
            continue;
        }
        let failed = |error| CliError::usage(format!("read {}: {error}", path.display()));
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file.extension().is_some_and(|end| end == "part") && file.is_file() {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            let text = format!("read {}: it has no file that ends in .part", path.display());
            return Err(CliError::usage(text)
                .hint("make them with plimsoll profile --partial FOLDER/NAME.part"));
        }
        inside.sort();
        parts.append(&mut inside);
    }
    if parts.len() > PARTS_MAX {
        let text = format!("merge more than {PARTS_MAX} parts at once");
        return Err(CliError::usage(text).hint("merge some of them with --partial first"));
    }
    Ok(parts)
}
