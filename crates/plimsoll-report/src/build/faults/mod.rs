// SPDX-License-Identifier: Apache-2.0
//! Faults that were injected in trials: what became of the sessions and of the data, every fault as the
//! sessions of its system felt it, and systems side by side. How systems compare in this is among the
//! verdicts.

mod every;
mod grid;
mod integrity;
mod outages;
mod parts;

use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::failover::{FaultInjection, FaultResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::OutageStall;
use plimsoll_stats::events::{bound_of_none, covered_by_longest, median};

use super::view::ResultsView;
use crate::model::{
    ChartQuantity, ReportFigure, ReportFinding, ReportItem, ReportSection, ReportSeverity,
};
use crate::words::{count, percent_whole};

/// Confidence of the bounds on faults that were not tried.
const CONFIDENCE: f64 = 0.95;

/// One kind of fault of one system, beside one workload; those of the A/A control are of the same system.
struct SystemFaults<'a> {
    system: &'a str,
    /// Name among the faults of its system.
    name: &'a str,
    injection: &'a FaultInjection,
    /// In the order in which they were injected, each with its place in the run.
    faults: Vec<(u32, &'a FaultResult)>,
}

impl<'a> SystemFaults<'a> {
    fn of(view: &ResultsView<'a>, system: &'a str, entry: &'a WorkloadEntry) -> Option<Self> {
        let is_system = |name: &str| {
            let mut arms = view.arms.iter().map(|arm| arm.arm);
            let entered = arms.find(|arm| arm.name == name);
            name == system || entered.and_then(|arm| arm.control_of.as_deref()) == Some(system)
        };
        let trials = view.results.trials.iter();
        let own = trials.filter(|t| t.trial.workload == entry.label && is_system(&t.trial.arm));
        let mut faults: Vec<_> = own
            .filter_map(|t| Some((t.trial.place, t.fault.as_ref()?)))
            .collect();
        faults.sort_by_key(|(place, _)| *place);
        let injection = entry.inject.as_ref()?;
        // Beside one workload the fault says enough.
        let entries = view.results.manifest.entries.iter();
        let kinds = entries.filter_map(|entry| entry.inject.as_ref());
        let is_alone = kinds.filter(|one| one.fault == injection.fault).count() == 1;
        Some(SystemFaults {
            system,
            name: match is_alone {
                true => injection.fault.name(),
                false => &entry.label,
            },
            injection,
            faults,
        })
    }

    fn results(&self) -> impl Iterator<Item = &'a FaultResult> {
        self.faults.iter().map(|(_, fault)| *fault)
    }

    /// Nanoseconds; a stall without an end counts as long as it was seen.
    fn lengths(&self, kind: OpKind) -> Vec<f64> {
        let stalls = self.results().filter_map(|fault| stall(fault, kind));
        stalls.map(|stall| stall.length.0 as f64).collect()
    }

    /// How many sessions there were, and how many survived.
    fn survivors(&self) -> (usize, usize) {
        let all = self.results().flat_map(|fault| &fault.outage.sessions);
        all.fold((0, 0), |(total, alive), session| {
            (total + 1, alive + usize::from(session.survived))
        })
    }

    fn errors(&self) -> u64 {
        self.results().map(|fault| fault.outage.errors()).sum()
    }

    fn kept_its_data(&self) -> bool {
        self.results().all(FaultResult::kept_its_data)
    }
}

/// The systems with all kinds of their faults.
fn systems<'a>(view: &ResultsView<'a>) -> Vec<Vec<SystemFaults<'a>>> {
    let arms = view.arms.iter().map(|arm| arm.arm);
    let once = arms.filter(|arm| arm.control_of.is_none());
    let of = |name: &'a str| {
        let entries = view.results.manifest.entries.iter();
        entries.filter_map(|entry| SystemFaults::of(view, name, entry))
    };
    let all = once.map(|arm| of(&arm.name).collect::<Vec<_>>());
    all.filter(|kinds| !kinds.is_empty()).collect()
}

fn stall(fault: &FaultResult, kind: OpKind) -> Option<OutageStall> {
    fault.outage.worst(kind)
}

fn shown(length: f64) -> String {
    ChartQuantity::Duration.show(length)
}

fn good(is_good: bool) -> ReportSeverity {
    match is_good {
        true => ReportSeverity::Plain,
        false => ReportSeverity::Bad,
    }
}

/// The answers that the faults give; outages are among the verdicts where systems are compared.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut all = Vec::new();
    for kinds in systems(view) {
        let done: Vec<_> = kinds
            .iter()
            .filter(|kind| !kind.faults.is_empty())
            .collect();
        let of_system = all.len();
        if !view.is_comparison() {
            all.extend(done.iter().map(|kind| outage(kind)));
        }
        all.extend(done.iter().map(|kind| sessions(kind)));
        all.extend(done.iter().filter_map(|kind| failed(kind)));
        all.extend(data(&done));
        for finding in all
            .iter_mut()
            .skip(of_system)
            .filter(|_| view.is_comparison())
        {
            finding.text = format!("{}: {}", kinds[0].system, finding.text);
        }
    }
    all
}

/// The picture of a first screen.
pub(super) fn first_figure(view: &ResultsView<'_>) -> Option<ReportFigure> {
    outages::first_figure(&systems(view))
}

/// The fewest faults of a kind that was injected at all.
pub(super) fn fewest(view: &ResultsView<'_>) -> Option<usize> {
    let systems = systems(view);
    let counts = systems.iter().flatten().map(|kind| kind.faults.len());
    counts.filter(|count| *count > 0).min()
}

/// Number of faults, and the bound on data loss that it gives.
pub(super) fn how_sure(view: &ResultsView<'_>) -> Option<String> {
    let faults = fewest(view)?;
    let systems = systems(view);
    let mut all = systems.iter().flatten().flat_map(SystemFaults::results);
    let kinds = systems
        .iter()
        .flatten()
        .filter(|kind| !kind.faults.is_empty());
    let told = match kinds.count() {
        1 => count(faults, "fault"),
        _ => format!("{} of each kind", count(faults, "fault")),
    };
    Some(match all.all(FaultResult::kept_its_data) {
        true => format!(
            "{told}, none of which lost data; that excludes only that more than {} of such faults do \
             (95 % confidence)",
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ),
        false => told,
    })
}

/// Load of the sessions beside the faults.
pub(super) fn load(view: &ResultsView<'_>) -> Option<String> {
    systems(view).first().map(|kinds| every::load(kinds))
}

/// The fault with the longest write outage, where there are several kinds: a median over kinds is that of no
/// fault.
fn hardest<'a>(systems: &[Vec<SystemFaults<'a>>]) -> Option<&'a str> {
    let middle = |kind: &SystemFaults<'a>| {
        median(kind.lengths(OpKind::Write)).map(|middle| (kind.name, middle))
    };
    let kinds = systems.iter().flatten().filter_map(middle);
    let (name, _) = kinds.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let has_several = systems.iter().flatten().any(|kind| kind.name != name);
    has_several.then_some(name)
}

/// An outage whose ratio to its fault is in this range is reported as long as the fault itself.
const AS_LONG: std::ops::RangeInclusive<f64> = 0.95..=1.1;

fn hardest_or_only<'s, 'a>(
    systems: &'s [Vec<SystemFaults<'a>>],
    hardest: Option<&str>,
) -> Option<&'s SystemFaults<'a>> {
    let mut kinds = systems
        .iter()
        .flatten()
        .filter(|kind| !kind.faults.is_empty());
    kinds.find(|kind| hardest.is_none_or(|name| kind.name == name))
}

/// The fault and how long it lasts, as the beginning of a sentence.
fn when(fault: FaultKind, lasted: f64) -> String {
    let lasted = shown(lasted);
    match fault {
        FaultKind::Kill => "When a server is killed".into(),
        FaultKind::Stop => "When a server is stopped".into(),
        FaultKind::PowerCut => "When a server loses its power".into(),
        FaultKind::Pause => format!("When a server is paused for {lasted}"),
        other => format!("Under {other} for {lasted}"),
    }
}

/// How long writes stop, the shortest first, and whether anything was lost.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    let systems = systems(view);
    let hardest = hardest(&systems);
    let mut stops: Vec<(&str, f64, f64, usize)> = Vec::new();
    let mut lossy = Vec::new();
    for kinds in &systems {
        let told = || {
            let is_told = |kind: &&SystemFaults<'_>| hardest.is_none_or(|name| kind.name == name);
            kinds.iter().filter(is_told)
        };
        let lengths: Vec<f64> = told()
            .flat_map(|kind| kind.lengths(OpKind::Write))
            .collect();
        let most = lengths.iter().copied().fold(0.0, f64::max);
        let of_kind = told().map(|kind| kind.faults.len()).sum::<usize>();
        let middle = median(lengths);
        stops.extend(middle.map(|middle| (kinds[0].system, middle, most, of_kind)));
        let faults = kinds.iter().map(|kind| kind.faults.len()).sum::<usize>();
        let lost = kinds.iter().flat_map(SystemFaults::results);
        let lost = lost.filter(|fault| !fault.kept_its_data()).count();
        if lost > 0 {
            lossy.push(format!(
                "{} lost acknowledged writes after {lost} of {}",
                kinds[0].system,
                count(faults, "fault")
            ));
        }
    }
    stops.sort_by(|a, b| a.1.total_cmp(&b.1));
    let told_of = hardest_or_only(&systems, hardest)?;
    let lasted = median(told_of.results().map(|fault| fault.lasted.0 as f64)).unwrap_or(0.0);
    let brief = |(system, middle, most, faults): &(&str, f64, f64, usize)| {
        let as_long = match AS_LONG.contains(&plimsoll_core::num::ratio(*middle, lasted)) {
            true => ", as long as the fault itself",
            false => "",
        };
        let (middle, most) = (shown(*middle), shown(*most));
        format!(
            "{system} for {middle}{as_long} (median of {}, at most {most})",
            count(*faults, "fault")
        )
    };
    let told: Vec<String> = stops.iter().map(brief).collect();
    if told.is_empty() {
        return None;
    }
    let fault = told_of.injection.fault;
    let writes = format!(
        "{}, writes stop on {}",
        when(fault, lasted),
        told.join(", on ")
    );
    Some(match lossy.is_empty() {
        true => (
            ReportSeverity::Plain,
            format!("{writes}; no acknowledged write was lost."),
        ),
        false => (
            ReportSeverity::Bad,
            format!("{}. {writes}.", lossy.join("; ")),
        ),
    })
}

fn outage(kind: &SystemFaults<'_>) -> ReportFinding {
    let ends = [("write", OpKind::Write), ("read", OpKind::Read)];
    let lengths = ends.into_iter().filter_map(|(name, op)| {
        let lengths = kind.lengths(op);
        let most = lengths.iter().copied().fold(0.0, f64::max);
        let middle = median(lengths.iter().copied())?;
        Some(format!(
            "{name} outage {} (at most {})",
            shown(middle),
            shown(most)
        ))
    });
    let lengths: Vec<String> = lengths.collect();
    let open = kind.results().filter(|fault| has_open(fault)).count();
    let unended = match open {
        0 => String::new(),
        open => format!("; in {open} of them the outage lasted until the end of the observation"),
    };
    let faults = kind.faults.len();
    let detail = format!(
        "medians of {}; the longest is longer than {} of all such outages (95 % confidence)",
        count(faults, "fault"),
        percent_whole(covered_by_longest(faults, CONFIDENCE))
    );
    ReportFinding::new(kind.name, format!("{}{unended}", lengths.join(", ")))
        .tone(good(open == 0))
        .detail(detail)
}

fn has_open(fault: &FaultResult) -> bool {
    let stalls = [OpKind::Write, OpKind::Read].map(|kind| stall(fault, kind));
    stalls.into_iter().flatten().any(|stall| stall.is_open)
}

fn sessions(kind: &SystemFaults<'_>) -> ReportFinding {
    let ((total, alive), errors) = (kind.survivors(), kind.errors());
    let cut = kind
        .results()
        .filter(|fault| !fault.healed_under_load)
        .count();
    let tone = match alive == total && errors == 0 {
        true => ReportSeverity::Good,
        false => ReportSeverity::Bad,
    };
    let text = format!("{alive} of {total} survived, {errors} operations failed");
    let detail = match cut {
        0 => "also during the recovery".into(),
        cut => format!(
            "in {cut} of {} the sessions were ended before the recovery, which removes the mount",
            count(kind.faults.len(), "fault")
        ),
    };
    ReportFinding::new(format!("{}: sessions", kind.name), text)
        .tone(tone)
        .detail(detail)
}

/// Finding on server processes that crashed unexpectedly.
fn failed(kind: &SystemFaults<'_>) -> Option<ReportFinding> {
    let processes: u32 = kind.results().map(|fault| fault.crashed).sum();
    let victims: Vec<&str> = kind
        .results()
        .filter(|fault| fault.crashed > 0)
        .map(|fault| &*fault.victim)
        .collect();
    (processes > 0).then(|| ReportFinding {
        mark: format!("{}: servers", kind.name),
        tone: ReportSeverity::Bad,
        text: format!("server processes crashed unexpectedly: {processes}"),
        detail: format!("on {}", victims.join(", ")),
    })
}

/// Finding on whether a system lost data.
fn data(kinds: &[&SystemFaults<'_>]) -> Option<ReportFinding> {
    let all = || kinds.iter().flat_map(|kind| kind.results());
    let (faults, bad) = (
        all().count(),
        all().filter(|fault| !fault.kept_its_data()).count(),
    );
    if bad > 0 {
        return Some(ReportFinding {
            mark: "data".into(),
            tone: ReportSeverity::Bad,
            text: format!("acknowledged writes were lost after {bad} of {faults} faults"),
            detail: "bad blocks are counted by kind below".into(),
        });
    }
    let written: u64 = all().map(|fault| fault.check.data.written).sum();
    (faults > 0).then(|| ReportFinding {
        mark: "data".into(),
        tone: ReportSeverity::Good,
        text: format!(
            "no acknowledged write was lost in {}",
            count(faults, "fault")
        ),
        detail: format!(
            "{written} blocks were written and verified; what was not seen in {} happens in at \
             most {} of such faults (95 % confidence)",
            count(faults, "fault"),
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ),
    })
}

pub(super) fn sections(view: &ResultsView<'_>) -> Vec<ReportSection> {
    let systems = systems(view);
    let mut sections: Vec<ReportSection> = grid::section(&systems).into_iter().collect();
    let done = systems
        .iter()
        .filter(|kinds| kinds.iter().any(|kind| !kind.faults.is_empty()));
    sections.extend(done.map(|kinds| every::section(kinds, !view.is_comparison())));
    sections.extend(integrity::section(view, &systems));
    if systems.iter().flatten().any(|kind| !kind.faults.is_empty()) {
        sections.push(method());
    }
    sections
}

fn method() -> ReportSection {
    let mut method = ReportSection::new("How faults were measured", "");
    method.page_only = true;
    method.items = vec![
        ReportItem::Text(
            "Sessions write and read at fixed times, whatever the storage does, so that a waiting \
             client cannot hide a stall (no coordinated omission). Each write is stamped in every \
             sector and recorded in a ledger on this machine before it is submitted and again \
             before its acknowledgement counts. Afterwards everything is read back and checked \
             against the ledger."
                .into(),
        ),
        ReportItem::Text(
            "The unit of analysis is the fault: the writes during one fault are not independent, \
             so bounds rest on the number of faults alone."
                .into(),
        ),
    ];
    method
}
