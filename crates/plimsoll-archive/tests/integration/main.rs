// SPDX-License-Identifier: Apache-2.0
//! Run folders from the outside: written, cut off, read back, of every format.

mod folder;
mod formats;
mod memory;
