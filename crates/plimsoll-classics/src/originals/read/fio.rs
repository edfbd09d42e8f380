// SPDX-License-Identifier: Apache-2.0
//! fio's JSON, version 3.x. Warnings may come before each document; several documents may follow each other.
//! With `json+` the buckets of the completion times become our histogram, with plain `json` steps between the
//! percentiles: fio counts from the submission, which is a service time. It equals the response time only in
//! a closed loop, because fio never knows when an operation was due.

use serde_json::Value;
use std::collections::BTreeMap;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{KindStats, OpStats, PhaseResult};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::ProgramOutputResult;

const DIRECTIONS: [(&str, OpKind); 3] = [
    ("read", OpKind::Read),
    ("write", OpKind::Write),
    ("trim", OpKind::Discard),
];
/// Options that make fio an open loop.
const RATES: [&str; 2] = ["rate", "rate_iops"];

/// Most bytes of a job in one direction: whole numbers of JSON are exact up to here, and sums of many
/// jobs stay within 64 bits.
const BYTES_MAX: f64 = 9_007_199_254_740_992.0;

/// Accepted output of fio, for users who have another form.
const WANTED: &str = "only its JSON is read: run fio with --output-format=json (or json+, which also \
     tells how times are distributed)";

/// Whether a text is fio's, whatever its form.
pub(super) fn is_result(text: &str) -> bool {
    text.contains("\"fio version\"") || other_form(text).is_some()
}

/// The form of an output that is not JSON.
fn other_form(text: &str) -> Option<&'static str> {
    // `terse_version;fio-3.33;job;…`; the first line of a version 2 has no name.
    let is_terse = |line: &str| {
        let mut fields = line.split(';');
        let version = fields
            .next()
            .and_then(|word| word.trim().parse::<u8>().ok());
        let program = fields.next().is_some_and(|word| word.starts_with("fio-"));
        version.is_some_and(|version| (2..=9).contains(&version)) && program
    };
    let is_normal = |line: &str| line.contains(": (groupid=") && line.contains("err=");
    if text.lines().any(is_terse) {
        Some("terse output")
    } else if text.lines().any(is_normal) {
        Some("normal output")
    } else {
        None
    }
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    if !text.contains("\"fio version\"")
        && let Some(form) = other_form(text)
    {
        return Err(format!("it is fio's {form}, and {WANTED}"));
    }
    let mut readings = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        at += found;
        let mut documents = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let document = match documents.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => {
                let line = text[..at].matches('\n').count() + error.line();
                return Err(format!(
                    "line {line}: it is not a whole JSON document ({error})"
                ));
            }
            None => break,
        };
        at += documents.byte_offset();
        readings.push(run(&document)?);
    }
    Ok(readings)
}

fn run(document: &Value) -> Result<ProgramOutputResult, String> {
    let version = document["fio version"]
        .as_str()
        .ok_or("it has no 'fio version'")?;
    let global = &document["global options"];
    // With `--client` the jobs carry the names of their hosts.
    let jobs = ["jobs", "client_stats"]
        .iter()
        .find_map(|key| document[*key].as_array());
    let jobs = jobs.ok_or("it has no list of jobs")?;
    let mut reading = ProgramOutputResult::default();
    // The longest time of each set of jobs that ran together.
    let mut walls: Vec<Nanos> = Vec::new();
    let mut group = None;
    for job in jobs.iter().filter(|job| job["jobname"] != "All clients") {
        if let Some(host) = job["hostname"].as_str() {
            reading.host = host.into();
        }
        if walls.is_empty() || is_later(job, global, group) {
            walls.push(Nanos(0));
        }
        group = job["groupid"].as_u64();
        one(job, global, version, &mut reading)?;
        if let Some(longest) = walls.last_mut() {
            *longest = (*longest).max(wall(job));
        }
    }
    reading.together = Some(walls.into_iter().fold(Nanos(0), |sum, wall| sum + wall));
    if reading.phases.is_empty() {
        return Err("none of its jobs has moved anything".into());
    }
    Ok(reading)
}

/// Whether a job began after those before it had ended. fio numbers groups anew at each stonewall
/// (and new_group); the clones of a job have its options, but stay in its group.
fn is_later(job: &Value, global: &Value, group: Option<u64>) -> bool {
    let waits = ["stonewall", "wait_for_previous", "wait_for"]
        .iter()
        .any(|name| job["job options"].get(name).is_some() || global.get(name).is_some());
    waits && (group.is_none() || job["groupid"].as_u64() != group)
}

/// The longest time of the directions of a job, which run together.
fn wall(job: &Value) -> Nanos {
    let of = |(direction, _): &(&str, OpKind)| round_u64(figure(&job[*direction], "runtime") * 1e6);
    Nanos(DIRECTIONS.iter().map(of).max().unwrap_or(0))
}

fn one(
    job: &Value,
    global: &Value,
    version: &str,
    reading: &mut ProgramOutputResult,
) -> Result<(), String> {
    let name = job["jobname"]
        .as_str()
        .ok_or("one of its jobs has no name")?;
    let is_set = |list: &Value| RATES.iter().any(|option| list.get(option).is_some());
    let is_open = is_set(&job["job options"]) || is_set(global);
    if is_open {
        reading.note(format!("job '{name}' had a rate: fio counts from when it got to an operation, not from when it was due, so there is no response time"));
    }
    let error = job["error"].as_i64().unwrap_or(0);
    if error != 0 {
        reading.note(format!("job '{name}' ended with error {error}"));
    }
    let ran = |direction: &&(&str, OpKind)| job[direction.0]["total_ios"].as_u64().unwrap_or(0) > 0;
    let ran: Vec<&(&str, OpKind)> = DIRECTIONS.iter().filter(ran).collect();
    let all: f64 = ran
        .iter()
        .map(|(direction, _)| figure(&job[*direction], "total_ios"))
        .sum();
    for (direction, kind) in &ran {
        let told = &job[*direction];
        if told.get("lat_ns").or(told.get("clat_ns")).is_none() {
            return Err(format!(
                "job '{name}' has no times in nanoseconds: {version} is older than fio 3.0, which is not read"
            ));
        }
        if is_plain(told) {
            reading.note(format!("job '{name}' has no buckets (json, not json+): its distributions are steps between the printed percentiles; counts, means and extremes are exact"));
        }
        let ops = figure(told, "total_ios");
        if figure(told, "io_bytes") > BYTES_MAX {
            return Err(format!(
                "job '{name}' moved more than 8 PiB (io_bytes of {direction}): the file is damaged"
            ));
        }
        let mut stats = OpStats::default();
        stats.0.insert(*kind, kind_stats(told, error, is_open));
        // A job's CPU is one figure; each direction has its share of the operations.
        let runtime_ns = runtime_ns(job);
        let cpu = |key| round_u64(figure(job, key) / 100.0 * runtime_ns * ratio(ops, all));
        reading.add(PhaseResult {
            name: if ran.len() == 1 {
                name.into()
            } else {
                format!("{name}: {direction}")
            },
            metric: ComparisonMetric::OpsPerSecond,
            value: figure(told, "iops"),
            wall: Nanos(round_u64(figure(told, "runtime") * 1e6)),
            stats,
            user_cpu_ns: cpu("usr_cpu"),
            system_cpu_ns: cpu("sys_cpu"),
            workers: Vec::new(),
        });
    }
    if let Some(syncs) = syncs(job, name) {
        reading.add(syncs);
    }
    Ok(())
}

/// The syncs of a job, which are no writes: fio reports their number and times separately.
fn syncs(job: &Value, name: &str) -> Option<PhaseResult> {
    let told = &job["sync"];
    let ops = figure(told, "total_ios");
    let syncs = kind_stats(told, 0, false);
    let wall = wall(job);
    (ops > 0.0 && syncs.ops() > 0).then(|| PhaseResult {
        name: format!("{name}: sync"),
        metric: ComparisonMetric::OpsPerSecond,
        value: ratio(ops, wall.as_secs_f64()),
        wall,
        stats: OpStats(std::iter::once((OpKind::Fsync, syncs)).collect()),
        user_cpu_ns: 0,
        system_cpu_ns: 0,
        workers: Vec::new(),
    })
}

/// How long a job ran; before fio 3.3 only its directions say.
fn runtime_ns(job: &Value) -> f64 {
    match figure(job, "job_runtime") {
        told if told > 0.0 => told * 1e6,
        _ => wall(job).0 as f64,
    }
}

fn kind_stats(told: &Value, error: i64, is_open: bool) -> KindStats {
    let service =
        times(told).map_or_else(Histogram::new, |times| histogram(times, count(told, times)));
    KindStats {
        bytes: round_u64(figure(told, "io_bytes")),
        errors: u64::from(error != 0),
        response: if is_open {
            Histogram::new()
        } else {
            service.clone()
        },
        service,
        lag: Histogram::new(),
    }
}

/// The times that are taken: of completion, else of all, and the first with a distribution.
fn times(told: &Value) -> Option<&Value> {
    let all = || ["clat_ns", "lat_ns"].iter().map(|key| &told[*key]);
    all()
        .find(|times| times["bins"].is_object())
        .or_else(|| all().find(|t| t["percentile"].is_object() && count(told, t) > 0.0))
        .or_else(|| all().find(|times| count(told, times) > 0.0))
}

/// How many times were taken: versions before 3.17 or so do not report it, and took that of every
/// operation.
fn count(told: &Value, times: &Value) -> f64 {
    match times["N"].as_f64() {
        Some(_) => figure(times, "N"),
        // Zeros where measuring was switched off.
        None if figure(times, "max") > 0.0 => figure(told, "total_ios"),
        None => 0.0,
    }
}

/// Whether these times have no buckets (plain JSON).
fn is_plain(told: &Value) -> bool {
    times(told).is_some_and(|times| !times["bins"].is_object())
}

fn histogram(times: &Value, n: f64) -> Histogram {
    let bins = match times["bins"].as_object() {
        Some(bins) => bins
            .iter()
            .filter_map(|(value, count)| Some((value.parse().ok()?, count.as_u64()?)))
            .collect(),
        None => steps(times, n),
    };
    let sum = figure(times, "mean") * n;
    let (min, max) = (figure(times, "min"), figure(times, "max"));
    Histogram::from_counts(bins, round_u64(sum), round_u64(min), round_u64(max))
}

/// Counts that give the percentiles in the file again: between two of them all values are the upper
/// one, and those above the last are the largest. Without percentiles all are the mean. Number, sum,
/// smallest and largest value are separate and stay exact.
fn steps(times: &Value, n: f64) -> BTreeMap<u64, u64> {
    let all = round_u64(n);
    let mut told: Vec<(f64, u64)> = times["percentile"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(percent, value)| Some((percent.parse().ok()?, value.as_u64()?)))
        .filter(|(percent, _): &(f64, u64)| (0.0..=100.0).contains(percent))
        .collect();
    told.sort_by(|one, other| one.0.total_cmp(&other.0));
    let last = if told.is_empty() { "mean" } else { "max" };
    told.push((100.0, round_u64(figure(times, last))));
    let mut counts = BTreeMap::new();
    let mut below = 0;
    for (percent, value) in told {
        // fio gives the bucket in which the count first reaches this share.
        let upto = round_u64((n * percent / 100.0).ceil()).min(all);
        let more = upto.saturating_sub(below);
        if more > 0 {
            *counts.entry(value).or_default() += more;
        }
        below = below.max(upto);
    }
    counts
}

/// A number that is finite and not negative, else 0.
fn figure(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0)
        .unwrap_or(0.0)
}

impl ProgramOutputResult {
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Adds a result. Without `group_reporting` each of the `numjobs` of a job is reported by itself
    /// under one name: together they are one.
    fn add(&mut self, new: PhaseResult) {
        let Some(old) = self.phases.iter_mut().find(|phase| phase.name == new.name) else {
            self.phases.push(new);
            return;
        };
        old.value += new.value;
        old.wall = old.wall.max(new.wall);
        old.stats.merge(&new.stats);
        old.user_cpu_ns = old.user_cpu_ns.saturating_add(new.user_cpu_ns);
        old.system_cpu_ns = old.system_cpu_ns.saturating_add(new.system_cpu_ns);
    }
}
