// SPDX-License-Identifier: Apache-2.0
//! Commands that run a script of a server file, as an unprivileged user, in namespaces. The script sees the
//! system read-only and can write to the directories of its server alone.

use crate::server_file::{ServerFile, ServerSettings};
use plimsoll_core::plan::PlanCommand;
use plimsoll_machine::host::MARK_VARIABLE;
use std::path::{Path, PathBuf};

/// The user of servers and witnesses: of the range that systemd gives to users who are made for one service
/// (61184 to 65519), so that no account of a distribution has it.
pub const SERVER_USER: u32 = 61_207;

/// The program that gives up root's rights; `sh` is what it becomes.
pub const DROP_RIGHTS: &str = "setpriv";

/// Programs that views need.
pub const PROGRAMS: [&str; 3] = ["bwrap", DROP_RIGHTS, "nsenter"];

/// Where scripts find things.
const DATA: &str = "/data";
const RUN: &str = "/run/server";
const SCRIPTS: &str = "/scripts";

/// Directories of the system that are shown.
const SYSTEM: [&str; 8] = [
    "/usr", "/etc", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/srv",
];

/// The place of a script in its server file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerScript {
    /// Tells the version.
    Version,
    /// Fills an empty data directory.
    Prepare,
    /// Becomes the server.
    Start,
    /// Ends with 0 when the server answers.
    Ready,
    /// Writes, and prints what is acknowledged.
    Ack,
    /// Prints what is there.
    Have,
}

plimsoll_core::named::named_variants! {
    ServerScript,
    /// Its key, and the name of its file.
    name:
    Version => "version",
    Prepare => "prepare",
    Start => "start",
    Ready => "ready",
    Ack => "ack",
    Have => "have",
}

impl ServerScript {
    /// Its text in a file; empty where it has none.
    pub fn text(self, file: &ServerFile) -> &str {
        match self {
            ServerScript::Version => &file.version,
            ServerScript::Prepare => &file.prepare,
            ServerScript::Start => &file.start,
            ServerScript::Ready => &file.ready,
            ServerScript::Ack => &file.ack,
            ServerScript::Have => &file.have,
        }
    }
}

/// The view that the scripts of a server have.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// Directory with the scripts, each under its name, and `passwd` and `group`.
    pub scripts: PathBuf,
    /// Directory for sockets.
    pub run: PathBuf,
    /// Directories of programs beside the usual ones.
    pub path: Vec<PathBuf>,
    /// The values of the settings.
    pub settings: ServerSettings,
    /// Writers at a time.
    pub clients: u32,
}

impl ServerView {
    /// The command that runs a script with this data directory.
    pub fn command(&self, script: ServerScript, data: &Path, mark: &str, seed: u64) -> PlanCommand {
        let mut words: Vec<String> = vec!["--cap-add".into(), "ALL".into()];
        // Made for a mount, a directory would be for root alone.
        for dir in &self.path {
            let mut above: Vec<&Path> = dir.ancestors().skip(1).collect();
            above.reverse();
            for dir in above {
                words.extend(["--dir".into(), dir.display().to_string()]);
            }
        }
        words.extend(["--dir".into(), "/run".into()]);
        let mut pair = |option: &str, from: &Path, to: &str| {
            let from = from.display().to_string();
            words.extend([option.into(), from, to.into()]);
        };
        for dir in SYSTEM {
            pair("--ro-bind-try", Path::new(dir), dir);
        }
        for dir in &self.path {
            pair("--ro-bind-try", dir, &dir.display().to_string());
        }
        // Programs ask who they are.
        pair("--ro-bind", &self.scripts.join("passwd"), "/etc/passwd");
        pair("--ro-bind", &self.scripts.join("group"), "/etc/group");
        pair("--ro-bind", &self.scripts, SCRIPTS);
        pair("--bind", data, DATA);
        pair("--bind", &self.run, RUN);
        for (option, at) in [("--proc", "/proc"), ("--dev", "/dev")] {
            words.extend([option.into(), at.into()]);
        }
        words.extend(["--perms", "1777", "--tmpfs", "/tmp"].map(String::from));
        words.extend(["--chdir".into(), DATA.into()]);
        // The kernel kills all processes of a PID namespace with its first one.
        words.extend(["--unshare-pid", "--unshare-ipc", "--clearenv"].map(String::from));
        for (name, value) in self.variables(mark, seed) {
            words.extend(["--setenv".into(), name, value]);
        }
        let user = SERVER_USER.to_string();
        let file = format!("{SCRIPTS}/{}", script.name());
        let rights = [
            "--",
            DROP_RIGHTS,
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--no-new-privs",
            "sh",
            "-eu",
            &file,
        ];
        words.extend(rights.map(String::from));
        PlanCommand::new("bwrap", words)
    }

    fn variables(&self, mark: &str, seed: u64) -> Vec<(String, String)> {
        let usual = [
            "/usr/local/bin",
            "/usr/bin",
            "/bin",
            "/usr/local/sbin",
            "/usr/sbin",
            "/sbin",
        ];
        let own = self.path.iter().map(|dir| dir.display().to_string());
        let path: Vec<String> = own.chain(usual.map(String::from)).collect();
        let mut variables: Vec<(String, String)> = [
            (MARK_VARIABLE, mark),
            ("PATH", &path.join(":")),
            ("HOME", RUN),
            ("LC_ALL", "C.UTF-8"),
            ("DATA", DATA),
            ("RUN", RUN),
            ("SEED", &seed.to_string()),
            ("CLIENTS", &self.clients.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let settings = self.settings.0.iter();
        variables.extend(settings.map(|(name, value)| (format!("SET_{name}"), value.clone())));
        variables
    }
}

/// The accounts that a view has.
pub fn accounts() -> [(&'static str, String); 2] {
    let user = SERVER_USER;
    [
        (
            "passwd",
            format!("root:x:0:0:root:/root:/bin/sh\nplimsoll:x:{user}:{user}::{RUN}:/bin/sh\n"),
        ),
        ("group", format!("root:x:0:\nplimsoll:x:{user}:\n")),
    ]
}
