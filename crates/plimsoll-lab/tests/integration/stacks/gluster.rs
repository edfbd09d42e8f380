// SPDX-License-Identifier: Apache-2.0
//! GlusterFS for real: it keeps data while a node is gone, tells tenants apart, and leaves nothing.

use super::support::{
    RazedAtTheEnd, check_nothing_left, host, is_of_shared_disk, missing, now, pause, seconds,
};
use plimsoll_core::plan::{PlanAction, StackSelfTest};
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestResult, SelfTestStatus, prove};
use plimsoll_lab::stacks::{self, StackChange, StackConfig, StackInstance, StackUpOptions};
use plimsoll_machine::host::{HostError, HostPool, HostResolver};
use plimsoll_machine::journal::StateDir;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A stack that is up, and what it takes to do something to it.
struct Raised {
    place: tempfile::TempDir,
    /// After its place, which is on it.
    _disk: Option<OwnDisk>,
    state: StateDir,
    hosts: HostPool,
    up: StackInstance,
}

/// A file system of the test's own, so that how full the machine's disk is does not matter.
struct OwnDisk(tempfile::TempDir);

impl OwnDisk {
    fn mount() -> Self {
        let at = tempfile::tempdir().unwrap();
        let how = ["-t", "tmpfs", "-o", "size=1g,mode=0700", "plimsoll-test"];
        let mounted = Command::new("mount").args(how).arg(at.path()).status();
        assert!(
            mounted.unwrap().success(),
            "mount at {}",
            at.path().display()
        );
        Self(at)
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn raise(stack: &str) -> Option<Raised> {
    raise_in(tempfile::tempdir().unwrap(), None, stack)
}

fn raise_in(place: tempfile::TempDir, disk: Option<OwnDisk>, stack: &str) -> Option<Raised> {
    let choice = StackConfig::parse(stack).unwrap();
    if missing(stack, &choice) {
        return None;
    }
    let state = StateDir::new(place.path());
    let mut hosts = HostPool::new(host());
    let began = now();
    let up = stacks::up(
        &choice,
        &StackUpOptions::new(state.stacks()),
        &state,
        &mut hosts,
    )
    .unwrap();
    eprintln!("{stack}: up in {:.1} s", seconds(began));
    let record = plimsoll_machine::raise::list(&state).unwrap().remove(0);
    hosts.meet(record.record.unwrap().header.nodes());
    Some(Raised {
        place,
        _disk: disk,
        state,
        hosts,
        up,
    })
}

/// A test that fails in the middle leaves no stack standing.
impl Drop for Raised {
    fn drop(&mut self) {
        drop(RazedAtTheEnd(&self.state));
    }
}

impl Raised {
    fn carry_out(&mut self, node: &str, action: &PlanAction) -> Result<(), HostError> {
        let id = self.up.id.clone();
        self.hosts.on(node)?.carry_out(&id, action)
    }

    /// The results of a quick look at all proofs.
    fn prove(&mut self) -> Vec<SelfTestResult> {
        let dir = self.up.mount_dir().join("proofs");
        fs::create_dir(&dir).unwrap();
        let proved = prove(
            &self.up.made,
            Some(&dir),
            &self.up.id,
            SelfTestDepth::Quick,
            &mut self.hosts,
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "the test removes what it made itself"
        )]
        fs::remove_dir_all(&dir).unwrap();
        for one in &proved {
            // All nodes share one disk here: the self-test cannot tell their flushes from each other or from
            // other tests.
            let is_seen = match &one.outcome {
                SelfTestStatus::Unseen(why) => is_of_shared_disk(why),
                _ => true,
            };
            assert!(is_seen, "{one:?}");
        }
        proved
    }

    /// The proofs that failed.
    fn faults(&mut self) -> Vec<String> {
        let failed = |one: &SelfTestResult| matches!(one.outcome, SelfTestStatus::Failed(_));
        let all = self.prove().into_iter();
        all.filter(failed)
            .map(|one| format!("{}: {:?}", one.what, one.outcome))
            .collect()
    }

    /// Until no brick holds a note of what another one missed.
    fn wait_until_healed(&self) {
        let began = now();
        while self.has_notes() {
            // Ends what hangs: the daemon that heals looks again after minutes where it was too early.
            assert!(seconds(began) < 900.0, "not healed");
            pause(Duration::from_millis(100));
        }
    }

    fn has_notes(&self) -> bool {
        let dir = self.up.mount_dir().parent().unwrap();
        ["n1", "n2", "n3"].iter().any(|node| {
            let notes = dir.join(format!("{node}/bricks/data/.glusterfs/indices/xattrop"));
            // Besides the notes there is one file that they are other names of.
            let mut names = fs::read_dir(notes).unwrap().flatten();
            names.any(|n| !n.file_name().to_string_lossy().starts_with("xattrop-"))
        })
    }

    fn down(mut self) {
        let began = now();
        let razed = stacks::down(&self.up.name, &self.state, &mut self.hosts).unwrap();
        assert!(razed.is_clean() && razed.warnings.is_empty(), "{razed:?}");
        eprintln!("{}: down in {:.1} s", self.up.name, seconds(began));
        check_nothing_left(self.place.path());
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let left = names.filter(|n| n.file_name().to_string_lossy().contains(&self.up.id));
        assert_eq!(left.count(), 0);
    }
}

fn second_client(up: &StackInstance) -> &Path {
    let found = up.made.proofs.iter().find_map(|proof| match proof {
        StackSelfTest::SecondClient { path, .. } => Some(Path::new(path)),
        _ => None,
    });
    found.unwrap()
}

fn survives_each_node(stack: &str) {
    let Some(mut raised) = raise(stack) else {
        return;
    };
    let dir = raised.up.mount_dir().to_path_buf();
    let second = second_client(&raised.up).to_path_buf();
    let text = "what is written is read\n".repeat(10_000);
    fs::write(dir.join("before"), &text).unwrap();
    assert_eq!(fs::read_to_string(second.join("before")).unwrap(), text);
    let mut lost = 0;
    for proof in raised.up.made.proofs.clone() {
        let StackSelfTest::Survives {
            node,
            lose,
            restore,
        } = proof
        else {
            continue;
        };
        lost += 1;
        for (node, action) in &lose {
            raised.carry_out(node, action).unwrap();
        }
        let name = format!("without-{node}");
        fs::write(dir.join(&name), &text).unwrap();
        assert_eq!(fs::read_to_string(dir.join(&name)).unwrap(), text);
        assert_eq!(fs::read_to_string(dir.join("before")).unwrap(), text);
        for (node, action) in &restore {
            raised.carry_out(node, action).unwrap();
        }
        raised.wait_until_healed();
        assert_eq!(fs::read_to_string(dir.join(&name)).unwrap(), text);
    }
    assert_eq!(lost, 3);
    raised.down();
}

#[test]
fn a_replicated_volume_survives_each_node() {
    survives_each_node("gluster");
}

#[test]
fn a_dispersed_volume_survives_each_node() {
    survives_each_node("gluster(disperse)");
}

#[test]
fn a_distributed_volume_comes_up_works_and_leaves_nothing() {
    let Some(mut raised) = raise("gluster(distribute)") else {
        return;
    };
    assert_eq!(raised.faults(), [""; 0]);
    let dir = raised.up.mount_dir().to_path_buf();
    for n in 0..30 {
        fs::write(dir.join(format!("file{n}")), format!("{n}")).unwrap();
    }
    let second = second_client(&raised.up);
    for n in 0..30 {
        let text = fs::read_to_string(second.join(format!("file{n}"))).unwrap();
        assert_eq!(text, format!("{n}"));
    }
    raised.down();
}

#[test]
fn a_volume_grows_and_loses_a_node_while_it_is_up() {
    // GlusterFS moves no files onto a disk with less than 10 % free.
    let disk = OwnDisk::mount();
    let place = tempfile::tempdir_in(disk.0.path()).unwrap();
    let Some(mut raised) = raise_in(place, Some(disk), "gluster(distribute,nodes=1)") else {
        return;
    };
    let dir = raised.up.mount_dir().to_path_buf();
    for n in 0..40 {
        fs::write(dir.join(format!("file{n}")), format!("{n}")).unwrap();
    }
    let name = raised.up.name.clone();
    let change = |raised: &mut Raised, verb| {
        stacks::change(
            &name,
            verb,
            None,
            &raised.state,
            &mut raised.hosts,
            &mut |_| {},
        )
        .unwrap()
    };
    let made = change(&mut raised, StackChange::Grow);
    assert_eq!(made.servers.len(), 2);
    let bricks = dir.parent().unwrap().join("n2/bricks/data");
    let data = |entry: &fs::DirEntry| entry.metadata().unwrap().len() > 0;
    let names = fs::read_dir(bricks).unwrap().flatten();
    let files = names.filter(|e| e.file_type().unwrap().is_file() && data(e));
    let moved = files.count();
    assert!((5..35).contains(&moved), "{moved} files were moved");
    change(&mut raised, StackChange::Degrade);
    change(&mut raised, StackChange::Rebuild);
    for n in 0..40 {
        let text = fs::read_to_string(dir.join(format!("file{n}"))).unwrap();
        assert_eq!(text, format!("{n}"));
    }
    raised.down();
}

#[test]
fn tenants_with_certificates_are_kept_apart() {
    let Some(mut raised) = raise("gluster+tenant") else {
        return;
    };
    fs::write(raised.up.mount_dir().join("mine"), "secret").unwrap();
    assert_eq!(raised.faults(), [""; 0]);
    let text = fs::read_to_string(raised.up.mount_dir().join("mine")).unwrap();
    assert_eq!(text, "secret");
    raised.down();
}

#[test]
fn rules_that_leak_are_caught() {
    // Nothing keeps them apart: everything they try works.
    let Some(mut raised) = raise("gluster(distribute,nodes=1,tls=off)+tenant(address=off)") else {
        return;
    };
    let tried = raised.up.made.proofs.iter();
    let tried = tried
        .filter(|p| matches!(p, StackSelfTest::Refused { .. }))
        .count();
    let leaks = raised.faults();
    eprintln!("leaks: {leaks:#?}");
    assert!(
        leaks.len() >= tried - 1,
        "{tried} tried, got through: {leaks:?}"
    );
    raised.down();
}

#[test]
fn addresses_alone_leak_through_the_healer() {
    let Some(mut raised) = raise("gluster(tls=off)+tenant") else {
        return;
    };
    let leaks = raised.faults();
    assert_eq!(leaks.len(), 1, "{leaks:?}");
    assert!(leaks[0].contains("healer"), "{leaks:?}");
    raised.down();
}
