// SPDX-License-Identifier: Apache-2.0
//! Replies that the library reads, looked at before it does: it makes room for every length it finds,
//! so a length that the reply does not hold is refused here.
//!
//! Walked along are the calls of this crate, no others.

use crate::wire::{HANDLE_MAX, RpcReplyError, RpcReplyReader};

/// Programs, by their numbers.
const PORT_MAPPER: u32 = 100_000;
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;

/// Longest name of a file that a server may return (`NAME_MAX` of Linux is 255).
const NAME_MAX: usize = 4096;

/// A call, by program and procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RpcProcedure {
    program: u32,
    procedure: u32,
}

impl RpcProcedure {
    /// The procedure that a record calls; the mark of its length is in front.
    pub(crate) fn of(record: &[u8]) -> Option<RpcProcedure> {
        let word = |at: usize| {
            let bytes = record.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        Some(RpcProcedure {
            program: word(16)?,
            procedure: word(24)?,
        })
    }
}

/// Refuses a reply whose lengths go beyond it.
///
/// # Errors
/// With what is wrong.
pub(crate) fn check(called: RpcProcedure, record: &[u8]) -> Result<(), RpcReplyError> {
    let mut fields = RpcReplyReader::behind_number(record);
    if !fields.is_carried_out()? {
        return Ok(());
    }
    match (called.program, called.procedure) {
        (PORT_MAPPER, _) => Ok(()),
        (MOUNT, 1) => mounted(&mut fields),
        (NFS, procedure) => {
            // An error reply has no lengths.
            if fields.word()? != 0 {
                return Ok(());
            }
            of_nfs(&mut fields, procedure)
        }
        _ => Err(RpcReplyError("it answered a call that was not made")),
    }
}

/// A handle, and the ways to say who one is.
fn mounted(fields: &mut RpcReplyReader<'_>) -> Result<(), RpcReplyError> {
    if fields.word()? != 0 {
        return Ok(());
    }
    fields.opaque(HANDLE_MAX)?;
    let ways = fields.word()? as usize;
    fields.bytes(ways.saturating_mul(4)).map(drop)
}

fn of_nfs(fields: &mut RpcReplyReader<'_>, procedure: u32) -> Result<(), RpcReplyError> {
    match procedure {
        // GETATTR, SETATTR, WRITE, REMOVE, RMDIR, RENAME, FSSTAT, FSINFO and COMMIT have no lengths.
        1 | 2 | 7 | 12..=14 | 18 | 19 | 21 => Ok(()),
        // LOOKUP
        3 => fields.opaque(HANDLE_MAX),
        // READ
        6 => {
            fields.attributes()?;
            fields.bytes(8)?;
            fields.opaque(usize::MAX)
        }
        // CREATE, MKDIR
        8 | 9 => match fields.flag()? {
            true => fields.opaque(HANDLE_MAX),
            false => Ok(()),
        },
        // READDIR: behind a verifier, entries of number, name and cookie.
        16 => {
            fields.attributes()?;
            fields.bytes(8)?;
            // Bounded by the record: every turn takes some of it.
            while fields.flag()? {
                fields.bytes(8)?;
                fields.opaque(NAME_MAX)?;
                fields.bytes(8)?;
            }
            Ok(())
        }
        _ => Err(RpcReplyError("it answered a call that was not made")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn lengths_beyond_a_reply_are_refused_wherever_they_stand() {
        let huge = u32::MAX - 15;
        let of = |program, procedure| RpcProcedure { program, procedure };
        // Number, reply, accepted, no verifier, carried out, good.
        let good = [7, 1, 0, 0, 0, 0, 0];
        let with = |rest: &[u32]| record(&[&good[..], rest].concat());
        let nothing = [0; 3];
        for (called, reply) in [
            (of(NFS, 1), record(&[7, 1, 0, 0, huge, 0])),
            (of(MOUNT, 1), record(&[7, 1, 0, 0, 400, 0])),
            (
                of(PORT_MAPPER, 3),
                record(&[7, 0, 2, 100_000, 2, 3, 0, huge]),
            ),
            (of(MOUNT, 1), with(&[huge, 0])),
            (of(MOUNT, 1), with(&[65])),
            (of(MOUNT, 1), with(&[4, 9, huge])),
            (of(NFS, 3), with(&[huge])),
            (of(NFS, 6), with(&[0, 4, 0, huge])),
            (of(NFS, 6), with(&[0, 4, 0, 5, 0])),
            (of(NFS, 8), with(&[1, huge])),
            (of(NFS, 9), with(&[1, huge])),
            (
                of(NFS, 16),
                with(&[&nothing[..], &[1, 0, 5, huge]].concat()),
            ),
            (
                of(NFS, 16),
                with(&[&nothing[..], &[1, 0, 5, 1, 0, 0]].concat()),
            ),
            (of(NFS, 17), with(&[0])),
            (of(100_021, 1), with(&[huge])),
        ] {
            assert!(check(called, &reply).is_err(), "{called:?} {reply:?}");
        }
        for (called, reply) in [
            (of(MOUNT, 1), with(&[4, 9, 1, 1])),
            (of(NFS, 3), with(&[4, 9, 0, 0])),
            (of(NFS, 6), with(&[0, 5, 1, 5, 0, 0])),
            (
                of(NFS, 16),
                with(&[&nothing[..], &[1, 0, 5, 1, 0, 0, 1, 0, 1]].concat()),
            ),
            (of(NFS, 3), record(&[7, 1, 0, 0, 0, 0, 2, 0])),
            (of(NFS, 3), record(&[7, 1, 0, 0, 0, 3])),
            (of(NFS, 3), record(&[7, 1, 1, 1, 5])),
        ] {
            assert_eq!(check(called, &reply), Ok(()), "{called:?} {reply:?}");
        }
    }
}
