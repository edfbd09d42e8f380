// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask test`: every test of the workspace, in two groups.
//!
//! Test programs that bear company run two at a time; those that `xtask/tests.toml` lists run by
//! themselves, one test at a time. A test that failed is repeated once, alone. If it passes then,
//! it is named as flaky in the last lines and the suite passes: a busy machine must not hold up a
//! change, and must not hide a defect either. The libtest runner alone can do neither, and building
//! the kept runner that can would take longer than all the tests.

mod outcome;
mod program;
mod tests;

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use outcome::{SuiteSummary, TestOutcome};
use program::TestProgram;

/// Test programs of the first group that run at once: while tests of one wait for a disk or for
/// a child, those of the other compute.
const PROGRAMS_AT_ONCE: usize = 2;
/// Tests of one program of the first group that run at once, at least: most wait for what they started.
const SHARED_THREADS: usize = 3;
/// A test program that takes longer hangs. The slowest takes some three minutes on two quiet
/// processors; beside other work it has taken three times that.
const PROGRAM_LIMIT: Duration = Duration::from_mins(30);
/// The test program of the first group that takes the longest.
const LONGEST: &str = "plimsoll/cli";
/// More failures than this are not a busy machine: they are not repeated.
const REPEATS_MAX: usize = 12;

/// Runs the suite; words in `filters` keep the programs whose name has one of them.
pub(crate) fn run(root: &Path, filters: &[String]) -> ExitCode {
    match suite(root, filters) {
        Ok(summary) => {
            super::print(&summary.text());
            ExitCode::from(u8::from(!summary.passed()))
        }
        Err(error) => {
            eprintln!("cargo xtask test: {error}");
            ExitCode::from(2)
        }
    }
}

fn suite(root: &Path, filters: &[String]) -> Result<SuiteSummary, String> {
    let alone = programs_alone(root)?;
    let mut programs = program::build(root)?;
    programs.push(program::pages(root));
    for name in &alone {
        if !programs.iter().any(|program| program.name == *name) {
            return Err(format!(
                "xtask/tests.toml names '{name}', which no package has"
            ));
        }
    }
    programs.retain(|program| filters.is_empty() || program.is_named(filters));
    let (quiet, mut shared): (Vec<TestProgram>, Vec<TestProgram>) = programs
        .into_iter()
        .partition(|program| alone.contains(&program.name));
    // Those of the command line take the longest by far: all others fit beside them.
    shared.sort_by_key(|program| program.name != LONGEST);
    let mut summary = SuiteSummary::default();
    for outcome in run_shared(&shared) {
        summary.add(outcome);
    }
    for program in &quiet {
        let outcome = program.run(Some(1), None, PROGRAM_LIMIT);
        super::print(&outcome.line());
        summary.add(outcome);
    }
    let all: Vec<&TestProgram> = shared.iter().chain(&quiet).collect();
    repeat_failed(&mut summary, &all);
    Ok(summary)
}

/// The names in `xtask/tests.toml`.
fn programs_alone(root: &Path) -> Result<Vec<String>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SuiteConfig {
        alone: Vec<String>,
    }
    let path = root.join("xtask/tests.toml");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config: SuiteConfig =
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(config.alone)
}

fn run_shared(programs: &[TestProgram]) -> Vec<TestOutcome> {
    let queue: Mutex<VecDeque<&TestProgram>> = Mutex::new(programs.iter().collect());
    let outcomes = Mutex::new(Vec::new());
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (processors < SHARED_THREADS).then_some(SHARED_THREADS);
    let next = || queue.lock().expect("no worker panics").pop_front();
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let outcome = program.run(threads, None, PROGRAM_LIMIT);
                    super::print(&outcome.line());
                    outcomes.lock().expect("no worker panics").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no worker panics")
}

/// Repeats each failed test once, with nothing beside it.
fn repeat_failed(summary: &mut SuiteSummary, programs: &[&TestProgram]) {
    let failed = summary.failures();
    if failed.len() > REPEATS_MAX {
        super::print(&format!(
            "{} tests failed: too many to be chance, so none is repeated\n",
            failed.len()
        ));
        return;
    }
    for (name, test) in failed {
        let program = programs.iter().find(|program| program.name == name);
        let Some(program) = program else { continue };
        super::print(&format!("repeating alone: {name} {test}\n"));
        let outcome = program.run(Some(1), Some(&test), PROGRAM_LIMIT);
        if outcome.passed == 1 && outcome.failed.is_empty() {
            summary.forgive(&name, &test);
        } else {
            super::print(&outcome.line());
        }
    }
}
