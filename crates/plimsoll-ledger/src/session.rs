// SPDX-License-Identifier: Apache-2.0
//! Carries out what a session does, and opens its file or device again when nothing works any more.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::units::Nanos;

use super::prober::LedgerProber;
use plimsoll_engine::EngineError;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::drive::{DriverLimits, drive};
use plimsoll_engine::engine::IoEngine;
use plimsoll_engine::recorder::SampleRecorder;

/// How long a session waits before it opens its file or device again.
const REOPEN_AFTER: Nanos = Nanos(100_000_000);

/// The clock, places and flags of a session.
pub(super) struct LedgerSessionContext<'a, C> {
    pub(super) clock: &'a C,
    /// Opens the file or device.
    pub(super) open: &'a mut dyn FnMut() -> Result<Box<dyn IoEngine>, EngineError>,
    /// Waits for the given time.
    pub(super) pause: &'a mut dyn FnMut(Nanos),
    pub(super) limits: DriverLimits<'a>,
    pub(super) stop: &'a AtomicBool,
}

/// Goes on until the session is finished, the time is over or the user stops it. After a hundred
/// failures in a row, on a full target and when the engine breaks, the file or device is opened
/// again, as often as it takes.
///
/// # Errors
/// When the file or device cannot be opened the first time, or the ledger cannot be written.
pub(super) fn carry_out<C: RunClock>(
    prober: &mut LedgerProber<'_>,
    world: &mut LedgerSessionContext<'_, C>,
) -> Result<(), EngineError> {
    // How often it was opened so far.
    let mut epoch = 0;
    // Ends with the time at the latest.
    loop {
        let opened = (world.open)();
        let now = world.clock.now();
        match opened {
            Ok(mut engine) => {
                prober.opened(epoch, engine.slots(), now);
                epoch += 1;
                let mut recorder = SampleRecorder::new(Nanos::MAX, ());
                let (limits, stop) = (world.limits, world.stop);
                let end = drive(
                    engine.as_mut(),
                    world.clock,
                    prober,
                    &mut recorder,
                    limits,
                    stop,
                );
                let is_over = world.is_over();
                prober.abandon(world.clock.now(), is_over)?;
                if let Err(error @ EngineError::Unsupported { .. }) = end {
                    return Err(error);
                }
            }
            Err(error) if epoch == 0 => return Err(error),
            // It is away still: that it is shows in the probes that do not end.
            Err(_) => {}
        }
        if prober.is_finished() || world.is_over() {
            return Ok(());
        }
        (world.pause)(REOPEN_AFTER);
    }
}

impl<C: RunClock> LedgerSessionContext<'_, C> {
    /// Whether nothing more is begun.
    fn is_over(&self) -> bool {
        self.clock.now() >= self.limits.deadline || self.stop.load(Ordering::Relaxed)
    }
}
