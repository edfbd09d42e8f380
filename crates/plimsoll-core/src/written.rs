// SPDX-License-Identifier: Apache-2.0
//! Times, sizes and numbers in files that people write: read as the command line reads them, and written so
//! that what is read back is the same.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::units::{Nanos, parse_duration, parse_size};

/// The form of a time, for schemas.
#[cfg(test)]
pub(crate) const TIME_PATTERN: &str = concat!(
    r"^([0-9]+\.?[0-9]*|\.[0-9]+) *(us|µs|ms|s|m|min|h)?$",
    r"|^(([0-9]+\.?[0-9]*|\.[0-9]+) *(us|µs|ms|s|m|min|h) *)+$"
);
/// The form of a size.
#[cfg(test)]
pub(crate) const SIZE_PATTERN: &str =
    r"^([0-9]+\.?[0-9]*|\.[0-9]+) *([kKmMgGtT]([iI]?[bB])?|[bB])?$";

/// A time such as `90s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(test, schemars(with = "String", extend("pattern" = TIME_PATTERN)))]
pub struct WrittenTime(pub Nanos);

/// A size such as `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(test, schemars(with = "String", extend("pattern" = SIZE_PATTERN)))]
pub struct WrittenSize(pub u64);

/// A text, or a list of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(from = "TextOrList", into = "TextOrList")]
#[cfg_attr(test, schemars(with = "TextOrList"))]
pub struct WrittenTexts(pub Vec<String>);

#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
enum TextOrList {
    Text(String),
    List(Vec<String>),
}

impl From<TextOrList> for WrittenTexts {
    fn from(written: TextOrList) -> WrittenTexts {
        match written {
            TextOrList::Text(text) => WrittenTexts(vec![text]),
            TextOrList::List(texts) => WrittenTexts(texts),
        }
    }
}

impl From<WrittenTexts> for TextOrList {
    fn from(texts: WrittenTexts) -> TextOrList {
        match <[String; 1]>::try_from(texts.0) {
            Ok([text]) => TextOrList::Text(text),
            Err(texts) => TextOrList::List(texts),
        }
    }
}

/// A seed. Whole numbers of TOML end at 2⁶³ - 1: larger ones are texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "expected a whole number, or its digits as a text"
)]
pub enum WrittenSeed {
    /// A number.
    Number(i64),
    /// Its digits.
    Digits(String),
}

impl WrittenSeed {
    /// The number, if this is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            WrittenSeed::Number(number) => u64::try_from(*number).ok(),
            WrittenSeed::Digits(digits) => digits.parse().ok(),
        }
    }
}

impl From<u64> for WrittenSeed {
    fn from(seed: u64) -> WrittenSeed {
        i64::try_from(seed).map_or_else(
            |_| WrittenSeed::Digits(seed.to_string()),
            WrittenSeed::Number,
        )
    }
}

/// Units of a time, the largest first, as nanoseconds.
const TIME_UNITS: [(&str, u64); 5] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Units of a size, the largest first, as bytes.
const SIZE_UNITS: [(&str, u64); 4] = [
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("k", 1 << 10),
];

/// A number in the largest unit of which it is a multiple.
fn in_unit(number: u64, units: &[(&str, u64)]) -> Option<String> {
    let found = units
        .iter()
        .find(|(_, unit)| number > 0 && number.is_multiple_of(*unit));
    found.map(|(name, unit)| format!("{}{name}", number / unit))
}

impl fmt::Display for WrittenTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nanos(ns) = self.0;
        match in_unit(ns, &TIME_UNITS) {
            None if ns == 0 => f.write_str("0s"),
            Some(text) => f.write_str(&text),
            None => write!(f, "{}.{:03}us", ns / 1_000, ns % 1_000),
        }
    }
}

impl fmt::Display for WrittenSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_unit(self.0, &SIZE_UNITS).unwrap_or_else(|| self.0.to_string()))
    }
}

impl From<WrittenTime> for String {
    fn from(time: WrittenTime) -> String {
        time.to_string()
    }
}

impl TryFrom<String> for WrittenTime {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let time = parse_duration(&text);
        time.map(WrittenTime)
            .map_err(|expected| format!("invalid value '{text}': {expected}"))
    }
}

impl From<WrittenSize> for String {
    fn from(size: WrittenSize) -> String {
        size.to_string()
    }
}

impl TryFrom<String> for WrittenSize {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let size = parse_size(&text);
        size.map(WrittenSize)
            .map_err(|expected| format!("invalid value '{text}': {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(ns in 0..1u64 << 50, bytes in 0..1u64 << 50, seed: u64) {
            let time = WrittenTime(Nanos(ns));
            prop_assert_eq!(WrittenTime::try_from(time.to_string()), Ok(time));
            let size = WrittenSize(bytes);
            prop_assert_eq!(WrittenSize::try_from(size.to_string()), Ok(size));
            prop_assert_eq!(WrittenSeed::from(seed).number(), Some(seed));
        }
    }

    #[test]
    fn people_would_write_it_so() {
        for (ns, text) in [
            (5_400_000_000_000, "90m"),
            (1_500_000_000, "1500ms"),
            (1, "0.001us"),
            (0, "0s"),
        ] {
            assert_eq!(WrittenTime(Nanos(ns)).to_string(), text);
        }
        for (bytes, text) in [(2 << 30, "2G"), (1536, "1536"), (6 << 20, "6M"), (0, "0")] {
            assert_eq!(WrittenSize(bytes).to_string(), text);
        }
    }
}
