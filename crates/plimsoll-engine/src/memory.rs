// SPDX-License-Identifier: Apache-2.0
//! Whether the buffers and threads of a run fit into this machine.

use plimsoll_core::units::size;

use crate::error::EngineError;

/// Memory of a thread besides its buffers: the part of its stack that is touched, its ring, its
/// histograms.
const THREAD_BYTES: u64 = 512 << 10;

/// Address space that a thread reserves: its stack, and an arena of the C library's allocator. Hardly
/// anything of it is touched, but it counts where address space is limited.
const THREAD_SPACE_BYTES: u64 = (2 << 20) + (64 << 20);

/// Memory for each block whose data are verified.
const LEDGER_BYTES: u64 = 32;

/// Most threads: below the limits of an ordinary system, above what a storage system is asked by
/// one machine.
pub(crate) const THREADS_MAX: u64 = 16_384;

/// Refuses what would not fit: the kernel would end some program of this machine instead.
pub(crate) fn check(name: &str, threads: u64, buffer_bytes: u64) -> Result<(), EngineError> {
    let found = std::fs::read_to_string("/proc/meminfo").ok();
    check_within(name, threads, buffer_bytes, found.as_deref())
}

/// Refuses what a limit of this process's address space would end in the middle: an allocation beyond
/// it is no error but the end of the process.
pub(crate) fn check_space(name: &str, threads: u64, buffer_bytes: u64) -> Result<(), EngineError> {
    check_limit(name, threads, buffer_bytes, address_space_left())
}

/// Address space left below the limit of this process (`ulimit -v`), if it has one.
fn address_space_left() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = used.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit.saturating_sub(kib.saturating_mul(1024)))
}

fn check_limit(
    name: &str,
    threads: u64,
    buffer_bytes: u64,
    left: Option<u64>,
) -> Result<(), EngineError> {
    let of_threads = threads.saturating_mul(THREAD_SPACE_BYTES + THREAD_BYTES);
    let needed = buffer_bytes.saturating_add(of_threads);
    let Some(left) = left.filter(|left| needed > *left) else {
        return Ok(());
    };
    let (needed, left) = (size(needed as f64), size(left as f64));
    Err(EngineError::Workload(format!(
        "'{name}': its {threads} threads and their buffers need {needed} of address space, and \
         {left} are left of this process's limit (ulimit -v); raise the limit, or use fewer workers, \
         less depth or smaller blocks"
    )))
}

fn check_within(
    name: &str,
    threads: u64,
    buffer_bytes: u64,
    meminfo: Option<&str>,
) -> Result<(), EngineError> {
    if threads > THREADS_MAX {
        let text =
            format!("'{name}': {threads} threads; at most {THREADS_MAX} are possible: use fewer");
        return Err(EngineError::Workload(text));
    }
    let Some(available) = meminfo.and_then(available_bytes) else {
        return Ok(());
    };
    let needed = buffer_bytes.saturating_add(threads * THREAD_BYTES);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (size(needed as f64), size(available as f64));
    Err(EngineError::Workload(format!(
        "'{name}': its {threads} threads and their buffers need {needed} of memory, and {available} \
         are available (MemAvailable); use fewer workers, less depth or smaller blocks"
    )))
}

/// Refuses a verification whose registers of `blocks` blocks do not fit into the available memory.
pub(crate) fn check_registers(name: &str, blocks: u64) -> Result<(), EngineError> {
    let found = std::fs::read_to_string("/proc/meminfo").ok();
    let Some(available) = found.as_deref().and_then(available_bytes) else {
        return Ok(());
    };
    let needed = blocks.saturating_mul(LEDGER_BYTES);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (size(needed as f64), size(available as f64));
    Err(EngineError::Workload(format!(
        "'{name}': verifying its {blocks} blocks needs {needed} of memory, and {available} are \
         available (MemAvailable); use larger blocks or less data"
    )))
}

/// Memory that programs can still take without swapping, from the text of `/proc/meminfo`.
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

    #[test]
    fn a_limit_of_the_address_space_is_kept_before_it_ends_the_process() {
        assert!(check_limit("w", 16, 16 << 20, None).is_ok());
        assert!(check_limit("w", 16, 16 << 20, Some(2 << 30)).is_ok());
        assert!(check_limit("w", 1, 1 << 20, Some(100 << 20)).is_ok());
        for left in [0, 80_000_000, 300_000_000] {
            let refused = check_limit("w", 16, 16 << 20, Some(left));
            let text = refused.map_err(|error| error.to_string());
            assert!(text.is_err_and(|text| text.contains("ulimit -v")), "{left}");
        }
        assert!(check_limit("w", u64::MAX, u64::MAX, Some(1)).is_err());
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
