// SPDX-License-Identifier: Apache-2.0
//! Results of an experiment: from the results of its parts to tables beside the published ones and
//! to answers.
//!
//! Pure: computes the result of the experiment from the results of its parts. The commands that the parts
//! name carry them out.

mod answers;
mod find;
mod tables;
mod trial_value;

pub use find::{ExperimentMaterial, ExperimentMaterials};

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::experiment::{
    ExperimentControl, ExperimentFile, ExperimentLimit, ExperimentLoadLine, ExperimentPartResult,
    ExperimentProfile, ExperimentResult,
};
use plimsoll_core::explanation::ExplanationCause;
use plimsoll_stats::explain::explain;
use plimsoll_stats::load_line::arm_load_lines;

/// The result of an experiment from the results of its parts.
pub fn evaluate(
    file: &ExperimentFile,
    profile: ExperimentProfile,
    parts: &ExperimentMaterials,
    carried_out: Vec<ExperimentPartResult>,
) -> ExperimentResult {
    let tables = file.table.iter().map(|table| tables::beside(table, parts));
    let questions = file.question.iter();
    let questions = questions.map(|question| answers::answered(question, parts));
    let mut result = ExperimentResult {
        name: file.name.clone(),
        title: file.title.clone(),
        source: file.source.clone(),
        profile,
        scaling: file.scaling.clone(),
        machine: String::new(),
        tables: tables.collect(),
        questions: questions.collect(),
        controls: Vec::new(),
        limits: Vec::new(),
        load_lines: Vec::new(),
        parts: carried_out,
    };
    // In the order of the file, not of names.
    for part in &file.part {
        if let Some(run) = parts.get(&part.name).and_then(|part| part.run.as_ref()) {
            add_run(&mut result, &part.name, run);
        }
    }
    result
}

/// Findings that no original could give: the control, causes that limited results, and load lines.
fn add_run(result: &mut ExperimentResult, part: &str, run: &RunFolderContents) {
    if result.machine.is_empty() {
        result.machine = machine(run);
    }
    let controls = run.comparisons.iter().filter(|one| one.is_control);
    result
        .controls
        .extend(controls.map(|comparison| ExperimentControl {
            part: part.into(),
            comparison: comparison.clone(),
        }));
    let is_control = |name: &str| {
        let mut arms = run.manifest.arms.iter();
        arms.any(|arm| arm.name == name && arm.control_of.is_some())
    };
    let explained = explain(run);
    let explained = explained.iter().filter(|one| !is_control(&one.arm));
    result.limits.extend(explained.map(|one| {
        ExperimentLimit {
            part: part.into(),
            workload: one.workload.clone(),
            system: one.arm.clone(),
            found: one.found.iter().map(find::shown_cause).collect(),
            // A cause that was looked for and not found is also a finding.
            excluded: (one.excluded.iter().copied())
                .map(ExplanationCause::name)
                .map(str::to_owned)
                .collect(),
        }
    }));
    for line in arm_load_lines(&run.manifest, &run.trials) {
        let edge = line.result.sustained;
        if line.result.trials > 0 && edge.point.is_finite() {
            result.load_lines.push(ExperimentLoadLine {
                part: part.into(),
                workload: line.entry.label.clone(),
                system: line.arm.into(),
                carried: RatioEstimate {
                    estimate: edge.point,
                    low: edge.low,
                    high: edge.high,
                },
                beyond: find::beyond(&line),
                binding: line.result.binding.clone(),
            });
        }
    }
}

fn machine(run: &RunFolderContents) -> String {
    let facts = &run.manifest.machine;
    format!(
        "{} processors, {} of memory, Linux {}",
        facts.cpus,
        plimsoll_core::units::size(facts.ram_bytes as f64),
        facts.kernel
    )
}
