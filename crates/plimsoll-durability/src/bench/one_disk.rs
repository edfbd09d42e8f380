// SPDX-License-Identifier: Apache-2.0
//! One logged disk: nbdfuse makes a file of it, a loop device a block device, and a file system lies on that.
//! Crash states are images of their own.

use super::{BenchFileSystem, DurabilityBench, SAFE_MOUNT};
use crate::error::DurabilityError;
use plimsoll_core::plan::{PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck};
use plimsoll_machine::host::{Host as _, HostError, loops, mounts};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// How long the disk of a state may stay in use: the kernel takes down views of ended processes by and by.
const FREE_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks.
const FREE_LOOK: Duration = Duration::from_millis(1);

impl DurabilityBench {
    /// Makes a block device of what is served.
    pub(super) fn attach_served(&mut self) -> Result<(), DurabilityError> {
        let file = self.places.served();
        let uri = format!("nbd+unix:///?socket={}", self.places.socket(0).display());
        self.act(&PlanAction::Start {
            cmd: PlanCommand::new("nbdfuse", [&*file, &*uri]),
            mark: self.places.mark("nbdfuse"),
            log: self.places.text("nbdfuse.log"),
            ready: PlanReadinessCheck::Size {
                path: file.clone(),
                bytes: self.shape.part_bytes,
            },
        })?;
        Ok(self.act(&PlanAction::AttachLoop(file))?)
    }

    /// Ends the chain of the served disk.
    pub(super) fn detach_served(&mut self) -> Result<(), DurabilityError> {
        self.act(&PlanAction::Unmount(self.places.text("disk")))?;
        self.act(&PlanAction::DetachLoop(self.places.served()))?;
        self.act(&PlanAction::Unmount(self.places.text("fuse")))?;
        let mark = self.places.mark("nbdfuse");
        Ok(self.act(&PlanAction::Stop { mark })?)
    }

    /// Makes a file system on the served disk.
    pub(super) fn make_file_system(
        &mut self,
        file_system: &BenchFileSystem,
    ) -> Result<(), DurabilityError> {
        let options: &[&str] = match file_system.name.as_str() {
            "xfs" | "btrfs" => &["-q", "-f", "-K"],
            // Background writes of the file system are done now.
            _ => &[
                "-q",
                "-F",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ],
        };
        let words = options.iter().map(|word| PlanCommandArg::from(*word));
        let device = PlanCommandArg::LoopOf(self.places.served());
        let cmd = PlanCommand::new(&format!("mkfs.{}", file_system.name), words.chain([device]));
        Ok(self.act(&PlanAction::Run(cmd))?)
    }

    /// Mounts the served disk.
    pub(super) fn mount_live(
        &mut self,
        file_system: &BenchFileSystem,
    ) -> Result<(), DurabilityError> {
        let live = self.places.live();
        let mount = mount_of(self.places.served(), &live, file_system);
        Ok(self.act(&mount)?)
    }

    /// Mounts a crash state, after a repair where it cannot be mounted without.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub(super) fn mount_state(&mut self, file_system: &BenchFileSystem) -> Result<(), HostError> {
        let image = self.places.image("state.img").display().to_string();
        let at = self.places.state();
        if loops::loops_of(Path::new(&image))
            .map_err(HostError::io("find the disk of", Path::new(&image)))?
            .is_empty()
        {
            let attach = PlanCommand::new("losetup", ["--find", &image]);
            self.act(&PlanAction::Run(attach))?;
        }
        let mount = mount_of(image, &at, file_system);
        let id = self.places.id.clone();
        self.act(&mount)
            .or_else(|error| self.repair(&id, &mount, error))
    }

    /// Unmounts the crash state, and waits until nothing uses its disk: a file system that is still in use
    /// anywhere would be mounted again as it is in memory, whatever the next state has on its disk.
    ///
    /// # Errors
    /// When it cannot be unmounted, or stays in use.
    pub(super) fn unmount_state(&mut self) -> Result<(), DurabilityError> {
        self.act(&PlanAction::Unmount(self.places.text("state")))?;
        let image = self.places.image("state.img");
        let devices = loops::loops_of(&image).map_err(HostError::io("find the disk of", &image))?;
        let clock = self.host.clock();
        let began = clock.now();
        for device in devices {
            while is_in_use(&device) {
                if clock.now().saturating_sub(began) > FREE_LIMIT {
                    return Err(still_mounted(&self.places.state()).into());
                }
                clock.pause(FREE_LOOK);
            }
        }
        Ok(())
    }
}

fn mount_of(device_of: String, at: &Path, file_system: &BenchFileSystem) -> PlanAction {
    let options = match file_system.options.as_str() {
        "defaults" | "" => SAFE_MOUNT.to_owned(),
        given => format!("{SAFE_MOUNT},{given}"),
    };
    let words: [PlanCommandArg; 6] = [
        "-t".into(),
        file_system.name.as_str().into(),
        "-o".into(),
        options.into(),
        PlanCommandArg::LoopOf(device_of),
        at.display().to_string().into(),
    ];
    PlanAction::Run(PlanCommand::new("mount", words))
}

/// Whether a device is mounted somewhere, or otherwise in use.
fn is_in_use(device: &Path) -> bool {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let opened = File::options()
        .read(true)
        .custom_flags(exclusive)
        .open(device);
    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
}

fn still_mounted(path: &Path) -> HostError {
    let holders = mounts::processes_with(path);
    let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
    HostError::State(format!(
        "{} is unmounted, and still in use in another view of the machine (processes: {}); end them, and \
         try again",
        path.display(),
        match holders.is_empty() {
            true => "unknown".to_owned(),
            false => holders.join(", "),
        }
    ))
}
