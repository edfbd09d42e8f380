// SPDX-License-Identifier: Apache-2.0
//! Logs of Darshan with extended traces (DXT): every read and write of a job, by file and process.
//!
//! A log begins with an uncompressed header: version (8 bytes), the number 6567223 (8 bytes), which
//! tells the byte order, the method of compression, flags of incomplete modules, then for the names and for
//! each module where its compressed bytes lie. Names are an identifier of 8 bytes and text up to a zero.
//! The traces of a file by a process are a head of 104 bytes and 32 bytes for each request: offset, length,
//! start and end in seconds since the job began. Source: the headers `darshan-log-format.h` and
//! `darshan-dxt-log-format.h` of Darshan, and its logs.

mod log;
mod stream;
mod text;

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::TIMED;
use super::gathered::ListedRequest;
use crate::recording::RecordingCapabilities;

pub(super) use log::FORMAT as LOG;
pub(super) use text::FORMAT as TEXT;

/// Contents of DXT: operations on files, with everything but the queue below them.
const CARRIES: RecordingCapabilities = RecordingCapabilities { ..TIMED };

/// The parser prints four decimals.
const TEXT_RESOLUTION: Nanos = Nanos(100_000);

/// Advice for a log that has only totals.
const NO_TRACES: &str = "it holds no traces of single reads and writes (DXT), only totals of each \
     file; run the job with DXT_ENABLE_IO_TRACE=1 in its environment";

/// That processes count their times by themselves.
const CLOCKS: &str = "each process counted its times from its own start of the job: between processes they \
     may be apart by as much as they started apart";

const WRITES_FIRST: [OpKind; 2] = [OpKind::Write, OpKind::Read];

#[cfg(test)]
pub(super) mod tests;
