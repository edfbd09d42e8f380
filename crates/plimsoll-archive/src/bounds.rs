// SPDX-License-Identifier: Apache-2.0
//! Bounds of the numbers in a run folder. Folders come from others, and a checksum is no signature: numbers
//! are checked once, where they are read, so that everything behind can count on them.
//!
//! A folder may promise more than is there yet, as that of a run that goes on does. It may not hold what no
//! run plans: then the manifest is refused, or the line is left out as a damaged one is.

use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::{
    RunEvent, RunManifest, TrialId, TrialInterval, TrialResult, WorkloadEntry,
};
use plimsoll_core::load_line::{LoadLineGoal, LoadLineQuantity, LoadLineRecord};
use std::collections::BTreeSet;

/// The largest number, either side of zero: 73 years in nanoseconds, 2 EiB. As a few of them are added up
/// without a look, it is an eighth of what an integer holds.
const NUMBER_MAX: f64 = (1u64 << 61) as f64;
/// Digits that no number beyond it has, with a sign and a point.
const DIGITS_FEW: usize = 18;
/// The one key whose numbers are only drawn from.
const SEED: &[u8] = b"seed";
/// The smallest factor and the smallest share that are not zero: anything below is no choice of a person.
const SMALLEST: f64 = 1e-9;
/// The largest factor on a load.
const FACTOR_MAX: f64 = 1e12;

/// Says which number of a text of JSON is larger than any that a run has.
pub(crate) fn check_numbers(json: &[u8]) -> Result<(), String> {
    let (mut at, mut key) = (0, &b""[..]);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => {
                let length = string_length(&json[at + 1..]);
                key = &json[at + 1..at + 1 + length];
                at += length + 2;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &json[at..];
                let of_number =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = rest.iter().take_while(|byte| of_number(byte)).count();
                check_number(&rest[..length], key)?;
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Bytes up to the quotation mark that ends a string.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

fn check_number(digits: &[u8], key: &[u8]) -> Result<(), String> {
    let is_small =
        digits.len() <= DIGITS_FEW && !digits.iter().any(|byte| matches!(byte, b'e' | b'E'));
    if is_small || key == SEED {
        return Ok(());
    }
    let text = String::from_utf8_lossy(digits);
    match text.parse::<f64>() {
        Ok(number) if number.abs() <= NUMBER_MAX => Ok(()),
        _ => Err(format!(
            "{text} at \"{}\" is beyond what a run can have",
            String::from_utf8_lossy(key)
        )),
    }
}

/// The same of a second of a trial.
pub(crate) fn check_interval(interval: &TrialInterval) -> Result<(), String> {
    let times = [interval.start.0, interval.length.0];
    let kinds = interval.stats.0.values();
    let mut numbers = kinds
        .flat_map(|kind| [kind.bytes, kind.errors, kind.ops()])
        .chain(times);
    match numbers.find(|number| *number as f64 > NUMBER_MAX) {
        Some(number) => Err(format!("{number} is beyond what a run can have")),
        None => Ok(()),
    }
}

/// The counts that a manifest plans, as far as events refer to them.
#[derive(Debug, Clone)]
pub(crate) struct RunBounds {
    /// Labels of the workloads whose load line is searched: their blocks count the trials of a search.
    load_lines: BTreeSet<String>,
    blocks: u32,
    /// Every system under every workload in every block that there can be.
    places: u64,
}

impl RunBounds {
    /// The bounds of a manifest from which N workloads were left out; the fault of one that no run has.
    pub(crate) fn of(manifest: &RunManifest, left_out: usize) -> Result<RunBounds, String> {
        check_blocks("blocks", manifest.blocks)?;
        let policy = &manifest.policy;
        check_inside("margin", policy.margin, 0.0, 1.0)?;
        check_inside("confidence", policy.confidence, 0.0, 1.0)?;
        let workloads = manifest.entries.len() + left_out;
        let in_a_block = manifest.arms.len().max(1) * workloads.max(1);
        let searched = manifest
            .entries
            .iter()
            .filter(|entry| entry.load_line.is_some());
        let mut bounds = RunBounds {
            load_lines: searched.map(|entry| entry.label.clone()).collect(),
            blocks: manifest.blocks,
            places: in_a_block as u64 * u64::from(BlockDesign::BLOCKS_MAX),
        };
        if let Some(design) = &manifest.design {
            bounds.allow("pilot_blocks", design.pilot_blocks)?;
            let found = design.found.as_ref();
            bounds.allow("blocks", found.map_or(0, |found| found.blocks))?;
        }
        for entry in &manifest.entries {
            check_entry(entry).map_err(|why| format!("of '{}' {why}", entry.label))?;
        }
        Ok(bounds)
    }

    fn allow(&mut self, name: &str, blocks: u32) -> Result<(), String> {
        check_blocks(name, blocks)?;
        self.blocks = self.blocks.max(blocks);
        Ok(())
    }

    /// Says why an event is one of no run with that plan. What designs more blocks allows them.
    pub(crate) fn check(&mut self, event: &RunEvent) -> Result<(), String> {
        match event {
            RunEvent::TrialBegan(trial) | RunEvent::Prepared { trial, .. } => {
                self.check_trial(trial)
            }
            RunEvent::Interval { place, .. } => self.check_place(*place),
            RunEvent::TrialEnded(result) => {
                self.check_trial(&result.trial)?;
                check_result(result)
            }
            RunEvent::Designed(found) => self.allow("blocks", found.blocks),
            RunEvent::BlocksEnded(ended) => check_blocks("blocks", ended.blocks),
            RunEvent::ConditioningBegan(_)
            | RunEvent::Conditioned(_)
            | RunEvent::Warning(_)
            | RunEvent::Finished { .. } => Ok(()),
        }
    }

    fn check_trial(&self, trial: &TrialId) -> Result<(), String> {
        self.check_place(trial.place)?;
        let blocks = match self.load_lines.contains(&trial.workload) {
            true => BlockDesign::BLOCKS_MAX,
            false => self.blocks,
        };
        match trial.block < blocks {
            true => Ok(()),
            false => Err(format!(
                "block {} is none of the {blocks} that are planned",
                trial.block
            )),
        }
    }

    fn check_place(&self, place: u32) -> Result<(), String> {
        match u64::from(place) < self.places {
            true => Ok(()),
            false => Err(format!("trial {place} is none that can be planned")),
        }
    }
}

fn check_blocks(name: &str, blocks: u32) -> Result<(), String> {
    let most = BlockDesign::BLOCKS_MAX;
    match blocks <= most {
        true => Ok(()),
        false => Err(format!("{name} is {blocks} and a run has at most {most}")),
    }
}

/// Both ends are outside.
fn check_inside(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    match value > low && value < high {
        true => Ok(()),
        false => Err(format!(
            "{name} is {value} and must be between {low} and {high}"
        )),
    }
}

fn check_at_least(name: &str, value: f64, least: f64) -> Result<(), String> {
    match value >= least {
        true => Ok(()),
        false => Err(format!("{name} is {value} and must be at least {least}")),
    }
}

fn check_entry(entry: &WorkloadEntry) -> Result<(), String> {
    check_inside("scale", entry.scale, SMALLEST, FACTOR_MAX)?;
    if let Some(inject) = &entry.inject {
        check_at_least("rate", inject.rate, 0.0)?;
    }
    entry.load_line.as_ref().map_or(Ok(()), check_goal)
}

fn check_goal(goal: &LoadLineGoal) -> Result<(), String> {
    check_inside("smallest", goal.smallest, SMALLEST, FACTOR_MAX)?;
    check_inside("largest", goal.largest, SMALLEST, FACTOR_MAX)?;
    check_at_least("largest", goal.largest, goal.smallest)?;
    check_inside("width", goal.width, SMALLEST, FACTOR_MAX)?;
    for limit in &goal.limits {
        check_at_least("at_most", limit.at_most, 0.0)?;
        if let LoadLineQuantity::Quantile(quantile) = limit.quantity {
            check_inside("quantile", quantile, 0.0, 1.0)?;
        }
    }
    Ok(())
}

fn check_result(result: &TrialResult) -> Result<(), String> {
    for phase in &result.phases {
        check_at_least("value", phase.value, 0.0)?;
    }
    for server in result.servers.iter().chain(&result.client_programs) {
        check_at_least("thread_share_max", server.thread_share_max, 0.0)?;
    }
    for use_of_energy in &result.energy {
        check_at_least("joules", use_of_energy.joules, 0.0)?;
    }
    result.load_line.as_ref().map_or(Ok(()), check_record)
}

fn check_record(record: &LoadLineRecord) -> Result<(), String> {
    check_inside("multiple", record.request.multiple, SMALLEST, FACTOR_MAX)?;
    check_at_least("seconds", record.request.seconds, 0.0)?;
    for batch in record.readings.iter().flat_map(|reading| &reading.batches) {
        check_at_least("operations", batch.operations, 0.0)?;
        check_at_least("amount", batch.amount, 0.0)?;
    }
    Ok(())
}
