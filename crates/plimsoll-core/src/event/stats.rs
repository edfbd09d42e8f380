// SPDX-License-Identifier: Apache-2.0
//! Statistics of the operations of a stretch of time, by kind.

use crate::histogram::Histogram;
use crate::load_line::{LoadLineBatch, LoadLineSlo};
use crate::op::{OpKind, OpSample, OpSampleBatch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The three distributions of one kind of operation, and its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KindStats {
    /// Bytes moved by operations that succeeded.
    pub bytes: u64,
    /// Operations that failed; they are in the histograms too.
    pub errors: u64,
    /// Service time: submission → completion seen by the program.
    pub service: Histogram,
    /// Response time: intended start → completion seen by the program.
    pub response: Histogram,
    /// Submission delay: intended start → submission.
    pub lag: Histogram,
}

impl KindStats {
    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, sample: &OpSample) {
        self.record_alike(&OpSampleBatch::only(sample));
    }

    /// Counts every one of `alike`.
    #[inline]
    pub fn record_alike(&mut self, alike: &OpSampleBatch) {
        self.bytes += alike.bytes;
        self.errors += alike.errors;
        let (intended_at, ended_at) = (alike.intended_at, alike.completed_at);
        let service = ended_at.since(alike.submitted_at);
        let lag = alike.submitted_at.since(intended_at);
        self.service.record_many(service, alike.ops);
        self.response
            .record_many(ended_at.since(intended_at), alike.ops);
        self.lag.record_many(lag, alike.ops);
    }

    /// Operations recorded.
    pub fn ops(&self) -> u64 {
        self.service.count()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &KindStats) {
        // They can come from a foreign file.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.errors = self.errors.saturating_add(other.errors);
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.lag.merge(&other.lag);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        (self.bytes, self.errors) = (0, 0);
        self.service.clear();
        self.response.clear();
        self.lag.clear();
    }
}

/// Statistics by kind; kinds without operations are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpStats(pub BTreeMap<OpKind, KindStats>);

// The derived one takes any key.
#[cfg(test)]
impl schemars::JsonSchema for OpStats {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpStats".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Statistics by kind; kinds without operations are absent.",
            "type": "object",
            "propertyNames": generator.subschema_for::<OpKind>(),
            "additionalProperties": generator.subschema_for::<KindStats>(),
        })
    }
}

impl OpStats {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &OpStats) {
        for (kind, stats) in &other.0 {
            self.0.entry(*kind).or_default().merge(stats);
        }
    }

    /// Operations of all kinds.
    pub fn ops(&self) -> u64 {
        self.total(KindStats::ops)
    }

    /// Bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        self.total(|stats| stats.bytes)
    }

    /// Failed operations of all kinds.
    pub fn errors(&self) -> u64 {
        self.total(|stats| stats.errors)
    }

    /// Figures of these operations for a limit.
    pub fn batch(&self, limit: &LoadLineSlo) -> LoadLineBatch {
        let mut batch = LoadLineBatch::default();
        for (_, stats) in self.0.iter().filter(|(kind, _)| limit.is_about(**kind)) {
            batch.operations += stats.ops() as f64;
            batch.amount += limit.amount(&stats.response, stats.errors);
        }
        batch
    }

    /// The operations that a limit is about.
    pub fn about(&self, limit: &LoadLineSlo) -> KindStats {
        let mut all = KindStats::default();
        let about = self.0.iter().filter(|(kind, _)| limit.is_about(**kind));
        about.for_each(|(_, stats)| all.merge(stats));
        all
    }

    /// Value of the limited quantity for these operations: nanoseconds, or a share.
    pub fn limited(&self, limit: &LoadLineSlo) -> f64 {
        let all = self.about(limit);
        limit.value(&all.response, all.errors)
    }

    fn total(&self, of: fn(&KindStats) -> u64) -> u64 {
        self.0.values().map(of).fold(0, u64::saturating_add)
    }

    /// Response times of all kinds together.
    pub fn response(&self) -> Histogram {
        self.pooled(|s| &s.response)
    }

    /// Service times of all kinds together.
    pub fn service(&self) -> Histogram {
        self.pooled(|s| &s.service)
    }

    /// Submission delay of all kinds together.
    pub fn lag(&self) -> Histogram {
        self.pooled(|s| &s.lag)
    }

    fn pooled(&self, pick: fn(&KindStats) -> &Histogram) -> Histogram {
        let mut all = Histogram::new();
        self.0.values().for_each(|stats| all.merge(pick(stats)));
        all
    }
}
