// SPDX-License-Identifier: Apache-2.0
//! A load generator with another number of processors than it has, for as long as a trial lasts: if the
//! result moves with it, the client is what is measured.

use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::num::{saturating_u32, to_usize};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this thread, and what it starts, may use; it has its own again when this is
/// dropped.
#[derive(Debug)]
pub(super) struct ClientCpuLimit {
    usual: Option<CpuSet>,
}

impl ClientCpuLimit {
    /// As an entry wants it; nothing where it wants nothing.
    pub(super) fn of(entry: &WorkloadEntry) -> Result<Self, CliError> {
        let Some(client) = &entry.client else {
            return Ok(ClientCpuLimit { usual: None });
        };
        let what = || format!("run {} on {} CPUs", entry.label, client.cpus);
        let failed = doing(CliExitCode::Failed, what());
        let usual = sched_getaffinity(None).map_err(&failed)?;
        let wanted = choose(&usual, client.cpus);
        sched_setaffinity(None, &wanted).map_err(&failed)?;
        let got = sched_getaffinity(None).map_err(&failed)?;
        let limit = ClientCpuLimit { usual: Some(usual) };
        if got.count() != client.cpus {
            let text = format!("{}: the machine lets it use {}", what(), got.count());
            return Err(CliError::new(CliExitCode::Failed, text));
        }
        Ok(limit)
    }
}

impl Drop for ClientCpuLimit {
    fn drop(&mut self) {
        if let Some(usual) = &self.usual {
            // One that cannot be undone shows in the next trial, which checks what it got.
            let _ = sched_setaffinity(None, usual);
        }
    }
}

/// `count` processors: first those in `usual`, then others.
fn choose(usual: &CpuSet, count: u32) -> CpuSet {
    let all = 0..to_usize(u64::from(saturating_u32(CpuSet::MAX_CPU as u64)));
    let (own, others): (Vec<usize>, Vec<usize>) = all.partition(|cpu| usual.is_set(*cpu));
    let mut chosen = CpuSet::new();
    let wanted = own.into_iter().chain(others);
    wanted
        .take(to_usize(count.into()))
        .for_each(|cpu| chosen.set(cpu));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_it_has_come_first() {
        let mut usual = CpuSet::new();
        usual.set(3);
        usual.set(5);
        let one = choose(&usual, 1);
        assert!(one.is_set(3) && one.count() == 1);
        let three = choose(&usual, 3);
        assert!(three.is_set(3) && three.is_set(5) && three.is_set(0) && three.count() == 3);
    }
}
