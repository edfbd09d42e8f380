// SPDX-License-Identifier: Apache-2.0
//! Readers of foreign bytes, each behind a function that takes any bytes and must neither panic nor hang.
//!
//! The tests of this crate run each over its seeds (`fuzz/seeds`) and over mutations of them, with what else
//! is built for tests. The programs of `fuzz/fuzz_targets` run the same functions guided by coverage.
#![forbid(unsafe_code)]

mod agent;
mod archive;
mod counters;
mod darshan;
mod durability;
mod fio_job;
mod folio;
mod greeting;
mod ledger;
mod nfs_reply;
mod outputs;
mod parquet;
mod partial;
mod requests;
mod run_folder;
mod spool;
mod tracer;
mod wml;

pub use agent::agent;
pub use archive::archive;
pub use counters::counters;
pub use darshan::darshan;
pub use durability::durability;
pub use fio_job::fio_job;
pub use folio::folio;
pub use greeting::greeting;
pub use ledger::ledger;
pub use nfs_reply::nfs_reply;
pub use outputs::outputs;
pub use parquet::parquet;
pub use partial::partial;
pub use requests::requests;
pub use run_folder::run_folder;
pub use spool::spool;
pub use tracer::tracer;
pub use wml::wml;

/// A function that any bytes may be given to.
pub type FuzzTarget = fn(&[u8]);

/// Every target by its name, which is also that of its program and of its folder of seeds.
pub const TARGETS: [(&str, FuzzTarget); 18] = [
    ("agent", agent),
    ("archive", archive),
    ("counters", counters),
    ("darshan", darshan),
    ("durability", durability),
    ("fio_job", fio_job),
    ("folio", folio),
    ("greeting", greeting),
    ("ledger", ledger),
    ("nfs_reply", nfs_reply),
    ("outputs", outputs),
    ("parquet", parquet),
    ("partial", partial),
    ("requests", requests),
    ("run_folder", run_folder),
    ("spool", spool),
    ("tracer", tracer),
    ("wml", wml),
];
