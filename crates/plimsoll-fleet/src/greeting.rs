// SPDX-License-Identifier: Apache-2.0
//! The greeting before the messages of [`plimsoll_machine::host::agent`]: who comes, and whether it
//! may. The only bytes that a peer without the token can make us read.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of these two messages.
pub(crate) const GREETING: u32 = 1;

/// Longest of them.
pub(crate) const GREETING_MAX: usize = 4096;

/// Longest name and directory of a host.
const TEXT_MAX: usize = 255;

/// An agent that wants in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetHello {
    pub(crate) greeting: u32,
    pub(crate) token: String,
    /// Which build it is.
    pub(crate) build: String,
    /// Which of the hosts it is on, where what carries it says so.
    pub(crate) rank: Option<u32>,
    /// The name of its machine.
    pub(crate) host: String,
    /// Where it works.
    pub(crate) dir: String,
}

/// The token is in no log.
impl fmt::Debug for FleetHello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FleetHello");
        shown.field("host", &self.host).field("rank", &self.rank);
        shown.finish_non_exhaustive()
    }
}

/// The answer to one that has the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FleetWelcome {
    /// It is this node from now on.
    Node(String),
    /// It cannot be one, and why.
    Refused(String),
}

impl FleetHello {
    /// Understands a greeting; one that is not ours is none.
    pub fn read(message: &[u8]) -> Option<FleetHello> {
        let hello: FleetHello = serde_json::from_slice(message).ok()?;
        let is_short = |text: &str| text.len() <= TEXT_MAX;
        (is_short(&hello.host) && is_short(&hello.dir) && is_short(&hello.build)).then_some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_greeting_is_one() {
        let hello = FleetHello {
            greeting: GREETING,
            token: "t".into(),
            build: "b".into(),
            rank: None,
            host: "h".into(),
            dir: "/d".into(),
        };
        let text = serde_json::to_vec(&hello).unwrap();
        assert!(FleetHello::read(&text) == Some(hello.clone()));
        let long = FleetHello {
            host: "h".repeat(256),
            ..hello
        };
        for other in [
            b"".to_vec(),
            b"{}".to_vec(),
            br#"{"node":"h1"}"#.to_vec(),
            text[..text.len() - 1].to_vec(),
            serde_json::to_vec(&long).unwrap(),
        ] {
            assert!(FleetHello::read(&other).is_none());
        }
    }
}
