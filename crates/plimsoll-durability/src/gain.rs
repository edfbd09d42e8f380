// SPDX-License-Identifier: Apache-2.0
//! Speed of a server with a setting, on the storage of `--on`: acknowledged writes a second.

use crate::bench::{BenchStack, DurabilityBench};
use crate::error::DurabilityError;
use crate::judge::AckInstant;
use crate::loads::DurabilityLoads;
use crate::view::ServerScript;
use crate::witness::WitnessDisk;
use plimsoll_core::num::ratio;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock, removal};
use std::path::Path;

/// The part of a trial that is not counted: the server and its caches warm up.
const WARMUP_SHARE: f64 = 0.2;

/// Where speed is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GainPlace<'a> {
    /// A directory of ours.
    pub(crate) directory: &'a Path,
    /// The stack that is raised there and worked on.
    pub(crate) stack: Option<&'a BenchStack>,
}

/// Acknowledged writes a second in one trial, on an empty data directory.
///
/// # Errors
/// When the server or the witness does not work.
pub(crate) fn gain_rate(
    loads: &DurabilityLoads<'_>,
    bench: &mut DurabilityBench,
    place: GainPlace<'_>,
    seed: Seed,
) -> Result<f64, DurabilityError> {
    bench.write_scripts(loads.file)?;
    let Some(stack) = place.stack else {
        return rate_below(loads, bench, place.directory, seed);
    };
    bench.raise_unlogged(stack)?;
    let measured = rate_below(loads, bench, &stack.mount_dir, seed);
    bench.unmake()?;
    measured
}

fn rate_below(
    loads: &DurabilityLoads<'_>,
    bench: &mut DurabilityBench,
    directory: &Path,
    seed: Seed,
) -> Result<f64, DurabilityError> {
    let data = bench.make_data(directory)?;
    let measured = rate_in(loads, bench, &data, seed);
    if loads.is_server() {
        bench.kill()?;
    }
    let what = format!("remove {}", data.display());
    removal::below_ours(&data).map_err(DurabilityError::file(what))?;
    measured
}

fn rate_in(
    loads: &DurabilityLoads<'_>,
    bench: &mut DurabilityBench,
    data: &Path,
    seed: Seed,
) -> Result<f64, DurabilityError> {
    if !loads.file.prepare.is_empty() {
        bench
            .prepare(&loads.view, data)
            .map_err(|why| loads.broken(ServerScript::Prepare, &why))?;
    }
    if loads.is_server() {
        bench
            .start(&loads.view, data, seed.0)
            .map_err(|why| loads.broken(ServerScript::Start, &why))?;
    }
    let clock = SystemClock::new();
    let now = || AckInstant {
        position: 0,
        at: Nanos(u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX)),
    };
    let disk = WitnessDisk {
        now: &now,
        is_full: &|| false,
    };
    let account = loads.written(bench, data, disk, seed, usize::MAX)?;
    let length = loads.length.as_secs_f64();
    let from = Nanos::from_secs_f64(length * WARMUP_SHARE);
    let until = Nanos::from_secs_f64(length);
    let instants = account.instants().iter();
    let counted = instants
        .filter(|instant| (from..until).contains(&instant.at))
        .count();
    Ok(ratio(counted as f64, until.since(from).as_secs_f64()))
}
