// SPDX-License-Identifier: Apache-2.0
//! The classic programs: what is written for them, and texts that come near to theirs.

mod fio;
mod mangled;
mod strangers;
