// SPDX-License-Identifier: Apache-2.0
//! Interim warnings, of which a scattering workload gets one, and the lengths of a pilot's trials.

use super::*;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{ArmEntry, KindStats, OpStats, TrialId, WorkloadEntry};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;

const ARMS: [&str; 3] = ["a", "a (again)", "b"];

fn manifest() -> RunManifest {
    let arm = |name: &str| ArmEntry {
        name: name.into(),
        target: name.into(),
        description: String::new(),
        control_of: name.contains("again").then(|| "a".into()),
        facts: None,
    };
    RunManifest {
        format: FormatVersion::RUN,
        program: String::new(),
        id: String::new(),
        began_at: String::new(),
        command: Vec::new(),
        seed: Seed(1),
        generator: String::new(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: String::new(),
            kernel: String::new(),
            cpu: String::new(),
            cpus: 2,
            ram_bytes: 1,
            cpu_governor: None,
        },
        versions: BTreeMap::new(),
        arms: ARMS.iter().map(|name| arm(name)).collect(),
        entries: vec![WorkloadEntry {
            label: "randread".into(),
            scale: 1.0,
            length: Nanos::SECOND,
            workload: plimsoll_classics::parse_on("randread,size=1m", None).unwrap(),
            inject: None,
            condition: None,
            load_line: None,
            client: None,
            load_loop: None,
        }],
        blocks: 5,
        balanced: false,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
        design: None,
    }
}

fn result(arm: &str, block: u32, ops: u64) -> TrialResult {
    let mut kind = KindStats::default();
    kind.service.record_many(Nanos(1000), ops);
    kind.response.record_many(Nanos(1000), ops);
    TrialResult {
        length: Nanos::SECOND,
        stats: OpStats([(OpKind::Read, kind)].into()),
        ..TrialResult::of(TrialId {
            block,
            place: 0,
            arm: arm.into(),
            workload: "randread".into(),
        })
    }
}

/// Number of warnings after each block of these values of the three arms.
fn said(blocks: &[[u64; 3]]) -> Vec<usize> {
    let manifest = manifest();
    let mut course = InterimAnalysis::default();
    let after = |(block, values): (usize, &[u64; 3])| {
        let block = u32::try_from(block).unwrap();
        let arms = ARMS.iter().zip(values);
        arms.for_each(|(arm, ops)| course.take(&manifest, &result(arm, block, *ops)));
        course.after(&manifest, block + 1).len()
    };
    blocks.iter().enumerate().map(after).collect()
}

#[test]
fn a_control_that_scatters_is_told_once() {
    let wild = [
        [1000, 9000, 4000],
        [8000, 700, 1000],
        [900, 7000, 5000],
        [5000, 800, 900],
        [1000, 6000, 3000],
    ];
    let told = said(&wild);
    assert_eq!(told.iter().sum::<usize>(), 1, "{told:?}");
    assert_eq!((told[0], told[4]), (0, 0), "{told:?}");
}

#[test]
fn where_the_control_is_quiet_nothing_is_told() {
    let quiet = [[1000, 1001, 500], [1010, 1011, 504], [990, 991, 496]];
    assert_eq!(said(&quiet), [0, 0, 0]);
}

#[test]
fn trials_of_a_pilot_become_as_long_as_they_cost_to_start() {
    let cost = |seconds: f64| {
        let mut pilot = PilotRecord::default();
        let prepare = Nanos::from_secs_f64(seconds);
        pilot.take(&TrialResult {
            prepare,
            ..result("a", 0, 1000)
        });
        pilot
    };
    let seconds = |cost_s: f64, left_s: Option<f64>| {
        let left = left_s.map(Nanos::from_secs_f64);
        cost(cost_s).length(&manifest(), left).as_secs_f64()
    };
    let is = |found: f64, expect: f64| assert!((found - expect).abs() < 1e-9, "{found} {expect}");
    is(seconds(1.0, None), 3.0);
    is(seconds(20.0, None), 50.0);
    // Three arms, two blocks of the pilot and six more: 24 trials.
    is(seconds(20.0, Some(24.0 * 31.5)), 11.0);
    // No time for six: two blocks of the pilot and one more.
    is(seconds(20.0, Some(231.0)), 5.0);
    is(seconds(20.0, Some(60.0)), 3.0);
}
