// SPDX-License-Identifier: Apache-2.0
//! Names of types: each stands for one type, and says which room it is of.

use std::collections::BTreeMap;

/// Single words that are the field's own name of the one thing they mean.
const SINGLE_WORDS: [&str; 8] = [
    "Histogram",
    "Host",
    "Journal",
    "Nanos",
    "Plan",
    "Rng",
    "Seed",
    "Workload",
];

/// The types that files declare outside of tests, by name, with their files.
#[derive(Debug, Default)]
pub(super) struct TypeNames(BTreeMap<String, Vec<String>>);

impl TypeNames {
    /// Adds the types of a file; gives what is wrong with their names alone.
    pub(super) fn add(&mut self, file: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_checked(file) {
            return faults;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or(text);
        for (name, is_visible) in code.lines().filter_map(declared) {
            let is_known = SINGLE_WORDS.contains(&name);
            if is_visible && is_one_word(name) && !is_known {
                faults.push(format!(
                    "{file}: type {name} is seen outside its file: add its room's noun"
                ));
            }
            self.0.entry(name.into()).or_default().push(file.into());
        }
        faults
    }

    /// Names that stand for several types.
    pub(super) fn faults(&self) -> Vec<String> {
        let several = self.0.iter().filter(|(_, files)| files.len() > 1);
        several
            .map(|(name, files)| format!("type {name} is declared in {}", files.join(" and ")))
            .collect()
    }
}

fn is_checked(file: &str) -> bool {
    let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
    file.starts_with("crates/") && file.contains("/src/") && !is_test
}

/// The type that a line declares at the top of its file, and whether others see it.
fn declared(line: &str) -> Option<(&str, bool)> {
    let (is_visible, rest) = match line.strip_prefix("pub") {
        Some(rest) => (true, rest.split_once(' ')?.1),
        None => (false, line),
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some((&name[..end.unwrap_or(name.len())], is_visible))
}

fn is_one_word(name: &str) -> bool {
    name.chars().filter(char::is_ascii_uppercase).count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_and_names_of_two_types_are_found() {
        let mut names = TypeNames::default();
        let lab = "pub struct Seed(u64);\npub(crate) enum Way {\nstruct Part;\n#[cfg(test)]\nenum Seen {}";
        let faults = names.add("crates/plimsoll-lab/src/a.rs", lab);
        assert_eq!(
            faults,
            [
                "crates/plimsoll-lab/src/a.rs: type Way is seen outside its file: add its room's noun"
            ]
        );
        let core = "struct Part<'a> {}\n    type Seed = u64;\npub trait NodePart {}";
        assert!(names.add("crates/plimsoll-core/src/b.rs", core).is_empty());
        let test = names.add("crates/plimsoll-core/tests/c.rs", "pub struct Part;");
        assert!(test.is_empty());
        assert_eq!(
            names.faults(),
            [
                "type Part is declared in crates/plimsoll-lab/src/a.rs and crates/plimsoll-core/src/b.rs"
            ]
        );
    }
}
