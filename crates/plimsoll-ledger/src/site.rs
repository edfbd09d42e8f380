// SPDX-License-Identifier: Apache-2.0
//! Where sessions work: files of a directory or an export, parts of a file or of a device.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::ledger::{LedgerSession, LedgerTarget};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use rustix::fs::OFlags;

use super::options::{DEPTH, FILL_BYTES, LedgerWriteOptions};
use plimsoll_core::op::EngineChoice;
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::EngineError;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::layout;
use plimsoll_engine::verify::DataCheckRegister;

/// A target.
pub(super) struct LedgerOpenTarget {
    ground: OpenTarget,
    name: String,
    /// New files, which go when it does unless they are to be kept.
    made: Mutex<Vec<PathBuf>>,
}

impl Drop for LedgerOpenTarget {
    fn drop(&mut self) {
        let mut made = std::mem::take(&mut *self.made()).into_iter();
        // The failure itself was reported already.
        let _ = match &self.ground {
            OpenTarget::Nfs(export) => export.remove(made),
            ground => ground.held().map(|held| {
                let _ = made.try_for_each(|path| held.remove_file(&path));
            }),
        };
    }
}

/// Where one session works.
pub(super) struct LedgerSessionTarget<'a> {
    site: &'a LedgerOpenTarget,
    pub(super) session: LedgerSession,
    path: PathBuf,
    len_max: u32,
    /// The history of each block of the file.
    pub(super) known: Arc<DataCheckRegister>,
}

impl LedgerSessionTarget<'_> {
    /// Opens its file or device, every write `durable` or not.
    pub(super) fn open(&self, durable: bool) -> Result<Box<dyn IoEngine>, EngineError> {
        self.site.open(&self.path, durable, self.len_max)
    }
}

fn file_name(session: usize) -> String {
    format!("plimsoll.ledger.{session}")
}

impl LedgerOpenTarget {
    pub(super) fn of(place: &NodeTarget, name: &str) -> Result<Self, EngineError> {
        let ground = OpenTarget::of(place)?;
        match &ground {
            OpenTarget::Storage { .. } | OpenTarget::Nfs(_) => Ok(LedgerOpenTarget {
                ground,
                name: name.to_owned(),
                made: Mutex::default(),
            }),
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => {
                Err(EngineError::Ledger(format!(
                    "'{name}' keeps no data: a ledger needs a directory, a file, a device or an export"
                )))
            }
        }
    }

    pub(super) fn target(&self, number: u32) -> LedgerTarget {
        LedgerTarget {
            number,
            name: self.name.clone(),
        }
    }

    /// Whether sessions can have files of their own.
    fn has_names(&self) -> bool {
        match &self.ground {
            OpenTarget::Storage { directory, .. } => directory.is_some(),
            _ => true,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        match &self.ground {
            OpenTarget::Storage { data, .. } if name.is_empty() => data.clone(),
            OpenTarget::Storage {
                directory: Some(path),
                ..
            } => path.join(name),
            OpenTarget::Nfs(export) => export.directory().join(name),
            _ => PathBuf::from(name),
        }
    }

    /// Refuses what does not fit here.
    pub(super) fn check(&self, options: &LedgerWriteOptions) -> Result<(), EngineError> {
        let (name, align) = (&self.name, self.ground.align());
        if !options.block_bytes.is_multiple_of(align) {
            let block = options.block_bytes;
            return Err(EngineError::Ledger(format!(
                "'{name}' takes blocks of a multiple of {align} bytes, not of {block}"
            )));
        }
        let Some(device) = self.ground.device() else {
            return Ok(());
        };
        if !options.destroy {
            return Err(EngineError::Ledger(format!(
                "'{name}' is a device whose data would be overwritten: allow that with --destroy"
            )));
        }
        let wanted = options.bytes.saturating_mul(u64::from(options.sessions));
        if wanted > device.bytes {
            let has = device.bytes;
            return Err(EngineError::Ledger(format!(
                "'{name}' has {has} bytes, and the sessions need {wanted}: use fewer or smaller ones"
            )));
        }
        Ok(())
    }

    /// Makes the files of the sessions, which are numbered from `first`.
    pub(super) fn make(
        &self,
        target: u32,
        first: usize,
        campaign: u64,
        options: &LedgerWriteOptions,
    ) -> Result<Vec<LedgerSessionTarget<'_>>, EngineError> {
        let (bytes, block) = (options.bytes, options.block_bytes);
        let period = options.period();
        let known = |file, bytes| {
            let known = DataCheckRegister::of(campaign, (target, file), bytes, block)?;
            Ok::<_, EngineError>(Arc::new(known))
        };
        let of_all = bytes.saturating_mul(u64::from(options.sessions));
        let shared = if self.has_names() {
            None
        } else {
            self.make_file(&self.path(""), of_all, options.destroy)?;
            Some(known(0, of_all)?)
        };
        let mut stations = Vec::new();
        for number in 0..options.sessions {
            let place = first + stations.len();
            let name = match shared {
                Some(_) => String::new(),
                None => file_name(place),
            };
            let path = self.path(&name);
            let (file, offset, known) = match &shared {
                Some(known) => (0, bytes * u64::from(number), Arc::clone(known)),
                None => {
                    self.make_file(&path, bytes, options.destroy)?;
                    (number, 0, known(number, bytes)?)
                }
            };
            stations.push(LedgerSessionTarget {
                site: self,
                session: LedgerSession {
                    number: saturating_u32(place as u64),
                    target,
                    file,
                    name,
                    offset,
                    bytes,
                    write_period: period,
                    read_period: period,
                },
                path,
                len_max: FILL_BYTES.max(block),
                known,
            });
        }
        Ok(stations)
    }

    fn make_file(&self, path: &Path, bytes: u64, destroy: bool) -> Result<(), EngineError> {
        let there = |is_there: bool| match is_there && !destroy {
            false => Ok(()),
            true => Err(EngineError::Ledger(format!(
                "'{}' exists: remove it, or allow overwriting with --destroy",
                path.display()
            ))),
        };
        match &self.ground {
            OpenTarget::Storage {
                device: Some(_), ..
            } => Ok(()),
            OpenTarget::Nfs(export) => {
                there(export.expect_file(path).is_ok())?;
                self.note_made(path, destroy);
                export.empty_file(path, bytes)
            }
            _ => {
                let held = self.ground.held()?;
                // A link is there, wherever it leads.
                there(held.look(path).is_ok())?;
                let how = match destroy {
                    true => OFlags::TRUNC,
                    false => OFlags::EXCL,
                };
                let file = held.open(path, OFlags::WRONLY | OFlags::CREATE | how);
                let file = file.map_err(|e| EngineError::at("create", path, e))?;
                self.note_made(path, destroy);
                file.set_len(bytes)
                    .and_then(|()| file.sync_all())
                    .map_err(|e| EngineError::at("set the size of", path, e))?;
                held.sync_names()
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a new file for removal, but none that may be overwritten: it may have existed before, and blocks
    /// no later run.
    fn note_made(&self, path: &Path, destroy: bool) {
        if !destroy {
            self.made().push(path.into());
        }
    }

    /// From here on its files are kept.
    pub(super) fn keep(&self) {
        self.made().clear();
    }

    /// Opens what a session worked on, to read it: around the page cache, or after that was emptied
    /// of it.
    pub(super) fn open_again(
        &self,
        session: &LedgerSession,
        len: u32,
    ) -> Result<Box<dyn IoEngine>, EngineError> {
        let path = self.path(&session.name);
        if let Ok(held) = self.ground.held() {
            layout::go_cold(held, &path)?;
        }
        self.open(&path, false, len)
    }

    fn open(&self, path: &Path, durable: bool, len: u32) -> Result<Box<dyn IoEngine>, EngineError> {
        let wants = (true, durable, EngineChoice::Auto);
        let opened = self.ground.open_file(path, wants, (DEPTH, len), Seed(0));
        opened.map(|(engine, _)| engine)
    }
}
