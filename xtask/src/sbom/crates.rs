// SPDX-License-Identifier: Apache-2.0
//! The packages that a release is made of, as cargo and the lock files know them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The packages that are released.
const RELEASED: [&str; 3] = ["plimsoll", "plimsoll-agent", "plimsoll-server"];

/// A package that a release contains, or that takes part in its build.
#[derive(Debug)]
pub(super) struct SbomCrate {
    /// The kind of package in its address: `cargo`, `npm`, `generic`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    pub(super) sha256: Option<String>,
    /// Whether the program contains it; else it only takes part in the build.
    pub(super) is_shipped: bool,
    pub(super) is_root: bool,
    /// Addresses of what it uses.
    pub(super) depends_on: Vec<String>,
    /// Where its sources are on this machine.
    pub(super) folder: Option<PathBuf>,
}

impl SbomCrate {
    /// Its address, which also names it within the bill.
    pub(super) fn purl(&self) -> String {
        format!("pkg:{}/{}@{}", self.kind, self.name, self.version)
    }

    /// Whether others wrote it.
    pub(super) fn is_foreign(&self) -> bool {
        !self.name.starts_with("plimsoll")
    }
}

/// How one package uses another.
struct CrateUse {
    to: String,
    in_program: bool,
}

/// Crates of the released packages on a target, sorted by name and version.
pub(super) fn of(root: &Path, target: &str) -> Result<Vec<SbomCrate>, String> {
    let platform = format!("--filter-platform={target}");
    let args = ["metadata", "--format-version=1", "--locked", &platform];
    let output = crate::cargo(&args).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let uses = uses(&metadata);
    let known: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .map(|package| (text(&package["id"]), package))
        .collect();
    let is_root = |id: &str| RELEASED.contains(&text(&known[id]["name"]));
    let roots: BTreeSet<&str> = known.keys().copied().filter(|id| is_root(id)).collect();
    let (shipped, all) = reached(&uses, &known, &roots);
    let sums = checksums(root)?;
    let mut found = Vec::new();
    for id in &all {
        let package = known[id];
        let key = (text(&package["name"]), text(&package["version"]));
        let depends_on = uses[*id]
            .iter()
            .filter(|used| all.contains(used.to.as_str()));
        let mut depends_on: Vec<String> = depends_on
            .map(|used| {
                let to = known[used.to.as_str()];
                format!("pkg:cargo/{}@{}", text(&to["name"]), text(&to["version"]))
            })
            .collect();
        depends_on.sort();
        depends_on.dedup();
        found.push(SbomCrate {
            kind: "cargo",
            name: key.0.into(),
            version: key.1.into(),
            licence: text(&package["license"]).into(),
            sha256: sums.get(&(key.0.into(), key.1.into())).cloned(),
            is_shipped: shipped.contains(id),
            is_root: is_root(id),
            depends_on,
            folder: Path::new(text(&package["manifest_path"]))
                .parent()
                .map(Into::into),
        });
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Who uses whom, without what only tests use.
fn uses(metadata: &Value) -> BTreeMap<&str, Vec<CrateUse>> {
    let nodes = list(&metadata["resolve"]["nodes"]);
    let uses = nodes.map(|node| {
        let used = list(&node["deps"]).filter_map(|dep| {
            let has = |kind: &Value| list(&dep["dep_kinds"]).any(|of| of["kind"] == *kind);
            let (in_program, in_build) = (has(&Value::Null), has(&Value::from("build")));
            (in_program || in_build).then(|| CrateUse {
                to: text(&dep["pkg"]).into(),
                in_program,
            })
        });
        (text(&node["id"]), used.collect())
    });
    uses.collect()
}

/// Crates in the program, and all crates of its build: only these include macros of the compiler.
fn reached<'a>(
    uses: &'a BTreeMap<&str, Vec<CrateUse>>,
    known: &BTreeMap<&str, &Value>,
    roots: &BTreeSet<&'a str>,
) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let is_macro = |id: &str| {
        list(&known[id]["targets"])
            .any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
    };
    let walk = |follows: &dyn Fn(&CrateUse) -> bool| {
        let mut seen = roots.clone();
        let mut open: Vec<&str> = roots.iter().copied().collect();
        while let Some(id) = open.pop() {
            for used in uses[id].iter().filter(|used| follows(used)) {
                if seen.insert(&used.to) {
                    open.push(&used.to);
                }
            }
        }
        seen
    };
    let shipped = walk(&|used| used.in_program && !is_macro(&used.to));
    (shipped, walk(&|_| true))
}

/// Checksums of the lock file, by name and version.
fn checksums(root: &Path) -> Result<BTreeMap<(String, String), String>, String> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let lock: toml::Table = toml::from_str(&lock).map_err(|e| e.to_string())?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let sums = packages.into_iter().flatten().filter_map(|package| {
        let field = |name: &str| package.get(name)?.as_str().map(str::to_owned);
        Some(((field("name")?, field("version")?), field("checksum")?))
    });
    Ok(sums.collect())
}

/// The packages whose code is in the pages: those that their sources import by name.
pub(super) fn of_pages(root: &Path) -> Result<Vec<SbomCrate>, String> {
    let mut names = BTreeSet::new();
    imported(&root.join("web/src"), &mut names).map_err(|e| format!("web/src: {e}"))?;
    let lock = fs::read_to_string(root.join("web/package-lock.json")).map_err(|e| e.to_string())?;
    let lock: Value = serde_json::from_str(&lock).map_err(|e| e.to_string())?;
    let found = names.into_iter().map(|name| {
        let package = &lock["packages"][format!("node_modules/{name}")];
        let version = package["version"].as_str();
        let version = version.ok_or(format!("web/src imports {name}, which no lock file has"))?;
        Ok(SbomCrate {
            kind: "npm",
            version: version.into(),
            licence: text(&package["license"]).into(),
            sha256: None,
            is_shipped: true,
            is_root: false,
            depends_on: Vec::new(),
            folder: None,
            name,
        })
    });
    found.collect()
}

fn imported(folder: &Path, names: &mut BTreeSet<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            imported(&path, names)?;
            continue;
        }
        if !path
            .extension()
            .is_some_and(|end| end == "ts" || end == "tsx")
        {
            continue;
        }
        let source = fs::read_to_string(&path)?;
        for before in ["from \"", "import \""] {
            let after = source.split(before).skip(1);
            let modules = after.filter_map(|rest| rest.split_once('"'));
            let foreign = modules
                .map(|(name, _)| name)
                .filter(|name| !name.starts_with('.'));
            names.extend(foreign.filter_map(package_of));
        }
    }
    Ok(())
}

/// `preact` of `preact/hooks`; a name with a scope has two parts. Nothing of what is no module's name.
fn package_of(module: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "@/._-".contains(c);
    let parts = if module.starts_with('@') { 2 } else { 1 };
    let name: Vec<&str> = module.split('/').take(parts).collect();
    (!module.is_empty() && module.chars().all(is_name)).then(|| name.join("/"))
}
