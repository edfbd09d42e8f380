// SPDX-License-Identifier: Apache-2.0
//! The bytes of READ, WRITE and COMMIT (RFC 1813) in remote calls over TCP (RFC 5531).
//!
//! Replies come from a foreign machine: every length in them is checked against what is there
//! before it is used, and nothing is allocated for them.

use std::fmt;

/// Longest file handle of NFSv3.
pub const HANDLE_MAX: usize = 64;

/// Most bytes of a reply besides the data of a read: header, verifier of the server (400 at most),
/// attributes.
pub const REPLY_EXTRA: usize = 1024;

/// The last fragment of a record.
const LAST: u32 = 1 << 31;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const NFS_PROGRAM: u32 = 100_003;
const NFS_VERSION: u32 = 3;

/// Longest verifier of a server (RFC 5531).
const VERIFIER_MAX: u32 = 400;

/// A server's handle of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NfsFileHandle {
    bytes: [u8; HANDLE_MAX],
    len: u8,
}

impl NfsFileHandle {
    /// From the bytes a server gave; `None` when they are more than [`HANDLE_MAX`].
    pub fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let len = u8::try_from(from.len()).ok()?;
        Some(NfsFileHandle { bytes, len })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for NfsFileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} bytes)", self.len)
    }
}

/// How durable a write is when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StableHow {
    /// Not before a commit.
    Unstable,
    /// Data and what is needed to find them.
    Data,
    /// Data and all attributes.
    File,
}

impl StableHow {
    fn code(self) -> u32 {
        match self {
            StableHow::Unstable => 0,
            StableHow::Data => 1,
            StableHow::File => 2,
        }
    }

    fn of(code: u32) -> Option<Self> {
        match code {
            0 => Some(StableHow::Unstable),
            1 => Some(StableHow::Data),
            2 => Some(StableHow::File),
            _ => None,
        }
    }
}

/// A call. Any of these may be sent twice without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcRequest {
    /// Bytes at an offset.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// The data of the call, at an offset.
    Write {
        /// Where.
        offset: u64,
        /// How durable.
        stable: StableHow,
    },
    /// Everything written to the file made durable.
    Commit,
}

impl RpcRequest {
    fn procedure(self) -> u32 {
        match self {
            RpcRequest::Read { .. } => 6,
            RpcRequest::Write { .. } => 7,
            RpcRequest::Commit => 21,
        }
    }
}

/// A server's reply to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcReply<'a> {
    /// Data of a read.
    Read {
        /// The bytes.
        data: &'a [u8],
        /// Whether they reach to the end of the file.
        end: bool,
    },
    /// Bytes were written.
    Written {
        /// How many.
        count: u32,
        /// How durable they are.
        committed: StableHow,
        /// A value that changes when the server forgets writes that are not durable.
        verifier: [u8; 8],
    },
    /// Earlier writes are durable.
    Committed {
        /// As for a write.
        verifier: [u8; 8],
    },
    /// It failed; the system's error number.
    Failed(i32),
}

/// Why bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcReplyError(pub &'static str);

impl fmt::Display for RpcReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server sent an invalid reply: {}", self.0)
    }
}

impl From<RpcReplyError> for std::io::Error {
    fn from(malformed: RpcReplyError) -> Self {
        std::io::Error::new(std::io::ErrorKind::InvalidData, malformed.to_string())
    }
}

/// Who we say we are (`AUTH_SYS`), with the empty verifier behind it.
pub fn credential(uid: u32, gid: u32) -> Vec<u8> {
    const NAME: &[u8; 8] = b"plimsoll";
    let mut bytes = Vec::with_capacity(64);
    let len = 4 + 4 + 8 + 4 + 4 + 4;
    // Flavour, length of the body, stamp, length of the name.
    for word in [1, len, 0, 8] {
        put(&mut bytes, word);
    }
    bytes.extend_from_slice(NAME);
    // No further groups; a verifier of no flavour and no length.
    for word in [uid, gid, 0, 0, 0] {
        put(&mut bytes, word);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, word: u32) {
    bytes.extend_from_slice(&word.to_be_bytes());
}

/// Bytes of a call besides its data, at most.
pub const CALL_EXTRA: usize = 256;

/// Appends a call as one record. `data` is what a write writes, and is ignored otherwise.
///
/// # Panics
/// When the data are longer than a record can be (2 GiB).
pub fn push_call(
    bytes: &mut Vec<u8>,
    number: u32,
    credential: &[u8],
    handle: &NfsFileHandle,
    ask: RpcRequest,
    data: &[u8],
) {
    let start = bytes.len();
    let header = [
        0,
        number,
        CALL,
        RPC_VERSION,
        NFS_PROGRAM,
        NFS_VERSION,
        ask.procedure(),
    ];
    for word in header {
        put(bytes, word);
    }
    bytes.extend_from_slice(credential);
    let name = handle.bytes();
    put(bytes, u32::from(handle.len));
    bytes.extend_from_slice(name);
    pad(bytes, name.len());
    match ask {
        RpcRequest::Read { offset, len } => {
            bytes.extend_from_slice(&offset.to_be_bytes());
            put(bytes, len);
        }
        RpcRequest::Write { offset, stable } => {
            let len = u32::try_from(data.len()).expect("a write fits a record");
            bytes.extend_from_slice(&offset.to_be_bytes());
            for word in [len, stable.code(), len] {
                put(bytes, word);
            }
            bytes.extend_from_slice(data);
            pad(bytes, data.len());
        }
        RpcRequest::Commit => {
            // From the start to the end.
            bytes.extend_from_slice(&[0; 12]);
        }
    }
    let len = u32::try_from(bytes.len() - start - 4).expect("a call fits a record");
    bytes[start..start + 4].copy_from_slice(&(len | LAST).to_be_bytes());
}

fn pad(bytes: &mut Vec<u8>, len: usize) {
    let padded = bytes.len() + len.next_multiple_of(4) - len;
    bytes.resize(padded, 0);
}

/// A record at the start of what has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcRecordScan {
    /// More must come.
    Nothing,
    /// The record is in these bytes; the next begins at `next`.
    Record {
        /// Where it begins.
        start: usize,
        /// Behind its last byte.
        end: usize,
        /// Where the next one begins.
        next: usize,
    },
}

/// Looks for one whole record at `from` of `bytes`, at most `limit` bytes long. Fragments of one are
/// moved together.
///
/// # Errors
/// When the record is longer than `limit`, or has a fragment without bytes that is not the last.
pub fn record(bytes: &mut [u8], from: usize, limit: usize) -> Result<RpcRecordScan, RpcReplyError> {
    let start = from + 4;
    let (mut end, mut at) = (start, from);
    // Look first: only a whole record may be moved together.
    let mut length = 0;
    loop {
        let Some(mark) = word_at(bytes, at) else {
            return Ok(RpcRecordScan::Nothing);
        };
        let len = (mark & !LAST) as usize;
        if len == 0 && mark & LAST == 0 {
            return Err(RpcReplyError("an empty fragment"));
        }
        length += len;
        if length > limit {
            return Err(RpcReplyError("a record that is too long"));
        }
        at += 4 + len;
        if bytes.len() < at {
            return Ok(RpcRecordScan::Nothing);
        }
        if mark & LAST != 0 {
            break;
        }
    }
    let next = at;
    at = from;
    while at < next {
        let len = word_at(bytes, at).map_or(0, |mark| (mark & !LAST) as usize);
        bytes.copy_within(at + 4..at + 4 + len, end);
        end += len;
        at += 4 + len;
    }
    Ok(RpcRecordScan::Record { start, end, next })
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// The number of the call that a record answers.
pub fn number_of(record: &[u8]) -> Option<u32> {
    word_at(record, 0)
}

/// Reads the answer to a call from its record.
///
/// # Errors
/// When the record is no reply, is cut off, the server does not take our calls, or it claims to
/// have moved more than was asked.
pub fn answer<'a>(
    record: &'a [u8],
    ask: RpcRequest,
    asked_bytes: u32,
) -> Result<RpcReply<'a>, RpcReplyError> {
    let mut reader = RpcReplyReader::behind_number(record);
    reader.accepted()?;
    let status = reader.word()?;
    if status != 0 {
        return Ok(RpcReply::Failed(error_number(status)));
    }
    match ask {
        RpcRequest::Read { .. } => {
            reader.attributes()?;
            let count = reader.word()?;
            let end = reader.word()? != 0;
            let len = reader.word()?;
            if count != len || len > asked_bytes {
                return Err(RpcReplyError("a read of another length than it says"));
            }
            let data = reader.bytes(len as usize)?;
            Ok(RpcReply::Read { data, end })
        }
        RpcRequest::Write { .. } => {
            reader.change()?;
            let count = reader.word()?;
            let committed = StableHow::of(reader.word()?);
            let committed =
                committed.ok_or(RpcReplyError("a write that is durable in no known way"))?;
            if count > asked_bytes {
                return Err(RpcReplyError("more was written than asked"));
            }
            let verifier = reader.verifier()?;
            Ok(RpcReply::Written {
                count,
                committed,
                verifier,
            })
        }
        RpcRequest::Commit => {
            reader.change()?;
            let verifier = reader.verifier()?;
            Ok(RpcReply::Committed { verifier })
        }
    }
}

/// The fields of a reply, one after another.
pub(crate) struct RpcReplyReader<'a> {
    record: &'a [u8],
    at: usize,
}

impl<'a> RpcReplyReader<'a> {
    /// Of a record, without the number of its call.
    pub(crate) fn behind_number(record: &'a [u8]) -> Self {
        RpcReplyReader { record, at: 4 }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], RpcReplyError> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.record.get(self.at..end));
        let found = found.ok_or(RpcReplyError("it is cut off"))?;
        self.at += len;
        Ok(found)
    }

    pub(crate) fn word(&mut self) -> Result<u32, RpcReplyError> {
        let word = word_at(self.record, self.at).ok_or(RpcReplyError("it is cut off"))?;
        self.at += 4;
        Ok(word)
    }

    fn verifier(&mut self) -> Result<[u8; 8], RpcReplyError> {
        let bytes = self.bytes(8)?;
        bytes.try_into().map_err(|_| RpcReplyError("it is cut off"))
    }

    /// Bytes with their length in front, at most `limit` of them.
    pub(crate) fn opaque(&mut self, limit: usize) -> Result<(), RpcReplyError> {
        let len = self.word()? as usize;
        if len > limit {
            return Err(RpcReplyError("a length that is too long"));
        }
        self.bytes(len.next_multiple_of(4)).map(drop)
    }

    /// Passes over the header up to whether the call was denied, and of one that was not over the
    /// verifier; says whether it was accepted.
    fn is_accepted(&mut self) -> Result<bool, RpcReplyError> {
        if self.word()? != REPLY {
            return Err(RpcReplyError("it is a call"));
        }
        if self.word()? != 0 {
            return Ok(false);
        }
        self.word()?;
        let len = self.word()?;
        if len > VERIFIER_MAX {
            return Err(RpcReplyError("its verifier is too long"));
        }
        self.bytes((len as usize).next_multiple_of(4))?;
        Ok(true)
    }

    /// Passes over the header; says whether the call was accepted and carried out.
    pub(crate) fn is_carried_out(&mut self) -> Result<bool, RpcReplyError> {
        Ok(self.is_accepted()? && self.word()? == 0)
    }

    /// The header of a reply that was accepted and carried out.
    fn accepted(&mut self) -> Result<(), RpcReplyError> {
        if !self.is_accepted()? {
            return Err(RpcReplyError(
                "the call was denied (does the server take AUTH_SYS?)",
            ));
        }
        match self.word()? {
            0 => Ok(()),
            1 => Err(RpcReplyError("there is no NFS at this port")),
            2 => Err(RpcReplyError("the server does not speak version 3")),
            _ => Err(RpcReplyError("the server did not understand the call")),
        }
    }

    /// Attributes, if they are there.
    pub(crate) fn attributes(&mut self) -> Result<(), RpcReplyError> {
        if self.flag()? {
            self.bytes(84)?;
        }
        Ok(())
    }

    /// The attributes of a file before and after a change.
    fn change(&mut self) -> Result<(), RpcReplyError> {
        if self.flag()? {
            self.bytes(24)?;
        }
        self.attributes()
    }

    pub(crate) fn flag(&mut self) -> Result<bool, RpcReplyError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RpcReplyError("a flag that is neither on nor off")),
        }
    }
}

/// The system's error number of an NFS status.
pub fn error_number(status: u32) -> i32 {
    use rustix::io::Errno;
    let errno = match status {
        1 => Errno::PERM,
        2 => Errno::NOENT,
        6 => Errno::NXIO,
        13 => Errno::ACCESS,
        17 => Errno::EXIST,
        18 => Errno::XDEV,
        19 => Errno::NODEV,
        20 => Errno::NOTDIR,
        21 => Errno::ISDIR,
        22 => Errno::INVAL,
        27 => Errno::FBIG,
        28 => Errno::NOSPC,
        30 => Errno::ROFS,
        31 => Errno::MLINK,
        63 => Errno::NAMETOOLONG,
        66 => Errno::NOTEMPTY,
        69 => Errno::DQUOT,
        70 | 10_001 => Errno::STALE,
        10_004 => Errno::OPNOTSUPP,
        10_005 => Errno::MSGSIZE,
        10_008 => Errno::AGAIN,
        _ => Errno::IO,
    };
    errno.raw_os_error()
}

#[cfg(test)]
mod tests;
