// SPDX-License-Identifier: Apache-2.0
//! The NFS server that a machine's kernel has. There is one in a kernel, so it is a matter of whole
//! machines.
//!
//! A port mapper and the mount service are processes; what answers is the kernel. A script does what
//! takes several words to it; it lies in the stack's directory.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanReadinessCheck};

use crate::stacks::{StackPlanInput, StackRequirements};
use plimsoll_machine::host::ports::MOUNT_PORT;

/// The script that talks to the kernel.
pub(in crate::stacks) const SCRIPT: &str = include_str!("kernel.sh");

/// The port of the port mapper.
const MAPPER_PORT: u16 = 111;

/// Where the script lies, in the stack's directory.
pub(in crate::stacks) const NAME: &str = "kernel.sh";

pub(in crate::stacks) fn needs() -> StackRequirements {
    StackRequirements {
        programs: vec!["rpcbind", "rpc.mountd", "rpc.nfsd", "exportfs", "modprobe"],
        root: true,
        ..StackRequirements::default()
    }
}

/// A directory that a kernel serves, and how.
#[derive(Debug)]
pub(in crate::stacks) struct KnfsdExport<'a> {
    /// The node.
    pub(in crate::stacks) on: &'a str,
    /// The stack's directory there.
    pub(in crate::stacks) dir: &'a str,
    /// The directory that is served.
    pub(in crate::stacks) exported: &'a str,
    /// Version of the protocol: 3 or 4.
    pub(in crate::stacks) version: &'a str,
    /// Whether it answers before data are durable.
    pub(in crate::stacks) is_async: bool,
    /// Most bytes that one call moves.
    pub(in crate::stacks) transfer_bytes: u64,
    /// Addresses and networks that may mount it.
    pub(in crate::stacks) clients: Vec<String>,
}

/// Where clients reach what a kernel serves.
pub(in crate::stacks) fn address(server: &str, exported: &str) -> String {
    format!("nfs://{server}{exported}?mountport={MOUNT_PORT}")
}

impl KnfsdExport<'_> {
    /// Adds what looks whether the kernel can serve, which comes before everything else.
    pub(in crate::stacks) fn add_check(&self, plan: &mut Plan) {
        let script = PlanAction::write_file(self.script(), SCRIPT);
        // It goes with the directory.
        plan.step_on(self.on, "install the control script", script, None);
        let check = self.tell(&["check"]);
        plan.step_on(self.on, "check that nothing is exported yet", check, None);
    }

    /// Adds what serves; gives what lets it serve again after its machine was off.
    pub(in crate::stacks) fn add(
        &self,
        plan: &mut Plan,
        order: &StackPlanInput<'_>,
    ) -> Vec<(String, PlanAction)> {
        // The mount service looks for the kernel's questions when it starts, and never again.
        let mut restore = vec![(self.on.to_owned(), self.tell(&["check"]))];
        let mapper = self.daemon(
            order,
            "rpcbind",
            PlanCommand::new("rpcbind", ["-f"]),
            MAPPER_PORT,
        );
        let port = MOUNT_PORT.to_string();
        let mountd = PlanCommand::new("rpc.mountd", ["-F", "--no-udp", "--port", &port]);
        let mountd = self.daemon(order, "mountd", mountd, MOUNT_PORT);
        let commit = if self.is_async { "async" } else { "sync" };
        let transfer = self.transfer_bytes.to_string();
        let mut up = vec!["up", self.exported, self.version, commit, &transfer];
        up.extend(self.clients.iter().map(String::as_str));
        let up = self.tell(&up);
        let down = self.tell(&["down", self.exported]);
        for (why, (start, stop)) in [
            ("start the port mapper", mapper),
            ("start the mount service", mountd),
            ("start the kernel NFS server", (up, down)),
        ] {
            plan.step_on(self.on, why, start.clone(), Some(stop));
            restore.push((self.on.to_owned(), start));
        }
        restore
    }

    /// Where clients reach it.
    pub(in crate::stacks) fn address(&self, server: &str) -> String {
        address(server, self.exported)
    }

    fn script(&self) -> String {
        format!("{}/{NAME}", self.dir)
    }

    fn tell(&self, words: &[&str]) -> PlanAction {
        let script = self.script();
        let words = [script.as_str()].into_iter().chain(words.iter().copied());
        PlanAction::Run(PlanCommand::new("sh", words))
    }

    /// The action that starts a daemon, and the one that ends it.
    fn daemon(
        &self,
        order: &StackPlanInput<'_>,
        name: &str,
        cmd: PlanCommand,
        port: u16,
    ) -> (PlanAction, PlanAction) {
        let mark = order.mark(name);
        let start = PlanAction::Start {
            cmd,
            mark: mark.clone(),
            log: format!("{}/{name}.out", self.dir),
            ready: PlanReadinessCheck::Port(port),
        };
        (start, PlanAction::Stop { mark })
    }
}
