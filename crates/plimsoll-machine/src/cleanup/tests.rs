// SPDX-License-Identifier: Apache-2.0
//! Journals of nodes that are gone, on this machine as it is.

use super::*;
use crate::host::{HostPool, LocalHost, SearchPath};
use crate::journal::JournalHeader;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{NodeTransport, PlanNode, PlanStep};

fn header(kind: JournalScope, node: &PlanNode) -> JournalHeader {
    JournalHeader {
        format: FormatVersion::JOURNAL,
        id: "t-1".into(),
        kind,
        owner: HostProcessId {
            started_ticks: 1,
            ..HostProcessId::this()
        },
        began_at: "2026-01-01T00:00:00Z".into(),
        mount_dir: None,
        ask: None,
        nodes: vec![node.clone()],
    }
}

/// A machine that cannot be reached by this command.
fn machine(command: &str) -> PlanNode {
    PlanNode {
        name: "n1".into(),
        reach: NodeTransport::Agent(vec![command.into()]),
        address: "127.0.0.1".into(),
        dir: "/data".into(),
        free_bytes: 0,
        direct_align_bytes: 512,
        first_port: 0,
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
    }
}

/// Razes a run with a directory on a machine, and the virtual machines that are this one.
fn left_of(on: &PlanNode, virtual_machine: &PlanNode) -> Vec<PathBuf> {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let run = header(JournalScope::Run("r".into()), on);
    let mut run = Journal::create(&state, run).unwrap();
    let make = PlanAction::MakeDir("/data/r".into());
    let remove = Some(PlanAction::RemoveDir("/data/r".into()));
    run.intend(&PlanStep::on("n1", "make a directory", make, remove))
        .unwrap();
    let machines = header(JournalScope::Machines, virtual_machine);
    drop((run, Journal::create(&state, machines).unwrap()));
    let mut hosts = HostPool::new(LocalHost::new(SearchPath::new("".as_ref())));
    raze_all(&state, &mut hosts).unwrap();
    let left = state.journal_files().unwrap();
    left.iter()
        .map(|path| path.file_name().unwrap().into())
        .collect()
}

#[test]
fn what_lay_on_virtual_machines_that_are_gone_is_gone() {
    let off = machine("false");
    assert_eq!(left_of(&off, &off), [] as [PathBuf; 0]);
    // One of the user's of the same name is only out of reach.
    let others = machine("/bin/false");
    assert_eq!(left_of(&others, &off), [PathBuf::from("run-r.jsonl")]);
}
