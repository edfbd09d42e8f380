// SPDX-License-Identifier: Apache-2.0
//! Files as a witness: one a key, or records in logs, written as programs do it who know how, and who do
//! not.

use super::{DurabilityWitness, WitnessLoad};
use crate::error::DurabilityError;
use crate::judge::{AckAccount, FoundKeys};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a value.
const VALUE_BYTES: usize = 4096;
/// Bytes of a record's head in a log: its key, padded.
const HEAD_BYTES: usize = 64;
/// Records of the file that is written in place.
const SLOTS: u64 = 1024;

/// How a value is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileMethod {
    /// New file, fsync of it, fsync of the directory.
    Fsync,
    /// Temporary file, fsync, rename, fsync of the directory.
    Rename,
    /// New file with `O_DSYNC`, fsync of the directory.
    Dsync,
    /// A record at the end of a log, fdatasync.
    Append,
    /// A record in a file whose room was written before, fdatasync.
    Slots,
    /// As `Rename`, without the fsync of the directory.
    RenameOnly,
    /// As `Rename`, without the fsync of the file.
    RenameUnsynced,
    /// New file, nothing else.
    None,
}

impl FileMethod {
    fn of(name: &str) -> FileMethod {
        match name {
            "rename" => FileMethod::Rename,
            "dsync" => FileMethod::Dsync,
            "append" => FileMethod::Append,
            "slots" => FileMethod::Slots,
            "rename_no_dir_fsync" => FileMethod::RenameOnly,
            "rename_no_fsync" => FileMethod::RenameUnsynced,
            "none" => FileMethod::None,
            _ => FileMethod::Fsync,
        }
    }

    fn is_records(self) -> bool {
        matches!(self, FileMethod::Append | FileMethod::Slots)
    }
}

/// Files in the data directory.
#[derive(Debug)]
pub struct FilesWitness {
    method: FileMethod,
    clients: u32,
}

impl FilesWitness {
    /// One that writes by this method.
    pub fn new(method: &str, clients: u32) -> Self {
        FilesWitness {
            method: FileMethod::of(method),
            clients,
        }
    }

    fn client(
        &self,
        data: &Path,
        number: u32,
        load: &WitnessLoad<'_>,
        account: &Mutex<AckAccount>,
        count: &AtomicUsize,
    ) -> io::Result<()> {
        let clock = SystemClock::new();
        let folder = data.join(format!("client-{number}"));
        let mut writer = FileWriter::begin(self.method, &folder)?;
        let mut rng = Rng::new(Seed(load.seed).derive("files", number.into()));
        let mut value = vec![0; VALUE_BYTES];
        for n in 0_u64.. {
            let is_over = clock.now() >= load.length || load.stop.load(Ordering::Relaxed);
            if is_over || count.fetch_add(1, Ordering::Relaxed) >= load.acks_max {
                break;
            }
            for word in value.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            let key = format!("client-{number}-{n}");
            match writer.write(n, &key, &value) {
                // Its log is full, or a stack did not do without one of its disks: the writes before count.
                Err(_) if n > 0 => break,
                written => written?,
            }
            let at = (load.disk.now)();
            let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
            account
                .acknowledge(&key, &sum_of(&value), at)
                .map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl DurabilityWitness for FilesWitness {
    fn write(&self, data: &Path, load: &WitnessLoad<'_>) -> Result<AckAccount, DurabilityError> {
        let account = Mutex::new(AckAccount::default());
        let count = AtomicUsize::new(0);
        let written = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let (account, count) = (&account, &count);
                    scope.spawn(move || self.client(data, number, load, account, count))
                })
                .collect();
            let joined = clients.into_iter().map(|client| {
                let ended = client.join();
                ended.unwrap_or_else(|_| Err(io::Error::other("a writer panicked")))
            });
            joined.collect::<io::Result<()>>()
        });
        written.map_err(DurabilityError::file(format!(
            "write files in {}",
            data.display()
        )))?;
        match load.stop.load(Ordering::Relaxed) {
            true => Err(DurabilityError::Stopped),
            false => Ok(account.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn read(&self, data: &Path, _: &AtomicBool) -> Result<FoundKeys, DurabilityError> {
        let mut found = FoundKeys::new();
        for number in 0..self.clients {
            let folder = data.join(format!("client-{number}"));
            let read = match self.method.is_records() {
                true => read_records(&folder.join("log"), &mut found),
                false => read_files(&folder, &mut found),
            };
            match read {
                // A directory or log that is not there has no keys.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => {
                    let what = format!("read files in {}", folder.display());
                    read.map_err(DurabilityError::file(what))?;
                }
            }
        }
        Ok(found)
    }
}

/// Writes values of one client.
struct FileWriter<'a> {
    method: FileMethod,
    folder: &'a Path,
    directory: File,
    log: Option<File>,
}

impl<'a> FileWriter<'a> {
    fn begin(method: FileMethod, folder: &'a Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let above = folder.parent().unwrap_or(Path::new("/"));
        File::open(above)?.sync_all()?;
        let directory = File::open(folder)?;
        let log = match method.is_records() {
            true => Some(File::create_new(folder.join("log"))?),
            false => None,
        };
        if let (FileMethod::Slots, Some(log)) = (method, &log) {
            let zeros = vec![0; 1 << 20];
            let bytes = SLOTS * (HEAD_BYTES + VALUE_BYTES) as u64;
            for at in (0..bytes).step_by(zeros.len()) {
                log.write_all_at(&zeros, at)?;
            }
        }
        if let Some(log) = &log {
            log.sync_all()?;
            directory.sync_all()?;
        }
        Ok(FileWriter {
            method,
            folder,
            directory,
            log,
        })
    }

    /// Writes a value; it is acknowledged when this returns.
    fn write(&mut self, n: u64, key: &str, value: &[u8]) -> io::Result<()> {
        if let Some(log) = &self.log {
            let record = record(key, value);
            // A load that is judged ends before the slots are used up; one that is timed goes round.
            let slot = match self.method {
                FileMethod::Slots => n % SLOTS,
                _ => n,
            };
            log.write_all_at(&record, slot * record.len() as u64)?;
            return log.sync_data();
        }
        let path = self.folder.join(key);
        let early = self.folder.join(format!("{key}.tmp"));
        let is_renamed = matches!(
            self.method,
            FileMethod::Rename | FileMethod::RenameOnly | FileMethod::RenameUnsynced
        );
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if self.method == FileMethod::Dsync {
            options.custom_flags(OFlags::DSYNC.bits().cast_signed());
        }
        let mut file = options.open(if is_renamed { &early } else { &path })?;
        file.write_all(value)?;
        if matches!(
            self.method,
            FileMethod::Fsync | FileMethod::Rename | FileMethod::RenameOnly
        ) {
            file.sync_all()?;
        }
        if is_renamed {
            fs::rename(&early, &path)?;
        }
        match self.method {
            FileMethod::RenameOnly | FileMethod::None => Ok(()),
            _ => self.directory.sync_all(),
        }
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let mut record = vec![0; HEAD_BYTES];
    record[..key.len()].copy_from_slice(key.as_bytes());
    record.extend_from_slice(value);
    record
}

fn sum_of(value: &[u8]) -> String {
    let digest = Sha256::digest(value);
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn read_files(folder: &Path, found: &mut FoundKeys) -> io::Result<()> {
    let mut value = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(key) = name.to_str().filter(|name| !name.ends_with(".tmp")) else {
            continue;
        };
        value.clear();
        // A file that cannot be read is not there as it was.
        let sum =
            match File::open(folder.join(key)).and_then(|mut file| file.read_to_end(&mut value)) {
                Ok(_) => sum_of(&value),
                Err(error) => format!("unreadable:{:?}", error.kind()),
            };
        found.insert(key.into(), sum);
    }
    Ok(())
}

/// A record whose head names no key was never written, or not all of it was.
fn read_records(log: &Path, found: &mut FoundKeys) -> io::Result<()> {
    let mut log = File::open(log)?;
    let mut record = vec![0; HEAD_BYTES + VALUE_BYTES];
    loop {
        match log.read_exact(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let (head, value) = record.split_at(HEAD_BYTES);
        let end = head.iter().position(|byte| *byte == 0).unwrap_or(0);
        if let Ok(key) = std::str::from_utf8(&head[..end])
            && key.starts_with("client-")
        {
            found.insert(key.into(), sum_of(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::AckInstant;
    use crate::server_file;
    use crate::witness::WitnessDisk;
    use plimsoll_core::units::Nanos;
    use std::time::Duration;

    #[test]
    fn every_method_writes_what_it_finds_again() {
        let file = server_file::read(crate::shipped_server("files").unwrap()).unwrap();
        let methods = &file.settings["method"].values;
        assert_eq!(methods.len(), 8);
        for method in methods {
            let dir = tempfile::tempdir().unwrap();
            let witness = FilesWitness::new(method, 2);
            let never = AtomicBool::new(false);
            let load = WitnessLoad {
                seed: 7,
                length: Duration::from_secs(60),
                acks_max: 20,
                disk: WitnessDisk {
                    now: &|| AckInstant {
                        position: 1,
                        at: Nanos(1),
                    },
                    is_full: &|| false,
                },
                stop: &never,
            };
            let account = witness.write(dir.path(), &load).unwrap();
            assert_eq!(account.acknowledged(), 20, "{method}");
            let found = witness.read(dir.path(), &never).unwrap();
            assert_eq!(found.len(), 20, "{method}");
            assert!(account.not_found_alive(&found).is_empty(), "{method}");
        }
    }

    #[test]
    fn a_damaged_value_has_another_sum_and_an_empty_directory_no_keys() {
        let dir = tempfile::tempdir().unwrap();
        let witness = FilesWitness::new("fsync", 1);
        let never = AtomicBool::new(false);
        assert!(witness.read(dir.path(), &never).unwrap().is_empty());
        fs::create_dir(dir.path().join("client-0")).unwrap();
        fs::write(dir.path().join("client-0/client-0-0"), vec![1; VALUE_BYTES]).unwrap();
        let found = witness.read(dir.path(), &never).unwrap();
        assert_eq!(found["client-0-0"], sum_of(&[1; VALUE_BYTES]));
        assert_ne!(found["client-0-0"], sum_of(&[2; VALUE_BYTES]));
    }
}
