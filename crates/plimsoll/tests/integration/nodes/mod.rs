// SPDX-License-Identifier: Apache-2.0
//! Other machines for real: an sshd in a network namespace, an agent copied there, and everything
//! undone however the two sides lose each other.
//!
//! Needs root and an ssh server; says loudly when it is skipped.
#![expect(
    clippy::disallowed_methods,
    reason = "a test: it panics, waits and starts programs"
)]

mod load;
mod record;
mod spread;
mod support;

use crate::built::{program, text};
use crate::support::until;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{
    HERE, NodeTransport, Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, StackNodes,
    StackOutputs, StackPart, StackRequest, StackSpec,
};
use plimsoll_lab::stacks;
use plimsoll_machine::host::{HostPool, HostProcessId, HostResolver};
use plimsoll_machine::journal::{Journal, JournalContents, JournalHeader, JournalScope, StateDir};
use plimsoll_machine::raise::{AppliedPlan, RaiseError, list, raise};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{Lab, command, is_possible, node, nodes};

/// Tells a copy of this test program to raise in this place, with a node at this address.
const VICTIM_PLACE: &str = "PLIMSOLL_TEST_NODE_PLACE";
const VICTIM_ADDRESS: &str = "PLIMSOLL_TEST_NODE_ADDRESS";

/// Name of the command that hangs, as a process.
const HANGING: &str = "qemu-storage-da";

fn kill(pids: &[u32]) {
    for pid in pids {
        let args = ["-9", &pid.to_string()];
        Command::new("kill").args(args).status().unwrap();
    }
}

/// Identifier of the journal. Tests run at the same time, and marks are made of it.
fn id(node: &PlanNode) -> String {
    format!("nodetest-{}", node.address.replace('.', "-"))
}

/// Plan of a stack on a node: directories, a file, a mount, a daemon that listens.
fn plan(node: &PlanNode) -> Plan {
    let dir = format!("{}/plimsoll-test", node.dir);
    let mount = format!("{dir}/mnt");
    let mut plan = Plan::default();
    let both = |plan: &mut Plan, why: &str, apply, undo| plan.step_on("n1", why, apply, Some(undo));
    for dir in [&dir, &mount] {
        let (make, remove) = (
            PlanAction::MakeDir(dir.clone()),
            PlanAction::RemoveDir(dir.clone()),
        );
        both(&mut plan, "create a directory", make, remove);
    }
    let args = ["-t", "tmpfs", "none", &mount];
    let apply = PlanAction::Run(PlanCommand::new("mount", args));
    both(
        &mut plan,
        "mount",
        apply,
        PlanAction::Unmount(mount.clone()),
    );
    let port = node.first_port;
    let portal = format!("portal=0.0.0.0:{port}");
    let mark = format!("plimsoll-{}-tgtd", id(node));
    let apply = PlanAction::Start {
        cmd: PlanCommand::new("tgtd", ["-f", "-C", "7", "--iscsi", &portal])
            .env("TGT_IPC_SOCKET", format!("{dir}/tgt.sock")),
        mark: mark.clone(),
        log: format!("{dir}/tgtd.log"),
        ready: PlanReadinessCheck::Port(port),
    };
    both(
        &mut plan,
        "start a daemon",
        apply,
        PlanAction::Stop { mark },
    );
    plan
}

/// The same with a command at its end that does not end by itself.
fn plan_that_hangs(node: &PlanNode) -> Plan {
    let mut plan = plan(node);
    let socket = format!("{}/plimsoll-test/hang.sock", node.dir);
    let args = [
        "--chardev",
        &format!("socket,id=c,server=on,wait=off,path={socket}"),
    ];
    let hang = PlanAction::Run(PlanCommand::new("qemu-storage-daemon", args));
    plan.step_on("n1", "hang", hang, None);
    plan
}

fn journal(place: &Path, node: &PlanNode) -> Journal {
    let here = PlanNode {
        name: HERE.into(),
        reach: NodeTransport::Here,
        ..node.clone()
    };
    let base = StackPart {
        name: "local".into(),
        given: vec![],
    };
    let parts = StackSpec {
        base,
        layers: vec![],
    };
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: id(node),
        kind: JournalScope::Stack("local".into()),
        owner: HostProcessId::this(),
        began_at: "2026-01-01T00:00:00Z".into(),
        mount_dir: None,
        nodes: Vec::new(),
        ask: Some(StackRequest {
            parts,
            size_bytes: 0,
            programs: vec![],
            site: StackNodes {
                client: here,
                servers: vec![node.clone()],
            },
        }),
    };
    Journal::create(&StateDir::new(place.join("state")), header).unwrap()
}

fn raised(lab: &Lab, plan: &Plan, hosts: &mut HostPool) -> Result<AppliedPlan, Box<RaiseError>> {
    let journal = journal(lab.path("").as_path(), &lab.node());
    raise(plan, Some(&StackOutputs::default()), hosts, journal)
}

fn record(lab: &Lab) -> Option<JournalContents> {
    let state = StateDir::new(lab.path("state"));
    list(&state).unwrap().into_iter().next()?.record.ok()
}

/// Objects that exist while the plan is applied.
fn check_standing(lab: &Lab) {
    let address = format!("{}:{}", lab.address(), lab.node().first_port);
    assert!(
        TcpStream::connect(address).is_ok(),
        "the daemon is in the node's network"
    );
    assert!(lab.copy().is_some());
    let journal = lab
        .path("node1/journals")
        .join(format!("part-{}.jsonl", id(&lab.node())));
    let noted = JournalContents::read(&journal).unwrap();
    assert_eq!(noted.to_undo().len(), 4);
    assert!(
        noted
            .entries
            .iter()
            .all(|entry| entry.done && entry.step.node == HERE)
    );
}

#[test]
fn what_stands_on_a_node_outlives_its_controller_and_is_razed_from_here() {
    if !is_possible("raised on a node") {
        return;
    }
    let lab = Lab::new();
    let mut hosts = lab.nodes();
    let standing = raised(&lab, &plan(&lab.node()), &mut hosts);
    let standing = standing.map_err(|error| error.to_string()).unwrap();
    drop((standing, hosts));
    until("end of the agent", || lab.processes("ssh").is_empty());
    check_standing(&lab);
    // Another process sees how it is, and finds the copy that is there.
    let copied = lab.copy().unwrap().metadata().unwrap().modified().unwrap();
    let state = StateDir::new(lab.path("state"));
    let status = stacks::status(&state, &mut lab.nodes()).unwrap();
    assert!(
        status[0].standing && status[0].problems.is_empty(),
        "{status:?}"
    );
    assert_eq!(
        lab.copy().unwrap().metadata().unwrap().modified().unwrap(),
        copied
    );
    let output = lab.run(&["raze"]);
    assert!(output.status.success(), "{}", text(&output));
    lab.check_nothing_left();
}

#[test]
fn of_a_node_that_is_no_more_nothing_is_waited_for() {
    if !is_possible("node that is gone") {
        return;
    }
    let lab = Lab::new();
    let mut hosts = lab.nodes();
    let standing = raised(&lab, &plan(&lab.node()), &mut hosts);
    drop((standing.map_err(|error| error.to_string()).unwrap(), hosts));
    until("end of the agent", || lab.processes("ssh").is_empty());
    let output = lab.run(&["raze", "--forget-node", "n77"]);
    assert_eq!(output.status.code(), Some(2));
    let name = lab.node().name;
    let said = text(&output);
    assert!(
        said.contains("'n77'") && said.contains(&format!("the journals name {name}")),
        "{said}"
    );
    check_standing(&lab);
    let output = lab.run(&["raze", "--forget-node", &name]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(record(&lab).is_none());
    // This one is there all the same.
    let output = lab.run_program(&lab.copy().unwrap(), "node1", &["raze"]);
    assert!(output.status.success(), "{}", text(&output));
    lab.check_nothing_left();
}

#[test]
fn a_connection_that_is_cut_in_a_step_leaves_nothing() {
    if !is_possible("connection cut") {
        return;
    }
    let lab = Lab::new();
    let error = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut hosts = lab.nodes();
            let error = raised(&lab, &plan_that_hangs(&lab.node()), &mut hosts).unwrap_err();
            (error.to_string(), error.razed.is_clean())
        });
        until("command that hangs", || !lab.processes(HANGING).is_empty());
        kill(&lab.processes("ssh"));
        work.join().unwrap()
    });
    assert!(error.0.contains("the connection was lost"), "{}", error.0);
    assert!(error.1, "{}", error.0);
    lab.check_nothing_left();
}

/// Not a test: what a copy of this program does when the next test starts it.
#[test]
fn victim() {
    let Some(place) = std::env::var_os(VICTIM_PLACE) else {
        return;
    };
    let node = node(place.as_ref(), &std::env::var(VICTIM_ADDRESS).unwrap());
    let journal = journal(place.as_ref(), &node);
    let _ = raise(&plan_that_hangs(&node), None, &mut nodes(), journal);
}

fn start_victim(lab: &Lab) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nodes::victim"])
        .env(VICTIM_PLACE, lab.path(""))
        .env(VICTIM_ADDRESS, lab.address())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_controller_that_is_killed_leaves_what_either_side_can_raze() {
    if !is_possible("controller killed") {
        return;
    }
    for (steps, on_node) in [(2, false), (5, false), (5, true)] {
        let lab = Lab::new();
        let mut victim = start_victim(&lab);
        until("step", || {
            record(&lab).is_some_and(|r| r.entries.len() >= steps)
        });
        if on_node {
            until("command that hangs", || !lab.processes(HANGING).is_empty());
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        if on_node {
            // The agent finishes its step before it ends; so that this one does.
            kill(&lab.processes(HANGING));
            until("journal there", || lab.path("node1/journals").exists());
            until("end of the agent", || lab.processes(&comm(&lab)).is_empty());
            let copy = lab.copy().unwrap();
            let output = lab.run_program(&copy, "node1", &["raze"]);
            assert!(output.status.success(), "{}", text(&output));
            assert!(lab.processes("tgtd").is_empty() && lab.copy().is_none());
        }
        let output = lab.run(&["raze"]);
        assert!(output.status.success(), "{steps}: {}", text(&output));
        lab.check_nothing_left();
    }
}

/// The name of the agent as a process: that of the copy's file, cut.
fn comm(lab: &Lab) -> String {
    let copy = lab.copy().unwrap();
    copy.file_name()
        .unwrap()
        .to_string_lossy()
        .chars()
        .take(15)
        .collect()
}

/// Output of a dry run that brings a stack up on the node of the inventory.
fn up(lab: &Lab, program: &Path) -> String {
    let args = ["stack", "up", "iscsi", "--on", "lab.toml", "--dry-run"];
    let output = lab.run_program(program, "state", &args);
    text(&output)
}

fn says(lab: &Lab, program: &Path, expect: &str) {
    let said = up(lab, program);
    assert!(said.contains(expect), "{expect}: {said}");
    assert!(!lab.path("node1").exists());
}

#[test]
fn a_node_that_cannot_be_trusted_or_does_not_let_us_in_is_refused() {
    if !is_possible("refused nodes") {
        return;
    }
    let lab = Lab::new();
    // All is well, and the copy goes again when nothing was made.
    says(&lab, program(), "node n1: copied the agent (");
    says(&lab, program(), "on n1: ");
    lab.know("other_key.pub");
    says(
        &lab,
        program(),
        "its host key differs from the one that is known",
    );
    lab.know("none");
    says(
        &lab,
        program(),
        "its host key is not known. Connect once by hand",
    );
    lab.know("host_key.pub");
    fs::write(lab.path("authorized"), "").unwrap();
    says(&lab, program(), "it does not accept our key");
    // Neither does an agent that needs libraries of this machine, nor a program that lies alone.
    let dynamic = lab.path("dynamic");
    fs::create_dir(&dynamic).unwrap();
    let copied = |program: &Path, name: &str| {
        let to = dynamic.join(name);
        let copied = command("cp").arg(program).arg(&to).status();
        assert!(copied.unwrap().success());
        to
    };
    let alone = copied(program(), "plimsoll");
    says(
        &lab,
        &alone,
        "plimsoll-agent is missing: it is what is copied to nodes",
    );
    copied(Path::new("/bin/true"), "plimsoll-agent");
    says(
        &lab,
        &alone,
        "use the static program that `make build` makes",
    );
}

#[test]
fn a_node_of_another_type_is_refused_by_name() {
    if !is_possible("other processor") {
        return;
    }
    let lab = Lab::new();
    let bin = lab.path("bin");
    fs::create_dir(&bin).unwrap();
    // Another process writes it: what a test beside this one starts would inherit a file that we have
    // open, and nothing can be executed while anybody has it open for writing.
    let words = "printf '#!/bin/sh\\necho s390x\\n' >\"$1\" && chmod +x \"$1\"";
    let written = Command::new("/bin/sh")
        .args(["-c", words, "sh"])
        .arg(bin.join("uname"))
        .status();
    assert!(written.unwrap().success());
    let inventory = format!(
        "[[node]]\nname = \"n1\"\naddress = \"127.0.0.1\"\ndir = \"{}\"\n\
         command = [\"env\", \"PATH={}:/usr/bin:/bin\"]\n",
        lab.path("node1").display(),
        bin.display()
    );
    fs::write(lab.path("lab.toml"), inventory).unwrap();
    says(
        &lab,
        program(),
        "machine of type s390x, and this program is for",
    );
    // The same without the false name: any command that gives a shell does.
    fs::remove_file(bin.join("uname")).unwrap();
    says(&lab, program(), "on n1: ");
    // Where no program may run, what was copied goes again.
    let mount = lab.path("node1").display().to_string();
    let text = fs::read_to_string(lab.path("lab.toml")).unwrap();
    let inside = text.replace(&mount, &format!("{mount}/inside"));
    fs::write(lab.path("lab.toml"), inside).unwrap();
    fs::create_dir(&mount).unwrap();
    let args = ["-t", "tmpfs", "-o", "noexec", "none", &mount];
    Command::new("mount").args(args).status().unwrap();
    let said = up(&lab, program());
    let left = fs::read_dir(&mount).unwrap().count();
    Command::new("umount").arg(&mount).status().unwrap();
    assert!(said.contains("does not run there"), "{said}");
    assert_eq!(left, 0, "{said}");
}

#[test]
fn a_node_that_cannot_be_reached_is_asked_once_for_all_steps() {
    if !is_possible("unreachable node") {
        return;
    }
    let lab = Lab::new();
    let mut hosts = lab.nodes();
    hosts.meet(&[PlanNode {
        reach: NodeTransport::Agent(vec!["false".into()]),
        ..lab.node()
    }]);
    for _ in 0..2 {
        let error = hosts.on("n1").err().unwrap().to_string();
        assert!(error.contains("ended without output"), "{error}");
    }
    // As soon as it is known by another way, it is tried anew.
    hosts.meet(&[lab.node()]);
    hosts.on("n1").map(|_| ()).unwrap();
    drop(hosts);
    lab.check_nothing_left();
}
