// SPDX-License-Identifier: Apache-2.0
//! Who may do what: scopes, other users' runs, secrets, the audit trail.

use crate::client::plimsoll;
use crate::made::run_folder;
use crate::postgres::{PASSWORD, TestPostgres};
use crate::team::{TestTeam, add_user, push, told};
use serde_json::json;

#[test]
fn a_token_is_for_its_scopes() {
    let team = TestTeam::start(&[]);
    let reader = team.user("reader", "read");
    let pusher = team.user("pusher", "push");
    let runner = team.user("runner", "run");
    let empty = json!({});
    for (what, request, allowed) in [
        ("read", "GET /api/v1/runs", &reader),
        ("read", "GET /api/v1/history/series", &reader),
        ("push", "POST /api/v1/push", &pusher),
        ("run", "POST /api/v1/runs", &runner),
        ("run", "GET /api/v1/catalogue", &runner),
        ("run", "POST /api/v1/history/series/1/marks", &runner),
        ("run", "POST /api/v1/jobs/1/stop", &runner),
    ] {
        for token in [&reader, &pusher, &runner] {
            let answer = team.send(token, request, &empty);
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, token != allowed, "{request}: {answer:?}");
            let names_it = answer.body.contains(&format!("lacks the scope '{what}'"));
            assert_eq!(is_refused, names_it, "{request}: {answer:?}");
        }
    }
    assert_eq!(
        team.get("0123456789abcdef0123456789abcdef", "/api/v1/runs")
            .status,
        401
    );
    // The server's own token belongs to no user, so it cannot push.
    let own = team.send(
        &team.server.token,
        "POST /api/v1/push",
        &json!({ "run": "x", "files": [] }),
    );
    assert_eq!(own.status, 403, "{own:?}");
}

#[test]
fn a_run_is_seen_by_its_owner_until_it_is_shared() {
    let team = TestTeam::start(&[]);
    let (ada, bob) = (
        team.user("ada", "read,push"),
        team.user("bob", "read,push,run"),
    );
    let admin = team.user("root", "read,admin");
    let folder = team.pushed(&ada, "monday", 1.5, &[]);
    run_folder(&team.server.runs().join("local"), "local", 1.0);
    let paths = [
        "",
        "/sections",
        "/report",
        "/series?metric=iops",
        "/export/csv",
        "/events",
    ];
    for path in paths {
        let path = format!("/api/v1/runs/{folder}{path}");
        let hidden = team.get(&bob, &path);
        assert_eq!(hidden.status, 404, "{path}: {hidden:?}");
        let nowhere = team.get(&bob, "/api/v1/runs/nowhere");
        assert_eq!(
            hidden.body.replace(&folder, "nowhere"),
            nowhere.body,
            "it tells nothing"
        );
    }
    assert_eq!(
        team.get(&bob, &format!("/api/v1/diff?base=local&with={folder}"))
            .status,
        404
    );
    let count = |token: &str| {
        let list = team.get(token, "/api/v1/runs").json();
        list["count"].as_u64().expect("a number")
    };
    assert_eq!((count(&ada), count(&bob), count(&admin)), (2, 1, 2));
    let series = |token: &str| team.get(token, "/api/v1/history/series").json();
    assert_eq!(series(&bob), json!([]));
    assert_eq!(team.get(&bob, "/api/v1/history/series/1").status, 404);
    // Who knows the files of a run does not come to the run of another user by saying so.
    let same = push(
        team.place(),
        &team.server.address,
        &bob,
        "monday",
        &["--json"],
    );
    assert!(told(&same).contains("\"files_sent\": 2"), "{}", told(&same));
}

/// A name with one letter written in another way, for each letter: hexadecimal digits of both kinds, and
/// encoded twice.
fn written_otherwise(name: &str) -> Vec<String> {
    let letters = name.char_indices().flat_map(|(at, letter)| {
        let code = u32::from(letter);
        let ways = [
            format!("%{code:02X}"),
            format!("%{code:02x}"),
            format!("%25{code:02X}"),
        ];
        ways.map(|way| format!("{}{way}{}", &name[..at], &name[at + 1..]))
    });
    let mut all: Vec<String> = letters.collect();
    all.dedup();
    all
}

#[test]
fn no_way_to_write_a_name_opens_the_run_of_another() {
    let team = TestTeam::start(&[]);
    let (ada, bob) = (
        team.user("ada", "read,push"),
        team.user("bob", "read,push,run"),
    );
    let folder = team.pushed(&ada, "monday", 1.5, &[]);
    run_folder(&team.server.runs().join("local"), "local", 1.0);
    // Answers about the run contain the name of its system; no refusal does.
    let manifest = plimsoll_archive::manifest(&team.server.runs().join(&folder));
    let secret = manifest.expect("a manifest").arms[0].name.clone();
    let own = team.get(&ada, &format!("/api/v1/runs/{folder}/report"));
    assert!(
        own.status == 200 && own.body.contains(&secret),
        "{secret}: {own:?}"
    );
    let requests = [
        "GET /api/v1/runs/ID",
        "GET /api/v1/runs/ID/sections",
        "GET /api/v1/runs/ID/report",
        "GET /api/v1/runs/ID/series?metric=iops",
        "GET /api/v1/runs/ID/export/csv",
        "GET /api/v1/runs/ID/export/json",
        "GET /api/v1/runs/ID/events",
        "GET /api/v1/diff?base=local&with=ID",
        "GET /api/v1/diff?base=ID&with=local",
        "POST /api/v1/runs/ID/resume",
        "POST /api/v1/runs/ID/share",
    ];
    let mut counts = std::collections::BTreeMap::<u16, usize>::new();
    for request in requests {
        for name in std::iter::once(folder.clone()).chain(written_otherwise(&folder)) {
            let asked = request.replace("ID", &name);
            let body = match request.ends_with("share") {
                true => json!({ "shared": true }),
                false => json!({}),
            };
            let answer = match request.starts_with("GET") {
                true => team.get(&bob, asked.trim_start_matches("GET ")),
                false => team.send(&bob, &asked, &body),
            };
            let is_refused = (400..500).contains(&answer.status);
            assert!(
                is_refused && !answer.body.contains(&secret),
                "{asked}: {answer:?}"
            );
            *counts.entry(answer.status).or_default() += 1;
        }
    }
    eprintln!("requests of another user's run by their answers: {counts:?}");
    let list = team.get(&bob, "/api/v1/runs").json();
    assert_eq!(list["count"], 1, "{list}");
    // Nor does a folder whose owner the database does not know: fail closed.
    let lost = team.server.runs().join("lost");
    run_folder(&lost, "lost", 1.0);
    std::fs::write(lost.join("pushed.json"), "{").expect("ours");
    assert_eq!(team.get(&bob, "/api/v1/runs/lost/report").status, 404);
}

#[test]
fn who_owns_a_run_shares_it_and_takes_it_back() {
    let team = TestTeam::start(&[]);
    let (ada, bob) = (team.user("ada", "read,push"), team.user("bob", "read,push"));
    let admin = team.user("root", "read,admin");
    let folder = team.pushed(&ada, "monday", 1.5, &[]);
    run_folder(&team.server.runs().join("local"), "local", 1.0);
    let share = format!("POST /api/v1/runs/{folder}/share");
    assert_eq!(
        team.send(&bob, &share, &json!({ "shared": true })).status,
        404
    );
    assert_eq!(
        team.send(&ada, &share, &json!({ "shared": true })).status,
        200
    );
    assert_eq!(
        team.get(&bob, &format!("/api/v1/runs/{folder}")).status,
        200
    );
    assert_eq!(
        team.send(&bob, &share, &json!({ "shared": false })).status,
        403
    );
    assert_eq!(
        team.send(&ada, &share, &json!({ "shared": false })).status,
        200
    );
    assert_eq!(
        team.get(&bob, &format!("/api/v1/runs/{folder}")).status,
        404
    );
    // Only the administrator sees a pushed folder that has no row in the database (yet).
    let mark = team.server.runs().join("local/pushed.json");
    std::fs::write(mark, "{}").expect("it is ours");
    assert_eq!(team.get(&bob, "/api/v1/runs/local").status, 404);
    assert_eq!(team.get(&admin, "/api/v1/runs/local").status, 200);
}

#[test]
fn a_revoked_token_opens_nothing_and_the_trail_tells() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push");
    team.pushed(&token, "monday", 1.5, &[]);
    let headers = [("Content-Type", "application/json")];
    let form = json!({ "token": token }).to_string();
    let begun = team.server.send("POST /api/v1/session", &headers, &form);
    let cookie = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie
        .and_then(|all| all.split(';').next())
        .expect("a cookie")
        .to_owned();
    let csrf = begun.json()["csrf"].as_str().expect("a secret").to_owned();
    let session = [("Cookie", &*cookie), ("x-plimsoll-csrf", &*csrf)];
    let by_page = || team.server.send("GET /api/v1/server", &session, "");
    let facts = by_page().json();
    assert_eq!(
        (&facts["user"], &facts["scopes"]),
        (&json!("ada"), &json!(["read", "push"]))
    );
    assert_eq!(
        team.send(&token, "POST /api/v1/runs", &json!({})).status,
        403
    );
    let command = |args: &[&str]| {
        let words = [&["team"], args, &["--database", "sqlite:team.db"]].concat();
        let output = plimsoll(team.place())
            .args(words)
            .output()
            .expect("it starts");
        (output.status.code(), told(&output))
    };
    assert_eq!(command(&["token", "revoke", "1"]).0, Some(0));
    assert_eq!(
        (team.get(&token, "/api/v1/runs").status, by_page().status),
        (401, 401)
    );
    assert_eq!(command(&["token", "revoke", "1"]).0, Some(2));
    let (_, trail) = command(&["audit"]);
    for words in [
        "add user",
        "add token",
        "push  ",
        "127.0.0.1",
        "revoke token",
        "system user",
    ] {
        assert!(trail.contains(words), "{words}: {trail}");
    }
    let (_, tokens) = command(&["token", "list"]);
    assert!(tokens.contains("revoked") && !tokens.contains(&token) && !trail.contains(&token));
    let stored = std::fs::read(team.place().join("team.db")).expect("it is there");
    let is_in = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(!is_in(&stored, &token), "the database holds a token");
}

#[test]
fn a_password_is_in_no_argument_no_output_and_no_page() {
    let place = crate::client::place();
    for address in [
        format!("postgres://lab:{PASSWORD}@127.0.0.1:1/x"),
        format!("postgres://127.0.0.1:1/x?password={PASSWORD}"),
    ] {
        let by_words = plimsoll(place.path())
            .args(["serve", "runs", "--database", &address])
            .output()
            .expect("it starts");
        let said = told(&by_words);
        assert!(
            said.contains("holds a password") && !said.contains(PASSWORD),
            "{said}"
        );
        assert_eq!(by_words.status.code(), Some(2));
        let away = plimsoll(place.path())
            .env("PLIMSOLL_DATABASE", &address)
            .args(["team", "user", "list"])
            .output()
            .expect("it starts");
        let said = told(&away);
        assert!(
            said.contains("does not answer") && !said.contains(PASSWORD),
            "{said}"
        );
    }
    let Some(server) = TestPostgres::start("a password that is wrong") else {
        return;
    };
    let wrong = server.url().replace(PASSWORD, "an0ther-sEcret");
    let refused = plimsoll(place.path())
        .env("PLIMSOLL_DATABASE", wrong)
        .args(["team", "user", "list"])
        .output()
        .expect("it starts");
    let said = told(&refused);
    assert!(
        !refused.status.success() && !said.contains("an0ther"),
        "{said}"
    );
    // A password file instead of the environment.
    let file = place.path().join("pgpass");
    std::fs::write(
        &file,
        format!("127.0.0.1:{}:*:lab:{PASSWORD}\n", server.port),
    )
    .expect("ours");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let address = format!("postgres://lab@127.0.0.1:{}/postgres", server.port);
    let by_file = plimsoll(place.path())
        .env("PGPASSFILE", &file)
        .args(["team", "user", "add", "ada", "--database", &address])
        .output()
        .expect("it starts");
    assert!(by_file.status.success(), "{}", told(&by_file));
    add_user(place.path(), &server.url(), "bob", "read");
}
