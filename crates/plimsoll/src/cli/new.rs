// SPDX-License-Identifier: Apache-2.0
//! `plimsoll new`: a commented file to begin with.

#[cfg(test)]
mod tests;

use crate::terminal;
use plimsoll_agent::failure::{CliError, CliExitCode, CliResult};
use plimsoll_core::text::printable;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a commented file to begin with: a campaign, a workload, an inventory or a stack.
///
/// The file has every key with its meaning, and works as it is. Nothing is overwritten. Its first line names
/// the schema for editors, which is written to .plimsoll/ beside it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll new campaign
  plimsoll new workload mine.toml
  plimsoll new inventory
  plimsoll new stack")]
pub(super) struct NewArgs {
    /// What the file is to describe.
    #[arg(value_name = "campaign|workload|inventory|stack")]
    kind: NewFileKind,
    /// File to write (default: campaign.toml, workload.toml, lab.toml or stack.toml).
    file: Option<PathBuf>,
    /// Print the names of the files as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum NewFileKind {
    /// Systems, workloads and conditions of a comparison
    Campaign,
    /// Block I/O by groups of workers
    Workload,
    /// Machines that stacks are spread over, that make load or are recorded
    Inventory,
    /// A storage system from commands of yours
    Stack,
}

/// Where the schemas for editors are, beside the file.
const SCHEMAS: &str = ".plimsoll";

impl NewFileKind {
    fn name(self) -> &'static str {
        match self {
            NewFileKind::Campaign => "campaign",
            NewFileKind::Workload => "workload",
            NewFileKind::Inventory => "inventory",
            NewFileKind::Stack => "stack",
        }
    }

    fn default_file(self) -> &'static str {
        match self {
            NewFileKind::Campaign => "campaign.toml",
            NewFileKind::Workload => "workload.toml",
            // As `plimsoll vm up` and the manual call it.
            NewFileKind::Inventory => "lab.toml",
            NewFileKind::Stack => "stack.toml",
        }
    }

    fn text(self) -> &'static str {
        match self {
            NewFileKind::Campaign => include_str!("new/campaign.toml"),
            NewFileKind::Workload => include_str!("new/workload.toml"),
            NewFileKind::Inventory => include_str!("new/inventory.toml"),
            NewFileKind::Stack => include_str!("new/stack.toml"),
        }
    }

    fn schema(self) -> &'static str {
        match self {
            NewFileKind::Campaign => {
                include_str!("../../../../schemas/campaign.schema.json")
            }
            NewFileKind::Workload => {
                include_str!("../../../../schemas/workload.schema.json")
            }
            NewFileKind::Inventory => {
                include_str!("../../../../schemas/inventory.schema.json")
            }
            NewFileKind::Stack => include_str!("../../../../schemas/stack.schema.json"),
        }
    }

    /// A command that tries the file and changes nothing.
    fn try_it(self, file: &Path) -> String {
        let file = file.display();
        match self {
            NewFileKind::Campaign => format!("plimsoll compare --campaign {file} --dry-run"),
            NewFileKind::Workload => format!("plimsoll run {file} null --dry-run"),
            NewFileKind::Inventory => format!("plimsoll stack up raid1 --on {file} --dry-run"),
            NewFileKind::Stack => {
                // A name without a slash is that of a stack of ours.
                let here = if file.to_string().contains('/') {
                    ""
                } else {
                    "./"
                };
                format!("plimsoll stack up {here}{file} --dry-run")
            }
        }
    }
}

pub(super) fn main(args: &NewArgs) -> CliResult {
    let kind = args.kind;
    let file = args
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(kind.default_file()));
    super::check_directory_of(&file)?;
    if file.symlink_metadata().is_ok() {
        let text = format!("write {}: it exists", file.display());
        return Err(CliError::usage(text).hint(format!(
            "choose another name: plimsoll new {} FILE",
            kind.name()
        )));
    }
    let folder = file.parent().unwrap_or(Path::new("")).join(SCHEMAS);
    let schema = folder.join(format!("{}.schema.json", kind.name()));
    write_schema(&folder, &schema, kind.schema())?;
    let named = kind.text().replace(kind.default_file(), &name_of(&file));
    plimsoll_archive::write_result(&file, named).map_err(failed(&file))?;
    let try_it = kind.try_it(&file);
    if args.json {
        terminal::print_json(&serde_json::json!({ "file": file, "schema": schema, "try": try_it }));
    } else {
        let file = file.display();
        terminal::print(&format!(
            "{file} is written. Change it, and try it:\n  {try_it}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The file as the comments in it call it.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    printable(&name.to_string_lossy())
}

/// Writes the schema, also over one of another version of this program, and over nothing else.
fn write_schema(folder: &Path, file: &Path, text: &str) -> Result<(), CliError> {
    plimsoll_archive::make_directory(folder).map_err(failed(folder))?;
    let is_foreign = match std::fs::read_to_string(file) {
        Ok(found) if found == text => return Ok(()),
        Ok(found) => !found.contains("\"$id\": \"urn:plimsoll:"),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_foreign {
        let text = format!(
            "write {}: it exists and is no schema of plimsoll",
            file.display()
        );
        return Err(CliError::usage(text).hint("move it away"));
    }
    plimsoll_archive::write_result(file, text).map_err(failed(file))
}

fn failed<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> CliError {
    let path = path.display().to_string();
    move |error| CliError::new(CliExitCode::Failed, format!("write {path}: {error}"))
}
