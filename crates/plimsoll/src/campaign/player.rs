// SPDX-License-Identifier: Apache-2.0
//! What a node does of a run when another machine asks it: the engine's side of the agent.

use super::proof::write_verify;
use super::trial::NodeTrial;
use super::{CampaignOptions, words};
use crate::failure::{CliError, CliExitCode};
use crate::recorder::record_for;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::load::{
    AgentEvent, AgentTask, AgentTrialResult, AgentTrialTask, ClientLoadTarget,
};
use plimsoll_core::units::Nanos;
use plimsoll_engine::DataCheck;
use plimsoll_engine::TargetLocation;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_engine::{EngineChoice, NfsAddress, SimDeviceSpec};
use plimsoll_lab::agent_server::{AgentTaskContext, AgentTaskRunner};
use plimsoll_lab::host::facts;
use plimsoll_lab::journal::StateDir;
use std::path::{Path, PathBuf};

/// The furthest start that is waited for: who measures clocks and starts is done in seconds.
const START_MAX: Nanos = Nanos(60 * Nanos::SECOND.0);

/// Carries tasks out with the engine, and records.
#[derive(Debug)]
pub(crate) struct EnginePlayer {
    /// Where the journal of a recording stands.
    pub(crate) state: StateDir,
}

impl AgentTaskRunner for EnginePlayer {
    fn now(&self) -> Nanos {
        monotonic()
    }

    fn play(&self, task: &AgentTask, turn: &AgentTaskContext<'_>) -> Result<AgentEvent, String> {
        let told = match task {
            AgentTask::Prove { name, place, seed } => prove(name, place, *seed, turn),
            AgentTask::Play(task) => play(task, turn),
            AgentTask::Record(task) => record_for(task, &self.state, turn, START_MAX),
        };
        told.map_err(|failure| failure.text())
    }
}

fn prove(
    name: &str,
    place: &ClientLoadTarget,
    seed: plimsoll_core::rng::Seed,
    turn: &AgentTaskContext<'_>,
) -> Result<AgentEvent, CliError> {
    let proved = at(place, |place, _, _| {
        write_verify(name, place, seed, turn.stop)
    });
    match proved {
        Ok(()) => Ok(AgentEvent::Proved(None)),
        Err(failure) if failure.code == CliExitCode::BadData => {
            Ok(AgentEvent::Proved(Some(failure.message)))
        }
        Err(failure) => Err(failure),
    }
}

fn play(task: &AgentTrialTask, turn: &AgentTaskContext<'_>) -> Result<AgentEvent, CliError> {
    let settings = settings(task)?;
    at(&task.place, |place, grounds, devices| {
        let part = NodeTrial {
            trial: &task.trial,
            entry: &task.entry,
            place,
            grounds,
            devices,
            settings: &settings,
        };
        let mut ready = part.prepare(turn.stop)?;
        turn.tell(AgentEvent::Prepared { took: ready.took });
        let Some(start_at) = turn.start_at() else {
            return Err(super::arms::stopped());
        };
        let start_at = start_at.min(monotonic() + START_MAX);
        let mut on_interval = |interval| turn.tell(AgentEvent::Second(interval));
        let outcome = part.measure(&mut ready, start_at, turn.stop, &mut on_interval)?;
        let began_at = outcome.began_at;
        let result = part.result(ready, outcome)?;
        Ok(AgentEvent::Played(Box::new(AgentTrialResult {
            result,
            began_at,
        })))
    })
}

/// What holds for the trial, from what the task says of it.
fn settings(task: &AgentTrialTask) -> Result<CampaignOptions, CliError> {
    let unknown = |what: &str, word: &str| CliError::invalid(format!("unknown {what} '{word}'"));
    let engine = words::meant(&words::ENGINES, &task.engine);
    let data_check = match task.verify_data.as_deref() {
        None => DataCheck::Off,
        Some(word) => {
            words::meant(&words::DATA_CHECKS, word).ok_or_else(|| unknown("data check", word))?
        }
    };
    Ok(CampaignOptions {
        seed: task.seed,
        policy: VerdictPolicy::default(),
        blocks: 1,
        length: None,
        warmup: task.warmup,
        whole: task.whole,
        verify: false,
        data_check,
        stamp_seed: task.stamp_seed,
        engine: engine.ok_or_else(|| unknown("engine", &task.engine))?,
        record: false,
    })
}

/// Does something in a place, given the disks below it that can be watched.
fn at<T>(
    place: &ClientLoadTarget,
    work: impl FnOnce(TargetLocation<'_>, &[PathBuf], &[String]) -> Result<T, CliError>,
) -> Result<T, CliError> {
    match place {
        ClientLoadTarget::Null => work(TargetLocation::Null, &[], &[]),
        ClientLoadTarget::Nop => work(TargetLocation::Nop, &[], &[]),
        ClientLoadTarget::Sim(device) => {
            let device: SimDeviceSpec = device.parse().map_err(CliError::invalid)?;
            work(TargetLocation::Sim(device), &[], &[])
        }
        ClientLoadTarget::Directory {
            path,
            direct_align_bytes,
        } => {
            let path = Path::new(path);
            let devices: Vec<String> = facts::device_of(path).into_iter().collect();
            // Some file systems can only be tried in a directory of ours.
            let direct_align = match direct_align_bytes {
                0 => facts::direct_align_in(path),
                found => *found,
            };
            let grounds = [path.to_owned()];
            work(
                TargetLocation::Directory { path, direct_align },
                &grounds,
                &devices,
            )
        }
        ClientLoadTarget::Export { address, directory } => {
            let address: NfsAddress = address.parse().map_err(CliError::invalid)?;
            let directory = Path::new(directory);
            let address = &address;
            work(TargetLocation::Nfs { address, directory }, &[], &[])
        }
    }
}

/// The words a node is told these settings by.
pub(super) fn told_words(engine: EngineChoice, check: DataCheck) -> (String, Option<String>) {
    let engine = words::word_for(&words::ENGINES, &engine).unwrap_or_default();
    let check = words::word_for(&words::DATA_CHECKS, &check);
    (engine.into(), check.map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_understands_the_words_it_is_told_settings_by() {
        for engine in [EngineChoice::Auto, EngineChoice::Uring, EngineChoice::Sync] {
            for check in [DataCheck::Off, DataCheck::End, DataCheck::Always] {
                let (word, verify) = told_words(engine, check);
                assert_eq!(words::meant(&words::ENGINES, &word), Some(engine));
                let meant = verify.and_then(|word| words::meant(&words::DATA_CHECKS, &word));
                assert_eq!(meant.unwrap_or(DataCheck::Off), check);
            }
        }
    }
}
