// SPDX-License-Identifier: Apache-2.0
//! Whether the buffers and threads of a run fit into this machine.

use plimsoll_core::units::size;

use crate::error::Error;

/// What a thread costs besides its buffers: the part of its stack that is touched, its ring, its
/// histograms.
const THREAD_BYTES: u64 = 512 << 10;

/// What is remembered of a block whose data are verified.
const LEDGER_BYTES: u64 = 32;

/// Most threads: below the limits of an ordinary system, above what a storage system is asked by
/// one machine.
pub(crate) const THREADS_MAX: u64 = 16_384;

/// Refuses what would not fit: the kernel would end some program of this machine instead.
pub(crate) fn check(name: &str, threads: u64, buffer_bytes: u64) -> Result<(), Error> {
    let found = std::fs::read_to_string("/proc/meminfo").ok();
    check_within(name, threads, buffer_bytes, found.as_deref())
}

fn check_within(
    name: &str,
    threads: u64,
    buffer_bytes: u64,
    meminfo: Option<&str>,
) -> Result<(), Error> {
    if threads > THREADS_MAX {
        let text =
            format!("'{name}': {threads} threads; at most {THREADS_MAX} are possible: use fewer");
        return Err(Error::Workload(text));
    }
    let Some(available) = meminfo.and_then(available_bytes) else {
        return Ok(());
    };
    let needed = buffer_bytes.saturating_add(threads * THREAD_BYTES);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (size(needed as f64), size(available as f64));
    Err(Error::Workload(format!(
        "'{name}': its {threads} threads and their buffers need {needed} of memory, and {available} \
         are available (MemAvailable); use fewer workers, less depth or smaller blocks"
    )))
}

/// Refuses what the registers of so many blocks would not fit into.
pub(crate) fn check_registers(name: &str, blocks: u64) -> Result<(), Error> {
    let found = std::fs::read_to_string("/proc/meminfo").ok();
    let Some(available) = found.as_deref().and_then(available_bytes) else {
        return Ok(());
    };
    let needed = blocks.saturating_mul(LEDGER_BYTES);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (size(needed as f64), size(available as f64));
    Err(Error::Workload(format!(
        "'{name}': to verify its {blocks} blocks takes {needed} of memory, and {available} are \
         available (MemAvailable); use larger blocks or less data"
    )))
}

/// What programs can still take without swapping, from the text of `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_no_machine_can_hold_are_refused() {
        assert!(check_registers("w", 1 << 10).is_ok());
        let refused = check_registers("w", u64::MAX).map_err(|error| error.to_string());
        if std::fs::read_to_string("/proc/meminfo").is_ok() {
            assert!(refused.is_err_and(|text| text.contains("larger blocks")));
        }
    }

    const MEMINFO: &str = "MemTotal:       8000000 kB\nMemAvailable:    4194304 kB\n";

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        for (threads, buffers, meminfo, expect) in [
            (4, 1 << 30, Some(MEMINFO), None),
            (4, 4 << 30, Some(MEMINFO), Some("4.00 GiB are available")),
            (9_000, 0, Some(MEMINFO), Some("need 4.39 GiB")),
            (20_000, 0, None, Some("at most 16384")),
            (4, u64::MAX, None, None),
            (4, u64::MAX, Some("MemTotal: 1 kB"), None),
        ] {
            let found = check_within("w", threads, buffers, meminfo);
            match (found, expect) {
                (Ok(()), None) => {}
                (Err(error), Some(text)) => {
                    assert!(error.to_string().contains(text), "{error}");
                }
                (found, expect) => panic!("{threads} {buffers}: {found:?} {expect:?}"),
            }
        }
    }
}
