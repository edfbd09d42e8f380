// SPDX-License-Identifier: Apache-2.0
//! The way from logged disks to a directory: a file system on one of them, or a stack on several.

use super::{BenchStack, DurabilityBench, ServedDisk};
use crate::disk::LoggedDisk;
use crate::error::DurabilityError;
use plimsoll_machine::host::HostError;
use std::path::PathBuf;

/// The contents of the logged disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchDisk {
    /// A file system on one disk.
    FileSystem(BenchFileSystem),
    /// A stack.
    Stack(Box<BenchStack>),
}

/// A file system of the bench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchFileSystem {
    /// Its kind, as the kernel names it.
    pub name: String,
    /// Options of its mounts.
    pub options: String,
}

impl DurabilityBench {
    /// The directory of an attached disk.
    pub fn directory(&self, disk: &BenchDisk) -> PathBuf {
        match disk {
            BenchDisk::FileSystem(_) => self.places.live(),
            BenchDisk::Stack(stack) => stack.mount_dir.clone(),
        }
    }

    /// The directory of an attached crash state.
    pub fn state_directory(&self, disk: &BenchDisk) -> PathBuf {
        match disk {
            BenchDisk::FileSystem(_) => self.places.state(),
            BenchDisk::Stack(stack) => stack.mount_dir.clone(),
        }
    }

    /// Makes what lies on the disks, which are empty, and attaches it.
    ///
    /// # Errors
    /// When a step fails.
    pub fn make(&mut self, disk: &BenchDisk) -> Result<ServedDisk, DurabilityError> {
        let served = self.serve_live(true)?;
        match disk {
            BenchDisk::FileSystem(file_system) => {
                self.attach_served()?;
                self.make_file_system(file_system)?;
                self.mount_live(file_system)?;
            }
            BenchDisk::Stack(stack) => self.raise_stack(stack)?,
        }
        Ok(served)
    }

    /// Attaches what a load begins with.
    ///
    /// # Errors
    /// When a step fails.
    pub fn attach(&mut self, disk: &BenchDisk) -> Result<ServedDisk, DurabilityError> {
        let served = self.serve_live(false)?;
        match disk {
            BenchDisk::FileSystem(file_system) => {
                self.attach_served()?;
                self.mount_live(file_system)?;
            }
            BenchDisk::Stack(stack) => self.bring_again(stack)?,
        }
        Ok(served)
    }

    /// Detaches it, and gives the disk back with its log.
    ///
    /// # Errors
    /// When a part of the chain cannot be ended.
    pub fn detach(
        &mut self,
        served: ServedDisk,
        disk: &BenchDisk,
    ) -> Result<LoggedDisk, DurabilityError> {
        match disk {
            BenchDisk::FileSystem(_) => self.detach_served()?,
            BenchDisk::Stack(stack) => self.switch_off(stack)?,
        }
        served.end()
    }

    /// Attaches a crash state, after a repair where it cannot be mounted without.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn attach_state(&mut self, disk: &BenchDisk) -> Result<(), DurabilityError> {
        match disk {
            BenchDisk::FileSystem(file_system) => Ok(self.mount_state(file_system)?),
            BenchDisk::Stack(stack) => {
                self.state = Some(self.serve("state.img")?);
                self.bring_again(stack)
            }
        }
    }

    /// Detaches it, also where it could not be attached whole.
    ///
    /// # Errors
    /// When it stays in use.
    pub fn detach_state(&mut self, disk: &BenchDisk) -> Result<(), DurabilityError> {
        match disk {
            BenchDisk::FileSystem(_) => self.unmount_state(),
            BenchDisk::Stack(stack) => {
                self.switch_off(stack)?;
                match self.state.take() {
                    Some(served) => served.end().map(drop),
                    None => Ok(()),
                }
            }
        }
    }

    /// Takes away what was made for a row of settings.
    ///
    /// # Errors
    /// When something is left.
    pub fn unmake(&mut self) -> Result<(), DurabilityError> {
        match self.lower_stack().as_slice() {
            [] => Ok(()),
            left => Err(HostError::State(left.join("; ")).into()),
        }
    }
}
