// SPDX-License-Identifier: Apache-2.0
//! More clients of a stack that is up: on other machines, for as long as a run lasts.
//!
//! Their steps are in the journal of the run, not of the stack, and are undone with the run.

use plimsoll_core::plan::{Plan, PlanNode, StackOutputs};

use super::manage::{kernel_has_nfs, record};
use super::{PreconditionError, StackConfig, StackPlanInput};
use plimsoll_machine::host::Host;
use plimsoll_machine::journal::StateDir;

/// Where a client is made.
#[derive(Debug, Clone, Copy)]
pub struct ClientPlace<'a> {
    /// The machine.
    pub node: &'a PlanNode,
    /// A directory on it that is made before, and removed after.
    pub dir: &'a str,
}

/// Checks that a stack supports this number of clients on other machines.
///
/// # Errors
/// When it does not, with the stacks that do.
pub fn check(choice: &StackConfig, clients: usize) -> Result<(), PreconditionError> {
    let refuse = |why: &str| {
        Err(PreconditionError(vec![format!(
            "load '{}' from nodes: {why}; leave out --clients, or choose one of {}",
            choice.parts,
            shared(clients).join(", ")
        )]))
    };
    if let Some(part) = choice.parts.layers.first() {
        return refuse(&format!("the layer {} supports one client", part.name));
    }
    if choice.stack.client_needs(choice).is_none() {
        return refuse("its disk can be mounted on this machine only");
    }
    if clients > 1 && choice.stack.has_one_client(choice) {
        return refuse("its disk can be mounted on one machine only");
    }
    Ok(())
}

/// The stacks that this number of machines can use at the same time.
fn shared(clients: usize) -> Vec<&'static str> {
    let all = super::ALL.iter().filter(|stack| {
        let choice = StackConfig::parse(stack.name());
        choice.is_ok_and(|choice| {
            let is_enough = clients < 2 || !stack.has_one_client(&choice);
            is_enough && stack.client_needs(&choice).is_some()
        })
    });
    all.map(|stack| stack.name()).collect()
}

/// The steps that make one more client of a stack that is up, and where it is measured there. `id`
/// is that of the journal that will record the steps.
///
/// # Errors
/// When the stack is not up, or the machine lacks something.
pub fn plan(
    choice: &StackConfig,
    state: &StateDir,
    (host, node, dir): (&dyn Host, &PlanNode, &str),
    id: &str,
) -> Result<(Plan, StackOutputs), PreconditionError> {
    check(choice, 1)?;
    let needs = choice.stack.client_needs(choice).unwrap_or_default();
    needs.check(host)?;
    let said = |error: &dyn std::fmt::Display| PreconditionError(vec![error.to_string()]);
    let record = record(&choice.parts.to_string(), state).map_err(|error| said(&error))?;
    let Some(ask) = &record.header.ask else {
        return Err(said(&"its journal does not name its directory"));
    };
    let order = StackPlanInput {
        id,
        choice,
        size_bytes: ask.size_bytes,
        site: &ask.site,
        kernel_has_nfs: kernel_has_nfs(host),
        // Clients have no md of a stack.
        kernel_has_md: false,
    };
    choice.stack.client(&order, ClientPlace { node, dir })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::snapshot;
    use plimsoll_core::plan::{NodeTransport, PlanAction};

    /// The client of a stack on a node, as text.
    fn client_of(text: &str, kernel_has_nfs: bool) -> (Plan, StackOutputs) {
        let planned = snapshot::planned(text);
        let choice = StackConfig::parse(text).unwrap();
        let node = PlanNode {
            name: "n9".into(),
            reach: NodeTransport::Agent(vec!["env".into()]),
            ..planned.ask.site.client.clone()
        };
        let order = StackPlanInput {
            id: "run-1",
            choice: &choice,
            size_bytes: planned.ask.size_bytes,
            site: &planned.ask.site,
            kernel_has_nfs,
            kernel_has_md: false,
        };
        let place = ClientPlace {
            node: &node,
            dir: "/srv/load",
        };
        choice.stack.client(&order, place).unwrap()
    }

    #[test]
    fn a_client_is_made_on_its_node_alone_and_can_be_undone() {
        for (text, file_system) in [
            ("nfs", "nfs"),
            ("gluster", "fuse.glusterfs"),
            ("lustre(files,nid=10.0.0.5@tcp)", "lustre"),
        ] {
            let (plan, made) = client_of(text, true);
            assert_eq!(made.mount_dir, "/srv/load/mnt");
            assert_eq!(made.file_system, file_system);
            assert!(plan.steps.iter().all(|step| step.node == "n9"), "{plan:?}");
            // Of this machine they have what is copied from it, and nothing else.
            let at_node = |step: &&plimsoll_core::plan::PlanStep| !matches!(&step.apply, PlanAction::CopySecret { to, .. } if to.starts_with("/srv/load/tls/"));
            let shown = format!(
                "{:?}",
                plan.steps.iter().filter(at_node).collect::<Vec<_>>()
            );
            assert!(!shown.contains("/var/lib/plimsoll"), "{shown}");
            let unmount = Some(PlanAction::Unmount(made.mount_dir.clone()));
            assert!(plan.steps.iter().any(|step| step.undo == unmount));
            let looks = |step: &plimsoll_core::plan::PlanStep| {
                matches!(&step.apply, PlanAction::MountIs { file_system: found, .. }
                    if found == file_system)
            };
            assert!(plan.steps.iter().any(looks), "the right mount is seen");
        }
    }

    #[test]
    fn a_node_whose_kernel_cannot_mount_speaks_with_the_server_itself() {
        let (plan, made) = client_of("nfs", false);
        assert!(plan.steps.is_empty());
        assert!(made.address.unwrap().starts_with("nfs://10.92."));
    }

    #[test]
    fn a_disk_that_one_machine_mounts_is_refused_by_name() {
        for (text, expect) in [
            ("raid1", "this machine only"),
            ("nbd", "this machine only"),
            ("iscsi", "this machine only"),
            ("nvmetcp", "one machine only"),
            ("iscsi(target=lio)", "one machine only"),
            ("gluster+crypt", "the layer crypt"),
            ("lustre", "this machine only"),
        ] {
            let error = check(&StackConfig::parse(text).unwrap(), 2)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expect), "{error}");
            assert!(error.contains("nfs, gluster"), "{error}");
        }
        for text in ["nfs", "gluster(distribute,nodes=1)"] {
            check(&StackConfig::parse(text).unwrap(), 2).unwrap();
        }
        for text in ["nvmetcp", "iscsi(target=lio)"] {
            check(&StackConfig::parse(text).unwrap(), 1).unwrap();
        }
    }
}
