// SPDX-License-Identifier: Apache-2.0
//! Every proof, on a stack that is as it must be and on one that is not.

use super::*;
use crate::host::{FakeHost, LocalHost, SearchPath};
use plimsoll_core::plan::{Cmd, HERE};

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

    fn prove(&self, proof: Proof, depth: Depth, hosts: &mut dyn Hosts) -> Vec<Proved> {
        let made = Made {
            mount_dir: self.path("mnt"),
            proofs: vec![proof],
            ..Made::default()
        };
        let directory = self.base.path().join("mnt/arm");
        prove(&made, &directory, "t-1", depth, hosts)
    }

    fn outcome(&self, proof: Proof, hosts: &mut dyn Hosts) -> Outcome {
        let proved = self.prove(proof, Depth::Whole, hosts);
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
    let proof = || Proof::Flushes {
        node: HERE.into(),
        dir: place.path("bricks"),
    };
    let mut host = FakeHost::new();
    host.flushes = vec![5, 5 + FLUSHES];
    let seen = place.outcome(proof(), &mut host);
    assert!(matches!(seen, Outcome::Passed(_)), "{seen:?}");
    host.flushes = vec![5, 6];
    let seen = place.outcome(proof(), &mut host);
    assert!(matches!(seen, Outcome::Failed(_)), "{seen:?}");
    host.flushes = vec![];
    let seen = place.outcome(proof(), &mut host);
    assert!(matches!(seen, Outcome::Unseen(_)), "{seen:?}");
}

#[test]
fn a_second_client_that_sees_something_else_is_seen() {
    let place = Place::new();
    let proof = |path: &str| Proof::SecondClient {
        synced: false,
        path: place.path(path),
    };
    let seen = place.outcome(proof("mnt"), &mut host());
    assert!(matches!(seen, Outcome::Passed(_)), "{seen:?}");
    let seen = place.outcome(proof("bricks"), &mut host());
    assert!(matches!(seen, Outcome::Failed(_)), "{seen:?}");
}

#[test]
fn a_door_that_is_open_is_seen() {
    let place = Place::new();
    let proof = |program: &str| Proof::Refused {
        why: "enter".into(),
        node: HERE.into(),
        before: Vec::new(),
        attempt: Box::new(Cmd::new(program, [""; 0])),
        undo: Vec::new(),
    };
    let seen = place.outcome(proof("false"), &mut host());
    assert_eq!(seen, Outcome::Passed("refused with status 1".into()));
    let seen = place.outcome(proof("true"), &mut host());
    assert!(matches!(seen, Outcome::Failed(_)), "{seen:?}");
    // What could not be tried proves nothing.
    let mut without = host().allow("no-such-program");
    let seen = place.outcome(proof("no-such-program"), &mut without);
    assert!(matches!(seen, Outcome::Unseen(_)), "{seen:?}");
}

#[test]
fn text_that_stands_on_a_disk_is_seen() {
    let place = Place::new();
    let proof = |dir: &str| Proof::Hidden {
        node: HERE.into(),
        dirs: vec![place.path(dir)],
    };
    let seen = place.outcome(proof("bricks"), &mut host());
    assert!(matches!(seen, Outcome::Passed(_)), "{seen:?}");
    let seen = place.outcome(proof("mnt"), &mut host());
    assert!(matches!(seen, Outcome::Failed(_)), "{seen:?}");
    let seen = place.outcome(proof("absent"), &mut host());
    assert!(matches!(seen, Outcome::Unseen(_)), "{seen:?}");
}

#[test]
fn data_that_go_with_a_node_are_seen_and_it_is_brought_back() {
    let place = Place::new();
    let files = place.path("mnt/arm/proof-files");
    let away = place.path("away");
    let moving = |from: &str, to: &str| {
        let action = Action::Run(Cmd::new("mv", [from, to]));
        vec![(HERE.to_owned(), action)]
    };
    let proof = |lose, restore| Proof::Survives {
        node: "n1".into(),
        lose,
        restore,
    };
    let seen = place.outcome(proof(vec![], vec![]), &mut host());
    assert!(matches!(seen, Outcome::Passed(_)), "{seen:?}");
    let gone = proof(moving(&files, &away), moving(&away, &files));
    let seen = place.outcome(gone.clone(), &mut host());
    let Outcome::Failed(text) = seen else {
        panic!("{seen:?}");
    };
    assert!(text.starts_with("without n1: "), "{text}");
    assert!(!Path::new(&away).exists());
    // Nobody's node is taken away by a quick look.
    assert!(place.prove(gone, Depth::Quick, &mut host()).is_empty());
}
