// SPDX-License-Identifier: Apache-2.0
//! The known word that is nearest to one that is not known.

/// The candidate with the fewest edits (insert, delete, replace, swap of neighbours; the optimal
/// string alignment distance), if they are fewer than half of its letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.into_iter().filter_map(|candidate| {
        let edits = strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (2 * edits < candidate.chars().count().max(2)).then_some((edits, candidate))
    });
    near.min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
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
