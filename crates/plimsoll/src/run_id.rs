// SPDX-License-Identifier: Apache-2.0
//! What runs are called, here and in their journals.

use plimsoll_core::format::FormatVersion;
use plimsoll_lab::host::Owner;
use plimsoll_lab::journal::{Header, Kind};

/// The header of a journal of a run, or of a part of it.
pub(crate) fn run_header(id: &str) -> Header {
    Header {
        format: FormatVersion::JOURNAL,
        id: id.to_owned(),
        kind: Kind::Run(id.to_owned()),
        owner: Owner::this(),
        began_at: jiff::Timestamp::now().to_string(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    }
}

/// An identifier for a run: when it began and which process it was.
pub(crate) fn run_id() -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    format!("{now}-{}", std::process::id())
}
