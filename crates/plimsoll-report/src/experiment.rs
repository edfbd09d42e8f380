// SPDX-License-Identifier: Apache-2.0
//! The page of an experiment: published tables beside ours, answers, and what the original could not say.

use plimsoll_core::comparison::{ComparisonVerdict, RatioEstimate};
use plimsoll_core::experiment::{
    ExperimentAnswered, ExperimentCell, ExperimentControl, ExperimentFinding, ExperimentLimit,
    ExperimentResult, ExperimentTableResult, ExperimentUnit, ExperimentValue,
};
use plimsoll_core::explanation::ExplanationCause;
use plimsoll_core::units;
use std::collections::BTreeMap;

use crate::model::{
    ReportAnswer, ReportDocument, ReportDoubt, ReportItem, ReportSection, ReportSeverity,
    ReportTable, ReportTableCell, ReportTableColumn,
};

/// An experiment as a report.
pub fn experiment(result: &ExperimentResult) -> ReportDocument {
    let mut sections: Vec<ReportSection> = result.tables.iter().map(table_section).collect();
    sections.extend(result.questions.iter().enumerate().map(question));
    sections.extend(beyond(result));
    sections.push(carried_out(result));
    let source = &result.source;
    ReportDocument {
        title: result.title.clone(),
        subtitle: format!(
            "plimsoll repro {} · {} profile · published by {}, {}: {}",
            result.name,
            result.profile.name(),
            source.author,
            source.year,
            source.published
        ),
        answer: answer(result),
        headline: Vec::new(),
        sections,
        data: serde_json::to_string(result).unwrap_or_default(),
    }
}

/// How much of it stands beside the original.
fn answer(result: &ExperimentResult) -> ReportAnswer {
    let cells = || {
        let rows = result.tables.iter().flat_map(|table| &table.rows);
        rows.filter(|row| !row.is_mean).flat_map(|row| &row.cells)
    };
    let is_ours = |cell: &&ExperimentCell| !matches!(cell.ours, ExperimentFinding::Missing(_));
    let (ours, all) = (cells().filter(is_ours).count(), cells().count());
    let answered = result
        .questions
        .iter()
        .filter(|one| one.is_answered)
        .count();
    let failed = result
        .parts
        .iter()
        .filter(|part| part.failed.is_some())
        .count();
    ReportAnswer {
        text: format!(
            "{ours} of {all} published figures have one of ours beside them; {answered} of {} open questions \
             have an answer.",
            result.questions.len()
        ),
        tone: match failed {
            0 => ReportSeverity::Plain,
            _ => ReportSeverity::Care,
        },
        facts: [("Machine", &result.machine)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.into(), text.clone()))
            .collect(),
        doubts: doubts(result),
        ..ReportAnswer::default()
    }
}

/// Reasons for doubt: a machine that other programs used, and controls that differ.
fn doubts(result: &ExperimentResult) -> Vec<ReportDoubt> {
    let others = ExplanationCause::OtherPrograms.name();
    let is_disturbed = |limit: &&ExperimentLimit| {
        let mut found = limit.found.iter();
        found.any(|found| found.starts_with(others))
    };
    let disturbed = result.limits.iter().filter(is_disturbed).count();
    let differ = |one: &&ExperimentControl| one.comparison.verdict == ComparisonVerdict::Different;
    let controls = result.controls.iter().filter(differ).count();
    let mut doubts = Vec::new();
    if 2 * disturbed > result.limits.len() {
        let all = result.limits.len();
        doubts.push(format!(
            "Other programs took processors from {disturbed} of {all} results: run it again on a quiet machine."
        ));
    }
    if controls > 0 {
        let all = result.controls.len();
        doubts.push(format!(
            "{controls} of {all} A/A controls differ: a system is not like itself."
        ));
    }
    let doubt = |text| ReportDoubt {
        text,
        section: "beyond".into(),
    };
    doubts.into_iter().map(doubt).collect()
}

fn columns(table: &ExperimentTableResult, first: Option<&str>) -> Vec<ReportTableColumn> {
    let label = |title: &String| ReportTableColumn {
        title: title.clone(),
        numeric: false,
        secondary: false,
    };
    let figure = |title: &String| ReportTableColumn {
        numeric: true,
        ..label(title)
    };
    let labels = table.labels.iter().map(label);
    let whose = first.map(str::to_owned);
    let whose = whose.iter().map(label).collect::<Vec<_>>();
    labels
        .chain(whose)
        .chain(table.columns.iter().map(figure))
        .collect()
}

fn empty(caption: String, columns: Vec<ReportTableColumn>) -> ReportTable {
    ReportTable {
        caption,
        columns,
        rows: Vec::new(),
        notes: Vec::new(),
        keeps_ranges: true,
    }
}

/// The labels of a row; those that are the same as in the row above are left out of runs of the same thing.
fn labels(table: &ExperimentTableResult, at: usize) -> Vec<ReportTableCell> {
    let labels = &table.rows[at].labels;
    let above = at.checked_sub(1).map(|above| &table.rows[above].labels);
    let has_runs = table.rows.iter().any(|row| row.is_mean);
    let is_same = |place: usize| {
        let all =
            above.is_some_and(|above| above[..labels.len() - 1] == labels[..labels.len() - 1]);
        has_runs && all && place + 1 < labels.len()
    };
    let cell = |(place, label): (usize, &String)| match is_same(place) {
        true => ReportTableCell::new(""),
        false => ReportTableCell::new(label.clone()),
    };
    labels.iter().enumerate().map(cell).collect()
}

/// A published figure, with the interval of a mean.
fn published_cell(cell: &ExperimentCell) -> ReportTableCell {
    let shown = ReportTableCell::new(cell.published.clone());
    match cell.published_interval {
        Some((low, high)) => {
            let ends = [low, high].map(units::three_digits);
            shown.detail(format!("{} to {}", ends[0], ends[1]))
        }
        None => shown,
    }
}

fn table_section(table: &ExperimentTableResult) -> ReportSection {
    let mut published = empty("Published".into(), columns(table, None));
    let mut ours = empty("Here".into(), columns(table, None));
    let mut reasons: Vec<String> = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let theirs = row.cells.iter().map(published_cell);
        let head = || labels(table, at).into_iter();
        published.rows.push(head().chain(theirs).collect());
        let cells: Vec<ReportTableCell> = row
            .cells
            .iter()
            .map(|cell| our_cell(&cell.ours, cell.unit, &mut reasons))
            .collect();
        ours.rows.push(head().chain(cells).collect());
    }
    ours.notes.push(
        "Geometric mean over blocks with its 95 % interval. Absolute figures of then and now do not compare: disks, \
         machines and networks are others; ratios may."
            .into(),
    );
    ours.notes.extend(reasons);
    let mut items = vec![ReportItem::Table(published), ReportItem::Table(ours)];
    if !table.base.is_empty() {
        items.push(ReportItem::Table(ratios(table)));
    }
    items.extend(table.notes.iter().cloned().map(ReportItem::Text));
    ReportSection {
        is_answer: true,
        items,
        ..ReportSection::new(table.title.clone(), "").at(&table.name)
    }
}

/// A cell of ours; why one is empty stands below the table, by its number.
fn our_cell(
    found: &ExperimentFinding,
    unit: ExperimentUnit,
    reasons: &mut Vec<String>,
) -> ReportTableCell {
    match found {
        ExperimentFinding::Number(value) => number(value, unit),
        ExperimentFinding::Text(text) | ExperimentFinding::Found(text) => {
            ReportTableCell::new(text.clone())
        }
        ExperimentFinding::Excluded => ReportTableCell::new("not found"),
        ExperimentFinding::Missing(why) => missing(why, reasons),
    }
}

/// A cell without a figure, and the number of the reason.
fn missing(why: &str, reasons: &mut Vec<String>) -> ReportTableCell {
    let text = |number: usize| format!("[{number}] {why}");
    let known = (1..=reasons.len()).find(|number| reasons[number - 1] == text(*number));
    let number = known.unwrap_or_else(|| {
        reasons.push(text(reasons.len() + 1));
        reasons.len()
    });
    ReportTableCell::new(format!("– [{number}]")).tone(ReportSeverity::Muted)
}

fn number(value: &ExperimentValue, unit: ExperimentUnit) -> ReportTableCell {
    let cell = ReportTableCell::new(unit.number(value.value)).value(value.value);
    match value.interval {
        Some((low, high)) => cell.detail(format!("{} to {}", unit.number(low), unit.number(high))),
        None => cell,
    }
}

/// Both as ratios to the base, one below the other.
fn ratios(table: &ExperimentTableResult) -> ReportTable {
    let caption = format!("As ratios to {}", table.base);
    let mut ratios = empty(caption, columns(table, Some("whose")));
    for (at, row) in table.rows.iter().enumerate() {
        let has_any =
            |cell: &ExperimentCell| cell.published_ratio.is_some() || cell.our_ratio.is_some();
        if !row.cells.iter().any(has_any) {
            continue;
        }
        let theirs = |cell: &ExperimentCell| match cell.published_ratio {
            Some(ratio) => ReportTableCell::new(ExperimentUnit::Times.show(ratio)).value(ratio),
            None => ReportTableCell::new(""),
        };
        let head = labels(table, at).into_iter();
        let head = head.chain([ReportTableCell::new("published")]);
        ratios
            .rows
            .push(head.chain(row.cells.iter().map(theirs)).collect());
        let nothing = row.labels.iter().map(|_| ReportTableCell::new(""));
        let head = nothing.chain([ReportTableCell::new("here")]);
        ratios
            .rows
            .push(head.chain(row.cells.iter().map(our_ratio)).collect());
    }
    ratios.notes.push(
        "Ours within blocks, with the 95 % interval; a ratio that lies on the other side of 1 than the \
         published one, with its whole interval, says so."
            .into(),
    );
    ratios
}

fn our_ratio(cell: &ExperimentCell) -> ReportTableCell {
    let Some(value) = &cell.our_ratio else {
        return ReportTableCell::new("–").tone(ReportSeverity::Muted);
    };
    let unit = ExperimentUnit::Times;
    let shown = ReportTableCell::new(unit.show(value.value)).value(value.value);
    let Some((low, high)) = value.interval else {
        return shown;
    };
    let ends = format!("{} to {}", unit.number(low), unit.number(high));
    let is_other = cell
        .published_ratio
        .is_some_and(|published| (published < 1.0 && low > 1.0) || (published > 1.0 && high < 1.0));
    match is_other {
        true => shown
            .detail(format!("{ends}, the other way round"))
            .tone(ReportSeverity::Care),
        false => shown.detail(ends),
    }
}

/// A question that was left open, its answer, and what that rests on.
fn question((at, one): (usize, &ExperimentAnswered)) -> ReportSection {
    let tone = match one.is_answered {
        true => ReportSeverity::Plain,
        false => ReportSeverity::Care,
    };
    let mut items = vec![ReportItem::Notice(tone, one.says.clone())];
    if !one.evidence.is_empty() {
        let mut table = ReportTable::new("Evidence", &["Figure", "Here"]);
        let mut reasons = Vec::new();
        for evidence in &one.evidence {
            let shown = match &evidence.found {
                ExperimentFinding::Missing(why) => missing(why, &mut reasons),
                _ => ReportTableCell::new(evidence.shown.clone()),
            };
            let what = ReportTableCell::new(evidence.what.clone());
            table.rows.push(vec![what, shown]);
        }
        table.notes.extend(reasons);
        if !one.because.is_empty() {
            let note = format!("This answer is given when {}.", one.because);
            table.notes.push(note);
        }
        items.push(ReportItem::Table(table));
    }
    let published = one.published.as_deref();
    let lead = published.map_or(String::new(), |text| format!("Published: {text}"));
    ReportSection {
        is_answer: true,
        items,
        ..ReportSection::new(one.asks.clone(), lead).at(&format!("question-{}", at + 1))
    }
}

/// Results that no original could give.
fn beyond(result: &ExperimentResult) -> Option<ReportSection> {
    let tables = [controls(result), load_lines(result)].into_iter();
    let tables = tables.filter(|table| !table.rows.is_empty());
    let mut items: Vec<ReportItem> = tables.map(ReportItem::Table).collect();
    if !result.limits.is_empty() {
        items.push(ReportItem::Folded(most_common(result), limits(result)));
    }
    let title = "What the original could not say";
    (!items.is_empty()).then(|| ReportSection {
        items,
        ..ReportSection::new(title, "").at("beyond")
    })
}

fn cells<const N: usize>(texts: [&str; N]) -> Vec<ReportTableCell> {
    texts.into_iter().map(ReportTableCell::new).collect()
}

/// An estimate with its interval.
fn interval(ratio: &RatioEstimate) -> String {
    let numbers = [ratio.estimate, ratio.low, ratio.high].map(units::three_digits);
    format!("{} ({} to {})", numbers[0], numbers[1], numbers[2])
}

/// Causes that limited the results, with their counts, the most common first.
fn most_common(result: &ExperimentResult) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for found in result.limits.iter().flat_map(|limit| &limit.found) {
        // Behind the name stand the figures.
        let name = found.split(" (").next().unwrap_or(found);
        *counts.entry(name).or_default() += 1;
    }
    let all = result.limits.len();
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = counts
        .iter()
        .map(|(name, count)| format!("{name} {count} of {all}"));
    let told = told.collect::<Vec<_>>().join("; ");
    match told.is_empty() {
        true => format!("What limited the results: nothing that was looked for, in {all} cases."),
        false => format!("What limited the results is consistent with: {told}."),
    }
}

fn controls(result: &ExperimentResult) -> ReportTable {
    let heads = [
        "Part",
        "Workload",
        "System",
        "#Second entry ÷ first",
        "Verdict",
    ];
    let mut table = ReportTable::new("A/A control: a system against itself", &heads);
    for one in &result.controls {
        let ratio = one.comparison.ratio.as_ref().map_or("–".into(), interval);
        let tone = match one.comparison.verdict {
            ComparisonVerdict::Different => ReportSeverity::Care,
            _ => ReportSeverity::Plain,
        };
        let about = [
            &*one.part,
            &one.comparison.workload,
            &one.comparison.base,
            &ratio,
        ];
        let verdict = ReportTableCell::new(one.comparison.verdict.name()).tone(tone);
        table
            .rows
            .push(cells(about).into_iter().chain([verdict]).collect());
    }
    table
}

fn load_lines(result: &ExperimentResult) -> ReportTable {
    let heads = ["Part", "Workload", "System", "#Carries", "Reached first"];
    let mut table = ReportTable::new("Load lines: the multiple that a system carries", &heads);
    for line in &result.load_lines {
        let binding = line.binding.as_deref().unwrap_or("–");
        let carries = line.beyond.clone();
        let carries = carries.unwrap_or_else(|| interval(&line.carried));
        table.rows.push(cells([
            &line.part,
            &line.workload,
            &line.system,
            &carries,
            binding,
        ]));
    }
    table
}

fn limits(result: &ExperimentResult) -> ReportTable {
    let heads = ["Part", "Workload", "System", "Consistent with"];
    let mut table = ReportTable::new("What limited the results", &heads);
    for limit in &result.limits {
        let found = match limit.found.is_empty() {
            true => "nothing that was looked for".to_owned(),
            false => limit.found.join("; "),
        };
        table
            .rows
            .push(cells([&limit.part, &limit.workload, &limit.system, &found]));
    }
    table
}

fn carried_out(result: &ExperimentResult) -> ReportSection {
    let mut items: Vec<ReportItem> = result
        .scaling
        .iter()
        .cloned()
        .map(ReportItem::Text)
        .collect();
    let heads = ["Part", "What", "#Took", "Outcome"];
    let mut table = ReportTable::new("Parts", &heads);
    for part in &result.parts {
        let outcome = match (&part.failed, &part.report) {
            (Some(why), _) => ReportTableCell::new(why.clone()).tone(ReportSeverity::Care),
            (None, Some(report)) => ReportTableCell::new(report.clone()),
            (None, None) => ReportTableCell::new("done"),
        };
        let took = match part.seconds > 0.0 {
            true => units::clock_duration(units::Nanos::from_secs_f64(part.seconds)),
            false => "–".into(),
        };
        table.rows.push(vec![
            ReportTableCell::new(part.name.clone()),
            ReportTableCell::new(part.what.clone()),
            ReportTableCell::new(took),
            outcome,
        ]);
    }
    items.push(ReportItem::Table(table));
    for part in &result.parts {
        if let Some(report) = &part.report {
            items.push(ReportItem::Link {
                text: format!("Report of {}", part.name),
                to: report.clone(),
            });
        }
        if !part.command.is_empty() {
            items.push(ReportItem::Command(part.command.clone()));
        }
    }
    ReportSection {
        items,
        ..ReportSection::new("What was carried out", "").at("parts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_cell_is_empty_stands_once_below_the_table() {
        let mut reasons = Vec::new();
        let missing = |why: &str| ExperimentFinding::Missing(why.into());
        let texts: Vec<String> = ["no array", "no time", "no array"]
            .map(|why| our_cell(&missing(why), ExperimentUnit::Count, &mut reasons).text)
            .into();
        assert_eq!(texts, ["– [1]", "– [2]", "– [1]"]);
        assert_eq!(reasons, ["[1] no array", "[2] no time"]);
    }

    #[test]
    fn a_ratio_on_the_other_side_of_one_says_so() {
        let cell = |published, low, high| ExperimentCell {
            published: "1".into(),
            published_interval: None,
            unit: ExperimentUnit::Count,
            ours: ExperimentFinding::Excluded,
            published_ratio: Some(published),
            our_ratio: Some(ExperimentValue {
                value: (low + high) / 2.0,
                interval: Some((low, high)),
                blocks: Vec::new(),
            }),
        };
        let says = |cell: &ExperimentCell| our_ratio(cell).detail.contains("the other way round");
        assert!(says(&cell(1.8, 0.5, 0.9)) && says(&cell(0.2, 1.1, 1.2)));
        assert!(!says(&cell(1.8, 0.5, 1.1)) && !says(&cell(1.8, 1.5, 1.9)));
    }
}
