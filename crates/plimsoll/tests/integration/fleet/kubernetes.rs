// SPDX-License-Identifier: Apache-2.0
//! A fleet as a Job, against what stands for kubectl and a cluster (`kubectl.py`).

use super::support::{TestFleet, agent};
use crate::support::until;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A cluster that is a directory, and a run that finds its kubectl first.
struct Cluster {
    dir: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        for name in ["bin", "objects"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/fleet/kubectl.py");
        symlink(script, dir.path().join("bin/kubectl")).unwrap();
        Cluster { dir }
    }

    fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    fn bench(&self) -> TestFleet {
        let path = std::env::var("PATH").unwrap();
        TestFleet::behind(vec![
            "env".into(),
            format!("PATH={}:{path}", self.dir.path().join("bin").display()),
            format!("PLIMSOLL_TEST_CLUSTER={}", self.objects().display()),
            format!("PLIMSOLL_TEST_AGENT={}", agent().display()),
        ])
    }

    fn names(&self) -> Vec<String> {
        let found = fs::read_dir(self.objects()).unwrap().flatten();
        found
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }
}

#[test]
fn a_job_brings_its_hosts_and_goes_with_the_run() {
    let cluster = Cluster::new();
    let bench = cluster.bench();
    let args = [
        "run",
        "randread,size=1M",
        "null",
        "--no-self-test",
        "--for",
        "500ms",
        "--warmup",
        "0s",
    ];
    let said = bench.must(&[&args[..], &["--clients", "k8s:3,image=plimsoll:test"]].concat());
    assert!(said.contains("all 3 load hosts are there"), "{said}");
    let trial = &bench.results().trials[0];
    // Each is the one that its pod's index says.
    let names: Vec<&str> = trial.nodes.iter().map(|node| &*node.node).collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    assert!(trial.nodes.iter().all(|node| node.stats.ops() > 0));
    bench.check_nothing_left();
    assert_eq!(cluster.names(), [""; 0]);
}

#[test]
fn of_a_controller_that_is_killed_no_job_stays() {
    let cluster = Cluster::new();
    let bench = cluster.bench();
    let args = [
        "run",
        "randread,size=1M",
        "null",
        "--no-self-test",
        "--for",
        "60s",
    ];
    let args = [&args[..], &["--clients", "k8s:2,image=plimsoll:test"]].concat();
    let mut child = bench.start(&args);
    bench.await_load();
    assert_eq!(cluster.names().len(), 3, "{:?}", cluster.names());
    child.kill().unwrap();
    child.wait().unwrap();
    until("end of the Job", || cluster.names().is_empty());
    bench.check_nothing_left();
}
