// SPDX-License-Identifier: Apache-2.0
//! The parts of a line: columns, words and numbers, without allocation.

use plimsoll_core::op::OpKind;

/// A whole number in decimal digits.
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    // Nineteen digits fit whatever they are, so that only the twentieth needs care.
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let (sure, rest) = text.split_at(text.len().min(19));
    let (eights, few) = sure.as_chunks();
    let mut value = 0u64;
    for eight in eights {
        value = value * 100_000_000 + eight_digits(*eight)?;
    }
    for digit in few {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    match rest {
        [] => Some(value),
        [digit @ b'0'..=b'9', ..] => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    }
}

/// A byte in all eight of a word.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The value of eight decimal digits, all at once: pairs of neighbours become one number, three times.
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(text);
    let digits = word ^ each(b'0');
    // Above 9 a digit goes over 15 when 6 are added.
    if (digits | digits.wrapping_add(each(6))) & each(0xf0) != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// A whole number below 2^32.
pub(crate) fn whole_u32(text: &[u8]) -> Option<u32> {
    whole(text).and_then(|value| u32::try_from(value).ok())
}

/// Sectors of 512 bytes as bytes.
pub(crate) fn sectors(text: &[u8]) -> Option<u64> {
    whole(text)?.checked_mul(SECTOR_BYTES)
}

/// Sectors of 512 bytes as bytes below 4 GiB.
pub(crate) fn sectors_u32(text: &[u8]) -> Option<u32> {
    sectors(text).and_then(|bytes| u32::try_from(bytes).ok())
}

/// Bytes of a sector, the unit of block layers.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A decimal number such as `12.000345`, not negative, in units of 10^-9 of its unit; digits
/// behind the ninth do not count. `per` units make one (1,000 for milliseconds).
pub(crate) fn nanos(text: &[u8], per: u64) -> Option<u64> {
    let (units, rest) = match text.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    let scale = 1_000_000_000 / per;
    let mut fraction = 0u64;
    let mut worth = 100_000_000u64;
    for digit in rest {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        fraction += u64::from(digit) * worth;
        worth /= 10;
    }
    whole(units)?
        .checked_mul(scale)?
        .checked_add(fraction / per)
}

/// Exactly `N` columns between separators, which are no zeros.
pub(crate) fn columns<const N: usize>(line: &[u8], separator: u8) -> Option<[&[u8]; N]> {
    let mut found = [&[][..]; N];
    let (mut n, mut begin) = (0, 0);
    let (eights, few) = line.as_chunks();
    let words = eights.iter().map(|eight| u64::from_le_bytes(*eight));
    let last = few
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte));
    for (at, word) in (0..).step_by(8).zip(words.chain([last])) {
        let mut equal = equal_bytes(word, separator);
        while equal != 0 {
            let end = at + equal.trailing_zeros() as usize / 8;
            *found.get_mut(n)? = &line[begin..end];
            n += 1;
            begin = end + 1;
            equal &= equal - 1;
        }
    }
    *found.get_mut(n)? = &line[begin..];
    (n + 1 == N).then_some(found)
}

/// Exactly `N` fields of a line of a table: between commas, else tabs, else semicolons, without
/// blanks and quotation marks around them.
pub(crate) fn fields<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    // Most files have the first, and nothing around their fields.
    let found = columns(line, b',');
    let found = found.or_else(|| columns(line, b'\t'));
    found
        .or_else(|| columns(line, b';'))
        .map(|found| found.map(bare))
}

/// The cells of a line of a CSV, without the quotes around them; doubled ones inside of such stay.
pub(crate) fn cells(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let quoted = text.strip_prefix(b"\"");
        // Where a cell with quotes ends, or the first character of one without.
        let end = quoted.map_or(0, |quoted| 1 + end_of_quoted(quoted));
        let behind = &text[end..];
        let next = behind.iter().position(|byte| *byte == separator);
        rest = next.map(|at| &behind[at + 1..]);
        Some(match quoted {
            Some(quoted) => &quoted[..end - 1],
            None => &behind[..next.unwrap_or(behind.len())],
        })
    })
}

/// Where the quote stands that ends a cell.
fn end_of_quoted(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            [b'"', b'"', ..] => at += 2,
            [b'"', ..] => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// A field without blanks and quotation marks around it.
pub(crate) fn bare(field: &[u8]) -> &[u8] {
    let is_bare = |byte: Option<&u8>| byte.is_some_and(|byte| !b" \t\"'".contains(byte));
    if is_bare(field.first()) && is_bare(field.last()) {
        return field;
    }
    let field = field.trim_ascii();
    let within = |mark: &[u8]| field.strip_prefix(mark)?.strip_suffix(mark);
    within(b"\"")
        .or_else(|| within(b"'"))
        .unwrap_or(field)
        .trim_ascii()
}

/// Whether a line is a row of words, above the rows that it names: none of its fields begins with a
/// digit, all but empty ones have letters.
pub(crate) fn is_heading(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| b",;\t".contains(byte)).map(bare);
    let is_word = |field: &[u8]| {
        let has_letter = field.iter().any(u8::is_ascii_alphabetic);
        let first = field.first();
        field.is_empty()
            || has_letter && !first.is_some_and(|b| b.is_ascii_digit() || b"-+.".contains(b))
    };
    let fields_seen = fields.clone().filter(|field| !field.is_empty()).count();
    fields_seen > 1 && fields.all(is_word)
}

/// Direction of a request that a word names, in any case: `R`, `Read`, `W`, `Write`.
pub(crate) fn direction(word: &[u8]) -> Option<OpKind> {
    let is = |known: &[&[u8]]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    match () {
        () if is(&[b"r", b"read"]) => Some(OpKind::Read),
        () if is(&[b"w", b"write"]) => Some(OpKind::Write),
        () => None,
    }
}

/// The highest bit of each byte of a word that is this one.
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let differ = word ^ each(byte);
    // Adding does not carry from one byte into the next, so each is tested by itself.
    let low_bits = (differ & each(0x7f)) + each(0x7f);
    !(low_bits | differ | each(0x7f))
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The first whole line of a file's head that is not empty; a line that is cut by the end of the
/// head is one only if nothing follows it.
pub(crate) fn first_line(head: &[u8]) -> Option<&[u8]> {
    lines(head).find(|line| !line.is_empty())
}

/// The lines of a file's head.
pub(crate) fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_fit() {
        assert_eq!(whole(b"0"), Some(0));
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "-1",
            "1.",
            "18446744073709551616",
            "99999999999999999999",
            "1 ",
            "1234567:",
            "/2345678",
            "1234 678",
            "123456789012345a",
            "12345678\u{b9}",
        ] {
            assert_eq!(whole(wrong.as_bytes()), None, "{wrong}");
        }
        let mut digits = String::new();
        let mut value = 0u64;
        for digit in (1..=9).chain(0..=9) {
            digits.push(char::from(b'0' + digit));
            value = value * 10 + u64::from(digit);
            assert_eq!(whole(digits.as_bytes()), Some(value), "{digits}");
        }
        assert_eq!(sectors(b"8"), Some(4096));
        assert_eq!(sectors_u32(b"8388608"), None);
    }

    #[test]
    fn decimals_keep_nine_digits() {
        let cases = [
            ("0.000000001", 1, Some(1)),
            ("12", 1, Some(12_000_000_000)),
            ("1456095145.133076000", 1, Some(1_456_095_145_133_076_000)),
            ("0.1234567899999", 1, Some(123_456_789)),
            ("1.5", 1_000, Some(1_500_000)),
            ("-1.5", 1_000, None),
            ("1.5e3", 1, None),
            (".5", 1, None),
            ("99999999999999", 1, None),
        ];
        for (text, per, expect) in cases {
            assert_eq!(nanos(text.as_bytes(), per), expect, "{text}");
        }
    }

    #[test]
    fn fields_are_bare_whatever_stands_between_and_around_them() {
        let expect = Some([&b"1"[..], b"a b", b""]);
        for line in [
            "1,a b,",
            "1, a b , ",
            "\"1\",\"a b\",\"\"",
            "1\ta b\t",
            "1;'a b';",
        ] {
            assert_eq!(fields::<3>(line.as_bytes()), expect, "{line}");
        }
        assert_eq!(fields::<3>(b"1 2 3"), None);
        for (line, is) in [
            ("Timestamp,Hostname,DiskNumber", true),
            ("\"time\", \"op\"", true),
            ("128166385295514663,hm,0,Write", false),
            ("time,4096", false),
            ("a", false),
            (",,", false),
        ] {
            assert_eq!(is_heading(line.as_bytes()), is, "{line}");
        }
        assert_eq!(direction(b"READ"), Some(OpKind::Read));
        assert_eq!(
            (direction(b"w"), direction(b"wr")),
            (Some(OpKind::Write), None)
        );
    }

    #[test]
    fn columns_are_counted() {
        assert_eq!(columns::<2>(b"a,b", b','), Some([&b"a"[..], b"b"]));
        assert_eq!(columns::<2>(b"a,b,c", b','), None);
        assert_eq!(columns::<2>(b"a", b','), None);
        // Bytes that differ from the separator in one bit stand beside it.
        let (line, long) = (b",-\xac,+,,abcdefghijklm,", &b"abcdefghijklm"[..]);
        let expect = [&b""[..], b"-\xac", b"+", b"", long, b""];
        assert_eq!(columns::<6>(line, b','), Some(expect));
        assert_eq!(columns::<5>(line, b','), None);
        assert_eq!(columns::<7>(line, b','), None);
        assert_eq!(columns::<1>(b"", b','), Some([&b""[..]]));
        assert_eq!(words(b"  a  b ").collect::<Vec<_>>(), [b"a", b"b"]);
    }
}
