// SPDX-License-Identifier: Apache-2.0
//! The NFS server that a machine's kernel has. There is one in a kernel, so it is a matter of whole
//! machines.
//!
//! A port mapper and the mount service are processes; what answers is the kernel. A script does what
//! takes several words to it; it lies in the stack's directory.

use plimsoll_core::plan::{Action, Cmd, Plan, Ready, Server};

use super::{Layout, MOUNT_PORT, node};
use crate::stacks::Needs;

/// What speaks with the kernel.
const SCRIPT: &str = include_str!("kernel.sh");

/// The port of the port mapper.
const MAPPER_PORT: u16 = 111;

/// Where the script lies, in the stack's directory.
const NAME: &str = "kernel.sh";

pub(super) fn needs() -> Needs {
    Needs {
        programs: vec!["rpcbind", "rpc.mountd", "rpc.nfsd", "exportfs", "modprobe"],
        root: true,
        ..Needs::default()
    }
}

impl Layout<'_> {
    /// Adds what serves by the kernel.
    pub(super) fn add_kernel_server(&self, plan: &mut Plan) -> Server {
        let on = &*self.server.name;
        node::add_dir_on(plan, self.server, &self.dir);
        let exported = self.exported();
        plan.step_on(
            on,
            "make the directory that is served",
            Action::MakeDir(exported.clone()),
            Some(Action::RemoveDir(exported)),
        );
        let script = Action::WriteFile {
            path: self.path(NAME),
            text: SCRIPT.into(),
            secret: None,
        };
        // It goes with the directory.
        plan.step_on(on, "write what speaks with the kernel", script, None);
        let check = self.tell_kernel(&["check"]);
        plan.step_on(on, "see that nothing is served yet", check.clone(), None);
        // The mount service looks for the kernel's questions when it starts, and never again.
        let mut restore = vec![(on.to_owned(), check)];
        let mapper = self.daemon("rpcbind", Cmd::new("rpcbind", ["-f"]), MAPPER_PORT);
        let port = MOUNT_PORT.to_string();
        let mountd = Cmd::new("rpc.mountd", ["-F", "--no-udp", "--port", &port]);
        let mountd = self.daemon("mountd", mountd, MOUNT_PORT);
        for (why, (start, stop)) in [
            ("start the port mapper", mapper),
            ("start the mount service", mountd),
        ] {
            plan.step_on(on, why, start.clone(), Some(stop));
            restore.push((on.to_owned(), start));
        }
        let up = self.up();
        let down = self.tell_kernel(&["down", &self.exported()]);
        plan.step_on(on, "let the kernel serve", up.clone(), Some(down));
        restore.push((on.to_owned(), up));
        Server {
            name: on.into(),
            node: on.into(),
            // What serves is no process.
            marks: Vec::new(),
            serves: None,
            restore,
        }
    }

    fn up(&self) -> Action {
        let settings = self.order.settings();
        let commit = if settings.flag("async") {
            "async"
        } else {
            "sync"
        };
        let transfer = settings.bytes("transfer").to_string();
        let version = settings.text("version");
        self.tell_kernel(&["up", &self.exported(), version, commit, &transfer])
    }

    fn tell_kernel(&self, words: &[&str]) -> Action {
        let script = self.path(NAME);
        let words = [script.as_str()].into_iter().chain(words.iter().copied());
        Action::Run(Cmd::new("sh", words))
    }

    /// What starts a daemon, and what ends it.
    fn daemon(&self, name: &str, cmd: Cmd, port: u16) -> (Action, Action) {
        let mark = self.order.mark(name);
        let start = Action::Start {
            cmd,
            mark: mark.clone(),
            log: self.path(&format!("{name}.out")),
            ready: Ready::Port(port),
        };
        (start, Action::Stop { mark })
    }
}
