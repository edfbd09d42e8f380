// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask web`: builds what browsers get, from `web/src` into `web/dist`. That is committed, so that
//! the program can be built without Node.

mod stamp;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Installs exactly what the lock file names, builds, and writes the stamp.
pub(crate) fn build(root: &Path) -> Vec<String> {
    let steps: [&[&str]; 2] = [&["ci"], &["run", "build"]];
    for step in steps {
        if let Err(error) = npm(&root.join("web"), step) {
            return vec![error];
        }
    }
    let written = stamp::of(root).and_then(|text| fs::write(root.join(stamp::STAMP), text + "\n"));
    let mut faults: Vec<String> = written
        .err()
        .map(|error| error.to_string())
        .into_iter()
        .collect();
    faults.extend(self::faults(root));
    faults
}

/// Whether what is built is what the sources say, and can stand within a page.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    match stamp::is_stale(root) {
        Ok(false) => {}
        Ok(true) => faults.push(stamp::STALE.to_owned()),
        Err(error) => faults.push(format!("{}: {error}: run cargo xtask web", stamp::STAMP)),
    }
    let script = fs::read_to_string(root.join("web/dist/report.js")).unwrap_or_default();
    // The report carries this script between tags: these would end the element, or begin a comment in it.
    for text in ["</script", "<!--", "<script"] {
        if script.to_ascii_lowercase().contains(text) {
            faults.push(format!(
                "web/dist/report.js: contains '{text}', so it cannot stand in a page"
            ));
        }
    }
    faults
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it builds it"
)]
fn npm(folder: &Path, args: &[&str]) -> Result<(), String> {
    let status = Command::new("npm").args(args).current_dir(folder).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("npm {}: {status}", args.join(" "))),
        Err(error) => Err(format!(
            "npm: {error}: install Node 18 or newer (apt-get install nodejs npm)"
        )),
    }
}
