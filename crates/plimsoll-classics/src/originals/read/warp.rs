// SPDX-License-Identifier: Apache-2.0
//! Every operation of a run of MinIO's `warp` (`--full`): a line each, columns between tabs, named by the
//! first line. Source: warp's own writer (`pkg/bench/ops.go`). Each kind of operation is a result; its rate
//! is over the time from its first start to its last end. Warp itself leaves out what ran while not all of
//! its threads did.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{KindStats, OpStats, PhaseResult};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::ProgramOutputResult;

/// Kinds of operations of one run: there are some twenty.
const KINDS_MAX: usize = 100;
/// An operation that takes longer than a day is a damaged line.
const TOOK_MAX_NS: u64 = 86_400 * 1_000_000_000;

/// Accepted output of warp, for users who have another form.
const WANTED: &str = "it is warp's sums (.json.zst), and only its single operations are read: run warp with \
                      --full, and give its .csv.zst";

/// Whether a text holds what warp writes without `--full`: sums over time.
pub(super) fn is_sums(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    text.trim_start().starts_with('{') && has("\"by_op_type\"") && has("\"total_requests\"")
}

/// Whether a line names the columns.
pub(super) fn is_heading(line: &str) -> bool {
    line.starts_with("idx\tthread\top\t")
}

/// All operations of one kind.
#[derive(Default)]
struct WarpKind {
    stats: KindStats,
    first_ns: Option<u64>,
    last_ns: u64,
    objects: u64,
}

#[derive(Default)]
struct WarpRun {
    kinds: BTreeMap<String, WarpKind>,
    endpoints: Vec<String>,
    /// Its threads waited for their turn, so that operations may have begun late.
    is_limited: bool,
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    if is_sums(text) {
        return Err(WANTED.into());
    }
    let mut columns = BTreeMap::new();
    let mut run = WarpRun::default();
    for (line, text) in (1usize..).zip(text.lines()) {
        if let Some(remark) = text.strip_prefix('#') {
            run.is_limited |= remark.contains("--rps-limit");
        } else if is_heading(text) {
            columns = text.split('\t').zip(0..).collect();
        } else if !text.is_empty() {
            let added = add(&mut run, &columns, &fields(text));
            added.map_err(|reason| format!("line {line}: {reason}"))?;
        }
    }
    if run.kinds.is_empty() {
        return Err("there is no operation in it".into());
    }
    Ok(vec![reading(run)])
}

/// The fields of a line; those with tabs are in quotation marks.
fn fields(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let is_end = |c: char| {
        is_quoted ^= c == '"';
        c == '\t' && !is_quoted
    };
    line.split(is_end)
        .map(|field| field.trim_matches('"'))
        .collect()
}

fn add(run: &mut WarpRun, columns: &BTreeMap<&str, usize>, fields: &[&str]) -> Result<(), String> {
    if fields.len() != columns.len() {
        return Err(format!(
            "it has {} columns, and {} are named",
            fields.len(),
            columns.len()
        ));
    }
    let field = |name: &str| {
        let found = columns.get(name).and_then(|place| fields.get(*place));
        found
            .copied()
            .ok_or_else(|| format!("there is no column '{name}'"))
    };
    let number = |name: &str| {
        let text = field(name)?;
        text.parse::<u64>()
            .map_err(|_| format!("invalid value '{text}' for {name}: expected a whole number"))
    };
    let start = field("start")?;
    let start_ns = start
        .parse::<Timestamp>()
        .ok()
        .and_then(|at| u64::try_from(at.as_nanosecond()).ok())
        .ok_or_else(|| format!("invalid value '{start}' for start: expected a time"))?;
    let took_ns = number("duration_ns")?;
    if took_ns > TOOK_MAX_NS {
        return Err("its duration is longer than a day".into());
    }
    let (op, endpoint) = (field("op")?, field("endpoint")?);
    if !run.kinds.contains_key(op) && run.kinds.len() >= KINDS_MAX {
        return Err(format!("it has more than {KINDS_MAX} kinds of operations"));
    }
    if run.endpoints.len() < KINDS_MAX && !run.endpoints.iter().any(|known| known == endpoint) {
        run.endpoints.push(endpoint.into());
    }
    let has_failed = !field("error")?.is_empty();
    let kind = run.kinds.entry(op.into()).or_default();
    kind.stats.service.record(Nanos(took_ns));
    kind.stats.errors += u64::from(has_failed);
    if !has_failed {
        kind.stats.bytes = kind.stats.bytes.saturating_add(number("bytes")?);
        kind.objects = kind.objects.saturating_add(number("n_objects")?);
    }
    kind.first_ns = Some(kind.first_ns.map_or(start_ns, |first| first.min(start_ns)));
    kind.last_ns = kind.last_ns.max(start_ns.saturating_add(took_ns));
    Ok(())
}

fn reading(run: WarpRun) -> ProgramOutputResult {
    let first_ns = run.kinds.values().filter_map(|kind| kind.first_ns).min();
    let last_ns = run.kinds.values().map(|kind| kind.last_ns).max();
    let mut result = ProgramOutputResult {
        together: last_ns
            .zip(first_ns)
            .map(|(last, first)| Nanos(last - first)),
        notes: vec![
            "rates are over all of the time that a kind of operation ran; warp itself leaves out \
             what ran while not all of its threads did"
                .into(),
        ],
        ..ProgramOutputResult::default()
    };
    if run.is_limited {
        let note = "warp limited the rate of operations: it counts from when it got to an operation, \
                    not from when it was due, so there is no response time";
        result.notes.push(note.into());
    }
    if run.endpoints.len() > 1 {
        result.notes.push(format!(
            "the objects were on {} endpoints",
            run.endpoints.len()
        ));
    }
    for (name, mut kind) in run.kinds {
        let wall = Nanos(kind.last_ns - kind.first_ns.unwrap_or(kind.last_ns));
        let done = kind.stats.service.count() - kind.stats.errors;
        if kind.objects > done {
            result.notes.push(format!(
                "{name}: {} objects in {done} operations; operations are counted",
                kind.objects
            ));
        }
        if !run.is_limited {
            kind.stats.response = kind.stats.service.clone();
        }
        let (metric, amount) = match kind.stats.bytes {
            0 => (ComparisonMetric::OpsPerSecond, done as f64),
            bytes => (ComparisonMetric::BytesPerSecond, bytes as f64),
        };
        result.phases.push(PhaseResult {
            metric,
            value: ratio(amount, wall.as_secs_f64()),
            wall,
            stats: OpStats(std::iter::once((op_kind(&name), kind.stats)).collect()),
            user_cpu_ns: 0,
            system_cpu_ns: 0,
            workers: Vec::new(),
            name,
        });
    }
    result
}

/// Operation on files that corresponds to one on objects.
fn op_kind(name: &str) -> OpKind {
    match name {
        "GET" => OpKind::ReadWhole,
        "PUT" => OpKind::WriteWhole,
        "PUTPART" | "APPEND" => OpKind::Append,
        "DELETE" => OpKind::Delete,
        _ => OpKind::Stat,
    }
}
