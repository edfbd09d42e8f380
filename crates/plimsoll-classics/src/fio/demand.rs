// SPDX-License-Identifier: Apache-2.0
//! Demand of the jobs of a file on the storage: rates and sizes by direction, read as fio reads
//! them, with the traps of its language named where a job falls into one.
//!
//! Options that change neither (engines, directories, schedulers, seeds) are passed over, so that a
//! job can be held against a recording that could not be run here.

use plimsoll_core::num::ratio;
use plimsoll_core::units::Nanos;

use super::ini::{self, FioSection};
use super::options::FioSectionOptions;
use super::section::SYNCHRONOUS;
use super::value;
use crate::error::ClassicsError;

/// Most jobs of a section.
const JOBS_MAX: u64 = 4096;

/// Load that a section asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct FioRateSpec {
    /// Its name.
    pub name: String,
    /// How many jobs do this; all rates are of one of them.
    pub jobs: u64,
    /// Reads of each job; `None` when it reads nothing.
    pub read: Option<FioDirectionRate>,
    /// Writes of each job; `None` when it writes nothing.
    pub write: Option<FioDirectionRate>,
    /// Whether operations come as a Poisson process.
    pub poisson: bool,
    /// Options that act otherwise than they seem to, one sentence each.
    pub traps: Vec<String>,
}

/// One direction of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FioDirectionRate {
    /// Operations per second asked for.
    pub ops_per_s: f64,
    /// Mean bytes of an operation.
    pub mean_bytes: f64,
    /// Operations per second that fio's pacing lets through: with `rate_iops` and several sizes its
    /// default pacing counts bytes, of the smallest size.
    pub paced_ops_per_s: f64,
}

/// A section by its name, and what it asks for.
pub type FioNamedRateSpec = (String, Result<FioRateSpec, ClassicsError>);

/// Reads what the sections of a job file ask for: each by its name, in order.
///
/// # Errors
/// The first line that is no line of a job file. For a section: an option that cannot be understood,
/// or no rate: then it goes as fast as the storage lets it, and there is nothing to hold against a
/// recording.
pub fn demands(text: &str) -> Result<Vec<FioNamedRateSpec>, ClassicsError> {
    let sections = ini::sections(text)?;
    let named = sections.iter().map(|s| (s.name.clone(), demand(s)));
    Ok(named.collect())
}

/// A direction in the lists of fio's options.
#[derive(Debug, Clone, Copy)]
struct FioDirection {
    place: usize,
    name: &'static str,
}

const READ: FioDirection = FioDirection {
    place: 0,
    name: "reads",
};
const WRITE: FioDirection = FioDirection {
    place: 1,
    name: "writes",
};

fn demand(section: &FioSection) -> Result<FioRateSpec, ClassicsError> {
    let options = FioSectionOptions(section);
    let mut traps = Vec::new();
    let jobs = options
        .value("numjobs", |text| value::count(text, 1, JOBS_MAX))?
        .unwrap_or(1);
    let rw = options.text("rw", "read");
    let word = rw.split_once(':').map_or(rw, |(word, _)| word);
    let (reads, writes) = match word.strip_prefix("rand").unwrap_or(word) {
        "read" => (true, false),
        "write" => (false, true),
        "rw" | "readwrite" => (true, true),
        _ => return Err(options.wrong("rw", "expected reads, writes or both")),
    };
    let poisson = options.text("rate_process", "linear") == "poisson";
    let mut way = |way: FioDirection, is_there: bool| {
        is_there
            .then(|| stream(options, way, poisson, &mut traps))
            .transpose()
    };
    let (read, write) = (way(READ, reads)?, way(WRITE, writes)?);
    if jobs > 1 {
        let text = format!(
            "numjobs={jobs}: each of the {jobs} jobs has the rates for itself, so the load is {jobs} times what is written"
        );
        traps.push(text);
    }
    depth(options, &mut traps)?;
    Ok(FioRateSpec {
        name: section.name.clone(),
        jobs,
        read,
        write,
        poisson,
        traps,
    })
}

fn depth(options: FioSectionOptions<'_>, traps: &mut Vec<String>) -> Result<(), ClassicsError> {
    let depth = options
        .value("iodepth", |text| value::count(text, 1, JOBS_MAX))?
        .unwrap_or(1);
    let engine = options.text("ioengine", "psync");
    if depth > 1 && SYNCHRONOUS.contains(&engine) {
        traps.push(format!(
            "iodepth={depth}: ioengine={engine} has one operation in flight whatever it says"
        ));
    }
    Ok(())
}

fn stream(
    options: FioSectionOptions<'_>,
    way: FioDirection,
    poisson: bool,
    traps: &mut Vec<String>,
) -> Result<FioDirectionRate, ClassicsError> {
    let sizes = sizes(options, way, traps)?;
    let share: f64 = sizes.iter().map(|(_, share)| share).sum();
    let sum: f64 = sizes
        .iter()
        .map(|(bytes, share)| *bytes as f64 * share)
        .sum();
    let mean_bytes = ratio(sum, share);
    let smallest = sizes.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0) as f64;
    let own = |text: &str, read: fn(&str) -> Result<u64, String>| {
        let text = value::by_direction(text, way.place).to_owned();
        read(&text).map(|number| number as f64)
    };
    let by_ops = options.value("rate_iops", |text| own(text, value::per_second))?;
    let by_bytes = options.value("rate", |text| own(text, value::size))?;
    let (ops_per_s, paced_ops_per_s) = match (by_ops, by_bytes) {
        (Some(ops), None) if poisson => (ops, ops),
        (Some(ops), None) => (ops, ops * ratio(smallest, mean_bytes)),
        (None, Some(bytes)) => {
            let ops = ratio(bytes, mean_bytes);
            (ops, ops)
        }
        (Some(_), Some(_)) => {
            return Err(options.wrong("rate", "there is a rate_iops too; keep one of them"));
        }
        (None, None) => {
            let most = thinking(options)?;
            (most, most)
        }
    };
    if ops_per_s - paced_ops_per_s > ops_per_s * 0.005 {
        traps.push(format!(
            "rate_iops of {}: fio paces it as {ops_per_s:.0} blocks of the smallest size ({smallest:.0} bytes) a second, which is {paced_ops_per_s:.1} operations of {mean_bytes:.0} bytes; rate_process=poisson would not",
            way.name
        ));
    }
    Ok(FioDirectionRate {
        ops_per_s,
        mean_bytes,
        paced_ops_per_s,
    })
}

/// The most operations per second that think time lets through, on a storage that takes no time.
fn thinking(options: FioSectionOptions<'_>) -> Result<f64, ClassicsError> {
    let think = options
        .value("thinktime", |text| value::time(text, Nanos(1_000)))?
        .filter(|think| *think > Nanos(0));
    let blocks = options
        .value("thinktime_blocks", |text| value::count(text, 1, 1 << 30))?
        .unwrap_or(1);
    let Some(think) = think else {
        return Err(options.wrong(
            "rate",
            "it sets no rate and no think time, so it goes as fast as the storage lets it: there is no load to hold against a recording",
        ));
    };
    Ok(ratio(blocks as f64, think.as_secs_f64()))
}

/// Sizes of a direction with their shares, as fio takes them: lists of directions stand between
/// commas, the last entry of a list takes what the shares leave.
fn sizes(
    options: FioSectionOptions<'_>,
    way: FioDirection,
    traps: &mut Vec<String>,
) -> Result<Vec<(u64, f64)>, ClassicsError> {
    let Some(option) = options.find("bssplit") else {
        let text = value::by_direction(options.text("bs", "4k"), way.place);
        let bytes = value::size(text).map_err(|reason| options.wrong("bs", &reason))?;
        return Ok(vec![(bytes, 1.0)]);
    };
    // Everything behind the second comma is of trims.
    let lists: Vec<&str> = option.value.splitn(3, ',').collect();
    let list = match lists.get(way.place) {
        Some(list) => list,
        None => lists[0],
    };
    let mut sizes = parts(list).map_err(|reason| option.wrong(reason))?;
    let told: f64 = sizes.iter().map(|(_, share)| share).sum();
    if told <= 0.0 || told > 1.0 + 1e-9 {
        return Err(option.wrong(format!(
            "the shares of its list for {} ('{list}') add up to {:.0} percent",
            way.name,
            told * 100.0
        )));
    }
    if told < 1.0 - 1e-9 {
        traps.push(format!(
            "bssplit: commas part directions, so the list for {} is '{list}', whose shares add up to {:.0} percent; its last size takes the rest",
            way.name,
            told * 100.0
        ));
        if let Some((_, share)) = sizes.last_mut() {
            *share += 1.0 - told;
        }
    }
    Ok(sizes)
}

/// The sizes of one list; those without a share divide what the others leave.
fn parts(list: &str) -> Result<Vec<(u64, f64)>, String> {
    let mut told = Vec::new();
    for part in list.split(':').filter(|part| !part.is_empty()) {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        let share = match share.trim() {
            "" => None,
            text => Some(value::count(text, 0, 100)? as f64 / 100.0),
        };
        told.push((value::size(bytes.trim())?, share));
    }
    let sum: f64 = told.iter().filter_map(|(_, share)| *share).sum();
    let open = told.iter().filter(|(_, share)| share.is_none()).count();
    let rest = ratio((1.0 - sum).max(0.0), open as f64);
    let all = told
        .into_iter()
        .map(|(bytes, share)| (bytes, share.unwrap_or(rest)));
    Ok(all.filter(|(_, share)| *share > 0.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> FioRateSpec {
        demands(text).unwrap().remove(0).1.unwrap()
    }

    /// The figures are what fio 3.33 did with these lines on its null engine, a job alone.
    #[test]
    fn sizes_and_rates_are_those_that_fio_takes() {
        let job = "[db]\nreadwrite=rw\nrwmixread=64\nnumjobs=4\nnrfiles=4\niodepth=2\n\
            rate_iops=145,82\nbssplit=4k/5,4k/5:8k/90,8k/90:16k/5,16k/5\n";
        let demand = only(job);
        let (read, write) = (demand.read.unwrap(), demand.write.unwrap());
        assert_eq!((read.mean_bytes, read.paced_ops_per_s), (4_096.0, 145.0));
        assert!((write.mean_bytes / 8_033.0 - 1.0).abs() < 0.01, "{write:?}");
        assert!(
            (write.paced_ops_per_s / 41.9 - 1.0).abs() < 0.01,
            "{write:?}"
        );
        assert!((write.ops_per_s - 82.0).abs() < 1e-9);
        let told = demand.traps.join("\n");
        for part in [
            "numjobs=4",
            "list for reads is '4k/5'",
            "5 percent",
            "rate_iops of writes",
            "iodepth=2",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let poisson = only(&format!("{job}rate_process=poisson\n"));
        let write = poisson.write.unwrap();
        assert!((write.paced_ops_per_s - 82.0).abs() < 1e-9 && poisson.poisson);
    }

    #[test]
    fn rates_in_bytes_and_think_time_are_rates_too() {
        let nas = only("[n]\nrw=read\nrate=2521k\nbssplit=4k/5:8k/5:30k/80:60k/5:64k/5\n");
        let read = nas.read.unwrap();
        assert!((read.mean_bytes - 31_539.2).abs() < 0.1, "{read:?}");
        assert!((read.ops_per_s * read.mean_bytes - 2_521.0 * 1_024.0).abs() < 0.1);
        assert_eq!((nas.write, nas.jobs), (None, 1));
        assert!(nas.traps.is_empty(), "{:?}", nas.traps);
        let log = only("[l]\nrw=write\nbs=64k\nthinktime=10000000\nthinktime_blocks=150\n");
        let write = log.write.unwrap();
        assert!((write.ops_per_s - 15.0).abs() < 1e-9, "{write:?}");
    }

    #[test]
    fn what_says_no_load_is_refused() {
        for (text, word) in [
            ("[a]\nrw=read\n", "no rate"),
            ("[a]\nrw=trim\nrate=1m\n", "expected reads"),
            (
                "[a]\nrw=read\nrate=1m\nbssplit=4k/60:8k/50\n",
                "110 percent",
            ),
            ("[a]\nrw=read\nrate=1m\nrate_iops=3\n", "keep one"),
        ] {
            let error = demands(text).unwrap().remove(0).1.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
