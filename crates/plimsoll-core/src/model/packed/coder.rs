// SPDX-License-Identifier: Apache-2.0
//! An entropy coder for columns of small symbols: frequent symbols take few bits.
//!
//! Symbols are collected in blocks. Of each block the frequencies in every table are written, then
//! all symbols with a range variant of asymmetric numeral systems. Source of the method: J. Duda,
//! "Asymmetric numeral systems" (2013), section on range variants, with a 64-bit state that gives
//! out 32 bits at a time. A block is, with numbers of LEB128:
//!
//! ```text
//! tables used, for each: its number less the last one's, symbols used,
//!     for each: symbol less the last one, its frequency (of 4096)
//! words of the symbols, words of the plain bits
//! the words, 4 bytes each, little endian: the state (2), then what it gave out; the plain bits
//! ```

/// Frequencies of a table add up to this.
const SCALE_BITS: u32 = 12;
const SCALE: u32 = 1 << SCALE_BITS;
/// The state stays at or above this.
const STATE_MIN: u64 = 1 << 31;
/// Symbols of a table.
const SYMBOLS: usize = 256;

/// Writes or reads symbols; both sides run the same code over it, so they cannot disagree.
pub(super) trait PackedSymbolCoder {
    /// Codes a symbol of a table: gives back `symbol` when writing, and what was written when
    /// reading, which does not ask for it.
    fn symbol(&mut self, table: usize, symbol: impl FnOnce() -> u8) -> u8;

    /// Codes the low `bits` (at most 32) of a number as they are.
    fn plain(&mut self, bits: u32, number: u64) -> u64;
}

/// The writing side of a block.
#[derive(Debug)]
pub(super) struct PackedSymbolWriter {
    /// Table and symbol of each, in order.
    symbols: Vec<(u16, u8)>,
    plain: Vec<u32>,
    /// Bits not yet in `plain`, and how many.
    pending: (u64, u32),
    counts: Vec<[u32; SYMBOLS]>,
}

impl PackedSymbolWriter {
    pub(super) fn new(tables: usize) -> PackedSymbolWriter {
        PackedSymbolWriter {
            symbols: Vec::new(),
            plain: Vec::new(),
            pending: (0, 0),
            counts: vec![[0; SYMBOLS]; tables],
        }
    }

    /// Appends everything that was coded to `into` and begins anew.
    pub(super) fn flush(&mut self, into: &mut Vec<u8>) {
        let mut tables = Vec::with_capacity(self.counts.len());
        let is_used = |counts: &[u32; SYMBOLS]| counts.iter().any(|count| *count > 0);
        put(
            into,
            self.counts.iter().filter(|counts| is_used(counts)).count() as u64,
        );
        let mut last = 0;
        for (number, counts) in self.counts.iter_mut().enumerate() {
            if !is_used(counts) {
                tables.push([(0, 0); SYMBOLS]);
                continue;
            }
            put(into, (number - last) as u64);
            last = number;
            let frequencies = normal(counts);
            put_frequencies(into, &frequencies);
            tables.push(starts(&frequencies));
            *counts = [0; SYMBOLS];
        }
        let words = encode(&self.symbols, &tables);
        self.symbols.clear();
        if self.pending.1 > 0 {
            self.plain.push(low(self.pending.0));
            self.pending = (0, 0);
        }
        put(into, words.len() as u64);
        put(into, self.plain.len() as u64);
        // The encoder runs backwards, so that the decoder runs forwards.
        for word in words.iter().rev().chain(&self.plain) {
            into.extend_from_slice(&word.to_le_bytes());
        }
        self.plain.clear();
    }
}

impl PackedSymbolCoder for PackedSymbolWriter {
    #[inline]
    fn symbol(&mut self, table: usize, symbol: impl FnOnce() -> u8) -> u8 {
        let symbol = symbol();
        self.counts[table][usize::from(symbol)] += 1;
        // Tables are few.
        self.symbols
            .push((u16::try_from(table).unwrap_or(0), symbol));
        symbol
    }

    #[inline]
    fn plain(&mut self, bits: u32, number: u64) -> u64 {
        let number = number & ((1 << bits) - 1);
        let (mut held, mut n) = self.pending;
        held |= number << n;
        n += bits;
        if n >= 32 {
            self.plain.push(low(held));
            held >>= 32;
            n -= 32;
        }
        self.pending = (held, n);
        number
    }
}

/// The low 32 bits.
fn low(value: u64) -> u32 {
    crate::num::saturating_u32(value & 0xffff_ffff)
}

/// Frequencies that add up to [`SCALE`], at least 1 of each symbol that occurs.
fn normal(counts: &[u32; SYMBOLS]) -> [u32; SYMBOLS] {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let mut frequencies = counts.map(|count| {
        let share = u64::from(count) * u64::from(SCALE) / total.max(1);
        if count > 0 { low(share).max(1) } else { 0 }
    });
    // The rounding error, of either sign, goes to the most frequent symbols, which feel it least.
    let mut sum: u32 = frequencies.iter().sum();
    while sum != SCALE {
        let most = (0..SYMBOLS).max_by_key(|at| frequencies[*at]).unwrap_or(0);
        if sum < SCALE {
            frequencies[most] += SCALE - sum;
            sum = SCALE;
        } else {
            let less = (sum - SCALE).min(frequencies[most] / 2).max(1);
            frequencies[most] -= less;
            sum -= less;
        }
    }
    frequencies
}

/// First slot and frequency of each symbol.
fn starts(frequencies: &[u32; SYMBOLS]) -> [(u16, u16); SYMBOLS] {
    let mut start = 0;
    frequencies.map(|frequency| {
        // They add up to 2^12.
        let frequency = u16::try_from(frequency).unwrap_or_default();
        let at = start;
        start += frequency;
        (at, frequency)
    })
}

fn put_frequencies(into: &mut Vec<u8>, frequencies: &[u32; SYMBOLS]) {
    let used = frequencies.iter().filter(|frequency| **frequency > 0);
    put(into, used.count() as u64);
    let mut last = 0;
    for (symbol, frequency) in frequencies.iter().enumerate() {
        if *frequency > 0 {
            put(into, (symbol - last) as u64);
            put(into, u64::from(*frequency));
            last = symbol;
        }
    }
}

/// The words of all symbols, last first.
fn encode(symbols: &[(u16, u8)], tables: &[[(u16, u16); SYMBOLS]]) -> Vec<u32> {
    let mut state = STATE_MIN;
    let mut words = Vec::with_capacity(symbols.len() / 2);
    for (table, symbol) in symbols.iter().rev() {
        let (start, frequency) = tables[usize::from(*table)][usize::from(*symbol)];
        let (start, frequency) = (u64::from(start), u64::from(frequency));
        // The state after the step must stay below 2^63.
        if state >= frequency << (63 - SCALE_BITS) {
            words.push(low(state));
            state >>= 32;
        }
        let quotient = quotient(state, frequency);
        state = quotient << SCALE_BITS | (state - quotient * frequency + start);
    }
    words.extend([low(state >> 32), low(state)]);
    words
}

/// 2^(63 + n) / f, rounded up, of every frequency f, where n is that of [`bits_below`].
#[expect(
    clippy::cast_possible_truncation,
    reason = "2^(63 + n) / f is below 2^64, as f is more than half of 2^n"
)]
static RECIPROCALS: [u64; SCALE as usize + 1] = {
    let mut reciprocals = [0; SCALE as usize + 1];
    let mut frequency = 1;
    while frequency <= SCALE {
        let power = 1u128 << (63 + bits_below(frequency as u64));
        reciprocals[frequency as usize] = power.div_ceil(frequency as u128) as u64;
        frequency += 1;
    }
    reciprocals
};

/// The least n such that 2^n is not below a number, which is not 0.
const fn bits_below(number: u64) -> u32 {
    64 - (number - 1).leading_zeros()
}

/// `state / frequency` of a state below 2^63, without dividing, which takes longer: the reciprocal
/// is too large by less than 2^-63 of itself, too little to reach the next whole number.
#[inline]
fn quotient(state: u64, frequency: u64) -> u64 {
    let reciprocal = RECIPROCALS[crate::num::to_usize(frequency)];
    let product = u128::from(2 * state) * u128::from(reciprocal);
    (product >> 64) as u64 >> bits_below(frequency)
}

/// A number as LEB128.
fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(0x80 | number.to_le_bytes()[0]);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

/// A table as the reader needs it: for every slot its symbol, for every symbol its first slot and its
/// frequency. In two steps, because one table of all three is too large for many of them to stay in a
/// processor's cache.
#[derive(Debug, Clone)]
struct Slots {
    symbols: Vec<u8>,
    starts: [(u16, u16); SYMBOLS],
}

impl Slots {
    const NONE: Slots = Slots {
        symbols: Vec::new(),
        starts: [(0, 0); SYMBOLS],
    };
}

/// The reading side. From damaged input it reads zeros; [`PackedSymbolReader::is_sound`] says so.
#[derive(Debug, Clone)]
pub(super) struct PackedSymbolReader {
    tables: Vec<Slots>,
    state: u64,
    /// Position of the next word of symbols in the bytes, and the end of these words. `plain` holds the
    /// same for plain bits.
    words: (usize, usize),
    plain: (usize, usize),
    pending: (u64, u32),
    /// Where the next block begins.
    next: usize,
    is_sound: bool,
}

impl PackedSymbolReader {
    pub(super) fn new(tables: usize) -> PackedSymbolReader {
        PackedSymbolReader {
            tables: vec![Slots::NONE; tables],
            state: STATE_MIN,
            words: (0, 0),
            plain: (0, 0),
            pending: (0, 0),
            next: 0,
            is_sound: true,
        }
    }

    /// Whether everything read so far was there.
    pub(super) fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// Begins the next block.
    pub(super) fn block(&mut self, bytes: &[u8]) {
        self.is_sound = self.try_block(bytes).is_some();
    }

    fn try_block(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = self.next;
        self.tables
            .iter_mut()
            .for_each(|table| table.symbols.clear());
        let mut number = 0;
        for _ in 0..get(bytes, &mut at)? {
            number += crate::num::to_usize(get(bytes, &mut at)?);
            let table = self.tables.get_mut(number)?;
            if !table.symbols.is_empty() {
                return None;
            }
            read_slots(bytes, &mut at, table)?;
        }
        let n_words = crate::num::to_usize(get(bytes, &mut at)?);
        let n_plain = crate::num::to_usize(get(bytes, &mut at)?);
        let end = |from: usize, words: usize| {
            let end = from.checked_add(words.checked_mul(4)?)?;
            (end <= bytes.len()).then_some(end)
        };
        self.words = (at, end(at, n_words)?);
        self.plain = (self.words.1, end(self.words.1, n_plain)?);
        self.next = self.plain.1;
        self.pending = (0, 0);
        self.state = u64::from(next_word(bytes, &mut self.words)?);
        self.state |= u64::from(next_word(bytes, &mut self.words)?) << 32;
        (self.state >= STATE_MIN).then_some(())
    }

    /// The reader over its bytes, for some reading.
    pub(super) fn over<'a>(&'a mut self, bytes: &'a [u8]) -> PackedSymbolCursor<'a> {
        PackedSymbolCursor {
            reader: self,
            bytes,
        }
    }
}

fn read_slots(bytes: &[u8], at: &mut usize, slots: &mut Slots) -> Option<()> {
    let mut symbol = 0u64;
    for number in 0..get(bytes, at)? {
        let step = get(bytes, at)?;
        if number > 0 && step == 0 {
            // The same symbol again.
            return None;
        }
        symbol = symbol.checked_add(step)?;
        let name = u8::try_from(symbol).ok()?;
        let frequency = u16::try_from(get(bytes, at)?).ok()?;
        let start = slots.symbols.len();
        let end = start + usize::from(frequency);
        if end > SCALE as usize {
            return None;
        }
        slots.starts[usize::from(name)] = (u16::try_from(start).ok()?, frequency);
        slots.symbols.resize(end, name);
    }
    (slots.symbols.len() == SCALE as usize).then_some(())
}

/// A number of LEB128.
fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn next_word(bytes: &[u8], span: &mut (usize, usize)) -> Option<u32> {
    if span.0 >= span.1 {
        return None;
    }
    let word = bytes.get(span.0..span.0 + 4)?;
    span.0 += 4;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// A reader and its bytes.
pub(super) struct PackedSymbolCursor<'a> {
    reader: &'a mut PackedSymbolReader,
    bytes: &'a [u8],
}

impl PackedSymbolCoder for PackedSymbolCursor<'_> {
    #[inline]
    fn symbol(&mut self, table: usize, _: impl FnOnce() -> u8) -> u8 {
        let reader = &mut *self.reader;
        let slot = low(reader.state & u64::from(SCALE - 1));
        let table = &reader.tables[table];
        let Some(symbol) = table.symbols.get(slot as usize) else {
            reader.is_sound = false;
            return 0;
        };
        let (start, frequency) = table.starts[usize::from(*symbol)];
        let state = &mut reader.state;
        *state = u64::from(frequency) * (*state >> SCALE_BITS) + u64::from(slot) - u64::from(start);
        if *state < STATE_MIN {
            match next_word(self.bytes, &mut reader.words) {
                Some(word) => *state = *state << 32 | u64::from(word),
                None => reader.is_sound = false,
            }
        }
        *symbol
    }

    #[inline]
    fn plain(&mut self, bits: u32, _: u64) -> u64 {
        let reader = &mut *self.reader;
        let (mut held, mut n) = reader.pending;
        if n < bits {
            match next_word(self.bytes, &mut reader.plain) {
                Some(word) => held |= u64::from(word) << n,
                None => reader.is_sound = false,
            }
            n += 32;
        }
        let number = held & ((1 << bits) - 1);
        reader.pending = (held >> bits, n - bits);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Seed};
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Coded = Vec<(usize, u8, u32, u64)>;

    fn code(coder: &mut impl PackedSymbolCoder, given: &Coded) -> Coded {
        given
            .iter()
            .map(|(table, symbol, bits, plain)| {
                let symbol = coder.symbol(*table, || *symbol);
                (*table, symbol, *bits, coder.plain(*bits, *plain))
            })
            .collect()
    }

    /// Symbols of one block in tables 0 to 4, most of them of two kinds, each followed by plain bits.
    fn block() -> impl Strategy<Value = Coded> {
        let symbol = prop_oneof![50 => 0..2_u8, 1 => any::<u8>()];
        let coded = (0..5_usize, symbol, 0..=32_u32, any::<u64>());
        let coded = coded.prop_map(|(table, symbol, bits, plain)| {
            (table, symbol, bits, plain & ((1 << bits) - 1))
        });
        vec(coded, 0..3_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_was_written_is_read_block_by_block(blocks in vec(block(), 1..5)) {
            let mut writer = PackedSymbolWriter::new(5);
            let mut bytes = Vec::new();
            for given in &blocks {
                prop_assert_eq!(&code(&mut writer, given), given);
                writer.flush(&mut bytes);
            }
            let mut reader = PackedSymbolReader::new(5);
            for given in blocks {
                reader.block(&bytes);
                let blank = given.iter().map(|(t, _, b, _)| (*t, 0, *b, 0)).collect();
                prop_assert_eq!(code(&mut reader.over(&bytes), &blank), given);
                prop_assert!(reader.is_sound());
            }
            reader.block(&bytes);
            prop_assert!(!reader.is_sound(), "there is no block behind the last");
        }
    }

    #[test]
    fn quotients_are_those_of_a_division() {
        let mut rng = Rng::new(Seed(11));
        for frequency in 1..=u64::from(SCALE) {
            let most = frequency << (63 - SCALE_BITS);
            let edges = [STATE_MIN, frequency, most - 1, most - frequency];
            let any = [(); 20].map(|()| rng.below(most));
            for state in edges.into_iter().chain(any) {
                let next = [state.saturating_sub(1), state, state - state % frequency];
                for state in next {
                    assert_eq!(quotient(state, frequency), state / frequency, "{state}");
                }
            }
        }
    }

    #[test]
    fn a_rare_symbol_keeps_its_place_among_many() {
        let mut counts = [1; SYMBOLS];
        counts[3] = 4_000_000_000;
        let frequencies = normal(&counts);
        assert_eq!(frequencies.iter().sum::<u32>(), SCALE);
        assert!(frequencies.iter().all(|frequency| *frequency > 0));
        let even = normal(&[77; SYMBOLS]);
        assert_eq!(even, [16; SYMBOLS]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn nonsense_is_read_without_end_or_harm(bytes in vec(0..40_u8, 0..60)) {
            let mut reader = PackedSymbolReader::new(5);
            reader.block(&bytes);
            let blank = vec![(1, 0, 17, 0); 100];
            prop_assert_eq!(code(&mut reader.over(&bytes), &blank).len(), 100);
        }
    }
}
