// SPDX-License-Identifier: Apache-2.0
//! The lines of a witness: `try KEY SUM`, `ack KEY SUM`, `have KEY SUM`. It is foreign text: whatever is
//! not of this form is an error of the witness.

use std::str;

/// Longest key.
const KEY_MAX: usize = 200;
/// Longest sum.
const SUM_MAX: usize = 128;
/// Longest line: a word, a key and a sum.
pub const LINE_MAX: usize = 4 + 1 + KEY_MAX + 1 + SUM_MAX;
/// Most of a wrong line that is shown.
const SHOWN_MAX: usize = 60;

/// The first word of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WitnessVerb {
    /// A value is about to be submitted.
    Try,
    /// It was acknowledged.
    Ack,
    /// It is there.
    Have,
}

/// A line of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessLine<'a> {
    /// Its first word.
    pub verb: WitnessVerb,
    /// Of which key.
    pub key: &'a str,
    /// With which value.
    pub sum: &'a str,
}

/// Reads a line without its end; `None` for a comment or an empty line.
///
/// # Errors
/// When it is neither, with the reason.
pub fn read(line: &[u8]) -> Result<Option<WitnessLine<'_>>, String> {
    if line.is_empty() || line.first() == Some(&b'#') {
        return Ok(None);
    }
    let wrong = |why: &str| Err(format!("{why}: '{}'", shown(line)));
    if line.len() > LINE_MAX {
        return wrong("a line is too long");
    }
    let text = match str::from_utf8(line) {
        Ok(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => text,
        _ => return wrong("a line has characters other than printable ASCII"),
    };
    let words: Vec<&str> = text.split(' ').collect();
    let [verb, key, sum] = words[..] else {
        return wrong("a line is not of the form 'ack KEY SUM', 'try KEY SUM' or 'have KEY SUM'");
    };
    let verb = match verb {
        "try" => WitnessVerb::Try,
        "ack" => WitnessVerb::Ack,
        "have" => WitnessVerb::Have,
        _ => return wrong("a line begins with another word than ack, try or have"),
    };
    if key.is_empty() || key.len() > KEY_MAX {
        return wrong("a key is empty or too long");
    }
    if sum.is_empty() || sum.len() > SUM_MAX {
        return wrong("a sum is empty or too long");
    }
    Ok(Some(WitnessLine { verb, key, sum }))
}

/// The beginning of a line, safe to be shown.
fn shown(line: &[u8]) -> String {
    let text: String = line
        .iter()
        .take(SHOWN_MAX)
        .flat_map(|byte| std::ascii::escape_default(*byte))
        .map(char::from)
        .collect();
    match line.len() > SHOWN_MAX {
        true => format!("{text}…"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_form_are_read_and_comments_are_passed_over() {
        let line = read(b"ack k-1 5f").unwrap().unwrap();
        assert_eq!(
            (line.verb, line.key, line.sum),
            (WitnessVerb::Ack, "k-1", "5f")
        );
        assert_eq!(read(b"have a -").unwrap().unwrap().sum, "-");
        assert_eq!(read(b"try a 1").unwrap().unwrap().verb, WitnessVerb::Try);
        assert_eq!(read(b"# anything \x1b").unwrap(), None);
        assert_eq!(read(b"").unwrap(), None);
    }

    #[test]
    fn every_other_line_is_an_error_that_shows_it_safely() {
        let long_key = format!("ack {} 1", "k".repeat(KEY_MAX + 1));
        let long_sum = format!("ack k {}", "1".repeat(SUM_MAX + 1));
        let endless = vec![b'a'; LINE_MAX + 1];
        let cases: [&[u8]; 11] = [
            b"ack k",
            b"ack  k 1",
            b"ack k 1 2",
            b"Ack k 1",
            b" ack k 1",
            b"ack k 1 ",
            b"ack k\t1",
            b"ack k \xff",
            long_key.as_bytes(),
            long_sum.as_bytes(),
            &endless,
        ];
        for line in cases {
            let error = read(line).unwrap_err();
            assert!(
                error.len() < 400 && error.is_ascii() || error.contains('…'),
                "{error}"
            );
        }
        assert!(read(b"ack k \x1b[2J").unwrap_err().contains("\\x1b"));
    }
}
