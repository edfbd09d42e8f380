// SPDX-License-Identifier: Apache-2.0
//! Servers of the systems: CPU use, stalls and memory growth of each. Figures that explain the
//! answer are among the explanations.

use plimsoll_core::event::{ServerUse, TrialResult, WorkloadEntry};
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::units::{self, Nanos};

use super::view::{ArmTrials, ResultsView};
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};

const MIB: f64 = (1 << 20) as f64;

/// One server over all trials of an arm.
struct ServerTotals<'a> {
    name: &'a str,
    length: Nanos,
    cpu_ns: u64,
    thread_share_max: f64,
    resident_bytes: u64,
    moved_bytes: u64,
    still: Nanos,
    processes_lost: u32,
    grown_bytes: i64,
}

impl<'a> ServerTotals<'a> {
    fn of(name: &'a str) -> Self {
        ServerTotals {
            name,
            length: Nanos(0),
            cpu_ns: 0,
            thread_share_max: 0.0,
            resident_bytes: 0,
            moved_bytes: 0,
            still: Nanos(0),
            processes_lost: 0,
            grown_bytes: 0,
        }
    }

    fn add(&mut self, used: &ServerUse) {
        self.length = self.length + used.length;
        self.cpu_ns += used.cpu_ns;
        self.thread_share_max = self.thread_share_max.max(used.thread_share_max);
        self.resident_bytes = self.resident_bytes.max(used.resident_bytes);
        self.moved_bytes += used.moved_bytes;
        self.still = self.still + used.still;
        self.processes_lost += used.processes_lost;
        self.grown_bytes += used.grown_bytes;
    }

    /// Whether its processes were seen: not of an object storage target, which its client reports.
    fn has_processes(&self) -> bool {
        self.cpu_ns > 0 || self.resident_bytes > 0 || self.processes_lost > 0
    }

    fn cpus(&self) -> f64 {
        ratio(self.cpu_ns as f64, self.length.0 as f64)
    }
}

/// The section, if any server was watched.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "What did the servers do?",
        "Processes of each server, sampled once a second while measuring. Throughput: the bytes \
         that a server read and wrote, for its clients and on its storage; of an object storage \
         target, those that this client read and wrote.",
    );
    for entry in &view.results.manifest.entries {
        let pools = view.pools(entry);
        section.items.extend(client_programs(entry, &pools));
        let of_servers = |pool| (pool, sums(pool, |trial| &trial.servers));
        let rows: Vec<_> = pools.iter().map(of_servers).collect();
        if rows.iter().all(|(_, sums)| sums.is_empty()) {
            continue;
        }
        section.items.push(ReportItem::Table(table(entry, &rows)));
        for (pool, sums) in &rows {
            let notices = exits(&pool.name(), sums).into_iter();
            section
                .items
                .extend(notices.map(|text| ReportItem::Notice(ReportSeverity::Care, text)));
        }
    }
    (!section.items.is_empty()).then_some(section)
}

fn sums<'a>(pool: &ArmTrials<'a>, of: fn(&TrialResult) -> &[ServerUse]) -> Vec<ServerTotals<'a>> {
    let mut sums: Vec<ServerTotals<'a>> = Vec::new();
    for used in pool.trials.iter().flat_map(|trial| of(trial)) {
        let at = sums.iter().position(|sum| sum.name == used.server);
        let at = at.unwrap_or_else(|| {
            sums.push(ServerTotals::of(&used.server));
            sums.len() - 1
        });
        sums[at].add(used);
    }
    sums
}

/// Resource use of the programs between the load and the servers, by system.
fn client_programs(entry: &WorkloadEntry, pools: &[ArmTrials<'_>]) -> Option<ReportItem> {
    let mut table = ReportTable::new(
        format!("{}: programs of the client under load", entry.label),
        &[
            "System",
            "Program",
            "#CPUs",
            "#Busiest thread",
            "#CPU per MiB",
            "~#Memory",
        ],
    );
    for pool in pools {
        let bytes: u64 = pool.trials.iter().map(|trial| trial.stats.bytes()).sum();
        let sums = sums(pool, |trial| &trial.client_programs);
        for (n, sum) in sums.iter().enumerate() {
            let name = if n == 0 { pool.name() } else { String::new() };
            let per_mib = ratio(sum.cpu_ns as f64, bytes as f64 / MIB);
            table.rows.push(vec![
                ReportTableCell::new(name),
                ReportTableCell::new(sum.name),
                ReportTableCell::new(format!("{:.2}", sum.cpus())),
                ReportTableCell::new(percent(sum.thread_share_max)),
                match bytes {
                    0 => ReportTableCell::new("–"),
                    _ => ReportTableCell::new(units::duration(Nanos(round_u64(per_mib)))),
                },
                ReportTableCell::new(units::size(sum.resident_bytes as f64)),
            ]);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(
        "Programs of this machine between the load and the servers, such as those that serve a \
         mount. CPU per MiB: their processor time by the data of the workload."
            .into(),
    );
    Some(ReportItem::Table(table))
}

fn table(entry: &WorkloadEntry, rows: &[(&ArmTrials<'_>, Vec<ServerTotals<'_>>)]) -> ReportTable {
    let mut table = ReportTable::new(
        format!("{}: servers under load", entry.label),
        &[
            "System",
            "Server",
            "#CPUs",
            "#Busiest thread",
            "#Throughput",
            "#Stalled",
            "~#Memory",
        ],
    );
    for (pool, sums) in rows {
        for (n, sum) in sums.iter().enumerate() {
            let name = if n == 0 { pool.name() } else { String::new() };
            table.rows.push(row(name, sum));
        }
        table.notes.extend(evenness(&pool.name(), sums));
    }
    table.notes.push(
        "Busiest thread: the largest share of one CPU that a thread used in a second. Stalled: \
         the time in which a server transferred nothing while another one did."
            .into(),
    );
    table
}

fn row(system: String, sum: &ServerTotals<'_>) -> Vec<ReportTableCell> {
    let moved = ratio(sum.moved_bytes as f64, sum.length.as_secs_f64());
    let [cpus, busiest, memory] = if sum.has_processes() {
        [
            ReportTableCell::new(format!("{:.2}", sum.cpus())),
            ReportTableCell::new(percent(sum.thread_share_max)),
            ReportTableCell::new(units::size(sum.resident_bytes as f64))
                .detail(growth(sum.grown_bytes)),
        ]
    } else {
        ["–"; 3].map(ReportTableCell::new)
    };
    vec![
        ReportTableCell::new(system),
        ReportTableCell::new(sum.name),
        cpus,
        busiest,
        ReportTableCell::new(units::throughput(moved)),
        ReportTableCell::new(units::clock_duration(sum.still)),
        memory,
    ]
}

/// How even the servers of a system worked: the busiest against the mean, and Jain's index.
fn evenness(system: &str, sums: &[ServerTotals<'_>]) -> Option<String> {
    let (most, jain) = shares(sums)?;
    Some(format!(
        "Evenness of {system}: the busiest server moved {most:.2} times the mean; Jain's index {jain:.2}."
    ))
}

fn shares(sums: &[ServerTotals<'_>]) -> Option<(f64, f64)> {
    let moved: Vec<f64> = sums.iter().map(|sum| sum.moved_bytes as f64).collect();
    let total: f64 = moved.iter().sum();
    let most = moved.iter().copied().fold(0.0, f64::max);
    let jain = plimsoll_core::load::evenness(&moved)?;
    Some((most * moved.len() as f64 / total, jain))
}

/// Servers that lost processes.
fn exits(system: &str, sums: &[ServerTotals<'_>]) -> Vec<String> {
    let lost = sums.iter().filter(|sum| sum.processes_lost > 0);
    lost.map(|sum| {
        format!(
            "{system}: server processes of {} that exited during a trial: {}.",
            sum.name, sum.processes_lost
        )
    })
    .collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn growth(bytes: i64) -> String {
    let size = units::size(bytes.unsigned_abs() as f64);
    match bytes {
        0 => String::new(),
        1.. => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(server: &str, moved_bytes: u64) -> ServerUse {
        ServerUse {
            server: server.into(),
            length: Nanos::SECOND,
            cpu_ns: 500_000_000,
            thread_share_max: 0.5,
            resident_bytes: 100 << 20,
            grown_bytes: 0,
            moved_bytes,
            still: Nanos(0),
            processes_lost: 0,
            resident_steps: Vec::new(),
        }
    }

    fn sum<'a>(used: &'a [ServerUse]) -> Vec<ServerTotals<'a>> {
        let one = |used: &'a ServerUse| {
            let mut sum = ServerTotals::of(&used.server);
            sum.add(used);
            sum.add(used);
            sum
        };
        used.iter().map(one).collect()
    }

    #[test]
    fn even_servers_are_as_even_as_can_be() {
        let used = [used("a", 1000), used("b", 1000)];
        let sums = sum(&used);
        let (most, jain) = shares(&sums).unwrap();
        assert!((most - 1.0).abs() < 1e-9 && (jain - 1.0).abs() < 1e-9);
        assert!((sums[0].cpus() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn of_a_target_its_bytes_are_shown_and_nothing_of_processes() {
        let target = ServerUse {
            cpu_ns: 0,
            thread_share_max: 0.0,
            resident_bytes: 0,
            ..used("work-OST0001", 5 << 20)
        };
        let used = [target];
        let row = row("s".into(), &sum(&used)[0]);
        let texts: Vec<&str> = row.iter().map(|cell| &*cell.text).collect();
        let moved = units::throughput(f64::from(5 << 20));
        assert_eq!(texts[..5], ["s", "work-OST0001", "–", "–", &*moved]);
        assert_eq!(texts[6], "–");
    }

    #[test]
    fn a_server_that_exits_is_named() {
        let mut gone = used("b", 0);
        gone.processes_lost = 1;
        let used = [used("a", 3000), gone];
        let text = exits("s", &sum(&used)).join("\n");
        assert_eq!(
            text,
            "s: server processes of b that exited during a trial: 2."
        );
    }
}
