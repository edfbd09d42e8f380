// SPDX-License-Identifier: Apache-2.0
//! Inputs that are nearly right.

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Rng;
use std::ops::Range;

/// An input grows to this at most.
const BYTES_MAX: usize = 64 << 10;

/// Longest piece that is moved or doubled.
const PIECE_BYTES_MAX: u64 = 64;

/// Numbers as texts have them.
const WORDS: [&[u8]; 12] = [
    b"0",
    b"-1",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999",
    b"1e308",
    b"-1e-308",
    b"NaN",
    b"inf",
    b"\n",
    b"\"",
    "\u{fffd}µ".as_bytes(),
];

/// A seed with one to four changes.
pub(crate) fn mutated(seed: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        change(&mut bytes, other, rng);
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let place = below(bytes.len(), rng);
    match rng.below(9) {
        0 => bytes[place] ^= 1 << rng.below(8),
        1 => bytes[place] = rng.next_u64().to_le_bytes()[0],
        2 => bytes.truncate(place),
        3 => drop(bytes.drain(piece(bytes.len(), rng))),
        4 => insert_copy(bytes, rng),
        5 => move_piece(bytes, rng),
        6 => set_extreme(bytes, place, rng),
        7 => set_word(bytes, place, rng),
        _ => splice(bytes, other, place, rng),
    }
}

fn below(length: usize, rng: &mut Rng) -> usize {
    to_usize(rng.below(length.max(1) as u64))
}

/// A short piece somewhere.
fn piece(length: usize, rng: &mut Rng) -> Range<usize> {
    let from = below(length, rng);
    let bytes = to_usize(1 + rng.below(PIECE_BYTES_MAX));
    from..length.min(from + bytes)
}

fn insert_copy(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let copied = bytes[piece(bytes.len(), rng)].to_vec();
    let place = below(bytes.len(), rng);
    bytes.splice(place..place, copied);
}

fn move_piece(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let moved: Vec<u8> = bytes.drain(piece(bytes.len(), rng)).collect();
    let place = below(bytes.len() + 1, rng);
    bytes.splice(place..place, moved);
}

/// A number of one, two, four or eight bytes becomes the largest or the smallest.
fn set_extreme(bytes: &mut [u8], place: usize, rng: &mut Rng) {
    let width = 1 << rng.below(4);
    let to = bytes.len().min(place + width);
    // The smallest and the largest, without a sign and with one: all bytes, and the one that has the sign.
    let (all, sign) = [(0, 0), (0xff, 0xff), (0xff, 0x7f), (0, 0x80)][below(4, rng)];
    bytes[place..to].fill(all);
    // Of either order.
    let last = if rng.below(2) == 0 { place } else { to - 1 };
    bytes[last] = sign;
}

/// A number in digits becomes another word; elsewhere the word is put in between.
fn set_word(bytes: &mut Vec<u8>, place: usize, rng: &mut Rng) {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let found = bytes[place..].iter().position(is_digit);
    let from = place + found.unwrap_or(0);
    let digits = bytes[from..].iter().take_while(|byte| is_digit(byte));
    let to = from + digits.count();
    let word = WORDS[below(WORDS.len(), rng)];
    bytes.splice(from..to, word.iter().copied());
}

/// The rest becomes the rest of another seed.
fn splice(bytes: &mut Vec<u8>, other: &[u8], place: usize, rng: &mut Rng) {
    bytes.truncate(place);
    bytes.extend(&other[below(other.len(), rng)..]);
}
