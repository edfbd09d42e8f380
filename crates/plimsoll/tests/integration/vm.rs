// SPDX-License-Identifier: Apache-2.0
//! Virtual machines for real: one boots, is spoken to over several ports, loses its power and gets it
//! back. Needs root, QEMU and an image. The image is taken from the usual place, or from the folder that
//! `PLIMSOLL_TEST_VM` names, or made with `PLIMSOLL_TEST_VM=1`, which takes minutes.

#![expect(
    clippy::disallowed_methods,
    reason = "tests run the program and may fail loudly"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where root's images are.
const IMAGES: &str = "/var/lib/plimsoll/images";

struct Lab {
    /// Short: sockets lie in it.
    place: tempfile::TempDir,
}

impl Lab {
    fn plimsoll(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let state = self.place.path().join("s");
        command.env("PLIMSOLL_STATE", state).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn ask(&self, args: &[&str]) -> Output {
        self.plimsoll(args).output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.ask(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    }

    fn in_n1(&self, command: &str) -> String {
        self.told(&["vm", "shell", "n1", command])
    }

    /// Whether an image is found: nothing is made in the folder that is not ours.
    fn told_image_is_there(&self) -> bool {
        let images = std::fs::read_dir(self.place.path().join("s/images"));
        let names = images.into_iter().flatten().flatten();
        let recipe = self.told(&["vm", "image", "--recipe"]);
        names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .any(|name| name.starts_with(&recipe))
    }

    fn condition(&self) -> String {
        let text = self.told(&["vm", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        status["machines"][0]["condition"].as_str().unwrap().into()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.ask(&["raze"]);
    }
}

/// The image's folder to use, or why nothing can be tested.
fn images() -> Result<Option<PathBuf>, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the network of machines needs root".into());
    }
    if !Path::new("/usr/bin/qemu-system-x86_64").exists() {
        return Err("qemu-system-x86_64 is missing: scripts/setup.sh vm".into());
    }
    Ok(match std::env::var_os("PLIMSOLL_TEST_VM") {
        Some(one) if one == "1" => None,
        Some(folder) => Some(folder.into()),
        None => Some(IMAGES.into()),
    })
}

/// A place with the existing images, or with new ones if `PLIMSOLL_TEST_VM` is 1. If no machine can be
/// tested, prints why and returns `None`.
fn lab() -> Option<Lab> {
    let skipped = |why: &str| {
        let _ = writeln!(std::io::stderr(), "SKIPPED virtual machines: {why}");
        None
    };
    let images = match images() {
        Ok(images) => images,
        Err(why) => return skipped(&why),
    };
    let place = tempfile::Builder::new().prefix("plvm").tempdir().unwrap();
    let lab = Lab { place };
    std::fs::create_dir(lab.place.path().join("s")).unwrap();
    if let Some(images) = &images {
        std::os::unix::fs::symlink(images, lab.place.path().join("s/images")).unwrap();
        if !lab.told_image_is_there() {
            return skipped(
                "there is no image of this version: plimsoll vm image makes it, or \
                 PLIMSOLL_TEST_VM=1",
            );
        }
    } else {
        lab.told(&["vm", "image"]);
    }
    Some(lab)
}

#[test]
fn a_machine_on_a_target_is_booted_and_its_times_are_told() {
    let Some(lab) = lab() else { return };
    let [target, run] = ["t", "r"].map(|name| lab.place.path().join(name));
    std::fs::create_dir(&target).unwrap();
    let [target, run] = [&target, &run].map(|path| path.to_str().unwrap());
    lab.told(&["run", "boot,boots=3", target, "-o", run]);
    let text = lab.told(&["report", run, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let said = report.to_string();
    for phase in ["first boot", "boot 2", "boot 3", "boot, median"] {
        assert!(said.contains(phase), "{phase}: {said}");
    }
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0);
}

#[test]
fn a_machine_boots_keeps_its_disks_and_can_be_told() {
    let Some(lab) = lab() else { return };
    let file = lab.place.path().join("lab.toml");
    let words = [
        "vm",
        "up",
        "--node-count",
        "1",
        "--client-count",
        "0",
        "--memory",
        "320M",
    ];
    let more = [
        "--disk",
        "128M",
        "--accel",
        "tcg",
        "-o",
        file.to_str().unwrap(),
    ];
    let would = lab.told(&[&words[..], &more, &["--dry-run"]].concat());
    assert!(would.contains("start machine n1"), "{would}");
    assert!(!file.exists());
    lab.told(&[&words[..], &more].concat());
    outputs_status_and_several_clients(&lab);
    told_from_outside(&lab);
    power_cut(&lab);
    assert!(file.exists());
    lab.told(&["vm", "down"]);
    let left = lab.told(&["raze"]);
    assert!(left.contains("nothing"), "{left}");
}

fn outputs_status_and_several_clients(lab: &Lab) {
    let output = lab.ask(&["vm", "shell", "n1", "echo out; echo bad >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"bad\n");
    // A client that is killed leaves no command's words to the next one.
    let words = ["vm", "shell", "n1", "while echo stale; do :; done"];
    let mut endless = lab.plimsoll(&words).stdout(Stdio::null()).spawn().unwrap();
    let mut waiting = lab.plimsoll(&["vm", "shell", "n1", "cat; echo end"]);
    let mut waiting = waiting
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(lab.in_n1("hostname"), "n1");
    endless.kill().unwrap();
    endless.wait().unwrap();
    assert_eq!(lab.in_n1("echo clean"), "clean");
    let text = "x".repeat(200_000);
    let mut input = waiting.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.stdout, format!("{text}end\n").as_bytes());
}

fn told_from_outside(lab: &Lab) {
    assert_eq!(lab.condition(), "running");
    lab.told(&["vm", "pause", "n1"]);
    assert_eq!(lab.condition(), "paused");
    lab.told(&["vm", "resume", "n1"]);
    assert_eq!(lab.condition(), "running");
    let carrier = "cat /sys/class/net/eth0/carrier";
    assert_eq!(lab.in_n1(carrier), "1");
    lab.told(&["vm", "link", "n1", "down"]);
    let wait = format!("until [ \"$({carrier})\" = 0 ]; do sleep 0.1; done; {carrier}");
    assert_eq!(lab.in_n1(&wait), "0");
    lab.told(&["vm", "link", "n1", "up"]);
    faults(lab);
    assert_eq!(lab.in_n1("/lab/power status n1"), "on");
    let refused = lab.ask(&["vm", "shell", "n1", "/lab/power off n9"]);
    assert_eq!(refused.stdout, b"refused\n");
    assert!(!refused.status.success());
}

/// Each fault is seen in the machine, and gone when it has been ended, twice.
fn faults(lab: &Lab) {
    let netem = "tc qdisc show dev eth0 | grep -c 'netem.*[1-9]' || true";
    let routes = "ip route show type blackhole | wc -l";
    // Some blocks count as free but are reserved: only a write shows that the disk is full.
    let full = "head -c 65536 /dev/zero 2>/dev/null >/data/tried && echo room || echo full; \
                rm -f /data/tried";
    let ahead = format!(
        "[ $(($(date +%s) - {})) -gt 1800 ] && echo ahead || echo right",
        std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
    );
    for (fault, look, there, gone) in [
        ("delay", netem, "1", "0"),
        ("loss", netem, "1", "0"),
        ("one-way", routes, "2", "0"),
        ("disk-full", full, "full", "room"),
        ("clock-step", &ahead, "ahead", "right"),
    ] {
        let tell = |word| lab.told(&["vm", "fault", "n1", fault, word]);
        tell("try");
        assert_eq!(lab.in_n1(look), gone, "{fault}");
        tell("on");
        assert_eq!(lab.in_n1(look), there, "{fault}");
        tell("off");
        tell("off");
        assert_eq!(lab.in_n1(look), gone, "{fault}");
    }
    let refused = lab.ask(&["vm", "fault", "n1", "partition", "try"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("no second server"), "{errors}");
    // Reads of the page cache know nothing of disks.
    let write = "dd if=/dev/zero of=/data/probe bs=4k count=1 oflag=direct 2>/dev/null & sleep 2; \
                 kill -0 $! 2>/dev/null && echo waits || echo done; rm -f /data/probe";
    lab.told(&["vm", "fault", "n1", "disk-hung", "on"]);
    let waits = "for n in 1 2 3; do dd if=/dev/vdb of=/dev/null bs=4k count=1 skip=$n iflag=direct 2>/dev/null & done; \
                 sleep 2; kill -0 $! 2>/dev/null && echo waits || echo done";
    assert_eq!(lab.in_n1(waits), "waits");
    lab.told(&["vm", "fault", "n1", "disk-hung", "off"]);
    assert_eq!(lab.in_n1(write), "done");
    let read = "dd if=/dev/disk/by-id/virtio-d1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null && \
                echo reads || echo fails";
    for (word, how) in [
        ("on", "fails"),
        ("on", "fails"),
        ("off", "reads"),
        ("off", "reads"),
    ] {
        lab.told(&["vm", "fault", "n1", "disk-errors", word]);
        assert_eq!(lab.in_n1(read), how, "{word}");
    }
}

fn power_cut(lab: &Lab) {
    lab.in_n1("echo synced >/data/kept && sync && echo layer >/root/lost");
    lab.in_n1("echo raw | dd of=/dev/disk/by-id/virtio-d1 bs=512 conv=sync oflag=direct");
    lab.told(&["vm", "off", "n1"]);
    assert_eq!(lab.condition(), "off");
    let output = lab.ask(&["vm", "shell", "n1", "true"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("is off"), "{errors}");
    lab.told(&["vm", "on", "n1"]);
    assert_eq!(
        lab.in_n1("cat /data/kept; head -c 3 /dev/disk/by-id/virtio-d1"),
        "synced\nraw"
    );
    assert_eq!(lab.in_n1("ls /root"), "");
    // A machine may also cut its own power.
    let output = lab.ask(&["vm", "shell", "n1", "/lab/power off n1"]);
    assert!(!output.status.success());
    assert_eq!(lab.condition(), "off");
}
