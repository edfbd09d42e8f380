// SPDX-License-Identifier: Apache-2.0
//! The classic benchmarks as workloads: one folder each, with its settings, the work it stands
//! for, the text that its users know, and a reader of that text.
//!
//! Nothing here touches files, clocks or processes: settings and texts in, workloads, results and
//! texts out. What is done is carried out by the engine, and told by the report.
#![forbid(unsafe_code)]

mod basic;
mod error;
mod nearest;
mod settings;

pub use error::Error;
pub use nearest::nearest;
pub use settings::{Setting, Settings, Unit};

use plimsoll_core::event::PhaseResult;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::series::Classic;

/// A workload that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What can be set.
    pub settings: &'static [Setting],
    /// Makes it.
    pub build: fn(&Settings) -> Result<Workload, Error>,
}

/// Rooms of known workloads, in the order of lists.
const ROOMS: &[&[Known]] = &[basic::KNOWN];

/// Every workload that is known by name.
pub fn known() -> impl Iterator<Item = &'static Known> {
    ROOMS.iter().copied().flatten()
}

/// The workload of this name with these settings; those that are not given have their defaults.
///
/// # Errors
/// When nothing is known by that name (the nearest that is comes with the error), or a setting is
/// unknown or wrong.
pub fn workload(name: &str, given: &[(String, String)]) -> Result<Workload, Error> {
    let Some(known) = known().find(|known| known.name == name) else {
        let names = || self::known().map(|known| known.name);
        return Err(Error::UnknownWorkload {
            name: name.into(),
            nearest: nearest(name, names()).map(Into::into),
            known: names().collect::<Vec<_>>().join(", "),
        });
    };
    (known.build)(&Settings::new(name, known.settings, given)?)
}

/// The results of a trial in the form of the program it does the work of; `None` when that program
/// is not known or the results are not whole.
#[must_use]
pub fn text(classic: &Classic, phases: &[PhaseResult]) -> Option<String> {
    let _ = (classic, phases);
    None
}
