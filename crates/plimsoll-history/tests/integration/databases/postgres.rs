// SPDX-License-Identifier: Apache-2.0
//! A PostgreSQL of the test: Debian's programs, a directory and a port of its own. It ends with the test.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The password of its only user; tests look for it where it must not be.
pub(crate) const PASSWORD: &str = "sEcret-0f-the-test";

/// Makes a certificate of this machine's own address.
pub(crate) const SELF_SIGNED: [&str; 14] = [
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "2",
    "-subj",
    "/CN=plimsoll-test",
    "-addext",
    "subjectAltName=IP:127.0.0.1",
    "-addext",
    "basicConstraints=critical,CA:FALSE",
];

/// A server that runs.
pub(crate) struct TestPostgres {
    place: tempfile::TempDir,
    programs: PathBuf,
    pub(crate) port: u16,
}

/// Says that a test could not run, past the test runner's capture.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Where Debian has the programs of the newest version that is installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<(u32, PathBuf)> = versions
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let path = entry.path().join("bin");
            (version >= 15 && path.join("initdb").exists()).then_some((version, path))
        })
        .collect();
    found.sort_unstable();
    found.pop().map(|(_, path)| path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is who starts the server"
)]
fn command(words: &[&str]) -> Command {
    // PostgreSQL refuses to run as root.
    let is_root = rustix::process::geteuid().is_root();
    let as_other: &[&str] = match is_root {
        true => &[
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
        ],
        false => &[],
    };
    let words: Vec<&str> = as_other.iter().chain(words).copied().collect();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir("/")
        // Where psql looks for certificates of a client.
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

fn run(words: &[&str]) {
    let log = tempfile::tempfile().expect("a temporary file");
    let status = command(words)
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{words:?}");
}

impl TestPostgres {
    /// Starts one; `None`, with a message, where PostgreSQL is not installed.
    pub(crate) fn start(test: &str) -> Option<TestPostgres> {
        let Some(programs) = programs() else {
            skipped(
                test,
                "PostgreSQL 15 or newer is not installed: scripts/setup.sh test",
            );
            return None;
        };
        let place = tempfile::Builder::new()
            .prefix("plimsoll-pg-")
            .tempdir_in("/tmp")
            .expect("a writable /tmp");
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777))
            .expect("ours");
        let secret = place.path().join("password");
        std::fs::write(&secret, PASSWORD).expect("a writable place");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let server = TestPostgres {
            place,
            programs,
            port,
        };
        let data = server.data();
        run(&[
            &server.program("initdb"),
            "-D",
            &data,
            "-U",
            "lab",
            "-A",
            "scram-sha-256",
            "--pwfile",
            &secret.to_string_lossy(),
            "-E",
            "UTF8",
            "--no-sync",
        ]);
        // The port stays taken until now, because other tests also look for a free one.
        drop(listener);
        server.up();
        Some(server)
    }

    fn data(&self) -> String {
        self.place.path().join("data").display().to_string()
    }

    pub(crate) fn program(&self, name: &str) -> String {
        self.programs.join(name).display().to_string()
    }

    /// Starts it where it is down.
    pub(crate) fn up(&self) {
        let place = self.place.path().display();
        let options = format!("-p {} -k {place} -c listen_addresses=127.0.0.1", self.port);
        let log = format!("{place}/log");
        let program = self.program("pg_ctl");
        run(&[
            &program,
            "-D",
            &self.data(),
            "-o",
            &options,
            "-l",
            &log,
            "-w",
            // Ends only what hangs: after a crash a busy disk has much to write first.
            "-t",
            "600",
            "start",
        ]);
    }

    /// Stops it as a crash does: nothing is written down any more.
    pub(crate) fn crash(&self) {
        let program = self.program("pg_ctl");
        run(&[
            &program,
            "-D",
            &self.data(),
            "-m",
            "immediate",
            "-w",
            "stop",
        ]);
    }

    /// From now on it takes only encrypted connections; gives the certificate that it shows.
    pub(crate) fn encrypt(&self) -> PathBuf {
        let place = self.place.path();
        let [cert, key] =
            ["cert.pem", "key.pem"].map(|name| place.join(name).display().to_string());
        run(&[&SELF_SIGNED[..], &["-out", &cert, "-keyout", &key]].concat());
        let set = [
            format!("ALTER SYSTEM SET ssl_cert_file = '{cert}'"),
            format!("ALTER SYSTEM SET ssl_key_file = '{key}'"),
            "ALTER SYSTEM SET ssl = on".to_owned(),
        ];
        for text in &set {
            self.tool("psql", "postgres", &["-c", text]);
        }
        let who = self.place.path().join("data/pg_hba.conf");
        std::fs::write(who, "hostssl all all 127.0.0.1/32 scram-sha-256\n").expect("ours");
        self.crash();
        self.up();
        cert.into()
    }

    /// Its address, with the password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://lab:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs one of its programs (psql, pg_dump) against it, on the database of this name.
    pub(crate) fn tool(&self, name: &str, database: &str, args: &[&str]) -> String {
        let port = self.port.to_string();
        let program = self.program(name);
        let place = ["-h", "127.0.0.1", "-p", &port, "-U", "lab", "-d", database];
        let words: Vec<&str> = std::iter::once(&*program)
            .chain(place)
            .chain(args.iter().copied())
            .collect();
        let output = command(&words).env("PGPASSWORD", PASSWORD).output();
        let output = output.expect("it is installed");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {args:?}: {told}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A directory that the server's programs may write to.
    pub(crate) fn place(&self) -> &std::path::Path {
        self.place.path()
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        let program = self.program("pg_ctl");
        let data = self.data();
        let _ = command(&[&program, "-D", &data, "-m", "immediate", "-w", "stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // The data belong to another user, and root removes them.
    }
}
