// SPDX-License-Identifier: Apache-2.0
//! A job file as a workload. Jobs that run together are the groups of one phase; `stonewall` and
//! `wait_for` begin the next. A file without phases and times is plain block I/O.

use plimsoll_core::comparison::Metric;
use plimsoll_core::offsets::Offsets;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Blocks, Group, Made, TurnKind};
use plimsoll_core::workload::series::{Body, Phase, Series};
use std::collections::BTreeMap;

use super::ini;
use super::section::{Part, part};
use crate::error::Error;

/// A job file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What it asks for.
    pub workload: Workload,
    /// Where that differs from what fio does, one sentence each, with the name of the job.
    pub notes: Vec<String>,
}

/// Reads a job file of fio (options as in version 3.33). `name` is what reports call the workload.
///
/// # Errors
/// The first line that is not understood, or that asks for something this program cannot do.
pub fn job(name: &str, text: &str) -> Result<Job, Error> {
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
    let plain = |wave: &Vec<Part>| wave.iter().all(|part| part.runtime.is_none() && part.cold);
    let workload = match <[Vec<Part>; 1]>::try_from(waves) {
        Ok([wave]) if plain(&wave) => Workload::Blocks(Blocks {
            name: name.into(),
            groups: wave.into_iter().map(|part| part.group).collect(),
        }),
        Ok(waves) => Workload::Series(series(name, Vec::from(waves))?),
        Err(waves) => Workload::Series(series(name, waves)?),
    };
    Ok(Job { workload, notes })
}

/// fio lets jobs share a name; reports do not.
fn make_unique(parts: &mut [Part]) {
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
fn waves(parts: Vec<Part>) -> Result<Vec<Vec<Part>>, Error> {
    let mut waves: Vec<Vec<Part>> = Vec::new();
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
                return Err(Error::Line {
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

fn series(name: &str, waves: Vec<Vec<Part>>) -> Result<Series, Error> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut made = Files::new();
    for wave in waves {
        let limit = limit(&wave)?;
        let cold = wave.iter().any(|part| part.cold);
        for part in &wave {
            check_room(part, &made)?;
        }
        let mut groups: Vec<Group> = wave.into_iter().map(|part| part.group).collect();
        for group in groups
            .iter_mut()
            .filter(|group| made.contains_key(&group.extent.file))
        {
            group.extent.made = Made::Earlier;
        }
        for group in &groups {
            let bytes = made.entry(group.extent.file.clone()).or_default();
            *bytes = group.extent.bytes.max(*bytes);
        }
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let name = names.join(" + ");
        let blocks = Blocks {
            name: name.clone(),
            groups,
        };
        phases.push(Phase {
            name,
            metric: metric(&blocks),
            body: Body::Blocks(blocks),
            stonewall: false,
            limit,
            cold,
        });
    }
    Ok(Series {
        name: name.into(),
        classic: None,
        phases,
    })
}

/// Files that earlier phases made, with the bytes of each.
type Files = BTreeMap<String, u64>;

/// fio extends a file before the job that needs more of it; here files are laid out once, and reads
/// behind the end would fail.
fn check_room(part: &Part, made: &Files) -> Result<(), Error> {
    let Group { extent, mix, .. } = &part.group;
    let only_writes = mix.iter().all(|turn| turn.kind == TurnKind::Write);
    match made.get(&extent.file) {
        Some(bytes) if extent.bytes > *bytes && !only_writes => Err(Error::Line {
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
fn limit(wave: &[Part]) -> Result<Option<Nanos>, Error> {
    let end = |part: &Part| part.runtime.map(|runtime| part.group.delay + runtime);
    let first = end(&wave[0]);
    match wave.iter().find(|part| end(part) != first) {
        None => Ok(first),
        Some(part) => Err(Error::Line {
            line: part.line,
            reason: format!(
                "job '{}' runs together with '{}' but ends at another time; make startdelay and runtime together the same, or put stonewall between them",
                part.group.name, wave[0].group.name
            ),
        }),
    }
}

fn metric(blocks: &Blocks) -> Metric {
    if blocks.is_open_loop() {
        return Metric::MeanResponse;
    }
    let streams = |group: &Group| group.offsets == Offsets::Sequential;
    if blocks.groups.iter().all(streams) {
        Metric::BytesPerSecond
    } else {
        Metric::OpsPerSecond
    }
}

#[cfg(test)]
mod tests;
