// SPDX-License-Identifier: Apache-2.0
//! Arguments taken apart as a shell does, for quotes and backslashes only: nothing is expanded.

/// The words of a command line.
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' | '"' => quoted(letter, &mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("it ends with a backslash".into()),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(
    quote: char,
    letters: &mut impl Iterator<Item = char>,
    word: &mut String,
) -> Result<(), String> {
    while let Some(letter) = letters.next() {
        match letter {
            end if end == quote => return Ok(()),
            '\\' if quote == '"' => match letters.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            other => word.push(other),
        }
    }
    Err(format!("a quote {quote} is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expect) in [
            ("", vec![]),
            ("-s  16\t-r 4", vec!["-s", "16", "-r", "4"]),
            ("a' 'b \"c d\" ''", vec!["a b", "c d", ""]),
            (r#"a\ b "x\"y\n" '\'"#, vec!["a b", r#"x"y\n"#, "\\"]),
            ("$HOME *", vec!["$HOME", "*"]),
        ] {
            assert_eq!(words(text).unwrap(), expect, "{text}");
        }
        for text in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(words(text).is_err(), "{text}");
        }
    }
}
