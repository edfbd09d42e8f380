// SPDX-License-Identifier: Apache-2.0
//! Whether the threads of a loop would wait for each other without end.
//!
//! On a real target this goes unnoticed: a waiting thread looks like one whose storage is slow. So the
//! signals are played before the run, without the operations between them.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{FileLoopOp, FileLoopSelection, FileOp};

use super::each;
use super::play::{FileLoopSignal, signals};

/// Most steps that are played. A loop that does not block within them counts as free of deadlocks.
const STEPS_MAX: u32 = 100_000;
/// Times that each thread goes through its list before that is held to go on for ever.
const PASSES: u32 = 3;

/// A thread, reduced to the signals in its list.
struct Walker<'a> {
    thread: u32,
    ops: Vec<&'a FileLoopOp>,
    place: usize,
    repeated: u32,
    /// Whether it has asked for what it awaits.
    asked: bool,
    passes: u32,
    /// Passes after which it has done its work.
    passes_max: u32,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileLoopSignalState {
    GoesOn,
    Posts(u32),
    Awaits(u32),
    Done,
}

impl<'a> Walker<'a> {
    fn state(&self) -> FileLoopSignalState {
        if self.passes >= self.passes_max {
            return FileLoopSignalState::Done;
        }
        match self.ops[self.place].op {
            FileOp::Post { signal } => FileLoopSignalState::Posts(signal),
            FileOp::Await { signal, .. } => FileLoopSignalState::Awaits(signal),
            _ => FileLoopSignalState::GoesOn,
        }
    }

    /// Does what is next; whether it could. To ask for posts is a step of its own.
    fn step(&mut self, signals: &[FileLoopSignal]) -> bool {
        let op = self.ops[self.place];
        let did = match op.op {
            FileOp::Post { signal } => signals[signal as usize].post(),
            FileOp::Await { signal, posts, .. } => {
                let signal = &signals[signal as usize];
                if !self.asked {
                    signal.ask(self.thread, posts);
                    self.asked = true;
                    return true;
                }
                let given = signal.is_given(self.thread);
                self.asked = !given;
                given
            }
            _ => true,
        };
        if did {
            self.repeated += 1;
            if self.repeated >= op.repeat {
                self.repeated = 0;
                self.place = (self.place + 1) % self.ops.len();
                self.passes += u32::from(self.place == 0);
            }
        }
        did
    }

    /// Whether its list holds this post.
    fn gives(&self, signal: u32) -> bool {
        let post = FileOp::Post { signal };
        self.ops.iter().any(|op| op.op == post)
    }
}

/// The signal that threads of `files`, whose signals are in range, would await without end; `None`
/// where all go on.
pub(super) fn stuck(files: &FileLoop) -> Option<u32> {
    let signals = signals(files);
    let mut walkers = walkers(files);
    let mut steps = 0;
    // The end of the work is another matter than its beginning: posts may run out.
    let passes = match files.over {
        FileLoopSelection::Rotor => PASSES,
        FileLoopSelection::Each(_) => u32::MAX,
    };
    while steps < STEPS_MAX && walkers.iter().any(|walker| walker.passes < passes) {
        let before = steps;
        for walker in &mut walkers {
            let passes = walker.passes;
            while steps < STEPS_MAX
                && walker.passes == passes
                && walker.state() != FileLoopSignalState::Done
                && walker.step(&signals)
            {
                steps += 1;
            }
        }
        if let Some(signal) = hopeless(&walkers, &signals) {
            return Some(signal);
        }
        if steps == before {
            // Everybody has done its work.
            return None;
        }
    }
    None
}

fn walkers(files: &FileLoop) -> Vec<Walker<'_>> {
    let is_signal = |op: &&FileLoopOp| matches!(op.op, FileOp::Post { .. } | FileOp::Await { .. });
    let entries = files.sets.first().map_or(0, |set| u64::from(set.entries));
    let mut walkers = Vec::new();
    let mut first = 0;
    for group in &files.groups {
        let ops: Vec<&FileLoopOp> = group.ops.iter().filter(is_signal).collect();
        for of_group in 0..group.threads {
            let (start, end) = each::bounds(entries, (of_group, group.threads));
            let walker = Walker {
                thread: first + of_group,
                ops: ops.clone(),
                place: 0,
                repeated: 0,
                asked: false,
                passes: 0,
                passes_max: match files.over {
                    FileLoopSelection::Rotor => u32::MAX,
                    FileLoopSelection::Each(_) => saturating_u32(end - start),
                },
            };
            if !ops.is_empty() {
                walkers.push(walker);
            }
        }
        first += group.threads;
    }
    walkers
}

/// The signal of a deadlock: its threads wait for help that only each other, or threads that have
/// done their work, could give.
fn hopeless(walkers: &[Walker<'_>], signals: &[FileLoopSignal]) -> Option<u32> {
    let waits = |walker: &Walker<'_>| match walker.state() {
        FileLoopSignalState::Posts(signal) => !signals[signal as usize].has_room(),
        FileLoopSignalState::Awaits(signal) => {
            walker.asked && !signals[signal as usize].is_given(walker.thread)
        }
        FileLoopSignalState::GoesOn | FileLoopSignalState::Done => false,
    };
    let mut waiting: Vec<bool> = walkers.iter().map(waits).collect();
    // Each turn takes one out, or is the last.
    loop {
        let can_help = |index: usize| {
            let helper = |other: &Walker<'_>, waits: bool| {
                !waits && other.state() != FileLoopSignalState::Done
            };
            let mut others = walkers.iter().zip(&waiting);
            match walkers[index].state() {
                FileLoopSignalState::Awaits(signal) => {
                    others.any(|(other, waits)| other.gives(signal) && helper(other, *waits))
                }
                FileLoopSignalState::Posts(signal) => others.any(|(other, waits)| {
                    signals[signal as usize].is_held_by(other.thread) && helper(other, *waits)
                }),
                FileLoopSignalState::GoesOn | FileLoopSignalState::Done => true,
            }
        };
        let helped = (0..walkers.len()).find(|index| waiting[*index] && can_help(*index));
        match helped {
            Some(index) => waiting[index] = false,
            None => break,
        }
    }
    let stuck = walkers.iter().zip(&waiting).find(|(_, waits)| **waits);
    match stuck.map(|(walker, _)| walker.state()) {
        Some(FileLoopSignalState::Awaits(signal) | FileLoopSignalState::Posts(signal)) => {
            Some(signal)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_loop::tests::files;
    use plimsoll_core::workload::files::FileLoopOrder;

    fn wait(signal: u32, posts: u32, ahead: u32) -> FileOp {
        FileOp::Await {
            signal,
            posts,
            ahead,
        }
    }

    fn post(signal: u32) -> FileOp {
        FileOp::Post { signal }
    }

    /// One thread for each list.
    fn of(lists: &[&[FileOp]], over: FileLoopSelection) -> FileLoop {
        let mut files = files(9, Vec::new());
        let group = files.groups.remove(0);
        files.over = over;
        for (number, list) in lists.iter().enumerate() {
            let mut own = group.clone();
            own.name = format!("group {number}");
            own.threads = 1;
            own.ops = list.iter().copied().map(FileLoopOp::from).collect();
            files.groups.push(own);
        }
        files
    }

    #[test]
    fn threads_that_wait_for_each_other_are_found() {
        let (stat, rotor, each) = (
            FileOp::Stat,
            FileLoopSelection::Rotor,
            FileLoopSelection::Each(FileLoopOrder::Numbered),
        );
        for (lists, over, expect) in [
            (&[&[stat, post(0)][..], &[wait(0, 1, 1)]][..], rotor, None),
            (&[&[post(0)], &[wait(0, 500, 600)]], rotor, None),
            (&[&[post(0)], &[wait(0, 3, 2)]], rotor, None),
            // Only the thread itself could give it.
            (&[&[wait(0, 1, 1), post(0)]], rotor, Some(0)),
            (&[&[post(0), wait(0, 1, 1)]], rotor, None),
            // Each waits for the other, while a third goes on.
            (
                &[
                    &[wait(0, 1, 1), post(1)],
                    &[wait(1, 1, 1), post(0)],
                    &[stat],
                ],
                rotor,
                Some(0),
            ),
            (
                &[&[wait(0, 1, 1), post(1)], &[post(0), wait(1, 1, 1)]],
                rotor,
                None,
            ),
            // More posts may not be made than the one that awaits them ever asks for.
            (&[&[post(0), post(0), wait(0, 2, 1)]], rotor, Some(0)),
            // As many files for both; the one that needs two posts for each runs out of them.
            (&[&[post(0)], &[wait(0, 1, 9)]], each, None),
            (&[&[post(0)], &[wait(0, 2, 9)]], each, Some(0)),
        ] {
            assert_eq!(stuck(&of(lists, over)), expect, "{lists:?}");
        }
    }

    #[test]
    fn a_group_without_threads_gives_no_signal() {
        let mut files = of(&[&[post(0)], &[wait(0, 1, 1)]], FileLoopSelection::Rotor);
        files.groups[0].threads = 0;
        assert_eq!(stuck(&files), Some(0));
    }
}
