// SPDX-License-Identifier: Apache-2.0
//! One load after another on the logged disk, each cut at several instants.

use crate::bench::{BenchDisk, DurabilityBench, ServedDisk, StateImages};
use crate::disk::{CacheLoss, CrashImages, CrashState, DataAtRisk, DiskLog, crash_state};
use crate::error::DurabilityError;
use crate::judge::{AckAccount, AckInstant, CutInstant, FoundKeys};
use crate::server_file::{BuiltInWitness, ServerFile};
use crate::shrink;
use crate::view::{ServerScript, ServerView};
use crate::witness::{DurabilityWitness, FilesWitness, ProgramsWitness, WitnessDisk, WitnessLoad};
use plimsoll_core::durability::{CrashFindings, CutDisks, DeviceModel, DurabilityFlaw};
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{Host as _, HostError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most acknowledgements of a load of files: more make each crash state slower to ask.
const FILE_ACKS_MAX: usize = 3_000;
/// The same of a load of a server, of which a fast one acknowledges thousands in the window that it may lose.
const SERVER_ACKS_MAX: usize = 30_000;

/// The part of a load after which one disk alone loses its power, at the earliest and at the latest.
const FIRST_OFF: [f64; 2] = [0.2, 0.6];

/// Lines of the first wrong key that are shown.
const SHOWN_MAX: usize = 3;

/// The loads of one setting.
#[derive(Debug)]
pub(crate) struct DurabilityLoads<'a> {
    /// The server.
    pub(crate) file: &'a ServerFile,
    /// The view of its scripts.
    pub(crate) view: ServerView,
    /// The disk below its data.
    pub(crate) disk: &'a BenchDisk,
    /// The disks whose power fails.
    pub(crate) cut_disks: CutDisks,
    /// Length of each load.
    pub(crate) length: Duration,
    /// Cuts of each load and model.
    pub(crate) cuts: u32,
    /// Models of the device.
    pub(crate) models: &'a [DeviceModel],
    /// The longest window of loss that the setting promises.
    pub(crate) promised: Option<Nanos>,
    /// Root of what is drawn.
    pub(crate) seed: Seed,
    /// Set when all is to end.
    pub(crate) stop: &'a AtomicBool,
}

/// Findings of one load.
#[derive(Debug, Default)]
pub(crate) struct LoadFindings {
    /// The crash states by model.
    pub(crate) models: Vec<ModelFindings>,
    /// Acknowledged writes.
    pub(crate) acknowledged: u64,
    /// From the first of them to the last.
    pub(crate) acknowledging: Nanos,
    /// With how few dropped writes the first loss still happens, where that was looked for.
    pub(crate) cause: String,
    /// Writes that the disk logged.
    pub(crate) logged: u64,
    /// Whether the log was full before the load was over.
    pub(crate) is_full: bool,
    /// Whether as much was acknowledged as can be asked for before the load was over.
    pub(crate) is_short: bool,
}

/// The beginning of a recovery.
#[derive(Debug, Clone, Copy)]
struct RecoveryStart {
    /// The instant that is recovered from.
    cut: CutInstant,
    /// Root of what the server's scripts draw.
    seed: Seed,
    /// When it began, on the clock of the machine.
    began: Duration,
}

/// The cuts of one load under one model of the device.
#[derive(Debug, Clone, Copy)]
struct LoadCuts {
    model: DeviceModel,
    /// Number of the load.
    number: u32,
    seed: Seed,
    /// Whether the first loss is to be explained.
    is_cause_wanted: bool,
}

/// Findings of one load under one model.
#[derive(Debug)]
pub(crate) struct ModelFindings {
    /// The model.
    pub(crate) model: DeviceModel,
    /// Its crash states.
    pub(crate) states: Vec<CrashFindings>,
}

/// A load that is over: its disk is at rest.
struct EndedLoad {
    log: DiskLog,
    account: AckAccount,
    /// When the load ended, on the clock of the disk.
    end: Nanos,
    killed: Option<CrashFindings>,
    off: Option<DiskOff>,
    is_full: bool,
}

/// A disk that lost its power in the middle of a load.
struct DiskOff {
    part: u64,
    at: Nanos,
    /// Findings at the end of the load, without the disk; none where the stack did not work without it.
    running: Option<CrashFindings>,
}

impl DurabilityLoads<'_> {
    pub(crate) fn is_server(&self) -> bool {
        self.file.witness.is_none()
    }

    /// Models that can be judged: what is in this program cannot be killed alone.
    fn models(&self) -> impl Iterator<Item = DeviceModel> + '_ {
        let models = self.models.iter().copied();
        models.filter(|model| *model != DeviceModel::Killed || self.is_server())
    }

    fn acks_max(&self) -> usize {
        match self.is_server() {
            true => SERVER_ACKS_MAX,
            false => FILE_ACKS_MAX,
        }
    }

    fn stopped(&self) -> Result<(), DurabilityError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(DurabilityError::Stopped),
            false => Ok(()),
        }
    }

    /// A script failed before any cut.
    pub(crate) fn broken(&self, script: ServerScript, why: &HostError) -> DurabilityError {
        DurabilityError::Server {
            server: self.file.name.clone(),
            why: format!("'{}' {}", script.name(), how_it_failed(why)),
        }
    }

    /// Does something with the witness.
    fn ask<T>(
        &self,
        bench: &DurabilityBench,
        ask: impl FnOnce(&dyn DurabilityWitness) -> Result<T, DurabilityError>,
    ) -> Result<T, DurabilityError> {
        if self.file.witness == Some(BuiltInWitness::Files) {
            let method = self.view.settings.value("method");
            return ask(&FilesWitness::new(method, self.view.clients));
        }
        ask(&ProgramsWitness {
            host: bench.inside(),
            journal: bench.id(),
            mark: &bench.places.mark("witness"),
            view: &self.view,
            server: &self.file.name,
        })
    }

    /// Makes what every load begins with: a file system with a data directory that is prepared. Gives the
    /// version of the server.
    ///
    /// # Errors
    /// When the disk or the server does not work.
    pub(crate) fn prepare(&self, bench: &mut DurabilityBench) -> Result<String, DurabilityError> {
        bench.write_scripts(self.file)?;
        let served = bench.make(self.disk)?;
        let data = bench.make_data(&bench.directory(self.disk))?;
        if !self.file.prepare.is_empty() {
            bench
                .prepare(&self.view, &data)
                .map_err(|why| self.broken(ServerScript::Prepare, &why))?;
        }
        let version = match self.file.version.is_empty() {
            true => String::new(),
            false => bench
                .version(&self.view, &data, self.stop)
                .map_err(|why| self.broken(ServerScript::Version, &why))?,
        };
        bench.detach(served, self.disk)?;
        bench.keep_base()?;
        Ok(version)
    }

    /// Plays the load of this number, and judges its cuts.
    ///
    /// # Errors
    /// When the server or the witness does not work, or this machine does not.
    pub(crate) fn play(
        &self,
        bench: &mut DurabilityBench,
        number: u32,
        is_cause_wanted: bool,
    ) -> Result<LoadFindings, DurabilityError> {
        let seed = self.seed.derive("load", number.into());
        let ended = self.load(bench, seed)?;
        let mut findings = LoadFindings {
            acknowledged: ended.account.acknowledged() as u64,
            acknowledging: ended.account.span(),
            logged: ended.log.entries.len() as u64,
            is_full: ended.is_full,
            is_short: ended.account.acknowledged() >= self.acks_max(),
            ..LoadFindings::default()
        };
        if let Some(killed) = &ended.killed {
            findings.models.push(ModelFindings {
                model: DeviceModel::Killed,
                states: vec![killed.clone()],
            });
        }
        let cut_models = self.models().filter(|model| *model != DeviceModel::Killed);
        for model in cut_models {
            let cuts = LoadCuts {
                model,
                number,
                seed,
                is_cause_wanted: is_cause_wanted && model == DeviceModel::Volatile,
            };
            let states = self.cut(bench, &ended, cuts, &mut findings.cause)?;
            findings.models.push(ModelFindings { model, states });
        }
        Ok(findings)
    }

    /// Plays a load, and asks the server for everything while it runs, and once more after it was killed.
    fn load(&self, bench: &mut DurabilityBench, seed: Seed) -> Result<EndedLoad, DurabilityError> {
        let served = bench.attach(self.disk)?;
        let data = bench.directory(self.disk).join("data");
        if self.is_server() {
            bench
                .start(&self.view, &data, seed.0)
                .map_err(|why| self.broken(ServerScript::Start, &why))?;
        }
        let mut off = self.end_power(&served, seed.derive("off", 0));
        let account = self.write(bench, &served, &data, seed)?;
        let end = served.disk.now();
        // A disk whose log is full refuses every write: no server has to live with that.
        let is_full = served.disk.is_full();
        let found = self.ask(bench, |witness| witness.read(&data, self.stop));
        match (&mut off, found) {
            (None, _) if is_full => {}
            (None, found) => self.check_alive(&account, &found?)?,
            (_, Err(DurabilityError::Stopped)) => return Err(DurabilityError::Stopped),
            // A stack that does not work without one of its disks has lost nothing yet.
            (Some(_), Err(_)) => {}
            (Some(off), Ok(found)) => {
                off.running = Some(account.judge(&found, self.instant(usize::MAX, end)));
            }
        }
        let mut killed = None;
        if self.is_server() {
            bench.kill()?;
            if !is_full && self.models().any(|model| model == DeviceModel::Killed) {
                let cut = self.instant(served.disk.position(), served.disk.now());
                let began = bench.inside().clock().now();
                killed = Some(self.recover(
                    bench,
                    &account,
                    &data,
                    RecoveryStart { cut, seed, began },
                )?);
            }
        }
        let disk = bench.detach(served, self.disk)?;
        Ok(EndedLoad {
            log: disk.into_log(),
            account,
            end,
            killed,
            off,
            is_full,
        })
    }

    /// Chooses a disk of a stack, and ends its power in the middle of the load that begins now.
    fn end_power(&self, served: &ServedDisk, seed: Seed) -> Option<DiskOff> {
        let BenchDisk::Stack(stack) = self.disk else {
            return None;
        };
        if self.cut_disks == CutDisks::All {
            return None;
        }
        let mut rng = Rng::new(seed);
        let part = rng.below(stack.disks() as u64);
        let [first, last] = FIRST_OFF;
        let after = self.length.mul_f64(first + (last - first) * rng.unit());
        let at = served.disk.now() + Nanos(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        served.disk.end_power(part, at);
        Some(DiskOff {
            part,
            at,
            running: None,
        })
    }

    fn write(
        &self,
        bench: &DurabilityBench,
        served: &ServedDisk,
        data: &Path,
        seed: Seed,
    ) -> Result<AckAccount, DurabilityError> {
        let now = || AckInstant {
            position: served.disk.position(),
            at: served.disk.now(),
        };
        let is_full = || served.disk.is_full();
        let disk = WitnessDisk {
            now: &now,
            is_full: &is_full,
        };
        self.written(bench, data, disk, seed, self.acks_max())
    }

    /// The account of a witness that writes for the length of a load, up to this number of
    /// acknowledgements.
    pub(crate) fn written(
        &self,
        bench: &DurabilityBench,
        data: &Path,
        disk: WitnessDisk<'_>,
        seed: Seed,
        acks_max: usize,
    ) -> Result<AckAccount, DurabilityError> {
        let load = WitnessLoad {
            seed: seed.0,
            length: self.length,
            acks_max,
            disk,
            stop: self.stop,
        };
        let account = self.ask(bench, |witness| witness.write(data, &load))?;
        match account.acknowledged() {
            0 => Err(DurabilityError::Witness {
                server: self.file.name.clone(),
                why: format!(
                    "nothing was acknowledged in {:.1} s; give a load more time with --for",
                    self.length.as_secs_f64()
                ),
            }),
            _ => Ok(account),
        }
    }

    /// A value that is missing before any cut was never there.
    fn check_alive(&self, account: &AckAccount, found: &FoundKeys) -> Result<(), DurabilityError> {
        let missing = account.not_found_alive(found);
        if missing.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = missing.iter().copied().take(SHOWN_MAX).collect();
        Err(DurabilityError::Witness {
            server: self.file.name.clone(),
            why: format!(
                "before any cut, 'have' does not find {} of {} acknowledged values ({})",
                missing.len(),
                account.acknowledged(),
                shown.join(", ")
            ),
        })
    }

    fn instant(&self, position: usize, at: Nanos) -> CutInstant {
        CutInstant {
            position,
            at,
            promised: self.promised,
        }
    }

    /// Starts the server on what there is, asks it, kills it.
    fn recover(
        &self,
        bench: &mut DurabilityBench,
        account: &AckAccount,
        data: &Path,
        recovery: RecoveryStart,
    ) -> Result<CrashFindings, DurabilityError> {
        let RecoveryStart { cut, seed, began } = recovery;
        let started = match self.is_server() {
            true => bench.start_again(&self.view, data, seed.0),
            false => Ok(()),
        };
        let took = bench.inside().clock().now().saturating_sub(began);
        let judged = match started {
            Ok(()) => match self.ask(bench, |witness| witness.read(data, self.stop)) {
                Ok(found) => account.judge(&found, cut),
                Err(DurabilityError::Stopped) => return Err(DurabilityError::Stopped),
                // It worked before the cut: what it stumbles over now is what the cut left.
                Err(error) => {
                    let words = match error {
                        DurabilityError::Witness { why, .. } => why,
                        other => other.to_string(),
                    };
                    account.nothing_to_ask(DurabilityFlaw::Unreadable, &words, cut)
                }
            },
            Err(why @ (HostError::Failed { .. } | HostError::NotReady { .. })) => {
                let words = how_it_failed(&why);
                account.nothing_to_ask(DurabilityFlaw::DoesNotStart, &words, cut)
            }
            Err(error) => return Err(error.into()),
        };
        if self.is_server() {
            bench.kill()?;
        }
        self.stopped()?;
        Ok(CrashFindings {
            recovery: Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
            ..judged
        })
    }

    /// Instants of cuts, in their order, of three kinds: right after an acknowledgement, right before a
    /// flush, when most data are at risk, and at any time since the first acknowledgement.
    fn instants(&self, ended: &EndedLoad, seed: Seed) -> Vec<CutInstant> {
        let acks = ended.account.instants();
        if self.cut_disks == CutDisks::One {
            // All others end as they should, after the load.
            let whole = self.instant(ended.log.entries.len(), ended.end);
            return vec![whole; to_usize(self.cuts.into())];
        }
        let first = acks.first().map_or(Nanos(0), |ack| ack.at);
        let first = ended.off.as_ref().map_or(first, |off| first.max(off.at));
        let [begin, end] = [first, ended.end].map(|at| ended.log.position_at(at));
        let risks = ended.log.at_risk(begin..end);
        let weights = risks
            .iter()
            .fold(0, |sum: u64, risk| sum.saturating_add(risk.weight()));
        let mut rng = Rng::new(seed);
        let mut draw = |below: u64| rng.below(below.max(1));
        let one = |n: u32| match n % 3 {
            0 => acks[to_usize(draw(acks.len() as u64))].at.max(first),
            1 if weights > 0 => {
                let mut left = draw(weights);
                let is_drawn = |risk: &&DataAtRisk| match left.checked_sub(risk.weight()) {
                    Some(rest) => {
                        left = rest;
                        false
                    }
                    None => true,
                };
                let drawn = risks.iter().find(is_drawn);
                drawn.map_or(first, |risk| risk.until.max(first))
            }
            _ => Nanos(first.0 + draw(ended.end.since(first).0 + 1)),
        };
        let mut times: Vec<Nanos> = (0..self.cuts).map(one).collect();
        times.sort_unstable();
        let of = |at: Nanos| self.instant(ended.log.position_at(at), at);
        times.into_iter().map(of).collect()
    }

    /// Cuts the disk of a load at several instants, and judges each state. The cause of the first loss goes
    /// to `cause`, where it is wanted.
    fn cut(
        &self,
        bench: &mut DurabilityBench,
        ended: &EndedLoad,
        cuts: LoadCuts,
        cause: &mut String,
    ) -> Result<Vec<CrashFindings>, DurabilityError> {
        let made = bench.state_images()?;
        let mut images = CrashImages::new(&ended.log, &made.durable, made.bytes);
        let running = ended.off.as_ref().and_then(|off| off.running.clone());
        let mut judged = Vec::from_iter(running);
        let mut lossy = None;
        let off = ended.off.as_ref().map(|off| to_usize(off.part));
        let model = cuts.model;
        let instants = self.instants(ended, cuts.seed.derive(model.name(), 0));
        for (n, cut) in (0_u64..).zip(instants) {
            self.stopped()?;
            let loss = CacheLoss {
                model,
                only: off.filter(|_| self.cut_disks == CutDisks::One),
                // The same cut of another load loses its cache in another way.
                way: u64::from(cuts.number) + n,
                seed: cuts.seed.derive(model.name(), n + 1),
            };
            let crash = crash_state(&ended.log, cut.position, loss);
            images.build(&crash, &made.state)?;
            let findings = self.judge_state(bench, &ended.account, cut)?;
            if !findings.is_whole() && lossy.is_none() {
                lossy = Some((crash, cut));
            }
            judged.push(findings);
        }
        if let Some((crash, cut)) = lossy.filter(|_| cuts.is_cause_wanted) {
            let made = bench.state_images()?;
            *cause = self.cause(bench, ended, &made, &crash, cut)?;
        }
        Ok(judged)
    }

    /// The fewest dropped writes with which a state still loses something, in words.
    fn cause(
        &self,
        bench: &mut DurabilityBench,
        ended: &EndedLoad,
        made: &StateImages,
        crash: &CrashState,
        cut: CutInstant,
    ) -> Result<String, DurabilityError> {
        let mut images = CrashImages::new(&ended.log, &made.durable, made.bytes);
        shrink::cause(&ended.log, crash, &mut |crash: &CrashState| {
            images.build(crash, &made.state)?;
            let findings = self.judge_state(bench, &ended.account, cut)?;
            Ok(!findings.is_whole())
        })
    }

    /// Mounts a state, recovers the server on it, and judges what is there.
    fn judge_state(
        &self,
        bench: &mut DurabilityBench,
        account: &AckAccount,
        cut: CutInstant,
    ) -> Result<CrashFindings, DurabilityError> {
        let began = bench.inside().clock().now();
        let judged = match bench.attach_state(self.disk) {
            Ok(()) => {
                let data: PathBuf = bench.state_directory(self.disk).join("data");
                let seed = self.seed;
                self.recover(bench, account, &data, RecoveryStart { cut, seed, began })
            }
            Err(DurabilityError::Host(HostError::Failed { output, .. })) => {
                Ok(account.nothing_to_ask(DurabilityFlaw::DoesNotMount, &output, cut))
            }
            // A layer of a stack above its file system.
            Err(DurabilityError::Host(why @ HostError::NotReady { .. })) => {
                let words = how_it_failed(&why);
                Ok(account.nothing_to_ask(DurabilityFlaw::DoesNotStart, &words, cut))
            }
            Err(error) => Err(error),
        };
        bench.detach_state(self.disk)?;
        judged
    }
}

/// The words of a failure without the command, which is long and of plimsoll's making.
fn how_it_failed(why: &HostError) -> String {
    match why {
        HostError::Failed { status, output, .. } => format!("ended with {status}: {output}"),
        HostError::NotReady {
            seconds, output, ..
        } => {
            format!("was not ready after {seconds} s: {output}")
        }
        HostError::TimedOut {
            seconds, output, ..
        } => {
            format!("did not end within {seconds} s: {output}")
        }
        other => format!("could not be run: {other}"),
    }
}
