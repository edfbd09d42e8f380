// SPDX-License-Identifier: Apache-2.0
//! A server that claims lengths which its replies do not hold is refused, and no room is made for them.
//!
//! The test starts itself again under a limit of its address space, since an allocation beyond that
//! ends a process.

use plimsoll_nfs::{NfsAddress, NfsFileHandle, NfsMount, share_of};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

/// Set in the process with the limit.
const LIMITED: &str = "PLIMSOLL_TEST_LIMITED";
/// Far below what the replies claim, far above what the test program needs.
const LIMIT_BYTES: u64 = 1 << 30;
/// Some 4 GiB.
const HUGE: u32 = u32::MAX - 15;

/// Serves one connection: answers each call with these words behind its number.
fn serve(words: &'static [u32]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        let Ok((mut socket, _)) = listener.accept() else {
            return;
        };
        let mut mark = [0; 4];
        while socket.read_exact(&mut mark).is_ok() {
            let len = u32::from_be_bytes(mark) & (u32::MAX >> 1);
            let mut call = vec![0; len as usize];
            if socket.read_exact(&mut call).is_err() {
                return;
            }
            let len = u32::try_from(4 + words.len() * 4).expect("a short reply");
            let mut reply = (len | 1 << 31).to_be_bytes().to_vec();
            reply.extend(&call[..4]);
            reply.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            if socket.write_all(&reply).is_err() {
                return;
            }
        }
    });
    address
}

fn refused<T>(what: &str, result: std::io::Result<T>) {
    let Err(error) = result else {
        panic!("{what}: believed")
    };
    assert!(
        error.to_string().contains("invalid reply"),
        "{what}: {error}"
    );
}

fn all_are_refused() {
    // Reply, accepted, verifier of no flavour and length, carried out, good.
    for (what, words) in [
        ("verifier", &[1, 0, 0, HUGE, 0][..]),
        ("handle", &[1, 0, 0, 0, 0, 0, HUGE, 0]),
        ("flavours", &[1, 0, 0, 0, 0, 0, 4, 9, HUGE, 1]),
        ("credential of a call", &[0, 2, 100_003, 3, 1, 0, HUGE]),
    ] {
        let at = serve(words);
        let address = format!("nfs://127.0.0.1:{0}/x?mountport={0}", at.port());
        refused(what, NfsMount::mount(&address.parse().expect("an address")));
    }
    let here = NfsFileHandle::new(b"root").expect("a short handle");
    let session = |words| {
        let at = serve(words);
        let address: NfsAddress = format!("nfs://127.0.0.1:{}/x", at.port())
            .parse()
            .expect("an address");
        share_of(address, at, 4096).session().expect("it listens")
    };
    let mut lookup = session(&[1, 0, 0, 0, 0, 0, HUGE, 0]);
    refused("handle of a name", lookup.find(&here, "name"));
    let mut list = session(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5, HUGE]);
    refused("name", list.list(&here));
    let mut read = session(&[1, 0, 0, 0, 0, 0, 0, 4, 1, HUGE]);
    refused("data", read.read_short(&here, 100));
    let mut create = session(&[1, 0, 0, 0, 0, 0, 1, HUGE]);
    refused("handle of a new file", create.create(&here, "name", true));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "this program again, under a limit"
)]
fn lengths_that_a_reply_does_not_hold_take_no_memory() {
    if std::env::var_os(LIMITED).is_some() {
        all_are_refused();
        return;
    }
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--as={LIMIT_BYTES}"));
    limited.arg(std::env::current_exe().unwrap());
    limited.args([
        "--exact",
        "hostile::lengths_that_a_reply_does_not_hold_take_no_memory",
    ]);
    match limited.env(LIMITED, "1").output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("SKIPPED: prlimit cannot be started: {error}"),
    }
}
