// SPDX-License-Identifier: Apache-2.0
//! Looks for the stamps of a campaign where they must not be readable: below encryption.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::data_check::{BadBlock, DataCheckResult, DataFlaw};

use super::book;
use plimsoll_engine::EngineError;
use plimsoll_engine::verify::{MAGIC, SECTOR_BYTES};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Reads all of the file or device at `raw` and finds every stamp of the campaign of the ledger at
/// `path`, wherever in it. None is what encryption promises.
///
/// # Errors
/// When either cannot be read.
pub fn seek(raw: &Path, path: &Path, stop: &AtomicBool) -> Result<DataCheckResult, EngineError> {
    let (campaign, _) = book::read(path, |_| {})?;
    let [magic, id] = [MAGIC, campaign.id].map(u64::to_le_bytes);
    let wanted = [magic, id].concat();
    let file = File::open(raw).map_err(|e| EngineError::at("open", raw, e))?;
    let fault = |e| EngineError::at("read", raw, e);
    let mut result = DataCheckResult::default();
    let name = raw.display().to_string();
    scan(file, &wanted, stop, &mut result, &name).map_err(fault)?;
    Ok(result)
}

fn scan(
    mut file: impl Read,
    wanted: &[u8],
    stop: &AtomicBool,
    result: &mut DataCheckResult,
    name: &str,
) -> std::io::Result<()> {
    // A match may lie across two pieces: the end of the earlier one is kept in front.
    let kept = wanted.len() - 1;
    let mut piece = vec![0u8; kept + PIECE_BYTES];
    let (mut held, mut start) = (0, 0u64);
    // Ends with the file.
    loop {
        let moved = file.read(&mut piece[held..])?;
        if moved == 0 {
            return Ok(());
        }
        held += moved;
        for at in places(&piece[..held], wanted) {
            result.bad.count(DataFlaw::Plaintext);
            if result.findings.len() < DataCheckResult::FINDINGS_MAX {
                result.findings.push(BadBlock {
                    file: name.to_owned(),
                    offset: start + at as u64,
                    flaw: DataFlaw::Plaintext,
                });
            }
        }
        result.checked = (start + held as u64) / SECTOR_BYTES as u64;
        let keep = held.min(kept);
        piece.copy_within(held - keep..held, 0);
        start += (held - keep) as u64;
        held = keep;
        if stop.load(Ordering::Relaxed) {
            result.interrupted = true;
            return Ok(());
        }
    }
}

/// Where `wanted` begins in `bytes`.
fn places<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = wanted[0];
    let candidates = bytes
        .iter()
        .enumerate()
        .filter(move |(_, byte)| **byte == first);
    candidates
        .map(|(at, _)| at)
        .filter(|at| bytes[*at..].starts_with(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns at most this number of bytes per read.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(into.len());
            self.0.read(&mut into[..len])
        }
    }

    #[test]
    fn what_is_wanted_is_found_wherever_it_lies_and_once() {
        let mut bytes = vec![b'w'; 5000];
        for at in [0, 17, 1000, 4996] {
            bytes[at..at + 4].copy_from_slice(b"want");
        }
        for step in [1, 3, 4, 64, 5000] {
            let mut result = DataCheckResult::default();
            let stop = AtomicBool::new(false);
            scan(Slowly(&bytes, step), b"want", &stop, &mut result, "raw").unwrap();
            let offsets: Vec<u64> = result.findings.iter().map(|found| found.offset).collect();
            assert_eq!(offsets, [0, 17, 1000, 4996], "{step}");
            assert_eq!(result.bad.plaintext, 4);
        }
    }
}
