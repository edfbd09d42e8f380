// SPDX-License-Identifier: Apache-2.0
//! The Python package (`python/`) against this program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Lab, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts Python"
)]
fn the_package_reads_what_the_program_writes() {
    let python = root().join("target/python/bin/python");
    if !python.exists() {
        let why = "target/python is missing; scripts/setup.sh test makes it";
        eprintln!("SKIPPED: the Python package is not tested: {why}");
        return;
    }
    let lab = Lab::new();
    // A run of the newest format that has load lines.
    let samples = root().join("crates/plimsoll-archive/tests/fixtures/2.4");
    let tested = Command::new(python)
        .arg("-B")
        .arg(root().join("python/tests/test_plimsoll.py"))
        .current_dir(lab.path(""))
        .env("PYTHONPATH", root().join("python/src"))
        .env("PLIMSOLL", env!("CARGO_BIN_EXE_plimsoll"))
        .env("PLIMSOLL_STATE", lab.path("state"))
        .env("PLIMSOLL_SAMPLES", samples)
        .output()
        .expect("Python starts");
    let said = text(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    assert!(
        said.contains("Ran 6 tests") && said.trim_end().ends_with("OK"),
        "{said}"
    );
}

#[test]
fn the_package_is_small_and_of_this_version() {
    let mut lines = 0;
    for folder in ["python/src/plimsoll", "python/tests"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "py") {
                lines += std::fs::read_to_string(&path).unwrap().lines().count();
            }
        }
    }
    assert!((1..500).contains(&lines), "{lines} lines of Python");
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let project = std::fs::read_to_string(root().join("python/pyproject.toml")).unwrap();
    assert!(project.contains(&version), "{version}");
    let package = root().join("python/src/plimsoll/__init__.py");
    let package = std::fs::read_to_string(package).unwrap();
    assert!(
        package.contains(&version.replace("version", "__version__")),
        "{version}"
    );
}
