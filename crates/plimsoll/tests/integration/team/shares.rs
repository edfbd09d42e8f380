// SPDX-License-Identifier: Apache-2.0
//! Clients that hold on to what there is little of: connections, streams, uploads, folders. Others are
//! answered all the while.

use crate::client::{TestAnswer, TestServer, parse};
use crate::made::run_folder;
use crate::support::{pause, timed};
use crate::team::{TestTeam, told};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::time::Duration;

/// A connection from another address of this machine.
fn elsewhere(address: &str) -> TcpStream {
    let from: SocketAddrV4 = "127.0.0.2:0".parse().expect("an address");
    let to: SocketAddr = address.parse().expect("an address");
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&made, &from).expect("an address of this machine");
    connect(&made, &to).expect("it listens");
    TcpStream::from(made)
}

fn ask_from_elsewhere(server: &TestServer) -> TestAnswer {
    let mut stream = elsewhere(&server.address);
    let wait = Some(Duration::from_secs(60));
    stream.set_read_timeout(wait).expect("a time");
    let host = &server.address;
    let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("it listens");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

/// Connections that all send the same, and read nothing.
fn held(server: &TestServer, number: usize, text: &str) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(&server.address).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(text.as_bytes());
        Some(stream)
    };
    (0..number).filter_map(one).collect()
}

/// Whether the server has closed it, whatever it sent before.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut part = [0; 1 << 16];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Asks from elsewhere every half second, `seconds * 2` times. Each answer must come within 2 seconds;
/// returns the longest time that one took.
fn answered_elsewhere(server: &TestServer, seconds: u32) -> Duration {
    let mut most = Duration::ZERO;
    for _ in 0..seconds * 2 {
        let (answer, took) = timed(|| ask_from_elsewhere(server));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        most = most.max(took);
        pause(500);
    }
    most
}

#[test]
fn who_does_not_read_or_send_keeps_nobody_else_out() {
    let server = TestServer::start();
    let host = &server.address;
    let page = format!("GET /assets/live.js HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(60);
    let mut deaf = held(&server, 128, &page);
    let most = answered_elsewhere(&server, 10);
    let slow = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: 60000\r\n\r\n{{"
    );
    drop(deaf.split_off(16));
    let slow = held(&server, 128, &slow);
    let slowest = answered_elsewhere(&server, 15);
    eprintln!(
        "beside {} connections: at most {most:?} and {slowest:?}",
        128
    );
    // Connections that they held are free again: the same address is answered.
    let mut slow = slow;
    let open = slow
        .iter_mut()
        .filter_map(|stream| (!is_closed(stream)).then_some(()));
    assert_eq!(
        open.count(),
        0,
        "a body that does not come ends its connection"
    );
    let answer = server.send("GET /", &[], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(deaf);
}

/// Makes a run one that goes on, as long as this is held.
fn going_on(folder: &Path) -> File {
    let events = File::open(folder.join("events.jsonl")).expect("it is there");
    events.lock().expect("nobody else writes");
    events
}

/// Listens to a run; gives the status, and the stream behind it.
fn listen(team: &TestTeam, token: &str, run: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(&team.server.address).expect("it listens");
    let host = &team.server.address;
    let text = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).expect("it listens");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
}

#[test]
fn a_user_listens_to_some_streams_and_others_to_theirs() {
    let team = TestTeam::start(&[]);
    let (eve, ada) = (team.user("eve", "read"), team.user("ada", "read"));
    let running = team.server.runs().join("running");
    run_folder(&running, "running", 1.0);
    let _held = going_on(&running);
    let all: Vec<_> = (0..40).map(|_| listen(&team, &eve, "running")).collect();
    let with = |wanted: &str| all.iter().filter(|(status, _)| status == wanted).count();
    assert_eq!((with("200"), with("503")), (6, 34));
    assert_eq!(listen(&team, &ada, "running").0, "200");
}

/// The end of a stream, and how long it took; none within some seconds.
fn end_of(stream: &mut TcpStream) -> Option<Duration> {
    let (ended, took) = timed(|| {
        stream.set_nonblocking(true).expect("ours");
        (0..200).any(|_| {
            pause(25);
            is_closed(stream)
        })
    });
    ended.then_some(took)
}

#[test]
fn a_stream_ends_when_its_run_is_taken_back_or_its_token_revoked() {
    let team = TestTeam::start(&[]);
    let (ada, bob) = (team.user("ada", "read,push"), team.user("bob", "read"));
    let folder = team.pushed(&ada, "monday", 1.5, &["--share"]);
    let _held = going_on(&team.server.runs().join(&folder));
    let share = |shared: bool| {
        let path = format!("POST /api/v1/runs/{folder}/share");
        let answer = team.send(&ada, &path, &json!({ "shared": shared }));
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let (_, mut own) = listen(&team, &ada, &folder);
    let (status, mut seen) = listen(&team, &bob, &folder);
    assert_eq!(status, "200");
    seen.set_nonblocking(true).expect("ours");
    pause(1500);
    assert!(
        !is_closed(&mut seen),
        "it is listened to while it is shared"
    );
    share(false);
    let took = end_of(&mut seen).expect("what is taken back is told no more");
    share(true);
    let (status, mut seen) = listen(&team, &bob, &folder);
    assert_eq!(status, "200");
    let revoked = crate::client::plimsoll(team.place())
        .args([
            "team",
            "token",
            "revoke",
            "2",
            "--database",
            "sqlite:team.db",
        ])
        .output()
        .expect("it starts");
    assert!(revoked.status.success(), "{}", told(&revoked));
    let later = end_of(&mut seen).expect("a token that is revoked hears no more");
    eprintln!(
        "streams ended {took:?} after the run was taken back, {later:?} after the token was revoked"
    );
    assert!(took < Duration::from_secs(3) && later < Duration::from_secs(3));
    own.set_nonblocking(true).expect("ours");
    assert!(!is_closed(&mut own), "whose run it is goes on listening");
}

#[test]
fn what_is_begun_counts_with_its_files_and_folders() {
    let team = TestTeam::start(&["--push-user-limit=20MiB"]);
    let (eve, ada) = (team.user("eve", "read,push"), team.user("ada", "read,push"));
    let begin = |number: u32, files: u32| {
        let file = |path: String, bytes: u32| json!({ "path": path, "bytes": bytes, "sha256": format!("{number:064x}") });
        let mut all = vec![
            file("manifest.json".into(), 1),
            file("events.jsonl".into(), 1),
        ];
        all.extend((0..files).map(|n| file(format!("ledgers/a{n}/b/x"), 0)));
        team.send(
            &eve,
            "POST /api/v1/push",
            &json!({ "run": "monday", "files": all }),
        )
    };
    // Ten thousand files without a byte, each in two folders of its own.
    let many = begin(0, 9000);
    assert_eq!(many.status, 413, "{}", many.body);
    let few = begin(1, 1000);
    assert_eq!(few.status, 200, "{}", few.body);
    let pushes = team.server.runs().join(".pushes");
    assert_eq!(
        entries(&pushes),
        3,
        "a folder, its list, and no folder of a file that has not come"
    );
    let statuses: Vec<u16> = (2..40).map(|number| begin(number, 0).status).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        15,
        "{statuses:?}"
    );
    assert!(
        statuses[15..].iter().all(|status| *status == 429),
        "{statuses:?}"
    );
    team.pushed(&ada, "tuesday", 1.5, &[]);
}

/// Entries below a folder, but those named `run`.
fn entries(folder: &Path) -> usize {
    let all = std::fs::read_dir(folder).expect("a folder").flatten();
    all.filter(|entry| entry.file_name() != "run")
        .map(|entry| match entry.path().is_dir() {
            true => 1 + entries(&entry.path()),
            false => 1,
        })
        .sum::<usize>()
        + usize::from(folder.join("run").is_dir())
}

#[test]
fn slow_uploads_of_one_stop_no_push_of_another() {
    let team = TestTeam::start(&[]);
    let (eve, ada) = (team.user("eve", "read,push"), team.user("ada", "read,push"));
    let file = |path: &str| json!({ "path": path, "bytes": 1_000_000, "sha256": "0".repeat(64) });
    let list = json!({ "run": "monday", "files": [file("manifest.json"), file("events.jsonl")] });
    let begun: Value = team.send(&eve, "POST /api/v1/push", &list).json();
    let id = begun["id"].as_str().expect("a digest");
    let text = format!(
        "PUT /api/v1/push/{id}/files/1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {eve}\r\n\
         Content-Length: 1000000\r\n\r\nx",
        team.server.address
    );
    let _slow = held(&team.server, 12, &text);
    pause(500);
    let (_, took) = timed(|| team.pushed(&ada, "tuesday", 1.5, &[]));
    assert!(took < Duration::from_secs(20), "{took:?}");
    let receiving = || {
        let names = std::fs::read_dir(team.server.runs().join(format!(".pushes/1-{id}")));
        let names = names
            .expect("a folder")
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("file-"))
            .count()
    };
    assert_eq!(receiving(), 2, "the others of the same user wait for these");
}
