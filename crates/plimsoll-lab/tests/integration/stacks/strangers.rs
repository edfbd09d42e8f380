// SPDX-License-Identifier: Apache-2.0
//! Access of another user of the machine to stacks that are up: none. The proof must say so, and so
//! must the attempts of that user, with programs that everybody has.

use plimsoll_core::plan::{StackOutputs, StackSelfTest};
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestStatus, prove};
use plimsoll_lab::stacks::{self, StackConfig, StackInstance, StackPlacement, StackUpOptions};
use plimsoll_machine::host::HostPool;
use plimsoll_machine::journal::StateDir;
use std::collections::BTreeSet;
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
        let (stack, place_name) = name.split_once('@').unwrap_or((name, ""));
        let choice = StackConfig::parse(stack).unwrap();
        if missing(name, &choice) || !is_stack_possible(name, "local") {
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let state = StateDir::new(place.path());
        // A storage daemon of Ceph takes a gibibyte at least.
        let size_bytes = if stack == "ceph" { 1 << 30 } else { 256 << 20 };
        let options = StackUpOptions {
            size_bytes,
            first_port,
            place: StackPlacement::named(place_name),
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

    /// The status of the proof for each machine.
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
        addresses.filter(|at| at.starts_with(CLOSED)).collect()
    }

    /// Files that its clients then open: one in its mount, and one in each export of its servers.
    fn write_secret(&self) {
        let mount = self.up.mount_dir();
        let exported = self.place.path().join("stacks");
        let entries = fs::read_dir(exported).unwrap().flatten();
        let exports = entries.map(|entry| entry.path().join("export"));
        for dir in exports
            .chain([mount.to_path_buf()])
            .filter(|dir| dir.is_dir())
        {
            let secret = dir.join("secret");
            fs::write(&secret, [7; 4096]).unwrap();
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).unwrap();
        }
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

/// The user who owns nothing.
const NOBODY: [&str; 5] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--",
];

/// Whether a program succeeds when the user `nobody` starts it.
fn nobody_may(words: &[&str]) -> bool {
    let ran = Command::new("env").args(NOBODY).args(words).output();
    let ran = ran.unwrap();
    // A program that does not start at all proves nothing.
    assert!(
        ran.status.code().is_some_and(|code| code < 126),
        "{words:?}: {ran:?}"
    );
    ran.status.success()
}

/// The attack, and the library that binds the sockets of other programs to an interface.
const ATTACK: &str = include_str!("strangers/attack.py");
const BOUND: &str = include_str!("strangers/bound.c");
const GFAPI: &str = include_str!("strangers/gfapi.py");

/// Addresses in networks of namespaces. What listens on the loopback address takes connections of everybody
/// and asks for a secret.
const CLOSED: &str = "10.92.";

/// The result of an attack.
#[derive(Debug, Default)]
struct AttackResult {
    gained: Vec<String>,
    tried: usize,
}

impl AttackResult {
    fn of(output: &[u8]) -> AttackResult {
        let text = String::from_utf8_lossy(output).into_owned();
        let words =
            |what: &'static str| text.lines().filter_map(move |line| line.strip_prefix(what));
        AttackResult {
            gained: words("gained ").map(String::from).collect(),
            tried: words("tried ")
                .filter_map(|n| n.parse::<usize>().ok())
                .sum(),
        }
    }
}

/// Runs the attack with these arguments; the words `who` before it change its user.
fn attack(who: &[&str], arguments: &[&str], input: &str) -> Vec<u8> {
    let mut child = Command::new("env")
        .args(who)
        .args(["/usr/bin/python3", "-c", ATTACK])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // One that ended has read all that it wants, and its code says the rest.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success(), "{who:?} {arguments:?}: {ran:?}");
    ran.stdout
}

/// The library that binds sockets, where everybody can read it.
fn shim() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let source = place.path().join("bound.c");
    fs::write(&source, BOUND).unwrap();
    let library = place.path().join("bound.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    assert!(cc.status().unwrap().success());
    place
}

/// The interface of this machine in the network of an address.
fn bridge(address: &str) -> String {
    format!("plimsoll{}", address.split('.').nth(2).unwrap())
}

/// The targets of the attack, in the form that it reads.
fn doors(raised: &Raised) -> serde_json::Value {
    let place = raised.place.path().to_str().unwrap();
    let mut arguments = vec!["doors", place];
    let addresses = raised.addresses();
    arguments.extend(addresses.iter().map(String::as_str));
    let doors = attack(&[], &arguments, "");
    let mut given: serde_json::Value = serde_json::from_slice(&doors).unwrap();
    given["gfapi"] = GFAPI.into();
    given
}

/// By every client that Debian has for its servers, with sockets as they are and bound to interfaces.
fn attacked(raised: &Raised, who: &[&str]) -> AttackResult {
    let mut given = doors(raised);
    let library = shim();
    let addresses = raised.addresses();
    let bridges: BTreeSet<String> = addresses.iter().map(|address| bridge(address)).collect();
    given["inside"] = false.into();
    given["shim"] = library.path().join("bound.so").to_str().unwrap().into();
    given["closed"] = CLOSED.into();
    given["bridges"] = bridges.iter().cloned().collect();
    given["interfaces"] = bridges.into_iter().chain(["lo".into()]).collect();
    AttackResult::of(&attack(who, &["attack"], &given.to_string()))
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
fn nobody_gains(name: &str, first_port: u16, expected: &[&str]) {
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
    let gained = attacked(&raised, &NOBODY);
    let is_nothing = gained.gained.is_empty() && gained.tried >= expected.len();
    assert!(is_nothing, "{name}: {gained:?}");
    // The same as root: where it opens nothing, the attack proves nothing.
    raised.write_secret();
    let opened = attacked(&raised, &[]).gained;
    for client in expected {
        let is_open = opened.iter().any(|name| name.starts_with(client));
        assert!(is_open, "{name}, {client}: {opened:?}");
    }
    for (point, options) in mounts_below(&base) {
        let has = |wanted: &str| options.split(',').any(|option| option == wanted);
        assert!(has("nosuid") && has("nodev"), "{name}: {point}: {options}");
    }
    raised.down();
}

#[test]
fn nobody_gains_from_a_directory() {
    nobody_gains("local", 23_600, &[]);
}

#[test]
fn nobody_gains_from_nbd() {
    nobody_gains("nbd", 23_601, &[]);
    nobody_gains("nbd@netns", 23_601, &["connect", "broadcast", "multicast"]);
}

#[test]
fn nobody_gains_from_iscsi() {
    nobody_gains("iscsi", 23_602, &[]);
    nobody_gains(
        "iscsi@netns",
        23_602,
        &["connect", "broadcast", "multicast"],
    );
}

#[test]
fn nobody_gains_from_nfs() {
    nobody_gains(
        "nfs(client=own)",
        23_603,
        &["connect", "broadcast", "multicast", "libnfs"],
    );
}

#[test]
fn nobody_gains_from_raid() {
    nobody_gains("raid1", 23_604, &[]);
    nobody_gains(
        "raid1@netns",
        23_604,
        &["connect", "broadcast", "multicast"],
    );
    nobody_gains("raid5(transport=nbd)", 23_610, &[]);
    nobody_gains("raid10(transport=nbd)", 23_614, &[]);
}

#[test]
fn nobody_gains_from_gluster() {
    nobody_gains(
        "gluster",
        23_620,
        &["connect", "broadcast", "multicast", "libgfapi"],
    );
}

/// From one of its servers, where nothing closes the network.
fn attacked_inside(raised: &Raised, with_certificates: bool) -> AttackResult {
    let mut given = doors(raised);
    let nothing = || serde_json::Value::Array(Vec::new());
    if !with_certificates {
        given["certificates"] = nothing();
    }
    given["inside"] = true.into();
    given["closed"] = "none".into();
    given["bridges"] = nothing();
    given["interfaces"] = nothing();
    given["shim"] = "".into();
    let network = format!("--net=/run/netns/plimsoll-{}-n1", raised.up.id);
    AttackResult::of(&attack(
        &["nsenter", &network],
        &["attack"],
        &given.to_string(),
    ))
}

/// The secret lies in no directory of a tenant, so no client opens it. One server: those of several have
/// the same ways in, and are attacked above.
#[test]
fn nobody_gains_from_gluster_with_tenants() {
    nobody_gains(
        "gluster(distribute,nodes=1)+tenant",
        23_624,
        &["connect", "broadcast", "multicast"],
    );
}

/// Its packages are not among those that tests install: `scripts/setup.sh ceph` does.
#[test]
fn nobody_gains_from_ceph() {
    nobody_gains("ceph", 23_650, &["librados with its key"]);
}

/// Root of a server has every way into the network, and nothing without what the stack signed.
#[test]
fn without_a_certificate_nobody_gains_inside_the_network_of_gluster() {
    let ways = [
        "without a certificate, data",
        "without TLS, data",
        "forging node, data",
        "forging data, data",
        "without a certificate, brick of data",
        "forging node, brick of data",
    ];
    for (name, is_secured) in [
        ("gluster(distribute,nodes=1)", true),
        ("gluster(distribute,nodes=1,tls=off)", false),
    ] {
        let Some(raised) = Raised::new(name, 23_640) else {
            return;
        };
        raised.write_secret();
        let AttackResult { gained, tried } = attacked_inside(&raised, false);
        assert!(tried > ways.len(), "{name}: {tried}");
        eprintln!("{name}: {} of {tried} ways are open", gained.len());
        for way in ways {
            let is_open = gained.iter().any(|what| what.contains(way));
            // Without TLS all of them lead in, but for those that ask for it.
            let should = !is_secured && !way.starts_with("forging");
            assert_eq!(is_open, should, "{name}, {way}: {gained:?}");
        }
        if is_secured {
            assert!(gained.is_empty(), "{gained:?}");
            let opened = attacked_inside(&raised, true).gained;
            let is_open = |what: &String| what.contains("with its certificate, data");
            assert!(opened.iter().any(is_open), "{opened:?}");
        }
        raised.down();
    }
}

#[test]
fn nobody_gains_from_what_is_encrypted() {
    nobody_gains("nbd+crypt", 23_630, &[]);
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
        if name.starts_with("iscsi") {
            let gained = attacked(&raised, &NOBODY).gained;
            assert!(gained.iter().any(|what| what.starts_with("libiscsi")));
        }
        raised.down();
    }
}
