// SPDX-License-Identifier: Apache-2.0
//! Secrets: drawn from the kernel, read from a file that only its owner reads, compared in a time that does
//! not depend on them.
//!
//! Invariant: `Debug` prints no secret; only [`ServerSecret::reveal`] returns one.

use crate::server::RemoteError;
use std::fmt;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// Shortest and longest token in a file: half of the digits of one that is drawn, and more than anybody
/// needs.
const LENGTH: RangeInclusive<usize> = 32..=256;
/// The same of what other servers give out.
const FOREIGN_LENGTH: RangeInclusive<usize> = 1..=8_192;

/// A secret of printable characters.
#[derive(Clone)]
pub struct ServerSecret(String);

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret")
    }
}

impl ServerSecret {
    /// One that was drawn just now.
    pub fn drawn(text: String) -> ServerSecret {
        ServerSecret(text)
    }

    /// A secret that was given in another way.
    pub fn given(text: &str) -> Option<ServerSecret> {
        is_token(text, &LENGTH).then(|| ServerSecret(text.to_owned()))
    }

    /// A secret of another server that was given in another way.
    pub fn foreign(text: &str) -> Option<ServerSecret> {
        is_token(text, &FOREIGN_LENGTH).then(|| ServerSecret(text.to_owned()))
    }

    /// The token in a file that only its owner, this user, can read.
    ///
    /// # Errors
    /// When it cannot be read, may be read by others, or holds no token.
    pub fn read(path: &Path) -> Result<ServerSecret, RemoteError> {
        Self::read_of(path, &LENGTH)
    }

    /// The token of another server in such a file.
    ///
    /// # Errors
    /// As those of [`ServerSecret::read`].
    pub fn read_foreign(path: &Path) -> Result<ServerSecret, RemoteError> {
        Self::read_of(path, &FOREIGN_LENGTH)
    }

    fn read_of(path: &Path, length: &RangeInclusive<usize>) -> Result<ServerSecret, RemoteError> {
        let io = |error: std::io::Error| {
            let text = format!("failed to read the token file {}: {error}", path.display());
            RemoteError::usage(
                text,
                "give a file of mode 0600 that holds the token in one line",
            )
        };
        let refuse = |what: &str, hint: &str| {
            let text = format!("the token file {} {what}", path.display());
            RemoteError::usage(text, hint)
        };
        // Not blocking, so that a pipe in its place is refused and not waited for.
        let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags.cast_signed());
        let mut file = options.open(path).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Err(refuse("is not a file", "give a file that holds one line"));
        }
        if facts.uid() != rustix::process::geteuid().as_raw() {
            let hint = "make one of your own: (umask 077; openssl rand -hex 32 >FILE)";
            return Err(refuse("belongs to another user", hint));
        }
        if facts.mode() & 0o7777 != 0o600 {
            let hint = format!("chmod 600 {}", path.display());
            return Err(refuse("may be used by others: its mode is not 0600", &hint));
        }
        let mut text = String::new();
        (&mut file)
            .take(*length.end() as u64 + 2)
            .read_to_string(&mut text)
            .map_err(io)?;
        let token = text.trim_end_matches(['\n', '\r']);
        if !is_token(token, length) {
            let what = format!(
                "does not hold a token: expected {} to {} letters, digits and -_.~+/= in one line",
                length.start(),
                length.end()
            );
            return Err(refuse(
                &what,
                "make one: (umask 077; openssl rand -hex 32 >FILE)",
            ));
        }
        Ok(ServerSecret(token.to_owned()))
    }

    /// Whether it is this. Takes the same time for every other one of its length.
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// The secret itself, for its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn is_token(text: &str, length: &RangeInclusive<usize>) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=".contains(c);
    length.contains(&text.len()) && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_compared_and_not_shown() {
        let of = |digit: &str| ServerSecret::drawn(digit.repeat(64));
        let (one, other) = (of("1"), of("2"));
        assert!(one.is(one.reveal()) && !one.is(other.reveal()) && !one.is(""));
        assert!(!format!("{one:?}").contains(one.reveal()));
    }

    #[test]
    fn a_token_file_that_others_may_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("token");
        let cases = [
            ("0123456789abcdef0123456789abcdef\n", 0o600, ""),
            (
                "0123456789abcdef0123456789abcdef\n",
                0o640,
                "mode is not 0600",
            ),
            ("0123456789abcdef\n", 0o600, "does not hold a token"),
            (
                "0123456789abcdef 123456789abcdef\n",
                0o600,
                "does not hold a token",
            ),
        ];
        for (text, mode, wrong) in cases {
            write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match ServerSecret::read(&path) {
                Ok(secret) => assert!(wrong.is_empty() && secret.is(text.trim_end())),
                Err(error) => {
                    let told = error.to_string();
                    assert!(!wrong.is_empty() && told.contains(wrong), "{told}");
                    assert!(!told.contains("0123456789"), "{told}");
                }
            }
        }
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(ServerSecret::read(&link).is_err());
    }
}
