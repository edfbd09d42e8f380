// SPDX-License-Identifier: Apache-2.0
//! Words, variables, quoted texts and signs of a workload file, with their lines.

use std::fmt;

use crate::error::ClassicsError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WmlToken {
    Word(String),
    /// Without the dollar.
    Variable(String),
    /// Without the quotes.
    Text(String),
    Sign(char),
}

impl fmt::Display for WmlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WmlToken::Word(word) => write!(f, "'{word}'"),
            WmlToken::Variable(name) => write!(f, "'${name}'"),
            WmlToken::Text(text) => write!(f, "\"{text}\""),
            WmlToken::Sign(sign) => write!(f, "'{sign}'"),
        }
    }
}

const SIGNS: &str = "{}()=,";

fn ends_word(c: char) -> bool {
    c.is_whitespace() || SIGNS.contains(c) || "\"#$".contains(c)
}

/// Takes a text apart; comments begin with `#`.
pub(super) fn tokens(text: &str) -> Result<Vec<(WmlToken, usize)>, ClassicsError> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let end = |text: &str| text.find(ends_word).unwrap_or(text.len());
        rest = match first {
            '\n' => {
                line += 1;
                after
            }
            c if c.is_whitespace() => after,
            '#' => &after[after.find('\n').unwrap_or(after.len())..],
            c if SIGNS.contains(c) => {
                tokens.push((WmlToken::Sign(c), line));
                after
            }
            '"' => {
                let (quoted, behind, lines) = quoted(after, line)?;
                tokens.push((WmlToken::Text(quoted), line));
                line += lines;
                behind
            }
            '$' => {
                let (name, behind) = after.split_at(end(after));
                if name.is_empty() {
                    let reason = "'$' is not followed by the name of a variable".into();
                    return Err(ClassicsError::Line { line, reason });
                }
                tokens.push((WmlToken::Variable(name.into()), line));
                behind
            }
            _ => {
                let (word, behind) = rest.split_at(end(rest));
                tokens.push((WmlToken::Word(word.into()), line));
                behind
            }
        };
    }
    Ok(tokens)
}

/// A quoted text, what is behind it, and how many lines it goes on for.
fn quoted(text: &str, line: usize) -> Result<(String, &str, usize), ClassicsError> {
    let mut content = String::new();
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            '"' if !escaped => {
                let lines = content.matches('\n').count();
                return Ok((content, &text[index + 1..], lines));
            }
            '\\' if !escaped => escaped = true,
            _ => {
                content.push(c);
                escaped = false;
            }
        }
    }
    let reason = "a quote is not closed".into();
    Err(ClassicsError::Line { line, reason })
}
