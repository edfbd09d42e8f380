// SPDX-License-Identifier: Apache-2.0
//! What this project is built from: licences that it may use, one source with checksums, nothing
//! that no code uses, and known vulnerabilities where a database of them can be had.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Licences whose terms allow use under Apache-2.0.
const LICENCES: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Licences of single crates, each looked at: the one that they are under is a permissive one that
/// is named by a file.
const LICENCES_OF_ONE: [(&str, &str); 1] = [("libbz2-rs-sys", "bzip2-1.0.6")];
/// The only place that code comes from besides this repository.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Everything that is not as it should be.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    match check(root) {
        Ok(faults) => faults,
        Err(error) => vec![format!("cargo metadata: {error}")],
    }
}

fn check(root: &Path) -> Result<Vec<String>, String> {
    let args = ["metadata", "--format-version=1", "--locked"];
    let output = crate::cargo(&args).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("it lists no packages")?;
    let mut faults = Vec::new();
    for package in packages {
        match package["source"].as_str() {
            Some(source) => check_foreign(package, source, &mut faults),
            None => check_unused(package, &mut faults)?,
        }
    }
    check_checksums(root, &mut faults)?;
    Ok(faults)
}

fn check_foreign(package: &Value, source: &str, faults: &mut Vec<String>) {
    let name = package["name"].as_str().unwrap_or_default();
    if source != REGISTRY {
        faults.push(format!("{name} comes from {source}, not from the registry"));
    }
    let licence = package["license"].as_str().unwrap_or_default();
    if !is_allowed(licence) && !LICENCES_OF_ONE.contains(&(name, licence)) {
        faults.push(format!(
            "{name} is under '{licence}', which is not in the list of xtask/src/deps.rs"
        ));
    }
}

/// Whether an SPDX expression can be satisfied with the licences of the list.
pub(crate) fn is_allowed(expression: &str) -> bool {
    // Older manifests write a slash for OR.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let allowed = any_of(&mut rest);
    allowed && rest.is_empty() && !words.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut allowed = all_of(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut allowed = one_of(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        allowed &= one_of(words);
    }
    allowed
}

fn one_of(words: &mut &[&str]) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let allowed = any_of(words);
            match *words {
                [")", rest @ ..] => *words = rest,
                _ => return false,
            }
            allowed
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            LICENCES.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, rest @ ..] => {
            *words = rest;
            LICENCES.contains(name)
        }
        [] => false,
    }
}

/// A dependency that no source file of the package names.
fn check_unused(package: &Value, faults: &mut Vec<String>) -> Result<(), String> {
    let manifest = Path::new(package["manifest_path"].as_str().ok_or("no manifest")?);
    let folder = manifest.parent().ok_or("a manifest without a folder")?;
    let mut source = String::new();
    read_sources(folder, &mut source);
    let words: BTreeSet<&str> = source
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    for name in dependencies.filter_map(|dependency| dependency["name"].as_str()) {
        if !words.contains(name.replace('-', "_").as_str()) {
            let package = package["name"].as_str().unwrap_or_default();
            faults.push(format!("{package} depends on {name} and does not use it"));
        }
    }
    Ok(())
}

fn read_sources(folder: &Path, source: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_sources(&path, source);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            source.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Every package from the registry is pinned by its checksum.
fn check_checksums(root: &Path, faults: &mut Vec<String>) -> Result<(), String> {
    let text = fs::read_to_string(root.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let lock: toml::Table = toml::from_str(&text).map_err(|e| e.to_string())?;
    let packages = lock["package"]
        .as_array()
        .ok_or("Cargo.lock lists no packages")?;
    for package in packages {
        if package.get("source").is_some() && package.get("checksum").is_none() {
            faults.push(format!("{} has no checksum in Cargo.lock", package["name"]));
        }
    }
    Ok(())
}

/// Looks for known vulnerabilities with cargo-deny, where it is installed and reaches its database.
/// Says loudly where that cannot be done: a check that was left out is not one that passed.
pub(crate) fn advisories() -> Result<(), String> {
    let args = ["deny", "--locked", "check", "advisories"];
    let output = crate::cargo(&args).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        crate::note("no known vulnerability in what this project is built from");
        return Ok(());
    }
    let is_missing = said.contains("no such command");
    let is_offline = said.contains("failed to fetch advisory database");
    if is_missing || is_offline {
        let why = match is_missing {
            true => "cargo-deny is not installed",
            false => "its database cannot be reached",
        };
        crate::print(&format!("SKIPPED: known vulnerabilities: {why}\n"));
        return Ok(());
    }
    Err(said)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn licences_are_judged_as_expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-2.0",
            "MIT AND GPL-2.0",
            "(MIT OR GPL-3.0) AND SSPL-1.0",
            "(MIT",
            "MIT )",
            "MIT Apache-2.0",
            "Apache-2.0 WITH Own-exception",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
