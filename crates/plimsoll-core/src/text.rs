// SPDX-License-Identifier: Apache-2.0
//! Text from files, nodes and programs, made safe to show: no name can move the cursor, change the
//! terminal or reorder the text beside it.

/// Replacement for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Whether a character does something instead of being seen: a control character, a mark that
/// changes the direction of the text around it, an invisible tag, or a separator of lines or
/// paragraphs that is not a line feed.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            | '\u{e0000}'..='\u{e007f}')
}

/// `a`, `a and b`, `a, b and c`.
pub fn enumerated<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// The text in one line, with each unprintable character replaced.
pub fn printable(text: &str) -> String {
    replace(text, |_| false)
}

/// The same for text of several lines: line feeds and tabs stay.
pub fn printable_lines(text: &str) -> String {
    replace(text, |c| matches!(c, '\n' | '\t'))
}

/// The same for text that we coloured ourselves: a sequence that sets colour or weight stays
/// (`ESC [ digits and semicolons m`), all others go.
pub fn printable_coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable_lines(&rest[..at]));
        let sequence = colour_sequence(&rest[at..]);
        match sequence {
            "" => out.push(REPLACEMENT),
            _ => out.push_str(sequence),
        }
        rest = &rest[at + sequence.len().max(1)..];
    }
    out.push_str(&printable_lines(rest));
    out
}

/// JSON with the same characters escaped, so that it loses nothing and shows nothing of them.
pub fn printable_json(json: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) && c != '\n' {
            let mut units = [0_u16; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// The colour sequence that the text begins with; empty when it begins with none.
fn colour_sequence(text: &str) -> &str {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return "";
    };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';');
    match end {
        Some(end) if parameters[end..].starts_with('m') => &text[..end + 3],
        _ => "",
    }
}

fn replace(text: &str, keep: impl Fn(char) -> bool) -> String {
    let shown = |c: char| match is_unprintable(c) && !keep(c) {
        true => REPLACEMENT,
        false => c,
    };
    text.chars().map(shown).collect()
}

/// A word of a command as a shell takes it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_every_word_as_it_is() {
        assert_eq!(shell_word("-w"), "-w");
        assert_eq!(shell_word("raid1"), "raid1");
        assert_eq!(shell_word("sim(disk)"), "'sim(disk)'");
        assert_eq!(shell_word("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left() {
        let evil = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}b\u{2066}\r\u{e0041}\u{7f}";
        for shown in [
            printable(evil),
            printable_lines(evil),
            printable_coloured(evil),
        ] {
            assert!(!shown.chars().any(is_unprintable), "{shown:?}");
            assert!(shown.starts_with('a') && shown.contains('b'), "{shown:?}");
        }
        assert_eq!(printable("a\nb"), "a\u{fffd}b");
        assert_eq!(printable_lines("a\n\tb"), "a\n\tb");
        assert_eq!(printable("größer 数 🚢 ×4"), "größer 数 🚢 ×4");
    }

    #[test]
    fn of_escape_sequences_only_colours_pass() {
        let ours = "\u{1b}[1;34mpass\u{1b}[0m\n";
        assert_eq!(printable_coloured(ours), ours);
        for evil in [
            "\u{1b}[2J",
            "\u{1b}[1;1H",
            "\u{1b}]52;c;ZQ==\u{7}",
            "\u{1b}c",
            "\u{1b}[31",
            "\u{1b}",
        ] {
            let shown = printable_coloured(evil);
            assert!(!shown.contains('\u{1b}'), "{evil:?} gave {shown:?}");
        }
    }

    #[test]
    fn json_keeps_every_character_by_its_number() {
        let json = "{\n  \"name\": \"\u{202e}\u{9b}x\u{e0041}\"\n}";
        let shown = printable_json(json);
        assert_eq!(shown, "{\n  \"name\": \"\\u202e\\u009bx\\udb40\\udc41\"\n}");
    }
}
