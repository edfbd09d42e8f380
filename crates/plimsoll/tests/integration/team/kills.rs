// SPDX-License-Identifier: Apache-2.0
//! Kills of the server, of who pushes, and crashes of PostgreSQL, at any instant of pushes: a run that was
//! acknowledged is there. `PLIMSOLL_TEST_KILLS` and `PLIMSOLL_TEST_STOPS` ask for more of them
//! (`bench/history.sh`).

use crate::client::{TestServer, place, plimsoll};
use crate::made::run_folder;
use crate::postgres::TestPostgres;
use crate::support::pause;
use crate::team::{TestTeam, add_user, push, stopped, told};
use plimsoll_core::rng::{Rng, Seed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Programs that push at once.
const PUSHERS: u32 = 2;

fn number(name: &str, usual: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_up(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Everything that is killed, and who pushes.
struct Battle<'a> {
    place: &'a Path,
    database: String,
    port: u16,
    token: String,
    is_over: AtomicBool,
    next: AtomicU32,
    clients: Vec<Mutex<Option<Child>>>,
    /// Folder on the server, and the run folder here.
    acknowledged: Mutex<BTreeMap<String, String>>,
    /// Why pushes were not acknowledged, by their words.
    failed: Mutex<BTreeMap<String, u32>>,
}

impl Battle<'_> {
    fn start_server(&self) -> Child {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut child = plimsoll(self.place)
            .env("PLIMSOLL_DATABASE", &self.database)
            .args(["serve", "store", "--listen", &listen])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        while !is_up(self.port) {
            // PostgreSQL may be down, and then it says so and ends.
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                pause(50);
                return self.start_server();
            }
            pause(10);
        }
        child
    }

    /// Pushes run after run, each until it is acknowledged.
    fn push_on(&self, client: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            let id = format!("run-{}", self.next.fetch_add(1, Ordering::Relaxed));
            run_folder(&self.place.join(&id), &id, 1.5);
            let folder = loop {
                if let Some(folder) = self.push_once(client, &id) {
                    break folder;
                }
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
            };
            locked(&self.acknowledged).insert(folder, id);
        }
    }

    fn push_once(&self, client: usize, id: &str) -> Option<String> {
        let out = tempfile::NamedTempFile::new_in(self.place).expect("a file");
        let err = tempfile::NamedTempFile::new_in(self.place).expect("a file");
        let to = format!("http://127.0.0.1:{}", self.port);
        let child = plimsoll(self.place)
            .env("PLIMSOLL_TOKEN", &self.token)
            .args(["push", id, "--json", "--server", &to])
            .stdout(out.reopen().expect("a file"))
            .stderr(err.reopen().expect("a file"))
            .spawn()
            .expect("it starts");
        *locked(&self.clients[client]) = Some(child);
        let ended = loop {
            let mut slot = locked(&self.clients[client]);
            let child = slot.as_mut().expect("it was put there");
            if let Some(status) = child.try_wait().expect("it is ours") {
                *slot = None;
                break status;
            }
            drop(slot);
            pause(5);
        };
        let text = std::fs::read_to_string(out.path()).expect("it is there");
        if ended.success() {
            let outcome: Value = serde_json::from_str(&text).expect("it is JSON");
            return Some(outcome["folder"].as_str().expect("a folder").to_owned());
        }
        let said = std::fs::read_to_string(err.path()).expect("it is there");
        let said = said
            .lines()
            .next()
            .unwrap_or("killed")
            .replace(&self.port.to_string(), "PORT");
        *locked(&self.failed).entry(said).or_default() += 1;
        None
    }

    fn kill_client(&self, rng: &mut Rng) -> bool {
        let which = usize::try_from(rng.below(self.clients.len() as u64)).unwrap_or(0);
        let mut slot = locked(&self.clients[which]);
        slot.as_mut().is_some_and(|child| child.kill().is_ok())
    }
}

/// Every acknowledged run has its row, each of its facts once, and all bytes of its files.
fn check_all(battle: &Battle<'_>) -> usize {
    let acknowledged = locked(&battle.acknowledged).clone();
    let output = plimsoll(battle.place)
        .env("PLIMSOLL_DATABASE", &battle.database)
        .args(["history", "export", "--lines", "facts.jsonl"])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", told(&output));
    let lines = std::fs::read_to_string(battle.place.join("facts.jsonl")).expect("it is there");
    let mut facts: BTreeMap<String, u32> = BTreeMap::new();
    for line in lines.lines() {
        let fact: Value = serde_json::from_str(line).expect("it is JSON");
        *facts
            .entry(fact["folder"].as_str().expect("a name").to_owned())
            .or_default() += 1;
    }
    let counts: std::collections::BTreeSet<u32> = facts.values().copied().collect();
    assert_eq!(
        counts.len(),
        1,
        "all runs are alike, and have as many facts: {counts:?}"
    );
    for (folder, id) in &acknowledged {
        assert!(
            facts.contains_key(folder),
            "{id} was acknowledged and is not in the database"
        );
        for name in ["manifest.json", "events.jsonl"] {
            let sent = std::fs::read(battle.place.join(id).join(name)).expect("it is there");
            let kept = std::fs::read(battle.place.join("store").join(folder).join(name));
            assert!(
                kept.is_ok_and(|kept| kept == sent),
                "{id}/{name} is not in the store"
            );
        }
    }
    acknowledged.len()
}

#[test]
fn an_acknowledged_run_is_never_lost() {
    let Some(postgres) = TestPostgres::start("kills while runs are pushed") else {
        return;
    };
    let (kills, stops) = (
        number("PLIMSOLL_TEST_KILLS", 10),
        number("PLIMSOLL_TEST_STOPS", 2),
    );
    let place = place();
    let token = add_user(place.path(), &postgres.url(), "ada", "read,push");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let battle = Battle {
        place: place.path(),
        database: postgres.url(),
        port,
        token,
        is_over: false.into(),
        next: 0.into(),
        clients: (0..PUSHERS).map(|_| Mutex::new(None)).collect(),
        acknowledged: Mutex::default(),
        failed: Mutex::default(),
    };
    let mut rng = Rng::new(Seed(20).derive("kills", 0));
    let (mut of_server, mut of_clients, mut of_database) = (0, 0, 0);
    let mut server = battle.start_server();
    std::thread::scope(|scope| {
        for client in 0..battle.clients.len() {
            let battle = &battle;
            scope.spawn(move || battle.push_on(client));
        }
        while of_server + of_clients < kills || of_database < stops {
            pause(rng.below(400));
            let left = [
                kills.saturating_sub(of_server + of_clients),
                stops - of_database,
            ];
            if rng.below(u64::from(left[0] + left[1])) < u64::from(left[1]) {
                postgres.crash();
                postgres.up();
                of_database += 1;
            } else if rng.below(2) == 0 {
                server.kill().expect("it runs");
                let _ = server.wait();
                server = battle.start_server();
                of_server += 1;
            } else if battle.kill_client(&mut rng) {
                of_clients += 1;
            }
        }
        // Pushes in progress get time to end.
        pause(500);
        battle.is_over.store(true, Ordering::Relaxed);
    });
    let _ = server.kill();
    let _ = server.wait();
    // Also what is in the store only comes back when the server starts.
    let mut server = battle.start_server();
    let whole = check_all(&battle);
    let _ = server.kill();
    let _ = server.wait();
    println!(
        "kills of the server: {of_server}, of who pushes: {of_clients}, crashes of PostgreSQL: {of_database}; runs \
         begun: {}, acknowledged: {whole}, of these lost: 0; pushes that were not acknowledged: {:?}",
        battle.next.load(Ordering::Relaxed),
        locked(&battle.failed)
    );
    assert!(whole > 0);
}

#[test]
fn a_backup_is_restored_and_what_came_after_it_is_added_from_the_store() {
    let Some(postgres) = TestPostgres::start("backup and restore") else {
        return;
    };
    let place = place();
    let token = add_user(place.path(), &postgres.url(), "ada", "read,push");
    let start =
        |place, url: &str| TestServer::start_with(place, &[], &[("PLIMSOLL_DATABASE", url)]);
    let team = TestTeam {
        server: start(place, &postgres.url()),
    };
    let before = team.pushed(&token, "monday", 1.5, &["--share"]);
    let dump = postgres.place().join("dump");
    postgres.tool(
        "pg_dump",
        "postgres",
        &["-Fc", "-f", &dump.to_string_lossy()],
    );
    let after = team.pushed(&token, "tuesday", 1.2, &["--share"]);
    let TestTeam { server } = team;
    let place = stopped(server);
    postgres.tool("psql", "postgres", &["-c", "CREATE DATABASE restored"]);
    postgres.tool(
        "pg_restore",
        "restored",
        &["--exit-on-error", &dump.to_string_lossy()],
    );
    let url = postgres.url().replace("/postgres", "/restored");
    let team = TestTeam {
        server: start(place, &url),
    };
    for folder in [before, after] {
        assert_eq!(
            team.get(&token, &format!("/api/v1/runs/{folder}")).status,
            200,
            "{folder}"
        );
    }
    let series = team
        .get(&token, "/api/v1/history/series?text=mean_response")
        .json();
    let page = team
        .get(
            &token,
            &format!("/api/v1/history/series/{}", series[0]["id"]),
        )
        .json();
    assert_eq!(page["points"].as_array().map(Vec::len), Some(2), "{page}");
    let again = push(
        team.place(),
        &team.server.address,
        &token,
        "tuesday",
        &["--json"],
    );
    let again: Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
    assert_eq!(again["files_sent"], json!(0), "it is known");
}
