// SPDX-License-Identifier: Apache-2.0
//! Faults injected into a stack that is stood up for it.

use super::nfs::missing;
use crate::support::{Lab, pause, skipped, text};
use std::path::Path;

/// How long the server stands still.
const STILL_S: f64 = 3.0;

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let lab = Lab::new();
    let args = "failover nfs raid1 --fault kill,slow --load 50% --dry-run -o run";
    let output = lab.run(&args.split(' ').collect::<Vec<_>>());
    let said = text(&output.stdout);
    for expect in [
        "plimsoll stack up 'raid1' --dry-run",
        "inject slow into each server in turn, for 10 s at least",
        "2 sessions, a file of 16.0 MiB each: 50 % of what they get at most",
        "run 40 trials",
        "sessions under kill on nfs",
    ] {
        assert!(said.contains(expect), "{expect}: {said}");
    }
    assert!(!lab.path("run").exists());
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn power_is_not_cut_where_there_is_no_switch_and_a_dry_run_says_so() {
    let lab = Lab::new();
    for more in [&["--dry-run"][..], &[]] {
        let words = ["failover", "raid1", "--fault", "power-cut"];
        let output = lab.run(&[&words, more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("power command"), "{said}");
        assert!(said.contains("plimsoll durability 'raid1'"), "{said}");
    }
    assert!(!lab.path("plimsoll-results").exists());
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
    let told = lab.json(&[&args[..], &["run"]].concat());
    let pause = fault_of(&told, "sessions under pause");
    assert_eq!(
        (&pause["fault"], &pause["victim"]),
        (&"pause".into(), &"n1".into())
    );
    let sessions = pause["outage"]["sessions"].as_array().unwrap();
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
    let check = &pause["check"];
    assert!(check["data"]["written"].as_u64().unwrap() > 512, "{check}");
    let bad = check["data"]["bad"].as_object().unwrap();
    assert!(bad.values().all(|count| *count == 0), "{check}");
    // Malformed requests are not felt by well-formed sessions, and end no server.
    let garbage = fault_of(&told, "sessions under malformed");
    assert_eq!(
        (&garbage["fault"], &garbage["crashed"]),
        (&"malformed".into(), &0.into())
    );
    assert_eq!(garbage["outage"]["sessions"][0]["survived"], true);
    assert!(lab.path("run/ledgers/001.ledger").exists());
    let page = std::fs::read_to_string(lab.path("run/report.html")).unwrap();
    assert!(page.contains("no acknowledged write was lost in 2 faults"));
    let again = text(&lab.run(&["report", "run"]).stdout);
    assert!(
        again.contains("Faults in the order of injection"),
        "{again}"
    );
    let status = lab.json(&["stack", "status", "--json"]);
    assert!(status["stacks"].as_array().unwrap().is_empty(), "{status}");
}

/// Result of the fault in the only trial of this entry.
fn fault_of<'a>(told: &'a serde_json::Value, entry: &str) -> &'a serde_json::Value {
    let mut trials = told["trials"].as_array().expect("trials").iter();
    let found = trials.find(|trial| trial["workload"] == entry);
    &found.unwrap_or_else(|| panic!("{entry}: {told}"))["fault"]
}

/// Both at once, since a stack has to be stood up for each: a fault that one of two stacks cannot have, and
/// an end by the clock. A trial is at least as long as the budget, so that a machine that is fast enough to
/// begin one does not begin many.
#[test]
fn a_stack_that_cannot_have_a_fault_is_left_out_and_no_trial_begins_after_the_budget() {
    let lab = Lab::new();
    let missing = missing(&lab, "nfs");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("faults of two stacks", &why);
    }
    let args = "failover nfs local --fault pause --fault-duration 1s --repeat 9 --size 512M --file-size 1M \
                --rate 25 --budget 1s -o run";
    let args: Vec<_> = args.split(' ').filter(|word| !word.is_empty()).collect();
    let output = lab.run(&args);
    let (said, notes) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(
        (0..3).any(|trials| said.contains(&format!("{trials} of 9 trials"))),
        "{said}"
    );
    assert!(said.contains("not possible"), "{said}");
    assert!(notes.contains("it has no servers of its own"), "{notes}");
    assert!(notes.contains("the time of --budget is over"), "{notes}");
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
fn a_system_is_measured_while_it_is_slow_and_only_a_redundant_one_while_it_is_degraded() {
    let lab = Lab::new();
    let missing = missing(&lab, "iscsi");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("a comparison while a server is slow", &why);
    }
    let command =
        "compare iscsi -w randread,size=4m --size 512M --blocks 1 --for 2s --warmup 0s --under";
    let command: Vec<&str> = command.split(' ').collect();
    let told = lab.json(&[&command[..], &["healthy,slow", "--json", "-o", "run"]].concat());
    assert_eq!(told["complete"], true);
    let trials = told["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    let p99_ns = |condition: &str| {
        let label = format!("randread size=4m while {condition}");
        let of = trials.iter().filter(|trial| trial["workload"] == *label);
        let p99s = of.filter_map(|trial| trial["response_ns"]["p99"].as_u64());
        let p99s: Vec<u64> = p99s.collect();
        assert_eq!(p99s.len(), 2, "{trials:?}");
        p99s
    };
    // It stands still nine tenths of the time. How much it does in the rest depends on the machine, of
    // which one trial alone may have little.
    let (slow, healthy) = (p99_ns("slow"), p99_ns("healthy"));
    let sum = |times: &[u64]| times.iter().sum::<u64>();
    assert!(sum(&slow) > sum(&healthy), "{slow:?} {healthy:?}");
    let said = told["warnings"].to_string();
    assert!(said.contains("has the fault 'slow'"), "{said}");
    let refused = lab.run(&[&command[..], &["degraded", "-o", "none"]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("tgtd0 has no standby"), "{said}");
    let status = lab.json(&["stack", "status", "--json"]);
    assert!(status["stacks"].as_array().unwrap().is_empty(), "{status}");
}

#[test]
fn a_redundant_system_is_measured_while_it_rebuilds_while_it_scrubs_and_while_it_is_full() {
    let lab = Lab::new();
    let missing = missing(&lab, "raid1");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("a comparison while a stack rebuilds", &why);
    }
    let command = "compare raid1 -w randwrite,size=16m --size 512M --blocks 1 --for 1s --warmup 0s \
                   --under rebuild,scrub,full --json -o run";
    let told = lab.json(&command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(told["complete"], true);
    let trials = told["trials"].as_array().unwrap();
    for condition in ["rebuilding", "scrubbing", "90 % full"] {
        let label = format!("randwrite size=16m while {condition}");
        let of = trials.iter().find(|trial| trial["workload"] == *label);
        assert!(of.unwrap()["ops"].as_u64().unwrap() > 0, "{trials:?}");
    }
    let said = told["warnings"].to_string();
    assert!(said.contains("is killed before each trial"), "{said}");
    assert!(said.contains("scrubbed again and again"), "{said}");
    assert!(said.contains("filled to 90 %"), "{said}");
    // One that has no copies cannot be read against them.
    let refused = lab.run(
        &"compare local -w randread --under scrub"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("only stacks with several nodes can"),
        "{said}"
    );
    let status = lab.json(&["stack", "status", "--json"]);
    assert!(status["stacks"].as_array().unwrap().is_empty(), "{status}");
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

/// Once with a workload beside the sessions, whose maximum is measured first; killed, razed, reported, and
/// resumed by the same command.
#[test]
fn a_failover_that_is_killed_is_reported_and_resumed() {
    let lab = Lab::new();
    let missing = missing(&lab, "nfs");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("a failover that is killed", &why);
    }
    let command = "failover nfs --fault pause --fault-duration 1s --repeat 2 --for 9s --size 512M --file-size \
                   1M --load 20% -w randread,size=8M --json -o run";
    let command: Vec<_> = command.split_whitespace().collect();
    let mut killed = lab.start(&command);
    lab.wait_for_text("run", "\"place\":1");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let razed = lab.run(&["raze"]);
    assert!(razed.status.success(), "{}", text(&razed.stderr));
    let told = lab.json(&["report", "run", "--json"]);
    assert_eq!(told["complete"], false);
    let first = told["trials"][0]["fault"].clone();
    assert!(first["ceiling"].as_f64().unwrap() > 1.0, "{first}");
    let told = lab.json(&command);
    assert_eq!(told["complete"], true);
    let trials = told["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    // The maximum was measured once: the resumed run reuses it.
    for trial in trials {
        assert_eq!(trial["fault"]["ceiling"], first["ceiling"], "{trial}");
        assert!(trial["ops"].as_u64().unwrap() > 0, "{trial}");
    }
    let said = told["warnings"].to_string();
    assert!(said.contains("resumed after 1 of 2 trials"), "{said}");
}

/// The client of `nbd` waits for its server without end, and so does every process that looks at a file of
/// the stack. So raze must not look for the files of a killed run before the stack is down.
#[test]
fn raze_ends_although_a_fault_cut_the_server_off_when_the_run_was_killed() {
    let lab = Lab::new();
    let mut missing = missing(&lab, "nbd");
    missing.extend((!rustix::process::geteuid().is_root()).then(|| "root".to_owned()));
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("raze while a server is cut off", &why);
    }
    let command = "failover nbd --on netns --fault one-way --fault-duration 5m --repeat 1 --size 512M \
                   --file-size 1M --rate 25 -o run";
    let mut killed = lab.start(&command.split_whitespace().collect::<Vec<_>>());
    let journal = lab.path("state/journals/stack-nbd.jsonl");
    let is_noted = || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.contains("inject one-way into n1")
    };
    for _ in 0..3000 {
        if is_noted() || killed.try_wait().unwrap().is_some() {
            break;
        }
        pause(100);
    }
    // It is noted before it is injected, and sessions wait for the server soon after.
    let was_noted = is_noted();
    pause(3000);
    killed.kill().unwrap();
    let mut raze = lab.start(&["raze"]);
    let mut looks = 0;
    while raze.try_wait().unwrap().is_none() && looks < 3000 {
        pause(100);
        looks += 1;
    }
    // Not before: a thread of it that waits for the server inside the kernel ends only with the stack.
    let output = killed.wait_with_output().unwrap();
    assert!(was_noted, "{}", text(&output.stderr));
    let hangs = raze.try_wait().unwrap().is_none();
    if hangs {
        raze.kill().unwrap();
        lab.run(&["stack", "down", "nbd"]);
    }
    let output = raze.wait_with_output().unwrap();
    assert!(!hangs, "raze had not ended after five minutes");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let left: Vec<_> = std::fs::read_dir(lab.path("state")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Reason why scp cannot be an observer here, if any.
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
fn files_that_were_copied_meanwhile_are_there_and_their_stall_is_reported() {
    let lab = Lab::new();
    let missing = missing(&lab, "iscsi");
    let what = "copies during a fault of an iSCSI target";
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped(what, &why);
    }
    // Tests of nodes, in other processes, make sshd's directory and take it away; not while this is shared.
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sshd-directory");
    let mut options = std::fs::File::options();
    let shared = options.create(true).append(true).open(shared).unwrap();
    shared.lock_shared().unwrap();
    if let Some(why) = no_scp() {
        return skipped(what, why);
    }
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
        "-o",
        "run",
    ];
    let told = lab.json(&args);
    let fault = fault_of(&told, "sessions under pause");
    let beside = fault["observers"].as_array().unwrap();
    let of = |name: &str| beside.iter().find(|one| one["name"] == name).unwrap();
    for name in ["scp", "stamp"] {
        assert!(of(name)["ops"].as_u64().unwrap() >= 1, "{beside:?}");
        assert_eq!(of(name)["missing"], 0, "{beside:?}");
    }
    // Two copies at most can end while their server stands still, so one waited for most of it.
    let still = of("scp")["still"].as_f64().unwrap() / 1e9;
    assert!(still > 1.0, "{beside:?}");
    // Its keys are gone, the ledgers are not.
    assert!(lab.path("run/ledgers/001.ledger").exists());
    assert!(!lab.path("run/ledgers/scp").exists());
}
