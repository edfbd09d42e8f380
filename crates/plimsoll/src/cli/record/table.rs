// SPDX-License-Identifier: Apache-2.0
//! Tables of recorded requests, where this program was built with them.

use plimsoll_console::failure::CliError;
use std::path::Path;

/// Refuses what needs a table where there can be none.
pub(super) fn check() -> Result<(), CliError> {
    if cfg!(feature = "parquet") {
        return Ok(());
    }
    Err(
        CliError::usage("record requests: this program was built without Parquet")
            .hint("build it with its feature `parquet`, which is there by default"),
    )
}

/// Makes the table, whole or not at all, and removes what it was made of; how many requests.
#[cfg(feature = "parquet")]
pub(super) fn write(spool: &Path, file: &Path) -> Result<u64, CliError> {
    use plimsoll_console::failure::{CliExitCode, doing, failed};
    use plimsoll_trace::requests;
    let mut recording = requests::open(spool).map_err(failed(CliExitCode::Usage))?;
    let mut early = file.as_os_str().to_owned();
    early.push(".tmp");
    let early = std::path::PathBuf::from(early);
    // One that is there was left when a recorder was killed while it made the table.
    let _ = std::fs::remove_file(&early);
    let written = requests::parquet::write(&mut *recording, &early);
    let count = written.map_err(failed(CliExitCode::Failed))?;
    let moved = std::fs::rename(&early, file).and_then(|()| std::fs::remove_file(spool));
    let what = format!("move {} to its place", file.display());
    moved.map_err(doing(CliExitCode::Failed, what))?;
    Ok(count)
}

#[cfg(not(feature = "parquet"))]
pub(super) fn write(_: &Path, _: &Path) -> Result<u64, CliError> {
    check().map(|()| 0)
}
