// SPDX-License-Identifier: Apache-2.0
//! A view of the machine for daemons with fixed paths, made by bubblewrap: its programs and settings,
//! read only, and directories of the stack where they keep their state.
//!
//! Not the whole machine: a view has copies of all mounts it shows, and where the machine's own are
//! not shared with it, what was mounted when the daemon began could not be freed before it ends.

use plimsoll_core::plan::{PlanCommand, PlanCommandArg};

/// The view that a daemon has of the machine.
#[derive(Debug)]
pub(super) struct DaemonSandbox(Vec<String>);

impl DaemonSandbox {
    /// The programs and settings of the machine, and its devices.
    pub(super) fn new() -> Self {
        let mut words: Vec<String> = vec!["--cap-add".into(), "ALL".into()];
        for dir in ["/usr", "/etc", "/lib", "/lib64", "/bin", "/sbin"] {
            words.extend(["--ro-bind-try".into(), dir.into(), dir.into()]);
        }
        let rest = "--proc /proc --dev-bind /dev /dev --tmpfs /tmp";
        words.extend(rest.split(' ').map(String::from));
        DaemonSandbox(words)
    }

    /// Shows a directory at `to`, which can be written.
    pub(super) fn bind(&mut self, from: &str, to: &str) {
        self.0.extend(["--bind", from, to].map(String::from));
    }

    /// An empty place, gone with the processes.
    pub(super) fn empty(&mut self, at: &str) {
        self.0.extend(["--tmpfs".into(), at.into()]);
    }

    /// Shows a directory at `to`, read only.
    pub(super) fn show(&mut self, from: &str, to: &str) {
        self.0.extend(["--ro-bind", from, to].map(String::from));
    }

    /// The command that gives the view to a program.
    pub(super) fn around<A: Into<PlanCommandArg>>(
        self,
        program: &str,
        args: impl IntoIterator<Item = A>,
    ) -> PlanCommand {
        let begin = ["--".to_owned(), program.to_owned()];
        let words = self.0.into_iter().chain(begin).map(PlanCommandArg::from);
        PlanCommand::new("bwrap", words.chain(args.into_iter().map(Into::into)))
    }
}

/// A command that sees no mounts of the machine. Before `mkfs.btrfs` touches a disk it looks at the device
/// behind each mount, and it fails if a mount of another stack is dead (`is_same_loop_file` of btrfs-progs).
/// It does not need the mounts to know that its disks are unused: it opens them exclusively.
pub(super) fn among_no_mounts(cmd: PlanCommand) -> PlanCommand {
    seeing(cmd, DaemonSandbox::new())
}

/// A command that sees only one mount: `btrfs device add` also looks at all mounts, and works on one. Without
/// `/sys` it knows only the first 63 characters of the file of a loop device, which are the same for all
/// files of a stack.
pub(super) fn among_one_mount(cmd: PlanCommand, at: &str) -> PlanCommand {
    let mut view = DaemonSandbox::new();
    view.show("/sys", "/sys");
    view.bind(at, at);
    seeing(cmd, view)
}

fn seeing(cmd: PlanCommand, view: DaemonSandbox) -> PlanCommand {
    let limit_s = cmd.limit_s;
    view.around(&cmd.program, cmd.args).within_s(limit_s)
}
