// SPDX-License-Identifier: Apache-2.0
//! Run folders whose numbers require more time or memory than there is: only the process that draws their
//! pages ends, and no other user waits.

use crate::client::TestServer;
use crate::made::run_folder;
use crate::support::timed;
use crate::team::{TestTeam, push};
use plimsoll_archive::RunFolderWriter;
use plimsoll_core::event::{RunEvent, RunListener as _};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A run folder like others, with other numbers.
fn with_numbers(folder: &Path, id: &str, blocks: Option<u32>, last: Option<u32>) {
    let usual = folder.with_extension("usual");
    run_folder(&usual, id, 1.5);
    let mut run = plimsoll_archive::open(&usual).expect("it was just made");
    fs::rename(&usual, folder.with_extension("made")).expect("ours");
    run.manifest.blocks = blocks.unwrap_or(run.manifest.blocks);
    if let (Some(block), Some(trial)) = (last, run.trials.last_mut()) {
        trial.trial.block = block;
    }
    let mut writer = RunFolderWriter::create(folder, &run.manifest).expect("a new folder");
    for trial in run.trials {
        writer.event(&RunEvent::TrialEnded(Box::new(trial)));
    }
    writer.event(&RunEvent::Finished {
        interrupted: false,
        comparisons: Vec::new(),
    });
}

/// Numbers of the processes that draw for a server.
fn drawing(server: &TestServer) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("it is mounted").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |pid: &u32| {
        let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let parent = format!("PPid:\t{}\n", server.id());
        of("cmdline").contains("__draw") && of("status").contains(&parent)
    };
    numbers.filter(is_one).collect()
}

#[test]
fn a_run_with_endless_numbers_stops_nobody() {
    let team = TestTeam::start(&[]);
    let (eve, ada) = (team.user("eve", "read,push"), team.user("ada", "read,push"));
    for (id, blocks, last) in [
        ("blocks", Some(u32::MAX), None),
        ("last", None, Some(u32::MAX)),
    ] {
        // Once as a run of this server, which everybody may open, and once pushed.
        with_numbers(
            &team.server.runs().join(format!("own-{id}")),
            id,
            blocks,
            last,
        );
        with_numbers(&team.place().join(id), id, blocks, last);
    }
    team.pushed(&ada, "monday", 1.5, &[]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hostile = scope.spawn(|| {
            let pages = [
                "own-blocks/report",
                "own-last/report",
                "own-last/export/csv",
            ];
            let seen = pages.map(|page| team.get(&eve, &format!("/api/v1/runs/{page}")).status);
            for id in ["blocks", "last"] {
                let _ = push(team.place(), &team.server.address, &eve, id, &["--share"]);
            }
            is_over.store(true, Ordering::Relaxed);
            seen
        });
        let (mut quick, mut most, mut number) = (0, Duration::ZERO, 0);
        while !is_over.load(Ordering::Relaxed) {
            for path in ["/api/v1/server", "/", "/api/v1/runs"] {
                let (answer, took) = timed(|| team.get(&ada, path));
                assert_eq!(answer.status, 200, "{path}: {answer:?}");
                quick += usize::from(took < Duration::from_secs(1));
                most = most.max(took);
                number += 1;
            }
            crate::support::pause(200);
        }
        let seen = hostile.join().expect("it ends");
        eprintln!(
            "pages of endless runs: {seen:?}; {quick} of {number} others below 1 s, at most {most:?}"
        );
        // Statuses as for the folder alone: it is refused, or drawn without its impossible line.
        assert_eq!(seen, [422, 200, 200]);
        assert!(
            most < Duration::from_secs(5) && quick * 10 >= number * 9,
            "{most:?}"
        );
    });
    // A push of her own ends as well, and nothing goes on behind it.
    team.pushed(&ada, "tuesday", 1.5, &[]);
    assert_eq!(drawing(&team.server), Vec::<u32>::new());
    let mut server = team.server;
    let ((code, said), took) = timed(|| server.end());
    assert!(
        code == Some(0) && took < Duration::from_secs(10),
        "{code:?} {took:?} {said}"
    );
}

/// A process that draws ends with a server that is killed.
#[test]
fn what_draws_ends_with_the_server() {
    let mut server = TestServer::start();
    with_numbers(&server.runs().join("last"), "last", None, Some(u32::MAX));
    let address = server.address.clone();
    let request = format!(
        "GET /api/v1/runs/last/report HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token
    );
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("it listens");
    let begun = (0..100).find_map(|_| {
        crate::support::pause(20);
        drawing(&server).first().copied()
    });
    server.kill();
    let Some(pid) = begun else {
        // The run was refused before anybody could look.
        return;
    };
    let is_gone = (0..500).any(|_| {
        crate::support::pause(20);
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !String::from_utf8_lossy(&words).contains("__draw")
    });
    assert!(is_gone, "{pid} goes on");
}
