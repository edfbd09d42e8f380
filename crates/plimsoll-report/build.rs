// SPDX-License-Identifier: Apache-2.0
//! Warns when the scripts that pages embed are older than their sources. The build goes on with what is
//! committed: it needs no Node.

#[path = "../../xtask/src/web/stamp.rs"]
mod stamp;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let watched = stamp::SOURCES.into_iter().chain([stamp::STAMP]);
    for path in watched
        .map(|path| root.join(path))
        .filter(|path| path.exists())
    {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    // A checkout without the sources has nothing to be older than.
    if stamp::is_stale(&root).unwrap_or(false) {
        println!("cargo:warning={}", stamp::STALE);
    }
}
