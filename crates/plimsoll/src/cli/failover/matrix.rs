// SPDX-License-Identifier: Apache-2.0
//! Faults of several stacks: a cell for each stack and fault, kept as it is done, so that an
//! interruption costs one cell.

use super::FailoverRunner;
use crate::terminal;
use plimsoll_agent::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_archive::FailoverCheckpoint;
use plimsoll_core::failover::{
    FailoverCellResult, FailoverMatrix, FailoverMatrixCell, FailoverResult,
};
use plimsoll_core::fault::FaultKind;
use plimsoll_lab::stacks::StackConfig;
use plimsoll_machine::host::{HostTimeSource as _, MadeDir, SystemClock};
use plimsoll_run::campaign::ArmSet;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is done so far.
struct FailoverMatrixProgress<'a> {
    bench: &'a FailoverRunner<'a>,
    kept: Option<FailoverCheckpoint>,
    cells: Vec<FailoverMatrixCell>,
    /// The exit codes of what went wrong so far, which was told.
    codes: Vec<CliExitCode>,
    clock: SystemClock,
}

pub(super) fn main(bench: &FailoverRunner<'_>, stacks: &[StackConfig]) -> CliResult {
    let mut table = FailoverMatrixProgress {
        bench,
        kept: bench.kept()?,
        cells: Vec::new(),
        codes: Vec::new(),
        clock: SystemClock::new(),
    };
    let mut left = Vec::new();
    for stack in stacks {
        left.extend(table.row(stack)?);
        if !left.is_empty() {
            break;
        }
    }
    let all = FailoverMatrix { cells: table.cells };
    let told = bench.args.tell(&plimsoll_report::matrix(&all), &all);
    let removed = crate::cli::raze::verdict(&left);
    let wrong = told.err().into_iter().chain(removed.err());
    let has = |code| table.codes.contains(&code);
    if !all.kept_its_data() || has(CliExitCode::BadData) {
        return crate::cli::bad_data(wrong);
    }
    let wrong: Vec<CliError> = wrong.collect();
    if !wrong.is_empty() {
        return crate::cli::worst(wrong);
    }
    if has(CliExitCode::NotCleaned) {
        return crate::cli::done(CliExitCode::NotCleaned);
    }
    if bench.stop.load(Ordering::Relaxed) {
        return crate::cli::done(CliExitCode::Interrupted);
    }
    match table.codes.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => crate::cli::done(CliExitCode::Failed),
    }
}

impl FailoverRunner<'_> {
    /// The directory that keeps cells, if one was named. Cells that were made in another way do not
    /// belong into the same table.
    fn kept(&self) -> Result<Option<FailoverCheckpoint>, CliError> {
        let args = self.args;
        let Some(folder) = &args.checkpoint_dir else {
            return Ok(None);
        };
        let asked = serde_json::json!({
            "repeat": args.repeat,
            "victim": args.victim,
            "sessions": args.sessions,
            "rate": args.rate,
            "share": args.share,
            "workloads": args.workloads,
            "witnesses": args.observers,
            "block": args.block_bytes,
            "file_size": args.file_bytes,
            "lasting": args.fault_duration,
            "patience": args.recovery_timeout,
            "seed": args.seed,
            "on": args.shape.place_name(),
        });
        let opened = FailoverCheckpoint::open(folder, &asked);
        let opened = opened.map_err(doing(CliExitCode::Usage, "resume the fault matrix"))?;
        Ok(Some(opened))
    }
}

impl FailoverMatrixProgress<'_> {
    /// All cells of one stack; what could not be removed of it.
    fn row(&mut self, stack: &StackConfig) -> Result<Vec<String>, CliError> {
        let name = stack.parts.to_string();
        let mut wanted = Vec::new();
        for fault in &self.bench.args.faults {
            match self.found(&name, *fault) {
                Some(done) => self.add(&name, *fault, FailoverCellResult::Done(done)),
                None if self.is_over() => self.add(&name, *fault, FailoverCellResult::NotTried),
                None => wanted.push(*fault),
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        terminal::say(&format!("{name}:"));
        let (bench, before) = (self.bench, self.cells.len());
        let (done, left) = bench.on_stack(stack, |arms, name| {
            for fault in &wanted {
                let outcome = self.cell(arms, name, *fault)?;
                if let FailoverCellResult::Refused(why) | FailoverCellResult::Failed(why) = &outcome
                {
                    terminal::say(&format!("{fault}: {why}"));
                }
                self.add(name, *fault, outcome);
                if self.codes.contains(&CliExitCode::NotCleaned) {
                    // The next one would be done to what that fault left behind.
                    let why = format!("no more faults on {name}: one could not be recovered");
                    return Err(CliError::sentence(CliExitCode::NotCleaned, why));
                }
            }
            Ok(())
        });
        if let Err(failure) = done {
            terminal::say(&failure.to_string());
            self.codes.push(failure.code);
            let begun = self.cells.len() - before;
            for fault in wanted.iter().skip(begun) {
                self.add(
                    &name,
                    *fault,
                    FailoverCellResult::Failed(failure.to_string()),
                );
            }
        }
        Ok(left)
    }

    /// One cell of a stack that is up.
    fn cell(
        &mut self,
        arms: &ArmSet,
        name: &str,
        fault: FaultKind,
    ) -> Result<FailoverCellResult, CliError> {
        if self.is_over() {
            return Ok(FailoverCellResult::NotTried);
        }
        let ledgers = self.bench.ledgers.path.join(self.cells.len().to_string());
        MadeDir::make(&ledgers).map_err(doing(
            CliExitCode::Failed,
            format!("make {}", ledgers.display()),
        ))?;
        let (done, failure) = match self.bench.strike(arms, name, &[fault], &ledgers) {
            Ok((done, ended)) => (Some(done), ended.err()),
            Err(failure) => (None, Some(failure)),
        };
        let Some(failure) = failure else {
            let done = done.expect("what did not fail is done");
            if let Some(Err(error)) = self.kept.as_mut().map(|kept| kept.keep(done.clone())) {
                // What it found is told all the same.
                let failure = doing(CliExitCode::Failed, "keep a cell of the fault matrix")(error);
                terminal::say(&failure.to_string());
                self.codes.push(failure.code);
            }
            return Ok(FailoverCellResult::Done(done));
        };
        let lost = done.filter(|done| !done.kept_its_data());
        let outcome = match (lost, failure.code) {
            (None, CliExitCode::Usage) => return Ok(FailoverCellResult::Refused(failure.text())),
            (None, CliExitCode::Interrupted) => return Ok(FailoverCellResult::NotTried),
            // What is missing is told, however the rest ended.
            (Some(done), _) => {
                terminal::say(&failure.to_string());
                FailoverCellResult::Done(done)
            }
            (None, _) => FailoverCellResult::Failed(failure.to_string()),
        };
        self.codes.push(failure.code);
        Ok(outcome)
    }

    fn found(&self, stack: &str, fault: FaultKind) -> Option<FailoverResult> {
        let mut kept = self.kept.as_ref()?.kept().iter();
        let is_it = |done: &&FailoverResult| {
            let first = done.strikes.first();
            done.name == stack && first.is_some_and(|strike| strike.fault == fault)
        };
        kept.find(is_it).cloned()
    }

    fn add(&mut self, stack: &str, fault: FaultKind, outcome: FailoverCellResult) {
        self.cells.push(FailoverMatrixCell {
            stack: stack.into(),
            fault,
            outcome,
        });
    }

    /// Whether nothing more is begun.
    fn is_over(&self) -> bool {
        let budget = self.bench.args.budget;
        let is_late = budget.is_some_and(|time| self.clock.now() >= Duration::from_nanos(time.0));
        is_late || self.bench.stop.load(Ordering::Relaxed)
    }
}
