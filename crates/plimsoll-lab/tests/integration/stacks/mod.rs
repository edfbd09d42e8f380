// SPDX-License-Identifier: Apache-2.0
//! Stacks for real: raised, written to, razed, and nothing is left, also after `kill -9`.
//!
//! Needs root and the programs of the stacks; says loudly when it is skipped. Everything lies in
//! a temporary directory, on uncommon ports, and carries marks of its own.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test: it panics, talks, waits and starts itself"
)]

mod ceph;
mod crypt;
mod dead;
mod disks;
mod gluster;
mod nfs;
mod own;
mod strangers;
mod support;

use plimsoll_core::plan::PlanAction;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_lab::stacks::{self, StackConfig, StackUpOptions, UpError};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::facts;
use plimsoll_machine::host::{Host, command_mark};
use plimsoll_machine::journal::{JournalContents, StateDir};
use plimsoll_machine::raise::list;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{
    RazedAtTheEnd, check_nothing_left, host, is_possible, now, pause, say_skipped, seconds, traces,
};

/// Tells a copy of this test program to raise a stack in this state directory and do nothing else.
const VICTIM_STATE: &str = "PLIMSOLL_TEST_VICTIM_STATE";

/// Tells a copy of this test program to skip a test.
const SKIPS: &str = "PLIMSOLL_TEST_SKIPS";

/// The stack it is to raise, and the first port.
const VICTIM_STACK: &str = "PLIMSOLL_TEST_VICTIM_STACK";
const VICTIM_PORT: &str = "PLIMSOLL_TEST_VICTIM_PORT";

/// Small, so that making the file systems takes little time.
const SIZE_BYTES: u64 = 256 << 20;

fn choice(name: &str) -> StackConfig {
    StackConfig::parse(name).unwrap()
}

fn options(state: &StateDir, first_port: u16) -> StackUpOptions {
    StackUpOptions {
        size_bytes: SIZE_BYTES,
        first_port,
        ..StackUpOptions::new(state.stacks())
    }
}

/// Writes and reads a file with direct I/O; prints the rates and what reached the disk below.
fn exercise(dir: &Path, base: &Path, kept_bytes_max: u64) {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    const READS: usize = 2;
    // Aligned by hand: the pieces start at a multiple of 4096 in a larger buffer.
    let mut memory = vec![0_u8; PIECE + 4096];
    let at = memory.as_ptr().align_offset(4096);
    let piece = &mut memory[at..at + PIECE];
    let direct = 0o40000;
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(direct)
        .open(dir.join("data"))
        .unwrap();
    let device = facts::device_of(base);
    let bytes = || device.as_ref().map(|d| facts::device_bytes(d).unwrap());
    let begun = (bytes(), now());
    for n in 0..PIECES {
        piece.fill(u8::try_from(n % 251).unwrap());
        file.write_all(piece).unwrap();
    }
    file.sync_all().unwrap();
    let written = (bytes(), now());
    // Twice: what a first read leaves in a server's memory would answer the second.
    for _ in 0..READS {
        file.seek(SeekFrom::Start(0)).unwrap();
        for n in 0..PIECES {
            file.read_exact(piece).unwrap();
            assert!(
                piece.iter().all(|&b| usize::from(b) == n % 251),
                "piece {n}"
            );
        }
    }
    let read_seconds = seconds(written.1) / READS as f64;
    let mb = (PIECE * PIECES) as f64 / 1e6;
    eprintln!(
        "  wrote {:.0} MB/s, read {:.0} MB/s",
        mb / (written.1 - begun.1).as_secs_f64(),
        mb / read_seconds
    );
    if let (Some(begun), Some(written), Some(end)) = (begun.0, written.0, bytes()) {
        let on_disk = written.written_bytes - begun.written_bytes;
        let from_disk = end.read_bytes - written.read_bytes;
        eprintln!(
            "  the disk wrote {} and read {} MB",
            on_disk / 1_000_000,
            from_disk / 1_000_000
        );
        // No cache of the server may have answered beyond what its page says: what was read came from
        // the disk.
        assert!(
            from_disk + kept_bytes_max * READS as u64 >= (PIECE * PIECES * READS) as u64,
            "a cache answered reads"
        );
    }
}

fn up_exercise_down(name: &str, first_port: u16) {
    if !is_possible(name) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = host();
    let options = options(&state, first_port);
    let _guard = RazedAtTheEnd(&state);
    let began = now();
    let up = stacks::up(&choice(name), &options, &state, &mut host).unwrap();
    eprintln!(
        "{name}: up in {:.2} s at {}",
        seconds(began),
        up.mount_dir().display()
    );
    let again = stacks::up(&choice(name), &options, &state, &mut host).unwrap_err();
    assert!(matches!(again, UpError::AlreadyUp { .. }), "{again}");
    let status = stacks::status(&state, &mut host).unwrap();
    assert!(
        status[0].standing && status[0].problems.is_empty(),
        "{status:?}"
    );
    assert!(traces(place.path()).len() > 6, "{:?}", traces(place.path()));
    // nbdkit's `cache=none` lets go of what was written by 8 requests of up to 2 MiB when others follow, so
    // the last of them stay for every read, with pages of up to 2 MiB that reach beyond them.
    // Seen on a busy machine: 25 MiB, since pages that the kernel keeps in groups leave its cache as one.
    let kept_bytes_max = if name == "nbd" { 16 * (2 << 20) } else { 0 };
    exercise(up.mount_dir(), &options.base_dir, kept_bytes_max);
    let began = now();
    let razed = stacks::down(name, &state, &mut host).unwrap();
    eprintln!("{name}: down in {:.2} s", seconds(began));
    assert!(razed.is_clean() && razed.warnings.is_empty(), "{razed:?}");
    check_nothing_left(place.path());
    for mark in ["tgtd0", "qsd0", "nbdfuse0", "watch0"] {
        assert_eq!(
            host.marked(&format!("plimsoll-{}-{mark}", up.id)),
            [0_u32; 0]
        );
    }
}

#[test]
fn iscsi_comes_up_works_and_leaves_nothing() {
    up_exercise_down("iscsi", 23_260);
}

#[test]
fn nbd_comes_up_works_and_leaves_nothing() {
    up_exercise_down("nbd", 23_255);
}

#[test]
fn raid1_comes_up_works_and_leaves_nothing() {
    up_exercise_down("raid1", 23_269);
}

#[test]
fn local_comes_up_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = host();
    let up = stacks::up(&choice("local"), &options(&state, 1), &state, &mut host).unwrap();
    fs::write(up.mount_dir().join("file"), "x").unwrap();
    assert!(stacks::down("local", &state, &mut host).unwrap().is_clean());
    check_nothing_left(place.path());
}

#[test]
fn a_port_in_use_is_passed_over() {
    if !is_possible("port in use") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (options, mut host) = (options(&state, port), host());
    let planned = stacks::manage::plan(&choice("iscsi"), &options, &mut host).unwrap();
    assert_ne!(planned.ask.site.servers[0].first_port, port);
    check_nothing_left(place.path());
}

/// Not a test: what a copy of this program does when the plan of a stack starts it, as if it were
/// plimsoll itself.
#[test]
fn watchdog() {
    if let Some(watchdog) = plimsoll_machine::host::watchdog::HostWatchdog::from_environment() {
        let said = watchdog.unwrap().watch(host().clock()).unwrap();
        eprintln!("{said}");
    }
}

/// Not a test: what a copy of this program does when the next test starts it.
#[test]
fn skipping() {
    if std::env::var_os(SKIPS).is_some() {
        say_skipped("example", "something is missing");
    }
}

#[test]
fn a_skipped_test_says_so_although_it_passes() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stacks::skipping"])
        .env(SKIPS, "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "SKIPPED: example: something is missing\n");
}

/// Not a test: what a copy of this program does when the next tests start it.
#[test]
fn victim() {
    let Some(place) = std::env::var_os(VICTIM_STATE) else {
        return;
    };
    let state = StateDir::new(place);
    let name = std::env::var(VICTIM_STACK).unwrap();
    let port = std::env::var(VICTIM_PORT).unwrap().parse().unwrap();
    let up = stacks::up(&choice(&name), &options(&state, port), &state, &mut host());
    up.unwrap();
    // A moment in which it stands; then the tests can kill it while it undoes.
    pause(Duration::from_millis(100));
    stacks::down(&name, &state, &mut host()).unwrap();
}

fn start_victim(place: &Path, stack: &str, port: u16) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stacks::victim"])
        .env(VICTIM_STATE, place)
        .env(VICTIM_STACK, stack)
        .env(VICTIM_PORT, port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn record(state: &StateDir) -> Option<JournalContents> {
    list(state).unwrap().into_iter().next()?.record.ok()
}

/// Kills the one who raises as soon as the journal has `steps` steps, `delay` later.
fn kill_at(stack: &str, port: u16, steps: usize, delay: Duration) {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut victim = start_victim(place.path(), stack, port);
    let began = now();
    while record(&state).is_none_or(|r| r.entries.len() < steps) {
        let gone = victim.try_wait().unwrap();
        assert!(
            gone.is_none() && seconds(began) < 300.0,
            "it did not get to step {steps}"
        );
        pause(Duration::from_millis(1));
    }
    if record(&state).is_some_and(|r| !r.standing) {
        let refused = raze_all(&state, &mut host()).unwrap();
        if let Some(Err(error)) = refused.first().map(|r| &r.result) {
            let text = error.to_string();
            assert!(text.contains(&format!("process {}", victim.id())), "{text}");
        }
    }
    pause(delay);
    // SIGKILL, without any chance to clean up.
    victim.kill().unwrap();
    victim.wait().unwrap();
    let left = record(&state);
    let mut host = host();
    for razed in raze_all(&state, &mut host).unwrap() {
        let razed = razed.result.unwrap();
        assert!(razed.is_clean(), "{razed:?}");
    }
    if let Some(record) = left {
        // Once more, with nothing there: undoing twice is harmless.
        for entry in record.entries.iter().rev() {
            if let Some(undo) = &entry.step.undo {
                host.carry_out(&record.header.id, undo).unwrap();
            }
        }
        assert_eq!(host.marked(&command_mark(&record.header.id)), [0_u32; 0]);
    }
    check_nothing_left(place.path());
}

#[test]
fn killed_at_any_step_iscsi_leaves_nothing() {
    if !is_possible("killed at any step") {
        return;
    }
    let began = now();
    let (port, mut delay_ms) = (23_280, 0);
    for steps in [2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15] {
        kill_at("iscsi", port, steps, Duration::from_millis(delay_ms % 7));
        delay_ms += 3;
    }
    eprintln!("killed iscsi at 12 steps: {:.1} s", seconds(began));
}

#[test]
fn killed_late_raid1_leaves_nothing() {
    if !is_possible("killed late") {
        return;
    }
    kill_at("raid1", 23_289, 23, Duration::from_millis(5));
}

/// The worst case: the server is dead, so the kernel waits for a disk that never answers, with
/// dirty data. The first pass of undoing ends the rest of the chain, the second finishes.
#[test]
#[ignore = "takes half a minute: unmounting waits for a dead disk"]
fn a_stack_whose_target_died_is_razed() {
    if !is_possible("dead target") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = host();
    let options = options(&state, 23_295);
    let up = stacks::up(&choice("iscsi"), &options, &state, &mut host).unwrap();
    fs::write(up.mount_dir().join("dirty"), vec![1; 8 << 20]).unwrap();
    let mark = format!("plimsoll-{}-tgtd0", up.id);
    host.carry_out(&up.id, &PlanAction::Stop { mark }).unwrap();
    let status = stacks::status(&state, &mut host).unwrap();
    assert!(
        status[0].problems[0].starts_with("tgtd has ended"),
        "{status:?}"
    );
    let began = now();
    let razed = stacks::down("iscsi", &state, &mut host).unwrap();
    eprintln!("dead target: down in {:.1} s", seconds(began));
    for warning in &razed.warnings {
        eprintln!("  warning: {warning}");
    }
    assert!(razed.is_clean(), "{razed:?}");
    check_nothing_left(place.path());
}

/// Kills a process that brings a stack up and down at random moments, so also in the middle of undoing.
#[test]
#[ignore = "takes two minutes; the moments differ each time"]
fn killed_at_random_moments_leaves_nothing() {
    if !is_possible("killed at random moments") {
        return;
    }
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut rng = Rng::new(Seed(seed));
    for round in 0..30 {
        let (stack, longest_ms) = [("iscsi", 2_800), ("raid1", 5_000)][round % 2];
        let delay = Duration::from_millis(rng.below(longest_ms));
        eprintln!("round {round}: {stack}, killed after {delay:?}");
        kill_at(stack, 23_310, 1, delay);
    }
}
