// SPDX-License-Identifier: Apache-2.0
//! The program under what machines do to it: it is killed at a random moment, its disk is full, its terminal
//! is closed, the machine is restarted.
//!
//! `PLIMSOLL_ENDURANCE=N` kills each command N times more; `PLIMSOLL_ENDURANCE_SEED` repeats the moments of a
//! run that failed, which names its seed.

mod commands;
mod full_disk;
mod killed;
mod modes;
mod restarted;
mod terminal;
