// SPDX-License-Identifier: Apache-2.0
//! Stores that lack what their database has, or have it damaged: a push of the same run brings it back, and
//! says that it has it only then.

use crate::client::TestServer;
use crate::made::run_folder;
use crate::team::{TestTeam, push, stopped, told};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// All bytes of the files of a run folder, but the mark of its push.
fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: Vec<(String, Vec<u8>)> = names
        .filter(|name| name != "pushed.json")
        .map(|name| {
            (
                name.clone(),
                fs::read(folder.join(&name)).expect("it is there"),
            )
        })
        .collect();
    all.sort();
    all
}

/// Pushes the run again; the files that were sent.
fn again(team: &TestTeam, token: &str, run: &str) -> u64 {
    let output = push(team.place(), &team.server.address, token, run, &["--json"]);
    assert!(output.status.success(), "{}", told(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    outcome["files_sent"].as_u64().expect("a number")
}

#[test]
fn a_push_is_acknowledged_only_when_all_its_bytes_are_in_the_store() {
    let team = TestTeam::start(&[]);
    let (ada, bob) = (team.user("ada", "read,push"), team.user("bob", "read"));
    let folder = team.pushed(&ada, "monday", 1.5, &["--share"]);
    let (here, there) = (
        team.place().join("monday"),
        team.server.runs().join(&folder),
    );
    let whole = bytes(&here);
    assert_eq!(bytes(&there), whole);
    assert_eq!(again(&team, &ada, "monday"), 0);

    fs::rename(&there, team.place().join("moved")).expect("ours");
    assert_eq!(again(&team, &ada, "monday"), 2);
    assert_eq!(bytes(&there), whole, "what was moved away is back");

    type Damage = (&'static str, fn(&mut Vec<u8>));
    let damage: [Damage; 4] = [
        ("events.jsonl", |bytes| bytes[100] ^= 1),
        ("manifest.json", |bytes| bytes.truncate(10)),
        ("events.jsonl", |bytes| bytes.push(b'\n')),
        ("pushed.json", |bytes| bytes[20] ^= 1),
    ];
    for (name, change) in damage {
        let mut changed = fs::read(there.join(name)).expect("it is there");
        change(&mut changed);
        fs::write(there.join(name), changed).expect("ours");
        assert_eq!(again(&team, &ada, "monday"), 2, "{name}");
        assert_eq!(bytes(&there), whole, "{name}");
    }
    fs::remove_file(there.join("events.jsonl")).expect("ours");
    assert_eq!(again(&team, &ada, "monday"), 2);
    assert_eq!((bytes(&there), again(&team, &ada, "monday")), (whole, 0));
    // It is still shared, one row, and nothing stays beside it.
    let path = format!("/api/v1/runs/{folder}");
    assert_eq!(team.get(&bob, &path).status, 200);
    assert_eq!(team.stored(), [folder]);
}

#[test]
fn what_the_store_lacks_is_named_at_the_start_and_can_be_pushed_again() {
    let team = TestTeam::start(&[]);
    let ada = team.user("ada", "read,push");
    let folder = team.pushed(&ada, "monday", 1.5, &[]);
    let place = stopped(team.server);
    fs::rename(
        place.path().join("runs").join(&folder),
        place.path().join("moved"),
    )
    .expect("ours");
    let mut said = crate::client::plimsoll(place.path());
    said.args([
        "serve",
        "runs",
        "--listen",
        "127.0.0.1:0",
        "--database",
        "sqlite:team.db",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::piped());
    let mut child = said.spawn().expect("it starts");
    let mut line = String::new();
    let from = child.stderr.take().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(from), &mut line).expect("it says it");
    child.kill().expect("ours");
    child.wait().expect("it ended");
    assert!(
        line.contains(&format!("its folder is not in the store: {folder} of ada")),
        "{line}"
    );
    let team = TestTeam {
        server: TestServer::start_in(place, &["--database", "sqlite:team.db"]),
    };
    assert_eq!(again(&team, &ada, "monday"), 2);
    assert_eq!(
        team.get(&ada, &format!("/api/v1/runs/{folder}")).status,
        200
    );
}

#[test]
fn lists_of_pushes_that_ended_are_removed_and_never_counted() {
    let team = TestTeam::start(&["--push-user-limit=100KiB"]);
    let ada = team.user("ada", "read,push");
    let folder = team.pushed(&ada, "monday", 1.5, &[]);
    // A server that is killed between the row and the end of the staged folder leaves this.
    let mark = fs::read_to_string(team.server.runs().join(&folder).join("pushed.json"));
    let mark: Value = serde_json::from_str(&mark.expect("it is there")).expect("it is JSON");
    let digest = mark["digest"].as_str().expect("a digest");
    let left = team.server.runs().join(format!(".pushes/1-{digest}"));
    let leave = || {
        fs::create_dir_all(left.join("run")).expect("ours");
        let file =
            serde_json::json!({ "path": "disks.0", "bytes": 1_000_000, "sha256": "0".repeat(64) });
        let list = serde_json::json!({ "run": "monday", "files": [file] });
        fs::write(left.join("listing.json"), list.to_string()).expect("ours");
    };
    leave();
    run_folder(&team.place().join("tuesday"), "tuesday", 1.5);
    assert_eq!(again(&team, &ada, "tuesday"), 2, "it was not counted");
    assert_eq!(again(&team, &ada, "monday"), 0);
    assert!(!left.exists(), "who pushes again removes it");
    leave();
    let place = stopped(team.server);
    let team = TestTeam {
        server: TestServer::start_in(
            place,
            &["--database", "sqlite:team.db", "--push-user-limit=100KiB"],
        ),
    };
    assert!(!left.exists(), "the start of the server removes it");
    assert_eq!(team.stored().len(), 2);
}
