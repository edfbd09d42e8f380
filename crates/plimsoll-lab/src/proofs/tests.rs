// SPDX-License-Identifier: Apache-2.0
//! Every proof, on a stack that is as it must be and on one that is not.

use super::*;
use crate::fake::FakeHost;
use plimsoll_core::plan::{HERE, PlanCommand};
use plimsoll_machine::host::{LocalHost, SearchPath};

struct Place {
    base: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for dir in ["mnt", "mnt/arm", "bricks"] {
            fs::create_dir(base.path().join(dir)).unwrap();
        }
        Place { base }
    }

    fn path(&self, name: &str) -> String {
        self.base.path().join(name).display().to_string()
    }

    fn prove(
        &self,
        proof: StackSelfTest,
        depth: SelfTestDepth,
        hosts: &mut dyn HostResolver,
    ) -> Vec<SelfTestResult> {
        let made = StackOutputs {
            mount_dir: self.path("mnt"),
            proofs: vec![proof],
            ..StackOutputs::default()
        };
        let directory = self.base.path().join("mnt/arm");
        prove(&made, Some(&directory), "t-1", depth, hosts)
    }

    fn outcome(&self, proof: StackSelfTest, hosts: &mut dyn HostResolver) -> SelfTestStatus {
        let proved = self.prove(proof, SelfTestDepth::Whole, hosts);
        let left = fs::read_dir(self.base.path().join("mnt/arm")).unwrap();
        assert_eq!(left.count(), 0, "a proof leaves nothing");
        proved[0].outcome.clone()
    }
}

fn host() -> LocalHost {
    LocalHost::new(SearchPath::new(&std::env::var_os("PATH").unwrap()))
        .allow("true")
        .allow("false")
        .allow("mv")
}

#[test]
fn a_sync_that_reaches_no_disk_is_seen() {
    let place = Place::new();
    let proof = || StackSelfTest::Flushes {
        node: HERE.into(),
        dir: place.path("bricks"),
    };
    let mut host = FakeHost::new();
    // Looks: before a sync, after it, and after as long a pause.
    let each_sync = vec![5, 6, 6];
    let no_sync = vec![5, 5, 5];
    let others_too = vec![5, 6, 7];
    let only_others = vec![5, 5, 9];
    host.flushes = each_sync.clone();
    let seen = place.outcome(proof(), &mut host);
    assert!(matches!(seen, SelfTestStatus::Passed(_)), "{seen:?}");
    for flushes in [no_sync, only_others] {
        host = FakeHost::new();
        host.flushes = flushes;
        let seen = place.outcome(proof(), &mut host);
        assert!(matches!(seen, SelfTestStatus::Failed(_)), "{seen:?}");
    }
    // All of the flushes could come from other processes.
    host = FakeHost::new();
    host.flushes = others_too;
    let seen = place.outcome(proof(), &mut host);
    assert!(
        matches!(&seen, SelfTestStatus::Unseen(text) if text.contains("other processes")),
        "{seen:?}"
    );
    // One whose server is gone is not there, however much the disk flushes.
    host = FakeHost::new();
    host.flushes = each_sync;
    let made = StackOutputs {
        mount_dir: place.path("mnt"),
        proofs: vec![proof()],
        servers: vec![StackServer {
            name: "tgtd1".into(),
            node: HERE.into(),
            marks: vec!["gone".into()],
            asked: None,
            restore: Vec::new(),
        }],
        ..StackOutputs::default()
    };
    let directory = place.base.path().join("mnt/arm");
    let proved = prove(
        &made,
        Some(&directory),
        "t-1",
        SelfTestDepth::Quick,
        &mut host,
    );
    assert!(
        matches!(&proved[0].outcome, SelfTestStatus::Unseen(text) if text.contains("tgtd1 is gone")),
        "{proved:?}"
    );
    host.flushes = vec![];
    let seen = place.outcome(proof(), &mut host);
    assert!(matches!(seen, SelfTestStatus::Unseen(_)), "{seen:?}");
}

/// One of them could drop all of its own: behind the other's nothing of that is seen.
#[test]
fn of_servers_that_share_a_disk_no_flush_is_told_apart() {
    let place = Place::new();
    let mut host = FakeHost::new();
    host.flushes = vec![5, 6, 6];
    let proof = |dir: &str| StackSelfTest::Flushes {
        node: HERE.into(),
        dir: place.path(dir),
    };
    let made = StackOutputs {
        mount_dir: place.path("mnt"),
        proofs: vec![proof("bricks"), proof("other")],
        ..StackOutputs::default()
    };
    let directory = place.base.path().join("mnt/arm");
    let depth = SelfTestDepth::Quick;
    let proved = prove(&made, Some(&directory), "t-1", depth, &mut host);
    let SelfTestStatus::Unseen(why) = &proved[0].outcome else {
        panic!("{proved:?}");
    };
    assert!(why.contains("on the same one"), "{why}");
}

#[test]
fn a_second_client_that_sees_something_else_is_seen() {
    let place = Place::new();
    let proof = |path: &str| StackSelfTest::SecondClient {
        synced: false,
        path: place.path(path),
    };
    let seen = place.outcome(proof("mnt"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Passed(_)), "{seen:?}");
    let seen = place.outcome(proof("bricks"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Failed(_)), "{seen:?}");
}

#[test]
fn a_door_that_is_open_is_seen() {
    let place = Place::new();
    let proof = |program: &str| StackSelfTest::Refused {
        why: "enter".into(),
        node: HERE.into(),
        before: Vec::new(),
        attempt: Box::new(PlanCommand::new(program, [""; 0])),
        undo: Vec::new(),
    };
    let seen = place.outcome(proof("false"), &mut host());
    assert_eq!(seen, SelfTestStatus::Passed("refused with status 1".into()));
    let seen = place.outcome(proof("true"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Failed(_)), "{seen:?}");
    // An attempt that could not be made proves nothing.
    let mut without = host().allow("no-such-program");
    let seen = place.outcome(proof("no-such-program"), &mut without);
    assert!(matches!(seen, SelfTestStatus::Unseen(_)), "{seen:?}");
}

#[test]
fn what_another_user_gains_is_seen() {
    let place = Place::new();
    let proof = || StackSelfTest::Closed {
        node: HERE.into(),
        dirs: Vec::new(),
        marks: Vec::new(),
        addresses: Vec::new(),
        exports: Vec::new(),
    };
    let mut host = FakeHost::new();
    host.stranger.doors = 2;
    let seen = place.outcome(proof(), &mut host);
    assert!(
        matches!(&seen, SelfTestStatus::Passed(text) if text.contains("2 addresses")),
        "{seen:?}"
    );
    host.stranger.unknown = vec!["what nc serves at 127.0.0.1:9".into()];
    let seen = place.outcome(proof(), &mut host);
    assert!(
        matches!(&seen, SelfTestStatus::Unseen(text) if text.contains("nc serves")),
        "{seen:?}"
    );
    host.stranger.gained = vec!["list /base".into()];
    let seen = place.outcome(proof(), &mut host);
    assert_eq!(
        seen,
        SelfTestStatus::Failed("another user could list /base".into())
    );
}

#[test]
fn where_nothing_is_mounted_strangers_are_looked_at_all_the_same() {
    let made = StackOutputs {
        proofs: vec![
            StackSelfTest::Hidden {
                node: HERE.into(),
                dirs: Vec::new(),
            },
            StackSelfTest::Closed {
                node: HERE.into(),
                dirs: Vec::new(),
                marks: Vec::new(),
                addresses: Vec::new(),
                exports: Vec::new(),
            },
        ],
        ..StackOutputs::default()
    };
    let proved = prove(
        &made,
        None,
        "t-1",
        SelfTestDepth::Whole,
        &mut FakeHost::new(),
    );
    assert_eq!(proved.len(), 1);
    assert!(
        matches!(proved[0].outcome, SelfTestStatus::Passed(_)),
        "{proved:?}"
    );
}

#[test]
fn text_that_stands_on_a_disk_is_seen() {
    let place = Place::new();
    let proof = |dir: &str| StackSelfTest::Hidden {
        node: HERE.into(),
        dirs: vec![place.path(dir)],
    };
    let seen = place.outcome(proof("bricks"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Passed(_)), "{seen:?}");
    let seen = place.outcome(proof("mnt"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Failed(_)), "{seen:?}");
    let seen = place.outcome(proof("absent"), &mut host());
    assert!(matches!(seen, SelfTestStatus::Unseen(_)), "{seen:?}");
}

#[test]
fn data_that_go_with_a_node_are_seen_and_it_is_brought_back() {
    let place = Place::new();
    let files = place.path("mnt/arm/proof-files");
    let away = place.path("away");
    let moving = |from: &str, to: &str| {
        let action = PlanAction::Run(PlanCommand::new("mv", [from, to]));
        vec![(HERE.to_owned(), action)]
    };
    let proof = |lose, restore| StackSelfTest::Survives {
        node: "n1".into(),
        lose,
        restore,
    };
    let seen = place.outcome(proof(vec![], vec![]), &mut host());
    assert!(matches!(seen, SelfTestStatus::Passed(_)), "{seen:?}");
    let gone = proof(moving(&files, &away), moving(&away, &files));
    let seen = place.outcome(gone.clone(), &mut host());
    let SelfTestStatus::Failed(text) = seen else {
        panic!("{seen:?}");
    };
    assert!(text.starts_with("without n1: "), "{text}");
    assert!(!Path::new(&away).exists());
    // One that does not come back is no proof that could not be seen.
    let stays_away = proof(vec![], moving(&away, &files));
    let seen = place.outcome(stays_away, &mut host());
    assert!(
        matches!(&seen, SelfTestStatus::Failed(text) if text.starts_with("could not restart n1: ")),
        "{seen:?}"
    );
    // The quick self-tests stop no node.
    assert!(
        place
            .prove(gone, SelfTestDepth::Quick, &mut host())
            .is_empty()
    );
}

/// Names what this process holds open below a directory while it is asked for something, as what
/// unmounts a file system would find it.
struct Unmounter {
    host: LocalHost,
    below: PathBuf,
    held: Vec<PathBuf>,
}

impl HostResolver for Unmounter {
    fn on(&mut self, _node: &str) -> Result<&mut dyn plimsoll_machine::host::Host, HostError> {
        let mine = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = mine.filter_map(|entry| fs::read_link(entry.path()).ok());
        self.held
            .extend(open.filter(|path| path.starts_with(&self.below)));
        Ok(&mut self.host)
    }

    fn meet(&mut self, _: &[plimsoll_core::plan::PlanNode]) {}

    fn trust(&mut self, _: &str, _: &[String]) {}

    fn here(&self) -> &dyn plimsoll_machine::host::Host {
        &self.host
    }
}

#[test]
fn what_brings_a_node_back_can_unmount_what_the_proof_works_in() {
    let place = Place::new();
    let look = || {
        vec![(
            HERE.to_owned(),
            PlanAction::Run(PlanCommand::new("true", [""; 0])),
        )]
    };
    let proof = StackSelfTest::Survives {
        node: "n1".into(),
        lose: look(),
        restore: look(),
    };
    let mut hosts = Unmounter {
        host: host(),
        below: place.path("mnt").into(),
        held: Vec::new(),
    };
    let seen = place.outcome(proof, &mut hosts);
    assert!(matches!(seen, SelfTestStatus::Passed(_)), "{seen:?}");
    assert!(hosts.held.is_empty(), "{:?}", hosts.held);
}
