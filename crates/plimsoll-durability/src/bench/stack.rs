// SPDX-License-Identifier: Apache-2.0
//! A stack on logged disks: its image files are mounts of them, so its servers notice nothing. When the power
//! is back, all of its steps are carried out once more but for those whose work lies on disks.

use super::DurabilityBench;
use crate::error::DurabilityError;
use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck, PlanStep,
};
use plimsoll_machine::host::{Host as _, HostError, processes};
use plimsoll_machine::raise::{raise, raze};
use std::path::PathBuf;

/// A stack as it is going to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchStack {
    /// Identifier of its journal.
    pub id: String,
    /// Its steps.
    pub plan: Plan,
    /// The directory to work in.
    pub mount_dir: PathBuf,
}

impl BenchStack {
    /// How many disks it has that are files.
    pub fn disks(&self) -> usize {
        let steps = self.plan.steps.iter();
        steps.filter(|step| step.disk_image().is_some()).count()
    }

    /// Why it cannot be cut, if it cannot.
    pub fn refusal(&self) -> Option<&'static str> {
        let makes_arrays = |step: &PlanStep| matches!(step.undo, Some(PlanAction::StopArray(_)));
        if self.disks() == 0 {
            return Some("its disks are not files of this machine, so none can be cut");
        }
        let is_array = self.plan.steps.iter().any(makes_arrays);
        is_array.then_some("an array of the kernel cannot be put together again here")
    }

    /// The plan with served disks in the place of image files.
    fn logged(&self, bench: &DurabilityBench) -> Plan {
        let mut plan = Plan::default();
        let mut part = 0;
        for step in &self.plan.steps {
            let Some(image) = step.disk_image() else {
                plan.steps.push(step.clone());
                continue;
            };
            self.add_disk(&mut plan, bench, part, image);
            part += 1;
        }
        plan
    }

    fn add_disk(&self, plan: &mut Plan, bench: &DurabilityBench, part: u64, image: &str) {
        let path = image.to_owned();
        let empty = PlanAction::MakeFile {
            path: path.clone(),
            bytes: 0,
        };
        plan.step(
            "create a file for the logged disk",
            empty,
            Some(PlanAction::RemoveFile(path.clone())),
        );
        let free = PlanAction::Unmount(path.clone());
        plan.step("unmount the logged disk", free.clone(), Some(free));
        let mark = format!("plimsoll-{}-log{part}", self.id);
        let uri = format!(
            "nbd+unix:///?socket={}",
            bench.places.socket(part).display()
        );
        let serve = PlanAction::Start {
            cmd: PlanCommand::new("nbdfuse", [image, &uri]),
            mark: mark.clone(),
            log: bench.places.text(&format!("log{part}.log")),
            ready: PlanReadinessCheck::Size {
                path,
                bytes: bench.shape.part_bytes,
            },
        };
        plan.step(
            "mount the logged disk",
            serve,
            Some(PlanAction::Stop { mark }),
        );
    }
}

impl DurabilityBench {
    /// Raises a stack on disks that are served.
    pub(super) fn raise_stack(&mut self, stack: &BenchStack) -> Result<(), DurabilityError> {
        let plan = stack.logged(self);
        self.raise_plan(stack, &plan)
    }

    /// Raises a stack as it is, for its speed.
    ///
    /// # Errors
    /// When a step fails.
    pub fn raise_unlogged(&mut self, stack: &BenchStack) -> Result<(), DurabilityError> {
        self.raise_plan(stack, &stack.plan)
    }

    fn raise_plan(&mut self, stack: &BenchStack, plan: &Plan) -> Result<(), DurabilityError> {
        let journal = self.journals.begin(&stack.id)?;
        let applied = raise(plan, None, &mut self.host, journal).map_err(DurabilityError::Raise)?;
        self.stack = Some(applied);
        Ok(())
    }

    /// Takes down the stack that was raised last; gives what could not be undone, in words.
    pub(super) fn lower_stack(&mut self) -> Vec<String> {
        match self.stack.take() {
            Some(applied) => raze(applied.journal, &mut self.host).problems(),
            None => Vec::new(),
        }
    }

    /// Brings a stack up again on its disks. The undoing of its steps is in its journal already.
    pub(super) fn bring_again(&mut self, stack: &BenchStack) -> Result<(), DurabilityError> {
        let plan = stack.logged(self);
        let mut depends_on_disks = false;
        for step in plan.steps.iter().filter(|step| !step.outlasts_a_restart()) {
            depends_on_disks |= is_of_mounting(&step.apply);
            let done = self.host.carry_out(&stack.id, &step.apply);
            match done.or_else(|error| self.repair(&stack.id, &step.apply, error)) {
                Err(error) if !depends_on_disks => {
                    return Err(HostError::State(format!("{}: {error}", step.why)).into());
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Repairs the file system that could not be mounted, where that is usual, and tries again.
    pub(super) fn repair(
        &mut self,
        id: &str,
        action: &PlanAction,
        error: HostError,
    ) -> Result<(), HostError> {
        let (PlanAction::Run(mount), HostError::Failed { .. }) = (action, &error) else {
            return Err(error);
        };
        let is_device = |arg: &&PlanCommandArg| matches!(arg, PlanCommandArg::LoopOf(_));
        let is_repaired = mount.program == "mount" && mount.args.contains(&"ext4".into());
        let Some(device) = mount.args.iter().find(is_device).filter(|_| is_repaired) else {
            return Err(error);
        };
        let words = ["-f".into(), "-y".into(), device.clone()];
        // It ends with 1 where it repaired something: the mount decides.
        let repair = PlanAction::Run(PlanCommand::new("e2fsck", words));
        let _ = self.host.carry_out(id, &repair);
        self.host.carry_out(id, action).map_err(|_| error)
    }

    /// Ends all of a stack that a restart of the machine would end.
    pub(super) fn switch_off(&mut self, stack: &BenchStack) -> Result<(), DurabilityError> {
        let plan = stack.logged(self);
        let steps = plan.steps.iter().rev();
        for step in steps.filter(|step| !step.outlasts_a_restart()) {
            if let Some(forget) = forgetting(&step.apply) {
                // A state that is older than what the kernel knows of its devices would be refused. It fails
                // where the devices are not there.
                let _ = self.host.carry_out(&stack.id, &forget);
            }
            match &step.undo {
                // Nothing of its memory is to reach the disks any more.
                Some(PlanAction::Stop { mark }) => processes::kill(mark, self.host.clock())?,
                Some(undo) => self.host.carry_out(&stack.id, undo).map(|()| false)?,
                None => false,
            };
        }
        Ok(())
    }
}

/// Whether this step depends on what the disks hold.
fn is_of_mounting(action: &PlanAction) -> bool {
    matches!(action, PlanAction::Run(cmd) if ["mount", "btrfs"].contains(&&*cmd.program))
}

/// The opposite of showing btrfs its devices.
fn forgetting(action: &PlanAction) -> Option<PlanAction> {
    let PlanAction::Run(cmd) = action else {
        return None;
    };
    let [device, scan, devices @ ..] = cmd.args.as_slice() else {
        return None;
    };
    let is_scan = cmd.program == "btrfs" && *device == "device".into() && *scan == "scan".into();
    let words = [device.clone(), scan.clone(), "--forget".into()];
    let words = words.into_iter().chain(devices.iter().cloned());
    is_scan.then(|| PlanAction::Run(PlanCommand::new("btrfs", words)))
}
