// SPDX-License-Identifier: Apache-2.0
//! Habits that no lint checks: licence lines, module comments, file length, words, names of types, links,
//! stack folders, the table of contents of the guide, promises of the security policy.

mod book;
mod links;
mod phrases;
mod types;

use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this fails; the house aims at 400 lines and speaks up at 800.
const LINES_MAX: usize = 1_200;
/// A source file longer than this is named, not failed.
const LINES_WARN: usize = 800;
/// Columns of a comment, which rustfmt does not wrap.
const COMMENT_COLUMNS_MAX: usize = 110;
/// Licence line every source file begins with (after a `#!` line, if it has one).
const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";
/// Identifiers with two meanings, and what to say instead.
const WORDS: [(&str, &str); 2] = [
    (
        "latency_",
        "say service_ or response_: the word alone has two meanings",
    ),
    (
        "_latency",
        "say _service or _response: the word alone has two meanings",
    ),
];

/// Everything that is not as the house wants it.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let mut faults = Vec::new();
    let mut sources = String::new();
    let mut types = types::TypeNames::default();
    for file in files {
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        match fs::read_to_string(&file) {
            Ok(text) if name.ends_with(".md") => {
                faults.extend(links::faults(root, &name, &text));
                faults.extend(phrases::faults(&name, &text));
            }
            Ok(text) => {
                check_file(&name, &text, &mut faults);
                faults.extend(phrases::faults(&name, &text));
                faults.extend(types.add(&name, &text));
                sources.push_str(&text);
            }
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    faults.extend(types.faults());
    check_stacks(&root.join("crates/plimsoll-lab/src/stacks"), &mut faults);
    faults.extend(book::faults(root));
    let policy = fs::read_to_string(root.join("SECURITY.md")).unwrap_or_default();
    check_promises(&policy, &sources, &mut faults);
    faults
}

/// Each promise of the security policy names tests that exist: `Tests:` and their names.
fn check_promises(policy: &str, sources: &str, faults: &mut Vec<String>) {
    let mut tests = 0;
    // The names go on until the next paragraph or promise.
    let promises = policy
        .split("\n\n")
        .flat_map(|paragraph| paragraph.split("\n* "));
    for names in promises.filter_map(|promise| promise.split_once("Tests:")) {
        for name in names.1.split('`').skip(1).step_by(2) {
            tests += 1;
            if !sources.contains(&format!("fn {name}()")) {
                faults.push(format!("SECURITY.md: there is no test named '{name}'"));
            }
        }
    }
    let listed = policy
        .split_once("## Promises")
        .map_or("", |(_, rest)| rest);
    for promise in listed.split("\n* **").skip(1) {
        let (name, text) = promise.split_once("**").unwrap_or((promise, ""));
        if !text.contains("Tests: `") && !text.contains("Checks: ") {
            faults.push(format!("SECURITY.md: the promise '{name}' names no test"));
        }
    }
    if tests == 0 {
        faults.push("SECURITY.md: no promise names a test".to_owned());
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    const SKIP: [&str; 6] = [
        ".git",
        "target",
        "demo",
        "plimsoll-results",
        "node_modules",
        "corpus",
    ];
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !SKIP.contains(&name.as_str()) {
            collect(&path, files);
        } else if path.is_file() && is_source(&name) {
            files.push(path);
        }
    }
}

fn is_source(name: &str) -> bool {
    const ENDINGS: [&str; 4] = [".rs", ".sh", ".toml", ".md"];
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || name == "Makefile"
}

fn check_file(name: &str, text: &str, faults: &mut Vec<String>) {
    if !text.lines().take(2).any(|line| line.contains(LICENCE)) {
        faults.push(format!("{name}:1: the licence line '{LICENCE}' is missing"));
    }
    if text.lines().any(|line| line.ends_with([' ', '\t'])) {
        faults.push(format!("{name}: a line ends with white space"));
    }
    if !name.ends_with(".rs") {
        return;
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines; cut it below {LINES_WARN}"));
    } else if lines > LINES_WARN {
        super::note(&format!("{name}: {lines} lines; the house aims at 400"));
    }
    if !text.lines().take(4).any(|line| line.starts_with("//!")) {
        faults.push(format!("{name}:2: the module comment (//!) is missing"));
    }
    for (number, line) in text.lines().enumerate() {
        let is_wide = line.chars().count() > COMMENT_COLUMNS_MAX;
        if is_wide && line.trim_start().starts_with("//") {
            let text = format!(
                "{name}:{}: a comment of more than {COMMENT_COLUMNS_MAX} columns",
                number + 1
            );
            faults.push(text);
        }
        if begins_with_what(line) {
            let advice = "a comment begins with the noun it is about, not with 'What'";
            faults.push(format!("{name}:{}: {advice}", number + 1));
        }
        // This file has to spell the words out.
        let banned = WORDS
            .iter()
            .filter(|(word, _)| !name.starts_with("xtask") && line.contains(word));
        for (word, advice) in banned {
            faults.push(format!("{name}:{}: '{word}': {advice}", number + 1));
        }
    }
}

/// Whether a line is a comment whose first word is "What", but for a question.
fn begins_with_what(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    let words = comment.map(|text| text.trim_start_matches(['/', '!', ' ']));
    words.is_some_and(|words| words.starts_with("What ") && !words.contains('?'))
}

/// One stack = one folder: code, a test of its plan, a page.
fn check_stacks(folder: &Path, faults: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        faults.push(format!("{}: there are no stacks", folder.display()));
        return;
    };
    // A folder beside a file of its name holds that module's parts, not a stack.
    let is_stack = |path: &PathBuf| path.is_dir() && !path.with_extension("rs").is_file();
    for stack in entries.flatten().map(|entry| entry.path()).filter(is_stack) {
        let name = stack
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for needed in ["mod.rs", "plan_tests.rs", &format!("{name}.md")] {
            if !stack.join(needed).is_file() {
                faults.push(format!("stack {name}: {needed} is missing"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_a_test_is_a_fault() {
        let check = |policy: &str| {
            let mut faults = Vec::new();
            check_promises(policy, "fn it_holds() {}", &mut faults);
            faults.len()
        };
        assert_eq!(check("* It holds.\n  Tests: `it_holds`.\n"), 0);
        assert_eq!(
            check("* It holds.\n  Tests: `it_holds`,\n  `it_is_gone`.\n\n`other`"),
            1
        );
        assert_eq!(check("* It holds, believe me.\n"), 1);
    }

    #[test]
    fn each_habit_has_a_check_that_can_fail() {
        let good = format!("// {LICENCE}\n//! Words.\n\nfn main() {{}}\n");
        let check = |text: &str| {
            let mut faults = Vec::new();
            check_file("crates/a/src/lib.rs", text, &mut faults);
            faults
        };
        assert_eq!(check(&good), Vec::<String>::new());
        let question = good.replace("Words.", "What limits it?");
        assert_eq!(check(&question), Vec::<String>::new());
        let long = format!("{good}{}", "\n".repeat(LINES_MAX));
        for (text, expect) in [
            (good.replace("SPDX", "SPXD"), "licence"),
            (good.replace("//! Words.", "// Words."), "module comment"),
            (good.replace("fn main", "fn p99_latency"), "_latency"),
            (good.replace("{}", "{} "), "white space"),
            (
                good.replace("Words.", &"Words. ".repeat(16)[..111]),
                "columns",
            ),
            (good.replace("Words.", "What is called main."), "the noun"),
            (long, "lines"),
        ] {
            let faults = check(&text);
            assert!(
                faults.len() == 1 && faults[0].contains(expect),
                "{expect}: {faults:?}"
            );
        }
    }
}
