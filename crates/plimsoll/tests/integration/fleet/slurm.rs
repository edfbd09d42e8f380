// SPDX-License-Identifier: Apache-2.0
//! The same from a real Slurm: sixteen nodes, each a daemon with a network and a name of its own.

use super::support::TestFleet;
use crate::support::{signal, until};
use plimsoll_core::event::OpStats;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nodes of the cluster.
const NODES: usize = 16;

/// Programs that it needs.
const PROGRAMS: [&str; 7] = [
    "ip",
    "nsenter",
    "munged",
    "slurmctld",
    "slurmd",
    "salloc",
    "srun",
];

/// A cluster, for the length of a test.
struct Cluster {
    dir: PathBuf,
    _place: tempfile::TempDir,
}

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: Slurm: {why}");
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm-lab.sh")
}

impl Cluster {
    /// Raises it; says why not.
    fn raise() -> Option<Cluster> {
        let path = std::env::var("PATH").unwrap_or_default();
        let dirs = format!("{path}:/usr/sbin:/sbin");
        let has = |name: &&str| {
            dirs.split(':')
                .any(|dir| Path::new(dir).join(name).is_file())
        };
        let missing: Vec<&str> = PROGRAMS.into_iter().filter(|name| !has(name)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            skipped(&format!(
                "missing: {missing}; scripts/setup.sh slurm installs it"
            ));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skipped("network namespaces need root");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("slurm");
        // Its daemons outlive the script, and its output must not wait for them.
        let said = fs::File::create(place.path().join("said")).unwrap();
        let status = Command::new(script())
            .args(["up", &dir.to_string_lossy(), &NODES.to_string()])
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .status()
            .unwrap();
        let said = fs::read_to_string(place.path().join("said")).unwrap();
        assert!(status.success(), "{said}");
        Some(Cluster { dir, _place: place })
    }

    /// A run in the network of its head.
    fn bench(&self) -> TestFleet {
        let (script, dir) = (script(), &self.dir);
        let words = [script.as_path(), Path::new("in"), dir].map(|word| word.display().to_string());
        TestFleet::behind(words.into())
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new(script());
        command.arg("in").arg(&self.dir).args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn await_no_jobs(&self) {
        until("end of the jobs", || {
            self.ask(&["squeue", "-h"]).trim().is_empty()
        });
    }

    fn pid(&self, name: &str) -> u32 {
        let text = fs::read_to_string(self.dir.join("pids").join(name)).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("down").arg(&self.dir).status();
    }
}

/// Options that all of these share.
const FROM: [&str; 5] = [
    "--clients",
    "slurm:16",
    "--listen",
    "10.77.0.1",
    "--no-self-test",
];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &FROM[..]].concat()
}

/// The books of the hosts are those of the whole, to the bucket of the tail.
fn check_pooled(bench: &TestFleet, hosts: usize) {
    let results = bench.results();
    assert!(!results.trials.is_empty());
    for trial in &results.trials {
        assert_eq!(trial.nodes.len(), hosts);
        let mut union = OpStats::default();
        trial.nodes.iter().for_each(|node| union.merge(&node.stats));
        assert_eq!(trial.stats, union);
        let tail = |stats: &OpStats| stats.response().quantile_ns(0.999);
        assert_eq!(tail(&trial.stats), tail(&union));
    }
    let machines: Vec<_> = (results.manifest.load_nodes.iter())
        .map(|node| node.machine.host.clone())
        .collect();
    let mut names = machines.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(
        names.len(),
        hosts,
        "each on a host of its own: {machines:?}"
    );
}

#[test]
fn sixteen_nodes_of_slurm_are_measured_from_and_killed() {
    let Some(cluster) = Cluster::raise() else {
        return;
    };
    measured(&cluster);
    killed(&cluster);
}

fn measured(cluster: &Cluster) {
    let bench = cluster.bench();
    bench.must(&with(&[
        "run",
        "randread,size=256K",
        "DATA",
        "--for",
        "500ms",
        "--warmup",
        "0s",
    ]));
    check_pooled(&bench, NODES);
    bench.check_nothing_left();
    let bench = cluster.bench();
    let two = [
        "compare",
        "null",
        "DATA",
        "-w",
        "randread,size=1M",
        "--blocks",
        "2",
        "--for",
        "300ms",
    ];
    bench.must(&with(&two));
    check_pooled(&bench, NODES);
    let bench = cluster.bench();
    let line = [
        "loadline",
        "null",
        "-w",
        "randread,size=1M",
        "--slo",
        "p99 < 1s",
    ];
    // One trial of some seconds: the budget is over after it.
    let short = ["--for", "10s", "--warmup", "0s", "--budget", "8s"];
    bench.must(&with(&[&line[..], &short].concat()));
    check_pooled(&bench, NODES);
    cluster.await_no_jobs();
}

fn killed(cluster: &Cluster) {
    let load = [
        "run",
        "randread,size=256K",
        "DATA",
        // Long enough that each kill comes in the middle on a busy machine.
        "--for",
        "6s",
        "--lose-clients",
        "10%",
    ];
    // One agent: the others are an answer.
    let bench = cluster.bench();
    let child = bench.start(&with(&load));
    bench.await_load();
    signal(bench.agents()[0], "-KILL");
    assert!(child.wait_with_output().unwrap().status.success());
    let trial = &bench.results().trials[0];
    // Not whether it is comparable: a busy machine holds load hosts up.
    assert_eq!((trial.lost_nodes().count(), &trial.failed), (1, &None));
    cluster.await_no_jobs();
    // The daemon of a node: what it started goes on.
    let bench = cluster.bench();
    let child = bench.start(&with(&load));
    bench.await_load();
    signal(cluster.pid("n5"), "-KILL");
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(bench.results().trials[0].lost_nodes().count(), 0);
    // Fifteen nodes are left, and all of them are asked for.
    let from = [
        "--clients",
        "slurm:15,exclude=n5",
        "--listen",
        "10.77.0.1",
        "--no-self-test",
    ];
    let fifteen = [&load[..], &from].concat();
    // The job: all are lost, and the run says so.
    let bench = cluster.bench();
    let child = bench.start(&fifteen);
    bench.await_load();
    cluster.ask(&["scancel", "--name=plimsoll"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(15));
    // The controller: no agent and no job stay.
    let bench = cluster.bench();
    let child = bench.start(&fifteen);
    bench.await_load();
    // `nsenter` has become plimsoll.
    signal(child.id(), "-KILL");
    let _ = child.wait_with_output();
    until("end of the agents", || bench.agents().is_empty());
    until("end of what they made", || {
        fs::read_dir(bench.path("data")).unwrap().count() == 0
    });
    cluster.await_no_jobs();
}
