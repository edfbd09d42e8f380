// SPDX-License-Identifier: Apache-2.0
//! Everything on this machine that a judgement needs: images in memory, the chain from the logged disk to a
//! mount, a mount for crash states, the server's namespace. One plan, raised once: whatever is done between
//! is undone by its steps. A stack has its own plan and journal.

mod chain;
mod one_disk;
mod stack;

pub use chain::{BenchDisk, BenchFileSystem};
pub use stack::BenchStack;

use crate::disk::{DiskShape, LoggedDisk, NbdServer, copy_sparse};
use crate::error::DurabilityError;
use crate::server_file::ServerFile;
use crate::view::{DROP_RIGHTS, SERVER_USER, ServerScript, ServerView, accounts};
use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanReadinessCheck};
use plimsoll_core::text;
use plimsoll_machine::host::{Host as _, HostError, HostLineJob, LocalHost, processes, removal};
use plimsoll_machine::journal::{Journal, JournalHeader, StateDir};
use plimsoll_machine::raise::{AppliedPlan, raise, raze};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a server may take until it answers.
const READY_LIMIT_S: u32 = 120;
/// The least that it may take after a cut.
const READY_AGAIN_LIMIT_S: u32 = 30;
/// How many times as long as the slowest start before a cut it may take after one: it recovers, and this
/// machine may be busier than it was.
const SLOWER_AGAIN: u32 = 5;
/// How long its data directory may take to be prepared.
const PREPARE_LIMIT_S: u32 = 300;
/// Options of all mounts: device files and set-user-ID programs of a server have no effect.
const SAFE_MOUNT: &str = "nosuid,nodev";
/// Most data of one load's log, times the size of the disk.
const LOG_SIZES: u64 = 16;

/// How long a server may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// Longest version that is kept.
const VERSION_MAX: usize = 100;

/// Programs that the bench needs, beside those of views and file systems.
pub const PROGRAMS: [&str; 5] = ["nbdfuse", "losetup", "mount", "umount", "setsid"];

/// Places of the bench, below one directory.
#[derive(Debug, Clone)]
pub struct BenchPlaces {
    dir: PathBuf,
    id: String,
}

impl BenchPlaces {
    /// Those of the journal `id` in this directory.
    pub fn new(dir: &Path, id: &str) -> Self {
        BenchPlaces {
            dir: dir.into(),
            id: id.into(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn image(&self, name: &str) -> PathBuf {
        self.at("memory").join(name)
    }

    /// The file that nbdfuse shows. By its name its loop device is found when the mount is gone.
    fn served(&self) -> String {
        self.text(&format!("fuse/plimsoll-{}-disk0", self.id))
    }

    /// Where a part of the disk is served. Short: the whole path of a socket may have some hundred bytes.
    fn socket(&self, part: u64) -> PathBuf {
        self.at(&format!("s{part}"))
    }

    /// The mark of processes of one kind.
    pub fn mark(&self, name: &str) -> String {
        format!("plimsoll-{}-{name}", self.id)
    }

    fn namespace(&self) -> String {
        format!("plimsoll-{}", self.id)
    }

    /// The directory of the server's scripts.
    pub fn scripts(&self) -> PathBuf {
        self.at("scripts")
    }

    /// The directory of the server's sockets, in one of ours.
    pub fn sockets(&self) -> PathBuf {
        self.at("run").join("server")
    }

    /// Where the logged disk is mounted.
    pub fn live(&self) -> PathBuf {
        self.at("disk")
    }

    /// Where a crash state is mounted.
    pub fn state(&self) -> PathBuf {
        self.at("state")
    }

    /// The plan of the bench, for disks of this size together, with a directory on the storage that gains are
    /// measured on. Steps that find nothing to do hold the undoing of what is done between.
    pub fn plan(&self, disk_bytes: u64, gain: Option<&Path>) -> Plan {
        let mut plan = Plan::default();
        if let Some(gain) = gain {
            let path = gain.display().to_string();
            let (make, remove) = (
                PlanAction::MakeDir(path.clone()),
                PlanAction::RemoveDir(path),
            );
            plan.step(
                "create a directory on the named storage",
                make,
                Some(remove),
            );
        }
        let mut dir = |why: &str, name: &str| {
            let make = PlanAction::MakeDir(self.text(name));
            plan.step(why, make, Some(PlanAction::RemoveDir(self.text(name))));
        };
        dir("create the directory of the bench", "");
        dir("create the directory of the server's scripts", "scripts");
        dir("create the directory of the server's sockets", "run");
        dir("create the mount point of the images", "memory");
        let memory = self.text("memory");
        // Four images: before the load, now, durable, and of a state.
        let options = format!("{SAFE_MOUNT},mode=0700,size={}", disk_bytes * 4);
        let words = ["-t", "tmpfs", "-o", &options, &self.mark("memory"), &memory];
        plan.step(
            "mount memory for the images",
            PlanAction::Run(PlanCommand::new("mount", words)),
            Some(PlanAction::Unmount(memory)),
        );
        for name in ["fuse", "disk", "state"] {
            let path = self.text(name);
            let (make, remove) = (
                PlanAction::MakeDir(path.clone()),
                PlanAction::RemoveDir(path),
            );
            plan.step("create a mount point", make, Some(remove));
        }
        let mut both = |why: &str, action: PlanAction| {
            plan.step(why, action.clone(), Some(action));
        };
        let stop = |name: &str| PlanAction::Stop {
            mark: self.mark(name),
        };
        both(
            "unmount the served disk",
            PlanAction::Unmount(self.text("fuse")),
        );
        both("end the client of the disk", stop("nbdfuse"));
        both(
            "detach the served disk",
            PlanAction::DetachLoop(self.served()),
        );
        let state = self.image("state.img").display().to_string();
        both("detach the disk of a state", PlanAction::DetachLoop(state));
        both("unmount the disk", PlanAction::Unmount(self.text("disk")));
        both("unmount the state", PlanAction::Unmount(self.text("state")));
        plan.step(
            "create the server's network",
            PlanAction::MakeNamespace(self.namespace()),
            Some(PlanAction::RemoveNamespace(self.namespace())),
        );
        let mut both = |why: &str, action: PlanAction| {
            plan.step(why, action.clone(), Some(action));
        };
        both("end the witness", stop("witness"));
        both("end the server", stop("server"));
        plan
    }
}

/// The bench, raised.
#[derive(Debug)]
pub struct DurabilityBench {
    /// Its places.
    pub places: BenchPlaces,
    host: LocalHost,
    /// The same machine, in the network of the server.
    inside: LocalHost,
    applied: AppliedPlan,
    journals: BenchJournals,
    shape: DiskShape,
    /// The stack that is up, or was and is to be up again.
    stack: Option<AppliedPlan>,
    /// The disks of a crash state of a stack, while they are served.
    state: Option<ServedDisk>,
    /// The longest that the server took to be ready where nothing had been cut.
    slowest_start: Duration,
}

/// Where the bench and its stacks note what they do.
#[derive(Debug, Clone)]
pub struct BenchJournals {
    /// The directory of journals.
    pub state: StateDir,
    /// The head of the journal of this identifier.
    pub header: fn(&str) -> JournalHeader,
}

impl BenchJournals {
    fn begin(&self, id: &str) -> Result<Journal, DurabilityError> {
        Journal::create(&self.state, (self.header)(id)).map_err(DurabilityError::Journal)
    }
}

/// The images that crash states are made in.
#[derive(Debug)]
pub struct StateImages {
    /// The durable contents.
    pub durable: File,
    /// A state.
    pub state: File,
    /// Their size.
    pub bytes: u64,
}

/// A disk in use.
#[derive(Debug)]
pub struct ServedDisk {
    /// The disk.
    pub disk: Arc<LoggedDisk>,
    /// A server a part.
    servers: Vec<NbdServer>,
}

impl ServedDisk {
    /// Ends its servers.
    fn end(self) -> Result<LoggedDisk, DurabilityError> {
        drop(self.servers);
        Arc::try_unwrap(self.disk).map_err(|_| {
            let text = "the disk is still in use after its server has ended";
            HostError::State(text.into()).into()
        })
    }
}

impl DurabilityBench {
    /// Raises the plan of a bench.
    ///
    /// # Errors
    /// When a step fails: then everything begun is undone.
    pub fn raise(
        places: BenchPlaces,
        mut host: LocalHost,
        journals: BenchJournals,
        shape: DiskShape,
        gain: Option<&Path>,
    ) -> Result<Self, DurabilityError> {
        host.trust_programs(&places.id, &[DROP_RIGHTS.into()]);
        let plan = places.plan(shape.bytes(), gain);
        let journal = journals.begin(&places.id)?;
        let applied = raise(&plan, None, &mut host, journal).map_err(DurabilityError::Raise)?;
        let inside = host.in_namespace(&places.namespace());
        Ok(DurabilityBench {
            places,
            host,
            inside,
            applied,
            journals,
            shape,
            stack: None,
            state: None,
            slowest_start: Duration::ZERO,
        })
    }

    /// Undoes everything; gives what could not be undone, in words.
    #[must_use]
    pub fn lower(mut self) -> Vec<String> {
        let mut left = self.lower_stack();
        left.extend(raze(self.applied.journal, &mut self.host).problems());
        left
    }

    /// The machine in the network of the server.
    pub fn inside(&self) -> &LocalHost {
        &self.inside
    }

    /// Identifier of its journal.
    pub fn id(&self) -> &str {
        &self.places.id
    }

    fn act(&mut self, action: &PlanAction) -> Result<(), HostError> {
        self.host.carry_out(&self.places.id, action)
    }

    /// Where the scripts of a server see its sockets, and its scripts themselves.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_scripts(&self, file: &ServerFile) -> Result<(), DurabilityError> {
        let scripts = self.places.scripts();
        let write = |name: &str, text: &str| {
            let path = scripts.join(name);
            let written = fs::write(&path, text);
            let readable = || fs::set_permissions(&path, fs::Permissions::from_mode(0o644));
            written
                .and_then(|()| readable())
                .map_err(DurabilityError::file(format!("write {}", path.display())))
        };
        for script in ServerScript::ALL {
            write(script.name(), script.text(file))?;
        }
        for (name, text) in accounts() {
            write(name, &text)?;
        }
        let readable = fs::set_permissions(&scripts, fs::Permissions::from_mode(0o755));
        readable.map_err(DurabilityError::file(format!("open {}", scripts.display())))
    }

    fn open_image(&self, name: &str) -> Result<File, DurabilityError> {
        let path = self.places.image(name);
        let mut options = File::options();
        let opened = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let what = || format!("open {}", path.display());
        let file = opened.map_err(DurabilityError::file(what()))?;
        file.set_len(self.shape.bytes())
            .map_err(DurabilityError::file(what()))?;
        Ok(file)
    }

    /// Serves the parts of this image, one socket a part, and logs every write.
    fn serve(&mut self, image: &str) -> Result<ServedDisk, DurabilityError> {
        let live = self.open_image(image)?;
        let data = self.places.at(&format!("{image}.log"));
        let data = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&data)
            .map_err(DurabilityError::file(format!("create {}", data.display())))?;
        let log_max = self.shape.bytes() * LOG_SIZES;
        let disk = Arc::new(LoggedDisk::new(live, data, self.shape, log_max));
        let mut servers = Vec::new();
        for part in 0..self.shape.parts {
            let socket = self.places.socket(part);
            if socket.symlink_metadata().is_ok() {
                let what = format!("remove {}", socket.display());
                fs::remove_file(&socket).map_err(DurabilityError::file(what))?;
            }
            let what = format!("serve a disk at {}", socket.display());
            let server = NbdServer::start(&disk, part, &socket);
            servers.push(server.map_err(DurabilityError::file(what))?);
        }
        Ok(ServedDisk { disk, servers })
    }

    /// Serves what a load begins with: zeros where nothing is made yet.
    fn serve_live(&mut self, is_empty: bool) -> Result<ServedDisk, DurabilityError> {
        let begin = if is_empty { "empty.img" } else { "base.img" };
        let (begin, live) = (self.open_image(begin)?, self.open_image("live.img")?);
        copy_sparse(&begin, &live, self.shape.bytes())?;
        self.serve("live.img")
    }

    /// The data directory on a mount, which belongs to the server.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_data(&self, mount: &Path) -> Result<PathBuf, DurabilityError> {
        let data = mount.join("data");
        let made = fs::create_dir(&data)
            .and_then(|()| chown(&data, Some(SERVER_USER), Some(SERVER_USER)))
            .and_then(|()| fs::set_permissions(&data, fs::Permissions::from_mode(0o700)));
        made.map_err(DurabilityError::file(format!("create {}", data.display())))?;
        Ok(data)
    }

    /// Keeps what the disk holds now as what every load begins with.
    ///
    /// # Errors
    /// When the image cannot be copied.
    pub fn keep_base(&self) -> Result<(), DurabilityError> {
        let (live, base) = (self.open_image("live.img")?, self.open_image("base.img")?);
        Ok(copy_sparse(&live, &base, self.shape.bytes())?)
    }

    /// The images that crash states are made in: what is durable, which is what the load began with now,
    /// and the state itself.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn state_images(&mut self) -> Result<StateImages, DurabilityError> {
        let durable = self.open_image("durable.img")?;
        copy_sparse(&self.open_image("base.img")?, &durable, self.shape.bytes())?;
        let state = self.open_image("state.img")?;
        Ok(StateImages {
            durable,
            state,
            bytes: self.shape.bytes(),
        })
    }

    /// Fills an empty data directory.
    ///
    /// # Errors
    /// When the script fails.
    pub fn prepare(&mut self, view: &ServerView, data: &Path) -> Result<(), HostError> {
        self.empty_run(view)?;
        let mark = self.places.mark("server");
        let cmd = view.command(ServerScript::Prepare, data, &mark, 0);
        let action = PlanAction::Run(cmd.within_s(PREPARE_LIMIT_S));
        self.inside.carry_out(&self.places.id, &action)
    }

    /// The first line of what a server tells of its version.
    ///
    /// # Errors
    /// When the script cannot be run.
    pub fn version(
        &mut self,
        view: &ServerView,
        data: &Path,
        stop: &AtomicBool,
    ) -> Result<String, HostError> {
        self.empty_run(view)?;
        let mark = self.places.mark("server");
        let command = view.command(ServerScript::Version, data, &mark, 0);
        let job = HostLineJob {
            journal: &self.places.id,
            command: &command,
            mark: &mark,
            limit: VERSION_LIMIT,
            line_max: VERSION_MAX,
        };
        let mut version = String::new();
        self.inside.hear(&job, stop, &mut |line| {
            if version.is_empty() {
                version = text::printable(&String::from_utf8_lossy(line.text));
            }
            ControlFlow::Break(())
        })?;
        Ok(version)
    }

    /// Starts the server where nothing was cut, and waits until it answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn start(&mut self, view: &ServerView, data: &Path, seed: u64) -> Result<(), HostError> {
        let began = self.host.clock().now();
        self.start_within(READY_LIMIT_S, view, data, seed)?;
        let took = self.host.clock().now().saturating_sub(began);
        self.slowest_start = self.slowest_start.max(took);
        Ok(())
    }

    /// Starts the server after a cut. It has several times as long as it took before, so that a busy machine
    /// is not taken for a server that does not start.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start_again(
        &mut self,
        view: &ServerView,
        data: &Path,
        seed: u64,
    ) -> Result<(), HostError> {
        let slower = self.slowest_start.saturating_mul(SLOWER_AGAIN).as_secs();
        let limit = u32::try_from(slower).unwrap_or(u32::MAX);
        self.start_within(limit.max(READY_AGAIN_LIMIT_S), view, data, seed)
    }

    fn start_within(
        &mut self,
        limit_s: u32,
        view: &ServerView,
        data: &Path,
        seed: u64,
    ) -> Result<(), HostError> {
        self.empty_run(view)?;
        let mark = self.places.mark("server");
        let ready = view.command(ServerScript::Ready, data, &mark, seed);
        let action = PlanAction::Start {
            cmd: view.command(ServerScript::Start, data, &mark, seed),
            mark,
            log: self.places.text("server.log"),
            ready: PlanReadinessCheck::Succeeds(ready.within_s(limit_s)),
        };
        self.inside.carry_out(&self.places.id, &action)
    }

    /// Kills the server, as a crash of it would.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> Result<(), HostError> {
        processes::kill(&self.places.mark("server"), self.host.clock()).map(|_| ())
    }

    /// The directory of sockets, empty.
    fn empty_run(&self, view: &ServerView) -> Result<(), HostError> {
        let is_there = view.run.symlink_metadata().is_ok();
        let emptied = match is_there {
            true => removal::below_ours(&view.run),
            false => Ok(()),
        };
        emptied
            .and_then(|()| fs::create_dir(&view.run))
            .and_then(|()| chown(&view.run, Some(SERVER_USER), Some(SERVER_USER)))
            .map_err(|source| HostError::Io {
                what: format!("empty {}", view.run.display()),
                source,
            })
    }
}
