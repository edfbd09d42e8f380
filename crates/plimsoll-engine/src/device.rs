// SPDX-License-Identifier: Apache-2.0
//! Block devices as targets: claimed for the length of the work, and filled before they are read.
//!
//! Whether a device may be destroyed is not asked here: who names it has answered that.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::rng::{Rng, Seed};
use rustix::fs::OFlags;

use crate::error::EngineError;
use crate::held::TargetHandle;
use crate::layout::write_random;

/// Places that are read to see whether a device has been filled. With this number, an unfilled part of
/// 1 % is found with a probability of 99.4 %.
const SAMPLES: usize = 512;

/// Places that are looked at when this process has found or made it full before: trials follow each other,
/// and a disk that answers one read after the other would spend more time on samples than on a short trial.
const SAMPLES_AGAIN: usize = 16;

/// Threads that read them.
const SAMPLE_READERS: usize = 32;
const SAMPLE_BYTES: usize = 4096;

/// Devices that were full when this process last looked, by number, with the bytes that were looked at.
static FULL: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// The claim on a device, held while the engine works on it. An exclusive claim keeps the device from
/// being mounted, and from other programs that also ask for an exclusive claim.
#[derive(Debug, Clone)]
pub(crate) struct DeviceClaim {
    _device: Arc<File>,
}

/// Opens the device at `path` and holds it, `exclusive` against others (`O_EXCL`), for direct I/O if
/// it is wanted.
pub(crate) fn claim(
    held: &TargetHandle,
    path: &Path,
    direct: bool,
    exclusive: bool,
) -> Result<DeviceClaim, EngineError> {
    let mut flags = OFlags::RDWR;
    flags.set(OFlags::EXCL, exclusive);
    flags.set(OFlags::DIRECT, direct);
    let verb = "claim the device (is it mounted or in use?)";
    let device = held
        .open(path, flags)
        .map_err(|e| EngineError::at(verb, path, e))?;
    Ok(DeviceClaim {
        _device: Arc::new(device),
    })
}

/// Writes random bytes over the first `bytes` of the device, unless samples of all of it hold data
/// already: reads of blocks that were never written, or were discarded, do not reach the medium.
pub(crate) fn fill(
    held: &TargetHandle,
    path: &Path,
    bytes: u64,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut file = held
        .open(path, OFlags::RDWR)
        .map_err(|e| EngineError::at("open", path, e))?;
    let number = file
        .metadata()
        .map_err(|e| EngineError::at("look at", path, e))?
        .rdev();
    let known = *full().get(&number).unwrap_or(&0);
    let samples = if bytes <= known {
        SAMPLES_AGAIN
    } else {
        SAMPLES
    };
    if holds_data(&file, path, (bytes, samples), seed)? {
        full().insert(number, known.max(bytes));
        return Ok(());
    }
    full().remove(&number);
    file.seek(SeekFrom::Start(0))
        .map_err(|e| EngineError::at("go to the start of", path, e))?;
    let mut rng = Rng::new(seed.derive("contents", 0));
    write_random(&mut file, path, bytes, &mut rng, stop)?;
    file.sync_all()
        .map_err(|e| EngineError::at("make durable", path, e))?;
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    full().insert(number, bytes);
    Ok(())
}

/// Forgets which devices were full: something may have discarded blocks.
pub(crate) fn forget_full() {
    full().clear();
}

fn full() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    FULL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn holds_data(
    file: &File,
    path: &Path,
    (bytes, samples): (u64, usize),
    seed: Seed,
) -> Result<bool, EngineError> {
    // Pages of earlier reads must not answer for the device.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    let blocks = (bytes / SAMPLE_BYTES as u64).max(1);
    let mut rng = Rng::new(seed.derive("samples", 0));
    let mut samples: Vec<u64> = (0..samples).map(|_| rng.below(blocks)).collect();
    (samples[0], samples[1]) = (0, blocks - 1);
    // One after another they would take seconds on a device that answers late.
    std::thread::scope(|scope| {
        let parts = samples.chunks(samples.len().div_ceil(SAMPLE_READERS));
        let readers: Vec<_> = parts
            .map(|part| scope.spawn(move || hold_data(file, path, part)))
            .collect();
        let mut all = true;
        for reader in readers {
            all &= reader.join().expect("a reader does not panic")?;
        }
        Ok(all)
    })
}

/// Whether there is something else than zeros in each of these blocks.
fn hold_data(file: &File, path: &Path, blocks: &[u64]) -> Result<bool, EngineError> {
    let mut sample = [0; SAMPLE_BYTES];
    for block in blocks {
        let moved = file
            .read_at(&mut sample, block * SAMPLE_BYTES as u64)
            .map_err(|e| EngineError::at("read", path, e))?;
        if sample[..moved].iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
