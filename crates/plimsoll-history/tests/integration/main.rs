// SPDX-License-Identifier: Apache-2.0
//! A team's runs in databases that run.

mod databases;
