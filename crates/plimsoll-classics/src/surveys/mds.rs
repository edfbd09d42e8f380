// SPDX-License-Identifier: Apache-2.0
//! mds-survey: threads that create, look up, ask about and remove empty files, over a sweep of
//! numbers of threads.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{
    FileLoop, FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileLoopOrder, FileLoopSelection,
    FileOp, FileSet, FileSizeDistribution, FileTreeLayout,
};
use plimsoll_core::workload::series::ClassicProgram;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{
    done, doubling, elapsed, end_line, file_phase, find, least_and_greatest, per_second, series,
    setting, words,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(super) const NAME: &str = "mds-survey";

const THREADS_MAX: u32 = 4096;
const FILES_MAX: u32 = 1_000_000_000;

const SETTINGS: &[SettingDefinition] = &[
    setting("thrlo", SettingUnit::Count, "4", "fewest threads"),
    setting("thrhi", SettingUnit::Count, "32", "most threads"),
    setting(
        "file_count",
        SettingUnit::Count,
        "100000",
        "files of all threads together",
    ),
    setting(
        "dir_count",
        SettingUnit::Count,
        "",
        "directories the files lie in (default thrlo)",
    ),
    setting(
        "tests_str",
        SettingUnit::List,
        "create+lookup+md_getattr+destroy",
        "tests; the first is create, the last destroy",
    ),
];

pub(super) const KNOWN: WorkloadDefinition = WorkloadDefinition {
    name: NAME,
    about: "threads create, look up, ask about and remove empty files (mds-survey)",
    settings: SETTINGS,
    build,
};

struct MdsSurveyOptions {
    threads: Vec<u32>,
    directories: u32,
    file_count: u32,
    tests: Vec<MdsSurveyTest>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct MdsSurveyTest {
    name: &'static str,
    ops: &'static [FileOp],
    /// The operation that counts as one file.
    counted: OpKind,
}

const TESTS: [MdsSurveyTest; 4] = [
    MdsSurveyTest {
        name: "create",
        ops: &[FileOp::Create, FileOp::Close],
        counted: OpKind::Create,
    },
    MdsSurveyTest {
        name: "lookup",
        ops: &[FileOp::Open, FileOp::Close],
        counted: OpKind::Open,
    },
    MdsSurveyTest {
        name: "md_getattr",
        ops: &[FileOp::Stat],
        counted: OpKind::Stat,
    },
    MdsSurveyTest {
        name: "destroy",
        ops: &[FileOp::Delete],
        counted: OpKind::Delete,
    },
];

impl MdsSurveyOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let low = settings.count_within("thrlo", 1, THREADS_MAX)?;
        let high = settings.count_within("thrhi", 1, THREADS_MAX)?;
        let directories = match settings.text("dir_count") {
            "" => low,
            _ => settings.count_within("dir_count", 1, THREADS_MAX)?,
        };
        let threads: Vec<u32> = doubling(low, high)
            .filter(|thr| *thr >= directories)
            .collect();
        let Some(most) = threads.last() else {
            let reason = "no number of threads is as large as thrlo and dir_count";
            return Err(settings.wrong("thrhi", settings.text("thrhi"), reason));
        };
        Ok(MdsSurveyOptions {
            file_count: settings.count_within("file_count", *most, FILES_MAX)?,
            threads,
            directories,
            tests: tests(settings)?,
        })
    }

    /// Files of each thread.
    fn each(&self, threads: u32) -> u32 {
        self.file_count / threads
    }
}

fn tests(settings: &SettingValues) -> Result<Vec<MdsSurveyTest>, ClassicsError> {
    let mut tests: Vec<MdsSurveyTest> = Vec::new();
    for word in words(settings, "tests_str")? {
        let wrong = |reason| Err(settings.wrong("tests_str", word, reason));
        match TESTS.iter().find(|test| test.name == word) {
            None => return wrong("expected one of create, lookup, md_getattr, destroy"),
            Some(test) if tests.contains(test) => return wrong("named twice"),
            Some(test) => tests.push(*test),
        }
    }
    let ends = (tests.first().map(|t| t.name), tests.last().map(|t| t.name));
    if ends != (Some("create"), Some("destroy")) {
        let reason = "the first test is create and the last destroy";
        return Err(settings.wrong("tests_str", settings.text("tests_str"), reason));
    }
    Ok(tests)
}

fn phase_name(threads: u32, test: &MdsSurveyTest) -> String {
    format!("thr={threads} {}", test.name)
}

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = MdsSurveyOptions::read(settings)?;
    let mut phases = Vec::new();
    for threads in &shape.threads {
        for test in &shape.tests {
            let name = phase_name(*threads, test);
            phases.push(file_phase(&name, file_loop(&shape, *threads, test, &name)));
        }
    }
    Ok(series(NAME, settings, phases))
}

fn file_loop(shape: &MdsSurveyOptions, threads: u32, test: &MdsSurveyTest, name: &str) -> FileLoop {
    let is_first = test.counted == OpKind::Create;
    let entries = saturating_u32(u64::from(shape.each(threads)) * u64::from(threads));
    let set = FileSet {
        prealloc: if is_first { 0.0 } else { 1.0 },
        tree: match shape.directories {
            1 => FileTreeLayout::Flat,
            count => FileTreeLayout::Even(count),
        },
        made_earlier: !is_first,
        ..FileSet::flat(
            &format!("mds-{threads}"),
            entries,
            0,
            FileSizeDistribution::Constant,
        )
    };
    FileLoop {
        name: name.into(),
        sets: vec![set],
        groups: vec![FileLoopGroup {
            name: "threads".into(),
            threads,
            ops: test.ops.iter().copied().map(FileLoopOp::from).collect(),
            direct: false,
            sync: false,
        }],
        over: FileLoopSelection::Each(FileLoopOrder::Numbered),
        events_per_s: None,
        sync_at_end: false,
        without_file: FileLoopNoFilePolicy::Fail,
    }
}

/// A line for each number of threads; `None` when a phase is missing.
pub(super) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = MdsSurveyOptions::read(&settings).ok()?;
    let (files, directories) = (shape.file_count, shape.directories);
    let mut out = String::from("mds-survey, files/s [slowest, fastest thread x thr]\n");
    for threads in &shape.threads {
        let _ = write!(
            out,
            "mdt 1 file {files:7} dir {directories:4} thr {threads:4} "
        );
        for test in &shape.tests {
            let phase = find(phases, &phase_name(*threads, test))?;
            if phase.stats.errors() > 0 {
                let _ = write!(out, "{} {:>17} ", test.name, "ERROR");
                continue;
            }
            let all = per_second(done(&phase.stats, test.counted), phase.wall);
            let of_all = f64::from(shape.each(*threads)) * f64::from(*threads);
            let rate = phase.workers.iter().map(|w| per_second(of_all, elapsed(w)));
            let (slowest, fastest) = least_and_greatest(rate);
            let _ = write!(
                out,
                "{} {all:7.2} [{slowest:7.2},{fastest:7.2}] ",
                test.name
            );
        }
        end_line(&mut out);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, file_loop, names, refused, result, worker};

    use super::*;

    #[test]
    fn each_number_of_threads_makes_and_removes_its_files() {
        let series = built(
            NAME,
            &[("thrlo", "2"), ("thrhi", "8"), ("file_count", "101")],
        );
        let expect: Vec<String> = [2, 4, 8]
            .iter()
            .flat_map(|thr| TESTS.map(|test| format!("thr={thr} {}", test.name)))
            .collect();
        assert_eq!(names(&series), expect);
        use FileOp::{Close, Create, Delete, Open, Stat};
        for (phase, ops, made_earlier, prealloc) in [
            ("thr=8 create", &[Create, Close][..], false, 0.0),
            ("thr=8 lookup", &[Open, Close], true, 1.0),
            ("thr=8 md_getattr", &[Stat], true, 1.0),
            ("thr=8 destroy", &[Delete], true, 1.0),
        ] {
            let files = file_loop(&series, phase);
            let own: Vec<FileOp> = files.groups[0].ops.iter().map(|op| op.op).collect();
            assert_eq!(
                (own.as_slice(), files.groups[0].threads),
                (ops, 8),
                "{phase}"
            );
            let set = &files.sets[0];
            // 12 files of each of 8 threads, in as many directories as the fewest threads.
            assert_eq!(
                (set.entries, set.tree, set.mean_bytes),
                (96, FileTreeLayout::Even(2), 0),
                "{phase}"
            );
            assert_eq!(
                (set.made_earlier, set.prealloc),
                (made_earlier, prealloc),
                "{phase}"
            );
            assert_eq!(
                files.over,
                FileLoopSelection::Each(FileLoopOrder::Numbered),
                "{phase}"
            );
        }
    }

    #[test]
    fn directories_leave_out_small_numbers_of_threads() {
        for (dir_count, phases, tree) in [
            (
                "1",
                &["thr=4 create", "thr=8 create"][..],
                FileTreeLayout::Flat,
            ),
            ("8", &["thr=8 create"], FileTreeLayout::Even(8)),
        ] {
            let series = built(NAME, &[("thrhi", "8"), ("dir_count", dir_count)]);
            let all = names(&series);
            let creates: Vec<&str> = all.into_iter().filter(|n| n.ends_with("create")).collect();
            assert_eq!(creates, phases);
            assert_eq!(file_loop(&series, "thr=8 create").sets[0].tree, tree);
        }
    }

    #[test]
    fn the_line_has_the_layout_of_the_original() {
        let given = [
            ("thrlo", "2"),
            ("thrhi", "2"),
            ("file_count", "100"),
            ("tests_str", "create+destroy"),
        ];
        let classic = built(NAME, &given).classic.unwrap();
        let mut phases = [
            result(
                "thr=2 create",
                0.5,
                &[(OpKind::Create, 100, 0, 5), (OpKind::Close, 100, 0, 1)],
            ),
            result("thr=2 destroy", 0.25, &[(OpKind::Delete, 100, 0, 5)]),
        ];
        for phase in &mut phases {
            phase.workers = vec![worker(0.0, 0.25, 50, 0), worker(0.0, 0.5, 50, 0)];
        }
        let expect = "\
mds-survey, files/s [slowest, fastest thread x thr]
mdt 1 file     100 dir    2 thr    2 create  200.00 [ 200.00, 400.00] destroy  400.00 [ 200.00, 400.00]
";
        assert_eq!(crate::text(&classic, &phases).unwrap(), expect);
        assert!(crate::text(&classic, &phases[..1]).is_none());
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (
                &[("tests_str", "create+setxattr+destroy")][..],
                "expected one of create, lookup",
            ),
            (&[("tests_str", "create+lookup")], "last destroy"),
            (&[("tests_str", "create+create+destroy")], "named twice"),
            (&[("thrlo", "8"), ("thrhi", "4")], "no number of threads"),
            (&[("dir_count", "64")], "no number of threads"),
            (&[("file_count", "10")], "from 32 to"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
