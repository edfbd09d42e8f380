// SPDX-License-Identifier: Apache-2.0
//! `plimsoll serve` from the outside: who may log in, what it returns, and what it starts.

mod folders;
mod form;
mod metrics;

use crate::client::{TestServer, parse, place, plimsoll};
use crate::support::{Lab, skipped, text, timed};
use form::campaign;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

/// Every request that changes something, but for that which begins a session.
const CHANGES: [&str; 8] = [
    "DELETE /api/v1/session",
    "POST /api/v1/jobs/1/stop",
    "POST /api/v1/runs",
    "POST /api/v1/runs/x/resume",
    "POST /api/v1/stacks/plan",
    "POST /api/v1/stacks",
    "POST /api/v1/stacks/raid1/degrade",
    "POST /api/v1/stacks/raid1/down",
];

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A session: its cookie and the second secret.
fn session(server: &TestServer) -> (String, String) {
    let body = json!({ "token": server.token }).to_string();
    let begun = server.send("POST /api/v1/session", &[JSON], &body);
    assert_eq!(begun.status, 200, "{begun:?}");
    let cookie = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.expect("a cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    (
        pair,
        begun.json()["csrf"].as_str().expect("a secret").to_owned(),
    )
}

#[test]
fn every_request_that_changes_something_refuses_strangers() {
    let server = TestServer::start();
    let (cookie, csrf) = session(&server);
    let (cookie, csrf) = (("Cookie", &*cookie), ("x-plimsoll-csrf", &*csrf));
    let foreign = ("Origin", "http://evil.example");
    let (large, garbage) = ("x".repeat(100 << 10), "{\"kind\":");
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let attempts: [(&str, Headers<'_>, &str, u16); 12] = [
        ("no token", &[JSON], "{}", 401),
        (
            "a wrong session",
            &[JSON, ("Cookie", "plimsoll-session=0"), csrf],
            "{}",
            401,
        ),
        ("no second secret", &[JSON, cookie], "{}", 403),
        (
            "a wrong one",
            &[JSON, cookie, ("x-plimsoll-csrf", "0")],
            "{}",
            403,
        ),
        ("another page", &[JSON, cookie, csrf, foreign], "{}", 403),
        (
            "no page",
            &[JSON, cookie, csrf, ("Origin", "null")],
            "{}",
            403,
        ),
        (
            "another site",
            &[JSON, cookie, csrf, ("Sec-Fetch-Site", "same-site")],
            "{}",
            403,
        ),
        (
            "another name",
            &[JSON, cookie, csrf, ("Host", "evil.example")],
            "{}",
            421,
        ),
        ("too large", &[JSON, cookie, csrf], &large, 413),
        ("malformed", &[JSON, cookie, csrf], garbage, 400),
        (
            "unknown keys",
            &[JSON, cookie, csrf],
            "{\"destroy\":true}",
            400,
        ),
        (
            "a form",
            &[("Content-Type", "text/plain"), cookie, csrf],
            "{}x",
            415,
        ),
    ];
    for request in CHANGES {
        for (what, headers, body, expect) in &attempts {
            let answer = server.send(request, headers, body);
            assert_eq!(answer.status, *expect, "{request}, {what}: {answer:?}");
            assert!(answer.json()["error"]["text"].is_string(), "{answer:?}");
        }
        let path = request.split_once(' ').expect("two words").1;
        let read = server.send(&format!("GET {path}"), &[cookie, csrf], "");
        let is_page_of_its_own =
            path.ends_with("/session") || path.ends_with("/runs") || path.ends_with("/stacks");
        assert!(is_page_of_its_own || read.status == 405, "{path}: {read:?}");
    }
    assert_eq!(server.get("/api/v1/jobs").json(), json!([]));
}

#[test]
fn a_session_ends_when_its_page_says_so() {
    let server = TestServer::start();
    let (cookie, csrf) = session(&server);
    let (cookie, csrf) = (("Cookie", &*cookie), ("x-plimsoll-csrf", &*csrf));
    let is_there = || {
        let told = server.send("GET /api/v1/session", &[cookie, csrf], "");
        assert!(!told.body.contains(csrf.1), "{told:?}");
        told.status
    };
    assert_eq!(is_there(), 200);
    let ended = server.send(CHANGES[0], &[JSON, cookie, csrf], "{}");
    assert_eq!((ended.status, is_there()), (200, 401));
}

/// Browsers send a cookie to every port of a host, so another server on the host may learn it.
#[test]
fn the_cookie_alone_opens_only_what_browsers_open_by_themselves() {
    let server = TestServer::start();
    let (cookie, csrf) = session(&server);
    let (cookie, csrf) = (("Cookie", &*cookie), ("x-plimsoll-csrf", &*csrf));
    let read = |path: &str, headers: &[(&str, &str)]| {
        let answer = server.send(&format!("GET /api/v1/{path}"), headers, "");
        answer.status
    };
    for path in [
        "session",
        "server",
        "catalogue",
        "runs",
        "jobs",
        "runs/x",
        "runs/x/sections",
    ] {
        assert!([401, 403].contains(&read(path, &[cookie])), "{path}");
        assert!(![401, 403].contains(&read(path, &[cookie, csrf])), "{path}");
    }
    for path in [
        "runs/x/report",
        "runs/x/events",
        "runs/x/export/csv",
        "jobs/9/events",
    ] {
        assert_eq!(read(path, &[cookie]), 404, "{path}");
        assert_eq!(read(path, &[]), 401, "{path}");
    }
}

#[test]
fn what_is_read_is_for_those_who_are_let_in_and_protected() {
    let server = TestServer::start();
    let page = server.send("GET /", &[], "");
    assert_eq!(page.status, 200);
    for wanted in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-opener-policy: same-origin",
    ] {
        assert!(page.head.contains(wanted), "{wanted}: {}", page.head);
    }
    for path in ["/assets/live.js", "/assets/live.css", "/assets/report.css"] {
        assert_eq!(
            server.send(&format!("GET {path}"), &[], "").status,
            200,
            "{path}"
        );
    }
    for path in [
        "server",
        "catalogue",
        "runs",
        "runs/x",
        "stacks",
        "jobs",
        "diff?base=a&with=b",
        "runs/x/events",
    ] {
        let answer = server.send(&format!("GET /api/v1/{path}"), &[], "");
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
    }
    // A page's session is not enough for metrics, which a program reads.
    let (cookie, csrf) = session(&server);
    let known = [("Cookie", &*cookie), ("x-plimsoll-csrf", &*csrf)];
    assert_eq!(server.send("GET /metrics", &known, "").status, 401);
    assert_eq!(server.send("GET /api/v1/server", &known, "").status, 200);
    assert_eq!(
        server
            .send(
                "GET /api/v1/server",
                &[("Host", "localhost.evil.example")],
                ""
            )
            .status,
        421
    );
    let long = format!("GET /{}", "x".repeat(5000));
    assert_eq!(server.send(&long, &[], "").status, 414);
}

#[test]
fn forms_offer_stacks_and_workloads_that_start_no_programs() {
    let server = TestServer::start();
    let catalogue = server.get("/api/v1/catalogue").json();
    let names: Vec<&str> = catalogue["workloads"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert!(
        names.contains(&"varmail") && !names.contains(&"copy-tree"),
        "{names:?}"
    );
    assert!(
        catalogue["stacks"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["name"] == "raid1"))
    );
}

#[test]
fn wrong_tokens_are_limited_and_the_right_one_still_works() {
    let mut server = TestServer::start();
    let attempts: Vec<u16> = (0..14)
        .map(|n| {
            let body = json!({ "token": format!("{n:064}") }).to_string();
            server.send("POST /api/v1/session", &[JSON], &body).status
        })
        .collect();
    assert_eq!(
        attempts.iter().filter(|status| **status == 401).count(),
        10,
        "{attempts:?}"
    );
    assert_eq!(attempts.last(), Some(&429));
    assert_eq!(
        server
            .send("GET /metrics", &[("Authorization", "Bearer x")], "")
            .status,
        429
    );
    session(&server);
    let token = server.token.clone();
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains(&token), "{said}");
}

#[test]
fn names_of_others_are_only_text() {
    let server = TestServer::start();
    let hostile = "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}\"'&";
    folders::named(&server.runs().join("hostile"), hostile);
    for path in [
        "runs",
        "runs/hostile",
        "runs/hostile/series?metric=p99",
        "runs/hostile/sections",
        "diff?base=hostile&with=hostile",
        "runs/hostile/export/markdown",
        "runs/hostile/export/csv",
    ] {
        let answer = server.get(&format!("/api/v1/{path}"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for bad in ["\u{1b}", "\\u001b", "\u{202e}", "\\u202e"] {
            assert!(
                !answer.body.contains(bad),
                "{path}: {bad:?} in {}",
                answer.body
            );
        }
        // HTML comes from the report alone, which escapes; everything else is text in JSON.
        let is_html = path.contains("sections") || path.contains("diff");
        assert!(
            !is_html || !answer.body.contains("<img"),
            "{path}: {}",
            answer.body
        );
    }
    let report = server.get("/api/v1/runs/hostile/report");
    assert!(!report.body.contains("<img"), "{}", report.body);
    assert!(
        report.head.contains("content-security-policy: sandbox"),
        "{}",
        report.head
    );
    let events = server.events_until("/api/v1/runs/hostile/events", "event: end");
    assert!(
        events.contains("\"state\":\"complete\"") && !events.contains('\u{1b}'),
        "{events}"
    );
    // The command that it was started with would name a program, which no page may start.
    let resumed = server.post("/api/v1/runs/hostile/resume", "{}");
    assert_eq!(resumed.status, 409, "{resumed:?}");
}

#[test]
fn paths_lead_nowhere_else() {
    let server = TestServer::start();
    let outside = server.place.path().join("outside");
    folders::named(&outside, "secret");
    std::os::unix::fs::symlink(&outside, server.runs().join("link")).unwrap();
    let inner = server.runs().join("inner");
    std::fs::create_dir(&inner).unwrap();
    for name in ["manifest.json", "events.jsonl"] {
        std::os::unix::fs::symlink(outside.join(name), inner.join(name)).unwrap();
    }
    for id in [
        "link",
        "inner",
        "..%2foutside",
        "../outside",
        "..",
        "%2e%2e",
        ".",
        "a%00b",
        "-o",
    ] {
        for rest in [
            "",
            "/sections",
            "/report",
            "/series?metric=iops",
            "/events",
            "/export/json",
        ] {
            let answer = server.get(&format!("/api/v1/runs/{id}{rest}"));
            assert!(
                (400..500).contains(&answer.status),
                "{id}{rest}: {answer:?}"
            );
        }
    }
    assert_eq!(server.get("/api/v1/runs").json()["runs"], json!([]));
    let form = |target: &str, workload: &str| campaign(&[target], workload, &json!({})).to_string();
    for (target, workload) in [
        ("/tmp", "varmail"),
        ("null", "cmd:reboot"),
        ("null", "../x.toml"),
        ("--help", "varmail"),
    ] {
        let answer = server.post("/api/v1/runs", &form(target, workload));
        assert_eq!(answer.status, 422, "{target} {workload}: {answer:?}");
    }
    assert_eq!(server.get("/api/v1/jobs").json(), json!([]));
}

/// Starts a run and waits until its folder is there.
fn started(server: &TestServer, keys: &Value) -> (String, String) {
    let form = campaign(&["sim", "null"], "randread", keys);
    let job = server.post("/api/v1/runs", &form.to_string());
    assert_eq!(job.status, 202, "{job:?}");
    let id = job.json()["id"].as_str().expect("a name").to_owned();
    let seen = server.wait(&format!("/api/v1/jobs/{id}"), |job| {
        job["run"].is_string() || job["state"] != "running"
    });
    let run = seen["run"]
        .as_str()
        .unwrap_or_else(|| panic!("no run: {seen}"))
        .to_owned();
    (id, run)
}

fn assert_no_file_has(folder: &Path, token: &str) {
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        if file.path().is_file() {
            let bytes = std::fs::read(file.path()).unwrap();
            let has_it = String::from_utf8_lossy(&bytes).contains(token);
            assert!(!has_it, "{:?}", file.path());
        }
    }
}

#[test]
fn a_run_is_started_watched_stopped_and_resumed() {
    let mut server = TestServer::start();
    let (job, run) = started(
        &server,
        &json!({ "trial": { "for": "1s" }, "blocks": 500, "seed": 7 }),
    );
    let events = server.events_until(&format!("/api/v1/runs/{run}/events"), "event: trial");
    assert!(
        events.contains("event: progress") && events.contains("event: second"),
        "{events}"
    );
    let facts = server.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!(
        (&facts["state"], &facts["job"]),
        (&json!("running"), &json!(job)),
        "{facts}"
    );
    assert_eq!(facts["progress"]["trials_planned"], 1500);
    assert_eq!(facts["progress"]["blocks_planned"], 500);
    let interim = server.get(&format!("/api/v1/runs/{run}/sections")).json();
    assert!(
        (interim["answer"].as_str()).is_some_and(|html| html.contains("So far: ")),
        "{interim}"
    );
    let same = server.post(&format!("/api/v1/runs/{run}/resume"), "");
    assert_eq!(same.status, 409, "{same:?}");
    let series = server
        .get(&format!("/api/v1/runs/{run}/series?metric=iops&points=50"))
        .json();
    assert!(series["series"][0]["mid"][0].is_number(), "{series}");

    assert_eq!(
        server.post(&format!("/api/v1/jobs/{job}/stop"), "").status,
        200
    );
    let ended = server.events_until(&format!("/api/v1/jobs/{job}/events"), "event: end");
    assert!(
        ended.contains("\"exit_code\":130") && ended.contains("stopped by the user"),
        "{ended}"
    );
    let stopped = server.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let sections = server.get(&format!("/api/v1/runs/{run}/sections")).json();
    assert!(
        sections["sections"]
            .as_array()
            .is_some_and(|all| all.len() > 2),
        "{sections}"
    );

    let resumed = server.post(&format!("/api/v1/runs/{run}/resume"), "");
    assert_eq!(resumed.status, 202, "{resumed:?}");
    let done = stopped["progress"]["trials_done"]
        .as_u64()
        .expect("a number");
    server.wait(&format!("/api/v1/runs/{run}"), |run| {
        run["state"] == "running" && run["progress"]["trials_done"].as_u64() > Some(done)
    });
    // The end of the server stops what it started, and says so.
    let folder = server.runs().join(&run);
    let token = server.token.clone();
    assert_no_file_has(&folder, &token);
    let (code, said) = server.end();
    assert!(
        code == Some(0) && said.contains("stopping: plimsoll run "),
        "{code:?} {said}"
    );
    assert!(!plimsoll_archive::is_being_written(&folder).unwrap());
    let run = plimsoll_archive::open(&folder).unwrap();
    assert!(!run.complete);
    // A command that can be typed, and not the standard input of then.
    assert_eq!(run.manifest.command[1..], ["run", folder.to_str().unwrap()]);
}

/// A stack of one's own is offered where the command line trusts its file, else refused at the start.
#[test]
fn a_stack_of_ones_own_is_offered_only_with_trust() {
    let place = place();
    let sentinel = place.path().join("SENTINEL").display().to_string();
    let own = format!(
        "description = \"d\"\nmount_dir = \"{{dir}}\"\n\
         [[step]]\nwhy = \"w\"\napply = [\"touch\", \"{sentinel}\"]\nundo = []\n"
    );
    std::fs::write(place.path().join("own.toml"), own).unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--target", "./own.toml"];
    let refused = plimsoll(place.path()).args(words).output().unwrap();
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(
        told.contains("add --trust /") && told.contains("/own.toml to let it"),
        "{told}"
    );
    let server = TestServer::start_in(place, &["--target", "./own.toml", "--trust", "./own.toml"]);
    let keys = json!({ "trial": { "for": "100ms" }, "blocks": 1, "control": false });
    let form = campaign(&["./own.toml"], "randread,size=1m", &keys);
    let job = server.post("/api/v1/runs", &form.to_string());
    assert_eq!(job.status, 202, "{job:?}");
    let id = job.json()["id"].as_str().expect("a name").to_owned();
    let ended = server.wait(&format!("/api/v1/jobs/{id}"), |job| {
        job["state"] != "running"
    });
    assert!(std::path::Path::new(&sentinel).exists(), "{ended}");
}

/// The process of a run gives its folder free a little before it ends.
#[test]
fn a_run_that_is_told_to_be_stopped_is_resumed_at_once() {
    let server = TestServer::start();
    let options = json!({ "trial": { "for": "1s" }, "blocks": 500, "seed": 7 });
    let (mut job, run) = started(&server, &options);
    for _ in 0..4 {
        server.events_until(&format!("/api/v1/runs/{run}/events"), "event: trial");
        let stop = server.post(&format!("/api/v1/jobs/{job}/stop"), "");
        assert_eq!(stop.status, 200, "{stop:?}");
        server.wait(&format!("/api/v1/runs/{run}"), |run| {
            run["state"] == "stopped"
        });
        let resumed = server.post(&format!("/api/v1/runs/{run}/resume"), "");
        assert_eq!(resumed.status, 202, "{resumed:?}");
        job = resumed.json()["id"].as_str().expect("a name").to_owned();
    }
}

/// The server knows a run by its campaign, even if a terminal started it. The page resumes only campaigns
/// that its form could request.
#[test]
fn a_run_of_a_terminal_is_resumed_from_the_page() {
    let server = TestServer::start();
    let place = server.place.path();
    let begin = |words: &str, run: &str| {
        let mut command = plimsoll(place);
        let folder = format!("runs/{run}");
        command.args(words.split_whitespace()).args(["-o", &folder]);
        let ended = command.output().unwrap();
        assert!(
            text(&ended.stderr).contains("the time of --budget is over"),
            "{ended:?}"
        );
    };
    let words =
        "compare sim null -w randread,size=8m --seed 7 --for 300ms --blocks 3 --budget 400ms";
    begin(words, "ours");
    begin(
        &words
            .replace("randread,size=8m", "cmd:true")
            .replace("sim null", "."),
        "theirs",
    );
    let refused = server.post("/api/v1/runs/theirs/resume", "");
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(
        refused.body.contains("is not resumed here: "),
        "{refused:?}"
    );
    let resumed = server.post("/api/v1/runs/ours/resume", "");
    assert_eq!(resumed.status, 202, "{resumed:?}");
    let job = resumed.json()["id"].as_str().expect("a name").to_owned();
    let ended = server.wait(&format!("/api/v1/jobs/{job}"), |job| {
        job["state"] != "running"
    });
    assert_eq!(ended["state"], "done", "{ended}");
    let run = server.get("/api/v1/runs/ours").json();
    assert_eq!(run["state"], "complete", "{run}");
}

/// Both programs are in one package. If a user copied only one, the error says so.
#[test]
fn without_the_server_beside_it_the_program_says_what_is_missing() {
    let lab = Lab::new();
    let alone = lab.path("plimsoll");
    std::fs::hard_link(env!("CARGO_BIN_EXE_plimsoll"), &alone).unwrap();
    for words in [&["serve"][..], &["team", "audit"], &["history", "list"]] {
        let output = lab
            .command_of(&alone.display().to_string(), words)
            .output()
            .unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("failed to start plimsoll-server") && told.contains("same package"),
            "{told}"
        );
    }
}

#[test]
fn a_run_that_is_complete_is_told_with_its_answer() {
    let server = TestServer::start();
    let (job, run) = started(
        &server,
        &json!({ "trial": { "for": "1s" }, "blocks": 3, "seed": 7 }),
    );
    let events = server.events_until(&format!("/api/v1/runs/{run}/events"), "event: end");
    assert!(events.contains("\"state\":\"complete\""), "{events}");
    server.wait(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "done");
    // The answer of its report is computed apart from the list, and is in one of the next.
    let listed = server.wait("/api/v1/runs", |listed| {
        listed["runs"][0]["answer"]["text"].is_string()
    });
    assert_eq!(listed["runs"][0]["state"], "complete", "{listed}");
    assert!(listed["runs"][0]["command"].is_string(), "{listed}");
    let again = server.post(&format!("/api/v1/runs/{run}/resume"), "");
    assert_eq!(again.status, 409, "{again:?}");
    for format in [
        "csv", "json", "markdown", "xlsx", "parquet", "hlog", "junit",
    ] {
        let file = server.get(&format!("/api/v1/runs/{run}/export/{format}"));
        assert!(
            file.status == 200 && file.head.contains("attachment"),
            "{format}: {file:?}"
        );
    }
    let plan = server.post(
        "/api/v1/stacks/plan",
        "{\"stack\":\"local\",\"size\":\"64M\"}",
    );
    // The response has the steps of the plan, or the reason why this user cannot plan it. Neither makes
    // anything.
    assert!(
        plan.status == 200 || plan.json()["error"]["text"].is_string(),
        "{plan:?}"
    );
    assert_eq!(server.get("/api/v1/stacks").json(), json!([]));
}

#[test]
fn every_run_is_on_a_page_of_the_list_and_found_by_words() {
    const RUNS: usize = 230;
    let server = TestServer::start();
    for n in 0..RUNS {
        folders::named(
            &server.runs().join(format!("run{n:03}")),
            &format!("array{n:03}"),
        );
    }
    let page = |page: usize, find: &str| {
        let list = server
            .get(&format!("/api/v1/runs?page={page}&find={find}"))
            .json();
        let runs = list["runs"].as_array().expect("a list").clone();
        let ids = runs
            .iter()
            .map(|run| run["id"].as_str().expect("a name").to_owned());
        (
            ids.collect::<Vec<_>>(),
            list["count"].clone(),
            list["pages"].clone(),
        )
    };
    let pages: Vec<_> = (0..3).map(|number| page(number, "")).collect();
    assert_eq!(
        pages.iter().map(|(ids, ..)| ids.len()).collect::<Vec<_>>(),
        [100, 100, 30]
    );
    assert!(
        pages
            .iter()
            .all(|(_, count, pages)| *count == RUNS && *pages == 3)
    );
    let all: std::collections::BTreeSet<_> = pages.iter().flat_map(|(ids, ..)| ids).collect();
    assert_eq!(all.len(), RUNS);
    assert_eq!(page(3, "").0, Vec::<String>::new());
    assert_eq!(
        page(0, "ARRAY007%20complete"),
        (vec!["run007".into()], json!(1), json!(1))
    );
    assert_eq!(page(0, "array007%20running").1, 0);
}

#[test]
fn a_run_of_days_is_drawn_at_once() {
    const ROWS: u64 = 300_000;
    let server = TestServer::start();
    folders::long(&server.runs().join("long"), ROWS);
    let address = "/api/v1/runs/long/series?metric=p99&points=1000";
    // A starved machine may answer before anything is read.
    let has_points = |series: &Value| {
        (series["series"][0]["t"].as_array()).is_some_and(|points| points.len() > 100)
    };
    let (first, took) = timed(|| server.wait(address, has_points));
    let (_, beside) = timed(|| server.get("/api/v1/server"));
    let (whole, loaded) = timed(|| server.wait(address, |series| series["read"] == 1.0));
    assert_eq!(whole["full_to_s"], ROWS as f64);
    let points = whole["series"][0]["t"].as_array().expect("points").len();
    assert!((900..=1000).contains(&points), "{points}");
    let (_, again) = timed(|| {
        server.get("/api/v1/runs/long/series?metric=iops&from=5000&to=270000&points=1000")
    });
    eprintln!(
        "{ROWS} seconds: first picture {took:?} (read: {}), beside it another request {beside:?}, all read \
        after {loaded:?} more, each further picture {again:?}",
        first["read"]
    );
    // None waits until all is read, and none reads it again. How long that takes, this machine says.
    let all = took + beside + loaded;
    let read = first["read"].as_f64();
    assert!(read.is_some_and(|read| read < 1.0), "{first}");
    assert!(
        beside < all / 2 && again < all / 2,
        "{beside:?} {again:?} {all:?}"
    );
}

#[test]
fn addresses_that_others_reach_need_encryption() {
    let place = place();
    for (args, wanted) in [
        (&["--listen", "192.0.2.1:7433"][..], "which needs TLS"),
        (
            &["--listen", "127.0.0.1:0", "--token-file", "none"],
            "token file none",
        ),
        (
            &["--listen", "127.0.0.1:0", "--origin", "lab"],
            "invalid value 'lab' for --origin",
        ),
        (
            &["--listen", "127.0.0.1:0", "--target", "nowhere"],
            "nowhere",
        ),
    ] {
        let output = plimsoll(place.path())
            .arg("serve")
            .args(args)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && told.contains(wanted),
            "{args:?}: {told}"
        );
    }
}

/// Runs openssl; `None` where it is missing.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]
fn openssl(place: &std::path::Path, args: &[&str], input: &str) -> Option<Vec<u8>> {
    let mut command = std::process::Command::new("openssl");
    command
        .args(args)
        .current_dir(place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut to = child.stdin.take()?;
    to.write_all(input.as_bytes()).ok()?;
    let mut said = Vec::new();
    if !input.is_empty() {
        // The end of the input would end the connection: the server does that behind its answer.
        child.stdout.take()?.read_to_end(&mut said).ok()?;
    }
    drop(to);
    said.extend(child.wait_with_output().ok()?.stdout);
    Some(said)
}

#[test]
fn connections_are_encrypted_with_the_certificate_that_was_given() {
    let place = place();
    let make = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ];
    if openssl(place.path(), &make, "").is_none() {
        return skipped(
            "connections_are_encrypted_with_the_certificate_that_was_given",
            "openssl is missing",
        );
    }
    let server = TestServer::start_in(place, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let request = format!(
        "GET /api/v1/server HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
        Connection: close\r\n\r\n",
        server.address, server.token
    );
    let connect = [
        "s_client",
        "-quiet",
        "-verify_return_error",
        "-verify_ip",
        "127.0.0.1",
        "-CAfile",
        "cert.pem",
        "-connect",
        &server.address,
    ];
    let answer =
        parse(&openssl(server.place.path(), &connect, &request).expect("it was there before"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["version"], env!("CARGO_PKG_VERSION"));
    // A request without encryption gets no response.
    assert_eq!(server.send("GET /", &[], "").status, 0);
}
