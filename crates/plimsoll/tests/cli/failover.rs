// SPDX-License-Identifier: Apache-2.0
//! Faults done to a stack that is stood up for it.

use crate::nfs::missing;
use crate::support::{Lab, skipped, text};
use std::path::Path;

/// How long the server stands still.
const STILL_S: f64 = 3.0;

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let lab = Lab::new();
    let ledgers = lab.path("ledgers");
    let options = ["--fault", "kill,slow", "--load", "50%", "--dry-run"];
    let place = ["--ledgers", ledgers.to_str().unwrap()];
    let output = lab.run(&[&["failover", "nfs", "raid1"][..], &options, &place].concat());
    let told = text(&output.stdout);
    for said in [
        "plimsoll stack up 'raid1' --dry-run",
        "2 sessions, a file of 16.0 MiB each: 50 % of what it carries",
        "10 times slow, done to each server in turn: for 10 s at least",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert!(!ledgers.exists());
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_server_that_stands_still_is_felt_for_as_long_and_nothing_is_lost() {
    let lab = Lab::new();
    let missing = missing(&lab, "nfs");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("a fault of an NFS server", &why);
    }
    let args = [
        "failover",
        "nfs",
        "--fault",
        "pause,malformed",
        "--fault-duration",
        "3s",
        "--repeat",
        "1",
        "--size",
        "512M",
        "--file-size",
        "2M",
        "--rate",
        "25",
        "--json",
        "-o",
    ];
    let page = lab.path("faults.html");
    let told = lab.json(&[&args[..], &[page.to_str().unwrap()]].concat());
    let strike = &told["strikes"][0];
    assert_eq!(
        (&strike["fault"], &strike["victim"]),
        (&"pause".into(), &"n1".into())
    );
    let sessions = strike["outage"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        assert_eq!(session["survived"], true, "{session}");
        assert_eq!(session["errors"], 0, "{session}");
        for stall in ["write_stall", "read_stall"] {
            let stall = &session[stall];
            let seconds = stall["length"].as_f64().unwrap() / 1e9;
            // Less the 40 ms between two operations; a busy machine may make it longer.
            assert!(seconds > STILL_S - 0.3, "{session}");
            assert_eq!(stall["is_open"], false, "{session}");
        }
    }
    let check = &strike["check"];
    assert!(check["data"]["written"].as_u64().unwrap() > 512, "{check}");
    let bad = check["data"]["bad"].as_object().unwrap();
    assert!(bad.values().all(|count| *count == 0), "{check}");
    // What is malformed is felt by nobody who speaks well, and ends no server.
    let garbage = &told["strikes"][1];
    assert_eq!(
        (&garbage["fault"], &garbage["crashed"]),
        (&"malformed".into(), &0.into())
    );
    assert_eq!(garbage["outage"]["sessions"][0]["survived"], true);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("no acknowledged write was lost in 2 faults"));
    let status = lab.json(&["stack", "status", "--json"]);
    assert!(status["stacks"].as_array().unwrap().is_empty(), "{status}");
}

#[test]
fn a_table_goes_on_with_what_was_asked_and_nothing_else() {
    let lab = Lab::new();
    let cells = lab.path("cells");
    let table = |repeat: &str| {
        let cells = cells.to_str().unwrap();
        let asked = [
            "failover",
            "local",
            "--repeat",
            repeat,
            "--checkpoint-dir",
            cells,
        ];
        lab.run(&asked)
    };
    let output = table("2");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("not possible"), "{said}");
    assert!(said.contains("it has no servers of its own"), "{said}");
    let output = table("3");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("name another folder"), "{said}");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_done() {
    let lab = Lab::new();
    let refused = |args: &[&str], why: &str| {
        let output = lab.run(&[&["failover"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains(why), "{said}");
    };
    refused(&["local", "--fault", "rain"], "expected one of kill, stop");
    refused(&["local", "--block", "5000"], "a power of two from 4 KiB");
    refused(&["local", "--rate", "0"], "from 0.1 to 50000");
    refused(&["local"], "it has no servers of its own");
}

#[test]
fn faults_of_a_comparison_that_make_no_sense_are_refused_before_anything_is_made() {
    let lab = Lab::new();
    let place = lab.directory("place");
    let refused = |args: &[&str], why: &str| {
        let output = lab.run(&[&["compare"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    };
    let under = |target: &'static str, workload: &'static str| {
        [target, "-w", workload, "--fault", "kill", "--dry-run"]
    };
    refused(
        &[&place, "-w", "varmail", "--fault", "kill"],
        "--fault needs stacks as targets",
    );
    refused(&under("raid1", "bonnie++"), "it ends by itself");
    refused(
        &[&under("raid1", "varmail")[..], &["--for", "12s"]].concat(),
        "needs at least 17 s",
    );
    refused(
        &[&under("raid1", "varmail")[..], &["--rate", "0"]].concat(),
        "from 0.1 to 50000",
    );
    refused(&["raid1", "-w", "varmail", "--repeat", "3"], "--fault");
    let planned = lab.run(
        &[
            &["compare"],
            &under("raid1", "varmail")[..],
            &["--repeat", "2"],
        ]
        .concat(),
    );
    let said = text(&planned.stdout);
    assert!(said.contains("run 4 trials"), "{planned:?}");
    assert!(said.contains("varmail under kill on raid1"), "{said}");
}

/// Both at once, since a stack has to be stood up for each: a comparison under a fault, and one that is
/// killed, razed and resumed.
#[test]
fn a_comparison_under_faults_says_who_stood_still_and_resumes_after_a_kill() {
    let lab = Lab::new();
    let missing = missing(&lab, "raid1");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("a comparison under a fault", &why);
    }
    let folder = lab.path("run");
    let command = [
        "compare",
        "raid1",
        "-w",
        "varmail",
        "--fault",
        "pause",
        "--fault-duration",
        "3s",
        "--repeat",
        "1",
        "--for",
        "10s",
        "--size",
        "512M",
        "--json",
        "-o",
        folder.to_str().unwrap(),
    ];
    let mut killed = lab.start(&command);
    for event in ["\"prepared\"", "\"trial_ended\""] {
        lab.wait_for_text("run", event);
    }
    lab.wait_for_text("run", "\"place\":1");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let razed = lab.run(&["raze"]);
    assert!(razed.status.success(), "{}", text(&razed.stderr));
    let told = lab.json(&["report", folder.to_str().unwrap(), "--json"]);
    assert_eq!(
        (
            told["complete"].as_bool(),
            told["trials"].as_array().unwrap().len()
        ),
        (Some(false), 1)
    );
    let told = lab.json(&command);
    assert_eq!(told["complete"], true);
    let trials = told["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    let said = told["warnings"].to_string();
    assert!(said.contains("resumed after 1 of 2 trials"), "{said}");
    for trial in trials {
        let fault = &trial["fault"];
        assert_eq!(fault["fault"], "pause", "{fault}");
        let bad = fault["check"]["data"]["bad"].as_object().unwrap();
        assert!(bad.values().all(|count| *count == 0), "{fault}");
        assert!(trial["ops"].as_u64().unwrap() > 0, "{trial}");
    }
    let rows = told["comparisons"].as_array().unwrap();
    let of = |label: &str| rows.iter().any(|row| row["workload"] == label);
    assert!(of("varmail under pause: write outage"), "{rows:?}");
    assert!(of("varmail under pause"), "{rows:?}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("no acknowledged write was lost in 2 faults"));
    let again = lab.run(&command);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
    let status = lab.json(&["stack", "status", "--json"]);
    assert!(status["stacks"].as_array().unwrap().is_empty(), "{status}");
}

/// What keeps scp from being a witness here.
fn no_scp() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    let has = |program: &str| {
        let dirs = ["/usr/bin", "/usr/sbin"];
        dirs.iter().any(|dir| Path::new(dir).join(program).exists())
    };
    if !["scp", "ssh-keygen", "sshd"].iter().all(|name| has(name)) {
        return Some("missing here: openssh-client, openssh-server");
    }
    (is_root && !Path::new("/run/sshd").is_dir()).then_some("there is no /run/sshd")
}

#[test]
fn files_that_were_copied_meanwhile_are_there_and_a_stall_of_them_is_told() {
    let lab = Lab::new();
    let missing = missing(&lab, "iscsi");
    let what = "copies during a fault of an iSCSI target";
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped(what, &why);
    }
    if let Some(why) = no_scp() {
        return skipped(what, why);
    }
    let ledgers = lab.path("ledgers");
    let args = [
        "failover",
        "iscsi",
        "--fault",
        "pause",
        "--fault-duration",
        "3s",
        "--repeat",
        "1",
        "--size",
        "512M",
        "--file-size",
        "2M",
        "--rate",
        "5",
        "--observer",
        "scp,stamp",
        "--json",
        "--ledgers",
    ];
    let told = lab.json(&[&args[..], &[ledgers.to_str().unwrap()]].concat());
    let beside = told["strikes"][0]["beside"].as_array().unwrap();
    let of = |name: &str| beside.iter().find(|one| one["name"] == name).unwrap();
    for name in ["scp", "stamp"] {
        assert!(of(name)["ops"].as_u64().unwrap() >= 1, "{beside:?}");
        assert_eq!(of(name)["missing"], 0, "{beside:?}");
    }
    // Two copies at most can end while their server stands still, so one waited for most of it.
    let still = of("scp")["still"].as_f64().unwrap() / 1e9;
    assert!(still > 1.0, "{beside:?}");
    // Its keys are gone, the ledgers are not.
    assert!(ledgers.join("001.ledger").exists());
    assert!(!ledgers.join("scp").exists());
}
