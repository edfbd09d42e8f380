// SPDX-License-Identifier: Apache-2.0
//! A block device as the target: a loop device, which needs root.
#![expect(
    clippy::disallowed_methods,
    reason = "the test runs the program of the system that makes loop devices"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::target::DeviceIdentity;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::workload::blocks::{BlockIoMixEntry, BlockIoOpKind};
use plimsoll_engine::RunOptions;
use plimsoll_engine::device_identity;
use plimsoll_engine::{EngineChoice, prepare};
use plimsoll_engine::{EngineError, OpenTarget};

use super::{GO, MIB, blocks, group, ready};

/// A loop device of its own; dropping it takes it away.
struct Loop {
    folder: tempfile::TempDir,
    device: PathBuf,
}

impl Loop {
    fn new(bytes: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image)
            .unwrap()
            .set_len(bytes)
            .unwrap();
        let mut command = Command::new("losetup");
        let output = command.args(["--find", "--show"]).arg(&image).output();
        let output = output.map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Loop {
            folder,
            device: device.into(),
        })
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn open(path: &Path, identity: &DeviceIdentity) -> Result<OpenTarget, EngineError> {
    OpenTarget::of(&NodeTarget::Device {
        path: path.into(),
        direct_align_bytes: 4096,
        identity: identity.clone(),
        exclusive: true,
    })
}

#[test]
fn a_device_is_filled_before_it_is_read_and_claimed_while_it_is_used() {
    let bytes = 8 * MIB;
    let device = match Loop::new(bytes) {
        Ok(device) => device,
        Err(reason) => {
            let mut screen = std::io::stderr();
            writeln!(screen, "SKIPPED: cannot make a loop device: {reason}").unwrap();
            return;
        }
    };
    let identity = device_identity(&device.device).unwrap();
    assert_eq!(identity.bytes, bytes);
    let mix = |kind| vec![BlockIoMixEntry::of(kind, 4096)];
    let holds = |range: std::ops::Range<usize>| {
        let image = std::fs::read(device.image()).unwrap();
        image[range].chunks(4096).all(|b| b.iter().any(|x| *x != 0))
    };
    // Writes need nothing to be there.
    let part = group("data", |g| {
        (g.extent.bytes, g.mix, g.depth) = (MIB, mix(BlockIoOpKind::Write), 8);
    });
    let mut prepared = ready(
        open(&device.device, &identity).unwrap(),
        &blocks(vec![part]),
    );
    assert!(!holds(0..4096), "a device that is only written was filled");
    let choice = EngineChoice::Auto;
    let reads = blocks(vec![group("data", |g| {
        (g.extent.bytes, g.mix, g.depth) = (bytes, mix(BlockIoOpKind::Read), 8);
    })]);
    let second = open(&device.device, &identity);
    let error = second.unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    let outcome = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stats.0[&OpKind::Write].ops(), 256);
    assert_eq!(outcome.stats.errors(), 0);
    assert!(!outcome.generator.engine.contains("page cache"));
    prepared.remove().unwrap();
    // Reads do, all over what is read.
    let mut prepared = ready(open(&device.device, &identity).unwrap(), &reads);
    let whole = usize::try_from(bytes).unwrap();
    assert!(holds(0..whole));
    let outcome = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    assert_eq!(outcome.unwrap().stats.0[&OpKind::Read].ops(), bytes / 4096);
    drop(prepared);
    let before = std::fs::read(device.image()).unwrap();
    drop(ready(open(&device.device, &identity).unwrap(), &reads));
    let after = std::fs::read(device.image()).unwrap();
    assert!(before == after, "a device that holds data is used as it is");
    let too_large = blocks(vec![group("data", |g| g.extent.bytes = 2 * bytes)]);
    let refused = prepare(
        open(&device.device, &identity).unwrap(),
        &too_large,
        None,
        Seed(1),
        choice,
        &GO,
    );
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("has 8.00 MiB"), "{error}");
}

#[test]
fn what_is_no_device_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = device_identity(file.path()).unwrap_err().to_string();
    assert!(error.contains("is not a block device"), "{error}");
}

/// Consent is given for a device, not for a name: the link leads to another one when it is opened.
#[test]
fn what_has_the_name_of_a_device_later_is_not_written_to() {
    let bytes = 8 * MIB;
    let (meant, other) = match (Loop::new(bytes), Loop::new(bytes)) {
        (Ok(meant), Ok(other)) => (meant, other),
        (Err(reason), _) | (_, Err(reason)) => {
            let mut screen = std::io::stderr();
            writeln!(screen, "SKIPPED: cannot make a loop device: {reason}").unwrap();
            return;
        }
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let link = folder.path().join("link");
    let lead = |to: &Path| {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(to, &link).unwrap();
    };
    lead(&meant.device);
    let identity = device_identity(&link).unwrap();
    let reads = blocks(vec![group("data", |g| {
        g.extent.bytes = bytes;
        g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Read, 4096)];
    })]);
    let prepare = || {
        let ground = open(&link, &identity)?;
        prepare(ground, &reads, None, Seed(1), EngineChoice::Auto, &GO)
    };
    lead(&other.device);
    let error = prepare().unwrap_err().to_string();
    assert!(error.contains("another device"), "{error}");
    let image = std::fs::read(other.image()).unwrap();
    assert!(image.iter().all(|byte| *byte == 0), "it was written to");
    lead(&meant.device);
    // The link may also change between two openings of one run.
    let mut prepared = prepare().unwrap();
    lead(&other.device);
    let error = prepared.run(&RunOptions::default(), &GO, &mut |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("another device"), "{error}");
    let image = std::fs::read(other.image()).unwrap();
    assert!(image.iter().all(|byte| *byte == 0), "it was written to");
}
