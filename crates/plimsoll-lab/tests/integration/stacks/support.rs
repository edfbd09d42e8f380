// SPDX-License-Identifier: Apache-2.0
//! The parts that tests of stacks share: the machine, its contents, the time.

use plimsoll_lab::stacks::{self, StackConfig};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::{HostPool, LocalHost, MARK_VARIABLE, SearchPath};
use plimsoll_machine::journal::StateDir;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn host() -> LocalHost {
    LocalHost::new(SearchPath::new(&std::env::var_os("PATH").unwrap()))
}

/// Whether the stacks of disks can be made here; says why not.
pub(crate) fn is_possible(test: &str) -> bool {
    are_possible(test, &["local", "nbd", "iscsi", "raid1", "raid5", "raid10"])
}

/// Whether a stack can be made here; says why not.
pub(crate) fn is_stack_possible(test: &str, stack: &str) -> bool {
    are_possible(test, &[stack])
}

fn are_possible(test: &str, stacks: &[&str]) -> bool {
    let mut reasons = BTreeSet::new();
    for stack in stacks {
        let choice = StackConfig::parse(stack).unwrap();
        let place = choice.stack.shape(&choice).unwrap().place;
        if let Err(unmet) = stacks::manage::needs(&choice, &place).check(&host()) {
            reasons.extend(unmet.0);
        }
    }
    let reasons: Vec<String> = reasons.into_iter().collect();
    if !reasons.is_empty() {
        say_skipped(test, &reasons.join("; "));
    }
    reasons.is_empty()
}

/// Whether something is missing here for this stack; says what.
pub(crate) fn missing(test: &str, choice: &StackConfig) -> bool {
    let place = choice.stack.shape(choice).unwrap().place;
    match stacks::manage::needs(choice, &place).check(&host()) {
        Ok(()) => false,
        Err(unmet) => {
            say_skipped(test, &unmet.to_string());
            true
        }
    }
}

/// Says it on the standard error stream itself: what is printed is kept back when a test passes.
pub(crate) fn say_skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// A test that fails in the middle leaves no stack standing.
pub(crate) struct RazedAtTheEnd<'a>(pub(crate) &'a StateDir);

impl Drop for RazedAtTheEnd<'_> {
    fn drop(&mut self) {
        let _ = raze_all(self.0, &mut HostPool::new(host()));
    }
}

/// Traces of this place on the machine: mounts, loop devices, processes, files.
pub(crate) fn traces(place: &Path) -> BTreeSet<String> {
    let place_text = place.to_str().unwrap();
    let mut traces = BTreeSet::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = mounts.lines().filter(|line| line.contains(place_text));
    traces.extend(ours.map(|line| format!("mount {line}")));
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|file| file.contains(place_text)) {
            traces.insert(format!("loop {}", entry.path().display()));
        }
    }
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
        let (environ, arguments) = (read("environ"), read("cmdline"));
        let is_marked = environ
            .split(|&byte| byte == 0)
            .any(|variable| variable.starts_with(MARK_VARIABLE.as_bytes()));
        // tgtd names the place only in a variable.
        let both = [environ, arguments].concat();
        if is_marked && String::from_utf8_lossy(&both).contains(place_text) {
            traces.insert(format!("process {}", entry.path().display()));
        }
    }
    for base in [place.join("stacks"), place.join("journals")] {
        let entries = fs::read_dir(base).into_iter().flatten().flatten();
        traces.extend(entries.map(|entry| format!("file {}", entry.path().display())));
    }
    traces
}

pub(crate) fn check_nothing_left(place: &Path) {
    // A mount is in every view of the machine that is just being made: until that view is done, its
    // loop device is in use.
    let mut left = traces(place);
    for _ in 0..50 {
        if left.is_empty() {
            return;
        }
        pause(Duration::from_millis(100));
        left = traces(place);
    }
    panic!("left behind: {left:#?}");
}

pub(crate) fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test measures how long it takes"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// Whether a self-test of flushes saw nothing since the disk is not its server's alone.
pub(crate) fn is_of_shared_disk(why: &str) -> bool {
    why.contains("other processes flush") || why.contains("on the same one")
}
