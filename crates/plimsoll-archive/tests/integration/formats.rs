// SPDX-License-Identifier: Apache-2.0
//! Run folders of every format that is read, as programs of that time wrote them: the same two trials,
//! each with what its format brought.
//!
//! Formats 1.0 to 1.5 are refused: 2.0 gave each fact of a model its origin and dropped the field that
//! held them together, and no released version ever wrote the old ones.

use plimsoll_archive::{ArchiveError, RunFolderFollower, open};
use plimsoll_core::comparison::{ComparisonMetric, ComparisonVerdict};
use plimsoll_core::conditioning::{SteadyStateVerdict, SystemConditioningStep};
use plimsoll_core::design::BlocksEndCause;
use plimsoll_core::event::{RunEvent, RunFolderContents};
use plimsoll_core::failover::StackConditionState;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::{EngineChoice, OpKind};
use plimsoll_core::outage::BrownOut;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(format)
}

/// A run of that format, and what is the same in all of them.
fn opened(format: &str) -> RunFolderContents {
    let run = open(&folder(format)).expect("a run folder");
    let manifest = &run.manifest;
    assert_eq!(manifest.format.to_string(), format);
    assert_eq!(manifest.seed.0, u64::MAX);
    let arms: Vec<&str> = manifest.arms.iter().map(|arm| &*arm.name).collect();
    assert_eq!(arms, ["local", "slow"]);
    let facts = manifest.arms[0].facts.as_ref().expect("facts of it");
    assert_eq!(
        (facts.size_bytes, facts.direct_align_bytes),
        (10 << 30, 512)
    );
    let Workload::Model(model) = &manifest.entries[1].workload else {
        panic!("a model: {:?}", manifest.entries[1]);
    };
    let writes = model.envelope.cells().iter().map(|cell| cell.write.ops);
    assert_eq!(writes.sum::<u64>(), 1_800);

    assert_eq!(
        (run.trials.len(), run.warnings.len(), run.complete),
        (2, 1, true)
    );
    let local = &run.trials[0];
    assert_eq!(
        (local.stats.ops(), local.stats.bytes()),
        (6, 4 * 4096 + 2 * 16384)
    );
    // Service times of 440 µs and 120 µs together, and 200 ns before each.
    let mean = local.value(ComparisonMetric::MeanResponse);
    assert!((mean - 561_200.0 / 6.0).abs() < 1e-6, "{mean}");
    assert!((local.value(ComparisonMetric::OpsPerSecond) - 3.0).abs() < 1e-9);
    let longest = local.stats.0[&OpKind::Read].service.max_ns();
    assert_eq!(longest, 140_000);
    assert_eq!(local.bad_data().expect("a bad block").bad.stale, 1);
    assert_eq!(local.servers[0].grown_bytes, -4096);
    let slow = &run.trials[1];
    assert_eq!(slow.lost_nodes().next().expect("a lost node").0, "client");
    assert_eq!(slow.phases[0].wall, Nanos(2 * Nanos::SECOND.0));

    let seconds = &run.intervals[&1];
    let ops: Vec<u64> = seconds.iter().map(|bin| bin.response.count()).collect();
    assert_eq!(ops, [2, 2]);
    assert_eq!(seconds[1].response.max_ns(), 340_200);
    let ratio = run.comparisons[0].ratio.expect("a ratio");
    assert!((ratio.estimate - 0.5).abs() < 1e-9);
    run
}

#[test]
fn format_2_0() {
    let run = opened("2.0");
    assert_eq!(run.manifest.entries.len(), 2);
    assert_eq!(run.manifest.ladder, ["", "a layer"]);
    let facts = run.manifest.arms[0].facts.as_ref().unwrap();
    assert_eq!(facts.targets[0].free_bytes, 1 << 29);
    assert_eq!(facts.striping, "each on one target");
    assert_eq!(run.comparisons[0].verdict, ComparisonVerdict::Different);
    // Fields that this format did not have are absent, not zero.
    assert!(run.trials[0].device.is_none() && run.trials[0].others.is_none());
    assert!(run.comparisons[0].arm_carried.is_none());
}

#[test]
fn format_2_1_has_devices() {
    let run = opened("2.1");
    // The plan had a third workload, a model at its sensitivity bound.
    assert_eq!(run.manifest.entries.len(), 2);
    assert_eq!(run.manifest.load_nodes[0].machine.cpus, 2);
    let device = run.trials[0].device.as_ref().unwrap();
    assert_eq!((device.served.read_bytes, device.merged), (16_384, [0, 1]));
    assert_eq!(device.busy, None);
}

/// Version 2.6 still played models at their sensitivity bounds, as workloads of their own.
#[test]
fn trials_at_sensitivity_bounds_are_left_out_with_a_sentence() {
    let run = open(&folder("bounds")).expect("a run folder");
    let workloads: Vec<&str> = run.trials.iter().map(|t| &*t.trial.workload).collect();
    assert_eq!(
        (run.manifest.entries.len(), &workloads[..]),
        (1, &["nas", "nas"][..])
    );
    assert_eq!((run.comparisons.len(), run.complete), (1, true));
    let places: Vec<u32> = run.trials.iter().map(|t| t.trial.place).collect();
    assert!(
        run.intervals.keys().eq(&places),
        "{:?}",
        run.intervals.keys()
    );
    let told: Vec<&str> = run.warnings.iter().map(|warning| &*warning.text).collect();
    assert!(
        told[0].starts_with("4 trials of models at their sensitivity bounds"),
        "{told:?}"
    );
    assert_eq!(told.len(), 1);
    let mut follower = RunFolderFollower::open(&folder("bounds")).expect("a run folder");
    let events = follower.look(u64::MAX).expect("events").expect("some");
    let is_ended = |event: &&RunEvent| matches!(event, RunEvent::TrialEnded(_));
    assert_eq!(
        (events.iter().filter(is_ended).count(), follower.damaged()),
        (2, 0)
    );
}

/// A manifest with a model of distributions also holds the requests drawn from them, and those are read.
#[test]
fn a_run_of_a_model_of_distributions_is_read() {
    let place = tempfile::tempdir().unwrap();
    fs::copy(
        folder("2.1").join("events.jsonl"),
        place.path().join("events.jsonl"),
    )
    .unwrap();
    let text = fs::read_to_string(folder("2.1").join("manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest["entries"][1]["workload"]["model"]["parametric"] = serde_json::json!({ "seed": 1 });
    fs::write(place.path().join("manifest.json"), manifest.to_string()).unwrap();
    assert_eq!(open(place.path()).unwrap().trials.len(), 2);
}

#[test]
fn format_2_2_has_checksums_and_says_what_could_not_be_carried() {
    let run = opened("2.2");
    assert_eq!(run.comparisons[0].verdict, ComparisonVerdict::CannotCarry);
    let carried = run.comparisons[0].arm_carried.unwrap();
    assert!((carried.served_per_s - 1.5).abs() < 1e-9);
    let (local, slow) = (&run.trials[0], &run.trials[1]);
    assert_eq!(
        (slow.generator.unfinished, slow.generator.errnos[&5]),
        (1, 1)
    );
    assert_eq!((slow.stats.errors(), slow.done()), (1, 4));
    assert_eq!(slow.generator.open[0].due, [3, 3]);
    assert_eq!(slow.generator.queue_lag_ns(), 700);
    assert_eq!(local.device.as_ref().unwrap().busy, Some(Nanos(350_000)));
    assert_eq!(local.others.as_ref().unwrap().cpu_ns, 80_000_000);
    assert_eq!(local.bad_data().unwrap().bad.foreign, 1);
}

#[test]
fn format_2_3_has_faults() {
    let run = opened("2.3");
    let inject = run.manifest.entries[0].inject.as_ref().unwrap();
    assert_eq!((inject.fault, inject.sessions), (FaultKind::PowerCut, 4));
    let slow = &run.trials[1];
    let fault = slow.fault.as_ref().unwrap();
    assert_eq!(
        fault.outage.brown_out,
        BrownOut::Lasted(Nanos(3_000_000_000))
    );
    assert_eq!(fault.observers[0].still, Some(Nanos(2 * Nanos::SECOND.0)));
    let outage = slow.value(ComparisonMetric::WriteOutage);
    assert!((outage - 2.5e9).abs() < 1.0, "{outage}");
    let base = run.comparisons[0].base_carried.unwrap();
    assert!((base.served_per_s - 3.0).abs() < 1e-9);
}

#[test]
fn format_2_4_has_designs_load_lines_and_what_the_clients_did() {
    let run = opened("2.4");
    let design = run.manifest.design.as_ref().unwrap();
    assert_eq!(design.found.as_ref().unwrap().expected, 9);
    assert_eq!(
        design.ended.unwrap().cause,
        BlocksEndCause::PrecisionReached
    );
    let [.., line, fewer] = &run.manifest.entries[..] else {
        panic!("two entries at least")
    };
    let goal = line.load_line.as_ref().unwrap();
    assert_eq!(goal.limits[1].to_string(), "read mean < 2.00 ms");
    assert_eq!(fewer.client.as_ref().unwrap().cpus, 1);
    let trial = run.trials.last().unwrap();
    let record = trial.load_line.as_ref().unwrap();
    assert!((record.request.multiple - 2.5).abs() < 1e-9);
    assert!((record.readings[1].batches[0].amount - 8_000.0).abs() < 1e-9);
    assert_eq!(trial.machines[0].cpu_count, 2);
    assert!((trial.energy[0].joules - 12.5).abs() < 1e-9);
}

#[test]
fn format_2_5_has_stacks_that_are_busy_or_full() {
    let run = opened("2.5");
    let last = run.manifest.entries.last().unwrap();
    let condition = last.condition.as_ref().unwrap();
    assert_eq!(condition.state, Some(StackConditionState::Rebuild));
    assert_eq!(condition.injected(), Some(FaultKind::Kill));
    assert_eq!(condition.victim.as_deref(), Some("server2"));
    assert_eq!(run.trials.len(), opened("2.4").trials.len());
}

#[test]
fn format_2_6_has_what_was_done_before_the_first_block() {
    let run = opened("2.6");
    assert!(run.manifest.campaign.is_none());
    assert_eq!(run.manifest.trial_bytes, Some(20 << 30));
    let conditioning = run.manifest.conditioning.as_ref().unwrap();
    assert_eq!(
        conditioning.steady_within,
        Some(Nanos(600 * Nanos::SECOND.0))
    );
    let [written, first, again] = &conditioning.done[..] else {
        panic!("three steps: {conditioning:?}")
    };
    let SystemConditioningStep::Written(bytes) = written.step else {
        panic!("{written:?}")
    };
    assert_eq!((bytes.ordered_bytes, bytes.own_bytes), (2 << 20, 2_101_248));
    let SystemConditioningStep::Steady(steady) = first.step else {
        panic!("{first:?}")
    };
    assert_eq!(steady.verdict, SteadyStateVerdict::Changing);
    assert!(!steady.snia.unwrap().is_steady);
    assert!(again.sentence().contains("steady after 47 s"), "{again:?}");
    // Only what was seen once more sets the warm-up.
    assert_eq!(conditioning.warmup(Nanos::SECOND), Nanos(4_500_000_000));
    assert_eq!(run.trials.len(), opened("2.4").trials.len());
}

#[test]
fn format_2_7_has_settings_in_the_place_of_a_campaign() {
    let run = opened("2.7");
    assert!(run.manifest.campaign.is_none());
    assert_eq!(run.trials.len(), opened("2.6").trials.len());
}

#[test]
fn format_2_8_has_the_campaign_that_was_carried_out() {
    let run = opened("2.8");
    let format = run.manifest.format;
    assert_eq!(format, FormatVersion::RUN, "a new format needs its fixture");
    let spec = run.manifest.campaign.as_ref().unwrap();
    assert_eq!(spec.problems(), []);
    assert_eq!(spec.trial.engine, EngineChoice::Uring);
    assert_eq!(spec.trial.warmup.unwrap().0, Nanos(1_500_000_000));
    assert_eq!(spec.clients.as_ref().unwrap().lose, Some(0.1));
    assert_eq!(spec.stacks.on.as_deref(), Some("lab.toml"));
    assert_eq!(spec.target[0].texts(), ["raid1(level=1)", "raid1(level=5)"]);
    assert_eq!(spec.injections(), []);
}

#[test]
fn formats_that_no_release_wrote_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let manifest = fs::read_to_string(folder("2.0").join("manifest.json")).unwrap();
    for format in ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"] {
        let old = manifest.replacen("\"2.0\"", &format!("\"{format}\""), 1);
        fs::write(place.path().join("manifest.json"), old).unwrap();
        fs::write(place.path().join("events.jsonl"), "").unwrap();
        let error = open(place.path()).unwrap_err();
        assert!(matches!(error, ArchiveError::Newer { found, .. } if found.to_string() == format));
    }
}
