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

/// Starts a program to its end; what it wrote, and whether it ended well.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who installs the wheel"
)]
fn started(program: &Path, words: &[&str]) -> (bool, String) {
    let ended = Command::new(program)
        .args(words)
        .env("SOURCE_DATE_EPOCH", "1764500000")
        .output()
        .expect("it starts");
    let told = text(&ended.stdout) + &text(&ended.stderr);
    (ended.status.success(), told)
}

/// The wheel of a release, here around programs of two lines: scripts/test-dist.sh has the real ones.
#[test]
fn a_wheel_brings_the_programs_and_says_what_data_frames_need() {
    let lab = Lab::new();
    for name in ["plimsoll", "plimsoll-agent", "plimsoll-server"] {
        let program = format!("staged/lib/plimsoll/{name}");
        std::fs::create_dir_all(lab.path("staged/lib/plimsoll")).unwrap();
        std::fs::write(lab.path(&program), format!("#!/bin/sh\necho {name} $1\n")).unwrap();
    }
    std::fs::create_dir_all(lab.path("staged/share/doc/plimsoll")).unwrap();
    for name in ["plimsoll.cdx.json", "third-party.txt"] {
        let file = format!("staged/share/doc/plimsoll/{name}");
        std::fs::write(lab.path(&file), "{}").unwrap();
    }
    let maker = root().join("scripts/dist-wheel.py");
    let place = |name: &str| lab.path(name).display().to_string();
    let (staged, out) = (place("staged"), lab.directory("out"));
    let version = "1.2.3~git20260131.0123456789.changed";
    let words = [maker.to_str().unwrap(), &staged, "x86_64", version, &out];
    let (is_made, name) = started(Path::new("python3"), &words);
    assert!(is_made, "{name}");
    let wheel = format!("{out}/{}", name.trim());
    let expect = "plimsoll-1.2.3.dev20260131+g0123456789.changed-py3-none-manylinux2014_x86_64.";
    assert!(name.starts_with(expect), "{name}");
    let first = std::fs::read(&wheel).unwrap();
    let (_, again) = started(Path::new("python3"), &words);
    assert_eq!(std::fs::read(&wheel).unwrap(), first, "{again}");
    let venv = place("venv");
    let (is_made, why) = started(Path::new("python3"), &["-m", "venv", &venv]);
    if !is_made {
        return crate::support::skipped("a wheel that is installed", &why);
    }
    let bin = |name: &str| lab.path(&format!("venv/bin/{name}"));
    let (is_in, told) = started(&bin("pip"), &["install", "--quiet", "--no-index", &wheel]);
    assert!(is_in, "{told}");
    for name in ["plimsoll", "plimsoll-agent", "plimsoll-server"] {
        assert_eq!(
            started(&bin(name), &["runs"]),
            (true, format!("{name} runs\n"))
        );
    }
    let (has_frames, told) = started(&bin("python"), &["-c", "import plimsoll"]);
    let need = "data frames need pandas: pip install 'plimsoll[frames]'";
    assert!(!has_frames && told.contains(need), "{told}");
    let (is_out, told) = started(&bin("pip"), &["uninstall", "--quiet", "--yes", "plimsoll"]);
    assert!(is_out && !bin("plimsoll").exists(), "{told}");
}
