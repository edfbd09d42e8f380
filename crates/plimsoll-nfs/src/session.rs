// SPDX-License-Identifier: Apache-2.0
//! Names and attributes, through a library: one call at a time, each bounded in time.
//!
//! The library is written for asynchronous runtimes. Here the socket blocks instead, so everything
//! it awaits is ready at once. Its loops never end on a connection that was closed, which is
//! therefore made an error below them.

use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::nfs3_types::nfs3 as protocol;
use nfs3_client::nfs3_types::rpc::opaque_auth;
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::{Nfs3Client, RpcError};
use protocol::{Nfs3Option, Nfs3Result, diropargs3, ftype3, nfs_fh3, sattr3};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Component, Path};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::reply::{self, RpcProcedure};

use crate::wire::{NfsFileHandle, error_number};

/// How long a server may be silent in the middle of a call.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Longest reply of this kind that is believed: a full page of names is far below.
const REPLY_MAX: usize = 1 << 20;

/// The bits of the mark in front of a reply that are its length.
const LENGTH: u32 = u32::MAX >> 1;

/// Bytes of names asked for at once.
const NAMES_BYTES: u32 = 64 << 10;

/// Pages of names of one directory at most: with 64 KiB each, tens of millions of names.
const PAGES_MAX: u32 = 1 << 16;

/// A fault with the system's words.
pub(crate) fn fault(text: &str, source: &io::Error) -> io::Error {
    io::Error::new(source.kind(), format!("{text}: {source}"))
}

/// A socket behind the traits of the library. Replies are fetched whole and looked at before the
/// library sees a byte of them.
#[derive(Debug)]
pub(crate) struct RpcStream {
    socket: TcpStream,
    /// The procedure that the awaited reply answers.
    called: Option<RpcProcedure>,
    /// Bytes of a call that are sent while others of it are not.
    sent: usize,
    /// The reply, from the mark of its length on, and how much of it the library has taken.
    reply: Vec<u8>,
    taken: usize,
}

impl RpcStream {
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(RpcStream {
            socket,
            called: None,
            sent: 0,
            reply: Vec::new(),
            taken: 0,
        })
    }

    /// Fetches the next reply.
    fn fetch(&mut self) -> io::Result<()> {
        self.reply.clear();
        self.taken = 0;
        let mut mark = [0; 4];
        self.fill(&mut mark)?;
        let len = (u32::from_be_bytes(mark) & LENGTH) as usize;
        if len > REPLY_MAX {
            let text = "the server announces a reply that is too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut record = vec![0; len];
        self.fill(&mut record)?;
        let called = self.called.ok_or(io::ErrorKind::InvalidData)?;
        reply::check(called, &record)?;
        self.reply.extend(mark);
        self.reply.append(&mut record);
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut have = 0;
        while have < buffer.len() {
            match self.socket.read(&mut buffer[have..]) {
                Ok(0) => {
                    let text = "the server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Ok(n) => have += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let text = format!("the server said nothing for {} s", SILENCE_MAX.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsyncRead for RpcStream {
    async fn async_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.reply.len() {
            self.fetch()?;
        }
        let rest = &self.reply[self.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        Ok(len)
    }
}

impl AsyncWrite for RpcStream {
    async fn async_write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        // The library writes a call from its first byte on; what is behind that is the rest of it.
        if self.sent == 0 {
            self.called = RpcProcedure::of(buffer);
        }
        match self.socket.write(buffer)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            n => {
                self.sent = if n == buffer.len() { 0 } else { self.sent + n };
                Ok(n)
            }
        }
    }
}

/// The result of what is ready at once, because the socket blocks.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a socket that blocks is never pending"),
    }
}

/// The attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfsAttributes {
    /// Its size.
    pub size_bytes: u64,
    /// Bytes that it occupies on the medium.
    pub held_bytes: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is an ordinary file.
    pub is_file: bool,
}

impl NfsAttributes {
    fn of(found: &protocol::fattr3) -> Self {
        NfsAttributes {
            size_bytes: found.size,
            held_bytes: found.used,
            is_directory: found.type_ == ftype3::NF3DIR,
            is_file: found.type_ == ftype3::NF3REG,
        }
    }
}

/// A connection for names and attributes.
#[derive(Debug)]
pub struct NfsSession {
    client: Nfs3Client<RpcStream>,
    root: NfsFileHandle,
}

impl NfsSession {
    pub(crate) fn new(
        stream: RpcStream,
        credential: opaque_auth<'static>,
        root: NfsFileHandle,
    ) -> Self {
        NfsSession {
            client: Nfs3Client::new_with_auth(stream, credential, opaque_auth::default()),
            root,
        }
    }

    /// Bytes of a read and of a write that the server takes at most.
    pub(crate) fn transfer_limits(&mut self, root: &NfsFileHandle) -> io::Result<(u32, u32)> {
        let args = protocol::FSINFO3args { fsroot: fh(root) };
        let found = take(now(self.client.fsinfo(&args)))?;
        Ok((found.rtmax, found.wtmax))
    }

    pub(crate) fn room(&mut self, root: &NfsFileHandle) -> io::Result<NfsExportSpace> {
        let args = protocol::FSSTAT3args { fsroot: fh(root) };
        let found = take(now(self.client.fsstat(&args)))?;
        Ok(NfsExportSpace {
            size_bytes: found.tbytes,
            free_bytes: found.abytes,
        })
    }

    /// The file of a name in a directory.
    ///
    /// # Errors
    /// The server's refusal as the system's error; else the connection is broken.
    pub fn find(
        &mut self,
        directory: &NfsFileHandle,
        name: &str,
    ) -> io::Result<(NfsFileHandle, NfsAttributes)> {
        let what = at(directory, name);
        let found = take(now(self.client.lookup(&protocol::LOOKUP3args { what })))?;
        let handle = own(&found.object)?;
        match found.obj_attributes {
            Nfs3Option::Some(attributes) => Ok((handle, NfsAttributes::of(&attributes))),
            Nfs3Option::None => Ok((handle, self.look(&handle)?)),
        }
    }

    /// The file of a path below the export's root.
    ///
    /// # Errors
    /// As [`NfsSession::find`]; when the path leads upwards.
    pub fn walk(&mut self, path: &Path) -> io::Result<(NfsFileHandle, NfsAttributes)> {
        let mut here = self.root;
        let mut attributes = None;
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name.to_str(),
                Component::RootDir | Component::CurDir => continue,
                Component::ParentDir | Component::Prefix(_) => None,
            };
            let name = name.ok_or(io::ErrorKind::InvalidInput)?;
            let (handle, found) = self.find(&here, name)?;
            (here, attributes) = (handle, Some(found));
        }
        match attributes {
            Some(attributes) => Ok((here, attributes)),
            None => Ok((here, self.look(&here)?)),
        }
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn look(&mut self, file: &NfsFileHandle) -> io::Result<NfsAttributes> {
        let args = protocol::GETATTR3args { object: fh(file) };
        match now(self.client.getattr(&args)).map_err(broken)? {
            Nfs3Result::Ok(found) => Ok(NfsAttributes::of(&found.obj_attributes)),
            Nfs3Result::Err((status, _)) => Err(refused(status)),
        }
    }

    /// Makes a file, or gives that of the name; with `anew`, one that is there is an error.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn create(
        &mut self,
        directory: &NfsFileHandle,
        name: &str,
        anew: bool,
    ) -> io::Result<(NfsFileHandle, NfsAttributes)> {
        let attributes = sattr3 {
            mode: Nfs3Option::Some(0o644),
            ..sattr3::default()
        };
        let how = match anew {
            true => protocol::createhow3::GUARDED(attributes),
            false => protocol::createhow3::UNCHECKED(attributes),
        };
        let where_ = at(directory, name);
        let args = protocol::CREATE3args { where_, how };
        let made = take(now(self.client.create(&args)))?;
        match (made.obj, made.obj_attributes) {
            (Nfs3Option::Some(handle), Nfs3Option::Some(attributes)) => {
                Ok((own(&handle)?, NfsAttributes::of(&attributes)))
            }
            _ => self.find(directory, name),
        }
    }

    /// Sets the size of a file.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn resize(&mut self, file: &NfsFileHandle, bytes: u64) -> io::Result<()> {
        let args = protocol::SETATTR3args {
            object: fh(file),
            new_attributes: sattr3 {
                size: Nfs3Option::Some(bytes),
                ..sattr3::default()
            },
            guard: Nfs3Option::None,
        };
        take(now(self.client.setattr(&args))).map(drop)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn make_directory(
        &mut self,
        directory: &NfsFileHandle,
        name: &str,
    ) -> io::Result<NfsFileHandle> {
        let args = protocol::MKDIR3args {
            where_: at(directory, name),
            attributes: sattr3 {
                mode: Nfs3Option::Some(0o755),
                ..sattr3::default()
            },
        };
        match take(now(self.client.mkdir(&args)))?.obj {
            Nfs3Option::Some(handle) => own(&handle),
            Nfs3Option::None => Ok(self.find(directory, name)?.0),
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn remove(&mut self, directory: &NfsFileHandle, name: &str) -> io::Result<()> {
        let object = at(directory, name);
        take(now(self.client.remove(&protocol::REMOVE3args { object }))).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn remove_directory(&mut self, directory: &NfsFileHandle, name: &str) -> io::Result<()> {
        let object = at(directory, name);
        take(now(self.client.rmdir(&protocol::RMDIR3args { object }))).map(drop)
    }

    /// Gives a file or directory another name in the same directory.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn rename(&mut self, directory: &NfsFileHandle, from: &str, to: &str) -> io::Result<()> {
        let args = protocol::RENAME3args {
            from: at(directory, from),
            to: at(directory, to),
        };
        take(now(self.client.rename(&args))).map(drop)
    }

    /// The names in a directory, without `.` and `..`.
    ///
    /// # Errors
    /// As [`NfsSession::find`]; when there are more than anyone makes.
    pub fn list(&mut self, directory: &NfsFileHandle) -> io::Result<Vec<String>> {
        let mut entries = Vec::new();
        let mut args = protocol::READDIR3args {
            dir: fh(directory),
            cookie: 0,
            cookieverf: protocol::cookieverf3::default(),
            count: NAMES_BYTES,
        };
        for _ in 0..PAGES_MAX {
            let page = take(now(self.client.readdir(&args)))?;
            args.cookieverf = page.cookieverf;
            let names = page.reply.entries.into_inner();
            let is_last = page.reply.eof || names.is_empty();
            for entry in names {
                args.cookie = entry.cookie;
                match String::from_utf8(entry.name.0.into_owned()) {
                    Ok(name) if name != "." && name != ".." => entries.push(name),
                    // A name that is no text is none of ours.
                    _ => {}
                }
            }
            if is_last {
                return Ok(entries);
            }
        }
        Err(io::Error::other("a directory with too many names"))
    }

    /// Writes a short text durably into a file that must not be there yet.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn write_new(
        &mut self,
        directory: &NfsFileHandle,
        name: &str,
        text: &str,
    ) -> io::Result<()> {
        let (file, _) = self.create(directory, name, true)?;
        let data = text.as_bytes();
        let args = protocol::WRITE3args {
            file: fh(&file),
            offset: 0,
            count: u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            stable: protocol::stable_how::FILE_SYNC,
            data: Opaque::borrowed(data),
        };
        let written = take(now(self.client.write(&args)))?;
        match written.count as usize == data.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// The first bytes of a file as text, at most `limit`.
    ///
    /// # Errors
    /// As [`NfsSession::find`].
    pub fn read_short(&mut self, file: &NfsFileHandle, limit: u32) -> io::Result<String> {
        let args = protocol::READ3args {
            file: fh(file),
            offset: 0,
            count: limit,
        };
        let found = take(now(self.client.read(&args)))?;
        Ok(String::from_utf8_lossy(&found.data).into_owned())
    }
}

fn fh(handle: &NfsFileHandle) -> nfs_fh3 {
    nfs_fh3 {
        data: Opaque::owned(handle.bytes().to_vec()),
    }
}

fn own(handle: &nfs_fh3) -> io::Result<NfsFileHandle> {
    let text = "the server gave a handle that is too long";
    NfsFileHandle::new(&handle.data).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

fn at<'a>(directory: &NfsFileHandle, name: &'a str) -> diropargs3<'a> {
    diropargs3 {
        dir: fh(directory),
        name: name.as_bytes().into(),
    }
}

/// The server's result, or its status as the system's error.
fn take<T, E>(result: Result<Nfs3Result<T, E>, RpcError>) -> io::Result<T> {
    match result.map_err(broken)? {
        Nfs3Result::Ok(value) => Ok(value),
        Nfs3Result::Err((status, _)) => Err(refused(status)),
    }
}

fn refused(status: protocol::nfsstat3) -> io::Error {
    io::Error::from_raw_os_error(error_number(status as u32))
}

fn broken(error: RpcError) -> io::Error {
    match error {
        RpcError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

/// Room of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfsExportSpace {
    /// Size of the file system.
    pub size_bytes: u64,
    /// Bytes of it that we may use.
    pub free_bytes: u64,
}
