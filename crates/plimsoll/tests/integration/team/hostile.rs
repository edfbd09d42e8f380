// SPDX-License-Identifier: Apache-2.0
//! Folders that are no runs, lists that lie, and more than may be stored: refused with one clear error, and
//! nothing of them stays.

use crate::client::TestAnswer;
use crate::made::run_folder;
use crate::team::{TestTeam, push, told};
use plimsoll_archive::manifest;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A digest by the system's own program: not the one that is tested.
#[expect(clippy::disallowed_methods, reason = "the test is who types it")]
fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum")
        .arg(path)
        .output()
        .expect("it is installed");
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}

/// The list of a run folder's two files.
fn list(folder: &Path) -> Value {
    let file = |name: &str| {
        let path = folder.join(name);
        let bytes = path.metadata().expect("it is there").len();
        json!({ "path": name, "bytes": bytes, "sha256": sha256(&path) })
    };
    let id = manifest(folder).map_or("monday".to_owned(), |manifest| manifest.id);
    json!({ "run": id, "files": [file("manifest.json"), file("events.jsonl")] })
}

/// Sends a list, the files of a folder as they are wanted, and the end.
fn pushed_by_hand(team: &TestTeam, token: &str, folder: &Path, list: &Value) -> TestAnswer {
    let begun = team.send(token, "POST /api/v1/push", list);
    if begun.status != 200 {
        return begun;
    }
    let begun = begun.json();
    let id = begun["id"].as_str().expect("a digest").to_owned();
    for number in begun["wanted"].as_array().expect("numbers") {
        let at = usize::try_from(number.as_u64().expect("a number")).expect("a few");
        let name = list["files"][at]["path"].as_str().expect("a path");
        let body = std::fs::read_to_string(folder.join(name)).expect("it is text");
        let bearer = format!("Bearer {token}");
        let request = format!("PUT /api/v1/push/{id}/files/{at}");
        let sent = team
            .server
            .send(&request, &[("Authorization", &bearer)], &body);
        if sent.status != 200 {
            return sent;
        }
    }
    team.send(token, &format!("POST /api/v1/push/{id}/commit"), &json!({}))
}

fn refused(answer: &TestAnswer, words: &str) {
    let text = answer.json()["error"]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        (400..500).contains(&answer.status) && text.contains(words),
        "{words}: {answer:?}"
    );
}

#[test]
fn lists_that_lead_elsewhere_or_lie_are_refused() {
    let team = TestTeam::start(&[]);
    let token = team.user("mallory", "read,push");
    let folder = team.place().join("monday");
    run_folder(&folder, "monday", 1.5);
    let good = list(&folder);
    let with = |path: &str, bytes: u64| {
        let mut changed = good.clone();
        let file = json!({ "path": path, "bytes": bytes, "sha256": "0".repeat(64) });
        changed["files"].as_array_mut().expect("a list").push(file);
        changed
    };
    let deep = format!("ledgers/{}x", "d/".repeat(200));
    for path in [
        "../evil",
        "/etc/cron.d/evil",
        "ledgers/../../evil",
        "ledgers/.ssh",
        "ledgers/a\u{0}b",
        "C:\\evil",
        "MANIFEST.json",
        "pushed.json",
        "ledgers/x\u{202e}y",
        &deep,
        &"x".repeat(5000),
        "bomb.parquet",
    ] {
        refused(&pushed_by_hand(&team, &token, &folder, &with(path, 1)), "");
    }
    refused(
        &pushed_by_hand(&team, &token, &folder, &with("report.html", 1 << 50)),
        "may have",
    );
    let mut many = good.clone();
    let file =
        |n: u32| json!({ "path": format!("ledgers/{n}"), "bytes": 1, "sha256": "0".repeat(64) });
    many["files"]
        .as_array_mut()
        .expect("a list")
        .extend((0..10_001).map(file));
    refused(
        &pushed_by_hand(&team, &token, &folder, &many),
        "are the most",
    );
    for (name, value) in [
        ("run", json!("../up")),
        ("files", json!([])),
        ("evil", json!(1)),
    ] {
        let mut changed = good.clone();
        changed[name] = value;
        refused(&pushed_by_hand(&team, &token, &folder, &changed), "");
    }
    let twice = good["files"][0]["path"].as_str().expect("a path");
    refused(
        &pushed_by_hand(&team, &token, &folder, &with(twice, 1)),
        "two files",
    );
    assert_eq!(team.stored(), Vec::<String>::new());
}

#[test]
fn files_that_are_not_what_was_said_leave_nothing_in_the_store() {
    let team = TestTeam::start(&[]);
    let token = team.user("mallory", "read,push");
    let folder = team.place().join("monday");
    run_folder(&folder, "monday", 1.5);
    let good = list(&folder);
    for (part, value, words) in [
        ("sha256", json!("0".repeat(64)), "another digest"),
        ("bytes", json!(10), "longer than"),
        ("bytes", json!(100_000_000), "shorter than"),
    ] {
        let mut changed = good.clone();
        changed["files"][1][part] = value;
        refused(&pushed_by_hand(&team, &token, &folder, &changed), words);
        let early = || {
            let pushes =
                std::fs::read_dir(team.server.runs().join(".pushes")).expect("it is there");
            pushes
                .flatten()
                .flat_map(|push| std::fs::read_dir(push.path()).expect("a folder"))
                .flatten()
                .filter(|file| file.file_name().to_string_lossy().starts_with("file-"))
                .count()
        };
        assert_eq!(early(), 0, "a file that was refused stays");
        let runs = team.get(&token, "/api/v1/runs").json();
        assert_eq!(runs["runs"], json!([]));
    }
    // A commit before all files are there, one of an unknown push, and one of another user's push.
    let id = team.send(&token, "POST /api/v1/push", &good).json()["id"]
        .as_str()
        .expect("it")
        .to_owned();
    refused(
        &team.send(
            &token,
            &format!("POST /api/v1/push/{id}/commit"),
            &json!({}),
        ),
        "missing",
    );
    refused(
        &team.send(&token, "POST /api/v1/push/x/commit", &json!({})),
        "no such push",
    );
    let other = team.user("bob", "push");
    refused(
        &team.send(
            &other,
            &format!("POST /api/v1/push/{id}/commit"),
            &json!({}),
        ),
        "no such push",
    );
    refused(
        &team.send(
            &other,
            &format!("PUT /api/v1/push/{id}/files/0"),
            &json!({}),
        ),
        "no such push",
    );
}

#[test]
fn folders_that_are_no_runs_are_refused_whole() {
    let team = TestTeam::start(&[]);
    let token = team.user("mallory", "read,push");
    let folder = team.place().join("monday");
    run_folder(&folder, "monday", 1.5);
    let (manifest, events) = (folder.join("manifest.json"), folder.join("events.jsonl"));
    let (whole, lines) = (
        std::fs::read_to_string(&manifest).expect("it"),
        std::fs::read_to_string(&events).expect("it"),
    );
    let nested = format!(
        "{{\"crc32c\":{}{}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    for (text, log, words) in [
        ("", &*lines, ""),
        ("{}", &lines, ""),
        (&nested, &lines, ""),
        (&whole.replacen("monday", "mondaz", 1), &lines, "checksum"),
        (&whole, "garbage\n", "damaged"),
        (
            &whole,
            &format!("{}\n{lines}", "x".repeat(3 << 20)),
            "damaged",
        ),
    ] {
        std::fs::write(&manifest, text).expect("ours");
        std::fs::write(&events, log).expect("ours");
        let answer = pushed_by_hand(&team, &token, &folder, &list(&folder));
        refused(&answer, words);
        assert!(
            !answer.body.contains(".pushes"),
            "it names places of the server: {answer:?}"
        );
        assert_eq!(team.stored(), Vec::<String>::new(), "{answer:?}");
    }
    std::fs::write(&manifest, &whole).expect("ours");
    std::fs::write(&events, &lines).expect("ours");
    let mut other = list(&folder);
    other["run"] = json!("tuesday");
    refused(
        &pushed_by_hand(&team, &token, &folder, &other),
        "another identifier",
    );
    let mut arm = list(&folder);
    arm["reference"] = json!("nobody");
    refused(
        &pushed_by_hand(&team, &token, &folder, &arm),
        "no system 'nobody'",
    );
    assert_eq!(team.stored(), Vec::<String>::new());
    let trail = team.server.place.path();
    let output = crate::client::plimsoll(trail)
        .args(["team", "audit", "--database", "sqlite:team.db"])
        .output();
    let text = told(&output.expect("it starts"));
    assert!(text.matches("push refused").count() >= 8, "{text}");
}

#[test]
fn limits_hold_by_file_by_run_and_by_user() {
    let limits = [
        "--push-file-limit=100KiB",
        "--push-run-limit=150KiB",
        "--push-user-limit=60KiB",
    ];
    let team = TestTeam::start(&limits);
    let token = team.user("ada", "read,push");
    team.pushed(&token, "monday", 1.5, &[]);
    let tuesday = team.place().join("tuesday");
    run_folder(&tuesday, "tuesday", 1.5);
    let fill = |name: &str, bytes: usize| {
        std::fs::write(tuesday.join(name), vec![b'x'; bytes]).expect("ours");
    };
    let told_of = || {
        told(&push(
            team.place(),
            &team.server.address,
            &token,
            "tuesday",
            &[],
        ))
    };
    fill("report.html", 101 << 10);
    assert!(
        told_of().contains("report.html has 101 KiB, and may have 100 KiB"),
        "{}",
        told_of()
    );
    fill("report.html", 90 << 10);
    fill("disks.0", 90 << 10);
    assert!(
        told_of().contains("a run may have 150 KiB"),
        "{}",
        told_of()
    );
    fill("disks.0", 1);
    assert!(told_of().contains("and may store 60"), "{}", told_of());
    assert_eq!(team.stored().len(), 1, "{:?}", team.stored());
}

#[test]
fn the_client_sends_no_links_and_nothing_that_is_no_part_of_a_run() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push");
    let folder = team.place().join("monday");
    run_folder(&folder, "monday", 1.5);
    let secret = team.place().join("secret");
    std::fs::write(&secret, "not yours").expect("ours");
    std::os::unix::fs::symlink(&secret, folder.join("report.html")).expect("ours");
    let refused = push(team.place(), &team.server.address, &token, "monday", &[]);
    assert!(told(&refused).contains("no links"), "{}", told(&refused));
    assert_eq!(refused.status.code(), Some(2));
    std::fs::remove_file(folder.join("report.html")).expect("ours");
    std::fs::write(folder.join("notes.txt"), "mine").expect("ours");
    let pushed = push(team.place(), &team.server.address, &token, "monday", &[]);
    assert!(
        told(&pushed).contains("left out, as no part of a run: notes.txt"),
        "{}",
        told(&pushed)
    );
    for (to, words) in [
        ("http://lab.example:1", "without encryption"),
        ("ftp://x", "invalid value"),
        ("https://a@b", "invalid value"),
    ] {
        let output = crate::client::plimsoll(team.place())
            .env("PLIMSOLL_TOKEN", &token)
            .args(["push", "monday", "--server", to])
            .output()
            .expect("it starts");
        assert!(
            told(&output).contains(words) && output.status.code() == Some(2),
            "{}",
            told(&output)
        );
    }
}
