// SPDX-License-Identifier: Apache-2.0
//! The machines that load came from: what each did of it, how even they were, and how well they
//! started together.

use plimsoll_core::event::ClientLoadNodeResult;
use plimsoll_core::event::{OpStats, WorkloadEntry};
use plimsoll_core::load::{evenness, start_spread};
use plimsoll_core::num::ratio;
use plimsoll_core::units::{self, Nanos};
use std::collections::BTreeMap;

use super::view::{ArmTrials, ResultsView};
use crate::model::{
    ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell,
};
use crate::words;

/// Most lost nodes that are listed with a reason; of more, only the names.
const LOST_SHOWN: usize = 5;

/// Nodes of a system that have a row each; of more, the slowest, the fastest and those that were lost.
const ROWS_MAX: usize = 40;

/// How many of the slowest and of the fastest then.
const ENDS_SHOWN: usize = 8;

/// One node over all trials of an arm.
struct NodeTotals<'a> {
    name: &'a str,
    length: Nanos,
    stats: OpStats,
    not_submitted: u64,
    lost: usize,
}

impl NodeTotals<'_> {
    fn add(&mut self, node: &ClientLoadNodeResult) {
        self.length = self.length + node.length;
        self.stats.merge(&node.stats);
        self.not_submitted += node.generator.not_submitted;
        self.lost += usize::from(node.lost.is_some());
    }

    fn ops_per_s(&self) -> f64 {
        ratio(self.stats.ops() as f64, self.length.as_secs_f64())
    }
}

/// The section, if load came from nodes.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "Load by client node",
        "Every node ran the whole workload. Everything else in this report covers all nodes \
         together: histograms and counts are added, rates use the longest measured part.",
    )
    .at("nodes");
    for entry in &view.results.manifest.entries {
        let pools = view.pools(entry);
        let rows: Vec<_> = pools.iter().map(|pool| (pool, sums(pool))).collect();
        if rows.iter().any(|(_, sums)| !sums.is_empty()) {
            section.items.push(ReportItem::Table(table(entry, &rows)));
        }
    }
    let machines = &view.results.manifest.load_nodes;
    if !machines.is_empty() {
        let is_many = machines.len() > ROWS_MAX;
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for node in machines {
            let machine = &node.machine;
            let memory = units::size(machine.ram_bytes as f64);
            let kind = format!(
                "{} × {} · {memory} · Linux {}",
                machine.cpus, machine.cpu, machine.kernel
            );
            match is_many {
                true => kinds.entry(kind).or_default().push(&node.name),
                false => facts.push((node.name.clone(), format!("{} · {kind}", machine.host))),
            }
        }
        // Of many machines, what kinds there are.
        for (kind, names) in kinds {
            let first = names.first().copied().unwrap_or_default();
            let text = format!("{} machines: {kind}", names.len());
            facts.push((format!("{first} …"), text));
        }
        section.items.push(ReportItem::Facts(facts));
    }
    (!section.items.is_empty()).then_some(section)
}

/// Findings that must stand next to the answer when a node was lost.
pub(super) fn alarms(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let lost = view.results.trials.iter().filter_map(|trial| {
        let (node, lost) = trial.lost_node()?;
        let id = &trial.trial;
        Some(ReportFinding {
            mark: "incomplete".into(),
            tone: ReportSeverity::Bad,
            text: format!(
                "Node {node} was lost {} after the start of {} on {}, block {}",
                units::clock_duration(lost.after),
                id.workload,
                view.name_of(&id.arm),
                id.block + 1
            ),
            detail: format!(
                "{}. Results of the other nodes are kept but not compared; the run ended there.",
                lost.why
            ),
        })
    });
    lost.chain(reduced(view)).collect()
}

/// Finding that must stand next to an answer for less load than was asked for.
fn reduced(view: &ResultsView<'_>) -> Option<ReportFinding> {
    let trials = &view.results.trials;
    let trials: Vec<_> = trials
        .iter()
        .filter(|trial| trial.failed.is_none())
        .collect();
    let least = trials
        .iter()
        .filter_map(|trial| Some((trial.offered()?, trial)));
    let (share, worst) = least.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mut lost: Vec<_> = trials.iter().flat_map(|trial| trial.lost_nodes()).collect();
    lost.sort_unstable_by(|a, b| a.0.cmp(b.0));
    lost.dedup_by(|a, b| a.0 == b.0);
    let touched = trials
        .iter()
        .filter(|trial| trial.offered().is_some())
        .count();
    let id = &worst.trial;
    let first = lost.iter().take(LOST_SHOWN);
    let named = first.map(|(node, loss)| format!("{node} ({})", loss.why));
    let mut named = named.collect::<Vec<_>>().join("; ");
    if lost.len() > LOST_SHOWN {
        let names = lost[LOST_SHOWN..].iter().map(|(node, _)| *node);
        let names: Vec<_> = names.collect();
        named = format!("{named}; {}", names.join(", "));
    }
    Some(ReportFinding {
        mark: "less load".into(),
        tone: ReportSeverity::Care,
        text: format!(
            "Lost {} of {} load nodes: {} offered less load than was asked for, at least {:.1} % \
             of it ({} on {}, block {})",
            lost.len(),
            worst.nodes.len(),
            words::count(touched, "trial"),
            100.0 * share,
            id.workload,
            view.name_of(&id.arm),
            id.block + 1
        ),
        detail: format!(
            "Results are for the load that was really offered; what a node had reported before it was \
             lost is in them. Lost: {named}."
        ),
    })
}

fn sums<'a>(pool: &ArmTrials<'a>) -> Vec<NodeTotals<'a>> {
    let mut sums: Vec<NodeTotals<'a>> = Vec::new();
    for node in pool.trials.iter().flat_map(|trial| &trial.nodes) {
        let at = sums.iter().position(|sum| sum.name == node.node);
        let at = at.unwrap_or_else(|| {
            sums.push(NodeTotals {
                name: &node.node,
                length: Nanos(0),
                stats: OpStats::default(),
                not_submitted: 0,
                lost: 0,
            });
            sums.len() - 1
        });
        sums[at].add(node);
    }
    sums
}

fn table(entry: &WorkloadEntry, rows: &[(&ArmTrials<'_>, Vec<NodeTotals<'_>>)]) -> ReportTable {
    let mut table = ReportTable::new(
        format!("{}: by node", entry.label),
        &[
            "System",
            "Node",
            "#ops/s",
            "#p50",
            "#p99",
            "#Bytes per s",
            "~#Not submitted",
        ],
    );
    for (pool, sums) in rows {
        let shown = shown(sums);
        for (n, sum) in shown.iter().enumerate() {
            let name = if n == 0 { pool.name() } else { String::new() };
            let response = sum.stats.response();
            let quantile =
                |q| ReportTableCell::new(units::duration(Nanos(response.quantile_ns(q))));
            let bytes = ratio(sum.stats.bytes() as f64, sum.length.as_secs_f64());
            let node = ReportTableCell::new(sum.name);
            let late = ReportTableCell::new(sum.not_submitted.to_string());
            table.rows.push(vec![
                ReportTableCell::new(name),
                if sum.lost > 0 {
                    node.detail("lost").tone(ReportSeverity::Bad)
                } else {
                    node
                },
                ReportTableCell::new(units::rate(sum.ops_per_s())),
                quantile(0.5),
                quantile(0.99),
                ReportTableCell::new(units::throughput(bytes)),
                if sum.not_submitted > 0 {
                    late.tone(ReportSeverity::Care)
                } else {
                    late
                },
            ]);
        }
        if shown.len() < sums.len() {
            table.notes.push(format!(
                "Of {}: {} of {} nodes, the slowest and the fastest {ENDS_SHOWN} and those that were \
                 lost; the JSON has all.",
                pool.name(),
                shown.len(),
                sums.len()
            ));
        }
        table.notes.extend(notes(pool, sums));
    }
    table
}

/// The nodes that have a row.
fn shown<'a, 'b>(sums: &'b [NodeTotals<'a>]) -> Vec<&'b NodeTotals<'a>> {
    let mut order: Vec<usize> = (0..sums.len()).collect();
    if sums.len() > ROWS_MAX {
        let rate = |n: &usize| sums[*n].ops_per_s();
        order.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let last = order.len() - ENDS_SHOWN;
        let mut kept: Vec<usize> = Vec::new();
        for (place, n) in order.iter().enumerate() {
            if place < ENDS_SHOWN || place >= last || sums[*n].lost > 0 {
                kept.push(*n);
            }
        }
        kept.sort_unstable();
        order = kept;
    }
    order.into_iter().map(|n| &sums[n]).collect()
}

/// How even the nodes of a system were, and how well they started together.
fn notes(pool: &ArmTrials<'_>, sums: &[NodeTotals<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    let rates: Vec<f64> = sums.iter().map(NodeTotals::ops_per_s).collect();
    if let Some(jain) = evenness(&rates) {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        notes.push(format!(
            "Evenness of {}: the fastest node did {:.2} times the mean; Jain's index {jain:.2}.",
            pool.name(),
            ratio(most, mean)
        ));
    }
    let spread = pool.trials.iter().filter_map(|t| start_spread(&t.nodes));
    let nodes = pool.trials.iter().flat_map(|trial| &trial.nodes);
    let uncertainty = nodes.map(|node| node.clock.uncertainty).max();
    if let (Some(spread), Some(uncertainty)) = (spread.max(), uncertainty) {
        notes.push(format!(
            "Start of {}: within {} of each other at worst of {}, by clocks known to ±{}.",
            pool.name(),
            units::duration(spread),
            words::count(pool.trials.len(), "trial"),
            units::duration(uncertainty)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;

    fn sum(name: &str, ops: u64) -> NodeTotals<'_> {
        let mut stats = OpStats::default();
        let kind = stats.0.entry(OpKind::Read).or_default();
        kind.service.record_many(Nanos(1000), ops);
        kind.response.record_many(Nanos(1000), ops);
        NodeTotals {
            name,
            length: Nanos::SECOND,
            stats,
            not_submitted: 0,
            lost: 0,
        }
    }

    #[test]
    fn uneven_nodes_are_told_by_their_rates() {
        let pool = ArmTrials {
            ink: crate::model::ChartSeriesStyle {
                name: "a".into(),
                colour: 0,
                control: false,
            },
            trials: Vec::new(),
            stats: OpStats::default(),
        };
        let text = notes(&pool, &[sum("n1", 300), sum("n2", 100)]).join("\n");
        assert!(text.contains("1.50 times the mean"), "{text}");
        assert!(text.contains("Jain's index 0.80"), "{text}");
        // One node is not compared with itself.
        assert!(notes(&pool, &[sum("n1", 300)]).is_empty());
    }
}
