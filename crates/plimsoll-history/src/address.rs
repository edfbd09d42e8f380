// SPDX-License-Identifier: Apache-2.0
//! Where the database is. An address on the command line is seen by every user of the machine, so it must not
//! hold a password; one from the environment may.
//!
//! Invariant: nothing that is shown of an address holds its password.

use crate::error::HistoryError;
use std::fmt;
use std::path::{Path, PathBuf};

/// The hint where an address cannot be used.
const HINT: &str = "give postgres://USER@HOST/DATABASE or sqlite:FILE";

/// Where a database is.
#[derive(Clone, PartialEq, Eq)]
pub enum HistoryAddress {
    /// A server. The text may hold a password.
    Postgres(String),
    /// A file.
    Sqlite(PathBuf),
}

impl HistoryAddress {
    /// Of an option of the command line.
    ///
    /// # Errors
    /// When it is none, or holds a password.
    pub fn from_command_line(text: &str) -> Result<HistoryAddress, HistoryError> {
        let address = HistoryAddress::from_environment(text)?;
        match &address {
            HistoryAddress::Postgres(url) if password(url).is_some() => Err(HistoryError::invalid(
                "the address of the database holds a password, which the list of processes shows to every \
                     user",
                "give the address in PLIMSOLL_DATABASE, or the password in a password file (PGPASSFILE, \
                     ~/.pgpass)",
            )),
            _ => Ok(address),
        }
    }

    /// Of a variable of the environment.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_environment(text: &str) -> Result<HistoryAddress, HistoryError> {
        if let Some(file) = text.strip_prefix("sqlite:") {
            let file = file.strip_prefix("//").unwrap_or(file);
            // The library would read options behind a question mark.
            return match file.is_empty() || file.contains(['?', '#', '%']) {
                true => Err(HistoryError::invalid(
                    "the address of the database names no plain file",
                    HINT,
                )),
                false => Ok(HistoryAddress::Sqlite(file.into())),
            };
        }
        let is_server = ["postgres://", "postgresql://"];
        match is_server.iter().any(|begin| text.starts_with(begin)) {
            true => Ok(HistoryAddress::Postgres(text.to_owned())),
            // It is not repeated: who mistypes the beginning may have given a password.
            false => Err(HistoryError::invalid(
                "the address of the database begins neither with postgres:// nor with sqlite:",
                HINT,
            )),
        }
    }

    /// As the library takes it.
    pub(crate) fn url(&self) -> String {
        match self {
            HistoryAddress::Postgres(url) => url.clone(),
            HistoryAddress::Sqlite(file) => format!("sqlite:{}?mode=rwc", file.display()),
        }
    }

    /// The file of a database that is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            HistoryAddress::Postgres(_) => None,
            HistoryAddress::Sqlite(file) => Some(file),
        }
    }
}

/// The password in an address: between the first colon of its user and the last `@`, or an option.
fn password(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let before_path = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    // A password with a slash is no good address, but must not be shown all the same.
    let people = before_path
        .rsplit_once('@')
        .or_else(|| rest.rsplit_once('@'));
    let in_people = people.and_then(|(people, _)| people.split_once(':'));
    let in_options = rest.split_once("password=");
    in_people.or(in_options).map(|(_, password)| password)
}

impl fmt::Display for HistoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HistoryAddress::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            HistoryAddress::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let (people, place) = rest.rsplit_once('@').unwrap_or(("", rest));
                let place = place.split('?').next().unwrap_or(place);
                match people.split(':').next().filter(|user| !user.is_empty()) {
                    Some(user) => write!(f, "postgres://{user}@{place}"),
                    None => write!(f, "postgres://{place}"),
                }
            }
        }
    }
}

impl fmt::Debug for HistoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HistoryAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown_or_taken_from_the_command_line() {
        for (given, shown, is_open) in [
            ("postgres://lab@db/runs", "postgres://lab@db/runs", true),
            (
                "postgres://db:5432/runs?sslmode=require",
                "postgres://db:5432/runs",
                true,
            ),
            (
                "postgres://lab:sEcret@db/runs",
                "postgres://lab@db/runs",
                false,
            ),
            (
                "postgresql://lab:sE/cr@et@db/runs",
                "postgres://lab@db/runs",
                false,
            ),
            (
                "postgres://lab@db/runs?password=sEcret",
                "postgres://lab@db/runs",
                false,
            ),
            ("sqlite:team.db", "sqlite:team.db", true),
        ] {
            let address = HistoryAddress::from_environment(given).unwrap();
            assert_eq!(address.to_string(), shown, "{given}");
            assert!(!format!("{address:?}").contains("sE"), "{given}");
            let from_words = HistoryAddress::from_command_line(given);
            assert_eq!(from_words.is_ok(), is_open, "{given}");
            let told = from_words.map_or_else(|error| error.to_string(), |ok| ok.to_string());
            assert!(!told.contains("sE"), "{told}");
        }
        for wrong in ["", "mysql://x:sEcret@y", "sqlite:", "sqlite:a?mode=memory"] {
            let told = HistoryAddress::from_environment(wrong)
                .unwrap_err()
                .to_string();
            assert!(!told.contains("sEcret"), "{told}");
        }
    }
}
