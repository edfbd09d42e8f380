// SPDX-License-Identifier: Apache-2.0
//! Stacks on this machine.

mod stacks;
