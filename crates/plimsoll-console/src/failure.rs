// SPDX-License-Identifier: Apache-2.0
//! The error of a command that could not do its work, and its exit code.

use plimsoll_core::load::{AgentFailure, AgentFailureKind};
use std::fmt;
use std::process::ExitCode;

/// Exit codes, as the help of the program documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliExitCode {
    /// Something failed that is not the user's doing.
    Failed = 1,
    /// The command line or an input file is wrong.
    Usage = 2,
    /// `--fail-on different` and there was one; `fit-for`: a target does not fit.
    Different = 10,
    /// `--fail-on inconclusive` and there was one; `fit-for`: of no target it is sure that it does not
    /// fit, and of some not that they do.
    Inconclusive = 11,
    /// A target lost or changed data.
    BadData = 12,
    /// Something that plimsoll made could not be removed, or a fault that it did not be healed.
    NotCleaned = 13,
    /// A model, or the load that was submitted, missed its gate.
    Gate = 14,
    /// A machine that load came from, or that was recorded, was lost.
    LostNode = 15,
    /// The account that something is to be judged by is damaged.
    CannotJudge = 16,
    /// The user stopped it.
    Interrupted = 130,
}

/// The table of exit codes in `plimsoll --help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done; every verdict that was asked for was reached
  1    a failure of the machine or of plimsoll
  2    a mistake in the command line or in an input file
  10   --fail-on different or worse: there is such a difference, or an arm cannot carry the load;
       run --slo: a limit is broken; fit-for: a target does not fit; gate: regression
  11   --fail-on: a comparison was inconclusive, a load line unknown, or other programs decided in
       place of the systems; run --slo, fit-for, gate: cannot tell
  12   a target failed the write-verify, and nothing was measured on it; or --check-data, a
       ledger or faults under load found bad blocks; durability: a setting lost writes that it
       promises to keep
  13   something plimsoll made could not be removed, or a fault not healed; run `plimsoll raze`
  14   a model, or the load that was submitted, missed a stated gate
  15   a node that load came from, or that was recorded, was lost; what there was of it is kept
       and marked
  16   the ledger is damaged, or a witness or its server does not work, so the storage cannot
       be judged
  130  stopped by the user; the results so far are kept";

/// The meaning of an exit code, in the words of the help; empty for one that is not ours.
pub fn meaning(code: i32) -> &'static str {
    let mut lines = EXIT_CODES.lines().filter_map(|line| {
        let (number, words) = line.trim_start().split_once(' ')?;
        Some((number.parse::<i32>().ok()?, words.trim()))
    });
    let found = lines.find(|(number, _)| *number == code);
    // A meaning may go on in the next line; up to its first part is enough.
    found.map_or("", |(_, words)| {
        words.split([';', ',']).next().unwrap_or(words)
    })
}

/// Why a command ended without doing its work.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub code: CliExitCode,
    /// Completes "failed to …", or is a sentence.
    pub message: String,
    /// Whether the message is a sentence, which nothing is put before.
    pub is_sentence: bool,
    /// How to mend it.
    pub hint: Option<String>,
}

/// The result of a command: the exit code of an orderly end, or a failure.
pub type CliResult = Result<ExitCode, CliError>;

impl CliError {
    /// An error of this code, from a text that completes "failed to …".
    pub fn new(code: CliExitCode, message: impl fmt::Display) -> Self {
        let text = message.to_string();
        // Some errors already are whole sentences; one "failed to" is enough.
        let mut whole = ["failed to ", "could not "].iter();
        let rest = whole.find_map(|begin| text.strip_prefix(begin));
        let message = rest.unwrap_or(&text).to_owned();
        CliError {
            code,
            message,
            is_sentence: false,
            hint: None,
        }
    }

    /// A mistake of the user, from a text that completes "failed to …".
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(CliExitCode::Usage, message)
    }

    /// The same with a message that is a sentence.
    pub fn sentence(code: CliExitCode, message: impl fmt::Display) -> Self {
        CliError {
            code,
            message: message.to_string(),
            is_sentence: true,
            hint: None,
        }
    }

    /// A mistake in the command line or in an input file, as a sentence.
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self::sentence(CliExitCode::Usage, message)
    }

    /// The failure, as a sentence.
    pub fn text(&self) -> String {
        match self.is_sentence {
            true => self.message.clone(),
            false => format!("failed to {}", self.message),
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<CliError> for AgentFailure {
    fn from(error: CliError) -> Self {
        AgentFailure {
            kind: match error.code {
                CliExitCode::Usage => AgentFailureKind::Usage,
                CliExitCode::BadData => AgentFailureKind::BadData,
                CliExitCode::NotCleaned => AgentFailureKind::NotCleaned,
                CliExitCode::Interrupted => AgentFailureKind::Interrupted,
                _ => AgentFailureKind::Failed,
            },
            text: error.text(),
            hint: error.hint,
        }
    }
}

impl From<AgentFailure> for CliError {
    fn from(failure: AgentFailure) -> Self {
        let code = match failure.kind {
            AgentFailureKind::Failed => CliExitCode::Failed,
            AgentFailureKind::Usage => CliExitCode::Usage,
            AgentFailureKind::BadData => CliExitCode::BadData,
            AgentFailureKind::NotCleaned => CliExitCode::NotCleaned,
            AgentFailureKind::Interrupted => CliExitCode::Interrupted,
        };
        CliError {
            hint: failure.hint,
            ..CliError::sentence(code, failure.text)
        }
    }
}

/// A function for `map_err` that keeps the error's text under this code.
pub fn failed<E: fmt::Display>(code: CliExitCode) -> impl Fn(E) -> CliError {
    move |error| CliError::new(code, error)
}

/// A function for `map_err` that says what was being done, unless the error is a whole sentence.
pub fn doing<E: fmt::Display>(
    code: CliExitCode,
    what: impl Into<String>,
) -> impl Fn(E) -> CliError {
    let what = what.into();
    move |error| {
        let text = error.to_string();
        match text.strip_prefix("failed to ") {
            Some(whole) => CliError::new(code, whole),
            None => CliError::new(code, format!("{what}: {text}")),
        }
    }
}

/// The failure of a run that was stopped before its first trial.
pub fn stopped() -> CliError {
    CliError::sentence(
        CliExitCode::Interrupted,
        "interrupted before anything was measured",
    )
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.text())?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<CliExitCode> for ExitCode {
    fn from(code: CliExitCode) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_a_meaning() {
        assert_eq!(meaning(0), "done");
        assert_eq!(meaning(130), "stopped by the user");
        assert_eq!(
            meaning(CliExitCode::BadData as i32),
            "a target failed the write-verify"
        );
        assert_eq!(meaning(99), "");
    }

    #[test]
    fn fragments_are_completed_and_sentences_are_not() {
        for (error, expect) in [
            (CliError::usage("read x"), "error: failed to read x"),
            (
                CliError::usage("could not read x"),
                "error: failed to read x",
            ),
            (
                CliError::invalid("unknown stack 'x'").hint("see the list"),
                "error: unknown stack 'x'\n  hint: see the list",
            ),
        ] {
            assert_eq!(error.to_string(), expect);
        }
    }
}
