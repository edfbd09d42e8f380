// SPDX-License-Identifier: Apache-2.0
//! Parts of older run folders that this version leaves out: trials of models at their sensitivity bounds,
//! and the distributions that requests of models were drawn from.

use plimsoll_core::event::{RunEvent, RunWarning};
use serde_json::Value;
use std::collections::BTreeSet;

/// The model of a workload that is one.
fn model_of(entry: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    entry.pointer_mut("/workload/model")?.as_object_mut()
}

/// The workloads of a run that are left out, and their trials.
#[derive(Debug, Default)]
pub(crate) struct LeftOutTrials {
    labels: BTreeSet<String>,
    places: BTreeSet<u32>,
    /// Trials that ended.
    ended: u64,
}

impl LeftOutTrials {
    /// Takes such workloads out of a manifest.
    pub(crate) fn take(manifest: &mut Value) -> LeftOutTrials {
        let mut left_out = LeftOutTrials::default();
        let entries = manifest.get_mut("entries").and_then(Value::as_array_mut);
        if let Some(entries) = entries {
            let of_bounds = entries.extract_if(.., |entry| {
                entry.get("corner_of").is_some_and(|of| !of.is_null())
            });
            let labels = of_bounds.filter_map(|entry| Some(entry.get("label")?.as_str()?.into()));
            left_out.labels = labels.collect();
            for model in entries.iter_mut().filter_map(model_of) {
                model.remove("parametric");
            }
        }
        left_out
    }

    /// Number of workloads.
    pub(crate) fn workloads(&self) -> usize {
        self.labels.len()
    }

    /// The event without these trials; `None` where nothing remains.
    pub(crate) fn rest_of(&mut self, mut event: RunEvent) -> Option<RunEvent> {
        let is_left_out = match &mut event {
            RunEvent::TrialBegan(trial) | RunEvent::Prepared { trial, .. } => {
                let is_left_out = self.labels.contains(&trial.workload);
                if is_left_out {
                    self.places.insert(trial.place);
                }
                is_left_out
            }
            RunEvent::Interval { place, .. } => self.places.contains(place),
            RunEvent::TrialEnded(result) => {
                let is_left_out = self.labels.contains(&result.trial.workload);
                self.ended += u64::from(is_left_out);
                is_left_out
            }
            RunEvent::Warning(warning) => {
                let workload = warning.about.split(" on ").next().unwrap_or_default();
                self.labels.contains(workload)
            }
            RunEvent::Finished { comparisons, .. } => {
                comparisons.retain(|row| !self.labels.contains(&row.workload));
                false
            }
            _ => false,
        };
        (!is_left_out).then_some(event)
    }

    /// The warning that trials were left out.
    pub(crate) fn warning(&self) -> Option<RunWarning> {
        let text = format!(
            "{} trials of models at their sensitivity bounds are left out: this version plays \
             models without bounds",
            self.ended
        );
        let about = String::new();
        (self.ended > 0).then_some(RunWarning { about, text })
    }
}
