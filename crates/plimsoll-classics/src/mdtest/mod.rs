// SPDX-License-Identifier: Apache-2.0
//! mdtest of IOR 4, in the two forms that IO500 uses: easy (empty files, a directory for each
//! thread) and hard (small files in one directory that all threads share). The page
//! `docs/workloads/mdtest.md` says what each number means.

mod text;

pub(crate) use text::text;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{
    FileLoop, FileLoopOp, FileLoopOrder, FileLoopSelection, FileOp, FileSet, FileSizeDistribution,
    FileTreeLayout,
};
use plimsoll_core::workload::series::PhaseSpec;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{file_phase, looped, series, setting, threads_that};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

const THREADS_MAX: u32 = 1024;
/// Files of all threads.
const FILES_MAX: u64 = 10_000_000;
const BYTES_MAX: u64 = 256 << 20;
const ITERATIONS_MAX: u32 = 100;

const N: SettingDefinition = setting("n", SettingUnit::Count, "10000", "files of each thread");
const THREADS: SettingDefinition = setting(
    "threads",
    SettingUnit::Count,
    "4",
    "threads, mdtest's tasks",
);
const I: SettingDefinition = setting("i", SettingUnit::Count, "1", "iterations");

const fn bytes(default: &'static str) -> SettingDefinition {
    setting(
        "w",
        SettingUnit::Size(1),
        default,
        "bytes written to each new file, and read",
    )
}

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: "mdtest-easy",
        about: "create, stat, read, delete: empty files, a directory per thread (IO500)",
        settings: &[N, THREADS, bytes("0"), I],
        build: |settings| build("mdtest-easy", settings, false),
    },
    WorkloadDefinition {
        name: "mdtest-hard",
        about: "create, stat, read, delete: 3901-byte files in one shared directory (IO500)",
        settings: &[N, THREADS, bytes("3901"), I],
        build: |settings| build("mdtest-hard", settings, true),
    },
];

/// Names of mdtest's phases here and in its summary, in their order.
const PHASES: [(&str, &str); 4] = [
    ("create", "File creation"),
    ("stat", "File stat"),
    ("read", "File read"),
    ("delete", "File removal"),
];

/// The name of a phase in an iteration, from 1.
fn phase_name(name: &str, iteration: u32) -> String {
    match iteration {
        1 => name.into(),
        again => format!("{name} {again}"),
    }
}

fn build(program: &str, settings: &SettingValues, shared: bool) -> Result<Workload, ClassicsError> {
    let threads = settings.count_within("threads", 1, THREADS_MAX)?;
    let files = settings.count("n").saturating_mul(u64::from(threads));
    if files == 0 || files > FILES_MAX {
        let reason = format!("expected from 1 to {FILES_MAX} files with all {threads} threads");
        return Err(settings.wrong("n", settings.text("n"), &reason));
    }
    let set = FileSet {
        prealloc: 0.0,
        tree: if shared {
            FileTreeLayout::Flat
        } else {
            FileTreeLayout::Even(threads)
        },
        ..FileSet::flat(
            program,
            saturating_u32(files),
            settings.bytes_within("w", 0, BYTES_MAX)?,
            FileSizeDistribution::Constant,
        )
    };
    let mut phases = Vec::new();
    for iteration in 1..=settings.count_within("i", 1, ITERATIONS_MAX)? {
        for (name, _) in PHASES {
            phases.push(phase(&phase_name(name, iteration), name, &set, threads));
        }
    }
    Ok(series(program, settings, phases))
}

fn phase(label: &str, name: &str, set: &FileSet, threads: u32) -> PhaseSpec {
    let piece_bytes = saturating_u32(set.mean_bytes.max(1));
    let ops = match name {
        "create" if set.mean_bytes == 0 => vec![FileOp::Create, FileOp::Close],
        "create" => vec![
            FileOp::Create,
            FileOp::WriteWhole { piece_bytes },
            FileOp::Close,
        ],
        "read" => vec![
            FileOp::Open,
            FileOp::ReadWhole { piece_bytes },
            FileOp::Close,
        ],
        "delete" => vec![FileOp::Delete],
        _ => vec![FileOp::Stat],
    };
    let made_earlier = name != "create";
    let set = FileSet {
        made_earlier,
        prealloc: if made_earlier { 1.0 } else { 0.0 },
        ..set.clone()
    };
    let ops = ops.into_iter().map(FileLoopOp::from).collect();
    let files = FileLoop {
        over: FileLoopSelection::Each(FileLoopOrder::Numbered),
        ..looped(label, vec![set], vec![threads_that("tasks", threads, ops)])
    };
    file_phase(label, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::{built, file_loop, names, refused};

    fn ops(series: &plimsoll_core::workload::PhaseSeries, phase: &str) -> Vec<FileOp> {
        let group = &file_loop(series, phase).groups[0];
        group.ops.iter().map(|op| op.op).collect()
    }

    #[test]
    fn easy_has_empty_files_in_a_directory_for_each_thread() {
        let series = built("mdtest-easy", &[("n", "50"), ("threads", "3")]);
        assert_eq!(names(&series), ["create", "stat", "read", "delete"]);
        assert_eq!(ops(&series, "create"), [FileOp::Create, FileOp::Close]);
        let files = file_loop(&series, "create");
        assert_eq!((files.sets[0].entries, files.sets[0].mean_bytes), (150, 0));
        assert_eq!(files.sets[0].tree, FileTreeLayout::Even(3));
        assert_eq!(files.over, FileLoopSelection::Each(FileLoopOrder::Numbered));
    }

    #[test]
    fn hard_writes_and_reads_small_files_in_one_directory() {
        let series = built("mdtest-hard", &[("n", "50"), ("i", "2")]);
        let expect = "create stat read delete create 2 stat 2 read 2 delete 2";
        assert_eq!(names(&series).join(" "), expect);
        let piece_bytes = 3901;
        let whole = FileOp::WriteWhole { piece_bytes };
        assert_eq!(
            ops(&series, "create"),
            [FileOp::Create, whole, FileOp::Close]
        );
        let whole = FileOp::ReadWhole { piece_bytes };
        assert_eq!(ops(&series, "read 2"), [FileOp::Open, whole, FileOp::Close]);
        assert_eq!(ops(&series, "delete"), [FileOp::Delete]);
        let set = &file_loop(&series, "stat").sets[0];
        assert!(set.made_earlier && set.tree == FileTreeLayout::Flat);
        assert_eq!((set.entries, set.mean_bytes), (200, 3901));
    }

    #[test]
    fn more_files_than_fit_are_refused() {
        for (n, expect) in [("0", "from 1 to"), ("99999999", "from 1 to 10000000 files")] {
            let error = refused("mdtest-hard", &[("n", n)]);
            assert!(error.contains(expect), "{error}");
        }
    }
}
