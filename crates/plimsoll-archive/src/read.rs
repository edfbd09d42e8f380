// SPDX-License-Identifier: Apache-2.0
//! Reading a run folder, whole or cut off.

use crate::bounds::{RunBounds, check_interval, check_numbers};
use crate::digest::FileDigester;
use crate::error::{ArchiveError, io_error};
use crate::layout::{EVENTS, MANIFEST, read_own};
use crate::left_out::LeftOutTrials;
use crate::sealed::{CHECKSUM, NONE_BEFORE, SealChain, UnsealResult, unseal};
use crate::strip::TrialDownsampler;
use plimsoll_core::event::{
    PHASES_MAX, RunEvent, RunFileDigest, RunFolderContents, RunManifest, RunWarning,
};
use plimsoll_core::format::FormatVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line read, in bytes: a second of every kind of operation is below 1 MiB, the result of a
/// series with many phases some megabytes.
const LINE_MAX: usize = 64 << 20;
/// Largest manifest read: a model of ten million intervals.
const MANIFEST_MAX_BYTES: u64 = 1 << 30;

/// Damaged lines that are named; the others are counted.
const DAMAGED_SHOWN: u64 = 3;

/// Reads the run in `folder`. A run that was cut off is returned as far as it got. Lines that are
/// damaged are left out with a warning; all others stand.
///
/// # Errors
/// When it is no run folder, was written in a newer format, or its manifest is damaged.
pub fn open(folder: &Path) -> Result<RunFolderContents, ArchiveError> {
    read(folder, TrialDownsampler::new())
}

/// The same with every second of every trial, for tables of them: it takes as much memory as the folder has
/// bytes.
///
/// # Errors
/// As [`open`].
pub fn open_whole(folder: &Path) -> Result<RunFolderContents, ArchiveError> {
    read(folder, TrialDownsampler::whole())
}

fn read(folder: &Path, mut strips: TrialDownsampler) -> Result<RunFolderContents, ArchiveError> {
    let mut files = Vec::new();
    let (manifest, mut reader) = begin(folder, &mut files)?;
    let mut results = RunFolderContents {
        manifest,
        trials: Vec::new(),
        intervals: BTreeMap::new(),
        warnings: Vec::new(),
        comparisons: Vec::new(),
        complete: false,
        files,
    };
    let path = folder.join(EVENTS);
    let file = read_own(&path).map_err(io_error("read", &path))?;
    let mut lines = BufReader::new(FileDigester::new(file));
    let mut damaged = 0;
    // Bounded by the file: every turn consumes a line or ends.
    for number in 1u64.. {
        let line = next_line(&mut lines).map_err(io_error("read", &path))?;
        if line.is_empty() {
            break;
        }
        match reader.event(&line) {
            Ok(Some(event)) => add(&mut results, &mut strips, event),
            Ok(None) => {}
            // A torn last line is what a crash leaves: everything before it stands.
            Err(_) if line.last() != Some(&b'\n') && line.len() < LINE_MAX => break,
            Err(reason) => {
                damaged += 1;
                if damaged <= DAMAGED_SHOWN {
                    results.warnings.push(left_out(number, &reason));
                }
            }
        }
    }
    if let Some(more) = damaged.checked_sub(DAMAGED_SHOWN).filter(|more| *more > 0) {
        let text = format!("{EVENTS} has {more} more damaged lines; what they held is lost");
        results.warnings.push(whole_run(text));
    }
    results.warnings.extend(reader.left_out.warning());
    results.intervals = strips.into_steps();
    results.files.push(lines.into_inner().finish(EVENTS));
    Ok(results)
}

/// The next line with its end; empty at the end of the file. Of one that is too long the first bytes
/// are returned, and the rest is passed over.
fn next_line(lines: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    lines
        .by_ref()
        .take(LINE_MAX as u64)
        .read_until(b'\n', &mut line)?;
    if line.len() == LINE_MAX && line.last() != Some(&b'\n') {
        lines.skip_until(b'\n')?;
    }
    Ok(line)
}

/// Reads the lines of events of one run, each in its place: up to format 2.7 a line had a checksum of its
/// own, and one that was there twice, elsewhere or of another run counted.
#[derive(Debug)]
pub(crate) struct EventLineReader {
    format: FormatVersion,
    bounds: RunBounds,
    left_out: LeftOutTrials,
    /// The checksums before the next line; none where each has its own.
    before: SealChain,
    /// Those of the lines until there.
    seen: BTreeSet<u32>,
}

impl EventLineReader {
    /// The event of a line, `None` where it belongs to what is left out; why there is none.
    pub(crate) fn event(&mut self, line: &[u8]) -> Result<Option<RunEvent>, String> {
        let (event, behind) = event(line, self.format, self.before);
        // A line whose checksum was there before is one of before: it moves nothing.
        let [written, meant] = behind;
        let is_new = written == meant || !self.seen.contains(&written);
        if self.is_chained() && is_new {
            self.seen.insert(written);
            self.before = behind;
        }
        let event = event?;
        self.bounds.check(&event)?;
        Ok(self.left_out.rest_of(event))
    }

    /// The checksum that the line behind this one goes on from, or the first line; `None` where each has its
    /// own.
    pub(crate) fn sum_behind(&self, line: Option<&[u8]>) -> Option<u32> {
        let behind = line.map_or(self.before, |line| unseal(line, self.before).1);
        self.is_chained().then_some(behind[0])
    }

    fn is_chained(&self) -> bool {
        self.format >= FormatVersion::RUN_WITH_CHAIN
    }
}

/// The event of a line of a run of this format, behind these checksums, whatever the run planned, or why
/// there is none; and the checksums behind it.
pub(crate) fn event(
    line: &[u8],
    format: FormatVersion,
    before: SealChain,
) -> (Result<RunEvent, String>, SealChain) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let (unsealed, behind) = unseal(text, before);
    (read_event(text, format, unsealed), behind)
}

fn read_event(
    text: &[u8],
    format: FormatVersion,
    unsealed: UnsealResult,
) -> Result<RunEvent, String> {
    let object = match unsealed {
        UnsealResult::Intact(object) => object,
        UnsealResult::Bare if format < FormatVersion::RUN_WITH_CHECKSUMS => text.to_vec(),
        UnsealResult::Bare => return Err("it has no checksum".into()),
        UnsealResult::Damaged if format < FormatVersion::RUN_WITH_CHAIN => {
            return Err("its checksum does not match".into());
        }
        UnsealResult::Damaged => {
            return Err(
                "its checksum does not match: it was changed, or the line before it".into(),
            );
        }
    };
    let event = serde_json::from_slice(&object).map_err(|error| error.to_string())?;
    match &event {
        // There are millions of them, with numbers of few kinds.
        RunEvent::Interval { interval, .. } => check_interval(interval)?,
        _ => check_numbers(&object)?,
    }
    if let RunEvent::TrialEnded(result) = &event
        && result.phases.len() > PHASES_MAX
    {
        return Err(format!("a trial with more than {PHASES_MAX} phases"));
    }
    Ok(event)
}

fn left_out(number: u64, reason: &str) -> RunWarning {
    whole_run(format!(
        "{EVENTS} is damaged at line {number} ({reason}); what this line held is lost"
    ))
}

fn whole_run(text: String) -> RunWarning {
    RunWarning {
        about: String::new(),
        text,
    }
}

fn add(results: &mut RunFolderContents, strips: &mut TrialDownsampler, event: RunEvent) {
    match event {
        RunEvent::ConditioningBegan(_) => {}
        RunEvent::Conditioned(done) => results.manifest.condition(done),
        RunEvent::TrialBegan(trial) => strips.begin(trial.place),
        RunEvent::Prepared { .. } => {}
        RunEvent::Interval { place, interval } => strips.push(place, &interval),
        RunEvent::TrialEnded(result) => results.trials.push(*result),
        RunEvent::Warning(warning) => results.warnings.push(warning),
        RunEvent::Designed(found) => results.manifest.adopt(found),
        RunEvent::BlocksEnded(ended) => results.manifest.end(ended),
        RunEvent::Finished {
            interrupted,
            comparisons,
        } => {
            results.complete = !interrupted;
            results.comparisons = comparisons;
        }
    }
}

/// The manifest of the run in `folder`.
///
/// # Errors
/// When it is no run folder, was written in a newer format, or its manifest is damaged.
pub fn manifest(folder: &Path) -> Result<RunManifest, ArchiveError> {
    begin(folder, &mut Vec::new()).map(|(manifest, _)| manifest)
}

/// The same, with what its file was and what reads the events.
pub(crate) fn begin(
    folder: &Path,
    files: &mut Vec<RunFileDigest>,
) -> Result<(RunManifest, EventLineReader), ArchiveError> {
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
    let file = read_own(&path).map_err(io_error("read", &path))?;
    let (mut file, mut text) = (FileDigester::new(file), Vec::new());
    file.read_to_end(&mut text)
        .map_err(io_error("read", &path))?;
    files.push(file.finish(MANIFEST));
    let text = text.trim_ascii_end();
    let (unsealed, behind) = unseal(text, NONE_BEFORE);
    let numbers = check_numbers(text);
    // The version first: a newer manifest may have fields that this program does not know.
    let mut value: serde_json::Value =
        serde_json::from_slice(text).map_err(|e| damaged(e.to_string()))?;
    let version = value.get("format").cloned().unwrap_or_default();
    let found: FormatVersion =
        serde_json::from_value(version).map_err(|e| damaged(e.to_string()))?;
    if !FormatVersion::RUN.reads(found) {
        return Err(ArchiveError::Newer {
            path: folder.into(),
            found,
        });
    }
    let must_be = found >= FormatVersion::RUN_WITH_CHECKSUMS;
    match unsealed {
        UnsealResult::Intact(_) => {}
        UnsealResult::Bare if !must_be => {}
        UnsealResult::Bare => return Err(damaged("it is damaged: it has no checksum".into())),
        UnsealResult::Damaged => {
            return Err(damaged("it is damaged: its checksum does not match".into()));
        }
    }
    numbers.map_err(damaged)?;
    if let Some(object) = value.as_object_mut() {
        object.remove(CHECKSUM);
    }
    let left_out = LeftOutTrials::take(&mut value);
    let manifest: RunManifest =
        serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
    let reader = EventLineReader {
        format: manifest.format,
        seen: BTreeSet::new(),
        before: match manifest.format >= FormatVersion::RUN_WITH_CHAIN {
            true => behind,
            false => NONE_BEFORE,
        },
        bounds: RunBounds::of(&manifest, left_out.workloads()).map_err(damaged)?,
        left_out,
    };
    Ok((manifest, reader))
}
