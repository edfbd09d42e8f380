// SPDX-License-Identifier: Apache-2.0
//! Whether systems fit a use: what it needs, who says so, and the verdict on each system.

use plimsoll_core::load_line::LoadLineRequirement;
use plimsoll_core::text::enumerated;
use plimsoll_core::units;
use plimsoll_stats::load_line::{ArmLoadLine, LoadLineFit, LoadLineReach};

use super::load_line;
use super::uses;
use super::view::ResultsView;
use crate::model::{
    ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell,
};
use crate::words;

/// The verdicts of a run that asks whether systems fit a use.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    // The table of uses has them.
    if uses::are_several(view) {
        return Vec::new();
    }
    let lines = view.load_lines.iter();
    lines.filter_map(|line| finding(view, line)).collect()
}

/// Who fits, who does not, and how much room the best has.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    let lines = || {
        let lines = view.load_lines.iter();
        lines.filter(|line| line.goal.requirement.is_some())
    };
    let name = &lines().next()?.goal.requirement.as_ref()?.name;
    let is_open = lines().all(|line| LoadLineFit::of(line) == LoadLineFit::CannotTell);
    if is_open && load_line::noise(view).is_some() {
        return load_line::answer(view);
    }
    let best = lines().max_by(|a, b| {
        let point = |line: &ArmLoadLine<'_>| line.result.sustained.point;
        point(a).total_cmp(&point(b))
    })?;
    let told = [
        (LoadLineFit::Fits, "fits", "fit"),
        (LoadLineFit::DoesNotFit, "does not fit", "do not fit"),
        (
            LoadLineFit::CannotTell,
            "may or may not fit",
            "may or may not fit",
        ),
    ];
    let clause = |(fit, one, many): (LoadLineFit, &str, &str)| {
        let those = lines().filter(|line| LoadLineFit::of(line) == fit);
        let names: Vec<String> = those.map(|line| view.name_of(line.arm)).collect();
        let verb = if names.len() == 1 { one } else { many };
        (!names.is_empty()).then(|| format!("{} {verb} {name}", enumerated(&names)))
    };
    let clauses: Vec<String> = told.into_iter().filter_map(clause).collect();
    let room = carried(view, best).map_or(String::new(), |text| {
        // The text begins with "it carries".
        let text = text.strip_prefix("it ").unwrap_or(&text);
        format!("; {} {text}", view.name_of(best.arm))
    });
    let tone = match lines().all(|line| LoadLineFit::of(line) == LoadLineFit::Fits) {
        true => ReportSeverity::Good,
        false => ReportSeverity::Care,
    };
    Some((tone, format!("{}{room}.", clauses.join("; "))))
}

/// The verdict on a line that was searched for a use; `None` where none was asked for.
fn finding(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Option<ReportFinding> {
    let need = line.goal.requirement.as_ref()?;
    let fit = LoadLineFit::of(line);
    let (arm, name) = (view.name_of(line.arm), &need.name);
    let verdict = match fit {
        LoadLineFit::Fits => format!("{arm} fits {name}"),
        LoadLineFit::DoesNotFit => format!("{arm} does not fit {name}"),
        LoadLineFit::CannotTell => format!("cannot tell whether {arm} fits {name}"),
    };
    let carried = carried(view, line).map_or(String::new(), |text| format!(": {text}"));
    Some(ReportFinding {
        mark: fit.name().into(),
        tone: match fit {
            LoadLineFit::Fits => ReportSeverity::Good,
            LoadLineFit::DoesNotFit => ReportSeverity::Bad,
            LoadLineFit::CannotTell => ReportSeverity::Care,
        },
        text: format!("{verdict}{carried}"),
        detail: detail(view, (line, need), fit),
    })
}

/// How much of what is needed a system carries.
fn carried(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Option<String> {
    let result = &line.result;
    let times = |multiple: f64| format!("{}×", units::three_digits(multiple));
    let edge = &result.sustained;
    match result.reach {
        _ if result.trials == 0 => None,
        LoadLineReach::Below => Some(format!(
            "it carries less than {} of what it needs",
            times(edge.high)
        )),
        LoadLineReach::AtLeast => Some(format!(
            "it carries at least {} what it needs",
            times(edge.low)
        )),
        LoadLineReach::Between => Some(format!(
            "it carries {} what it needs ({} CI {} to {})",
            times(edge.point),
            words::percent_whole(view.results.manifest.policy.confidence),
            units::three_digits(edge.low),
            units::three_digits(edge.high),
        )),
        LoadLineReach::Unknown => None,
    }
}

fn detail(
    view: &ResultsView<'_>,
    (line, need): (&ArmLoadLine<'_>, &LoadLineRequirement),
    fit: LoadLineFit,
) -> String {
    let mut all = vec![format!(
        "It needs {} at {}.",
        need.load,
        load_line::limits(line)
    )];
    if need.has_own_limits {
        all.push("The limits are those of --slo.".into());
    } else if let Some(source) = need.sources.first() {
        all.push(format!("Source: {}, {}.", source.title, source.url));
    }
    if fit == LoadLineFit::CannotTell {
        all.push("A longer --budget or a smaller --width may tell.".into());
    }
    all.push(load_line::detail(view, line));
    all.join(" ")
}

/// Required load and limits of each use, and the sources that publish them.
pub(super) fn sections(view: &ResultsView<'_>) -> Vec<ReportSection> {
    let mut told: Vec<&str> = Vec::new();
    let mut sections = Vec::new();
    for line in &view.load_lines {
        // Systems and conditions have lines of their own, and one need.
        let Some(need) = &line.goal.requirement else {
            continue;
        };
        if !told.contains(&need.name.as_str()) {
            told.push(&need.name);
            sections.push(section(line, need));
        }
    }
    sections
}

fn section(line: &ArmLoadLine<'_>, need: &LoadLineRequirement) -> ReportSection {
    let mut section = ReportSection::new(
        format!("What does {} need?", need.name),
        format!("{}.", need.about),
    );
    section.items.push(ReportItem::Facts(vec![
        ("Load".into(), need.load.clone()),
        ("Limits".into(), load_line::limits(line)),
    ]));
    let mut table = ReportTable::new("Sources", &["Figure", "Source", "Date"]);
    for source in &need.sources {
        table.rows.push(vec![
            ReportTableCell::new(&source.says),
            ReportTableCell::new(&source.title).detail(source.url.clone()),
            ReportTableCell::new(&source.date),
        ]);
    }
    table.notes.clone_from(&need.notes);
    section.items.push(ReportItem::Table(table));
    section
}
