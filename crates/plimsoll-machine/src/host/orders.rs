// SPDX-License-Identifier: Apache-2.0
//! Commands that the user of an inventory named: they switch the power of a machine, or inject faults into
//! it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::HostError;
use super::local::LocalHost;
use super::{Host as _, command, command_mark};

/// How long one may take: service processors are slow, and emulated machines, too.
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
    let args: Vec<String> = words.iter().cloned().chain(added).collect();
    let ready = command::HostCommand {
        program: &path,
        shown: format!("{program} {}", args.join(" ")),
        args,
        env: &BTreeMap::new(),
        state: host.state.as_deref(),
        mark: &command_mark(id),
    };
    ready.run(LIMIT, host.clock()).map(|_| ())
}
