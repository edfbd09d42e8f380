// SPDX-License-Identifier: Apache-2.0
//! Causes that are planted in simulated runs: each is named first, and in clean runs nothing is. Every
//! run has noise, stalls and drift of its own, and figures that come near the limits.

mod simulated;

use plimsoll_core::event::{ClientCondition, KindStats, TrialResult, TrialTimeBin};
use plimsoll_core::evidence::{
    DiskAtDepth, DiskLimit, DiskLimitKind, DiskPauses, DiskRequests, DiskUse, MemoryLimitUse,
};
use plimsoll_core::explanation::{ArmExplanations, ExplanationCause, ExplanationStrength};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_stats::explain::{ArmEvidence, SaturatedResource, explain, saturated};
use simulated::{LABEL, SimulatedRun, entry};

const SEEDS: u64 = 20;

fn told(seed: u64, planted: Option<ExplanationCause>) -> ArmExplanations {
    explain(&SimulatedRun::new(seed, planted).run()).swap_remove(0)
}

/// The planted cause is reported first for all seeds but one at most.
fn is_named(cause: ExplanationCause) {
    let missed: Vec<(u64, ArmExplanations)> = (0..SEEDS)
        .map(|seed| (seed, told(seed, Some(cause))))
        .filter(|(_, told)| told.found.first().is_none_or(|one| one.cause != cause))
        .collect();
    assert!(missed.len() <= 1, "{cause:?}: {:?}", missed.first());
}

#[test]
fn nothing_is_named_in_clean_runs() {
    for seed in 0..SEEDS {
        let told = told(seed, None);
        assert!(told.found.is_empty(), "seed {seed}: {:?}", told.found);
        // It was looked, not merely not found.
        assert!(told.excluded.len() >= 12, "{:?}", told.unknown);
    }
}

#[test]
fn a_rate_limit_with_a_bucket_is_named() {
    is_named(ExplanationCause::BurstCredit);
}

#[test]
fn a_page_cache_is_named() {
    is_named(ExplanationCause::PageCache);
}

#[test]
fn a_program_on_the_processor_of_the_client_is_named() {
    is_named(ExplanationCause::OtherPrograms);
}

#[test]
fn one_slow_disk_of_two_is_named_and_which() {
    is_named(ExplanationCause::SlowDisk);
    let told = told(1, Some(ExplanationCause::SlowDisk));
    assert_eq!(told.found[0].about, "vdc");
}

#[test]
fn a_server_that_leaks_is_named_and_which() {
    is_named(ExplanationCause::MemoryGrowth);
    let told = told(1, Some(ExplanationCause::MemoryGrowth));
    assert_eq!(told.found[0].about, "n1");
    assert_eq!(
        told.found.len(),
        1,
        "a cache that fills is no leak: {told:?}"
    );
}

#[test]
fn a_slow_link_is_named() {
    is_named(ExplanationCause::SlowLink);
}

#[test]
fn round_trips_of_a_machine_that_others_use_are_no_slow_network() {
    for seed in 0..SEEDS {
        let mut run = SimulatedRun::new(seed, Some(ExplanationCause::SlowLink)).run();
        for trial in &mut run.trials {
            let others = trial.others.as_mut().unwrap();
            others.cpu_ns = others.length.0 * u64::from(others.cpus) / 2;
        }
        let told = explain(&run).swap_remove(0);
        let mut causes = told.found.iter().map(|one| one.cause);
        assert!(
            !causes.any(|cause| cause == ExplanationCause::SlowLink),
            "{told:?}"
        );
    }
}

#[test]
fn without_evidence_nothing_is_excluded() {
    let mut run = SimulatedRun::new(3, None).run();
    for trial in &mut run.trials {
        trial.machines.clear();
        trial.servers.clear();
        trial.device = None;
        trial.others = None;
    }
    run.intervals.clear();
    run.manifest.arms[0].facts.as_mut().unwrap().disks.clear();
    let told = explain(&run).swap_remove(0);
    assert!(told.found.is_empty());
    let unknown: Vec<ExplanationCause> = told.unknown.iter().map(|one| one.cause).collect();
    for cause in [
        ExplanationCause::PageCache,
        ExplanationCause::BurstCredit,
        ExplanationCause::OtherPrograms,
        ExplanationCause::ServerProcessor,
        ExplanationCause::SlowLink,
    ] {
        assert!(unknown.contains(&cause), "{cause:?}: {unknown:?}");
        assert!(!told.excluded.contains(&cause));
    }
}

/// A run with a second workload: the first one on one processor, at `times` times its rates.
fn with_one_processor(seed: u64, times: f64) -> Vec<ArmExplanations> {
    let mut run = SimulatedRun::new(seed, None).run();
    let mut other = entry("w with 1 client CPU");
    other.client = Some(ClientCondition {
        of: LABEL.into(),
        cpus: 1,
    });
    run.manifest.entries.push(other);
    let mut rng = Rng::new(Seed(seed).derive("halved", 0));
    let halved = run.trials.clone().into_iter().map(|mut trial| {
        trial.trial.workload = "w with 1 client CPU".into();
        let stretch = 1.0 / times * (0.01 * rng.normal()).exp();
        trial.length = Nanos(round_u64(trial.length.0 as f64 * stretch));
        trial
    });
    let halved: Vec<TrialResult> = halved.collect();
    run.trials.extend(halved);
    explain(&run)
}

#[test]
fn only_what_was_removed_in_interleaved_trials_is_a_cause() {
    let told = with_one_processor(1, 0.6);
    let first = &told[0].found[0];
    assert_eq!(first.cause, ExplanationCause::ClientProcessors);
    assert_eq!(first.strength, ExplanationStrength::Cause);
    assert_eq!(first.about, "1 CPU");
    let same = with_one_processor(1, 1.0);
    let causes: Vec<_> = same[0].found.iter().map(|one| one.cause).collect();
    assert!(!causes.contains(&ExplanationCause::ClientProcessors));
}

#[test]
fn what_saturates_is_named_with_how_far() {
    let run = SimulatedRun::new(5, Some(ExplanationCause::SlowDisk)).run();
    let manifest = &run.manifest.clone();
    let evidence = ArmEvidence::of(&run, &manifest.entries[0], &manifest.arms[0]);
    let found = saturated(&evidence).unwrap();
    assert_eq!(found.name(), "disk vdc");
    assert!(found.evidence().value > 0.9);
    let mut busy = run.clone();
    for trial in &mut busy.trials {
        trial.generator.user_cpu_ns = trial.length.0 * 15;
    }
    let evidence = ArmEvidence::of(&busy, &manifest.entries[0], &manifest.arms[0]);
    let found = saturated(&evidence).unwrap();
    assert!(
        matches!(found, SaturatedResource::ClientProcessor(_)),
        "{found:?}"
    );
    let mut idle = run;
    for trial in &mut idle.trials {
        trial.machines.clear();
        trial.device = None;
    }
    let evidence = ArmEvidence::of(&idle, &manifest.entries[0], &manifest.arms[0]);
    assert_eq!(saturated(&evidence), None);
}

/// A clean run in which something of every trial was changed.
fn told_with(
    seed: u64,
    change: impl Fn(&mut TrialResult, &mut Vec<TrialTimeBin>),
) -> ArmExplanations {
    let mut run = SimulatedRun::new(seed, None).run();
    for trial in &mut run.trials {
        let bins = run.intervals.get_mut(&trial.trial.place).unwrap();
        change(trial, bins);
    }
    explain(&run).swap_remove(0)
}

fn first(told: &ArmExplanations) -> Option<ExplanationCause> {
    told.found.first().map(|one| one.cause)
}

/// Account of the first disk, to be changed.
fn disk(trial: &mut TrialResult) -> &mut DiskUse {
    &mut trial.machines[0].disks[0]
}

fn share(length: Nanos, share: f64) -> Nanos {
    Nanos(round_u64(length.0 as f64 * share))
}

/// A change of a run, with what it is named for; `None` for one that comes near a limit.
type PlantedCase = (
    Option<ExplanationCause>,
    fn(&mut TrialResult, &mut Vec<TrialTimeBin>),
);

const PLANTED: [PlantedCase; 16] = [
    (Some(ExplanationCause::IoLimit), |trial, _| {
        limited(trial, 0.99);
    }),
    (None, |trial, _| {
        limited(trial, 0.8);
    }),
    (Some(ExplanationCause::MemoryLimit), |trial, _| {
        read_again(trial, 0.4);
    }),
    (None, |trial, _| {
        read_again(trial, 0.1);
    }),
    (Some(ExplanationCause::SlowedProcessor), |trial, _| {
        held_back(trial, 0.5);
    }),
    (None, |trial, _| {
        held_back(trial, 0.02);
    }),
    (Some(ExplanationCause::Discards), |trial, _| {
        discards(trial, 0.6);
    }),
    (None, |trial, _| {
        discards(trial, 0.05);
    }),
    (Some(ExplanationCause::OtherIo), |trial, _| {
        others_wrote(trial, 0.8);
    }),
    (None, |trial, _| {
        others_wrote(trial, 0.1);
    }),
    (Some(ExplanationCause::OtherIo), |trial, _| {
        others_synced(trial, 0.5);
    }),
    (None, |trial, _| {
        others_synced(trial, 0.1);
    }),
    (Some(ExplanationCause::DeviceQueue), |trial, _| {
        queue(trial, 3.7);
    }),
    (None, |trial, _| {
        queue(trial, 2.5);
    }),
    (Some(ExplanationCause::Pauses), |trial, _| {
        pauses(trial, 300);
    }),
    (None, |trial, _| {
        pauses(trial, 160);
    }),
];

#[test]
fn what_a_disk_and_a_group_did_is_named_and_what_came_near_it_is_not() {
    for (n, (cause, change)) in PLANTED.iter().enumerate() {
        for seed in 0..SEEDS {
            let told = told_with(seed, change);
            assert_eq!(
                first(&told),
                *cause,
                "case {n}, seed {seed}: {:?}",
                told.found
            );
        }
    }
}

fn limited(trial: &mut TrialResult, at: f64) {
    let used = &mut trial.machines[0];
    let rate = used.disks[0].requests as f64 / used.length.as_secs_f64();
    used.disks[0].writes = Some(DiskRequests::default());
    let limit = |disk: &str, per_s: f64| DiskLimit {
        disk: disk.into(),
        what: DiskLimitKind::Reads,
        per_s: round_u64(per_s),
    };
    // That of a disk of others is none.
    used.io_limits = Some(vec![limit("vdz", 1.0), limit("vdb", rate / at)]);
}

fn read_again(trial: &mut TrialResult, again: f64) {
    let bytes = trial.stats.bytes() as f64;
    let used = &mut trial.machines[0];
    used.io_limits = Some(Vec::new());
    used.memory_limit = Some(MemoryLimitUse {
        limit_bytes: 1 << 30,
        hits: 900,
        read_again_bytes: round_u64(bytes * again),
    });
}

fn held_back(trial: &mut TrialResult, for_share: f64) {
    let used = &mut trial.machines[0];
    used.cpu_limit_hits = Some(used.length.0 / 200_000_000);
    used.cpu_limit_waited = Some(share(used.length, for_share));
}

fn discards(trial: &mut TrialResult, for_share: f64) {
    let time = share(trial.machines[0].length, for_share);
    disk(trial).discards = Some(DiskRequests { count: 40, time });
}

fn others_wrote(trial: &mut TrialResult, of_all: f64) {
    let device = trial.device.as_mut().unwrap();
    let own = device.served.read_bytes as f64;
    device.served.written_bytes = round_u64(own * of_all / (1.0 - of_all));
}

/// Others that write little and wait long for it.
fn others_synced(trial: &mut TrialResult, of_time: f64) {
    let time = disk(trial).request_time.0 as f64;
    let requests = |of: f64| DiskRequests {
        count: 100,
        time: Nanos(round_u64(time * of)),
    };
    disk(trial).writes = Some(requests(0.0));
    disk(trial).flushes = Some(requests(of_time / (1.0 - of_time)));
}

/// A disk that takes four requests; of the twelve of the workload, `depth` are in flight on it.
fn queue(trial: &mut TrialResult, depth: f64) {
    let seconds = trial.length.0 / Nanos::SECOND.0;
    disk(trial).queue_slots = Some(4);
    disk(trial).by_depth = vec![DiskAtDepth {
        looks: saturating_u32(seconds),
        requests: 1000 * seconds,
        busy: trial.length,
        in_flight: [round_u64(depth * 10.0 * seconds as f64), 10 * seconds],
    }];
    let kind = trial.stats.0.get_mut(&OpKind::Read).unwrap();
    let ops = kind.response.count();
    kind.response = Histogram::new();
    let each = 12.0 * trial.length.0 as f64 / ops as f64;
    kind.response.record_many(Nanos(round_u64(each)), ops);
}

/// A pause of `ms` milliseconds in every five seconds.
fn pauses(trial: &mut TrialResult, ms: u64) {
    let count = trial.length.0 / Nanos::SECOND.0 / 5;
    let longest = Nanos(ms * 1_000_000);
    let time = match ms > 200 {
        true => Nanos(count * longest.0),
        // A single one.
        false => longest.min(share(trial.length, 0.015)),
    };
    disk(trial).pauses = Some(DiskPauses {
        count: saturating_u32(count),
        time,
        longest,
    });
}

/// Replaces the times of all requests, second by second.
fn replay(
    trial: &mut TrialResult,
    bins: &mut [TrialTimeBin],
    mut ms: impl FnMut(usize, u64) -> f64,
) {
    let mut all = Histogram::new();
    for (second, bin) in bins.iter_mut().enumerate() {
        let count = bin.response.count();
        let mut times = Histogram::new();
        for n in 0..count {
            times.record(Nanos(round_u64(ms(second, n) * 1e6)));
        }
        all.merge(&times);
        bin.response = times.clone();
        let kind = bin.kinds.entry(OpKind::Read).or_default();
        kind.response = times;
    }
    let kind = trial.stats.0.get_mut(&OpKind::Read).unwrap();
    (kind.service, kind.response) = (all.clone(), all);
}

#[test]
fn stalls_of_single_requests_are_told_from_tails_and_from_pauses() {
    for seed in 0..SEEDS {
        let rng = std::cell::RefCell::new(Rng::new(Seed(seed).derive("stalls", 0)));
        let exponential = |mean: f64| -mean * (1.0 - rng.borrow_mut().unit()).ln();
        let is_one = |of: f64| rng.borrow_mut().unit() < of;
        let stalls = told_with(seed, |trial, bins| {
            replay(trial, bins, |_, _| {
                exponential(2.0) + f64::from(u8::from(is_one(0.01))) * 60.0
            });
        });
        assert_eq!(
            first(&stalls),
            Some(ExplanationCause::Stalls),
            "seed {seed}"
        );
        // Two normal deviates in an exponent: a tail without a mode of its own.
        let tail = told_with(seed, |trial, bins| {
            replay(trial, bins, |_, _| {
                (1.2 * rng.borrow_mut().normal()).exp() * 2.0
            });
        });
        assert_eq!(first(&tail), None, "seed {seed}: {:?}", tail.found);
        // Every fifth second, as many at once as come in a third of a second.
        let pauses = told_with(seed, |trial, bins| {
            replay(trial, bins, |second, n| match second % 5 == 0 && n < 60 {
                true => 300.0,
                false => exponential(2.0),
            });
        });
        assert_eq!(first(&pauses), None, "seed {seed}: {:?}", pauses.found);
    }
}

#[test]
fn a_rate_that_is_the_same_in_every_second_is_a_limit_and_one_with_noise_is_none() {
    let with = |seed: u64, noise: f64| {
        let rng = std::cell::RefCell::new(Rng::new(Seed(seed).derive("plateau", 0)));
        let told = told_with(seed, |_, bins| {
            for bin in bins {
                let count = 400.0 + noise * rng.borrow_mut().normal();
                bin.response = Histogram::new();
                bin.response
                    .record_many(Nanos(10_000_000), round_u64(count));
            }
        });
        first(&told)
    };
    for seed in 0..SEEDS {
        assert_eq!(
            with(seed, 0.4),
            Some(ExplanationCause::RateLimit),
            "seed {seed}"
        );
        // Noise of one percent, as even a device with constant times shows on a machine with a
        // clock.
        assert_eq!(with(seed, 4.0), None, "seed {seed}");
    }
}

#[test]
fn a_rate_that_drifts_is_told_from_noise() {
    let run = |seed: u64, per_trial: f64| {
        let mut rng = Rng::new(Seed(seed).derive("drift", 0));
        let one = SimulatedRun::new(seed, None).run();
        let mut run = one.clone();
        run.trials = (0..8)
            .map(|place| {
                let mut trial = one.trials[0].clone();
                (trial.trial.place, trial.trial.block) = (place, place);
                let factor = (f64::from(place) * per_trial + 0.04 * rng.normal()).exp();
                trial.length = Nanos(round_u64(trial.length.0 as f64 * factor));
                trial
            })
            .collect();
        run.intervals = (0..8)
            .map(|place| (place, one.intervals[&0].clone()))
            .collect();
        let told = explain(&run).swap_remove(0);
        told.found
            .iter()
            .any(|one| one.cause == ExplanationCause::Drift)
    };
    let named = |per_trial: f64| (0..SEEDS).filter(|seed| run(*seed, per_trial)).count();
    assert!(named(0.06) >= 18, "{}", named(0.06));
    assert!(named(-0.06) >= 18, "{}", named(-0.06));
    assert_eq!(named(0.0), 0);
}

#[test]
fn mount_options_are_named_where_the_device_shows_them() {
    let with = |options: &str, free: u64, times: f64| {
        let mut run = SimulatedRun::new(3, None).run();
        let facts = run.manifest.arms[0].facts.as_mut().unwrap();
        facts.mount_options = options.into();
        facts.file_system = "ext4".into();
        (facts.size_bytes, facts.free_bytes) = (1 << 30, free);
        for trial in &mut run.trials {
            let device = trial.device.as_mut().unwrap();
            (device.asked.writes, device.asked.written_bytes) = (1000, 64 << 20);
            device.served.writes = round_u64(1000.0 * times);
            device.served.written_bytes = round_u64(times.max(1.0) * f64::from(64 << 20));
            let created = KindStats::default();
            trial.stats.0.insert(OpKind::Create, created);
        }
        first(&explain(&run).swap_remove(0))
    };
    let half = 1 << 29;
    assert_eq!(
        with("rw,sync", half, 1.4),
        Some(ExplanationCause::SyncMount)
    );
    assert_eq!(with("rw,sync", half, 0.2), None, "nothing waits");
    let journaled = Some(ExplanationCause::JournaledData);
    assert_eq!(with("rw,data=journal", half, 2.1), journaled);
    assert_eq!(with("rw,data=ordered", half, 2.1), None);
    assert_eq!(with("rw,data=journal", half, 1.1), None);
    let full = Some(ExplanationCause::FullFileSystem);
    assert_eq!(with("rw", 1 << 24, 1.0), full);
    assert_eq!(with("rw", 1 << 27, 1.0), None);
}

#[test]
fn what_a_limit_brings_about_is_not_told_beside_it() {
    let late = |trial: &mut TrialResult, _: &mut Vec<TrialTimeBin>| {
        queue(trial, 3.9);
        let kind = trial.stats.0.get_mut(&OpKind::Read).unwrap();
        let ops = kind.response.count();
        kind.lag
            .record_many(Nanos(kind.response.sum_ns() / ops / 2), ops);
    };
    let told = told_with(5, late);
    let causes: Vec<_> = told.found.iter().map(|one| one.cause).collect();
    assert_eq!(causes, [ExplanationCause::DeviceQueue]);
}
