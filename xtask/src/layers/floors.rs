// SPDX-License-Identifier: Apache-2.0
//! Holds the modules of each crate against its floors: a module uses only modules of lower floors.
//!
//! Paths are found as text, `crate::…` everywhere and `super::…` in the file of a module itself, so that
//! nothing has to be compiled. Code of tests is left out; it may use what it tests with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::table::CrateFloors;

pub(super) fn faults(root: &Path, floors: &CrateFloors) -> Vec<String> {
    let mut faults = Vec::new();
    let mut met = BTreeSet::new();
    for dir in crate_dirs(root) {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let name = super::short(&name);
        match floors.get(&name) {
            Some(of_crate) => faults.extend(faults_of(&dir.join("src"), &name, of_crate)),
            None => faults.push(format!("{name}: not in the table of floors")),
        }
        met.insert(name);
    }
    let stale = floors.keys().filter(|name| !met.contains(*name));
    faults.extend(stale.map(|name| format!("{name}: in the table of floors, and no crate")));
    faults
}

fn crate_dirs(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("crates")).into_iter().flatten();
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    dirs.retain(|dir| dir.join("src").is_dir());
    dirs.sort();
    dirs
}

fn faults_of(src: &Path, name: &str, floors: &[Vec<String>]) -> Vec<String> {
    let mut sources = Vec::new();
    collect(src, src, &mut sources);
    check(name, floors, &sources)
}

/// A file: its path below `src`, and its code without that of tests.
struct SourceFile {
    path: PathBuf,
    code: String,
}

fn collect(src: &Path, dir: &Path, found: &mut Vec<SourceFile>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(src, &path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let below = path.strip_prefix(src).unwrap_or(&path).to_path_buf();
            let code = without_tests(&text);
            found.push(SourceFile { path: below, code });
        }
    }
}

/// The code up to its tests, without comments.
fn without_tests(text: &str) -> String {
    let tests = [
        "#[cfg(test)]\nmod tests",
        "#[cfg(test)]\npub(crate) mod tests",
    ];
    let ends = tests.iter().filter_map(|begin| text.find(begin));
    let code = ends.min().map_or(text, |end| &text[..end]);
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn check(name: &str, floors: &[Vec<String>], sources: &[SourceFile]) -> Vec<String> {
    let mut floor_of = BTreeMap::new();
    for (number, modules) in floors.iter().enumerate() {
        floor_of.extend(modules.iter().map(|module| (module.as_str(), number)));
    }
    let tests: Vec<PathBuf> = sources.iter().flat_map(test_modules).collect();
    let is_test = |path: &Path| {
        let stem = path.with_extension("");
        tests.iter().any(|test| stem.starts_with(test))
    };
    let mut faults = BTreeSet::new();
    let mut met = BTreeSet::new();
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
        let Some(module) = module_of(&source.path) else {
            continue;
        };
        met.insert(module.clone());
        let Some(own) = floor_of.get(module.as_str()) else {
            faults.insert(format!("{name}: module {module} is on no floor"));
            continue;
        };
        for used in uses(source) {
            match floor_of.get(used.as_str()) {
                _ if used == module => {}
                Some(floor) if floor < own => {}
                Some(_) => {
                    let path = source.path.display();
                    faults.insert(format!(
                        "{name}: {path} uses {used}, which is not below {module}"
                    ));
                }
                None => {
                    let path = source.path.display();
                    faults.insert(format!(
                        "{name}: {path} uses crate::{used}: name its module"
                    ));
                }
            }
        }
    }
    let stale = floor_of.keys().filter(|module| !met.contains(**module));
    faults.extend(stale.map(|module| format!("{name}: {module} is on a floor, and no module")));
    faults.into_iter().collect()
}

/// Where the modules of a file lie that are compiled for tests only.
fn test_modules(source: &SourceFile) -> Vec<PathBuf> {
    let lines: Vec<&str> = source.code.lines().collect();
    let found = lines.windows(2).filter_map(|pair| {
        let declared = pair[1]
            .trim_start_matches("pub(crate) ")
            .strip_prefix("mod ")?;
        let name = declared.strip_suffix(';')?;
        (pair[0] == "#[cfg(test)]").then(|| below(&source.path).join(name))
    });
    // `mod tests` of a file in a folder of its own is cut off with what follows it.
    let own = below(&source.path).join("tests");
    found.chain([own]).collect()
}

/// The folder of a file's child modules.
fn below(path: &Path) -> PathBuf {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.parent().unwrap_or(Path::new("")).into(),
        _ => path.with_extension(""),
    }
}

/// The module right below the crate that a file belongs to; none for the crate's own file.
fn module_of(path: &Path) -> Option<String> {
    let stem = path.with_extension("");
    let first = stem.components().next()?;
    let first = first.as_os_str().to_str()?;
    (!matches!(first, "lib" | "main")).then(|| first.to_owned())
}

/// The modules of the crate that a file names.
fn uses(source: &SourceFile) -> BTreeSet<String> {
    let mut found = names_after(&source.code, "crate::");
    let parts = source.path.components().count();
    let is_its_own_file = parts == 1 || (parts == 2 && source.path.ends_with("mod.rs"));
    if is_its_own_file {
        // Inline modules of such a file would be one deeper; there are none but tests.
        found.extend(names_after(&source.code, "super::"));
    }
    found
}

/// The first name of every path that begins so, and of every path in its braces.
fn names_after(code: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':')) {
            continue;
        }
        let rest = &code[at + root.len()..];
        match rest.strip_prefix('{') {
            Some(list) => found.extend(first_names(list)),
            None => found.extend(leading_name(rest)),
        }
    }
    found
}

fn leading_name(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty() && name != "super" && name != "self").then(|| name.to_owned())
}

/// The first names of a list in braces, up to its end.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut start) = (0, 0);
    let mut found = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(leading_name(&list[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile {
            path: path.into(),
            code: without_tests(text),
        }
    }

    #[test]
    fn what_lies_higher_beside_or_nowhere_is_found() {
        let floors = vec![
            vec!["host".to_owned()],
            vec!["journal".to_owned(), "watch".to_owned()],
            vec!["gone".to_owned()],
        ];
        let sources = [
            source("lib.rs", "pub use crate::journal::Journal;"),
            source(
                "host/mod.rs",
                "#[cfg(test)]\nmod fixtures;\nuse super::journal;\n// crate::watch\n",
            ),
            source("host/fixtures.rs", "use crate::watch::Watch;"),
            source(
                "journal.rs",
                "use crate::{host::{self, X}, watch};\nlet x = crate::Name;",
            ),
            source(
                "watch.rs",
                "use crate::host;\n#[cfg(test)]\nmod tests {\nuse crate::journal;\n}",
            ),
            source("new.rs", ""),
        ];
        assert_eq!(
            check("lab", &floors, &sources),
            [
                "lab: gone is on a floor, and no module",
                "lab: host/mod.rs uses journal, which is not below host",
                "lab: journal.rs uses crate::Name: name its module",
                "lab: journal.rs uses watch, which is not below journal",
                "lab: module new is on no floor",
            ]
        );
    }
}
