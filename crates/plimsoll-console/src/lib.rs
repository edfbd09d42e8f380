// SPDX-License-Identifier: Apache-2.0
//! The base of every program of plimsoll: the terminal, the error of a command with its exit code, and where
//! the program works.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod context;
pub mod failure;
pub mod output;
pub mod terminal;
