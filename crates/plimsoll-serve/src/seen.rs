// SPDX-License-Identifier: Apache-2.0
//! Whether a caller may see a run. Every access to a run takes a [`SeenRun`], and only the rule below makes
//! one.

use crate::caller::RequestCaller;
use crate::error::RequestError;
use plimsoll_core::text::printable;
use plimsoll_history::{HistoryRunAccess, HistoryScope};

/// Where a run is, as the server itself found out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunPlace {
    /// In the folder of a server without a team: who is let in sees all.
    Open,
    /// In the database of a team.
    Pushed(HistoryRunAccess),
    /// In the folder of a team's server, which measured it: for the whole team.
    Own,
    /// Nowhere, or it was pushed and the database does not say by whom.
    Unknown,
}

/// A run that the caller may see.
#[derive(Debug, Clone)]
pub(crate) struct SeenRun(String);

impl SeenRun {
    /// The rule.
    pub(crate) fn judged(id: &str, caller: &RequestCaller, place: RunPlace) -> Option<SeenRun> {
        let is_seen = match place {
            _ if !is_run_name(id) => false,
            _ if caller.has(HistoryScope::Admin) => true,
            RunPlace::Open | RunPlace::Own => true,
            RunPlace::Pushed(access) => access.is_shared || caller.user_id == Some(access.owner_id),
            RunPlace::Unknown => false,
        };
        is_seen.then(|| SeenRun(id.to_owned()))
    }

    pub(crate) fn id(&self) -> &str {
        &self.0
    }
}

/// A name that leads nowhere else.
pub(crate) fn is_run_name(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&id.len()) && id.chars().all(is_plain) && !id.starts_with(['.', '-'])
}

pub(crate) fn no_run(id: &str) -> RequestError {
    RequestError::not_found(format!("there is no run '{}'", printable(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_lead_nowhere_else() {
        for good in ["20260101-120000-4711", "monday", "a.b_c"] {
            assert!(is_run_name(good), "{good}");
        }
        for bad in [
            "", ".", "..", "../x", "a/b", "-o", ".hidden", "a\0b", "ä", "a b", "%6donday",
        ] {
            assert!(!is_run_name(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_not_known_is_seen_by_nobody_but_who_sees_all() {
        let ada = HistoryRunAccess {
            owner_id: 1,
            is_shared: false,
        };
        let shared = HistoryRunAccess {
            is_shared: true,
            ..ada
        };
        let caller = |user_id, scope| RequestCaller {
            user_id: Some(user_id),
            scopes: vec![scope],
            ..RequestCaller::operator()
        };
        let (ada_, bob, root) = (
            caller(1, HistoryScope::Read),
            caller(2, HistoryScope::Read),
            caller(3, HistoryScope::Admin),
        );
        for (place, seen) in [
            (RunPlace::Open, [true, true, true]),
            (RunPlace::Own, [true, true, true]),
            (RunPlace::Pushed(shared), [true, true, true]),
            (RunPlace::Pushed(ada), [true, false, true]),
            (RunPlace::Unknown, [false, false, true]),
        ] {
            let by = [&ada_, &bob, &root];
            let told = by.map(|caller| SeenRun::judged("monday", caller, place).is_some());
            assert_eq!(told, seen, "{place:?}");
            let told = by.map(|caller| SeenRun::judged("%6donday", caller, place).is_some());
            assert_eq!(told, [false; 3], "{place:?}");
        }
    }
}
