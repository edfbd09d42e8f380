// SPDX-License-Identifier: Apache-2.0
//! This machine.

use plimsoll_core::plan::{
    FaultAction, PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck, StackSelfTest,
};
use plimsoll_core::target::TargetFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use super::allowed::{ALLOWED, SWITCH, enclosed, enclosed_at};
use super::clock::{HostTimeSource, SystemClock};
use super::command::{self, SearchPath};
use super::error::HostError;
use super::fuse::{self, FUSE_CONTROL, FuseRelease};
use super::{
    DeviceFlushCount, Host, HostProcessUsage, StrangerReport, command_mark, dirs, files,
    helper_mark, loops, malformed, mounts, network, orders, ports, processes, remote, search,
    stranger, tgt, tracing, usage, watchdog,
};
use super::{facts, lustre};

/// How long a command may take: making a file system of a terabyte over a slow chain is far
/// below. After it the command is killed and the step fails.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// How long a daemon may take to be ready, where its question does not say otherwise; those we know
/// need below 0.3 s on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// How long a question whether a daemon is ready may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// How long an unmount may hang: it writes back what is dirty. When the server below is dead it
/// hangs for ever, and only ending the rest of the chain lets it go.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(20);

/// How long something may stay busy (a scanner having a look, a last reference being dropped).
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Daemons that disks of this machine end at; nbdkit is started by `timeout`.
const SERVES_DISKS: [&str; 4] = ["nbdfuse", "qemu-storage-daemon", "tgtd", "timeout"];

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
    #[must_use]
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
    #[must_use]
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
        let ready = command::HostCommand {
            program: &path,
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

    fn check_allowed(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
        let refuse = |why: String| {
            Err(HostError::Refused {
                what: format!("run '{cmd}'"),
                why,
            })
        };
        let program = enclosed(cmd).unwrap_or(&cmd.program);
        let of_journal = self.trusted.get(id);
        let is_trusted = of_journal.is_some_and(|programs| programs.contains(program));
        if !self.allowed.contains(program) && !is_trusted {
            return refuse(format!("stacks may not run {program}"));
        }
        let is_watchdog = |args: &[PlanCommandArg]| matches!(args, [PlanCommandArg::Text(t)] if t == watchdog::SUBCOMMAND);
        let is_switch = |args: &[PlanCommandArg]| matches!(args, [PlanCommandArg::Text(a), PlanCommandArg::Text(b), ..] if [&**a, &**b] == SWITCH);
        let is_ours = is_watchdog(&cmd.args) || is_switch(&cmd.args);
        if cmd.program == watchdog::PROGRAM && !is_ours {
            return refuse(
                "plans may start only the watchdog and the power switch of plimsoll".into(),
            );
        }
        let starts_nbdkit = |args: &[PlanCommandArg]| matches!(args, [PlanCommandArg::Text(zero), PlanCommandArg::Text(t), ..] if zero == "0" && t == "nbdkit");
        if cmd.program == "timeout" && !is_trusted && !starts_nbdkit(&cmd.args) {
            return refuse("plans may start only nbdkit with it".into());
        }
        let is_script = |args: &[PlanCommandArg]| matches!(args, [PlanCommandArg::Text(file), ..] if files::lies_in_ours_alone(Path::new(file), id));
        if program == "sh" && !is_trusted && !(cmd.program == "sh" && is_script(&cmd.args)) {
            return refuse("plans may run shell scripts only from a directory of ours".into());
        }
        let names_device =
            |arg: &PlanCommandArg| matches!(arg, PlanCommandArg::Text(text) if names_device(text));
        // Programs that users name may format plain files.
        let names_ours = is_trusted
            || cmd
                .args
                .iter()
                .any(|arg| !matches!(arg, PlanCommandArg::Text(_)));
        let is_safe = names_ours && !cmd.args.iter().any(names_device);
        if program.starts_with("mkfs") && !is_safe {
            return refuse(
                "plans may create a file system only on the loop device of a file of ours".into(),
            );
        }
        Ok(())
    }

    /// The arguments of a command as they are on this machine now.
    fn resolve(&self, cmd: &PlanCommand) -> Result<Vec<String>, HostError> {
        let mut args: Vec<String> = cmd.args.iter().map(resolve).collect::<Result<_, _>>()?;
        // It would look for the program in the PATH that we were given, which often lacks `sbin`.
        if let Some(inner) = enclosed_at(cmd) {
            args[inner] = self.search.require(&args[inner])?.display().to_string();
        }
        Ok(args)
    }

    fn run(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
        self.check_allowed(id, cmd)?;
        let (path, args) = self.placed(cmd)?;
        let ready = command::HostCommand {
            program: &path,
            args,
            env: &cmd.env,
            state: self.state.as_deref(),
            mark: &command_mark(id),
            shown: cmd.to_string(),
        };
        let limit = match cmd.limit_s {
            0 => COMMAND_LIMIT,
            given => Duration::from_secs(given.into()),
        };
        ready.run(limit, &*self.clock).map(|_| ())
    }

    fn start(
        &self,
        id: &str,
        cmd: &PlanCommand,
        (mark, log): (&str, &Path),
        ready: &PlanReadinessCheck,
    ) -> Result<(), HostError> {
        self.check_allowed(id, cmd)?;
        let (path, args) = self.placed(cmd)?;
        let setsid = self.search.require("setsid")?;
        remove_dead_socket(&args);
        let daemon = command::HostCommand {
            program: &path,
            args,
            env: &cmd.env,
            state: self.state.as_deref(),
            mark,
            shown: cmd.to_string(),
        };
        let serves_disks = SERVES_DISKS.contains(&&*cmd.program);
        let mut child = daemon.start(&setsid, log, serves_disks)?;
        self.await_ready(id, &mut child, &daemon.shown, (mark, log), ready)
    }

    fn await_ready(
        &self,
        id: &str,
        child: &mut Child,
        shown: &str,
        (mark, log): (&str, &Path),
        ready: &PlanReadinessCheck,
    ) -> Result<(), HostError> {
        let last_words =
            || File::open(log).map_or_else(|_| String::new(), |mut f| command::last_lines(&mut f));
        let began = self.clock.now();
        loop {
            if self.is_ready(id, child.id(), mark, ready)? {
                return Ok(());
            }
            let status = child.try_wait().map_err(HostError::io("watch", log))?;
            if let Some(status) = status {
                return Err(HostError::Failed {
                    command: shown.into(),
                    status: format!("{} before it was ready", command::in_words(status)),
                    output: last_words(),
                });
            }
            let limit = ready_limit(ready);
            if self.clock.now().saturating_sub(began) > limit {
                return Err(HostError::NotReady {
                    command: shown.into(),
                    seconds: limit.as_secs(),
                    output: last_words(),
                });
            }
            self.clock.pause(Duration::from_millis(2));
        }
    }

    fn is_ready(
        &self,
        id: &str,
        pid: u32,
        mark: &str,
        ready: &PlanReadinessCheck,
    ) -> Result<bool, HostError> {
        Ok(match ready {
            PlanReadinessCheck::Exists(path) => Path::new(path).exists(),
            // Looked up in the daemon's own network, whichever that is.
            PlanReadinessCheck::Port(port) => ports::is_listening(pid, *port),
            PlanReadinessCheck::Size { path, bytes } => {
                fs::metadata(path).is_ok_and(|data| data.len() >= *bytes)
            }
            PlanReadinessCheck::Mounted(path) => is_mounted(Path::new(path))?,
            PlanReadinessCheck::Succeeds(cmd) => self.ask(id, cmd, mark)?.is_ok(),
        })
    }

    /// Runs a command that looks at something; inside, whether it ended with 0, or why not.
    fn ask(
        &self,
        id: &str,
        cmd: &PlanCommand,
        mark: &str,
    ) -> Result<Result<String, HostError>, HostError> {
        self.check_allowed(id, cmd)?;
        let (path, args) = self.placed(cmd)?;
        let asked = command::HostCommand {
            program: &path,
            args,
            env: &cmd.env,
            state: self.state.as_deref(),
            mark,
            shown: cmd.to_string(),
        };
        Ok(asked.run(ASK_LIMIT, &*self.clock))
    }

    fn await_success(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
        let began = self.clock.now();
        let limit = success_limit(cmd);
        loop {
            match self.ask(id, cmd, &command_mark(id))? {
                Ok(_) => return Ok(()),
                Err(error) if self.clock.now().saturating_sub(began) > limit => {
                    return Err(error);
                }
                Err(_) => self.clock.pause(LOOK),
            }
        }
    }

    fn attach_loop(&self, id: &str, file: &Path) -> Result<(), HostError> {
        let args = ["--find", "--show", "--direct-io=on"].map(String::from);
        let mut args = args.to_vec();
        args.push(file.display().to_string());
        self.helper("losetup", args, &command_mark(id), COMMAND_LIMIT)?;
        let found = loops_of(file)?;
        match found.first() {
            Some(device) if loops::is_direct(device) => Ok(()),
            Some(device) => Err(HostError::State(format!(
                "{} over {} runs without direct I/O, so this machine's page cache would be \
                 measured; put the files on another file system",
                device.display(),
                file.display()
            ))),
            None => Err(HostError::State(format!(
                "losetup attached no device to {}",
                file.display()
            ))),
        }
    }

    fn detach_loop(&self, id: &str, file: &Path) -> Result<(), HostError> {
        for device in loops_of(file)? {
            let args = vec!["--detach".into(), device.display().to_string()];
            self.helper("losetup", args, &command_mark(id), COMMAND_LIMIT)?;
        }
        let began = self.clock.now();
        loop {
            // While it is in use the kernel only notes that it is to be detached later.
            let Some(device) = loops_of(file)?.into_iter().next() else {
                return Ok(());
            };
            if self.clock.now().saturating_sub(began) > BUSY_LIMIT {
                return Err(HostError::State(format!(
                    "{} over {} is still in use; it is removed when its last user ends",
                    device.display(),
                    file.display()
                )));
            }
            self.clock.pause(LOOK);
        }
    }

    fn stop_arrays(&self, id: &str, files: &[String]) -> Result<(), HostError> {
        for device in arrays_of(files)? {
            let args = vec!["--stop".into(), device.display().to_string()];
            self.helper("mdadm", args, &command_mark(id), COMMAND_LIMIT)?;
        }
        Ok(())
    }

    fn unmount(&self, id: &str, path: &Path) -> Result<(), HostError> {
        if !command::is_real(path) {
            return Err(HostError::State(format!(
                "{} leads through a symbolic link; name the real path",
                path.display()
            )));
        }
        let began = self.clock.now();
        let mut last_error = None;
        // Bounded by the time; several mounts may lie on top of each other.
        while is_mounted(path)? {
            if self.clock.now().saturating_sub(began) > BUSY_LIMIT {
                return self.unmount_lazily(id, path, last_error);
            }
            match self.umount(id, &[], path) {
                Ok(()) => {}
                Err(error @ HostError::Failed { .. }) => {
                    // Detached all the same, its file would have no path any more.
                    let attached = loops::below(path);
                    let attached = attached.map_err(HostError::io("find loop devices of", path))?;
                    if let Some((device, _)) = attached.first() {
                        return Err(HostError::State(format!(
                            "{} is still attached to {}{}",
                            device.display(),
                            path.display(),
                            self.release(id, path)?.note()
                        )));
                    }
                    last_error = Some(error);
                    self.clock.pause(LOOK);
                }
                Err(error @ HostError::TimedOut { .. }) => match self.release(id, path)? {
                    FuseRelease::Aborted => last_error = Some(error),
                    FuseRelease::Nothing => return Err(error),
                    none @ FuseRelease::NoControl => {
                        return Err(HostError::State(format!("{error}{}", none.note())));
                    }
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets go what waits for a server of ours that answers nobody, if that is what is mounted here.
    fn release(&self, id: &str, path: &Path) -> Result<FuseRelease, HostError> {
        let mounts = mounts::mounts().map_err(HostError::io("read the mounts for", path))?;
        let mount = mounts.iter().rfind(|mount| mount.point == path);
        let how = (&*self.clock as &dyn HostTimeSource, BUSY_LIMIT);
        Ok(mount.map_or(FuseRelease::Nothing, |mount| {
            fuse::release(Path::new(FUSE_CONTROL), id, mount, how)
        }))
    }

    fn umount(&self, id: &str, options: &[&str], path: &Path) -> Result<(), HostError> {
        // No helpers and no resolving of the path: a FUSE mount whose server died answers nothing.
        let mut args = vec!["--internal-only".into(), "--no-canonicalize".into()];
        args.extend(options.iter().map(ToString::to_string));
        args.push(path.display().to_string());
        self.helper("umount", args, &command_mark(id), UNMOUNT_LIMIT)
            .map(|_| ())
    }

    fn unmount_lazily(
        &self,
        id: &str,
        path: &Path,
        why: Option<HostError>,
    ) -> Result<(), HostError> {
        self.umount(id, &["--lazy"], path)?;
        let why = why.map_or_else(String::new, |error| format!(" ({error})"));
        Err(HostError::State(format!(
            "{} stayed busy for {} s{why}; it was detached and goes when its last user ends",
            path.display(),
            BUSY_LIMIT.as_secs()
        )))
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

fn resolve(arg: &PlanCommandArg) -> Result<String, HostError> {
    match arg {
        PlanCommandArg::Text(text) => Ok(text.clone()),
        PlanCommandArg::LoopOf(file) => match loops_of(Path::new(file))?.first() {
            Some(device) => Ok(device.display().to_string()),
            None => Err(HostError::State(format!(
                "no loop device is backed by {file}"
            ))),
        },
        PlanCommandArg::ArrayOf(files) => match arrays_of(files)?.first() {
            Some(device) => Ok(device.display().to_string()),
            None => Err(HostError::State(format!(
                "no array has a member that is backed by {}",
                files.join(" or ")
            ))),
        },
    }
}

fn loops_of(file: &Path) -> Result<Vec<PathBuf>, HostError> {
    loops::loops_of(file).map_err(HostError::io("find the loop device of", file))
}

fn arrays_of(files: &[String]) -> Result<Vec<PathBuf>, HostError> {
    let shown = files.join(", ");
    loops::arrays_of(files).map_err(HostError::io("find the array of", Path::new(&shown)))
}

/// How long is waited for a command to succeed.
fn success_limit(cmd: &PlanCommand) -> Duration {
    match cmd.limit_s {
        0 => READY_LIMIT,
        seconds => Duration::from_secs(seconds.into()),
    }
}

/// How long is waited for a daemon.
fn ready_limit(ready: &PlanReadinessCheck) -> Duration {
    match ready {
        PlanReadinessCheck::Succeeds(cmd) => success_limit(cmd),
        _ => READY_LIMIT,
    }
}

/// Whether a word of a command names a device, whichever way it is written: by a path (commands run
/// in `/`), through links, or behind a comma or an equals sign.
fn names_device(word: &str) -> bool {
    let is_device = |text: &str| {
        let path = Path::new("/").join(text);
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        // A path that does not exist has no real path; its parts have one all the same.
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(plain.pop()),
                Component::CurDir => {}
                other => plain.push(other),
            }
        }
        let is_below = |path: &Path| path.starts_with("/dev") && path != Path::new("/dev");
        is_below(&plain) || is_below(&real) || facts::is_block_device(&real)
    };
    let parts = word.split(['=', ',']).filter(|part| part.contains('/'));
    is_device(word) || parts.into_iter().any(is_device)
}

fn is_mounted(path: &Path) -> Result<bool, HostError> {
    mounts::is_mounted(path).map_err(HostError::io("read the mounts at", path))
}

/// Two witnesses: the device number differs from the parent's, and the mount table agrees. A
/// directory that looks mounted but is not would send the load to the local disk, and another file
/// system over it, even one of the same type, to another disk.
fn mount_is(path: &Path, file_system: &str, sources: &[PlanCommandArg]) -> Result<(), HostError> {
    let device = |path: &Path| {
        fs::metadata(path)
            .map(|data| data.dev())
            .map_err(HostError::io("look at", path))
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mounts = mounts::mounts().map_err(HostError::io("read the mounts at", path))?;
    let top = mounts.iter().rev().find(|mount| mount.point == path);
    match top {
        Some(mount) if mount.file_system != file_system => Err(HostError::State(format!(
            "{} is a mounted {}, not {file_system}",
            path.display(),
            mount.file_system
        ))),
        Some(mount) if !is_of(mount, sources) => Err(HostError::State(format!(
            "{} is hidden by a mount of {} from outside this stack; unmount it",
            path.display(),
            mount.source
        ))),
        Some(_) if device(path)? != device(parent)? => Ok(()),
        _ => Err(HostError::State(format!(
            "{} is not mounted, so the load would hit the disk below it",
            path.display()
        ))),
    }
}

/// Whether one of these is what is mounted; what is gone by now is not.
fn is_of(mount: &mounts::HostMountInfo, sources: &[PlanCommandArg]) -> bool {
    let is_it = |source: &PlanCommandArg| {
        resolve(source).is_ok_and(|name| {
            let real = Path::new(&name).canonicalize();
            name == mount.source || real.is_ok_and(|real| real == Path::new(&mount.source))
        })
    };
    sources.is_empty() || sources.iter().any(is_it)
}

/// Removes the socket that an nbdkit which was killed left behind: it takes no address in use.
fn remove_dead_socket(args: &[impl AsRef<std::ffi::OsStr>]) {
    use std::os::unix::fs::FileTypeExt as _;
    let mut words = args.iter().map(AsRef::as_ref);
    let mut words = words.by_ref().skip_while(|word| *word != "--unix");
    let Some(socket) = words.nth(1) else { return };
    let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(socket).is_err() {
        // Where it cannot be removed, nbdkit says what is in its way.
        let _ = std::fs::remove_file(socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_formatted_that_a_plan_did_not_make() {
        let host = LocalHost::new(SearchPath::new("".as_ref()));
        let ours = || PlanCommandArg::LoopOf("/base/disk.img".into());
        for (last, is_safe) in [
            (ours(), true),
            (PlanCommandArg::ArrayOf(vec!["/base/disk.img".into()]), true),
            (PlanCommandArg::from("/dev/sda"), false),
            (PlanCommandArg::from("sda"), false),
            (PlanCommandArg::from("/base/../dev/sda"), false),
        ] {
            for program in ["mkfs.ext4", "mkfs.lustre"] {
                let args = [PlanCommandArg::from("--reformat"), last.clone()];
                let cmd = PlanCommand::new(program, args);
                assert_eq!(host.check_allowed("t", &cmd).is_ok(), is_safe, "{cmd}");
            }
        }
        let both = [ours(), PlanCommandArg::from("/dev/sda")];
        let plain = PlanCommand::new("mkfs.btrfs", both.clone());
        let view = ["--dev-bind", "/dev", "/dev", "--", "mkfs.btrfs"].map(PlanCommandArg::from);
        let enclosed = PlanCommand::new("bwrap", view.into_iter().chain(both));
        for cmd in [plain, enclosed] {
            assert!(host.check_allowed("t", &cmd).is_err(), "{cmd}");
        }
    }

    #[test]
    fn a_device_is_known_by_its_number() {
        assert!(is_device(Path::new("/dev/null"), (1, 3)));
        assert!(!is_device(Path::new("/dev/null"), (10, 229)));
        assert!(!is_device(Path::new("/dev/absent"), (10, 229)));
        assert!(!is_device(Path::new("/"), (10, 229)));
    }

    #[test]
    fn a_mount_of_something_else_of_the_same_type_is_not_the_one_that_is_meant() {
        let mounts = mounts::mounts().unwrap();
        let root = mounts.iter().rfind(|mount| mount.point == Path::new("/"));
        let root = root.unwrap();
        assert!(is_of(root, &[]));
        assert!(is_of(root, &[PlanCommandArg::Text(root.source.clone())]));
        assert!(!is_of(root, &[PlanCommandArg::from("/dev/no-such-disk")]));
        assert!(!is_of(
            root,
            &[PlanCommandArg::LoopOf("/base/disk0.img".into())]
        ));
    }

    #[test]
    fn what_is_enclosed_is_found_where_we_look() {
        let host = LocalHost::new(SearchPath::new("".as_ref()));
        let cmd = PlanCommand::new("bwrap", ["--tmpfs", "/tmp", "--", "sh", "-c"]);
        let args = host.resolve(&cmd).unwrap();
        assert!(
            args[3].starts_with('/') && args[3].ends_with("/sh"),
            "{args:?}"
        );
        let absent = PlanCommand::new("bwrap", ["--", "no-such-program"]);
        let error = host.resolve(&absent).unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
    }

    #[test]
    fn a_device_is_known_whichever_way_it_is_named() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let link = link.display().to_string();
        for word in [
            "/dev/sda",
            "//dev/sda",
            "/./dev/sda",
            "/no/../dev/sda",
            "dev/sda",
            "--journal-dev=/dev/sda",
            "size=1,device=//dev/sda",
            &link,
        ] {
            assert!(names_device(word), "{word}");
        }
        for word in ["/home/disk.img", "-F", "/dev", "label=dev", "devices", ""] {
            assert!(!names_device(word), "{word}");
        }
    }

    #[test]
    fn a_shell_carries_out_what_the_same_plan_wrote_and_nothing_else() {
        let mut host = LocalHost::new(SearchPath::new("".as_ref()));
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("d").display().to_string();
        host.carry_out("mine", &PlanAction::MakeDir(dir.clone()))
            .unwrap();
        let script = PlanCommand::new("sh", [format!("{dir}/script")]);
        assert!(host.check_allowed("mine", &script).is_ok());
        assert!(host.check_allowed("theirs", &script).is_err());
        let words = [&["-c", "true"][..], &["/etc/profile"], &[]];
        let view = PlanCommand::new("bwrap", ["--", "sh", &*format!("{dir}/script")]);
        let others = words.map(|words| PlanCommand::new("sh", words.iter().copied()));
        for cmd in others.into_iter().chain([view]) {
            assert!(host.check_allowed("mine", &cmd).is_err(), "{cmd}");
        }
    }
}
