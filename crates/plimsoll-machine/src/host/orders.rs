// SPDX-License-Identifier: Apache-2.0
//! Commands that the user of an inventory named: they switch the power of a machine, or inject faults into
//! it.

use std::time::Duration;

use super::command_mark;
use super::error::HostError;
use super::local::LocalHost;

/// How long one may take: service processors and emulated machines are slow.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs such a command, these words added.
pub(super) fn tell(
    host: &LocalHost,
    id: &str,
    command: &[String],
    added: &[&str],
) -> Result<(), HostError> {
    let Some((program, words)) = command.split_first() else {
        return Err(HostError::State("no command is named for that".into()));
    };
    let path = host.program(program)?;
    let added = added.iter().map(ToString::to_string);
    let args = words.iter().cloned().chain(added).collect();
    let told = host.run_at(path, program, args, &command_mark(id), LIMIT);
    told.map(|_| ())
}
