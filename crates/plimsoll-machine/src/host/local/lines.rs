// SPDX-License-Identifier: Apache-2.0
//! Programs whose output is read line by line while they run.

use plimsoll_core::plan::PlanCommand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::ops::ControlFlow;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{LOOK, LocalHost};
use crate::host::error::HostError;
use crate::host::{command, processes};

/// Most lines that are taken between two looks at the time.
const PIECE: usize = 64 << 10;

/// Most bytes that are read of a program that has ended: what a pipe holds, and more.
const REST_MAX: u64 = 4 << 20;

/// How long a program that has closed its output may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A line that was heard, without its end.
#[derive(Debug, Clone, Copy)]
pub struct HostLine<'a> {
    /// Its bytes.
    pub text: &'a [u8],
    /// Whether it was read after the program had been ended by us: processes that were killed in the middle
    /// of a line, one after another, may have joined two.
    pub is_of_the_end: bool,
}

/// A listener of lines, which breaks when it needs no more.
type LineListener<'a> = dyn FnMut(HostLine<'_>) -> ControlFlow<()> + 'a;

/// The order of a program that is heard.
#[derive(Debug)]
pub struct HostLineJob<'a> {
    /// The journal on whose behalf it runs.
    pub journal: &'a str,
    /// The program.
    pub command: &'a PlanCommand,
    /// The mark by which it is found again.
    pub mark: &'a str,
    /// Longest run time.
    pub limit: Duration,
    /// Of a longer line only its beginning is heard, one byte more than this.
    pub line_max: usize,
}

/// How a program that is heard came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostLineEnd {
    /// By itself, with 0.
    Done,
    /// By itself, with something else.
    Failed {
        /// Exit status, in words.
        status: String,
        /// The last lines of its errors.
        output: String,
    },
    /// By us: its time was over.
    Late,
    /// By us: the user wants all to end.
    Stopped,
    /// By us: who listened had heard enough.
    HeardEnough,
}

impl LocalHost {
    /// Runs a program, and passes on each line of its output, without its end, as soon as it is there, also
    /// those that were printed before who listens had heard enough. A last line without an end is not passed
    /// on.
    ///
    /// # Errors
    /// When it may not run, or cannot be started or watched.
    pub fn hear(
        &self,
        job: &HostLineJob<'_>,
        stop: &AtomicBool,
        hear: &mut LineListener<'_>,
    ) -> Result<HostLineEnd, HostError> {
        let ready = self.prepared(job.journal, job.command, job.mark)?;
        let shown = &ready.shown;
        let failed = HostError::doing(format!("run '{shown}'"));
        let mut errors = command::memory_file().map_err(&failed)?;
        let mut child = ready.spawn_piped(&errors).map_err(&failed)?;
        drop(child.stdin.take());
        let mut output = child.stdout.take();
        let mut line = HeardLine::default();
        let heard = match &mut output {
            Some(output) => self.listen(output, &errors, &mut line, job, stop, hear),
            None => Ok(None),
        };
        let ended = match &heard {
            Ok(None) => command::wait(&mut child, END_LIMIT, &*self.clock).map_err(&failed)?,
            _ => None,
        };
        // Also after an orderly end: what it left behind is not to go on.
        processes::kill(job.mark, &*self.clock)?;
        // `kill` above may have collected it already.
        let _ = child.wait();
        // Lines that were written before the end, and not read yet. A foreign process may also hold the pipe
        // open, and is not waited for.
        if let Some(mut output) = output {
            rustix::io::ioctl_fionbio(&output, true).map_err(|errno| failed(errno.into()))?;
            let mut rest = Vec::new();
            let _ = output.by_ref().take(REST_MAX).read_to_end(&mut rest);
            line.is_of_the_end = !matches!(heard, Ok(None));
            let _ = line.take(&rest, job.line_max, hear);
        }
        Ok(match (heard.map_err(&failed)?, ended) {
            (Some(end), _) => end,
            (None, Some(status)) if status.success() => HostLineEnd::Done,
            (None, ended) => HostLineEnd::Failed {
                status: ended.map_or("no end of its own".into(), command::in_words),
                output: command::last_lines(&mut errors),
            },
        })
    }

    /// Hears the output to its end; `None` where the program ended it.
    fn listen(
        &self,
        output: &mut ChildStdout,
        errors: &File,
        line: &mut HeardLine,
        job: &HostLineJob<'_>,
        stop: &AtomicBool,
        hear: &mut LineListener<'_>,
    ) -> std::io::Result<Option<HostLineEnd>> {
        let began = self.clock.now();
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        let mut piece = vec![0; PIECE];
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(HostLineEnd::Stopped));
            }
            if self.clock.now().saturating_sub(began) >= job.limit {
                return Ok(Some(HostLineEnd::Late));
            }
            // Its errors are in memory: of many, only the last are kept.
            command::forget_loud(errors);
            let mut watched = [PollFd::new(&*output, PollFlags::IN)];
            match poll(&mut watched, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            let read = match output.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if line.take(&piece[..read], job.line_max, hear).is_break() {
                return Ok(Some(HostLineEnd::HeardEnough));
            }
        }
    }
}

/// The line that is being read.
#[derive(Debug, Default)]
struct HeardLine {
    begun: Vec<u8>,
    /// Whether its beginning was passed on already, since it is too long.
    is_passed_on: bool,
    is_of_the_end: bool,
}

impl HeardLine {
    /// Takes bytes, all of them: also those who have heard enough hear what was printed until then.
    fn take(
        &mut self,
        bytes: &[u8],
        line_max: usize,
        hear: &mut LineListener<'_>,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = (line_max + 1).saturating_sub(self.begun.len());
            self.begun.extend(&text[..text.len().min(room)]);
            let is_long = self.begun.len() > line_max;
            if (is_end || is_long) && !self.is_passed_on {
                let heard = hear(HostLine {
                    text: &self.begun,
                    is_of_the_end: self.is_of_the_end,
                });
                if heard.is_break() {
                    flow = heard;
                }
                self.is_passed_on = true;
            }
            if is_end {
                *self = HeardLine {
                    is_of_the_end: self.is_of_the_end,
                    ..HeardLine::default()
                };
            }
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SearchPath;

    fn heard(script: &str, limit: Duration) -> (Vec<String>, HostLineEnd) {
        let mut host = LocalHost::new(SearchPath::new("/usr/bin:/bin".as_ref()));
        let journal = format!("lines-{}", std::process::id());
        crate::host::Host::trust_programs(&mut host, &journal, &["sh".into()]);
        let job = HostLineJob {
            journal: &journal,
            command: &PlanCommand::new("sh", ["-c", script]),
            mark: &format!("plimsoll-{journal}-{}", script.len()),
            limit,
            line_max: 8,
        };
        let mut lines = Vec::new();
        let end = host.hear(&job, &AtomicBool::new(false), &mut |line| {
            lines.push(String::from_utf8_lossy(line.text).into_owned());
            match line.text == b"enough" {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        (lines, end.unwrap())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn each_line_is_heard_and_how_it_ended() {
        let (lines, end) = heard("echo a; echo; printf b", LONG);
        assert_eq!(
            (lines, end),
            (vec!["a".into(), String::new()], HostLineEnd::Done)
        );
        let (lines, end) = heard("echo enough; sleep 600", LONG);
        assert_eq!(
            (lines, end),
            (vec!["enough".into()], HostLineEnd::HeardEnough)
        );
        let (_, end) = heard("echo a; sleep 600", Duration::from_millis(100));
        assert_eq!(end, HostLineEnd::Late);
        let (_, end) = heard("echo why >&2; exit 3", LONG);
        let HostLineEnd::Failed { status, output } = end else {
            panic!("{end:?}");
        };
        assert!(
            status.contains('3') && output.contains("why"),
            "{status} {output}"
        );
    }

    #[test]
    fn who_has_heard_enough_hears_whole_lines_to_the_end() {
        let script = "i=0; while [ $i -lt 2000 ]; do echo enough; echo $i; i=$((i + 1)); done";
        let (lines, end) = heard(script, LONG);
        assert!(
            [HostLineEnd::HeardEnough, HostLineEnd::Done].contains(&end),
            "{end:?}"
        );
        let others = lines.iter().filter(|line| *line != "enough");
        for (expected, line) in others.enumerate() {
            assert_eq!(*line, expected.to_string());
        }
    }

    #[test]
    fn of_a_line_that_is_too_long_the_beginning_is_heard_once() {
        let (lines, _) = heard("printf 'a%0100d\\nb\\n' 0", LONG);
        assert_eq!(lines, ["a00000000", "b"]);
    }
}
