// SPDX-License-Identifier: Apache-2.0
//! Errors in a workload by name, a job file or a result text. Messages are sentences.

use plimsoll_core::settings::{SettingError, hint};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ClassicsError {
    /// No workload has this name.
    #[error("unknown workload '{name}'{}; available: {known}", hint(nearest.as_deref()))]
    UnknownWorkload {
        /// The requested name.
        name: String,
        /// The most similar name that is known.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// No requirement has this name; the whole sentence.
    #[error("{0}")]
    Requirement(String),
    /// A setting that is not known, or a value that cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Settings that do not go together, or a shape that cannot be run.
    #[error("invalid workload {workload}: {reason}")]
    Shape {
        /// The workload.
        workload: String,
        /// The fault.
        reason: String,
    },
    /// A line of a job file that is not understood or not supported.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// The fault, with the word that is meant.
        reason: String,
    },
    /// A result text that is not understood.
    #[error("invalid output of {program}: {reason}")]
    Output {
        /// Whose output it should be.
        program: String,
        /// The fault in the output.
        reason: String,
    },
    /// A workload that cannot be said in another program's language.
    #[error("cannot export to {program}: {reason}")]
    Export {
        /// Whose language.
        program: String,
        /// The part without a counterpart, and the remedy.
        reason: String,
    },
}
