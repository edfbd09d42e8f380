// SPDX-License-Identifier: Apache-2.0
//! The classic benchmarks as workloads: one folder each, with its settings, the work it stands
//! for, the text that its users know, and a reader of that text.
//!
//! Nothing here touches files, clocks or processes: settings and texts in, workloads, results and
//! texts out. What is done is carried out by the engine, and shown by the report.
#![forbid(unsafe_code)]

mod basic;
mod bonnie;
pub mod boot;
mod build;
pub mod copy;
mod error;
pub mod filebench;
pub mod fio;
mod ior;
mod iozone;
mod known;
mod mdtest;
mod need;
pub mod originals;
mod parts;
mod registry;
mod requirements;
mod sgpdd;
mod stamp;
mod sysbench;
mod words;

pub use error::ClassicsError;
pub use known::WorkloadDefinition;
pub use need::find_requirement;
pub use plimsoll_core::nearest::nearest;
pub use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};
pub use registry::{find, known};
pub use requirements::{REQUIREMENTS, RequirementDefinition, RequirementSource};
pub use words::ClassicSpec;

use plimsoll_core::event::{PhaseResult, TrialResult};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::FileLoopSelection;
use plimsoll_core::workload::series::ClassicProgram;

/// Settings that are the memory of the machine in MiB.
const MEMORY_SETTINGS: [(&str, &str); 2] = [(bonnie::NAME, "r"), (sgpdd::NAME, "ram")];

/// The workload of this name with these settings; those that are not given have their defaults.
///
/// # Errors
/// When nothing is known by that name (the nearest that is comes with the error), or a setting is
/// unknown or wrong.
pub fn workload(name: &str, given: &[(String, String)]) -> Result<Workload, ClassicsError> {
    let known = find(name)?;
    (known.build)(&SettingValues::new(name, known.settings, given)?)
}

/// The workload that these words mean (see [`ClassicSpec::parse`]), named after all that was set, on a
/// machine with this much memory, which some programs use by default.
///
/// # Errors
/// As for [`workload`], and when the words cannot be taken apart.
pub fn parse_on(text: &str, memory_bytes: Option<u64>) -> Result<Workload, ClassicsError> {
    let words = ClassicSpec::parse(text)?;
    let label = words.label();
    let mut given = words.given;
    for (program, setting) in MEMORY_SETTINGS {
        let is_given = given.iter().any(|(name, _)| name == setting);
        if let (true, false, Some(bytes)) = (words.name == program, is_given, memory_bytes) {
            given.push((setting.into(), (bytes >> 20).to_string()));
        }
    }
    let mut workload = workload(&words.name, &given)?;
    workload.rename(label);
    Ok(workload)
}

/// Where the numbers of a workload by name differ from those of the program it is named after, one
/// sentence each.
pub fn notes(workload: &Workload) -> Vec<String> {
    match workload {
        Workload::Files(files) if files.over == FileLoopSelection::Rotor => {
            let name = files.name.split_whitespace().next().unwrap_or_default();
            filebench::notes::of_personality(name, files)
        }
        Workload::Series(series) => match &series.classic {
            Some(classic) if classic.program == iozone::NAME => iozone::notes(classic),
            Some(classic) if classic.program == bonnie::NAME => bonnie::notes(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// A trial in the form of the program whose work it did; `None` where there is none, or the
/// results are not whole.
pub fn tell(workload: &Workload, trial: &TrialResult) -> Option<String> {
    match workload {
        Workload::Series(series) => text(series.classic.as_ref()?, &trial.phases),
        Workload::Files(files) if files.over == FileLoopSelection::Rotor => {
            Some(filebench::summary(&trial.stats, trial.length))
        }
        _ => None,
    }
}

/// The results of a trial in the form of the program it does the work of; `None` when that program
/// is not known or the results are not whole.
pub fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    match classic.program.as_str() {
        bonnie::NAME => bonnie::text(classic, phases),
        iozone::NAME => iozone::text(classic, phases),
        sysbench::NAME => sysbench::text(classic, phases),
        sgpdd::NAME => sgpdd::text(classic, phases),
        _ => ior::text(classic, phases).or_else(|| mdtest::text(classic, phases)),
    }
}
