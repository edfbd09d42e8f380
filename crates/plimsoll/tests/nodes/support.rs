// SPDX-License-Identifier: Apache-2.0
//! A node for tests: a real sshd in a network of its own, with keys that live as long as the test.

use plimsoll_core::plan::{Node, Reach};
use plimsoll_lab::host::agent::Program;
use plimsoll_lab::host::{LocalHost, Nodes, SearchPath};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Directory sshd insists on; Debian's service makes it.
const SSHD_DIR: &str = "/run/sshd";

/// Programs the tests need, besides those of the stack `iscsi`.
const PROGRAMS: [&str; 6] = ["ip", "nsenter", "ssh", "ssh-keygen", "sshd", "tgtd"];

pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::null());
    command
}

pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Waits for something that must come about; the limit is only there to end a test that failed.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        pause();
    }
    panic!("within five minutes there was no {what}");
}

fn must(program: &str, args: &[&str]) {
    let output = command(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        text(&output)
    );
}

/// Both outputs of a program.
pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

pub(crate) fn local_host() -> LocalHost {
    LocalHost::new(SearchPath::new(&std::env::var_os("PATH").unwrap()))
}

/// Whether a test can be run here; says why not.
pub(crate) fn is_possible(test: &str) -> bool {
    use plimsoll_lab::host::Host;
    let host = local_host();
    let mut missing: Vec<&str> = PROGRAMS.to_vec();
    missing.retain(|name| host.find_program(name).is_none());
    let why = if !host.is_root() {
        "network namespaces need root".to_owned()
    } else if !missing.is_empty() {
        format!(
            "missing: {}; scripts/setup.sh test installs it",
            missing.join(", ")
        )
    } else {
        return true;
    };
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
    false
}

/// The program as users have it: static, so that it can be copied. Built here, since the one that
/// tests are given is not; never an older one than the sources.
pub(crate) fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let words = "rustc --quiet --locked --package plimsoll --bin plimsoll --profile static";
        let output = Command::new(env!("CARGO"))
            .args(words.split(' '))
            .arg("--target-dir")
            .arg(target)
            .args(["--", "-C", "target-feature=+crt-static"])
            .args(["-C", "link-arg=-Wl,--build-id"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        target.join("static/plimsoll")
    })
}

/// Labs that use sshd's directory, and whether it was made for them: the last one removes it.
static SSHD_DIR_USERS: Mutex<(u32, bool)> = Mutex::new((0, false));

fn use_sshd_dir() {
    let mut users = SSHD_DIR_USERS.lock().unwrap();
    users.0 += 1;
    users.1 |= fs::create_dir(SSHD_DIR).is_ok();
}

fn leave_sshd_dir() {
    let mut users = SSHD_DIR_USERS.lock().unwrap();
    users.0 -= 1;
    if users.0 == 0 && users.1 {
        let _ = fs::remove_dir(SSHD_DIR);
        users.1 = false;
    }
}

/// A node, and a place for what its controller keeps.
pub(crate) struct Lab {
    place: tempfile::TempDir,
    namespace: String,
    number: u32,
    sshd: Option<Child>,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        // Built before anything is waited for.
        program();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Networks of other copies of these tests are passed over by the number of the process.
        let number = 1 + (std::process::id() * 16 + COUNT.fetch_add(1, Ordering::Relaxed)) % 250;
        let mut lab = Lab {
            place: tempfile::tempdir().unwrap(),
            namespace: format!("plimtest{number}"),
            number,
            sshd: None,
        };
        use_sshd_dir();
        lab.make_network();
        lab.make_keys();
        lab.start_sshd();
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn address(&self) -> String {
        format!("10.93.{}.2", self.number)
    }

    fn make_network(&self) {
        let (namespace, link) = (&*self.namespace, format!("plimtest{}", self.number));
        let ours = format!("10.93.{}.1/24", self.number);
        let theirs = format!("{}/24", self.address());
        must("ip", &["netns", "add", namespace]);
        must(
            "ip",
            &[
                "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", namespace,
            ],
        );
        must("ip", &["address", "add", &ours, "dev", &link]);
        must("ip", &["link", "set", &link, "up"]);
        must(
            "ip",
            &["-n", namespace, "address", "add", &theirs, "dev", "eth0"],
        );
        for name in ["lo", "eth0"] {
            must("ip", &["-n", namespace, "link", "set", name, "up"]);
        }
    }

    fn make_keys(&self) {
        for name in ["key", "host_key", "other_key"] {
            let path = self.shown(name);
            must(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", &path],
            );
        }
        fs::copy(self.path("key.pub"), self.path("authorized")).unwrap();
        self.know("host_key.pub");
        let config = format!(
            "Host n1\n  HostName {}\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n",
            self.address(),
            self.shown("key"),
            self.shown("known")
        );
        fs::write(self.path("ssh_config"), config).unwrap();
        let inventory = format!(
            "ssh_config = \"ssh_config\"\n[[node]]\nname = \"n1\"\nssh = \"n1\"\naddress = \"{}\"\n\
             dir = \"{}\"\n",
            self.address(),
            self.shown("node")
        );
        fs::write(self.path("lab.toml"), inventory).unwrap();
    }

    /// Makes this the known host key of the node; none when the file does not exist.
    pub(crate) fn know(&self, key: &str) {
        let key = fs::read_to_string(self.path(key)).unwrap_or_default();
        let known = if key.is_empty() {
            key
        } else {
            format!("{} {key}", self.address())
        };
        fs::write(self.path("known"), known).unwrap();
    }

    fn start_sshd(&mut self) {
        let config = format!(
            "ListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
            self.address(),
            self.shown("host_key"),
            self.shown("authorized")
        );
        fs::write(self.path("sshd_config"), config).unwrap();
        let log = fs::File::create(self.path("sshd.log")).unwrap();
        let sshd = command("nsenter")
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .args([
                "/usr/sbin/sshd",
                "-D",
                "-e",
                "-f",
                &self.shown("sshd_config"),
            ])
            .stderr(log)
            .spawn();
        self.sshd = Some(sshd.unwrap());
        let address = format!("{}:22", self.address());
        until("sshd", || TcpStream::connect(&address).is_ok());
    }

    /// The node, reached as the inventory would.
    pub(crate) fn node(&self) -> Node {
        node(self.place.path(), &self.address())
    }

    pub(crate) fn nodes(&self) -> Nodes {
        nodes()
    }

    /// Runs the static program with the state of the controller.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_program(program(), "state", args)
    }

    /// Runs a program with the state in this directory.
    pub(crate) fn run_program(&self, program: &Path, state: &str, args: &[&str]) -> Output {
        let mut command = command(program);
        command.args(args).current_dir(self.place.path());
        command
            .env("PLIMSOLL_STATE", self.path(state))
            .output()
            .unwrap()
    }

    /// The copy of the program on the node.
    pub(crate) fn copy(&self) -> Option<PathBuf> {
        let mut entries = fs::read_dir(self.path("node/plimsoll-agent"))
            .ok()?
            .flatten();
        let is_copy = |path: &PathBuf| path.file_name().unwrap().len() > 8;
        entries.find_map(|entry| Some(entry.path()).filter(is_copy))
    }

    /// Processes that name this place in their arguments or their environment, besides sshd.
    pub(crate) fn processes(&self, program: &str) -> Vec<u32> {
        let place = self.place.path().to_str().unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
            let both = [read("cmdline"), read("environ")].concat();
            let name = String::from_utf8_lossy(&read("comm")).trim().to_owned();
            if name == program && String::from_utf8_lossy(&both).contains(place) {
                found.push(pid);
            }
        }
        found
    }

    /// Nothing is left of a node's part: no directory, no mount, no process.
    pub(crate) fn check_nothing_left(&self) {
        until("end of the agents", || !self.path("node").exists());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(
            !mounts.contains(self.place.path().to_str().unwrap()),
            "{mounts}"
        );
        for name in ["tgtd", "qemu-storage-da"] {
            assert_eq!(self.processes(name), [0_u32; 0], "{name}");
        }
        let journals = fs::read_dir(self.path("state/journals"))
            .into_iter()
            .flatten();
        assert_eq!(journals.count(), 0);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut sshd) = self.sshd.take() {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
        // The pair of interfaces goes with the namespace.
        let _ = command("ip")
            .args(["netns", "delete", &self.namespace])
            .output();
        leave_sshd_dir();
    }
}

/// The node of a lab in this place.
pub(crate) fn node(place: &Path, address: &str) -> Node {
    let config = place.join("ssh_config").display().to_string();
    let words = [
        "ssh",
        "-F",
        &config,
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
        "--",
        "n1",
    ];
    Node {
        name: "n1".into(),
        reach: Reach::Agent(words.map(Into::into).to_vec()),
        address: address.into(),
        dir: place.join("node").display().to_string(),
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 24_260,
    }
}

/// Hosts that copy the static program.
pub(crate) fn nodes() -> Nodes {
    Nodes::new(local_host()).copying(Program::of(program()).unwrap())
}
