// SPDX-License-Identifier: Apache-2.0
//! The guide's table of contents, `docs/SUMMARY.md`, lists every page of the documentation once: a page that
//! it does not list is in no book. Whether its links lead anywhere is checked as of all pages.

use std::fs;
use std::path::Path;

/// The table of contents, from the root.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Where pages of the guide are.
const FOLDERS: [&str; 2] = ["docs", "crates/plimsoll-lab/src/stacks"];

/// Pages that are missing, or listed more than once.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let contents = fs::read_to_string(root.join(CONTENTS)).unwrap_or_default();
    let listed: Vec<String> = listed(&contents);
    let mut pages = Vec::new();
    for folder in FOLDERS {
        collect(root, folder, &mut pages);
    }
    pages.retain(|page| page != CONTENTS);
    pages.sort();
    let count = |page: &String| listed.iter().filter(|other| *other == page).count();
    let missing = pages
        .iter()
        .filter(|page| count(page) == 0)
        .map(|page| format!("{CONTENTS}: {page} is not listed"));
    let mut several: Vec<&String> = listed.iter().filter(|page| count(page) > 1).collect();
    several.dedup();
    let several = several
        .into_iter()
        .map(|page| format!("{CONTENTS}: {page} is listed more than once"));
    missing.chain(several).collect()
}

/// The pages that a table of contents names, from the root, sorted.
fn listed(contents: &str) -> Vec<String> {
    let links = contents.lines().filter_map(|line| {
        let (_, link) = line.split_once("](")?;
        Some(link.strip_suffix(')').unwrap_or(link))
    });
    let from_root = |link: &str| match link.strip_prefix("../") {
        Some(above) => above.to_owned(),
        None => format!("docs/{link}"),
    };
    let mut pages: Vec<String> = links.map(from_root).collect();
    pages.sort();
    pages
}

fn collect(root: &Path, folder: &str, pages: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(root, &path, pages);
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_missing_or_listed_twice_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for page in [
            "docs/a.md",
            "docs/b/c.md",
            "crates/plimsoll-lab/src/stacks/x/x.md",
        ] {
            write(page, "");
        }
        write(
            CONTENTS,
            "# Summary\n[Top](../README.md)\n- [A](a.md)\n  - [A](a.md)\n\
             - [X](../crates/plimsoll-lab/src/stacks/x/x.md)\n",
        );
        assert_eq!(
            faults(root.path()),
            [
                "docs/SUMMARY.md: docs/b/c.md is not listed",
                "docs/SUMMARY.md: docs/a.md is listed more than once"
            ]
        );
    }
}
