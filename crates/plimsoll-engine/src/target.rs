// SPDX-License-Identifier: Apache-2.0
//! Carries out one request with plain system calls: on one file, or in the file sets of a loop.
//!
//! Nothing here queues, stamps or counts; see [`crate::sync`] and [`crate::pool`].

use std::os::fd::OwnedFd;
use std::sync::Arc;

use plimsoll_core::op::{OpKind, OpRequest};
use rustix::fs::{AtFlags, FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::data_file;
use crate::error::EngineError;
use crate::held::{TargetHandle, open_beneath};
use crate::nfs;
use crate::source::scramble;
use crate::sys::sync_range::sync_file_range;
use crate::trees::FileLoopSets;

/// The file or files that requests act on.
#[derive(Debug)]
pub enum RequestTarget {
    /// One open file; requests name their offset.
    File(Arc<OwnedFd>),
    /// The files of a loop.
    Tree(FileLoopLocalFiles),
    /// The files of a loop on an export that this program speaks with itself.
    Export(Box<nfs::NfsFileLoopFiles>),
}

/// The files of a loop, for one of its threads.
#[derive(Debug)]
pub struct FileLoopLocalFiles {
    /// Where the sets lie.
    directory: OwnedFd,
    trees: Arc<FileLoopSets>,
    /// Files that the thread has open, by number. A file that is open twice is here twice, and
    /// which of the two is used makes no difference.
    open: Vec<(u32, OwnedFd)>,
    /// Added to every open.
    flags: OFlags,
    /// Alignment for direct I/O, in bytes; `None`: through the page cache.
    direct_align: Option<u32>,
    /// The path of the file in use.
    path: String,
}

impl RequestTarget {
    /// The files of `trees` in a directory, opened with `O_DIRECT` when
    /// `direct_align` says what that needs, in bytes, and with `O_SYNC` when `sync`.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn tree(
        directory: &TargetHandle,
        trees: Arc<FileLoopSets>,
        (direct_align, sync): (Option<u32>, bool),
    ) -> Result<Self, EngineError> {
        let mut flags = OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, direct_align.is_some());
        flags.set(OFlags::SYNC, sync);
        Ok(RequestTarget::Tree(FileLoopLocalFiles {
            directory: directory
                .again()
                .map_err(|e| EngineError::at("open the directory", directory.path(), e))?,
            trees,
            open: Vec::new(),
            flags,
            direct_align,
            path: String::new(),
        }))
    }

    /// A second handle on the same target, for another thread; `None` where state is per thread.
    pub fn share(&self) -> Option<RequestTarget> {
        match self {
            RequestTarget::File(file) => Some(RequestTarget::File(Arc::clone(file))),
            RequestTarget::Tree(_) | RequestTarget::Export(_) => None,
        }
    }

    /// Whether `kind` means something here.
    pub fn supports(&self, kind: OpKind) -> bool {
        match self {
            RequestTarget::File(_) => matches!(
                kind,
                OpKind::Read
                    | OpKind::Write
                    | OpKind::Append
                    | OpKind::Fsync
                    | OpKind::ReadWhole
                    | OpKind::Fdatasync
                    | OpKind::SyncRange
                    | OpKind::Discard
                    | OpKind::SyncAll
                    | OpKind::Close
            ),
            RequestTarget::Tree(_) | RequestTarget::Export(_) => {
                !matches!(kind, OpKind::SyncRange | OpKind::Discard)
            }
        }
    }

    /// Carries out `request` with `buffer`, and waits for its end. The error is the system's
    /// number.
    ///
    /// # Errors
    /// The system's error number; `EBADF` when a file should be open and none is.
    pub fn perform(&mut self, request: &OpRequest, buffer: &mut [u8]) -> Result<u64, i32> {
        let moved = match self {
            RequestTarget::Export(tree) => return tree.perform(request, buffer),
            RequestTarget::File(file) => match request.kind {
                OpKind::Append => data_file::append(file, &buffer[..request.len as usize]),
                OpKind::Close => data_file::close(file),
                _ => on_file(file, request, buffer),
            },
            RequestTarget::Tree(tree) => tree.perform(request, buffer),
        };
        moved.map_err(Errno::raw_os_error)
    }
}

fn on_file(file: &OwnedFd, request: &OpRequest, buffer: &mut [u8]) -> Result<u64, Errno> {
    let len = request.len as usize;
    match request.kind {
        OpKind::Read => Ok(rustix::io::pread(file, &mut buffer[..len], request.offset)? as u64),
        OpKind::Write => Ok(rustix::io::pwrite(file, &buffer[..len], request.offset)? as u64),
        OpKind::Append => {
            rustix::fs::seek(file, SeekFrom::End(0))?;
            Ok(rustix::io::write(file, &buffer[..len])? as u64)
        }
        OpKind::Fsync => rustix::fs::fsync(file).map(|()| 0),
        OpKind::ReadWhole => read_whole(file, buffer, len, None),
        OpKind::Fdatasync => rustix::fs::fdatasync(file).map(|()| 0),
        OpKind::SyncRange => {
            sync_file_range(file, request.offset, u64::from(request.len)).map(|()| 0)
        }
        OpKind::Discard => {
            // Block devices take it too, as a discard.
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let len = u64::from(request.len);
            rustix::fs::fallocate(file, mode, request.offset, len).map(|()| 0)
        }
        OpKind::SyncAll => {
            rustix::fs::sync();
            Ok(0)
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Reads to the end, the empty read included: that is how a program learns where the end is.
/// Around the page cache a read that ends inside a block is the last one, because none may begin
/// there.
fn read_whole(
    file: &OwnedFd,
    piece: &mut [u8],
    len: usize,
    direct_align: Option<u32>,
) -> Result<u64, Errno> {
    let ends_inside =
        |moved: u64| direct_align.is_some_and(|align| !moved.is_multiple_of(align.into()));
    let mut offset = 0;
    // Ends at the end of the file: the threads of a loop append at most once per turn, so they cannot
    // append faster than this reads for ever.
    loop {
        let moved = rustix::io::pread(file, &mut piece[..len], offset)? as u64;
        offset += moved;
        if moved == 0 || ends_inside(moved) {
            return Ok(offset);
        }
    }
}

impl FileLoopLocalFiles {
    fn perform(&mut self, request: &OpRequest, buffer: &mut [u8]) -> Result<u64, Errno> {
        match request.kind {
            OpKind::Open if self.trees.is_read_only(request.file) => {
                self.open(request.file, OFlags::RDONLY)
            }
            OpKind::Open => self.open(request.file, OFlags::RDWR),
            OpKind::Create => {
                if self.trees.looks_at_parents() {
                    self.look_at_parent(request.file)?;
                }
                self.open(request.file, OFlags::RDWR | OFlags::CREATE)
            }
            OpKind::Close => {
                let place = self.place(request.file)?;
                // Errors of close itself are not seen; a failed write-back shows at the fsync.
                drop(self.open.swap_remove(place));
                Ok(0)
            }
            OpKind::Delete => {
                self.trees.write_path(request.file, &mut self.path);
                let flags = AtFlags::empty();
                rustix::fs::unlinkat(&self.directory, self.path.as_str(), flags).map(|()| 0)
            }
            OpKind::Stat => {
                self.trees.write_path(request.file, &mut self.path);
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(&self.directory, self.path.as_str(), flags).map(|_| 0)
            }
            OpKind::SyncAll => {
                rustix::fs::sync();
                Ok(0)
            }
            _ => self.on_open_file(request, buffer),
        }
    }

    /// The check filebench makes before it creates a file; it would make a missing directory.
    fn look_at_parent(&mut self, file: u32) -> Result<(), Errno> {
        self.trees.write_path(file, &mut self.path);
        let parent = self.path.rsplit_once('/').map_or(".", |(parent, _)| parent);
        rustix::fs::statat(&self.directory, parent, AtFlags::empty()).map(|_| ())
    }

    fn open(&mut self, file: u32, flags: OFlags) -> Result<u64, Errno> {
        self.trees.write_path(file, &mut self.path);
        let open = open_beneath(&self.directory, self.path.as_str(), flags | self.flags)?;
        self.open.push((file, open));
        Ok(0)
    }

    fn place(&self, file: u32) -> Result<usize, Errno> {
        let found = self.open.iter().position(|(number, _)| *number == file);
        found.ok_or(Errno::BADF)
    }

    fn on_open_file(&self, request: &OpRequest, buffer: &mut [u8]) -> Result<u64, Errno> {
        let file = &self.open[self.place(request.file)?].1;
        match (request.kind, self.direct_align) {
            (OpKind::WriteWhole, _) => {
                let size_bytes = self.trees.designated_bytes(request.file);
                write_whole(file, &mut buffer[..request.len as usize], size_bytes)
            }
            (OpKind::Read, Some(align)) => {
                // Up to the end of a file that does not end on a block.
                let len = (request.len as usize).next_multiple_of(align as usize);
                let room = len.min(buffer.len());
                let moved = rustix::io::pread(file, &mut buffer[..room], request.offset)? as u64;
                Ok(moved.min(u64::from(request.len)))
            }
            (OpKind::ReadWhole, align) => read_whole(file, buffer, request.len as usize, align),
            _ => on_file(file, request, buffer),
        }
    }
}

/// Writes from the start to exactly `size_bytes`, in pieces as long as `piece`, no two alike.
fn write_whole(file: &OwnedFd, piece: &mut [u8], size_bytes: u64) -> Result<u64, Errno> {
    let mut offset = 0;
    while offset < size_bytes {
        let left = usize::try_from(size_bytes - offset).unwrap_or(usize::MAX);
        let len = piece.len().min(left);
        if offset > 0 {
            scramble(piece);
        }
        let moved = rustix::io::pwrite(file, &piece[..len], offset)? as u64;
        if moved == 0 {
            return Err(Errno::IO);
        }
        offset += moved;
    }
    Ok(offset)
}
