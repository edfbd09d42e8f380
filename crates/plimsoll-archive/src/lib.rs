// SPDX-License-Identifier: Apache-2.0
//! Run folders: one folder per run, append-only, readable up to the last whole line after a crash.
//!
//! ```text
//! FOLDER/manifest.json   what was planned, where, with what; written before the first trial
//! FOLDER/events.jsonl    one event per line, in order, appended as it happens
//! FOLDER/ledgers/        what sessions were promised under faults, a ledger for each trial
//! FOLDER/disks.meta, .index, .0, …   what the disks of this machine counted, a PCP archive
//! FOLDER/report.html     the report; derived, can be made again at any time
//! ```
//! Since format 2.2 the manifest and every event begin with a checksum: `{"crc32c":"89abcdef",`, CRC-32C of
//! all bytes behind that comma. Since 2.8 the checksum of an event goes on from the one before it, the first
//! from that of the manifest: events are bound to their run and to their order. A damaged event is left out
//! with a warning; a damaged manifest is refused, and so are numbers that no run has (`bounds`). Reading
//! keeps the results of all trials and joins their seconds; it takes at most sixteen times the bytes of the
//! folder, and far less of one that this program wrote.
//!
//! Who appends events holds a lock on their file, which ends with the program: so others see whether a
//! run goes on, and can follow it.
//!
//! Only this crate knows that layout. Recording never stops a measurement: a writer that cannot
//! write remembers the first failure and says so at the end. Nothing here interprets results.
#![forbid(unsafe_code)]

mod bounds;
mod digest;
mod error;
mod follow;
mod layout;
mod left_out;
mod partial;
mod read;
mod result_file;
mod sealed;
mod strip;
mod write;

pub use error::ArchiveError;
pub use follow::{RunFolderFollower, events_bytes, has_completed, holds_run, is_being_written};
pub use layout::{REPORT, is_run_file};
pub use partial::{PartialCollection, PartialPlace, PartialReader, content_digest, name_digest};
pub use read::{manifest, open, open_whole};
pub use result_file::{ResultFile, make_directory, read_result, write_result};
pub use write::{RunFolderWriter, check_free, write_report};
