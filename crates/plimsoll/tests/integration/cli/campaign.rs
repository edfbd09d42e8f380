// SPDX-License-Identifier: Apache-2.0
//! Runs and comparisons as a user starts, stops and kills them.

use crate::support::{Lab, skipped, text, until};

fn is_empty(folder: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// A workload small enough for a test: 8 MiB, buffered where direct I/O does not work.
fn small(lab: &Lab, read_share: f64) -> String {
    let text = crate::support::blocks("small", 8 << 20, read_share, false);
    std::fs::write(lab.path("small.toml"), text).expect("a writable test directory");
    "small.toml".into()
}

#[test]
fn a_run_measures_reports_and_leaves_the_target_clean() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let workload = small(&lab, 0.5);
    let json = lab.json(&[
        "run", &workload, &target, "--for", "500ms", "--warmup", "100ms", "--json", "-o", "r",
    ]);
    let trial = &json["trials"][0];
    assert!(trial["ops"].as_u64().unwrap() > 100, "{trial}");
    assert_eq!(trial["errors"], 0);
    assert_eq!(
        trial["bytes"].as_u64().unwrap(),
        trial["ops"].as_u64().unwrap() * 4096
    );
    assert_eq!(json["complete"], true);
    assert!(is_empty(&target));
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("small") && !page.contains("<script src"));
}

#[test]
fn time_that_is_virtual_is_announced_as_such() {
    let lab = Lab::new();
    let announced = |targets: &[&str], folder: &str| {
        let args = [
            "compare",
            "-w",
            "randread,size=8M",
            "--blocks",
            "2",
            "--for",
            "600ms",
        ];
        let more = ["--no-self-test", "--warmup", "0s", "-o", folder];
        let output = lab.run(&[&args[..], targets, &more].concat());
        text(&output.stderr)
    };
    let virtual_only = announced(&["sim(flash)", "sim(disk)"], "v");
    assert!(virtual_only.contains("of virtual time"), "{virtual_only}");
    assert!(!virtual_only.contains("about"), "{virtual_only}");
    let both = announced(&["sim(flash)", "null"], "b");
    assert!(
        both.contains("about") && both.contains("of virtual time"),
        "{both}"
    );
}

#[test]
fn varmail_counts_thirteen_operations_a_loop() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let json = lab.json(&[
        "run", "varmail", &target, "--for", "1s", "--warmup", "200ms", "--json", "-o", "r",
    ]);
    assert_eq!(json["trials"][0]["errors"], 0, "{json}");
    let csv = text(&lab.run(&["report", "r", "--csv"]).stdout);
    for kind in [
        "delete",
        "create",
        "append",
        "fsync",
        "open",
        "close",
        "read_whole",
    ] {
        assert!(csv.contains(kind), "{kind} is missing: {csv}");
    }
    assert!(is_empty(&target));
    let files = "run.md,trials.csv,seconds.csv,run.xlsx,run.json,seconds.parquet,run.hlog,run.xml";
    let exported = lab.run(&["report", "r", "--export", files]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let read = |name: &str| std::fs::read_to_string(lab.path(name)).unwrap();
    assert_eq!(read("trials.csv"), csv);
    assert!(read("seconds.csv").lines().count() > 8);
    assert!(read("run.xml").contains("operations and data"));
    let sheet = super::spreadsheet::cells(&lab.path("run.xlsx"), "trials");
    assert_eq!(sheet["B2"], "varmail");
    for (file, word) in [("run.md", "--force"), ("run.doc", ".parquet")] {
        let refused = lab.run(&["report", "r", "--export", file]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(word), "{refused:?}");
    }
    let args = ["report", "r", "--export", "/dev/stdout", "--as", "junit"];
    assert_eq!(text(&lab.run(&args).stdout), read("run.xml"));
}

#[test]
fn a_new_file_is_made_for_the_run_and_removed_after_it() {
    let lab = Lab::new();
    let workload = small(&lab, 0.0);
    let json = lab.json(&[
        "run",
        &workload,
        "file:./disk.img",
        "--for",
        "300ms",
        "--json",
        "-o",
        "r",
    ]);
    assert_eq!(json["trials"][0]["errors"], 0);
    assert!(!lab.path("disk.img").exists());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let lab = Lab::new();
    let (a, b) = (lab.directory("a"), lab.directory("b"));
    let output = lab.run(&[
        "compare",
        &a,
        &b,
        "-w",
        "varmail",
        "--blocks",
        "3",
        "--dry-run",
        "--seed",
        "1",
    ]);
    let plan = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        plan.contains("9 trials") && plan.contains("varmail on b") && plan.contains("(A/A"),
        "{plan}"
    );
    assert!(is_empty(&a) && is_empty(&b) && !lab.path("plimsoll-results").exists());
}

#[test]
fn dry_runs_for_machines_are_json() {
    let lab = Lab::new();
    let a = lab.directory("a");
    let plan = lab.json(&[
        "compare",
        &a,
        "-w",
        "varmail",
        "--blocks",
        "2",
        "--dry-run",
        "--json",
    ]);
    assert_eq!(plan["trials"].as_array().unwrap().len(), 4, "{plan}");
    let plan = lab.json(&["stack", "up", "local", "--dry-run", "--json"]);
    assert_eq!(plan["would"][0]["name"], "local");
    let plan = lab.json(&["raze", "--dry-run", "--json"]);
    assert_eq!(plan["would"].as_array().unwrap().len(), 0);
}

#[test]
fn a_file_can_be_the_base_of_a_comparison() {
    let lab = Lab::new();
    let (workload, b) = (small(&lab, 0.5), lab.directory("b"));
    let args = [
        "compare",
        "file:./a.img",
        &b,
        "-w",
        &workload,
        "--blocks",
        "2",
        "--for",
        "100ms",
        "--warmup",
        "20ms",
        "--json",
        "-o",
        "r",
    ];
    let json = lab.json(&args);
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 2, "{json}");
    assert!(!lab.path("a.img").exists() && is_empty(&b));
}

#[test]
fn verdicts_for_scripts_are_exit_codes() {
    let lab = Lab::new();
    let (workload, a) = (small(&lab, 0.5), lab.directory("a"));
    let one_block = [
        "compare",
        &a,
        &a,
        "-w",
        &workload,
        "--blocks",
        "1",
        "--for",
        "100ms",
        "--warmup",
        "20ms",
        "--no-self-test",
        "--fail-on",
        "inconclusive",
        "-o",
        "r",
    ];
    assert_eq!(
        lab.run(&one_block).status.code(),
        Some(11),
        "one block settles nothing"
    );
}

/// The promise that matters most: a system compared with itself is hardly ever found different.
/// 10 comparisons at 95 % confidence give one in two on average, and more than 5 in 3 of a million: that
/// is no chance in a test that is run often. A program that finds two of three pairs different is still
/// caught in 4 of 5 runs. How often exactly intervals miss the truth is counted with thousands of drawn
/// trials, in the tests of the statistics.
#[test]
fn a_directory_compared_with_itself_is_rarely_different() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let workload = small(&lab, 0.5);
    let mut different = 0;
    for seed in 0..10 {
        let (seed, folder) = (seed.to_string(), format!("aa{seed}"));
        let args = [
            "compare",
            &target,
            &target,
            "-w",
            &workload,
            "--no-control",
            "--blocks",
            "5",
            "--for",
            "100ms",
            "--warmup",
            "20ms",
            "--no-self-test",
            "--json",
            "--seed",
            &seed,
            "-o",
            &folder,
        ];
        let json = lab.json(&args);
        assert_eq!(json["comparisons"].as_array().unwrap().len(), 1, "{json}");
        different += u32::from(json["comparisons"][0]["verdict"] == "different");
    }
    assert!(
        different <= 5,
        "{different} of 10 comparisons of a directory with itself"
    );
}

/// A comparison of two directories that a test ends long before it is done, without the proof that
/// would only cost time here.
fn two_systems<'a>(a: &'a str, b: &'a str, workload: &'a str, length: &'a str) -> Vec<&'a str> {
    let compare = ["compare", a, b, "-w", workload, "--for", length];
    let more = ["--warmup", "50ms", "-o", "r", "--no-self-test"];
    [&compare[..], &more, &["--blocks", "50"]].concat()
}

#[test]
fn a_stop_keeps_the_finished_trials_and_cleans_up() {
    let lab = Lab::new();
    let (a, b) = (lab.directory("a"), lab.directory("b"));
    let workload = small(&lab, 1.0);
    let args = two_systems(&a, &b, &workload, "1s");
    let child = lab.start(&args);
    lab.wait_for_events("r", 6);
    let process = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(is_empty(&a) && is_empty(&b), "targets are left clean");
    assert!(lab.path("r/report.html").exists());
    let told = lab.run(&["report", "r"]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
}

#[test]
fn a_killed_comparison_is_razed_and_still_reported() {
    let lab = Lab::new();
    let (a, b) = (lab.directory("a"), lab.directory("b"));
    let workload = small(&lab, 1.0);
    let args = two_systems(&a, &b, &workload, "500ms");
    let mut child = lab.start(&args);
    lab.wait_for_events("r", 14);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_empty(&a), "a killed run leaves its directory to raze");
    let razed = lab.run(&["raze"]);
    assert_eq!(razed.status.code(), Some(0), "{}", text(&razed.stderr));
    assert!(is_empty(&a) && is_empty(&b), "nothing is left after raze");
    let told = lab.run(&["report", "r"]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("small"));
}

/// A run that is killed that early has no folder yet.
#[test]
fn a_comparison_that_was_killed_while_its_stacks_came_up_goes_on() {
    let lab = Lab::new();
    let missing = super::nfs::missing(&lab, "raid1");
    if !missing.is_empty() {
        let what = format!("missing here: {}", missing.join(", "));
        return skipped("kill -9 while stacks come up", &what);
    }
    let workload = small(&lab, 1.0);
    let args = [
        "compare",
        "local",
        "raid1",
        "-w",
        &workload,
        "--for",
        "200ms",
        "--blocks",
        "1",
        "-o",
        "r",
        "--size",
        "300M",
        "--no-self-test",
    ];
    let mut child = lab.start(&args);
    until("stack that is on its way", || {
        !machine_state(&lab).is_empty()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let again = lab.run(&args);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("removed first what killed runs left"));
    let left = machine_state(&lab);
    assert!(left.is_empty(), "{left:?}");
}

/// `kill -9` while real stacks are up: no mount, loop device, process or file may stay.
#[test]
fn a_killed_comparison_of_stacks_leaves_nothing_after_raze() {
    let lab = Lab::new();
    let missing = super::nfs::missing(&lab, "raid1");
    if !missing.is_empty() {
        return skipped(
            "kill -9 with real stacks",
            &format!("missing here: {}", missing.join(", ")),
        );
    }
    let workload = small(&lab, 1.0);
    let args = [
        "compare", "local", "iscsi", "raid1", "-w", &workload, "--for", "1s", "-o", "r", "--size",
        "300M", "--port", "13900",
    ];
    let mut child = lab.start(&args);
    lab.wait_for_events("r", 8);
    assert!(
        !machine_state(&lab).is_empty(),
        "the stacks are up while the comparison runs"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let razed = lab.run(&["raze"]);
    assert_eq!(razed.status.code(), Some(0), "{}", text(&razed.stderr));
    let left = machine_state(&lab);
    assert!(
        left.is_empty(),
        "mounts, loop devices or processes are left: {left:?}"
    );
    let left: Vec<_> = walk(&lab.path("state"));
    assert!(left.is_empty(), "files left: {left:?}");
    assert_eq!(lab.run(&["report", "r"]).status.code(), Some(0));
}

/// Mounts, attached loop devices and processes that have to do with the folder of this test:
/// other stacks may come and go on the same machine.
fn machine_state(lab: &Lab) -> Vec<String> {
    let folder = lab.path("state").display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("Linux lists its mounts");
    let mut state: Vec<String> = mounts.lines().map(|line| format!("mount {line}")).collect();
    for entry in std::fs::read_dir("/sys/block")
        .expect("Linux lists its disks")
        .flatten()
    {
        if let Ok(file) = std::fs::read_to_string(entry.path().join("loop/backing_file")) {
            state.push(format!("loop {}", file.trim()));
        }
    }
    for entry in std::fs::read_dir("/proc")
        .expect("Linux lists its processes")
        .flatten()
    {
        let part = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let known_by = [part("cmdline"), part("environ")].concat();
        // The program under test itself also knows the folder: only what it started counts.
        if !text(&known_by).starts_with(env!("CARGO_BIN_EXE_plimsoll")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            state.push(format!(
                "process {name} {}",
                text(&known_by).replace('\0', " ")
            ));
        }
    }
    state.retain(|thing| thing.contains(&folder));
    state
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let below = entries.flatten().flat_map(|entry| match entry.path() {
        path if path.is_dir() => walk(&path),
        path => vec![path],
    });
    below.collect()
}
