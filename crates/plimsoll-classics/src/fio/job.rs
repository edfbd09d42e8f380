// SPDX-License-Identifier: Apache-2.0
//! A job file as a workload. Jobs that run together are the groups of one phase; `stonewall` and
//! `wait_for` begin the next. A file without phases and times is plain block I/O.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoFileCreation, BlockIoGroup, BlockIoOpKind, BlockIoWorkload,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseSpec, PhaseWorkload};
use std::collections::BTreeMap;

use super::ini;
use super::section::{FioJobSpec, part};
use crate::error::ClassicsError;

/// A job file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJobImport {
    /// The workload that it asks for.
    pub workload: Workload,
    /// Where that differs from what fio does, one sentence each, with the name of the job.
    pub notes: Vec<String>,
}

/// Reads a job file of fio (options as in version 3.33). `name` is what reports call the workload.
///
/// # Errors
/// The first line that is not understood, or that asks for something this program cannot do.
pub fn job(name: &str, text: &str) -> Result<FioJobImport, ClassicsError> {
    let sections = ini::sections(text)?;
    let mut parts = sections.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    make_unique(&mut parts);
    let notes = parts.iter().flat_map(|part| {
        part.notes
            .iter()
            .map(|note| format!("job '{}': {note}", part.group.name))
    });
    let notes = notes.collect();
    let waves = waves(parts)?;
    let plain =
        |wave: &Vec<FioJobSpec>| wave.iter().all(|part| part.runtime.is_none() && part.cold);
    let workload = match <[Vec<FioJobSpec>; 1]>::try_from(waves) {
        Ok([wave]) if plain(&wave) => Workload::Blocks(BlockIoWorkload {
            name: name.into(),
            groups: wave.into_iter().map(|part| part.group).collect(),
        }),
        Ok(waves) => Workload::Series(series(name, Vec::from(waves))?),
        Err(waves) => Workload::Series(series(name, waves)?),
    };
    Ok(FioJobImport { workload, notes })
}

/// fio lets jobs share a name; reports do not.
fn make_unique(parts: &mut [FioJobSpec]) {
    for at in 1..parts.len() {
        let (before, rest) = parts.split_at_mut(at);
        let taken = |name: &str| before.iter().any(|part| part.group.name == name);
        let plain = rest[0].group.name.clone();
        let names = (2u32..).map(|number| format!("{plain} {number}"));
        if taken(&plain) {
            rest[0].group.name = names.into_iter().find(|name| !taken(name)).unwrap_or(plain);
        }
    }
}

/// The jobs that run together, in order.
fn waves(parts: Vec<FioJobSpec>) -> Result<Vec<Vec<FioJobSpec>>, ClassicsError> {
    let mut waves: Vec<Vec<FioJobSpec>> = Vec::new();
    for part in parts {
        let Some(last) = waves.last_mut() else {
            waves.push(vec![part]);
            continue;
        };
        if let Some((awaited, line)) = &part.wait_for {
            let alone = last.len() == 1 && last[0].group.name == *awaited;
            let together = last[0]
                .wait_for
                .as_ref()
                .is_some_and(|(other, _)| other == awaited);
            if !alone && !together {
                return Err(ClassicsError::Line {
                    line: *line,
                    reason: format!(
                        "'wait_for={awaited}': only the job right before it, running by itself, can be waited for; use stonewall"
                    ),
                });
            }
            if alone {
                waves.push(vec![part]);
            } else {
                last.push(part);
            }
        } else if part.stonewall {
            waves.push(vec![part]);
        } else {
            last.push(part);
        }
    }
    Ok(waves)
}

fn series(name: &str, waves: Vec<Vec<FioJobSpec>>) -> Result<PhaseSeries, ClassicsError> {
    let mut phases: Vec<PhaseSpec> = Vec::new();
    let mut made = FioFileSizes::new();
    for wave in waves {
        let limit = limit(&wave)?;
        let cold = wave.iter().any(|part| part.cold);
        for part in &wave {
            check_room(part, &made)?;
        }
        let mut groups: Vec<BlockIoGroup> = wave.into_iter().map(|part| part.group).collect();
        for group in groups
            .iter_mut()
            .filter(|group| made.contains_key(&group.extent.file))
        {
            group.extent.made = BlockIoFileCreation::Earlier;
        }
        for group in &groups {
            let bytes = made.entry(group.extent.file.clone()).or_default();
            *bytes = group.extent.bytes.max(*bytes);
        }
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let name = names.join(" + ");
        let blocks = BlockIoWorkload {
            name: name.clone(),
            groups,
        };
        phases.push(PhaseSpec {
            name,
            metric: metric(&blocks),
            body: PhaseWorkload::Blocks(blocks),
            stonewall: false,
            limit,
            cold,
        });
    }
    Ok(PhaseSeries {
        name: name.into(),
        classic: None,
        phases,
    })
}

/// Files that earlier phases made, with the bytes of each.
type FioFileSizes = BTreeMap<String, u64>;

/// fio extends a file before the job that needs more of it; here files are laid out once, and reads
/// behind the end would fail.
fn check_room(part: &FioJobSpec, made: &FioFileSizes) -> Result<(), ClassicsError> {
    let BlockIoGroup { extent, mix, .. } = &part.group;
    let only_writes = mix.iter().all(|turn| turn.kind == BlockIoOpKind::Write);
    match made.get(&extent.file) {
        Some(bytes) if extent.bytes > *bytes && !only_writes => Err(ClassicsError::Line {
            line: part.line,
            reason: format!(
                "job '{}' needs {} bytes of file '{}', of which the jobs before make {bytes}; give them the same size",
                part.group.name, extent.bytes, extent.file
            ),
        }),
        _ => Ok(()),
    }
}

/// The time of a phase: when its jobs end, which must agree. fio counts the runtime of a job from
/// the end of its delay, a phase from its start.
fn limit(wave: &[FioJobSpec]) -> Result<Option<Nanos>, ClassicsError> {
    let end = |part: &FioJobSpec| part.runtime.map(|runtime| part.group.delay + runtime);
    let first = end(&wave[0]);
    match wave.iter().find(|part| end(part) != first) {
        None => Ok(first),
        Some(part) => Err(ClassicsError::Line {
            line: part.line,
            reason: format!(
                "job '{}' runs together with '{}' but ends at another time; make startdelay and runtime together the same, or put stonewall between them",
                part.group.name, wave[0].group.name
            ),
        }),
    }
}

fn metric(blocks: &BlockIoWorkload) -> ComparisonMetric {
    if blocks.is_open_loop() {
        return ComparisonMetric::MeanResponse;
    }
    let streams = |group: &BlockIoGroup| group.offsets == OffsetPattern::Sequential;
    if blocks.groups.iter().all(streams) {
        ComparisonMetric::BytesPerSecond
    } else {
        ComparisonMetric::OpsPerSecond
    }
}

#[cfg(test)]
mod tests;
