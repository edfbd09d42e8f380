// SPDX-License-Identifier: Apache-2.0
//! Published traces of requests, counted a second time by readers that know nothing of ours: every request by
//! its columns, each disk's sums equal to the last digit.
//!
//! The traces are those of `PLIMSOLL_TEST_DATA`, in its folder `traces`; the test says which are absent.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use plimsoll_core::op::OpKind;
use plimsoll_trace::OpenRecording;

/// A request as its row has it: when, for how long, of which kind, where and how much.
struct CountedRequest {
    device: String,
    at_ns: u64,
    took_ns: Option<u64>,
    kind: OpKind,
    offset: u64,
    bytes: u64,
}

/// Of one device and kind: requests, bytes, and sums of offsets, starts and times.
type Sums = [u128; 5];

/// Without the names of devices, which formats put together differently.
fn sums(requests: &[CountedRequest]) -> Vec<(String, Sums)> {
    let first = requests.iter().map(|request| request.at_ns).min().unwrap();
    let mut found: BTreeMap<(&str, String), Sums> = BTreeMap::new();
    for request in requests {
        let sum = found
            .entry((&request.device, format!("{:?}", request.kind)))
            .or_default();
        let figures = [
            1,
            request.bytes,
            request.offset,
            request.at_ns - first,
            request.took_ns.unwrap_or(0),
        ];
        for (sum, figure) in sum.iter_mut().zip(figures) {
            *sum += u128::from(figure);
        }
    }
    let mut found: Vec<_> = found
        .into_iter()
        .map(|((_, kind), sums)| (kind, sums))
        .collect();
    found.sort();
    found
}

fn whole(word: &str) -> u64 {
    word.parse().unwrap()
}

/// Seconds with nine decimals or fewer.
fn nanos(word: &str) -> u64 {
    let (seconds, fraction) = word.split_once('.').unwrap();
    whole(seconds) * 1_000_000_000 + whole(&format!("{fraction:0<9}"))
}

fn way(is_read: bool) -> OpKind {
    if is_read { OpKind::Read } else { OpKind::Write }
}

fn msr(text: &str) -> Vec<CountedRequest> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        CountedRequest {
            device: words[1].to_owned() + words[2],
            at_ns: whole(words[0]) * 100,
            took_ns: Some(whole(words[6]) * 100),
            kind: way(words[3] == "Read"),
            offset: whole(words[4]),
            bytes: whole(words[5]),
        }
    };
    text.lines().map(row).collect()
}

fn systor(text: &str) -> Vec<CountedRequest> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        CountedRequest {
            device: words[3].into(),
            at_ns: nanos(words[0]),
            took_ns: (!words[1].is_empty()).then(|| nanos(words[1])),
            kind: way(words[2] == "R"),
            offset: whole(words[4]),
            bytes: whole(words[5]),
        }
    };
    text.lines().skip(1).map(row).collect()
}

fn mqsim(text: &str) -> Vec<CountedRequest> {
    let row = |line: &str| {
        let words: Vec<u64> = line.split_whitespace().map(whole).collect();
        CountedRequest {
            device: words[1].to_string(),
            at_ns: words[0],
            took_ns: None,
            kind: way(words[4] == 1),
            offset: words[2] * 512,
            bytes: words[3] * 512,
        }
    };
    text.lines().map(row).collect()
}

fn tencent(text: &str) -> Vec<CountedRequest> {
    let row = |line: &str| {
        let words: Vec<u64> = line.split(',').map(whole).collect();
        CountedRequest {
            device: words[4].to_string(),
            at_ns: words[0] * 1_000_000_000,
            took_ns: None,
            kind: way(words[3] == 0),
            offset: words[1] * 512,
            bytes: words[2] * 512,
        }
    };
    text.lines().map(row).collect()
}

/// Queued requests; ends are found by pairing, which is no matter of columns.
fn blkparse(text: &str) -> Vec<CountedRequest> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_queued = words.len() > 6 && words[0].contains(',') && words[5] == "Q";
        is_queued.then(|| {
            let has_bytes = words.get(8) == Some(&"+");
            let kind = match words[6] {
                flags if !has_bytes && flags.contains('F') => OpKind::Fsync,
                flags if flags.contains('D') => OpKind::Discard,
                flags => way(flags.contains('R')),
            };
            CountedRequest {
                device: words[0].into(),
                at_ns: nanos(words[3]),
                took_ns: None,
                kind,
                offset: if has_bytes { whole(words[7]) * 512 } else { 0 },
                bytes: if has_bytes { whole(words[9]) * 512 } else { 0 },
            }
        })
    };
    text.lines().filter_map(row).collect()
}

fn little(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Commands of 32 bytes, of which those of SCSI that read and write move data.
fn vscsi(bytes: &[u8]) -> Vec<CountedRequest> {
    let record = |record: &[u8]| {
        let is_read = match record[12] {
            0x08 | 0x28 | 0xa8 | 0x88 => true,
            0x0a | 0x2a | 0xaa | 0x8a => false,
            _ => return None,
        };
        Some(CountedRequest {
            device: String::new(),
            at_ns: little(&record[24..32]) * 1_000,
            took_ns: None,
            kind: way(is_read),
            offset: little(&record[16..24]) * 512,
            bytes: little(&record[4..8]),
        })
    };
    bytes.chunks_exact(32).filter_map(record).collect()
}

/// Events that were queued, in the files of all processors.
fn blktrace(bytes: &[u8]) -> Vec<CountedRequest> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((record, behind)) = rest.split_at_checked(48) {
        rest = &behind[usize::try_from(little(&record[46..48])).unwrap()..];
        if little(&record[28..30]) == 1 {
            found.push(CountedRequest {
                device: little(&record[36..40]).to_string(),
                at_ns: little(&record[8..16]),
                took_ns: None,
                kind: way(record[30] & 2 == 0),
                offset: little(&record[16..24]) * 512,
                bytes: little(&record[24..28]),
            });
        }
    }
    found
}

/// Requests that this program reads, without ends where the other reader has none.
fn ours(path: &Path, has_ends: bool) -> Vec<CountedRequest> {
    let Ok(OpenRecording::Requests(mut requests)) = plimsoll_trace::open(path) else {
        panic!("{} is of requests", path.display());
    };
    let mut found = Vec::new();
    while requests.read(&mut found).unwrap() {}
    let request = |request: &plimsoll_trace::requests::TraceRequest| CountedRequest {
        device: requests.targets()[usize::from(request.target)].clone(),
        at_ns: request.at.0,
        took_ns: request.took.filter(|_| has_ends).map(|took| took.0),
        kind: request.kind,
        offset: request.offset,
        bytes: u64::from(request.bytes),
    };
    found.iter().map(request).collect()
}

/// A file, decompressed by what its first bytes say.
fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let mut unpacked = Vec::new();
    let decoded = match &bytes[..2] {
        [0x1f, 0x8b] => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked),
        b"BZ" => bzip2::read::BzDecoder::new(&bytes[..]).read_to_end(&mut unpacked),
        _ => return Some(bytes),
    };
    decoded.unwrap();
    Some(unpacked)
}

enum CountingReader {
    Text(fn(&str) -> Vec<CountedRequest>),
    Bytes(fn(&[u8]) -> Vec<CountedRequest>),
}

use CountingReader::{Bytes, Text};

/// Trace to open, the files that hold it, its reader here, and whether that reader knows ends.
const TRACES: [(&str, &[&str], CountingReader, bool); 9] = [
    ("msr/msr-cambridge1-sample.csv", &[""], Text(msr), true),
    (
        "systor/systor17-traces-sample.csv.gz",
        &[""],
        Text(systor),
        true,
    ),
    (
        "systor/systor17-additional-sample.csv.gz",
        &[""],
        Text(systor),
        true,
    ),
    ("mqsim/tpcc-small.trace", &[""], Text(mqsim), false),
    ("mqsim/wsrch-small.trace", &[""], Text(mqsim), false),
    (
        "tencent/cloud_storage-sample.bz2",
        &[""],
        Text(tencent),
        false,
    ),
    (
        "blktrace_text/nvme0n1.blkparse.txt",
        &[""],
        Text(blkparse),
        false,
    ),
    ("vscsi/cloudPhysicsIO.vscsi", &[""], Bytes(vscsi), false),
    (
        "blktrace_bin/msrhm",
        &[".blktrace.0", ".blktrace.1"],
        Bytes(blktrace),
        false,
    ),
];

#[test]
fn every_request_of_published_traces_is_counted_to_the_byte() {
    let folder =
        std::env::var_os("PLIMSOLL_TEST_DATA").map(|folder| Path::new(&folder).join("traces"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        let _ = writeln!(
            std::io::stderr(),
            "\nSKIPPED: traces are absent; set PLIMSOLL_TEST_DATA\n"
        );
        return;
    };
    let mut all = 0;
    for (name, files, counting, has_ends) in TRACES {
        let path = folder.join(name);
        let parts: Option<Vec<Vec<u8>>> = files
            .iter()
            .map(|ending| read(&folder.join(name.to_owned() + ending)))
            .collect();
        let Some(bytes) = parts.map(|parts| parts.concat()) else {
            let _ = writeln!(std::io::stderr(), "{name}: absent");
            continue;
        };
        let expect = match counting {
            Text(reader) => reader(str::from_utf8(&bytes).unwrap()),
            Bytes(reader) => reader(&bytes),
        };
        let found = ours(&path, has_ends);
        let devices = expect.iter().map(|request| &request.device);
        let devices: std::collections::BTreeSet<_> = devices.collect();
        let _ = writeln!(
            std::io::stderr(),
            "{name}: {} of {} requests of {} devices",
            found.len(),
            expect.len(),
            devices.len()
        );
        assert_eq!(sums(&found), sums(&expect), "{name}");
        all += found.len();
    }
    let _ = writeln!(std::io::stderr(), "{all} requests");
    assert!(all > 100_000, "{all}");
}
