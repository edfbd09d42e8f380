// SPDX-License-Identifier: Apache-2.0
//! Ledgers from the outside: written, killed, checked, and held against a server that really loses
//! what it had acknowledged.

use crate::support::{Lab, pause, program, skipped, text};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A second of probes on 1 MiB for each of two sessions. So few that a machine whose disk is busy does
/// all of them in the time it has.
const SMALL: [&str; 6] = ["--size", "1MiB", "--for", "1s", "--rate", "20"];

fn write<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["ledger", "write", target, "--ledger", "a.ledger"];
    [&args[..], more].concat()
}

fn code_of(lab: &Lab, args: &[&str]) -> (Option<i32>, String) {
    let output = lab.run(args);
    let told = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), told)
}

/// Contents are drawn: a fixed byte would be the one that is there in one file of 256.
fn change_byte(path: &Path, at: u64) {
    let mut file = std::fs::OpenOptions::new();
    let file = file.read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn what_was_acknowledged_is_there_and_what_was_damaged_is_named() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let account = lab.json(&write(&target, &[&SMALL[..], &["--json"]].concat()));
    let account = &account["account"];
    assert_eq!(account["errors"], 0, "{account}");
    assert_eq!(account["bad"]["stale"], 0, "{account}");
    // Half of 20 a second of each session are writes, however slow the machine is.
    assert_eq!(account["writes"], 20, "{account}");
    let file = ["ledger", "write", "file:made", "--ledger", "b.ledger"];
    let (code, told) = code_of(&lab, &[&file[..], &SMALL].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(lab.path("made").is_file() && !lab.path("file:made").exists());
    let check = ["ledger", "check", &target, "--ledger", "a.ledger"];
    for _ in 0..2 {
        let (code, told) = code_of(&lab, &check);
        assert_eq!(code, Some(0), "{told}");
        assert!(
            told.contains("532 blocks written, 512 read back, 0 bad"),
            "{told}"
        );
    }
    let again = [&check[..], &["--second", &target]].concat();
    assert_eq!(code_of(&lab, &again).0, Some(0));
    change_byte(&Path::new(&target).join("plimsoll.ledger.1"), 5000);
    let (code, told) = code_of(&lab, &check);
    assert_eq!(code, Some(12), "{told}");
    assert!(told.contains("1 bad (1 wrong)"), "{told}");
    assert!(
        told.contains("wrong at byte 4608 of plimsoll.ledger.1"),
        "{told}"
    );
}

/// A disk for ledgers that has no room, or hardly any, when one begins.
#[test]
fn a_ledger_that_found_no_room_leaves_nothing_in_the_way_of_the_next() {
    let lab = Lab::new();
    let (target, small) = (lab.directory("t"), lab.directory("small"));
    let options = ["-t", "tmpfs", "-o", "size=256k", "plimsoll-test", &small];
    if program("mount", &options).is_none() {
        return skipped(
            "a ledger on a disk that is full",
            "nothing can be mounted here",
        );
    }
    let names = |place: &str| -> Vec<_> {
        let all = std::fs::read_dir(place).unwrap().flatten();
        all.map(|entry| entry.file_name())
            .filter(|name| name != "filler")
            .collect()
    };
    let ledger = format!("{small}/a.ledger");
    let write = [
        &["ledger", "write", &target, "--ledger", &ledger],
        &SMALL[..],
    ]
    .concat();
    let stamp = [
        "ledger", "stamp", &target, "--ledger", &ledger, "--for", "1s",
    ];
    let mut told = Vec::new();
    for (command, rests) in [(&write[..], &[0, 4096][..]), (&stamp[..], &[0][..])] {
        for rest in rests {
            std::fs::write(lab.path("small/filler"), vec![1u8; (256 << 10) - rest]).unwrap();
            let (code, said) = code_of(&lab, command);
            std::fs::remove_file(lab.path("small/filler")).unwrap();
            told.push((code, said, names(&target), names(&small)));
        }
    }
    let (again, said) = code_of(&lab, &write);
    program("umount", &["--lazy", &small]);
    for (code, said, left, ledgers) in told {
        assert!(
            code == Some(1) && said.contains("No space left on device"),
            "{said}"
        );
        assert!(
            left.is_empty() && ledgers.is_empty(),
            "{left:?} {ledgers:?}: {said}"
        );
    }
    assert_eq!(again, Some(0), "{said}");
}

/// Bytes are flipped and cut off all over a ledger of storage that lost nothing.
#[test]
fn a_damaged_ledger_never_accuses_the_storage() {
    let lab = Lab::new();
    let target = lab.directory("t");
    assert_eq!(code_of(&lab, &write(&target, &SMALL)).0, Some(0));
    let whole = std::fs::read(lab.path("a.ledger")).unwrap();
    let check = ["ledger", "check", &target, "--ledger", "b.ledger"];
    let mut cannot_judge = 0;
    for n in 0..10 {
        let at = whole.len() * (2 * n + 1) / 20;
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (n % 8);
        for (how, bytes) in [("flipped", &flipped[..]), ("cut", &whole[..at])] {
            std::fs::write(lab.path("b.ledger"), bytes).unwrap();
            let (code, told) = code_of(&lab, &check);
            let judged = matches!(code, Some(0 | 16)) || told.contains("it is not a ledger");
            assert!(judged, "{how} at {at}: {code:?} {told}");
            if code == Some(16) {
                cannot_judge += 1;
                assert!(told.contains("ledger"), "{told}");
                let left = std::fs::read(lab.path("b.ledger")).unwrap();
                assert!(bytes.starts_with(&left), "nothing is added to it");
            }
        }
    }
    // All but what touches only the last entries.
    assert!(cannot_judge >= 14, "{cannot_judge} of 20");
}

#[test]
fn an_outage_is_told_from_the_ledger_alone_and_stamps_are_found_in_the_clear() {
    let lab = Lab::new();
    let target = lab.directory("t");
    assert_eq!(code_of(&lab, &write(&target, &SMALL)).0, Some(0));
    let outage = lab.json(&["ledger", "outage", "a.ledger", "--json"]);
    let sessions = outage["outage"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{outage}");
    assert!(
        sessions.iter().all(|one| one["survived"] == true),
        "{outage}"
    );
    assert_eq!(outage["outage"]["resolution"], 100_000_000, "{outage}");
    let late = ["ledger", "outage", "a.ledger", "--fault-at", "1h"];
    let (code, told) = code_of(&lab, &late);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("the probes lasted only"), "{told}");
    let raw = Path::new(&target).join("plimsoll.ledger.0");
    let (code, told) = code_of(
        &lab,
        &[
            "ledger",
            "seek",
            raw.to_str().unwrap(),
            "--ledger",
            "a.ledger",
        ],
    );
    assert_eq!(code, Some(12), "{told}");
    // 256 blocks of 8 sectors.
    assert!(
        told.contains("2048 sectors read, 2048 stamps found"),
        "{told}"
    );
    // Data that look as if they were encrypted.
    let noise: Vec<u8> = std::fs::read(&raw)
        .unwrap()
        .iter()
        .map(|byte| byte ^ 0x5a)
        .collect();
    std::fs::write(lab.path("noise"), noise).unwrap();
    let (code, told) = code_of(&lab, &["ledger", "seek", "noise", "--ledger", "a.ledger"]);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_killed_writer_leaves_a_ledger_and_a_stopped_one_ends_it() {
    for signal in ["-KILL", "-INT"] {
        let lab = Lab::new();
        let target = lab.directory("t");
        let mut writer = lab.start(&write(&target, &["--size", "1MiB", "--for", "10m"]));
        let path = lab.path("a.ledger");
        let has = |bytes| std::fs::metadata(&path).is_ok_and(|found| found.len() > bytes);
        for _ in 0..15_000 {
            if has(20_000) {
                break;
            }
            pause(20);
        }
        assert!(has(20_000), "the ledger grows");
        let check = ["ledger", "check", &target, "--ledger", "a.ledger"];
        let (code, told) = code_of(&lab, &check);
        assert_eq!(code, Some(1), "a ledger that is being written: {told}");
        assert!(told.contains("is it still being written"), "{told}");
        program("kill", &[signal, &writer.id().to_string()]).unwrap();
        let ended = writer.wait().unwrap();
        let expect = if signal == "-INT" { Some(130) } else { None };
        assert_eq!(ended.code(), expect);
        let (code, told) = code_of(&lab, &check);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("0 bad"), "{told}");
        assert_eq!(code_of(&lab, &["ledger", "outage", "a.ledger"]).0, Some(0));
    }
}

#[test]
fn a_certificate_counts_power_cuts_and_refuses_what_was_none() {
    let lab = Lab::new();
    // Another disk than that of the ledgers.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = memory.path().join("t").display().to_string();
    let same = [&write("t", &["--until-death"])[..], &["--size", "1MiB"]].concat();
    let (code, told) = code_of(&lab, &same);
    if told.contains("it is in memory") {
        return skipped("a certificate", "the tests' directory is in memory");
    }
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("it is on the disk of t, so the power cut would hit it, too"),
        "{told}"
    );
    assert!(!lab.path("a.ledger").exists());
    let check = |ledger: &str| {
        let words = [
            "ledger",
            "check",
            &target,
            "--ledger",
            ledger,
            "--certificate",
            "cert",
        ];
        code_of(&lab, &words)
    };
    for (number, ledger) in [(1, "1.ledger"), (2, "2.ledger")] {
        let words = ["ledger", "write", &target, "--destroy", "--ledger", ledger];
        let more = ["--size", "1MiB", "--until-death"];
        let mut writer = lab.start(&[&words[..], &more].concat());
        let has = || std::fs::metadata(lab.path(ledger)).is_ok_and(|found| found.len() > 20_000);
        (0..15_000).take_while(|_| !has()).for_each(|_| pause(20));
        assert!(has(), "the ledger grows");
        program("kill", &["-KILL", &writer.id().to_string()]).unwrap();
        writer.wait().unwrap();
        let (code, told) = check(ledger);
        assert_eq!(code, Some(0), "{told}");
        let cuts = [
            "after 1 power cut: at most 95 %",
            "after 2 power cuts: at most 78 %",
        ];
        assert!(told.contains(cuts[number - 1]), "{told}");
    }
    // The same cut again, with a loss.
    change_byte(Path::new(&target), 5000);
    let (code, told) = check("2.ledger");
    assert_eq!(code, Some(12), "{told}");
    assert!(
        told.contains("lost or wrong after 1 of 2 power cuts"),
        "{told}"
    );
    assert!(lab.path("cert/certificate.html").is_file());
    let orderly = [&write(&target, &["--destroy"])[..], &SMALL].concat();
    assert_eq!(code_of(&lab, &orderly).0, Some(0));
    let (code, told) = check("a.ledger");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("ended in good order"), "{told}");
    assert!(!lab.path("cert/check-4.json").exists());
}

#[test]
fn lines_of_a_witness_that_are_gone_are_named() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let args = ["ledger", "stamp", &target, "--ledger", "a.ledger"];
    let (code, told) = code_of(
        &lab,
        &[&args[..], &["--every", "50ms", "--for", "1s"]].concat(),
    );
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("20 writes acknowledged"), "{told}");
    let file = Path::new(&target).join("plimsoll.stamps");
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 20);
    let check = ["ledger", "check", &target, "--ledger", "a.ledger"];
    assert_eq!(code_of(&lab, &check).0, Some(0));
    let cut = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    cut.set_len(18 * 64).unwrap();
    let (code, told) = code_of(&lab, &check);
    assert_eq!(code, Some(12), "{told}");
    assert!(told.contains("2 bad (2 lost)"), "{told}");
    assert!(told.contains("plimsoll.stamps (line 19)"), "{told}");
    let (code, told) = code_of(&lab, &["ledger", "outage", "a.ledger"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("writes stalled") && !told.contains("reads"),
        "{told}"
    );
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let lab = Lab::new();
    let target = lab.directory("t");
    std::fs::write(lab.path("there"), "mine").unwrap();
    std::fs::write(lab.path("notes.txt"), "mine").unwrap();
    let long = |more: &[&'static str]| -> Vec<String> {
        let all = write(&target, more);
        all.into_iter().map(str::to_owned).collect()
    };
    for (args, expect) in [
        (long(&["--sync", "sometimes"]), "dsync, fsync:N or none"),
        (long(&["--rate", "0"]), "0.1 to 100000 probes a second"),
        (long(&["--block", "700"]), "whole sectors of 512 bytes"),
        (long(&["--size", "8k"]), "at least 16 whole blocks"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, told) = code_of(&lab, &args);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(expect), "{told}");
    }
    for (args, expect) in [
        (vec!["ledger", "write", "there", "--ledger", "b"], "exists"),
        (
            vec!["ledger", "write", &target, "--ledger", "there"],
            "it exists",
        ),
        (
            vec!["ledger", "write", "new", "--ledger", "/no/b"],
            "no directory /no",
        ),
        (
            vec!["ledger", "write", "sim", "--ledger", "b"],
            "a file of that name is ./sim",
        ),
        (
            vec!["ledger", "write", "nbd://h/x", "--ledger", "b"],
            "needs a directory",
        ),
        (
            vec!["ledger", "write", "raid1", "--ledger", "b"],
            "it is a stack",
        ),
        (
            vec!["ledger", "check", &target, "--ledger", "there"],
            "not a ledger of plimsoll",
        ),
        (
            vec!["ledger", "check", "away", "--ledger", "there"],
            "'away'",
        ),
    ] {
        let (code, told) = code_of(&lab, &args);
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {told}");
        assert!(told.contains(expect), "{args:?}: {told}");
    }
    assert_eq!(std::fs::read(lab.path("there")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    assert!(!lab.path("a.ledger").exists() && !lab.path("b").exists());
}

/// A disk over NBD as a loop device, and its server.
struct Served {
    server: Child,
    client: Child,
    device: String,
    mount: String,
}

impl Served {
    /// nbdkit serves the image, with these filters and their settings.
    fn new(lab: &Lab, image: &str, filters: &[&str], settings: &[&str]) -> Option<Self> {
        let socket = lab.path("s").display().to_string();
        let mount = lab.directory("m");
        let file = format!("file={image}");
        let served = ["-f", "-U", &socket];
        let args = [&served[..], filters, &["file", &file], settings].concat();
        let mut server = start("nbdkit", &args);
        until(|| Path::new(&socket).exists());
        let mut client = start("nbdfuse", &[&mount, "--unix", &socket]);
        let disk = format!("{mount}/nbd");
        until(|| Path::new(&disk).exists());
        let Some(device) = program("losetup", &["--find", "--show", &disk]) else {
            for child in [&mut client, &mut server] {
                let _ = child.kill();
                let _ = child.wait();
            }
            program("umount", &[&mount]);
            return None;
        };
        Some(Served {
            server,
            client,
            device: device.trim().to_owned(),
            mount,
        })
    }
}

impl Drop for Served {
    /// The server dies without a word; what leads to it is taken away.
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        program("losetup", &["--detach", &self.device]);
        let _ = self.client.kill();
        let _ = self.client.wait();
        // The kernel may still be letting go of the loop device.
        program("umount", &["--lazy", &self.mount]);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is somebody else who serves a disk"
)]
fn start(name: &str, args: &[&str]) -> Child {
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program starts")
}

fn until(mut works: impl FnMut() -> bool) {
    // Five minutes, which end only what hangs: what is missing then, the test says.
    for _ in 0..15_000 {
        if works() {
            return;
        }
        pause(20);
    }
}

#[test]
fn a_server_that_acknowledges_early_and_dies_is_found_out_and_an_honest_one_is_not() {
    let what = "a ledger over a server that dies";
    for name in ["nbdkit", "nbdfuse", "losetup", "umount"] {
        if program(name, &["--version"]).is_none() {
            return skipped(what, &format!("{name} is missing"));
        }
    }
    for (filters, settings, expect) in [
        (&[][..], &[][..], Some(0)),
        (&["--filter=cache"], &["cache=unsafe"], Some(12)),
    ] {
        let lab = Lab::new();
        let image = lab.path("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(4 << 20).unwrap();
        let image = image.display().to_string();
        let Some(served) = Served::new(&lab, &image, filters, settings) else {
            return skipped(what, "no loop device can be made here");
        };
        let args = write(&served.device, &[&SMALL[..], &["--destroy"]].concat());
        let (code, told) = code_of(&lab, &args);
        assert_eq!(code, Some(0), "while it lives all is well: {told}");
        drop(served);
        let check = ["ledger", "check", &image, "--ledger", "a.ledger"];
        let (code, told) = code_of(&lab, &check);
        assert_eq!(code, expect, "{settings:?}: {told}");
        assert_eq!(told.contains("512 lost"), expect == Some(12), "{told}");
    }
}
