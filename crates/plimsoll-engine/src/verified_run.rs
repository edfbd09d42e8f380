// SPDX-License-Identifier: Apache-2.0
//! Runs one act with its data verified: what was written is read back when it has ended.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::data_check::{BadBlock, DataCheckResult};
use plimsoll_core::event::TrialInterval;

use crate::act::{PhaseRun, PhaseRunWorkload};
use crate::error::EngineError;
use crate::outcome::RunResult;
use crate::verify::{DataCheckRegisterSet, VerifyReport, read_back};
use plimsoll_core::data_check::DataCheck;

/// Blocks read back at the same time.
const DEPTH: u32 = 32;

impl PhaseRun<'_> {
    /// Plays it; where its data are to be verified, they are, and are read back afterwards.
    pub(crate) fn run_verified(
        &self,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
    ) -> Result<RunResult, EngineError> {
        let blocks = match self.body {
            PhaseRunWorkload::Blocks(blocks) if self.options.data_check != DataCheck::Off => blocks,
            _ => return self.run(stop, on_interval),
        };
        let registers = DataCheckRegisterSet::new(self.ground, blocks, self.options)?;
        let act = PhaseRun {
            registers: Some(&registers),
            ..*self
        };
        let mut outcome = act.run(stop, on_interval)?;
        outcome.data_check = Some(self.read_back(&registers, stop)?);
        Ok(outcome)
    }

    fn read_back(
        &self,
        registers: &DataCheckRegisterSet,
        stop: &AtomicBool,
    ) -> Result<DataCheckResult, EngineError> {
        let mut whole = DataCheckResult::default();
        for (path, register) in &registers.by_path {
            // Around the page cache where possible, whatever the workload does: what it holds says
            // nothing of the storage.
            let direct = register.block_bytes().is_multiple_of(self.ground.align());
            let wants = (DEPTH, register.block_bytes());
            let seed = self.options.stamp_seed;
            let (mut engine, _) = self.open_file(path, (direct, false), wants, seed)?;
            let report = read_back(engine.as_mut(), register, stop)?;
            whole.merge(result(path, &report));
        }
        Ok(whole)
    }
}

fn result(path: &Path, report: &VerifyReport) -> DataCheckResult {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let file = name.to_string_lossy().into_owned();
    let findings = report.findings.iter().map(|finding| BadBlock {
        file: file.clone(),
        offset: finding.offset,
        flaw: finding.flaw,
    });
    DataCheckResult {
        written: report.written,
        checked: report.checked,
        errors: report.errors,
        bad: report.bad,
        findings: findings.collect(),
        interrupted: report.interrupted,
    }
}
