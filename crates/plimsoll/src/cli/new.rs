// SPDX-License-Identifier: Apache-2.0
//! `plimsoll new`: a commented file to begin with.

#[cfg(test)]
mod tests;

use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::output::not_written;
use plimsoll_console::terminal;
use plimsoll_core::text::printable;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a commented file to begin with.
///
/// The file contains every key with its meaning, and works as it is. Existing files are not
/// overwritten. The first line of the file names the schema for editors, which is written to
/// .plimsoll/ beside the file.
///
/// A mapping is made for a given table of counters (CSV, JSON or Parquet). Keys that follow from
/// column names are filled in; all others are comments. Commands that read recordings take the
/// mapping instead of the table.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll new campaign
  plimsoll new workload mine.toml
  plimsoll new inventory
  plimsoll new stack
  plimsoll new mapping disks.csv")]
pub(super) struct NewArgs {
    /// Kind of file to write.
    #[arg(value_name = "campaign|workload|inventory|stack|mapping")]
    kind: NewFileKind,
    /// File to write (default: campaign.toml, workload.toml, lab.toml or stack.toml).
    ///
    /// For a mapping, FILE is the table: for disks.csv, disks.mapping.toml is written into the
    /// current directory.
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
    /// Machines that run stacks, make load or are recorded
    Inventory,
    /// A storage system made by your own commands
    Stack,
    /// Meanings of the columns of a table of counters
    Mapping,
}

/// Where the schemas for editors are, beside the file.
const SCHEMAS: &str = ".plimsoll";

/// The facts about a kind of file.
struct NewFileFacts {
    name: &'static str,
    /// The file that is written where none is given.
    file: &'static str,
    text: &'static str,
    schema: &'static str,
}

/// One row per kind, in the order of [`NewFileKind`].
static FACTS: [NewFileFacts; 5] = [
    NewFileFacts {
        name: "campaign",
        file: "campaign.toml",
        text: include_str!("new/campaign.toml"),
        schema: include_str!("../../../../schemas/campaign.schema.json"),
    },
    NewFileFacts {
        name: "workload",
        file: "workload.toml",
        text: include_str!("new/workload.toml"),
        schema: include_str!("../../../../schemas/workload.schema.json"),
    },
    NewFileFacts {
        name: "inventory",
        // As `plimsoll vm up` and the manual call it.
        file: "lab.toml",
        text: include_str!("new/inventory.toml"),
        schema: include_str!("../../../../schemas/inventory.schema.json"),
    },
    NewFileFacts {
        name: "stack",
        file: "stack.toml",
        text: include_str!("new/stack.toml"),
        schema: include_str!("../../../../schemas/stack.schema.json"),
    },
    NewFileFacts {
        name: "mapping",
        file: "mapping.toml",
        text: include_str!("new/mapping.toml"),
        schema: include_str!("../../../../schemas/mapping.schema.json"),
    },
];

impl NewFileKind {
    fn facts(self) -> &'static NewFileFacts {
        &FACTS[self as usize]
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
            NewFileKind::Mapping => format!("plimsoll profile {file}"),
        }
    }
}

/// A file that is to be written.
struct NewFile {
    path: PathBuf,
    text: String,
}

pub(super) fn main(args: &NewArgs) -> CliResult {
    let kind = args.kind;
    let facts = kind.facts();
    let NewFile { path: file, text } = match (kind, &args.file) {
        (NewFileKind::Mapping, Some(table)) => mapping(table)?,
        (NewFileKind::Mapping, None) => {
            let text = "a mapping is made for a table, and none is given";
            return Err(CliError::invalid(text).hint("give it: plimsoll new mapping disks.csv"));
        }
        (_, file) => {
            let path = file.clone().unwrap_or_else(|| facts.file.into());
            let text = facts.text.replace(facts.file, &name_of(&path));
            NewFile { path, text }
        }
    };
    plimsoll_console::output::check_directory_of(&file)?;
    if file.symlink_metadata().is_ok() {
        let text = format!("write {}: it exists", file.display());
        return Err(CliError::usage(text).hint(match kind {
            NewFileKind::Mapping => "move it away, or work in another folder".into(),
            _ => format!("choose another name: plimsoll new {} FILE", facts.name),
        }));
    }
    let folder = file.parent().unwrap_or(Path::new("")).join(SCHEMAS);
    let schema = folder.join(format!("{}.schema.json", facts.name));
    write_schema(&folder, &schema, facts.schema)?;
    plimsoll_archive::write_result(&file, text).map_err(not_written(&file))?;
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

/// The mapping of a table: what there is to be said of every key, and what its columns say.
fn mapping(table: &Path) -> Result<NewFile, CliError> {
    let name = name_of(table);
    let stem = name.split('.').next().filter(|stem| !stem.is_empty());
    let path = PathBuf::from(format!("{}.mapping.toml", stem.unwrap_or("table")));
    let usage = plimsoll_console::failure::failed(CliExitCode::Usage);
    let begun = plimsoll_trace::counters::begun_mapping(table, &table.display().to_string());
    let facts = NewFileKind::Mapping.facts();
    let text = facts.text.replace(facts.file, &name_of(&path));
    let keys = text.find("\nrecording = ").unwrap_or(text.len());
    Ok(NewFile {
        path,
        text: format!("{}\n{}", &text[..keys], begun.map_err(usage)?),
    })
}

/// The file as the comments in it call it.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    printable(&name.to_string_lossy())
}

/// Writes the schema, also over one of another version of this program, and over nothing else.
fn write_schema(folder: &Path, file: &Path, text: &str) -> Result<(), CliError> {
    plimsoll_archive::make_directory(folder).map_err(not_written(folder))?;
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
    plimsoll_archive::write_result(file, text).map_err(not_written(file))
}
