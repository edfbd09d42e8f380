// SPDX-License-Identifier: Apache-2.0
//! Maps results to a report: its contents and their order.
//!
//! First the answer, then the evidence for it, then every reason to doubt it, then how and where it
//! was measured. Pure: the same results give the same report.

mod answer;
mod conditioning;
mod doubts;
mod faults;
mod forest;
mod heat_map;
mod ladder;
mod limits;
mod load_line;
mod loops;
mod method;
mod next_steps;
mod nodes;
mod overload;
mod phases;
mod requirement;
mod results_document;
mod secondary;
mod series;
mod servers;
mod slo;
mod surroundings;
mod uses;
mod verdicts;
mod view;
mod winner;
mod workload;

use plimsoll_core::event::RunFolderContents;
use plimsoll_core::run_results::RunResultsDocument;
use plimsoll_core::text::{enumerated, printable_json};

use crate::model::{ReportDocument, ReportFinding, ReportSection};
pub(crate) use verdicts::quantity_of;
use view::ResultsView;

/// Maps results to a report. A run that was killed has no comparisons on record; they are then
/// computed from the blocks that were finished.
pub fn build(results: &RunFolderContents) -> ReportDocument {
    report(&ResultsView::of(results))
}

/// The same of a run that goes on: its results are interim, nothing of it is missing, and nothing is to be
/// done yet.
pub fn build_interim(results: &RunFolderContents) -> ReportDocument {
    report(&ResultsView {
        goes_on: true,
        ..ResultsView::of(results)
    })
}

fn report(view: &ResultsView<'_>) -> ReportDocument {
    let mut sections: Vec<ReportSection> = Vec::new();
    sections.extend(doubts::missing(view));
    sections.extend(uses::section(view));
    sections.extend(load_line::section(view));
    sections.extend(requirement::sections(view));
    sections.extend(ladder::section(view));
    sections.extend(verdicts::section(view));
    sections.extend(slo::section(view));
    sections.extend(loops::section(view));
    sections.extend(secondary::section(view));
    for entry in view.entries().filter(|entry| !entry.workload.is_idle()) {
        sections.push(workload::section(view, entry));
    }
    sections.extend(faults::sections(view));
    sections.extend(doubts::fidelity(view));
    sections.extend(limits::section(view));
    sections.extend(doubts::generator(view));
    sections.extend(nodes::section(view));
    sections.extend(servers::section(view));
    sections.extend(doubts::warnings(view));
    sections.extend(conditioning::section(view));
    sections.push(method::method(view));
    sections.push(method::arms(view));
    sections.push(method::machine(view));
    sections.extend(method::raw_data(view));
    let headline = headline(view);
    ReportDocument {
        title: title(view),
        subtitle: subtitle(view),
        answer: answer::answer(view),
        data: results_document::in_page(results_document::document(view, &headline)),
        headline,
        sections,
    }
}

fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut headline = requirement::headline(view);
    headline.extend(load_line::headline(view));
    headline.extend(surroundings::memory(view));
    headline.extend(if view.steps.is_empty() {
        verdicts::headline(view)
    } else {
        ladder::headline(view)
    });
    headline.extend(loops::headline(view));
    headline.extend(faults::headline(view));
    headline.extend(surroundings::noise(view));
    headline.extend(limits::headline(view));
    headline.extend(nodes::alarms(view));
    headline.extend(conditioning::headline(view));
    headline.extend(doubts::alarms(view));
    headline
}

/// The results of a run for programs, without the seconds of its trials.
pub fn results_document(results: &RunFolderContents) -> RunResultsDocument {
    let view = ResultsView::of(results);
    results_document::document(&view, &headline(&view))
}

/// The same with the seconds that the contents hold, as a file.
pub(crate) fn exported(results: &RunFolderContents) -> String {
    let mut document = results_document(results);
    results_document::add_intervals(&mut document, results);
    let text = serde_json::to_string(&document).expect("the document is plain data");
    printable_json(&text) + "\n"
}

fn title(view: &ResultsView<'_>) -> String {
    let systems = view.arms.iter().filter(|a| a.arm.control_of.is_none());
    let names: Vec<&str> = systems.map(|a| a.arm.name.as_str()).collect();
    let is_search = view.load_entries().next().is_some();
    match names.as_slice() {
        [] => "No system".into(),
        [one] if is_search => format!("How much load does {one} carry?"),
        _ if is_search => format!("How much load do {} carry?", enumerated(&names)),
        [one] if view.is_comparison() => format!("{one} against itself"),
        [one] if view.entries().any(|e| e.workload.is_idle()) => format!("Faults of {one}"),
        [one] => (*one).into(),
        [base, one] => format!("Which is better: {base} or {one}?"),
        [most @ .., last] => format!("Which is best: {} or {last}?", most.join(", ")),
    }
}

fn subtitle(view: &ResultsView<'_>) -> String {
    let manifest = &view.results.manifest;
    let entries = view.load_entries().chain(view.entries());
    let labels: Vec<&str> = entries.map(|e| e.label.as_str()).collect();
    format!(
        "{} · {} · {} · run {} · Plimsoll {}",
        labels.join(", "),
        manifest.machine.host,
        manifest.began_at,
        manifest.id,
        manifest.program,
    )
}
