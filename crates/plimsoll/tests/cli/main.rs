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
mod examples;
mod exchange;
mod failover;
mod fit_for;
mod foreign_text;
mod ground;
mod ledger;
mod loadline;
mod models;
mod nfs;
mod overload;
mod places;
mod profile;
mod record;
mod spreadsheet;
mod steady;
mod support;
mod tune;
mod verify;
mod verify_data;
