// SPDX-License-Identifier: Apache-2.0
//! The program from the outside, one module for each of its sides. They are one program, so that they are
//! linked once; each test has a process of its own.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod block_definitions;
mod built;
mod classics;
mod cli;
mod client;
mod definitions;
mod endurance;
mod fidelity;
mod fleet;
#[path = "../../../plimsoll-history/tests/integration/databases/made.rs"]
mod made;
mod nodes;
mod pages;
#[path = "../../../plimsoll-history/tests/integration/databases/postgres.rs"]
mod postgres;
mod replay;
mod serve;
mod support;
mod team;
mod vm;
mod waiting;
