// SPDX-License-Identifier: Apache-2.0
//! The umask belongs to the whole process, so no other test may run in the one that changes it.

use plimsoll_core::format::FormatVersion;
use plimsoll_machine::host::HostProcessId;
use plimsoll_machine::journal::{Journal, JournalContents, JournalHeader, JournalScope, StateDir};
use rustix::fs::Mode;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_journal_is_trusted_whatever_the_umask() {
    for umask in [Mode::empty(), Mode::WOTH, Mode::WGRP | Mode::WOTH] {
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let dir = tempfile::tempdir().unwrap();
        rustix::process::umask(umask);
        let header = JournalHeader {
            format: FormatVersion::JOURNAL,
            id: "t-1".into(),
            kind: JournalScope::Stack("local".into()),
            owner: HostProcessId::this(),
            began_at: "2026-01-01T00:00:00Z".into(),
            mount_dir: None,
            ask: None,
            nodes: Vec::new(),
        };
        let journal = Journal::create(&StateDir::new(dir.path().join("state")), header).unwrap();
        let mode = journal.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{umask:?}");
        let folder = journal.path().parent().unwrap();
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{umask:?}");
        JournalContents::read(journal.path()).unwrap();
    }
}
