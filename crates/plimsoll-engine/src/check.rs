// SPDX-License-Identifier: Apache-2.0
//! Whether a workload can be carried out in a place, before anything is done.

use plimsoll_core::model::{IoDirection, WorkloadModel};
use plimsoll_core::offsets::{MAP_BLOCKS_MAX, OffsetPattern};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::{Nanos, size};
use plimsoll_core::workload::blocks::{
    ArrivalProcess, ArrivalRateSegment, BlockIoFileCreation, BlockIoGroup, BlockIoOpKind,
    BlockIoPacing, BlockIoStopCondition, BlockIoWorkload,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseWorkload};
use plimsoll_core::workload::{FileLoop, Workload};

use crate::blocks;
use crate::engine::POOL_BYTES_MAX;
use crate::error::EngineError;
use crate::file_loop;
use crate::ground::OpenTarget;
use crate::memory;
use crate::nfs;

/// Limits of reads and writes that may come from a file written by hand: beyond them memory would
/// run out, also on engines that lower the depth.
const DEPTH_MAX: u32 = 1 << 16;
const BLOCK_BYTES_MAX: u32 = 1 << 28;
const GROUPS_MAX: usize = 1 << 10;
/// Highest rate: one turn per nanosecond of the clock.
const PER_S_MAX: f64 = 1e9;

/// Whether `workload` can be carried out there.
pub(crate) fn check_workload(ground: &OpenTarget, workload: &Workload) -> Result<(), EngineError> {
    let align = ground.align();
    WorkloadChecker { ground, align }.workload(workload)
}

/// The target and the alignment that a workload is checked against.
pub(crate) struct WorkloadChecker<'a> {
    pub(crate) ground: &'a OpenTarget,
    pub(crate) align: u32,
}

impl WorkloadChecker<'_> {
    pub(crate) fn workload(&self, workload: &Workload) -> Result<(), EngineError> {
        if !self.align.is_power_of_two() {
            let text = format!("the alignment {} is not a power of two", self.align);
            return Err(EngineError::Workload(text));
        }
        match workload {
            Workload::Model(model) => self.model(model),
            Workload::Blocks(blocks) => self.blocks(blocks),
            Workload::Files(files) => self.files(files),
            Workload::Series(series) => self.series(series),
            Workload::Commands(commands) => Err(EngineError::Workload(format!(
                "'{}': programs are not run by this engine",
                commands.name
            ))),
        }
    }

    fn series(&self, series: &PhaseSeries) -> Result<(), EngineError> {
        if series.phases.is_empty() {
            let text = format!("'{}' has no phase", series.name);
            return Err(EngineError::Workload(text));
        }
        for phase in &series.phases {
            match &phase.body {
                PhaseWorkload::Blocks(blocks) => {
                    self.blocks(blocks)?;
                    if let Some(limit) = phase.limit {
                        check_delays(blocks, limit).map_err(|e| e.in_phase(&phase.name))?;
                    }
                }
                PhaseWorkload::Files(files) => self.files(files)?,
            }
        }
        Ok(())
    }

    fn files(&self, files: &FileLoop) -> Result<(), EngineError> {
        if let OpenTarget::Storage {
            directory: None,
            data,
            ..
        } = self.ground
        {
            let text = format!("'{}' needs a directory, not {}", files.name, data.display());
            return Err(EngineError::Workload(text));
        }
        file_loop::check(files, self.align)?;
        let threads = u64::from(files.threads());
        // A thread's buffer holds a piece of the largest operation.
        memory::check_space(&files.name, threads, threads << 20)
    }

    fn model(&self, model: &WorkloadModel) -> Result<(), EngineError> {
        let set = model.facts.working_set_bytes.value;
        let fault = |text: String| Err(EngineError::Workload(format!("'{}': {text}", model.name)));
        if set < u64::from(self.align) {
            return fault(format!(
                "its working set of {set} bytes is smaller than one block of {} bytes",
                self.align
            ));
        }
        for direction in IoDirection::BOTH {
            if let Some(text) = fault_of_offsets(model.facts.offsets_of(direction)) {
                return fault(text);
            }
        }
        if model
            .facts
            .threads
            .is_some_and(|threads| threads.value == 0)
        {
            return fault("it has no threads; give 1 or more, or leave them out".into());
        }
        if let Some(packed) = &model.requests
            && packed.bytes().is_none()
        {
            return fault(format!("its requests ({}) were not read", packed.file));
        }
        self.fits(&model.name, set)
    }

    fn blocks(&self, blocks: &BlockIoWorkload) -> Result<(), EngineError> {
        if blocks.groups.is_empty() || blocks.groups.len() > GROUPS_MAX {
            let text = format!("'{}' needs 1 to {GROUPS_MAX} groups", blocks.name);
            return Err(EngineError::Workload(text));
        }
        let (mut threads, mut buffer_bytes) = (0u64, 0u64);
        for (index, group) in blocks.groups.iter().enumerate() {
            if blocks.groups[..index].iter().any(|g| g.name == group.name) {
                let (name, group) = (&blocks.name, &group.name);
                let text = format!("'{name}': two groups are called '{group}'");
                return Err(EngineError::Workload(text));
            }
            let fault = self.fault_of_place(group).or_else(|| self.fault_of(group));
            if let Some(text) = fault {
                let (name, group) = (&blocks.name, &group.name);
                return Err(EngineError::Workload(format!(
                    "'{name}', group '{group}': {text}"
                )));
            }
            let workers = u64::from(group.workers);
            let each = u64::from(group.depth) * u64::from(blocks::len_max(group));
            // Buffers of one worker are limited to this; beyond it the engines lower the depth.
            let each = each.min(POOL_BYTES_MAX.max(blocks::len_max(group).into()));
            threads += workers;
            buffer_bytes = buffer_bytes.saturating_add(workers.saturating_mul(each));
        }
        self.fits(&blocks.name, blocks.data_set_bytes())?;
        match self.ground {
            OpenTarget::Storage { .. } => {
                memory::check_space(&blocks.name, threads, buffer_bytes)?;
                memory::check(&blocks.name, threads, buffer_bytes)
            }
            OpenTarget::Nfs(_) => {
                let bytes = buffer_bytes.saturating_mul(nfs::COPIES);
                let kept = threads.saturating_mul(nfs::KEPT_BYTES_ALL);
                memory::check(&blocks.name, threads, bytes.saturating_add(kept))
            }
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => {
                memory::check(&blocks.name, threads, 0)
            }
        }
    }

    /// No offset beyond what the system can name, nor beyond the end of a device.
    fn fits(&self, name: &str, bytes: u64) -> Result<(), EngineError> {
        let whole = bytes.checked_next_multiple_of(4096);
        if whole.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            let text = format!("'{name}': {bytes} bytes of data are too many");
            return Err(EngineError::Workload(text));
        }
        match self.ground {
            OpenTarget::Storage {
                device: Some(device),
                data,
                ..
            } if bytes > device.bytes => {
                let (wants, has) = (size(bytes as f64), size(device.bytes as f64));
                let path = data.display();
                Err(EngineError::Workload(format!(
                    "'{name}' works on {wants}, and '{path}' has {has}; give it a smaller size"
                )))
            }
            _ => Ok(()),
        }
    }

    fn fault_of_place(&self, group: &BlockIoGroup) -> Option<String> {
        if matches!(
            self.ground,
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_)
        ) {
            return None;
        }
        let name = &group.extent.file;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
            return Some(format!(
                "'{name}' cannot name a file here: use letters, digits, '.', '_' and '-'"
            ));
        }
        if let OpenTarget::Storage {
            directory: None,
            data,
            ..
        } = self.ground
            && !group.extent.shared
            && group.workers > 1
        {
            let path = data.display();
            return Some(format!(
                "a file for each worker needs a directory, not {path}"
            ));
        }
        None
    }

    fn fault_of(&self, group: &BlockIoGroup) -> Option<String> {
        let extent = &group.extent;
        let traced = match &group.pace {
            BlockIoPacing::Open(ArrivalProcess::Trace(traced)) => &traced[..],
            _ => &[],
        };
        let block = blocks::len_max(group);
        let smallest = group.mix.iter().map(|turn| turn.bytes).min();
        if group.workers == 0 || group.depth == 0 {
            return Some("it needs a worker and a depth of at least 1".into());
        }
        if traced.is_empty() && smallest.unwrap_or(0) == 0 {
            return Some("it needs something to do, of at least one byte".into());
        }
        if group.depth > DEPTH_MAX || block > BLOCK_BYTES_MAX {
            let block = BLOCK_BYTES_MAX >> 20;
            return Some(format!(
                "it may have a depth of at most {DEPTH_MAX} and blocks of at most {block} MiB"
            ));
        }
        if blocks::bounds(group, 0).bytes < u64::from(block) {
            let bytes = extent.bytes;
            return Some(format!(
                "a block of {block} bytes does not fit into the part of a worker (file of {bytes} bytes)"
            ));
        }
        let outside = |op: &&_| end_of(op) > extent.bytes;
        if let Some(op) = traced.iter().find(outside) {
            let (end, bytes) = (end_of(op), extent.bytes);
            return Some(format!(
                "the trace goes to byte {end}, and the file has {bytes} bytes"
            ));
        }
        if let Some(op) = traced.iter().find(|op| !is_of_blocks(op.kind)) {
            return Some(format!("a trace of blocks has no operation '{}'", op.kind));
        }
        if blocks::map_blocks(group) > MAP_BLOCKS_MAX {
            return Some(
                "an order without replacement of several sizes needs too much memory for so many \
                 blocks: draw them with replacement"
                    .into(),
            );
        }
        self.fault_of_alignment(group)
            .or_else(|| fault_of_shares(group))
            .or_else(|| fault_of_offsets(&group.offsets))
            .or_else(|| fault_of_pace(&group.pace))
            .or_else(|| fault_of_work(group.work))
    }

    fn fault_of_alignment(&self, group: &BlockIoGroup) -> Option<String> {
        if !(group.direct && self.ground.can_bypass_cache()) {
            return None;
        }
        let align = self.align;
        let odd = |bytes: u64| !bytes.is_multiple_of(align.into());
        if let Some(turn) = group.mix.iter().find(|turn| odd(turn.bytes.into())) {
            return Some(format!(
                "direct I/O here needs blocks of a multiple of {align} bytes, not {}",
                turn.bytes
            ));
        }
        if let BlockIoPacing::Open(ArrivalProcess::Trace(traced)) = &group.pace
            && let Some(op) = traced
                .iter()
                .find(|op| odd(op.offset) || odd(op.bytes.into()))
        {
            return Some(format!(
                "direct I/O here needs multiples of {align} bytes, and the trace has {} at {}",
                op.bytes, op.offset
            ));
        }
        match group.offsets {
            OffsetPattern::Strided { stride_bytes } if odd(stride_bytes) => Some(format!(
                "direct I/O here needs a stride of a multiple of {align} bytes, not {stride_bytes}"
            )),
            _ => None,
        }
    }
}

fn end_of(op: &plimsoll_core::op::TraceAccess) -> u64 {
    op.offset.saturating_add(op.bytes.into())
}

fn is_of_blocks(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Read
            | OpKind::Write
            | OpKind::Append
            | OpKind::Fsync
            | OpKind::Fdatasync
            | OpKind::SyncRange
            | OpKind::Discard
    )
}

/// Weights and shares. Comparisons with NaN are false, so it is in no range.
fn fault_of_shares(group: &BlockIoGroup) -> Option<String> {
    let weight_ok = |weight: f64| weight.is_finite() && weight >= 0.0;
    let weights: f64 = group.mix.iter().map(|turn| turn.weight).sum();
    let each_ok = group.mix.iter().all(|turn| weight_ok(turn.weight));
    let all_ok = each_ok && weights.is_finite() && weights > 0.0;
    if !(group.mix.is_empty() || all_ok) {
        return Some(
            "the weights of its operations (such as the share of reads) must be 0 or more, and not all 0"
                .into(),
        );
    }
    let share = 0.0..=1.0;
    let content = &group.content;
    if !share.contains(&content.compressible) || !share.contains(&content.duplicate) {
        return Some("shares of its contents must be within 0 and 1".into());
    }
    let appends = group
        .mix
        .iter()
        .any(|turn| turn.kind == BlockIoOpKind::Append);
    (appends && group.extent.made == BlockIoFileCreation::Before).then(|| {
        "it appends to a file that exists before the run: create the file during the run".into()
    })
}

fn fault_of_offsets(offsets: &OffsetPattern) -> Option<String> {
    match offsets {
        OffsetPattern::Zipf { exponent } if !(0.0..=10.0).contains(exponent) => {
            Some("the exponent of a Zipf law must be within 0 and 10".into())
        }
        OffsetPattern::Zones(zones) => {
            let access: f64 = zones.iter().map(|zone| zone.access).sum();
            let size: f64 = zones.iter().map(|zone| zone.size).sum();
            let is_ok = |share: f64| share.is_finite() && share >= 0.0;
            let all_ok = zones.iter().all(|z| is_ok(z.access) && is_ok(z.size));
            let sums_ok = [access, size].iter().all(|s| s.is_finite() && *s > 0.0);
            (!all_ok || !sums_ok)
                .then(|| "shares of zones must be 0 or more, and not all 0".to_string())
        }
        OffsetPattern::Runs { blocks: 0 } | OffsetPattern::Strided { stride_bytes: 0 } => {
            Some("runs and strides must be longer than 0".into())
        }
        _ => None,
    }
}

fn fault_of_work(work: BlockIoStopCondition) -> Option<String> {
    matches!(
        work,
        BlockIoStopCondition::Each(0)
            | BlockIoStopCondition::Together(0)
            | BlockIoStopCondition::Bytes(0)
    )
    .then(|| "its work is 0 operations or bytes: give at least 1, or a time".into())
}

/// A group that begins only when everything is over would silently be missing.
///
/// # Errors
/// Names the first group whose delay is not shorter than `length`.
pub(crate) fn check_delays(blocks: &BlockIoWorkload, length: Nanos) -> Result<(), EngineError> {
    match blocks.groups.iter().find(|group| group.delay >= length) {
        None => Ok(()),
        Some(group) => Err(EngineError::Workload(format!(
            "'{}', group '{}': its delay is {}, and the run ends after {length}; give more time or \
             a shorter delay",
            blocks.name, group.name, group.delay
        ))),
    }
}

fn fault_of_pace(pace: &BlockIoPacing) -> Option<String> {
    let rate_ok = |per_s: f64| per_s > 0.0 && per_s <= PER_S_MAX;
    let segment_ok = |s: &ArrivalRateSegment| {
        let is_ok = |per_s: f64| (0.0..=PER_S_MAX).contains(&per_s);
        is_ok(s.from_per_s) && is_ok(s.to_per_s)
    };
    let has_mass = |s: &ArrivalRateSegment| s.length.0 > 0 && s.from_per_s + s.to_per_s > 0.0;
    let is_ok = match pace {
        BlockIoPacing::Closed { .. } | BlockIoPacing::Open(ArrivalProcess::Trace(_)) => true,
        BlockIoPacing::Open(
            ArrivalProcess::Paced { per_s } | ArrivalProcess::Poisson { per_s },
        ) => rate_ok(*per_s),
        BlockIoPacing::Open(ArrivalProcess::Batch { per_s, size }) => rate_ok(*per_s) && *size > 0,
        BlockIoPacing::Open(ArrivalProcess::OnOff { per_s, on, .. }) => rate_ok(*per_s) && on.0 > 0,
        BlockIoPacing::Open(ArrivalProcess::Envelope(segments)) => {
            segments.iter().all(segment_ok) && segments.iter().any(has_mass)
        }
    };
    (!is_ok).then(|| {
        "its rate must be above 0 and at most 1e9 per second, and its phases longer than 0".into()
    })
}
