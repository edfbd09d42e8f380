// SPDX-License-Identifier: Apache-2.0
//! What another user of the machine gets from stacks that are up: nothing. The proof must say so, and so
//! must what he would try himself, with programs that everybody has.

use plimsoll_core::plan::{StackOutputs, StackSelfTest};
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestStatus, prove};
use plimsoll_lab::stacks::{self, StackConfig, StackInstance, StackUpOptions};
use plimsoll_machine::host::HostPool;
use plimsoll_machine::journal::StateDir;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::support::{RazedAtTheEnd, check_nothing_left, host, is_stack_possible, missing};

/// A stack that is up in a place that everybody may enter.
struct Raised {
    place: tempfile::TempDir,
    up: StackInstance,
    hosts: HostPool,
}

impl Raised {
    fn new(name: &str, first_port: u16) -> Option<Self> {
        let choice = StackConfig::parse(name).unwrap();
        if missing(name, &choice) || !is_stack_possible(name, "local") {
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let state = StateDir::new(place.path());
        let options = StackUpOptions {
            size_bytes: 256 << 20,
            first_port,
            ..StackUpOptions::new(state.stacks())
        };
        let mut hosts = HostPool::new(host());
        let up = stacks::up(&choice, &options, &state, &mut hosts);
        let up = up.unwrap_or_else(|error| {
            drop(RazedAtTheEnd(&state));
            panic!("{name}: {error}");
        });
        Some(Raised { place, up, hosts })
    }

    fn state(&self) -> StateDir {
        StateDir::new(self.place.path())
    }

    /// What the proof says of each machine.
    fn closed(&mut self) -> Vec<SelfTestStatus> {
        let is_closed = |proof: &StackSelfTest| matches!(proof, StackSelfTest::Closed { .. });
        let proofs = self.up.made.proofs.iter().filter(|proof| is_closed(proof));
        let made = StackOutputs {
            proofs: proofs.cloned().collect(),
            ..StackOutputs::default()
        };
        let proved = prove(
            &made,
            None,
            &self.up.id,
            SelfTestDepth::Quick,
            &mut self.hosts,
        );
        proved.into_iter().map(|one| one.outcome).collect()
    }

    /// Those that its servers have on a network of namespaces.
    fn addresses(&self) -> Vec<String> {
        let proofs = self.up.made.proofs.iter();
        let addresses = proofs.flat_map(|proof| match proof {
            StackSelfTest::Closed { addresses, .. } => addresses.clone(),
            _ => Vec::new(),
        });
        addresses.filter(|at| at.starts_with("10.92.")).collect()
    }

    fn down(mut self) {
        let down = stacks::down(&self.up.name, &self.state(), &mut self.hosts).unwrap();
        assert!(down.is_clean(), "{down:?}");
        check_nothing_left(self.place.path());
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        drop(RazedAtTheEnd(&self.state()));
    }
}

/// Whether a program that `nobody` starts ends well.
fn nobody_may(words: &[&str]) -> bool {
    let who = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let ran = Command::new("setpriv").args(who).args(words).output();
    let ran = ran.unwrap();
    // What does not start at all proves nothing.
    assert!(
        ran.status.code().is_some_and(|code| code < 126),
        "{words:?}: {ran:?}"
    );
    ran.status.success()
}

/// Ends well when no fewer and no more of its ways are open than it reads: a plain connection, one from a
/// socket bound to the bridge, a broadcast, and IPv6 to all neighbours.
const ATTACK: &str = r#"
import socket, sys
address, bridge, port = sys.argv[1:]
def connects(bound):
    s = socket.socket()
    s.settimeout(2)
    if bound: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode() + b"\0")
    s.connect((address, int(port)))
def broadcasts():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode() + b"\0")
    s.sendto(b"x", ("255.255.255.255", 111))
def multicasts():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.sendto(b"x", ("ff02::1", 111, 0, socket.if_nametoindex(bridge)))
opened = 0
for way in (lambda: connects(False), lambda: connects(True), broadcasts, multicasts):
    try:
        way()
        opened += 1
    except OSError as e:
        print(e)
least, most = map(int, sys.stdin.read().split())
sys.exit(not least <= opened <= most)
"#;

/// As root ways to a server are open (not all are: it may listen elsewhere), and as another user none.
fn check_closed(address: &str, name: &str) {
    let number = address.split('.').nth(2).unwrap();
    let bridge = format!("plimsoll{number}");
    let port = if name.starts_with("nfs") {
        "2049"
    } else {
        "24007"
    };
    let attack = ["/usr/bin/python3", "-c", ATTACK, address, &bridge, port];
    let who = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    for (who, n_open) in [(&["--"][..], "2 4"), (&who, "0 0")] {
        let mut child = Command::new("setpriv")
            .args(who)
            .args(attack)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(n_open.as_bytes())
            .unwrap();
        let ran = child.wait_with_output().unwrap();
        assert!(ran.status.success(), "{name}, {who:?}, {n_open}: {ran:?}");
    }
}

/// Mounts below a place, with their options.
fn mounts_below(place: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap();
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let below = lines.filter(|words| Path::new(words[1]).starts_with(place));
    below
        .map(|words| (words[1].into(), words[3].into()))
        .collect()
}

/// Neither the proof nor what he tries himself lets another user have anything.
fn nobody_gains(name: &str, first_port: u16) {
    let Some(mut raised) = Raised::new(name, first_port) else {
        return;
    };
    for outcome in raised.closed() {
        assert!(
            matches!(outcome, SelfTestStatus::Passed(_)),
            "{name}: {outcome:?}"
        );
    }
    let base = raised.place.path().join("stacks");
    for entry in fs::read_dir(&base).unwrap().flatten() {
        let dir = entry.path().display().to_string();
        assert!(!nobody_may(&["ls", &dir]), "{name}: {dir}");
        assert!(
            !nobody_may(&["ls", &format!("{dir}/mnt/.")]),
            "{name}: {dir}"
        );
        assert!(
            !nobody_may(&["head", "-c1", &format!("{dir}/disk0.img")]),
            "{name}: {dir}"
        );
    }
    for address in raised.addresses() {
        check_closed(&address, name);
    }
    for (point, options) in mounts_below(&base) {
        let has = |wanted: &str| options.split(',').any(|option| option == wanted);
        assert!(has("nosuid") && has("nodev"), "{name}: {point}: {options}");
    }
    raised.down();
}

#[test]
fn nobody_gains_from_a_directory() {
    nobody_gains("local", 23_600);
}

#[test]
fn nobody_gains_from_nbd() {
    nobody_gains("nbd", 23_601);
}

#[test]
fn nobody_gains_from_iscsi() {
    nobody_gains("iscsi", 23_602);
}

#[test]
fn nobody_gains_from_nfs() {
    nobody_gains("nfs(client=own)", 23_603);
}

#[test]
fn nobody_gains_from_raid() {
    nobody_gains("raid1", 23_604);
    nobody_gains("raid5(transport=nbd)", 23_610);
    nobody_gains("raid10(transport=nbd)", 23_614);
}

#[test]
fn nobody_gains_from_gluster() {
    nobody_gains("gluster", 23_620);
}

#[test]
fn nobody_gains_from_gluster_with_tenants() {
    nobody_gains("gluster+tenant", 23_624);
}

#[test]
fn nobody_gains_from_what_is_encrypted() {
    nobody_gains("nbd+crypt", 23_630);
}

#[test]
fn what_is_open_is_told() {
    for (name, expect) in [
        ("iscsi(chap=off)", "read and write the iSCSI disk"),
        ("local", "list "),
    ] {
        let Some(mut raised) = Raised::new(name, 23_634) else {
            return;
        };
        if name == "local" {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(raised.up.mount_dir(), open).unwrap();
            let above = raised.up.mount_dir().parent().unwrap();
            fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let outcomes = raised.closed();
        let says = |outcome: &SelfTestStatus| matches!(outcome, SelfTestStatus::Failed(text) if text.contains(expect));
        assert!(outcomes.iter().any(says), "{name}: {outcomes:?}");
        raised.down();
    }
}
