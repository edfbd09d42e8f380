// SPDX-License-Identifier: Apache-2.0
//! A process of ours that ends the client of an iSCSI target when the target is gone for too long.
//!
//! The client in qemu-storage-daemon connects again for ever and lets everything wait meanwhile; no time
//! limit of its own ends that. Once it is ended, the processes that wait for the disk get an error.

use plimsoll_core::plan::PlanCommand;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use super::clock::HostTimeSource;
use super::error::HostError;
use super::processes;

/// The program that is this process: plimsoll itself, wherever it lies.
pub const PROGRAM: &str = "plimsoll";

/// Its subcommand.
pub const SUBCOMMAND: &str = "watchdog";

/// Time between two questions to the target.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the target may take for an answer. A busy one queues a question behind its work, and
/// that is no sign of death.
const PATIENCE: Duration = Duration::from_secs(5);

const PORTAL: &str = "PLIMSOLL_WATCH_PORTAL";
const FAIL_AFTER_S: &str = "PLIMSOLL_WATCH_FAIL_AFTER_S";
const MARK: &str = "PLIMSOLL_WATCH_MARK";
const READY: &str = "PLIMSOLL_WATCH_READY";

/// The command that ends the processes of this mark when the target at `portal` (`address:port`) has not
/// answered for `fail_after_s` seconds. The file `ready` appears after its first answer.
pub fn command(portal: &str, fail_after_s: u32, mark: &str, ready: &str) -> PlanCommand {
    PlanCommand::new(PROGRAM, [SUBCOMMAND])
        .env(PORTAL, portal)
        .env(FAIL_AFTER_S, fail_after_s.to_string())
        .env(MARK, mark)
        .env(READY, ready)
}

/// The processes to watch, and the command to start when they are gone.
#[derive(Debug)]
pub struct HostWatchdog {
    portal: SocketAddr,
    fail_after: Duration,
    mark: String,
    ready: PathBuf,
}

impl HostWatchdog {
    /// From the variables that the command of a plan sets; `None` when they are not set.
    ///
    /// # Errors
    /// When they make no sense.
    pub fn from_environment() -> Option<Result<Self, String>> {
        let portal = std::env::var(PORTAL).ok()?;
        let text = |name| std::env::var(name).map_err(|error| format!("read {name}: {error}"));
        let read = || {
            let fail_after_s = text(FAIL_AFTER_S)?;
            let wrong = |what: &str| format!("watch a target: invalid address '{what}'");
            Ok(HostWatchdog {
                portal: portal.parse().map_err(|_| wrong(&portal))?,
                fail_after: Duration::from_secs(
                    fail_after_s.parse().map_err(|_| wrong(&fail_after_s))?,
                ),
                mark: text(MARK)?,
                ready: text(READY)?.into(),
            })
        };
        Some(read())
    }

    /// Watches until the target is gone for too long, then ends its client, and says so. Otherwise
    /// it has no end: it is ended with the stack.
    ///
    /// # Errors
    /// When the client does not end, or the file that says it is ready cannot be written.
    pub fn watch(&self, clock: &dyn HostTimeSource) -> Result<String, HostError> {
        let mut heard = clock.now();
        let mut is_told = false;
        loop {
            if ask(self.portal, PATIENCE.min(self.fail_after)).is_ok() {
                heard = clock.now();
                if !is_told {
                    fs::write(&self.ready, "").map_err(HostError::io("write", &self.ready))?;
                    is_told = true;
                }
            } else if clock.now().saturating_sub(heard) >= self.fail_after {
                processes::stop(&self.mark, clock)?;
                return Ok(format!(
                    "no answer from {} for {} s: its client has been ended",
                    self.portal,
                    self.fail_after.as_secs()
                ));
            }
            clock.pause(PERIOD.min(self.fail_after));
        }
    }
}

/// Asks for a session of discovery, and takes any answer, a refusal too, for a sign of life: a
/// connection alone is made by the kernel even when the target hangs.
fn ask(portal: SocketAddr, patience: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&portal, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let discovery = b"InitiatorName=iqn.2026-01.lab.plimsoll:watchdog\0SessionType=Discovery\0";
    stream.write_all(&login(discovery))?;
    let mut first = [0_u8; 1];
    stream.read_exact(&mut first)
}

/// A login request (RFC 7143, 11.12) with these pairs of names and values.
pub(super) fn login(text: &[u8]) -> Vec<u8> {
    let mut request = vec![0_u8; 48];
    // Login, to be answered at once; from operational negotiation straight to the full phase.
    request[0] = 0x43;
    request[1] = 0x87;
    let length = u32::try_from(text.len()).unwrap_or_default().to_be_bytes();
    request[5..8].copy_from_slice(&length[1..]);
    // A random kind of session identifier, as those without a registered maker have.
    request[8] = 0x80;
    request.extend_from_slice(text);
    request.resize(request.len().next_multiple_of(4), 0);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_that_says_nothing_is_not_alive() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = silent.local_addr().unwrap();
        ask(portal, Duration::from_millis(50)).unwrap_err();
        drop(silent);
        ask(portal, Duration::from_millis(50)).unwrap_err();
    }

    #[test]
    fn a_request_is_whole_and_any_answer_is_a_sign_of_life() {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = target.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = target.accept().unwrap();
            let mut request = vec![0; 48 + 72];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&[0x23]).unwrap();
            request
        });
        ask(portal, Duration::from_secs(300)).unwrap();
        let request = served.join().unwrap();
        assert_eq!(request.len() % 4, 0);
        let said = usize::from(request[7]);
        assert!(request[48..48 + said].ends_with(b"SessionType=Discovery\0"));
    }
}
