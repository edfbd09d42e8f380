// SPDX-License-Identifier: Apache-2.0
//! Big-endian words out of untrusted bytes: every read is checked, none copies.

/// The unsigned word at a byte position, or `None` past the end.
#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// The signed word at a byte position, or `None` past the end.
#[inline]
pub(super) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(u32::cast_signed)
}

/// The unsigned double word at a byte position, or `None` past the end.
#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(word.try_into().ok()?))
}

/// A word as an index; no supported machine has fewer than 32 address bits.
#[inline]
pub(super) fn index(word: u32) -> usize {
    word as usize
}

/// The text up to the first NUL (or the end), with bytes that are not UTF-8 replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(bytes)).into_owned()
}

/// The bytes up to the first NUL, or all of them.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
