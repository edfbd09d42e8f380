// SPDX-License-Identifier: Apache-2.0
//! Campaign files, secondary metrics, both loops, and two runs at two times, in virtual time.

use crate::support::{Lab, text};
use serde_json::Value;
use std::path::Path;

/// A queue of one server with exponential service of 10 ms.
const QUEUE: &str = "sim(queue,servers=1,law=exponential,service=10ms,rate=100000M)";

/// Two such queues, one of which takes half as long again.
const SLOWER: &str = "sim(queue,servers=1,law=exponential,service=15ms,rate=100000M)";

fn example() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("examples/campaigns/parameters.toml");
    file.display().to_string()
}

fn write(lab: &Lab, name: &str, text: &str) -> String {
    std::fs::write(lab.path(name), text).expect("a writable test directory");
    name.into()
}

/// Reads of one client at a time on 64 MiB, with this pace.
fn group(pace: &str) -> String {
    format!(
        "format = \"2.0\"\n[workload.blocks]\nname = \"w\"\n[[workload.blocks.groups]]\nname = \"io\"\n\
         {pace}\nextent = {{ file = \"data\", bytes = 67108864 }}\n"
    )
}

fn workloads(json: &Value) -> Vec<&str> {
    let rows = json["comparisons"].as_array().expect("comparisons");
    let mut labels: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["workload"].as_str())
        .collect();
    labels.dedup();
    labels
}

#[test]
fn the_example_of_a_campaign_plays_every_choice_in_balanced_orders() {
    let lab = Lab::new();
    let file = example();
    let json = lab.json(&[
        "compare",
        "--campaign",
        &file,
        "--for",
        "1s",
        "--seed",
        "3",
        "--json",
        "-o",
        "r",
    ]);
    let expect = [
        "lookup depth=1",
        "lookup depth=16",
        "lookup depth=4",
        "randwrite size=64M",
    ];
    let mut found = workloads(&json);
    found.sort_unstable();
    assert_eq!(found, expect);
    // Three systems and the control under four workloads in five blocks.
    assert_eq!(json["trials"].as_array().unwrap().len(), 4 * 4 * 5);
    let manifest = std::fs::read_to_string(lab.path("r/manifest.json")).unwrap();
    assert!(manifest.contains("\"balanced\": true"), "{manifest}");
    assert!(manifest.contains("sim(disk,rpm=15000)"), "{manifest}");
    // A dry run prints the order that is then run.
    let plan = lab.json(&[
        "compare",
        "--campaign",
        &file,
        "--seed",
        "3",
        "--json",
        "--dry-run",
    ]);
    let of = |trials: &Value| -> Vec<(String, String)> {
        let trials = trials.as_array().unwrap().iter();
        let word = |trial: &Value, key: &str| trial[key].as_str().unwrap().to_owned();
        trials
            .map(|trial| (word(trial, "workload"), word(trial, "arm")))
            .collect()
    };
    assert_eq!(of(&plan["trials"]), of(&json["trials"]));
}

#[test]
fn a_campaign_file_and_a_command_line_are_the_same_comparison() {
    let lab = Lab::new();
    let file = write(
        &lab,
        "c.toml",
        "format = \"1.0\"\nblocks = 3\norder = \"random\"\n[[target]]\ntarget = \"sim(flash)\"\n\
         [[target]]\ntarget = \"sim(disk)\"\n[[workload]]\nworkload = \"randread\"\nfor = \"1s\"\n\
         settings = { size = \"8M\" }\n",
    );
    let common = ["--seed", "5", "--no-self-test", "--json", "-o"];
    let by_file = lab.json(&[&["compare", "--campaign", &file], &common[..], &["a"]].concat());
    let words = [
        "compare",
        "sim(flash)",
        "sim(disk)",
        "-w",
        "randread,size=8M",
        "--blocks",
        "3",
    ];
    let by_words = lab.json(&[&words[..], &["--for", "1s"], &common, &["b"]].concat());
    assert_eq!(by_file["comparisons"], by_words["comparisons"]);
    assert!(by_file["comparisons"].as_array().unwrap().len() >= 2);
}

#[test]
fn a_mistake_in_a_campaign_file_is_told_with_line_and_key() {
    let lab = Lab::new();
    let head = "format = \"1.0\"\n[[target]]\ntarget = \"null\"\n[[workload]]\n";
    let cases = [
        (
            "workload = \"varmial\"\n",
            "campaign c.toml, line 5, workload 1, workload:",
        ),
        (
            "workload = \"varmail\"\nsettigns = 1\n",
            "campaign c.toml, line 6: unknown field `settigns`",
        ),
        (
            "workload = \"varmail\"\nsettings = { nfiles = \"x\" }\n",
            "line 5, workload 1, workload:",
        ),
        (
            "workload = \"varmail\"\nfor = \"soon\"\n",
            "line 6, workload 1, for:",
        ),
    ];
    for (tail, expect) in cases {
        let file = write(&lab, "c.toml", &format!("{head}{tail}"));
        let output = lab.run(&["compare", "--campaign", &file]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expect), "{error}\n{expect}");
        assert_eq!(error.matches("error").count(), 1, "{error}");
    }
    let output = lab.run(&["compare", "--campaign", "c.toml", "-w", "varmail"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"));
}

/// Options that make no campaign, and what the error must name. `T` is two targets under a workload.
const MISTAKES: &[(&str, &str)] = &[
    ("compare T --blocks 0", "--blocks"),
    ("compare T --blocks 1001", "--blocks"),
    ("compare T --margin 0", "for --margin: expected a fraction"),
    (
        "compare T --margin 1.5",
        "'--margin <FRACTION>': expected a percentage",
    ),
    ("compare T --effect 0%", "--effect"),
    (
        "compare T --effect 5% --blocks 5",
        "for --blocks: expected at least 6",
    ),
    (
        "compare T --effect 5% --fault kill",
        "--effect and --stop do not work with --fault",
    ),
    ("compare T --stop two-stage", "--stop needs --effect"),
    (
        "compare T --stop anytime",
        "--stop needs --effect or --budget or --blocks",
    ),
    (
        "compare null -w randread --effect 5%",
        "needs at least two targets",
    ),
    (
        "compare null -w randread --no-control",
        "needs at least two targets",
    ),
    (
        "compare T --for 99ms",
        "for --for: expected at least 100 ms",
    ),
    ("compare T --bytes 0", "--bytes"),
    (
        "compare T --bytes 1G --effect 5%",
        "--bytes does not work with --effect and --stop",
    ),
    (
        "compare T --bytes 1G --fault kill",
        "--bytes does not work with --fault",
    ),
    ("compare T --steady=1m", "--steady"),
    ("compare T --precondition 101x", "--precondition"),
    ("compare T --under sloow", "--under"),
    ("compare T --under slow,slow", "'slow' is given twice"),
    (
        "compare T --under slow --fault kill",
        "--under does not work with --fault",
    ),
    ("compare T --fault kil", "--fault"),
    (
        "compare T --closed-and-open --fault kill",
        "--closed-and-open does not work with --fault",
    ),
    (
        "compare T --closed-and-open --under slow",
        "--closed-and-open does not work with --under",
    ),
    (
        "compare T --closed-and-open --effect 5%",
        "--closed-and-open does not work with --effect and --stop",
    ),
    (
        "compare T --victim server1",
        "--victim needs --fault or --under",
    ),
    ("compare T --sessions 2", "--sessions needs --fault"),
    (
        "compare T --fault-duration 1s",
        "--fault-duration needs --fault",
    ),
    ("compare T --observer stamp", "--observer needs --fault"),
    ("compare T --repeat 3", "--repeat needs --fault"),
    (
        "compare T --fault kill --rate 0",
        "for --rate: expected a number from 0.1",
    ),
    (
        "compare T --prove-client --clients n1",
        "--prove-client does not work with --clients",
    ),
    ("compare null sim -w nothing", "nothing"),
    ("compare null sim -w randread -w randread", "given twice"),
    ("compare null simm -w randread", "simm"),
    ("run nas.toml null --full-replay --for 10s", "--full-replay"),
    (
        "loadline T --slo p99<1s --min 2 --max 1",
        "for --min: expected two positive numbers",
    ),
    ("loadline T --slo p99<1s --width 0.1%", "--width"),
    ("loadline T --slo p99<20", "--slo"),
    (
        "loadline T --slo p99<1s --for 9s",
        "for --for: expected at least 10 s",
    ),
    (
        "loadline T --slo p99<1s --cost b=0.1/h",
        "for --cost: expected one of the targets",
    ),
    (
        "loadline T --slo p99<1s --recovery-timeout 1s",
        "--recovery-timeout needs --fault or --under",
    ),
    (
        "fit-for etcd null --min 2",
        "for --min: expected a positive number below 1",
    ),
    ("fit-for etdc null", "etdc"),
    (
        "failover raid1 --block 5000",
        "for --block: expected a power of two",
    ),
    (
        "failover raid1 --block 1M --file-size 15M",
        "for --file-size: expected at least 16 blocks",
    ),
    ("failover raid1 --load 50% --rate 10", "--rate"),
    ("layers local -w randread", "one layer only"),
];

#[test]
fn mistakes_of_options_are_told_before_anything_is_made() {
    let lab = Lab::new();
    for (words, expect) in MISTAKES {
        let words = words.replace(" T", " null sim(disk) -w randread");
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = lab.run(&[&words[..], &["-o", "r"]].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(expect), "{words:?}: {told}");
        assert!(!lab.path("r").exists(), "{words:?}");
    }
}

/// Options of each command, and what the campaign has of them. `T` is two targets under a workload, `S` two
/// stacks.
const SAVED: &[(&str, &str)] = &[
    (
        "compare T --for 3s --warmup 2s",
        "for = \"3s\"\nwarmup = \"2s\"",
    ),
    (
        "compare T --seed 18446744073709551615",
        "seed = \"18446744073709551615\"",
    ),
    ("compare T --seed 5", "seed = 5"),
    ("compare T --engine sync", "engine = \"sync\""),
    ("compare T --no-self-test", "verify = false"),
    ("compare T --no-record", "record = false"),
    (
        "compare a b -w randwrite,size=1m --check-data end",
        "verify_data = \"end\"",
    ),
    ("compare T --prove-client", "prove_client = true"),
    ("compare T --margin 0.2", "margin = 0.2"),
    ("compare T --no-control", "control = false"),
    ("compare T --blocks 7", "blocks = 7"),
    ("compare T", "order = \"random\""),
    ("compare T --effect 5%", "[design]\neffect = 0.05"),
    ("compare T --effect 5% --budget 10m", "budget = \"10m\""),
    ("compare T --stop anytime --blocks 9", "stop = \"anytime\""),
    ("compare T --closed-and-open", "closed_and_open = true"),
    ("compare T --precondition 2x", "precondition = 2.0"),
    ("compare T --steady=5m", "steady = \"5m\""),
    ("compare T --bytes 1G", "bytes = \"1G\""),
    ("compare S --size 3G", "size = \"3G\""),
    (
        "compare S --dir d --port 15000",
        "dir = \"d\"\nport = 15000",
    ),
    ("compare S --on netns", "on = \"netns\""),
    (
        "compare T --clients local:2 --lose-clients 9%",
        "on = \"local:2\"\nlose = 0.09",
    ),
    (
        "compare S --under slow,healthy --victim x",
        "under = [\"slow\", \"healthy\"]",
    ),
    ("compare S --under slow --victim x", "victim = \"x\""),
    (
        "compare S --fault kill,slow --repeat 3",
        "inject = [\"kill\", \"slow\"]",
    ),
    ("compare S --fault kill --repeat 3", "blocks = 3"),
    (
        "compare S --fault kill --fault-duration 3s --recovery-timeout 9s",
        "duration = \"3s\"\nrecovery_timeout = \"9s\"",
    ),
    (
        "compare S --fault kill --sessions 3 --rate 7",
        "sessions = 3\nrate = 7.0",
    ),
    (
        "compare S --fault kill --load 50% --observer scp",
        "load = 0.5\nobservers = [\"scp\"]",
    ),
    (
        "failover nfs --block 8k --file-size 1M",
        "block = \"8k\"\nfile_size = \"1M\"",
    ),
    ("failover nfs", "inject = [\"kill\"]\nrate = 100.0"),
    ("run randread,size=1m null --for 1s", "blocks = 1"),
    (
        "loadline T --slo p99<1s --min 0.5 --max 4 --width 10%",
        "from = 0.5\nto = 4.0\nwidth = 0.1",
    ),
    ("loadline T --slo p99<1s --cost null=0.1/h", "null = 0.1"),
    (
        "loadline T --slo p99<1s --control --budget 1h",
        "budget = \"1h\"",
    ),
    ("fit-for etcd null --slo p99<1s", "limits = [\"p99<1s\"]"),
    ("fit-for etcd,iops=9 null", "requirement = \"etcd,iops=9\""),
    (
        "gate --against null --candidate sim -w randread --effect 10%",
        "confidence = ",
    ),
    ("layers raid1 -w randread", "ladder = ["),
];

#[test]
fn every_option_is_in_the_campaign() {
    let lab = Lab::new();
    let _ = ["a", "b"].map(|name| lab.directory(name));
    for (words, expect) in SAVED {
        let words = words.replace(" T", " null sim(disk) -w randread");
        let words = words.replace(" S", " raid1 nfs -w randread,size=1m");
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = lab.run(&[&words[..], &["--save", "c.toml", "--dry-run"]].concat());
        let told = text(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words:?}: {}",
            text(&output.stderr)
        );
        assert!(told.contains(expect), "{words:?}: {told}");
        assert!(!lab.path("c.toml").exists(), "{words:?}");
    }
}

#[test]
fn typed_paths_count_from_where_they_are_typed() {
    let lab = Lab::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let words = "run randread,size=1m null --for 200ms --save c.toml";
    let saved = lab.run(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(saved.status.code(), Some(0), "{}", text(&saved.stderr));
    let file = lab.path("c.toml").display().to_string();
    let words = [
        "run", &file, "--save", "d.toml", "--dir", "disks", "--on", "netns",
    ];
    let output = lab
        .command(&words)
        .current_dir(elsewhere.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = std::fs::read_to_string(elsewhere.path().join("d.toml")).unwrap();
    let disks = elsewhere.path().join("disks").display().to_string();
    assert!(
        told.contains(&disks) && told.contains("on = \"netns\""),
        "{told}"
    );
    let own = lab.path("").display().to_string();
    assert!(told.contains(own.trim_end_matches('/')), "{told}");
}

#[test]
fn a_campaign_that_cannot_be_carried_out_is_told_by_its_cause() {
    let lab = Lab::new();
    let head = "format = \"1.2\"\n[[workload]]\nworkload = \"randread,size=1m\"\n[[target]]\n";
    let target = |text: &str| format!("{head}target = \"{text}\"\n");
    let cases = [
        ("blocks = [[", "line 1: "),
        ("", "missing field `format`"),
        (
            &target("nfs://127.0.0.1:1/x"),
            "a connection to nfs://127.0.0.1:1/x",
        ),
        (
            &format!("{}[clients]\non = \"n1\"\n", target("null")),
            "clients.on = \"n1\"",
        ),
        (
            &format!("{}[stacks]\non = \"lab.toml\"\n", target("null")),
            "stacks.on = \"lab.toml\"",
        ),
        (
            &format!(
                "{}[build]\ncommand = \"make\"\nfiles = [\"a\"]\n",
                target("null")
            ),
            "plimsoll gate",
        ),
        (
            &format!("seed = \"x\"\n{}", target("null")),
            "seed: expected a whole number",
        ),
    ];
    for (text_of, expect) in cases {
        let file = write(&lab, "c.toml", text_of);
        for words in [&["run", &*file][..], &["compare", "--campaign", &*file]] {
            let output = lab.run(&[words, &["-o", "r"]].concat());
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{text_of}: {told}");
            assert!(told.contains(expect), "{text_of}: {told}");
            assert!(!lab.path("r").exists(), "{text_of}");
        }
    }
    let told = text(&lab.run(&["run", "nothing.toml"]).stderr);
    assert!(told.contains("No such file"), "{told}");
    // Typed options reach what they name.
    let file = write(&lab, "c.toml", &target("null"));
    let typed = lab.run(&["run", &file, "--on", "lab.toml"]);
    assert!(
        !text(&typed.stderr).contains("trust"),
        "{}",
        text(&typed.stderr)
    );
}

#[test]
fn every_measuring_command_saves_a_campaign_that_runs_the_same() {
    let lab = Lab::new();
    let commands = [
        "run randread,size=8m sim(disk) --for 2s --warmup 1s",
        "compare sim(disk) sim(flash) -w randread,size=8m --for 1s --blocks 2 --margin 0.1",
        "compare sim(disk) sim(flash) -w randread,size=8m --effect 20% --budget 10m --stop anytime",
        "loadline sim(disk) -w randread,size=8m --slo p99<100ms --for 10s --budget 5m --max 4",
        "fit-for etcd sim(flash) --for 10s --budget 2m --slo p99<1s",
    ];
    for (at, words) in commands.iter().enumerate() {
        let words = format!("{words} --seed 5 --no-self-test");
        let words: Vec<&str> = words.split_whitespace().collect();
        let file = format!("c{at}.toml");
        let saved = lab.run(&[&words[..], &["--save", &file]].concat());
        assert_eq!(saved.status.code(), Some(0), "{}", text(&saved.stderr));
        let folders = [format!("by-words-{at}"), format!("by-file-{at}")];
        let by_words = lab.run(&[&words[..], &["--json", "-o", &folders[0]]].concat());
        let by_file = lab.run(&["run", &file, "--json", "-o", &folders[1]]);
        assert!(
            by_words
                .status
                .code()
                .is_some_and(|code| code < 20 && code != 2)
        );
        let json = |output: &std::process::Output| -> Value {
            serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
        };
        let (a, b) = (json(&by_words), json(&by_file));
        for key in ["comparisons", "load_lines", "blocks", "policy", "workloads"] {
            assert_eq!(a[key], b[key], "{words:?}: {key}");
        }
        let ops = |json: &Value| -> Vec<Value> {
            let trials = json["trials"].as_array().expect("trials").iter();
            trials.map(|trial| trial["stats"].clone()).collect()
        };
        assert!(!ops(&a).is_empty());
        assert_eq!(ops(&a), ops(&b), "{words:?}");
        // Saved again by the file, it is the same file.
        let again = format!("again-{at}.toml");
        let output = lab.run(&["run", &file, "--save", &again]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read_to_string(lab.path(name)).unwrap();
        assert_eq!(read(&again), read(&file));
    }
}

#[test]
fn the_tail_of_an_open_loop_is_what_the_law_of_the_queue_says() {
    let lab = Lab::new();
    // One client that thinks as long as it waits: half of what the server can do. In an open loop at that
    // rate the response is exponential with twice the mean: the factor is 2.
    write(
        &lab,
        "w.toml",
        &group("pace = { closed = { think = 10000000, every = 1 } }"),
    );
    let args = [
        "compare",
        QUEUE,
        "-w",
        "w.toml",
        "--closed-and-open",
        "--for",
        "120s",
    ];
    let more = [
        "--blocks",
        "6",
        "--seed",
        "2",
        "--no-self-test",
        "--json",
        "-o",
        "r",
    ];
    let json = lab.json(&[&args[..], &more].concat());
    let loops = json["loops"].as_array().unwrap();
    let [row] = &loops[..] else {
        panic!("{loops:?}")
    };
    let number = |key: &str| row[key].as_f64().unwrap();
    assert!((number("asked_per_s") - 50.0).abs() < 5.0, "{row}");
    assert!(
        (number("open_ops_per_s") / number("closed_ops_per_s") - 1.0).abs() < 0.1,
        "{row}"
    );
    let factor = ["low", "estimate", "high"].map(|key| row["factor"][key].as_f64().unwrap());
    assert!(factor[0] < 2.1 && factor[2] > 1.9, "{row}");
    assert!((factor[1] - 2.0).abs() < 0.25, "{row}");
    assert_eq!(row["verdict"], "different");
    let report = text(&lab.run(&["report", "r"]).stdout);
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("the p99 in an open loop is"), "{report}");
    assert!(report.contains("Closed and open loop"), "{report}");
    // The open loops of arms are not held against each other.
    assert!(
        workloads(&json)
            .iter()
            .all(|label| label.contains("closed loop")),
        "{json}"
    );
}

#[test]
fn a_closed_loop_as_fast_as_it_can_hides_that_its_rate_cannot_be_carried() {
    let lab = Lab::new();
    write(&lab, "w.toml", &group("depth = 1"));
    let args = [
        "compare",
        QUEUE,
        "-w",
        "w.toml",
        "--closed-and-open",
        "--for",
        "60s",
    ];
    let more = [
        "--blocks",
        "3",
        "--seed",
        "2",
        "--no-self-test",
        "--json",
        "-o",
        "r",
    ];
    let json = lab.json(&[&args[..], &more].concat());
    let row = &json["loops"][0];
    // At the very limit the backlog grows in most blocks, or at least the tail does by far.
    let factor = row["factor"]["estimate"].as_f64();
    assert!(
        row["verdict"] == "cannot_carry" || factor.is_some_and(|factor| factor > 4.0),
        "{row}"
    );
}

#[test]
fn a_workload_with_a_rate_gets_clients_that_think() {
    let lab = Lab::new();
    write(
        &lab,
        "w.toml",
        &group("depth = 64\npace = { open = { poisson = { per_s = 50.0 } } }"),
    );
    let args = [
        "compare",
        QUEUE,
        "-w",
        "w.toml",
        "--closed-and-open",
        "--for",
        "60s",
    ];
    let more = [
        "--blocks",
        "4",
        "--seed",
        "2",
        "--no-self-test",
        "--json",
        "-o",
        "r",
    ];
    let json = lab.json(&[&args[..], &more].concat());
    let row = &json["loops"][0];
    let asked = row["asked_per_s"].as_f64().unwrap();
    assert!((asked - 50.0).abs() < 6.0, "{row}");
    let factor = row["factor"]["estimate"].as_f64().unwrap();
    assert!((1.2..2.6).contains(&factor), "{row}");
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains(" that think"), "{warnings}");
}

#[test]
fn what_cannot_be_played_in_both_loops_is_refused_with_the_reason() {
    let lab = Lab::new();
    for (workload, expect) in [
        ("varmail", "it is not block I/O"),
        ("mdtest-easy", "it is not block I/O"),
    ] {
        let output = lab.run(&["compare", "null", "-w", workload, "--closed-and-open"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains("cannot be played in both loops") && error.contains(expect),
            "{error}"
        );
    }
}

#[test]
fn what_else_differs_stands_below_the_answer_and_changes_no_exit_code() {
    let lab = Lab::new();
    // Both carry the load, and the mean of the slower one is the primary metric.
    write(
        &lab,
        "w.toml",
        &group("depth = 64\npace = { open = { poisson = { per_s = 20.0 } } }"),
    );
    let args = [
        "compare", QUEUE, SLOWER, "-w", "w.toml", "--for", "30s", "--blocks", "6",
    ];
    let output = lab.run(&[&args[..], &["--seed", "4", "--no-self-test", "-o", "r"]].concat());
    let page = text(&output.stdout);
    let (answer, below) = page.split_once("What else differs?").expect("the section");
    assert!(answer.contains("mean response time"), "{page}");
    assert!(
        below.contains("p99 response time") && below.contains("run-to-run variation"),
        "{page}"
    );
    let json = lab.json(&["report", "r", "--json"]);
    let rows = json["secondary"].as_array().unwrap();
    let p99 = rows
        .iter()
        .find(|row| row["metric"] == "p99_response")
        .unwrap();
    assert_eq!(p99["verdict"], "different", "{p99}");
    let few = rows
        .iter()
        .find(|row| row["metric"] == "p999_response")
        .unwrap();
    assert!(
        few["reason"].as_str().unwrap().contains("needs 2995"),
        "{few}"
    );
    // The same system twice: whatever stands below, the exit code is that of the one metric.
    let same = [
        "compare", QUEUE, "-w", "w.toml", "--for", "30s", "--blocks", "6",
    ];
    let more = [
        "--seed",
        "4",
        "--no-self-test",
        "--fail-on",
        "different",
        "-o",
        "s",
    ];
    assert_eq!(lab.run(&[&same[..], &more].concat()).status.code(), Some(0));
}

#[test]
fn two_runs_are_compared_by_the_base_that_both_measured() {
    let lab = Lab::new();
    write(
        &lab,
        "w.toml",
        &group("depth = 64\npace = { open = { poisson = { per_s = 20.0 } } }"),
    );
    let run = |second: &str, seed: &str, folder: &str| {
        let args = [
            "compare", QUEUE, second, "-w", "w.toml", "--for", "60s", "--blocks", "8",
        ];
        let more = ["--seed", seed, "--no-self-test", "-o", folder];
        assert!(lab.run(&[&args[..], &more].concat()).status.success());
    };
    run(SLOWER, "1", "before");
    run(SLOWER, "2", "same");
    let diff = |after: &str, more: &[&str]| lab.run(&[&["diff", "before", after], more].concat());
    let same = lab.json(&["diff", "before", "same", "--json"]);
    let rows = same["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{same}");
    let arm = rows.iter().find(|row| row["arm"] == SLOWER).unwrap();
    assert_eq!(arm["basis"]["base_of_blocks"], QUEUE);
    assert_ne!(arm["verdict"], "different", "{arm}");
    let base = rows.iter().find(|row| row["arm"] == QUEUE).unwrap();
    assert_eq!(base["basis"], "time_between");
    assert_eq!(
        diff("same", &["--fail-on", "different"]).status.code(),
        Some(0)
    );
    let page = text(&diff("same", &[]).stdout);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("What changed around the runs"), "{page}");
    assert!(page.contains("measured in the same blocks"), "{page}");
    // Of a run of another length that is a change around it, and the result is compared all the same.
    let args = [
        "compare", QUEUE, SLOWER, "-w", "w.toml", "--for", "30s", "--blocks", "8",
    ];
    lab.run(&[&args[..], &["--seed", "3", "--no-self-test", "-o", "short"]].concat());
    let short = lab.json(&["diff", "before", "short", "--json"]);
    let changes = short["surroundings"].to_string();
    assert!(changes.contains("entries.w.length"), "{changes}");
    let output = diff("nowhere", &[]);
    assert_eq!(output.status.code(), Some(2));
}
