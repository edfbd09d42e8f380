// SPDX-License-Identifier: Apache-2.0
//! Descriptions of the arms, and what a reader should know of them before any number.

use super::{Arm, ArmSet};
use crate::request::WorkloadRequest;
use crate::targets::RaisedTarget;
use plimsoll_core::event::RunWarning;
use plimsoll_core::target::NodeTarget;

/// Note on exports of which plimsoll is the client.
const ON_EXPORT: &str = "plimsoll itself is the NFS client here: there is no page cache and no direct I/O on \
     this machine; do not compare it with an export that a kernel mounts";

const ON_ONE_FILE: &str =
    "the target is one file or device, so its data were not verified before the measurement";

const NOT_DIRECT: &str =
    "direct I/O is not supported here: the page cache of this machine is in use";

impl ArmSet {
    fn once(&self) -> impl Iterator<Item = &Arm<RaisedTarget>> {
        self.arms.iter().filter(|arm| arm.control_of.is_none())
    }

    /// Description of every system, one line each.
    pub fn lines(&self) -> Vec<String> {
        let line = |arm: &Arm<RaisedTarget>| {
            let target = &arm.target;
            let found = target.facts.as_ref().map(|facts| facts.line());
            let made =
                Some(&target.description).filter(|_| found.is_none() || target.stack.is_some());
            let parts: Vec<String> = made.into_iter().cloned().chain(found).collect();
            format!("{} → {}", arm.name, parts.join(": "))
        };
        self.once().map(line).collect()
    }

    /// Degradations of stacks when they were first used.
    fn degraded(&self) -> impl Iterator<Item = RunWarning> {
        self.once().filter_map(|arm| {
            let stack = arm.target.stack.as_ref();
            let degraded = &stack.filter(|stack| !stack.degraded.is_empty())?.degraded;
            Some(RunWarning {
                about: arm.name.clone(),
                text: format!("it was degraded before the start: {}", degraded.join("; ")),
            })
        })
    }

    /// Notes on the arms that a reader should know before any number.
    pub fn notes(&self, asked: &[WorkloadRequest]) -> Vec<RunWarning> {
        let direct = asked.iter().any(|one| one.workload.is_direct());
        let mut notes: Vec<RunWarning> = self.degraded().collect();
        notes.extend(self.load.node_names().map(|names| RunWarning {
            about: String::new(),
            text: format!(
                "{names} generate the load: each plays the whole workload on its own files"
            ),
        }));
        for arm in self.once() {
            let texts = [
                is_one_file(&arm.target).then_some(ON_ONE_FILE),
                of_reach(&arm.target, direct),
            ];
            notes.extend(texts.into_iter().flatten().map(|text| RunWarning {
                about: arm.name.clone(),
                text: text.into(),
            }));
        }
        notes.extend(self.others.iter().cloned());
        notes.extend(self.once().filter_map(in_memory));
        notes.extend(self.on_one_disk());
        notes
    }

    /// Systems that share a disk with one before them.
    fn on_one_disk(&self) -> Vec<RunWarning> {
        let systems: Vec<&Arm<RaisedTarget>> = self.once().collect();
        let mut notes = Vec::new();
        for (number, arm) in systems.iter().enumerate() {
            let same = systems[..number].iter().find_map(|other| {
                let mut shared = disks(arm).iter();
                let disk = shared.find(|disk| disks(other).contains(disk))?;
                Some((other, disk))
            });
            notes.extend(same.map(|(other, disk)| RunWarning {
                about: String::new(),
                text: format!("{} and {} are on one disk, {disk}", other.name, arm.name),
            }));
        }
        notes
    }
}

fn disks(arm: &Arm<RaisedTarget>) -> &[String] {
    let facts = arm.target.facts.as_ref();
    facts.map_or(&[], |facts| &facts.disks)
}

fn is_one_file(target: &RaisedTarget) -> bool {
    let one =
        |node: &NodeTarget| matches!(node, NodeTarget::File { .. } | NodeTarget::Device { .. });
    target.reach().iter().any(one)
}

/// Note on the way to a target from this machine.
fn of_reach(target: &RaisedTarget, direct: bool) -> Option<&'static str> {
    match target.here.as_ref()? {
        NodeTarget::Export { .. } => Some(ON_EXPORT),
        _ if direct && target.is_real() && target.direct_align_bytes() == 0 => Some(NOT_DIRECT),
        _ => None,
    }
}

fn in_memory(arm: &Arm<RaisedTarget>) -> Option<RunWarning> {
    let why = arm.target.facts.as_ref()?.memory()?;
    Some(RunWarning {
        about: arm.name.clone(),
        text: format!("it is memory ({why}): this measures memory, not storage"),
    })
}
