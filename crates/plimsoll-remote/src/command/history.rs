// SPDX-License-Identifier: Apache-2.0
//! `plimsoll history`: the arguments.

use super::DatabaseArgs;
use clap::Subcommand;
use std::path::PathBuf;

/// List the runs of a team, and the changes of its series.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll history list --database sqlite:team.db
  plimsoll history changes --database sqlite:team.db
  plimsoll history export --parquet history.parquet --database sqlite:team.db
  duckdb -c \"SELECT system, metric, avg(ratio) FROM 'history.parquet' GROUP BY ALL\"")]
pub struct HistoryArgs {
    #[command(subcommand)]
    pub command: HistoryCommand,
}

#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    List(HistoryListArgs),
    Changes(HistoryChangesArgs),
    Export(HistoryExportArgs),
}

/// List all runs, newest first.
#[derive(Debug, clap::Args)]
pub struct HistoryListArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// List unacknowledged changes of all series that are not muted.
///
/// Runs of all users count, whether or not they are shared. Exit code 10 if there is such a change.
#[derive(Debug, clap::Args)]
pub struct HistoryChangesArgs {
    /// Include acknowledged changes, and changes of muted series.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the changes as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Export every fact: one row per trial and figure.
///
/// Each row has its ratio to the reference in the same block.
#[derive(Debug, clap::Args)]
pub struct HistoryExportArgs {
    /// Write a Parquet file, for example for DuckDB or pandas.
    #[arg(long, value_name = "FILE", required_unless_present = "lines")]
    pub parquet: Option<PathBuf>,
    /// Write one line of JSON per fact.
    #[arg(long, value_name = "FILE", conflicts_with = "parquet")]
    pub lines: Option<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
    /// Print the number of rows as JSON.
    #[arg(long)]
    pub json: bool,
}
