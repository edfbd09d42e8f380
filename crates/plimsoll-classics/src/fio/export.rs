// SPDX-License-Identifier: Apache-2.0
//! A workload as a job file of fio, of constructs whose behaviour was checked on fio 3.33.
//!
//! Features that fio cannot express are refused with the reason, or named in a comment of the file:
//! * its Zipf generator reaches only a few percent of the blocks of a large file (fio issue 1991);
//! * its Poisson process cuts gaps to whole microseconds twice, so that it is 2 % too fast at
//!   30 000 per second and worse above;
//! * a rate counts blocks of the smallest size, so mixed sizes become one job each;
//! * shares are whole percent.

use std::fmt::Write;

use plimsoll_core::model::{IoDirection, WorkloadModel};
use plimsoll_core::num::{ratio, round_u64, saturating_u32};
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncKind;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, ArrivalRateSegment, BATCH_DEFAULT, BlockIoExtent, BlockIoFileCreation,
    BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry, BlockIoOffsetSharing, BlockIoOpKind,
    BlockIoPacing, BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseWorkload};

use super::sizes::mean_bytes;
use crate::error::ClassicsError;

/// Fastest Poisson process of one job that fio keeps within about 1 %.
const POISSON_MAX_PER_S: f64 = 20_000.0;
/// Below this rate whole operations per second are too coarse, and bytes per second are written.
const RATE_FINE_PER_S: f64 = 500.0;
/// Operations in flight at most under a model: as in runs of this program.
const MODEL_DEPTH: u32 = 256;

/// A job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioJobExport {
    /// The text, the losses in comments at its head.
    pub text: String,
    /// Parts of the workload that the file does not express, one sentence each.
    pub losses: Vec<String>,
}

/// Writes a workload as a job file. Work without an end of its own runs for `length`.
///
/// # Errors
/// When the workload has something that fio cannot do, with what could be done.
pub fn export(workload: &Workload, length: Nanos) -> Result<FioJobExport, ClassicsError> {
    let mut file = FioJobWriter::default();
    match workload {
        Workload::Model(model) => file.model(model, length)?,
        Workload::Blocks(blocks) => file.wave(&blocks.groups, length, false)?,
        Workload::Series(series) => file.series(series, length)?,
        Workload::Files(_) => {
            return Err(refuse(
                "lists of file operations have no counterpart in a job file",
            ));
        }
        Workload::Commands(_) => return Err(refuse("programs have no counterpart in a job file")),
    }
    let mut text = format!(
        "; {}: written by plimsoll for fio 3.33\n",
        in_line(workload.name())
    );
    for loss in &file.losses {
        let _ = writeln!(text, "; lost: {}", in_line(loss));
    }
    text.push_str(&file.jobs);
    Ok(FioJobExport {
        text,
        losses: file.losses,
    })
}

fn refuse(reason: impl Into<String>) -> ClassicsError {
    ClassicsError::Export {
        program: "fio".into(),
        reason: reason.into(),
    }
}

#[derive(Debug, Default)]
struct FioJobWriter {
    jobs: String,
    losses: Vec<String>,
}

/// One job: its lines.
#[derive(Debug, Default)]
struct Lines {
    text: String,
    /// The first value that would be more than its line.
    wild: Option<String>,
}

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        if value.contains(char::is_control) {
            self.wild
                .get_or_insert(format!("{name}={}", value.escape_debug()));
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{name}={value}");
    }

    /// The lines.
    ///
    /// # Errors
    /// When a value would begin another line, which fio might obey.
    fn finish(self) -> Result<String, ClassicsError> {
        match self.wild {
            None => Ok(self.text),
            Some(wild) => Err(refuse(format!("'{wild}' has a control character"))),
        }
    }
}

/// A name of the workload's in a line that is not a value: one line whatever is in it.
fn in_line(text: &str) -> String {
    text.replace(|c: char| c.is_control() || c == ']', " ")
}

impl FioJobWriter {
    fn lose(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if !self.losses.contains(&sentence) {
            self.losses.push(sentence);
        }
    }

    /// One job per direction and size at the mean rate of the recording.
    fn model(&mut self, model: &WorkloadModel, length: Nanos) -> Result<(), ClassicsError> {
        let mut groups = Vec::new();
        for direction in IoDirection::BOTH {
            let (ops_per_s, bytes_per_s) = model.mean_per_s(direction);
            if ops_per_s <= 0.0 {
                continue;
            }
            groups.push(BlockIoGroup {
                name: direction.name().into(),
                depth: model.facts.threads.map_or(MODEL_DEPTH, |n| n.value),
                extent: BlockIoExtent {
                    bytes: model.facts.working_set_bytes.value,
                    ..BlockIoExtent::default()
                },
                mix: sizes(direction, ratio(bytes_per_s, ops_per_s)),
                offsets: model.facts.offsets_of(direction).clone(),
                pace: BlockIoPacing::Open(ArrivalProcess::Paced { per_s: ops_per_s }),
                syncs: model.facts.syncs(),
                ..BlockIoGroup::default()
            });
        }
        if model.requests.is_some() {
            self.lose("the requests: their order, places, reuse and instants; here each direction has its mean rate and mixes the two powers of two around its mean size, at places drawn anew (plimsoll export --format iolog keeps them)");
            return self.wave(&groups, length, false);
        }
        self.lose(format!(
            "the envelope: the {} of the recording become their mean rate, without bursts and without the Poisson arrivals inside an interval",
            units::clock_duration(model.length())
        ));
        self.lose("sizes vary from interval to interval in the recording; here each direction mixes the two powers of two around its mean");
        self.wave(&groups, length, false)
    }

    fn series(&mut self, series: &PhaseSeries, length: Nanos) -> Result<(), ClassicsError> {
        for (at, phase) in series.phases.iter().enumerate() {
            let PhaseWorkload::Blocks(blocks) = &phase.body else {
                return Err(refuse(format!(
                    "phase '{}' repeats file operations, which have no counterpart in a job file",
                    phase.name
                )));
            };
            if phase.stonewall {
                self.lose(format!("phase '{}' counts no worker after the first that is done; fio counts all to their ends", phase.name));
            }
            let length = phase.limit.unwrap_or(length);
            if phase.limit.is_some() && blocks.ends_by_itself() {
                self.lose(format!("phase '{}' ends by its work or its time; in the file by whichever comes first, too, job by job", phase.name));
            }
            self.timed(&blocks.groups, length, at > 0, phase.limit.is_some())?;
        }
        Ok(())
    }

    fn wave(
        &mut self,
        groups: &[BlockIoGroup],
        length: Nanos,
        wall: bool,
    ) -> Result<(), ClassicsError> {
        self.timed(groups, length, wall, false)
    }

    /// Jobs that run together. `wall`: after all jobs before them.
    fn timed(
        &mut self,
        groups: &[BlockIoGroup],
        length: Nanos,
        wall: bool,
        limited: bool,
    ) -> Result<(), ClassicsError> {
        let mut wall = wall;
        for group in groups {
            for (part, wait) in parts(group, length)? {
                let length = part.span.unwrap_or(length);
                let lines = self.job(&part.group, length, limited)?;
                let _ = write!(
                    self.jobs,
                    "\n[{}]\n{}",
                    in_line(&part.group.name),
                    lines.finish()?
                );
                if wall || wait {
                    let _ = writeln!(self.jobs, "stonewall");
                }
                wall = false;
            }
        }
        Ok(())
    }

    fn job(
        &mut self,
        group: &BlockIoGroup,
        length: Nanos,
        limited: bool,
    ) -> Result<Lines, ClassicsError> {
        let mut lines = Lines::default();
        if group.content.date {
            return Err(refuse("lines with the date have no counterpart"));
        }
        self.access(group, &mut lines)?;
        place(group, &mut lines)?;
        lines.add("numjobs", group.workers);
        lines.add("thread", 1);
        lines.add(
            "ioengine",
            if group.depth > 1 { "io_uring" } else { "psync" },
        );
        lines.add("iodepth", group.depth);
        batch(group, &mut lines);
        lines.add("direct", u8::from(group.direct));
        if !group.direct && group.cold_every_bytes == 0 {
            self.lose("the file begins outside the page cache here; fio keeps in it what it has laid out, or would drop it before each pass");
            lines.add("invalidate", 0);
        }
        self.pace(group, &mut lines)?;
        syncs(group, &mut lines)?;
        content(group, &mut lines);
        work(group, length, limited, &mut lines)?;
        if group.delay > Nanos(0) {
            lines.add("startdelay", format!("{}ms", group.delay.0 / 1_000_000));
        }
        Ok(lines)
    }

    fn access(&mut self, group: &BlockIoGroup, lines: &mut Lines) -> Result<(), ClassicsError> {
        let has = |kind| group.mix.iter().any(|turn| turn.kind == kind);
        let (read, write, trim) = (
            has(BlockIoOpKind::Read),
            has(BlockIoOpKind::Write),
            has(BlockIoOpKind::Discard),
        );
        for (kind, what) in [
            (BlockIoOpKind::Update, "read and write back"),
            (BlockIoOpKind::Append, "append"),
        ] {
            if has(kind) {
                return Err(refuse(format!(
                    "'{}' has turns that {what}, which fio cannot do",
                    group.name
                )));
            }
        }
        let word = match (read, write, trim) {
            (true, false, false) => "read",
            (false, true, false) => "write",
            (false, false, true) => "trim",
            (true, true, false) => "rw",
            _ => {
                return Err(refuse(format!(
                    "'{}' mixes discards with other turns, which fio cannot do",
                    group.name
                )));
            }
        };
        lines.add("rw", self.pattern(group, word)?);
        self.distribution(group, lines)?;
        let is_shared = group.positions == BlockIoOffsetSharing::Shared;
        let one_size = group.mix.iter().all(|t| t.bytes == group.mix[0].bytes);
        if is_shared && !one_size && !matches!(group.offsets, OffsetPattern::Sequential) {
            self.lose("places: each operation begins at a multiple of its own size here, in fio at a multiple of the smallest of its direction");
        }
        if word == "rw" {
            let share = share_of(&group.mix, BlockIoOpKind::Read) * 100.0;
            lines.add(
                "rwmixread",
                self.percent(share, &format!("the share of reads of '{}'", group.name)),
            );
            if matches!(group.offsets, OffsetPattern::Sequential) && is_shared {
                self.lose("fio keeps one position for reads and one for writes, the workload one for both");
            }
        }
        self.sizes(group, lines);
        Ok(())
    }

    fn pattern(&mut self, group: &BlockIoGroup, word: &str) -> Result<String, ClassicsError> {
        let name = &group.name;
        Ok(match &group.offsets {
            OffsetPattern::Uniform
            | OffsetPattern::Permutation
            | OffsetPattern::FixedPermutation { .. }
            | OffsetPattern::Zones(_) => format!("rand{word}"),
            OffsetPattern::Sequential => word.into(),
            OffsetPattern::Runs { blocks } => format!("rand{word}:{blocks}"),
            OffsetPattern::Strided { stride_bytes } => match &group.mix[..] {
                [one] if *stride_bytes >= u64::from(one.bytes) => {
                    format!("{word}:{}", stride_bytes - u64::from(one.bytes))
                }
                _ => {
                    return Err(refuse(format!(
                        "'{name}' steps with overlapping or mixed blocks, which fio cannot do"
                    )));
                }
            },
            OffsetPattern::Zipf { .. } => {
                return Err(refuse(format!(
                    "'{name}' has Zipf offsets: fio's generator reaches only a few percent of the blocks of a large file (issue 1991); use zones"
                )));
            }
            OffsetPattern::Backward | OffsetPattern::Interleaved => {
                return Err(refuse(format!(
                    "'{name}' goes backward or interleaved, which no checked option of fio does"
                )));
            }
        })
    }

    fn distribution(
        &mut self,
        group: &BlockIoGroup,
        lines: &mut Lines,
    ) -> Result<(), ClassicsError> {
        match &group.offsets {
            OffsetPattern::Uniform | OffsetPattern::Runs { .. } => lines.add("norandommap", 1),
            OffsetPattern::Zones(zones) => {
                let access =
                    self.percents(zones.iter().map(|z| z.access), "the accesses of the zones");
                let size = self.percents(zones.iter().map(|z| z.size), "the sizes of the zones");
                if size.contains(&0) {
                    return Err(refuse(format!(
                        "'{}' has a zone below half a percent of the file",
                        group.name
                    )));
                }
                let pairs = access
                    .iter()
                    .zip(&size)
                    .map(|(access, size)| format!("{access}/{size}"));
                lines.add(
                    "random_distribution",
                    format!("zoned:{}", pairs.collect::<Vec<_>>().join(":")),
                );
                lines.add("norandommap", 1);
            }
            _ => {}
        }
        Ok(())
    }

    fn sizes(&mut self, group: &BlockIoGroup, lines: &mut Lines) {
        if let [first, rest @ ..] = &group.mix[..]
            && rest.iter().all(|turn| turn.bytes == first.bytes)
        {
            lines.add("bs", first.bytes);
            return;
        }
        let kinds = [
            BlockIoOpKind::Read,
            BlockIoOpKind::Write,
            BlockIoOpKind::Discard,
        ];
        let split = kinds.map(|kind| {
            let turns: Vec<&BlockIoMixEntry> =
                group.mix.iter().filter(|turn| turn.kind == kind).collect();
            let weights = turns.iter().map(|turn| turn.weight);
            let percents = self.percents(weights, &format!("the sizes of '{}'", group.name));
            let pairs = turns
                .iter()
                .zip(percents)
                .filter(|(_, percent)| *percent > 0);
            pairs
                .map(|(turn, percent)| format!("{}/{percent}", turn.bytes))
                .collect::<Vec<_>>()
                .join(":")
        });
        let filled: Vec<&String> = split.iter().filter(|list| !list.is_empty()).collect();
        // One list holds for all directions; with reads and writes each has its own.
        lines.add(
            "bssplit",
            filled
                .iter()
                .map(|list| list.as_str())
                .collect::<Vec<_>>()
                .join(","),
        );
    }

    fn pace(&mut self, group: &BlockIoGroup, lines: &mut Lines) -> Result<(), ClassicsError> {
        let name = &group.name;
        match &group.pace {
            BlockIoPacing::Closed { think, .. } if *think == Nanos(0) => Ok(()),
            BlockIoPacing::Closed { drains: false, .. } if group.depth > 1 => Err(refuse(format!(
                "'{name}' thinks with several operations in flight; fio's think time stops them all: use more workers at depth 1"
            ))),
            BlockIoPacing::Closed { think, every, .. } => {
                lines.add("thinktime", think.0.div_ceil(1_000));
                lines.add("thinktime_blocks", (*every).max(1));
                Ok(())
            }
            BlockIoPacing::Open(ArrivalProcess::Paced { per_s }) => {
                self.rate(group, *per_s, lines);
                Ok(())
            }
            BlockIoPacing::Open(ArrivalProcess::Poisson { per_s }) => {
                let each = per_s / f64::from(group.workers.max(1));
                if each > POISSON_MAX_PER_S {
                    return Err(refuse(format!(
                        "'{name}' has a Poisson process of {} per second and worker: fio's is too fast above 20k; use more workers",
                        units::rate(each)
                    )));
                }
                lines.add("rate_process", "poisson");
                let whole = round_u64(each).max(1);
                self.rounded(each, whole as f64, &format!("the rate of '{name}'"));
                lines.add("rate_iops", whole);
                Ok(())
            }
            BlockIoPacing::Open(ArrivalProcess::Trace(_)) => Err(refuse(
                "a trace is written as a log, for read_iolog: use --format iolog",
            )),
            BlockIoPacing::Open(
                ArrivalProcess::Batch { .. }
                | ArrivalProcess::OnOff { .. }
                | ArrivalProcess::Envelope(_),
            ) => Err(refuse(format!("'{name}' has arrivals that fio cannot do"))),
        }
    }

    fn rate(&mut self, group: &BlockIoGroup, per_s: f64, lines: &mut Lines) {
        let each = per_s / f64::from(group.workers.max(1));
        self.lose("fio counts times from when it gets to an operation, not from when it was due: under overload its times are far too short");
        if each >= RATE_FINE_PER_S {
            lines.add("rate_iops", round_u64(each));
        } else {
            lines.add(
                "rate",
                round_u64(each * f64::from(group.mix[0].bytes)).max(1),
            );
        }
    }

    fn percent(&mut self, exact: f64, what: &str) -> u64 {
        let whole = round_u64(exact);
        self.rounded(exact, whole as f64, what);
        whole
    }

    fn rounded(&mut self, exact: f64, whole: f64, what: &str) {
        if (exact - whole).abs() > 1e-6 * exact.abs().max(1.0) {
            self.lose(format!(
                "{what} is {exact:.3} and becomes {whole}: fio takes whole numbers"
            ));
        }
    }

    /// Shares as whole percent that add up to 100: the largest remainders are rounded up.
    fn percents(&mut self, weights: impl Iterator<Item = f64>, what: &str) -> Vec<u64> {
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        let exact: Vec<f64> = weights
            .iter()
            .map(|weight| 100.0 * ratio(*weight, sum))
            .collect();
        let mut whole: Vec<u64> = exact.iter().map(|share| round_u64(share.floor())).collect();
        let mut order: Vec<usize> = (0..exact.len()).collect();
        order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let missing = 100u64.saturating_sub(whole.iter().sum());
        for at in order
            .into_iter()
            .take(plimsoll_core::num::to_usize(missing))
        {
            whole[at] += 1;
        }
        if exact
            .iter()
            .zip(&whole)
            .any(|(exact, whole)| (exact - *whole as f64).abs() > 1e-6)
        {
            self.lose(format!(
                "{what}: shares are rounded to whole percent, as fio takes them"
            ));
        }
        whole
    }
}

/// The two powers of two around a mean, mixed so that it is met.
fn sizes(direction: IoDirection, mean_bytes: f64) -> Vec<BlockIoMixEntry> {
    let kind = match direction {
        IoDirection::Read => BlockIoOpKind::Read,
        IoDirection::Write => BlockIoOpKind::Write,
    };
    let mean = mean_bytes.clamp(4096.0, f64::from(16u32 << 20));
    let above = saturating_u32(round_u64(mean.ceil()).next_power_of_two());
    let below = above / 2;
    let share_above = (mean - f64::from(below)) / f64::from(below);
    let turns = [(below, 1.0 - share_above), (above, share_above)];
    let turns = turns.into_iter().filter(|(_, weight)| *weight > 1e-9);
    turns
        .map(|(bytes, weight)| BlockIoMixEntry {
            kind,
            bytes,
            weight,
        })
        .collect()
}

fn share_of(mix: &[BlockIoMixEntry], kind: BlockIoOpKind) -> f64 {
    let all: f64 = mix.iter().map(|turn| turn.weight).sum();
    let own: f64 = mix
        .iter()
        .filter(|turn| turn.kind == kind)
        .map(|turn| turn.weight)
        .sum();
    ratio(own, all)
}

/// A group, or the part of it that one job does, and how long it takes if that is set.
struct FioGroupPart {
    group: BlockIoGroup,
    span: Option<Nanos>,
}

/// The jobs of a group: one, where the storage sets the pace; one per turn, where instants do.
/// With each, whether it waits for the jobs before it.
fn parts(group: &BlockIoGroup, length: Nanos) -> Result<Vec<(FioGroupPart, bool)>, ClassicsError> {
    if group.mix.is_empty() {
        return Err(refuse(format!("'{}' does nothing", group.name)));
    }
    let BlockIoPacing::Open(arrival) = &group.pace else {
        return Ok(vec![(
            FioGroupPart {
                group: group.clone(),
                span: None,
            },
            false,
        )]);
    };
    let follows_order = !matches!(
        group.offsets,
        OffsetPattern::Uniform | OffsetPattern::Zones(_) | OffsetPattern::Zipf { .. }
    );
    if group.mix.len() > 1 && follows_order {
        return Err(refuse(format!(
            "'{}' mixes turns at given times along one stream of offsets; fio needs one job for each turn, with a stream of its own",
            group.name
        )));
    }
    match arrival {
        ArrivalProcess::Envelope(segments) => {
            if group.work != BlockIoStopCondition::Time {
                return Err(refuse(format!("'{}' ends inside its envelope", group.name)));
            }
            let mut left = length;
            let mut all = Vec::new();
            for (at, segment) in segments
                .iter()
                .cycle()
                .take(segments.len().max(1) * 100)
                .enumerate()
            {
                if left == Nanos(0) {
                    break;
                }
                let span = segment.length.min(left);
                left = left - span;
                let named = BlockIoGroup {
                    name: format!("{} {}", group.name, at + 1),
                    pace: mean_pace(segment),
                    ..group.clone()
                };
                let parts = by_turn(&named, Some(span));
                all.extend(
                    parts
                        .into_iter()
                        .enumerate()
                        .map(|(turn, part)| (part, at > 0 && turn == 0)),
                );
            }
            Ok(all)
        }
        _ => Ok(by_turn(group, None)
            .into_iter()
            .map(|part| (part, false))
            .collect()),
    }
}

/// The Poisson process with the mean rate of a segment.
fn mean_pace(segment: &ArrivalRateSegment) -> BlockIoPacing {
    BlockIoPacing::Open(ArrivalProcess::Poisson {
        per_s: f64::midpoint(segment.from_per_s, segment.to_per_s),
    })
}

fn by_turn(group: &BlockIoGroup, span: Option<Nanos>) -> Vec<FioGroupPart> {
    let all: f64 = group.mix.iter().map(|turn| turn.weight).sum();
    let mean = mean_bytes(&group.mix, None);
    let part = |turn: &BlockIoMixEntry| {
        let share = ratio(turn.weight, all);
        let pace = match &group.pace {
            BlockIoPacing::Open(ArrivalProcess::Paced { per_s }) => {
                BlockIoPacing::Open(ArrivalProcess::Paced {
                    per_s: per_s * share,
                })
            }
            BlockIoPacing::Open(ArrivalProcess::Poisson { per_s }) => {
                BlockIoPacing::Open(ArrivalProcess::Poisson {
                    per_s: per_s * share,
                })
            }
            other => other.clone(),
        };
        let name = match group.mix.len() {
            1 => group.name.clone(),
            _ => format!("{} {:?} {}", group.name, turn.kind, turn.bytes).to_lowercase(),
        };
        let work = match group.work {
            BlockIoStopCondition::Each(turns) => {
                BlockIoStopCondition::Each(round_u64(turns as f64 * share).max(1))
            }
            BlockIoStopCondition::Bytes(bytes) => {
                let own = f64::from(turn.bytes) * share;
                BlockIoStopCondition::Bytes(round_u64(bytes as f64 * ratio(own, mean)).max(1))
            }
            other => other,
        };
        let group = BlockIoGroup {
            name,
            mix: vec![*turn],
            pace,
            work,
            ..group.clone()
        };
        FioGroupPart { group, span }
    };
    group.mix.iter().map(part).collect()
}

fn place(group: &BlockIoGroup, lines: &mut Lines) -> Result<(), ClassicsError> {
    let extent = &group.extent;
    let largest = group
        .mix
        .iter()
        .map(|turn| u64::from(turn.bytes))
        .max()
        .unwrap_or(1);
    if extent.shared {
        lines.add("filename", &extent.file);
    } else {
        lines.add("filename_format", format!("{}.$jobnum", extent.file));
    }
    match extent.region {
        BlockIoRegion::Whole => lines.add("size", extent.bytes),
        BlockIoRegion::Part => {
            let part = extent.bytes / u64::from(group.workers.max(1)) / largest * largest;
            if part == 0 {
                return Err(refuse(format!(
                    "'{}' has parts smaller than a block",
                    group.name
                )));
            }
            lines.add("size", part);
            lines.add("offset_increment", part);
        }
    }
    let writes = group
        .mix
        .iter()
        .any(|turn| turn.kind == BlockIoOpKind::Write);
    if writes && extent.made == BlockIoFileCreation::Before {
        lines.add("overwrite", 1);
    }
    Ok(())
}

/// fio submits one operation at a time by default, and the kernel merges neighbours
/// only of those that it gets together.
fn batch(group: &BlockIoGroup, lines: &mut Lines) {
    let most = match group.batch {
        0 => BATCH_DEFAULT,
        most => most,
    };
    if group.depth > 1 && most > 1 {
        lines.add("iodepth_batch_submit", most.min(group.depth));
    }
}

fn syncs(group: &BlockIoGroup, lines: &mut Lines) -> Result<(), ClassicsError> {
    if group.syncs.each_write {
        lines.add("sync", "dsync");
    }
    if group.syncs.every > 0 {
        match group.syncs.with {
            SyncKind::Fsync => lines.add("fsync", group.syncs.every),
            SyncKind::Fdatasync => lines.add("fdatasync", group.syncs.every),
            SyncKind::SyncRange => {
                return Err(refuse(format!(
                    "'{}' syncs ranges; use fdatasync",
                    group.name
                )));
            }
        }
    }
    if group.finish.contains(&BlockIoFinalOp::Fsync) {
        lines.add("end_fsync", 1);
    }
    Ok(())
}

fn content(group: &BlockIoGroup, lines: &mut Lines) {
    lines.add("refill_buffers", 1);
    for (name, share) in [
        ("buffer_compress_percentage", group.content.compressible),
        ("dedupe_percentage", group.content.duplicate),
    ] {
        if share > 0.0 {
            lines.add(name, round_u64(share * 100.0));
        }
    }
}

fn work(
    group: &BlockIoGroup,
    length: Nanos,
    limited: bool,
    lines: &mut Lines,
) -> Result<(), ClassicsError> {
    let one_size = group
        .mix
        .iter()
        .all(|turn| turn.bytes == group.mix[0].bytes);
    let runtime =
        |lines: &mut Lines| lines.add("runtime", format!("{}ms", length.0.div_ceil(1_000_000)));
    match group.work {
        BlockIoStopCondition::Time => {
            lines.add("time_based", 1);
            runtime(lines);
        }
        BlockIoStopCondition::Pass if limited => runtime(lines),
        BlockIoStopCondition::Pass => {}
        BlockIoStopCondition::Each(turns) if one_size => {
            lines.add(
                "io_size",
                turns.saturating_mul(u64::from(group.mix[0].bytes)),
            );
            if limited {
                runtime(lines);
            }
        }
        BlockIoStopCondition::Bytes(bytes) => {
            lines.add("io_size", bytes);
            if limited {
                runtime(lines);
            }
        }
        BlockIoStopCondition::Each(_) => {
            return Err(refuse(format!(
                "'{}' ends after a number of turns of several sizes; fio counts bytes",
                group.name
            )));
        }
        BlockIoStopCondition::Together(_) => {
            return Err(refuse(format!(
                "'{}' ends after a number of turns of all workers together; fio's jobs each count their own",
                group.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
