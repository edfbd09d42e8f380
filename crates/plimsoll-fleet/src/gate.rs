// SPDX-License-Identifier: Apache-2.0
//! Where agents come in. Open only until all are there.

use plimsoll_core::text;
use plimsoll_machine::host::agent::{AgentFrameParser, AgentStream, framed};
use plimsoll_machine::host::{HostTimeSource, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::FleetError;
use crate::greeting::{FleetHello, FleetWelcome, GREETING, GREETING_MAX};
use crate::rank::listed;
use crate::socket::keep_alive;
use crate::ticket::{FleetTicket, FleetToken};
use crate::tls::{FleetStream, identity};

/// Peers at most that have connected and not yet shown the token. Others wait in the queue of the kernel.
const PENDING_MAX: usize = if cfg!(test) { 16 } else { 128 };

/// When others wait for room, the oldest peer goes that has had at least this long.
const GREETING_LEAST: Duration = Duration::from_secs(2);

/// How long a peer may take to show the token.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// Longest wait before anything else is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes read at once.
const READ: usize = 8192;

/// A load host that has come in.
#[derive(Debug)]
pub struct FleetMember {
    /// Its name as a node.
    pub name: String,
    /// Which of the hosts it is.
    pub rank: u32,
    /// Where it connected from.
    pub from: IpAddr,
    /// Where it works.
    pub dir: String,
    /// The way to it.
    pub stream: FleetStream,
}

/// Waits for the agents of one run.
pub struct FleetGate {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    ticket: FleetTicket,
    build: String,
    wanted: u32,
}

impl std::fmt::Debug for FleetGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetGate")
            .field("listener", &self.listener)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

/// A peer that has not yet shown the token.
struct FleetPeer {
    stream: FleetStream,
    frames: AgentFrameParser,
    from: SocketAddr,
    since: Duration,
}

/// The outcome of a message of a peer.
enum FleetPeerStep {
    Waits,
    Gone,
    Hello(FleetHello),
}

impl FleetGate {
    /// Listens for `wanted` agents of this build. `known_as` is the host name that they dial where the
    /// address is that of all interfaces.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(
        listen: SocketAddr,
        known_as: &str,
        wanted: u32,
        build: &str,
    ) -> Result<FleetGate, FleetError> {
        let fail = |source| FleetError::Listen {
            address: listen.to_string(),
            source,
        };
        let listener = TcpListener::bind(listen).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let (config, pin) = identity()?;
        let address = match bound.ip().is_unspecified() {
            true => format!("{known_as}:{}", bound.port()),
            false => bound.to_string(),
        };
        let token = FleetToken::new()?;
        Ok(FleetGate {
            listener,
            config,
            ticket: FleetTicket {
                address,
                pin,
                token,
            },
            build: build.into(),
            wanted,
        })
    }

    /// The ticket that lets an agent in.
    pub fn ticket(&self) -> &FleetTicket {
        &self.ticket
    }

    /// Waits until all have come, and closes. `carrier_says` gives the last words of what carries them once
    /// that has ended; `tell` hears how many have come.
    ///
    /// # Errors
    /// When some have not come within `limit`, or never will.
    pub fn gather(
        self,
        limit: Duration,
        stop: &AtomicBool,
        carrier_says: &mut dyn FnMut() -> Option<String>,
        tell: &mut dyn FnMut(u32),
    ) -> Result<Vec<FleetMember>, FleetError> {
        let clock = SystemClock::new();
        let until = clock.now() + limit;
        let mut members: BTreeMap<u32, FleetMember> = BTreeMap::new();
        let mut pending: Vec<FleetPeer> = Vec::new();
        while members.len() < self.wanted as usize {
            if stop.load(Ordering::Relaxed) {
                return Err(FleetError::Stopped);
            }
            let ready = self.wait(&pending);
            let now = clock.now();
            let mut kept = Vec::new();
            for (mut peer, is_ready) in pending.into_iter().zip(ready) {
                let step = match is_ready {
                    true => peer.step(),
                    false => FleetPeerStep::Waits,
                };
                match step {
                    FleetPeerStep::Waits if now < peer.since + GREETING_TIME => kept.push(peer),
                    FleetPeerStep::Hello(hello) => {
                        if let Some(member) = self.admit(peer, hello, &members) {
                            members.insert(member.rank, member);
                            tell(u32::try_from(members.len()).unwrap_or(u32::MAX));
                        }
                    }
                    FleetPeerStep::Waits | FleetPeerStep::Gone => {}
                }
            }
            pending = kept;
            self.take_in(&mut pending, now)?;
            if members.len() == self.wanted as usize {
                break;
            }
            if now >= until {
                return Err(self.missing(&members, limit, carrier_says().as_deref()));
            }
            if let Some(said) = carrier_says() {
                return Err(FleetError::CarrierEnded {
                    arrived: u32::try_from(members.len()).unwrap_or(u32::MAX),
                    wanted: self.wanted,
                    said: last_words(Some(&said)),
                });
            }
        }
        Ok(members.into_values().collect())
    }

    /// Waits for anything to happen; says which peers have said something.
    fn wait(&self, pending: &[FleetPeer]) -> Vec<bool> {
        let look = Timespec::try_from(LOOK).ok();
        let inputs = pending.iter().map(|peer| peer.stream.input());
        let mut on: Vec<PollFd<'_>> = inputs
            .map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN))
            .collect();
        if pending.len() < PENDING_MAX {
            on.push(PollFd::from_borrowed_fd(
                self.listener.as_fd(),
                PollFlags::IN,
            ));
        }
        // A signal ends the poll with an error, and the caller then looks at its stop flag.
        let _ = poll(&mut on, look.as_ref());
        let peers = on.iter().take(pending.len());
        peers.map(|one| !one.revents().is_empty()).collect()
    }

    /// Accepts new connections while there is room. If there is none, the oldest connection gives way after a
    /// minimum time, so that idle connections do not keep load hosts out.
    ///
    /// # Errors
    /// When this program may open no more files: waiting mends nothing.
    fn take_in(&self, pending: &mut Vec<FleetPeer>, now: Duration) -> Result<(), FleetError> {
        let is_old = |peer: &FleetPeer| now >= peer.since + GREETING_LEAST;
        if pending.len() == PENDING_MAX && pending.first().is_some_and(is_old) {
            pending.remove(0);
        }
        while pending.len() < PENDING_MAX {
            let (socket, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_out_of_files(&error) => {
                    return Err(FleetError::Connection {
                        what: "take in a load host".into(),
                        why: format!("{error}; each takes one: raise the limit with 'ulimit -n'"),
                    });
                }
                // No connection waits, or the waiting one is gone.
                Err(_) => return Ok(()),
            };
            if let Ok(stream) = FleetStream::accepted(socket, Arc::clone(&self.config)) {
                pending.push(FleetPeer {
                    stream,
                    frames: AgentFrameParser::at_most(GREETING_MAX),
                    from,
                    since: now,
                });
            }
        }
        Ok(())
    }

    /// Who has the token becomes a member, or hears why not. Who has not hears nothing.
    fn admit(
        &self,
        mut peer: FleetPeer,
        hello: FleetHello,
        members: &BTreeMap<u32, FleetMember>,
    ) -> Option<FleetMember> {
        if !self.ticket.token.is(&hello.token) {
            return None;
        }
        let is_free = |rank: &u32| *rank < self.wanted && !members.contains_key(rank);
        let rank = hello
            .rank
            .filter(is_free)
            .or_else(|| (0..self.wanted).find(is_free))?;
        let refused = (hello.greeting != GREETING || hello.build != self.build).then(|| {
            let build = text::printable(&hello.build);
            format!(
                "it is build {build}, and the controller needs build {}",
                self.build
            )
        });
        let width = (self.wanted - 1).to_string().len();
        let name = format!("h{rank:0width$}");
        let answer = match &refused {
            Some(why) => FleetWelcome::Refused(why.clone()),
            None => FleetWelcome::Node(name.clone()),
        };
        let message = framed(&serde_json::to_vec(&answer).ok()?).ok()?;
        // A few bytes into an empty buffer: what cannot take them at once has gone.
        let sent = peer
            .stream
            .write(&message)
            .and_then(|_| peer.stream.flush());
        if sent.is_err() || refused.is_some() {
            return None;
        }
        keep_alive(peer.stream.input()).ok()?;
        Some(FleetMember {
            name,
            rank,
            from: peer.from.ip(),
            dir: hello.dir,
            stream: peer.stream,
        })
    }

    fn missing(
        &self,
        members: &BTreeMap<u32, FleetMember>,
        limit: Duration,
        said: Option<&str>,
    ) -> FleetError {
        let absent: Vec<u32> = (0..self.wanted)
            .filter(|rank| !members.contains_key(rank))
            .collect();
        FleetError::Missing {
            arrived: u32::try_from(members.len()).unwrap_or(u32::MAX),
            wanted: self.wanted,
            seconds: limit.as_secs(),
            missing: listed(&absent),
            said: last_words(said),
        }
    }
}

fn last_words(said: Option<&str>) -> String {
    match said.map(str::trim) {
        Some(said) if !said.is_empty() => format!("; the carrier said: {said}"),
        _ => String::new(),
    }
}

impl FleetPeer {
    /// Takes what it said.
    fn step(&mut self) -> FleetPeerStep {
        let mut bytes = [0; READ];
        let read = match self.stream.read(&mut bytes) {
            Ok(0) => return FleetPeerStep::Gone,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return FleetPeerStep::Waits,
            Err(_) => return FleetPeerStep::Gone,
        };
        self.frames.push(&bytes[..read]);
        match self.frames.next_message() {
            Ok(None) => FleetPeerStep::Waits,
            Ok(Some(message)) => match FleetHello::read(&message) {
                // An agent waits for the response to its hello: a peer that sends more is no agent.
                Some(hello) if self.frames.waiting() == 0 => FleetPeerStep::Hello(hello),
                _ => FleetPeerStep::Gone,
            },
            Err(_) => FleetPeerStep::Gone,
        }
    }
}

fn is_out_of_files(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests;
