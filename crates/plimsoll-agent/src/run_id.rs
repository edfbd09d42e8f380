// SPDX-License-Identifier: Apache-2.0
//! Names of runs, here and in their journals.

use plimsoll_core::format::FormatVersion;
use plimsoll_machine::host::HostProcessId;
use plimsoll_machine::journal::{JournalHeader, JournalScope};

/// The header of a journal of a run, or of a part of it.
pub fn run_header(id: &str) -> JournalHeader {
    JournalHeader {
        format: FormatVersion::JOURNAL,
        id: id.to_owned(),
        kind: JournalScope::Run(id.to_owned()),
        owner: HostProcessId::this(),
        began_at: jiff::Timestamp::now().to_string(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    }
}

/// An identifier for a run: when it began and which process it was.
pub fn run_id() -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    format!("{now}-{}", std::process::id())
}
