// SPDX-License-Identifier: Apache-2.0
//! JSON objects with a checksum as their first key: still JSON to every other program, and a flipped
//! bit anywhere in them is seen.

use crc32c::crc32c;

/// The key of the checksum.
pub(crate) const CHECKSUM: &str = "crc32c";
/// How every sealed object begins.
const BEGIN: &[u8] = b"{\"crc32c\":";
/// Digits of a checksum, quoted.
const QUOTED: usize = 10;

/// The text of an object (beginning with a brace) with the checksum of all that follows the comma
/// behind it.
pub(crate) fn seal(object: &[u8]) -> Vec<u8> {
    let rest = object.get(1..).unwrap_or_default();
    let mut sealed = format!("{{\"crc32c\":\"{:08x}\",", crc32c(rest)).into_bytes();
    sealed.extend_from_slice(rest);
    sealed
}

/// The outcome of reading a text that may be sealed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnsealResult {
    /// The object as it was before it was sealed.
    Intact(Vec<u8>),
    /// It does not have its checksum.
    Damaged,
    /// It has none.
    Bare,
}

/// Takes the checksum off, if there is one, and says whether it holds.
pub(crate) fn unseal(text: &[u8]) -> UnsealResult {
    let Some(found) = text.strip_prefix(BEGIN) else {
        return UnsealResult::Bare;
    };
    let parts = found.split_at_checked(QUOTED);
    let Some((quoted, [b',', rest @ ..])) = parts else {
        return UnsealResult::Damaged;
    };
    if quoted != format!("\"{:08x}\"", crc32c(rest)).as_bytes() {
        return UnsealResult::Damaged;
    }
    UnsealResult::Intact([b"{", rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let object = br#"{"a":1,"b":"two"}"#;
        let sealed = seal(object);
        assert_eq!(unseal(&sealed), UnsealResult::Intact(object.to_vec()));
        assert!(serde_json::from_slice::<serde_json::Value>(&sealed).is_ok());
        assert_eq!(unseal(object), UnsealResult::Bare);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = unseal(&flipped);
            assert!(
                !matches!(found, UnsealResult::Intact(_)),
                "bit {bit}: {found:?}"
            );
        }
        for cut in 1..sealed.len() {
            assert!(!matches!(unseal(&sealed[..cut]), UnsealResult::Intact(_)));
        }
    }
}
