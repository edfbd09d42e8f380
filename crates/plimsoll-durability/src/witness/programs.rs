// SPDX-License-Identifier: Apache-2.0
//! The witness of a server file: two scripts, heard line by line.

use super::lines::{self, WitnessLine, WitnessVerb};
use super::{DurabilityWitness, WitnessLoad};
use crate::error::DurabilityError;
use crate::judge::{AckAccount, FoundKeys};
use crate::view::{ServerScript, ServerView};
use plimsoll_core::plan::PlanCommand;
use plimsoll_machine::host::{HostLine, HostLineEnd, HostLineJob, LocalHost};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long `have` may take.
const HAVE_LIMIT: Duration = Duration::from_secs(30);
/// Most keys that a load tries or finds: they are in memory.
const KEYS_MAX: usize = 1_000_000;

/// The witness of a server file.
#[derive(Debug)]
pub struct ProgramsWitness<'a> {
    /// Where its scripts run.
    pub host: &'a LocalHost,
    /// Identifier of the journal on whose behalf they do.
    pub journal: &'a str,
    /// Mark of their processes.
    pub mark: &'a str,
    /// The view of its scripts.
    pub view: &'a ServerView,
    /// Name of the server.
    pub server: &'a str,
}

impl ProgramsWitness<'_> {
    fn wrong(&self, why: impl Into<String>) -> DurabilityError {
        DurabilityError::Witness {
            server: self.server.into(),
            why: why.into(),
        }
    }

    /// Runs a script, and hands over each line that says something until `take` has enough. Where it
    /// `may_fail`, its end is an end like any other.
    fn hear(
        &self,
        script: ServerScript,
        command: &PlanCommand,
        limit: Duration,
        stop: &AtomicBool,
        may_fail: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&WitnessLine<'_>) -> Result<ControlFlow<()>, String>,
    ) -> Result<HostLineEnd, DurabilityError> {
        let job = HostLineJob {
            journal: self.journal,
            command,
            mark: self.mark,
            limit,
            line_max: lines::LINE_MAX,
        };
        let mut mistake = None;
        let mut hear = |line: HostLine<'_>| match read(line).and_then(|line| match line {
            Some(line) => take(&line),
            None => Ok(ControlFlow::Continue(())),
        }) {
            Ok(flow) => flow,
            Err(why) => {
                // The first one: what follows a mistake may be another's consequence.
                mistake.get_or_insert(why);
                ControlFlow::Break(())
            }
        };
        let end = self.host.hear(&job, stop, &mut hear)?;
        match (mistake, end) {
            (Some(why), _) => Err(self.wrong(why)),
            (None, HostLineEnd::Stopped) => Err(DurabilityError::Stopped),
            (None, HostLineEnd::Failed { status, output }) if !may_fail() => {
                Err(self.wrong(format!("'{}' ended with {status}: {output}", script.name())))
            }
            (None, end) => Ok(end),
        }
    }

    fn command(&self, script: ServerScript, data: &Path, seed: u64) -> PlanCommand {
        self.view.command(script, data, self.mark, seed)
    }
}

/// Reads a line. Of two that were joined when their writers were killed the second is whole.
fn read(line: HostLine<'_>) -> Result<Option<WitnessLine<'_>>, String> {
    let whole = lines::read(line.text);
    if whole.is_ok() || !line.is_of_the_end {
        return whole;
    }
    let begins = |word: &[u8]| word == b"ack " || word == b"try ";
    let second = line.text.windows(4).rposition(begins).unwrap_or(0);
    Ok(lines::read(&line.text[second..]).unwrap_or(None))
}

impl DurabilityWitness for ProgramsWitness<'_> {
    fn write(&self, data: &Path, load: &WitnessLoad<'_>) -> Result<AckAccount, DurabilityError> {
        let mut account = AckAccount::default();
        let mut tried = 0;
        let command = self.command(ServerScript::Ack, data, load.seed);
        self.hear(
            ServerScript::Ack,
            &command,
            load.length,
            load.stop,
            load.disk.is_full,
            &mut |line| {
                // The acknowledgement was given before this instant.
                let at = (load.disk.now)();
                match line.verb {
                    WitnessVerb::Try => {
                        account.try_value(line.key, line.sum);
                        tried += 1;
                    }
                    WitnessVerb::Ack => account.acknowledge(line.key, line.sum, at)?,
                    WitnessVerb::Have => return Err("'ack' printed a line with 'have'".into()),
                }
                if tried > KEYS_MAX {
                    return Err(format!("it tried more than {KEYS_MAX} values"));
                }
                Ok(match account.acknowledged() < load.acks_max {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            },
        )?;
        Ok(account)
    }

    fn read(&self, data: &Path, stop: &AtomicBool) -> Result<FoundKeys, DurabilityError> {
        let mut found = FoundKeys::new();
        let command = self.command(ServerScript::Have, data, 0);
        let end = self.hear(
            ServerScript::Have,
            &command,
            HAVE_LIMIT,
            stop,
            &|| false,
            &mut |line| {
                if line.verb != WitnessVerb::Have {
                    return Err("'have' printed a line without 'have'".into());
                }
                let before = found.insert(line.key.into(), line.sum.into());
                if let Some(before) = before.filter(|before| before != line.sum) {
                    // A damaged server may show two values of a key: neither is its value.
                    let both = format!("{before} and {}", line.sum);
                    found.insert(line.key.into(), both);
                }
                match found.len() > KEYS_MAX {
                    true => Err(format!("'have' printed more than {KEYS_MAX} keys")),
                    false => Ok(ControlFlow::Continue(())),
                }
            },
        )?;
        match end {
            HostLineEnd::Done => Ok(found),
            _ => Err(self.wrong(format!(
                "'have' did not end within {} s",
                HAVE_LIMIT.as_secs()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_joined_when_their_writers_were_killed_are_no_mistake() {
        let of_the_end = |text| HostLine {
            text,
            is_of_the_end: true,
        };
        let joined = read(of_the_end(b"ack a 12ack b 34")).unwrap().unwrap();
        assert_eq!((joined.key, joined.sum), ("b", "34"));
        assert_eq!(read(of_the_end(b"ac")), Ok(None));
        let before = HostLine {
            text: b"ac",
            is_of_the_end: false,
        };
        assert!(read(before).is_err());
    }
}
