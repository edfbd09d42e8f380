// SPDX-License-Identifier: Apache-2.0
//! SIGKILL at random moments: `raze` leaves nothing, results are whole or as they were before, and the same
//! command goes on.

use super::commands::{
    CHANGES, LastingCommand, NOT_KILLED_HERE, OLD, ON_STACKS, OTHERS, RUNNERS, WRITERS,
    files_below, is_whole, left, prepared,
};
use crate::support::{Lab, pause, program, signal, skipped, text};
use plimsoll_core::rng::{Rng, Seed};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// How often a command is begun that ends before it is killed.
const TRIES: usize = 4;

/// Roughly how long a raze takes, in milliseconds.
const RAZE_MS: u64 = 150;

/// Roughly how long a change of a stack takes, in milliseconds.
const CHANGE_MS: u64 = 800;

/// How often it is looked whether it has ended.
const STEP_MS: u64 = 20;

/// Mounts and processes that remain after at most a second: on a busy machine helpers of the server end late.
fn left_after_a_second(lab: &Lab) -> Vec<String> {
    for _ in 0..20 {
        if left(lab).is_empty() {
            break;
        }
        pause(50);
    }
    left(lab)
}

/// Random moments, of which a failure names the seed.
struct Moments {
    rng: Rng,
    seed: u64,
    /// Commands whose first kill met a living process.
    first_kills: usize,
    /// Kills that met a living process.
    kills: usize,
    /// Names that results have before they are whole, which the kills left.
    early: usize,
    rounds: usize,
}

impl Moments {
    fn new(purpose: &str) -> Moments {
        let given = std::env::var("PLIMSOLL_ENDURANCE_SEED").ok();
        let given = given.and_then(|text| text.parse().ok());
        // Another one each time; the process and the name of a fresh directory are that.
        let place = tempfile::tempdir().unwrap();
        let name = place.path().display().to_string();
        let fresh = name
            .bytes()
            .fold(u64::from(std::process::id()), |all, byte| {
                all.wrapping_mul(31).wrapping_add(byte.into())
            });
        let seed = given.unwrap_or(fresh);
        Moments {
            rng: Rng::new(Seed(seed).derive(purpose, 0)),
            seed,
            first_kills: 0,
            kills: 0,
            early: 0,
            rounds: 0,
        }
    }

    /// Kills a command somewhere in its work, razes, and looks at what is left. One that ended before, on a
    /// fast machine, is begun again and killed within the time that it took.
    fn kill(&mut self, lab: &Lab, command: &LastingCommand) {
        let mut within_ms = command.takes_ms;
        for _ in 0..TRIES {
            let Some(took_ms) = self.kill_within(lab, command, within_ms) else {
                self.first_kills += 1;
                return;
            };
            within_ms = took_ms;
        }
    }

    /// The same once; the milliseconds that it took if it ended by itself.
    fn kill_within(&mut self, lab: &Lab, command: &LastingCommand, within_ms: u64) -> Option<u64> {
        self.rounds += 1;
        let round = self.rounds;
        for name in command.files(round) {
            std::fs::write(lab.path(&name), OLD).unwrap();
        }
        let words = command.words(round);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let context = format!("{}, seed {}", command.name(), self.seed);
        let ended_ms = self.kill_once(lab, &words, within_ms);
        // The next command may be killed as well: the same one again, and the raze of both.
        match self.rng.below(4) {
            0 => drop(self.kill_once(lab, &words, within_ms)),
            1 => drop(self.kill_once(lab, &["raze"], RAZE_MS)),
            _ => {}
        }
        let razed = lab.run(&["raze"]);
        assert_eq!(
            razed.status.code(),
            Some(0),
            "{context}: {}",
            text(&razed.stderr)
        );
        let left = [left_after_a_second(lab), files_below(&lab.path("state"))].concat();
        assert!(left.is_empty(), "{context}: {left:?}");
        for place in ["target", "other"] {
            let found = std::fs::read_dir(lab.path(place)).unwrap().count();
            assert_eq!(found, 0, "{context}: in {place}");
        }
        for name in command.files(round) {
            let path = lab.path(&name);
            let is_old = std::fs::read(&path).is_ok_and(|bytes| bytes == OLD.as_bytes());
            assert!(
                is_old || is_whole(&path),
                "{context}: {name} is neither old nor whole"
            );
        }
        self.early += early(lab).len();
        ended_ms
    }

    /// Starts a command and kills it within this time; the milliseconds that it took if it ended by itself.
    fn kill_once(&mut self, lab: &Lab, words: &[&str], within_ms: u64) -> Option<u64> {
        let mut child = lab.start(words);
        let moment_ms = self.rng.below(within_ms);
        let mut waited_ms = 0;
        while waited_ms < moment_ms && child.try_wait().unwrap().is_none() {
            let step_ms = STEP_MS.min(moment_ms - waited_ms);
            pause(step_ms);
            waited_ms += step_ms;
        }
        let has_ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait_with_output().unwrap();
        self.kills += usize::from(!has_ended);
        has_ended.then_some(waited_ms.max(1))
    }
}

impl Drop for Moments {
    fn drop(&mut self) {
        let (kills, first_kills, seed) = (self.kills, self.first_kills, self.seed);
        let told = format!(
            "{kills} kills of living processes, of which {first_kills} were the first of their command; seed {seed}"
        );
        let _ = writeln!(std::io::stderr(), "{told}");
    }
}

/// Names that results have before they are whole.
fn early(lab: &Lab) -> Vec<String> {
    let entries = std::fs::read_dir(lab.path(".")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with('.') && name.ends_with(".tmp"))
        .collect()
}

/// How often each command is killed: `usual` times, and more if `PLIMSOLL_ENDURANCE` is set.
fn times(usual: usize) -> usize {
    let more = std::env::var("PLIMSOLL_ENDURANCE").ok();
    usual + more.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn a_result_is_whole_or_what_was_there_before() {
    let lab = prepared();
    let mut moments = Moments::new("files");
    for command in WRITERS {
        for _ in 0..times(2) {
            moments.kill(&lab, command);
            let words = command.words(moments.rounds);
            let again = lab.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let context = format!("{}, seed {}", command.name(), moments.seed);
            assert_eq!(
                again.status.code(),
                Some(0),
                "{context}: {}",
                text(&again.stderr)
            );
        }
    }
    assert!(
        moments.first_kills > 0,
        "all had ended before they were killed"
    );
    // A result has a name only for the instant in which it takes its own, where the file system has files
    // without a name.
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    let has_nameless = rustix::fs::open(lab.path("."), flags, rustix::fs::Mode::RUSR).is_ok();
    assert!(!has_nameless || moments.early <= 1, "{:?}", early(&lab));
}

#[test]
fn a_run_is_reported_and_the_same_command_goes_on() {
    let lab = prepared();
    let mut moments = Moments::new("runs");
    let on_stacks = match crate::cli::nfs::missing(&lab, "raid1").is_empty() {
        true => ON_STACKS,
        false => {
            skipped("kills of runs on stacks", "their programs are missing");
            &[]
        }
    };
    for command in RUNNERS.iter().chain(on_stacks) {
        for _ in 0..times(1) {
            moments.kill(&lab, command);
            let words = command.words(moments.rounds);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let run = command
                .run
                .unwrap_or_default()
                .replace('@', &moments.rounds.to_string());
            let context = format!("{}, seed {}", command.name(), moments.seed);
            let told = |args: &[&str]| {
                let output = lab.run(args);
                (output.status.code(), text(&output.stderr))
            };
            let events = std::fs::read_to_string(lab.path(&run).join("events.jsonl"));
            let is_over = events
                .as_ref()
                .is_ok_and(|text| text.contains("\"finished\""));
            if lab.path(&run).join("manifest.json").exists() {
                let (code, errors) = told(&["report", &run]);
                assert_eq!(code, Some(0), "{context}: {errors}");
            }
            if !is_over {
                let (code, errors) = told(&words);
                assert_eq!(code, Some(0), "{context}: {errors}");
            }
            let report = lab.json(&["report", &run, "--json"]);
            assert_eq!(report["complete"], true, "{context}");
        }
    }
    assert!(
        moments.first_kills > 0,
        "all had ended before they were killed"
    );
}

#[test]
fn whatever_else_is_killed_leaves_nothing_that_raze_does_not_take_away() {
    let lab = prepared();
    let mut moments = Moments::new("others");
    for command in OTHERS {
        for _ in 0..times(1) {
            if command.words.starts_with(&["stack", "down"]) {
                lab.run(&["stack", "up", "local", "--size", "512M"]);
            }
            moments.kill(&lab, command);
            goes_on(&lab, command, &moments);
        }
    }
    assert!(
        moments.first_kills > 0,
        "all had ended before they were killed"
    );
}

/// The same command again comes to its end: with what is there of it, or anew. A recording and a ledger are
/// evidence, which is never written over: then another name is asked for, and the command goes on under it.
fn goes_on(lab: &Lab, command: &LastingCommand, moments: &Moments) {
    let context = format!("{}, seed {}", command.name(), moments.seed);
    let words = command.words(moments.rounds);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = |words: &[&str]| {
        let output = lab.run(words);
        let told = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{context}: {words:?}: {told}"
        );
    };
    let output_of = |option: &str| {
        let at = words.iter().position(|word| *word == option);
        at.map(|at| words[at + 1]).unwrap_or_default()
    };
    let (run, ledger) = (output_of("-o"), output_of("--ledger"));
    let under_another_name = |name: &str| {
        let refused = lab.run(&words);
        let told = text(&refused.stderr);
        let is_refused = refused.status.code() == Some(2) && told.contains("another name");
        assert!(is_refused, "{context}: {told}");
        let other = format!("{name}-again");
        let renamed = |word: &&str| {
            if *word == name {
                other.clone()
            } else {
                (*word).into()
            }
        };
        let renamed: Vec<String> = words.iter().map(renamed).collect();
        done(&renamed.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let has_begun = |file: &str| lab.path(file).exists();
    let events = std::fs::read_to_string(lab.path(run).join("events.jsonl"));
    match words[..] {
        ["serve", ..] => serves_again(lab, &words, &context),
        ["stack", "up", ..] => {
            done(&words);
            done(&["stack", "down", "local"]);
        }
        // One that is taken down, or razed, is not there to be taken down again.
        ["stack", "down", ..] => {
            done(&["stack", "up", "local", "--size", "512M"]);
            done(&words);
        }
        ["record", ..] if has_begun(&format!("{run}.meta")) => under_another_name(run),
        ["ledger", "write", ..] if has_begun(ledger) => under_another_name(ledger),
        _ if events.is_ok_and(|text| text.contains("\"finished\"")) => done(&["report", run]),
        _ => done(&words),
    }
    let left = [left(lab), files_below(&lab.path("state"))].concat();
    assert!(left.is_empty(), "{context}: {left:?}");
}

/// A page server has no end of its own: it listens, and ends when it is asked to.
fn serves_again(lab: &Lab, words: &[&str], context: &str) {
    let mut child = lab.start(words);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_listening = lines.any(|line| line.unwrap().contains("http://127.0.0.1:"));
    signal(child.id(), "-TERM");
    let ended = child.wait().unwrap();
    assert!(is_listening, "{context}: it says no address");
    assert_eq!(ended.code(), Some(0), "{context}");
}

/// Whether the journal of the stack names a change that is not over.
fn is_in_a_change(lab: &Lab) -> bool {
    let lines = std::fs::read_to_string(lab.path("state/journals/stack-raid1.jsonl")).unwrap();
    let mut lines = lines.lines().rev();
    let ends = lines.find(|line| line.contains("\"changed\"") || line.contains("\"changing\""));
    ends.is_some_and(|line| line.contains("\"changing\""))
}

/// Killed between the end of a part's run and its record.
#[test]
fn a_part_that_was_measured_whole_is_not_measured_again() {
    let lab = prepared();
    let words = ["repro", "experiment.toml", "-o", "rep"];
    let run = |context: &str| {
        let output = lab.run(&words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{context}: {told}");
    };
    run("first");
    let of_part = |name: &str| lab.path("rep/parts").join(name);
    let events = std::fs::read(of_part("first/events.jsonl")).unwrap();
    for lost in ["first.json", "first/report.html"] {
        std::fs::remove_file(of_part(lost)).unwrap();
    }
    run("again");
    let kept = std::fs::read(of_part("first/events.jsonl")).unwrap();
    assert!(kept == events, "the part was measured again");
    for made in ["first.json", "first/report.html"] {
        assert!(of_part(made).exists(), "{made}");
    }
}

/// A piece of the file that every change must keep.
const WITNESS: &[u8] = b"plimsoll";

const MIB: usize = 1 << 20;

/// Where the file system of the stack is mounted, as the kernel tells it.
fn mount_of(lab: &Lab) -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let base = lab.path(".").canonicalize().unwrap();
    let is_it = |words: &Vec<&str>| words[2] == "btrfs" && Path::new(words[1]).starts_with(&base);
    mounts.find(is_it).expect("the stack is mounted")[1].into()
}

/// How many disks the file system has, as its own program tells it.
fn disks_of(mount: &Path) -> usize {
    let mount = mount.display().to_string();
    let told = program("btrfs", &["filesystem", "show", &mount]).expect("btrfs answers");
    told.lines()
        .filter(|line| line.trim_start().starts_with("devid"))
        .count()
}

/// Kills one of the changes, drawn by the seed; more of them if `PLIMSOLL_ENDURANCE` is set.
#[test]
fn a_change_of_a_stack_that_is_killed_leaves_nothing_after_raze() {
    let lab = prepared();
    if !crate::cli::nfs::missing(&lab, "raid1").is_empty() {
        return skipped("kills of changes of stacks", "their programs are missing");
    }
    let mut moments = Moments::new("changes");
    let (mut cut_off, mut continued) = (0, 0);
    for _ in 0..times(1) {
        let drawn = usize::try_from(moments.rng.below(CHANGES.len() as u64)).unwrap();
        let (last, before) = CHANGES[drawn].split_last().unwrap();
        let context = format!("stack {last}, seed {}", moments.seed);
        let done = |words: &[&str]| {
            let output = lab.run(words);
            let told = text(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{context}: {words:?}: {told}"
            );
        };
        done(&["stack", "up", "raid1", "--size", "300M"]);
        before
            .iter()
            .for_each(|word| done(&["stack", word, "raid1"]));
        let mount = mount_of(&lab);
        std::fs::write(mount.join("witness"), WITNESS.repeat(MIB)).unwrap();
        let change = ["stack", last, "raid1"];
        moments.kill_once(&lab, &change, CHANGE_MS);
        // The same again makes what was cut off. One that had just ended is over.
        let is_cut_off = is_in_a_change(&lab);
        cut_off += usize::from(is_cut_off);
        if is_cut_off && moments.rng.below(4) != 0 {
            done(&change);
            continued += 1;
            assert!(!is_in_a_change(&lab), "{context}");
            assert_eq!(
                disks_of(&mount),
                2 + usize::from(*last == "grow"),
                "{context}"
            );
        }
        // A rebuild that was cut off may have unmounted the file system.
        if !is_in_a_change(&lab) {
            let kept = std::fs::read(mount.join("witness")).unwrap();
            let is_whole = kept == WITNESS.repeat(MIB);
            assert!(is_whole, "{context}: the witness differs");
        }
        done(&["raze"]);
        let left = [left(&lab), files_below(&lab.path("state"))].concat();
        assert!(left.is_empty(), "{context}: {left:?}");
    }
    let told =
        format!("{continued} of {cut_off} changes that were cut off were made by the same command");
    writeln!(std::io::stderr(), "{told}").unwrap();
}

/// The names of commands in a help text: those of the program are in lists by task.
fn commands_of(lab: &Lab, words: &[&str]) -> Vec<String> {
    let help = text(&lab.run(&[words, &["--help"]].concat()).stdout);
    let (list, _) = help
        .split_once("Options:\n")
        .expect("options behind the commands");
    let (_, list) = list
        .split_once("Usage:")
        .expect("a usage before the commands");
    let names = list
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_one = |name: &&str| !name.is_empty() && *name != "help";
    names.filter(is_one).map(str::to_owned).collect()
}

#[test]
fn every_command_is_killed_or_has_a_reason_not_to_be() {
    let lab = Lab::new();
    let mut names = commands_of(&lab, &[]);
    // Of these some subcommands are killed.
    for above in ["ledger", "stack"] {
        names.retain(|name| name != above);
        let below = commands_of(&lab, &[above]);
        names.extend(below.iter().map(|name| format!("{above} {name}")));
    }
    let changes = CHANGES.iter().flat_map(|words| words.last());
    let changes = changes.map(|word| format!("stack {word}"));
    let all = [WRITERS, RUNNERS, OTHERS, ON_STACKS].concat();
    let killed: Vec<String> = all
        .iter()
        .map(LastingCommand::name)
        .chain(changes)
        .collect();
    for name in &names {
        let begins = |one: &String| one == name || one.starts_with(&format!("{name} "));
        let is_killed = killed.iter().any(begins);
        let is_excused = NOT_KILLED_HERE.iter().any(|(one, _)| one == name);
        assert!(
            is_killed != is_excused,
            "{name}: killed {is_killed}, excused {is_excused}"
        );
    }
    let is_unknown = |one: &str| !names.iter().any(|name| name == one);
    let stale = NOT_KILLED_HERE.iter().find(|(one, _)| is_unknown(one));
    assert_eq!(stale, None, "no such command");
}
