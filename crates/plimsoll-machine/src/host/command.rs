// SPDX-License-Identifier: Apache-2.0
//! Starting programs. The only place in the workspace that does.
//!
//! Programs get an absolute path, no standard input, our mark, `/` as working directory (so that
//! they keep no other directory busy) and messages in English (they end up in our errors).

use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::clock::HostTimeSource;
use super::error::HostError;
use super::{MARK_VARIABLE, STATE_VARIABLE, TICKET_VARIABLE, mounts};

/// Lines of output kept for an error.
const LAST_LINES: usize = 5;

/// Bytes read from the end of an output for those lines.
const LAST_BYTES: u64 = 4096;

/// Most bytes that a program may write while we wait for its end: they are in memory. One that writes more
/// is ended.
pub(super) const OUTPUT_MAX: u64 = 256 << 20;

/// Most bytes that are kept of what the command of a connection says beside its output: another machine
/// may say it, and without end.
const WORDS_MAX: u64 = 1 << 20;

/// Where qemu's modules are looked for. Debian has them below the directory of the architecture.
const LIBRARY_DIRS: [&str; 2] = ["/usr/lib", "/usr/lib64"];

/// Where programs are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// From the value of `PATH`; the directories `sbin`, often absent from it, are added.
    pub fn new(path_variable: &OsStr) -> Self {
        let mut dirs: Vec<PathBuf> = std::env::split_paths(path_variable)
            .filter(|dir| dir.is_absolute())
            .collect();
        for dir in ["/usr/sbin", "/sbin", "/usr/bin", "/bin"] {
            if !dirs.iter().any(|d| d == Path::new(dir)) {
                dirs.push(dir.into());
            }
        }
        SearchPath(dirs)
    }

    /// Where a program is, if it may be executed.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let executable = |path: &PathBuf| {
            path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
        };
        self.0.iter().map(|d| d.join(program)).find(executable)
    }

    /// The same, as an error that names the package.
    pub(crate) fn require(&self, program: &str) -> Result<PathBuf, HostError> {
        self.find(program).ok_or_else(|| HostError::Missing {
            program: program.into(),
        })
    }
}

/// Where a module of qemu is, if it is installed.
pub(crate) fn find_qemu_module(name: &str) -> Option<PathBuf> {
    let mut dirs = LIBRARY_DIRS.iter().map(Path::new);
    dirs.find_map(|dir| qemu_module_below(dir, name))
}

/// A module of qemu: below a directory of libraries, or below that of an architecture in it.
fn qemu_module_below(libraries: &Path, name: &str) -> Option<PathBuf> {
    let below = fs::read_dir(libraries).into_iter().flatten().flatten();
    let dirs = below.map(|entry| entry.path());
    std::iter::once(libraries.to_path_buf())
        .chain(dirs)
        .map(|dir| dir.join("qemu").join(name))
        .find(|path| path.is_file())
}

/// A program with everything resolved.
#[derive(Debug)]
pub(crate) struct HostCommand<'a> {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) mark: &'a str,
    /// The state directory of the journals that name it.
    pub(crate) state: Option<&'a Path>,
    /// How errors name it.
    pub(crate) shown: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where programs are started for everyone"
)]
fn command(path: &Path) -> Command {
    Command::new(path)
}

impl HostCommand<'_> {
    fn command(&self, first: &Path) -> Command {
        let mut command = command(first);
        command
            .env_remove(TICKET_VARIABLE)
            .envs(self.env)
            .env(MARK_VARIABLE, self.mark)
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null());
        match self.state {
            Some(state) => command.env(STATE_VARIABLE, state),
            // Our own variable is about the program that started us.
            None => command.env_remove(STATE_VARIABLE),
        };
        command
    }

    /// Starts it in a directory and a group of its own, its streams going to these files.
    pub(crate) fn spawn_in(
        &self,
        directory: &Path,
        output: &File,
        errors: &File,
    ) -> std::io::Result<Child> {
        self.command(&self.program)
            .args(&self.args)
            .current_dir(directory)
            .process_group(0)
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?)
            .spawn()
    }

    /// Starts it with pipes to its input and from its output, in a group of its own: Ctrl-C at the
    /// terminal must not end it before what it is for is undone.
    pub(crate) fn spawn_piped(&self, errors: &File) -> std::io::Result<Child> {
        self.command(&self.program)
            .args(&self.args)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
    }

    /// The same, but its output also goes to a file.
    pub(crate) fn spawn_fed(&self, output: &File, errors: &File) -> std::io::Result<Child> {
        self.command(&self.program)
            .args(&self.args)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?)
            .spawn()
    }

    /// Runs to the end; gives what it wrote (both streams together).
    pub(crate) fn run(
        &self,
        limit: Duration,
        clock: &dyn HostTimeSource,
    ) -> Result<String, HostError> {
        let failed = HostError::doing(format!("run '{}'", self.shown));
        let mut output = memory_file().map_err(&failed)?;
        let mut command = self.command(&self.program);
        command
            .args(&self.args)
            // Its own group: Ctrl-C at the terminal must not end it halfway.
            .process_group(0)
            .stdout(output.try_clone().map_err(&failed)?)
            .stderr(output.try_clone().map_err(&failed)?);
        let mut child = command.spawn().map_err(&failed)?;
        let status =
            wait_watching(&mut child, limit, clock, || is_loud([&output])).map_err(&failed)?;
        let is_loud = is_loud([&output]).map_err(&failed)?;
        let Some(status) = status.filter(|_| !is_loud) else {
            end_group(&mut child, clock);
            if is_loud {
                return Err(loud(&self.shown));
            }
            return Err(HostError::TimedOut {
                command: self.shown.clone(),
                seconds: limit.as_secs(),
                output: last_lines(&mut output),
            });
        };
        if !status.success() {
            return Err(HostError::Failed {
                command: self.shown.clone(),
                status: in_words(status),
                output: last_lines(&mut output),
            });
        }
        let mut text = String::new();
        // Output that is not text is of no use to anyone here.
        let _ = output.seek(SeekFrom::Start(0));
        let _ = output.read_to_string(&mut text);
        Ok(text)
    }

    /// Starts a daemon in a session of its own, its output going to `log`.
    /// One that serves a disk of this machine never waits, for memory, for what is written to that disk.
    pub(crate) fn start(
        &self,
        setsid: &Path,
        log: &Path,
        serves_disks: bool,
    ) -> Result<Child, HostError> {
        // The output of daemons is ours alone; a link in its place is not followed.
        let out = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(log)
            .map_err(HostError::io("create", log))?;
        let err = out.try_clone().map_err(HostError::io("open", log))?;
        // The program `setsid` makes the session and then becomes the daemon: without unsafe code
        // a new session cannot be made between fork and exec.
        let mut command = self.command(setsid);
        command
            .arg(&self.program)
            .args(&self.args)
            .stdout(out)
            .stderr(err);
        let spawned = match serves_disks {
            true => spawn_flusher(&mut command),
            false => command.spawn(),
        };
        spawned.map_err(HostError::doing(format!("start '{}'", self.shown)))
    }
}

/// Starts a program as one that takes part in writing back what is dirty (`PR_SET_IO_FLUSHER`), which it
/// inherits from the thread that starts it; that one ends.
fn spawn_flusher(command: &mut Command) -> std::io::Result<Child> {
    let spawned = std::thread::scope(|scope| {
        let start = || {
            // Where the kernel does not know it, or does not allow it, the program runs as it always did.
            let _ = rustix::process::configure_io_flusher_behavior(true);
            command.spawn()
        };
        scope.spawn(start).join()
    });
    spawned.unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it panicked")))
}

/// A file in memory for what a program writes. Unlike a pipe it needs no reader while we wait.
pub(crate) fn memory_file() -> std::io::Result<File> {
    let file = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

/// Whether a program wrote more to its files in memory than is kept.
pub(super) fn is_loud<const N: usize>(written: [&File; N]) -> std::io::Result<bool> {
    for file in written {
        if file.metadata()?.len() > OUTPUT_MAX {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Forgets what was written to a file in memory when that has become much; what is written next is
/// kept again.
pub(super) fn forget_loud(written: &File) {
    if written.metadata().is_ok_and(|data| data.len() > WORDS_MAX) {
        let _ = written.set_len(0);
        // A writer continues at its old offset unless it seeks.
        let mut written = written;
        let _ = written.seek(SeekFrom::Start(0));
    }
}

pub(super) fn loud(command: &str) -> HostError {
    HostError::State(format!(
        "'{command}' wrote more than {} MiB of output, and was killed; reduce its output",
        OUTPUT_MAX >> 20
    ))
}

pub(crate) fn wait(
    child: &mut Child,
    limit: Duration,
    clock: &dyn HostTimeSource,
) -> std::io::Result<Option<ExitStatus>> {
    wait_watching(child, limit, clock, || Ok(false))
}

/// The same, until something is wrong with it.
fn wait_watching(
    child: &mut Child,
    limit: Duration,
    clock: &dyn HostTimeSource,
    is_wrong: impl Fn() -> std::io::Result<bool>,
) -> std::io::Result<Option<ExitStatus>> {
    let began = clock.now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock.now().saturating_sub(began) >= limit || is_wrong()? {
            return Ok(None);
        }
        clock.pause(pause);
        // Short programs are seen to end at once, long ones cost nothing.
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills the group of a command that took too long, and gives it a moment to go.
pub(crate) fn end_group(child: &mut Child, clock: &dyn HostTimeSource) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = wait(child, Duration::from_secs(1), clock);
}

/// An exit status as a person would say it.
pub(crate) fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

/// The last lines of a file, joined to one.
pub(crate) fn last_lines(file: &mut File) -> String {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = Vec::new();
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)));
    let _ = file.take(LAST_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ")
}

/// Name of a process, or `unknown`.
pub(crate) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "unknown".into(), |name| name.trim().to_string())
}

/// Whether the path, after resolving links in its parents, is where it says: the mount table
/// holds real paths only, so everything we compare with it must be real as well.
pub(crate) fn is_real(path: &Path) -> bool {
    let real_parent = path.parent().and_then(|p| p.canonicalize().ok());
    // A path that does not exist hides nothing, and a FUSE mount whose server died cannot be
    // asked: the mount table knows it by the name we gave.
    real_parent.is_none_or(|parent| Some(parent.as_path()) == path.parent())
        || mounts::is_mounted(path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_whatever_the_architecture() {
        let lib = tempfile::tempdir().unwrap();
        for dir in ["some-linux-gnu/qemu", "qemu"] {
            let dir = lib.path().join(dir);
            assert_eq!(qemu_module_below(lib.path(), "m.so"), None);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("m.so"), "").unwrap();
            let found = qemu_module_below(lib.path(), "m.so");
            assert_eq!(found, Some(dir.join("m.so")));
            fs::remove_file(dir.join("m.so")).unwrap();
        }
    }
}
