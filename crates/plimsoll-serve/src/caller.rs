// SPDX-License-Identifier: Apache-2.0
//! Who sends a request, and what that one may do. The token that the server printed, or was given in a file,
//! is the operator's and is for everything; tokens of a team's users are for their scopes.

use crate::error::RequestError;
use axum::http::{Method, StatusCode};
use plimsoll_history::{HistoryAuditEntry, HistoryCaller, HistoryScope, HistoryViewer};

/// The operator's name in the audit trail.
const OPERATOR: &str = "operator";

/// Who sends a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestCaller {
    pub(crate) name: String,
    /// The user's number; none of the operator.
    pub(crate) user_id: Option<i64>,
    pub(crate) token_id: Option<i64>,
    pub(crate) scopes: Vec<HistoryScope>,
    /// Where the request comes from.
    pub(crate) from: String,
}

impl RequestCaller {
    pub(crate) fn operator() -> RequestCaller {
        RequestCaller {
            name: OPERATOR.into(),
            user_id: None,
            token_id: None,
            scopes: HistoryScope::ALL.map(|(_, scope)| scope).to_vec(),
            from: String::new(),
        }
    }

    pub(crate) fn has(&self, scope: HistoryScope) -> bool {
        self.scopes.contains(&scope)
    }

    pub(crate) fn viewer(&self) -> HistoryViewer {
        HistoryViewer {
            user_id: self.user_id.unwrap_or(0),
            sees_all: self.has(HistoryScope::Admin),
        }
    }

    /// An entry of the audit trail about this request.
    pub(crate) fn entry(&self, action: &str, subject: &str, detail: &str) -> HistoryAuditEntry {
        HistoryAuditEntry {
            at_ms: 0,
            who: self.name.clone(),
            token_id: self.token_id,
            from_where: self.from.clone(),
            action: action.into(),
            subject: subject.into(),
            detail: detail.into(),
        }
    }

    /// Whether the request may be made at all.
    pub(crate) fn check(&self, method: &Method, path: &str) -> Result<(), RequestError> {
        let scope = needed(method, path);
        match self.has(scope) {
            true => Ok(()),
            false => {
                let text = format!("the token lacks the scope '{scope}'");
                Err(RequestError::new(StatusCode::FORBIDDEN, text)
                    .hint("ask for a token with it: plimsoll team token add"))
            }
        }
    }
}

impl From<HistoryCaller> for RequestCaller {
    fn from(of: HistoryCaller) -> RequestCaller {
        RequestCaller {
            name: of.name,
            user_id: Some(of.user_id),
            token_id: Some(of.token_id),
            scopes: of.scopes,
            from: String::new(),
        }
    }
}

/// The scope that a request needs; of one that is not listed, that of who may do everything.
fn needed(method: &Method, path: &str) -> HistoryScope {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    match (method.is_safe(), &words[..]) {
        (_, ["push", ..]) | (false, ["runs", _, "share"]) => HistoryScope::Push,
        // Forms offer the machine's disks and inventories by name.
        (true, ["catalogue" | "stacks", ..]) => HistoryScope::Run,
        (
            true,
            [
                "runs" | "diff" | "server" | "jobs" | "history" | "metrics",
                ..,
            ],
        ) => HistoryScope::Read,
        (false, ["runs" | "stacks" | "jobs" | "history", ..]) => HistoryScope::Run,
        _ => HistoryScope::Admin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_request_has_its_scope() {
        for (method, path, scope) in [
            (Method::GET, "/runs/x/report", "read"),
            (Method::GET, "/history/series/1", "read"),
            (Method::POST, "/history/series/1/marks", "run"),
            (Method::POST, "/runs", "run"),
            (Method::POST, "/runs/x/resume", "run"),
            (Method::POST, "/runs/x/share", "push"),
            (Method::POST, "/push", "push"),
            (Method::PUT, "/push/x/files/1", "push"),
            (Method::POST, "/stacks/raid1/down", "run"),
            (Method::GET, "/catalogue", "run"),
            (Method::POST, "/jobs/1/stop", "run"),
            (Method::DELETE, "/anything", "admin"),
            (Method::GET, "/anything", "admin"),
        ] {
            assert_eq!(needed(&method, path).name(), scope, "{method} {path}");
        }
    }
}
