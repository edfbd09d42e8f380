// SPDX-License-Identifier: Apache-2.0
//! What the servers of the systems did: who worked how much, who stood still, whose memory grew,
//! and which of that explains the answer.

use plimsoll_core::event::{ServerUse, WorkloadEntry};
use plimsoll_core::num::ratio;
use plimsoll_core::units::{self, Nanos};

use super::view::{ArmTrials, ResultsView};
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};
use crate::words;

/// A thread that takes this share of a processor in some second has no more to give.
const THREAD_FULL: f64 = 0.95;
/// Servers are uneven when the busiest moved this many times the mean.
const UNEVEN: f64 = 1.25;
/// A server that stood still for this share of the time while others worked is named.
const STILL_SHARE: f64 = 0.05;
/// More servers that stood still are not named one by one: the files of a workload may lie on few of
/// the targets of a large file system.
const STILL_NAMED: usize = 4;
/// Memory that grew by this and by [`LEAK_SHARE`] of itself in every trial looks like a leak.
const LEAK_BYTES: i64 = 16 << 20;
const LEAK_SHARE: f64 = 0.1;

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
    /// Trials it was watched in, and those in which its memory grew as a leak would.
    trials: usize,
    grew: usize,
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
            trials: 0,
            grew: 0,
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
        self.trials += 1;
        let share = used.grown_bytes as f64 / (used.resident_bytes as f64).max(1.0);
        if used.grown_bytes >= LEAK_BYTES && share >= LEAK_SHARE {
            self.grew += 1;
        }
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
        let rows: Vec<_> = pools.iter().map(|pool| (pool, sums(pool))).collect();
        if rows.iter().all(|(_, sums)| sums.is_empty()) {
            continue;
        }
        section.items.push(ReportItem::Table(table(entry, &rows)));
        for (pool, sums) in &rows {
            let notices = findings(&pool.name(), sums).into_iter();
            section
                .items
                .extend(notices.map(|text| ReportItem::Notice(ReportSeverity::Care, text)));
        }
    }
    (!section.items.is_empty()).then_some(section)
}

fn sums<'a>(pool: &ArmTrials<'a>) -> Vec<ServerTotals<'a>> {
    let mut sums: Vec<ServerTotals<'a>> = Vec::new();
    for used in pool.trials.iter().flat_map(|trial| &trial.servers) {
        let at = sums.iter().position(|sum| sum.name == used.server);
        let at = at.unwrap_or_else(|| {
            sums.push(ServerTotals::of(&used.server));
            sums.len() - 1
        });
        sums[at].add(used);
    }
    sums
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
        let busiest = ReportTableCell::new(percent(sum.thread_share_max));
        let full = sum.thread_share_max >= THREAD_FULL;
        [
            ReportTableCell::new(format!("{:.2}", sum.cpus())),
            if full {
                busiest.tone(ReportSeverity::Care)
            } else {
                busiest
            },
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

/// What of it a reader should know before believing the figures.
fn findings(system: &str, sums: &[ServerTotals<'_>]) -> Vec<String> {
    let mut findings = still(system, sums);
    for sum in sums {
        if sum.thread_share_max >= THREAD_FULL {
            findings.push(format!(
                "{system}: a thread of {} used {} of a CPU: the server was CPU-bound, not \
                 disk-bound.",
                sum.name,
                percent(sum.thread_share_max)
            ));
        }
        if sum.grew == sum.trials && sum.trials > 1 {
            findings.push(format!(
                "{system}: the memory of {} grew in each of {}, by {} in all: it may leak.",
                sum.name,
                words::count(sum.trials, "trial"),
                units::size(sum.grown_bytes as f64)
            ));
        }
        if sum.processes_lost > 0 {
            findings.push(format!(
                "{system}: server processes of {} that exited during a trial: {}.",
                sum.name, sum.processes_lost
            ));
        }
    }
    if let Some((most, _)) = shares(sums)
        && most > UNEVEN
    {
        findings.push(format!(
            "{system}: its servers were loaded unevenly: the busiest moved {most:.2} times the \
             mean."
        ));
    }
    findings
}

/// Who stood still while others worked; many of them in one sentence.
fn still(system: &str, sums: &[ServerTotals<'_>]) -> Vec<String> {
    let is_still =
        |sum: &&ServerTotals<'_>| ratio(sum.still.0 as f64, sum.length.0 as f64) > STILL_SHARE;
    let found: Vec<&ServerTotals<'_>> = sums.iter().filter(is_still).collect();
    match found.len() {
        _ if sums.len() < 2 => Vec::new(),
        0..=STILL_NAMED => {
            let one = |sum: &&ServerTotals<'_>| {
                let still = units::clock_duration(sum.still);
                let length = units::clock_duration(sum.length);
                let name = sum.name;
                format!("{system}: {name} stalled for {still} of {length} while others worked.")
            };
            found.iter().map(one).collect()
        }
        many => vec![format!(
            "{system}: {many} of {} servers stalled for more than {} of the time while others \
             worked; see the column “Stalled”.",
            sums.len(),
            percent(STILL_SHARE)
        )],
    }
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
    fn even_servers_raise_no_doubt() {
        let used = [used("a", 1000), used("b", 1000)];
        let sums = sum(&used);
        let (most, jain) = shares(&sums).unwrap();
        assert!((most - 1.0).abs() < 1e-9 && (jain - 1.0).abs() < 1e-9);
        assert!(findings("s", &sums).is_empty());
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
    fn many_that_stand_still_are_counted() {
        let names: Vec<String> = (0..9).map(|n| format!("t{n}")).collect();
        let mut used: Vec<ServerUse> = names.iter().map(|name| used(name, 0)).collect();
        used[0].moved_bytes = 1 << 20;
        for one in &mut used[1..] {
            one.still = Nanos::SECOND;
        }
        let said = still("s", &sum(&used));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("8 of 9 servers"), "{said:?}");
        assert_eq!(still("s", &sum(&used[..3])).len(), 2);
    }

    #[test]
    fn each_fault_is_named() {
        let mut busy = used("a", 3000);
        busy.thread_share_max = 0.99;
        let mut idle = used("b", 0);
        idle.still = Nanos::SECOND;
        idle.grown_bytes = 64 << 20;
        idle.processes_lost = 1;
        let used = [busy, idle];
        let text = findings("s", &sum(&used)).join("\n");
        for word in ["CPU-bound", "stalled", "may leak", "exited", "unevenly"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
