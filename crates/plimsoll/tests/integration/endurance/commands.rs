// SPDX-License-Identifier: Apache-2.0
//! The commands that take time or write something, and what they must leave.

use crate::support::{Lab, program, text};
use std::fmt::Write as _;
use std::path::Path;

/// A command. In its words `@` stands for the number of the round, so that each writes new names.
#[derive(Clone, Copy)]
pub(crate) struct LastingCommand {
    pub(crate) words: &'static [&'static str],
    /// Files that it writes, over those of their name.
    pub(crate) files: &'static [&'static str],
    /// The run folder that it writes, which the same command goes on with.
    pub(crate) run: Option<&'static str>,
    /// Roughly how long it takes, in milliseconds.
    pub(crate) takes_ms: u64,
}

/// Changes of a stack that is up, by the words behind `plimsoll stack`: all but the last are carried out, and
/// the last is killed.
pub(crate) const CHANGES: &[&[&str]] = &[
    &["degrade"],
    &["degrade", "rebuild"],
    &["scrub"],
    &["snapshot"],
    &["grow"],
];

/// Commands that are killed elsewhere, or have nothing to leave: each with the test or the reason.
pub(crate) const NOT_KILLED_HERE: &[(&str, &str)] = &[
    ("ledger check", "it only reads"),
    ("ledger outage", "it only reads"),
    ("ledger seek", "it only reads"),
    (
        "ledger stamp",
        "it writes as ledger write does, until it is stopped",
    ),
    ("stack check", "it raises stacks as stack up does"),
    ("stack list", "it only looks"),
    ("stack replace", "its stack needs machines"),
    ("stack show", "it only looks"),
    ("stack status", "it only looks"),
    ("stack switch", "its stacks need machines"),
    ("completions", "it only prints"),
    ("doctor", "it only looks"),
    ("check", "it measures as fit-for does"),
    (
        "durability",
        "a_run_that_was_killed_keeps_what_was_judged_and_raze_removes_the_rest",
    ),
    (
        "failover",
        "a_failover_that_is_killed_is_reported_and_resumed",
    ),
    (
        "history",
        "it reads a database, and writes an export as report does",
    ),
    ("man", "it writes pages from the program itself"),
    ("new", "it writes one small file at once"),
    ("push", "team::kills"),
    ("team", "each change is one transaction of the database"),
    ("vm", "it needs virtual machines: vm"),
    ("workloads", "it only prints"),
];

const fn writes(words: &'static [&'static str], files: &'static [&'static str]) -> LastingCommand {
    LastingCommand {
        words,
        files,
        run: None,
        takes_ms: 250,
    }
}

const fn runs(words: &'static [&'static str], takes_ms: u64) -> LastingCommand {
    LastingCommand {
        words,
        files: &[],
        run: Some("run@"),
        takes_ms,
    }
}

const fn works(words: &'static [&'static str], takes_ms: u64) -> LastingCommand {
    LastingCommand {
        words,
        files: &[],
        run: None,
        takes_ms,
    }
}

/// Those that write files of results.
pub(crate) const WRITERS: &[LastingCommand] = &[
    writes(
        &["fit", "mon", "--disk", "sda", "-o", "out@.toml", "--force"],
        &["out@.toml"],
    ),
    writes(
        &["fit", "a.csv", "-o", "out@.toml", "--force"],
        &["out@.toml", "out@.requests"],
    ),
    writes(
        &[
            "profile",
            "mon",
            "--disk",
            "sda",
            "-o",
            "out@.html",
            "--force",
        ],
        &["out@.html"],
    ),
    writes(
        &["profile", "mon", "--xlsx", "out@.xlsx", "--force"],
        &["out@.xlsx"],
    ),
    writes(
        &["profile", "a.csv", "--parquet", "out@.parquet", "--force"],
        &["out@.parquet"],
    ),
    writes(
        &[
            "verify",
            "m.toml",
            "--against",
            "mon",
            "--html",
            "out@.html",
        ],
        &["out@.html"],
    ),
    writes(
        &[
            "export", "m.toml", "--format", "fio", "-o", "out@.fio", "--force",
        ],
        &["out@.fio"],
    ),
    writes(
        &["report", "done", "--html", "out@.html", "--force"],
        &["out@.html"],
    ),
    writes(
        &["report", "done", "--export", "out@.json", "--force"],
        &["out@.json"],
    ),
    writes(
        &["report", "done", "--export", "out@.xlsx", "--force"],
        &["out@.xlsx"],
    ),
    writes(
        &["mix", "m.toml", "a.toml", "-o", "out@.toml", "--force"],
        &["out@.toml", "out@.requests"],
    ),
    writes(
        &["diff", "done", "done", "--html", "out@.html"],
        &["out@.html"],
    ),
    writes(
        &["merge", "mon.part", "-o", "out@.toml", "--force"],
        &["out@.toml"],
    ),
];

/// Those that write run folders.
pub(crate) const RUNNERS: &[LastingCommand] = &[
    runs(
        &[
            "run",
            "randwrite,size=1m",
            "target",
            "--for",
            "300ms",
            "--warmup",
            "0s",
            "--no-self-test",
            "-o",
            "run@",
        ],
        2_000,
    ),
    runs(
        &[
            "compare",
            "target",
            "other",
            "-w",
            "randwrite,size=1m",
            "--for",
            "200ms",
            "--warmup",
            "0s",
            "--blocks",
            "2",
            "--no-self-test",
            "-o",
            "run@",
        ],
        4_000,
    ),
    runs(
        &[
            "loadline",
            "-w",
            "open.toml",
            "--slo",
            "p99 < 200ms",
            "sim(queue,servers=1,service=5ms)",
            "--for",
            "60s",
            "--width",
            "15%",
            "--seed",
            "7",
            "-o",
            "run@",
        ],
        2_000,
    ),
    runs(
        &[
            "fit-for",
            "postgres-wal",
            "sim(queue,servers=1,service=2ms,rate=100000M)",
            "--for",
            "30s",
            "--seed",
            "3",
            "-o",
            "run@",
        ],
        2_000,
    ),
];

/// Those that leave something else, or nothing.
pub(crate) const OTHERS: &[LastingCommand] = &[
    works(&["import", "old.csv", "-o", "run@"], 250),
    works(
        &[
            "tune",
            "sim(queue+throttle,iops=1500)",
            "-w",
            "randread,size=1m,depth=8",
            "--warmup",
            "0s",
            "--for",
            "100ms",
            "-o",
            "run@",
        ],
        2_000,
    ),
    works(&["record", "-o", "rec@", "--for", "1s"], 1_200),
    works(&["repro", "experiment.toml", "-o", "rep@"], 1_000),
    works(
        &[
            "gate",
            "--against",
            "sim(queue,servers=1,service=5ms)",
            "--candidate",
            "sim(queue,servers=1,service=5ms)",
            "-w",
            "open.toml",
            "--for",
            "20s",
            "--blocks",
            "6",
            "--seed",
            "1",
            "-o",
            "gate@",
        ],
        2_000,
    ),
    works(
        &[
            "ledger",
            "write",
            "kept",
            "--ledger",
            "l@",
            "--size",
            "1MiB",
            "--for",
            "500ms",
            "--rate",
            "20",
            "--destroy",
        ],
        800,
    ),
    works(&["stack", "up", "local", "--size", "512M"], 250),
    works(&["stack", "down", "local"], 250),
    works(&["serve", "runs", "--listen", "127.0.0.1:0"], 500),
    works(&["raze"], 100),
];

/// Those that raise stacks and write run folders.
pub(crate) const ON_STACKS: &[LastingCommand] = &[
    runs(
        &[
            "compare",
            "local",
            "nbd",
            "-w",
            "randwrite,size=8m",
            "--for",
            "200ms",
            "--warmup",
            "0s",
            "--blocks",
            "2",
            "--size",
            "300M",
            "--no-self-test",
            "-o",
            "run@",
        ],
        3_000,
    ),
    runs(
        &[
            "run",
            "randwrite,size=8m",
            "raid1",
            "--for",
            "300ms",
            "--warmup",
            "0s",
            "--size",
            "300M",
            "--no-self-test",
            "-o",
            "run@",
        ],
        2_500,
    ),
    runs(
        &[
            "layers",
            "nbd",
            "-w",
            "randwrite,size=8m",
            "--for",
            "200ms",
            "--warmup",
            "0s",
            "--blocks",
            "2",
            "--size",
            "300M",
            "-o",
            "run@",
        ],
        4_000,
    ),
];

impl LastingCommand {
    /// Its words in this round.
    pub(crate) fn words(&self, round: usize) -> Vec<String> {
        let number = |word: &&str| word.replace('@', &round.to_string());
        self.words.iter().map(number).collect()
    }

    pub(crate) fn files(&self, round: usize) -> Vec<String> {
        let number = |name: &&str| name.replace('@', &round.to_string());
        self.files.iter().map(number).collect()
    }

    /// `fit mon --disk sda`, for messages.
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }
}

/// Two parts of simulated systems, a table of one figure, and a question.
const EXPERIMENT: &str = r#"format = "1.0"
name = "small"
title = "Two parts"

[source]
author = "plimsoll's tests"
year = 2026
published = "nothing"

[[part]]
name = "first"
what = "reads"
quick = { run = ["compare", "sim(flash)", "sim(disk)", "-w", "randread,size=1m", "--blocks", "2", "--for", "300ms", "--seed", "1"], minutes = 0.1 }
full = { run = ["compare", "sim(flash)", "sim(disk)", "-w", "randread,size=1m", "--blocks", "2", "--for", "300ms", "--seed", "1"], minutes = 0.1 }

[[part]]
name = "second"
what = "writes"
quick = { run = ["compare", "sim(flash)", "sim(disk)", "-w", "randwrite,size=1m", "--blocks", "2", "--for", "300ms", "--seed", "1"], minutes = 0.1 }
full = { run = ["compare", "sim(flash)", "sim(disk)", "-w", "randwrite,size=1m", "--blocks", "2", "--for", "300ms", "--seed", "1"], minutes = 0.1 }

[[table]]
name = "reads"
title = "Random reads"
labels = ["device"]
unit = "1/s"
ours = { part = "first", workload = "randread" }
column = [{ name = "reads", ours = { metric = "operations" } }]

[[table.row]]
labels = ["flash"]
published = "20000"
ours = { system = "sim(flash)" }
"#;

/// Contents of a file before a command writes it.
pub(crate) const OLD: &str = "what was there before\n";

/// Whether a result is whole, as far as its kind tells.
pub(crate) fn is_whole(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else {
        return false;
    };
    let kind = path.extension().unwrap_or_default().to_string_lossy();
    let as_text = || String::from_utf8(bytes.clone()).unwrap_or_default();
    match &*kind {
        "html" => as_text().trim_end().ends_with("</html>"),
        "toml" => as_text().parse::<toml::Table>().is_ok(),
        "json" => serde_json::from_slice::<serde_json::Value>(&bytes).is_ok(),
        // The directory of an archive is its end.
        "xlsx" => {
            bytes.starts_with(b"PK")
                && bytes[bytes.len().saturating_sub(22)..].starts_with(b"PK\x05\x06")
        }
        "parquet" => bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && bytes.len() > 12,
        _ => bytes.ends_with(b"\n") || kind == "requests",
    }
}

/// A place with all that the commands read.
pub(crate) fn prepared() -> Lab {
    let lab = Lab::new();
    for directory in ["target", "other", "kept"] {
        lab.directory(directory);
    }
    let open = "format = \"2.0\"\n[workload.blocks]\nname = \"w\"\n[[workload.blocks.groups]]\ndepth = 64\n\
                pace = { open = { poisson = { per_s = 50.0 } } }\n\
                mix = [ { kind = \"read\", bytes = 4096, weight = 1.0 } ]\n";
    let numbers = "100,9,2048,50,1024,40,300,8,4096,60,512.5,7,16,,,,,1000,20,,,3000,30,,,5000,50,6000,60,1us,\
                   2us,3us,4us,5us,6us,7us,8us,9us,10us,11us,12us";
    let old: String = (0..3).fold(String::new(), |mut all, seed| {
        let _ = writeln!(all, "1.97,1.97,a,1,{seed},64M,,{numbers}");
        all
    });
    for (name, text) in [
        ("open.toml", open),
        ("old.csv", &old),
        ("mon", &diskstats()),
        ("a.csv", &msr()),
        ("experiment.toml", EXPERIMENT),
    ] {
        std::fs::write(lab.path(name), text).expect("a writable target directory");
    }
    for command in [
        "fit mon --disk sda -o m.toml",
        "fit a.csv -o a.toml",
        "profile mon --disk sda --partial mon.part",
        "compare null null -w randread,size=1m --for 100ms --warmup 0s --blocks 2 --no-self-test -o done",
    ] {
        let output = lab.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{command}: {}",
            text(&output.stderr)
        );
    }
    lab
}

/// Counters that a loop over /proc/diskstats writes every 10 s for 20 minutes.
fn diskstats() -> String {
    let (mut reads, mut writes) = (1_000_u64, 500_u64);
    let mut all = String::new();
    for i in 0..121 {
        let (at, read, wrote) = (1_795_220_000 + i * 10, reads * 32, writes * 16);
        let _ = writeln!(
            all,
            "{at}\n   8 0 sda {reads} 0 {read} 0 {writes} 0 {wrote} 0 0 0 0"
        );
        reads += 900 + i * 13 % 80;
        writes += if i % 20 < 2 { 6_000 + i } else { 120 + i % 9 };
    }
    all
}

/// A trace of MSR's form.
fn msr() -> String {
    let mut all = String::new();
    let mut at = 128_166_372_003_061_629_u64;
    for i in 0..4_000_u64 {
        at += 10_000 + (i * i * 7_919 % 100_003).pow(2) / 10_000;
        let (kind, offset) = match i % 5 {
            0 => ("Write", 4_096 * (i % 64)),
            _ => ("Read", (i / 50) % 9 * (1 << 20) + i % 50 * 8_192),
        };
        let _ = writeln!(all, "{at},host,0,{kind},{offset},8192,100");
    }
    all
}

/// Processes with the state directory of this place, and mounts in it.
pub(crate) fn left(lab: &Lab) -> Vec<String> {
    let state = lab.path("state").display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut left: Vec<String> = mounts
        .lines()
        .filter(|line| line.contains(&state))
        .map(str::to_owned)
        .collect();
    for entry in std::fs::read_dir("/proc")
        .expect("Linux lists its processes")
        .flatten()
    {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if text(&environ)
            .split('\0')
            .any(|one| one.ends_with(&format!("={state}")))
        {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            left.push(text(&command).replace('\0', " "));
        }
    }
    left
}

/// Everything below a directory that is a file.
pub(crate) fn files_below(directory: &Path) -> Vec<String> {
    if !directory.exists() {
        return Vec::new();
    }
    let path = directory.display().to_string();
    // It fails where it cannot look, as on a mount whose server is dead: then files may be left there.
    let found = program("find", &[&path, "-type", "f"]).expect("find looks everywhere");
    found.lines().map(str::to_owned).collect()
}
