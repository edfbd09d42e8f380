// SPDX-License-Identifier: Apache-2.0
//! A team's server from the outside: pushes, who sees what, hostile folders, and kills of all that can be
//! killed. The PostgreSQL of these tests is started by them.

mod hostile;
mod kills;
mod lost;
mod numbers;
mod scopes;
mod shares;
mod tls;

use crate::client::{TestAnswer, TestServer, place, plimsoll};
use crate::made::run_folder;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

/// A server on an SQLite file beside its folder, and tokens of users.
pub(crate) struct TestTeam {
    pub(crate) server: TestServer,
}

/// Output of a command.
pub(crate) fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Ends a server, and gives the folder that it was in.
pub(crate) fn stopped(mut server: TestServer) -> tempfile::TempDir {
    std::mem::replace(&mut server.place, place())
}

/// Adds a user with a token in a database; gives the token.
pub(crate) fn add_user(place: &Path, database: &str, name: &str, scopes: &str) -> String {
    let run = |args: &[&str]| {
        let output = plimsoll(place)
            .env("PLIMSOLL_DATABASE", database)
            .args(args)
            .output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    run(&["team", "user", "add", name]);
    run(&["team", "token", "add", name, "--scope", scopes])
}

/// Pushes a run with a token.
pub(crate) fn push(place: &Path, address: &str, token: &str, run: &str, more: &[&str]) -> Output {
    plimsoll(place)
        .env("PLIMSOLL_TOKEN", token)
        .args(["push", run, "--server", &format!("http://{address}")])
        .args(more)
        .output()
        .expect("it starts")
}

impl TestTeam {
    /// Starts a server with further options.
    pub(crate) fn start(more: &[&str]) -> TestTeam {
        let args: Vec<&str> = ["--database", "sqlite:team.db"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        TestTeam {
            server: TestServer::start_in(place(), &args),
        }
    }

    pub(crate) fn place(&self) -> &Path {
        self.server.place.path()
    }

    pub(crate) fn user(&self, name: &str, scopes: &str) -> String {
        add_user(self.place(), "sqlite:team.db", name, scopes)
    }

    /// Makes a run folder, pushes it, and gives the name of its folder on the server.
    pub(crate) fn pushed(&self, token: &str, id: &str, factor: f64, more: &[&str]) -> String {
        run_folder(&self.place().join(id), id, factor);
        let args = [more, &["--json"]].concat();
        let output = push(self.place(), &self.server.address, token, id, &args);
        assert!(output.status.success(), "{}", told(&output));
        let outcome: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        outcome["folder"].as_str().expect("a folder").to_owned()
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> TestAnswer {
        let bearer = format!("Bearer {token}");
        self.server
            .send(&format!("GET {path}"), &[("Authorization", &bearer)], "")
    }

    pub(crate) fn send(&self, token: &str, request: &str, body: &Value) -> TestAnswer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", &*bearer),
            ("Content-Type", "application/json"),
        ];
        self.server.send(request, &headers, &body.to_string())
    }

    /// All names in the store, and what is being pushed.
    pub(crate) fn stored(&self) -> Vec<String> {
        let names = |path: std::path::PathBuf| -> Vec<String> {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        };
        let runs = self.server.runs();
        let mut all = names(runs.clone());
        all.retain(|name| name != ".pushes");
        all.extend(names(runs.join(".pushes")));
        all
    }
}

#[test]
fn a_run_is_pushed_once_and_shown() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push,run");
    let folder = team.pushed(&token, "monday", 1.5, &["--revision", "abc"]);
    let again = push(team.place(), &team.server.address, &token, "monday", &[]);
    assert!(told(&again).contains("(0 files sent"), "{}", told(&again));
    team.pushed(&token, "tuesday", 1.2, &["--revision", "def"]);
    let list = team.get(&token, "/api/v1/runs").json();
    assert_eq!(list["count"], 2, "{list}");
    let report = team.get(&token, &format!("/api/v1/runs/{folder}/report"));
    assert_eq!(report.status, 200, "{report:?}");

    let series = team
        .get(&token, "/api/v1/history/series?text=mean_response")
        .json();
    let id = series[0]["id"].as_i64().expect("a number");
    let page = team
        .get(&token, &format!("/api/v1/history/series/{id}"))
        .json();
    let points = page["points"].as_array().expect("points").clone();
    assert_eq!(points.len(), 2, "{page}");
    let ratio = |at: usize| points[at]["ratio"].as_f64().expect("a ratio");
    assert!(
        (ratio(0) - 1.5).abs() < 0.02 && (ratio(1) - 1.2).abs() < 0.02,
        "{page}"
    );
    assert_eq!(points[1]["changes"], json!(["revision abc → def"]));
    assert!(points[0]["low"].as_f64() <= Some(ratio(0)), "{page}");

    let marks = format!("POST /api/v1/history/series/{id}/marks");
    let last = points[1]["run"].as_str().expect("a name");
    let form = json!({ "kind": "acknowledged", "run": last, "note": "faster code" });
    let marked = team.send(&token, &marks, &form).json();
    assert_eq!(
        marked["points"][1]["acknowledged"], "by ada: faster code",
        "{marked}"
    );
    let muted = team
        .send(&token, &marks, &json!({ "kind": "muted", "days": 3 }))
        .json();
    assert!(
        muted["muted"]
            .as_str()
            .is_some_and(|text| text.ends_with("by ada")),
        "{muted}"
    );
    let loud = team
        .send(&token, &marks, &json!({ "kind": "unmuted" }))
        .json();
    assert_eq!(loud["muted"], Value::Null, "{loud}");
    let by_reading = team.get(&token, &format!("/api/v1/history/series/{id}/marks"));
    assert_eq!(by_reading.status, 405, "nothing changes by GET");
}

#[test]
fn all_history_is_exported() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push");
    team.pushed(&token, "monday", 1.5, &[]);
    let export = |args: &[&str]| {
        let words = [&["history", "export", "--database", "sqlite:team.db"], args].concat();
        let output = plimsoll(team.place())
            .args(words)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", told(&output));
        told(&output)
    };
    let rows = export(&["--lines", "all.jsonl"]);
    let lines = std::fs::read_to_string(team.place().join("all.jsonl")).expect("it is there");
    assert!(
        rows.starts_with(&format!("{} rows", lines.lines().count())),
        "{rows}"
    );
    let first: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&first["owner"], &first["run"]),
        (&json!("ada"), &json!("monday")),
        "{first}"
    );
    export(&["--parquet", "all.parquet"]);
    let bytes = std::fs::read(team.place().join("all.parquet")).expect("it is there");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn what_the_database_lacks_is_added_from_the_store() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push");
    let folder = team.pushed(&token, "monday", 1.5, &["--share"]);
    let place = stopped(team.server);
    // An older backup: the users are in it, and the run is not.
    for name in ["team.db", "team.db-wal", "team.db-shm"] {
        let _ = std::fs::remove_file(place.path().join(name));
    }
    let token = add_user(place.path(), "sqlite:team.db", "ada", "read,push");
    let list = plimsoll(place.path())
        .args(["history", "list", "--database", "sqlite:team.db"])
        .output()
        .expect("it starts");
    assert!(!told(&list).contains(&folder), "{}", told(&list));
    let team = TestTeam {
        server: TestServer::start_in(place, &["--database", "sqlite:team.db"]),
    };
    assert_eq!(
        team.get(&token, &format!("/api/v1/runs/{folder}")).status,
        200
    );
    let list = team.get(&token, "/api/v1/history/series").json();
    assert!(list.as_array().is_some_and(|all| !all.is_empty()), "{list}");
}

/// Of two queues whose lines follow from their law: (200 − free) ÷ (100 − free), with ln 100 ÷ 200 ms free.
#[test]
fn the_ratio_of_two_load_lines_is_a_point_of_a_series() {
    let team = TestTeam::start(&[]);
    let token = team.user("ada", "read,push");
    let group = "depth = 1024\npace = { open = { poisson = { per_s = 10.0 } } }\n\
                 extent = { file = \"data\", bytes = 67108864 }\n";
    let workload = format!(
        "format = \"2.0\"\n[workload.blocks]\nname = \"w\"\n[[workload.blocks.groups]]\n{group}"
    );
    std::fs::write(team.place().join("w.toml"), workload).expect("a writable directory");
    let [slow, fast] = ["10ms", "5ms"].map(|service| {
        format!("sim(queue,servers=1,law=exponential,service={service},rate=100000M)")
    });
    let args = [
        "loadline",
        &slow,
        &fast,
        "-w",
        "w.toml",
        "--slo",
        "p99 < 200ms",
        "--for",
        "4m",
    ];
    let more = ["--width", "10%", "--seed", "5", "-o", "line"];
    let output = plimsoll(team.place()).args(args).args(more).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", told(&output));
    let pushed = push(team.place(), &team.server.address, &token, "line", &[]);
    assert!(pushed.status.success(), "{}", told(&pushed));
    let series = team
        .get(&token, "/api/v1/history/series?text=load_line")
        .json();
    let [one] = &series.as_array().expect("a list")[..] else {
        panic!("{series}");
    };
    assert_eq!(
        (&one["system"], &one["reference"]),
        (&json!(fast), &json!(slow))
    );
    let page = team
        .get(&token, &format!("/api/v1/history/series/{}", one["id"]))
        .json();
    let point = &page["points"][0];
    let free = 100f64.ln() / 0.2;
    let truth = (200.0 - free) / (100.0 - free);
    let [low, ratio, high] =
        ["low", "ratio", "high"].map(|key| point[key].as_f64().expect("a number"));
    assert!(
        low <= truth && truth <= high && low < ratio && ratio < high,
        "{point}"
    );
    assert!(
        point["blocks"].as_u64().is_some_and(|trials| trials > 3),
        "{point}"
    );
}
