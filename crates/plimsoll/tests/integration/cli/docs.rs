// SPDX-License-Identifier: Apache-2.0
//! The commands that README and manual show are carried out, as far as a test can; `commands` says how.

mod commands;

use crate::support::{Lab, skipped, text};
use commands::{DocCommand, DocTestMode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Why a dry run cannot be planned on this machine, as its error says.
const NOT_HERE: [&str; 5] = [
    "needs root",
    "is missing",
    "apt-get install",
    "GiB may be used",
    "its file system is none that can be made on a logged disk",
];

/// A run, for commands that read one.
const RUN_FOLDER: &str = "run";

/// Files that pages assume to be there, made once.
struct DocFiles {
    lab: Lab,
}

impl DocFiles {
    fn new() -> Self {
        let lab = Lab::new();
        let write = |name: &str, text: &str| std::fs::write(lab.path(name), text).unwrap();
        // Half past ten to half past twelve of a day of 2010, as the recording of the tutorial.
        let nasdata = super::verify::diskstats(1);
        let (mut shifted, mut seconds) = (String::new(), 1_279_103_400);
        for line in nasdata.lines() {
            if line.starts_with(' ') {
                let _ = writeln!(shifted, "{}", line.replace("8 0 sda", "8 128 sdi"));
            } else {
                let _ = writeln!(shifted, "{seconds}");
                seconds += 60;
            }
        }
        write("nasdata", &shifted);
        write("recording.csv", &nasdata);
        write("other.csv", &shifted);
        write("web.vscsi", &super::verify::msr(1 << 20));
        write(
            "db.fio",
            "[db]\nrw=randrw\nbs=8k\nsize=64m\nruntime=10\ntime_based\n",
        );
        write("open.toml", &open_loop());
        let rows = (0..40).map(|s| format!("2026-11-21 00:00:{s:02},{},{s}\n", 100 + s));
        let panel = format!("Time,sda writes/s,nas read\n{}", rows.collect::<String>());
        write("grafana.csv", &panel);
        let output = lab.run(&["new", "mapping", "grafana.csv"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        for (name, of) in [
            ("campaign", "campaigns/parameters"),
            ("monday", "campaigns/parameters"),
            ("mine", "stacks/own"),
            ("server", "servers/redis"),
        ] {
            let from = commands::root().join(format!("examples/{of}.toml"));
            std::fs::copy(from, lab.path(&format!("{name}.toml"))).unwrap();
        }
        let fits = [
            ("nasdata", "nas.toml"),
            ("nasdata", "db.toml"),
            ("web.vscsi", "web.toml"),
            ("recording.csv", "pg.toml"),
        ];
        for (recording, model) in fits {
            let output = lab.run(&["fit", recording, "-o", model]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        }
        for name in ["nas", "pg", "lab-n1", "sda.parquet"] {
            std::fs::copy(lab.path("recording.csv"), lab.path(name)).unwrap();
        }
        for (recording, part) in [("nasdata", "nas.part"), ("web.vscsi", "web.part")] {
            let output = lab.run(&["profile", recording, "--partial", part]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        }
        let run = ["run", "randread,size=1M", "null", "-o", RUN_FOLDER];
        let short = ["--for", "100ms", "--warmup", "0s"];
        let output = lab.run(&[&run[..], &short].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        DocFiles { lab }
    }

    /// A directory with the files, and without what the command is to write.
    fn copy_for(&self, command: &DocCommand) -> Lab {
        let lab = Lab::new();
        for entry in std::fs::read_dir(self.lab.path("")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_option = |word: &str| ["-o", "--partial"].contains(&word);
            let is_output = |pair: &[String]| is_option(&pair[0]) && pair[1] == name;
            let is_new = command.words[1] == "new" && name.ends_with(".toml");
            let is_written = is_new || command.words.windows(2).any(is_output);
            if entry.path().is_file() && !is_written {
                std::fs::copy(entry.path(), lab.path(&name)).unwrap();
            }
        }
        let reads_runs = ["report", "diff"].contains(&command.words[1].as_str());
        let folders = command.words[2..]
            .iter()
            .take_while(|word| !word.starts_with('-'));
        for folder in folders.filter(|_| reads_runs) {
            lab.directory(folder);
            for entry in std::fs::read_dir(self.lab.path(RUN_FOLDER)).unwrap() {
                let entry = entry.unwrap();
                let to = lab.path(folder).join(entry.file_name());
                if entry.path().is_file() {
                    std::fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        std::os::unix::fs::symlink(
            commands::root().canonicalize().unwrap().join("examples"),
            lab.path("examples"),
        )
        .unwrap();
        lab
    }
}

/// A workload with a rate, for `--closed-and-open`.
fn open_loop() -> String {
    let path = commands::root().join("examples/workloads/open-loop.toml");
    std::fs::read_to_string(path).unwrap()
}

/// The words in a place where their directories are.
fn placed(lab: &Lab, words: &[String]) -> Vec<String> {
    let place = |word: &String| {
        let is_place = word.starts_with("/mnt/") || word.starts_with("/var/lib/");
        match word.strip_prefix('/').filter(|_| is_place) {
            Some(path) => lab.directory(path),
            None if ["a", "b"].contains(&word.as_str()) => lab.directory(word),
            None => word.clone(),
        }
    };
    words.iter().map(place).collect()
}

/// Failure of a command that was carried out; `Ok(false)`: it cannot be done on this machine.
fn carry_out(files: &DocFiles, command: &DocCommand) -> Result<bool, String> {
    let lab = files.copy_for(command);
    let mut words = placed(&lab, &command.words[1..]);
    if command.mode == DocTestMode::DryRun && !words.iter().any(|word| word == "--dry-run") {
        words.push("--dry-run".into());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Short: servers of stacks have sockets in it.
    let state = tempfile::tempdir().unwrap();
    let output = lab.run_with(
        &[("PLIMSOLL_STATE", state.path().to_str().unwrap())],
        &words,
    );
    let errors = text(&output.stderr);
    if output.status.code() == Some(0) {
        return Ok(true);
    }
    let fault = format!(
        "{}:{}: {}\n{errors}",
        command.page, command.line, command.text
    );
    if NOT_HERE.iter().any(|words| errors.contains(words)) {
        // One line: its end has the reason.
        skipped("docs", &fault.trim_end().replace('\n', ": "));
        return Ok(false);
    }
    Err(fault)
}

#[test]
fn every_command_of_the_pages_does_what_it_can_here() {
    let commands = commands::all().unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
    let is_tried =
        |command: &&DocCommand| matches!(command.mode, DocTestMode::Run | DocTestMode::DryRun);
    let mut tried: Vec<&DocCommand> = commands.iter().filter(is_tried).collect();
    tried.sort_by(|a, b| a.words.cmp(&b.words));
    tried.dedup_by(|a, b| a.words == b.words);
    let files = DocFiles::new();
    let (next, done, faults) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
    );
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(command) = tried.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match carry_out(&files, command) {
                        Ok(was_done) => {
                            done.fetch_add(usize::from(was_done), Ordering::Relaxed);
                        }
                        Err(fault) => faults.lock().unwrap().push(fault),
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(tried.len() > 50, "{}", tried.len());
    // Past the test runner's capture: the lead figure of this test.
    let _ = writeln!(
        std::io::stderr(),
        "{} commands on pages, {} different ones to carry out, {} carried out",
        commands.len(),
        tried.len(),
        done.into_inner()
    );
}

#[test]
fn what_the_pages_name_of_the_repository_is_there() {
    let commands = commands::all().unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
    let makefile = std::fs::read_to_string(commands::root().join("Makefile")).unwrap();
    let mut count = 0;
    for command in commands
        .iter()
        .filter(|command| command.mode == DocTestMode::Ours)
    {
        count += 1;
        let is_there = match command.words[0].as_str() {
            "make" => {
                let target = command.words.get(1).map_or("build", String::as_str);
                makefile
                    .lines()
                    .any(|line| line.starts_with(&format!("{target}:")))
            }
            path => commands::root().join(path).is_file(),
        };
        assert!(
            is_there,
            "{}:{}: {}",
            command.page, command.line, command.text
        );
    }
    assert!(count > 2, "{count}");
}

#[test]
fn every_block_of_toml_is_read_as_what_it_is() {
    // The test of the schemas reads these pages' blocks, each as the kind of file that its page is about.
    let schemas = commands::root().join("crates/plimsoll-core/src/schemas.rs");
    let schemas = std::fs::read_to_string(schemas).unwrap();
    let mut count = 0;
    let mut pages = vec![commands::root().join("README.md")];
    collect(&commands::root().join("docs"), &mut pages);
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        if text.contains("```toml\n") {
            let name = page
                .strip_prefix(commands::root())
                .unwrap()
                .display()
                .to_string();
            assert!(
                schemas.contains(&format!("examples_of(\"{name}\")")),
                "{name}"
            );
            count += 1;
        }
    }
    assert!(count >= 4, "{count}");
}

fn collect(folder: &Path, pages: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
}
