// SPDX-License-Identifier: Apache-2.0
//! Logs that are made here by the layout of Darshan's own headers.

use std::io::Write;

use super::super::TraceFormat;
use super::super::fixtures::{FixtureRequest, read};
use super::*;
use crate::input::RecordingInput;

/// Output of `darshan-dxt-parser` for two processes and two files, shortened.
pub(in super::super) const PRINTED: &[u8] = b"# darshan log version: 3.21
# compression method: ZLIB
# exe: ./app
# start_time: 1640000000
# nprocs: 2

# DXT_POSIX module data
# DXT, file_id: 7, file_name: /scratch/a b
# DXT, rank: 0, hostname: n1
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       0  write        0               0         1048576      0.5000      0.7500  [  3]
 X_POSIX       0  write        1         1048576               0      0.7500      0.7500
 X_POSIX       0   read        0            4096            4096      2.0000      2.0001  [  3]

# DXT, file_id: 8, file_name: /scratch/c
# DXT, rank: 1, hostname: n1
 X_POSIX       1   read        0               0             512      0.2500      0.2501

# DXT_MPIIO module data
# DXT, file_id: 7, file_name: /scratch/a b
 X_MPIIO       0  write        0               0         1048576      0.4000      0.7600
";

const EXPECT: [FixtureRequest; 3] = [
    (0, Some(100_000), OpKind::Read, 1, 512, 0),
    (
        250_000_000,
        Some(250_000_000),
        OpKind::Write,
        0,
        1_048_576,
        0,
    ),
    (1_750_000_000, Some(100_000), OpKind::Read, 0, 4096, 4096),
];

/// A request: offset, length, start and end in seconds.
type MadeTrace = (u64, u64, f64, f64);

/// How a log is made.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct MadeLog {
    pub(in super::super) version: &'static str,
    pub(in super::super) is_big: bool,
    pub(in super::super) method: u8,
    /// Version of the traces of POSIX; 0 leaves them out.
    pub(in super::super) posix: u32,
    pub(in super::super) mpi: u32,
    pub(in super::super) is_partial: bool,
    /// Number of files without a name and without use.
    pub(in super::super) unused: u64,
}

pub(in super::super) const MADE: MadeLog = MadeLog {
    version: "3.21",
    is_big: false,
    method: 0,
    posix: 1,
    mpi: 2,
    is_partial: false,
    unused: 0,
};

impl MadeLog {
    fn long(&self, value: u64) -> [u8; 8] {
        if self.is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn int(&self, value: u32) -> [u8; 4] {
        if self.is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn packed(&self, bytes: &[u8]) -> Vec<u8> {
        match self.method {
            0 => {
                let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
                zlib.write_all(bytes).unwrap();
                zlib.finish().unwrap()
            }
            1 => {
                let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
                bzip2.write_all(bytes).unwrap();
                bzip2.finish().unwrap()
            }
            _ => bytes.into(),
        }
    }

    /// The traces of a file by a process: writes, then reads.
    fn file(&self, id: u64, rank: u64, writes: &[MadeTrace], reads: &[MadeTrace]) -> Vec<u8> {
        let mut bytes = [id, rank, 0].map(|n| self.long(n)).concat();
        let mut host = [0; 64];
        host[..2].copy_from_slice(b"n1");
        bytes.extend(host);
        bytes.extend(
            [writes, reads]
                .map(|list| self.long(list.len() as u64))
                .concat(),
        );
        for (offset, length, start, end) in writes.iter().chain(reads).copied() {
            bytes.extend([offset, length].map(|n| self.long(n)).concat());
            bytes.extend([start, end].map(|s| self.long(s.to_bits())).concat());
        }
        bytes
    }

    /// The job, the names, the traces of POSIX and those of MPI-IO, each compressed.
    fn regions(&self) -> [Vec<u8>; 4] {
        let mut job = vec![1000, 1_640_000_000];
        if self.version == "3.41" {
            job.extend([0, 1_640_000_009, 0]);
        } else {
            job.push(1_640_000_009);
        }
        job.extend([2, 42, 0, 0]);
        let job: Vec<u8> = job.into_iter().flat_map(|n| self.long(n)).collect();
        let names = [(7, "/scratch/a b"), (8, "/scratch/c")];
        let unused = (100..100 + self.unused).map(|id| (id, ""));
        let names: Vec<u8> = names
            .into_iter()
            .chain(unused)
            .flat_map(|(id, name)| [&self.long(id)[..], name.as_bytes(), b"\0"].concat())
            .collect();
        let first = self.file(
            7,
            0,
            &[(0, 1_048_576, 0.5, 0.75), (1_048_576, 0, 0.75, 0.75)],
            &[(4096, 4096, 2.0, 2.0001)],
        );
        let second = self.file(8, 1, &[], &[(0, 512, 0.25, 0.2501)]);
        // Each process compresses what it has by itself.
        let posix = [self.packed(&first), self.packed(&second)].concat();
        let mpi = self.packed(&self.file(7, 0, &[(0, 1_048_576, 0.4, 0.76)], &[]));
        let of = |version: u32, traces| if version > 0 { traces } else { Vec::new() };
        [
            self.packed(&job),
            self.packed(&names),
            of(self.posix, posix),
            of(self.mpi, mpi),
        ]
    }

    pub(in super::super) fn bytes(&self) -> Vec<u8> {
        let is_wide = self.version == "3.41";
        let modules: usize = if is_wide { 64 } else { 16 };
        let place: usize = match self.version {
            "3.10" => 8,
            "3.41" => 10,
            _ => 9,
        };
        let header_bytes = 16 + if is_wide { 16 } else { 8 } + 16 + 20 * modules;
        let regions = self.regions();
        let mut at = header_bytes as u64;
        let mut places = Vec::new();
        for region in &regions {
            places.push((if region.is_empty() { 0 } else { at }, region.len() as u64));
            at += region.len() as u64;
        }
        let mut header = self.version.as_bytes().to_vec();
        header.resize(8, 0);
        header.extend(self.long(6_567_223));
        header.extend([self.method, 0, 0, 0]);
        let flags = u32::from(self.is_partial) << place;
        if is_wide {
            header.extend([0; 4]);
            header.extend(self.long(u64::from(flags)));
        } else {
            header.extend(self.int(flags));
        }
        let pair = |(offset, length): (u64, u64)| [self.long(offset), self.long(length)].concat();
        header.extend(pair(places[1]));
        for module in 0..modules {
            header.extend(match module.checked_sub(place) {
                Some(0) => pair(places[2]),
                Some(1) => pair(places[3]),
                _ => pair((0, 0)),
            });
        }
        for module in 0..modules {
            header.extend(self.int(match module.checked_sub(place) {
                Some(0) => self.posix,
                Some(1) => self.mpi,
                _ => 0,
            }));
        }
        assert_eq!(header.len(), header_bytes);
        [header, regions.concat()].concat()
    }
}

fn error(format: &TraceFormat, bytes: &[u8]) -> String {
    assert!((format.is)(bytes));
    let bytes = std::io::Cursor::new(bytes.to_vec());
    let input = RecordingInput::new("job.darshan".into(), Box::new(bytes)).unwrap();
    match (format.open)(input) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn logs_of_every_version_byte_order_and_compression_hold_the_same() {
    for version in ["3.10", "3.20", "3.21", "3.41"] {
        for (is_big, method) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
            let made = MadeLog {
                version,
                is_big,
                method,
                ..MADE
            };
            let (log, found) = read(&LOG, &made.bytes());
            assert_eq!(found, EXPECT, "{made:?}");
            assert_eq!(log.targets(), ["/scratch/a b", "/scratch/c"]);
            assert_eq!(log.origin_unix_ns(), Some(1_640_000_000_250_000_000));
            assert_eq!(log.about().host, "n1");
            let told = log.warnings().join("; ");
            assert!(told.contains("own start of the job"), "{told}");
            assert!(told.contains("1 requests moved no bytes"), "{told}");
            assert!(!told.contains("missing"), "{told}");
        }
    }
}

#[test]
fn text_holds_the_same_to_a_tenth_of_a_millisecond() {
    let (text, found) = read(&TEXT, PRINTED);
    assert_eq!(found, EXPECT);
    assert_eq!(text.targets(), ["/scratch/a b", "/scratch/c"]);
    assert_eq!(text.origin_unix_ns(), Some(1_640_000_000_250_000_000));
    assert_eq!(text.about().host, "n1");
    assert_eq!(text.about().carries.resolution, Nanos(100_000));
    let told = text.warnings().join("; ");
    assert!(
        told.contains("1 requests of MPI-IO were left out"),
        "{told}"
    );
}

#[test]
fn what_is_missing_is_told() {
    let partial = MadeLog {
        is_partial: true,
        ..MADE
    };
    let (log, _) = read(&LOG, &partial.bytes());
    assert!(log.warnings()[0].contains("memory"), "{:?}", log.warnings());
    let upper = MadeLog { posix: 0, ..MADE };
    let (log, found) = read(&LOG, &upper.bytes());
    assert_eq!(
        found,
        [(0, Some(360_000_000), OpKind::Write, 0, 1_048_576, 0)]
    );
    assert!(log.warnings()[0].contains("MPI-IO"), "{:?}", log.warnings());
    // The traces of the second process are cut; those of the first one stand before them.
    let last = MadeLog { mpi: 0, ..MADE }.bytes();
    let (log, found) = read(&LOG, &last[..last.len() - 20]);
    let of_the_first = [
        (0, Some(250_000_000), OpKind::Write, 0, 1_048_576, 0),
        (1_500_000_000, Some(100_000), OpKind::Read, 0, 4096, 4096),
    ];
    assert_eq!(found, of_the_first);
    assert!(log.damage().is_some());
}

#[test]
fn what_is_no_trace_says_what_to_do() {
    let totals = MadeLog {
        posix: 0,
        mpi: 0,
        ..MADE
    };
    let new = MadeLog { posix: 2, ..MADE };
    let placeless = MadeLog {
        posix: 0,
        mpi: 1,
        ..MADE
    };
    let other = |version| MadeLog { version, ..MADE }.bytes();
    for (bytes, part) in [
        (totals.bytes(), "DXT_ENABLE_IO_TRACE=1"),
        (other("3.00"), "DXT_ENABLE_IO_TRACE=1"),
        (other("4.00"), "darshan-dxt-parser LOG"),
        (new.bytes(), "version 2 of its traces of POSIX"),
        (placeless.bytes(), "version 1 of its traces of MPI-IO"),
        (MADE.bytes()[..200].to_vec(), "header is cut"),
        (MADE.bytes()[..365].to_vec(), "at byte"),
    ] {
        let told = error(&LOG, &bytes);
        assert!(told.contains(part), "{part}: {told}");
    }
    for (text, part) in [
        ("# darshan log version: 3.21\n", "DXT_ENABLE_IO_TRACE=1"),
        (
            "# darshan log version: 3.21\nPOSIX\t-1\t7\tPOSIX_OPENS\t1\t/a\t/\text4\n",
            "DXT_ENABLE_IO_TRACE=1",
        ),
    ] {
        let told = error(&TEXT, text.as_bytes());
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// Names the log in the process that is measured.
const LOG_FILE: &str = "PLIMSOLL_TEST_DARSHAN";

/// The most memory that this process had so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}

/// The test starts itself again: a peak is that of a whole process.
#[test]
#[expect(clippy::disallowed_methods, reason = "this program again")]
fn names_take_a_stated_multiple_of_their_bytes() {
    if let Some(path) = std::env::var_os(LOG_FILE) {
        let file = std::fs::File::open(path).unwrap();
        let bytes = file.metadata().unwrap().len();
        let input = RecordingInput::new("job.darshan".into(), Box::new(file)).unwrap();
        let before = peak_bytes();
        let log = (LOG.open)(input).unwrap();
        let more = peak_bytes() - before;
        assert_eq!(log.targets(), ["/scratch/a b", "/scratch/c"]);
        assert!(
            more > bytes && more <= 16 * bytes,
            "{more} bytes for {bytes}"
        );
        return;
    }
    let made = MadeLog {
        method: 2,
        unused: 1_180_000,
        ..MADE
    };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    std::fs::write(&path, made.bytes()).unwrap();
    assert!(path.metadata().unwrap().len() > 10_600_000);
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "requests::darshan::tests::names_take_a_stated_multiple_of_their_bytes";
    again.args(["--exact", name]).env(LOG_FILE, &path);
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{output:?}"
    );
}
