// SPDX-License-Identifier: Apache-2.0
//! Errors: at the start, for the user at the terminal; later, for the sender of a request.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::path::PathBuf;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something is to be given in another way.
    #[error("{text}")]
    Usage {
        /// The sentence.
        text: String,
        /// How to mend it.
        hint: String,
    },
    /// Something could not be done.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// The step that failed.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The address cannot be listened on.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("failed to use the certificate {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The database of the history cannot be used.
    #[error("{0}")]
    History(#[from] plimsoll_history::HistoryError),
    /// The system gives no threads or no random bytes.
    #[error("failed to start the server: {0}")]
    System(std::io::Error),
}

impl ServeError {
    pub(crate) fn usage(text: impl Into<String>, hint: impl Into<String>) -> ServeError {
        ServeError::Usage {
            text: text.into(),
            hint: hint.into(),
        }
    }
}

/// The answer to a request that cannot be served: a sentence, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
    /// Mistakes of a form, where it had some.
    pub(crate) mistakes: Vec<FormMistake>,
}

/// A mistake in a field of a form.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct FormMistake {
    /// Its key, such as `trial.for`.
    pub(crate) at: String,
    pub(crate) text: String,
}

impl RequestError {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> RequestError {
        RequestError {
            status,
            text: text.into(),
            hint: None,
            mistakes: Vec::new(),
        }
    }

    /// A request that cannot be carried out as it was sent.
    pub(crate) fn invalid(text: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    }

    /// It cannot be done now.
    pub(crate) fn conflict(text: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::CONFLICT, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::NOT_FOUND, text)
    }

    pub(crate) fn forbidden(text: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::FORBIDDEN, text)
    }

    pub(crate) fn failed(text: impl std::fmt::Display) -> RequestError {
        RequestError::new(StatusCode::INTERNAL_SERVER_ERROR, text.to_string())
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> RequestError {
        self.hint = Some(hint.into());
        self
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let told = serde_json::json!({ "error": { "text": self.text, "hint": self.hint,
            "mistakes": self.mistakes } });
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (self.status, kind, told.to_string()).into_response()
    }
}

impl From<plimsoll_remote::RemoteError> for ServeError {
    fn from(error: plimsoll_remote::RemoteError) -> ServeError {
        ServeError::usage(error.to_string(), error.hint())
    }
}

/// Refused before anybody could send a request.
impl From<RequestError> for ServeError {
    fn from(error: RequestError) -> ServeError {
        let hint = error
            .hint
            .unwrap_or_else(|| "see plimsoll serve --help".into());
        ServeError::usage(error.text, hint)
    }
}
