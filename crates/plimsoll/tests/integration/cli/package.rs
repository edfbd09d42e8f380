// SPDX-License-Identifier: Apache-2.0
//! Files of the package beside the program: manual pages, completions, the service.
//! `scripts/test-dist.sh` tests what `make dist` does with them.

use crate::support::{Lab, skipped, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(name)
}

/// Runs another program, or says that it is missing.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]
fn run(test: &str, program: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100");
    match command.output() {
        Ok(output) => Some(output),
        Err(_) => {
            skipped(test, &format!("{program} is missing"));
            None
        }
    }
}

#[test]
fn manual_pages_are_written_whole_and_read_by_man() {
    let lab = Lab::new();
    let dir = lab.directory("pages");
    assert!(lab.run(&["man", "--dir", &dir]).status.success());
    let page = |name: &str| format!("{dir}/{name}.1");
    for name in ["plimsoll", "plimsoll-compare", "plimsoll-stack-up"] {
        assert!(Path::new(&page(name)).is_file(), "{name}");
        let words: Vec<&str> = match name {
            "plimsoll" => vec![],
            "plimsoll-compare" => vec!["compare"],
            _ => vec!["stack", "up"],
        };
        let printed = lab.run(&[&["man"], words.as_slice()].concat());
        let written = std::fs::read(page(name)).unwrap();
        assert_eq!(text(&printed.stdout), text(&written), "{name}");
    }
    // Existing files are not overwritten unasked.
    let again = lab.run(&["man", "--dir", &dir]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"));
    assert!(lab.run(&["man", "--dir", &dir, "--force"]).status.success());
    let unknown = lab.run(&["man", "stack", "sideways"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("unknown subcommand 'stack sideways'"));

    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        let Some(shown) = run("manual pages", "man", &["--warnings", "-l", &path]) else {
            return;
        };
        assert!(shown.status.success(), "{path}: {}", text(&shown.stderr));
        assert_eq!(text(&shown.stderr), "", "{path}");
    }
}

#[test]
fn shells_read_their_completions() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = lab.run(&["completions", shell]);
        assert!(script.status.success());
        let path = lab.path(shell);
        std::fs::write(&path, &script.stdout).unwrap();
        let path = path.display().to_string();
        let Some(read) = run("completions", shell, &["-n", &path]) else {
            continue;
        };
        assert!(read.status.success(), "{shell}: {}", text(&read.stderr));
    }
}

#[test]
fn the_service_is_one_that_systemd_can_start_and_hears_this_machine_only() {
    let lab = Lab::new();
    let unit = std::fs::read_to_string(packaging("plimsoll-serve.service")).unwrap();
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let start: Vec<&str> = start.expect("it starts something").split(' ').collect();
    assert_eq!(start[..2], ["/usr/bin/plimsoll", "serve"]);
    let after = |option: &str| {
        let at = start.iter().position(|word| *word == option);
        at.map(|at| start[at + 1])
    };
    assert_eq!(after("--listen"), Some("127.0.0.1:7433"));
    // Without the file that the step before makes it goes as far as to look for it: all else is understood.
    let refused = lab.run(&start[1..]);
    let token = after("--token-file").expect("a token in a file is in no log");
    assert!(
        text(&refused.stderr).contains(token),
        "{}",
        text(&refused.stderr)
    );

    let copy = lab.path("plimsoll-serve.service");
    let ours = unit.replace("/usr/bin/plimsoll", env!("CARGO_BIN_EXE_plimsoll"));
    std::fs::write(&copy, ours).unwrap();
    let copy = copy.display().to_string();
    if let Some(verified) = run(
        "the service",
        "systemd-analyze",
        &["verify", "--man=no", &copy],
    ) {
        assert!(verified.status.success(), "{}", text(&verified.stderr));
        assert!(
            !text(&verified.stderr).contains("plimsoll-serve"),
            "{}",
            text(&verified.stderr)
        );
    }
}

#[test]
fn the_package_recommends_nothing_that_starts_by_itself() {
    let control = std::fs::read_to_string(packaging("debian/control")).unwrap();
    let field = |name: &str| {
        let line = control.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no field {name}"))
    };
    for name in [
        "Package:",
        "Version:",
        "Architecture:",
        "Maintainer:",
        "Section:",
        "Priority:",
        "Description:",
    ] {
        assert!(!field(name).trim().is_empty(), "{name}");
    }
    assert!(!control.contains("Depends:"), "the programs are static");
    let recommended: Vec<&str> = field("Recommends:").split(',').map(str::trim).collect();
    let suggested: Vec<&str> = field("Suggests:").split(',').map(str::trim).collect();
    for service in ["tgt", "nfs-ganesha", "rpcbind", "glusterfs-server"] {
        assert!(suggested.contains(&service), "{service}");
        assert!(!recommended.contains(&service), "{service}");
    }
}
