// SPDX-License-Identifier: Apache-2.0
//! The known word that is nearest to one that is not known.

/// The candidate with the fewest edits (insert, delete, replace, swap of neighbours; the optimal
/// string alignment distance), if they are fewer than half of its letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.into_iter().filter_map(|candidate| {
        let edits = distance(&word.to_lowercase(), &candidate.to_lowercase());
        (2 * edits < candidate.chars().count().max(2)).then_some((edits, candidate))
    });
    near.min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let known = ["varmail", "webserver", "fileserver", "randread"];
        for (word, expect) in [
            ("varmial", Some("varmail")),
            ("webserv", Some("webserver")),
            ("RANDREAD", Some("randread")),
            ("oracle", None),
        ] {
            assert_eq!(nearest(word, known), expect, "{word}");
        }
    }
}
