// SPDX-License-Identifier: Apache-2.0
//! Runs: the list of them, and those in use, which are kept open and up to date.
//!
//! Invariant: a run is a folder right below the one that is served, never a link; at most [`OPEN_MAX`] runs
//! and [`ROWS_OPEN_MAX`] seconds are held, but for the one that was asked for last.

use crate::board::{ROWS_MAX, RunBoard, RunNews};
use crate::error::RequestError;
use crate::seen::{SeenRun, is_run_name, no_run};
use crate::sync::{NewsRing, locked};
use plimsoll_archive::{ArchiveError, RunFolderFollower};
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::event::{RunFolderContents, RunManifest};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::text::{printable, shell_word};
use plimsoll_report::ReportDocument;
use serde::{Deserialize, Serialize};
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
/// Runs on a page of the list.
const PAGE_RUNS: usize = 100;
/// Bytes of a look into a run folder, and the pause where there was nothing new.
const LOOK_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(200);
/// News that are kept for who listens.
const NEWS_KEPT: usize = 2048;
/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunState {
    Running,
    Complete,
    Stopped,
}

/// The first part of the answer of a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AnswerFacts {
    tone: String,
    text: String,
    detail: String,
}

impl AnswerFacts {
    /// The sentence that a report begins with, if it has one, and what it is sure of.
    pub(crate) fn of(report: &ReportDocument) -> Option<AnswerFacts> {
        let answer = &report.answer;
        let details = answer.facts.iter();
        let details: Vec<String> = details
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        (!answer.text.is_empty()).then(|| AnswerFacts {
            tone: format!("{:?}", answer.tone).to_lowercase(),
            text: answer.text.clone(),
            detail: details.join(" · "),
        })
    }
}

/// A run in a list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunFacts {
    pub(crate) id: String,
    title: String,
    subtitle: String,
    pub(crate) began_at: String,
    pub(crate) state: RunState,
    command: String,
    pub(crate) answer: Option<AnswerFacts>,
}

/// Which part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(crate) struct RunListQuery {
    /// Words that all are in a run's name, title, state or answer.
    #[serde(default)]
    find: String,
    /// Pages before this one.
    #[serde(default)]
    page: usize,
}

impl RunListQuery {
    fn finds(&self, run: &RunFacts) -> bool {
        let answer = run.answer.as_ref().map_or("", |answer| &answer.text);
        let state = format!("{:?}", run.state);
        let text = [
            &run.id,
            &run.title,
            &run.subtitle,
            &run.began_at,
            state.as_str(),
            answer,
        ];
        let text = text.join(" ").to_lowercase();
        let mut words = self.find.split_whitespace();
        words.all(|word| text.contains(&word.to_lowercase()))
    }
}

/// A page of the list of runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunListFacts {
    pub(crate) runs: Vec<RunFacts>,
    /// Runs on all pages.
    pub(crate) count: usize,
    pub(crate) pages: usize,
}

/// The same before answers are filled in.
#[derive(Debug)]
pub(crate) struct ListedPage {
    pub(crate) runs: Vec<ListedRun>,
    pub(crate) count: usize,
}

impl ListedPage {
    pub(crate) fn facts(self) -> RunListFacts {
        RunListFacts {
            runs: self.runs.into_iter().map(|listed| listed.facts).collect(),
            count: self.count,
            pages: self.count.div_ceil(PAGE_RUNS),
        }
    }
}

/// A run in a list, and whether what its report says is still to be found out.
#[derive(Debug)]
pub(crate) struct ListedRun {
    pub(crate) run: SeenRun,
    pub(crate) facts: RunFacts,
    pub(crate) lacks_answer: bool,
}

/// The answer of a report when its events had this many bytes.
#[derive(Debug, Clone)]
struct KnownAnswer {
    /// None where the run went on.
    events_bytes: Option<u64>,
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
    /// Whether everything was read and no program writes it any more.
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

fn unreadable(error: &ArchiveError) -> RequestError {
    RequestError::failed(error)
}

impl RunStore {
    pub(crate) fn of(folder: PathBuf) -> RunStore {
        RunStore {
            folder,
            open: Mutex::default(),
            manifests: Mutex::default(),
            answers: Mutex::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a run.
    pub(crate) fn find(&self, id: &str) -> Result<PathBuf, RequestError> {
        let path = self.folder.join(id);
        match is_run_name(id) && plimsoll_archive::holds_run(&path) {
            true => Ok(path),
            false => Err(no_run(id)),
        }
    }

    /// The names of all runs, newest first: names begin with the time.
    pub(crate) fn ids(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> = names.filter(|id| self.find(id).is_ok()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }

    /// The names of the runs that go on.
    pub(crate) fn running(&self) -> Vec<String> {
        let goes_on = |id: &String| {
            plimsoll_archive::is_being_written(&self.folder.join(id)).unwrap_or(false)
        };
        self.ids().into_iter().filter(goes_on).collect()
    }

    /// A page of the runs that may be seen, newest first. Of the other pages
    /// only manifests are read, each once, unless words are to be found.
    pub(crate) fn page(
        &self,
        seen: impl Fn(&str) -> Option<SeenRun>,
        query: &RunListQuery,
    ) -> ListedPage {
        let mut all: Vec<(String, SeenRun)> = Vec::new();
        for run in self.ids().iter().filter_map(|id| seen(id)) {
            let Ok(manifest) = self.manifest(run.id(), &self.folder.join(run.id())) else {
                continue;
            };
            all.push((manifest.began_at, run));
        }
        if !query.find.trim().is_empty() {
            all.retain(|(_, run)| {
                self.facts(run)
                    .is_ok_and(|listed| query.finds(&listed.facts))
            });
        }
        all.sort_by(|(a, _), (b, _)| b.cmp(a));
        let count = all.len();
        let page = all.into_iter().skip(query.page.saturating_mul(PAGE_RUNS));
        let runs = page.take(PAGE_RUNS);
        let runs = runs.filter_map(|(_, run)| self.facts(&run).ok()).collect();
        ListedPage { runs, count }
    }

    /// Whether a process has its folder.
    pub(crate) fn is_being_written(&self, run: &SeenRun) -> Result<bool, RequestError> {
        let folder = self.find(run.id())?;
        Ok(plimsoll_archive::is_being_written(&folder).unwrap_or(false))
    }

    /// A run as a list shows it.
    pub(crate) fn facts(&self, run: &SeenRun) -> Result<ListedRun, RequestError> {
        let id = run.id();
        let folder = self.find(id)?;
        let manifest = self.manifest(id, &folder)?;
        let is_running = self.is_being_written(run)?;
        let bytes = plimsoll_archive::events_bytes(&folder);
        let known = locked(&self.answers).get(id).cloned();
        // The answer of a run that goes on is as old as the last look at it.
        let is_fresh = |known: &KnownAnswer| known.events_bytes == Some(bytes) || is_running;
        let known = known.filter(is_fresh);
        let is_complete = !is_running && plimsoll_archive::has_completed(&folder, manifest.format);
        Ok(ListedRun {
            run: run.clone(),
            lacks_answer: known.is_none() && !is_running,
            facts: RunFacts {
                id: id.to_owned(),
                title: manifest.title,
                subtitle: manifest.subtitle,
                began_at: manifest.began_at,
                state: match (is_running, is_complete) {
                    (true, _) => RunState::Running,
                    (false, true) => RunState::Complete,
                    (false, false) => RunState::Stopped,
                },
                command: manifest.command,
                answer: known.and_then(|known| known.answer),
            },
        })
    }

    fn manifest(&self, id: &str, folder: &Path) -> Result<KnownManifest, RequestError> {
        if let Some(known) = locked(&self.manifests).get(id) {
            return Ok(known.clone());
        }
        let manifest = plimsoll_archive::manifest(folder).map_err(|error| unreadable(&error))?;
        let known = known_manifest(manifest);
        locked(&self.manifests).insert(id.to_owned(), known.clone());
        Ok(known)
    }

    /// The answer of a run's report, if it is known.
    pub(crate) fn known_answer(&self, run: &SeenRun) -> Option<AnswerFacts> {
        locked(&self.answers).get(run.id())?.answer.clone()
    }

    /// Keeps what a report says, for lists.
    pub(crate) fn remember(
        &self,
        run: &SeenRun,
        events_bytes: Option<u64>,
        answer: Option<AnswerFacts>,
    ) {
        let known = KnownAnswer {
            events_bytes,
            answer,
        };
        locked(&self.answers).insert(run.id().to_owned(), known);
    }

    /// None while the run goes on: its last event is written before it ends, and what is drawn between
    /// both is interim.
    pub(crate) fn events_bytes(&self, run: &SeenRun) -> Option<u64> {
        let folder = self.folder.join(run.id());
        let goes_on = plimsoll_archive::is_being_written(&folder).unwrap_or(false);
        (!goes_on).then(|| plimsoll_archive::events_bytes(&folder))
    }

    /// The campaign that a run carries out; `None` of older versions.
    pub(crate) fn campaign(&self, run: &SeenRun) -> Result<Option<CampaignSpec>, RequestError> {
        let folder = self.find(run.id())?;
        let manifest = plimsoll_archive::manifest(&folder).map_err(|error| unreadable(&error))?;
        Ok(manifest.campaign)
    }

    /// The run, held open and kept up to date from now on.
    pub(crate) async fn open(
        self: &Arc<Self>,
        run: &SeenRun,
    ) -> Result<Arc<OpenRun>, RequestError> {
        let id = run.id();
        let folder = self.find(id)?;
        if let Some(open) = self.held(id, &folder) {
            return Ok(open);
        }
        let of = folder.clone();
        let follower = tokio::task::spawn_blocking(move || RunFolderFollower::open(&of)).await;
        let follower = follower
            .map_err(RequestError::failed)?
            .map_err(|error| unreadable(&error))?;
        let run = Arc::new(OpenRun {
            folder,
            board: Mutex::new(RunBoard::new(follower.manifest().clone())),
            news: NewsRing::keeping(NEWS_KEPT),
            read: 0.into(),
            has_ended: false.into(),
            used_at: Mutex::new(Instant::now()),
        });
        let mut open = locked(&self.open);
        // Two may have asked at once.
        if let Some(first) = open.get(id) {
            return Ok(Arc::clone(first));
        }
        open.insert(id.to_owned(), Arc::clone(&run));
        drop_unused(&mut open, id);
        drop(open);
        tokio::spawn(follow(follower, Arc::downgrade(&run)));
        Ok(run)
    }

    /// The run where it is held and nothing was written since it ended.
    fn held(&self, id: &str, folder: &Path) -> Option<Arc<OpenRun>> {
        let mut open = locked(&self.open);
        let run = Arc::clone(open.get(id)?);
        *locked(&run.used_at) = Instant::now();
        if run.has_ended() && plimsoll_archive::is_being_written(folder).unwrap_or(false) {
            open.remove(id);
            return None;
        }
        Some(run)
    }
}

/// Closes the runs that were not used for longest, down to what may be held.
fn drop_unused(open: &mut BTreeMap<String, Arc<OpenRun>>, newest: &str) {
    loop {
        let rows: usize = open.values().map(|run| locked(&run.board).rows()).sum();
        if open.len() <= OPEN_MAX && rows <= ROWS_OPEN_MAX {
            return;
        }
        let others = open.iter().filter(|(id, _)| *id != newest);
        let oldest = others.min_by_key(|(_, run)| *locked(&run.used_at));
        let Some(id) = oldest.map(|(id, _)| id.clone()) else {
            return;
        };
        open.remove(&id);
    }
}

/// Reads a run to its end, and on while it is written and kept open.
async fn follow(mut follower: RunFolderFollower, run: std::sync::Weak<OpenRun>) {
    // News of what happened before anybody looked are no news.
    let mut is_live = false;
    loop {
        let Some(of) = run.upgrade() else { return };
        let looked = tokio::task::spawn_blocking(move || {
            // Asked before the look: what was written before the lock went is then read by it.
            let goes_on = plimsoll_archive::is_being_written(&of.folder).unwrap_or(false);
            let is_new = take(&mut follower, &of, is_live);
            (follower, of, goes_on, is_new)
        });
        let Ok((back, of, goes_on, is_new)) = looked.await else {
            return;
        };
        follower = back;
        if !is_new {
            is_live = true;
            if !goes_on {
                of.has_ended.store(true, Ordering::Relaxed);
                of.news.close();
                return;
            }
            drop(of);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Looks once; whether something was there.
fn take(follower: &mut RunFolderFollower, run: &OpenRun, is_live: bool) -> bool {
    let looked = follower.look(LOOK_BYTES);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a thousand"
    )]
    let read = (follower.share_read() * 1000.0) as u32;
    let news = match looked {
        Ok(Some(events)) => {
            let mut news = Vec::new();
            for event in events {
                let mut board = locked(&run.board);
                news.extend(board.add(event));
            }
            news
        }
        Ok(None) => {
            run.read.store(1000, Ordering::Relaxed);
            return false;
        }
        Err(error) => {
            let text = printable(&error.to_string());
            run.news.push(RunNews::Note { text });
            return false;
        }
    };
    run.read.store(read, Ordering::Relaxed);
    if is_live {
        news.into_iter().for_each(|one| run.news.push(one));
    }
    true
}

/// A manifest as a list shows it. A report without trials has its title already.
fn known_manifest(mut manifest: RunManifest) -> KnownManifest {
    // A manifest may name any number of blocks, and titles do not depend on it.
    manifest.blocks = manifest.blocks.min(1);
    let format = manifest.format;
    let (began_at, command) = (manifest.began_at.clone(), command_line(&manifest.command));
    // The report's own also has the time, which the list shows in another place.
    let labels = manifest.entries.iter().map(|entry| entry.label.as_str());
    let labels = labels.collect::<Vec<_>>().join(", ");
    let subtitle = format!("{labels} · {}", manifest.machine.host);
    let report = plimsoll_report::build(&RunFolderContents {
        manifest,
        trials: Vec::new(),
        intervals: BTreeMap::new(),
        warnings: Vec::new(),
        comparisons: Vec::new(),
        complete: false,
        files: Vec::new(),
    });
    KnownManifest {
        format,
        title: report.title,
        subtitle,
        began_at,
        command,
    }
}

/// A command as one would type it: words that a shell would take apart or change are quoted.
pub(crate) fn command_line(words: &[String]) -> String {
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
    fn commands_are_shown_as_they_are_typed() {
        let words = ["/usr/bin/plimsoll", "compare", "sim(a=1)", "it's", ""].map(String::from);
        assert_eq!(
            command_line(&words),
            "plimsoll compare 'sim(a=1)' 'it'\\''s' ''"
        );
    }
}
