// SPDX-License-Identifier: Apache-2.0
//! Limits of the results: the explanations with their figures, causes that were looked for and not
//! found, and causes that could not be looked for.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::event::{DeviceUse, TransferTotals, WorkloadEntry};
use plimsoll_core::explanation::{
    ArmExplanations, CauseExplanation, EvidenceUnit, ExplanationCause, ExplanationStrength,
};
use plimsoll_core::num::ratio;
use plimsoll_core::units;
use plimsoll_stats::load_line::LoadLineReach;

use super::load_line;
use super::view::{ArmTrials, ResultsView};
use crate::model::{
    ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell,
};
use crate::words;

/// Causes that are listed in the section and not beside the answer: they describe more than they limit.
const IN_SECTION_ONLY: [ExplanationCause; 4] = [
    ExplanationCause::DataSetInMemory,
    ExplanationCause::ServersUneven,
    ExplanationCause::ThreadStarved,
    ExplanationCause::NetworkBytes,
];

/// Causes that are the client's: what was measured is then not the storage alone.
const OF_CLIENT: [ExplanationCause; 3] = [
    ExplanationCause::ClientProcessors,
    ExplanationCause::ClientProcessor,
    ExplanationCause::GeneratorLate,
];

/// The mark of findings about them.
const OF_CLIENT_MARK: &str = "check the generator";

/// From this share on merges change what the storage is asked.
const MERGED_SHARE: f64 = 0.1;

/// Causes that disturb all systems of a machine and limit none: said once, apart, where all show them.
const OF_MACHINE: [ExplanationCause; 2] = [
    ExplanationCause::OtherPrograms,
    ExplanationCause::StolenProcessor,
];

/// An explanation of a system.
type OfSystem<'a> = (&'a ArmExplanations, &'a CauseExplanation);

/// Explanations of the systems; controls are left out, as each repeats a system.
fn systems<'a>(view: &'a ResultsView<'_>) -> impl Iterator<Item = &'a ArmExplanations> {
    let is_control = |name: &str| {
        let mut arms = view.arms.iter().map(|arm| arm.arm);
        arms.any(|arm| arm.name == name && arm.control_of.is_some())
    };
    let all = view.explanations.iter();
    all.filter(move |told| !is_control(&told.arm))
}

fn has(told: &ArmExplanations, cause: ExplanationCause) -> bool {
    told.found.iter().any(|one| one.cause == cause)
}

/// Whether a cause is of the machine and shows on every one of several systems under a workload.
fn is_shared(view: &ResultsView<'_>, workload: &str, cause: ExplanationCause) -> bool {
    let of_workload = || systems(view).filter(|told| told.workload == workload);
    let is_everywhere = of_workload().all(|told| has(told, cause));
    OF_MACHINE.contains(&cause) && of_workload().nth(1).is_some() && is_everywhere
}

/// Whether a load line was searched and no limit was reached: then nothing limited the system.
fn is_unlimited(view: &ResultsView<'_>, told: &ArmExplanations) -> bool {
    let mut lines = view.load_lines.iter();
    let line = lines.find(|line| line.entry.label == told.workload && line.arm == told.arm);
    line.is_some_and(|line| {
        line.result.reach == LoadLineReach::AtLeast && !load_line::broke_a_limit(line)
    })
}

/// Heaviest limit of each system, leaving out causes that all systems share. Of a system that nothing limited
/// only what the client did is left.
fn heaviest<'a>(view: &'a ResultsView<'_>) -> Vec<(&'a ArmExplanations, Option<OfSystem<'a>>)> {
    let first = |told: &'a ArmExplanations| {
        let is_unlimited = is_unlimited(view, told);
        let mut own = told.found.iter().filter(|one| {
            let is_of_system = !is_unlimited || OF_CLIENT.contains(&one.cause);
            is_of_system
                && !IN_SECTION_ONLY.contains(&one.cause)
                && !is_shared(view, &told.workload, one.cause)
        });
        (told, own.next().map(|one| (told, one)))
    };
    systems(view).map(first).collect()
}

/// Causes that all systems share, once each.
fn shared<'a>(view: &'a ResultsView<'_>) -> BTreeMap<ExplanationCause, Vec<OfSystem<'a>>> {
    let mut all: BTreeMap<ExplanationCause, Vec<OfSystem<'a>>> = BTreeMap::new();
    for told in systems(view) {
        let found = told.found.iter();
        for one in found.filter(|one| is_shared(view, &told.workload, one.cause)) {
            all.entry(one.cause).or_default().push((told, one));
        }
    }
    all
}

/// Explanations that belong next to the answer: one line for each cause, with the systems and
/// workloads that it is about, and what all systems share last.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut by_cause: BTreeMap<ExplanationCause, Vec<OfSystem<'_>>> = BTreeMap::new();
    for (_, one) in heaviest(view) {
        if let Some((told, one)) = one {
            by_cause.entry(one.cause).or_default().push((told, one));
        }
    }
    let own = by_cause.into_iter();
    let mut all: Vec<ReportFinding> = own.map(|(cause, all)| finding(view, cause, &all)).collect();
    let shared = shared(view).into_iter();
    all.extend(shared.map(|(cause, all)| {
        let (name, trials) = (words::capital(cause.name()), shared_trials(view, &all));
        ReportFinding {
            text: format!("{name} in {trials}: {NO_DIFFERENCE}"),
            ..finding(view, cause, &all)
        }
    }));
    all
}

/// The trials in which all systems share a cause: `all trials`, or those of some workloads.
fn shared_trials(view: &ResultsView<'_>, all: &[OfSystem<'_>]) -> String {
    let workloads: BTreeSet<&str> = all.iter().map(|(told, _)| &*told.workload).collect();
    let everywhere = systems(view).all(|told| workloads.contains(&*told.workload));
    match everywhere {
        true => "all trials".into(),
        false => {
            let named: Vec<&str> = workloads.into_iter().collect();
            format!("all trials of {}", named.join(", "))
        }
    }
}

/// Remark on a cause that all systems share.
const NO_DIFFERENCE: &str = "not the reason for a difference";

/// Those of the client: what was measured is then not the storage alone.
pub(super) fn of_client(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let findings = headline(view).into_iter();
    findings
        .filter(|finding| finding.mark == OF_CLIENT_MARK)
        .collect()
}

/// Limits of the systems in a few words; empty where no trial was measured to the end.
pub(super) fn in_short(view: &ResultsView<'_>) -> String {
    let heaviest = heaviest(view);
    let is_whole = view.results.trials.iter().any(|trial| !trial.interrupted);
    if heaviest.is_empty() || !is_whole {
        return String::new();
    }
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for (of, one) in heaviest {
        let name = match one {
            _ if is_unlimited(view, of) => NO_LIMIT,
            Some((_, one)) => one.cause.name(),
            None => NOT_KNOWN,
        };
        let arm = view.name_of(&of.arm);
        match told.iter_mut().find(|(known, _)| *known == name) {
            Some((_, arms)) if arms.contains(&arm) => {}
            Some((_, arms)) => arms.push(arm),
            None => told.push((name, vec![arm])),
        }
    }
    let is_cause = |name: &str| name != NOT_KNOWN && name != NO_LIMIT;
    told.sort_by_key(|(name, _)| !is_cause(name));
    let mut parts: Vec<String> = match &told[..] {
        [(name, _)] if *name == NOT_KNOWN => vec![format!(
            "{NOT_KNOWN}: nothing beside the storage itself was found"
        )],
        [(name, _)] if *name == NO_LIMIT => vec![NO_LIMIT.into()],
        [(name, arms)] if arms.len() > 1 => {
            vec![format!("{name} ({}), {NO_DIFFERENCE}", arms.join(", "))]
        }
        told => told
            .iter()
            .map(|(name, arms)| format!("{name} ({})", arms.join(", ")))
            .collect(),
    };
    let shared = shared(view).into_iter();
    parts.extend(shared.map(|(cause, all)| {
        let trials = shared_trials(view, &all);
        format!("in {trials} {}: {NO_DIFFERENCE}", cause.name())
    }));
    match told.iter().any(|(name, _)| is_cause(name)) {
        true => format!("consistent with {}", parts.join("; ")),
        false => parts.join("; "),
    }
}

/// Where nothing that was looked at shows.
const NOT_KNOWN: &str = "not known";

/// Where a search met no limit.
const NO_LIMIT: &str = "no limit reached";

fn finding(view: &ResultsView<'_>, cause: ExplanationCause, all: &[OfSystem<'_>]) -> ReportFinding {
    let is_clients = OF_CLIENT.contains(&cause);
    let of = |(told, one): &OfSystem<'_>| {
        let about = match one.about.as_str() {
            "" => String::new(),
            about => format!(" ({about})"),
        };
        format!("{} on {}{about}", view.name_of(&told.arm), told.workload)
    };
    let whom: Vec<String> = all.iter().map(of).collect();
    let whom = match whom.len() {
        0..=3 => whom.join(", "),
        many => format!("{} and {} more", whom[..2].join(", "), many - 2),
    };
    let (_, one) = all[0];
    let is_cause = one.strength == ExplanationStrength::Cause;
    let (mark, tone) = match is_clients {
        true => (OF_CLIENT_MARK, ReportSeverity::Bad),
        false => ("limited by", ReportSeverity::Care),
    };
    let text = match (is_clients && is_cause, is_cause) {
        (true, _) => format!("This measures your client: {}: {whom}", cause.name()),
        (false, true) => format!("{}: {whom}", cause.name()),
        (false, false) => format!("Consistent with {}: {whom}", cause.name()),
    };
    let detail = deciding(one);
    ReportFinding::new(mark, text).tone(tone).detail(detail)
}

/// The figures that decided, in one sentence.
fn deciding(one: &CauseExplanation) -> String {
    let figures = one.evidence.iter().filter(|figure| figure.is_decisive());
    let words: Vec<String> = figures
        .map(|figure| format!("{}: {}", figure.figure, figure.shown()))
        .collect();
    format!("{}. See “What limited the results?”.", words.join("; "))
}

/// The section; none where nothing was played.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    if view.explanations.is_empty() {
        return None;
    }
    let mut section = ReportSection::new("What limited the results?", answer(view)).at("limits");
    let tables = tables(view);
    if !tables.is_empty() {
        let text = "“Consistent with” is not “caused by”: something that was not looked at may look the \
                    same. Values are medians over the trials that show it; of several limits it may be \
                    enough that one is passed.";
        section
            .items
            .extend(tables.into_iter().map(ReportItem::Table));
        section.items.push(ReportItem::Text(text.into()));
    }
    for (text, lines) in [
        ("Looked at and not found", excluded(view)),
        ("Could not be looked at", unknown(view)),
    ] {
        let lines = lines.into_iter();
        let told = lines.map(|line| ReportItem::Text(format!("{text}{line}")));
        section.items.extend(told);
    }
    for entry in view.entries().filter(|entry| !entry.workload.is_idle()) {
        section.items.extend(sizes(view, entry));
        let pools = view.pools(entry);
        let moved = pools.iter().filter_map(|pool| device_bytes(pool, entry));
        section.items.extend(moved.map(ReportItem::Text));
    }
    Some(section)
}

/// The answer in one sentence.
fn answer(view: &ResultsView<'_>) -> String {
    let all = || systems(view).flat_map(|told| &told.found);
    let causes = all().filter(|one| one.strength == ExplanationStrength::Cause);
    let mut names: Vec<&str> = causes.map(|one| one.cause.name()).collect();
    names.dedup();
    if !names.is_empty() {
        return format!("Shown by trials with and without it: {}.", names.join(", "));
    }
    let mut causes: Vec<ExplanationCause> = all().map(|one| one.cause).collect();
    causes.sort_unstable();
    causes.dedup();
    let names: Vec<&str> = causes.iter().map(|cause| cause.name()).collect();
    match names.is_empty() {
        true => "Not known: nothing beside the storage itself was found to limit them.".into(),
        false => format!(
            "What was recorded is consistent with: {}. Only trials without it would show a cause.",
            names.join(", ")
        ),
    }
}

/// One table for all systems with the same explanations under a workload.
fn tables(view: &ResultsView<'_>) -> Vec<ReportTable> {
    let mut groups: Vec<(&ArmExplanations, Vec<String>)> = Vec::new();
    for told in systems(view).filter(|told| !told.found.is_empty()) {
        let is_same =
            |other: &ArmExplanations| other.workload == told.workload && other.found == told.found;
        let name = view.name_of(&told.arm);
        match groups.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, names)) => names.push(name),
            None => groups.push((told, vec![name])),
        }
    }
    let table = |(told, names): (&ArmExplanations, Vec<String>)| {
        let caption = format!("{} on {}", names.join(", "), told.workload);
        let columns = ["Explanation", "Figure", "#Value", "#Limit", "~#Trials"];
        let mut table = ReportTable::new(caption, &columns);
        told.found.iter().for_each(|one| add_rows(one, &mut table));
        table
    };
    groups.into_iter().map(table).collect()
}

fn add_rows(one: &CauseExplanation, table: &mut ReportTable) {
    for (n, figure) in one.evidence.iter().enumerate() {
        let at_first = |text: String| match n {
            0 => text,
            _ => String::new(),
        };
        let about = match one.about.as_str() {
            "" => String::new(),
            about => format!(": {about}"),
        };
        table.rows.push(vec![
            ReportTableCell::new(at_first(format!("{}{about}", one.cause.name())))
                .detail(at_first(one.strength.name().into())),
            ReportTableCell::new(figure.figure.clone()),
            ReportTableCell::new(figure.shown()),
            ReportTableCell::new(match figure.limit {
                Some(limit) if figure.up_to => format!("≤ {}", figure.unit.show(limit)),
                Some(limit) => format!("≥ {}", figure.unit.show(limit)),
                None => String::new(),
            }),
            ReportTableCell::new(at_first(format!("{} of {}", one.trials, one.of))),
        ]);
    }
}

/// Causes that were looked for and not found, once for all systems with the same list.
fn excluded(view: &ResultsView<'_>) -> Vec<String> {
    let lists = systems(view).map(|told| {
        let names: Vec<&str> = told.excluded.iter().map(|cause| cause.name()).collect();
        (told, names.join(", "))
    });
    grouped_lists(view, lists.collect())
}

/// Causes that could not be looked for, grouped by the missing evidence.
fn unknown(view: &ResultsView<'_>) -> Vec<String> {
    let lists = systems(view).map(|told| {
        let mut by_why: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in &told.unknown {
            by_why.entry(&one.why).or_default().push(one.cause.name());
        }
        let parts = by_why
            .iter()
            .map(|(why, names)| format!("{} ({why})", names.join(", ")));
        (told, parts.collect::<Vec<_>>().join("; "))
    });
    grouped_lists(view, lists.collect())
}

fn grouped_lists(view: &ResultsView<'_>, lists: Vec<(&ArmExplanations, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let all = lists.len();
    for (told, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let whom = format!("{} on {}", view.name_of(&told.arm), told.workload);
        match groups.iter_mut().find(|(known, _)| *known == list) {
            Some((_, whose)) => whose.push(whom),
            None => groups.push((list, vec![whom])),
        }
    }
    let line = |(list, whose): (String, Vec<String>)| match whose.len() {
        many if many == all => format!(": {list}."),
        1..=3 => format!(" ({}): {list}.", whose.join(", ")),
        many => format!(
            " ({} and {} more): {list}.",
            whose[..2].join(", "),
            many - 2
        ),
    };
    groups.into_iter().map(line).collect()
}

/// The data set and the memory that could hold it.
fn sizes(view: &ResultsView<'_>, entry: &WorkloadEntry) -> Option<ReportItem> {
    let bytes = entry.workload.data_set_bytes();
    let has_storage = view.arms.iter().any(|arm| arm.arm.facts.is_some());
    if bytes == 0 || !has_storage {
        return None;
    }
    let ram = view.load_ram_bytes();
    let whose = match view.results.manifest.load_nodes.is_empty() {
        true => "this machine’s",
        false => "a node’s",
    };
    Some(ReportItem::Text(format!(
        "{}: data set {}, {} of {whose} memory ({}); {}.",
        entry.label,
        units::size(bytes as f64),
        words::percent(ratio(bytes as f64, ram as f64)),
        units::size(ram as f64),
        match entry.workload.is_direct() {
            true => "direct I/O, where the system can do it",
            false => "through the page cache",
        }
    )))
}

/// Bytes that the device below a system moved per byte requested, over all trials.
fn device_bytes(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<String> {
    let used: Vec<&DeviceUse> = pool
        .trials
        .iter()
        .filter_map(|t| t.device.as_ref())
        .collect();
    let sum = |of: fn(&DeviceUse) -> TransferTotals| {
        let totals = used.iter().map(|used| of(used));
        totals.fold(TransferTotals::default(), TransferTotals::and)
    };
    let (served, asked) = (sum(|used| used.served), sum(|used| used.asked));
    let ways = [
        ("read", served.read_bytes, asked.read_bytes),
        ("wrote", served.written_bytes, asked.written_bytes),
    ];
    let ways = ways.iter().filter(|(_, _, asked)| *asked > 0);
    let words: Vec<String> = ways
        .map(|(verb, served, asked)| {
            let times = EvidenceUnit::Times.show(ratio(*served as f64, *asked as f64));
            format!("{verb} {times}")
        })
        .collect();
    if words.is_empty() {
        return None;
    }
    Some(format!(
        "{}, {}: the device {} {} the bytes requested in the same seconds.{}",
        entry.label,
        pool.name(),
        used[0].device,
        words.join(" and "),
        merged(&used).as_deref().unwrap_or_default()
    ))
}

/// Requests that the kernel merged before the device: the storage then saw fewer and larger
/// requests than the workload has operations.
fn merged(used: &[&DeviceUse]) -> Option<String> {
    let ways = ["reads", "writes"].into_iter().enumerate();
    let words: Vec<String> = ways
        .filter_map(|(way, name)| {
            let sum = |of: &dyn Fn(&DeviceUse) -> u64| -> u64 { used.iter().map(|u| of(u)).sum() };
            let merged = sum(&|used| used.merged[way]);
            let served = sum(&|used| [used.served.reads, used.served.writes][way]);
            let asked = sum(&|used| [used.asked.reads, used.asked.writes][way]);
            let share = ratio(merged as f64, merged.saturating_add(served) as f64);
            (asked > 0 && share >= MERGED_SHARE)
                .then(|| format!("{} of the {name}", words::percent(share)))
        })
        .collect();
    (!words.is_empty()).then(|| {
        format!(
            " The kernel merged {} before the device, which received fewer and larger requests \
             than the workload has.",
            words.join(" and ")
        )
    })
}
