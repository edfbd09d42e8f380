// SPDX-License-Identifier: Apache-2.0
//! The data of requirements: whole, sourced, and playable.

use plimsoll_core::load_line::LoadLineQuantity;
use plimsoll_core::op::OpKind;
use plimsoll_core::settings::SettingValues;
use plimsoll_core::workload::blocks::{ArrivalProcess, BlockIoPacing, BlockIoWorkload};
use plimsoll_core::workload::{Workload, WorkloadMultiple};

use super::{REQUIREMENTS, RequirementDefinition};
use crate::need::find_requirement;

fn made(one: &RequirementDefinition, given: &[(&str, &str)]) -> BlockIoWorkload {
    let given: Vec<(String, String)> = given
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let settings = SettingValues::new(one.workload.name, one.workload.settings, &given);
    match (one.workload.build)(&settings.expect("known settings")) {
        Ok(Workload::Blocks(blocks)) => blocks,
        other => panic!("{}: {other:?}", one.workload.name),
    }
}

fn rate(blocks: &BlockIoWorkload, group: usize) -> f64 {
    match &blocks.groups[group].pace {
        BlockIoPacing::Open(
            ArrivalProcess::Paced { per_s } | ArrivalProcess::Poisson { per_s },
        ) => *per_s,
        pace => panic!("{pace:?}"),
    }
}

fn named(name: &str) -> &'static RequirementDefinition {
    find_requirement(name).expect("a requirement").0
}

/// Kinds of operations that a load makes.
fn kinds(blocks: &BlockIoWorkload) -> Vec<OpKind> {
    let mut kinds = Vec::new();
    for group in &blocks.groups {
        let turns = group.mix.iter();
        kinds.extend(turns.flat_map(|turn| turn.kind.operations()).copied());
        if group.syncs.every > 0 {
            kinds.push(OpKind::Fdatasync);
        }
    }
    kinds
}

#[test]
fn every_requirement_names_its_sources_and_has_a_load_line() {
    for one in REQUIREMENTS {
        let name = one.workload.name;
        assert!(!one.sources.is_empty(), "{name}");
        for source in one.sources {
            assert!(source.url.starts_with("http"), "{name}: {source:?}");
            assert!(
                !source.title.is_empty() && !source.says.is_empty(),
                "{name}"
            );
            assert!(source.date.contains("20"), "{name}: {source:?}");
        }
        let told = one.by_default().expect("its own defaults");
        assert!(!told.load.contains(['{', '}']), "{}", told.load);
        let blocks = made(one, &[]);
        let multiple = Workload::Blocks(blocks).multiple();
        assert_eq!(multiple, Ok(WorkloadMultiple::Rate), "{name}");
    }
}

#[test]
fn limits_are_about_operations_that_the_load_makes() {
    for one in REQUIREMENTS {
        let kinds = kinds(&made(one, &[]));
        let limits = one.slos();
        assert!(!limits.is_empty(), "{}", one.workload.name);
        for limit in limits {
            let is_made = limit.kind.is_none_or(|kind| kinds.contains(&kind));
            assert!(is_made, "{}: {limit}", one.workload.name);
            if let LoadLineQuantity::Quantile(q) = limit.quantity {
                assert!((0.5..1.0).contains(&q), "{limit}");
            }
        }
    }
}

#[test]
fn loads_are_those_of_their_sources() {
    let etcd = made(named("etcd"), &[]);
    // The least of 50 to 500 a second; ten commits of two halves.
    assert!((rate(&etcd, 0) - 50.0).abs() < 1e-9);
    assert!((rate(&etcd, 1) - 20.0).abs() < 1e-9);
    assert_eq!(etcd.groups[0].mix[0].bytes, 2300);
    // 8e9 parameters of 12 bytes in 156 s are 615 MB/s.
    let checkpoint = made(named("checkpoint"), &[]);
    let bytes_per_s = rate(&checkpoint, 0) * f64::from(checkpoint.groups[0].mix[0].bytes);
    assert!((bytes_per_s / 1e6 - 615.4).abs() < 0.1, "{bytes_per_s}");
    // 133 tokens of 128 KiB at once.
    let cache = made(named("kv-cache"), &[]);
    assert_eq!(cache.groups[0].mix[0].bytes, 133 << 17);
    let boot = made(named("vm-boot"), &[("vms", "20")]);
    assert!((rate(&boot, 0) - 3_000.0).abs() < 1e-9);
    let mail = made(named("mail"), &[("mailboxes", "1000")]);
    assert!((rate(&mail, 0) - 500.0).abs() < 1e-9);
    assert!((rate(&mail, 1) - 170.0).abs() < 1e-9);
}

#[test]
fn settings_are_told_and_mistakes_refused() {
    let (_, told) = find_requirement("etcd,iops=500").expect("a setting of it");
    assert!(told.load.starts_with("500 log records"), "{}", told.load);
    for (text, part) in [
        ("etc", "unknown requirement 'etc' (did you mean 'etcd'?)"),
        ("varmail", "available: etcd, postgres-wal, vm-boot, mail"),
        ("etcd,iops=0", "expected an integer from 1"),
        ("etcd,rate=5", "unknown setting 'rate' of etcd"),
        ("mail,iops=0", "expected a number above 0"),
        ("checkpoint,within=0", "expected at least 1 s"),
        ("checkpoint,params=-1", "expected a number above 0"),
        ("kv-cache,requests=0", "expected a number above 0"),
        ("kv-cache,tokens=5000", "expected an integer from 1 to 1024"),
        ("vm-boot,vms=0", "expected an integer from 1"),
    ] {
        let why = find_requirement(text).unwrap_err().to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}
