// SPDX-License-Identifier: Apache-2.0
//! The binary log, versions 3.10 to 3.41 in either byte order.

use std::io;
use std::ops::Range;

use super::stream::{LogCompression, LogRegion, LogStream};
use super::{CARRIES, CLOCKS, ListedRequest, NO_TRACES, WRITES_FIRST};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{TraceReadState, TraceSource};
use crate::requests::TraceFormat;
use crate::requests::gathered::TraceGatherer;

/// Recognised by its number behind a version that begins with a digit and a point.
pub(crate) const FORMAT: TraceFormat = TraceFormat {
    name: "Darshan log with traces (DXT)",
    is: |head| is_big(head).is_some(),
    open,
};

const MAGIC: u64 = 6_567_223;
/// Bytes of the head of a file's traces, and of each request.
const FILE_BYTES: usize = 104;
const REQUEST_BYTES: usize = 32;
/// Bytes of the job's head that are looked at.
const JOB_BYTES: usize = 56;
/// Most requests of a log, with those that are left out: what claims more is damaged.
const LISTED_MAX: u64 = 100_000_000;
/// Most bytes of all names.
const NAMES_BYTES_MAX: usize = 64 << 20;
/// Requests that are decompressed at once.
const AT_ONCE: usize = 512;
const NANOS: u64 = 1_000_000_000;

/// Whether the numbers of a log that begins so have their highest byte first; `None` if it is none.
fn is_big(head: &[u8]) -> Option<bool> {
    let (version, rest) = head.split_first_chunk::<8>()?;
    let (magic, _) = rest.split_first_chunk::<8>()?;
    let is_version = version[0].is_ascii_digit() && version[1] == b'.';
    match *magic {
        magic if is_version && u64::from_le_bytes(magic) == MAGIC => Some(false),
        magic if is_version && u64::from_be_bytes(magic) == MAGIC => Some(true),
        _ => None,
    }
}

/// Parts of the layout that differ between versions of the log.
struct LogLayout {
    modules: usize,
    /// Places of the traces of POSIX and MPI-IO among the modules.
    traces: [usize; 2],
    has_nanos: bool,
}

impl LogLayout {
    fn of(version: &str) -> Result<LogLayout, String> {
        let (modules, posix, has_nanos) = match version {
            // Before 3.10 there were no traces.
            "3.00" => return Err(NO_TRACES.into()),
            "3.10" => (16, 8, false),
            "3.20" | "3.21" => (16, 9, false),
            "3.41" => (64, 10, true),
            other => {
                return Err(format!(
                    "its version '{}' is not known (3.10 to 3.41 are); print it as text with the \
                     Darshan that wrote it: darshan-dxt-parser LOG > LOG.txt",
                    plimsoll_core::text::printable(other)
                ));
            }
        };
        Ok(LogLayout {
            modules,
            traces: [posix, posix + 1],
            has_nanos,
        })
    }
}

/// The traces of one layer of a log.
struct TracedLayer {
    name: &'static str,
    region: LogRegion,
    /// Version of the records.
    version: u32,
    is_partial: bool,
}

/// Fields of the header.
struct LogHeader {
    version: String,
    is_big: bool,
    method: LogCompression,
    job: LogRegion,
    names: LogRegion,
    /// POSIX, MPI-IO.
    traces: [TracedLayer; 2],
    has_nanos: bool,
}

impl LogHeader {
    fn of(head: &[u8]) -> Result<LogHeader, String> {
        let short = || "its header is cut".to_owned();
        let is_big = is_big(head).ok_or_else(short)?;
        let version = String::from_utf8_lossy(&head[..8]);
        let version = version.trim_end_matches('\0').to_owned();
        let layout = LogLayout::of(&version)?;
        let long = |at: usize| Some(long(head.get(at..)?.first_chunk()?, is_big));
        let int = |at: usize| {
            let bytes = *head.get(at..)?.first_chunk::<4>()?;
            Some(if is_big {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            })
        };
        let region = |at: usize| {
            let (offset, length) = (long(at)?, long(at + 8)?);
            Some(LogRegion { offset, length })
        };
        let method = match head.get(16).ok_or_else(short)? {
            0 => LogCompression::Zlib,
            1 => LogCompression::Bzip2,
            2 => LogCompression::None,
            other => return Err(format!("its compression {other} is not known")),
        };
        let is_wide = layout.modules > 32;
        let names_at = if is_wide { 32 } else { 24 };
        let partial = match is_wide {
            true => long(24),
            false => int(20).map(u64::from),
        };
        let partial = partial.ok_or_else(short)?;
        let maps_at = names_at + 16;
        let versions_at = maps_at + 16 * layout.modules;
        let end = versions_at + 4 * layout.modules;
        if head.len() < end {
            return Err(short());
        }
        let layer = |name, place: usize| {
            Some(TracedLayer {
                name,
                region: region(maps_at + 16 * place)?,
                version: int(versions_at + 4 * place)?,
                is_partial: partial >> place & 1 == 1,
            })
        };
        let names = region(names_at).ok_or_else(short)?;
        Ok(LogHeader {
            version,
            is_big,
            method,
            job: LogRegion {
                offset: end as u64,
                length: names.offset.saturating_sub(end as u64),
            },
            names,
            traces: [
                layer("POSIX", layout.traces[0]).ok_or_else(short)?,
                layer("MPI-IO", layout.traces[1]).ok_or_else(short)?,
            ],
            has_nanos: layout.has_nanos,
        })
    }

    /// The layer whose traces are read: what reached the file system, if that was recorded.
    fn layer(&self) -> Result<&TracedLayer, String> {
        let [posix, mpi] = &self.traces;
        let layer = if posix.region.length > 0 { posix } else { mpi };
        // Version 1 of MPI-IO had no offsets.
        match (layer.region.length, layer.name, layer.version) {
            (0, _, _) => Err(NO_TRACES.into()),
            (_, "POSIX", 1) | (_, "MPI-IO", 2) => Ok(layer),
            (_, name, version) => Err(format!(
                "version {version} of its traces of {name} is not known; print it as text: \
                 darshan-dxt-parser LOG > LOG.txt"
            )),
        }
    }
}

fn long(bytes: &[u8; 8], is_big: bool) -> u64 {
    if is_big {
        u64::from_be_bytes(*bytes)
    } else {
        u64::from_le_bytes(*bytes)
    }
}

/// Numbers of a record, one behind the other.
struct LogRecord<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl LogRecord<'_> {
    fn new(bytes: &[u8], is_big: bool) -> LogRecord<'_> {
        LogRecord { bytes, is_big }
    }

    fn long(&self, place: usize) -> u64 {
        let bytes = self.bytes.get(8 * place..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| long(bytes, self.is_big))
    }

    fn signed(&self, place: usize) -> i64 {
        self.long(place).cast_signed()
    }
}

fn open(mut input: RecordingInput) -> Result<Box<dyn TraceSource>, TraceError> {
    let wrong = |what: String| TraceError::format(input.name(), what);
    let header = LogHeader::of(input.head()).map_err(wrong)?;
    let layer = header.layer().map_err(wrong)?;
    let format = format!("{}, version {}", FORMAT.name, header.version);
    let state = TraceReadState::new(input.name(), format, CARRIES);
    let mut gathered = TraceGatherer::new(state);
    if layer.is_partial {
        gathered.state.warnings.push(format!(
            "requests are missing: the memory that Darshan had for traces of {} was full",
            layer.name
        ));
    }
    if layer.name != "POSIX" {
        gathered.state.warnings.push(
            "only calls of MPI-IO were traced, not what they became in the file system".into(),
        );
    }
    let mut zero_unix_ns = None;
    let read = read(&mut input, &header, layer, &mut gathered, &mut zero_unix_ns);
    if let Err(error) = read {
        let what = error.to_string();
        gathered.state.damage = Some(input.damage(input.offset(), what));
    }
    gathered.finish(zero_unix_ns, "its traces hold no request with bytes")
}

/// Reads the regions in the order in which they lie.
fn read(
    input: &mut RecordingInput,
    header: &LogHeader,
    layer: &TracedLayer,
    gathered: &mut TraceGatherer,
    zero_unix_ns: &mut Option<u64>,
) -> io::Result<()> {
    let mut job = [0; JOB_BYTES];
    let cut = || io::Error::other("its head of the job is cut");
    if LogStream::open(input, header.job, header.method)?.fill(&mut job)? < JOB_BYTES {
        return Err(cut());
    }
    let job = LogRecord::new(&job, header.is_big);
    let nanos = if header.has_nanos { job.long(2) } else { 0 };
    let seconds = job.long(1).checked_mul(NANOS);
    *zero_unix_ns = seconds.and_then(|ns| ns.checked_add(nanos.min(NANOS - 1)));
    let processes = job.long(if header.has_nanos { 5 } else { 3 });
    if processes > 1 {
        gathered.state.warnings.push(CLOCKS.into());
    }
    let names = names(input, header, gathered)?;
    let mut stream = LogStream::open(input, layer.region, header.method)?;
    let mut hosts = Vec::new();
    let ended = traces(&mut stream, header.is_big, &names, gathered, &mut hosts);
    if let [host] = &hosts[..] {
        gathered.state.about.host = host.clone();
    }
    ended
}

/// The names of files by their numbers: their bytes as they were read, and where each begins and ends. A log
/// may have millions of short ones, which would take ten times as much singly.
#[derive(Default)]
struct LoggedNames {
    bytes: Vec<u8>,
    places: Vec<(u64, Range<u32>)>,
}

impl LoggedNames {
    fn of(bytes: Vec<u8>, is_big: bool) -> LoggedNames {
        let mut places = Vec::new();
        let mut at = 0;
        while let Some((id, text)) = bytes[at..].split_first_chunk::<8>() {
            let Some(length) = text.iter().position(|byte| *byte == 0) else {
                break;
            };
            let begin = at + 8;
            let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            places.push((long(id, is_big), place(begin)..place(begin + length)));
            at = begin + length + 1;
        }
        // Stable: of a number that comes twice the last name counts.
        places.sort_by_key(|(id, _)| *id);
        LoggedNames { bytes, places }
    }

    fn get(&self, id: u64) -> Option<&[u8]> {
        let behind = self.places.partition_point(|(other, _)| *other <= id);
        let (found, place) = self.places.get(behind.checked_sub(1)?)?;
        let place = place.start as usize..place.end as usize;
        (*found == id).then(|| &self.bytes[place])
    }
}

fn names(
    input: &mut RecordingInput,
    header: &LogHeader,
    gathered: &mut TraceGatherer,
) -> io::Result<LoggedNames> {
    if header.names.length == 0 {
        return Ok(LoggedNames::default());
    }
    let stream = LogStream::open(input, header.names, header.method)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(
        &mut io::Read::take(stream, NAMES_BYTES_MAX as u64),
        &mut bytes,
    )?;
    if bytes.len() == NAMES_BYTES_MAX {
        gathered
            .state
            .warnings
            .push("it has more than 64 MiB of names: the files behind them have numbers".into());
    }
    Ok(LoggedNames::of(bytes, header.is_big))
}

/// The traces of one file by one process after the other.
fn traces(
    stream: &mut LogStream<'_>,
    is_big: bool,
    names: &LoggedNames,
    gathered: &mut TraceGatherer,
    hosts: &mut Vec<String>,
) -> io::Result<()> {
    let mut head = [0; FILE_BYTES];
    let mut bytes = vec![0; AT_ONCE * REQUEST_BYTES];
    loop {
        match stream.fill(&mut head)? {
            0 => return Ok(()),
            FILE_BYTES => {}
            _ => return Err(io::Error::other("the head of a file's traces is cut")),
        }
        let (numbers, rest) = head.split_at(24);
        let (host, counts) = rest.split_at(64);
        let id = LogRecord::new(numbers, is_big).long(0);
        let counts = LogRecord::new(counts, is_big);
        let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
        let host = String::from_utf8_lossy(host).into_owned();
        // Two are enough to know that there are several.
        if hosts.len() < 2 && !hosts.contains(&host) {
            hosts.push(host);
        }
        let number = format!("file {id}");
        let name = names.get(id).unwrap_or(number.as_bytes());
        for (kind, place) in WRITES_FIRST.into_iter().zip(0..) {
            let mut rest = counts.long(place);
            if gathered.seen().saturating_add(rest) > LISTED_MAX {
                return Err(io::Error::other(
                    "it claims more requests than a log can have (100 million)",
                ));
            }
            while rest > 0 {
                let n = usize::try_from(rest).unwrap_or(AT_ONCE).min(AT_ONCE);
                let wanted = n * REQUEST_BYTES;
                let got = stream.fill(&mut bytes[..wanted])? / REQUEST_BYTES;
                for record in bytes.chunks_exact(REQUEST_BYTES).take(got) {
                    let record = LogRecord::new(record, is_big);
                    let listed = ListedRequest {
                        kind,
                        offset: record.signed(0),
                        bytes: record.signed(1),
                        start_s: f64::from_bits(record.long(2)),
                        end_s: f64::from_bits(record.long(3)),
                    };
                    if !gathered.push(name, listed) {
                        return Err(io::Error::other(
                            "it holds more than 8 million requests, which is as many as are read",
                        ));
                    }
                }
                if got < n {
                    return Err(io::Error::other("the traces of a file are cut"));
                }
                rest -= n as u64;
            }
        }
    }
}
