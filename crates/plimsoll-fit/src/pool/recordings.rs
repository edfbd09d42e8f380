// SPDX-License-Identifier: Apache-2.0
//! The memory of every recording: that it was counted, and its name.

use plimsoll_core::partial::RecordingSummary;

/// A recording that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownRecording {
    figures: u64,
    pub(super) name: String,
    pub(super) unread: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) has_date: bool,
    /// Whether it counts devices of which the load over time is not known.
    pub(super) lacks_steps: Option<String>,
}

impl KnownRecording {
    pub(super) fn of(summary: &RecordingSummary, figures: u64) -> KnownRecording {
        let lacking = summary.devices.iter().find(|device| {
            let totals = &device.totals;
            let needed = [
                totals.reads,
                totals.writes,
                totals.read_bytes,
                totals.write_bytes,
            ];
            needed.iter().any(Option::is_none)
        });
        KnownRecording {
            figures,
            name: summary.name.clone(),
            unread: summary.unread.clone(),
            notes: summary.notes.clone(),
            has_date: summary.has_date,
            lacks_steps: lacking.map(|device| device.name.clone()),
        }
    }

    /// The same recording once more: of its names the first in the order of letters stays, so that
    /// it does not matter which came first.
    pub(super) fn again(&mut self, summary: &RecordingSummary, figures: u64) -> Result<(), String> {
        if self.figures != figures {
            return Err(format!(
                "it is the same recording as {} (SHA-256 {}), with other figures; make the partial \
                 results of both with one version of plimsoll",
                self.name, summary.sha256
            ));
        }
        let other = (&summary.name, &summary.unread, &summary.notes);
        if other < (&self.name, &self.unread, &self.notes) {
            self.name.clone_from(&summary.name);
            self.unread.clone_from(&summary.unread);
            self.notes.clone_from(&summary.notes);
        }
        Ok(())
    }
}
