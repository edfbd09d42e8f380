// SPDX-License-Identifier: Apache-2.0
//! Who gets in, and what those get that do not.

use super::*;
use crate::dial::{FleetAgent, FleetDial, dial_within};
use crate::socket::connect;
use plimsoll_machine::host::agent::AgentChannel;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

/// Ends what hangs: far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// How long an agent that is refused tries again: not at all.
const ONCE: Duration = Duration::ZERO;

fn gate(wanted: u32) -> FleetGate {
    FleetGate::open("127.0.0.1:0".parse().unwrap(), "nowhere", wanted, "build-1").unwrap()
}

fn agent(build: &str) -> FleetAgent<'_> {
    FleetAgent {
        build,
        host: "machine",
        dir: "/tmp/x",
    }
}

fn go(ticket: &FleetTicket, build: &str, limit: Duration) -> Result<FleetDial, FleetError> {
    dial_within(limit, ticket, &agent(build), &AtomicBool::new(false))
}

/// Waits at a gate until all are there or others have done something, and gives both.
fn gathered<T: Send + 'static>(
    gate: FleetGate,
    others: impl FnOnce() -> T + Send + 'static,
) -> (Result<Vec<FleetMember>, FleetError>, T) {
    let others = thread::spawn(others);
    let go = AtomicBool::new(false);
    let mut over = || others.is_finished().then(|| "it is over".to_owned());
    let members = gate.gather(LONG, &go, &mut over, &mut |_| {});
    (members, others.join().unwrap())
}

#[test]
fn agents_with_the_ticket_come_in_and_are_spoken_with() {
    let gate = gate(3);
    let ticket = gate.ticket().clone();
    let (members, joined) = gathered(gate, move || {
        let agents: Vec<_> = (0..3)
            .map(|_| {
                let ticket = ticket.clone();
                thread::spawn(move || go(&ticket, "build-1", LONG).unwrap())
            })
            .collect();
        agents
            .into_iter()
            .map(|agent| agent.join().unwrap())
            .collect::<Vec<_>>()
    });
    let members = members.unwrap();
    let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    // A message of some megabytes each way: more than any buffer holds.
    let mut joined = joined;
    joined.sort_by(|a, b| a.node.cmp(&b.node));
    let message: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    for (member, mut agent) in members.into_iter().zip(joined) {
        assert_eq!(member.name, agent.node);
        let mut channel = AgentChannel::over(member.stream);
        let expect = message.clone();
        let echo = thread::spawn(move || {
            let came = agent.channel.receive(LONG, None).unwrap();
            agent.channel.send(&came, LONG).unwrap();
        });
        channel.send(&message, LONG).unwrap();
        assert!(channel.receive(LONG, None).unwrap() == expect);
        echo.join().unwrap();
        // Its end is seen.
        assert!(channel.receive(LONG, None).is_err());
    }
}

#[test]
fn strangers_hear_nothing_and_keep_nobody_out() {
    let gate = gate(1);
    let ticket = gate.ticket().clone();
    let (members, heard) = gathered(gate, move || {
        // More than there is room for, who say nothing at all.
        let idle: Vec<_> = (0..PENDING_MAX + 4)
            .map(|_| TcpStream::connect(&ticket.address).unwrap())
            .collect();
        let mut heard = Vec::new();
        for said in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0x16, 3, 1, 0xff, 0xff],
            &[0; 100_000],
        ] {
            let mut stranger = TcpStream::connect(&ticket.address).unwrap();
            let _ = stranger.write_all(said);
            heard.push(stranger);
        }
        let other = FleetTicket {
            token: FleetToken::new().unwrap(),
            ..ticket.clone()
        };
        let refused = go(&other, "build-1", ONCE).unwrap_err().to_string();
        assert!(refused.contains("closed the connection"), "{refused}");
        assert!(!refused.contains(&other.token.reveal()));
        let mut long = AgentChannel::over(
            FleetStream::dialled(connect(&ticket.address, LONG).unwrap(), ticket.pin, LONG)
                .unwrap(),
        );
        // The right token in a message that is too long is not read to its end.
        let hello = format!("{}{}", ticket.token.reveal(), " ".repeat(1 << 20));
        let _ = long.send(hello.as_bytes(), LONG);
        assert!(long.receive(LONG, None).is_err());
        let joined = go(&ticket, "build-1", LONG).unwrap();
        drop(idle);
        let mut bytes = Vec::new();
        for mut stranger in heard {
            let _ = stranger.set_read_timeout(Some(LONG));
            let _ = stranger.read_to_end(&mut bytes);
        }
        (joined, bytes)
    });
    assert_eq!(members.unwrap().len(), 1);
    // A TLS alert at most: seven bytes each.
    assert!(heard.1.len() <= 3 * 7, "{:?}", heard.1);
}

#[test]
fn an_agent_speaks_to_no_other_controller() {
    let (first, second) = (gate(1), gate(1));
    let ticket = FleetTicket {
        address: second.ticket().address.clone(),
        ..first.ticket().clone()
    };
    let (members, error) = gathered(second, move || {
        go(&ticket, "build-1", LONG).unwrap_err().to_string()
    });
    assert!(
        error.contains("its key is not the one of the ticket"),
        "{error}"
    );
    let missing = members.unwrap_err().to_string();
    assert!(missing.contains("0 of 1"), "{missing}");
}

#[test]
fn who_does_not_come_is_missed_by_number() {
    let stop = AtomicBool::new(false);
    let missing = gate(1)
        .gather(Duration::ZERO, &stop, &mut || None, &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("0 of 1 load hosts arrived") && missing.contains("missing: 0"),
        "{missing}"
    );
}

#[test]
fn another_build_is_refused_by_name() {
    let gate = gate(1);
    let ticket = gate.ticket().clone();
    let (_, error) = gathered(gate, move || {
        go(&ticket, "build-2", LONG).unwrap_err().to_string()
    });
    assert!(
        error.contains("it is build build-2, and the controller needs build build-1"),
        "{error}"
    );
}

#[test]
fn a_carrier_that_ends_and_a_stop_are_not_waited_out() {
    let stop = AtomicBool::new(false);
    let mut said = || Some("no such partition".to_owned());
    let error = gate(2)
        .gather(LONG, &stop, &mut said, &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the carrier said: no such partition"),
        "{error}"
    );
    let stop = AtomicBool::new(true);
    let error = gate(2)
        .gather(LONG, &stop, &mut || None, &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, FleetError::Stopped));
}
