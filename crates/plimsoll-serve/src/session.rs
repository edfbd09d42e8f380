// SPDX-License-Identifier: Apache-2.0
//! Who is let in: sessions of pages, and how often a wrong token was tried.

use crate::secret::drawn;
use crate::sync::locked;
use plimsoll_remote::secret::ServerSecret;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How long a session lasts after its last request.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Most sessions; with one more the one goes that was not used for longest.
const SESSIONS_MAX: usize = 32;
/// Wrong tokens that are answered within [`FAILURES_TIME`], from all senders together; more are turned away.
const FAILURES_MAX: usize = 10;
const FAILURES_TIME: Duration = Duration::from_secs(60);

/// A page that gave the token.
#[derive(Debug, Clone)]
struct PageSession {
    key: ServerSecret,
    csrf: ServerSecret,
    /// Number of the token that it was begun with; none of the one that the server printed.
    token: Option<i64>,
    used_at: Instant,
}

/// All sessions, in memory: they end with the server.
#[derive(Debug, Default)]
pub(crate) struct SessionBoard {
    sessions: Mutex<Vec<PageSession>>,
    failures: Mutex<VecDeque<Instant>>,
}

impl SessionBoard {
    /// A new session: the key for its cookie, and the secret for its header.
    pub(crate) fn begin(
        &self,
        token: Option<i64>,
    ) -> std::io::Result<(ServerSecret, ServerSecret)> {
        let (key, csrf) = (drawn()?, drawn()?);
        let mut sessions = locked(&self.sessions);
        drop_idle(&mut sessions);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = (0..sessions.len()).min_by_key(|at| sessions[*at].used_at);
            oldest.map(|at| sessions.swap_remove(at));
        }
        sessions.push(PageSession {
            key: key.clone(),
            csrf: csrf.clone(),
            token,
            used_at: Instant::now(),
        });
        Ok((key, csrf))
    }

    /// The header's secret of the session with this key, and the number of its token.
    pub(crate) fn find(&self, key: &str) -> Option<(ServerSecret, Option<i64>)> {
        let mut sessions = locked(&self.sessions);
        drop_idle(&mut sessions);
        let found = sessions.iter_mut().find(|session| session.key.is(key))?;
        found.used_at = Instant::now();
        Some((found.csrf.clone(), found.token))
    }

    pub(crate) fn end(&self, key: &str) {
        locked(&self.sessions).retain(|session| !session.key.is(key));
    }

    /// Notes a wrong token; gives whether there were too many. A right one is let in all the same, so that an
    /// attacker cannot keep the owner out.
    pub(crate) fn failed(&self) -> bool {
        let mut failures = locked(&self.failures);
        let now = Instant::now();
        failures.retain(|at| now.duration_since(*at) < FAILURES_TIME);
        if failures.len() >= FAILURES_MAX {
            return true;
        }
        failures.push_back(now);
        false
    }
}

fn drop_idle(sessions: &mut Vec<PageSession>) {
    let now = Instant::now();
    sessions.retain(|session| now.duration_since(session.used_at) < IDLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_limited_and_end() {
        let board = SessionBoard::default();
        let all: Vec<_> = (0..=SESSIONS_MAX)
            .map(|_| board.begin(None).unwrap())
            .collect();
        let known = |key: &ServerSecret| board.find(key.reveal());
        assert!(known(&all[0].0).is_none());
        let (key, csrf) = &all[SESSIONS_MAX];
        assert!(known(key).unwrap().0.is(csrf.reveal()));
        board.end(key.reveal());
        assert!(known(key).is_none());
    }

    #[test]
    fn wrong_tokens_are_counted() {
        let board = SessionBoard::default();
        let answers: Vec<bool> = (0..FAILURES_MAX + 2).map(|_| board.failed()).collect();
        assert_eq!(answers.iter().filter(|many| **many).count(), 2);
    }
}
