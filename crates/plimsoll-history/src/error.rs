// SPDX-License-Identifier: Apache-2.0
//! Why the history could not be read or written. No text of it holds a password or a token.

/// Why something of the history was not done.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Something is to be given in another way, or is not there.
    #[error("{text}")]
    Invalid {
        /// The sentence.
        text: String,
        /// How to mend it.
        hint: String,
    },
    /// The database does not answer.
    #[error("failed to {doing}: the database does not answer: {reason}")]
    Unavailable {
        /// The step that failed.
        doing: &'static str,
        /// The cause.
        reason: String,
    },
    /// The database refused.
    #[error("failed to {doing}: {reason}")]
    Database {
        /// The step that failed.
        doing: &'static str,
        /// The database's words.
        reason: String,
    },
    /// A run folder cannot become part of the history.
    #[error("{0}")]
    Run(String),
}

impl HistoryError {
    pub(crate) fn invalid(text: impl Into<String>, hint: impl Into<String>) -> HistoryError {
        HistoryError::Invalid {
            text: text.into(),
            hint: hint.into(),
        }
    }
}

/// A function for `map_err` that says what was being done.
pub(crate) fn doing(doing: &'static str) -> impl Fn(sqlx::Error) -> HistoryError {
    move |error| {
        let is_away = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => true,
            // Class 57: the server is being stopped or is not up yet; class 08: the connection is broken.
            sqlx::Error::Database(of) => of
                .code()
                .is_some_and(|code| code.starts_with("57P") || code.starts_with("08")),
            _ => false,
        };
        let reason = plimsoll_core::text::printable(&error.to_string());
        match is_away {
            true => HistoryError::Unavailable { doing, reason },
            false => HistoryError::Database { doing, reason },
        }
    }
}

/// Whether a statement broke a rule that two rows must not be alike.
pub(crate) fn is_double(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(of) if of.is_unique_violation())
}
