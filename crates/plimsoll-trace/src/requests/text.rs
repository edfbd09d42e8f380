// SPDX-License-Identifier: Apache-2.0
//! The parts of a line: columns, words and numbers, without allocation.

/// A whole number in decimal digits.
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    // Nineteen digits fit whatever they are, so that only the twentieth needs care.
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let (sure, rest) = text.split_at(text.len().min(19));
    let mut value = 0u64;
    for digit in sure {
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

/// What block layers count in.
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

/// Exactly `N` columns between separators.
pub(crate) fn columns<const N: usize>(line: &[u8], separator: u8) -> Option<[&[u8]; N]> {
    let mut parts = line.split(|byte| *byte == separator);
    let mut found = [&[][..]; N];
    for column in &mut found {
        *column = parts.next()?;
    }
    parts.next().is_none().then_some(found)
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
        ] {
            assert_eq!(whole(wrong.as_bytes()), None, "{wrong}");
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
    fn columns_are_counted() {
        assert_eq!(columns::<2>(b"a,b", b','), Some([&b"a"[..], b"b"]));
        assert_eq!(columns::<2>(b"a,b,c", b','), None);
        assert_eq!(columns::<2>(b"a", b','), None);
        assert_eq!(words(b"  a  b ").collect::<Vec<_>>(), [b"a", b"b"]);
    }
}
