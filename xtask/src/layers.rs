// SPDX-License-Identifier: Apache-2.0
//! Holds the arrows between crates against the table of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which of our crates each crate may use. A new arrow needs a design note.
const ALLOWED: [(&str, &[&str]); 11] = [
    ("plimsoll-core", &[]),
    ("plimsoll-stats", &["core"]),
    ("plimsoll-nfs", &[]),
    ("plimsoll-engine", &["core", "nfs"]),
    ("plimsoll-archive", &["core"]),
    ("plimsoll-classics", &["core"]),
    ("plimsoll-trace", &["core", "stats"]),
    ("plimsoll-report", &["core", "stats"]),
    ("plimsoll-lab", &["core", "stats", "archive", "nfs"]),
    (
        "plimsoll",
        &[
            "core", "stats", "nfs", "engine", "archive", "classics", "trace", "report", "lab",
        ],
    ),
    ("xtask", &["core", "stats"]),
];

/// Every arrow that is not in the table, and every crate that is missing from it.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    match metadata(root) {
        Ok(arrows) => compare(&arrows),
        Err(reason) => vec![format!("cargo metadata: {reason}")],
    }
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn metadata(root: &Path) -> Result<Arrows, String> {
    let args = ["metadata", "--no-deps", "--format-version=1", "--offline"];
    let output = super::cargo(&args)
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let value: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut arrows = Arrows::new();
    for package in list(&value["packages"]) {
        let uses = list(&package["dependencies"]).iter().map(name).collect();
        arrows.insert(name(&package), uses);
    }
    Ok(arrows)
}

fn compare(arrows: &Arrows) -> Vec<String> {
    let ours: BTreeSet<&String> = arrows.keys().collect();
    let mut faults = Vec::new();
    for (package, uses) in arrows {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == package) else {
            faults.push(format!("{package}: not in the table of layers"));
            continue;
        };
        for used in uses.iter().filter(|used| ours.contains(used)) {
            let short = used.strip_prefix("plimsoll-").unwrap_or(used);
            if !allowed.contains(&short) {
                faults.push(format!("{package}: may not use {used}"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_arrow_and_an_unknown_crate_are_found() {
        let arrows = |list: &[(&str, &[&str])]| -> Arrows {
            let owned = list.iter().map(|(package, uses)| {
                (
                    (*package).to_owned(),
                    uses.iter().map(|u| (*u).to_owned()).collect(),
                )
            });
            owned.collect()
        };
        let bad = arrows(&[
            ("plimsoll-core", &["serde"]),
            ("plimsoll-lab", &["plimsoll-core", "plimsoll-engine"]),
            ("plimsoll-engine", &["plimsoll-core"]),
            ("plimsoll-web", &[]),
        ]);
        assert_eq!(
            compare(&bad),
            [
                "plimsoll-lab: may not use plimsoll-engine",
                "plimsoll-web: not in the table of layers"
            ]
        );
    }
}
