// SPDX-License-Identifier: Apache-2.0
//! A real file system that stands still for two seconds, and whether the report says so.
//!
//! Needs root: an ext4 of its own on a loop device is frozen. Whatever happens, it is thawed,
//! unmounted and gone afterwards.
#![expect(
    clippy::disallowed_methods,
    reason = "the test runs the programs of the system that freeze and mount"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::{EngineChoice, prepare};

use crate::common::{cell, model};

/// A mounted file system of its own; dropping it thaws, unmounts and removes it.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    fn new() -> Result<Self, String> {
        let mounted = Mounted {
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        };
        let image = mounted.folder.path().join("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(256 << 20).unwrap();
        std::fs::create_dir(mounted.point()).unwrap();
        run("mkfs.ext4", &["-q", "-F"], &[&image])?;
        run("mount", &["-o", "loop"], &[&image, &mounted.point()])?;
        Ok(mounted)
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mount")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Thawing what is not frozen fails, and unmounting what is not mounted: both are fine.
        let _ = run("fsfreeze", &["-u"], &[&self.point()]);
        // The kernel lets go of a ring's file a moment after the ring has been closed.
        for _ in 0..50 {
            if run("umount", &[], &[&self.point()]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = run("umount", &["-l"], &[&self.point()]);
    }
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = command.args(options).args(paths).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{program}: {said}"))
        }
    }
}

/// Freezes `point` after `wait` for about `length`; how long it was frozen.
fn freeze(point: &Path, wait: Duration, length: Duration) -> Nanos {
    let clock = HostClock::start();
    std::thread::sleep(wait);
    run("fsfreeze", &["-f"], &[point]).unwrap();
    let from = clock.now();
    std::thread::sleep(length);
    let frozen = clock.now().since(from);
    run("fsfreeze", &["-u"], &[point]).unwrap();
    frozen
}

#[test]
#[ignore = "a measurement of 10 s that needs root and a machine with a core to spare"]
fn a_frozen_file_system_shows_in_the_99th_percentile_of_the_response() {
    let mounted = match Mounted::new() {
        Ok(mounted) => mounted,
        Err(reason) => {
            let mut screen = std::io::stderr();
            writeln!(screen, "SKIPPED: cannot mount a file system: {reason}").unwrap();
            return;
        }
    };
    let point = &mounted.point();
    // Only writes wait for a frozen file system.
    let workload = Workload::Model(Box::new(model(vec![cell(10, 0, 10_000)])));
    let place = OpenTarget::in_directory(point, 4096).unwrap();
    let (stop, choice) = (AtomicBool::new(false), EngineChoice::Auto);
    let mut prepared = prepare(place, &workload, None, Seed(1), choice, &stop).unwrap();
    let (outcome, frozen) = std::thread::scope(|scope| {
        let (wait, length) = (Duration::from_secs(4), Duration::from_secs(2));
        let freezer = scope.spawn(move || freeze(point, wait, length));
        let options = RunOptions::default();
        let outcome = prepared.run(&options, &stop, &mut |_| {});
        (outcome, freezer.join())
    });
    let (outcome, frozen) = (outcome.unwrap(), frozen.unwrap());
    assert_eq!((outcome.stats.ops(), outcome.stats.errors()), (10_000, 0));
    // Of 10,000 operations the hundred that came first wait longest: 100 ms of them.
    let expect = frozen.as_secs_f64() - 0.1;
    let p99 = outcome.stats.response().quantile_ns(0.99) as f64 / 1e9;
    assert!((p99 / expect - 1.0).abs() < 0.05, "{p99} for {expect}");
}
