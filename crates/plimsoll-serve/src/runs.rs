// SPDX-License-Identifier: Apache-2.0
//! Runs: which there are, and those that somebody looks at, kept open and up to date.
//!
//! Invariant: a run is a folder right below the one that is served, never a link; at most [`OPEN_MAX`] runs
//! and [`ROWS_OPEN_MAX`] seconds are held, but for the one that was asked for last.

use crate::board::{ROWS_MAX, RunBoard, RunNews};
use crate::error::RequestError;
use crate::sync::{NewsRing, locked};
use plimsoll_archive::{ArchiveError, RunFolderFollower};
use plimsoll_core::event::{RunFolderContents, RunManifest};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::text::{printable, shell_word};
use plimsoll_report::ReportDocument;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Most runs that are held open.
const OPEN_MAX: usize = 24;
/// Most seconds of all of them.
const ROWS_OPEN_MAX: usize = 2 * ROWS_MAX;
/// Most runs in a list.
const LISTED_MAX: usize = 500;
/// Bytes of a look into a run folder, and the pause where there was nothing new.
const LOOK_BYTES: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(200);
/// News that are kept for who listens.
const NEWS_KEPT: usize = 2048;
/// Time for answers that a list needs and nobody asked for before; the rest comes with the next list.
const ANSWERS_TIME: Duration = Duration::from_millis(400);

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunState {
    Running,
    Complete,
    Stopped,
}

/// The first part of the answer of a report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AnswerFacts {
    mark: String,
    tone: String,
    text: String,
    detail: String,
}

impl AnswerFacts {
    /// The sentence that a report begins with, if it has one, and what it is sure of.
    fn of(report: &ReportDocument) -> Option<AnswerFacts> {
        let answer = &report.answer;
        let details = answer.facts.iter();
        let details: Vec<String> = details
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        (!answer.text.is_empty()).then(|| AnswerFacts {
            mark: report
                .headline
                .first()
                .map_or_else(String::new, |first| first.mark.clone()),
            tone: format!("{:?}", answer.tone).to_lowercase(),
            text: answer.text.clone(),
            detail: details.join(" · "),
        })
    }
}

/// A run in a list.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunFacts {
    pub(crate) id: String,
    title: String,
    subtitle: String,
    pub(crate) began_at: String,
    pub(crate) state: RunState,
    command: String,
    answer: Option<AnswerFacts>,
}

/// What a report says of a run as it was when its events had so many bytes.
#[derive(Debug, Clone)]
struct KnownAnswer {
    events_bytes: u64,
    answer: Option<AnswerFacts>,
}

/// A manifest, in short.
#[derive(Debug, Clone)]
struct KnownManifest {
    format: FormatVersion,
    title: String,
    subtitle: String,
    began_at: String,
    command: String,
}

/// A run that is held open.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub(crate) folder: PathBuf,
    pub(crate) board: Mutex<RunBoard>,
    pub(crate) news: NewsRing<RunNews>,
    /// Thousandths of the events that were read.
    read: std::sync::atomic::AtomicU32,
    /// Whether everything was read and nobody writes any more.
    has_ended: AtomicBool,
    used_at: Mutex<Instant>,
}

impl OpenRun {
    /// The share of what is there that was read.
    pub(crate) fn share_read(&self) -> f64 {
        f64::from(self.read.load(Ordering::Relaxed)) / 1000.0
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// All runs of the served folder.
#[derive(Debug)]
pub(crate) struct RunStore {
    folder: PathBuf,
    open: Mutex<BTreeMap<String, Arc<OpenRun>>>,
    manifests: Mutex<BTreeMap<String, KnownManifest>>,
    answers: Mutex<BTreeMap<String, KnownAnswer>>,
}

/// A name that leads nowhere else.
pub(crate) fn is_run_name(id: &str) -> bool {
    let mut words = words.iter();
    // However the program was started, this is its name.
    let program = words.next().map(|_| "plimsoll".to_owned());
    let all: Vec<String> = program
        .into_iter()
        .chain(words.map(|word| shell_word(word)))
        .collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_lead_nowhere_else() {
        for good in ["20260101-120000-4711", "monday", "a.b_c"] {
            assert!(is_run_name(good), "{good}");
        }
        for bad in [
            "", ".", "..", "../x", "a/b", "-o", ".hidden", "a\0b", "ä", "a b",
        ] {
            assert!(!is_run_name(bad), "{bad}");
        }
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        let words = ["/usr/bin/plimsoll", "compare", "sim(a=1)", "it's", ""].map(String::from);
        assert_eq!(
            command_line(&words),
            "plimsoll compare 'sim(a=1)' 'it'\\''s' ''"
        );
    }
}
