// SPDX-License-Identifier: Apache-2.0
//! A run as one JSON document; its schema is `schemas/run-export.schema.json`.

use plimsoll_core::comparison::{ArmComparison, ComparisonMetric, ComparisonVerdict};
use plimsoll_core::event::{
    KindStats, RunFolderContents, TrialResult, TrialTimeBin, TrialTimeBinKind, WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::run_export::{
    RunExportArm, RunExportDocument, RunExportFinding, RunExportInterval, RunExportIntervalKind,
    RunExportKind, RunExportTimes, RunExportTrial, RunExportVerdict, RunExportWarning,
    RunExportWorkload,
};
use plimsoll_core::text::printable_json;
use plimsoll_core::units::Nanos;

use super::table::{QUANTILES, quantile_s, seconds_of_trials};
use super::{comparisons, has_lost_data};
use crate::build::build;
use crate::model::{ReportFinding, ReportSeverity};
use crate::words;

/// The document, with an end of line.
pub(super) fn json(results: &RunFolderContents) -> String {
    let text = serde_json::to_string(&document(results)).expect("the document is plain data");
    printable_json(&text) + "\n"
}

fn document(results: &RunFolderContents) -> RunExportDocument {
    let manifest = &results.manifest;
    let arm = |arm: &plimsoll_core::event::ArmEntry| RunExportArm {
        name: arm.name.clone(),
        target: arm.target.clone(),
        description: arm.description.clone(),
        control_of: arm.control_of.clone(),
    };
    let warning = |warning: &plimsoll_core::event::RunWarning| RunExportWarning {
        about: warning.about.clone(),
        text: warning.text.clone(),
    };
    RunExportDocument {
        format: FormatVersion::EXPORT,
        program: manifest.program.clone(),
        id: manifest.id.clone(),
        began_at: manifest.began_at.clone(),
        command: manifest.command.clone(),
        seed: manifest.seed.0,
        complete: results.complete,
        confidence: manifest.policy.confidence,
        margin: manifest.policy.margin,
        answer: build(results).headline.into_iter().map(finding).collect(),
        arms: manifest.arms.iter().map(arm).collect(),
        workloads: manifest.entries.iter().map(workload).collect(),
        verdicts: comparisons(results).iter().map(verdict).collect(),
        trials: seconds_of_trials(results).map(trial).collect(),
        warnings: results.warnings.iter().map(warning).collect(),
    }
}

fn finding(of: ReportFinding) -> RunExportFinding {
    RunExportFinding {
        mark: of.mark,
        text: of.text,
        detail: of.detail,
    }
}

fn workload(entry: &WorkloadEntry) -> RunExportWorkload {
    RunExportWorkload {
        label: entry.label.clone(),
        workload: entry.workload.name().to_owned(),
        scale: entry.scale,
        length_s: entry.length.as_secs_f64(),
    }
}

/// The unit that values of a metric are exported in, and how many of its own units that is.
pub(super) fn unit(metric: ComparisonMetric) -> (&'static str, f64) {
    match metric {
        ComparisonMetric::MeanResponse
        | ComparisonMetric::WallTime
        | ComparisonMetric::WriteOutage
        | ComparisonMetric::BrownOut
        | ComparisonMetric::P99Response
        | ComparisonMetric::P999Response
        | ComparisonMetric::CpuPerOperation
        | ComparisonMetric::PreparationTime => ("s", 1e9),
        ComparisonMetric::OpsPerSecond => ("ops/s", 1.0),
        ComparisonMetric::BytesPerSecond => ("bytes/s", 1.0),
        ComparisonMetric::OutputSize => ("bytes", 1.0),
        ComparisonMetric::ClientEvenness | ComparisonMetric::RunToRunVariation => ("1", 1.0),
    }
}

fn verdict(row: &ArmComparison) -> RunExportVerdict {
    let (unit, divisor) = unit(row.metric);
    // Without a value there is 0 or no number.
    let value = |value: f64| (value.is_finite() && value > 0.0).then_some(value / divisor);
    let is_different = row.verdict == ComparisonVerdict::Different;
    RunExportVerdict {
        workload: row.workload.clone(),
        arm: row.arm.clone(),
        base: row.base.clone(),
        is_control: row.is_control,
        metric: row.metric,
        unit: unit.to_owned(),
        base_value: value(row.base_value),
        arm_value: value(row.arm_value),
        ratio: row.ratio,
        verdict: row.verdict,
        is_better: is_different.then(|| words::tone(row) == ReportSeverity::Good),
        reason: row.reason.clone(),
        blocks: row.blocks,
        noise_floor: row.noise_floor,
        detectable: row.detectable,
    }
}

fn trial((of, bins): (&TrialResult, &[TrialTimeBin])) -> RunExportTrial {
    let is_verified = of.data_check.is_some() || of.fault.is_some();
    let kinds = of.stats.0.iter();
    RunExportTrial {
        block: of.trial.block,
        place: of.trial.place,
        arm: of.trial.arm.clone(),
        workload: of.trial.workload.clone(),
        length_s: of.length.as_secs_f64(),
        prepare_s: of.prepare.as_secs_f64(),
        interrupted: of.interrupted,
        comparable: of.is_comparable(),
        failed: of.failed.clone(),
        lost_data: is_verified.then(|| has_lost_data(of)),
        lost_nodes: of.lost_nodes().map(|(node, _)| node.to_owned()).collect(),
        offered_share: of.offered(),
        kinds: kinds
            .map(|(kind, stats)| (*kind, in_trial(stats)))
            .collect(),
        intervals: bins.iter().map(interval).collect(),
    }
}

fn in_trial(stats: &KindStats) -> RunExportKind {
    RunExportKind {
        ops: stats.ops(),
        bytes: stats.bytes,
        errors: stats.errors,
        response: times(&stats.response),
        service: times(&stats.service),
    }
}

fn interval(bin: &TrialTimeBin) -> RunExportInterval {
    let kind = |stats: &TrialTimeBinKind| RunExportIntervalKind {
        ops: stats.response.count(),
        bytes: stats.bytes,
        errors: stats.errors,
        response: times(&stats.response),
    };
    let kinds = bin.kinds.iter();
    RunExportInterval {
        t_s: bin.start.as_secs_f64(),
        length_s: bin.length.as_secs_f64(),
        kinds: kinds.map(|(name, stats)| (*name, kind(stats))).collect(),
    }
}

fn times(histogram: &Histogram) -> RunExportTimes {
    if histogram.is_empty() {
        return RunExportTimes::default();
    }
    let [p50_s, p90_s, p99_s, p99_9_s] = QUANTILES.map(|q| quantile_s(histogram, q));
    RunExportTimes {
        mean_s: Some(histogram.mean_ns() / 1e9),
        p50_s,
        p90_s,
        p99_s,
        p99_9_s,
        max_s: Some(Nanos(histogram.max_ns()).as_secs_f64()),
    }
}
