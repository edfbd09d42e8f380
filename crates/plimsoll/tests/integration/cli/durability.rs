// SPDX-License-Identifier: Apache-2.0
//! Durability from the outside: files, a store whose lies were written without knowledge of the judge,
//! witnesses that are wrong, a run that is killed.

use crate::support::{Lab, pause, program, skipped, text};
use serde_json::Value;
use std::path::Path;

/// The store and its lies, which are not part of this test's head.
const LIARS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plimsoll-durability/tests/liars"
);

/// Why nothing can be cut here, if so.
fn missing() -> Option<String> {
    if program("id", &["-u"]).is_none_or(|id| id.trim() != "0") {
        return Some("it attaches disks, for which it needs root".into());
    }
    let needed = ["nbdfuse", "losetup", "bwrap", "setpriv", "python3"];
    let absent = needed
        .iter()
        .find(|name| program(name, &["--version"]).is_none())?;
    Some(format!("{absent} is missing"))
}

/// A server file of the folder, its place filled in.
fn server(lab: &Lab, name: &str) -> String {
    let text = std::fs::read_to_string(Path::new(LIARS).join(name)).unwrap();
    let store = std::fs::canonicalize(LIARS).unwrap().join("store.py");
    // The store lies where a view does not show it by itself.
    let shown = format!("path = [{:?}]\nprograms", store.parent().unwrap());
    let text = text
        .replacen("programs", &shown, 1)
        .replace("@STORE@", &store.display().to_string());
    let path = lab.path(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Few loads and no speed: whether a loss is found, not how seldom it is.
const SMALL: [&str; 10] = [
    "--loads",
    "1",
    "--cuts",
    "3",
    "--blocks",
    "0",
    "--disk-size",
    "300MiB",
    "-o",
    "out",
];

fn judged(lab: &Lab, words: &[&str]) -> (Option<i32>, Value) {
    let output = lab.run(&[&["durability"], words, &SMALL, &["--json"]].concat());
    let told = text(&output.stdout);
    let value = serde_json::from_str(&told);
    let value = value.unwrap_or_else(|_| panic!("{told}{}", text(&output.stderr)));
    (output.status.code(), value)
}

/// States that lost something and all states, of the row of this number under this model.
fn states(result: &Value, row: usize, model: &str) -> (u64, u64) {
    let losses = result["rows"][row]["losses"].as_array().unwrap();
    let losses = losses
        .iter()
        .find(|losses| losses["model"] == model)
        .unwrap();
    let count = |key: &str| losses[key].as_u64().unwrap();
    (count("states_with_losses"), count("states"))
}

fn flaws(result: &Value, row: usize) -> Vec<String> {
    let losses = result["rows"][row]["losses"].as_array().unwrap();
    let names = losses
        .iter()
        .flat_map(|losses| losses["flaws"].as_object().unwrap().keys());
    let mut names: Vec<String> = names.cloned().collect();
    names.sort();
    names.dedup();
    names
}

fn nothing_is_left(lab: &Lab) {
    let state = lab.path("state").display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&state), "{mounts}");
    let loops = program("losetup", &["--list", "--output", "BACK-FILE"]).unwrap_or_default();
    assert!(!loops.contains(&state), "{loops}");
    let names = |dir: &str| {
        let entries = std::fs::read_dir(lab.path(dir)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "journals").collect::<Vec<_>>()
    };
    assert_eq!(names("state"), [""; 0]);
    assert_eq!(names("state/journals"), [""; 0]);
}

#[test]
fn files_without_fsync_are_lost_and_files_with_it_are_not() {
    if let Some(why) = missing() {
        return skipped("durability of files", &why);
    }
    let lab = Lab::new();
    let (code, result) = judged(
        &lab,
        &["files", "--vary", "method=rename,none", "--for", "1s"],
    );
    assert_eq!(
        code,
        Some(0),
        "a setting that owns up to its losses breaks no promise"
    );
    for model in ["volatile", "protected"] {
        assert_eq!(states(&result, 0, model), (0, 3), "{result}");
        assert_eq!(states(&result, 1, model), (3, 3), "{result}");
    }
    assert!(lab.path("out/durability.html").is_file());
    nothing_is_left(&lab);
}

#[test]
fn the_speed_is_measured_on_the_storage_that_is_named() {
    if let Some(why) = missing() {
        return skipped("the speed of durability", &why);
    }
    let lab = Lab::new();
    let named = lab.directory("named");
    let words = [
        "durability",
        "files",
        "--vary",
        "method=fsync,none",
        "--for",
        "500ms",
    ];
    let more = [
        "--loads", "1", "--cuts", "1", "--blocks", "2", "--on", &named, "--json",
    ];
    let result = lab.json(&[&words[..], &more].concat());
    assert!(
        result["gain_on"].as_str().unwrap().starts_with(&named),
        "{result}"
    );
    for row in result["rows"].as_array().unwrap() {
        let rates = row["gain"]["rates"].as_array().unwrap();
        assert_eq!(rates.len(), 2, "{row}");
        assert!(
            rates.iter().all(|rate| rate.as_f64().unwrap() > 0.0),
            "{row}"
        );
    }
    assert!(result["rows"][1]["gain"]["ratio"].is_object(), "{result}");
    assert_eq!(std::fs::read_dir(named).unwrap().count(), 0);
    nothing_is_left(&lab);
}

#[test]
fn lies_of_a_store_are_found_by_name_and_its_honest_ways_are_not_accused() {
    if let Some(why) = missing() {
        return skipped("durability of a store that lies", &why);
    }
    let lab = Lab::new();
    let store = server(&lab, "store.toml");
    let ways = "behaviour=log,mirrors,syncs_wrong_file,resurrects,renames_before_sync";
    let words = [&*store, "--trust", &store, "--vary", ways, "--for", "1s"];
    let (code, result) = judged(&lab, &words);
    assert_eq!(code, Some(12), "a lie claims to be safe");
    for honest in 0..2 {
        assert!(
            flaws(&result, honest).is_empty(),
            "{}",
            result["rows"][honest]
        );
    }
    for (row, may) in [
        (2, &["empty", "lost"][..]),
        (3, &["resurrected"]),
        (4, &["wrong"]),
    ] {
        for model in ["volatile", "protected"] {
            assert!(
                states(&result, row, model).0 > 0,
                "{model}: {}",
                result["rows"][row]
            );
        }
        assert_eq!(
            states(&result, row, "killed").0,
            0,
            "{}",
            result["rows"][row]
        );
        let found = flaws(&result, row);
        assert!(
            found.iter().all(|flaw| may.contains(&flaw.as_str())),
            "{found:?}"
        );
    }
    nothing_is_left(&lab);
}

#[test]
fn a_wrong_witness_is_no_loss() {
    if let Some(why) = missing() {
        return skipped("durability with a wrong witness", &why);
    }
    for (name, why) in [
        ("witness-twice.toml", "twice"),
        ("witness-rubbish.toml", "a line"),
        ("witness-endless.toml", "too long"),
        ("witness-silent.toml", "nothing was acknowledged"),
        ("witness-unsubmitted.toml", "does not find"),
        ("witness-have-fails.toml", "'have' ended"),
    ] {
        let lab = Lab::new();
        let file = server(&lab, name);
        // A witness that is wrong is so from its 25th acknowledgement on.
        let words = ["durability", &file, "--trust", &file, "--for", "4s"];
        let output = lab.run(&[&words[..], &SMALL].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(16), "{name}: {told}");
        let last = told
            .lines()
            .rfind(|line| line.starts_with("error"))
            .unwrap_or_default();
        assert!(
            last.contains("witness") && last.contains(why),
            "{name}: {told}"
        );
        nothing_is_left(&lab);
    }
}

#[test]
fn a_result_keeps_those_before_it() {
    if let Some(why) = missing() {
        return skipped("durability, result after result", &why);
    }
    let lab = Lab::new();
    let words = ["durability", "files", "--set", "method=fsync", "--vary"];
    let words = [&words[..], &["method=fsync", "--for", "300ms", "--json"]].concat();
    let small = [
        "--loads", "1", "--cuts", "1", "--blocks", "0", "-o", "first",
    ];
    lab.json(&[&words[..], &small].concat());
    let next = ["--since", "first", "--loads", "1", "--cuts", "2"];
    let more = ["--blocks", "0", "-o", "second"];
    let result = lab.json(&[&words[..], &next, &more].concat());
    let earlier = result["earlier"].as_array().unwrap();
    assert_eq!(earlier.len(), 1, "{result}");
    assert_eq!(states(&earlier[0], 0, "volatile"), (0, 1));
    assert_eq!(states(&result, 0, "volatile"), (0, 2));
    let page = std::fs::read_to_string(lab.path("second/durability.html")).unwrap();
    assert!(page.contains("Earlier results"));
    // Another file than a result of the same server is refused before anything is made.
    std::fs::write(lab.path("first/durability.json"), "{}").unwrap();
    for (since, why) in [("first", "missing field"), ("second/none", "No such file")] {
        let words = ["durability", "files", "--since", since, "-o", "third"];
        let refused = lab.run(&words);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains(why) && told.contains("--since"), "{told}");
    }
    assert!(!lab.path("third").exists());
    nothing_is_left(&lab);
}

/// A server with a lock on its data, and memory that takes the kernel a while to give back.
const LOCKER: &str = r#"
format = "1.0"
name = "locker"
about = "holds a lock"
programs = ["python3"]
start = '''
exec /usr/bin/python3 -I -c "
import fcntl, os, time
lock = open(os.environ['DATA'] + '/lock', 'w')
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
memory = b'a' * (300 << 20)
open(os.environ['RUN'] + '/ready', 'w').close()
time.sleep(1000)"
'''
ready = 'test -e "$RUN/ready"'
ack = 'n=0; while :; do n=$((n+1)); echo $n >k-$n; sync k-$n; sync .; echo "ack k-$n $n"; sleep 0.05; done'
have = 'for key in k-*; do [ ! -f "$key" ] || echo "have $key $(cat "$key")"; done'
"#;

#[test]
fn a_lock_of_a_server_that_was_killed_is_no_loss() {
    if let Some(why) = missing() {
        return skipped("durability of a server with a lock", &why);
    }
    let lab = Lab::new();
    let file = lab.path("locker.toml");
    std::fs::write(&file, LOCKER).unwrap();
    let file = file.display().to_string();
    let words = ["durability", &file, "--trust", &file, "--for", "500ms"];
    let more = ["--loads", "4", "--cuts", "1", "--blocks", "0"];
    let rest = ["--disk-size", "300MiB", "-o", "out", "--json"];
    let result = lab.json(&[&words[..], &more, &rest].concat());
    assert_eq!(states(&result, 0, "killed"), (0, 4), "{result}");
    nothing_is_left(&lab);
}

#[test]
fn a_stack_is_cut_with_all_of_its_disks() {
    if let Some(why) = missing() {
        return skipped("durability of stacks", &why);
    }
    let lab = Lab::short();
    let words = ["raid1(transport=nbd)", "--vary", "barrier", "--for", "1s"];
    let (code, result) = judged(&lab, &words);
    assert_eq!(code, Some(0), "{result}");
    for model in ["volatile", "protected"] {
        assert_eq!(states(&result, 0, model), (0, 3), "{result}");
    }
    assert!(states(&result, 1, "volatile").0 > 0, "{result}");
    assert_eq!(states(&result, 1, "protected"), (0, 3), "{result}");
    nothing_is_left(&lab);
    let words = ["durability", "nbd", "--vary", "barrier=on", "--for", "1s"];
    let more = [
        "--loads",
        "50",
        "--blocks",
        "0",
        "--disk-size",
        "300MiB",
        "-o",
        "killed",
    ];
    let mut run = lab.command(&[&words[..], &more].concat()).spawn().unwrap();
    let kept = lab.path("killed/durability.json");
    wait_for(&kept);
    run.kill().unwrap();
    run.wait().unwrap();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(states(&kept, 0, "volatile"), (0, 3), "{kept}");
    let razed = lab.run(&["raze"]);
    assert!(razed.status.success(), "{}", text(&razed.stderr));
    nothing_is_left(&lab);
}

#[test]
fn one_disk_of_a_stack_loses_its_power_while_the_others_go_on() {
    if let Some(why) = missing() {
        return skipped("durability of stacks disk by disk", &why);
    }
    let weak = ["raid1(transport=nbd)", "--vary", "barrier=off"];
    let cut = |disks: &str| {
        let lab = Lab::short();
        let more = ["--for", "1s", "--device", "volatile", "--cut-disks", disks];
        let (code, result) = judged(&lab, &[&weak[..], &more].concat());
        assert_eq!(code, Some(0), "{result}");
        nothing_is_left(&lab);
        states(&result, 0, "volatile")
    };
    // A state more than cuts: the stack while its disk is away. The other copy has what that disk lost.
    assert_eq!(cut("one"), (0, 4));
    // The other copy loses its cache as well.
    let (lost, all) = cut("in-turn");
    assert!(lost > 0 && all == 4, "{lost} of {all}");
}

fn wait_for(file: &Path) {
    for _ in 0..3_000 {
        if file.is_file() {
            return;
        }
        pause(20);
    }
}

#[test]
fn a_run_that_was_killed_keeps_what_was_judged_and_raze_removes_the_rest() {
    if let Some(why) = missing() {
        return skipped("durability that is killed", &why);
    }
    let lab = Lab::new();
    let words = [
        "durability",
        "files",
        "--vary",
        "method=fsync",
        "--for",
        "1s",
        "--loads",
        "500",
    ];
    let more = ["--blocks", "0", "--disk-size", "300MiB", "-o", "out"];
    let mut run = lab.command(&[&words[..], &more].concat()).spawn().unwrap();
    let kept = lab.path("out/durability.json");
    wait_for(&kept);
    run.kill().unwrap();
    run.wait().unwrap();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert!(states(&kept, 0, "volatile").1 > 0, "{kept}");
    let razed = lab.run(&["raze"]);
    assert!(razed.status.success(), "{}", text(&razed.stderr));
    nothing_is_left(&lab);
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    let lab = Lab::new();
    let file = server(&lab, "store.toml");
    for (words, why) in [
        (
            &["durability", "postgres"][..],
            "unknown server or stack 'postgres'",
        ),
        (
            &["durability", "files", "--vary", "methods"],
            "did you mean method?",
        ),
        (
            &["durability", "files", "--set", "method=mmap"],
            "expected fsync, rename",
        ),
        (
            &["durability", "files", "--disk-size", "1MiB"],
            "--disk-size: expected",
        ),
        (&["durability", "nothing.toml"], "nothing.toml"),
        (&["durability", "nbd", "--over", "nbd"], "leave out --over"),
        (&["durability", "nfs"], "so none can be cut"),
        (
            &["durability", "files", "--cut-disks", "one"],
            "files has one disk alone",
        ),
        (&["durability", "/proc"], "expected one of ext4, xfs, btrfs"),
        (
            &["durability", "nbd", "--vary", "barriers"],
            "did you mean barrier?",
        ),
        (&["durability", &file], "is not trusted"),
    ] {
        let output = lab.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
    }
    let plan = lab.run(&["durability", "files", "--dry-run"]);
    let told = text(&plan.stdout);
    assert!(
        plan.status.success() && told.starts_with("Nothing was done."),
        "{told}"
    );
    assert!(!lab.path("plimsoll-results").exists());
    let list = text(&lab.run(&["durability", "--list"]).stdout);
    assert!(list.contains("synchronous_commit = on | off*"), "{list}");
}
