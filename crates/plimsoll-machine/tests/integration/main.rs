// SPDX-License-Identifier: Apache-2.0
//! Journals under every umask.

mod umask;
