// SPDX-License-Identifier: Apache-2.0
//! Disks of servers that are not plimsoll's own, as targets: stood up by the test on the loopback
//! address, attached by their addresses.

use crate::support::{Lab, program, skipped, text};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const IMAGE_BYTES: u64 = 64 << 20;
const TARGET: &str = "iqn.2001-04.com.example:test";

/// A server of the test, ended with it.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program as root has it, with this control socket of tgtd.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is somebody else who serves a disk"
)]
fn command(name: &str, args: &[&str], control: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::null());
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.env("TGT_IPC_SOCKET", control);
    command
}

fn serve(name: &str, args: &[&str], control: &Path) -> Served {
    let mut command = command(name, args, control);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Served(command.spawn().expect("the server starts"))
}

/// Tries again until it works: a server needs a moment.
fn until(what: &str, mut works: impl FnMut() -> bool) {
    for _ in 0..15_000 {
        if works() {
            return;
        }
        crate::support::pause(20);
    }
    panic!("{what} did not happen in five minutes");
}

/// An iSCSI target over this image, for one account if it is given.
fn target(lab: &Lab, image: &str, account: Option<(&str, &str)>) -> (Served, u16) {
    let control = lab.path("tgt.sock");
    let begin = || {
        let port = free_port();
        let portal = format!("portal=127.0.0.1:{port}");
        (serve("tgtd", &["-f", "--iscsi", &portal], &control), port)
    };
    let told = |words: &str| {
        let all = format!("--lld iscsi --op {words}");
        let args: Vec<&str> = all.split(' ').collect();
        let output = command("tgtadm", &args, &control).output().ok()?;
        output.status.success().then(|| text(&output.stdout))
    };
    let admin = |words: &str| told(words).is_some();
    let (mut tgtd, mut port) = begin();
    until("tgtd", || {
        let Some(portals) = told("show --mode portal") else {
            return false;
        };
        let is_ours = portals.contains(&format!("127.0.0.1:{port},"));
        if !is_ours {
            // Another process took the port meanwhile, and tgtd listens on its default port instead.
            (tgtd, port) = begin();
        }
        is_ours
    });
    assert!(admin(&format!("new --mode target --tid 1 -T {TARGET}")));
    let unit = format!("new --mode logicalunit --tid 1 --lun 1 -b {image}");
    assert!(admin(&unit));
    if let Some((user, password)) = account {
        let new = format!("new --mode account --user {user} --password {password}");
        assert!(admin(&new));
        assert!(admin(&format!("bind --mode account --tid 1 --user {user}")));
    }
    assert!(admin("bind --mode target --tid 1 -I ALL"));
    (tgtd, port)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Why disks cannot be attached or served here.
fn obstacle(lab: &Lab, server: &[&str]) -> Option<String> {
    let client = ["qemu-storage-daemon", "nbdfuse", "losetup"];
    let mut all = client.iter().chain(server);
    if let Some(name) = all.find(|name| program(name, &["--version"]).is_none()) {
        return Some(format!("{name} is missing"));
    }
    let image = image(lab, "probe");
    match program("losetup", &["--find", "--show", &image]) {
        Some(device) => {
            program("losetup", &["--detach", device.trim()]);
            None
        }
        None => Some("no loop device can be made here".into()),
    }
}

fn image(lab: &Lab, name: &str) -> String {
    let path = lab.path(name);
    let file = std::fs::File::create(&path).expect("a writable target directory");
    file.set_len(IMAGE_BYTES).expect("a sparse file");
    path.display().to_string()
}

fn is_zero(image: &str) -> bool {
    let bytes = std::fs::read(image).expect("the image is readable");
    bytes.iter().all(|byte| *byte == 0)
}

/// Runs small random writes on an address.
fn run(lab: &Lab, address: &str, more: &[&str]) -> (Option<i32>, String) {
    let args = [
        "run",
        "randwrite,size=16MiB",
        address,
        "--for",
        "200ms",
        "--warmup",
        "0s",
    ];
    let output = lab.run(&[&args[..], more].concat());
    (output.status.code(), text(&output.stderr))
}

/// Journals that say something is left to undo.
fn journals(lab: &Lab) -> usize {
    let list = std::fs::read_dir(lab.path("state/journals"));
    list.map_or(0, |list| {
        list.flatten()
            .filter(|e| e.path().extension().is_some_and(|x| x == "jsonl"))
            .count()
    })
}

#[test]
fn an_nbd_disk_of_somebody_else_is_a_device_that_needs_consent() {
    let lab = Lab::new();
    if let Some(why) = obstacle(&lab, &["nbdkit"]) {
        return skipped("an NBD disk by its address", &why);
    }
    let image = image(&lab, "image");
    let socket = lab.path("n.sock");
    let at = socket.display().to_string();
    let file = format!("file={image}");
    let _server = serve("nbdkit", &["-f", "-U", &at, "file", &file], &socket);
    until("the socket", || socket.exists());
    let address = format!("nbd+unix:///?socket={at}");
    let (code, error) = run(&lab, &address, &["-o", "r1"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--destroy"), "{error}");
    assert!(is_zero(&image), "nothing was written");
    let (code, error) = run(
        &lab,
        &address,
        &["--destroy", "--check-data", "always", "-o", "r2"],
    );
    assert_eq!(code, Some(0), "{error}");
    assert!(!is_zero(&image), "the writes arrived");
    let manifest = std::fs::read_to_string(lab.path("r2/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let arm = &manifest["arms"][0];
    assert_eq!(arm["facts"]["mount_source"], *address, "{arm}");
    assert_eq!(arm["facts"]["size_bytes"], IMAGE_BYTES, "{arm}");
    assert!(
        arm["description"].as_str().unwrap().contains("cache"),
        "{arm}"
    );
    if program("mkfs.ext4", &["-q", "-F", &image]).is_none() {
        return skipped("an NBD disk with a file system", "mkfs.ext4 is missing");
    }
    let (code, error) = run(&lab, &address, &["--destroy", "-o", "r3"]);
    assert_eq!(code, Some(2), "{error}");
    let again = format!("--destroy={address}");
    let told: String = error.split_whitespace().collect();
    assert!(told.contains("ext4") && told.contains(&again), "{error}");
    assert_eq!(journals(&lab), 0, "a refused disk is detached");
    let compare = [
        "compare",
        &address,
        "-w",
        "randwrite,size=16MiB",
        "--blocks",
        "2",
    ];
    let more = ["--for", "100ms", "--warmup", "0s", &again, "-o", "r4"];
    let output = lab.run(&[&compare[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(journals(&lab), 0);
}

#[test]
fn an_iscsi_disk_of_somebody_else_asks_for_its_secret_and_is_razed_after_a_kill() {
    let lab = Lab::new();
    if let Some(why) = obstacle(&lab, &["tgtd"]) {
        return skipped("an iSCSI disk by its address", &why);
    }
    let image = image(&lab, "image");
    let (_target, port) = target(&lab, &image, Some(("joe", "long-enough-word")));
    let secret = lab.path("secret").display().to_string();
    std::fs::write(&secret, "another-long-word\n").unwrap();
    let address = format!("iscsi://joe@127.0.0.1:{port}/{TARGET}/1?secret_file={secret}");
    let (code, error) = run(&lab, &address, &["--destroy", "-o", "r1"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(is_zero(&image), "nothing was written");
    assert_eq!(journals(&lab), 0);
    std::fs::write(&secret, "long-enough-word\n").unwrap();
    let (code, error) = run(&lab, &address, &["--destroy", "-o", "r2"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!is_zero(&image), "the writes arrived");
    assert_eq!(journals(&lab), 0);
    let args = [
        "run",
        "randwrite,size=16MiB",
        &address,
        "--destroy",
        "--for",
        "60s",
        "-o",
        "r3",
    ];
    let mut running = Served(lab.start(&args));
    lab.wait_for_events("r3", 3);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    assert!(journals(&lab) > 0, "what is attached stands in a journal");
    let raze = lab.run(&["raze"]);
    assert_eq!(raze.status.code(), Some(0), "{}", text(&raze.stderr));
    assert_eq!(journals(&lab), 0);
    let loops = program(
        "losetup",
        &["--list", "--noheadings", "--output", "BACK-FILE"],
    );
    let id = format!("-{}-disk", running.0.id());
    assert!(
        !loops.unwrap_or_default().contains(&id),
        "its loop device has gone"
    );
}

#[test]
fn an_address_that_is_none_is_refused_with_its_form() {
    let lab = Lab::new();
    for (address, why) in [
        (
            "iscsi://array/iqn.a/1?secret=x",
            "only secret_file, initiator, sectors",
        ),
        (
            "iscsi://joe:pass@array/iqn.a/1",
            "must not contain a secret",
        ),
        ("nbd://array:x", "invalid port"),
    ] {
        let output = lab.run(&["run", "randread", address, "--destroy"]);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(why), "{told}");
        assert!(told.contains("; the form is "), "{told}");
    }
}
