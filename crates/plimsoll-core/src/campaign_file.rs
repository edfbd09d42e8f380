// SPDX-License-Identifier: Apache-2.0
//! A campaign file: the systems, workloads, parameters and conditions of a comparison, as data.
//!
//! The form of the file only: what its words mean is read where targets and workloads are.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::format::FormatVersion;

/// A campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignFile {
    /// [`FormatVersion::CAMPAIGN`] of the program that it was written for.
    pub format: FormatVersion,
    /// The systems; the first is the base of all ratios. A gate of two builds needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<CampaignTarget>,
    /// The workloads, each played on every system.
    pub workload: Vec<CampaignWorkload>,
    /// Conditions, each in trials of its own, such as `healthy` and `slow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<String>,
    /// How often every system plays every workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Equivalence margin, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Whether the base takes part a second time, as the A/A control.
    #[serde(default = "yes")]
    pub control: bool,
    /// In which order the systems of a block come.
    #[serde(default)]
    pub order: CampaignOrder,
    /// How `plimsoll gate` builds what the workloads start, of the sources here and of its reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<CampaignBuild>,
}

/// How a program under test is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignBuild {
    /// A command line for `sh`, run in the top directory of the sources.
    pub command: String,
    /// Files that the build makes, as paths below that directory. Workloads find each by its last
    /// name in `{target}`.
    pub files: Vec<String>,
}

/// The order of the systems within a block and workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CampaignOrder {
    /// Rows of Williams squares, drawn from the seed: every system follows every other equally often.
    #[default]
    Balanced,
    /// Drawn from the seed, in each block for itself.
    Random,
}

fn yes() -> bool {
    true
}

/// One or more systems of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignTarget {
    /// As on the command line.
    pub target: String,
    /// Settings of a stack or a simulated device; of a list of values each is a system of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, CampaignParameter>,
}

/// One or more workloads of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CampaignWorkload {
    /// As on the command line.
    pub workload: String,
    /// Name in reports, where not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Length of the measured part of its trials, such as `30s`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
    /// Settings of a workload by name; of a list of values each is a workload of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, CampaignParameter>,
}

/// One value of a setting, or several, each of which is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CampaignParameter {
    /// One for all.
    One(CampaignSetting),
    /// Each in turn.
    Each(Vec<CampaignSetting>),
}

impl CampaignParameter {
    /// Its values.
    #[must_use]
    pub fn values(&self) -> &[CampaignSetting] {
        match self {
            CampaignParameter::One(value) => std::slice::from_ref(value),
            CampaignParameter::Each(values) => values,
        }
    }
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CampaignSetting {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Words, sizes, times.
    Text(String),
}

impl std::fmt::Display for CampaignSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CampaignSetting::Switch(value) => value.fmt(f),
            CampaignSetting::Whole(value) => value.fmt(f),
            CampaignSetting::Number(value) => value.fmt(f),
            CampaignSetting::Text(value) => value.fmt(f),
        }
    }
}

/// Every choice of one value of each setting, the last setting changing fastest.
#[must_use]
pub fn settings_choices<'a>(
    settings: &'a BTreeMap<String, CampaignParameter>,
) -> Vec<Vec<(&'a str, &'a CampaignSetting)>> {
    let mut choices: Vec<Vec<(&'a str, &'a CampaignSetting)>> = vec![Vec::new()];
    for (name, parameter) in settings {
        let with = |choice: &Vec<(&'a str, &'a CampaignSetting)>| {
            let longer = |value| {
                let mut longer = choice.clone();
                longer.push((name.as_str(), value));
                longer
            };
            parameter.values().iter().map(longer).collect::<Vec<_>>()
        };
        choices = choices.iter().flat_map(with).collect();
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_are_tried_in_every_combination() {
        let text = "format = \"1.0\"\n[[target]]\ntarget = \"a\"\n[[workload]]\nworkload = \"w\"\n\
            settings = { b = [1, 2.5], a = \"64k\", c = [true, false] }\n";
        let file: CampaignFile = toml::from_str(text).unwrap();
        assert!(file.control && file.under.is_empty());
        let choices = settings_choices(&file.workload[0].settings);
        let words = |choice: &Vec<(&str, &CampaignSetting)>| -> String {
            let words = choice.iter().map(|(name, value)| format!("{name}={value}"));
            words.collect::<Vec<_>>().join(",")
        };
        let choices: Vec<String> = choices.iter().map(words).collect();
        assert_eq!(
            choices,
            [
                "a=64k,b=1,c=true",
                "a=64k,b=1,c=false",
                "a=64k,b=2.5,c=true",
                "a=64k,b=2.5,c=false",
            ]
        );
        assert_eq!(settings_choices(&BTreeMap::new()), [Vec::new()]);
        assert!(toml::from_str::<CampaignFile>(&text.replace("settings", "settngs")).is_err());
    }
}
