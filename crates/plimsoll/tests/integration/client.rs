// SPDX-License-Identifier: Apache-2.0
//! A server of the built program for one test, and a client that sends the headers and body that a test
//! gives.

use crate::support::{pause, signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Ends what hangs: longer than an answer takes on a busy machine.
const HANGS: Duration = Duration::from_secs(300);

/// A server with folders of its own; it ends with the test.
pub(crate) struct TestServer {
    pub(crate) place: tempfile::TempDir,
    child: Child,
    said: BufReader<ChildStderr>,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct TestAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestAnswer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]
pub(crate) fn plimsoll(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .current_dir(place)
        .env("PLIMSOLL_STATE", place.join("state"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

pub(crate) fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a writable target directory")
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::start_in(place(), &[])
    }

    /// Starts it in a folder, with more arguments.
    pub(crate) fn start_in(place: tempfile::TempDir, args: &[&str]) -> TestServer {
        TestServer::start_with(place, args, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn start_with(
        place: tempfile::TempDir,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> TestServer {
        let mut command = plimsoll(place.path());
        command.envs(variables.iter().copied());
        command
            .args(["serve", "runs", "--listen", "127.0.0.1:0"])
            .args(args);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says where it is");
        // Messages about the content of its store come before the address.
        while !line.contains("://") && said.read_line(&mut line).is_ok_and(|read| read > 0) {}
        let rest = line
            .trim()
            .rsplit_once("://")
            .unwrap_or_else(|| panic!("no address: {line}"))
            .1;
        let (address, token) = rest
            .split_once("/#token=")
            .unwrap_or((rest.trim_end_matches('/'), ""));
        TestServer {
            address: address.to_owned(),
            token: token.to_owned(),
            place,
            child,
            said,
        }
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.place.path().join("runs")
    }

    /// Sends these lines and a body, as they are.
    pub(crate) fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> TestAnswer {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(HANGS)).expect("a time");
        let mut lines = vec![format!("{request} HTTP/1.1"), "Connection: close".into()];
        if !headers.iter().any(|(name, _)| *name == "Host") {
            lines.push(format!("Host: {}", self.address));
        }
        lines.extend(
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        if !body.is_empty() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        let text = lines.join("\r\n");
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(format!("{text}\r\n\r\n{body}").as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        parse(&bytes)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub(crate) fn get(&self, path: &str) -> TestAnswer {
        self.send(
            &format!("GET {path}"),
            &[("Authorization", &self.bearer())],
            "",
        )
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> TestAnswer {
        let headers = [
            ("Authorization", &*self.bearer()),
            ("Content-Type", "application/json"),
        ];
        self.send(&format!("POST {path}"), &headers, body)
    }

    /// Listens to events until one of them has this text, which is in what is returned.
    pub(crate) fn events_until(&self, path: &str, wanted: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(HANGS)).expect("a time");
        let (host, bearer) = (&self.address, self.bearer());
        let text =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n\r\n");
        stream.write_all(text.as_bytes()).expect("it listens");
        let mut seen = String::new();
        let mut lines = BufReader::new(stream);
        loop {
            let read = lines
                .read_line(&mut seen)
                .unwrap_or_else(|error| panic!("{error}: {seen}"));
            assert!(read > 0, "the events ended without {wanted}: {seen}");
            if seen.contains(wanted) && seen.ends_with("\n\n") {
                return seen;
            }
        }
    }

    /// Asks again and again until the answer is as wanted.
    pub(crate) fn wait(
        &self,
        path: &str,
        is_there: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        for _ in 0..3000 {
            let answer = self.get(path);
            if answer.status == 200 && is_there(&answer.json()) {
                return answer.json();
            }
            pause(100);
        }
        panic!("not so within five minutes: {path}: {:?}", self.get(path));
    }

    /// Number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as nothing can be warned of.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it as Ctrl-C does; gives its exit code and all that it said after its address.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        signal(self.child.id(), "-INT");
        let mut rest = String::new();
        let _ = self.said.read_to_string(&mut rest);
        (self.child.wait().expect("it ends").code(), rest)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        signal(self.child.id(), "-INT");
        let _ = self.child.wait();
    }
}

pub(crate) fn parse(bytes: &[u8]) -> TestAnswer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    TestAnswer {
        status: status.unwrap_or(0),
        body: if is_chunked {
            joined(body)
        } else {
            body.to_owned()
        },
        head: head.to_owned(),
    }
}

/// A body that was sent in chunks.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else {
            break;
        };
        whole += rest.get(..size).unwrap_or_default();
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}
