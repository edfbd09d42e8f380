// SPDX-License-Identifier: Apache-2.0
//! The client against servers of the tests.

mod hostile;
