// SPDX-License-Identifier: Apache-2.0
//! Recordings in, fitted models out.
//!
//! A recording ([`open`]) is of counters ([`CounterSource`]; a [`pcp::PcpArchive`] or what programs
//! print) or of requests ([`TraceSource`]), and declares what it carries. One disk of counters is
//! read as a [`DiskSeries`], and [`fit`] makes a model and a profile of that series; [`describe`]
//! only describes, with all disks side by side. [`fidelity`] holds a submitted load against the
//! recorded one. Every byte of a recording is foreign: no length in it is trusted, nothing in it
//! can make this crate panic or loop, and what is readable before damage is kept. Not here: how a
//! model is played (`plimsoll-engine`), and statistics of runs (`plimsoll-stats`).
#![forbid(unsafe_code)]

mod ahead;
mod binned;
mod bursts;
mod cells;
mod compressed;
pub mod counters;
mod describe;
mod error;
mod fidelity;
mod fit;
mod input;
mod intervals;
mod nearly;
mod open;
pub mod pcp;
mod periods;
mod phases;
mod profile;
mod recorded;
mod recording;
pub mod requests;
mod resembling;
mod series;
mod targets;
mod text;
mod utf16;
mod verify;
mod window;

pub use describe::{DeviceChoices, describe};
pub use error::{RecordingDamage, TraceError};
pub use fidelity::fidelity;
pub use fit::{FitOptions, FitResult, check_play, fit};
pub use input::RecordingInput;
#[cfg(feature = "parquet")]
pub use intervals::IntervalTable;
pub use intervals::{DiskIntervalRows, intervals};
pub use open::{OpenRecording, open};
pub use recorded::{
    TraceDevice, TraceFitOptions, TraceShuffle, TraceSurvey, check_packed, count_requests,
    describe_requests, fit_requests, survey, survey_part,
};
pub use recording::{
    CounterSource, RecordingCapabilities, RecordingDetail, RecordingInfo, RecordingScope,
    TraceOrder, TraceSource, each_series,
};
pub use series::{
    CounterInterval, DiskAverages, DiskMetric, DiskSeries, IntervalVerdict, MetricAverages,
    MetricSeries, PointSample,
};
pub use verify::{
    ConstantRate, ConstantRateLoad, FidelityLoad, FidelityReference, RecordingSelection,
    parametric, verify_requests,
};
pub use window::{RecordingTimes, RecordingWindow};
