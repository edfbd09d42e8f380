// SPDX-License-Identifier: Apache-2.0
//! An agent's ticket: where the controller is, by which key it is known, and the token of the
//! run. One word, so that it fits into an environment variable, a file or a Secret.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use subtle::ConstantTimeEq;

use crate::error::FleetError;

/// The variable that holds the ticket.
pub const TICKET_VARIABLE: &str = plimsoll_machine::host::TICKET_VARIABLE;

/// Version of the form below.
const FORM: &str = "1";

/// Longest ticket.
const TICKET_MAX: u64 = 1024;

/// Bytes of a token, and of the digest of a key.
pub(crate) const SECRET_BYTES: usize = 32;

/// The secret token of a run: an agent that has it may be one of the load hosts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FleetToken([u8; SECRET_BYTES]);

impl FleetToken {
    /// A new one.
    pub(crate) fn new() -> Result<FleetToken, FleetError> {
        let mut bytes = [0; SECRET_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| FleetError::Connection {
            what: "make a token".into(),
            why: "the system gives no random bytes".into(),
        })?;
        Ok(FleetToken(bytes))
    }

    /// Whether this text is it, in a time that does not depend on how much of it is right.
    pub(crate) fn is(&self, text: &str) -> bool {
        let theirs = from_hex(text).unwrap_or_default();
        let is_token = from_hex(text).is_some();
        is_token & bool::from(self.0.ct_eq(&theirs))
    }

    /// The token as it goes over an encrypted connection.
    pub(crate) fn reveal(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for FleetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetToken")
    }
}

/// A ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTicket {
    /// Where the controller listens: `host:port`.
    pub(crate) address: String,
    /// The digest of its public key.
    pub(crate) pin: [u8; SECRET_BYTES],
    pub(crate) token: FleetToken,
}

impl FleetTicket {
    /// The ticket as text. The carrier passes it to the agents and must keep it secret, since it holds the
    /// token.
    pub fn reveal(&self) -> String {
        let (pin, token) = (hex(&self.pin), self.token.reveal());
        format!("{FORM},{},{pin},{token}", self.address)
    }

    /// From a file, or from the environment where none is named.
    ///
    /// # Errors
    /// When there is none, or it is none. What it says is not in the error.
    pub fn find(file: Option<&Path>) -> Result<FleetTicket, FleetError> {
        let Some(path) = file else {
            let text = std::env::var(TICKET_VARIABLE).map_err(|_| {
                FleetError::Ticket(format!(
                    "no ticket: {TICKET_VARIABLE} is not set; what carries agents has to pass it on, \
                     or name a file that holds it: plimsoll-agent dial FILE"
                ))
            })?;
            return text.parse();
        };
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(TICKET_MAX).read_to_string(&mut text));
        let shown = path.display();
        read.map_err(|error| FleetError::Ticket(format!("read the ticket {shown}: {error}")))?;
        text.parse()
    }
}

impl FromStr for FleetTicket {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<FleetTicket, FleetError> {
        let bad = |what: &str| FleetError::Ticket(format!("invalid ticket: {what}"));
        let parts: Vec<&str> = text.trim().split(',').collect();
        let [form, address, pin, token] = parts[..] else {
            return Err(bad("expected four parts with commas between them"));
        };
        if form != FORM {
            return Err(bad("it is of another version of plimsoll"));
        }
        if !address.contains(':') {
            return Err(bad("expected HOST:PORT as its second part"));
        }
        Ok(FleetTicket {
            address: address.into(),
            pin: from_hex(pin)
                .ok_or_else(|| bad("expected 64 hexadecimal digits as its third part"))?,
            token: FleetToken(
                from_hex(token)
                    .ok_or_else(|| bad("expected 64 hexadecimal digits as its last part"))?,
            ),
        })
    }
}

/// A random name: other users cannot guess it, and no existing file has it.
///
/// # Errors
/// When the system gives no random bytes.
pub fn private_name(begin: &str) -> Result<String, FleetError> {
    let random = FleetToken::new()?.reveal();
    Ok(format!("{begin}-{}", &random[..16]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    if text.len() != 2 * SECRET_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_comes_back_as_it_went_and_shows_no_token() {
        let ticket = FleetTicket {
            address: "[::1]:7".into(),
            pin: [7; SECRET_BYTES],
            token: FleetToken::new().unwrap(),
        };
        let text = ticket.reveal();
        assert_eq!(text.parse::<FleetTicket>().unwrap(), ticket);
        assert!(!format!("{ticket:?}").contains(&ticket.token.reveal()));
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("ticket");
        std::fs::write(&file, format!("{text}\n")).unwrap();
        assert_eq!(FleetTicket::find(Some(&file)).unwrap(), ticket);
    }

    #[test]
    fn what_is_no_ticket_is_refused_without_being_repeated() {
        let token = "a".repeat(64);
        for text in [
            String::new(),
            "1".into(),
            format!("2,a:1,{token},{token}"),
            format!("1,nowhere,{token},{token}"),
            format!("1,a:1,{token},{token}b"),
            format!("1,a:1,{},{token}", "g".repeat(64)),
            format!("1,a:1,{},{token}", "é".repeat(32)),
        ] {
            let error = text.parse::<FleetTicket>().unwrap_err().to_string();
            assert!(
                error.contains("invalid ticket") && !error.contains("aaaa"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = FleetToken::new().unwrap();
        let text = token.reveal();
        assert!(token.is(&text));
        for other in ["", &text[..62], &"0".repeat(64), &format!("{text}00")] {
            assert!(!token.is(other));
        }
    }
}
