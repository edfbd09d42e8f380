// SPDX-License-Identifier: Apache-2.0
//! Output of `darshan-dxt-parser` for a log: of each file and process some lines about it, then a
//! line for each request: layer, rank, `write` or `read`, number, offset, length, start and end in
//! seconds, and on Lustre the targets. Times have four decimals.

use plimsoll_core::op::OpKind;

use super::{CARRIES, CLOCKS, ListedRequest, NO_TRACES, TEXT_RESOLUTION};
use crate::error::TraceError;
use crate::input::{RecordingInput, WrongLines};
use crate::recording::{RecordingCapabilities, TraceReadState, TraceSource};
use crate::requests::TraceFormat;
use crate::requests::gathered::TraceGatherer;
use crate::text::{lines, whole, words};

/// Recognised by its first lines, those of `darshan-parser` among them.
pub(crate) const FORMAT: TraceFormat = TraceFormat {
    name: "text of darshan-dxt-parser",
    is: |head| {
        lines(head)
            .take(FIRST_LINES)
            .any(|line| line.starts_with(FIRST))
    },
    open,
};

const FIRST: &[u8] = b"# darshan log version:";
/// Warnings may stand before the first line.
const FIRST_LINES: usize = 20;
const NANOS: u64 = 1_000_000_000;

/// Context of the requests that follow.
#[derive(Default)]
struct DxtText {
    file: Vec<u8>,
    start_s: Option<u64>,
    processes: u64,
    host: Option<Vec<u8>>,
    has_hosts: bool,
    /// Requests of MPI-IO that were left out, as those of POSIX are there.
    upper: u64,
    has_posix: bool,
}

fn open(mut input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let carries = RecordingCapabilities {
        resolution: TEXT_RESOLUTION,
        ..CARRIES
    };
    let state = TraceReadState::new(input.name(), FORMAT.name, carries);
    let mut gathered = TraceGatherer::new(state);
    let mut text = DxtText::default();
    let mut wrong = WrongLines::default();
    while let Some((offset, line)) = input.line()? {
        let found = match line.strip_prefix(b"#") {
            Some(told) => {
                text.tell(told.trim_ascii());
                Ok(None)
            }
            None => text.request(line),
        };
        let what = match found {
            Ok(None) => continue,
            Ok(Some(request)) => {
                wrong.right();
                if gathered.push(&text.file, request) {
                    continue;
                }
                "it holds more than 8 million requests, which is as many as are read".to_owned()
            }
            Err(what) => match wrong.wrong(offset, what, line) {
                Some(what) => what,
                None => continue,
            },
        };
        gathered.state.damage = Some(input.damage(offset, what));
        break;
    }
    let nothing = gathered.seen() == 0 && gathered.state.damage.is_none();
    let told = wrong.finish(input.name(), false)?;
    gathered.state.warnings.extend(told);
    gathered.state.warnings.extend(input.losses());
    if text.upper > 0 {
        gathered.state.warnings.push(format!(
            "{} requests of MPI-IO were left out: what they became in the file system is there as POSIX",
            text.upper
        ));
    }
    if text.processes > 1 {
        gathered.state.warnings.push(CLOCKS.into());
    }
    if let (Some(host), false) = (text.host, text.has_hosts) {
        gathered.state.about.host = String::from_utf8_lossy(&host).into_owned();
    }
    let zero = text.start_s.and_then(|seconds| seconds.checked_mul(NANOS));
    let nothing = if nothing {
        NO_TRACES
    } else {
        "its traces hold no request with bytes"
    };
    gathered.finish(zero, nothing)
}

impl DxtText {
    /// Takes what a line of remarks says.
    fn tell(&mut self, told: &[u8]) {
        let after = |key: &[u8]| {
            let at = told.windows(key.len()).position(|part| part == key)?;
            Some(told[at + key.len()..].trim_ascii())
        };
        if let Some(seconds) = told.strip_prefix(b"start_time:") {
            self.start_s = whole(seconds.trim_ascii());
        } else if let Some(processes) = told.strip_prefix(b"nprocs:") {
            self.processes = whole(processes.trim_ascii()).unwrap_or(0);
        } else if told.starts_with(b"DXT, file_id:")
            && let Some(name) = after(b", file_name:")
        {
            self.file = name.into();
        } else if told.starts_with(b"DXT, rank:")
            && let Some(host) = after(b", hostname:")
        {
            self.has_hosts |= self.host.as_ref().is_some_and(|known| known != host);
            self.host.get_or_insert_with(|| host.into());
        }
    }

    fn request(&mut self, line: &[u8]) -> Result<Option<ListedRequest>, &'static str> {
        let mut words = words(line);
        let Some(layer) = words.next() else {
            return Ok(None);
        };
        match layer {
            b"X_POSIX" => self.has_posix = true,
            b"X_MPIIO" if self.has_posix => {
                self.upper += 1;
                return Ok(None);
            }
            b"X_MPIIO" => {}
            _ => return Err("it is no line of X_POSIX or X_MPIIO"),
        }
        let kind = match words.nth(1) {
            Some(b"write") => OpKind::Write,
            Some(b"read") => OpKind::Read,
            _ => return Err("its third word is not read or write"),
        };
        // The number of the request stands before its offset.
        let mut number = |skipped: usize| {
            let word = std::str::from_utf8(words.nth(skipped)?).ok()?;
            Some(word)
        };
        let (offset, bytes, start, end) = (number(1), number(0), number(0), number(0));
        let whole = |word: Option<&str>| word?.parse::<i64>().ok();
        let seconds = |word: Option<&str>| word?.parse::<f64>().ok();
        Ok(Some(ListedRequest {
            kind,
            offset: whole(offset).ok_or("its offset is not a number")?,
            bytes: whole(bytes).ok_or("its length is not a number")?,
            start_s: seconds(start).ok_or("its start is not a number of seconds")?,
            end_s: seconds(end).ok_or("its end is not a number of seconds")?,
        }))
    }
}
