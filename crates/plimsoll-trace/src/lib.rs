// SPDX-License-Identifier: Apache-2.0
//! Recordings in: readers of counters and of requests.
//!
//! A recording ([`open`]) is of counters ([`CounterSource`]; a [`pcp::PcpArchive`] or what programs
//! print) or of requests ([`TraceSource`]), and declares what it carries. One disk of counters is
//! read as a [`DiskSeries`]. Every byte of a recording is foreign: no length in it is trusted, nothing in
//! it can make this crate panic or loop, and what is readable before damage is kept. Not here: models
//! (`plimsoll-fit`).
#![forbid(unsafe_code)]

mod ahead;
mod compressed;
pub mod counters;
#[cfg(test)]
mod damaged;
mod device_choices;
mod error;
mod input;
pub mod nearly;
mod new_file;
mod open;
#[cfg(feature = "parquet")]
mod parquet_table;
pub mod pcp;
mod recording;
pub mod requests;
mod resembling;
mod series;
mod targets;
mod text;
mod utf16;
mod window;

pub use compressed::opened as decompressed;
pub use device_choices::DeviceChoices;
pub use error::{RecordingDamage, TraceError};
pub use input::RecordingInput;
pub use open::{OpenRecording, files, open};
pub use recording::{
    CounterReadState, CounterSource, RecordingCapabilities, RecordingDetail, RecordingInfo,
    TraceOrder, TraceReadState, TraceSource, each_series,
};
pub use series::{
    CounterInterval, DiskAverages, DiskMetric, DiskSeries, IntervalVerdict, MetricAverages,
    MetricSeries, PointSample,
};
pub use window::{RecordingTimes, RecordingWindow};
