// SPDX-License-Identifier: Apache-2.0
//! A recording described: all its devices side by side, and one of them in full.
//!
//! Nothing is assumed here, and what a source does not contain is left out.

use plimsoll_core::profile::{DeviceRanking, DiskProfile, RecordingProfile};

use crate::cells::{NEEDED, known_cells};
use crate::fit::{ends, warnings};
use crate::phases::PhaseDetection;
use crate::profile::{load, profile};
use plimsoll_trace::{CounterSource, DiskSeries, RecordingWindow, TraceError};

/// Describes a recording of counters inside `window`: all its devices, and `disk` in full, or the
/// busiest one.
///
/// # Errors
/// When the recording has no disks, or not this one, or nothing of it counts inside the window.
pub fn describe(
    counters: &dyn CounterSource,
    disk: Option<&str>,
    window: &RecordingWindow,
) -> Result<RecordingProfile, TraceError> {
    let about = counters.about();
    let disks = counters.disks();
    if let Some(disk) = disk
        && !disks.iter().any(|known| known == disk)
        && !disks.is_empty()
    {
        return Err(counters.no_disk(disk));
    }
    let averages = counters.averages(&disks, window)?;
    let devices = DeviceRanking::rank(averages.iter().map(load).collect(), &|name| {
        counters.made(name)
    });
    let busiest = devices.busiest().map(|busiest| &*busiest.name);
    let (Some(disk), false) = (disk.or(busiest), disks.is_empty()) else {
        return Err(TraceError::NoDisks {
            recording: about.name.clone(),
            damage: counters.damage().cloned(),
        });
    };
    let (profile, warnings) = in_full(counters, &counters.series(disk, window)?, window)?;
    Ok(RecordingProfile {
        recording: about.name.clone(),
        format: about.format.clone(),
        host: about.host.clone(),
        devices,
        profile,
        warnings,
    })
}

/// One disk in full, and what its reader should know.
fn in_full(
    counters: &dyn CounterSource,
    series: &DiskSeries,
    window: &RecordingWindow,
) -> Result<(DiskProfile, Vec<String>), TraceError> {
    let found = known_cells(series);
    if found.cells.is_empty() {
        return Err(TraceError::TooFew {
            disk: series.disk.clone(),
            recording: counters.about().name.clone(),
            kept: 0,
            dropped: found.dropped,
            needed: 1,
        });
    }
    let (from, to) = ends(series, window);
    let times = counters.times();
    let seen = PhaseDetection::of(&found);
    let step = found.step();
    let missing = NEEDED.iter().filter(|m| series.column(**m).is_none());
    // Of loads of which a part is unknown nothing can be distinguished.
    let phases = match missing.clone().count() {
        0 => seen.phases(&found, &|at| times.civil_to(at, step)),
        _ => Vec::new(),
    };
    let ends = (times.civil_to(from, step), times.civil_to(to, step));
    let mut warnings = warnings(series, &found);
    warnings.extend(missing.map(|m| format!("{} was not recorded", m.pcp_name())));
    let profile = profile(series, &found, (&seen.bursts, &phases), ends);
    Ok((profile, warnings))
}
