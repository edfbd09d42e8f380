// SPDX-License-Identifier: Apache-2.0
//! Faults done to a stack while sessions use it, one after another.
//!
//! Invariants: every fault is planned before the first is done; whatever ends a fault early, it is
//! healed before this returns, or the error says that it could not be.

mod beside;
mod ceiling;
mod copies;
mod sessions;

use super::arms::stopped;
use super::{Arms, Asked, Settings, entries};
use crate::failure::{Code, Failure, doing};
use beside::{AtWork, Others};
use copies::Copier;
use plimsoll_core::failover::{ClusterEvent, Company, Failover, Strike};
use plimsoll_core::fault::Fault;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::plan::{Action, Made, Question, Server, Site, Step};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_lab::faults::{self, Blow};
use plimsoll_lab::host::{Clock, Hosts as _, Nodes, SystemClock};
use plimsoll_lab::journal::StateDir;
use plimsoll_lab::stacks;
pub(crate) use sessions::Load;
use sessions::Sessions;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long filling the files of the sessions may take.
const FULL_WITHIN: Duration = Duration::from_secs(600);

/// How long the sessions work before a fault, at least.
const CALM: Duration = Duration::from_secs(5);

/// How often that is tried, on a system that now and then does not carry them.
const CALMS: u32 = 10;

/// The moment of a fault is drawn from a time of this length after that.
const DRAWN: Duration = Duration::from_secs(2);

/// How long they must have gone on before a fault counts as passed: what a brown-out is judged by,
/// and a little more.
const GOING_ON: Duration = Duration::from_secs(12);

/// Time between two looks at them.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait in one piece: so long a wish to stop may go unseen.
const WAIT_PIECE_S: u32 = 30;

/// What is wanted.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The stack, as it is named in its journal.
    pub(crate) name: &'a str,
    /// The kinds of faults; each is done `repeat` times.
    pub(crate) faults: &'a [Fault],
    pub(crate) repeat: u32,
    /// The server that is struck; each in turn when absent.
    pub(crate) victim: Option<&'a str>,
    pub(crate) load: Load,
    /// The share of what they get out of the stack at most that the sessions are given instead of the
    /// rate in `load`.
    pub(crate) share: Option<f64>,
    /// How long a fault lasts at least.
    pub(crate) lasting: Duration,
    /// How long after that the sessions are waited for.
    pub(crate) patience: Duration,
    /// What is played beside the sessions, and how.
    pub(crate) beside: &'a [Asked],
    pub(crate) settings: &'a Settings,
    /// Who watches beside them.
    pub(crate) witnesses: &'a [Witness],
    pub(crate) seed: Seed,
    /// Directory for the ledgers, not on the stack.
    pub(crate) ledgers: &'a Path,
}

/// Somebody who watches beside the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Witness {
    /// Writes a line a second.
    Stamp,
    /// Copies a file again and again.
    Scp,
}

/// A fault that is going to be done.
#[derive(Clone)]
struct Planned {
    fault: Fault,
    victim: Server,
    blow: Blow,
}

/// What all faults are done to.
struct Ground {
    /// The journal of the stack.
    id: String,
    made: Made,
    /// The steps that made it.
    steps: Vec<Step>,
    site: Site,
    nodes: Nodes,
    clock: SystemClock,
}

/// Does all faults, and gives those that were done, also when one could not be. `tell` is told of each
/// before it is done.
pub(crate) fn failover(
    wanted: &Wanted<'_>,
    arms: &Arms,
    state: &StateDir,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&str),
) -> Result<(Failover, Result<(), Failure>), Failure> {
    let copier = match wanted.witnesses.contains(&Witness::Scp) {
        true => Some(Copier::new(wanted.ledgers, wanted.seed, stop)?),
        false => None,
    };
    let of_sessions = u64::from(wanted.load.sessions).saturating_mul(wanted.load.file_bytes);
    let of_copies = copier.as_ref().map_or(0, |_| copies::BYTES);
    arms.check_room_for(of_sessions.saturating_add(of_copies))?;
    let mut ground = Ground::of(wanted.name, &arms.held, state)?;
    let planned = plan(wanted, &mut ground)?;
    let (_, target) = arms.probed().next().expect("one stack was asked for");
    let mut notes = Vec::new();
    let entries = entries(wanted.beside, arms, wanted.settings, stop, &mut notes)?;
    for note in notes {
        tell(&format!("{}: {}", note.about, note.text));
    }
    let others = Others {
        entries: &entries,
        settings: wanted.settings,
        stamp: wanted.witnesses.contains(&Witness::Stamp),
        scp: copier.as_ref(),
        name: wanted.name,
        place: target.place(),
    };
    others.check()?;
    let (load, most) = load(wanted, &ground, others, stop, tell)?;
    let mut done = Failover {
        name: wanted.name.into(),
        description: ground.made.description.clone(),
        sessions: load.sessions,
        rate: load.rate,
        most,
        block_bytes: load.block_bytes,
        seed: wanted.seed.0,
        strikes: Vec::new(),
    };
    let mut rng = Rng::new(wanted.seed.derive("moments", 0));
    let count = planned.len();
    for (number, choices) in (1..).zip(&planned) {
        let next = match ground.chosen(choices) {
            Ok(next) => next,
            Err(failure) => return Ok((done, Err(failure))),
        };
        tell(&format!(
            "{number} of {count}: {} {}",
            next.fault, next.victim.name
        ));
        let ledger = wanted.ledgers.join(format!("{number:03}.ledger"));
        let calm = CALM + DRAWN.mul_f64(rng.unit());
        // Cells of a table begin with the same number: what one wrote must not pass for another's.
        let seed = wanted.seed.derive(next.fault.name(), number);
        let strike = std::thread::scope(|scope| {
            let others = others.begin(scope, (&ledger, seed), number)?;
            ground.wait_until(FULL_WITHIN, stop, || others.are_ready());
            let place = (target.place(), wanted.name);
            let sessions = Sessions::begin(scope, place, &load, &ledger, seed);
            ground.strike(next, (sessions, others), calm, wanted, stop)
        });
        match strike {
            Ok(strike) => done
                .strikes
                .extend(strike.filter(|strike| is_told(&strike.check))),
            Err(failure) => return Ok((done, Err(failure))),
        }
        if stop.load(Ordering::Relaxed) {
            let failure = stopped_after(done.strikes.len());
            return Ok((done, Err(failure)));
        }
    }
    Ok((done, Ok(())))
}

/// One that was stopped before all was read back says nothing of what is there, unless it found that
/// something is not.
fn is_told(check: &LedgerCheck) -> bool {
    !check.data.interrupted || check.data.bad.total() > 0
}

fn stopped_after(faults: usize) -> Failure {
    if faults == 0 {
        return stopped();
    }
    let text = "go on: it was stopped; the faults done before that are told";
    Failure::new(Code::Interrupted, text)
}

/// What the sessions do, and the most that they could, with all that is beside them at work, where that
/// was asked for.
fn load(
    wanted: &Wanted<'_>,
    ground: &Ground,
    others: Others<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(Load, Option<f64>), Failure> {
    let Some(share) = wanted.share else {
        return Ok((wanted.load, None));
    };
    let ledger = wanted.ledgers.join("most.ledger");
    let seed = wanted.seed.derive("most", 0);
    let place = (others.place, wanted.name);
    let most = std::thread::scope(|scope| {
        // Faults are counted from 1.
        let beside = others.begin(scope, (&ledger, seed), 0)?;
        ground.wait_until(FULL_WITHIN, stop, || beside.are_ready());
        let most = ceiling::per_session(place, &wanted.load, &ledger, seed, stop)?;
        let lost = |company: &Company| company.missing > 0;
        match beside.told(stop)?.into_iter().find(lost) {
            None => Ok(most),
            Some(company) => Err(Failure::new(
                Code::BadData,
                format!(
                    "use {}: {} of what {} was told to be there is missing, before any fault",
                    wanted.name, company.missing, company.name
                ),
            )),
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(stopped());
    }
    // What a ledger takes.
    let rate = (most * share).clamp(0.1, 50_000.0);
    tell(&format!(
        "{} carries {most:.1} reads and as many writes per second of each session; they do {rate:.1}",
        wanted.name
    ));
    let load = Load {
        rate,
        ..wanted.load
    };
    Ok((load, Some(most)))
}

/// What is said of sessions that did not come to do what they should.
fn never_calm(
    (mut sessions, others): (Sessions<'_>, AtWork<'_>),
    name: &str,
    stop: &AtomicBool,
) -> Result<Option<Strike>, Failure> {
    let ended = sessions.end();
    let told = others.told(stop);
    // Who was stopped says that of everything.
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    ended?;
    told?;
    Err(not_carried(name))
}

fn not_carried(name: &str) -> Failure {
    let text = format!("use {name}: it does not carry the sessions");
    Failure::new(Code::Failed, text).hint("give a lower --rate, or fewer --sessions")
}

/// How many of the processes that were there are not.
fn crashed(before: &[u32], after: &[u32]) -> u32 {
    let gone = before.iter().filter(|pid| !after.contains(pid));
    gone.count().try_into().unwrap_or(u32::MAX)
}

/// The victim that is whoever serves at the moment.
pub(crate) const ACTIVE: &str = "active";

/// Every fault of every kind with its victim, each of which can be done. Where the victim is known only
/// when it is done, there are several to choose from.
fn plan(wanted: &Wanted<'_>, ground: &mut Ground) -> Result<Vec<Vec<Planned>>, Failure> {
    let servers = &ground.made.servers;
    let chosen: Vec<_> = match wanted.victim {
        None => servers.iter().collect(),
        Some(ACTIVE) => servers.iter().filter(|s| s.asked.is_some()).collect(),
        Some(name) => servers.iter().filter(|s| s.name == name).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = servers.iter().map(|s| &*s.name).collect();
        let known = match names.is_empty() {
            true => "it has no servers of its own".to_owned(),
            false => format!("its servers are {}", names.join(", ")),
        };
        let what = match wanted.victim {
            Some(ACTIVE) => "the one that serves",
            named => named.unwrap_or("a server"),
        };
        return Err(Failure::usage(format!(
            "strike {what} of {}: {known}",
            wanted.name
        )));
    }
    let mut all = Vec::new();
    for fault in wanted.faults {
        let what = || format!("do {fault} to {}", wanted.name);
        let mut of_each = Vec::new();
        for victim in &chosen {
            let blow = faults::plan(*fault, victim, &ground.made, &ground.site)
                .map_err(doing(Code::Usage, what()))?;
            faults::carry_out(&blow.trial, &ground.id, &mut ground.nodes)
                .map_err(doing(Code::Usage, what()))?;
            of_each.push(Planned {
                fault: *fault,
                victim: (*victim).clone(),
                blow,
            });
        }
        let repeat = wanted.repeat as usize;
        match wanted.victim {
            Some(ACTIVE) => all.extend(std::iter::repeat_n(of_each, repeat)),
            _ => all.extend(
                of_each
                    .into_iter()
                    .cycle()
                    .take(repeat)
                    .map(|one| vec![one]),
            ),
        }
    }
    Ok(all)
}

impl Ground {
    /// A stack that is held with these files. From now on nobody else uses it: who measures it would
    /// measure the faults, and two who strike it would heal each other's.
    fn of(name: &str, held: &[File], state: &StateDir) -> Result<Ground, Failure> {
        for held in held {
            let what = format!("strike {name}");
            stacks::hold_alone(held, name, state).map_err(doing(Code::Failed, what))?;
        }
        let record = stacks::manage::record(name, state)
            .map_err(doing(Code::Failed, format!("read the journal of {name}")))?;
        let (Some(ask), Some(made)) = (record.header.ask, record.made) else {
            return Err(Failure::new(
                Code::Failed,
                format!("strike {name}: its journal does not say what it is made of"),
            ));
        };
        let mut nodes = crate::cli::nodes();
        nodes.meet(&ask.site.servers);
        Ok(Ground {
            id: record.header.id,
            made,
            steps: record.entries.into_iter().map(|entry| entry.step).collect(),
            site: ask.site,
            nodes,
            clock: SystemClock::new(),
        })
    }

    /// What the servers' logs say that they did between two times of day.
    fn events(&mut self, from: Nanos, to: Nanos) -> Vec<ClusterEvent> {
        let mut events = Vec::new();
        for server in &self.made.servers {
            let Some(cmd) = server.question(Question::Events) else {
                continue;
            };
            let said = self
                .nodes
                .on(&server.node)
                .and_then(|host| host.answer(&self.id, &cmd));
            // Figures without it are whole: it says why they are what they are.
            let Ok(said) = said else { continue };
            for (at, what) in said.lines().filter_map(|line| line.split_once(' ')) {
                let Ok(seconds) = at.parse::<f64>() else {
                    continue;
                };
                let at = Nanos::from_secs_f64(seconds);
                if (from..=to).contains(&at) {
                    events.push(ClusterEvent {
                        after: at.since(from),
                        server: server.name.clone(),
                        what: what.into(),
                    });
                }
            }
        }
        events.sort_by_key(|event| event.after);
        events
    }

    /// The one whose victim serves, where there are several.
    fn chosen<'a>(&mut self, choices: &'a [Planned]) -> Result<&'a Planned, Failure> {
        if let [only] = choices {
            return Ok(only);
        }
        for choice in choices {
            let asked = choice.victim.question(Question::Serves).map(Action::Run);
            let asked: Vec<_> = asked
                .map(|action| (choice.victim.node.clone(), action))
                .into_iter()
                .collect();
            if faults::carry_out(&asked, &self.id, &mut self.nodes).is_ok() {
                return Ok(choice);
            }
        }
        Err(Failure::new(
            Code::Failed,
            "find out who serves: none of the servers says so",
        ))
    }

    /// One fault from the first operation of its sessions to the check of all they wrote.
    fn strike(
        &mut self,
        planned: &Planned,
        (mut sessions, mut others): (Sessions<'_>, AtWork<'_>),
        calm: Duration,
        wanted: &Wanted<'_>,
        stop: &AtomicBool,
    ) -> Result<Option<Strike>, Failure> {
        if !self.calm(&sessions, calm, stop) {
            return never_calm((sessions, others), wanted.name, stop);
        }
        let blow = &planned.blow;
        let processes = self.processes(planned);
        let first = self.begin(planned, wanted.lasting, stop);
        let ordered_at = Sessions::now();
        let struck = first.and_then(|()| self.carry_out(&blow.strike, planned));
        let struck_at = Sessions::now();
        let lasted = match struck {
            Ok(()) => self.let_last(planned, &sessions, wanted, stop),
            failed => failed,
        };
        let mut under_load = !blow.ends_sessions(&self.made);
        let mut ended = Ok(());
        if !under_load {
            others.end();
            ended = sessions.end();
        }
        let healing_at = Sessions::now();
        // Whatever went wrong until now.
        let healed = self.heal(&blow.heal, planned, stop);
        let healed = match healed {
            // All of it is in what comes after.
            Err(_) if self.made.fences && !blow.after.is_empty() => Ok(()),
            healed => healed,
        };
        let healed = healed.and_then(|()| self.heal(&blow.after, planned, stop));
        let crashed = match blow.takes_processes {
            true => 0,
            false => crashed(&processes, &self.processes(planned)),
        };
        let given_up = match (&healed, blow.takes_processes) {
            (Ok(()), false) => self.given_up(planned)?,
            _ => Vec::new(),
        };
        if under_load && faults::unmount(&given_up, &self.made) {
            under_load = false;
            others.end();
            ended = sessions.end();
        }
        let healed = healed.and_then(|()| self.heal(&given_up, planned, stop));
        let healed_at = Sessions::now();
        healed.map_err(|failure| {
            Failure::new(Code::NotCleaned, failure.message).hint(format!(
                "the fault may still be there; take the stack down with: plimsoll stack down '{}'",
                wanted.name
            ))
        })?;
        if crashed > 0 {
            self.start_again(planned)?;
        }
        lasted.and(ended)?;
        if under_load {
            self.wait_for(&sessions, wanted.patience, stop);
        }
        let (outage, check) = sessions.told(blow.felt_from(ordered_at, struck_at), stop)?;
        let beside = others.told(stop)?;
        Ok(Some(Strike {
            fault: planned.fault,
            victim: planned.victim.name.clone(),
            done_within: struck_at.since(ordered_at),
            lasted: healing_at.since(struck_at),
            healed_in: healed_at.since(healing_at),
            healed_under_load: under_load,
            crashed,
            beside,
            // As it begins, not when the command that does it has ended.
            events: self.events(ordered_at, healing_at),
            outage,
            check,
        }))
    }

    /// What brings the server back where others gave it up although nobody took its processes: the
    /// end of the fault alone would leave the stack without it, and the next fault would be a second
    /// one.
    fn given_up(&mut self, planned: &Planned) -> Result<Vec<(String, Action)>, Failure> {
        let what = format!("see whether {} was given up", planned.victim.name);
        faults::given_up(&planned.victim, &self.made, &mut self.nodes)
            .map_err(doing(Code::Failed, what))
    }

    /// What comes before a fault, and is given time.
    fn begin(
        &mut self,
        planned: &Planned,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        if !planned.blow.first.is_empty() {
            self.carry_out(&planned.blow.first, planned)?;
            self.pause(time, stop);
        }
        Ok(())
    }

    /// Numbers of the processes of the server that is struck; none of a node that cannot be asked.
    fn processes(&mut self, planned: &Planned) -> Vec<u32> {
        let mut servers = self.made.servers.iter();
        let Some(server) = servers.find(|server| server.name == planned.victim.name) else {
            return Vec::new();
        };
        let Ok(host) = self.nodes.on(&server.node) else {
            return Vec::new();
        };
        let marks = server.marks.iter();
        marks.flat_map(|mark| host.marked(mark)).collect()
    }

    /// Starts what ended of the server that was struck, as it was started when the stack was made.
    fn start_again(&mut self, planned: &Planned) -> Result<(), Failure> {
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
            let Action::Start { mark, .. } = &step.apply else {
                continue;
            };
            let host = self.nodes.on(&step.node);
            let host = host.map_err(doing(Code::Failed, what()))?;
            if marks.contains(&mark) && host.marked(mark).is_empty() {
                let started = host.carry_out(&self.id, &step.apply);
                started.map_err(doing(Code::Failed, what()))?;
            }
        }
        Ok(())
    }

    /// Lets the sessions work for a while in which they do what they should, and says whether they
    /// came to that.
    fn calm(&self, sessions: &Sessions<'_>, calm: Duration, stop: &AtomicBool) -> bool {
        let began = self.clock.now();
        for _ in 0..CALMS {
            let ready = || sessions.go_on() || sessions.is_over();
            let waited = self.clock.now().saturating_sub(began);
            self.wait_until(FULL_WITHIN.saturating_sub(waited), stop, ready);
            self.pause(calm, stop);
            if sessions.go_on() {
                return true;
            }
        }
        false
    }

    fn carry_out(
        &mut self,
        actions: &[(String, Action)],
        planned: &Planned,
    ) -> Result<(), Failure> {
        let what = format!("{} {}", planned.fault, planned.victim.name);
        faults::carry_out(actions, &self.id, &mut self.nodes).map_err(doing(Code::Failed, what))
    }

    /// Heals. Servers that cut each other's power may do so to one that is just being brought back,
    /// when a fault was cut short: then it is begun anew, once.
    fn heal(
        &mut self,
        actions: &[(String, Action)],
        planned: &Planned,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let healed = self.heal_once(actions, planned, stop);
        match healed {
            Err(_) if self.made.fences => self.heal_once(actions, planned, stop),
            _ => healed,
        }
    }

    /// What is waited for may take as long as a disk is copied, so it is waited for in pieces, and no
    /// longer than until somebody says stop.
    fn heal_once(
        &mut self,
        actions: &[(String, Action)],
        planned: &Planned,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        for (node, action) in actions {
            let Action::Await(cmd) = action else {
                self.carry_out(&[(node.clone(), action.clone())], planned)?;
                continue;
            };
            let mut left_s = cmd.limit_s;
            while !stop.load(Ordering::Relaxed) {
                let piece_s = left_s.min(WAIT_PIECE_S);
                let piece = Action::Await(cmd.clone().within_s(piece_s));
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

    /// Lets a fault last: so long as was asked, and then until the sessions go on or are given up.
    fn let_last(
        &mut self,
        planned: &Planned,
        sessions: &Sessions<'_>,
        wanted: &Wanted<'_>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let Some(beat) = planned.blow.beat else {
            self.pause(wanted.lasting, stop);
            // Nobody promises that a stack goes on without two.
            let is_one = planned.fault != Fault::Double;
            if is_one && faults::is_survivable(&planned.victim.name, &self.made) {
                self.wait_for(sessions, wanted.patience, stop);
            }
            return Ok(());
        };
        let began = self.clock.now();
        let mut blow = planned.blow.clone();
        // It is there now.
        loop {
            self.clock.pause(beat.on);
            if self.clock.now().saturating_sub(began) >= wanted.lasting
                || stop.load(Ordering::Relaxed)
            {
                return Ok(());
            }
            let healed = self.carry_out(&blow.heal, planned);
            self.clock.pause(beat.off);
            blow.vary();
            match healed.and_then(|()| self.carry_out(&blow.strike, planned)) {
                // The others cut its power meanwhile.
                Err(_) if self.made.fences => return Ok(()),
                done => done?,
            }
        }
    }

    fn pause(&self, time: Duration, stop: &AtomicBool) {
        self.wait_until(time, stop, || false);
    }

    fn wait_until(&self, limit: Duration, stop: &AtomicBool, is_so: impl Fn() -> bool) {
        let until = self.clock.now() + limit;
        while self.clock.now() < until && !stop.load(Ordering::Relaxed) && !is_so() {
            self.clock
                .pause(LOOK.min(until.saturating_sub(self.clock.now())));
        }
    }

    /// Waits until every session has gone on for a while, for as long as patience lasts.
    fn wait_for(&self, sessions: &Sessions<'_>, patience: Duration, stop: &AtomicBool) {
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
    use plimsoll_core::data_check::Flaw;

    #[test]
    fn a_fault_whose_data_was_not_read_back_is_told_only_with_what_is_missing() {
        let mut check = LedgerCheck::default();
        assert!(is_told(&check));
        check.data.interrupted = true;
        assert!(!is_told(&check));
        check.data.bad.count(Flaw::Lost);
        assert!(is_told(&check));
    }
}
