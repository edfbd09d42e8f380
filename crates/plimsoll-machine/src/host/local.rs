// SPDX-License-Identifier: Apache-2.0
//! This machine.

mod commands;
pub(super) mod lines;
mod mounting;

use plimsoll_core::plan::{FaultAction, PlanAction, PlanCommand, StackSelfTest};
use plimsoll_core::target::TargetFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::allowed::ALLOWED;
use super::clock::{HostTimeSource, SystemClock};
use super::command::{self, SearchPath};
use super::error::HostError;
use super::{
    DeviceFlushCount, Host, HostProcessUsage, StrangerReport, command_mark, dirs, files,
    helper_mark, malformed, mounts, network, orders, ports, processes, remote, search, stranger,
    tgt, tracing, usage, watchdog,
};
use super::{facts, lustre};
use mounting::mount_is;

/// How long a command may take: making a file system of a terabyte over a slow chain is far
/// below. After it the command is killed and the step fails.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Devices by their numbers: what else has their name is something else.
const DEVICES: [(&str, (u32, u32)); 2] =
    [("/dev/fuse", (10, 229)), ("/dev/loop-control", (10, 237))];

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Carries out actions on this machine.
#[derive(Debug)]
pub struct LocalHost {
    pub(super) search: SearchPath,
    pub(super) clock: Box<dyn HostTimeSource + Send>,
    allowed: BTreeSet<String>,
    /// More of them, by the journals that may name them.
    trusted: BTreeMap<String, BTreeSet<String>>,
    /// The state directory of the journals that it works for.
    pub(super) state: Option<PathBuf>,
    /// Where commands are started, if not in the network of this machine.
    namespace: Option<String>,
}

impl LocalHost {
    /// A host that looks for programs in these places.
    pub fn new(search: SearchPath) -> Self {
        LocalHost {
            search,
            clock: Box::new(SystemClock::new()),
            allowed: ALLOWED.iter().map(ToString::to_string).collect(),
            trusted: BTreeMap::new(),
            state: None,
            namespace: None,
        }
    }

    /// The same machine, passing the state directory of the journals to what it starts: by that
    /// it is found again when the journal is lost.
    #[must_use]
    pub fn of_state(mut self, state: &Path) -> Self {
        self.state = std::path::absolute(state).ok();
        self
    }

    /// The same machine, its commands started in this network namespace. Only the network is
    /// another: mounts made there are seen everywhere, which `ip netns exec` would not give.
    pub fn in_namespace(&self, name: &str) -> Self {
        LocalHost {
            namespace: Some(name.into()),
            ..self.copy()
        }
    }

    /// The same machine once more.
    pub(super) fn copy(&self) -> Self {
        LocalHost {
            search: self.search.clone(),
            clock: Box::new(SystemClock::new()),
            allowed: self.allowed.clone(),
            trusted: self.trusted.clone(),
            state: self.state.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Lets plans name one more program.
    #[must_use]
    pub fn allow(mut self, program: &str) -> Self {
        self.allowed.insert(program.into());
        self
    }

    /// Runs one of our helpers (not part of any plan) and gives what it wrote.
    ///
    /// # Errors
    /// When it is missing, fails, or takes longer than `limit`.
    pub fn output(
        &self,
        program: &str,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, HostError> {
        let args = args.iter().map(ToString::to_string).collect();
        self.helper(program, args, &helper_mark(), limit)
    }

    fn helper(
        &self,
        program: &str,
        args: Vec<String>,
        mark: &str,
        limit: Duration,
    ) -> Result<String, HostError> {
        let path = self.search.require(program)?;
        self.run_at(path, program, args, mark, limit)
    }

    /// Runs the program at a path, which errors name as `program`.
    pub(super) fn run_at(
        &self,
        path: PathBuf,
        program: &str,
        args: Vec<String>,
        mark: &str,
        limit: Duration,
    ) -> Result<String, HostError> {
        let ready = command::HostCommand {
            program: path,
            shown: format!("{program} {}", args.join(" ")),
            args,
            env: &BTreeMap::new(),
            state: self.state.as_deref(),
            mark,
        };
        ready.run(limit, &*self.clock)
    }

    /// Runs one of our helpers on behalf of a journal.
    pub(super) fn helper_of(
        &self,
        id: &str,
        program: &str,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, HostError> {
        let args = args.iter().map(ToString::to_string).collect();
        self.helper(program, args, &command_mark(id), limit)
    }

    /// The namespace of ours that its commands are started in.
    fn own_namespace(&self, hurt: &FaultAction) -> Result<&str, HostError> {
        self.namespace.as_deref().ok_or_else(|| HostError::Refused {
            what: hurt.to_string(),
            why: "that is done to network namespaces of ours alone".into(),
        })
    }

    fn hurt(&self, id: &str, hurt: &FaultAction) -> Result<(), HostError> {
        match hurt {
            FaultAction::Mute { address, on } => {
                let namespace = self.own_namespace(hurt)?;
                network::mute(self, id, (namespace, address), *on)
            }
            FaultAction::Netem(how) => {
                let namespace = self.own_namespace(hurt)?;
                network::netem(self, id, namespace, how)
            }
            FaultAction::Fault {
                command,
                fault,
                word,
            } => orders::tell(self, id, command, &[fault.name(), &word.to_string()]),
            FaultAction::Malform {
                mark,
                address,
                seed,
                messages,
            } => malformed::send(mark, address, (*seed, *messages)),
            FaultAction::End { mark } => processes::end(mark, &*self.clock),
            FaultAction::Power { switch, on } => {
                orders::tell(self, id, switch, &[if *on { "on" } else { "off" }])
            }
        }
    }

    /// The program and the arguments that start a command where it belongs.
    fn placed(&self, cmd: &PlanCommand) -> Result<(PathBuf, Vec<String>), HostError> {
        let program = self.program(&cmd.program)?;
        let mut args = self.resolve(cmd)?;
        let Some(namespace) = &self.namespace else {
            return Ok((program, args));
        };
        let enter = format!("--net={}", network::namespace_file(namespace));
        args.insert(0, program.display().to_string());
        args.insert(0, enter);
        Ok((self.search.require("nsenter")?, args))
    }

    /// Where a program is; plimsoll itself is this one, wherever it was started from.
    pub(super) fn program(&self, name: &str) -> Result<PathBuf, HostError> {
        if name != watchdog::PROGRAM {
            return self.search.require(name);
        }
        std::env::current_exe().map_err(HostError::io("find", Path::new(name)))
    }
}

impl LocalHost {
    /// The actions on networks.
    fn carry_out_network(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        match action {
            PlanAction::MakeNamespace(name) => network::make_namespace(self, id, name),
            PlanAction::RemoveNamespace(name) => network::remove_namespace(self, id, name),
            PlanAction::MakeBridge { name, address } => {
                network::make_bridge(self, id, name, address)
            }
            PlanAction::JoinBridge {
                bridge,
                namespace,
                link,
                address,
            } => network::join(self, id, (bridge, link), (namespace, address)),
            PlanAction::RemoveLink(name) => network::remove_link(self, id, name),
            PlanAction::LimitLink {
                namespace,
                link,
                bytes_per_s,
            } => network::limit(self, id, (namespace, link), *bytes_per_s),
            PlanAction::SetLink { name, up } => network::set_link(self, id, name, *up),
            other => Err(HostError::State(format!("no action on a network: {other}"))),
        }
    }
}

impl Host for LocalHost {
    fn carry_out(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        match action {
            PlanAction::Run(cmd) => self.run(id, cmd),
            PlanAction::RunIf { when, run } => match self.run(id, when) {
                Ok(()) => self.run(id, run),
                Err(HostError::Failed { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            PlanAction::RunUnless { done, run } => match self.run(id, done) {
                Err(HostError::Failed { .. }) => self.run(id, run),
                known => known,
            },
            PlanAction::Await(cmd) => self.await_success(id, cmd),
            PlanAction::Start {
                cmd,
                mark,
                log,
                ready,
            } => self.start(id, cmd, (mark, Path::new(log)), ready),
            PlanAction::Stop { mark } => processes::stop(mark, &*self.clock),
            PlanAction::Kill { mark } => processes::kill_server(mark, &*self.clock),
            PlanAction::Pause { mark } => processes::pause(mark),
            PlanAction::Resume { mark } => processes::resume(mark),
            PlanAction::MakeDir(path) => dirs::make(Path::new(path), id),
            PlanAction::RemoveDir(path) => dirs::remove(Path::new(path), id),
            PlanAction::RemoveDirOf { path, file_system } => {
                dirs::remove_of(Path::new(path), file_system, id)
            }
            PlanAction::MakeRemoteDir { address, name } => remote::make(address, name, id),
            PlanAction::RemoveRemoteDir { address, name } => remote::remove(address, name, id),
            PlanAction::MakeFile { path, bytes } => files::make(Path::new(path), *bytes, id),
            PlanAction::WriteFile { path, text, secret } => {
                files::write(Path::new(path), text, secret.as_deref().map(Path::new), id)
            }
            PlanAction::MakeSecret(path) => files::make_secret(Path::new(path), id),
            PlanAction::CopySecret { from, to } => {
                let text = files::read_ours(Path::new(from))?;
                files::write(Path::new(to), &text, None, id)
            }
            PlanAction::TellAccount {
                socket,
                user,
                secret,
            } => tgt::tell_account(Path::new(socket), user, Path::new(secret)),
            PlanAction::RemoveFile(path) => files::remove(Path::new(path), id),
            PlanAction::AttachLoop(path) => self.attach_loop(id, Path::new(path)),
            PlanAction::DetachLoop(path) => self.detach_loop(id, Path::new(path)),
            PlanAction::StopArray(files) => self.stop_arrays(id, files),
            PlanAction::Unmount(path) => self.unmount(id, Path::new(path)),
            PlanAction::Hurt(hurt) => self.hurt(id, hurt),
            PlanAction::MakeTracing(name) => tracing::make(id, name),
            PlanAction::RemoveTracing(name) => tracing::remove(id, name, &*self.clock),
            PlanAction::PortFree(port) => ports::check_free(*port),
            PlanAction::MountIs {
                path,
                file_system,
                sources,
            } => mount_is(Path::new(path), file_system, sources),
            on_network => self.carry_out_network(id, on_network),
        }
    }

    fn trust_programs(&mut self, id: &str, programs: &[String]) {
        let known = self.trusted.entry(id.into()).or_default();
        known.extend(programs.iter().cloned());
    }

    fn marked(&self, mark: &str) -> Vec<u32> {
        processes::marked(mark)
    }

    fn usage(&self, mark: &str) -> HostProcessUsage {
        usage::of(&processes::marked(mark))
    }

    fn moved_by_targets(&self, file_system: &str) -> BTreeMap<String, u64> {
        lustre::moved(self, file_system)
    }

    fn flushes(&self, dir: &Path) -> Option<DeviceFlushCount> {
        let number = facts::device_of(dir)?;
        let count = facts::device_flushes(&number)?;
        let device = format!("{number} of {}", processes::boot());
        Some(DeviceFlushCount { device, count })
    }

    fn find_text(&self, dirs: &[String], texts: &[String]) -> Result<Option<String>, HostError> {
        search::find(dirs, texts)
    }

    fn strange(&self, closed: &StackSelfTest) -> Result<StrangerReport, HostError> {
        stranger::look(closed)
    }

    fn answer(&self, id: &str, cmd: &PlanCommand) -> Result<String, HostError> {
        self.ask(id, cmd, &command_mark(id))?
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.search.find(name)
    }

    fn find_qemu_module(&self, name: &str) -> Option<PathBuf> {
        command::find_qemu_module(name)
    }

    fn exists(&self, path: &Path) -> bool {
        match DEVICES.iter().find(|(name, _)| Path::new(name) == path) {
            Some((_, number)) => is_device(path, *number),
            None => mounts::exists(path),
        }
    }

    fn knows_file_system(&self, name: &str) -> bool {
        mounts::knows_file_system(name)
    }

    fn knows_md(&self) -> bool {
        Path::new("/proc/mdstat").exists() || mounts::has_module("md-mod")
    }

    fn open_files(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn target(&self, dir: &Path) -> Result<TargetFacts, HostError> {
        let existing = dir.ancestors().find(|part| part.exists());
        let mut found = facts::target(existing.unwrap_or(Path::new("/")))?;
        lustre::add_facts(self, &mut found);
        Ok(found)
    }

    fn free_ports(&self, from: u16, count: u16) -> Result<u16, HostError> {
        ports::find_free(from, count)
    }

    fn clock(&self) -> &dyn HostTimeSource {
        &*self.clock
    }
}

/// Whether a path is the character device with these numbers.
fn is_device(path: &Path, number: (u32, u32)) -> bool {
    fs::metadata(path).is_ok_and(|data| {
        data.file_type().is_char_device() && facts::device_numbers(data.rdev()) == number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_its_number() {
        assert!(is_device(Path::new("/dev/null"), (1, 3)));
        assert!(!is_device(Path::new("/dev/null"), (10, 229)));
        assert!(!is_device(Path::new("/dev/absent"), (10, 229)));
        assert!(!is_device(Path::new("/"), (10, 229)));
    }
}
