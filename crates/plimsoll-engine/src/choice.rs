// SPDX-License-Identifier: Apache-2.0
//! Chooses the engine for one file, and describes the choice and its restrictions in one line.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use plimsoll_core::op::EngineChoice;
use plimsoll_core::rng::Seed;

use crate::engine::{IoEngine, POOL_BYTES_MAX, affordable_slots};
use crate::error::EngineError;
use crate::pool::{THREADS_MAX, ThreadPoolEngine};
use crate::sync::SyncEngine;
use crate::sys::uring::{SLOTS_MAX, UringEngine};
use crate::target::RequestTarget;

/// The choice for a file that is opened so and worked on so deep. A ring hands buffered writes of many
/// file systems to threads of the kernel: with nothing else in flight that only costs (ext4, 4 KiB: half
/// to two thirds of the rate).
pub(crate) fn choice_for_file(choice: EngineChoice, direct: bool, depth: u32) -> EngineChoice {
    match choice {
        EngineChoice::Auto if !direct && depth == 1 => EngineChoice::Sync,
        other => other,
    }
}

/// Opens an engine of `depth` slots for requests of at most `len_max` bytes on `file`, to be used
/// by the calling thread. Returns it with its description, which names every reduction of depth.
pub(crate) fn open_engine(
    choice: EngineChoice,
    file: &Arc<OwnedFd>,
    depth: u32,
    len_max: u32,
    seed: Seed,
) -> Result<(Box<dyn IoEngine>, String), EngineError> {
    let mut notes = Vec::new();
    let affordable = affordable_slots(depth, len_max);
    if affordable < depth {
        let mib = POOL_BYTES_MAX >> 20;
        notes.push(format!(
            "depth {affordable} instead of {depth} (buffers of {mib} MiB)"
        ));
    }
    let mut slots = affordable.min(SLOTS_MAX);
    if slots < affordable {
        notes.push(format!("depth {slots} instead of {affordable} (ring)"));
    }
    if choice != EngineChoice::Sync {
        match UringEngine::new(Arc::clone(file), slots, len_max, seed) {
            Ok(engine) => return Ok(described(Box::new(engine), &notes)),
            Err(source) if choice == EngineChoice::Uring => {
                let doing = "set up io_uring; choose engine sync, or allow it \
                             (kernel.io_uring_disabled, seccomp)";
                return Err(EngineError::Io {
                    doing: doing.into(),
                    source,
                });
            }
            Err(source) => notes.push(format!("io_uring did not work: {source}")),
        }
    }
    if slots == 1 {
        let target = RequestTarget::File(Arc::clone(file));
        return Ok(described(
            Box::new(SyncEngine::new(target, len_max, seed)),
            &notes,
        ));
    }
    if slots > THREADS_MAX {
        notes.push(format!("depth {THREADS_MAX} instead of {slots} (threads)"));
        slots = THREADS_MAX;
    }
    let engine = ThreadPoolEngine::new(Arc::clone(file), slots, len_max, seed)?;
    Ok(described(Box::new(engine), &notes))
}

fn described(engine: Box<dyn IoEngine>, notes: &[String]) -> (Box<dyn IoEngine>, String) {
    let mut parts = vec![engine.describe()];
    parts.extend_from_slice(notes);
    (engine, parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_buffered_operation_at_a_time_is_a_plain_call_unless_asked_otherwise() {
        let (auto, uring, sync) = (EngineChoice::Auto, EngineChoice::Uring, EngineChoice::Sync);
        for (choice, direct, depth, expect) in [
            (auto, false, 1, sync),
            (auto, false, 2, auto),
            (auto, true, 1, auto),
            (uring, false, 1, uring),
            (sync, true, 8, sync),
        ] {
            assert_eq!(choice_for_file(choice, direct, depth), expect);
        }
    }

    #[test]
    fn a_reduced_depth_is_in_the_description() {
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let open = |choice, depth, len| open_engine(choice, &file, depth, len, Seed(1)).unwrap();
        let (engine, name) = open(EngineChoice::Sync, 100, 512);
        assert_eq!(engine.slots(), 64);
        assert_eq!(
            name,
            "sync on 64 threads; depth 64 instead of 100 (threads)"
        );
        let (engine, name) = open(EngineChoice::Sync, 3, 128 << 20);
        assert_eq!(engine.slots(), 2);
        assert!(name.contains("depth 2 instead of 3"), "{name}");
        let (engine, name) = open(EngineChoice::Sync, 1, 512);
        assert_eq!((engine.slots(), name.as_str()), (1, "sync"));
    }
}
