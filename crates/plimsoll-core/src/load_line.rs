// SPDX-License-Identifier: Apache-2.0
//! The load line of a storage system: the largest multiple of a workload that it carries within limits. What
//! is asked for, which trials a search asks for, and what a trial shows of the limits.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::histogram::Histogram;
use crate::op::OpKind;
use crate::units::{self, Nanos};

/// Goal of a search, and how it searches; fixed before the first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineGoal {
    /// A multiple is carried when all of these hold, and the backlog does not grow.
    pub limits: Vec<LoadLineSlo>,
    /// Smallest multiple that is tried.
    pub smallest: f64,
    /// Largest multiple that is tried.
    pub largest: f64,
    /// Upper ÷ lower end of the interval − 1 at which a search ends.
    pub width: f64,
    /// Length of trials that only locate the line.
    pub short: Nanos,
    /// Length of trials near it.
    pub trial: Nanos,
    /// How long a multiple must be held to be carried.
    pub sustained: Nanos,
    /// Most time of all trials of a search.
    pub budget: Nanos,
    /// Cost of a target per hour, by target as given on the command line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, f64>,
    /// Requirement that a multiple of 1 represents, where a target is asked whether it fits a use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<LoadLineRequirement>,
}

/// Requirement of a use on its storage, and its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineRequirement {
    /// Its name, such as `etcd`.
    pub name: String,
    /// Its purpose, in one line.
    pub about: String,
    /// The load at a multiple of 1, in words.
    pub load: String,
    /// Limits that the user gave in place of those of the sources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_own_limits: bool,
    /// Where its figures come from.
    pub sources: Vec<LoadLineSource>,
    /// Questions that the figures leave open, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A publication that a requirement rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineSource {
    /// Its title, with who published it.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// When it was published, or read where it has no date.
    pub date: String,
    /// The figure that is taken from it.
    pub says: String,
}

/// A limit that a load must keep to be carried, such as `read p99 < 20ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineSlo {
    /// The operations it is about; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<OpKind>,
    /// The limited quantity of these operations.
    pub quantity: LoadLineQuantity,
    /// The limit: nanoseconds of response time, or a share of operations.
    pub at_most: f64,
}

/// Quantity that a limit is about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadLineQuantity {
    /// This quantile of the response times, such as 0.99.
    Quantile(f64),
    /// Their mean.
    Mean,
    /// The share of operations that fail.
    Errors,
}

/// Whether the trials of a system under a workload kept a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SloResult {
    /// The system.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The limit, as it was given.
    pub limit: String,
    /// Value of the limited quantity in the worst trial: nanoseconds, or a share; `None` where the operations
    /// are too few for it.
    pub value: Option<f64>,
    /// Whether it was kept.
    pub verdict: SloVerdict,
}

/// Whether a limit was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SloVerdict {
    /// In every trial.
    Pass,
    /// Broken in a trial.
    Fail,
    /// No trial broke it, and one had too few operations to know.
    Unknown,
}

/// Why a search asks for a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadLinePurpose {
    /// To see what the limits lose at the lowest load that can be measured.
    Idle,
    /// To find about where the edge is.
    Locate,
    /// To learn where exactly it is.
    Refine,
    /// To see whether what is carried for a while is carried for long.
    Sustain,
    /// To use up credits that a carried load let grow. What is measured does not count.
    Exhaust,
}

/// A trial to be run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineRequest {
    /// Factor on the workload's rates, or a number of clients.
    pub multiple: f64,
    /// Length.
    pub seconds: f64,
    /// Why.
    pub purpose: LoadLinePurpose,
    /// Whether it goes on where the last trial ended, at the same multiple: no other system is played
    /// between them, but the pause that every trial begins with stays.
    pub is_continued: bool,
}

/// Figures of one limit for the operations of a stretch of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineBatch {
    /// Operations that ended, or should have.
    pub operations: f64,
    /// How many of them were beyond the limit; of a mean the sum of their values.
    pub amount: f64,
}

impl LoadLineBatch {
    /// All of these as one.
    pub fn sum(batches: &[LoadLineBatch]) -> LoadLineBatch {
        LoadLineBatch {
            operations: batches.iter().map(|batch| batch.operations).sum(),
            amount: batches.iter().map(|batch| batch.amount).sum(),
        }
    }
}

/// Reading of one limit in a trial: batches of equal length, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineReading {
    /// A second each, or what the length of the trial allows.
    pub batches: Vec<LoadLineBatch>,
}

/// Request that a trial served, and the readings of the limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLineRecord {
    /// The request.
    pub request: LoadLineRequest,
    /// By limit, in the order of the goal.
    pub readings: Vec<LoadLineReading>,
}

impl LoadLineSlo {
    /// Whether it is about operations of this kind.
    pub fn is_about(&self, kind: OpKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }

    /// How many of these response times are beyond it, or their sum where their mean is limited.
    pub fn amount(&self, response: &Histogram, errors: u64) -> f64 {
        match self.quantity {
            LoadLineQuantity::Quantile(_) => beyond(response, self.at_most),
            LoadLineQuantity::Mean => response.sum_ns() as f64,
            LoadLineQuantity::Errors => errors as f64,
        }
    }

    /// Value of the limited quantity for these operations: nanoseconds, or a share.
    pub fn value(&self, response: &Histogram, errors: u64) -> f64 {
        match self.quantity {
            LoadLineQuantity::Quantile(q) => response.quantile_ns(q) as f64,
            LoadLineQuantity::Mean => response.mean_ns(),
            LoadLineQuantity::Errors => crate::num::ratio(errors as f64, response.count() as f64),
        }
    }

    /// A value of what it limits, as people read it.
    pub fn show(&self, value: f64) -> String {
        match self.quantity {
            LoadLineQuantity::Errors => format!("{} %", trimmed(value * 100.0)),
            _ => units::duration(Nanos(crate::num::round_u64(value))),
        }
    }

    /// The limited quantity: `read p99`.
    pub fn subject(&self) -> String {
        let quantity = match self.quantity {
            LoadLineQuantity::Quantile(q) => format!("p{}", trimmed(q * 100.0)),
            LoadLineQuantity::Mean => "mean".into(),
            LoadLineQuantity::Errors => "errors".into(),
        };
        match self.kind {
            Some(kind) => format!("{} {quantity}", kind.name()),
            None => quantity,
        }
    }
}

/// How many values are above `limit`: of the bucket that holds it the part above.
fn beyond(values: &Histogram, limit: f64) -> f64 {
    let mut beyond = 0.0;
    for (upper, count) in values.buckets() {
        let upper = upper.min(values.max_ns()) as f64;
        if upper <= limit {
            continue;
        }
        // A bucket is a 64th of its value wide, and one nanosecond at least.
        let lower = (upper - (upper / 64.0).max(1.0)).max(0.0);
        let share = if lower >= limit {
            1.0
        } else {
            (upper - limit) / (upper - lower)
        };
        beyond += count as f64 * share;
    }
    beyond
}

/// Up to four decimals, as few as it takes: 99.9 and not 99.90000000000001.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

impl fmt::Display for LoadLineSlo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", self.subject(), self.show(self.at_most))
    }
}

const EXPECTED: &str =
    "expected a limit such as 'p99 < 20ms', 'read mean < 2ms' or 'errors < 0.1%'";

impl FromStr for LoadLineSlo {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadLineSlo, String> {
        let (subject, limit) = text.split_once('<').ok_or(EXPECTED)?;
        let limit = limit.strip_prefix('=').unwrap_or(limit).trim();
        let words: Vec<&str> = subject.split_whitespace().collect();
        let (kind, quantity) = match words[..] {
            [quantity] => (None, quantity),
            [kind, quantity] => (Some(kind_of(kind)?), quantity),
            _ => return Err(EXPECTED.into()),
        };
        let quantity = quantity_of(quantity)?;
        let at_most = match quantity {
            LoadLineQuantity::Errors => share_of(limit)?,
            _ => time_of(text, limit)?,
        };
        if at_most <= 0.0 && quantity != LoadLineQuantity::Errors {
            return Err(format!("invalid limit '{limit}': expected more than 0"));
        }
        Ok(LoadLineSlo {
            kind,
            quantity,
            at_most,
        })
    }
}

fn kind_of(name: &str) -> Result<OpKind, String> {
    let mut all = OpKind::ALL.into_iter();
    all.find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<&str> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
        format!(
            "unknown operation '{name}': expected one of {}",
            names.join(", ")
        )
    })
}

fn quantity_of(name: &str) -> Result<LoadLineQuantity, String> {
    match name {
        "mean" | "avg" => return Ok(LoadLineQuantity::Mean),
        "median" => return Ok(LoadLineQuantity::Quantile(0.5)),
        "errors" => return Ok(LoadLineQuantity::Errors),
        _ => {}
    }
    let percent: Option<f64> = name.strip_prefix('p').and_then(|n| n.parse().ok());
    match percent {
        Some(percent) if (1.0..=99.9999).contains(&percent) => {
            Ok(LoadLineQuantity::Quantile(percent / 100.0))
        }
        _ => Err(format!(
            "unknown quantity '{name}': expected p1 to p99.9999, mean, median or errors"
        )),
    }
}

/// Parses a time limit with its unit. A bare number is an error: users do not mean its usual unit, seconds.
fn time_of(text: &str, limit: &str) -> Result<f64, String> {
    if limit.parse::<f64>().is_ok() {
        let subject = text.split('<').next().unwrap_or_default().trim();
        return Err(format!(
            "{limit} what? Write '{subject} < {limit}ms', or another unit: us, ms, s"
        ));
    }
    let time = units::parse_duration(limit);
    let time = time.map_err(|why| format!("invalid limit '{limit}': {why}"))?;
    Ok(time.0 as f64)
}

fn share_of(text: &str) -> Result<f64, String> {
    let share = units::parse_fraction(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| {
        format!("invalid share '{text}': expected a share of the operations such as 0.1% or 0.001")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_shown_alike() {
        for (text, shown) in [
            ("p99 < 20ms", "p99 < 20.0 ms"),
            ("p99.9<1s", "p99.9 < 1.00 s"),
            ("read  p50 <= 500us", "read p50 < 500 µs"),
            ("write mean < 2ms", "write mean < 2.00 ms"),
            ("errors < 0.1%", "errors < 0.1 %"),
        ] {
            let limit: LoadLineSlo = text.parse().unwrap();
            assert_eq!(limit.to_string(), shown);
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_is_expected() {
        for (text, part) in [
            ("p99", "expected a limit such as"),
            ("p99 < ", "invalid limit ''"),
            ("p99 <20", "20 what? Write 'p99 < 20ms'"),
            ("read mean <= 2.5", "2.5 what? Write 'read mean < 2.5ms'"),
            ("p100 < 1ms", "unknown quantity 'p100'"),
            ("reads p99 < 1ms", "unknown operation 'reads'"),
            ("errors < 5 ms", "invalid share '5 ms'"),
            ("p99 < 0ms", "expected more than 0"),
            ("a b p99 < 1ms", "expected a limit such as"),
        ] {
            let why = text.parse::<LoadLineSlo>().unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn operations_beyond_a_limit_are_counted() {
        let mut response = Histogram::new();
        (1..=100).for_each(|ms| response.record(Nanos(ms * 1_000_000)));
        let limit: LoadLineSlo = "read p99 < 90ms".parse().unwrap();
        // To a bucket, which is a 64th of its value wide.
        assert!((limit.amount(&response, 7) - 10.0).abs() < 1.5);
        assert!(limit.is_about(OpKind::Read) && !limit.is_about(OpKind::Write));
        let errors: LoadLineSlo = "errors < 1%".parse().unwrap();
        assert!((errors.amount(&response, 7) - 7.0).abs() < 1e-9);
        assert!((errors.value(&response, 7) - 0.07).abs() < 1e-9);
        let mean: LoadLineSlo = "mean < 1ms".parse().unwrap();
        assert!((mean.amount(&response, 0) / 100.0 - 50.5e6).abs() < 1.0);
    }
}
