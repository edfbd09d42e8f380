// SPDX-License-Identifier: Apache-2.0
//! The files of a loop on an export, for one of its threads: each operation is the calls that a
//! client without caches makes for it.
//!
//! Opening looks the name up, closing commits what is not durable (a kernel's client does so too),
//! appending writes at the end that was seen when the file was opened. Directories are looked up
//! once. Data that the server may have forgotten fail the next fsync or close with `EIO`: they are
//! not kept here.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_nfs::{NfsFileHandle, NfsMount, NfsSession, StableHow};
use rustix::io::Errno;

use super::NfsNameClient;
use super::calls::{NfsDataClient, NfsWriteVerifier, agree};
use crate::source::scramble;
use crate::trees::FileLoopSets;

#[derive(Debug)]
struct NfsOpenFile {
    number: u32,
    file: NfsFileHandle,
    size_bytes: u64,
    /// The server's verifier of writes that are not durable.
    unstable: Option<NfsWriteVerifier>,
    /// Whether some of that was lost.
    lost: bool,
}

/// The files of a loop, for one of its threads.
#[derive(Debug)]
pub struct NfsFileLoopFiles {
    share: Arc<NfsMount>,
    /// `None` after it broke, until it is needed again.
    session: Option<NfsSession>,
    calls: NfsDataClient,
    root: NfsFileHandle,
    trees: Arc<FileLoopSets>,
    stable: StableHow,
    directories: BTreeMap<String, NfsFileHandle>,
    open: Vec<NfsOpenFile>,
    /// The path of the file in use.
    path: String,
}

impl NfsFileLoopFiles {
    pub(super) fn new(
        names: NfsNameClient,
        trees: Arc<FileLoopSets>,
        stable: StableHow,
        share: Arc<NfsMount>,
    ) -> Self {
        NfsFileLoopFiles {
            share,
            session: Some(names.session),
            calls: names.calls,
            root: names.root,
            trees,
            stable,
            directories: BTreeMap::new(),
            open: Vec::new(),
            path: String::new(),
        }
    }

    /// Carries out `request` with `buffer`, and waits for its end. The error is the system's
    /// number.
    pub(crate) fn perform(&mut self, request: &OpRequest, buffer: &mut [u8]) -> Result<u64, i32> {
        let moved = match request.kind {
            OpKind::Open | OpKind::Create => self.open(request),
            OpKind::Close => self.close(request.file),
            OpKind::Delete => self.on_name(request.file, |session, directory, name| {
                session.remove(directory, name)
            }),
            OpKind::Stat => self.on_name(request.file, |session, directory, name| {
                session.find(directory, name).map(drop)
            }),
            OpKind::SyncAll => self.commit_all(),
            _ => self.on_open_file(request, buffer),
        };
        moved.map_err(|error| error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
    }

    fn open(&mut self, request: &OpRequest) -> io::Result<u64> {
        let creates = request.kind == OpKind::Create;
        let mut found = None;
        self.on_name(request.file, |session, directory, name| {
            found = Some(match creates {
                true => session.create(directory, name, false)?,
                false => session.find(directory, name)?,
            });
            Ok(())
        })?;
        if let Some((file, attributes)) = found {
            self.open.push(NfsOpenFile {
                number: request.file,
                file,
                size_bytes: attributes.size_bytes,
                unstable: None,
                lost: false,
            });
        }
        Ok(0)
    }

    /// Does something with the name of a file in its directory.
    fn on_name(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut NfsSession, &NfsFileHandle, &str) -> io::Result<()>,
    ) -> io::Result<u64> {
        self.trees.write_path(number, &mut self.path);
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(self.share.session()?),
        };
        let (directory, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let handle = match self.directories.get(directory) {
            Some(handle) => Ok(*handle),
            None => walk(session, self.root, directory),
        };
        let result = handle.and_then(|handle| {
            if !self.directories.contains_key(directory) {
                self.directories.insert(directory.into(), handle);
            }
            act(session, &handle, name)
        });
        if let Err(error) = &result
            && error.raw_os_error().is_none()
        {
            // Whether a call that was cut off was carried out is not known, so it is not sent again.
            self.session = None;
        }
        result.map(|()| 0)
    }

    fn place(&self, number: u32) -> io::Result<usize> {
        let found = self.open.iter().position(|open| open.number == number);
        found.ok_or_else(|| Errno::BADF.into())
    }

    fn close(&mut self, number: u32) -> io::Result<u64> {
        let place = self.place(number)?;
        let result = commit(&mut self.calls, &mut self.open[place], false);
        self.open.swap_remove(place);
        result
    }

    fn commit_all(&mut self) -> io::Result<u64> {
        for opened in &mut self.open {
            commit(&mut self.calls, opened, false)?;
        }
        Ok(0)
    }

    fn on_open_file(&mut self, request: &OpRequest, buffer: &mut [u8]) -> io::Result<u64> {
        let place = self.place(request.file)?;
        let opened = &mut self.open[place];
        let len = request.len as usize;
        match request.kind {
            OpKind::Fsync | OpKind::Fdatasync => commit(&mut self.calls, opened, true),
            OpKind::Read => {
                let (moved, _) =
                    read_all(&mut self.calls, opened, request.offset, &mut buffer[..len])?;
                Ok(moved)
            }
            OpKind::ReadWhole => {
                let mut offset = 0;
                // Ends, as for a local file: the threads cannot append faster than this reads for ever.
                loop {
                    let (moved, end) =
                        read_all(&mut self.calls, opened, offset, &mut buffer[..len])?;
                    offset += moved;
                    if end || moved == 0 {
                        return Ok(offset);
                    }
                }
            }
            OpKind::Write => self.write(place, request.offset, &buffer[..len]),
            OpKind::Append => {
                let end = opened.size_bytes;
                self.write(place, end, &buffer[..len])
            }
            OpKind::WriteWhole => {
                let bytes = self.trees.designated_bytes(request.file);
                self.write_whole(place, &mut buffer[..len], bytes)
            }
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }

    fn write_whole(&mut self, place: usize, piece: &mut [u8], bytes: u64) -> io::Result<u64> {
        let mut offset = 0;
        while offset < bytes {
            let left = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
            let len = piece.len().min(left);
            if offset > 0 {
                scramble(piece);
            }
            offset += self.write(place, offset, &piece[..len])?;
        }
        Ok(offset)
    }

    fn write(&mut self, place: usize, offset: u64, data: &[u8]) -> io::Result<u64> {
        let opened = &mut self.open[place];
        let written = self
            .calls
            .write_all(&opened.file, offset, data, self.stable)?;
        match agree(opened.unstable, written) {
            Ok(verifier) => opened.unstable = verifier,
            Err(_) => {
                (opened.unstable, opened.lost) = (written, true);
            }
        }
        let end = offset + data.len() as u64;
        opened.size_bytes = opened.size_bytes.max(end);
        Ok(data.len() as u64)
    }
}

/// Makes what was written durable; what need not be asked for is only when `always`.
fn commit(calls: &mut NfsDataClient, opened: &mut NfsOpenFile, always: bool) -> io::Result<u64> {
    let unstable = opened.unstable.take();
    if unstable.is_some() || always {
        calls.commit(&opened.file, unstable)?;
    }
    if std::mem::take(&mut opened.lost) {
        return Err(Errno::IO.into());
    }
    Ok(0)
}

/// Reads until the buffer is full or the file ends; whether it has ended.
fn read_all(
    calls: &mut NfsDataClient,
    opened: &NfsOpenFile,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<(u64, bool)> {
    let mut done = 0;
    while done < buffer.len() {
        let moved = calls.read(&opened.file, offset + done as u64, &mut buffer[done..])?;
        done += moved.bytes;
        if moved.end {
            return Ok((done as u64, true));
        }
    }
    Ok((done as u64, false))
}

fn walk(
    session: &mut NfsSession,
    root: NfsFileHandle,
    directory: &str,
) -> io::Result<NfsFileHandle> {
    let mut here = root;
    for name in directory.split('/').filter(|name| !name.is_empty()) {
        here = session.find(&here, name)?.0;
    }
    Ok(here)
}
