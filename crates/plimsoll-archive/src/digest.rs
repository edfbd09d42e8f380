// SPDX-License-Identifier: Apache-2.0
//! Digests of files, taken while they are read.

use plimsoll_core::event::RunFileDigest;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::Read;

/// Bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A string takes all that is written.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Passes on what is read and takes its digest.
pub(crate) struct FileDigester<R> {
    inner: R,
    digest: Sha256,
    bytes: u64,
}

impl<R> FileDigester<R> {
    pub(crate) fn new(inner: R) -> Self {
        FileDigester {
            inner,
            digest: Sha256::new(),
            bytes: 0,
        }
    }

    /// The digest of all that was read.
    pub(crate) fn finish(self, name: &str) -> RunFileDigest {
        RunFileDigest {
            name: name.into(),
            bytes: self.bytes,
            sha256: hexadecimal(&self.digest.finalize()),
        }
    }
}

impl<R: Read> Read for FileDigester<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_bytes() {
        let mut file = FileDigester::new(&b"abc"[..]);
        let mut text = String::new();
        file.read_to_string(&mut text).expect("it is text");
        let digest = file.finish("events.jsonl");
        assert_eq!((text.as_str(), digest.bytes), ("abc", 3));
        // FIPS 180-2, appendix B.1.
        let expect = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.sha256, expect);
    }
}
