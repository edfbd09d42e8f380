// SPDX-License-Identifier: Apache-2.0
//! Holds the arrows between crates, and between the modules of a crate, against the tables of
//! ARCHITECTURE.md. A row that no longer fits the code is a fault as much as an arrow that is in none.

mod floors;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which of our crates a crate uses, by their names without `plimsoll-`.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Every arrow that is in no table, and every row that is stale.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    match (read_arrows(root), table::read(root)) {
        (Ok(found), Ok(tables)) => {
            let mut faults = compare_arrows(&found, &tables.arrows);
            faults.extend(floors::faults(root, &tables.floors));
            faults
        }
        (Err(reason), _) => vec![format!("cargo metadata: {reason}")],
        (_, Err(reason)) => vec![reason],
    }
}

fn read_arrows(root: &Path) -> Result<Arrows, String> {
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
    let packages = list(&value["packages"]);
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut arrows = Arrows::new();
    for package in &packages {
        let uses = list(&package["dependencies"]).iter().map(name).collect();
        let of_ours = ours.intersection(&uses).map(|used| short(used)).collect();
        arrows.insert(short(&name(package)), of_ours);
    }
    Ok(arrows)
}

fn short(package: &str) -> String {
    package
        .strip_prefix("plimsoll-")
        .unwrap_or(package)
        .to_owned()
}

fn compare_arrows(found: &Arrows, allowed: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    for (package, uses) in found {
        let Some(allowed) = allowed.get(package) else {
            faults.push(format!("{package}: not in the table of arrows"));
            continue;
        };
        for used in uses.difference(allowed) {
            faults.push(format!("{package}: may not use {used}"));
        }
        for unused in allowed.difference(uses) {
            faults.push(format!(
                "{package}: does not use {unused}, as the table of arrows says"
            ));
        }
    }
    for package in allowed.keys().filter(|name| !found.contains_key(*name)) {
        faults.push(format!(
            "{package}: in the table of arrows, and no crate of that name"
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn arrows(list: &[(&str, &[&str])]) -> Arrows {
        let owned = list.iter().map(|(package, uses)| {
            let uses = uses.iter().map(|used| (*used).to_owned());
            ((*package).to_owned(), uses.collect())
        });
        owned.collect()
    }

    #[test]
    fn forbidden_arrows_unknown_crates_and_stale_rows_are_found() {
        let found = arrows(&[
            ("core", &[]),
            ("engine", &["core"]),
            ("lab", &["core", "engine"]),
            ("web", &[]),
        ]);
        let allowed = arrows(&[
            ("core", &[]),
            ("engine", &["core", "nfs"]),
            ("gone", &[]),
            ("lab", &["core"]),
        ]);
        assert_eq!(
            compare_arrows(&found, &allowed),
            [
                "engine: does not use nfs, as the table of arrows says",
                "lab: may not use engine",
                "web: not in the table of arrows",
                "gone: in the table of arrows, and no crate of that name",
            ]
        );
    }
}
