// SPDX-License-Identifier: Apache-2.0
//! Commands of plans on this machine: which may run, how they start, when they are ready.

use plimsoll_core::plan::{PlanCommand, PlanCommandArg, PlanReadinessCheck};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use super::mounting::{is_mounted, resolve};
use super::{COMMAND_LIMIT, LOOK, LocalHost};
use crate::host::allowed::{SWITCH, enclosed, enclosed_at};
use crate::host::error::HostError;
use crate::host::{command, command_mark, facts, files, ports, watchdog};

/// How long a daemon may take to be ready, where its question does not say otherwise; those we know
/// need below 0.3 s on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// How long a question whether a daemon is ready may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Daemons that disks of this machine end at; nbdkit is started by `timeout`.
const SERVES_DISKS: [&str; 4] = ["nbdfuse", "qemu-storage-daemon", "tgtd", "timeout"];

impl LocalHost {
    pub(super) fn check_allowed(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
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
        if (program.starts_with("mkfs") || program == "e2fsck") && !is_safe {
            return refuse(
                "plans may create or repair a file system only on the loop device of a file of ours"
                    .into(),
            );
        }
        Ok(())
    }

    /// The arguments of a command as they are on this machine now.
    pub(super) fn resolve(&self, cmd: &PlanCommand) -> Result<Vec<String>, HostError> {
        let mut args: Vec<String> = cmd.args.iter().map(resolve).collect::<Result<_, _>>()?;
        // It would look for the program in the PATH that we were given, which often lacks `sbin`.
        if let Some(inner) = enclosed_at(cmd) {
            args[inner] = self.search.require(&args[inner])?.display().to_string();
        }
        Ok(args)
    }

    /// A command that may run, as it is on this machine now.
    pub(super) fn prepared<'a>(
        &'a self,
        id: &str,
        cmd: &'a PlanCommand,
        mark: &'a str,
    ) -> Result<command::HostCommand<'a>, HostError> {
        self.check_allowed(id, cmd)?;
        let (program, args) = self.placed(cmd)?;
        Ok(command::HostCommand {
            program,
            args,
            env: &cmd.env,
            state: self.state.as_deref(),
            mark,
            shown: cmd.to_string(),
        })
    }

    pub(super) fn run(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
        let mark = command_mark(id);
        let ready = self.prepared(id, cmd, &mark)?;
        let limit = match cmd.limit_s {
            0 => COMMAND_LIMIT,
            given => Duration::from_secs(given.into()),
        };
        ready.run(limit, &*self.clock).map(|_| ())
    }

    pub(super) fn start(
        &self,
        id: &str,
        cmd: &PlanCommand,
        (mark, log): (&str, &Path),
        ready: &PlanReadinessCheck,
    ) -> Result<(), HostError> {
        let daemon = self.prepared(id, cmd, mark)?;
        let setsid = self.search.require("setsid")?;
        remove_dead_socket(&daemon.args);
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
            PlanReadinessCheck::Exists(path) => is_there(Path::new(path)),
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
    pub(super) fn ask(
        &self,
        id: &str,
        cmd: &PlanCommand,
        mark: &str,
    ) -> Result<Result<String, HostError>, HostError> {
        let asked = self.prepared(id, cmd, mark)?;
        Ok(asked.run(ASK_LIMIT, &*self.clock))
    }

    pub(super) fn await_success(&self, id: &str, cmd: &PlanCommand) -> Result<(), HostError> {
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

/// Removes the socket that an nbdkit which was killed left behind: it takes no address in use.
fn remove_dead_socket(args: &[impl AsRef<std::ffi::OsStr>]) {
    let mut words = args.iter().map(AsRef::as_ref);
    let mut words = words.by_ref().skip_while(|word| *word != "--unix");
    let Some(socket) = words.nth(1) else { return };
    let is_socket = fs::symlink_metadata(socket).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && !takes_connections(Path::new(socket)) {
        // Where it cannot be removed, nbdkit says what is in its way.
        let _ = fs::remove_file(socket);
    }
}

/// Whether a file is there. A socket is there from when its server has bound it, and takes connections only
/// from when that listens: a client that comes between is refused.
fn is_there(path: &Path) -> bool {
    let facts = fs::metadata(path);
    facts.is_ok_and(|facts| !facts.file_type().is_socket() || takes_connections(path))
}

/// Whether a server takes connections at this socket. Its address is short, however long the path is.
fn takes_connections(socket: &Path) -> bool {
    let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
        return false;
    };
    let Ok(directory) = File::open(parent) else {
        return false;
    };
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    UnixStream::connect(short.join(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host as _, SearchPath};
    use plimsoll_core::plan::PlanAction;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    /// A port mapper that had bound its socket and did not listen yet made the NFS server end.
    #[test]
    fn a_socket_is_there_when_it_takes_connections() {
        let place = tempfile::tempdir().unwrap();
        // Longer than the address of a socket may be.
        let deep = place.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("socket");
        assert!(!is_there(&path));
        let bound = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let directory = File::open(&deep).unwrap();
        let short = format!("/proc/self/fd/{}/socket", directory.as_raw_fd());
        rustix::net::bind(&bound, &SocketAddrUnix::new(short).unwrap()).unwrap();
        assert!(path.exists() && !is_there(&path), "bound");
        rustix::net::listen(&bound, 1).unwrap();
        assert!(is_there(&path), "listening");
        std::fs::write(deep.join("file"), "").unwrap();
        assert!(is_there(&deep.join("file")));
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
            for program in ["mkfs.ext4", "mkfs.lustre", "e2fsck"] {
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
}
