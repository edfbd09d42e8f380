// SPDX-License-Identifier: Apache-2.0
//! Uncommitted writes: kept until a COMMIT, because the server may lose them.
//!
//! A kernel keeps such data in its page cache. Here they have a fixed room, in two halves: what was
//! answered before the last commit was sent, and what was answered since. When the younger half is
//! full, a commit is due.

/// Something that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NfsUncommittedRange {
    offset: u64,
    len: u32,
}

#[derive(Debug, Default)]
struct NfsUncommittedBatch {
    pieces: Vec<NfsUncommittedRange>,
    /// The data of all pieces, one behind the other.
    data: Vec<u8>,
}

/// Data that are not durable, in the order in which they were answered.
#[derive(Debug)]
pub(super) struct NfsUncommittedWrites {
    older: NfsUncommittedBatch,
    younger: NfsUncommittedBatch,
    /// Bytes a half may have.
    room: usize,
    /// Bytes on their way, which will need room.
    promised: usize,
    /// Whether the older half waits for a commit that was sent.
    sealed: bool,
}

impl NfsUncommittedWrites {
    /// With `room` bytes for each half, of which `in_flight` may be on their way at once.
    pub(super) fn new(room: usize, in_flight: usize) -> Self {
        // A half that is begun anew must hold all that is on its way.
        let room = room.max(2 * in_flight);
        let half = || NfsUncommittedBatch {
            pieces: Vec::with_capacity(room / 4096 + 1),
            data: Vec::with_capacity(room),
        };
        NfsUncommittedWrites {
            older: half(),
            younger: half(),
            room,
            promised: 0,
            sealed: false,
        }
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.older.pieces.is_empty() && self.younger.pieces.is_empty()
    }

    /// Promises room for a write; `false` when there is none before a commit.
    pub(super) fn promise(&mut self, len: u32) -> bool {
        let whole = self.younger.data.len() + self.promised + len as usize;
        if whole > self.room {
            return false;
        }
        self.promised += len as usize;
        true
    }

    /// A promise was not needed.
    pub(super) fn release(&mut self, len: u32) {
        self.promised = self.promised.saturating_sub(len as usize);
    }

    /// Keeps what was written with room that was promised.
    pub(super) fn keep(&mut self, offset: u64, data: &[u8]) {
        let Ok(len) = u32::try_from(data.len()) else {
            return;
        };
        self.release(len);
        self.younger
            .pieces
            .push(NfsUncommittedRange { offset, len });
        self.younger.data.extend_from_slice(data);
    }

    /// A commit is sent: it is for the older half, and when that is empty for everything that is
    /// kept now. Returns whether its end is reported by [`NfsUncommittedWrites::committed`]; a
    /// commit before it must have ended first.
    pub(super) fn seal(&mut self) -> bool {
        if self.sealed {
            return false;
        }
        if self.older.pieces.is_empty() {
            std::mem::swap(&mut self.older, &mut self.younger);
        }
        self.sealed = true;
        true
    }

    /// The commit that sealed the older half was answered, and is good.
    pub(super) fn committed(&mut self) {
        self.older.pieces.clear();
        self.older.data.clear();
        self.sealed = false;
    }

    /// The commit failed or the server forgot: the older half stays.
    pub(super) fn unseal(&mut self) {
        self.sealed = false;
    }

    /// Everything is durable, or given up.
    pub(super) fn clear(&mut self) {
        for half in [&mut self.older, &mut self.younger] {
            half.pieces.clear();
            half.data.clear();
        }
        self.sealed = false;
    }

    /// The piece of this number, from the oldest: where it was written, and what.
    pub(super) fn piece(&self, number: usize) -> Option<(u64, &[u8])> {
        let (half, number) = match number.checked_sub(self.older.pieces.len()) {
            None => (&self.older, number),
            Some(number) => (&self.younger, number),
        };
        let piece = half.pieces.get(number)?;
        let before = half.pieces[..number].iter().map(|p| p.len as usize);
        let start: usize = before.sum();
        let data = half.data.get(start..start + piece.len as usize)?;
        Some((piece.offset, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(kept: &NfsUncommittedWrites) -> Vec<(u64, Vec<u8>)> {
        (0..)
            .map_while(|n| kept.piece(n))
            .map(|(offset, data)| (offset, data.to_vec()))
            .collect()
    }

    #[test]
    fn a_commit_is_for_what_was_answered_before_it() {
        let mut all = NfsUncommittedWrites::new(100, 10);
        assert!(all.promise(3) && all.promise(2));
        all.keep(0, b"abc");
        assert!(all.seal());
        all.keep(7, b"de");
        assert!(!all.seal(), "one at a time");
        assert_eq!(kept(&all), [(0, b"abc".to_vec()), (7, b"de".to_vec())]);
        all.committed();
        assert_eq!(kept(&all), [(7, b"de".to_vec())]);
        assert!(all.seal());
        all.unseal();
        assert!(all.promise(1));
        all.keep(9, b"f");
        assert!(all.seal(), "the next commit is for the same");
        all.committed();
        assert_eq!(kept(&all), [(9, b"f".to_vec())]);
        all.clear();
        assert!(all.is_empty());
    }

    #[test]
    fn room_is_promised_before_it_is_used() {
        let mut all = NfsUncommittedWrites::new(10, 4);
        assert!(all.promise(6) && !all.promise(5) && all.promise(4));
        all.keep(0, &[1; 6]);
        assert!(!all.promise(1));
        // The new half holds what is on its way.
        assert!(all.seal() && all.promise(6) && !all.promise(1));
        all.release(6);
        all.keep(6, &[2; 4]);
        assert!(all.promise(6));
    }
}
