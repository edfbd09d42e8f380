// SPDX-License-Identifier: Apache-2.0
//! The program under what machines do to it: it is killed at a random moment, its disk is full, its terminal
//! is closed, the machine is restarted.
//!
//! `PLIMSOLL_ENDURANCE=N` kills each command N times more; `PLIMSOLL_ENDURANCE_SEED` repeats the moments of a
//! run that failed, which names its seed.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod commands;
mod full_disk;
mod killed;
mod restarted;
#[path = "../cli/support.rs"]
#[expect(
    dead_code,
    reason = "these tests need a part of what those of the commands do"
)]
mod support;
mod terminal;
