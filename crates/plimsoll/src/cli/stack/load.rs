// SPDX-License-Identifier: Apache-2.0
//! Load on a stack before, while and after it is changed: it comes from this machine, goes on
//! through all three, and its throughput is recorded second by second.

use plimsoll_console::context;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{Plan, PlanAction};
use plimsoll_core::rng::Seed;
use plimsoll_core::text::shell_word;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
};
use plimsoll_core::workload::{BlockIoWorkload, Workload};
use plimsoll_engine::RunOptions;
use plimsoll_engine::TargetLocation;
use plimsoll_engine::{EngineChoice, PreparedWorkload};
use plimsoll_machine::host::facts;
use plimsoll_machine::host::{HostPool, HostProcessId, HostTimeSource, SystemClock};
use plimsoll_machine::journal::{Journal, JournalHeader, JournalScope, StateDir};
use plimsoll_machine::raise::{AppliedPlan, raise, raze};
use plimsoll_report::StackChangeLoad;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The file, its blocks, and how many are in flight.
const FILE_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u32 = 64 << 10;
const DEPTH: u32 = 4;

/// The parts of the load, in order.
const PARTS: [&str; 3] = ["before", "during", "after"];

/// Bytes per second, one for each whole second that lies in one part.
type StackLoadRates = [Vec<f64>; PARTS.len()];

/// A load that goes on.
#[derive(Debug)]
pub(super) struct StackLoad {
    part: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    rates: Arc<Mutex<StackLoadRates>>,
    /// How long it is measured before and after.
    around: Duration,
    worker: JoinHandle<Result<(), String>>,
    directory: AppliedPlan,
    nodes: HostPool,
}

/// Throughput of a load, and its problems.
#[derive(Debug, Default)]
pub(super) struct StackLoadResult {
    rates: StackLoadRates,
    /// Errors of the load, and leftovers of it that could not be removed.
    pub(super) trouble: Vec<String>,
}

impl StackLoad {
    /// Begins to load what is mounted at `mount`, and measures for a while.
    pub(super) fn begin(
        mount: &Path,
        state: &StateDir,
        around: Nanos,
    ) -> Result<StackLoad, String> {
        let around = Duration::from_nanos(around.0);
        let (directory, path, nodes) = make_directory(mount, state)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (part, rates) = (Arc::default(), Arc::default());
        let prepared = match prepare(&path, &stop) {
            Ok(prepared) => prepared,
            Err(error) => {
                let mut nodes = nodes;
                let left = raze(directory.journal, &mut nodes).problems();
                return Err([vec![error], left].concat().join("; "));
            }
        };
        let worker = start(prepared, &part, &stop, &rates);
        SystemClock::new().pause(around);
        Ok(StackLoad {
            part,
            stop,
            rates,
            around,
            worker,
            directory,
            nodes,
        })
    }

    /// From now on it is during the change.
    pub(super) fn changing(&self) {
        self.part.store(1, Ordering::Relaxed);
    }

    /// Ends the load; when the change was made, after measuring for a while more.
    pub(super) fn end(mut self, is_changed: bool) -> StackLoadResult {
        if is_changed {
            self.part.store(2, Ordering::Relaxed);
            SystemClock::new().pause(self.around);
        }
        self.stop.store(true, Ordering::Relaxed);
        let mut trouble = match self.worker.join() {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(error)) => vec![error],
            Err(_) => vec!["the load generator panicked".into()],
        };
        trouble.extend(raze(self.directory.journal, &mut self.nodes).problems());
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        StackLoadResult {
            rates: std::mem::take(&mut rates),
            trouble,
        }
    }
}

impl StackLoadResult {
    /// A load that did not come about.
    pub(super) fn nothing(why: String) -> StackLoadResult {
        StackLoadResult {
            trouble: vec![why],
            ..StackLoadResult::default()
        }
    }

    /// Report of the load, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "throughput of a load from here ({}):",
            load_words()
        )];
        for (part, rates) in PARTS.iter().zip(&self.rates) {
            lines.push(match summary(rates) {
                Some([mean, least, most]) => format!(
                    "  {part:<7} {}, from {} to {} in {} seconds",
                    units::throughput(mean),
                    units::throughput(least),
                    units::throughput(most),
                    rates.len()
                ),
                None => format!("  {part:<7} no whole second"),
            });
        }
        lines
    }

    /// The same for a page.
    pub(super) fn page(&self, stack: &str, change: &str, made: &str) -> StackChangeLoad {
        let [before, during, after] = self.rates.clone();
        let words: Vec<String> = std::env::args().skip(1).map(|w| shell_word(&w)).collect();
        StackChangeLoad {
            stack: stack.into(),
            change: change.into(),
            made: made.into(),
            load: load_words(),
            before,
            during,
            after,
            command: format!("plimsoll {}", words.join(" ")),
        }
    }

    /// The same for programs.
    pub(super) fn json(&self) -> serde_json::Value {
        let part = |(part, rates): (&&str, &Vec<f64>)| {
            let mean = summary(rates).map(|[mean, ..]| mean);
            serde_json::json!({ "part": part, "mean_bytes_per_s": mean, "bytes_per_s": rates })
        };
        PARTS.iter().zip(&self.rates).map(part).collect()
    }
}

/// The load, in words.
fn load_words() -> String {
    format!(
        "half reads, half writes of {} KiB, {DEPTH} in flight",
        BLOCK_BYTES >> 10
    )
}

/// Mean, least and most.
fn summary(rates: &[f64]) -> Option<[f64; 3]> {
    if rates.is_empty() {
        return None;
    }
    let count = f64::from(u32::try_from(rates.len()).unwrap_or(u32::MAX));
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    Some([rates.iter().sum::<f64>() / count, least, most])
}

/// A directory of ours in the mount, with a journal of its own: that of the stack is in use.
fn make_directory(
    mount: &Path,
    state: &StateDir,
) -> Result<(AppliedPlan, PathBuf, HostPool), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let id = format!("load-{}", std::process::id());
    let path = mount.join(format!("plimsoll-{id}"));
    let name = path.display().to_string();
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: id.clone(),
        kind: JournalScope::Run(id),
        owner: HostProcessId::this(),
        began_at: jiff::Timestamp::now().to_string(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    };
    let journal = Journal::create(state, header).map_err(|e| text(&e))?;
    let mut plan = Plan::default();
    let remove = Some(PlanAction::RemoveDir(name.clone()));
    plan.step("create a directory", PlanAction::MakeDir(name), remove);
    let mut nodes = context::nodes();
    let standing = raise(&plan, None, &mut nodes, journal).map_err(|e| text(&e))?;
    Ok((standing, path, nodes))
}

fn prepare(path: &Path, stop: &AtomicBool) -> Result<PreparedWorkload, String> {
    let found = facts::target(path).map_err(|error| error.to_string())?;
    let group = BlockIoGroup {
        depth: DEPTH,
        extent: BlockIoExtent {
            bytes: FILE_BYTES,
            ..BlockIoExtent::default()
        },
        mix: vec![
            BlockIoMixEntry::of(BlockIoOpKind::Read, BLOCK_BYTES),
            BlockIoMixEntry::of(BlockIoOpKind::Write, BLOCK_BYTES),
        ],
        direct: found.direct_align_bytes > 0,
        ..BlockIoGroup::default()
    };
    let workload = Workload::Blocks(BlockIoWorkload {
        name: "load".into(),
        groups: vec![group],
    });
    let place = TargetLocation::Directory {
        path,
        direct_align: found.direct_align_bytes,
    };
    let (seed, choice) = (Seed(1), EngineChoice::default());
    plimsoll_engine::prepare(place, &workload, None, seed, choice, stop)
        .map_err(|error| error.to_string())
}

fn start(
    mut prepared: PreparedWorkload,
    part: &Arc<AtomicUsize>,
    stop: &Arc<AtomicBool>,
    rates: &Arc<Mutex<StackLoadRates>>,
) -> JoinHandle<Result<(), String>> {
    let (part, stop, rates) = (Arc::clone(part), Arc::clone(stop), Arc::clone(rates));
    std::thread::spawn(move || {
        let options = RunOptions {
            // Ended by the flag.
            length: Nanos(u64::from(u32::MAX) * Nanos::SECOND.0),
            ..RunOptions::default()
        };
        let mut last = part.load(Ordering::Relaxed);
        prepared
            .run(&options, &stop, &mut |interval| {
                let now = part.load(Ordering::Relaxed);
                let seconds = interval.length.as_secs_f64();
                // One that lies in two parts belongs to neither; the rest of one is no second.
                if now == last && seconds > 0.9 {
                    let rate = (interval.stats.bytes() as f64) / seconds;
                    rates.lock().unwrap_or_else(PoisonError::into_inner)[now].push(rate);
                }
                last = now;
            })
            .map(|_| ())
            .map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_a_whole_second_says_so() {
        let seen = StackLoadResult {
            rates: [vec![2e6, 4e6], vec![], vec![1e6]],
            ..StackLoadResult::default()
        };
        let lines = seen.lines();
        let [mean, least, most] = [3e6, 2e6, 4e6].map(units::throughput);
        let expect = format!("{mean}, from {least} to {most} in 2 seconds");
        assert!(lines[1].ends_with(&expect), "{lines:?}");
        assert!(lines[2].contains("no whole second"), "{lines:?}");
    }
}
