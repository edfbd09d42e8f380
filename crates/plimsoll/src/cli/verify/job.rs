// SPDX-License-Identifier: Apache-2.0
//! Sections of a job file, and which part of a recording they stand for.

use plimsoll_classics::fio::{self, FioDirectionRate, FioRateSpec};
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::model::{FidelityCheck, FidelityReport};
use plimsoll_core::units::Nanos;
use plimsoll_fit::{
    ConstantRate, ConstantRateLoad, FidelityLoad, FidelityReference, RecordingSelection,
};
use std::path::Path;

use super::on_null;

/// Sections that run together, and what they stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct JobSectionMapping {
    /// Names of the sections.
    pub(in crate::cli) sections: Vec<String>,
    /// The part of the recording.
    pub(in crate::cli) part: RecordingSelection,
}

impl JobSectionMapping {
    /// Reads `SECTION[+SECTION]=DISK[@FROM..TO]`.
    pub(in crate::cli) fn parse(text: &str) -> Result<JobSectionMapping, CliError> {
        let wrong = || {
            CliError::invalid(format!("invalid section '{text}'"))
                .hint("expected SECTION=DISK, SECTION+SECTION=DISK or SECTION=DISK@11:00..12:00")
        };
        let (sections, place) = text.split_once('=').ok_or_else(wrong)?;
        let (disk, times) = match place.rsplit_once('@') {
            Some((disk, times)) => (disk, Some(times)),
            None => (place, None),
        };
        let ends = times.map(|times| times.split_once("..").ok_or_else(wrong));
        let ends = ends.transpose()?;
        let time = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let sections: Vec<String> = sections.split('+').map(|s| s.trim().to_owned()).collect();
        if disk.is_empty() || sections.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(JobSectionMapping {
            sections,
            part: RecordingSelection {
                disk: Some(disk.to_owned()),
                from: ends.and_then(|(from, _)| time(from)),
                to: ends.and_then(|(_, to)| time(to)),
                of_model: false,
            },
        })
    }
}

/// A job file, read.
pub(in crate::cli) struct JobFile {
    pub(super) text: String,
    demands: Vec<fio::FioNamedRateSpec>,
    pub(super) shown: String,
}

/// One way to take what the sections say, held against the recording.
#[derive(Debug)]
pub(in crate::cli) struct JobInterpretation {
    /// In which way.
    pub(in crate::cli) what: String,
    /// Every metric.
    pub(in crate::cli) lines: Vec<FidelityCheck>,
}

/// Sections held against a part of a recording.
#[derive(Debug)]
pub(in crate::cli) struct JobFidelity {
    /// Their names, joined.
    pub(in crate::cli) sections: String,
    /// Interpretation of the sections that is judged.
    pub(in crate::cli) what: String,
    /// The load that is judged.
    pub(in crate::cli) verification: FidelityReport,
    /// Other ways to take it, for information.
    pub(in crate::cli) others: Vec<JobInterpretation>,
    /// Why, where that is known.
    pub(in crate::cli) traps: Vec<String>,
}

impl JobFidelity {
    pub(in crate::cli) fn passed(&self) -> bool {
        self.verification.missed().next().is_none()
    }

    pub(in crate::cli) fn json(&self) -> serde_json::Value {
        let others: Vec<serde_json::Value> = self
            .others
            .iter()
            .map(|taken| serde_json::json!({ "load": taken.what, "lines": taken.lines }))
            .collect();
        serde_json::json!({
            "sections": self.sections,
            "load": self.what,
            "passed": self.passed(),
            "verification": self.verification,
            "others": others,
            "reasons": self.traps,
        })
    }
}

impl JobFile {
    pub(in crate::cli) fn read(path: &Path) -> Result<JobFile, CliError> {
        let shown = path.display().to_string();
        let wrong = |error: &dyn std::fmt::Display| {
            CliError::usage(format!("read the job file {shown}: {error}"))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let demands = fio::demands(&text).map_err(|error| wrong(&error))?;
        Ok(JobFile {
            text,
            demands,
            shown,
        })
    }

    /// All sections together.
    pub(super) fn all(&self, part: RecordingSelection) -> JobSectionMapping {
        JobSectionMapping {
            sections: self.demands.iter().map(|(name, _)| name.clone()).collect(),
            part,
        }
    }

    fn demand(&self, section: &str) -> Result<&FioRateSpec, CliError> {
        let found = self.demands.iter().find(|(name, _)| name == section);
        match found {
            Some((_, Ok(demand))) => Ok(demand),
            Some((_, Err(error))) => Err(CliError::usage(format!(
                "verify section '{section}' of {}: {error}",
                self.shown
            ))
            .hint("choose the sections to verify with --section")),
            None => {
                let names: Vec<&str> = self.demands.iter().map(|(name, _)| name.as_str()).collect();
                Err(
                    CliError::usage(format!("find section '{section}' in {}", self.shown))
                        .hint(format!("it has {}", names.join(", "))),
                )
            }
        }
    }

    /// Holds sections against a recording: what they ask for, or what fio did for `measured` on its
    /// null engine.
    pub(in crate::cli) fn hold(
        &self,
        map: &JobSectionMapping,
        against: &Path,
        measured: Option<Nanos>,
    ) -> Result<JobFidelity, CliError> {
        let demands = map.sections.iter().map(|section| self.demand(section));
        let demands = demands.collect::<Result<Vec<_>, _>>()?;
        let reference =
            FidelityReference::read(against, &map.part).map_err(failed(CliExitCode::Usage))?;
        let verify = |jobs: &[ConstantRateLoad]| {
            reference
                .verify(&FidelityLoad::Steady(jobs))
                .map_err(failed(CliExitCode::Usage))
        };
        let mut ways = ways(&demands);
        if let Some(length) = measured {
            let did = on_null::run(self, &map.sections, length)?;
            ways.retain(|way| way.0 != PACED);
            ways.insert(0, (DID, did));
        }
        let mut held = Vec::new();
        for (what, jobs) in &ways {
            held.push((*what, verify(jobs)?));
        }
        let mut held = held.into_iter();
        let (what, verification) = held
            .next()
            .ok_or_else(|| CliError::invalid("no section to verify: name at least one"))?;
        let lines = |v: FidelityReport| v.lines.into_iter().map(|checked| checked.line).collect();
        let others = held.map(|(what, verification)| JobInterpretation {
            what: what.into(),
            lines: lines(verification),
        });
        let traps = demands.iter().flat_map(|demand| {
            let name = &demand.name;
            demand
                .traps
                .iter()
                .map(move |trap| format!("{name}: {trap}"))
        });
        Ok(JobFidelity {
            sections: map.sections.join(" + "),
            what: what.into(),
            verification,
            others: others.collect(),
            traps: traps.chain(constant(&demands)).collect(),
        })
    }
}

/// Load that the sections ask for.
const ASKED: &str = "asked for";
/// Load that each section asks for, taken as a single job.
const ONE: &str = "one job of each";
/// Load as the pacing of fio makes it.
const PACED: &str = "as fio paces it";
/// The same of single jobs.
const ONE_PACED: &str = "one job, paced";
/// Load that fio made.
const DID: &str = "done by fio";

/// The ways to take what the sections say that differ.
fn ways(demands: &[&FioRateSpec]) -> Vec<(&'static str, Vec<ConstantRateLoad>)> {
    let all = |demand: &FioRateSpec| demand.jobs as f64;
    let one = |_: &FioRateSpec| 1.0;
    let asked = |stream: &FioDirectionRate| stream.ops_per_s;
    let paced = |stream: &FioDirectionRate| stream.paced_ops_per_s;
    let load = |jobs: &dyn Fn(&FioRateSpec) -> f64,
                ops: &dyn Fn(&FioDirectionRate) -> f64|
     -> Vec<ConstantRateLoad> {
        demands
            .iter()
            .map(|demand| steady(demand, jobs(demand), ops))
            .collect()
    };
    let mut ways = vec![(ASKED, load(&all, &asked))];
    for way in [
        (PACED, load(&all, &paced)),
        (ONE, load(&one, &asked)),
        (ONE_PACED, load(&one, &paced)),
    ] {
        if ways.iter().all(|(_, known)| *known != way.1) {
            ways.push(way);
        }
    }
    ways
}

fn steady(
    demand: &FioRateSpec,
    jobs: f64,
    ops: &dyn Fn(&FioDirectionRate) -> f64,
) -> ConstantRateLoad {
    let rate = |stream: &Option<FioDirectionRate>| {
        stream.map_or(ConstantRate::default(), |stream| {
            let ops_per_s = ops(&stream) * jobs;
            ConstantRate {
                ops_per_s,
                bytes_per_s: ops_per_s * stream.mean_bytes,
            }
        })
    };
    ConstantRateLoad {
        read: rate(&demand.read),
        write: rate(&demand.write),
        poisson: demand.poisson,
    }
}

/// Properties of a load that no rate of a job file can reproduce.
fn constant(demands: &[&FioRateSpec]) -> Option<String> {
    let text = "a rate of a job never changes: the same in every interval, so that distribution, \
                peaks, burstiness and periods of the recording are lost";
    (!demands.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_name_sections_a_disk_and_times() {
        let map = JobSectionMapping::parse("nas_read+nas_write=sdi@11:00..12:00").unwrap();
        assert_eq!(map.sections, ["nas_read", "nas_write"]);
        assert_eq!(map.part.disk.as_deref(), Some("sdi"));
        assert_eq!(map.part.from.as_deref(), Some("11:00"));
        assert_eq!(map.part.to.as_deref(), Some("12:00"));
        let plain = JobSectionMapping::parse("db=F:").unwrap();
        assert_eq!(plain.part.disk.as_deref(), Some("F:"));
        assert_eq!((plain.part.from, plain.part.to), (None, None));
        let open = JobSectionMapping::parse("db=D:_C:_H:@2010-07-14 11:00..").unwrap();
        assert_eq!(open.part.disk.as_deref(), Some("D:_C:_H:"));
        assert_eq!(open.part.from.as_deref(), Some("2010-07-14 11:00"));
        for text in ["db", "=sdi", "db=", "a+=sdi", "db=sdi@11:00-12:00"] {
            assert!(JobSectionMapping::parse(text).is_err(), "{text}");
        }
    }
}
