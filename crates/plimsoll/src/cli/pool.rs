// SPDX-License-Identifier: Apache-2.0
//! Many recordings: read one after the other into a pool, or into a partial result.

use super::monitoring::{RecordingPaths, fetched};
use plimsoll_archive::{PartialCollection, content_digest, name_digest};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::partial::{PoolSettings, RecordingSummary, STEP_DEFAULT_S};
use plimsoll_core::units::{self, Nanos};
use plimsoll_fit::{PoolAddition, RecordingPool};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of commands that read several recordings.
#[derive(Debug, clap::Args)]
pub(super) struct PoolArgs {
    /// Also read names of recordings from FILE, one per line (-: standard input).
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Several recordings: step of their load over time, from 1m to 1d (default: 10m).
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    step: Option<Nanos>,
    /// Several recordings: continue if one cannot be read; the result counts and names it.
    #[arg(long)]
    pub(super) skip_unreadable: bool,
}

/// Longest list of names: a million of a usual length.
const LIST_BYTES_MAX: u64 = 256 << 20;

impl PoolArgs {
    /// The recordings that were named, and those of the list.
    pub(super) fn recordings(&self, named: &[PathBuf]) -> Result<RecordingPaths, CliError> {
        let mut all = named.to_vec();
        let Some(list) = &self.list else {
            return fetched(all);
        };
        let failed = |what: &dyn std::fmt::Display| {
            CliError::usage(format!("read {}: {what}", list.display()))
        };
        let input: Box<dyn Read> = match list.as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(list).map_err(|error| failed(&error))?),
        };
        let mut text = Vec::new();
        let mut input = input.take(LIST_BYTES_MAX + 1);
        input
            .read_to_end(&mut text)
            .map_err(|error| failed(&error))?;
        if text.len() as u64 > LIST_BYTES_MAX {
            return Err(failed(&"it has more than 256 MiB of names"));
        }
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        all.extend(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))));
        match all.is_empty() {
            true => Err(failed(&"it names no recordings")),
            false => fetched(all),
        }
    }

    /// Settings that apply to every recording.
    pub(super) fn settings(
        &self,
        from: &Option<String>,
        to: &Option<String>,
        disk: &Option<String>,
    ) -> Result<PoolSettings, CliError> {
        let second = Nanos::SECOND.0;
        let step = self.step.unwrap_or(Nanos(STEP_DEFAULT_S * second));
        if !step.0.is_multiple_of(second) {
            let text = format!("invalid step of {step}: expected whole seconds");
            return Err(CliError::invalid(text));
        }
        let settings = PoolSettings {
            from: from.clone(),
            to: to.clone(),
            disk: disk.clone(),
            step_s: step.0 / second,
        };
        settings.check().map_err(CliError::invalid)?;
        Ok(settings)
    }

    /// One recording that is shown in full has its own intervals.
    pub(super) fn refuse_alone(&self) -> Result<(), CliError> {
        let given = [
            (self.step.is_some(), "--step"),
            (self.skip_unreadable, "--skip-unreadable"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => {
                let text = format!("{option} is for several recordings");
                Err(CliError::invalid(text).hint("leave it out, or give more recordings"))
            }
            None => Ok(()),
        }
    }
}

/// All recordings as a pool.
pub(super) fn read_all(
    recordings: &[PathBuf],
    settings: PoolSettings,
    skip: bool,
) -> Result<RecordingPool, CliError> {
    let mut pool = RecordingPool::new(settings);
    for path in recordings {
        let summary = summary(path, pool.settings(), skip)?;
        add(&mut pool, &summary)?;
    }
    say_known(recordings.len(), pool.len());
    Ok(pool)
}

/// All recordings as a partial result.
pub(super) fn write_partial(
    recordings: &[PathBuf],
    settings: &PoolSettings,
    skip: bool,
    path: &Path,
) -> CliResult {
    let mut collection = PartialCollection::new(settings.clone());
    let mut unread = 0;
    for recording in recordings {
        let summary = summary(recording, settings, skip)?;
        unread += usize::from(summary.unread.is_some());
        let added = collection.add(summary, None);
        added.map_err(failed(CliExitCode::Failed))?;
    }
    say_known(recordings.len(), collection.len());
    say_written(&collection, unread, path)
}

/// Writes a partial result, and says so.
pub(super) fn say_written(collection: &PartialCollection, unread: usize, path: &Path) -> CliResult {
    collection
        .write(path)
        .map_err(failed(CliExitCode::Failed))?;
    let without = match unread {
        0 => String::new(),
        unread => format!(" ({unread} of them could not be read)"),
    };
    terminal::print(&format!(
        "Written: {}, recordings: {}{without}",
        path.display(),
        collection.len()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Adds a recording to those that are known.
pub(super) fn add(
    pool: &mut RecordingPool,
    summary: &RecordingSummary,
) -> Result<PoolAddition, CliError> {
    pool.add(summary).map_err(failed(CliExitCode::Usage))
}

/// Shows what all recordings are together.
pub(super) fn show(pool: &RecordingPool, html: Option<&Path>, json: bool) -> CliResult {
    let profile = pool.finish().map_err(failed(CliExitCode::Usage))?;
    let report = plimsoll_report::pool(&profile);
    if let Some(path) = html {
        super::report::write_html(path, &report)?;
    }
    if json {
        terminal::print_json(&serde_json::to_value(&profile).expect("values are plain data"));
        return Ok(ExitCode::SUCCESS);
    }
    let text = plimsoll_report::terminal(&report, terminal::width(), terminal::colour(), false);
    terminal::print_coloured(&text);
    if let Some(path) = html {
        terminal::print(&format!("Written: {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Recordings that came more than once.
pub(super) fn say_known(given: usize, counted: usize) {
    let again = given.saturating_sub(counted);
    if again > 0 {
        terminal::say(&format!(
            "note: {} more than once, by SHA-256, and counted once",
            match again {
                1 => "1 recording was given".into(),
                again => format!("{again} recordings were given"),
            }
        ));
    }
}

/// Summary that is kept of a recording.
fn summary(path: &Path, settings: &PoolSettings, skip: bool) -> Result<RecordingSummary, CliError> {
    let read = || {
        let recording = plimsoll_trace::open(path)?;
        plimsoll_fit::summarise(path, recording, settings)
    };
    let found = read();
    let files = plimsoll_trace::files(path).unwrap_or_default();
    let digest = match files.is_empty() {
        // There is nothing but its name.
        true => Ok(name_digest(&path.display().to_string())),
        false => content_digest(&files),
    };
    match found {
        Ok(summary) => Ok(RecordingSummary {
            sha256: digest.map_err(failed(CliExitCode::Usage))?,
            ..summary
        }),
        Err(error) if skip => {
            let error = CliError::usage(error);
            terminal::say(&format!(
                "note: {} is left out: {}",
                path.display(),
                error.text()
            ));
            let mut summary = RecordingSummary {
                sha256: digest.unwrap_or_else(|_| name_digest(&path.display().to_string())),
                name: path.display().to_string(),
                unread: Some(error.text()),
                ..RecordingSummary::default()
            };
            summary.shorten();
            Ok(summary)
        }
        Err(error) => {
            Err(CliError::usage(error).hint("--skip-unreadable goes on without such a recording"))
        }
    }
}
