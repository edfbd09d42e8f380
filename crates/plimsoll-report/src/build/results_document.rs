// SPDX-License-Identifier: Apache-2.0
//! The results of a run for other programs, from its run folder and from what the page tells of it.

use super::load_line;
use super::view::ResultsView;
use crate::model::ReportFinding;
use plimsoll_core::event::{
    ClientLoadNodeResult, KindStats, PhaseResult, RunFolderContents, TrialResult, TrialTimeBin,
    TrialTimeBinKind, WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::run_results::{
    RunResultsDocument, RunResultsFinding, RunResultsInterval, RunResultsNode,
    RunResultsOperations, RunResultsPhase, RunResultsTrial, RunResultsWorkload,
};
use serde_json::Value;

/// The document, without intervals.
pub(super) fn document(view: &ResultsView<'_>, headline: &[ReportFinding]) -> RunResultsDocument {
    let results = view.results;
    let manifest = results.manifest.clone();
    let workloads = manifest.entries.iter().map(workload).collect();
    let trial = |of| trial(&manifest.entries, of);
    let trials = results.trials.iter().map(trial).collect();
    RunResultsDocument {
        format: FormatVersion::RESULTS,
        folder: None,
        workloads,
        answer: headline.iter().map(finding).collect(),
        comparisons: view.comparisons.to_vec(),
        secondary: view.secondary.clone(),
        loops: view.loops.clone(),
        load_lines: load_line::for_programs(view),
        limits: view.slos.clone(),
        explanations: view.explanations.clone(),
        cliffs: view.cliffs.clone(),
        trials,
        trials_left_out: None,
        complete: results.complete,
        warnings: results.warnings.clone(),
        program: manifest.program,
        id: manifest.id,
        began_at: manifest.began_at,
        command: manifest.command,
        seed: manifest.seed,
        policy: manifest.policy,
        blocks: manifest.blocks,
        design: manifest.design,
        conditioning: manifest.conditioning,
        trial_bytes: manifest.trial_bytes,
        campaign: manifest.campaign,
        machine: manifest.machine,
        versions: manifest.versions,
        load_nodes: manifest.load_nodes,
        arms: manifest.arms,
    }
}

/// Adds the intervals that were read.
pub(super) fn add_intervals(document: &mut RunResultsDocument, results: &RunFolderContents) {
    for trial in &mut document.trials {
        let bins = results.intervals.get(&trial.place);
        trial.intervals = bins.into_iter().flatten().map(interval).collect();
    }
}

/// Most bytes of the document inside a page, as far as trials have a say in it: a page is to be sent.
const PAGE_BYTES_MAX: usize = 300_000;

/// Why it can be written as JSON.
const PLAIN_DATA: &str = "results are plain data";

/// The document as JSON, with as many trials as a page has room for.
pub(super) fn in_page(mut document: RunResultsDocument) -> String {
    let all = std::mem::take(&mut document.trials);
    let text = |value: &Value| value.to_string();
    let value = |trial| serde_json::to_value::<&RunResultsTrial>(trial).expect(PLAIN_DATA);
    let mut whole = serde_json::to_value(&document).expect(PLAIN_DATA);
    let mut room = PAGE_BYTES_MAX.saturating_sub(text(&whole).len());
    let fits = |trial: &Value| {
        let length = text(trial).len() + 1;
        let is_inside = length <= room;
        room = room.saturating_sub(length);
        is_inside
    };
    let trials: Vec<Value> = all.iter().map(value).take_while(fits).collect();
    if trials.len() < all.len() {
        whole["trials_left_out"] = (all.len() - trials.len()).into();
    }
    whole["trials"] = Value::Array(trials);
    text(&whole)
}

fn finding(of: &ReportFinding) -> RunResultsFinding {
    RunResultsFinding {
        mark: of.mark.clone(),
        text: of.text.clone(),
        detail: of.detail.clone(),
    }
}

fn workload(entry: &WorkloadEntry) -> RunResultsWorkload {
    RunResultsWorkload {
        label: entry.label.clone(),
        workload: entry.workload.name().to_owned(),
        scale: entry.scale,
        length_ns: entry.length,
        data_set_bytes: entry.workload.data_set_bytes(),
        direct: entry.workload.is_direct(),
        inject: entry.inject.clone(),
        condition: entry.condition.clone(),
        load_line: entry.load_line.clone(),
        client: entry.client.clone(),
        load_loop: entry.load_loop.clone(),
    }
}

fn trial(entries: &[WorkloadEntry], of: &TrialResult) -> RunResultsTrial {
    let mut entries = entries.iter();
    let entry = entries.find(|entry| entry.label == of.trial.workload);
    let metric = entry.and_then(|entry| entry.workload.metric());
    let is_verified = of.data_check.is_some() || of.fault.is_some();
    let kinds = of.stats.0.iter();
    RunResultsTrial {
        block: of.trial.block,
        place: of.trial.place,
        arm: of.trial.arm.clone(),
        workload: of.trial.workload.clone(),
        metric,
        value: metric.map(|metric| of.value(metric)),
        length_ns: of.length,
        prepare_ns: of.prepare,
        interrupted: of.interrupted,
        comparable: of.is_comparable(),
        failed: of.failed.clone(),
        lost_data: is_verified.then(|| of.has_lost_data()),
        ops: of.stats.ops(),
        bytes: of.stats.bytes(),
        errors: of.stats.errors(),
        response_ns: (&of.stats.response()).into(),
        service_ns: (&of.stats.service()).into(),
        lag_ns: (&of.stats.lag()).into(),
        kinds: kinds
            .map(|(kind, stats)| (*kind, in_trial(stats)))
            .collect(),
        phases: of.phases.iter().map(phase).collect(),
        workers: of.workers.clone(),
        generator: of.generator.clone(),
        fidelity: of.fidelity.clone(),
        data_check: of.data_check.clone(),
        device: of.device.clone(),
        servers: of.servers.clone(),
        machines: of.machines.clone(),
        nodes: of.nodes.iter().map(node).collect(),
        offered_share: of.offered(),
        fault: of.fault.clone(),
        load_line: of.load_line.as_ref().map(|record| record.request),
        intervals: Vec::new(),
    }
}

fn in_trial(stats: &KindStats) -> RunResultsOperations {
    RunResultsOperations {
        ops: stats.ops(),
        bytes: stats.bytes,
        errors: stats.errors,
        response_ns: (&stats.response).into(),
        service_ns: Some((&stats.service).into()),
    }
}

fn phase(of: &PhaseResult) -> RunResultsPhase {
    RunResultsPhase {
        name: of.name.clone(),
        metric: of.metric,
        value: of.value,
        wall_ns: of.wall,
        user_cpu_ns: of.user_cpu_ns,
        system_cpu_ns: of.system_cpu_ns,
        ops: of.stats.ops(),
        bytes: of.stats.bytes(),
        errors: of.stats.errors(),
        response_ns: (&of.stats.response()).into(),
        workers: of.workers.clone(),
    }
}

fn node(of: &ClientLoadNodeResult) -> RunResultsNode {
    RunResultsNode {
        node: of.node.clone(),
        clock_offset_ns: of.clock.ns,
        clock_uncertainty_ns: of.clock.uncertainty,
        began_ns: of.began_ns,
        length_ns: of.length,
        ops: of.stats.ops(),
        bytes: of.stats.bytes(),
        errors: of.stats.errors(),
        response_ns: (&of.stats.response()).into(),
        generator: of.generator.clone(),
        lost: of.lost.clone(),
    }
}

fn interval(bin: &TrialTimeBin) -> RunResultsInterval {
    let kind = |stats: &TrialTimeBinKind| RunResultsOperations {
        ops: stats.response.count(),
        bytes: stats.bytes,
        errors: stats.errors,
        response_ns: (&stats.response).into(),
        service_ns: None,
    };
    let kinds = bin.kinds.iter();
    RunResultsInterval {
        start_ns: bin.start,
        length_ns: bin.length,
        kinds: kinds.map(|(name, stats)| (*name, kind(stats))).collect(),
    }
}
