// SPDX-License-Identifier: Apache-2.0
//! Builds the fuzz targets and runs each for a while.
//!
//! With the compiler of the project: coverage is a pass of it, and only sanitizers of memory need a nightly
//! one. A target begins with its seeds (`fuzz/seeds`) and with what earlier runs found (`fuzz/corpus`), which
//! is kept on this machine alone; inputs that break it are kept in `fuzz/artifacts`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Compiler flags of cargo-fuzz, but for a sanitizer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Coverflow-checks";

/// Most memory of a target, in MiB: the memory of readers is bounded.
const MEMORY_MIB: u32 = 2048;

/// Largest allocation, in MiB.
const ALLOCATION_MIB: u32 = 1024;

/// Longest time of one input, in seconds.
const INPUT_S: u32 = 25;

/// Targets that run at the same time.
const AT_ONCE: usize = 2;

/// Runs all targets, each for `seconds` seconds; gives the faults.
pub(crate) fn run(root: &Path, seconds: u32) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz");
    let names = names(&folder)?;
    build(&folder)?;
    let programs = folder
        .join("target")
        .join(super::platform())
        .join("release");
    make(&folder.join("artifacts"))?;
    let waiting = Mutex::new(names.iter());
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = next(&waiting) {
                    if let Err(fault) = fuzz(&folder, &programs.join(name), name, seconds) {
                        faults.lock().expect("no thread panics with it").push(fault);
                    }
                }
            });
        }
    });
    eprintln!("fuzz: {} targets, {seconds} s each", names.len());
    Ok(faults.into_inner().expect("all threads have ended"))
}

fn next<'a>(waiting: &Mutex<std::slice::Iter<'a, String>>) -> Option<&'a String> {
    waiting.lock().expect("no thread panics with it").next()
}

/// A target is a file of that folder.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let listed =
        std::fs::read_dir(folder.join("fuzz_targets")).map_err(|error| error.to_string())?;
    let path = |entry: std::io::Result<std::fs::DirEntry>| entry.ok().map(|entry| entry.path());
    let name = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = listed.filter_map(path).filter_map(name).collect();
    names.sort();
    Ok(names)
}

fn make(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn build(folder: &Path) -> Result<(), String> {
    let platform = super::platform();
    let args = ["build", "--release", "--locked", "--target", &platform];
    let mut cargo = super::cargo(&args);
    cargo.current_dir(folder).env("RUSTFLAGS", FLAGS);
    cargo.env("CARGO_TARGET_DIR", folder.join("target"));
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("build the fuzz targets: {status}")),
        Err(error) => Err(format!("build the fuzz targets: {error}")),
    }
}

/// Runs one target.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it runs what it built"
)]
fn fuzz(folder: &Path, program: &Path, name: &str, seconds: u32) -> Result<(), String> {
    let corpus = folder.join("corpus").join(name);
    make(&corpus)?;
    let output = std::process::Command::new(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-malloc_limit_mb={ALLOCATION_MIB}"))
        .arg(format!("-timeout={INPUT_S}"))
        .arg(format!(
            "-artifact_prefix={}/artifacts/{name}-",
            folder.display()
        ))
        // Inputs that the run finds go into the first folder.
        .arg(corpus)
        .arg(folder.join("seeds").join(name))
        .current_dir(folder)
        .output()
        .map_err(|error| format!("run {}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.is_empty());
    let last = last.unwrap_or_default();
    eprintln!("fuzz {name}: {last}");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("fuzz {name}: {}: {said}", output.status)),
    }
}
