// SPDX-License-Identifier: Apache-2.0
//! Build tasks: `cargo xtask tidy|layers|release|sbom|fuzz|bench|twins`.
//!
//! `tidy` and `layers` are also tests of this crate, so `cargo test` cannot pass without them.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stderr,
    reason = "a task speaks to the person who started it"
)]

mod bench;
mod fuzz;
mod layers;
mod release;
mod sbom;
mod tidy;
mod twins;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let faults = match task.as_str() {
        "tidy" => tidy::faults(&root()),
        "layers" => layers::faults(&root()),
        "release" => release::run(&root(), &std::env::args().skip(2).collect::<Vec<_>>()),
        "sbom" => sbom::run(&root(), &std::env::args().skip(2).collect::<Vec<_>>()),
        "bench" => return bench::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "twins" => {
            let args: Vec<String> = std::env::args().skip(2).collect();
            twins::run(&root(), &args).unwrap_or_else(|error| vec![error])
        }
        "fuzz" => fuzz(),
        other => {
            eprintln!(
                "unknown task '{other}'; tasks are: bench, fuzz, layers, release, sbom, tidy, twins"
            );
            return ExitCode::from(2);
        }
    };
    for fault in &faults {
        eprintln!("{fault}");
    }
    ExitCode::from(u8::from(!faults.is_empty()))
}

/// Runs the fuzz targets for as many seconds as the command line says, a minute without it.
fn fuzz() -> Vec<String> {
    let seconds = std::env::args().nth(2).map_or(Ok(60), |text| text.parse());
    match seconds {
        Ok(seconds) => fuzz::run(&root(), seconds).unwrap_or_else(|error| vec![error]),
        Err(_) => vec!["fuzz: expected a number of seconds".into()],
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it runs cargo"
)]
fn cargo(args: &[&str]) -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Builds the program as it is measured.
fn build_release() -> Result<(), String> {
    let args = ["build", "--release", "--bin", "plimsoll"];
    match cargo(&args).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build: {status}")),
        Err(error) => Err(format!("cargo build: {error}")),
    }
}

/// This program, else the one that [`build_release`] built, with a state directory of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it is the user who starts it"
)]
fn plimsoll(program: Option<&Path>, args: &[&str]) -> std::process::Command {
    let program = program.map_or_else(|| built().join("plimsoll"), Path::to_path_buf);
    let mut command = std::process::Command::new(program);
    command
        .args(args)
        .env("PLIMSOLL_STATE", target().join("xtask-state"));
    command
}

/// Everything that cargo builds.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    named.map_or_else(|| root().join("target"), PathBuf::from)
}

/// Programs of the profile `release`.
fn built() -> PathBuf {
    target().join(platform()).join("release")
}

/// Value of `host-tuple` in `.cargo/config.toml` on this machine.
fn platform() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Answer of a task: for people and for programs that read its last line.
#[expect(clippy::print_stdout, reason = "a task answers on standard output")]
fn print(text: &str) {
    print!("{text}");
}

/// Says something that is worth knowing but fails nothing.
fn note(text: &str) {
    eprintln!("note: {text}");
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask lies in the workspace")
        .to_path_buf()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let faults = super::tidy::faults(&super::root());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn version_and_changelog_agree() {
        let faults = super::release::faults(&super::root());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn the_arrows_point_one_way() {
        let faults = super::layers::faults(&super::root());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
