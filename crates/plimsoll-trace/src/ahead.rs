// SPDX-License-Identifier: Apache-2.0
//! A file read on another thread, a few pieces ahead of who understands them.
//!
//! The system's copying of a plain file and the decoding of a compressed one take as long as making
//! sense of it, or longer; on two processors they are done at once. Pieces come in their order and
//! their memory comes back, so that it is bounded.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// Room in front of what a piece holds: for what is left of the piece before.
pub(crate) const ROOM_BYTES: usize = 256 << 10;
/// Most bytes of a piece. A few pieces fit into the private cache of a processor.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are being read, or wait. Who understands them holds another one.
const PIECES: usize = 3;

/// A source that is being read on a thread of its own. The thread ends with the source, or with the
/// piece that it is at when this is dropped.
pub(crate) struct ReadAhead {
    filled: Receiver<ReadAheadChunk>,
    empty: Sender<Vec<u8>>,
    reader: Option<JoinHandle<()>>,
}

/// The next bytes of a source.
pub(crate) struct ReadAheadChunk {
    /// They lie from [`ROOM_BYTES`] on.
    pub(crate) bytes: Vec<u8>,
    /// Where they end.
    pub(crate) end: usize,
    /// Why nothing comes behind them, if so.
    pub(crate) last: Option<io::Result<()>>,
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").finish_non_exhaustive()
    }
}

impl ReadAhead {
    /// Reads `source` ahead from here on. It is given back where there is but one processor, or no
    /// thread to be had.
    pub(crate) fn of(source: Box<dyn Read + Send>) -> Result<ReadAhead, Box<dyn Read + Send>> {
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
                pieces(source, &taken, &give);
            }
        });
        let Ok(reader) = reader else {
            return Err(source);
        };
        hand_over.send(source).map_err(|returned| returned.0)?;
        Ok(ReadAhead {
            filled,
            empty,
            reader: Some(reader),
        })
    }

    /// The next piece; not to be asked for behind the last one.
    pub(crate) fn next(&mut self) -> ReadAheadChunk {
        if let Ok(piece) = self.filled.recv() {
            return piece;
        }
        // Every end comes with a piece, so the reader came to none.
        match self.reader.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => ReadAheadChunk {
                bytes: Vec::new(),
                end: 0,
                last: Some(Err(io::Error::other("its reader is gone"))),
            },
        }
    }

    /// Gives back the memory of a piece that was understood, or as much as one of its own.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        let fits = bytes.len() == ROOM_BYTES + PIECE_BYTES;
        // A reader that has ended needs no more.
        let _ = self.empty.send(if fits { bytes } else { fresh() });
    }
}

fn fresh() -> Vec<u8> {
    vec![0; ROOM_BYTES + PIECE_BYTES]
}

/// Reads until the end, an error, or until the reader is gone.
fn pieces(
    mut source: Box<dyn Read + Send>,
    empty: &Receiver<Vec<u8>>,
    give: &Sender<ReadAheadChunk>,
) {
    while let Ok(mut bytes) = empty.recv() {
        let (mut end, mut last) = (ROOM_BYTES, None);
        while end < bytes.len() && last.is_none() {
            match source.read(&mut bytes[end..]) {
                Ok(0) => last = Some(Ok(())),
                Ok(n) => end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => last = Some(Err(error)),
            }
        }
        let has_ended = last.is_some();
        if give.send(ReadAheadChunk { bytes, end, last }).is_err() || has_ended {
            return;
        }
    }
}
