// SPDX-License-Identifier: Apache-2.0
//! Loads held against recordings, and models against what they were fitted from: gate by gate.

use plimsoll_core::model::{FidelityCheck, FidelityReport, WorkloadModel};
use plimsoll_core::profile::DiskProfile;
use plimsoll_core::units;

use crate::describe::profile;
use crate::model::{
    ReportAnswer, ReportDocument, ReportDoubt, ReportFinding, ReportItem, ReportNextStep,
    ReportSection, ReportSeverity, ReportTable, ReportTableCell,
};
use crate::words::{count, dash, number};

/// Most gates that are named in a sentence.
const NAMED_MAX: usize = 3;

/// Report on loads that were checked against recordings, each by its name.
pub fn verified(title: &str, reports: &[(String, &FidelityReport)]) -> ReportDocument {
    let lines = || reports.iter().flat_map(|(_, report)| &report.lines);
    let lines: Vec<&FidelityCheck> = lines().map(|row| &row.line).collect();
    let about = |(load, report): &(String, &FidelityReport)| {
        format!(
            "{load} against {} · disk {} · {} to {}",
            report.recording, report.disk, report.from, report.to
        )
    };
    let subtitle: Vec<String> = reports.iter().map(about).collect();
    let sections = reports.iter().map(|one| {
        let mut section = ReportSection::new(format!("Gates of {}", one.0), about(one));
        section
            .items
            .push(ReportItem::Table(table_of_report(one.1)));
        let untold = one.1.untold.iter().cloned();
        section.items.extend(untold.map(ReportItem::Text));
        section
    });
    ReportDocument {
        title: format!("{title}: the load against its recording"),
        subtitle: subtitle.join(" · "),
        answer: answer(title, &lines),
        headline: missed(&lines).map(finding).collect(),
        sections: sections.collect(),
        data: serde_json::json!(reports.iter().map(|(_, report)| report).collect::<Vec<_>>())
            .to_string(),
    }
}

/// Report on the recording that a model was fitted from, and on how close the model comes to it.
pub fn fitted(about: &str, of: &DiskProfile, model: &WorkloadModel) -> ReportDocument {
    let mut report = profile(&model.source.recording, about, of);
    let lines: Vec<&FidelityCheck> = model.fidelity.iter().collect();
    let said = answer(&model.name, &lines);
    report.answer.text = format!("{} {}", said.text, report.answer.text);
    report.answer.tone = said.tone;
    report.answer.doubts.extend(said.doubts);
    report.answer.next = vec![ReportNextStep {
        text: "Compare systems under it: plimsoll compare, with -w and the file of the model."
            .into(),
        command: String::new(),
    }];
    report.headline.extend(missed(&lines).map(finding));
    let mut section = ReportSection::new("Is the model the recorded load?", "").at("gates");
    section.items.push(ReportItem::Table(table(&lines)));
    report.sections.insert(0, section);
    report
}

fn missed<'c>(lines: &[&'c FidelityCheck]) -> impl Iterator<Item = &'c FidelityCheck> {
    lines.iter().copied().filter(|line| !line.passed())
}

fn answer(load: &str, lines: &[&FidelityCheck]) -> ReportAnswer {
    let names: Vec<&str> = missed(lines).map(|line| line.metric.as_str()).collect();
    let gates = count(lines.len(), "gate");
    let (tone, text) = match names.len() {
        0 => (
            ReportSeverity::Good,
            format!("{load} is the recorded load: it passes all of {gates}."),
        ),
        many => {
            let shown = names[..many.min(NAMED_MAX)].join(", ");
            let more = match many.saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!(
                "{load} is not the recorded load: it misses {many} of {gates}: {shown}{more}."
            );
            (ReportSeverity::Bad, text)
        }
    };
    let doubt = |text: String| ReportDoubt {
        text,
        section: "gates".into(),
    };
    let mut doubts = vec![doubt(
        "A gate says how close the figures of the load are, not that nothing else differs.".into(),
    )];
    let copies = lines.iter().filter(|line| line.copy).count();
    if copies > 0 {
        doubts.push(doubt(format!(
            "{copies} of {gates} are on a copy: the load was made of this very recording, so they show only that it \
             is played."
        )));
    }
    ReportAnswer {
        text,
        tone,
        doubts,
        ..ReportAnswer::default()
    }
}

fn finding(line: &FidelityCheck) -> ReportFinding {
    let detail = format!(
        "recorded {}, submitted {}, error {}, gate ±{}",
        number(line.recorded),
        number(line.submitted),
        units::signed_percent(line.error),
        units::signed_percent(line.gate).trim_start_matches('+')
    );
    ReportFinding::new("missed", line.metric.clone())
        .tone(ReportSeverity::Bad)
        .detail(detail)
}

fn cells(line: &FidelityCheck) -> Vec<ReportTableCell> {
    let (word, tone) = match line.passed() {
        true => ("pass", ReportSeverity::Good),
        false => ("MISSED", ReportSeverity::Bad),
    };
    vec![
        ReportTableCell::new(line.metric.clone()),
        ReportTableCell::new(number(line.recorded)).value(line.recorded),
        ReportTableCell::new(number(line.submitted)).value(line.submitted),
        ReportTableCell::new(line.shown(units::signed_percent)).value(line.error),
        ReportTableCell::new(units::signed_percent(line.gate).replace('+', "±")).value(line.gate),
        ReportTableCell::new(word).tone(tone),
    ]
}

const COLUMNS: [&str; 6] = [
    "Metric",
    "#Recorded",
    "#Submitted",
    "#Error",
    "#Gate",
    "Result",
];

fn table(lines: &[&FidelityCheck]) -> ReportTable {
    let mut table = ReportTable::new("Gates", &COLUMNS);
    table.rows = lines.iter().map(|line| cells(line)).collect();
    table
}

/// The same with how far the recording differs from itself.
fn table_of_report(report: &FidelityReport) -> ReportTable {
    let mut columns = COLUMNS.to_vec();
    columns.extend(["#Two seeds", "#Halves"]);
    let mut table = ReportTable::new("Gates", &columns);
    let floor = |value: Option<f64>| {
        value.map_or_else(dash, |value| {
            ReportTableCell::new(units::signed_percent(value)).value(value)
        })
    };
    for row in &report.lines {
        let mut line = cells(&row.line);
        line.extend([floor(row.floor.seeds), floor(row.floor.halves)]);
        table.rows.push(line);
    }
    table.notes = vec![
        "Two seeds: the error between two plays of this load. Halves: the error between the first half of \
         the recording and the second."
            .into(),
    ];
    table
}
