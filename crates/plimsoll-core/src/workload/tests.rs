// SPDX-License-Identifier: Apache-2.0
//! Workload and model files of every format that is read, as programs of that time wrote them.
//!
//! Formats 1.0 to 1.2 are refused: 2.0 gave each fact of a model its origin and dropped the field that
//! held them together, and no released version ever wrote the old ones.

use super::blocks::{ArrivalProcess, BlockIoPacing, BlockIoStopCondition};
use super::*;
use crate::model::{IoDirection, ModelArrivalPattern, ModelFactValue};
use crate::offsets::OffsetPattern;
use crate::syncs::SyncKind;
use crate::units::Nanos;

/// A file and the format it is in.
fn opened(text: &str, major: u32, minor: u32) -> Workload {
    let file: WorkloadFile = toml::from_str(text).unwrap();
    assert_eq!(file.format, FormatVersion { major, minor });
    assert!(FormatVersion::WORKLOAD.reads(file.format));
    file.workload
}

fn model(text: &str, major: u32, minor: u32) -> Box<WorkloadModel> {
    match opened(text, major, minor) {
        Workload::Model(model) => model,
        other => panic!("no model: {other:?}"),
    }
}

#[test]
fn a_model_of_format_2_0_has_its_figures() {
    let model = model(include_str!("fixtures/model-2.0.toml"), 2, 0);
    let facts = &model.facts;
    assert_eq!(facts.working_set_bytes, ModelFactValue::declared(1 << 30));
    assert_eq!(
        facts.offsets,
        Some(ModelFactValue::assumed(OffsetPattern::Uniform))
    );
    assert_eq!(
        facts.arrivals,
        Some(ModelFactValue::assumed(ModelArrivalPattern::BURSTY))
    );
    let cells = model.envelope.cells();
    let ops = |d| cells.iter().map(|cell| cell.load(d).ops).sum::<u64>();
    assert_eq!(
        (ops(IoDirection::Read), ops(IoDirection::Write)),
        (300, 1_800)
    );
    assert_eq!(cells[1].write.bytes, 24_576_000);
    assert!((cells[1].ops_per_s(IoDirection::Write) - 100.0).abs() < 1e-9);
    assert!((model.phases[0].load[1].ops_per_s - 60.0).abs() < 1e-9);
    let requests = model.requests.as_ref().unwrap();
    assert_eq!(
        (requests.requests(), requests.length()),
        (2_100, Nanos(30_000_000_000))
    );
    assert_eq!((requests.shuffled, requests.is_closed()), (None, false));
    assert_eq!(model.source.intervals_dropped, 1);
}

#[test]
fn a_model_of_format_2_1_has_its_figures() {
    let model = model(include_str!("fixtures/model-2.1.toml"), 2, 1);
    let facts = &model.facts;
    assert_eq!(facts.in_flight, Some(ModelFactValue::measured(1.5)));
    assert_eq!(facts.threads, Some(ModelFactValue::declared(8)));
    assert_eq!((&facts.offsets, &facts.arrivals), (&None, &None));
    assert_eq!(model.source.changes, ["twice the writes"]);
    assert!(model.fidelity[0].passed());
    let requests = model.requests.as_ref().unwrap();
    assert_eq!(requests.shuffled, Some(Nanos::SECOND));
    // 38 of 40 wait for an earlier one.
    assert!(requests.is_closed());
    let workload = Workload::Model(model);
    assert_eq!(workload.metric(), Some(ComparisonMetric::OpsPerSecond));
    assert_eq!(workload.data_set_bytes(), 2 << 20);
}

#[test]
fn a_workload_of_format_2_0_has_its_settings_and_the_defaults_of_today() {
    let Workload::Blocks(blocks) = opened(include_str!("fixtures/blocks-2.0.toml"), 2, 0) else {
        panic!("no block I/O");
    };
    let [group] = &blocks.groups[..] else {
        panic!("one group: {blocks:?}");
    };
    assert_eq!((group.workers, group.depth), (3, 4));
    assert_eq!(group.offsets, OffsetPattern::Runs { blocks: 16 });
    let batch = ArrivalProcess::Batch {
        per_s: 50.0,
        size: 10,
    };
    assert_eq!(group.pace, BlockIoPacing::Open(batch));
    assert_eq!(
        (group.syncs.every, group.syncs.with),
        (8, SyncKind::Fdatasync)
    );
    assert_eq!(group.work, BlockIoStopCondition::Each(1_000));
    assert_eq!(
        (group.mix[0].bytes, group.direct, group.batch),
        (8_192, true, 0)
    );
    assert!((group.mix[0].weight - 1.0).abs() < 1e-9);
    assert_eq!(group.rest, Nanos(0));
}

#[test]
fn formats_that_no_release_wrote_are_refused() {
    for (major, minor) in [(1, 0), (1, 1), (1, 2), (3, 0)] {
        assert!(!FormatVersion::WORKLOAD.reads(FormatVersion { major, minor }));
    }
}
