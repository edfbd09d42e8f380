// SPDX-License-Identifier: Apache-2.0
//! Pieces drawn of run folders, and the process that draws one: it reads folders that others made, so its
//! time and memory are limited, and it ends with the server.

use crate::runs::AnswerFacts;
use crate::seen::SeenRun;
use plimsoll_archive::ArchiveError;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::RunFolderContents;
use plimsoll_history::RunFigures;
use plimsoll_report::{ReportDocument, ReportExportFormat, ReportPagePart};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;

/// Most time on a processor, in seconds.
const CPU_S: u64 = 30;
/// Most memory: a report takes at most 16 times the bytes of its folder.
const MEMORY: u64 = 4 << 30;
/// Most bytes of a request.
const REQUEST_MAX: u64 = 64 << 10;

/// A kind of drawing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum DrawnKind {
    /// The sentence that a report begins with.
    Answer,
    /// The page of a report.
    Report,
    /// The same in parts.
    Sections,
    /// A file in this format.
    Export(String),
    /// Two runs held against each other.
    Diff,
    /// The figures that the history keeps of a run, for a reference.
    Figures(Option<String>),
}

/// A drawing of some folders below the one that is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct DrawnPiece {
    pub(super) kind: DrawnKind,
    folders: Vec<String>,
}

impl DrawnPiece {
    pub(crate) fn of_run(kind: DrawnKind, run: &SeenRun) -> DrawnPiece {
        DrawnPiece {
            kind,
            folders: vec![run.id().to_owned()],
        }
    }

    pub(crate) fn diff(base: &SeenRun, with: &SeenRun) -> DrawnPiece {
        DrawnPiece {
            kind: DrawnKind::Diff,
            folders: vec![base.id().to_owned(), with.id().to_owned()],
        }
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &String> {
        self.folders.iter()
    }

    /// The figures of a folder that is being added to the history.
    pub(crate) fn figures(folder: &str, reference: Option<&str>) -> DrawnPiece {
        DrawnPiece {
            kind: DrawnKind::Figures(reference.map(str::to_owned)),
            folders: vec![folder.to_owned()],
        }
    }
}

/// A piece of a report: its answer, and the piece.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DrawnReport {
    pub(crate) answer: Option<AnswerFacts>,
    pub(crate) page: String,
    pub(crate) parts: Vec<RunSectionFacts>,
}

/// A section of a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSectionFacts {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) html: String,
}

/// Draws what the server asks for on standard input, with the folder that it serves as working directory.
///
/// # Errors
/// Why it cannot be drawn, as a sentence.
pub fn draw_for_server(asked: impl Read) -> Result<Vec<u8>, String> {
    limit().map_err(|error| format!("failed to limit this process: {error}"))?;
    let mut text = Vec::new();
    let read = asked.take(REQUEST_MAX).read_to_end(&mut text);
    read.map_err(|error| format!("failed to read the request: {error}"))?;
    let piece: DrawnPiece =
        serde_json::from_slice(&text).map_err(|_| "the request is no request".to_owned())?;
    draw(&piece)
}

fn limit() -> std::io::Result<()> {
    // Not left behind by a server that was killed, and ended before it when memory is short.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    for (of, most) in [
        (Resource::Cpu, CPU_S),
        (Resource::As, MEMORY),
        (Resource::Core, 0),
    ] {
        // The server may have been started with less.
        let most = getrlimit(of).maximum.map_or(most, |given| given.min(most));
        let both = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(of, both)?;
    }
    Ok(())
}

fn draw(piece: &DrawnPiece) -> Result<Vec<u8>, String> {
    let folder = |at: usize| {
        let name = piece.folders.get(at).map(Path::new);
        name.ok_or_else(|| "a folder is missing".to_owned())
    };
    match &piece.kind {
        DrawnKind::Answer => json(&drawn(folder(0)?, |_| (String::new(), Vec::new()))?),
        DrawnKind::Report => json(&drawn(folder(0)?, |report| {
            (plimsoll_report::html(report), Vec::new())
        })?),
        DrawnKind::Sections => json(&drawn(folder(0)?, |report| {
            let parts = plimsoll_report::page_parts(report);
            (parts.answer, parts.sections.into_iter().map(part).collect())
        })?),
        DrawnKind::Export(name) => {
            let format = ReportExportFormat::named(name).ok_or("there is no such format")?;
            let results =
                plimsoll_archive::open_whole(folder(0)?).map_err(|error| unreadable(&error))?;
            plimsoll_report::export(format, &results).map_err(|error| error.to_string())
        }
        DrawnKind::Diff => {
            let (base, with) = (folder(0)?, folder(1)?);
            let (before, after) = (results(base)?, results(with)?);
            let policy = VerdictPolicy::default();
            let named = |folder: &Path| folder.display().to_string();
            let diff =
                plimsoll_report::run_diff((&named(base), &before), (&named(with), &after), &policy);
            let report = plimsoll_report::run_diff_report(&diff, &policy);
            let parts = plimsoll_report::page_parts(&report);
            let sections = parts.sections.into_iter().map(|part| part.html);
            Ok((parts.answer + &sections.collect::<String>()).into_bytes())
        }
        DrawnKind::Figures(reference) => {
            let figures = RunFigures::read(folder(0)?, reference.as_deref());
            json(&figures.map_err(|error| error.to_string())?)
        }
    }
}

fn json(drawn: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(drawn).map_err(|error| error.to_string())
}

fn part(of: ReportPagePart) -> RunSectionFacts {
    RunSectionFacts {
        id: of.id,
        title: of.title,
        html: of.html,
    }
}

fn unreadable(error: &ArchiveError) -> String {
    format!("failed to {error}")
}

/// The results of a run, as far as it got. A run that was killed never wrote its comparisons.
fn results(folder: &Path) -> Result<RunFolderContents, String> {
    let mut results = plimsoll_archive::open(folder).map_err(|error| unreadable(&error))?;
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    Ok(results)
}

fn drawn(
    folder: &Path,
    page: impl FnOnce(&ReportDocument) -> (String, Vec<RunSectionFacts>),
) -> Result<DrawnReport, String> {
    // Asked before it is read: what ends meanwhile is drawn as far as it was read.
    let is_written = plimsoll_archive::is_being_written(folder).unwrap_or(false);
    let results = results(folder)?;
    let report = match is_written && !results.complete {
        true => plimsoll_report::build_interim(&results),
        false => plimsoll_report::build(&results),
    };
    let (page, parts) = page(&report);
    Ok(DrawnReport {
        answer: AnswerFacts::of(&report),
        page,
        parts,
    })
}
