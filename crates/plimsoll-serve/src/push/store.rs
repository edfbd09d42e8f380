// SPDX-License-Identifier: Apache-2.0
//! Where pushed runs are kept: a folder for each, which is there whole or not at all.
//!
//! ```text
//! STORE/NAME/             a run folder, and pushed.json: whose it is
//! STORE/.pushes/USER-ID/  one that is being pushed: listing.json, run/…, and files that are not whole yet
//! ```
//! A file gets its name in `run/` only when it has its length and its digest and is on the disk; a folder
//! gets its name in the store only when all its files have theirs. So whatever is killed at whatever time,
//! what has a name is whole.
//!
//! Invariant: below the store nothing is followed that is a link, and no name comes from a request but
//! those that `listing` let through.

use crate::error::{RequestError, ServeError};
use crate::seen::is_run_name;
use plimsoll_archive::{is_run_file, write_result};
use plimsoll_remote::files::{digest, walk};
use plimsoll_remote::listing::{PushFile, PushListing, hexadecimal};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Whose a folder is.
const MARK: &str = "pushed.json";
/// Folders that are being pushed.
const PUSHES: &str = ".pushes";
const LISTING: &str = "listing.json";
const RUN: &str = "run";
/// A push that was not finished in this time is removed when the server starts.
const FORGOTTEN: Duration = Duration::from_secs(7 * 86_400);
/// Largest mark and list that are read.
const TEXT_MAX: u64 = 16 << 20;

/// The mark beside the files of a pushed run: enough to make its row again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushMark {
    pub(crate) owner: String,
    pub(crate) digest: String,
    pub(crate) revision: String,
    pub(crate) reference: Option<String>,
    pub(crate) is_shared: bool,
    pub(crate) bytes: u64,
}

/// The directory of pushed runs.
#[derive(Debug)]
pub(crate) struct PushStore {
    folder: PathBuf,
}

/// A run that is being pushed.
#[derive(Debug, Clone)]
pub(crate) struct StagedPush {
    place: PathBuf,
}

/// One of all of them.
#[derive(Debug)]
pub(crate) struct BegunPush {
    pub(crate) owner_id: i64,
    pub(crate) digest: String,
    /// How long nothing happened to it.
    pub(crate) age: Duration,
    pub(crate) staged: StagedPush,
}

/// A file that is being received. Dropped before its end it leaves nothing.
#[derive(Debug)]
pub(crate) struct StagedFile {
    early: PathBuf,
    run: PathBuf,
    path: String,
    file: File,
    digest: Sha256,
    left: u64,
    wanted: String,
}

/// A function for `map_err` that names the failed step. It leaves out paths: they are the server's own.
pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> RequestError {
    move |error| RequestError::failed(format!("failed to {what}: {error}"))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, TEXT_MAX), &mut text)?;
    Ok(text)
}

/// How long nothing was made or renamed in a folder.
fn age(of: &DirEntry) -> Duration {
    let changed = of.metadata().and_then(|facts| facts.modified());
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of files is that of the machine"
    )]
    let now = SystemTime::now();
    let age = changed.ok().and_then(|at| now.duration_since(at).ok());
    age.unwrap_or_default()
}

/// The digest of a list of these files.
fn digest_of(folder: &Path) -> io::Result<String> {
    let mut found = Vec::new();
    walk(folder, "", &mut found)?;
    let mut files = Vec::new();
    for (name, path) in found.into_iter().filter(|(name, _)| is_run_file(name)) {
        let (bytes, sha256) = digest(&path)?;
        files.push(PushFile {
            path: name,
            bytes,
            sha256,
        });
    }
    Ok(PushListing::digest_of(&files))
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|facts| facts.is_dir())
}

/// Removes a tree that this module made: files and folders, never through a link.
fn remove(path: &Path) -> io::Result<()> {
    if !is_dir(path) {
        return match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        };
    }
    for entry in fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    fs::remove_dir(path)
}

impl PushStore {
    /// Opens it, and forgets what was begun and not finished a week ago.
    pub(crate) fn open(folder: &Path) -> Result<PushStore, ServeError> {
        let pushes = folder.join(PUSHES);
        make_folder(&pushes).map_err(|source| ServeError::Io {
            doing: "make",
            path: pushes.clone(),
            source,
        })?;
        for entry in fs::read_dir(&pushes).into_iter().flatten().flatten() {
            if age(&entry) > FORGOTTEN {
                let _ = remove(&entry.path());
            }
        }
        Ok(PushStore {
            folder: folder.into(),
        })
    }

    /// The name of the folder of a run: another one for each user, so that naming the digests of a run's
    /// files gives no access to the run of another user.
    pub(crate) fn name(owner: &str, listing: &PushListing) -> String {
        let of = hexadecimal(&Sha256::digest(format!("{owner}\n{}", listing.digest())));
        format!("{}-{}", listing.run, &of[..16])
    }

    /// The mark of a folder in the store; `None` where there is no such folder, or it is no pushed one.
    pub(crate) fn mark(&self, name: &str) -> Option<PushMark> {
        let folder = self.folder.join(name);
        let text = (is_run_name(name) && is_dir(&folder)).then(|| read_text(&folder.join(MARK)));
        serde_json::from_slice(&text?.ok()?).ok()
    }

    /// Whether a folder is the pushed run of this digest, byte by byte.
    pub(crate) fn is_whole(&self, name: &str, digest: &str) -> bool {
        let is_named = self.mark(name).is_some_and(|mark| mark.digest == digest);
        is_named && digest_of(&self.folder.join(name)).is_ok_and(|found| found == digest)
    }

    /// Whether a mark is there, or it cannot be told.
    pub(crate) fn is_marked(&self, name: &str) -> bool {
        let mark = self.folder.join(name).join(MARK).symlink_metadata();
        !mark.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Whether this is the folder of a run that was not pushed.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        let folder = self.folder.join(name);
        is_run_name(name) && plimsoll_archive::holds_run(&folder) && !self.is_marked(name)
    }

    /// All pushed folders.
    pub(crate) fn marked(&self) -> Vec<(String, PushMark)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| Some((name.clone(), self.mark(&name)?)))
            .collect()
    }

    /// Writes anew who sees a run.
    pub(crate) fn share(&self, name: &str, is_shared: bool) -> Result<(), RequestError> {
        let Some(mut mark) = self.mark(name) else {
            return Err(RequestError::not_found("there is no such pushed run"));
        };
        mark.is_shared = is_shared;
        let path = self.folder.join(name).join(MARK);
        let text = serde_json::to_vec(&mark).map_err(RequestError::failed)?;
        write_result(&path, &text).map_err(failed("write who sees the run"))
    }

    /// The place of a run that is being pushed.
    pub(crate) fn staged(&self, owner_id: i64, digest: &str) -> StagedPush {
        StagedPush {
            place: self
                .folder
                .join(PUSHES)
                .join(format!("{owner_id}-{digest}")),
        }
    }

    /// All pushes that were begun: number of the user, digest, place.
    pub(crate) fn begun(&self) -> Vec<BegunPush> {
        let entries = fs::read_dir(self.folder.join(PUSHES)).into_iter().flatten();
        let begun = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (owner_id, digest) = name.split_once('-')?;
            Some(BegunPush {
                owner_id: owner_id.parse().ok()?,
                digest: digest.to_owned(),
                age: age(&entry),
                staged: StagedPush {
                    place: entry.path(),
                },
            })
        });
        begun.collect()
    }

    /// Gives a run that is whole its name in the store, on the disk. What is there of the same run takes the
    /// place of the staged one, which is forgotten.
    pub(crate) fn keep(
        &self,
        staged: &StagedPush,
        name: &str,
        mark: &PushMark,
        is_known: bool,
    ) -> Result<(), RequestError> {
        let (from, to) = (staged.run(), self.folder.join(name));
        let keep = || -> io::Result<()> {
            let text = serde_json::to_vec(mark)?;
            write_result(&from.join(MARK), &text)?;
            sync_tree(&from)?;
            let is_there = to.symlink_metadata().is_ok();
            let is_same = is_known || self.mark(name).is_some_and(|old| old.digest == mark.digest);
            // Never over something: a name that is taken by anything else is an error.
            let how = match is_there && is_same {
                true => RenameFlags::EXCHANGE,
                false => RenameFlags::NOREPLACE,
            };
            renameat_with(CWD, &from, CWD, &to, how)?;
            sync_folder(&self.folder)
        };
        keep().map_err(failed("keep the run in the store"))
    }
}

/// Makes all names below a folder durable; the files are already.
fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if is_dir(&path) {
            sync_tree(&path)?;
        }
    }
    sync_folder(path)
}

impl StagedPush {
    /// Begins one, or goes on with one that was begun, with the rest of the listing as it is now.
    pub(crate) fn begin(&self, listing: &PushListing) -> Result<(), RequestError> {
        let begin = || -> io::Result<()> {
            make_folder(&self.place)?;
            make_folder(&self.run())?;
            write_result(&self.place.join(LISTING), &serde_json::to_vec(listing)?)
        };
        begin().map_err(failed("begin a push"))
    }

    pub(crate) fn listing(&self) -> Option<PushListing> {
        let text = read_text(&self.place.join(LISTING)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn run(&self) -> PathBuf {
        self.place.join(RUN)
    }

    /// Its folder, as seen from the store's.
    pub(crate) fn inner(&self) -> String {
        let name = self.place.file_name().unwrap_or_default();
        format!("{PUSHES}/{}/{RUN}", name.to_string_lossy())
    }

    /// Numbers of the files that are not there.
    pub(crate) fn wanted(&self, listing: &PushListing) -> Vec<usize> {
        let is_there = |number: &usize| {
            let file = &listing.files[*number];
            let facts = self.run().join(&file.path).symlink_metadata();
            facts.is_ok_and(|facts| facts.is_file() && facts.len() == file.bytes)
        };
        (0..listing.files.len())
            .filter(|number| !is_there(number))
            .collect()
    }

    /// Receives a file of the list.
    pub(crate) fn receive(
        &self,
        listing: &PushListing,
        number: usize,
    ) -> Result<StagedFile, RequestError> {
        let Some(file) = listing.files.get(number) else {
            return Err(RequestError::not_found("the push has no such file"));
        };
        let drawn = plimsoll_history::draw_secret().map_err(failed("draw a name"))?;
        let early = self.place.join(format!("file-{number}-{}", &drawn[..16]));
        let mut options = OpenOptions::new();
        let made = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&early);
        Ok(StagedFile {
            file: made.map_err(failed("make a file"))?,
            early,
            run: self.run(),
            path: file.path.clone(),
            digest: Sha256::new(),
            left: file.bytes,
            wanted: file.sha256.clone(),
        })
    }

    /// Removes all of it.
    pub(crate) fn forget(&self) {
        let _ = remove(&self.place);
    }
}

impl StagedFile {
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(RequestError::invalid(
                "the file is longer than its list says",
            ));
        };
        self.left = left;
        self.digest.update(bytes);
        self.file.write_all(bytes).map_err(failed("write a file"))
    }

    /// Gives it its name, on the disk.
    pub(crate) fn end(self) -> Result<(), RequestError> {
        if self.left > 0 {
            return Err(RequestError::invalid(
                "the file is shorter than its list says",
            ));
        }
        if hexadecimal(&self.digest.clone().finalize()) != self.wanted {
            return Err(
                RequestError::invalid("the file has another digest than its list says")
                    .hint("it changed while it was read: push again"),
            );
        }
        self.file.sync_all().map_err(failed("write a file"))?;
        let name = || -> io::Result<()> {
            let mut folder = self.run.clone();
            if let Some((folders, _)) = self.path.rsplit_once('/') {
                for part in folders.split('/') {
                    folder.push(part);
                    make_folder(&folder)?;
                }
            }
            fs::rename(&self.early, self.run.join(&self.path))
        };
        name().map_err(failed("name a file"))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // Where it has its name by now, there is nothing to remove.
        let _ = fs::remove_file(&self.early);
    }
}
