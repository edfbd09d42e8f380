// SPDX-License-Identifier: Apache-2.0
//! `--trust FILE`: the one word by which a file may start programs. Only the command line has it.

use super::measure::kept;
use plimsoll_console::failure::CliError;
use plimsoll_console::terminal;
use plimsoll_core::plan::StackFile;
use plimsoll_lab::stacks::StackConfig;
use plimsoll_run::trust::{STANDARD_INPUT, TrustedFiles, commands_of_stack};
use std::path::{Path, PathBuf};

/// Which files may start programs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct TrustArgs {
    /// Let FILE (-: standard input) start the programs that it names. May be repeated.
    ///
    /// For campaigns, gates, experiments, user-defined stacks and job files. Without trust, a file
    /// that would start a program is refused, and the error lists its programs. Trust does not
    /// extend to files that FILE names. Programs on the command line itself, such as -w
    /// 'cmd:COMMAND', need no trust.
    #[arg(
        id = "trust",
        long = "trust",
        value_name = "FILE",
        hide_short_help = true
    )]
    files: Vec<PathBuf>,
}

/// A file, wherever the program goes; standard input is everywhere.
fn wherever(file: &Path) -> PathBuf {
    match file == Path::new(STANDARD_INPUT) {
        true => file.into(),
        false => kept(file),
    }
}

impl TrustArgs {
    /// Refuses a file that would start these programs, unless it is trusted; a dry run, which starts nothing,
    /// only says so.
    pub(super) fn check(
        &self,
        file: &Path,
        starts: &[String],
        is_dry_run: bool,
    ) -> Result<(), CliError> {
        match TrustedFiles::named(&self.files)?.refusal(file, starts) {
            None => Ok(()),
            Some(refusal) if is_dry_run => {
                terminal::say(&format!("without --dry-run it would be refused: {refusal}"));
                Ok(())
            }
            Some(refusal) => Err(refusal),
        }
    }

    /// The same of stacks of the user's own, whose files are commands.
    pub(super) fn check_stacks<'a>(
        &self,
        stacks: impl Iterator<Item = &'a StackConfig>,
        is_dry_run: bool,
    ) -> Result<(), CliError> {
        // A file that is not there is a slip, whether it is needed or not.
        TrustedFiles::named(&self.files)?;
        for (file, stack) in stacks.filter_map(own) {
            self.check(&file, &commands_of_stack(stack), is_dry_run)?;
        }
        Ok(())
    }

    /// The same files, wherever the program goes.
    pub(super) fn kept(&self) -> TrustArgs {
        TrustArgs {
            files: self.files.iter().map(|file| wherever(file)).collect(),
        }
    }

    /// The files as they were given.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.files
    }

    /// The same, for commands that are started by this one.
    pub(super) fn shown(&self) -> Vec<String> {
        let shown = |file: &PathBuf| file.display().to_string();
        self.files.iter().map(shown).collect()
    }

    /// Its words, for a command that is a part of this one.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let of = |file: String| ["--trust".into(), file];
        self.shown().into_iter().flat_map(of)
    }
}

/// The file of a stack of the user's own, and what it says.
fn own(stack: &StackConfig) -> Option<(PathBuf, &StackFile)> {
    let given = &stack.parts.base.given;
    let file = given.iter().find(|(name, _)| name == "file");
    Some((PathBuf::from(&file?.1), stack.own.as_deref()?))
}
