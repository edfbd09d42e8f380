// SPDX-License-Identifier: Apache-2.0
//! Results as sgpdd-survey prints them: the lines of today, and those from before Lustre's issue
//! LU-2043, so that both kinds of old results can be held against them.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::workload::series::ClassicProgram;

use super::{KIB, NAME, SETTINGS, SgpddCell, SgpddOptions};
use crate::parts::{MIB, elapsed, end_line, find, least_and_greatest, per_second};
use plimsoll_core::settings::SettingValues;

/// Rates of one action in one cell in MiB/s, or its failure.
enum SgpddCellResult {
    Rates {
        /// All data by the wall time.
        all: f64,
        /// Of the slowest region.
        slowest: f64,
        /// Of the fastest region.
        fastest: f64,
    },
    /// Number of regions that did not reach their end.
    Failed(usize),
}

/// Both tables; `None` when a phase is missing or has no figures of its workers.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = SgpddOptions::read(&settings).ok()?;
    let mut now = String::from("sgpdd-survey, MiB/s [slowest, fastest region]\n");
    let mut before = String::from("sgpdd-survey before LU-2043, regions x slowest, MiB/s\n");
    for cell in &shape.cells {
        let (kib, record_kib) = (cell.total_kib(), cell.record_bytes / KIB);
        let grid = format!("crg {:5} thr {:5} ", cell.regions, cell.threads);
        let _ = write!(now, "dev {:2} sz {kib:8}K rsz {record_kib:4}K {grid}", 1);
        let _ = write!(before, "total_size {kib:8}K rsz {record_kib:4} {grid}");
        if cell.is_too_large {
            now.push_str("ENOMEM\n");
            before.push_str("ENOMEM\n");
            continue;
        }
        for action in &shape.actions {
            let phase = find(phases, &cell.phase_name(action))?;
            let figure = SgpddCellResult::of(cell, phase)?;
            let _ = write!(now, "{} {}", action.name, figure.now());
            let _ = write!(before, "{} {}", action.name, figure.before(cell.regions));
        }
        end_line(&mut now);
        end_line(&mut before);
    }
    Some(format!("{now}\n{before}"))
}

impl SgpddCellResult {
    fn of(cell: &SgpddCell, phase: &PhaseResult) -> Option<Self> {
        if phase.workers.is_empty() {
            return None;
        }
        let is_whole = |bytes: u64| bytes >= cell.region_bytes;
        let failed = phase.workers.iter().filter(|w| !is_whole(w.bytes)).count();
        if failed > 0 {
            return Some(SgpddCellResult::Failed(failed));
        }
        let rate = phase
            .workers
            .iter()
            .map(|w| per_second(w.bytes as f64 / MIB, elapsed(w)));
        let (slowest, fastest) = least_and_greatest(rate);
        let bytes: u64 = phase.workers.iter().map(|worker| worker.bytes).sum();
        Some(SgpddCellResult::Rates {
            all: per_second(bytes as f64 / MIB, phase.wall),
            slowest,
            fastest,
        })
    }

    fn now(&self) -> String {
        match self {
            SgpddCellResult::Rates {
                all,
                slowest,
                fastest,
            } => format!("{all:7.2}  [ {slowest:7.2}, {fastest:7.2}]  "),
            SgpddCellResult::Failed(count) => format!("{count} failed "),
        }
    }

    fn before(&self, regions: u32) -> String {
        match self {
            SgpddCellResult::Rates { all, slowest, .. } => {
                let check = f64::from(regions) * slowest;
                format!("{all:7.2} MB/s {regions:5} x {slowest:6.2} = {check:7.2} MB/s ")
            }
            SgpddCellResult::Failed(count) => format!("{count} failed "),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, result, worker};

    use super::*;

    const GIVEN: [(&str, &str); 5] = [
        ("size", "64"),
        ("crglo", "2"),
        ("crghi", "2"),
        ("thrhi", "4"),
        ("ram", "3"),
    ];

    /// Two regions of 32 MiB: 1 s and 2 s; 2.5 s in all.
    fn phase(name: &str, second_mib: u64) -> PhaseResult {
        let mut phase = result(name, 2.5, &[]);
        phase.workers = vec![
            worker(0.0, 1.0, 32, 32 << 20),
            worker(0.5, 2.5, second_mib, second_mib << 20),
        ];
        phase
    }

    fn text_of(phases: &[PhaseResult]) -> Option<String> {
        crate::text(&built(NAME, &GIVEN).classic?, phases)
    }

    #[test]
    fn both_formats_have_their_layout_and_their_definitions() {
        let phases = [
            phase("rsz=1024K crg=2 thr=2 write", 32),
            phase("rsz=1024K crg=2 thr=2 read", 32),
        ];
        let expect = "\
sgpdd-survey, MiB/s [slowest, fastest region]
dev  1 sz    65536K rsz 1024K crg     2 thr     2 write   25.60  [   16.00,   32.00]  read   25.60  [   16.00,   32.00]
dev  1 sz    65536K rsz 1024K crg     2 thr     4 ENOMEM

sgpdd-survey before LU-2043, regions x slowest, MiB/s
total_size    65536K rsz 1024 crg     2 thr     2 write   25.60 MB/s     2 x  16.00 =   32.00 MB/s read   25.60 MB/s     2 x  16.00 =   32.00 MB/s
total_size    65536K rsz 1024 crg     2 thr     4 ENOMEM
";
        assert_eq!(text_of(&phases).unwrap(), expect);
    }

    #[test]
    fn regions_that_did_not_end_are_counted_and_missing_phases_give_no_text() {
        let mut phases = vec![phase("rsz=1024K crg=2 thr=2 write", 31)];
        assert!(text_of(&phases).is_none());
        phases.push(phase("rsz=1024K crg=2 thr=2 read", 32));
        let text = text_of(&phases).unwrap();
        assert_eq!(
            text.matches("write 1 failed read   25.60").count(),
            2,
            "{text}"
        );
        phases[1].workers.clear();
        assert!(text_of(&phases).is_none());
    }
}
