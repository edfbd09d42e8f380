// SPDX-License-Identifier: Apache-2.0
//! Users and their tokens.

use crate::database::{HistoryDatabase, now_ms};
use crate::error::{HistoryError, doing, is_double};
use crate::secret::{digest, draw_secret};
use sqlx::Row as _;
use std::fmt;

/// Longest name of a user, and longest note of a token.
const NAME_MAX: usize = 64;
const NOTE_MAX: usize = 200;

/// A permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryScope {
    /// Look at runs and series.
    Read,
    /// Push runs.
    Push,
    /// Start and stop runs on the server, raise stacks, and mark changes.
    Run,
    /// Look at every run.
    Admin,
}

impl HistoryScope {
    /// All by their names.
    pub const ALL: [(&str, HistoryScope); 4] = [
        ("read", HistoryScope::Read),
        ("push", HistoryScope::Push),
        ("run", HistoryScope::Run),
        ("admin", HistoryScope::Admin),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Reads a list such as `read,push`.
    ///
    /// # Errors
    /// When a word is no scope, or there is none.
    pub fn parse_list(text: &str) -> Result<Vec<HistoryScope>, String> {
        let mut scopes = Vec::new();
        for word in text.split(',') {
            let known = Self::ALL.iter().find(|(name, _)| *name == word.trim());
            let (_, scope) = known.ok_or("expected a list of read, push, run and admin")?;
            scopes.push(*scope);
        }
        scopes.sort_unstable();
        scopes.dedup();
        Ok(scopes)
    }

    /// The list as text.
    pub fn list(scopes: &[HistoryScope]) -> String {
        let names: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
        names.join(",")
    }
}

impl fmt::Display for HistoryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryUser {
    /// Number.
    pub id: i64,
    /// Name.
    pub name: String,
    /// When the user was added.
    pub created_ms: i64,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryToken {
    /// Number, by which it is revoked.
    pub id: i64,
    /// Whose it is.
    pub user: String,
    /// Its permissions.
    pub scopes: String,
    /// The owner's note.
    pub note: String,
    /// When it was made.
    pub created_ms: i64,
    /// When it ends.
    pub expires_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

/// Who sends a request with a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCaller {
    /// The user's number.
    pub user_id: i64,
    /// The user's name.
    pub name: String,
    /// The token's number.
    pub token_id: i64,
    /// The token's permissions.
    pub scopes: Vec<HistoryScope>,
}

fn check_name(name: &str) -> Result<(), HistoryError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let is_name = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match is_name {
        true => Ok(()),
        false => Err(HistoryError::invalid(
            format!(
                "invalid value '{}' for a user: expected a name",
                plimsoll_core::text::printable(name)
            ),
            "use up to 64 letters, digits and ._-@, beginning with a letter or a digit",
        )),
    }
}

fn no_user(name: &str) -> HistoryError {
    HistoryError::invalid(
        format!("there is no user '{name}'"),
        "add one: plimsoll team user add NAME",
    )
}

impl HistoryDatabase {
    /// Adds a user.
    ///
    /// # Errors
    /// When the name cannot be used or is taken.
    pub async fn add_user(&self, name: &str) -> Result<HistoryUser, HistoryError> {
        check_name(name)?;
        let created_ms = now_ms();
        let sql = "INSERT INTO users (name, created_ms) VALUES ($1, $2) RETURNING id";
        let added = sqlx::query_scalar(sql)
            .bind(name)
            .bind(created_ms)
            .fetch_one(&self.pool)
            .await;
        match added {
            Ok(id) => Ok(HistoryUser {
                id,
                name: name.to_owned(),
                created_ms,
            }),
            Err(error) if is_double(&error) => Err(HistoryError::invalid(
                format!("there is a user '{name}' already"),
                "choose another name, or give the user a further token",
            )),
            Err(error) => Err(doing("add a user")(error)),
        }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn user(&self, name: &str) -> Result<HistoryUser, HistoryError> {
        let sql = "SELECT id, created_ms FROM users WHERE name = $1";
        let found = sqlx::query(sql).bind(name).fetch_optional(&self.pool).await;
        let row = found
            .map_err(doing("look for a user"))?
            .ok_or_else(|| no_user(name))?;
        Ok(HistoryUser {
            id: row.get(0),
            name: name.to_owned(),
            created_ms: row.get(1),
        })
    }

    /// All users, in the order of their names.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn users(&self) -> Result<Vec<HistoryUser>, HistoryError> {
        let sql = "SELECT id, name, created_ms FROM users ORDER BY name";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await;
        let rows = rows.map_err(doing("list the users"))?;
        let user = |row: &sqlx::any::AnyRow| HistoryUser {
            id: row.get(0),
            name: row.get(1),
            created_ms: row.get(2),
        };
        Ok(rows.iter().map(user).collect())
    }

    /// Draws a token for a user; gives its number and its secret, which is kept nowhere.
    ///
    /// # Errors
    /// When there is no such user.
    pub async fn add_token(
        &self,
        user: &str,
        scopes: &[HistoryScope],
        note: &str,
        expires_ms: Option<i64>,
    ) -> Result<(i64, String), HistoryError> {
        if note.len() > NOTE_MAX {
            let text = format!("the note has more than {NOTE_MAX} bytes");
            return Err(HistoryError::invalid(text, "give a shorter one"));
        }
        let owner = self.user(user).await?;
        let secret = draw_secret().map_err(|error| HistoryError::Database {
            doing: "draw a token",
            reason: error.to_string(),
        })?;
        let sql = "INSERT INTO tokens (user_id, digest, scopes, note, created_ms, expires_ms) \
                   VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
        let id = sqlx::query_scalar(sql)
            .bind(owner.id)
            .bind(digest(&secret))
            .bind(HistoryScope::list(scopes))
            .bind(note)
            .bind(now_ms())
            .bind(expires_ms)
            .fetch_one(&self.pool)
            .await
            .map_err(doing("add a token"))?;
        Ok((id, secret))
    }

    /// All tokens, newest last.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn tokens(&self) -> Result<Vec<HistoryToken>, HistoryError> {
        let sql = "SELECT t.id, u.name, t.scopes, t.note, t.created_ms, t.expires_ms, t.revoked_ms \
                   FROM tokens t JOIN users u ON u.id = t.user_id ORDER BY t.id";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await;
        let rows = rows.map_err(doing("list the tokens"))?;
        let token = |row: &sqlx::any::AnyRow| HistoryToken {
            id: row.get(0),
            user: row.get(1),
            scopes: row.get(2),
            note: row.get(3),
            created_ms: row.get(4),
            expires_ms: row.get(5),
            revoked_ms: row.get(6),
        };
        Ok(rows.iter().map(token).collect())
    }

    /// Revokes a token: nothing is done with it from now on.
    ///
    /// # Errors
    /// When there is none of this number, or it is revoked already.
    pub async fn revoke_token(&self, id: i64) -> Result<(), HistoryError> {
        let sql = "UPDATE tokens SET revoked_ms = $1 WHERE id = $2 AND revoked_ms IS NULL";
        let done = sqlx::query(sql)
            .bind(now_ms())
            .bind(id)
            .execute(&self.pool)
            .await
            .map_err(doing("revoke a token"))?;
        match done.rows_affected() {
            0 => Err(HistoryError::invalid(
                format!("there is no token {id} that could be revoked"),
                "plimsoll team token list shows all",
            )),
            _ => Ok(()),
        }
    }

    /// Whose token this is, if it is valid now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn caller(&self, secret: &str) -> Result<Option<HistoryCaller>, HistoryError> {
        self.caller_by("t.digest = $1", digest(secret)).await
    }

    /// The same of a token that was shown before.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn caller_of_token(&self, id: i64) -> Result<Option<HistoryCaller>, HistoryError> {
        self.caller_by("CAST(t.id AS TEXT) = $1 AND t.id > 0", id.to_string())
            .await
    }

    async fn caller_by(
        &self,
        which: &'static str,
        key: String,
    ) -> Result<Option<HistoryCaller>, HistoryError> {
        let sql = format!(
            "SELECT u.id, u.name, t.id, t.scopes FROM tokens t JOIN users u ON u.id = t.user_id \
             WHERE {which} AND t.revoked_ms IS NULL AND (t.expires_ms IS NULL OR t.expires_ms > $2)"
        );
        let found = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(key)
            .bind(now_ms())
            .fetch_optional(&self.pool)
            .await
            .map_err(doing("look up a token"))?;
        Ok(found.map(|row| HistoryCaller {
            user_id: row.get(0),
            name: row.get(1),
            token_id: row.get(2),
            scopes: HistoryScope::parse_list(&row.get::<String, _>(3)).unwrap_or_default(),
        }))
    }
}
