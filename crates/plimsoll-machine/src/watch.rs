// SPDX-License-Identifier: Apache-2.0
//! Watching the servers of a system while it works: who moved how much, who used which processor
//! time, whose memory grew, and who stood still while others worked.
//!
//! Invariant: watching takes a look each second and keeps a few numbers per server, whatever the
//! length of the trial.

use plimsoll_core::event::ServerUse;
use plimsoll_core::plan::StackServer;
use plimsoll_core::units::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::host::{HostProcessUsage, HostResolver, HostTimeSource};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is seen whether to stop.
const PAUSE: Duration = Duration::from_millis(20);

/// A look after a shorter time says nothing of a share of a processor: the last one of a trial.
const SHARE_LOOK_MIN: Duration = Duration::from_millis(500);

/// A server that moved less than this in a look stood still: heartbeats are less.
const STILL_BYTES: u64 = 4096;

/// Most targets of a Lustre that are kept although nothing was moved to or from them: those of a
/// large one that the files do not lie on would hide the rest.
const IDLE_TARGETS_MAX: usize = 64;

/// The parts of a system that are watched.
#[derive(Debug, Clone, Copy)]
pub struct ServerWatchScope<'a> {
    /// Its servers, by their processes.
    pub servers: &'a [StackServer],
    /// Programs of this machine between the load and the servers.
    pub client_programs: &'a [StackServer],
    /// The name of a Lustre file system whose object storage targets are watched, by what this machine
    /// counts of them as a client. Their processors and memory are not seen.
    pub lustre: Option<&'a str>,
}

/// The use during the watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchedUse {
    /// By servers.
    pub servers: Vec<ServerUse>,
    /// By programs of this machine between the load and the servers.
    pub client_programs: Vec<ServerUse>,
}

/// The kind of a watched server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchedKind {
    Server,
    /// A target of a Lustre.
    Target,
    ClientProgram,
}

/// One server while it is watched.
struct ServerWatchState {
    name: String,
    kind: WatchedKind,
    first: HostProcessUsage,
    last: HostProcessUsage,
    thread_share_max: f64,
    still: Nanos,
    resident: ResidentSteps,
}

/// Memory at evenly spaced looks: when there are too many, every other one is dropped, and from then
/// on every other look is kept.
struct ResidentSteps {
    steps: Vec<u64>,
    every: u32,
    looks: u32,
}

impl ResidentSteps {
    fn new(first: u64) -> Self {
        ResidentSteps {
            steps: vec![first],
            every: 1,
            looks: 0,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.looks += 1;
        if !self.looks.is_multiple_of(self.every) {
            return;
        }
        if self.steps.len() == ServerUse::RESIDENT_STEPS {
            let mut is_kept = false;
            self.steps.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every *= 2;
            if !self.looks.is_multiple_of(self.every) {
                return;
            }
        }
        self.steps.push(bytes);
    }
}

/// Watches these until stopped, and reports what they used. Servers whose node cannot be asked
/// are left out, and of more than 64 targets of a Lustre those that nothing was moved to or from.
pub fn watch(
    subjects: &ServerWatchScope<'_>,
    hosts: &mut dyn HostResolver,
    clock: &dyn HostTimeSource,
    stop: &AtomicBool,
) -> WatchedUse {
    let began = clock.now();
    let looks = look(subjects, hosts).into_iter();
    let mut watched: Vec<ServerWatchState> = looks.filter_map(ServerWatchState::new).collect();
    let mut before = began;
    loop {
        while clock.now().saturating_sub(before) < LOOK && !stop.load(Ordering::Relaxed) {
            clock.pause(PAUSE);
        }
        let now = clock.now();
        let passed = now.saturating_sub(before);
        note(&mut watched, look(subjects, hosts), passed);
        before = now;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let length = Nanos::from(before.saturating_sub(began));
    let is_target = |one: &ServerWatchState| one.kind == WatchedKind::Target;
    let targets = watched.iter().filter(|one| is_target(one)).count();
    let is_kept = |one: &&ServerWatchState| {
        let idle = is_target(one) && one.last.moved_bytes == one.first.moved_bytes;
        !idle || targets <= IDLE_TARGETS_MAX
    };
    let (servers, client_programs): (Vec<_>, Vec<_>) = watched
        .iter()
        .filter(is_kept)
        .partition(|one| one.kind != WatchedKind::ClientProgram);
    let results = |all: Vec<&ServerWatchState>| all.iter().map(|one| one.result(length)).collect();
    WatchedUse {
        servers: results(servers),
        client_programs: results(client_programs),
    }
}

/// Notes one look at all.
fn note(watched: &mut [ServerWatchState], looks: Vec<Look>, passed: Duration) {
    let looks = looks.into_iter().map(|look| (look.name, look.usage));
    let mut looks: BTreeMap<String, Option<HostProcessUsage>> = looks.collect();
    let mut moved = Vec::new();
    for one in watched.iter_mut() {
        let now = looks.remove(&one.name).flatten().unwrap_or(one.last);
        let thread = now
            .busiest_thread_ns
            .saturating_sub(one.last.busiest_thread_ns);
        let share = thread as f64 / (passed.as_nanos() as f64).max(1.0);
        if passed >= SHARE_LOOK_MIN {
            one.thread_share_max = one.thread_share_max.max(share);
        }
        one.resident.add(now.resident_bytes);
        moved.push(now.moved_bytes.saturating_sub(one.last.moved_bytes));
        one.last = now;
    }
    let is_server = |one: &ServerWatchState| one.kind != WatchedKind::ClientProgram;
    let mut servers = watched.iter().zip(&moved).filter(|(one, _)| is_server(one));
    let others_work = servers.any(|(_, &bytes)| bytes >= STILL_BYTES);
    for (one, moved) in watched.iter_mut().zip(moved) {
        if is_server(one) && others_work && moved < STILL_BYTES {
            one.still = one.still + Nanos::from(passed);
        }
    }
}

/// The use of one server so far.
struct Look {
    name: String,
    kind: WatchedKind,
    /// `None` where its node cannot be asked.
    usage: Option<HostProcessUsage>,
}

/// Takes one look at all.
fn look(subjects: &ServerWatchScope<'_>, hosts: &mut dyn HostResolver) -> Vec<Look> {
    let mut looks = Vec::new();
    // Of one that its kernel is, no process shows anything.
    let by_processes = |(_, server): &(WatchedKind, &StackServer)| !server.marks.is_empty();
    let servers = subjects
        .servers
        .iter()
        .map(|one| (WatchedKind::Server, one));
    let programs = subjects.client_programs.iter();
    let programs = programs.map(|one| (WatchedKind::ClientProgram, one));
    for (kind, server) in servers.chain(programs).filter(by_processes) {
        let usage = hosts.on(&server.node).ok().map(|host| {
            let used = server.marks.iter().map(|mark| host.usage(mark));
            used.fold(HostProcessUsage::default(), HostProcessUsage::and)
        });
        looks.push(Look {
            name: server.name.clone(),
            kind,
            usage,
        });
    }
    let lustre = subjects.lustre;
    let moved = lustre.map(|name| hosts.here().moved_by_targets(name));
    let target = |(name, moved_bytes)| Look {
        name,
        kind: WatchedKind::Target,
        usage: Some(HostProcessUsage {
            moved_bytes,
            ..HostProcessUsage::default()
        }),
    };
    looks.extend(moved.unwrap_or_default().into_iter().map(target));
    looks
}

impl ServerWatchState {
    fn new(look: Look) -> Option<Self> {
        let first = look.usage?;
        Some(ServerWatchState {
            name: look.name,
            kind: look.kind,
            first,
            last: first,
            thread_share_max: 0.0,
            still: Nanos(0),
            resident: ResidentSteps::new(first.resident_bytes),
        })
    }

    fn result(&self, length: Nanos) -> ServerUse {
        ServerUse {
            server: self.name.clone(),
            length,
            cpu_ns: self.last.cpu_ns.saturating_sub(self.first.cpu_ns),
            thread_share_max: self.thread_share_max,
            resident_bytes: self.last.resident_bytes,
            grown_bytes: self.last.resident_bytes.cast_signed()
                - self.first.resident_bytes.cast_signed(),
            moved_bytes: self.last.moved_bytes.saturating_sub(self.first.moved_bytes),
            still: self.still,
            processes_lost: self.first.processes.saturating_sub(self.last.processes),
            resident_steps: match self.kind {
                WatchedKind::Target => Vec::new(),
                _ => self.resident.steps.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use crate::host::SystemClock;

    fn server(name: &str) -> StackServer {
        StackServer {
            name: name.into(),
            node: "here".into(),
            marks: vec![format!("mark-{name}")],
            asked: None,
            restore: Vec::new(),
        }
    }

    #[test]
    fn memory_is_kept_at_even_steps_however_long_it_lasts() {
        for looks in [3_u64, 15, 16, 17, 100, 5_000] {
            let mut resident = ResidentSteps::new(0);
            (1..=looks).for_each(|look| resident.add(look));
            let steps = &resident.steps;
            assert!(steps.len() <= ServerUse::RESIDENT_STEPS, "{looks}");
            assert!(steps.len() as u64 > 3.min(looks), "{looks}: {steps:?}");
            let width = steps[1] - steps[0];
            assert!(
                steps.windows(2).all(|two| two[1] - two[0] == width),
                "{looks}: {steps:?}"
            );
        }
    }

    #[test]
    fn one_who_stands_still_while_another_works_is_told_apart() {
        let mut host = FakeHost::new();
        let servers = [server("a"), server("b")];
        let at = |moved_bytes, cpu_ns| HostProcessUsage {
            processes: 1,
            cpu_ns,
            busiest_thread_ns: cpu_ns,
            resident_bytes: 1 << 20,
            moved_bytes,
        };
        host.usages
            .insert("mark-a".into(), vec![at(0, 0), at(1 << 20, 500)]);
        host.usages
            .insert("mark-b".into(), vec![at(10, 0), at(20, 7)]);
        let stop = AtomicBool::new(true);
        let subjects = ServerWatchScope {
            servers: &servers,
            client_programs: &[],
            lustre: None,
        };
        let used = watch(&subjects, &mut host, &SystemClock::new(), &stop).servers;
        assert_eq!((used[0].moved_bytes, used[0].cpu_ns), (1 << 20, 500));
        assert_eq!(used[0].still, Nanos(0));
        assert!(used[1].still.0 > 0 && used[1].moved_bytes == 10);
    }

    #[test]
    fn a_program_of_the_client_is_no_server_that_others_wait_for() {
        let mut host = FakeHost::new();
        let (servers, programs) = ([server("a")], [server("mount")]);
        let at = |moved_bytes| HostProcessUsage {
            processes: 1,
            moved_bytes,
            ..HostProcessUsage::default()
        };
        host.usages.insert("mark-a".into(), vec![at(0), at(0)]);
        host.usages
            .insert("mark-mount".into(), vec![at(0), at(9 << 20)]);
        let stop = AtomicBool::new(true);
        let subjects = ServerWatchScope {
            servers: &servers,
            client_programs: &programs,
            lustre: None,
        };
        let used = watch(&subjects, &mut host, &SystemClock::new(), &stop);
        assert_eq!((used.servers.len(), used.client_programs.len()), (1, 1));
        assert_eq!(used.client_programs[0].moved_bytes, 9 << 20);
        assert_eq!(used.servers[0].still, Nanos(0));
        assert_eq!(used.client_programs[0].still, Nanos(0));
    }
}
