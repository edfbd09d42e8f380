// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask sbom`: what a release is made of, as a CycloneDX bill of materials, and the licences of
//! all of it. From `cargo metadata`, `Cargo.lock` and the lock file of the web pages.
//!
//! Crates that the program contains are *required*; those that only take part in its build are *excluded*, as
//! the format calls it. The program also contains the C library and the compiler's own library.

mod crates;
mod notices;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

use crates::SbomCrate;

/// Options of the command line.
struct SbomOptions {
    target: String,
    folder: String,
    /// Version of the release, which can say more than that of the crates.
    version: String,
    /// When, in the form of RFC 3339: that of the commit, so that it is the same in every build.
    time: String,
    /// Version of the C library.
    glibc: String,
}

const USAGE: &str = "usage: cargo xtask sbom TARGET FOLDER VERSION TIME GLIBC-VERSION";

/// Writes `plimsoll.cdx.json` and `third-party.txt` into a folder.
pub(crate) fn run(root: &Path, args: &[String]) -> Vec<String> {
    let [target, folder, version, time, glibc] = args else {
        return vec![USAGE.into()];
    };
    let options = SbomOptions {
        target: target.clone(),
        folder: folder.clone(),
        version: version.clone(),
        time: time.clone(),
        glibc: glibc.clone(),
    };
    write(root, &options).err().into_iter().collect()
}

fn write(root: &Path, options: &SbomOptions) -> Result<(), String> {
    let crates = crates::of(root, &options.target)?;
    let web = crates::of_pages(root)?;
    let compiler = compiler_version()?;
    let bill = bill(options, &crates, &web, &compiler);
    let text = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?;
    let notices = notices::text(root, &crates, &web)?;
    let folder = Path::new(&options.folder);
    for (name, text) in [
        ("plimsoll.cdx.json", text + "\n"),
        ("third-party.txt", notices),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The whole bill. Nothing in it depends on where or when it is made.
fn bill(options: &SbomOptions, crates: &[SbomCrate], web: &[SbomCrate], compiler: &str) -> Value {
    let of_machine = [
        library("generic", "glibc", &options.glibc, "LGPL-2.1-or-later"),
        library("generic", "rust-std", compiler, "MIT OR Apache-2.0"),
    ];
    let product = format!("pkg:generic/plimsoll@{}", options.version);
    let mut components: Vec<Value> = crates.iter().chain(web).map(component).collect();
    components.extend(of_machine.iter().map(component));
    let mut dependencies: Vec<Value> = crates
        .iter()
        .map(|of| json!({ "ref": of.purl(), "dependsOn": of.depends_on }))
        .collect();
    let roots = crates.iter().filter(|of| of.is_root).map(SbomCrate::purl);
    let others = web.iter().chain(&of_machine).map(SbomCrate::purl);
    let direct: Vec<String> = roots.chain(others).collect();
    dependencies.push(json!({ "ref": product, "dependsOn": direct }));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": options.time,
            "lifecycles": [{ "phase": "build" }],
            "tools": { "components": [
                { "type": "application", "name": "rustc", "version": compiler },
            ] },
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": "plimsoll",
                "version": options.version,
                "purl": product,
                "licenses": [{ "expression": "Apache-2.0" }],
                "properties": [{ "name": "plimsoll:target", "value": options.target }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}

/// A library that no lock file knows.
fn library(kind: &'static str, name: &str, version: &str, licence: &str) -> SbomCrate {
    SbomCrate {
        kind,
        name: name.into(),
        version: version.into(),
        licence: licence.into(),
        sha256: None,
        is_shipped: true,
        is_root: false,
        depends_on: Vec::new(),
        folder: None,
    }
}

fn component(of: &SbomCrate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": of.purl(),
        "name": of.name,
        "version": of.version,
        "purl": of.purl(),
        "scope": if of.is_shipped { "required" } else { "excluded" },
        // Older manifests write a slash for OR.
        "licenses": [{ "expression": of.licence.replace('/', " OR ") }],
    });
    if let Some(sha256) = &of.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    component
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it asks the compiler"
)]
fn compiler_version() -> Result<String, String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.split_whitespace().nth(1);
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("rustc said {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_bill_has_what_the_lock_files_have_and_no_more() {
        let root = crate::root();
        let crates = crates::of(&root, "x86_64-unknown-linux-gnu").unwrap();
        let web = crates::of_pages(&root).unwrap();
        let options = SbomOptions {
            target: "x86_64-unknown-linux-gnu".into(),
            folder: String::new(),
            version: "1.2.3".into(),
            time: "2026-11-24T00:00:00Z".into(),
            glibc: "2.36".into(),
        };
        let bill = bill(&options, &crates, &web, "1.95.0");
        let components = bill["components"].as_array().unwrap();
        let refs: BTreeSet<&str> = components
            .iter()
            .map(|of| of["bom-ref"].as_str().unwrap())
            .collect();
        assert_eq!(refs.len(), components.len(), "two components of one name");
        let scope = |name: &str| {
            let found = components.iter().find(|of| of["name"] == name);
            found.map(|of| of["scope"].as_str().unwrap().to_owned())
        };
        // In the program, only in its build, in the pages, of the machine; only in tests, of other systems.
        assert_eq!(scope("clap").as_deref(), Some("required"));
        assert_eq!(scope("cc").as_deref(), Some("excluded"));
        assert_eq!(scope("serde_derive").as_deref(), Some("excluded"));
        assert_eq!(scope("preact").as_deref(), Some("required"));
        assert_eq!(scope("glibc").as_deref(), Some("required"));
        assert_eq!(scope("schemars"), None);
        assert_eq!(scope("windows-sys"), None);
        for of in components {
            let is_foreign = of["purl"].as_str().unwrap().starts_with("pkg:cargo/")
                && !of["name"].as_str().unwrap().starts_with("plimsoll");
            let hash = of["hashes"][0]["content"].as_str().unwrap_or_default();
            assert_eq!(hash.len() == 64, is_foreign, "{of}");
        }
        let product = bill["metadata"]["component"]["bom-ref"].as_str().unwrap();
        for row in bill["dependencies"].as_array().unwrap() {
            let from = row["ref"].as_str().unwrap();
            assert!(from == product || refs.contains(from), "{from}");
            for to in row["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(to.as_str().unwrap()), "{to}");
            }
        }
    }

    #[test]
    fn every_shipped_crate_has_its_licence_in_the_notices() {
        let root = crate::root();
        let crates = crates::of(&root, "x86_64-unknown-linux-gnu").unwrap();
        let web = crates::of_pages(&root).unwrap();
        let notices = notices::text(&root, &crates, &web).unwrap();
        let foreign = crates.iter().chain(&web).filter(|of| of.is_foreign());
        for of in foreign.filter(|of| of.is_shipped) {
            let name = format!("{} {}", of.name, of.version);
            assert!(notices.contains(&name), "{name} has no notice");
        }
    }
}
