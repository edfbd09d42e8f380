// SPDX-License-Identifier: Apache-2.0
//! A file read on another thread, a few pieces ahead of who understands them.
//!
//! The system's copying of a plain file and the decoding of a compressed one take as long as making
//! sense of it, or longer; on two processors they are done at once. Of a plain file, whose pieces can be
//! read in any order, who would have to wait for one reads one of the next in the meantime. Pieces come
//! in their order and their memory comes back, so that it is bounded.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// Room in front of what a piece holds: for what is left of the piece before.
pub(crate) const ROOM_BYTES: usize = 256 << 10;
/// What a piece holds at most. A few of them fit into the cache that a processor has for itself.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are being read, or wait. Who understands them holds another one.
const PIECES: usize = 3;
/// Pieces that who understands them reads while it waits for another one.
const OWN_PIECES: usize = 2;

/// A source that is being read on a thread of its own. The thread ends with the source, or with the
/// piece that it is at when this is dropped.
pub(crate) struct Ahead {
    filled: Receiver<Piece>,
    empty: Sender<Vec<u8>>,
    reader: Option<JoinHandle<()>>,
    shared: Option<Shared>,
}

/// What of a plain file is read by who understands it.
struct Shared {
    places: Arc<Places>,
    /// Number of the piece that is asked for next.
    wanted: u64,
    /// Pieces that were read here, by number. The others come from the thread, in their order.
    own: VecDeque<(u64, Piece)>,
    /// Memory for more of them.
    spare: Vec<Vec<u8>>,
}

/// A plain file whose pieces are handed out to whoever reads the next one.
struct Places {
    file: File,
    /// Where in it the first piece lies.
    from: u64,
    /// Number of the first piece that nobody reads yet.
    next: AtomicU64,
}

/// The next bytes of a source.
pub(crate) struct Piece {
    /// They lie from [`ROOM_BYTES`] on.
    pub(crate) bytes: Vec<u8>,
    /// Where they end.
    pub(crate) end: usize,
    /// Why nothing comes behind them, if so.
    pub(crate) last: Option<io::Result<()>>,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").finish_non_exhaustive()
    }
}

impl Ahead {
    /// Reads `source` ahead from here on. It is given back where there is but one processor, or no
    /// thread to be had.
    pub(crate) fn of(source: Box<dyn Read + Send>) -> Result<Ahead, Box<dyn Read + Send>> {
        Ahead::start(source, |source, bytes| {
            fill(bytes, |into, _| source.read(into))
        })
    }

    /// As [`Ahead::of`], of a file from this place on; `None` where that gives its source back.
    pub(crate) fn of_file(file: File, from: u64) -> Option<Ahead> {
        let next = AtomicU64::new(0);
        let places = Arc::new(Places { file, from, next });
        let ahead = Ahead::start(Arc::clone(&places), |places, bytes| {
            places.read(places.take(), bytes)
        });
        let mut ahead = ahead.ok()?;
        ahead.shared = Some(Shared::of(places));
        Some(ahead)
    }

    /// Starts the thread, which reads a piece of `source` after the other as `read` does.
    fn start<S: Send + 'static>(
        source: S,
        read: impl Fn(&mut S, Vec<u8>) -> Piece + Send + 'static,
    ) -> Result<Ahead, S> {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return Err(source);
        }
        let (give, filled) = mpsc::channel();
        let (empty, taken) = mpsc::channel();
        for _ in 0..PIECES {
            // The other end is in the hands of the closure below.
            let _ = empty.send(fresh());
        }
        let (hand_over, source_there) = mpsc::channel();
        let reader = thread::Builder::new().spawn(move || {
            if let Ok(source) = source_there.recv() {
                pieces(source, read, &taken, &give);
            }
        });
        let Ok(reader) = reader else {
            return Err(source);
        };
        hand_over.send(source).map_err(|returned| returned.0)?;
        Ok(Ahead {
            filled,
            empty,
            reader: Some(reader),
            shared: None,
        })
    }

    /// The next piece; not to be asked for behind the last one.
    pub(crate) fn next(&mut self) -> Piece {
        let filled = &self.filled;
        if let Some(shared) = &mut self.shared
            && let Some(piece) = shared.next(|| filled.try_recv().ok())
        {
            return piece;
        }
        if let Ok(piece) = self.filled.recv() {
            return piece;
        }
        // Every end is told by a piece, so the reader came to none.
        match self.reader.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => Piece {
                bytes: Vec::new(),
                end: 0,
                last: Some(Err(io::Error::other("its reader is gone"))),
            },
        }
    }

    /// Gives back the memory of a piece that was understood, or as much as one of its own.
    pub(crate) fn give_back(&mut self, bytes: Vec<u8>) {
        let fits = bytes.len() == ROOM_BYTES + PIECE_BYTES;
        let bytes = if fits { bytes } else { fresh() };
        match &mut self.shared {
            Some(shared) if shared.lacks() => shared.spare.push(bytes),
            // A reader that has ended needs no more.
            _ => drop(self.empty.send(bytes)),
        }
    }
}

impl Shared {
    fn of(places: Arc<Places>) -> Shared {
        Shared {
            places,
            wanted: 0,
            own: VecDeque::new(),
            spare: (0..OWN_PIECES).map(|_| fresh()).collect(),
        }
    }

    /// Whether it has given memory away.
    fn lacks(&self) -> bool {
        self.own.len() + self.spare.len() < OWN_PIECES
    }

    /// The piece that is wanted: one of those read here, what `filled` has, or one that is read now.
    /// `None` when there is nothing to do but wait for the thread.
    fn next(&mut self, filled: impl Fn() -> Option<Piece>) -> Option<Piece> {
        let wanted = self.wanted;
        self.wanted += 1;
        if let Some((_, piece)) = self.own.pop_front_if(|(number, _)| *number == wanted) {
            return Some(piece);
        }
        loop {
            // What was not taken here was taken by the thread, whose pieces come in their order.
            if let Some(piece) = filled() {
                return Some(piece);
            }
            let bytes = self.spare.pop()?;
            let number = self.places.take();
            let piece = self.places.read(number, bytes);
            if number == wanted {
                return Some(piece);
            }
            self.own.push_back((number, piece));
        }
    }
}

impl Places {
    /// The number of a piece that nobody reads yet.
    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn read(&self, number: u64, bytes: Vec<u8>) -> Piece {
        let from = self.from + number * PIECE_BYTES as u64;
        fill(bytes, |into, at| self.file.read_at(into, from + at as u64))
    }
}

fn fresh() -> Vec<u8> {
    vec![0; ROOM_BYTES + PIECE_BYTES]
}

/// Fills a piece by what `read` makes of its rest and of what is in it already.
fn fill(mut bytes: Vec<u8>, mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>) -> Piece {
    let (mut end, mut last) = (ROOM_BYTES, None);
    while end < bytes.len() && last.is_none() {
        match read(&mut bytes[end..], end - ROOM_BYTES) {
            Ok(0) => last = Some(Ok(())),
            Ok(n) => end += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => last = Some(Err(error)),
        }
    }
    Piece { bytes, end, last }
}

/// Reads until the end, an error, or nobody listens.
fn pieces<S>(
    mut source: S,
    read: impl Fn(&mut S, Vec<u8>) -> Piece,
    empty: &Receiver<Vec<u8>>,
    give: &Sender<Piece>,
) {
    while let Ok(bytes) = empty.recv() {
        let piece = read(&mut source, bytes);
        let has_ended = piece.last.is_some();
        if give.send(piece).is_err() || has_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A byte that tells its place.
    fn byte(at: usize) -> u8 {
        ((at * 7919) >> 8).to_le_bytes()[0]
    }

    #[test]
    fn pieces_of_a_file_come_in_order_however_slow_who_asks_is() {
        let length = 37 * PIECE_BYTES + 11;
        let whole: Vec<u8> = (0..length).map(byte).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&whole).unwrap();
        // In haste pieces are read here, at leisure they come from the thread.
        for leisure in [0, 20_000] {
            let from = 1000;
            let Some(mut ahead) = Ahead::of_file(file.try_clone().unwrap(), from as u64) else {
                writeln!(io::stderr(), "SKIPPED: pieces: there is but one processor").unwrap();
                return;
            };
            let mut found = Vec::new();
            loop {
                (0..leisure).for_each(|_| thread::yield_now());
                let piece = ahead.next();
                found.extend_from_slice(&piece.bytes[ROOM_BYTES..piece.end]);
                ahead.give_back(piece.bytes);
                if let Some(last) = piece.last {
                    last.unwrap();
                    break;
                }
            }
            assert!(found == whole[from..], "{leisure}");
        }
    }
}
