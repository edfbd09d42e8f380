// SPDX-License-Identifier: Apache-2.0
//! Files of models: written by every command that makes or changes one.

use plimsoll_archive::{ResultFile, write_result};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::output::not_written;
use plimsoll_console::terminal;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::model::WorkloadModel;
use plimsoll_core::workload::{Workload, WorkloadFile};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Writes the model, and beside it the file of its packed requests, if it has any. Both are
/// whole before either takes its name.
pub(super) fn write(path: &Path, model: &mut WorkloadModel) -> Result<(), CliError> {
    let mut beside = None;
    if let Some(packed) = &mut model.requests {
        let file = path.with_extension("requests");
        packed.file = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let written = begun(&file, packed.bytes().unwrap_or_default());
        let fault = not_written(&file);
        beside = Some((written.map_err(&fault)?, fault));
    }
    let written = begun(path, text_of(model).as_bytes()).map_err(not_written(path))?;
    if let Some((beside, fault)) = beside {
        beside.finish().map_err(fault)?;
    }
    written.finish().map_err(not_written(path))
}

/// Writes a model to the file that it was read from; its packed requests stay as they are.
pub(super) fn write_again(path: &Path, model: &WorkloadModel) -> Result<(), CliError> {
    write_result(path, text_of(model)).map_err(not_written(path))
}

fn text_of(model: &WorkloadModel) -> String {
    let file = WorkloadFile {
        format: FormatVersion::WORKLOAD,
        workload: Workload::Model(Box::new(model.clone())),
    };
    let text = toml::to_string(&file).expect("a model has only plain data");
    format!("# Made by plimsoll; play it with plimsoll run or compare.\n{text}")
}

/// All of a result, but for its name.
fn begun(path: &Path, bytes: &[u8]) -> std::io::Result<ResultFile> {
    let mut file = ResultFile::create(path)?;
    file.write_all(bytes)?;
    file.settle()?;
    Ok(file)
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
