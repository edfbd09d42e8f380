// SPDX-License-Identifier: Apache-2.0
//! How a ledger is written, and how what is read back is judged.

use plimsoll_core::ledger::LedgerDurability;
use plimsoll_core::num::round_u64;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::EngineError;

/// Operations of a session in flight, at most.
pub(crate) const DEPTH: u32 = 4;

/// Fewest blocks of a session: some are always free.
pub(crate) const BLOCKS_MIN: u64 = 4 * DEPTH as u64;

/// Largest block.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a write that fills blocks.
pub(crate) const FILL_BYTES: u32 = 256 << 10;

/// Bytes of the entries of one operation, with those of reopening now and then.
pub(crate) const ENTRY_BYTES: u64 = 120;
/// Most bytes that are reserved for a ledger: a run of days may be ended early.
pub(crate) const RESERVED_MAX: u64 = 64 << 20;

/// How a ledger is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LedgerWriteOptions {
    /// Clients on each target, with one file or part of the device each.
    pub sessions: u32,
    /// Probes per second of each; every other one is a write.
    pub ops_per_s: f64,
    /// Bytes that each of them works on.
    pub bytes: u64,
    /// Bytes of a probe.
    pub block_bytes: u32,
    /// How long is probed.
    pub length: Nanos,
    /// When a write counts as durable.
    pub durability: LedgerDurability,
    /// Whether what is in the files or on the devices already may be destroyed. Without it, files
    /// must be new, and devices are refused.
    pub destroy: bool,
    /// Number that tells this campaign's blocks from those of all others.
    pub seed: Seed,
}

impl Default for LedgerWriteOptions {
    /// Two sessions of 200 probes of 4 KiB a second on 64 MiB, for a minute, with `O_DSYNC`.
    fn default() -> Self {
        LedgerWriteOptions {
            sessions: 2,
            ops_per_s: 200.0,
            bytes: 64 << 20,
            block_bytes: 4096,
            length: Nanos(60_000_000_000),
            durability: LedgerDurability::EachWrite,
            destroy: false,
            seed: Seed(0),
        }
    }
}

impl LedgerWriteOptions {
    /// Time between two writes of a session, and between two reads.
    pub(crate) fn period(&self) -> Nanos {
        Nanos::from_secs_f64(2.0 / self.ops_per_s)
    }

    /// Estimated bytes of the ledger of `sessions` sessions, at most [`RESERVED_MAX`].
    pub(crate) fn ledger_bytes(&self, sessions: usize) -> u64 {
        let probes = self.ops_per_s * self.length.as_secs_f64();
        let filled = self.bytes / u64::from(FILL_BYTES) + 1;
        let entries = (sessions as u64).saturating_mul(round_u64(probes).saturating_add(filled));
        entries.saturating_mul(ENTRY_BYTES).min(RESERVED_MAX)
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let refuse = |why: String| Err(EngineError::Ledger(why));
        if !(0.1..=100_000.0).contains(&self.ops_per_s) {
            let rate = self.ops_per_s;
            return refuse(format!(
                "a ledger takes 0.1 to 100000 probes a second, not {rate}"
            ));
        }
        if self.sessions == 0 || self.sessions > 1024 {
            let count = self.sessions;
            return refuse(format!(
                "a ledger has 1 to 1024 sessions on a target, not {count}"
            ));
        }
        let block = self.block_bytes;
        if !block.is_multiple_of(512) || block == 0 || block > BLOCK_BYTES_MAX {
            return refuse(format!(
                "blocks of a ledger are whole sectors of 512 bytes, up to 1 MiB, not of {block}"
            ));
        }
        let bytes = self.bytes;
        let blocks = bytes / u64::from(block);
        if !bytes.is_multiple_of(u64::from(block)) || blocks < BLOCKS_MIN {
            return refuse(format!(
                "a session works on at least {BLOCKS_MIN} whole blocks of {block} bytes, not on \
                 {bytes} bytes"
            ));
        }
        Ok(())
    }
}

/// How what was read is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCheckOptions {
    /// Bytes that the storage promises to write at once: a power of two, at least 512. A write that
    /// was not acknowledged may be there in pieces of this size.
    pub atomic_bytes: u32,
    /// Whether files that are not there any more were lost with all that is in them. Else that is an
    /// error: they may be elsewhere.
    pub gone_is_lost: bool,
}

impl Default for LedgerCheckOptions {
    /// A sector: nothing more is promised.
    fn default() -> Self {
        LedgerCheckOptions {
            atomic_bytes: 512,
            gone_is_lost: false,
        }
    }
}
