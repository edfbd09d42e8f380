// SPDX-License-Identifier: Apache-2.0
//! Real disks over the network: as slow as configured, secret, failing in time, redundant.

use super::support::{check_nothing_left, host, missing, now, pause, seconds};
use plimsoll_core::plan::PlanAction;
use plimsoll_lab::stacks::{self, StackChange, StackConfig, StackInstance, StackUpOptions};
use plimsoll_machine::host::Host as _;
use plimsoll_machine::journal::StateDir;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// Large enough for xfs.
const SIZE_BYTES: u64 = 320 << 20;

/// A stack that is up, in a state directory that goes with it.
struct Raised {
    place: tempfile::TempDir,
    state: StateDir,
    up: StackInstance,
}

/// Brings a stack up. If a requirement is missing here, prints it and returns `None`.
fn raise(test: &str, stack: &str, first_port: u16) -> Option<Raised> {
    let choice = StackConfig::parse(stack).unwrap();
    if missing(test, &choice) {
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let options = StackUpOptions {
        size_bytes: SIZE_BYTES,
        first_port,
        ..StackUpOptions::new(state.stacks())
    };
    let began = now();
    let up = stacks::up(&choice, &options, &state, &mut host()).unwrap();
    eprintln!("{}: up in {:.2} s", up.name, seconds(began));
    Some(Raised { place, state, up })
}

/// A test that fails leaves nothing behind either.
impl Drop for Raised {
    fn drop(&mut self) {
        let _ = stacks::down(&self.up.name, &self.state, &mut host());
    }
}

impl Raised {
    fn dir(&self) -> &Path {
        self.up.mount_dir()
    }

    fn mark(&self, name: &str) -> String {
        format!("plimsoll-{}-{name}", self.up.id)
    }

    fn stop(&self, name: &str) {
        let mark = self.mark(name);
        let stop = PlanAction::Stop { mark };
        host().carry_out(&self.up.id, &stop).unwrap();
    }

    fn change(&self, verb: StackChange<'_>) {
        let began = now();
        let (name, mut host) = (&self.up.name, host());
        stacks::change(name, verb, None, &self.state, &mut host, &mut |_| {}).unwrap();
        eprintln!("{name}: {verb} in {:.2} s", seconds(began));
    }

    fn down(&self) {
        let razed = stacks::down(&self.up.name, &self.state, &mut host()).unwrap();
        assert!(razed.is_clean(), "{razed:?}");
        check_nothing_left(self.place.path());
    }
}

const PIECE: usize = 4096;

/// One piece, aligned as direct I/O wants it, handed to `work`.
fn with_piece<T>(fill: u8, work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![fill; 2 * PIECE];
    let at = memory.as_ptr().align_offset(PIECE);
    work(&mut memory[at..at + PIECE])
}

fn direct(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let direct = 0o40000;
    let options = options.read(true).write(true).create(true);
    options.custom_flags(direct).open(path).unwrap()
}

/// Seconds that an operation takes on average at depth 1.
fn each_s(times: usize, mut operation: impl FnMut()) -> f64 {
    let began = now();
    (0..times).for_each(|_| operation());
    seconds(began) / times as f64
}

#[test]
fn a_disk_is_as_slow_as_it_is_told() {
    let stack = "nbd(read_delay=5ms,write_delay=10ms)";
    let Some(raised) = raise("slow disk", stack, 23_400) else {
        return;
    };
    let mut file = direct(&raised.dir().join("data"));
    with_piece(7, |piece| file.write_all(piece).unwrap());
    file.sync_all().unwrap();
    let read_s = with_piece(0, |piece| {
        each_s(50, || {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_exact(piece).unwrap();
        })
    });
    let write_s = with_piece(8, |piece| {
        each_s(50, || {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(piece).unwrap();
        })
    });
    eprintln!(
        "5 ms are {:.2} ms, 10 ms are {:.2} ms",
        read_s * 1e3,
        write_s * 1e3
    );
    // Never faster than told; how much slower depends on the machine, so the bound above only
    // says that nothing waits twice or by a different unit.
    assert!((0.005..0.5).contains(&read_s), "{read_s}");
    assert!((0.010..0.5).contains(&write_s), "{write_s}");
    drop(file);
    raised.down();
}

#[test]
fn a_disk_fails_as_it_is_told() {
    let Some(raised) = raise("bad disk", "nbd(xfs,write_errors=100)", 23_410) else {
        return;
    };
    let mut file = direct(&raised.dir().join("data"));
    let error = with_piece(7, |piece| file.write_all(piece)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    drop(file);
    raised.down();
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let Some(raised) = raise("server back", "nbd(btrfs,fail_after=60s)", 23_420) else {
        return;
    };
    let record = stacks::manage::record(&raised.up.name, &raised.state).unwrap();
    let start = record.entries.iter().map(|entry| &entry.step.apply);
    let mut servers = start.filter(
        |action| matches!(action, PlanAction::Start { mark, .. } if *mark == raised.mark("nbdkit0")),
    );
    let server = servers.next().unwrap().clone();
    // A server that is asked to end fails what it has in hand: nothing of a young file system's own.
    let dir = File::open(raised.dir()).unwrap();
    rustix::fs::syncfs(dir).unwrap();
    raised.stop("nbdkit0");
    let path = raised.dir().join("data");
    let writer = std::thread::spawn(move || {
        let mut file = direct(&path);
        with_piece(7, |piece| file.write_all(piece)).and_then(|()| file.sync_all())
    });
    pause(Duration::from_secs(1));
    assert!(!writer.is_finished());
    host().carry_out(&raised.up.id, &server).unwrap();
    writer.join().unwrap().unwrap();
    raised.down();
}

/// The client of iSCSI alone would let everything wait for ever.
#[test]
fn a_disk_whose_target_died_fails_in_time() {
    let Some(raised) = raise("dead target", "iscsi(fail_after=2s)", 23_430) else {
        return;
    };
    let mut file = direct(&raised.dir().join("data"));
    with_piece(7, |piece| file.write_all(piece).unwrap());
    file.sync_all().unwrap();
    raised.stop("tgtd0");
    let began = now();
    file.seek(SeekFrom::Start(0)).unwrap();
    let error = with_piece(0, |piece| file.read_exact(piece)).unwrap_err();
    let waited_s = seconds(began);
    eprintln!("a read failed {waited_s:.1} s after its target had ended: {error}");
    // Which error depends on the moment in which the file below the loop device went.
    assert!(error.raw_os_error().is_some(), "{error}");
    // Without the watchdog it would be minutes.
    assert!(waited_s < 60.0, "{waited_s}");
    drop(file);
    raised.down();
}

#[test]
fn a_disk_with_a_secret_is_refused_without_it_and_nobody_can_read_it() {
    let stack = "iscsi(chap,write_cache=off,sectors=4096)";
    let Some(raised) = raise("secret", stack, 23_440) else {
        return;
    };
    let dir = raised.dir().parent().unwrap();
    let secret = fs::read_to_string(dir.join("chap0.secret")).unwrap();
    let secret = secret.trim_end().as_bytes();
    assert_eq!(secret.len(), 32);
    let has_secret = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(secret.len()).any(|part| part == secret)
    };
    for process in fs::read_dir("/proc").unwrap().flatten() {
        for name in ["cmdline", "environ"] {
            assert!(!has_secret(&process.path().join(name)), "{process:?}");
        }
    }
    for file in raised.state.journal_files().unwrap() {
        assert!(!has_secret(&file), "the journal");
    }
    let with_secret = client_ends_at_once(&raised, true);
    let without = client_ends_at_once(&raised, false);
    assert!(!with_secret.1 && without.1, "{with_secret:?} {without:?}");
    assert!(
        without.0.contains("Authentication failure"),
        "{}",
        without.0
    );
    raised.down();
}

/// A second client of the disk: what it says, and whether it ended by itself as one does that is
/// refused.
fn client_ends_at_once(raised: &Raised, with_secret: bool) -> (String, bool) {
    let record = stacks::manage::record(&raised.up.name, &raised.state).unwrap();
    let mut clients = record
        .entries
        .iter()
        .filter_map(|entry| match &entry.step.apply {
            PlanAction::Start { cmd, mark, .. } if *mark == raised.mark("qsd0") => Some(cmd),
            _ => None,
        });
    let words = clients.next().unwrap().args.iter().map(|arg| match arg {
        plimsoll_core::plan::PlanCommandArg::Text(text) => text.clone(),
        plimsoll_core::plan::PlanCommandArg::LoopOf(file) => file.clone(),
        plimsoll_core::plan::PlanCommandArg::ArrayOf(files) => files.join(" "),
    });
    let words: Vec<String> = words.collect();
    let mut args = vec![words[0].clone(), words[1].clone(), words[2].clone()];
    let disk = words[3].replace(".client", ".stranger");
    args.push(if with_secret {
        disk
    } else {
        disk.replace(",user=plimsoll,password-secret=chap", "")
    });
    let log = raised.place.path().join("stranger.log");
    let mut child = std::process::Command::new("qemu-storage-daemon")
        .args(args)
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let began = now();
    let mut ended = false;
    // One that is let in stays, which is seen for a while; one that is refused must end.
    let limit = if with_secret { 3.0 } else { 300.0 };
    while !ended && seconds(began) < limit {
        ended = child.try_wait().unwrap().is_some();
        pause(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    (fs::read_to_string(log).unwrap(), ended)
}

/// Writes a file whose lines are its name.
fn write_file(dir: &Path, name: &str) {
    let mut file = File::create(dir.join(name)).unwrap();
    let line = format!("{name}\n");
    file.write_all(line.repeat(100_000).as_bytes()).unwrap();
    file.sync_all().unwrap();
}

fn check_file(dir: &Path, name: &str) {
    let text = fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(text.lines().count(), 100_000, "{name}");
    assert!(text.lines().all(|line| line == name), "{name}");
}

/// The effects of the verbs, with data in every state.
fn survives(test: &str, stack: &str, first_port: u16) {
    let Some(raised) = raise(test, stack, first_port) else {
        return;
    };
    let dir = raised.dir();
    write_file(dir, "before");
    raised.change(StackChange::Snapshot);
    fs::remove_file(dir.join("before")).unwrap();
    check_file(&dir.join("snapshot-1"), "before");
    write_file(dir, "whole");
    raised.change(StackChange::Degrade);
    let status = stacks::status(&raised.state, &mut host()).unwrap();
    assert_eq!(status[0].problems, [""; 0], "taken away on purpose");
    write_file(dir, "degraded");
    check_file(dir, "whole");
    raised.change(StackChange::Rebuild);
    for name in ["whole", "degraded"] {
        check_file(dir, name);
    }
    raised.change(StackChange::Grow);
    raised.change(StackChange::Scrub);
    for name in ["whole", "degraded"] {
        check_file(dir, name);
    }
    check_file(&dir.join("snapshot-1"), "before");
    raised.down();
}

#[test]
fn raid1_over_iscsi_loses_a_node_and_grows() {
    survives("raid1", "raid1(fail_after=2s)", 23_450);
}

#[test]
fn raid5_over_nbd_loses_a_node_and_grows() {
    survives("raid5", "raid5(nbd,fail_after=2s)", 23_460);
}

#[test]
fn raid10_over_nbd_loses_a_node_and_grows() {
    survives("raid10", "raid10(nbd,fail_after=2s)", 23_470);
}

/// Lost redundancy is never healthy, and what ends by it is no fault of its own.
#[test]
fn a_stack_without_a_node_is_degraded_and_can_be_used_all_the_same() {
    let Some(raised) = raise("degraded", "raid1", 23_396) else {
        return;
    };
    let status = || {
        stacks::status(&raised.state, &mut host())
            .unwrap()
            .remove(0)
    };
    assert!(status().degraded.is_empty(), "{:?}", status());
    raised.change(StackChange::Degrade);
    let mark = |name: &str| format!("plimsoll-{}-{name}", raised.up.id);
    // nbdfuse ends by itself once a request reaches the lost disk; the test does not wait for that.
    let end = PlanAction::Kill {
        mark: mark("nbdfuse1"),
    };
    host().carry_out(&raised.up.id, &end).unwrap();
    let found = status();
    assert_eq!(found.problems, [""; 0]);
    assert!(found.degraded[0].contains("tgtd1 is gone"), "{found:?}");
    raised.change(StackChange::Rebuild);
    assert!(
        status().degraded.is_empty() && status().problems.is_empty(),
        "{:?}",
        status()
    );
    raised.down();
}

/// One whose daemons are gone, as after the machine was started anew, is not "already up".
#[test]
fn a_stack_of_which_something_has_ended_is_not_up_already() {
    let Some(raised) = raise("ended", "nbd", 23_398) else {
        return;
    };
    let up = || {
        let options = StackUpOptions::new(raised.state.stacks());
        let choice = StackConfig::parse("nbd").unwrap();
        stacks::up(&choice, &options, &raised.state, &mut host()).unwrap_err()
    };
    assert!(up().to_string().contains("already up"), "{}", up());
    let end = PlanAction::Kill {
        mark: format!("plimsoll-{}-nbdkit0", raised.up.id),
    };
    host().carry_out(&raised.up.id, &end).unwrap();
    let error = up().to_string();
    assert!(
        error.contains("nbdkit has ended") && error.contains("stack down"),
        "{error}"
    );
    raised.down();
}
