// SPDX-License-Identifier: Apache-2.0
//! Changes to a machine as values: planned by pure functions, carried out by one interpreter in
//! the lab, journalled before they are done, undone from the journal.

mod hurt;
mod inventory;
mod site;
mod stack_file;

pub use hurt::FaultAction;
pub use inventory::{InventoryFile, InventoryNode, NODE_DIR};
pub use site::{
    HERE, NodeTransport, PlanNode, ServerQuery, StackNodes, StackOutputs, StackPart, StackRequest,
    StackSelfTest, StackServer, StackSpec, file_name_of,
};
pub use stack_file::{StackFile, StackFileStep};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One argument of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCommandArg {
    /// As it is.
    Text(String),
    /// The loop device that is backed by this file, looked up when the command runs.
    LoopOf(String),
    /// The RAID array of the kernel that loop devices backed by these files are members of, looked up
    /// when the command runs.
    ArrayOf(Vec<String>),
}

impl From<&str> for PlanCommandArg {
    fn from(text: &str) -> PlanCommandArg {
        PlanCommandArg::Text(text.into())
    }
}

impl From<String> for PlanCommandArg {
    fn from(text: String) -> PlanCommandArg {
        PlanCommandArg::Text(text)
    }
}

impl fmt::Display for PlanCommandArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanCommandArg::Text(text) if text.is_empty() || text.contains(' ') => {
                write!(f, "'{text}'")
            }
            PlanCommandArg::Text(text) => f.write_str(text),
            PlanCommandArg::LoopOf(file) => write!(f, "<loop device of {file}>"),
            PlanCommandArg::ArrayOf(files) => write!(f, "<array of {}>", files.join(", ")),
        }
    }
}

/// A program and its arguments: never a shell string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCommand {
    /// Name, looked up in the path (and in the system directories `sbin`).
    pub program: String,
    /// Arguments.
    pub args: Vec<PlanCommandArg>,
    /// Variables set for it, besides the mark.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Longest time it may take to its end, in seconds; 0: a minute. Has no meaning for daemons.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_s: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde calls it in"
)]
fn is_zero(limit_s: &u32) -> bool {
    *limit_s == 0
}

impl PlanCommand {
    /// A command from words.
    pub fn new<A: Into<PlanCommandArg>>(program: &str, args: impl IntoIterator<Item = A>) -> Self {
        PlanCommand {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            limit_s: 0,
        }
    }

    /// The same with another limit on its time, in seconds: for what moves whole disks.
    #[must_use]
    pub fn within_s(mut self, limit_s: u32) -> Self {
        self.limit_s = limit_s;
        self
    }

    /// The same with a variable set.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }
}

impl fmt::Display for PlanCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={value} ")?;
        }
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// How to see that a daemon is ready for the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanReadinessCheck {
    /// A file exists at this path; a socket takes connections.
    Exists(String),
    /// The daemon listens on this TCP port of its node.
    Port(u16),
    /// Something is mounted here.
    Mounted(String),
    /// This program, run again and again, ends with 0.
    Succeeds(PlanCommand),
    /// The file at this path has at least this many bytes.
    Size {
        /// The file.
        path: String,
        /// Its smallest size.
        bytes: u64,
    },
}

/// One change of a machine, or one check of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// Run a program to its end; it must exit with 0.
    Run(PlanCommand),
    /// Run a program to its end if another one, run first, exits with 0; for undoing something that may
    /// not exist.
    RunIf {
        /// The condition.
        when: PlanCommand,
        /// The program that runs then; it must exit with 0.
        run: PlanCommand,
    },
    /// Run a program to its end unless another one, run first, exits with 0; for what cannot be done twice.
    RunUnless {
        /// The condition.
        done: PlanCommand,
        /// The program that runs otherwise; it must exit with 0.
        run: PlanCommand,
    },
    /// Wait until a program, run repeatedly, exits with 0: for what continues in the background after its
    /// start.
    Await(PlanCommand),
    /// Start a daemon in a session of its own, marked, with its output in `log`.
    Start {
        /// The daemon.
        cmd: PlanCommand,
        /// Its mark, by which it is found again without its process number.
        mark: String,
        /// File for its output.
        log: String,
        /// When the next step may begin.
        ready: PlanReadinessCheck,
    },
    /// End every process that carries this mark.
    Stop {
        /// The mark.
        mark: String,
    },
    /// Kill every process that carries this mark (SIGKILL): its data in memory are lost.
    Kill {
        /// The mark.
        mark: String,
    },
    /// Suspend every process that carries this mark, until it is resumed.
    Pause {
        /// The mark.
        mark: String,
    },
    /// Resume every process that carries this mark.
    Resume {
        /// The mark.
        mark: String,
    },
    /// Create a directory that must not exist yet, and put our mark file into it.
    MakeDir(String),
    /// Remove a directory and all in it, if it carries our mark file.
    RemoveDir(String),
    /// The same for a directory that may be out of reach, because another file system is mounted there
    /// now.
    RemoveDirOf {
        /// The directory.
        path: String,
        /// The file system that it was made on, as the machine identifies it.
        file_system: String,
    },
    /// Create a directory that must not exist yet on the export of this address
    /// (`nfs://server/export`), and put our mark file into it. No kernel mounts it.
    MakeRemoteDir {
        /// The export.
        address: String,
        /// Name of the directory in it.
        name: String,
    },
    /// Remove a directory of an export and all in it, if it carries our mark file.
    RemoveRemoteDir {
        /// The export.
        address: String,
        /// Name of the directory in it.
        name: String,
    },
    /// Create a sparse file that must not exist yet.
    MakeFile {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// Write a text file (readable by its owner alone) into a directory of ours. It must not exist
    /// yet, and goes with the directory.
    WriteFile {
        /// The file.
        path: String,
        /// Its contents.
        text: String,
        /// A file of one line that an earlier step made: it takes the place of every `{secret}`.
        /// So the secret itself is neither in the plan nor in the journal.
        secret: Option<String>,
    },
    /// Make a file of one line of 32 random hexadecimal digits, readable by its owner alone, in a
    /// directory of ours. It must not exist yet, and goes with the directory.
    MakeSecret(String),
    /// Copy a small file that an earlier step made on this machine into a directory of ours on the
    /// node of the step, readable by its owner alone. It must not exist yet there. Its contents
    /// are in no journal: they go over the connection to the node.
    CopySecret {
        /// The file, on this machine.
        from: String,
        /// The new file, on the node.
        to: String,
    },
    /// Give the iSCSI target behind this control socket an account whose password is the line in the
    /// file `secret`. It lives and ends with the target.
    TellAccount {
        /// The control socket of tgtd.
        socket: String,
        /// Name of the account.
        user: String,
        /// A file of one line that an earlier step made.
        secret: String,
    },
    /// Remove a file that an earlier step of the same journal made.
    RemoveFile(String),
    /// Attach a free loop device to this file, with direct I/O.
    AttachLoop(String),
    /// Detach every loop device that is backed by this file.
    DetachLoop(String),
    /// Stop every RAID array of the kernel that a loop device backed by one of these files is a member
    /// of.
    StopArray(Vec<String>),
    /// Unmount whatever is mounted here.
    Unmount(String),
    /// Make a network namespace with its loopback interface up.
    MakeNamespace(String),
    /// Remove a network namespace of ours and every interface in it; processes in it go on.
    RemoveNamespace(String),
    /// Make a bridge of this machine, marked, with an address (`10.92.7.1/24`), up.
    MakeBridge {
        /// Name of the interface: at most 15 letters.
        name: String,
        /// Its address and the length of the network's prefix.
        address: String,
    },
    /// Join a namespace to a bridge by a pair of interfaces, marked; `eth0` inside.
    JoinBridge {
        /// The bridge.
        bridge: String,
        /// The namespace.
        namespace: String,
        /// Name of the end at the bridge: at most 15 letters.
        link: String,
        /// Address inside, with the length of the network's prefix.
        address: String,
    },
    /// Remove an interface of ours (a bridge, or a pair with both its ends).
    RemoveLink(String),
    /// Limit what a pair of interfaces carries in each direction. The limit goes with the pair.
    LimitLink {
        /// The namespace that its one end, `eth0`, is in.
        namespace: String,
        /// Name of the end at the bridge.
        link: String,
        /// Bytes per second.
        bytes_per_s: u64,
    },
    /// Take an interface of ours down, or up again.
    SetLink {
        /// Name of the interface.
        name: String,
        /// Whether it is up from now on.
        up: bool,
    },
    /// Inject or clear a part of a fault of a server.
    Hurt(FaultAction),
    /// Make a separate instance of the kernel's tracer, by its name.
    MakeTracing(String),
    /// Remove an instance of the kernel's tracer of ours, with all that it was set to.
    RemoveTracing(String),
    /// A TCP port of the loopback address must be free.
    PortFree(u16),
    /// A mount must be this: the directory lies on its own file system of this type.
    MountIs {
        /// Directory.
        path: String,
        /// Type of file system, as the kernel names it.
        file_system: String,
        /// Sources, as the mount table names them: one of these must be mounted there. Anything of
        /// that type where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<PlanCommandArg>,
    },
}

impl PlanAction {
    /// Writes a file without a secret.
    pub fn write_file(path: impl Into<String>, text: impl Into<String>) -> PlanAction {
        PlanAction::WriteFile {
            path: path.into(),
            text: text.into(),
            secret: None,
        }
    }

    /// The check that a file system is mounted at a path, from one of these sources if there are any.
    pub fn mount_is(
        path: impl Into<String>,
        file_system: impl Into<String>,
        sources: Vec<PlanCommandArg>,
    ) -> PlanAction {
        PlanAction::MountIs {
            path: path.into(),
            file_system: file_system.into(),
            sources,
        }
    }

    /// Path that this removes on the machine, if it removes one.
    pub fn removed_path(&self) -> Option<&str> {
        match self {
            PlanAction::RemoveDir(path)
            | PlanAction::RemoveDirOf { path, .. }
            | PlanAction::RemoveFile(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for PlanAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanAction::Run(cmd) => write!(f, "{cmd}"),
            PlanAction::RunIf { when, run } => write!(f, "{run}, if this succeeds: {when}"),
            PlanAction::RunUnless { done, run } => write!(f, "{run}, unless this succeeds: {done}"),
            PlanAction::Await(cmd) => write!(f, "wait for '{cmd}'"),
            PlanAction::Start { cmd, .. } => write!(f, "{cmd} &"),
            PlanAction::Stop { mark } => write!(f, "end the processes marked {mark}"),
            PlanAction::Kill { mark } => write!(f, "kill -9 the processes marked {mark}"),
            PlanAction::Pause { mark } => write!(f, "kill -STOP the processes marked {mark}"),
            PlanAction::Resume { mark } => write!(f, "kill -CONT the processes marked {mark}"),
            PlanAction::MakeDir(path) => write!(f, "mkdir {path}"),
            PlanAction::RemoveDir(path) | PlanAction::RemoveDirOf { path, .. } => {
                write!(f, "rm -r {path}")
            }
            PlanAction::MakeRemoteDir { address, name } => write!(f, "mkdir {name} on {address}"),
            PlanAction::RemoveRemoteDir { address, name } => write!(f, "rm -r {name} on {address}"),
            PlanAction::MakeFile { path, bytes } => write!(f, "truncate -s {bytes} {path}"),
            PlanAction::WriteFile { path, .. } => write!(f, "write {path}"),
            PlanAction::MakeSecret(path) => write!(f, "write 32 random digits to {path}"),
            PlanAction::CopySecret { from, to } => write!(f, "copy {from} from here to {to}"),
            PlanAction::TellAccount {
                socket,
                user,
                secret,
            } => write!(f, "create account {user} at {socket}, secret in {secret}"),
            PlanAction::RemoveFile(path) => write!(f, "rm {path}"),
            PlanAction::AttachLoop(path) => write!(f, "losetup --find --direct-io=on {path}"),
            PlanAction::DetachLoop(path) => write!(f, "losetup --detach <loop device of {path}>"),
            PlanAction::StopArray(files) => {
                write!(f, "mdadm --stop {}", PlanCommandArg::ArrayOf(files.clone()))
            }
            PlanAction::Unmount(path) => write!(f, "umount {path}"),
            PlanAction::Hurt(hurt) => write!(f, "{hurt}"),
            PlanAction::MakeTracing(name) => write!(f, "mkdir {TRACING}/instances/{name}"),
            PlanAction::RemoveTracing(name) => write!(f, "rmdir {TRACING}/instances/{name}"),
            PlanAction::PortFree(port) => write!(f, "check that port {port} is free"),
            PlanAction::MountIs {
                path,
                file_system,
                sources,
            } => {
                write!(f, "check that {path} is a mounted {file_system}")?;
                fmt_sources(sources, f)
            }
            network => network.fmt_network(f),
        }
    }
}

impl PlanAction {
    /// The actions on networks.
    fn fmt_network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanAction::MakeNamespace(name) => write!(f, "ip netns add {name}"),
            PlanAction::RemoveNamespace(name) => write!(f, "ip netns delete {name}"),
            PlanAction::MakeBridge { name, address } => {
                write!(
                    f,
                    "ip link add {name} type bridge; ip address add {address} dev {name}; \
                     nft: only root of this machine sends into its network"
                )
            }
            PlanAction::JoinBridge {
                bridge,
                namespace,
                link,
                address,
            } => write!(
                f,
                "ip link add {link} master {bridge} type veth peer name eth0 netns {namespace}; \
                 ip -n {namespace} address add {address} dev eth0"
            ),
            PlanAction::RemoveLink(name) => write!(f, "ip link delete {name}"),
            PlanAction::LimitLink {
                namespace,
                link,
                bytes_per_s,
            } => write!(
                f,
                "tc -n {namespace} qdisc replace dev eth0 root tbf rate {bytes_per_s}bps; tc qdisc \
                 replace dev {link} root tbf rate {bytes_per_s}bps"
            ),
            PlanAction::SetLink { name, up } => {
                write!(f, "ip link set {name} {}", if *up { "up" } else { "down" })
            }
            _ => Ok(()),
        }
    }
}

fn fmt_sources(sources: &[PlanCommandArg], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (n, source) in sources.iter().enumerate() {
        let word = if n == 0 { "of" } else { "or" };
        write!(f, " {word} {source}")?;
    }
    Ok(())
}

/// Where the kernel's tracer is controlled.
pub const TRACING: &str = "/sys/kernel/tracing";

/// One reversible step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// Its purpose; completes "failed to …".
    pub why: String,
    /// Name of the node it is done on.
    #[serde(default = "here", skip_serializing_if = "is_here")]
    pub node: String,
    /// The action.
    pub apply: PlanAction,
    /// How it is undone; must be safe when `apply` did not happen or happened twice.
    pub undo: Option<PlanAction>,
    /// How it is undone when a later step of the same change of a stack that is up fails and the rest of
    /// the stack stays, if that differs from `undo`: a disk must be removed from a file system that stays
    /// mounted, but needs no step if the file system is removed as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<PlanAction>,
    /// Whether a change of a stack that is up can only go on from here: data may lie on what it adds, so
    /// neither a later step that fails nor a kill undoes any of it. This step and those after it can
    /// be done twice, or after their undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub point_of_no_return: bool,
    /// Whether its work lies on disks, where it outlasts a restart of the machine. Journals need not know.
    #[serde(skip)]
    pub lasting: bool,
}

fn here() -> String {
    HERE.into()
}

fn is_here(node: &str) -> bool {
    node == HERE
}

impl PlanStep {
    /// A step on the node of this name; a change takes it back as the whole does.
    pub fn on(node: &str, why: &str, apply: PlanAction, undo: Option<PlanAction>) -> PlanStep {
        PlanStep {
            why: why.into(),
            node: node.into(),
            apply,
            undo,
            back: None,
            point_of_no_return: false,
            lasting: false,
        }
    }

    /// Whether what it makes is still there when the machine was started anew: then it is left out when all
    /// is brought up again on the same disks.
    pub fn outlasts_a_restart(&self) -> bool {
        let makes_files = matches!(
            self.apply,
            PlanAction::MakeDir(_)
                | PlanAction::MakeFile { .. }
                | PlanAction::WriteFile { .. }
                | PlanAction::MakeSecret(_)
                | PlanAction::CopySecret { .. }
        );
        self.lasting || makes_files
    }

    /// The step as journals have it.
    pub fn noted(&self) -> PlanStep {
        PlanStep {
            lasting: false,
            ..self.clone()
        }
    }

    /// The image file that the step allocates, where that is a disk.
    pub fn disk_image(&self) -> Option<&str> {
        match &self.undo {
            Some(PlanAction::RemoveFile(image)) if self.lasting => Some(image),
            _ => None,
        }
    }
}

/// Steps in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// Adds a step on this machine.
    pub fn step(&mut self, why: &str, apply: PlanAction, undo: Option<PlanAction>) {
        self.step_on(HERE, why, apply, undo);
    }

    /// Adds a step on the node of this name.
    pub fn step_on(&mut self, node: &str, why: &str, apply: PlanAction, undo: Option<PlanAction>) {
        self.steps.push(PlanStep::on(node, why, apply, undo));
    }

    /// Sets how the last step is undone while the rest of the stack stays.
    ///
    /// # Panics
    /// When there is no step yet.
    pub fn taken_back_by(&mut self, back: PlanAction) {
        self.steps.last_mut().expect("a step was added before").back = Some(back);
    }

    /// Notes that the work of the last step lies on disks.
    ///
    /// # Panics
    /// When there is no step yet.
    pub fn lasting(&mut self) {
        self.steps
            .last_mut()
            .expect("a step was added before")
            .lasting = true;
    }

    /// Makes the last step the one after which the change can only go on.
    ///
    /// # Panics
    /// When there is no step yet.
    pub fn point_of_no_return(&mut self) {
        let last = self.steps.last_mut();
        last.expect("a step was added before").point_of_no_return = true;
    }
}
