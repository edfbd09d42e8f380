// SPDX-License-Identifier: Apache-2.0
//! Every target over its seeds, and over mutations of them that are the same in every run.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod mutation;
mod seeds;

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_fuzz_targets::{FuzzTarget, TARGETS};
use std::panic::catch_unwind;

use mutation::mutated;

/// Mutations of each target. Coverage finds more, and takes longer: `make fuzz`.
const MUTATIONS: u64 = 2_000;

/// Change it, and other mutations are tried.
const SEED: Seed = Seed(20_261_126);

macro_rules! each_target {
    ($($name:ident)*) => {
        $(#[test] fn $name() { withstands(stringify!($name)); })*

        #[test]
        fn every_target_has_a_test_a_program_and_seeds() {
            let named = TARGETS.map(|(name, _)| name);
            assert_eq!([$(stringify!($name)),*], named);
            assert_eq!(seeds::programs(), named);
            assert_eq!(seeds::folders(), named);
        }
    };
}

each_target! {
    agent archive counters darshan durability fio_job folio greeting ledger nfs_reply outputs parquet partial
    requests run_folder spool tracer wml
}

fn withstands(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|(own, _)| *own == name).unwrap();
    let seeds = seeds::of(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (file, bytes) in &seeds {
        run(name, target, file, bytes);
    }
    let mut rng = Rng::new(SEED.derive(name, 0));
    for round in 0..MUTATIONS {
        let (_, seed) = &seeds[to_usize(rng.below(seeds.len() as u64))];
        let (_, other) = &seeds[to_usize(rng.below(seeds.len() as u64))];
        let bytes = mutated(seed, other, &mut rng);
        run(name, target, &format!("mutation-{round}"), &bytes);
    }
}

/// An input that breaks a target is kept where libFuzzer keeps its own.
fn run(name: &str, target: FuzzTarget, what: &str, bytes: &[u8]) {
    if catch_unwind(|| target(bytes)).is_err() {
        let kept = seeds::fuzz().join("artifacts");
        std::fs::create_dir_all(&kept).unwrap();
        let path = kept.join(format!("{name}-{what}"));
        std::fs::write(&path, bytes).unwrap();
        panic!("{name} is broken by {}", path.display());
    }
}
