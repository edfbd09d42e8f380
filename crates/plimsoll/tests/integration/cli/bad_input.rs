// SPDX-License-Identifier: Apache-2.0
//! Every mistake gets one clear error and its documented exit code, and nothing is left behind.

use crate::support::{Lab, skipped, text};

/// Runs `args` and expects exit code `code` and an error that holds every one of `words`.
pub(crate) fn refuses(lab: &Lab, args: &[&str], code: i32, words: &[&str]) {
    let output = lab.run(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    for word in words {
        assert!(
            error.contains(word),
            "{args:?}: '{word}' is not in: {error}"
        );
    }
    let lines = error
        .lines()
        .filter(|line| line.starts_with("error:"))
        .count();
    assert_eq!(lines, 1, "{args:?}: one error, not {lines}: {error}");
    for stutter in [
        "failed to failed",
        "failed to could",
        "failed to there is",
        "failed to stack",
    ] {
        assert!(!error.contains(stutter), "{args:?}: {error}");
    }
}

#[test]
fn negative_numbers_are_refused_as_values() {
    let lab = Lab::new();
    let target = lab.directory("t");
    for (args, option) in [
        (["failover", "raid1", "--repeat", "-1"], "--repeat <"),
        (["compare", &target, "--blocks", "-3"], "--blocks <"),
        (["run", "varmail", "--for", "-5"], "--for <"),
    ] {
        refuses(&lab, &args, 2, &[option, args[3]]);
    }
}

#[test]
fn workloads_that_do_not_exist_or_make_no_sense() {
    let lab = Lab::new();
    let target = lab.directory("t");
    refuses(
        &lab,
        &["run", "nosuch", &target],
        2,
        &["nosuch", "varmail", "plimsoll fit"],
    );
    refuses(
        &lab,
        &["run", "varmail@3", &target],
        2,
        &["varmail", "only a fitted model"],
    );
    std::fs::write(lab.path("bad.toml"), "format = \"1.0\"\nworkload = 3\n").unwrap();
    refuses(
        &lab,
        &["run", "varmail", "sim(flahs)"],
        2,
        &["flahs", "did you mean 'flash'", "throttle"],
    );
    refuses(
        &lab,
        &["run", "bad.toml", &target],
        2,
        &["bad.toml", "line 2"],
    );
    std::fs::write(lab.path("j.fio"), "[x]\nrw=sideways\n").unwrap();
    for (workload, words) in [
        ("j.fio", "failed to read workload j.fio: line 2: "),
        ("fio:/nonexistent/n.fio", "/nonexistent/n.fio"),
        ("fio:n.fio", "read workload n.fio"),
        ("filebench:n.f", "read workload n.f"),
    ] {
        refuses(&lab, &["run", workload, &target], 2, &[words]);
        refuses(&lab, &["run", workload, &target, "--dry-run"], 2, &[words]);
    }
    let newer = crate::support::blocks("x", 4096, 1.0, true).replace("2.0", "2.9");
    std::fs::write(lab.path("new.toml"), newer).unwrap();
    refuses(
        &lab,
        &["run", "new.toml", &target],
        2,
        &["new.toml", "2.9", "2.1"],
    );
    refuses(
        &lab,
        &["run", "varmail", &target, "--for", "soon"],
        2,
        &["soon"],
    );
    refuses(
        &lab,
        &["run", "varmail", &target, "--for", "1ms"],
        2,
        &["100 ms"],
    );
}

#[test]
fn shapes_that_the_engine_refuses_are_found_before_a_run_folder_is_made() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let blocks = crate::support::blocks("x", 1 << 20, 0.5, false);
    for (line, words) in [
        ("work = { each = 0 }", "0 operations"),
        ("delay = 9000000000", "its delay is 9"),
        (
            "offsets = { strided = { stride_bytes = 0 } }",
            "longer than 0",
        ),
    ] {
        std::fs::write(lab.path("x.toml"), format!("{blocks}{line}\n")).unwrap();
        let args = ["run", "x.toml", &target, "--for", "200ms", "-o", "r"];
        refuses(&lab, &args, 2, &[words]);
        assert!(!lab.path("r").exists(), "{line}");
        let left = std::fs::read_dir(lab.path("t")).unwrap().count();
        assert_eq!(left, 0, "{line}");
    }
}

#[test]
fn targets_that_must_not_or_cannot_be_written() {
    let lab = Lab::new();
    refuses(
        &lab,
        &["run", "varmail", "/nonexistent/x/y"],
        2,
        &["/nonexistent/x/y", "hint"],
    );
    let file = lab.path("precious");
    std::fs::write(&file, "data").unwrap();
    refuses(
        &lab,
        &["run", "varmail", file.to_str().unwrap()],
        2,
        &["precious", "exists"],
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data");
    // Only root may write to /proc, and the program checks permission before free space.
    let why = if rustix::process::geteuid().is_root() {
        "0 B may be used"
    } else {
        "not writable"
    };
    refuses(&lab, &["run", "varmail", "/proc"], 2, &["/proc", why]);
    let shut = lab.directory("shut");
    if shut_directory(&shut, true) {
        refuses(
            &lab,
            &["run", "varmail", &shut],
            2,
            &["shut", "not writable"],
        );
        assert!(shut_directory(&shut, false), "the test opens what it shut");
    } else {
        skipped(
            "a directory that is not writable",
            "no immutable flag for root here",
        );
    }
    match first_block_device() {
        Some(device) => refuses(
            &lab,
            &["run", "varmail", &device],
            2,
            &[&device, "block device", "destroy"],
        ),
        None => skipped(
            "block devices are refused",
            "this machine shows no block device",
        ),
    }
}

#[test]
fn a_target_that_is_too_full_is_refused_before_anything_is_written() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let huge = crate::support::blocks("huge", 900_000_000_000_000_000, 1.0, true);
    std::fs::write(lab.path("huge.toml"), huge).unwrap();
    refuses(
        &lab,
        &["run", "huge.toml", &target],
        2,
        &["879 PiB", "free"],
    );
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn recordings_that_are_missing_cut_or_do_not_hold_what_was_asked() {
    let lab = Lab::new();
    refuses(
        &lab,
        &["fit", "nowhere/nasdata", "--disk", "sda"],
        2,
        &["nowhere/nasdata"],
    );
    std::fs::write(lab.path("text"), "hello\n").unwrap();
    refuses(&lab, &["fit", "text"], 2, &["text", "iostat", "PCP"]);
    let base = std::env::var("PLIMSOLL_TEST_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into());
    let archive = format!("{base}/pcp/diskmodel/nasdata");
    if !std::path::Path::new(&format!("{archive}.0")).exists() {
        return skipped(
            "errors of fit on a real archive",
            "set PLIMSOLL_TEST_DATA to the recordings",
        );
    }
    refuses(
        &lab,
        &["fit", &archive, "--disk", "sdzz"],
        2,
        &["sdzz", "sdi", "sda"],
    );
    let outside = [
        "fit",
        &archive,
        "--disk",
        "sdi",
        "--from",
        "2011-01-01 03:00:00",
    ];
    refuses(&lab, &outside, 2, &["2010-07-14T10:30", "2010-07-14T12:29"]);
    for part in ["0", "meta"] {
        let bytes = std::fs::read(format!("{archive}.{part}")).unwrap();
        std::fs::write(lab.path(&format!("cut.{part}")), &bytes[..bytes.len() / 3]).unwrap();
    }
    let cut = lab.run(&["fit", "cut", "--disk", "sdi"]);
    let error = text(&cut.stderr);
    assert!(error.contains("cut."), "the damaged file is named: {error}");
}

#[test]
fn run_folders_that_are_none_newer_or_occupied() {
    let lab = Lab::new();
    let empty = lab.directory("empty");
    refuses(&lab, &["report", &empty], 2, &["empty", "not a run folder"]);
    std::fs::write(lab.path("empty/manifest.json"), "{\"format\":\"3.0\"}").unwrap();
    refuses(&lab, &["report", &empty], 2, &["3.0", "newer plimsoll"]);
    let target = lab.directory("t");
    let occupied = ["run", "randread", &target, "--for", "100ms", "-o", &empty];
    refuses(&lab, &occupied, 2, &["empty", "-o"]);
    assert_eq!(
        std::fs::read_dir(&target).unwrap().count(),
        0,
        "the target is left clean"
    );
}

#[test]
fn links_and_duplicates_are_refused_before_anything_is_made() {
    let lab = Lab::new();
    let target = lab.directory("t");
    std::os::unix::fs::symlink("/nonexistent/img", lab.path("link.img")).unwrap();
    refuses(
        &lab,
        &["run", "randread", "./link.img"],
        2,
        &["link.img", "symbolic link"],
    );
    assert!(lab.path("link.img").is_symlink(), "the link is still there");
    let twice = [
        "compare", &target, &target, "-w", "varmail", "-w", "varmail",
    ];
    refuses(&lab, &twice, 2, &["varmail", "twice"]);
    refuses(
        &lab,
        &["run", "varmail", "file:./new.img"],
        2,
        &["new.img", "directory"],
    );
    refuses(
        &lab,
        &["compare", &target, "-w", "varmail", "--no-control"],
        2,
        &["second target"],
    );
    refuses(
        &lab,
        &["compare", &target, "-w", "varmail", "--margin", "5"],
        2,
        &["margin", "0.05"],
    );
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_stack_that_is_up_already() {
    let lab = Lab::new();
    let up = lab.run(&["stack", "up", "local"]);
    assert_eq!(up.status.code(), Some(0), "{}", text(&up.stderr));
    let again = ["stack", "up", "local"];
    refuses(
        &lab,
        &again,
        2,
        &["local", "already up", "plimsoll stack down 'local'"],
    );
    let down = lab.run(&["stack", "down", "local"]);
    assert_eq!(down.status.code(), Some(0), "{}", text(&down.stderr));
}

#[test]
fn a_port_that_is_taken_is_passed_over() {
    let lab = Lab::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let args = [
        "stack",
        "up",
        "iscsi",
        "--size",
        "300M",
        "--port",
        &port,
        "--dry-run",
    ];
    let dry = lab.run(&args);
    if dry.status.code() != Some(0) {
        return skipped("a port that is taken", text(&dry.stderr).trim());
    }
    let plan = text(&dry.stdout);
    assert!(plan.contains("portal=127.0.0.1:"), "{plan}");
    assert!(
        !plan.contains(&format!("portal=127.0.0.1:{port}")),
        "{plan}"
    );
}

#[test]
fn what_is_no_stack_is_told_with_the_nearest() {
    let lab = Lab::new();
    for (stack, words) in [
        ("raid1(x=1)", &["unknown setting 'x' of raid1"][..]),
        ("iscsi+", &["error: unknown layer ''"]),
        ("gluster(distrbute)", &["did you mean 'distribute'"]),
        ("iscsl+crypt", &["did you mean 'iscsi'"]),
        ("raid1(x", &["unmatched ("]),
    ] {
        refuses(&lab, &["stack", "up", stack], 2, words);
        refuses(&lab, &["layers", stack, "-w", "varmail"], 2, words);
    }
    refuses(
        &lab,
        &["layers", "local", "-w", "varmail"],
        2,
        &["one layer only"],
    );
    refuses(&lab, &["stack", "show", "raid"], 2, &["did you mean"]);
}

#[test]
fn stacks_that_do_not_exist() {
    let lab = Lab::new();
    refuses(
        &lab,
        &["stack", "up", "nosuch"],
        2,
        &["nosuch", "local", "iscsi", "raid1"],
    );
    refuses(&lab, &["stack", "down", "local"], 2, &["local", "not up"]);
    std::fs::write(lab.path("file"), "x").unwrap();
    let in_file = ["stack", "up", "local", "--dir", "file"];
    refuses(&lab, &in_file, 1, &["file is not a directory", "--dir"]);
    let up = "bring it up with: plimsoll stack up 'raid1'";
    refuses(&lab, &["stack", "grow", "raid1"], 2, &[up]);
    let up = "start some with: plimsoll vm up";
    refuses(&lab, &["vm", "off", "n1"], 2, &[up]);
    refuses(&lab, &["vm", "down"], 2, &[up]);
    let many = ["vm", "up", "--node-count", "99"];
    refuses(&lab, &many, 2, &["--node-count 99", "at most 20"]);
}

#[test]
fn files_in_a_directory_that_is_not_there_are_refused_before_anything_is_done() {
    let lab = Lab::new();
    let make = &["there is no directory", "mkdir -p"][..];
    for args in [
        &["record", "--for", "1s", "-o", "none/r"][..],
        &["vm", "up", "-o", "none/lab.toml"],
        &["ledger", "write", ".", "--ledger", "none/a.ledger"],
    ] {
        refuses(&lab, args, 2, make);
    }
}

#[test]
fn ledgers_of_nothing() {
    let lab = Lab::new();
    let none = &["none.ledger", "plimsoll ledger write"][..];
    for args in [
        &["ledger", "outage", "none.ledger"][..],
        &["ledger", "check", ".", "--ledger", "none.ledger"],
        &["ledger", "seek", "/dev/zero", "--ledger", "none.ledger"],
    ] {
        refuses(&lab, args, 2, none);
    }
    let stack = ["ledger", "write", "iscsi", "--ledger", "a.ledger"];
    refuses(
        &lab,
        &stack,
        2,
        &["'iscsi'", "plimsoll stack up", "./iscsi"],
    );
    let write = "ledger write . --ledger a.ledger --for 100ms --size 64k --rate 20";
    let written = lab.run(&write.split(' ').collect::<Vec<_>>());
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    std::fs::write(lab.path("short"), "x").unwrap();
    let seek = ["ledger", "seek", "short", "--ledger", "a.ledger"];
    refuses(&lab, &seek, 2, &["short", "not one sector"]);
    lab.directory("other");
    let check = ["ledger", "check", "other", "--ledger", "a.ledger"];
    refuses(
        &lab,
        &check,
        12,
        &["other", "is lost, unless the target is elsewhere now"],
    );
}

#[test]
fn what_a_stack_cannot_be_is_a_mistake_whoever_plans_it() {
    let lab = Lab::new();
    for (stack, words) in [
        ("gluster(nodes=4,replicate)", "gluster"),
        ("san", "--on FILE"),
        (
            "raid5(by=btrfs,consistency=ppl)",
            "consistency=ppl is for md arrays",
        ),
        ("raid1(by=btrfs,fs=xfs)", "fs=xfs is for md arrays"),
    ] {
        refuses(&lab, &["stack", "up", stack, "--dry-run"], 2, &[words]);
    }
    let small = ["stack", "up", "iscsi", "--size", "1", "--dry-run"];
    refuses(&lab, &small, 2, &["1"]);
}

#[test]
fn a_device_that_is_not_there_does_not_become_a_file() {
    let lab = Lab::new();
    let args = ["run", "randread", "/dev/nosuch0", "--destroy", "--dry-run"];
    refuses(&lab, &args, 2, &["/dev/nosuch0", "no such device", "lsblk"]);
    let args = ["run", "build,src=/nonexistent", ".", "--dry-run"];
    refuses(&lab, &args, 2, &["/nonexistent"]);
}

/// Makes a directory unwritable, also for root, or writable again.
fn shut_directory(path: &str, shut: bool) -> bool {
    use rustix::fs::{IFlags, Mode, OFlags};
    if !rustix::process::geteuid().is_root() {
        let mode = if shut {
            Mode::from(0o555)
        } else {
            Mode::from(0o755)
        };
        return rustix::fs::chmod(path, mode).is_ok();
    }
    let Ok(directory) = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()) else {
        return false;
    };
    let flags = if shut {
        IFlags::IMMUTABLE
    } else {
        IFlags::empty()
    };
    rustix::fs::ioctl_setflags(&directory, flags).is_ok()
}

fn first_block_device() -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir("/sys/class/block")
        .ok()?
        .flatten()
        .map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()))
        .filter(|path| std::path::Path::new(path).exists())
        .collect();
    names.sort();
    names.into_iter().next()
}
