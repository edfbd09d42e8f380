// SPDX-License-Identifier: Apache-2.0
//! A model of the sum of all recordings: what every step held. Counts of steps add up exactly; what
//! does not (the order of requests, their places, what waited for what) is refused by name.

use plimsoll_core::model::ModelFacts;
use plimsoll_trace::{CounterSource, TraceError};

use super::RecordingPool;
use super::counters::ALL;
use crate::fit::{FitOptions, FitResult, fit};

impl RecordingPool {
    /// Fits a model to the sum of all devices, each step an interval.
    ///
    /// # Errors
    /// When a recording has no date, or a device lacks operations or bytes of reads and writes: the
    /// model would be of less than was asked for. Else as [`fit`].
    pub fn fit(&self, name: &str, facts: ModelFacts) -> Result<FitResult, TraceError> {
        let named = |reason: &str, recording: &str| TraceError::Together {
            recording: recording.into(),
            reason: reason.into(),
        };
        let undated = self.read().filter(|known| !known.has_date);
        if let Some(first) = undated.map(|known| &known.name).min() {
            return Err(named(
                "it has no date, so its load cannot be added to that of others at the same time; \
                 fit it alone, or leave it out",
                first,
            ));
        }
        let lacking = self
            .read()
            .filter_map(|known| Some((&known.name, known.lacks_steps.as_ref()?)));
        if let Some((first, disk)) = lacking.min() {
            let reason = format!(
                "its disk {disk} lacks operations or bytes of reads and writes, of which a model is \
                 made; leave the recording out, or choose disks by --disk"
            );
            return Err(named(&reason, first));
        }
        let Some(counters) = self.counters() else {
            return Err(named("none of them could be read", "the recordings"));
        };
        let options = FitOptions {
            disk: ALL.into(),
            window: counters.times().span(),
            name: name.into(),
            facts,
        };
        let mut fitted = fit(&counters, &options)?;
        fitted.warnings.extend(self.model_warnings());
        Ok(fitted)
    }

    /// Warnings for a reader of the model beside those of every fit.
    fn model_warnings(&self) -> Vec<String> {
        let unread = self.known.len() - self.read().count();
        let mut warnings = Vec::new();
        if unread > 0 {
            warnings.push(format!(
                "{unread} recordings could not be read: their load is not in the model"
            ));
        }
        if self.requests.recordings > 0 {
            warnings.push(format!(
                "{} of the recordings are of requests: the model keeps their counts in steps of {} s, \
                 not the requests; fit one of them alone for those",
                self.requests.recordings, self.settings.step_s
            ));
        }
        warnings.extend(self.uncovered());
        warnings
    }
}
