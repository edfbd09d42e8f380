// SPDX-License-Identifier: Apache-2.0
//! The program as users have it: static, with its agent beside it, so that it can be copied to other
//! machines. Built here, since the one that tests are given is neither; never an older one than the sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Both outputs of a program.
pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

pub(crate) fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        build(target, "plimsoll-agent");
        build(target, "plimsoll");
        target.join("static/plimsoll")
    })
}

fn build(target: &Path, name: &str) {
    let output = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--locked", "--profile", "static"])
        .args(["--package", name, "--bin", name, "--target-dir"])
        .arg(target)
        .args(["--", "-C", "target-feature=+crt-static"])
        .args(["-C", "link-arg=-Wl,--build-id"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}
