// SPDX-License-Identifier: Apache-2.0
//! A team's server from the outside: pushes, who sees what, hostile folders, and kills of all that can be
//! killed. The PostgreSQL of these tests is started by them.

#[path = "../serve/client.rs"]
#[expect(dead_code, reason = "the tests of serve use more of it")]
mod client;
mod hostile;
mod kills;
#[path = "../../../plimsoll-history/tests/integration/databases/made.rs"]
mod made;
#[path = "../../../plimsoll-history/tests/integration/databases/postgres.rs"]
mod postgres;
mod scopes;
mod team;
mod tls;
