// SPDX-License-Identifier: Apache-2.0
//! Links of documents to other files of the tree lead somewhere, to a heading if they name one.

use std::fs;
use std::path::Path;

/// Faults of the links of one document.
pub(super) fn faults(root: &Path, name: &str, text: &str) -> Vec<String> {
    let folder = root.join(name);
    let folder = folder.parent().unwrap_or(root);
    let mut faults = Vec::new();
    for link in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() {
            root.join(name)
        } else {
            folder.join(path)
        };
        if !target.exists() {
            faults.push(format!("{name}: '{link}' leads nowhere"));
        } else if !heading.is_empty() && !has_heading(&target, heading) {
            faults.push(format!("{name}: '{link}': there is no such heading"));
        }
    }
    faults
}

/// The targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            found.extend(part.split_once(')').map(|(target, _)| target));
        }
    }
    found
}

fn has_heading(path: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|heading| anchor(heading.trim_start_matches('#').trim()) == wanted)
}

/// A heading as pages name it: lower case, without signs, with lines for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/a.md"), "# A page: `one`\n").unwrap();
        let text = "[a](a.md#a-page-one) [b](a.md#two) [c](gone.md) [d](https://x.y/z)\n\
            ```\n[e](code)\n```\n[f](../docs)";
        assert_eq!(
            faults(root.path(), "docs/b.md", text),
            [
                "docs/b.md: 'a.md#two': there is no such heading",
                "docs/b.md: 'gone.md' leads nowhere"
            ]
        );
    }
}
