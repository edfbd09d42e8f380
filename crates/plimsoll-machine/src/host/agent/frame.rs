// SPDX-License-Identifier: Apache-2.0
//! Frames: messages in a stream of bytes.
//!
//! Four letters, the length in four bytes, and the message. The letters reveal a stream that is not
//! ours (a greeting that a login script prints) before a length is made of it. Memory grows with
//! the bytes that came, never with a length that a peer claims: a message that is read takes at most
//! sixteen times its bytes.

/// How every frame begins.
const BEGIN: [u8; 4] = *b"plim";

/// Letters and length.
const HEAD: usize = 8;

/// Longest message: as long as the longest line of a run folder, since the result of a trial goes
/// over the wire as it goes into one. Each histogram has at most 2048 buckets in use, some 30 kB;
/// most results have some hundred kilobytes, those of series with many phases some megabytes.
pub const MESSAGE_MAX: usize = 64 << 20;

/// The fault of a stream of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It does not begin as ours do.
    #[error("not a frame of a plimsoll agent")]
    Foreign,
    /// It is longer than any of ours.
    #[error("frame too long: {0} bytes, at most {MESSAGE_MAX}")]
    TooLong(usize),
}

/// A message as a frame.
///
/// # Errors
/// When it is longer than [`MESSAGE_MAX`].
pub fn framed(message: &[u8]) -> Result<Vec<u8>, FrameError> {
    let too_long = FrameError::TooLong(message.len());
    let length = u32::try_from(message.len()).map_err(|_| too_long)?;
    if message.len() > MESSAGE_MAX {
        return Err(too_long);
    }
    let mut bytes = Vec::with_capacity(HEAD + message.len());
    bytes.extend(BEGIN);
    bytes.extend(length.to_be_bytes());
    bytes.extend(message);
    Ok(bytes)
}

/// Bytes that came, as frames and, before the first one, as lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFrameParser {
    bytes: Vec<u8>,
    longest: usize,
}

impl Default for AgentFrameParser {
    fn default() -> Self {
        AgentFrameParser::at_most(MESSAGE_MAX)
    }
}

impl AgentFrameParser {
    /// One that takes no message longer than this.
    pub fn at_most(longest: usize) -> Self {
        AgentFrameParser {
            bytes: Vec::new(),
            longest,
        }
    }

    /// From now on takes messages as long as ours may be.
    pub fn trust(&mut self) {
        self.longest = MESSAGE_MAX;
    }

    /// Adds bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Bytes that are waiting for the rest of their frame or line.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a message is whole, or can be seen to be wrong.
    pub fn has_message(&self) -> bool {
        let begin = self.bytes.len().min(BEGIN.len());
        let Some(&[a, b, c, d]) = self.bytes.get(BEGIN.len()..HEAD) else {
            return self.bytes[..begin] != BEGIN[..begin];
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        length > self.longest || self.bytes.len() >= HEAD + length
    }

    /// Takes out the next whole message; `None` when more bytes are needed.
    ///
    /// # Errors
    /// When the stream is not ours, as soon as that can be seen. Nothing more can be read from it.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let begin = self.bytes.len().min(BEGIN.len());
        if self.bytes[..begin] != BEGIN[..begin] {
            return Err(FrameError::Foreign);
        }
        let Some(&[a, b, c, d]) = self.bytes.get(BEGIN.len()..HEAD) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.longest {
            return Err(FrameError::TooLong(length));
        }
        if self.bytes.len() < HEAD + length {
            return Ok(None);
        }
        let message = self.bytes[HEAD..HEAD + length].to_vec();
        self.bytes.drain(..HEAD + length);
        Ok(Some(message))
    }

    /// Takes out the next whole line, without its end.
    pub(super) fn next_line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let messages: [&[u8]; 3] = [b"one", b"", b"three"];
        let stream: Vec<u8> = messages.iter().flat_map(|m| framed(m).unwrap()).collect();
        for piece in 1..=stream.len() {
            let mut frames = AgentFrameParser::default();
            let mut out = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.push(bytes);
                while let Some(message) = frames.next_message().unwrap() {
                    out.push(message);
                }
            }
            assert_eq!(out, messages, "pieces of {piece}");
            assert_eq!(frames.waiting(), 0);
        }
    }

    #[test]
    fn what_is_not_ours_is_told_at_its_first_bytes() {
        for (bytes, expect) in [
            (&b"Welcome"[..], FrameError::Foreign),
            (b"plums", FrameError::Foreign),
            (b"x", FrameError::Foreign),
            (b"plim\xff\xff\xff\xff", FrameError::TooLong(0xffff_ffff)),
        ] {
            let mut frames = AgentFrameParser::default();
            frames.push(bytes);
            assert_eq!(frames.next_message(), Err(expect));
        }
        let mut frames = AgentFrameParser::default();
        frames.push(b"plim\x00\x00\x00\x02a");
        assert_eq!(frames.next_message(), Ok(None));
        assert!(framed(&vec![0; MESSAGE_MAX]).is_ok());
        let error = framed(&vec![0; MESSAGE_MAX + 1]).unwrap_err();
        assert_eq!(error, FrameError::TooLong(MESSAGE_MAX + 1));
    }
}
