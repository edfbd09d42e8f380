// SPDX-License-Identifier: Apache-2.0
//! Mistakes that people make on a command line: each gets what is wrong and what to type in its place.

use super::bad_input::refuses;
use crate::support::{Lab, text};

/// Words behind `plimsoll`, and what its answer has in it. D1 and D2 are directories.
const SLIPS: [(&str, &[&str]); 29] = [
    (
        "loadline D1 -w randread --slo p99<20",
        &["20 what? Write 'p99 < 20ms'"],
    ),
    (
        "run D1 varmail",
        &["varmail is a workload", "the workload first"],
    ),
    ("run randread iscis", &["did you mean the stack iscsi?"]),
    (
        "loadline D1 -w randread",
        &["--slo <LIMIT> is missing", "'p99 < 20ms'"],
    ),
    ("report nosuchrun", &["there is no run folder nosuchrun"]),
    (
        "gate D1 D2",
        &[
            "plimsoll gate does not take the argument",
            "gate --against /mnt/old",
        ],
    ),
    (
        "run varmail D1 --blocks 3",
        &["run has no option --blocks", "compare, gate,"],
    ),
    (
        "compare D1 D2 -w varmail --against x",
        &["verify and gate have --against"],
    ),
    ("version", &["no command 'version'", "plimsoll --version"]),
    ("init", &["no command 'init'", "plimsoll new"]),
    ("list", &["no command 'list'", "plimsoll workloads"]),
    ("comapre D1 D2", &["did you mean plimsoll compare?"]),
    ("stack upp raid1", &["did you mean plimsoll stack up?"]),
    (
        "varmail D1",
        &["varmail is a workload: plimsoll run varmail"],
    ),
    (
        "compare D1 D2 -w randread,varmail",
        &["varmail is a workload", "a -w"],
    ),
    ("compare old=D1 new=D2 -w varmail", &["-n old"]),
    (
        "compare D1 D2 -n a -n b -n c -w varmail",
        &["given 3 times for 2 targets"],
    ),
    (
        "run varmail,nfiles=abc D1",
        &["invalid value 'abc'", "plimsoll workloads varmail"],
    ),
    ("run randread,size=10Z D1", &["use k, M, G or T"]),
    (
        "merge nosuch",
        &["there is no file or folder nosuch", "--partial"],
    ),
    ("import nosuch", &["there is no file or folder nosuch"]),
    (
        "run x.toml D1",
        &["x.toml, line 1", "did you mean `blocks`?"],
    ),
    ("run varmail D1 --for 0s", &["'0s'", "at least 100 ms"]),
    ("record --interval 1ms -o q", &["'1ms'", "at least 100 ms"]),
    (
        "run varmail D1 --for 3fortnights",
        &["us, ms, s, m, h or d"],
    ),
    ("export varmail --to fio", &["it is called --format now"]),
    ("push run --to https://x", &["it is called --server now"]),
    (
        "run varmail D1 --no-verify",
        &["it is called --no-self-test now"],
    ),
    (
        "failover local",
        &["it has no servers of its own", "plimsoll stack list"],
    ),
];

#[test]
fn every_slip_is_answered_with_what_to_type() {
    let lab = Lab::new();
    let (d1, d2) = (lab.directory("d1"), lab.directory("d2"));
    std::fs::write(lab.path("x.toml"), "[workload.blokc]\n").unwrap();
    for (line, words) in SLIPS {
        let line = line.replace("D1", &d1).replace("D2", &d2);
        let args: Vec<&str> = line.split(' ').collect();
        refuses(&lab, &args, 2, words);
    }
    assert_eq!(
        std::fs::read_dir(&d1).unwrap().count(),
        0,
        "nothing is made"
    );
}

#[test]
fn the_latest_run_is_named_where_one_is_not_there() {
    let lab = Lab::new();
    let run = ["run", "randread,size=1m", "sim(flash)", "--for", "1s"];
    assert!(lab.run(&run).status.success());
    let folder = std::fs::read_dir(lab.path("plimsoll-results"))
        .unwrap()
        .next();
    let name = folder.unwrap().unwrap().file_name().into_string().unwrap();
    let hint = format!("the latest run here is plimsoll-results/{name}");
    refuses(&lab, &["report", "nosuch"], 2, &[&hint]);
    refuses(&lab, &["diff", "nosuch", "nosuch"], 2, &[&hint]);
}

/// A dry run tells how long the run takes, and which plans tell less than they seem to.
#[test]
fn a_dry_run_tells_the_time_and_what_the_plan_cannot_tell() {
    let lab = Lab::new();
    let place = lab.directory("place");
    let told = |more: &[&str]| {
        let words = ["compare", &place, "-w", "randread,size=1m", "--dry-run"];
        text(&lab.run(&[&words[..], more].concat()).stdout)
    };
    let one = told(&["--blocks", "1", "--for", "90 sec"]);
    assert!(one.contains("2 trials, about 3 min 03 s"), "{one}");
    assert!(one.contains("the noise of this measurement"), "{one}");
    assert!(one.contains("no interval and so no verdict"), "{one}");
    let five = told(&[&*place, "-n", "old", "-n", "new", "--margin", "10%"]);
    assert!(
        five.contains("on old\n") && five.contains("on new\n"),
        "{five}"
    );
    assert!(!five.contains("note:"), "{five}");
}
