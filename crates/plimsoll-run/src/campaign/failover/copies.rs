// SPDX-License-Identifier: Apache-2.0
//! The observer `scp`: a file that is copied into the stack again and again, as a person would copy it, by
//! scp and an sshd of its own.
//!
//! The sshd is one process for each copy, at the other end of scp's pipe (`sshd -i`): nothing listens
//! anywhere, and it ends with its scp. It has its own host key and lets one key in, both made for this;
//! the user's keys and configuration are not looked at.
//!
//! A copy counts when scp says that it is done and it has been synced: then it must be there afterwards.

use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{
    Host, HostError, HostTimeSource, HostTimedJob, LocalHost, MadeDir, SystemClock, helper_mark,
    remedy_of,
};
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Size of the file: some seconds of copying, so that a fault meets a copy that has not ended and others
/// that have, and two of them fit where sessions do.
const FILE_BYTES: u64 = 16 << 20;

/// Room that the copies take: two, in turn.
pub(super) const BYTES: u64 = 2 * FILE_BYTES;

/// How fast it is copied at most, in 1024 bits a second (2 MiB): as fast as it can be it takes all that a
/// slow system has, and the sessions never come to what they should do.
const LIMIT_KIB: &str = "16384";

/// Copies that are kept: one is written while the other is what was promised last.
const KEPT: u64 = 2;

/// A copy that takes longer will not end.
const LIMIT: Duration = Duration::from_secs(3600);

/// Time between two looks at how far a copy is; so exactly are its stalls known.
const LOOK: Duration = Duration::from_millis(50);

/// Time after a copy that failed before the next is tried.
const PAUSE: Duration = Duration::from_millis(200);

/// How much is read and compared at once. Each begins with the number of the copy, of eight bytes: one that
/// was rolled back to the copy before it must not pass for it.
const PIECE: usize = 1 << 20;

/// Directory that sshd insists on when root starts it; its service makes it.
const SSHD_DIR: &str = "/run/sshd";

/// Programs that the copier needs; each is looked for beforehand.
const PROGRAMS: [&str; 4] = ["scp", "ssh", "ssh-keygen", "sshd"];

/// A way to copy a file, and the file.
#[derive(Debug)]
pub(super) struct ScpCopier {
    /// Keys, configurations, and the file. Removed with this.
    folder: MadeDir,
    /// The next copy's.
    number: AtomicU64,
}

/// Result of copying until it was stopped.
#[derive(Debug, Default)]
pub(super) struct ScpCopyResult {
    /// Copies that scp ended well and that were synced.
    pub(super) done: u64,
    /// Copies that failed.
    pub(super) errors: u64,
    /// Longest time in which no copy grew or ended.
    pub(super) still: Nanos,
    /// Those of them that nothing was written over since.
    promised: Vec<(PathBuf, u64)>,
    /// All that may be there.
    names: Vec<PathBuf>,
}

impl ScpCopier {
    /// Makes keys and the file in this new folder, and copies it once beside itself.
    pub(super) fn new(folder: &Path, seed: Seed, stop: &AtomicBool) -> Result<Self, CliError> {
        check()?;
        let failed = || doing(CliExitCode::Failed, "set up scp");
        let folder = std::path::absolute(folder).map_err(failed())?;
        check_path(&folder)?;
        let copier = ScpCopier {
            folder: MadeDir::make(&folder).map_err(failed())?,
            number: AtomicU64::new(0),
        };
        copier.make_keys(stop).map_err(failed())?;
        copier.write_file(seed).map_err(failed())?;
        let first = copier.folder.path().join("first");
        let ended = copier.copy(&first, stop);
        let number = ended.map_err(doing(
            CliExitCode::Failed,
            "copy a file by scp on this machine",
        ))?;
        let is_same = match number {
            Some(number) => copier.is_same(&first, number).map_err(failed())?,
            None => true,
        };
        fs::remove_file(&first)
            .or_else(none_is_fine)
            .map_err(failed())?;
        match is_same {
            true => Ok(copier),
            false => Err(CliError::sentence(
                CliExitCode::Failed,
                "scp on this machine made a copy that differs from its source",
            )),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// Runs a program of this to its end; false when it was stopped before.
    fn run(&self, words: &[&str], stop: &AtomicBool) -> Result<Option<String>, HostError> {
        let argv: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let job = HostTimedJob {
            argv: &argv,
            directory: self.folder.path(),
            mark: &helper_mark(),
            limit: LIMIT,
        };
        let timed = context::host().timed(&job, stop)?;
        Ok(timed.map(|timed| timed.output))
    }

    fn make_keys(&self, stop: &AtomicBool) -> io::Result<()> {
        let failed = |error: HostError| io::Error::other(error.to_string());
        for name in ["key", "host_key"] {
            let words = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "",
                "-f",
                name,
            ];
            self.run(&words, stop).map_err(failed)?;
        }
        let user = self.run(&["id", "-un"], stop).map_err(failed)?;
        let (Some(user), Some(sshd)) = (user, context::host().find_program("sshd")) else {
            return Ok(());
        };
        let host_key = fs::read_to_string(self.folder.path().join("host_key.pub"))?;
        fs::write(
            self.folder.path().join("known"),
            format!("witness {host_key}"),
        )?;
        let folder = self.folder.path().display();
        let server = format!(
            "HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/key.pub\nStrictModes no\n\
             UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\nLogLevel ERROR\nUseDNS no\nPrintMotd no\n\
             Subsystem sftp internal-sftp\n"
        );
        fs::write(self.folder.path().join("sshd_config"), server)?;
        let client = format!(
            "Host witness\n  User {}\n  HostKeyAlias witness\n  IdentityFile {folder}/key\n  \
             IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {folder}/known\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n  \
             ControlPath none\n  LogLevel ERROR\n  \
             ProxyCommand {} -i -f {folder}/sshd_config\n",
            user.trim(),
            sshd.display()
        );
        fs::write(self.folder.path().join("ssh_config"), client)
    }

    fn write_file(&self, seed: Seed) -> io::Result<()> {
        let mut rng = Rng::new(seed.derive("scp", 0));
        let mut file = File::create_new(self.file())?;
        let mut piece = vec![0; PIECE];
        for _ in 0..FILE_BYTES / PIECE as u64 {
            for word in piece.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            file.write_all(&piece)?;
        }
        Ok(())
    }

    /// Writes the number of the next copy where each piece of the file begins.
    fn stamp(&self) -> io::Result<u64> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let file = File::options().write(true).open(self.file())?;
        for at in (0..FILE_BYTES).step_by(PIECE) {
            file.write_all_at(&number.to_le_bytes(), at)?;
        }
        Ok(number)
    }

    /// One copy, synced, and its number; none when it was stopped before.
    fn copy(&self, to: &Path, stop: &AtomicBool) -> Result<Option<u64>, HostError> {
        let number = self
            .stamp()
            .map_err(HostError::doing("number the next copy"))?;
        let to = to.to_string_lossy();
        let target = format!("witness:{to}");
        let words = [
            "scp",
            "-q",
            "-l",
            LIMIT_KIB,
            "-F",
            "ssh_config",
            "file",
            &target,
        ];
        if self.run(&words, stop)?.is_none() {
            return Ok(None);
        }
        let synced = File::open(&*to).and_then(|file| file.sync_all());
        synced.map_err(HostError::doing(format!("sync {to}")))?;
        Ok(Some(number))
    }

    /// Copies into this directory until it is stopped.
    pub(super) fn work(&self, directory: &Path, stop: &AtomicBool) -> ScpCopyResult {
        let (ended, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let names: Vec<PathBuf> = (0..KEPT)
            .map(|n| directory.join(format!("copy-{n}")))
            .collect();
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| longest_still(&names, &ended, &is_over));
            let over = SetOnDrop(&is_over);
            let mut copied = ScpCopyResult::default();
            for to in names.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // The old copy is gone as soon as the next is written over it.
                copied.promised.retain(|(path, _)| path != to);
                match self.copy(to, stop) {
                    Ok(Some(number)) => {
                        copied.done += 1;
                        copied.promised.push((to.clone(), number));
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        copied.errors += 1;
                        SystemClock::new().pause(PAUSE);
                    }
                }
            }
            drop(over);
            copied.still = watch.join().unwrap_or_default();
            copied.names.clone_from(&names);
            copied
        })
    }

    /// How many of the copies that must be there are missing or others, once what this machine's
    /// memory has of them is dropped. When all is well they make room for those of the next fault.
    pub(super) fn missing(&self, copied: &ScpCopyResult) -> u64 {
        let is_gone =
            |(path, number): &&(PathBuf, u64)| !self.is_same(path, *number).unwrap_or(false);
        let missing = copied.promised.iter().filter(is_gone).count() as u64;
        for name in copied.names.iter().filter(|_| missing == 0) {
            // A copy that stays takes room, and a lack of room is reported.
            let _ = fs::remove_file(name);
        }
        missing
    }

    fn is_same(&self, path: &Path, number: u64) -> io::Result<bool> {
        let mut copy = File::open(path)?;
        if copy.metadata()?.len() != FILE_BYTES {
            return Ok(false);
        }
        copy.sync_all()?;
        // Where it cannot be told to forget, the reading proves less; it never proves what is not so.
        let _ = rustix::fs::fadvise(&copy, 0, None, rustix::fs::Advice::DontNeed);
        let mut file = File::open(self.file())?;
        let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
        for _ in 0..FILE_BYTES / PIECE as u64 {
            file.read_exact(&mut ours)?;
            ours[..8].copy_from_slice(&number.to_le_bytes());
            copy.read_exact(&mut theirs)?;
            if ours != theirs {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for ScpCopier {
    fn drop(&mut self) {
        // The keys open no other server, and the folder has our own name: files that stay do no harm.
        let _ = self.folder.remove();
    }
}

fn none_is_fine(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Refuses where nothing can be copied on this machine.
pub(super) fn check() -> Result<(), CliError> {
    missing(&context::host())
        .map_err(|why| CliError::new(CliExitCode::Usage, format!("copy by scp: {why}")))
}

fn missing(host: &LocalHost) -> Result<(), String> {
    for program in PROGRAMS {
        if host.find_program(program).is_none() {
            return Err(format!("{program} is missing: {}", remedy_of(program)));
        }
    }
    if host.is_root() && !Path::new(SSHD_DIR).is_dir() {
        return Err(format!(
            "sshd of root needs the directory {SSHD_DIR}, which its service makes; without the \
             service: mkdir -m 755 {SSHD_DIR}"
        ));
    }
    Ok(())
}

/// The configuration of ssh and the shell that it starts sshd with give other letters a meaning.
fn check_path(path: &Path) -> Result<(), CliError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if path.to_str().is_some_and(|text| text.chars().all(is_plain)) {
        return Ok(());
    }
    let text = format!(
        "copy by scp with keys in {}: expected a path of letters, digits and /._-+@ only",
        path.display()
    );
    Err(CliError::usage(text).hint("name another run folder with -o"))
}

/// The longest time in which no file grew and no copy ended.
fn longest_still(names: &[PathBuf], ended: &AtomicU64, is_over: &AtomicBool) -> Nanos {
    let clock = SystemClock::new();
    let seen = || {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let sizes: Vec<u64> = names.iter().map(size).collect();
        (ended.load(Ordering::Relaxed), sizes)
    };
    let (mut last, mut changed_at, mut longest) = (seen(), clock.now(), Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        clock.pause(LOOK);
        let now = seen();
        let at = clock.now();
        longest = longest.max(at.saturating_sub(changed_at));
        if now != last {
            (last, changed_at) = (now, at);
        }
    }
    Nanos::from_secs_f64(longest.as_secs_f64())
}
