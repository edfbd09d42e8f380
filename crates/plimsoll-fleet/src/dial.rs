// SPDX-License-Identifier: Apache-2.0
//! The agent's way in.

use plimsoll_machine::host::agent::{AgentChannel, AgentStream as _};
use plimsoll_machine::host::{HostTimeSource, SystemClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::FleetError;
use crate::greeting::{FleetHello, FleetWelcome, GREETING, GREETING_MAX};
use crate::rank;
use crate::socket::{connect, keep_alive};
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

/// An agent that is in.
#[derive(Debug)]
pub struct FleetDial {
    /// Its name as a node.
    pub node: String,
    /// The way to the controller.
    pub channel: AgentChannel<FleetStream>,
}

/// Who an agent is.
#[derive(Debug, Clone, Copy)]
pub struct FleetAgent<'a> {
    /// Which build.
    pub build: &'a str,
    /// The name of its machine.
    pub host: &'a str,
    /// Where it works.
    pub dir: &'a str,
}

/// Goes to the controller of this ticket.
///
/// # Errors
/// When it cannot be reached, is another one, or does not want us.
pub fn dial(
    ticket: &FleetTicket,
    agent: &FleetAgent<'_>,
    stop: &AtomicBool,
) -> Result<FleetDial, FleetError> {
    dial_within(DIAL_LIMIT, ticket, agent, stop)
}

pub(crate) fn dial_within(
    limit: Duration,
    ticket: &FleetTicket,
    agent: &FleetAgent<'_>,
    stop: &AtomicBool,
) -> Result<FleetDial, FleetError> {
    let clock = SystemClock::new();
    let until = clock.now() + limit;
    loop {
        let why = match attempt(ticket, agent, stop) {
            Ok(joined) => return joined,
            Err(_) if stop.load(Ordering::Relaxed) => return Err(FleetError::Stopped),
            Err(why) => why,
        };
        // A controller that takes in many at once may have had no time for this one.
        if clock.now() >= until || why.contains(OTHER_KEY) {
            return Err(FleetError::Connection {
                what: format!("reach the controller at {}", ticket.address),
                why: in_words(&why),
            });
        }
        clock.pause(PAUSE);
    }
}

/// One attempt: what the controller says, or why nothing came of it.
fn attempt(
    ticket: &FleetTicket,
    agent: &FleetAgent<'_>,
    stop: &AtomicBool,
) -> Result<Result<FleetDial, FleetError>, String> {
    let socket = connect(&ticket.address, CONNECT_LIMIT).map_err(|error| error.to_string())?;
    let stream = FleetStream::dialled(socket, ticket.pin, ANSWER_LIMIT)
        .map_err(|error| error.to_string())?;
    keep_alive(stream.input()).map_err(|error| error.to_string())?;
    let hello = FleetHello {
        greeting: GREETING,
        token: ticket.token.reveal(),
        build: agent.build.into(),
        rank: rank::from(|name| std::env::var(name).ok()),
        host: agent.host.into(),
        dir: agent.dir.into(),
    };
    let message = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
    let mut channel = AgentChannel::over(stream).of_strangers(GREETING_MAX);
    let answer = channel
        .send(&message, ANSWER_LIMIT)
        .and_then(|()| channel.receive(ANSWER_LIMIT, Some(stop)))
        .map_err(|broken| broken.to_string())?;
    match serde_json::from_slice(&answer) {
        Ok(FleetWelcome::Node(node)) => {
            channel.trust();
            Ok(Ok(FleetDial { node, channel }))
        }
        Ok(FleetWelcome::Refused(why)) => Ok(Err(FleetError::Refused(why))),
        Err(error) => Err(format!("malformed answer: {error}")),
    }
}

/// The error of rustls when the key is not the one of the ticket.
const OTHER_KEY: &str = "ApplicationVerificationFailure";

/// A controller does not say why it sends a stranger away.
fn in_words(why: &str) -> String {
    match why {
        "connection closed" | "unexpected end of file" => {
            "it closed the connection: the ticket is of another run, or all hosts are there".into()
        }
        other if other.contains(OTHER_KEY) => {
            "its key is not the one of the ticket: it is another controller, or somebody is in between"
                .into()
        }
        other => other.into(),
    }
}
