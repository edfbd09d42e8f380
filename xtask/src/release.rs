// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release`: whether version, changelog and tag say the same, and what a release says of itself.

use std::fs;
use std::path::Path;

/// The headings of a version in the changelog. Users look for the third one: what was measured before
/// such a change cannot be compared with what is measured after it.
const HEADINGS: [&str; 5] = [
    "Added",
    "Changes of options",
    "Changes that alter numbers",
    "Fixed",
    "Removed",
];
const CHANGELOG: &str = "CHANGELOG.md";
const USAGE: &str = "usage: cargo xtask release check [TAG] | notes";

/// The newest version of the changelog.
#[derive(Debug, PartialEq, Eq)]
struct ReleaseNotes<'a> {
    version: &'a str,
    /// When it was released, or `unreleased`.
    date: &'a str,
    text: &'a str,
}

/// Carries out the task.
pub(crate) fn run(root: &Path, args: &[String]) -> Vec<String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => faults(root),
        ["check", tag] => {
            let mut faults = faults(root);
            faults.extend(read(root, |version, changelog| {
                of_tag(version, changelog, tag)
            }));
            faults
        }
        ["notes"] => read(root, |_, changelog| match newest(changelog) {
            Ok(notes) => {
                crate::print(&format!("{}\n", notes.text));
                Vec::new()
            }
            Err(fault) => vec![fault],
        }),
        _ => vec![USAGE.into()],
    }
}

/// Faults of the changelog, at any time.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    read(root, of_changelog)
}

fn read(root: &Path, judge: impl Fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let read = || -> Result<(String, String), String> {
        let file = |name: &str| {
            fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
        };
        let manifest: toml::Table =
            toml::from_str(&file("Cargo.toml")?).map_err(|error| format!("Cargo.toml: {error}"))?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.ok_or("Cargo.toml: the workspace has no version")?;
        Ok((version.to_owned(), file(CHANGELOG)?))
    };
    match read() {
        Ok((version, changelog)) => judge(&version, &changelog),
        Err(fault) => vec![fault],
    }
}

fn of_changelog(version: &str, changelog: &str) -> Vec<String> {
    let notes = match newest(changelog) {
        Ok(notes) => notes,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    if notes.version != version {
        let found = notes.version;
        faults.push(format!(
            "{CHANGELOG} begins with {found}, Cargo.toml says {version}"
        ));
    }
    let numbers: Vec<&str> = version.split('.').collect();
    if numbers.len() != 3 || numbers.iter().any(|number| number.parse::<u32>().is_err()) {
        faults.push(format!(
            "Cargo.toml: the version {version} is not of the form 1.2.3"
        ));
    }
    let headings = notes
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    for heading in headings.filter(|heading| !HEADINGS.contains(heading)) {
        let known = HEADINGS.join(", ");
        faults.push(format!(
            "{CHANGELOG}: unknown heading '{heading}'; headings are: {known}"
        ));
    }
    faults
}

fn of_tag(version: &str, changelog: &str, tag: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if tag.strip_prefix('v') != Some(version) {
        faults.push(format!(
            "the tag is {tag}, Cargo.toml says {version}: expected v{version}"
        ));
    }
    match newest(changelog) {
        Ok(notes) if !is_date(notes.date) => faults.push(format!(
            "{CHANGELOG}: {version} is '{}': put the date of the release there",
            notes.date
        )),
        _ => {}
    }
    faults
}

/// `2026-11-24`
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [4, 2, 2]
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_digit()))
}

/// The first section of the changelog: `## 1.2.3 (2026-11-24)` up to the next one.
fn newest(changelog: &str) -> Result<ReleaseNotes<'_>, String> {
    let wanted = format!("{CHANGELOG}: expected a heading like '## 1.2.3 (2026-11-24)'");
    let start = changelog.find("\n## ").ok_or(wanted.clone())? + 4;
    let rest = &changelog[start..];
    let (heading, text) = rest.split_once('\n').ok_or(wanted.clone())?;
    let text = text.find("\n## ").map_or(text, |end| &text[..end]).trim();
    let (version, date) = heading.split_once(' ').ok_or(wanted.clone())?;
    let date = date
        .trim()
        .strip_prefix('(')
        .and_then(|date| date.strip_suffix(')'));
    Ok(ReleaseNotes {
        version,
        date: date.ok_or(wanted)?,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# Changelog\n\n## 1.2.3 (2026-11-24)\n\n### Added\n* x\n\n\
        ### Changes that alter numbers\n* y\n\n## 1.2.2 (2026-10-01)\n\n### Whatever\n* z\n";

    #[test]
    fn the_newest_section_is_read_alone() {
        let notes = newest(LOG).unwrap();
        assert_eq!((notes.version, notes.date), ("1.2.3", "2026-11-24"));
        assert!(notes.text.starts_with("### Added") && notes.text.ends_with("* y"));
        assert!(newest("# Changelog\n").is_err());
        assert!(newest("# Changelog\n\n## 1.2.3\n").is_err());
    }

    #[test]
    fn version_changelog_and_tag_must_agree() {
        assert_eq!(of_changelog("1.2.3", LOG), Vec::<String>::new());
        assert_eq!(of_tag("1.2.3", LOG, "v1.2.3"), Vec::<String>::new());
        let unreleased = LOG.replace("2026-11-24", "unreleased");
        for (faults, expect) in [
            (of_changelog("1.2.4", LOG), "begins with 1.2.3"),
            (of_changelog("1.2", LOG), "not of the form"),
            (
                of_changelog("1.2.3", &LOG.replace("Added", "News")),
                "unknown heading 'News'",
            ),
            (of_tag("1.2.3", LOG, "1.2.3"), "expected v1.2.3"),
            (of_tag("1.2.3", LOG, "v1.2.4"), "expected v1.2.3"),
            (of_tag("1.2.3", &unreleased, "v1.2.3"), "put the date"),
        ] {
            assert!(
                faults.iter().any(|fault| fault.contains(expect)),
                "{expect}: {faults:?}"
            );
        }
    }
}
