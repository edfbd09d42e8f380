// SPDX-License-Identifier: Apache-2.0
//! The program from the outside: as a user starts, stops, kills and mistypes it.

mod attach;
mod bad_input;
mod campaign;
mod campaigns;
mod classics;
mod corners;
mod design;
mod devices;
mod docs;
mod examples;
mod exchange;
mod failover;
mod fit_for;
mod foreign_text;
mod ground;
mod json;
mod ledger;
mod loadline;
mod many;
mod models;
mod new;
pub(crate) mod nfs;
mod overload;
mod package;
mod places;
mod profile;
mod python;
mod record;
mod repro;
mod resumed;
mod spreadsheet;
mod steady;
mod trust;
mod tune;
mod verify;
mod verify_data;
