// SPDX-License-Identifier: Apache-2.0
//! Run folders that no run produced: with arbitrary names, or with very long trials.

use plimsoll_archive::RunFolderWriter;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    ArmEntry, OpStats, RunEvent, RunListener as _, RunManifest, RunWarning, TrialId, TrialInterval,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use std::io::Write as _;
use std::path::Path;

/// A manifest of one arm with this name.
pub(crate) fn manifest(name: &str) -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: name.into(),
        id: name.into(),
        began_at: "2026-01-01T00:00:00Z".into(),
        command: ["plimsoll", "run", "--", name, "null"]
            .map(String::from)
            .to_vec(),
        seed: Seed(1),
        generator: plimsoll_core::rng::GENERATOR.into(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: name.into(),
            kernel: "k".into(),
            cpu: "c".into(),
            cpus: 2,
            ram_bytes: 1,
            cpu_governor: None,
        },
        versions: [].into(),
        arms: vec![ArmEntry {
            name: name.into(),
            target: name.into(),
            description: name.into(),
            control_of: None,
            facts: None,
        }],
        entries: Vec::new(),
        blocks: 1,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
        design: None,
        balanced: false,
    }
}

fn began(name: &str) -> RunEvent {
    RunEvent::TrialBegan(TrialId {
        block: 0,
        place: 0,
        arm: name.into(),
        workload: name.into(),
    })
}

/// A second in which a few reads ended.
fn second(start: u64) -> RunEvent {
    let mut stats = OpStats::default();
    for ns in [90_000, 120_000] {
        let request = OpRequest {
            kind: OpKind::Read,
            file: 0,
            offset: 0,
            len: 4096,
            intended_at: Nanos(0),
        };
        stats.0.entry(OpKind::Read).or_default().record(&OpSample {
            request,
            submitted_at: Nanos(10),
            completed_at: Nanos(ns),
            result: Ok(4096),
        });
    }
    RunEvent::Interval {
        place: 0,
        interval: TrialInterval {
            start: Nanos(start * Nanos::SECOND.0),
            length: Nanos::SECOND,
            stats,
        },
    }
}

/// A run of one trial whose every name is this.
pub(crate) fn named(folder: &Path, name: &str) {
    let mut writer = RunFolderWriter::create(folder, &manifest(name)).expect("a new folder");
    writer.event(&began(name));
    (0..3).for_each(|at| writer.event(&second(at)));
    writer.event(&RunEvent::Warning(RunWarning {
        about: name.into(),
        text: name.into(),
    }));
    writer.event(&RunEvent::Finished {
        interrupted: false,
        comparisons: Vec::new(),
    });
}

/// A run of one trial of `seconds` seconds. The lines of the seconds are copies of one, each with its own
/// time.
pub(crate) fn long(folder: &Path, seconds: u64) {
    let mut writer = RunFolderWriter::create(folder, &manifest("long")).expect("a new folder");
    writer.event(&began("long"));
    drop(writer);
    let path = folder.join("events.jsonl");
    let begun = std::fs::read_to_string(&path).expect("it was written");
    let digits = begun.split('"').nth(3).expect("a checksum");
    let mut sum = u32::from_str_radix(digits, 16).expect("digits");
    let events = std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the folder has events");
    let mut events = std::io::BufWriter::new(events);
    let line = serde_json::to_string(&second(0)).expect("plain data");
    let (before, after) = line.split_once("\"start\":0").expect("a time");
    for at in 0..seconds {
        let start = at * Nanos::SECOND.0;
        let rest = format!("{}\"start\":{start}{after}", &before[1..]);
        sum = crc32c(sum, rest.as_bytes());
        writeln!(events, "{{\"crc32c\":\"{sum:08x}\",{rest}").expect("room");
    }
    events.flush().expect("room");
}

/// CRC-32C that goes on from another, bit by bit eight at a time.
fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    static TABLE: std::sync::LazyLock<[u32; 256]> = std::sync::LazyLock::new(|| {
        std::array::from_fn(|byte| {
            let byte = u32::try_from(byte).expect("a byte");
            (0..8).fold(byte, |sum, _| {
                (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
    });
    let table = &*TABLE;
    !bytes.iter().fold(!before, |sum, byte| {
        (sum >> 8) ^ table[usize::from(sum.to_le_bytes()[0] ^ byte)]
    })
}
