// SPDX-License-Identifier: Apache-2.0
//! The agent's way in.

use plimsoll_machine::host::agent::{AgentChannel, AgentStream as _};
use plimsoll_machine::host::{HostTimeSource, SystemClock};
use rustix::net::sockopt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::FleetError;
use crate::gate::connect;
use crate::greeting::{FleetHello, FleetWelcome, GREETING, GREETING_MAX};
use crate::rank;
use crate::ticket::FleetTicket;
use crate::tls::FleetStream;

/// How long a controller that does not answer is tried: the carrier may be faster than its network.
const DIAL_LIMIT: Duration = Duration::from_secs(60);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// One attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long the answer to a greeting may take: a controller takes in many at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// After so long without a sign from the other machine a connection counts as lost, on both sides.
pub const LOST_AFTER: Duration = Duration::from_secs(60);

/// The first question to a silent machine, and the next ones.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 4;

/// An agent that is in.
#[derive(Debug)]
pub struct FleetDial {
    /// Its name as a node.
    pub node: String,
    /// The way to the controller.
    pub channel: AgentChannel<FleetStream>,
}

/// Goes to the controller of this ticket, as an agent of this build, on this host, that works in `dir`.
///
/// # Errors
/// When it cannot be reached, is another one, or does not want us.
pub fn dial(
    ticket: &FleetTicket,
    (build, host, dir): (&str, &str, &str),
    stop: &AtomicBool,
) -> Result<FleetDial, FleetError> {
    let failed = |why: String| FleetError::Connection {
        what: format!("reach the controller at {}", ticket.address),
        why,
    };
    let clock = SystemClock::new();
    let until = clock.now() + DIAL_LIMIT;
    let socket = loop {
        match connect(&ticket.address, CONNECT_LIMIT) {
            Ok(socket) => break socket,
            _ if stop.load(Ordering::Relaxed) => return Err(FleetError::Stopped),
            Err(error) if clock.now() >= until => return Err(failed(error.to_string())),
            Err(_) => clock.pause(PAUSE),
        }
    };
    let stream =
        FleetStream::dialled(socket, ticket.pin).map_err(|error| failed(error.to_string()))?;
    keep_alive(&stream).map_err(|error| failed(error.to_string()))?;
    let hello = FleetHello {
        greeting: GREETING,
        token: ticket.token.reveal(),
        build: build.into(),
        rank: rank::from(|name| std::env::var(name).ok()),
        host: host.into(),
        dir: dir.into(),
    };
    let message = serde_json::to_vec(&hello).map_err(|error| failed(error.to_string()))?;
    let mut channel = AgentChannel::over(stream).of_strangers(GREETING_MAX);
    let answer = channel
        .send(&message, ANSWER_LIMIT)
        .and_then(|()| channel.receive(ANSWER_LIMIT, Some(stop)));
    let answer = answer.map_err(|broken| failed(in_words(&broken.to_string())))?;
    match serde_json::from_slice(&answer) {
        Ok(FleetWelcome::Node(node)) => {
            channel.trust();
            Ok(FleetDial { node, channel })
        }
        Ok(FleetWelcome::Refused(why)) => Err(FleetError::Refused(why)),
        Err(error) => Err(failed(format!("malformed answer: {error}"))),
    }
}

/// A controller does not say why it sends a stranger away.
fn in_words(broken: &str) -> String {
    match broken {
        "connection closed" => "it closed the connection: the ticket is of another run, or all hosts are there".into(),
        other if other.contains("ApplicationVerificationFailure") => {
            "its key is not the one of the ticket: it is another controller, or somebody is in between".into()
        }
        other => other.into(),
    }
}

/// Has the kernel notice when the other machine has gone without a word.
pub(crate) fn keep_alive(stream: &FleetStream) -> io::Result<()> {
    let socket = stream.input();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, ASK_TIMES)?;
    let limit = u32::try_from(LOST_AFTER.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(socket, limit)?)
}
