// SPDX-License-Identifier: Apache-2.0
//! `plimsoll history`: the arguments.

use super::DatabaseArgs;
use clap::Subcommand;
use std::path::PathBuf;

/// List the runs of a team's history and the changes of its series, and export it whole.
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

/// List the changes of all series that nobody acknowledged and that are not muted.
///
/// All runs count, whoever sees them on the page. Exit code 10 when there is such a change.
#[derive(Debug, clap::Args)]
pub struct HistoryChangesArgs {
    /// Those that were acknowledged, too, and those of muted series.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the changes as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Export every fact: a row for each trial and figure, with its ratio to the reference in the same block.
#[derive(Debug, clap::Args)]
pub struct HistoryExportArgs {
    /// Write a Parquet file, for DuckDB, pandas and their like.
    #[arg(long, value_name = "FILE", required_unless_present = "lines")]
    pub parquet: Option<PathBuf>,
    /// Write a line of JSON for each fact.
    #[arg(long, value_name = "FILE", conflicts_with = "parquet")]
    pub lines: Option<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Overwrite the file.
    #[arg(long)]
    pub force: bool,
    /// Print the number of rows as JSON.
    #[arg(long)]
    pub json: bool,
}
