// SPDX-License-Identifier: Apache-2.0
//! Files of models: written by every command that makes or changes one.

use crate::terminal;
use plimsoll_agent::failure::{CliError, CliExitCode, CliResult};
use plimsoll_archive::write_result;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::model::WorkloadModel;
use plimsoll_core::workload::{Workload, WorkloadFile};
use std::path::Path;
use std::process::ExitCode;

/// Writes the model, and beside it the file of its packed requests, if it has any; those that are drawn
/// are drawn again when it is read.
pub(super) fn write(path: &Path, model: &mut WorkloadModel) -> Result<(), CliError> {
    if let (Some(packed), None) = (&mut model.requests, &model.parametric) {
        let file = path.with_extension("requests");
        packed.file = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        write_result(&file, packed.bytes().unwrap_or_default())
            .map_err(|error| fault(&file, &error))?;
    }
    write_again(path, model)
}

/// Writes a model to the file that it was read from; its packed requests stay as they are.
pub(super) fn write_again(path: &Path, model: &WorkloadModel) -> Result<(), CliError> {
    let file = WorkloadFile {
        format: FormatVersion::WORKLOAD,
        workload: Workload::Model(Box::new(model.clone())),
    };
    let text = toml::to_string(&file).expect("a model has only plain data");
    let text = format!("# Made by plimsoll; play it with plimsoll run or compare.\n{text}");
    write_result(path, text).map_err(|error| fault(path, &error))
}

fn fault(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(
        CliExitCode::Failed,
        format!("write {}: {error}", path.display()),
    )
}

/// The end of a command that wrote a model: with the code of its gates, and those it missed.
pub(super) fn end(model: &WorkloadModel, path: &Path) -> CliResult {
    let missed: Vec<&str> = model.missed().map(|line| line.metric.as_str()).collect();
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::say(&format!(
        "{} was written, and misses its gates: {}",
        path.display(),
        missed.join("; ")
    ));
    super::done(CliExitCode::Gate)
}
