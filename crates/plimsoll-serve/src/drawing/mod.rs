// SPDX-License-Identifier: Apache-2.0
//! Pages and files of run folders, each drawn by a process of the server itself. A thread cannot be stopped
//! and an allocation that fails ends a process: whatever is in a folder, only that process ends.

mod piece;

pub use piece::draw_for_server;
pub(crate) use piece::{DrawnKind, DrawnPiece, DrawnReport, RunSectionFacts};

use crate::error::RequestError;
use crate::jobs::{command, said};
use crate::share::ShareBoard;
use crate::sync::locked;
use axum::http::StatusCode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Name of the command that draws, which no help shows.
pub const DRAW_COMMAND: &str = "__draw";
/// The code with which it says why something cannot be drawn.
const EXIT_REFUSED: i32 = 2;
/// Most processes that draw at once, and those for one user.
const DRAWN_MAX: usize = 3;
const DRAWN_EACH: usize = 1;
/// Longest wait for a turn, and for what is drawn; for a sentence in a list.
const TURN: Duration = Duration::from_secs(45);
const DRAWN: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_secs(15);
/// Most bytes of a drawing, and of the message that comes instead of one.
const DRAWN_BYTES: usize = 256 << 20;
const WORDS_MAX: u64 = 4 << 10;
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// The pause between two looks whether a process has ended that closed its output.
const PAUSE: Duration = Duration::from_millis(2);
/// Most folders of which it is kept that they take too much.
const KEPT_MAX: usize = 1000;

/// Draws pieces of run folders, each in a process of its own.
#[derive(Debug)]
pub(crate) struct RunDrawings {
    program: PathBuf,
    folder: PathBuf,
    shares: Arc<ShareBoard<String>>,
    /// Pieces that took too much, with the bytes of their events then: they are not tried again.
    too_much: Mutex<BTreeMap<DrawnPiece, u64>>,
}

/// How a process ended that was to draw.
enum DrawnEnd {
    Done(Vec<u8>),
    /// It said why it cannot.
    Refused(String),
    /// It took more than it may: too long, as its clock or its processor says, or too much memory.
    TooMuch,
    Late,
    /// There is no process.
    Unstarted(io::Error),
}

impl RunDrawings {
    pub(crate) fn of(program: PathBuf, folder: PathBuf) -> RunDrawings {
        RunDrawings {
            program,
            folder,
            shares: ShareBoard::of(DRAWN_MAX, DRAWN_EACH),
            too_much: Mutex::default(),
        }
    }

    /// Draws a piece for a user.
    pub(crate) async fn draw(&self, who: &str, piece: DrawnPiece) -> Result<Vec<u8>, RequestError> {
        let turn = tokio::time::timeout(TURN, self.shares.take(&who.to_owned())).await;
        let turn = turn.map_err(|_| {
            let text = "too many reports are being drawn";
            RequestError::new(StatusCode::SERVICE_UNAVAILABLE, text).hint("try again later")
        })?;
        let bytes = self.bytes_of(&piece);
        if locked(&self.too_much).get(&piece) == Some(&bytes) {
            return Err(too_much());
        }
        let longest = match piece.kind {
            DrawnKind::Answer => GLANCE,
            _ => DRAWN,
        };
        let (program, folder, of) = (self.program.clone(), self.folder.clone(), piece.clone());
        let done = tokio::task::spawn_blocking(move || {
            // Taken until the process is gone, even after the client has gone.
            let _turn = turn;
            drawn(&program, &folder, &of, longest)
        });
        match done.await.map_err(RequestError::failed)? {
            DrawnEnd::Done(bytes) => Ok(bytes),
            DrawnEnd::Refused(words) => Err(said(&words)),
            DrawnEnd::Late => Err(too_much()),
            DrawnEnd::TooMuch => {
                let mut kept = locked(&self.too_much);
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(piece, bytes);
                Err(too_much())
            }
            DrawnEnd::Unstarted(error) => {
                let text = format!("failed to start what draws: {error}");
                Err(RequestError::new(StatusCode::SERVICE_UNAVAILABLE, text)
                    .hint("try again later"))
            }
        }
    }

    fn bytes_of(&self, piece: &DrawnPiece) -> u64 {
        let folders = piece.folders().map(|name| self.folder.join(name));
        folders
            .map(|folder| plimsoll_archive::events_bytes(&folder))
            .sum()
    }
}

fn too_much() -> RequestError {
    RequestError::invalid("the run cannot be drawn with the time and memory that one is given here")
        .hint("look at it with plimsoll report, where you measured it")
}

/// Starts the process, and waits for its end, or ends it.
fn drawn(program: &Path, folder: &Path, piece: &DrawnPiece, longest: Duration) -> DrawnEnd {
    let started = command(program, &[DRAW_COMMAND.to_owned()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return DrawnEnd::Unstarted(error),
    };
    let read = follow(&mut child, piece, Instant::now() + longest);
    // Nothing happens to one that has ended.
    let _ = child.kill();
    let ended = child.wait();
    match (read, ended) {
        (Ok(Some((bytes, status))), _) if status.success() => DrawnEnd::Done(bytes),
        (Ok(Some((_, status))), _) => why(&mut child, status),
        (Ok(None), _) => DrawnEnd::Late,
        (Err(error), _) => DrawnEnd::Unstarted(error),
    }
}

/// Asks, and reads until the end; `None` when it takes too long or says too much.
fn follow(
    child: &mut Child,
    piece: &DrawnPiece,
    until: Instant,
) -> io::Result<Option<(Vec<u8>, ExitStatus)>> {
    let asked = serde_json::to_vec(piece)?;
    if let Some(mut to) = child.stdin.take() {
        // One that has ended already is not asked any more, and its status says why.
        let _ = to.write_all(&asked);
    }
    let Some(mut from) = child.stdout.take() else {
        return Ok(None);
    };
    let (mut bytes, mut part) = (Vec::new(), vec![0; PIECE]);
    loop {
        if !is_ready(&from, until)? {
            return Ok(None);
        }
        match from.read(&mut part)? {
            0 => break,
            read if bytes.len() + read > DRAWN_BYTES => return Ok(None),
            read => bytes.extend_from_slice(&part[..read]),
        }
    }
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some((bytes, status)));
        }
        pause();
    }
    Ok(None)
}

/// Waits until there is something to read, or the end.
fn is_ready(from: &ChildStdout, until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        });
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why it ended without what was asked for.
fn why(child: &mut Child, status: ExitStatus) -> DrawnEnd {
    let mut words = Vec::new();
    if let Some(err) = child.stderr.take() {
        let _ = err.take(WORDS_MAX).read_to_end(&mut words);
    }
    let words = String::from_utf8_lossy(&words).into_owned();
    match status.code() {
        Some(EXIT_REFUSED) => DrawnEnd::Refused(words),
        // A signal, or a panic over sums that no run has.
        _ => DrawnEnd::TooMuch,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process is waited for, which no clock of ours can hurry"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}
