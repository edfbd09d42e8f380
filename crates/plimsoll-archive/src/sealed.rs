// SPDX-License-Identifier: Apache-2.0
//! JSON objects with a checksum as their first key: still JSON to every other program, and a flipped
//! bit anywhere in them is seen.

use crc32c::crc32c_append;

/// The key of the checksum.
pub(crate) const CHECKSUM: &str = "crc32c";
/// How every sealed object begins.
const BEGIN: &[u8] = b"{\"crc32c\":";
/// Digits of a checksum, quoted.
const QUOTED: usize = 10;

/// Checksums that the next object may go on from: the one that is written in the last, and the one that this
/// should have, which differ where a bit is wrong.
pub(crate) type SealChain = [u32; 2];

/// The chain before the first object.
pub(crate) const NONE_BEFORE: SealChain = [0; 2];

/// The text of an object (beginning with a brace) with the checksum of all that follows the comma behind it,
/// which goes on from the one `before` it; and that checksum. Objects in a row are bound to each other
/// thereby.
pub(crate) fn seal(object: &[u8], before: u32) -> (Vec<u8>, u32) {
    let rest = object.get(1..).unwrap_or_default();
    let sum = crc32c_append(before, rest);
    let mut sealed = format!("{{\"crc32c\":\"{sum:08x}\",").into_bytes();
    sealed.extend_from_slice(rest);
    (sealed, sum)
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

/// Takes the checksum off, if there is one, and says whether it goes on from what is before it; and the chain
/// behind it.
pub(crate) fn unseal(text: &[u8], before: SealChain) -> (UnsealResult, SealChain) {
    if !text.starts_with(BEGIN) {
        return (UnsealResult::Bare, before);
    }
    let Some((written, rest)) = parts(text) else {
        return (UnsealResult::Damaged, before);
    };
    let meant = before.map(|sum| crc32c_append(sum, rest));
    match meant.contains(&written) {
        true => (UnsealResult::Intact([b"{", rest].concat()), [written; 2]),
        false => (UnsealResult::Damaged, [written, meant[0]]),
    }
}

/// The checksum that is written in an object, and what follows it.
fn parts(text: &[u8]) -> Option<(u32, &[u8])> {
    let (quoted, rest) = text.strip_prefix(BEGIN)?.split_at_checked(QUOTED)?;
    let digits = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let digits = str::from_utf8(digits).ok()?;
    // As it is written, and no other way.
    let sum = u32::from_str_radix(digits, 16).ok()?;
    (format!("{sum:08x}") == digits).then_some((sum, rest.strip_prefix(b",")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let object = br#"{"a":1,"b":"two"}"#;
        let (sealed, sum) = seal(object, 7);
        let intact = (UnsealResult::Intact(object.to_vec()), [sum; 2]);
        assert_eq!(unseal(&sealed, [7, 7]), intact);
        assert_eq!(unseal(&sealed, [8, 7]), intact);
        assert_eq!(unseal(&sealed, [8, 8]).0, UnsealResult::Damaged);
        assert!(serde_json::from_slice::<serde_json::Value>(&sealed).is_ok());
        assert_eq!(unseal(object, [7, 7]), (UnsealResult::Bare, [7, 7]));
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (found, behind) = unseal(&flipped, [7, 7]);
            assert!(
                !matches!(found, UnsealResult::Intact(_)),
                "bit {bit}: {found:?}"
            );
            // The next object goes on, unless even the form of this one is gone.
            let has_form = parts(&flipped).is_some();
            assert_eq!(behind.contains(&sum), has_form, "bit {bit}");
        }
        for cut in 1..sealed.len() {
            let (found, _) = unseal(&sealed[..cut], [7, 7]);
            assert!(!matches!(found, UnsealResult::Intact(_)));
        }
    }
}
