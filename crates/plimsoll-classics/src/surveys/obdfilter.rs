// SPDX-License-Identifier: Apache-2.0
//! obdfilter-survey: threads that write, rewrite and read the objects of one storage target, over
//! a grid of record sizes, objects and threads.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
    BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::ClassicProgram;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{
    MIB, block_phase, doubling, elapsed, end_line, find, least_and_greatest, per_second, series,
    setting, words,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(super) const NAME: &str = "obdfilter-survey";

const KIB: u64 = 1024;
/// Most memory of all buffers; cells that need more are left out, as in the original.
const BUFFERS_KIB_MAX: u64 = 1 << 20;
/// Largest record of the original, KiB.
const RECORD_KIB_MAX: u64 = 4096;
const THREADS_MAX: u32 = 1024;
/// A shorter phase has no rate by the second.
const SHORTEST: Nanos = Nanos::SECOND;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "size",
        SettingUnit::Size(1 << 20),
        "16384",
        "size of all objects of a cell, MiB",
    ),
    setting(
        "rszlo",
        SettingUnit::Size(KIB),
        "1024",
        "smallest record, KiB",
    ),
    setting(
        "rszhi",
        SettingUnit::Size(KIB),
        "1024",
        "largest record, KiB",
    ),
    setting(
        "nobjlo",
        SettingUnit::Count,
        "1",
        "fewest objects, each a file",
    ),
    setting(
        "nobjhi",
        SettingUnit::Count,
        "16",
        "most objects, each a file",
    ),
    setting(
        "thrlo",
        SettingUnit::Count,
        "1",
        "fewest threads, shared by the objects",
    ),
    setting(
        "thrhi",
        SettingUnit::Count,
        "16",
        "most threads, shared by the objects",
    ),
    setting(
        "tests_str",
        SettingUnit::List,
        "write+rewrite+read",
        "tests; the first is write",
    ),
];

pub(super) const KNOWN: WorkloadDefinition = WorkloadDefinition {
    name: NAME,
    about: "threads write, rewrite and read objects over a grid (obdfilter-survey)",
    settings: SETTINGS,
    build,
};

struct ObdfilterOptions {
    cells: Vec<ObdfilterCell>,
    tests: Vec<ObdfilterTest>,
}

struct ObdfilterCell {
    record_bytes: u64,
    objects: u32,
    threads: u32,
    /// Records of each thread.
    count: u64,
}

struct ObdfilterTest {
    name: String,
    kind: BlockIoOpKind,
}

impl ObdfilterOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let size_bytes = settings.bytes_within("size", 1 << 20, 1 << 60)?;
        let mut cells = Vec::new();
        let records = sweep(settings, "rszlo", "rszhi")?;
        for record_bytes in records.iter().map(|kib| u64::from(*kib) * KIB) {
            for objects in counts(settings, "nobjlo", "nobjhi")? {
                for threads in counts(settings, "thrlo", "thrhi")? {
                    if !threads.is_multiple_of(objects) {
                        continue;
                    }
                    let count = size_bytes / (record_bytes * u64::from(threads));
                    if count == 0 {
                        let reason =
                            format!("it does not hold a record of each of {threads} threads");
                        return Err(settings.wrong("size", settings.text("size"), &reason));
                    }
                    cells.push(ObdfilterCell {
                        record_bytes,
                        objects,
                        threads,
                        count,
                    });
                }
            }
        }
        if cells.iter().all(ObdfilterCell::is_too_large) {
            let reason = "no cell is left to play: threads are a multiple of objects, and their \
                          records fit into 1 GiB";
            return Err(settings.wrong("thrhi", settings.text("thrhi"), reason));
        }
        Ok(ObdfilterOptions {
            cells,
            tests: tests(settings)?,
        })
    }
}

/// Record sizes in KiB.
fn sweep(settings: &SettingValues, low: &str, high: &str) -> Result<Vec<u32>, ClassicsError> {
    let mut ends = [0; 2];
    for (end, name) in ends.iter_mut().zip([low, high]) {
        let bytes = settings.bytes_within(name, 4 * KIB, RECORD_KIB_MAX * KIB)?;
        if !bytes.is_multiple_of(4 * KIB) {
            return Err(settings.wrong(name, settings.text(name), "expected a multiple of 4 KiB"));
        }
        *end = saturating_u32(bytes / KIB);
    }
    Ok(doubling(ends[0], ends[1]).collect())
}

fn counts(settings: &SettingValues, low: &str, high: &str) -> Result<Vec<u32>, ClassicsError> {
    let low = settings.count_within(low, 1, THREADS_MAX)?;
    let high = settings.count_within(high, 1, THREADS_MAX)?;
    Ok(doubling(low, high).collect())
}

/// Tests may come again; from the second time on their number distinguishes them.
fn tests(settings: &SettingValues) -> Result<Vec<ObdfilterTest>, ClassicsError> {
    let mut tests: Vec<ObdfilterTest> = Vec::new();
    for word in words(settings, "tests_str")? {
        let kind = match word {
            "write" | "rewrite" | "rewrite_again" => BlockIoOpKind::Write,
            "read" | "reread" => BlockIoOpKind::Read,
            _ => {
                let known = "expected one of write, rewrite, read, reread, rewrite_again";
                return Err(settings.wrong("tests_str", word, known));
            }
        };
        if tests.is_empty() && word != "write" {
            return Err(settings.wrong("tests_str", word, "the first test is write"));
        }
        if tests.iter().any(|test| test.name == word) {
            return Err(settings.wrong("tests_str", word, "named twice"));
        }
        tests.push(ObdfilterTest {
            name: word.into(),
            kind,
        });
    }
    Ok(tests)
}

impl ObdfilterCell {
    fn is_too_large(&self) -> bool {
        u64::from(self.threads) * self.record_bytes / KIB > BUFFERS_KIB_MAX
    }

    fn threads_of_object(&self) -> u32 {
        self.threads / self.objects
    }

    fn total_bytes(&self) -> u64 {
        self.record_bytes * self.count * u64::from(self.threads)
    }

    fn phase_name(&self, test: &ObdfilterTest) -> String {
        let record_kib = self.record_bytes / KIB;
        let (objects, threads) = (self.objects, self.threads);
        format!(
            "rsz={record_kib}K obj={objects} thr={threads} {}",
            test.name
        )
    }
}

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = ObdfilterOptions::read(settings)?;
    let mut phases = Vec::new();
    for cell in shape.cells.iter().filter(|cell| !cell.is_too_large()) {
        for (place, test) in shape.tests.iter().enumerate() {
            let made = if place == 0 {
                BlockIoFileCreation::During
            } else {
                BlockIoFileCreation::Earlier
            };
            let groups = (0..cell.objects).map(|object| group(cell, object, test, made));
            phases.push(block_phase(&cell.phase_name(test), groups.collect()));
        }
    }
    Ok(series(NAME, settings, phases))
}

/// The threads of one object, which take its records in turn.
fn group(
    cell: &ObdfilterCell,
    object: u32,
    test: &ObdfilterTest,
    made: BlockIoFileCreation,
) -> BlockIoGroup {
    let workers = cell.threads_of_object();
    BlockIoGroup {
        name: format!("object {object}"),
        workers,
        extent: BlockIoExtent {
            file: format!("object-{object}"),
            shared: true,
            bytes: cell.record_bytes * cell.count * u64::from(workers),
            region: BlockIoRegion::Whole,
            made,
        },
        mix: vec![BlockIoMixEntry::of(
            test.kind,
            saturating_u32(cell.record_bytes),
        )],
        offsets: OffsetPattern::Interleaved,
        direct: true,
        work: BlockIoStopCondition::Each(cell.count),
        ..BlockIoGroup::default()
    }
}

/// A line for each cell; `None` when a phase is missing.
pub(super) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = ObdfilterOptions::read(&settings).ok()?;
    let mut out = String::from("obdfilter-survey, MiB/s [slowest, fastest thread x thr]\n");
    for cell in &shape.cells {
        let (kib, record_kib) = (cell.total_bytes() / KIB, cell.record_bytes / KIB);
        let (objects, threads) = (cell.objects, cell.threads);
        let _ = write!(
            out,
            "ost {:2} sz {kib:8}K rsz {record_kib:4}K obj {objects:4} thr {threads:4} ",
            1
        );
        if cell.is_too_large() {
            out.push_str("Too much buffer space\n");
            continue;
        }
        for test in &shape.tests {
            let phase = find(phases, &cell.phase_name(test))?;
            let all = per_second(phase.stats.bytes() as f64 / MIB, phase.wall);
            let range = range(cell, phase);
            let _ = write!(out, "{} {all:7.2} {range} ", test.name);
        }
        end_line(&mut out);
    }
    Some(out)
}

/// What all threads would give if each were like the slowest, and like the fastest.
fn range(cell: &ObdfilterCell, phase: &PhaseResult) -> String {
    if phase.stats.errors() > 0 {
        return format!("{:>17}", "ERROR");
    }
    if phase.wall < SHORTEST {
        return format!("{:>17}", "SHORT");
    }
    let rate = |worker| per_second(worker_mib(worker), elapsed(worker)) * f64::from(cell.threads);
    let (slowest, fastest) = least_and_greatest(phase.workers.iter().map(rate));
    format!("[{slowest:7.2},{fastest:7.2}]")
}

fn worker_mib(worker: &plimsoll_core::event::WorkerResult) -> f64 {
    worker.bytes as f64 / MIB
}

#[cfg(test)]
mod tests {
    use plimsoll_core::op::OpKind;

    use crate::parts::tests::{built, groups, names, refused, result, worker};

    use super::*;

    #[test]
    fn a_cell_writes_rewrites_and_reads_its_objects() {
        let given = [
            ("size", "64"),
            ("nobjhi", "2"),
            ("thrlo", "2"),
            ("thrhi", "4"),
        ];
        let series = built(NAME, &given);
        let expect: Vec<String> = [(1, 2), (1, 4), (2, 2), (2, 4)]
            .iter()
            .flat_map(|cell| ["write", "rewrite", "read"].map(|test| (cell, test)))
            .map(|((obj, thr), test)| format!("rsz=1024K obj={obj} thr={thr} {test}"))
            .collect();
        assert_eq!(names(&series), expect);
        for (phase, kind, made) in [
            (
                "rsz=1024K obj=2 thr=4 write",
                BlockIoOpKind::Write,
                BlockIoFileCreation::During,
            ),
            (
                "rsz=1024K obj=2 thr=4 rewrite",
                BlockIoOpKind::Write,
                BlockIoFileCreation::Earlier,
            ),
            (
                "rsz=1024K obj=2 thr=4 read",
                BlockIoOpKind::Read,
                BlockIoFileCreation::Earlier,
            ),
        ] {
            let objects = groups(&series, phase);
            assert_eq!(objects.len(), 2, "{phase}");
            for (number, group) in objects.iter().enumerate() {
                assert_eq!(group.extent.file, format!("object-{number}"), "{phase}");
                assert_eq!(
                    (group.workers, group.work),
                    (2, BlockIoStopCondition::Each(16)),
                    "{phase}"
                );
                assert_eq!(
                    (group.extent.bytes, group.extent.made),
                    (32 << 20, made),
                    "{phase}"
                );
                assert_eq!(group.mix, [BlockIoMixEntry::of(kind, 1 << 20)], "{phase}");
                assert_eq!(group.offsets, OffsetPattern::Interleaved, "{phase}");
                assert!(group.direct && group.extent.shared, "{phase}");
            }
        }
    }

    #[test]
    fn the_line_has_the_layout_of_the_original() {
        let given = [
            ("size", "2048"),
            ("nobjhi", "1"),
            ("thrlo", "2"),
            ("thrhi", "512"),
            ("rszlo", "4096"),
            ("rszhi", "4096"),
            ("tests_str", "write+read"),
        ];
        let given: Vec<_> = given.into_iter().collect();
        let classic = built(NAME, &given).classic.unwrap();
        let mut phases = Vec::new();
        for thr in [2, 4, 8, 16, 32, 64, 128, 256] {
            for (test, seconds) in [("write", 4.0), ("read", 0.5)] {
                let name = format!("rsz=4096K obj=1 thr={thr} {test}");
                let mut phase = result(&name, seconds, &[(OpKind::Write, 512, 4 << 20, 10)]);
                phase.workers = vec![
                    worker(0.0, 2.0, 256, 1 << 30),
                    worker(0.0, 4.0, 256, 1 << 30),
                ];
                phases.push(phase);
            }
        }
        let text = crate::text(&classic, &phases).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "ost  1 sz  2097152K rsz 4096K obj    1 thr    2 write  512.00 [ 512.00,1024.00] \
             read 4096.00             SHORT"
        );
        // 512 threads of 4 MiB need 2 GiB of buffers.
        assert!(
            lines[9].ends_with("thr  512 Too much buffer space"),
            "{}",
            lines[9]
        );
        assert_eq!(lines.len(), 10);
        assert!(crate::text(&classic, &phases[1..]).is_none());
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (&[("tests_str", "read")][..], "the first test is write"),
            (
                &[("tests_str", "write+erase")],
                "expected one of write, rewrite",
            ),
            (&[("tests_str", "write+write")], "named twice"),
            (&[("size", "8")], "each of 16 threads"),
            (&[("nobjlo", "2"), ("thrhi", "1")], "no cell is left"),
            (&[("rszhi", "8192")], "to 4.00 MiB"),
            (&[("rszlo", "5")], "multiple of 4 KiB"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
