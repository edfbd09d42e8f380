// SPDX-License-Identifier: Apache-2.0
//! sgpdd-survey of the Lustre I/O kit: the sequential bandwidth of one device as a number of clients
//! would see it, over a grid of record sizes, concurrent regions and threads.

mod text;

pub(crate) use text::text;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
    BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::PhaseSpec;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{block_phase, doubling, series, setting, words};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(crate) const NAME: &str = "sgpdd-survey";

const KIB: u64 = 1024;
/// Most threads of one region: the depth of an instance of `sgp_dd`.
const DEPTH_MAX: u32 = 16;
/// Memory of a region besides its records, KiB.
const REGION_KIB: u64 = 64;
const REGIONS_MAX: u32 = 65_536;
const THREADS_MAX: u32 = 65_536;
/// Largest record, KiB.
const RECORD_KIB_MAX: u64 = 256 << 10;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "size",
        SettingUnit::Size(1 << 20),
        "8192",
        "size of the file or device part, MiB",
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
        "crglo",
        SettingUnit::Count,
        "1",
        "fewest concurrent regions",
    ),
    setting(
        "crghi",
        SettingUnit::Count,
        "256",
        "most concurrent regions",
    ),
    setting(
        "thrlo",
        SettingUnit::Count,
        "1",
        "fewest threads, shared by the regions",
    ),
    setting(
        "thrhi",
        SettingUnit::Count,
        "4096",
        "most threads, shared by the regions",
    ),
    setting(
        "actions",
        SettingUnit::List,
        "write+read",
        "what is done in each cell",
    ),
    setting(
        "ram",
        SettingUnit::Size(1 << 20),
        "",
        "memory in MiB; cells that need more are left out",
    ),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: NAME,
    about: "sequential streams over a grid of records, regions and threads (sgpdd-survey)",
    settings: SETTINGS,
    build,
}];

/// The settings, understood.
struct SgpddOptions {
    cells: Vec<SgpddCell>,
    actions: Vec<SgpddAction>,
    size_bytes: u64,
}

/// One cell of the grid.
struct SgpddCell {
    record_bytes: u64,
    regions: u32,
    threads: u32,
    /// Size of each region, whole records.
    region_bytes: u64,
    /// Whether its buffers exceed the memory, so that it is not played.
    is_too_large: bool,
}

#[derive(Clone, Copy)]
struct SgpddAction {
    name: &'static str,
    kind: BlockIoOpKind,
}

impl SgpddOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let size_bytes = settings.bytes_within("size", 1 << 20, 1 << 60)?;
        let mut cells = Vec::new();
        for record_bytes in record_sweep(settings)? {
            for regions in sweep(settings, "crglo", "crghi", REGIONS_MAX)? {
                for threads in sweep(settings, "thrlo", "thrhi", THREADS_MAX)? {
                    if threads < regions || threads / regions > DEPTH_MAX {
                        continue;
                    }
                    let region_bytes = size_bytes / u64::from(regions);
                    let region_bytes = region_bytes - region_bytes % record_bytes;
                    if region_bytes == 0 {
                        let reason = format!(
                            "{regions} regions of it do not hold a record of {} KiB each; \
                             raise size or lower crghi",
                            record_bytes / KIB
                        );
                        return Err(settings.wrong("size", settings.text("size"), &reason));
                    }
                    cells.push(SgpddCell {
                        record_bytes,
                        regions,
                        threads,
                        region_bytes,
                        is_too_large: is_too_large(record_bytes, regions, threads, settings),
                    });
                }
            }
        }
        if cells.iter().all(|cell| cell.is_too_large) {
            let reason = "no cell is left to play: threads must be at least as many as regions, \
                          at most 16 for each, and their records must fit into ram";
            return Err(settings.wrong("thrhi", settings.text("thrhi"), reason));
        }
        Ok(SgpddOptions {
            cells,
            actions: actions(settings)?,
            size_bytes,
        })
    }
}

/// Record sizes in bytes.
fn record_sweep(settings: &SettingValues) -> Result<Vec<u64>, ClassicsError> {
    let mut ends = [0; 2];
    for (end, name) in ends.iter_mut().zip(["rszlo", "rszhi"]) {
        let bytes = settings.bytes_within(name, KIB, RECORD_KIB_MAX * KIB)?;
        if !bytes.is_multiple_of(KIB) {
            return Err(settings.wrong(name, settings.text(name), "expected a multiple of 1 KiB"));
        }
        *end = saturating_u32(bytes / KIB);
    }
    let [low, high] = ends;
    Ok(doubling(low, high)
        .map(|kib| u64::from(kib) * KIB)
        .collect())
}

/// The values from one setting to another, doubling.
fn sweep(
    settings: &SettingValues,
    low: &str,
    high: &str,
    most: u32,
) -> Result<Vec<u32>, ClassicsError> {
    let low = settings.count_within(low, 1, most)?;
    let high = settings.count_within(high, 1, most)?;
    Ok(doubling(low, high).collect())
}

/// The original's rule: records of all threads and 64 KiB for each region against all memory.
fn is_too_large(record_bytes: u64, regions: u32, threads: u32, settings: &SettingValues) -> bool {
    let ram_kib = settings.bytes("ram") / KIB;
    let regions = u64::from(regions);
    let record_kib = record_bytes / KIB;
    let each_kib = record_kib * u64::from(threads) / regions + REGION_KIB;
    ram_kib > 0 && each_kib * regions > ram_kib
}

fn actions(settings: &SettingValues) -> Result<Vec<SgpddAction>, ClassicsError> {
    let mut actions: Vec<SgpddAction> = Vec::new();
    for word in words(settings, "actions")? {
        let action = match word {
            "write" => SgpddAction {
                name: "write",
                kind: BlockIoOpKind::Write,
            },
            "read" => SgpddAction {
                name: "read",
                kind: BlockIoOpKind::Read,
            },
            _ => return Err(settings.wrong("actions", word, "expected write or read")),
        };
        if actions.iter().any(|before| before.name == action.name) {
            return Err(settings.wrong("actions", word, "named twice"));
        }
        actions.push(action);
    }
    Ok(actions)
}

impl SgpddCell {
    fn phase_name(&self, action: &SgpddAction) -> String {
        let SgpddCell {
            regions, threads, ..
        } = self;
        let record_kib = self.record_bytes / KIB;
        format!(
            "rsz={record_kib}K crg={regions} thr={threads} {}",
            action.name
        )
    }

    /// All regions together, KiB.
    fn total_kib(&self) -> u64 {
        self.region_bytes * u64::from(self.regions) / KIB
    }
}

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = SgpddOptions::read(settings)?;
    let mut phases: Vec<PhaseSpec> = Vec::new();
    for cell in shape.cells.iter().filter(|cell| !cell.is_too_large) {
        for action in &shape.actions {
            // As on a device that is in use, there are data before the first write.
            let made = if phases.is_empty() {
                BlockIoFileCreation::Before
            } else {
                BlockIoFileCreation::Earlier
            };
            let group = group(&shape, cell, action, made);
            phases.push(block_phase(&cell.phase_name(action), vec![group]));
        }
    }
    Ok(series(NAME, settings, phases))
}

/// Each region is a worker; its threads share one stream, as those of an `sgp_dd` do.
fn group(
    shape: &SgpddOptions,
    cell: &SgpddCell,
    action: &SgpddAction,
    made: BlockIoFileCreation,
) -> BlockIoGroup {
    BlockIoGroup {
        name: "regions".into(),
        workers: cell.regions,
        depth: cell.threads / cell.regions,
        extent: BlockIoExtent {
            file: "sgpdd".into(),
            shared: true,
            bytes: shape.size_bytes,
            region: BlockIoRegion::Part,
            made,
        },
        mix: vec![BlockIoMixEntry::of(
            action.kind,
            saturating_u32(cell.record_bytes),
        )],
        offsets: OffsetPattern::Sequential,
        direct: true,
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, groups, names, refused};

    use super::*;

    const SMALL: [(&str, &str); 3] = [("size", "64"), ("crghi", "4"), ("thrhi", "32")];

    #[test]
    fn the_grid_leaves_out_what_the_original_leaves_out() {
        let series = built(NAME, &[&SMALL[..], &[("actions", "read")]].concat());
        let expect: Vec<String> = [
            (1, [1, 2, 4, 8, 16].as_slice()),
            (2, &[2, 4, 8, 16, 32]),
            (4, &[4, 8, 16, 32]),
        ]
        .iter()
        .flat_map(|(crg, list)| list.iter().map(move |thr| (crg, thr)))
        .map(|(crg, thr)| format!("rsz=1024K crg={crg} thr={thr} read"))
        .collect();
        assert_eq!(names(&series), expect);
        assert_eq!(built(NAME, &[]).phases.len(), 2 * (9 * 5));
    }

    #[test]
    fn a_cell_is_streams_of_its_depth_in_parts_of_one_file() {
        let given = [
            ("rszlo", "512"),
            ("rszhi", "1024"),
            ("actions", "write read"),
        ];
        let series = built(NAME, &[&SMALL[..], &given].concat());
        for (place, phase) in series.phases.iter().enumerate() {
            let [group] = groups(&series, &phase.name) else {
                panic!("{} has one group", phase.name);
            };
            let made = if place == 0 {
                BlockIoFileCreation::Before
            } else {
                BlockIoFileCreation::Earlier
            };
            assert_eq!(group.extent.made, made, "{}", phase.name);
            assert!(group.direct && group.extent.shared, "{}", phase.name);
            assert_eq!(group.extent.region, BlockIoRegion::Part, "{}", phase.name);
            assert_eq!(
                (group.work, group.extent.bytes),
                (BlockIoStopCondition::Pass, 64 << 20)
            );
            let of_phase = format!(
                "rsz={}K crg={} thr={} {}",
                group.mix[0].bytes / 1024,
                group.workers,
                group.workers * group.depth,
                if group.mix[0].kind == BlockIoOpKind::Read {
                    "read"
                } else {
                    "write"
                }
            );
            assert_eq!(phase.name, of_phase);
        }
    }

    #[test]
    fn cells_beyond_the_memory_are_left_out() {
        // 16 threads of 1 MiB and 64 KiB fit into 17 MiB; 32 in two regions do not.
        let given = [
            ("ram", "17"),
            ("actions", "read"),
            ("thrlo", "16"),
            ("crghi", "2"),
        ];
        let series = built(NAME, &[&SMALL[..1], &given, &SMALL[2..]].concat());
        let expect = ["rsz=1024K crg=1 thr=16 read", "rsz=1024K crg=2 thr=16 read"];
        assert_eq!(names(&series), expect);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (&[("actions", "erase")][..], "expected write or read"),
            (&[("actions", "read+read")], "named twice"),
            (&[("size", "4")], "do not hold a record"),
            (&[("thrlo", "4"), ("thrhi", "1")], "no cell is left"),
            (&[("ram", "1")], "fit into ram"),
            (&[("rszlo", "1000B")], "from 1.00 KiB"),
            (&[("rszhi", "1500B")], "multiple of 1 KiB"),
            (&[("crglo", "0")], "from 1 to"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
