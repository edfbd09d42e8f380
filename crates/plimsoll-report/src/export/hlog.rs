// SPDX-License-Identifier: Apache-2.0
//! Response times as a log of histograms that HdrHistogram's tools read: version 1.3 of the log, version 2
//! of the encoded histograms, compressed.
//!
//! A line for each second, tagged `ARM/WORKLOAD`; values are nanoseconds. Each bucket of ours (1/64 of its
//! value wide) is recorded at its upper edge, never above the exact maximum, with three digits. Runs do not
//! keep when a trial began, so the times of the log run on from trial to trial, without what lay between.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram as HdrHistogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::text::{is_unprintable, printable};
use plimsoll_core::units::Nanos;

use super::table::seconds_of_trials;

/// Decimal digits that the encoded histograms keep.
const DIGITS: u8 = 3;
/// Largest value that these hold: 39 hours.
const LARGEST_NS: u64 = 1 << 47;
/// Unit of the numbers that end a line of the log: milliseconds.
const LINE_UNIT_NS: f64 = 1e6;

/// The log, or why a histogram could not be encoded.
pub(super) fn hlog(results: &RunFolderContents) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(&format!("plimsoll run {}", printable(&results.manifest.id)))
        .add_comment("response times in nanoseconds; maxima at the ends of lines in milliseconds")
        .with_max_value_divisor(LINE_UNIT_NS);
    if let Ok(began) = results.manifest.began_at.parse::<jiff::Timestamp>() {
        let began = SystemTime::from(began);
        builder.with_start_time(began).with_base_time(began);
    }
    let mut log = builder
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|error| error.to_string())?;
    let mut before = Nanos(0);
    for (trial, bins) in seconds_of_trials(results) {
        let tag = tag(&trial.trial.arm, &trial.trial.workload);
        let tag = Tag::new(&tag).ok_or("a tag was not escaped")?;
        for bin in bins {
            let start = before + bin.start;
            log.write_histogram(
                &encoded(&bin.response)?,
                Duration::from_nanos(start.0),
                Duration::from_nanos(bin.length.0),
                Some(tag),
            )
            .map_err(|error| format!("{error:?}"))?;
        }
        let end = bins
            .last()
            .map_or(Nanos(0), |last| last.start + last.length);
        before = before + end.max(trial.length);
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The same distribution with the buckets of HdrHistogram.
fn encoded(histogram: &Histogram) -> Result<HdrHistogram<u64>, String> {
    let high = histogram.max_ns().clamp(2, LARGEST_NS);
    let mut hdr =
        HdrHistogram::<u64>::new_with_bounds(1, high, DIGITS).map_err(|error| error.to_string())?;
    let mut buckets = histogram.buckets().peekable();
    while let Some((upper_ns, count)) = buckets.next() {
        // The last one holds the maximum, which is exact.
        let is_last = buckets.peek().is_none();
        let value = if is_last { high } else { upper_ns };
        hdr.record_n(value, count)
            .map_err(|error| error.to_string())?;
    }
    Ok(hdr)
}

/// A tag has neither commas nor blanks.
fn tag(arm: &str, workload: &str) -> String {
    let part = |text: &str| -> String {
        let shown = |c: char| match c.is_whitespace() || is_unprintable(c) || ",#\"=".contains(c) {
            true => '_',
            false => c,
        };
        text.chars().map(shown).collect()
    };
    format!("{}/{}", part(arm), part(workload))
}
