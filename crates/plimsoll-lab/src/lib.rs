// SPDX-License-Identifier: Apache-2.0
//! Storage systems to measure on: recipes of stacks, attached disks, virtual machines, faults, the order of
//! trials.
//!
//! Recipes only plan; `plimsoll-machine` carries out and undoes. Nothing here prints, reads the environment
//! of the program, or knows how load is generated.
#![forbid(unsafe_code)]

pub mod attach;
pub mod doctor;
pub mod experiment;
#[cfg(test)]
#[path = "../../plimsoll-machine/tests/fake/mod.rs"]
mod fake;
pub mod faults;
pub mod proofs;
#[cfg(test)]
mod raise_tests;
pub mod stacks;
pub mod vm;
