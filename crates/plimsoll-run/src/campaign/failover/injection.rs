// SPDX-License-Identifier: Apache-2.0
//! One fault: the sessions reach their rate, it is injected, lasts, is recovered, and what came of it is
//! found.

use super::observers::ObserverRun;
use super::sessions::FailoverSessions;
use super::under::TrialLoadSwitch;
use super::{FULL_WITHIN, FailoverContext, FailoverFault};
use plimsoll_console::failure::stopped;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::failover::FaultResult;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::plan::{FaultAction, HERE, PlanAction, PlanCommandArg};
use plimsoll_lab::faults::{self, FaultJournal};
use plimsoll_machine::host::{HostResolver as _, HostTimeSource};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long they must have gone on before a fault counts as passed: what a brown-out is judged by,
/// and a little more.
const GOING_ON: Duration = Duration::from_secs(12);

/// Time between two looks at them.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait in one piece: so long a wish to stop may go unseen.
const WAIT_PIECE_S: u32 = 30;

/// How long a machine may take to start that has power again.
const STARTS_WITHIN: Duration = Duration::from_secs(300);

/// How often the sessions are given time to come to what they should do, on a system that now and then
/// does not carry them.
const CALMS: u32 = 10;

/// Those who use a stack while a fault is injected into it.
pub(super) struct FailoverClients<'scope> {
    sessions: FailoverSessions<'scope>,
    observers: ObserverRun<'scope>,
    load: &'scope TrialLoadSwitch,
    are_at_work: bool,
    /// How the sessions ended, if they did.
    ended: Result<(), CliError>,
}

impl<'scope> FailoverClients<'scope> {
    pub(super) fn new(
        sessions: FailoverSessions<'scope>,
        observers: ObserverRun<'scope>,
        load: &'scope TrialLoadSwitch,
    ) -> Self {
        FailoverClients {
            sessions,
            observers,
            load,
            are_at_work: true,
            ended: Ok(()),
        }
    }

    /// Ends them if they are still at work.
    fn end_once(&mut self) {
        if self.are_at_work {
            self.end();
        }
    }

    /// Ends them before the fault is recovered.
    fn end(&mut self) {
        self.are_at_work = false;
        self.load.end();
        self.observers.end();
        self.ended = self.sessions.end();
    }
}

/// Result of an injected fault, and any failure beside it.
pub(super) type FailoverFaultResult = (Option<FaultResult>, Result<(), CliError>);

/// Error for a fault that could not be recovered.
pub(super) fn cannot_heal(failure: CliError) -> CliError {
    let failure = CliError {
        code: CliExitCode::NotCleaned,
        ..failure
    };
    // A run takes down what it has brought up, so there may be no such stack any more.
    failure.hint(
        "the fault may still be there: plimsoll stack status shows what is up, plimsoll raze removes what is left",
    )
}

/// Error for sessions that did not reach their rate; none after Ctrl-C.
fn never_calm(
    mut users: FailoverClients<'_>,
    name: &str,
    stop: &AtomicBool,
) -> Result<FailoverFaultResult, CliError> {
    users.end();
    let (ended, seen) = (users.ended, users.observers.result(stop));
    // After Ctrl-C, errors are consequences of the stop.
    if stop.load(Ordering::Relaxed) {
        return Ok((None, Ok(())));
    }
    ended?;
    seen?;
    Err(not_carried(name))
}

fn not_carried(name: &str) -> CliError {
    let text = format!("{name} cannot sustain the rate of the sessions");
    CliError::sentence(CliExitCode::Failed, text).hint("give a lower --rate, or fewer --sessions")
}

/// Error for a file system that a fault has destroyed.
fn broken_file_system(name: &str, said: &str) -> CliError {
    let text = format!("the file system of {name} did not survive: {said}");
    CliError::sentence(CliExitCode::BadData, text)
}

/// File systems that are on disks, so that who cannot mount them has lost them.
const ON_DISKS: [&str; 3] = ["btrfs", "ext4", "xfs"];

/// Whether an action mounts or checks the file system of a stack that this machine has on its disks.
fn proves((node, action): (&str, &PlanAction), mount_dir: &str) -> bool {
    let PlanAction::Run(cmd) = action else {
        return false;
    };
    let is_text = |arg: &PlanCommandArg, wanted: &str| matches!(arg, PlanCommandArg::Text(text) if text == wanted);
    let is_one = |arg: &PlanCommandArg| ON_DISKS.iter().any(|name| is_text(arg, name));
    let is_of_one = match &*cmd.program {
        "mount" => cmd.args.iter().any(is_one),
        program => program == "btrfs",
    };
    let is_there = cmd.args.last().is_some_and(|arg| is_text(arg, mount_dir));
    node == HERE && is_of_one && is_there
}

/// How many of the processes that were there are not.
fn crashed(before: &[u32], after: &[u32]) -> u32 {
    let gone = before.iter().filter(|pid| !after.contains(pid));
    gone.count().try_into().unwrap_or(u32::MAX)
}

impl FailoverContext {
    /// One fault from the first operation of its sessions to the check of all they wrote.
    pub(super) fn inject(
        &mut self,
        planned: &FailoverFault,
        mut users: FailoverClients<'_>,
        calm: Duration,
        stop: &AtomicBool,
    ) -> Result<FailoverFaultResult, CliError> {
        let is_calm = self.calm(&users.sessions, calm, stop);
        let processes = self.processes(planned).unwrap_or_default();
        if !is_calm || stop.load(Ordering::Relaxed) {
            return never_calm(users, &self.name, stop);
        }
        let noted = self.note(planned)?;
        let fault_plan = &planned.fault_plan;
        let first_at = FailoverSessions::now();
        let first = self.begin(planned, self.lasting, stop);
        let ordered_at = FailoverSessions::now();
        let injected = first.and_then(|()| match stop.load(Ordering::Relaxed) {
            // Steps before the fault are healed, and no more is done.
            true if !fault_plan.first.is_empty() => Err(stopped()),
            _ => self.carry_out(&fault_plan.inject, planned),
        });
        let injected_at = FailoverSessions::now();
        let heal = match injected.is_ok() || fault_plan.halfway.is_empty() {
            true => &fault_plan.heal,
            false => &fault_plan.halfway,
        };
        let lasted = injected.and_then(|()| self.let_last(planned, &users.sessions, stop));
        if fault_plan.ends_sessions(&self.made) {
            users.end();
        }
        let healing_at = FailoverSessions::now();
        // Whatever went wrong until now.
        let mended = self.mend(planned, (heal, &processes), &mut || users.end_once(), stop);
        let healed_at = FailoverSessions::now();
        // Storage is back, but without a whole file system: that is the result of the fault.
        let crashed = match self.broken.is_some() {
            true => 0,
            false => mended.map_err(cannot_heal)?,
        };
        noted
            .healed()
            .map_err(doing(CliExitCode::Failed, "write the journal of the stack"))?;
        let under_load = users.are_at_work;
        lasted?;
        // A file system that the fault made read-only ends the sessions with an error. The result
        // of the fault is returned with this error.
        let worked = users.ended;
        if under_load {
            self.wait_for(&users.sessions, self.patience, stop);
        }
        let felt_at = fault_plan.felt_from(first_at, ordered_at, injected_at);
        let (outage, check) = users.sessions.result(felt_at, stop)?;
        let (observers, ended) = match users.observers.result(stop) {
            Ok(observers) => (observers, Ok(())),
            Err(failure) => (Vec::new(), Err(failure)),
        };
        let result = FaultResult {
            fault: planned.fault,
            victim: planned.victim.name.clone(),
            done_within: injected_at.since(ordered_at),
            lasted: healing_at.since(injected_at),
            healed_in: healed_at.since(healing_at),
            healed_under_load: under_load,
            crashed,
            ceiling: None,
            observers,
            // As it begins, not when the command that does it has ended.
            events: self.events((first_at, healing_at), felt_at),
            outage,
            check,
        };
        let lost = self.broken.as_deref();
        let lost = lost.map_or(Ok(()), |said| Err(broken_file_system(&self.name, said)));
        let ended = lost.and(worked).and(ended);
        Ok((Some(result), ended))
    }

    /// Notes a fault before it is injected, with what ends it.
    pub(super) fn note(&self, planned: &FailoverFault) -> Result<FaultJournal, CliError> {
        let why = format!("inject {} into {}", planned.fault, planned.victim.name);
        let held = (&self.held, &*self.name, &self.state);
        FaultJournal::note(&planned.fault_plan, &why, held)
            .map_err(doing(CliExitCode::Failed, "write the journal of the stack"))
    }

    /// Ends a fault and brings back what it took, also what others gave up meanwhile and what failed by
    /// it. How many processes that were, of those that ran before.
    pub(super) fn mend(
        &mut self,
        planned: &FailoverFault,
        (heal, before): (&[(String, PlanAction)], &[u32]),
        end_users: &mut dyn FnMut(),
        stop: &AtomicBool,
    ) -> Result<u32, CliError> {
        let fault_plan = &planned.fault_plan;
        match self.heal(heal, planned, stop) {
            // All of it is in what comes after.
            Err(_) if self.made.fences && !fault_plan.after.is_empty() => {}
            healed => healed?,
        }
        self.heal(&fault_plan.after, planned, stop)?;
        if fault_plan.takes_processes {
            return Ok(0);
        }
        let crashed = crashed(before, &self.processes(planned)?);
        let given_up = self.given_up(planned)?;
        if faults::unmount(&given_up, &self.made) {
            end_users();
        }
        self.heal(&given_up, planned, stop)?;
        if crashed > 0 {
            self.start_again(planned)?;
        }
        Ok(crashed)
    }

    /// Steps that bring the server back where other servers gave it up although the fault did not
    /// take its processes: the end of the fault alone would leave the stack without it, and the
    /// next fault would be a second one.
    fn given_up(&mut self, planned: &FailoverFault) -> Result<Vec<(String, PlanAction)>, CliError> {
        let what = format!("see whether {} was given up", planned.victim.name);
        faults::given_up(&planned.victim, &self.made, &mut self.nodes)
            .map_err(doing(CliExitCode::Failed, what))
    }

    /// Steps before a fault, and a pause after them.
    pub(super) fn begin(
        &mut self,
        planned: &FailoverFault,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        if !planned.fault_plan.first.is_empty() {
            self.carry_out(&planned.fault_plan.first, planned)?;
            self.pause(time, stop);
        }
        Ok(())
    }

    /// Numbers of the processes of the server that the fault is injected into.
    pub(super) fn processes(&mut self, planned: &FailoverFault) -> Result<Vec<u32>, CliError> {
        let victim = &planned.victim;
        let host = self.nodes.on(&victim.node);
        let what = || format!("see whether {} still runs", victim.name);
        let host = host.map_err(doing(CliExitCode::Failed, what()))?;
        let marks = victim.marks.iter();
        Ok(marks.flat_map(|mark| host.marked(mark)).collect())
    }

    /// Starts what ended of the server that had the fault, as it was started when the stack was made.
    fn start_again(&mut self, planned: &FailoverFault) -> Result<(), CliError> {
        let servers = self.made.servers.iter();
        let marks = servers
            .filter(|server| server.name == planned.victim.name)
            .flat_map(|server| &server.marks);
        let marks: Vec<&String> = marks.collect();
        let what = || {
            format!(
                "start {} again, which {} ended",
                planned.victim.name, planned.fault
            )
        };
        for step in &self.steps {
            let PlanAction::Start { mark, .. } = &step.apply else {
                continue;
            };
            let host = self.nodes.on(&step.node);
            let host = host.map_err(doing(CliExitCode::Failed, what()))?;
            if marks.contains(&mark) && host.marked(mark).is_empty() {
                let started = host.carry_out(&self.id, &step.apply);
                started.map_err(doing(CliExitCode::Failed, what()))?;
            }
        }
        Ok(())
    }

    /// Lets the sessions work for a while in which they do what they should, and says whether they
    /// came to that.
    fn calm(&self, sessions: &FailoverSessions<'_>, calm: Duration, stop: &AtomicBool) -> bool {
        let began = self.clock.now();
        for _ in 0..CALMS {
            let ready = || sessions.go_on() || sessions.is_over();
            let waited = self.clock.now().saturating_sub(began);
            self.wait_until(FULL_WITHIN.saturating_sub(waited), stop, ready);
            self.wait_until(calm, stop, || sessions.is_over());
            if sessions.is_over() || stop.load(Ordering::Relaxed) {
                return false;
            }
            if sessions.go_on() {
                return true;
            }
        }
        false
    }

    pub(super) fn carry_out(
        &mut self,
        actions: &[(String, PlanAction)],
        planned: &FailoverFault,
    ) -> Result<(), CliError> {
        let what = format!("{} {}", planned.fault, planned.victim.name);
        faults::carry_out(actions, &self.id, &mut self.nodes)
            .map_err(doing(CliExitCode::Failed, what))
    }

    /// Heals. Servers that cut each other's power may do so to one that is just being brought back,
    /// when a fault was cut short: then it is begun anew, once.
    fn heal(
        &mut self,
        actions: &[(String, PlanAction)],
        planned: &FailoverFault,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let healed = self.heal_once(actions, planned, stop);
        match healed {
            Err(_) if self.made.fences => self.heal_once(actions, planned, stop),
            _ => healed,
        }
    }

    /// Waits in slices so that a stop is noticed: recovery may take as long as copying a disk.
    fn heal_once(
        &mut self,
        actions: &[(String, PlanAction)],
        planned: &FailoverFault,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let is_power = |(_, action): &(String, PlanAction)| {
            matches!(
                action,
                PlanAction::Hurt(FaultAction::Power { on: true, .. })
            )
        };
        let starts = actions.iter().any(is_power);
        self.broken = None;
        for (node, action) in actions {
            if starts && node != HERE {
                self.wait_until_reached(node, stop);
            }
            let PlanAction::Await(cmd) = action else {
                let done = self.carry_out(&[(node.clone(), action.clone())], planned);
                if let Err(failure) = &done
                    && proves((node, action), &self.made.mount_dir)
                {
                    self.broken = Some(failure.text());
                }
                done?;
                continue;
            };
            let mut left_s = cmd.limit_s;
            while !stop.load(Ordering::Relaxed) {
                let piece_s = left_s.min(WAIT_PIECE_S);
                let piece = PlanAction::Await(cmd.clone().within_s(piece_s));
                left_s -= piece_s;
                match self.carry_out(&[(node.clone(), piece)], planned) {
                    Err(failure) if left_s == 0 => return Err(failure),
                    Err(_) => {}
                    Ok(()) => break,
                }
            }
        }
        Ok(())
    }

    /// A machine that was given power answers when it has started. Who is tried next says why it does not.
    fn wait_until_reached(&mut self, node: &str, stop: &AtomicBool) {
        let until = self.clock.now() + STARTS_WITHIN;
        while self.nodes.on(node).is_err()
            && self.clock.now() < until
            && !stop.load(Ordering::Relaxed)
        {
            self.clock.pause(Duration::from_secs(1));
        }
    }

    /// Waits while a fault lasts: for its configured time, then until the sessions work again or the recovery
    /// timeout ends. A fault in cycles, or one that the stack need not survive, ends after its time.
    fn let_last(
        &mut self,
        planned: &FailoverFault,
        sessions: &FailoverSessions<'_>,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let Some(cycle) = planned.fault_plan.cycle else {
            self.pause(self.lasting, stop);
            // No stack promises to work without two servers.
            let is_one = planned.fault != FaultKind::Double;
            if is_one && faults::is_survivable(&planned.victim.name, &self.made) {
                self.wait_for(sessions, self.patience, stop);
            }
            return Ok(());
        };
        let began = self.clock.now();
        let mut fault_plan = planned.fault_plan.clone();
        // It is there now.
        loop {
            self.clock.pause(cycle.on);
            if self.clock.now().saturating_sub(began) >= self.lasting
                || stop.load(Ordering::Relaxed)
            {
                return Ok(());
            }
            let healed = self.carry_out(&fault_plan.heal, planned);
            self.clock.pause(cycle.off);
            fault_plan.vary();
            match healed.and_then(|()| self.carry_out(&fault_plan.inject, planned)) {
                // The others cut its power meanwhile.
                Err(_) if self.made.fences => return Ok(()),
                done => done?,
            }
        }
    }

    fn pause(&self, time: Duration, stop: &AtomicBool) {
        self.wait_until(time, stop, || false);
    }

    pub(super) fn wait_until(&self, limit: Duration, stop: &AtomicBool, is_so: impl Fn() -> bool) {
        let until = self.clock.now() + limit;
        while self.clock.now() < until && !stop.load(Ordering::Relaxed) && !is_so() {
            self.clock
                .pause(LOOK.min(until.saturating_sub(self.clock.now())));
        }
    }

    /// Waits until every session has gone on for a while, for as long as patience lasts.
    fn wait_for(&self, sessions: &FailoverSessions<'_>, patience: Duration, stop: &AtomicBool) {
        let began = self.clock.now();
        let mut going_on_since = None;
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if !sessions.go_on() {
                going_on_since = None;
            } else if now.saturating_sub(*going_on_since.get_or_insert(now)) >= GOING_ON {
                return;
            }
            if going_on_since.is_none() && now.saturating_sub(began) >= patience {
                return;
            }
            self.clock.pause(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::plan::PlanCommand;

    #[test]
    fn only_what_works_on_the_file_system_itself_tells_of_it() {
        let run = |program: &str, at: &str| {
            PlanAction::Run(PlanCommand::new(program, ["-t", "ext4", "/dev/x", at]))
        };
        assert!(proves((HERE, &run("mount", "/s/mnt")), "/s/mnt"));
        assert!(!proves((HERE, &run("mount", "/s/other")), "/s/mnt"));
        assert!(!proves(("server", &run("mount", "/s/mnt")), "/s/mnt"));
        assert!(!proves((HERE, &run("mkfs", "/s/mnt")), "/s/mnt"));
        let scrub = PlanCommand::new("btrfs", ["scrub", "start", "-B", "/s/mnt"]);
        assert!(proves((HERE, &PlanAction::Run(scrub)), "/s/mnt"));
        // A server that does not answer has not lost its files.
        let nfs = PlanCommand::new("mount", ["-t", "nfs", "server:/", "/s/mnt"]);
        assert!(!proves((HERE, &PlanAction::Run(nfs)), "/s/mnt"));
        let unmount = PlanAction::Unmount("/s/mnt".into());
        assert!(!proves((HERE, &unmount), "/s/mnt"));
    }
}
