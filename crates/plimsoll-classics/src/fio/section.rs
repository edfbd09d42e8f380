// SPDX-License-Identifier: Apache-2.0
//! One job of a file as a group of workers, with fio's defaults: blocks of 4 KiB, one operation in
//! flight, through the page cache, every block once in random order unless `norandommap` is set.

use plimsoll_core::num::{ratio, saturating_u32};
use plimsoll_core::offsets::{MAP_BLOCKS_MAX, OffsetPattern, OffsetZone};
use plimsoll_core::syncs::{SyncKind, SyncPolicy};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoContent, BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp,
    BlockIoGroup, BlockIoMixEntry, BlockIoOffsetSharing, BlockIoOpKind, BlockIoPacing,
    BlockIoRegion, BlockIoStopCondition,
};

use super::ini::FioSection;
use super::notes::differences;
use super::options::{FioSectionOptions, check};
use super::sizes::{mean_bytes, mix};
use super::value;
use crate::error::ClassicsError;

/// Most workers, and the deepest queue of one.
const MANY: u64 = 4096;
/// Engines of fio that keep one operation in flight whatever `iodepth` says.
pub(crate) const SYNCHRONOUS: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Engines that keep `iodepth` operations in flight.
pub(super) const ASYNCHRONOUS: [&str; 4] = ["io_uring", "libaio", "posixaio", "null"];

/// A job, and its requirements on the phase that contains it.
#[derive(Debug)]
pub(crate) struct FioJobSpec {
    pub(crate) group: BlockIoGroup,
    pub(crate) line: usize,
    pub(crate) stonewall: bool,
    /// Job it waits for, and the line that says so.
    pub(crate) wait_for: Option<(String, usize)>,
    pub(crate) runtime: Option<Nanos>,
    /// Whether its file leaves the page cache before it begins.
    pub(crate) cold: bool,
    pub(crate) notes: Vec<String>,
}

/// Access pattern that `rw` gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct FioAccessPattern {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) trim: bool,
    random: bool,
    /// The number after the colon: blocks in a run when random, bytes passed over when not.
    number: Option<u64>,
    /// Whether those bytes are gone back.
    backward: bool,
}

pub(crate) fn part(section: &FioSection) -> Result<FioJobSpec, ClassicsError> {
    check(section)?;
    let options = FioSectionOptions(section);
    let mut notes = Vec::new();
    let access = access(options)?;
    let workers = options
        .value("numjobs", |text| value::count(text, 1, MANY))?
        .unwrap_or(1);
    let mix = mix(options, access)?;
    let extent = extent(options, access, workers)?;
    let runtime = options.value("runtime", |text| value::time(text, Nanos::SECOND))?;
    let direct = direct(options)?;
    let depth = depth(options, direct, &mut notes)?;
    let cold = options.flag("invalidate", true)?;
    let positions = positions(access, &mix);
    let offsets = offsets(options, access, &mix, &mut notes)?;
    let offsets = with_map(
        offsets,
        positions,
        &mix,
        (extent.bytes, workers),
        &mut notes,
    );
    let group = BlockIoGroup {
        name: section.name.clone(),
        workers: saturating_u32(workers),
        depth,
        offsets,
        pace: pace(options, access, &mix, (workers, depth))?,
        syncs: syncs(options, &mut notes)?,
        finish: if options.flag("end_fsync", false)? {
            vec![BlockIoFinalOp::Fsync]
        } else {
            Vec::new()
        },
        direct,
        content: content(options)?,
        work: work(options, &mix, runtime)?,
        delay: options
            .value("startdelay", |text| value::time(text, Nanos::SECOND))?
            .unwrap_or_default(),
        positions,
        batch: batch(options, depth)?,
        cold_every_bytes: if cold && !direct { pass(options)? } else { 0 },
        extent,
        mix,
        ..BlockIoGroup::default()
    };
    let mix_of_rates = rates(options, access)?;
    let group = weighted(group, mix_of_rates);
    notes.extend(differences(options, &group)?);
    Ok(FioJobSpec {
        group,
        line: section.line,
        stonewall: options.flag("stonewall", false)?,
        wait_for: options.find("wait_for").map(|o| (o.value.clone(), o.line)),
        runtime,
        cold,
        notes,
    })
}

fn access(options: FioSectionOptions<'_>) -> Result<FioAccessPattern, ClassicsError> {
    let text = options.text("rw", "read");
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    let random = name.starts_with("rand");
    let (read, write, trim) = match name {
        "read" | "randread" => (true, false, false),
        "write" | "randwrite" => (false, true, false),
        "trim" | "randtrim" => (false, false, true),
        "rw" | "readwrite" | "randrw" => (true, true, false),
        _ => {
            return Err(options.wrong(
                "rw",
                "expected one of read, write, trim, rw, randread, randwrite, randtrim, randrw",
            ));
        }
    };
    let backward = !random && number.is_some_and(|number| number.starts_with('-'));
    let number = number.map(|number| match backward {
        true => &number[1..],
        false => number,
    });
    let number = match number {
        Some(text) if random => Some(value::count(text, 1, 1 << 30)),
        Some(text) => Some(value::size(text)),
        None => None,
    };
    let number = number
        .transpose()
        .map_err(|reason| options.wrong("rw", &reason))?;
    Ok(FioAccessPattern {
        read,
        write,
        trim,
        random,
        number,
        backward,
    })
}

/// The kinds of turns with their place in lists by direction.
pub(super) fn kinds(access: FioAccessPattern) -> impl Iterator<Item = (BlockIoOpKind, usize)> {
    let all = [
        (access.read, BlockIoOpKind::Read, 0),
        (access.write, BlockIoOpKind::Write, 1),
        (access.trim, BlockIoOpKind::Discard, 2),
    ];
    all.into_iter()
        .filter(|(on, ..)| *on)
        .map(|(_, kind, at)| (kind, at))
}

/// Turns of one kind with the weights that these rates give their kind.
fn weighted(mut group: BlockIoGroup, rates: Option<[f64; 2]>) -> BlockIoGroup {
    let Some([read_per_s, write_per_s]) = rates else {
        return group;
    };
    let sum = |kind: BlockIoOpKind, mix: &[BlockIoMixEntry]| -> f64 {
        mix.iter()
            .filter(|turn| turn.kind == kind)
            .map(|turn| turn.weight)
            .sum()
    };
    let sums = [
        sum(BlockIoOpKind::Read, &group.mix),
        sum(BlockIoOpKind::Write, &group.mix),
    ];
    for turn in &mut group.mix {
        let at = usize::from(turn.kind == BlockIoOpKind::Write);
        turn.weight = turn.weight / sums[at] * [read_per_s, write_per_s][at];
    }
    group.mix.retain(|turn| turn.weight > 0.0);
    group
}

fn extent(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
    workers: u64,
) -> Result<BlockIoExtent, ClassicsError> {
    if options
        .value("nrfiles", |text| value::count(text, 1, 1))
        .is_err()
    {
        return Err(options.wrong("nrfiles", "each job works on one file here"));
    }
    let size = options.value("size", value::size)?;
    let whole = options.value("filesize", value::size)?;
    if let (Some(size), Some(whole)) = (size, whole)
        && size != whole
    {
        return Err(options.wrong(
            "filesize",
            "it differs from size; write size for the file and io_size for what each job moves",
        ));
    }
    let bytes = size.or(whole).filter(|bytes| *bytes > 0);
    let Some(bytes) = bytes else {
        return Err(options.wrong("size", "a job needs size=, the bytes of its file"));
    };
    let step = options.value("offset_increment", value::size)?.unwrap_or(0);
    let named = options.find("filename");
    if let Some(option) = named
        && (option.value.contains(['/', ':']) || option.value.is_empty())
    {
        return Err(option.wrong(
            "expected one name without directories: the target is given on the command line",
        ));
    }
    let (shared, region, bytes) = match (named, step) {
        (_, 0) => (named.is_some(), BlockIoRegion::Whole, bytes),
        (Some(_), step) if step == bytes => {
            let all = bytes.checked_mul(workers);
            let all =
                all.ok_or_else(|| options.wrong("size", "all jobs together are too large"))?;
            (true, BlockIoRegion::Part, all)
        }
        (Some(_), _) => {
            return Err(options.wrong(
                "offset_increment",
                "it must equal size, so that each job has a part of its own",
            ));
        }
        (None, _) => {
            return Err(options.wrong(
                "offset_increment",
                "it needs filename=, a file that the jobs share",
            ));
        }
    };
    // fio lays out nothing for a job that only writes: its file grows.
    let grows =
        access.write && !access.read && !access.random && !options.flag("overwrite", false)?;
    Ok(BlockIoExtent {
        file: named.map_or_else(
            || options.0.name.replace(['/', ' '], "-"),
            |o| o.value.clone(),
        ),
        shared,
        bytes,
        region,
        made: if grows {
            BlockIoFileCreation::During
        } else {
            BlockIoFileCreation::Before
        },
    })
}

/// Operations in flight. What libaio submits is asynchronous only around the page cache.
fn depth(
    options: FioSectionOptions<'_>,
    direct: bool,
    notes: &mut Vec<String>,
) -> Result<u32, ClassicsError> {
    let depth = options
        .value("iodepth", |text| value::count(text, 1, MANY))?
        .unwrap_or(1);
    let engine = options.text("ioengine", "psync");
    if SYNCHRONOUS.contains(&engine) {
        if depth > 1 {
            notes.push(format!("iodepth={depth} has no effect with ioengine={engine}, as in fio: one operation is in flight"));
        }
        return Ok(1);
    }
    if !ASYNCHRONOUS.contains(&engine) {
        let known = [&SYNCHRONOUS[..], &ASYNCHRONOUS[..]].concat().join(", ");
        return Err(options.wrong(
            "ioengine",
            &format!("expected one of {known}; the engine itself is chosen on the command line"),
        ));
    }
    if engine == "libaio" && !direct {
        if depth > 1 {
            notes.push(format!("iodepth={depth} has no effect with ioengine=libaio without direct=1, as in fio: through the page cache each operation ends before the next is submitted, so one is in flight (ioengine=io_uring keeps {depth})"));
        }
        return Ok(1);
    }
    Ok(saturating_u32(depth))
}

/// Operations handed to the kernel at once: one, unless the job says more; 0 says as many as are
/// in flight.
fn batch(options: FioSectionOptions<'_>, depth: u32) -> Result<u32, ClassicsError> {
    let count = |text: &str| value::count(text, 0, MANY);
    let fewest = options.value("iodepth_batch_complete_min", count)?;
    if fewest.unwrap_or(1) > 1 {
        return Err(options.wrong(
            "iodepth_batch_complete_min",
            "operations are collected as they end, one at least; take the line out",
        ));
    }
    let most = options.value("iodepth_batch", count)?.unwrap_or(1);
    Ok(match most {
        0 => depth,
        most => saturating_u32(most).min(depth),
    })
}

/// Bytes after which fio closes a job's file, opens it again and drops its pages, where the job
/// goes through it more than once; else 0.
fn pass(options: FioSectionOptions<'_>) -> Result<u64, ClassicsError> {
    let again = options.flag("time_based", false)?
        || options
            .value("loops", |text| value::count(text, 1, 1 << 30))?
            .is_some_and(|loops| loops > 1);
    if !again {
        return Ok(0);
    }
    moved(options)
}

/// Bytes that a job moves in a pass.
fn moved(options: FioSectionOptions<'_>) -> Result<u64, ClassicsError> {
    for name in ["io_size", "size", "filesize"] {
        if let Some(bytes) = options.value(name, value::size)?.filter(|bytes| *bytes > 0) {
            return Ok(bytes);
        }
    }
    Ok(0)
}

/// fio keeps a position for each direction, and draws places in units of its smallest block.
fn positions(access: FioAccessPattern, mix: &[BlockIoMixEntry]) -> BlockIoOffsetSharing {
    let one_size = mix.iter().all(|turn| turn.bytes == mix[0].bytes);
    let two_streams = access.read && access.write && !access.random;
    if one_size && !two_streams {
        BlockIoOffsetSharing::Shared
    } else {
        BlockIoOffsetSharing::ByKind
    }
}

/// The map of blocks that mixed sizes need has limits.
fn with_map(
    offsets: OffsetPattern,
    positions: BlockIoOffsetSharing,
    mix: &[BlockIoMixEntry],
    (bytes, workers): (u64, u64),
    notes: &mut Vec<String>,
) -> OffsetPattern {
    let smallest = mix.iter().map(|turn| turn.bytes).min().unwrap_or(1).max(1);
    let maps = workers.saturating_mul(3);
    let blocks = (bytes / u64::from(smallest)).saturating_mul(maps);
    if offsets != OffsetPattern::Permutation
        || positions == BlockIoOffsetSharing::Shared
        || blocks <= MAP_BLOCKS_MAX
    {
        return offsets;
    }
    notes.push("the map of the blocks that were reached would be too large: places are drawn with replacement, where fio reaches each block once".into());
    OffsetPattern::Uniform
}

fn offsets(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
    mix: &[BlockIoMixEntry],
    notes: &mut Vec<String>,
) -> Result<OffsetPattern, ClassicsError> {
    if !access.random {
        for name in ["random_distribution", "percentage_random"] {
            if options.find(name).is_some() {
                return Err(options.wrong(name, "it needs random access, such as rw=randread"));
            }
        }
        let Some(gap) = access.number.filter(|gap| *gap > 0) else {
            return Ok(OffsetPattern::Sequential);
        };
        return match mix {
            [one] if access.backward && gap == 2 * u64::from(one.bytes) => Ok(OffsetPattern::Backward),
            _ if access.backward => Err(options.wrong(
                "rw",
                "steps back are taken block by block only, which is twice the block size, such as rw=read:-8k with bs=4k",
            )),
            [one] => Ok(OffsetPattern::Strided {
                stride_bytes: u64::from(one.bytes) + gap,
            }),
            _ => Err(options.wrong("rw", "steps need one kind of access with one block size")),
        };
    }
    if let Some(blocks) = access.number.filter(|blocks| *blocks > 1) {
        return Ok(OffsetPattern::Runs { blocks });
    }
    if let Some(percent) = options.value("percentage_random", |text| value::count(text, 0, 100))? {
        match percent {
            100 => {}
            0 => return Ok(OffsetPattern::Sequential),
            _ if 100 % percent == 0 => {
                let blocks = 100 / percent;
                notes.push(format!("percentage_random={percent}: runs of exactly {blocks} blocks, where fio draws lengths with that mean"));
                return Ok(OffsetPattern::Runs { blocks });
            }
            _ => {
                return Err(options.wrong(
                    "percentage_random",
                    "only shares that divide 100 can be said as runs of whole blocks",
                ));
            }
        }
    }
    let text = options.text("random_distribution", "random");
    let wrong = |reason: &str| Err(options.wrong("random_distribution", reason));
    match text.split_once(':') {
        None if text == "random" && options.flag("norandommap", false)? => {
            Ok(OffsetPattern::Uniform)
        }
        None if text == "random" => Ok(OffsetPattern::Permutation),
        Some(("zipf", theta)) => match value::positive(theta, 9.99) {
            Ok(exponent) => Ok(OffsetPattern::Zipf { exponent }),
            Err(reason) => wrong(&format!("after zipf: {reason}")),
        },
        Some(("zoned", zones)) => match self::zones(zones) {
            Ok(zones) => Ok(OffsetPattern::Zones(zones)),
            Err(reason) => wrong(&reason),
        },
        Some(("pareto" | "normal", _)) => wrong("it has no counterpart; use zipf: or zoned:"),
        Some(("zoned_abs", _)) => wrong("write shares of the file, with zoned:"),
        _ => wrong("expected random, zipf:EXPONENT or zoned:ACCESS/SIZE:…"),
    }
}

fn zones(text: &str) -> Result<Vec<OffsetZone>, String> {
    if text.contains(',') {
        return Err("zones by direction are not supported; write two jobs".into());
    }
    let mut told = Vec::new();
    for entry in text.split(':').filter(|entry| !entry.is_empty()) {
        let Some((access, size)) = entry.split_once('/') else {
            return Err(format!(
                "invalid zone '{entry}': expected ACCESS/SIZE in percent"
            ));
        };
        let percent = |text: &str| value::count(text.trim(), 0, 100);
        let size = match size.trim() {
            "" => None,
            text => Some(percent(text)?),
        };
        told.push((percent(access)?, size));
    }
    // Zones without a size divide what the others leave; the last of them takes what is over.
    let all: u64 = told.iter().filter_map(|(_, size)| *size).sum();
    let open = told.iter().filter(|(_, size)| size.is_none()).count() as u64;
    let mut left = (100u64.saturating_sub(all), open);
    let mut zones = Vec::new();
    for (access, size) in told {
        let size = size.unwrap_or_else(|| {
            let own = left.0 / left.1.max(1);
            left = (left.0 - own, left.1.saturating_sub(1));
            own
        });
        zones.push((access, size));
    }
    let sum = |pick: fn(&(u64, u64)) -> u64| zones.iter().map(pick).sum::<u64>();
    if sum(|zone| zone.0) != 100 || sum(|zone| zone.1) != 100 || zones.iter().any(|z| z.1 == 0) {
        return Err(
            "accesses and sizes of the zones must each add up to 100 percent, and no size may be 0"
                .into(),
        );
    }
    let zone = |(access, size): &(u64, u64)| OffsetZone {
        access: *access as f64,
        size: *size as f64,
    };
    Ok(zones.iter().map(zone).collect())
}

/// Turns per second of one job for reads and writes, when the job mixes both and rates are given.
fn rates(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
) -> Result<Option<[f64; 2]>, ClassicsError> {
    if !(access.read && access.write) {
        return Ok(None);
    }
    for (name, unit) in [("rate_iops", false), ("rate", true)] {
        let Some(option) = options.find(name) else {
            continue;
        };
        let Some((read, write)) = option.value.split_once(',') else {
            return Err(option
                .wrong("a job that mixes reads and writes needs a rate for each, as READ,WRITE"));
        };
        if options
            .find("rwmixread")
            .or(options.find("rwmixwrite"))
            .is_some()
        {
            return Err(option.wrong("the rates say the mix; take rwmixread and rwmixwrite out"));
        }
        let own = mix(options, access)?;
        let rate = |text: &str, kind| -> Result<f64, ClassicsError> {
            let read = if unit { value::size } else { value::per_second };
            let number = read(text.trim()).map_err(|reason| option.wrong(reason))? as f64;
            Ok(if unit {
                ratio(number, mean_bytes(&own, Some(kind)))
            } else {
                number
            })
        };
        let both = [
            rate(read, BlockIoOpKind::Read)?,
            rate(write, BlockIoOpKind::Write)?,
        ];
        if both.iter().any(|per_s| *per_s <= 0.0) {
            return Err(option.wrong("expected two rates above 0"));
        }
        return Ok(Some(both));
    }
    Ok(None)
}

fn pace(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
    mix: &[BlockIoMixEntry],
    (workers, depth): (u64, u32),
) -> Result<BlockIoPacing, ClassicsError> {
    let each_per_s = match rates(options, access)? {
        Some(both) => Some(both.iter().sum()),
        None => one_rate(options, access, mix)?,
    };
    let think = options
        .value("thinktime", |text| value::time(text, Nanos(1_000)))?
        .unwrap_or_default();
    let every = options
        .value("thinktime_blocks", |text| value::count(text, 1, 1 << 30))?
        .unwrap_or(1);
    let poisson = match options.text("rate_process", "linear") {
        "linear" => false,
        "poisson" => true,
        _ => return Err(options.wrong("rate_process", "expected linear or poisson")),
    };
    let Some(each_per_s) = each_per_s else {
        if poisson {
            return Err(options.wrong("rate_process", "it needs rate_iops or rate"));
        }
        return Ok(BlockIoPacing::Closed {
            think,
            every: saturating_u32(every),
            // fio lets the queue run empty and the whole job think.
            drains: depth > 1 && think > Nanos(0),
        });
    };
    if think > Nanos(0) {
        return Err(options.wrong("thinktime", "a job with a rate has no think time here"));
    }
    let per_s = each_per_s * workers as f64;
    Ok(BlockIoPacing::Open(if poisson {
        ArrivalProcess::Poisson { per_s }
    } else {
        ArrivalProcess::Paced { per_s }
    }))
}

fn one_rate(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
    mix: &[BlockIoMixEntry],
) -> Result<Option<f64>, ClassicsError> {
    if options.find("rate").is_some() && options.find("rate_iops").is_some() {
        return Err(options.wrong("rate", "there is a rate_iops too; keep one of them"));
    }
    let at = kinds(access).next().map_or(0, |(_, at)| at);
    let above_zero = |number: u64| match number {
        0 => Err("expected a number above 0".to_owned()),
        number => Ok(number as f64),
    };
    let own = |text: &str| value::by_direction(text, at).to_owned();
    let ops = options.value("rate_iops", |text| {
        value::per_second(&own(text)).and_then(above_zero)
    })?;
    let bytes = options.value("rate", |text| value::size(&own(text)).and_then(above_zero))?;
    Ok(ops.or(bytes.map(|bytes| ratio(bytes, mean_bytes(mix, None)))))
}

fn syncs(
    options: FioSectionOptions<'_>,
    notes: &mut Vec<String>,
) -> Result<SyncPolicy, ClassicsError> {
    let every = |name| options.value(name, |text| value::count(text, 0, u64::from(u32::MAX)));
    let (fsync, fdatasync) = (
        every("fsync")?.unwrap_or(0),
        every("fdatasync")?.unwrap_or(0),
    );
    if fsync > 0 && fdatasync > 0 {
        return Err(options.wrong("fdatasync", "there is an fsync too; keep one of them"));
    }
    let each_write = match options.text("sync", "0") {
        "0" | "none" => false,
        "dsync" => true,
        "1" | "sync" => {
            notes.push("sync=1: each write is durable with the data needed to find it (O_DSYNC), not with its times".into());
            true
        }
        _ => return Err(options.wrong("sync", "expected one of none, sync, dsync")),
    };
    Ok(SyncPolicy {
        every: saturating_u32(fsync.max(fdatasync)),
        with: if fdatasync > 0 {
            SyncKind::Fdatasync
        } else {
            SyncKind::Fsync
        },
        each_write,
    })
}

fn direct(options: FioSectionOptions<'_>) -> Result<bool, ClassicsError> {
    let direct = options.flag("direct", false)?;
    if options.find("buffered").is_some() && options.find("direct").is_some() {
        return Err(options.wrong("buffered", "there is a direct= too; keep one of them"));
    }
    Ok(direct || !options.flag("buffered", true)?)
}

fn content(options: FioSectionOptions<'_>) -> Result<BlockIoContent, ClassicsError> {
    let share = |name| -> Result<f64, ClassicsError> {
        let percent = options.value(name, |text| value::count(text, 0, 100))?;
        Ok(percent.unwrap_or(0) as f64 / 100.0)
    };
    Ok(BlockIoContent {
        compressible: share("buffer_compress_percentage")?,
        duplicate: share("dedupe_percentage")?,
        date: false,
    })
}

/// Most operations of a job: an engine that does ten million a second needs three years for them.
const TURNS_MAX: u64 = 1_000_000_000_000_000;

/// When a worker has done its work: fio ends a job after `io_size` (else `size`) bytes, as often
/// as `loops` says, or after its time.
fn work(
    options: FioSectionOptions<'_>,
    mix: &[BlockIoMixEntry],
    runtime: Option<Nanos>,
) -> Result<BlockIoStopCondition, ClassicsError> {
    if options.flag("time_based", false)? {
        if runtime.is_none() {
            return Err(options.wrong("time_based", "it needs runtime="));
        }
        return Ok(BlockIoStopCondition::Time);
    }
    let loops = options
        .value("loops", |text| value::count(text, 1, 1 << 30))?
        .unwrap_or(1);
    let one_size = mix.iter().all(|turn| turn.bytes == mix[0].bytes);
    let plain = options.text("rw", "read").split_once(':').is_none();
    if loops == 1 && options.find("io_size").is_none() && one_size && plain {
        return Ok(BlockIoStopCondition::Pass);
    }
    let bytes = moved(options)?;
    let most = TURNS_MAX.saturating_mul(u64::from(mix[0].bytes));
    let all = bytes.checked_mul(loops).filter(|all| *all <= most);
    if !one_size && let Some(all) = all {
        return Ok(BlockIoStopCondition::Bytes(all));
    }
    let turns = bytes / u64::from(mix[0].bytes);
    let turns = turns.max(1).checked_mul(loops);
    let turns = turns.filter(|turns| *turns <= TURNS_MAX).ok_or_else(|| {
        let name = if loops > 1 { "loops" } else { "io_size" };
        options.wrong(
            name,
            "together with the block size this is more work than a job can ever do",
        )
    })?;
    Ok(BlockIoStopCondition::Each(turns))
}
