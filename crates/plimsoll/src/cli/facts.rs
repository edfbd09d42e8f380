// SPDX-License-Identifier: Apache-2.0
//! Facts that a model states beyond its intervals, as text: each with how it is known.

use std::fmt::Write;

use plimsoll_core::model::{IoDirection, ModelFactOrigin, WorkloadModel};
use plimsoll_core::num::ratio;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::units;

/// Appends the facts of a model of counters.
pub(super) fn append(text: &mut String, model: &WorkloadModel) {
    let facts = &model.facts;
    let _ = writeln!(text, "\nWhat the intervals do not contain");
    let mut row = |name: &str, value: &str, origin: ModelFactOrigin| {
        let _ = writeln!(text, "  {name:<30}{value} ({origin})");
    };
    let origin = facts
        .offsets
        .as_ref()
        .map_or(ModelFactOrigin::Assumed, |o| o.origin);
    row(
        "places",
        &places(facts.offsets_of(IoDirection::Read)),
        origin,
    );
    if let Some(writes) = &facts.write_offsets {
        let value = format!("{}, {}", places(&writes.value), passes(model));
        row("places of writes", &value, writes.origin);
    }
    let bytes = facts.working_set_bytes;
    row(
        "spread over",
        &units::size(bytes.value as f64),
        bytes.origin,
    );
    let arrivals = facts.within().to_string();
    let origin = facts
        .arrivals
        .map_or(ModelFactOrigin::Assumed, |known| known.origin);
    row("arrivals inside an interval", &arrivals, origin);
    let sizes = "the two powers of two around each measured mean";
    row("sizes", sizes, ModelFactOrigin::Assumed);
    if let Some(threads) = facts.threads {
        let value = format!("{}: never more requests in flight", threads.value);
        row("threads", &value, threads.origin);
    }
    if let Some(sync) = facts.sync_writes {
        row("writes", sync_words(sync.value), sync.origin);
    }
    if let Some(in_flight) = facts.in_flight {
        let value = units::three_digits(in_flight.value);
        row("in flight on average", &value, in_flight.origin);
    }
    if facts.assumes_arrivals() || facts.assumes_offsets() {
        let _ = writeln!(text, "  Say what you know of it with --declare.");
    }
}

fn sync_words(is_sync: bool) -> &'static str {
    match is_sync {
        true => "durable when they end (O_DSYNC)",
        false => "need not be durable when they end",
    }
}

fn places(offsets: &OffsetPattern) -> String {
    match offsets {
        OffsetPattern::Sequential => "sequential".into(),
        OffsetPattern::Zipf { exponent } => format!("skewed, Zipf {exponent}"),
        _ => "uniformly random".into(),
    }
}

/// How often the writes of the recording fill the file.
fn passes(model: &WorkloadModel) -> String {
    let (_, bytes_per_s) = model.mean_per_s(IoDirection::Write);
    let bytes = bytes_per_s * model.length().as_secs_f64();
    let times = ratio(bytes, model.facts.working_set_bytes.value as f64);
    format!(
        "from the start again each time the file is full: {} times",
        units::three_digits(times)
    )
}
