// SPDX-License-Identifier: Apache-2.0
//! A submitted load compared with a recording, after the fit and perhaps against another recording.

use serde::{Deserialize, Serialize};

use super::{FidelityCheck, WorkloadModel};

/// How large the error of a metric is where nothing is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FidelityNoiseFloor {
    /// The error between two plays of the same load from two seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<f64>,
    /// The error between the first half of the recording and the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<f64>,
}

/// One metric with its gate, and its noise floor beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FidelityReportRow {
    /// The metric and its gate.
    pub line: FidelityCheck,
    /// Noise floor: the error to expect by chance.
    pub floor: FidelityNoiseFloor,
}

/// A load held against one disk of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FidelityReport {
    /// The recording, as it was named on the command line.
    pub recording: String,
    /// The disk.
    pub disk: String,
    /// First instant.
    pub from: String,
    /// Last instant.
    pub to: String,
    /// Recorded intervals, or recorded requests, that were compared.
    pub compared: u64,
    /// Every metric.
    pub lines: Vec<FidelityReportRow>,
    /// Metrics that could not be compared with the recording, and why: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<String>,
}

impl FidelityReport {
    /// The metrics that missed their gates.
    pub fn missed(&self) -> impl Iterator<Item = &FidelityCheck> {
        let lines = self.lines.iter().map(|checked| &checked.line);
        lines.filter(|line| !line.passed())
    }
}

impl WorkloadModel {
    /// The gates it missed: when it was fitted, and when it was last verified.
    pub fn missed(&self) -> impl Iterator<Item = &FidelityCheck> {
        let fitted = self.fidelity.iter().filter(|line| !line.passed());
        fitted.chain(self.verified.iter().flat_map(|verified| verified.missed()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::*;

    #[test]
    fn a_gate_missed_at_either_time_is_a_missed_gate() {
        let line = |error: f64| FidelityCheck::relative("m", 1.0, 1.0 + error, 0.01);
        let mut model = bursty();
        model.fidelity = vec![line(0.0)];
        assert_eq!(model.missed().count(), 0);
        let checked = |error| FidelityReportRow {
            line: line(error),
            floor: FidelityNoiseFloor {
                seeds: Some(0.001),
                halves: None,
            },
        };
        model.verified = Some(Box::new(FidelityReport {
            recording: "r".into(),
            disk: "d".into(),
            from: String::new(),
            to: String::new(),
            compared: 9,
            lines: vec![checked(0.0), checked(0.5)],
            untold: vec!["this, for that reason".into()],
        }));
        assert_eq!(model.missed().count(), 1);
        model.fidelity.push(line(-0.2));
        assert_eq!(model.missed().count(), 2);
        let text = toml::to_string(&model).unwrap();
        assert_eq!(toml::from_str::<WorkloadModel>(&text).unwrap(), model);
    }
}
