// SPDX-License-Identifier: Apache-2.0
//! Load that comes from nodes: started together though their clocks differ, added up, stopped,
//! lost, and nothing left behind.

use super::support::{Lab, is_possible, local_host};
use crate::built::{program, text};
use crate::support::{signal, until};
use plimsoll_archive::open;
use plimsoll_core::event::{RunFolderContents, TrialResult};
use plimsoll_core::load::start_spread;
use plimsoll_core::plan::NodeTransport;
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::Host as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Seconds by which the clock of the second node is ahead.
const AHEAD_S: u64 = 5_000;

/// Two nodes that are reached by commands of this machine, and what a controller keeps.
pub(crate) struct Pair(tempfile::TempDir);

impl Pair {
    pub(crate) fn new() -> Pair {
        let pair = Pair(tempfile::tempdir().unwrap());
        fs::create_dir(pair.path("data")).unwrap();
        let ahead = AHEAD_S.to_string();
        let words = [
            vec!["env"],
            vec!["unshare", "--time", "--monotonic", &ahead, "--fork"],
        ];
        pair.write_inventory(&words.map(|words| words.into_iter().map(Into::into).collect()));
        pair
    }

    pub(crate) fn write_inventory(&self, commands: &[Vec<String>]) {
        let node = |(n, words): (u32, &Vec<String>)| {
            let dir = self.path(&format!("node{n}"));
            format!(
                "[[node]]\nname = \"n{n}\"\naddress = \"127.0.0.1\"\ncommand = {words:?}\n\
                 dir = {dir:?}\n"
            )
        };
        let nodes: String = (1..).zip(commands).map(node).collect();
        let text = format!("address = \"127.0.0.1\"\n{nodes}");
        fs::write(self.path("lab.toml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.0.path());
        command.env("PLIMSOLL_STATE", self.path("state"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Command by which both nodes read for `seconds`, from a directory that is theirs.
    fn reading(&self, seconds: &str) -> Vec<String> {
        let data = self.path("data").display().to_string();
        let words =
            "--clients n1,n2 --on lab.toml --warmup 100ms --seed 7 -o out --no-self-test --for";
        let mut args = vec!["run".to_owned(), "randread,size=4M".into(), data];
        args.extend(words.split(' ').map(Into::into));
        args.push(seconds.into());
        args
    }

    fn start(&self, args: &[String]) -> Child {
        let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
        let mut command = self.command(&args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Waits until the measured part has begun.
    fn await_load(&self) {
        let events = self.path("out/events.jsonl");
        until("second of the trial", || {
            fs::read_to_string(&events).is_ok_and(|text| text.contains("\"interval\""))
        });
    }

    fn results(&self) -> RunFolderContents {
        open(&self.path("out")).unwrap()
    }

    /// Agents of a node that are at work.
    pub(crate) fn agents(&self, node: &str) -> Vec<u32> {
        let copy = self.path(node).join("plimsoll-agent");
        let is_agent = |pid: &u32| {
            let told = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&told).starts_with(&*copy.to_string_lossy())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_agent).collect()
    }

    pub(crate) fn check_nothing_left(&self) {
        until("end of the agents", || {
            !self.path("node1").exists() && !self.path("node2").exists()
        });
        for dir in ["data", "state/journals"] {
            let left = fs::read_dir(self.path(dir)).into_iter().flatten();
            assert_eq!(left.count(), 0, "{dir}");
        }
    }
}

impl Drop for Pair {
    /// A test that fails in the middle leaves no stack standing.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.run(&["raze"]);
        }
    }
}

/// The books of the nodes are those of the whole.
fn check_sums(trial: &TrialResult) {
    let ops: u64 = trial.nodes.iter().map(|node| node.stats.ops()).sum();
    assert_eq!(trial.stats.ops(), ops);
    let mut pooled = plimsoll_core::event::OpStats::default();
    trial
        .nodes
        .iter()
        .for_each(|node| pooled.merge(&node.stats));
    assert_eq!(trial.stats, pooled);
}

fn strings(args: &[String]) -> Vec<&str> {
    args.iter().map(|arg| &**arg).collect()
}

#[test]
fn nodes_whose_clocks_differ_start_together_and_are_added_up() {
    if !is_possible("load from two nodes") {
        return;
    }
    let pair = Pair::new();
    let output = pair.run(&strings(&pair.reading("1s")));
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for expect in ["by node", "n2", "by clocks known to ±", "Evenness"] {
        assert!(said.contains(expect), "{expect}: {said}");
    }
    pair.check_nothing_left();
    let results = pair.results();
    assert!(results.complete);
    let names: Vec<&str> = (results.manifest.load_nodes.iter())
        .map(|node| &*node.name)
        .collect();
    assert_eq!(names, ["n1", "n2"]);
    let trial = &results.trials[0];
    check_sums(trial);
    assert!(trial.nodes.iter().all(|node| node.stats.ops() > 0));
    // Their own randomness: the same requests at the same times would be one load twice.
    assert_ne!(trial.nodes[0].stats, trial.nodes[1].stats);
    let ahead = trial.nodes[1].clock.ns - trial.nodes[0].clock.ns;
    let error = ahead.unsigned_abs().abs_diff(AHEAD_S * Nanos::SECOND.0);
    // As known as the answers of busy nodes let it be.
    let known = (trial.nodes.iter()).map(|node| node.clock.uncertainty.0);
    let allowed = Nanos::SECOND.0 / 2 + known.sum::<u64>();
    assert!(ahead > 0 && error < allowed, "{ahead} {allowed}");
    // Hours apart by their clocks; a machine that is busy may delay one of them.
    let spread = start_spread(&trial.nodes).unwrap();
    assert!(spread < Nanos(60 * Nanos::SECOND.0), "{spread}");
    assert!(trial.nodes.iter().all(|node| node.began_ns.unwrap() >= 0));
    // Every operation is in one second of the series, those of the warm-up in none.
    let seconds: u64 = (results.intervals.values().flatten())
        .map(|second| second.response.count())
        .sum();
    assert_eq!(seconds, trial.stats.ops());
}

#[test]
fn nodes_play_the_phases_of_a_series_together() {
    if !is_possible("a series from two nodes") {
        return;
    }
    let pair = Pair::new();
    let data = pair.path("data").display().to_string();
    let from = [
        "--clients",
        "n1,n2",
        "--on",
        "lab.toml",
        "--no-self-test",
        "-o",
        "out",
    ];
    let files = "mdtest-easy,n=200,threads=2";
    let output = pair.run(&[&["run", files, &data][..], &from].concat());
    assert!(output.status.success(), "{}", text(&output));
    let trial = &pair.results().trials[0];
    check_sums(trial);
    assert!(trial.phases.len() > 1, "{trial:?}");
    // Each of them did the whole work.
    let ops: Vec<u64> = trial.nodes.iter().map(|node| node.stats.ops()).collect();
    assert_eq!(ops[0], ops[1]);
    pair.check_nothing_left();
}

#[test]
fn each_node_has_a_file_of_its_own() {
    if !is_possible("files on nodes") {
        return;
    }
    let pair = Pair::new();
    let file = format!("file:{}", pair.path("data/one").display());
    let from = [
        "--clients",
        "n1,n2",
        "--on",
        "lab.toml",
        "--no-self-test",
        "-o",
        "out",
    ];
    let length = ["--for", "500ms", "--warmup", "0s"];
    let output = pair.run(&[&["run", "randwrite,size=4M", &file][..], &from, &length].concat());
    assert!(output.status.success(), "{}", text(&output));
    let trial = &pair.results().trials[0];
    check_sums(trial);
    assert!(trial.nodes.iter().all(|node| node.stats.ops() > 0));
    pair.check_nothing_left();
    // The control has the files of its base.
    let compare = [
        "compare",
        "-w",
        "randwrite,size=4M",
        &file,
        "null",
        "--blocks",
        "1",
    ];
    let from = [&from[..5], &["-o", "both"]].concat();
    let output = pair.run(&[&compare[..], &from, &length].concat());
    assert!(output.status.success(), "{}", text(&output));
    pair.check_nothing_left();
}

#[test]
fn programs_run_on_the_nodes() {
    if !is_possible("programs on nodes") {
        return;
    }
    let pair = Pair::new();
    let data = pair.path("data").display().to_string();
    let from = ["--clients", "n1,n2", "--on", "lab.toml", "--no-self-test"];
    let args = ["run", "copy-tree,size=200000", &data, "-o", "out"];
    let output = pair.run(&[&args[..], &from].concat());
    assert!(output.status.success(), "{}", text(&output));
    let trial = &pair.results().trials[0];
    let phases: Vec<&str> = trial.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(phases, ["to", "from"]);
    assert!(trial.phases.iter().all(|phase| phase.value > 0.0));
    assert_eq!(trial.nodes.len(), 2);
    fs::write(pair.path("a.txt"), "text").unwrap();
    for (program, expect) in [
        ("boot", "the image that it boots is on this machine"),
        (
            "cmd:cat {here}/a.txt",
            "the absolute path of a file that is on every node",
        ),
    ] {
        let output = pair.run(&[&["run", program, &data][..], &from].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(expect), "{}", text(&output));
    }
    pair.check_nothing_left();
}

#[test]
fn a_dry_run_says_what_would_be_made_on_the_nodes() {
    if !is_possible("dry run from nodes") {
        return;
    }
    let pair = Pair::new();
    let mut args = pair.reading("1s");
    args.push("--dry-run".into());
    let output = pair.run(&strings(&args));
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("-NODE on each of n1, n2"), "{said}");
    assert!(!pair.path("out").exists());
}

#[test]
fn a_node_that_is_lost_marks_the_run_and_the_others_are_kept() {
    if !is_possible("lost node") {
        return;
    }
    let pair = Pair::new();
    // Long enough that the loss comes before the end, however busy the machine is.
    let run = pair.start(&pair.reading("15s"));
    pair.await_load();
    // Whatever plays there or carries out steps there.
    for pid in pair.agents("node2") {
        signal(pid, "-9");
    }
    let output = run.wait_with_output().unwrap();
    // Files that were made there are removed over a new connection.
    assert_eq!(output.status.code(), Some(15));
    let results = pair.results();
    assert!(!results.complete);
    let trial = &results.trials[0];
    let (node, lost) = trial.lost_node().unwrap();
    assert_eq!(node, "n2");
    assert!(lost.after > Nanos(0) && !lost.why.is_empty());
    assert!(!trial.is_comparable());
    check_sums(trial);
    assert!(trial.nodes[0].length > trial.nodes[1].length);
    let page = fs::read_to_string(pair.path("out/report.html")).unwrap();
    assert!(page.contains("Node n2 was lost"), "the page says it");
    pair.check_nothing_left();
}

#[test]
fn an_interrupt_stops_all_nodes_and_keeps_what_was_measured() {
    if !is_possible("interrupted load") {
        return;
    }
    let pair = Pair::new();
    let mut run = pair.start(&pair.reading("10m"));
    pair.await_load();
    signal(run.id(), "-INT");
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let results = pair.results();
    assert!(!results.complete && results.trials[0].interrupted);
    assert!(
        results.trials[0]
            .nodes
            .iter()
            .all(|node| node.stats.ops() > 0)
    );
    check_sums(&results.trials[0]);
    pair.check_nothing_left();
}

#[test]
fn a_controller_that_is_killed_leaves_what_raze_undoes_on_all_nodes() {
    if !is_possible("killed controller of load") {
        return;
    }
    let pair = Pair::new();
    let mut run = pair.start(&pair.reading("10m"));
    pair.await_load();
    run.kill().unwrap();
    run.wait().unwrap();
    // An agent ends its load when its controller is gone.
    until("end of the agents", || {
        pair.agents("node1").is_empty() && pair.agents("node2").is_empty()
    });
    assert_eq!(fs::read_dir(pair.path("data")).unwrap().count(), 2);
    let output = pair.run(&["raze"]);
    assert!(output.status.success(), "{}", text(&output));
    pair.check_nothing_left();
}

#[test]
fn what_nodes_cannot_do_is_refused_before_anything_is_made() {
    if !is_possible("refused load") {
        return;
    }
    let pair = Pair::new();
    let data = pair.path("data").display().to_string();
    for (args, expect) in [
        (vec!["randread", &data, "--clients", "n1"], "--on FILE.toml"),
        (
            vec!["randread", &data, "--clients", "n3", "--on", "lab.toml"],
            "has no node 'n3'; available: n1, n2",
        ),
        (
            vec!["randread", &data, "--clients", "n1,n1", "--on", "lab.toml"],
            "named twice",
        ),
        (
            vec!["randread", "data", "--clients", "n1", "--on", "lab.toml"],
            "absolute path",
        ),
        (
            vec![
                "randread",
                "/nowhere",
                "--clients",
                "n1",
                "--on",
                "lab.toml",
            ],
            "there is no /nowhere",
        ),
        (
            vec![
                "randread",
                "file:one",
                "--clients",
                "n1",
                "--on",
                "lab.toml",
            ],
            "absolute path",
        ),
        (
            vec!["randread", "raid1", "--clients", "n1", "--on", "lab.toml"],
            "can be mounted on this machine only; leave out --clients, or choose one of nvmetcp, nfs",
        ),
    ] {
        let args = [vec!["run"], args].concat();
        let output = pair.run(&args);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expect), "{expect}: {said}");
    }
    until("end of the agents", || {
        !pair.path("node1").exists() && !pair.path("node2").exists()
    });
    assert!(!pair.path("state/journals").exists(), "nothing was begun");
}

/// Programs that the stack `nfs` needs.
const NFS_PROGRAMS: [&str; 3] = ["bwrap", "ganesha.nfsd", "rpcbind"];

#[test]
fn every_node_becomes_a_client_of_a_stack() {
    let missing = |name: &&str| local_host().find_program(name).is_none();
    let missing: Vec<&str> = NFS_PROGRAMS.into_iter().filter(missing).collect();
    if !missing.is_empty() {
        let text = "SKIPPED: clients of a stack on nodes: missing";
        let _ = writeln!(std::io::stderr(), "{text}: {}", missing.join(", "));
        return;
    }
    if !is_possible("clients of a stack on nodes") {
        return;
    }
    let pair = Pair::new();
    let up = pair.run(&["stack", "up", "nfs", "--on", "netns", "--size", "256M"]);
    assert!(up.status.success(), "{}", text(&up));
    let mut args = pair.reading("500ms");
    args[2] = "nfs".into();
    let output = pair.run(&strings(&args));
    let down = pair.run(&["stack", "down", "nfs"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(down.status.success(), "{}", text(&down));
    let trial = &pair.results().trials[0];
    check_sums(trial);
    assert!(trial.nodes.iter().all(|node| node.stats.ops() > 0));
    // The run left the stack as it was, and nothing on the nodes.
    pair.check_nothing_left();
}

#[test]
fn load_comes_from_two_machines_over_ssh() {
    if !is_possible("load over ssh") {
        return;
    }
    let labs = [Lab::new(), Lab::new()];
    let pair = Pair::new();
    let commands = labs.each_ref().map(|lab| match lab.node().reach {
        NodeTransport::Agent(words) => words,
        other => panic!("{other:?}"),
    });
    pair.write_inventory(&commands);
    let output = pair.run(&strings(&pair.reading("1s")));
    assert!(output.status.success(), "{}", text(&output));
    pair.check_nothing_left();
    let trial = &pair.results().trials[0];
    check_sums(trial);
    assert!(trial.nodes.iter().all(|node| node.stats.ops() > 0));
    assert!(
        trial
            .nodes
            .iter()
            .all(|node| node.clock.uncertainty > Nanos(0))
    );
}
