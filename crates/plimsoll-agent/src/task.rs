// SPDX-License-Identifier: Apache-2.0
//! A node's part of a run, whether on this machine or another one: the engine's side of every task.

mod client_cpus;
mod settle;

use crate::programs::{self, ProgramTrialResult};
use crate::recorder::record_for;
use crate::trial_load::{TrialLoad, block_seed};
use crate::write_verify::write_verify;
use client_cpus::ClientCpuLimit;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing, failed, stopped};
use plimsoll_core::event::{GeneratorStats, OpStats, TrialResult};
use plimsoll_core::evidence::MachineUse;
use plimsoll_core::load::{AgentEvent, AgentFailure, AgentTask, AgentTrialResult, AgentTrialTask};
use plimsoll_core::others::{NeighbourDiskUse, NeighbourUse};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::{CommandWorkload, Workload};
use plimsoll_engine::clock::RunClock as _;
use plimsoll_engine::sys::clock::{HostClock, monotonic};
use plimsoll_engine::{EngineError, OpenTarget, PreparedWorkload, RunOptions, RunResult};
use plimsoll_machine::agent_server::{AgentTaskContext, AgentTaskRunner};
use plimsoll_machine::busy::BusyWatch;
use plimsoll_machine::client_watch::{ClientWatchLook, ClientWatchSpan, PeerEchoes, watch_client};
use plimsoll_machine::host::counters::{MachineCounters, disks_now};
use plimsoll_machine::host::{SystemClock, facts};
use plimsoll_machine::journal::StateDir;
use plimsoll_machine::set_on_drop::SetOnDrop;
use settle::settle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The furthest start that is waited for: who measures clocks and starts is done in seconds.
const START_MAX: Nanos = Nanos(60 * Nanos::SECOND.0);

/// Requests in flight at most under a model: what one disk queue of today holds.
const DEPTH_MAX: u32 = 256;

/// Carries tasks out with the engine, and records.
#[derive(Debug, Default)]
pub struct EnginePlayer {
    /// Where the journal of a recording stands, if not where this program has its journals.
    pub state: Option<StateDir>,
}

impl EnginePlayer {
    fn state(&self) -> Result<StateDir, CliError> {
        self.state.clone().map_or_else(context::state_dir, Ok)
    }
}

impl AgentTaskRunner for EnginePlayer {
    fn now(&self) -> Nanos {
        monotonic()
    }

    fn play(&self, task: AgentTask, turn: &AgentTaskContext) -> Result<AgentEvent, AgentFailure> {
        let told = match task {
            AgentTask::Prove { name, target, seed } => prove(&name, &target, seed, turn),
            AgentTask::Play(task) => play(&task, turn),
            AgentTask::Record(task) => record_for(&task, || self.state(), turn, START_MAX),
        };
        Ok(told?)
    }
}

fn prove(
    name: &str,
    target: &NodeTarget,
    seed: Seed,
    turn: &AgentTaskContext,
) -> Result<AgentEvent, CliError> {
    match write_verify(name, &located(target), seed, turn.stop()) {
        Ok(()) => Ok(AgentEvent::Proved(None)),
        Err(failure) if failure.code == CliExitCode::BadData => {
            Ok(AgentEvent::Proved(Some(failure.into())))
        }
        Err(failure) => Err(failure),
    }
}

/// Where the engine works.
pub fn located(target: &NodeTarget) -> NodeTarget {
    match target {
        // Some file systems can only be tried in a directory of ours.
        NodeTarget::Directory {
            path,
            direct_align_bytes: 0,
        } => NodeTarget::Directory {
            path: path.clone(),
            direct_align_bytes: facts::direct_align_in(path),
        },
        found => found.clone(),
    }
}

/// The same, opened.
///
/// # Errors
/// When it cannot be opened.
pub fn opened(target: &NodeTarget) -> Result<OpenTarget, EngineError> {
    OpenTarget::of(&located(target))
}

fn play(task: &AgentTrialTask, turn: &AgentTaskContext) -> Result<AgentEvent, CliError> {
    if let Workload::Commands(commands) = &task.entry.workload {
        return run_programs(task, commands, turn);
    }
    if let (NodeTarget::Directory { path, .. }, true) = (&task.target, task.fresh) {
        let what = format!("make {}", path.display());
        std::fs::create_dir(path).map_err(doing(CliExitCode::Failed, what))?;
    }
    let ground = opened(&task.target).map_err(failed(CliExitCode::Failed))?;
    let mut ready = PreparedTrial::of(task, ground, turn.stop())?;
    let start_at = wait_for_start(ready.took, turn)?;
    let outcome = ready.measure(start_at, turn)?;
    let began_at = outcome.began_at;
    played(ready.result(outcome)?, began_at)
}

fn played(result: TrialResult, began_at: Option<Nanos>) -> Result<AgentEvent, CliError> {
    Ok(AgentEvent::Played(Box::new(AgentTrialResult {
        result,
        began_at,
    })))
}

/// Says that all is laid out, and waits for the instant at which to start.
fn wait_for_start(took: Nanos, turn: &AgentTaskContext) -> Result<Nanos, CliError> {
    turn.tell(AgentEvent::Prepared { took });
    let start_at = turn.start_at().ok_or_else(stopped)?;
    Ok(start_at.min(monotonic() + START_MAX))
}

/// A trial whose files are laid out.
struct PreparedTrial<'a> {
    task: &'a AgentTrialTask,
    prepared: PreparedWorkload,
    load: TrialLoad,
    /// Use of the disk just before, while no load was submitted to it.
    disk: Option<NeighbourDiskUse>,
    /// The ways to the servers.
    peers: PeerEchoes,
    /// Use by others during the measurement.
    others: Option<NeighbourUse>,
    /// Use of this machine during the measurement.
    machine: Option<MachineUse>,
    /// How long laying out took.
    took: Nanos,
}

impl<'a> PreparedTrial<'a> {
    /// Lays out the files, and waits until the disks are quiet.
    fn of(
        task: &'a AgentTrialTask,
        ground: OpenTarget,
        stop: &AtomicBool,
    ) -> Result<Self, CliError> {
        let load = TrialLoad::of(&task.entry, task.whole, task.seed, task.trial.block);
        let clock = HostClock::start();
        let prepared = plimsoll_engine::prepare(
            ground,
            &task.entry.workload,
            load.excerpt(),
            seed(task),
            task.engine,
            stop,
        )
        .map_err(failed(CliExitCode::Failed))?;
        let disk = settle(&task.settle, task.entry.length, stop);
        Ok(PreparedTrial {
            task,
            prepared,
            load,
            disk,
            peers: PeerEchoes::begin(&task.peers, &SystemClock::new()),
            others: None,
            machine: None,
            took: clock.now(),
        })
    }

    /// Plays it, from this instant of the machine's clock on.
    fn measure(&mut self, start_at: Nanos, turn: &AgentTaskContext) -> Result<RunResult, CliError> {
        let task = self.task;
        let options = RunOptions {
            length: task.entry.length,
            warmup: task.warmup,
            depth_max: depth_max(&task.entry.workload),
            seed: seed(task),
            data_check: task.data_check,
            // The number is another for every trial, also of two arms on one system.
            stamp_seed: task.stamp_seed.derive("trial", task.trial.place.into()),
            start_at,
            step: task.step,
            bytes: task.bytes,
        };
        let watch = BusyWatch::begin();
        let mut on_interval = |interval| turn.tell(AgentEvent::Second(interval));
        let mut next_phase = |_| {
            turn.tell(AgentEvent::PhaseReady);
            turn.start_at().map(|at| at.min(monotonic() + START_MAX))
        };
        let run = &mut self.prepared;
        // A simulated target runs in virtual time: other programs cannot disturb it.
        let is_real = task.target.is_in_real_time();
        let _cpus = ClientCpuLimit::of(&task.entry)?;
        let peers = std::mem::take(&mut self.peers);
        let after = start_at.since(monotonic()) + task.warmup;
        let (ran, machine) = watched(is_real.then_some((after, peers)), || {
            run.run_in_step(&options, turn.stop(), &mut on_interval, &mut next_phase)
        });
        self.machine = machine;
        self.others = is_real.then(|| others_during(&watch, self.disk.take()));
        ran.map_err(failed(CliExitCode::Failed))
    }

    /// The result, compared with the model; removes files that the next trial builds anew.
    fn result(self, outcome: RunResult) -> Result<TrialResult, CliError> {
        let entry = &self.task.entry;
        // Files of phases and loops are built anew for every trial, as their originals do; a data
        // file serves all trials of its arm and goes with the arm's directory.
        let is_built_anew = matches!(entry.workload, Workload::Files(_) | Workload::Series(_));
        let removed = match is_built_anew || self.task.fresh {
            true => self.prepared.remove(),
            false => Ok(()),
        };
        // Files that cannot be removed while a server is down go with the directory above.
        if !self.task.fresh {
            removed.map_err(failed(CliExitCode::Failed))?;
        }
        let fidelity = match &entry.workload {
            Workload::Model(model) if !outcome.interrupted => {
                self.load.fidelity(model, entry.scale, &outcome.submitted)
            }
            _ => Vec::new(),
        };
        Ok(TrialResult {
            length: outcome.length,
            prepare: self.took,
            stats: outcome.stats,
            phases: outcome.phases,
            workers: outcome.workers,
            generator: outcome.generator,
            fidelity,
            interrupted: outcome.interrupted,
            failed: outcome.failed,
            data_check: outcome.data_check,
            others: self.others,
            machines: self.machine.into_iter().collect(),
            ..TrialResult::of(self.task.trial.clone())
        })
    }
}

/// Arms of one block share slices, offsets and file sizes, so that only the storage differs.
fn seed(task: &AgentTrialTask) -> Seed {
    block_seed(task.seed, task.trial.block)
}

/// A trial of programs: nothing is laid out by us, and each program is a phase.
fn run_programs(
    task: &AgentTrialTask,
    commands: &CommandWorkload,
    turn: &AgentTaskContext,
) -> Result<AgentEvent, CliError> {
    let (NodeTarget::Directory { path, .. }, Some(scratch)) = (&task.target, &task.scratch) else {
        let name = task.entry.workload.name();
        let arm = &task.trial.arm;
        return Err(CliError::usage(format!(
            "run {name} on '{arm}': it needs a directory"
        )));
    };
    let clock = HostClock::start();
    let disk = settle(&task.settle, task.entry.length, turn.stop());
    let began_at = wait_for_start(clock.now(), turn)?;
    let clock = HostClock::start();
    let watch = BusyWatch::begin();
    let peers = PeerEchoes::begin(&task.peers, &SystemClock::new());
    let (ran, machine) = watched(Some((Nanos(0), peers)), || {
        programs::run(commands, path, scratch, &context::host(), turn.stop())
    });
    let ProgramTrialResult {
        phases,
        wall,
        notes,
    } = ran?;
    let others = Some(others_during(&watch, disk));
    notes
        .into_iter()
        .map(AgentEvent::Note)
        .for_each(|note| turn.tell(note));
    let mut stats = OpStats::default();
    phases.iter().for_each(|phase| stats.merge(&phase.stats));
    let result = TrialResult {
        length: wall,
        prepare: clock.now().since(wall),
        stats,
        generator: GeneratorStats {
            engine: "the original program".into(),
            user_cpu_ns: phases.iter().map(|phase| phase.user_cpu_ns).sum(),
            system_cpu_ns: phases.iter().map(|phase| phase.system_cpu_ns).sum(),
            ..GeneratorStats::default()
        },
        phases,
        interrupted: turn.stop().load(Ordering::Relaxed),
        others,
        machines: machine.into_iter().collect(),
        ..TrialResult::of(task.trial.clone())
    };
    played(result, Some(began_at))
}

/// Does something while this machine is watched, from `after` now on.
fn watched<T>(
    span: Option<(Nanos, PeerEchoes)>,
    work: impl FnOnce() -> T,
) -> (T, Option<MachineUse>) {
    let Some((after, peers)) = span else {
        return (work(), None);
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let span = ClientWatchSpan {
                after: Duration::from_nanos(after.0),
                stop: &stop,
            };
            let clock = SystemClock::new();
            let look = ClientWatchLook {
                machine: MachineCounters::now,
                disks: disks_now,
            };
            watch_client(span, peers, &clock, look)
        });
        let over = SetOnDrop(&stop);
        let done = work();
        drop(over);
        // A watcher that fell over watches no more; the trial counts all the same.
        (done, watcher.join().unwrap_or_default())
    })
}

/// Use by others during the watch, and of a disk before it.
fn others_during(watch: &BusyWatch, disk: Option<NeighbourDiskUse>) -> NeighbourUse {
    NeighbourUse {
        disk,
        ..watch.others()
    }
}

/// Requests in flight at most: those of the threads that a model declares, if it does.
fn depth_max(workload: &Workload) -> u32 {
    match workload {
        Workload::Model(model) => {
            let threads = model.facts.threads.map(|threads| threads.value);
            threads.map_or(DEPTH_MAX, |threads| threads.min(DEPTH_MAX))
        }
        _ => DEPTH_MAX,
    }
}
