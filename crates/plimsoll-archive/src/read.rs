// SPDX-License-Identifier: Apache-2.0
//! Reading a run folder, whole or cut off.

use crate::{ArchiveError, EVENTS, MANIFEST, io_error};
use plimsoll_core::event::{Manifest, Results, RunEvent, Warning};
use plimsoll_core::format::FormatVersion;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line read: a second of every kind of operation is below 1 MiB.
const LINE_MAX_BYTES: u64 = 64 << 20;
/// Largest manifest read: a model of ten million intervals.
const MANIFEST_MAX_BYTES: u64 = 1 << 30;

/// Reads the run in `folder`. A run that was cut off is returned as far as it got; a damaged line
/// ends the reading with a warning.
///
/// # Errors
/// When it is no run folder, was written in a newer format, or its manifest is damaged.
pub fn open(folder: &Path) -> Result<Results, ArchiveError> {
    let mut results = Results {
        manifest: manifest(folder)?,
        trials: Vec::new(),
        intervals: BTreeMap::new(),
        warnings: Vec::new(),
        comparisons: Vec::new(),
        complete: false,
    };
    let path = folder.join(EVENTS);
    let mut lines = BufReader::new(File::open(&path).map_err(io_error("read", &path))?);
    // Bounded by the file: every turn consumes a line or ends.
    for number in 1u64.. {
        let mut line = Vec::new();
        let taken = lines
            .by_ref()
            .take(LINE_MAX_BYTES)
            .read_until(b'\n', &mut line);
        if taken.map_err(io_error("read", &path))? == 0 {
            break;
        }
        match serde_json::from_slice::<RunEvent>(&line) {
            Ok(event) => add(&mut results, event),
            // A torn last line is what a crash leaves: everything before it stands.
            Err(_) if line.last() != Some(&b'\n') => break,
            Err(error) => {
                let text =
                    format!("{EVENTS} is damaged at line {number} ({error}); the rest is lost");
                results.warnings.push(Warning {
                    about: String::new(),
                    text,
                });
                break;
            }
        }
    }
    Ok(results)
}

fn add(results: &mut Results, event: RunEvent) {
    match event {
        RunEvent::TrialBegan(trial) => {
            results.intervals.entry(trial.place).or_default();
        }
        RunEvent::Prepared { .. } => {}
        RunEvent::Interval { place, interval } => {
            results.intervals.entry(place).or_default().push(interval);
        }
        RunEvent::TrialEnded(result) => results.trials.push(*result),
        RunEvent::Warning(warning) => results.warnings.push(warning),
        RunEvent::Finished {
            interrupted,
            comparisons,
        } => {
            results.complete = !interrupted;
            results.comparisons = comparisons;
        }
    }
}

fn manifest(folder: &Path) -> Result<Manifest, ArchiveError> {
    let path = folder.join(MANIFEST);
    let size = match fs::metadata(&path) {
        Ok(facts) => facts.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ArchiveError::NotARun(folder.into()));
        }
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let damaged = |reason: String| ArchiveError::Damaged {
        path: path.clone(),
        reason,
    };
    if size > MANIFEST_MAX_BYTES {
        return Err(damaged(format!(
            "it has {size} bytes, more than any manifest"
        )));
    }
    let text = fs::read(&path).map_err(io_error("read", &path))?;
    // The version first: a newer manifest may have fields that this program does not know.
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
    let version = value.get("format").cloned().unwrap_or_default();
    let found: FormatVersion =
        serde_json::from_value(version).map_err(|e| damaged(e.to_string()))?;
    if !FormatVersion::RUN.reads(found) {
        return Err(ArchiveError::Newer {
            path: folder.into(),
            found,
        });
    }
    serde_json::from_value(value).map_err(|e| damaged(e.to_string()))
}
