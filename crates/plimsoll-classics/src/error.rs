// SPDX-License-Identifier: Apache-2.0
//! What can be wrong with a workload by name, a job file or a result text. Messages complete
//! "failed to …".

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No workload has this name.
    #[error("find workload '{name}'{}: known are {known}", hint(nearest.as_deref()))]
    UnknownWorkload {
        /// What was asked for.
        name: String,
        /// The most similar name that is known.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// The workload has no such setting.
    #[error("set '{setting}' of {workload}{}: it has {known}", hint(nearest.as_deref()))]
    UnknownSetting {
        /// The workload.
        workload: String,
        /// What was asked for.
        setting: String,
        /// The most similar name that is known.
        nearest: Option<String>,
        /// All its settings.
        known: String,
    },
    /// The value of a setting cannot be used.
    #[error("set '{setting}' of {workload} to '{value}': {reason}")]
    WrongValue {
        /// The workload.
        workload: String,
        /// The setting.
        setting: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Settings that do not go together, or a shape that cannot be run.
    #[error("make workload {workload}: {reason}")]
    Shape {
        /// The workload.
        workload: String,
        /// What is wrong.
        reason: String,
    },
    /// A line of a job file that is not understood or not supported.
    #[error("read line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong, with the word that is meant.
        reason: String,
    },
    /// A result text that is not understood.
    #[error("read the output of {program}: {reason}")]
    Output {
        /// Whose output it should be.
        program: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A workload that cannot be said in another program's language.
    #[error("export to {program}: {reason}")]
    Export {
        /// Whose language.
        program: String,
        /// What has no counterpart, and what could be done.
        reason: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean '{name}'?)"))
}
