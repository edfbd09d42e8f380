// SPDX-License-Identifier: Apache-2.0
//! Whole stacks over three machines of one inventory file, with a fourth for those that grow.

use super::support::{Lab, is_possible, local_host};
use crate::built::text;
use plimsoll_lab::stacks::StackConfig;
use std::io::Write;
use std::path::Path;

/// Proves a stack: all of it is seen. That a node's own users may speak with GlusterFS's servers is
/// told by the proof, and is no failure of these tests. Nor is it that flushes cannot be told from those of
/// other processes: the disks of all nodes are on the one disk of this machine.
fn prove(lab: &Lab, stack: &str) {
    let output = lab.run(&["stack", "check", stack]);
    let told = text(&output);
    let mut others = told.lines().filter(|line| {
        let is_seen = line.starts_with("  yes ");
        line.starts_with("  ") && !is_seen
    });
    let is_known = |line: &str| {
        let is_open = line.starts_with("  NO ") && line.contains("no other user of node");
        let shares_disk = ["other processes flush", "on the same one"];
        let is_drowned = shares_disk.iter().any(|why| line.contains(why));
        (line.starts_with("  not seen ") && is_drowned)
            || (is_open && line.contains("connect to a GlusterFS server"))
    };
    assert!(others.all(is_known) && told.contains("  yes "), "{told}");
}

/// Runs the program, which must succeed; gives what it said.
fn must(lab: &Lab, args: &[&str]) -> String {
    let output = lab.run(args);
    let said = text(&output);
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

/// Writes from here for a moment, after a write-verify.
fn load(lab: &Lab, stack: &str) {
    let out = lab.path("run").display().to_string();
    let load = ["run", "randwrite,size=8M,bs=64k", stack, "--for", "500ms"];
    must(lab, &[&load[..], &["-o", &out]].concat());
    #[expect(
        clippy::disallowed_methods,
        reason = "the test removes what it made itself"
    )]
    std::fs::remove_dir_all(&out).unwrap();
}

/// A stack grows while a run goes on in its directory, which loses no operation by that.
fn grow_under_load(lab: &Lab, stack: &str, mount: &str) {
    let load = [
        "run",
        "randwrite,size=8M,bs=64k",
        mount,
        "--for",
        "15s",
        "--json",
    ];
    std::thread::scope(|scope| {
        let run = scope.spawn(|| lab.run(&[&load[..], &["-o", "grown"]].concat()));
        must(lab, &["stack", "grow", stack, "--on", "lab.toml"]);
        let run = run.join().unwrap();
        assert!(run.status.success(), "{}", text(&run));
        let told: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let trial = &told["trials"][0];
        assert!(trial["ops"].as_u64() > Some(0), "{trial}");
        assert_eq!(trial["errors"], 0, "{trial}");
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "the test removes what it made itself"
    )]
    std::fs::remove_dir_all(lab.path("grown")).unwrap();
}

/// Whether the stacks can be made here, on the client and on nodes that have its programs.
fn are_possible(test: &str, stacks: &[&str]) -> bool {
    let host = local_host();
    for stack in stacks {
        let choice = StackConfig::parse(stack).unwrap();
        let needs = choice.stack.needs(&choice);
        let needs = needs.and(choice.stack.server_needs(&choice));
        if let Err(unmet) = needs.check(&host) {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {stack}: {unmet}");
            return false;
        }
    }
    is_possible(test)
}

#[test]
fn three_nodes_carry_every_kind_of_stack_and_a_fourth_makes_them_larger() {
    const STACKS: [&str; 3] = ["raid5", "gluster(distribute)", "nfs"];
    if !are_possible("stacks over three nodes", &STACKS) {
        return;
    }
    let lab = Lab::of(4);
    let up = ["stack", "up", "--on", "lab.toml", "--size", "256M"];
    let said = must(&lab, &[&up[..], &STACKS].concat());
    for node in ["n1", "n2", "n3"] {
        let copied = format!("node {node}: copied the agent (");
        assert!(said.contains(&copied), "{said}");
    }
    must(&lab, &["stack", "status"]);
    for stack in STACKS {
        prove(&lab, stack);
        load(&lab, stack);
    }
    for stack in ["raid5", "gluster(distribute)"] {
        let grow = ["stack", "grow", stack];
        let refused = text(&lab.run(&grow));
        assert!(refused.contains("--on FILE"), "{refused}");
        // Its settings may be told in another way.
        let kind = stack.split('(').next().unwrap();
        let of_stack = said.lines().filter(|line| line.starts_with(kind));
        let mount = of_stack
            .filter_map(|line| line.split_once(" is up at "))
            .next();
        let mount = mount.map(|(_, mount)| mount);
        grow_under_load(&lab, stack, mount.expect("it is mounted"));
        load(&lab, stack);
        let none_left = text(&lab.run(&[&grow[..], &["--on", "lab.toml"]].concat()));
        assert!(none_left.contains("lists 0 unused ones"), "{none_left}");
    }
    must(&lab, &[&["stack", "down"][..], &STACKS].concat());
    lab.check_nothing_left();
}

/// A daemon of a user's own on a node, and a directory of this machine to measure on.
const OWN: &str = r#"
description = "a directory here and a daemon there"
mount_dir = "{dir}/data"
nodes = 1
ports = 1
[[step]]
why = "create a directory"
apply = ["mkdir", "{dir}/data"]
undo = []
[[step]]
why = "make a file on the node"
node = 1
apply = ["touch", "{dir}/file"]
check = ["test", "-e", "{dir}/file"]
undo = ["rm", "-f", "{dir}/file"]
[[step]]
why = "start a daemon on the node"
node = 1
start = ["tail", "-f", "{dir}/file"]
ready = ["true"]
"#;

/// Texts of all files below a directory whose names end with `ending`.
fn texts(dir: &Path, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(texts(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[test]
fn secrets_and_commands_of_the_user_get_to_nodes_and_leave_no_trace() {
    const STACKS: [&str; 2] = ["iscsi(chap)", "gluster(distribute,nodes=1)+tenant"];
    if !are_possible("secrets on nodes", &STACKS) {
        return;
    }
    let lab = Lab::of(2);
    std::fs::write(lab.path("own.toml"), OWN).unwrap();
    let up = ["stack", "up", "--on", "lab.toml", "--size", "256M"];
    must(
        &lab,
        &[&up[..], &STACKS, &["./own.toml", "--trust", "own.toml"]].concat(),
    );
    for stack in STACKS {
        prove(&lab, stack);
    }
    assert_eq!(lab.processes("tail").len(), 1);
    for ending in [".secret", "key.pem"] {
        let [mine, theirs] = ["state", "node1"].map(|dir| texts(&lab.path(dir), ending));
        assert!(!theirs.is_empty() && mine.iter().any(|text| *text == theirs[0]));
        for journal in ["state/journals", "node1/journals"] {
            let journals = texts(&lab.path(journal), ".jsonl").concat();
            let line = theirs[0].lines().nth(usize::from(ending == "key.pem"));
            assert!(journals.contains(ending) && !journals.contains(line.unwrap()));
        }
    }
    must(&lab, &["raze"]);
    assert_eq!(lab.processes("tail"), [0_u32; 0]);
    lab.check_nothing_left();
}
