// SPDX-License-Identifier: Apache-2.0
//! A node for tests: a real sshd in a network of its own, with keys that live as long as the test.

use crate::built::{program, text};
use crate::support::until;
use plimsoll_core::plan::{NodeTransport, PlanNode};
use plimsoll_machine::host::agent::AgentProgram;
use plimsoll_machine::host::{HostPool, LocalHost, SearchPath};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Directory sshd insists on; Debian's service makes it.
const SSHD_DIR: &str = "/run/sshd";
/// Says in the directory that a test made it.
const SSHD_DIR_MARK: &str = "/run/sshd/made-by-tests-of-plimsoll";

/// Programs the tests need, besides those of the stack `iscsi`.
const PROGRAMS: [&str; 6] = ["ip", "nsenter", "ssh", "ssh-keygen", "sshd", "tgtd"];

/// Networks that these tests may have at the same time: the numbers from 1 on.
const NUMBERS: u32 = 250;

pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::null());
    command
}

fn must(program: &str, args: &[&str]) {
    let output = command(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        text(&output)
    );
}

pub(crate) fn local_host() -> LocalHost {
    LocalHost::new(SearchPath::new(&std::env::var_os("PATH").unwrap()))
}

/// Whether a test can be run here; says why not.
pub(crate) fn is_possible(test: &str) -> bool {
    use plimsoll_machine::host::Host;
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

/// A share of sshd's directory. Labs of several processes have one; the last of them removes the directory,
/// if a lab made it.
struct SshdDir(fs::File);

impl SshdDir {
    fn new() -> SshdDir {
        loop {
            if fs::create_dir(SSHD_DIR).is_ok() {
                let _ = fs::write(SSHD_DIR_MARK, "");
            }
            let Ok(dir) = fs::File::open(SSHD_DIR) else {
                continue;
            };
            dir.lock_shared().unwrap();
            // The last lab before this one may have removed it meanwhile.
            if dir.metadata().unwrap().nlink() > 0 {
                return SshdDir(dir);
            }
        }
    }
}

impl Drop for SshdDir {
    fn drop(&mut self) {
        let _ = self.0.unlock();
        if self.0.try_lock().is_ok() && fs::remove_file(SSHD_DIR_MARK).is_ok() {
            let _ = fs::remove_dir(SSHD_DIR);
        }
    }
}

/// Nodes, and a place for what their controller keeps.
pub(crate) struct Lab {
    place: tempfile::TempDir,
    /// Of the network, and of the first namespaces.
    number: u32,
    sshds: Vec<Child>,
    count: u32,
    _sshd_dir: SshdDir,
}

impl Lab {
    /// One node.
    pub(crate) fn new() -> Lab {
        Lab::of(1)
    }

    /// `count` nodes in one network: `n1`, `n2`, …
    pub(crate) fn of(count: u32) -> Lab {
        // Built before anything is waited for.
        program();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Other copies of these tests begin elsewhere, by the number of the process.
        let number =
            1 + (std::process::id() * 16 + COUNT.fetch_add(1, Ordering::Relaxed)) % NUMBERS;
        let mut lab = Lab {
            place: tempfile::tempdir().unwrap(),
            number,
            sshds: Vec::new(),
            count,
            _sshd_dir: SshdDir::new(),
        };
        lab.make_network();
        lab.make_keys();
        for node in 1..=count {
            lab.join(node);
            lab.start_sshd(node);
        }
        lab
    }

    fn link(&self) -> String {
        format!("plimtest{}", self.number)
    }

    /// The network of a node, and the name of its end here.
    fn namespace(&self, node: u32) -> String {
        format!("{}n{node}", self.link())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Address of the first node.
    pub(crate) fn address(&self) -> String {
        self.address_of(1)
    }

    fn address_of(&self, node: u32) -> String {
        format!("10.93.{}.{}", self.number, node + 1)
    }

    /// Makes a bridge with the first free number, from the chosen one on.
    fn make_network(&mut self) {
        let made = (0..NUMBERS).any(|_| {
            let add = ["link", "add", &self.link(), "type", "bridge"];
            let output = command("ip").args(add).output().unwrap();
            let (done, said) = (output.status.success(), text(&output));
            assert!(done || said.contains("File exists"), "{said}");
            if !done {
                self.number = self.number % NUMBERS + 1;
            }
            done
        });
        assert!(made, "all {NUMBERS} networks of these tests are there");
        let (link, ours) = (self.link(), format!("10.93.{}.1/24", self.number));
        must("ip", &["address", "add", &ours, "dev", &link]);
        must("ip", &["link", "set", &link, "up"]);
    }

    fn join(&self, node: u32) {
        let (bridge, namespace) = (&*self.link(), &*self.namespace(node));
        let address = format!("{}/24", self.address_of(node));
        must("ip", &["netns", "add", namespace]);
        let pair = ["type", "veth", "peer", "name", "eth0", "netns", namespace];
        let add = ["link", "add", namespace, "master", bridge];
        must("ip", &[&add[..], &pair].concat());
        must("ip", &["link", "set", namespace, "up"]);
        let inside = |words: &[&str]| must("ip", &[&["-n", namespace], words].concat());
        inside(&["address", "add", &address, "dev", "eth0"]);
        for name in ["lo", "eth0"] {
            inside(&["link", "set", name, "up"]);
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
        let node = |node| {
            let address = self.address_of(node);
            let dir = self.shown(&format!("node{node}"));
            let host = format!("Host n{node}\n  HostName {address}\n");
            let entry = format!(
                "[[node]]\nname = \"n{node}\"\nssh = \"n{node}\"\naddress = \"{address}\"\n\
                 dir = \"{dir}\"\n"
            );
            (host, entry)
        };
        let (hosts, entries): (Vec<String>, Vec<String>) = (1..=self.count).map(node).unzip();
        let config = format!(
            "{}Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n",
            hosts.concat(),
            self.shown("key"),
            self.shown("known")
        );
        let inventory = format!("ssh_config = \"ssh_config\"\n{}", entries.concat());
        fs::write(self.path("ssh_config"), config).unwrap();
        fs::write(self.path("lab.toml"), inventory).unwrap();
    }

    /// Makes this the known host key of the nodes; none when the file does not exist.
    pub(crate) fn know(&self, key: &str) {
        let key = fs::read_to_string(self.path(key)).unwrap_or_default();
        let line = |node| format!("{} {key}", self.address_of(node));
        let known: Vec<String> = match &*key {
            "" => Vec::new(),
            _ => (1..=self.count).map(line).collect(),
        };
        fs::write(self.path("known"), known.concat()).unwrap();
    }

    fn start_sshd(&mut self, node: u32) {
        let config = format!(
            "ListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
            self.address_of(node),
            self.shown("host_key"),
            self.shown("authorized")
        );
        let settings = self.path(&format!("sshd_config{node}"));
        fs::write(&settings, config).unwrap();
        let log = fs::File::create(self.path(&format!("sshd{node}.log"))).unwrap();
        let sshd = command("nsenter")
            .arg(format!("--net=/run/netns/{}", self.namespace(node)))
            .args(["/usr/sbin/sshd", "-D", "-e", "-f"])
            .arg(settings)
            .stderr(log)
            .spawn();
        self.sshds.push(sshd.unwrap());
        let address = format!("{}:22", self.address_of(node));
        until("sshd", || TcpStream::connect(&address).is_ok());
    }

    /// The node, reached as the inventory would.
    pub(crate) fn node(&self) -> PlanNode {
        node(self.place.path(), &self.address())
    }

    pub(crate) fn nodes(&self) -> HostPool {
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
        let mut entries = fs::read_dir(self.path("node1/plimsoll-agent"))
            .ok()?
            .flatten();
        // The directory's mark lies beside it.
        let is_copy = |path: &PathBuf| {
            let mode = fs::metadata(path).map(|found| found.permissions().mode());
            path.is_file() && mode.is_ok_and(|mode| mode & 0o100 != 0)
        };
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
        for node in 1..=self.count {
            let dir = self.path(&format!("node{node}"));
            until("end of the agents", || !dir.exists());
        }
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
        // A test that fails in the middle leaves no stack standing.
        if std::thread::panicking() {
            let _ = self.run(&["raze"]);
        }
        for sshd in &mut self.sshds {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
        // The pairs of interfaces go with the namespaces.
        let names = (1..=self.count).map(|node| self.namespace(node));
        for name in names {
            let _ = command("ip").args(["netns", "delete", &name]).output();
        }
        let _ = command("ip")
            .args(["link", "delete", &self.link()])
            .output();
    }
}

/// The node of a lab in this place.
pub(crate) fn node(place: &Path, address: &str) -> PlanNode {
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
    PlanNode {
        name: "n1".into(),
        reach: NodeTransport::Agent(words.map(Into::into).to_vec()),
        address: address.into(),
        dir: place.join("node1").display().to_string(),
        free_bytes: 0,
        direct_align_bytes: 0,
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
        first_port: 24_260,
    }
}

/// Hosts that copy the static program.
pub(crate) fn nodes() -> HostPool {
    HostPool::new(local_host())
        .copying(AgentProgram::of(&program().with_file_name("plimsoll-agent")).unwrap())
}
