// SPDX-License-Identifier: Apache-2.0
//! The licences of what others wrote and a release contains, with their copyright lines: each text once,
//! below the names of the packages that it covers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::crates::SbomCrate;

/// Beginnings of the names of files with licences.
const FILES: [&str; 5] = ["copying", "copyright", "licence", "license", "notice"];

/// Licences of what is in the pages: their packages are not on a machine that only builds the program.
const OF_PAGES: &str = "web/third-party.txt";

/// A licence of more than this is none.
const BYTES_MAX: u64 = 1 << 18;

/// All notices as one text.
pub(super) fn text(root: &Path, crates: &[SbomCrate], web: &[SbomCrate]) -> Result<String, String> {
    let mut out = String::from(
        "The programs plimsoll, plimsoll-agent and plimsoll-server contain the packages below. Of packages that offer a choice \
         of licences all texts are given. They also contain the standard library of Rust (MIT or Apache-2.0) \
         and the GNU C library (LGPL-2.1 or later): whoever wants to change the latter builds the programs \
         anew from their sources with scripts/build.sh.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let shipped = crates.iter().filter(|of| of.is_shipped && of.is_foreign());
    for of in shipped {
        let name = format!("{} {}", of.name, of.version);
        let _ = writeln!(out, "{name}: {}", of.licence);
        let folder = of
            .folder
            .as_deref()
            .ok_or(format!("{name} has no sources"))?;
        let files = licences(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if files.is_empty() {
            crate::note(&format!(
                "{name} has no file with its licence, {}",
                of.licence
            ));
        }
        for file in files {
            let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let covered = texts.entry(text.trim().to_owned()).or_default();
            covered.push(name.clone());
            covered.dedup();
        }
    }
    let of_pages =
        fs::read_to_string(root.join(OF_PAGES)).map_err(|e| format!("{OF_PAGES}: {e}"))?;
    for of in web {
        let name = format!("{} {}", of.name, of.version);
        let _ = writeln!(out, "{name}: {}", of.licence);
        if !of_pages.contains(&format!("== {} ==", of.name)) {
            return Err(format!(
                "{OF_PAGES} lacks the licence of {}: add it",
                of.name
            ));
        }
    }
    for (text, covered) in texts {
        let _ = write!(
            out,
            "\n{}\n{}\n\n{text}\n",
            "=".repeat(80),
            covered.join(", ")
        );
    }
    let _ = write!(out, "\n{}\n{of_pages}", "=".repeat(80));
    Ok(out)
}

/// Files with licences in the folder of a package and in the folders in it, sorted.
fn licences(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let is_licence = FILES.iter().any(|begin| name.starts_with(begin));
            let is_code = [".rs", ".toml", ".py"]
                .iter()
                .any(|end| name.ends_with(end));
            let about = entry.metadata()?;
            if is_licence && !is_code && about.is_file() && about.len() < BYTES_MAX {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
