// SPDX-License-Identifier: Apache-2.0
//! Secrets, drawn from the kernel; what a database keeps of them is a digest.

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Random bytes of a secret.
const BYTES: usize = 32;

/// A new secret of 64 hexadecimal digits.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn draw_secret() -> std::io::Result<String> {
    let mut bytes = [0u8; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(hexadecimal(&bytes))
}

/// The digest kept of a token. A token has 256 random bits, so a slower digest would protect it no better.
pub(crate) fn digest(secret: &str) -> String {
    hexadecimal(&Sha256::digest(secret.as_bytes()))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes all that is written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
