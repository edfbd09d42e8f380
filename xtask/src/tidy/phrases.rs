// SPDX-License-Identifier: Apache-2.0
//! Phrases that hide what a sentence is about, in comments and in the pages of the manual.

/// Each with a better one. Words are compared whole, in lower case.
const PHRASES: [(&str, &str); 12] = [
    ("so many", "the number, or its name"),
    ("so much", "the amount, or its name"),
    ("nobody", "the component or the user"),
    ("somebody", "the component or the user"),
    ("whoever", "the component or the user"),
    ("is told", "reported, printed, recorded"),
    ("are told", "reported, printed, recorded"),
    ("is said", "reported, printed, recorded"),
    ("are said", "reported, printed, recorded"),
    ("stands in", "is in, is recorded in"),
    ("stand in", "are in, are recorded in"),
    ("too", "also, before the verb"),
];

/// Pages with names of others, quotations or history.
const EXEMPT: [&str; 5] = [
    "docs/results/",
    "docs/design/",
    "docs/method/",
    "docs/reference/",
    "CHANGELOG",
];

/// Phrases in the comments of a source file, or in the prose of a page.
pub(super) fn faults(name: &str, text: &str) -> Vec<String> {
    let is_page = name.ends_with(".md");
    let is_exempt = EXEMPT.iter().any(|place| name.starts_with(place));
    // The files of this folder have to spell the phrases out.
    if name.starts_with("xtask/src/tidy") || is_exempt || !(is_page || name.ends_with(".rs")) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        is_code ^= is_page && line.trim_start().starts_with("```");
        let prose = match is_page {
            true => (!is_code).then_some(line),
            false => line.find("//").map(|at| &line[at..]),
        };
        for (phrase, better) in prose.iter().flat_map(|prose| found(prose)) {
            faults.push(format!("{name}:{}: '{phrase}': say {better}", number + 1));
        }
    }
    faults
}

fn found(prose: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let prose = prose.to_lowercase();
    PHRASES.iter().filter(move |(phrase, _)| {
        let mut at = prose.match_indices(phrase);
        at.any(|(at, _)| {
            let (before, after) = (&prose[..at], &prose[at + phrase.len()..]);
            match *phrase {
                // At the end of a clause, and not in "too close".
                "too" => before.ends_with(", ") && after.starts_with(['.', ',', ';', ':']),
                _ => is_apart(before.chars().last()) && is_apart(after.chars().next()),
            }
        })
    })
}

/// Whether a word ends beside this character. Code has its own words: the user `nobody`.
fn is_apart(beside: Option<char>) -> bool {
    beside.is_none_or(|c| !(c.is_alphanumeric() || "`_\"'".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_where_they_are_prose() {
        for (name, text, count) in [
            ("a.rs", "/// After so many bytes it ends.", 1),
            ("a.rs", "let x = 1; // It is told, too.", 2),
            ("a.rs", "let text = \"nobody\";", 0),
            ("a.rs", "// As user `nobody`, and too close.", 0),
            ("docs/a.md", "Whoever reads it, stands in line.", 2),
            ("docs/a.md", "```\nso many\n```\n", 0),
            ("docs/results/a.md", "so many", 0),
        ] {
            assert_eq!(faults(name, text).len(), count, "{text}");
        }
    }
}
