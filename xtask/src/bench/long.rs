// SPDX-License-Identifier: Apache-2.0
//! Whether a long run stays as small and as cheap as it began.

use std::time::{Duration, Instant};

use super::table::{Gate, Row};
use super::{Bench, Failure};

/// One tick of `/proc`, on every Linux of today.
const NS_PER_TICK: f64 = 1e7;

/// Memory and processor time of the program at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    resident_kib: f64,
    cpu_ticks: f64,
}

/// Watches a run of `--minutes` on nothing: memory and processor time of its second quarter against
/// those of its last. Processor time is that of an operation: in a closed loop that of a second only
/// tells what else the machine did.
pub(crate) fn long(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let seconds = bench.options.minutes * 60;
    let mut child = bench
        .plimsoll
        .start("randread", "null", &format!("{seconds}s"))?;
    let mut looks = Vec::new();
    while child
        .try_wait()
        .map_err(|error| format!("wait for plimsoll: {error}"))?
        .is_none()
    {
        looks.extend(look(child.id()));
        pause(Duration::from_secs(1));
    }
    let quarter = looks.len() / 4;
    if quarter < 2 {
        return Err("watch the run: it was too short".into());
    }
    let (early, late) = (
        &looks[quarter..2 * quarter],
        &looks[3 * quarter..4 * quarter],
    );
    let mean = |looks: &[Look]| {
        looks.iter().map(|look| look.resident_kib).sum::<f64>() / looks.len() as f64
    };
    let ops = super::ours::ops_by_interval(&bench.options.dir.join("results"))?;
    if ops.len() < looks.len().saturating_sub(quarter / 2) {
        return Err(format!(
            "watch the run: {} intervals in {} s",
            ops.len(),
            looks.len()
        ));
    }
    let cpu_per_op = |looks: &[Look], ops: &[f64]| {
        let used = looks[looks.len() - 1].cpu_ticks - looks[0].cpu_ticks;
        used * NS_PER_TICK / ops.iter().sum::<f64>()
    };
    let quarter_ops = ops.len() / 4;
    let early_ns = cpu_per_op(early, &ops[quarter_ops..2 * quarter_ops]);
    let late_ns = cpu_per_op(late, &ops[3 * quarter_ops..4 * quarter_ops]);
    Ok(vec![
        Row::new(
            "memory at the end, MiB",
            vec![mean(late) / 1024.0],
            Gate::None,
        ),
        Row::new(
            "memory, last quarter / second",
            vec![mean(late) / mean(early)],
            Gate::AtMost(1.02),
        ),
        Row::new(
            "processor time of an operation at the end, ns",
            vec![late_ns],
            Gate::None,
        ),
        Row::new(
            "processor time of an operation, last quarter / second",
            vec![late_ns / early_ns],
            Gate::AtMost(1.1),
        ),
    ])
}

/// From `/proc`; `None` when the program has just ended.
fn look(id: u32) -> Option<Look> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident_kib = resident.trim().trim_end_matches(" kB").parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Fields 14 and 15 (man 5 proc), counted behind the name.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok());
    Some(Look {
        resident_kib,
        cpu_ticks: ticks()? + ticks()?,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it watches another program"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Result of `work`, and how long it took.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it has no clock of its own"
)]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = work();
    (result, began.elapsed())
}
