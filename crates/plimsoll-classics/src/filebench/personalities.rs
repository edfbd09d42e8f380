// SPDX-License-Identifier: Apache-2.0
//! The personalities shipped with filebench 1.5-alpha3, with its variables as settings and its
//! values as their defaults.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{
    FileLoop, FileLoopGroup, FileLoopOp, FileLoopOpenMode, FileOp, FileSet, FileSizeDistribution,
    FileTreeLayout,
};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{looped, setting, threads_that};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Shape of filebench's gamma distributions, of sizes and of trees, by default.
pub(super) const GAMMA_SHAPE: f64 = 1.5;
/// Bytes that an event of `bwlimit` stands for.
pub(super) const LIMIT_BYTES: u32 = 1 << 20;

/// Most threads of a group.
const THREADS_MAX: u32 = 1024;
/// Most files of a set.
const FILES_MAX: u32 = 10_000_000;
/// Largest read or write.
const PIECE_MAX: u64 = 256 << 20;
/// Largest file: 1 PiB.
const FILE_MAX: u64 = 1 << 50;

const NFILES_1000: SettingDefinition =
    setting("nfiles", SettingUnit::Count, "1000", "files of the set");
const NFILES_10000: SettingDefinition =
    setting("nfiles", SettingUnit::Count, "10000", "files of the set");
const FLAT: SettingDefinition = width("1000000");
const WIDTH_20: SettingDefinition = width("20");
const IOSIZE: SettingDefinition = setting(
    "iosize",
    SettingUnit::Size(1),
    "1m",
    "bytes per read or write of whole files",
);
const APPEND: SettingDefinition = setting(
    "meanappendsize",
    SettingUnit::Size(1),
    "16k",
    "appends are shorter than this: half of it in the mean",
);
const GAMMA: SettingDefinition = setting(
    "filesizegamma",
    SettingUnit::Number,
    "1.5",
    "shape of the gamma distribution of file sizes; 0: all alike",
);
const DIRECT: SettingDefinition = setting(
    "directio",
    SettingUnit::Flag,
    "off",
    "bypass the page cache",
);
const WORKINGSET: SettingDefinition = setting(
    "workingset",
    SettingUnit::Size(1),
    "0",
    "bytes of each file that are used; 0: all",
);

const fn width(default: &'static str) -> SettingDefinition {
    setting(
        "meandirwidth",
        SettingUnit::Count,
        default,
        "mean number of entries of a directory",
    )
}

const fn threads(default: &'static str) -> SettingDefinition {
    setting("nthreads", SettingUnit::Count, default, "threads")
}

const fn size(default: &'static str) -> SettingDefinition {
    setting(
        "meanfilesize",
        SettingUnit::Size(1),
        default,
        "mean size of the files",
    )
}

const fn rate(default: &'static str, help: &'static str) -> SettingDefinition {
    setting("eventrate", SettingUnit::Number, default, help)
}

const RANDOM: &[SettingDefinition] = &[
    setting("filesize", SettingUnit::Size(1), "5g", "size of the file"),
    setting("iosize", SettingUnit::Size(1), "8k", "bytes per operation"),
    threads("1"),
    WORKINGSET,
    DIRECT,
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: "varmail",
        about: "a mail server that syncs every message (filebench)",
        settings: &[
            NFILES_1000,
            FLAT,
            size("16k"),
            GAMMA,
            threads("16"),
            IOSIZE,
            APPEND,
        ],
        build: varmail,
    },
    WorkloadDefinition {
        name: "webserver",
        about: "a web server: whole files read, one log appended to (filebench)",
        settings: &[
            NFILES_1000,
            WIDTH_20,
            size("16k"),
            GAMMA,
            threads("100"),
            IOSIZE,
            APPEND,
        ],
        build: webserver,
    },
    WorkloadDefinition {
        name: "fileserver",
        about: "home directories: create, write, append, read, delete, stat (filebench)",
        settings: &[
            NFILES_10000,
            WIDTH_20,
            size("128k"),
            GAMMA,
            threads("50"),
            IOSIZE,
            APPEND,
        ],
        build: fileserver,
    },
    WorkloadDefinition {
        name: "webproxy",
        about: "a proxy's cache: one file replaced, five read (filebench)",
        settings: &[
            NFILES_10000,
            FLAT,
            size("16k"),
            setting(
                "filesizegamma",
                SettingUnit::Number,
                "0",
                "shape of the gamma distribution of file sizes; 0: all alike",
            ),
            threads("100"),
            setting(
                "meaniosize",
                SettingUnit::Size(1),
                "16k",
                "new files are shorter than this: half of it in the mean",
            ),
            IOSIZE,
            rate("0", "operations per second of all threads; 0: no limit"),
        ],
        build: webproxy,
    },
    WorkloadDefinition {
        name: "randomread",
        about: "random reads of one file through the page cache (filebench)",
        settings: RANDOM,
        build: |settings| random(settings, "randomread", false),
    },
    WorkloadDefinition {
        name: "randomwrite",
        about: "random writes of one file through the page cache (filebench)",
        settings: RANDOM,
        build: |settings| random(settings, "randomwrite", true),
    },
    WorkloadDefinition {
        name: "oltp",
        about: "a database: readers, writers of the tables, a log (filebench)",
        settings: &[
            setting("nfiles", SettingUnit::Count, "10", "table files"),
            setting(
                "filesize",
                SettingUnit::Size(1),
                "10m",
                "size of each table file",
            ),
            setting("nlogfiles", SettingUnit::Count, "1", "log files"),
            setting(
                "logfilesize",
                SettingUnit::Size(1),
                "10m",
                "size of each log file",
            ),
            setting(
                "nshadows",
                SettingUnit::Count,
                "200",
                "threads that read tables",
            ),
            setting(
                "ndbwriters",
                SettingUnit::Count,
                "10",
                "threads that write tables",
            ),
            setting(
                "iosize",
                SettingUnit::Size(1),
                "2k",
                "bytes per read or write of tables",
            ),
            WORKINGSET,
            DIRECT,
            rate("0", "reads per second of all threads; 0: no limit"),
        ],
        build: oltp,
    },
    WorkloadDefinition {
        name: "videoserver",
        about: "streams read at a rate while new videos replace old ones (filebench)",
        settings: &[
            setting(
                "filesize",
                SettingUnit::Size(1),
                "10g",
                "size of each video",
            ),
            setting(
                "numactivevids",
                SettingUnit::Count,
                "32",
                "videos being watched",
            ),
            setting(
                "numpassivevids",
                SettingUnit::Count,
                "194",
                "slots of other videos, half of them filled",
            ),
            threads("48"),
            setting("readiosize", SettingUnit::Size(1), "256k", "bytes per read"),
            setting("writeiosize", SettingUnit::Size(1), "1m", "bytes per write"),
            setting(
                "repintval",
                SettingUnit::Time,
                "10",
                "time between two new videos",
            ),
            rate("96", "MiB per second read by all threads; 0: no limit"),
        ],
        build: videoserver,
    },
];

fn threads_of(settings: &SettingValues, name: &str) -> Result<u32, ClassicsError> {
    Ok(settings.count_within(name, 1, THREADS_MAX)?)
}

/// Bytes of one operation.
fn piece(settings: &SettingValues, name: &str) -> Result<u32, ClassicsError> {
    Ok(saturating_u32(settings.bytes_within(name, 1, PIECE_MAX)?))
}

fn events(settings: &SettingValues) -> Result<Option<f64>, ClassicsError> {
    let rate = settings.number("eventrate");
    if rate == 0.0 {
        return Ok(None);
    }
    if (0.001..=1e9).contains(&rate) {
        return Ok(Some(rate));
    }
    let text = settings.text("eventrate");
    Err(settings.wrong(
        "eventrate",
        text,
        "expected 0, or a number from 0.001 to 1000000000",
    ))
}

/// A set of files of a mean size in a tree of a mean width.
fn set(
    settings: &SettingValues,
    name: &str,
    entries: u32,
    prealloc: f64,
) -> Result<FileSet, ClassicsError> {
    let shape = settings.number("filesizegamma");
    let sizes = if shape == 0.0 {
        FileSizeDistribution::Constant
    } else if (1.0..=1e6).contains(&shape) {
        FileSizeDistribution::Gamma(shape)
    } else {
        let text = settings.text("filesizegamma");
        return Err(settings.wrong(
            "filesizegamma",
            text,
            "expected 0, or an integer from 1 to 1000000",
        ));
    };
    let mean_bytes = settings.bytes_within("meanfilesize", 0, FILE_MAX)?;
    let width = settings.count_within("meandirwidth", 2, u32::MAX)?;
    Ok(FileSet {
        prealloc,
        tree: random_tree(f64::from(width)),
        ..FileSet::flat(name, entries, mean_bytes, sizes)
    })
}

/// The tree that filebench makes by default.
pub(super) fn random_tree(width: f64) -> FileTreeLayout {
    FileTreeLayout::Random {
        width,
        shape: GAMMA_SHAPE,
    }
}

fn bigfileset(settings: &SettingValues, prealloc: f64) -> Result<FileSet, ClassicsError> {
    let entries = settings.count_within("nfiles", 1, FILES_MAX)?;
    set(settings, "bigfileset", entries, prealloc)
}

/// On the first set and open file 1, where all personalities have theirs.
fn listed(ops: &[FileOp]) -> Vec<FileLoopOp> {
    ops.iter().map(|op| FileLoopOp::on(*op, 0, 1)).collect()
}

fn varmail(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let bytes = piece(settings, "meanappendsize")?;
    let append = FileOp::AppendRandom { bytes };
    let piece_bytes = piece(settings, "iosize")?;
    let read = FileOp::ReadWhole { piece_bytes };
    let ops = listed(&[
        FileOp::Delete,
        FileOp::Create,
        append,
        FileOp::Fsync,
        FileOp::Close,
        FileOp::Open,
        read,
        append,
        FileOp::Fsync,
        FileOp::Close,
        FileOp::Open,
        read,
        FileOp::Close,
    ]);
    let group = threads_that("filereaderthread", threads_of(settings, "nthreads")?, ops);
    let sets = vec![bigfileset(settings, 0.8)?];
    Ok(Workload::Files(looped("varmail", sets, vec![group])))
}

fn webserver(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let piece_bytes = piece(settings, "iosize")?;
    let read = [
        FileOp::Open,
        FileOp::ReadWhole { piece_bytes },
        FileOp::Close,
    ];
    let mut ops = listed(&read.repeat(10));
    let bytes = piece(settings, "meanappendsize")?;
    ops.push(FileLoopOp {
        opened: FileLoopOpenMode::Once,
        ..FileLoopOp::on(FileOp::AppendRandom { bytes }, 1, 2)
    });
    let group = threads_that("filereaderthread", threads_of(settings, "nthreads")?, ops);
    let pages = FileSet {
        read_only: true,
        ..bigfileset(settings, 1.0)?
    };
    let sets = vec![pages, set(settings, "logfiles", 1, 1.0)?];
    Ok(Workload::Files(looped("webserver", sets, vec![group])))
}

fn fileserver(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let piece_bytes = piece(settings, "iosize")?;
    let bytes = piece(settings, "meanappendsize")?;
    let ops = listed(&[
        FileOp::Create,
        FileOp::WriteWhole { piece_bytes },
        FileOp::Close,
        FileOp::Open,
        FileOp::AppendRandom { bytes },
        FileOp::Close,
        FileOp::Open,
        FileOp::ReadWhole { piece_bytes },
        FileOp::Close,
        FileOp::Delete,
        FileOp::Stat,
    ]);
    let group = threads_that("filereaderthread", threads_of(settings, "nthreads")?, ops);
    let sets = vec![bigfileset(settings, 0.8)?];
    Ok(Workload::Files(looped("fileserver", sets, vec![group])))
}

fn webproxy(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let bytes = piece(settings, "meaniosize")?;
    let piece_bytes = piece(settings, "iosize")?;
    let mut list = vec![
        FileOp::Delete,
        FileOp::Create,
        FileOp::AppendRandom { bytes },
        FileOp::Close,
    ];
    let read = [
        FileOp::Open,
        FileOp::ReadWhole { piece_bytes },
        FileOp::Close,
    ];
    list.extend(read.repeat(5));
    list.push(FileOp::LimitOps);
    let group = threads_that(
        "proxycache",
        threads_of(settings, "nthreads")?,
        listed(&list),
    );
    let sets = vec![bigfileset(settings, 0.8)?];
    Ok(Workload::Files(FileLoop {
        events_per_s: events(settings)?,
        ..looped("webproxy", sets, vec![group])
    }))
}

fn random(settings: &SettingValues, name: &str, writes: bool) -> Result<Workload, ClassicsError> {
    let (bytes, random) = (piece(settings, "iosize")?, true);
    let file_bytes = settings.bytes_within("filesize", u64::from(bytes), FILE_MAX)?;
    let op = FileLoopOp {
        opened: FileLoopOpenMode::Once,
        span_bytes: settings.bytes_within("workingset", 0, file_bytes)?,
        ..FileLoopOp::from(if writes {
            FileOp::Write { bytes, random }
        } else {
            FileOp::Read { bytes, random }
        })
    };
    let group = FileLoopGroup {
        direct: settings.flag("directio"),
        ..threads_that("rand-thread", threads_of(settings, "nthreads")?, vec![op])
    };
    let file = FileSet::flat("largefile1", 1, file_bytes, FileSizeDistribution::Constant);
    Ok(Workload::Files(looped(name, vec![file], vec![group])))
}

/// Signals to the writer of the log and to the writers of the tables.
const TO_LOG: u32 = 0;
const TO_TABLES: u32 = 1;
/// Reads for one write of the log, and for a batch of table writes.
const READS_PER_LOG_WRITE: u32 = 3200;
const READS_PER_BATCH: u32 = 1000;
/// Reads that may be ahead of those writers.
const AHEAD_OF_LOG: u32 = 1000;
const AHEAD_OF_TABLES: u32 = 2000;
const BATCH: u32 = 100;
const LOG_WRITE_BYTES: u32 = 256 << 10;

fn oltp(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let (bytes, random) = (piece(settings, "iosize")?, true);
    let tables = settings.count_within("nfiles", 1, 256)?;
    let table_bytes = settings.bytes_within("filesize", u64::from(bytes), FILE_MAX)?;
    let logs = settings.count_within("nlogfiles", 1, 256)?;
    let log_bytes = settings.bytes_within("logfilesize", u64::from(LOG_WRITE_BYTES), FILE_MAX)?;
    let on_tables = FileLoopOp {
        opened: FileLoopOpenMode::Rotating,
        span_bytes: settings.bytes_within("workingset", 0, table_bytes)?,
        ..FileLoopOp::from(FileOp::Read { bytes, random })
    };
    let log_write = FileOp::Write {
        bytes: LOG_WRITE_BYTES,
        random,
    };
    let log = vec![
        FileLoopOp {
            opened: FileLoopOpenMode::Once,
            ..FileLoopOp::on(log_write, 1, 0)
        },
        FileLoopOp::from(FileOp::Await {
            signal: TO_LOG,
            posts: READS_PER_LOG_WRITE,
            ahead: AHEAD_OF_LOG,
        }),
    ];
    let writes = vec![
        FileLoopOp {
            op: FileOp::Write { bytes, random },
            repeat: BATCH,
            ..on_tables
        },
        FileLoopOp::from(FileOp::Await {
            signal: TO_TABLES,
            posts: READS_PER_BATCH,
            ahead: AHEAD_OF_TABLES,
        }),
    ];
    let mut reads = vec![on_tables];
    let posts = [TO_LOG, TO_TABLES].map(|signal| FileOp::Post { signal });
    reads.extend(posts.map(FileLoopOp::from));
    reads.push(FileLoopOp::from(FileOp::Limit));
    let of = |name: &str, threads, ops, sync| FileLoopGroup {
        // The log is written through the page cache and to the medium, as the tables are.
        direct: settings.flag("directio"),
        sync,
        ..threads_that(name, threads, ops)
    };
    let groups = vec![
        of("lgwr", 1, log, true),
        of("dbwr", threads_of(settings, "ndbwriters")?, writes, true),
        of("shadow", threads_of(settings, "nshadows")?, reads, false),
    ];
    let sets = vec![
        FileSet {
            tree: random_tree(1024.0),
            ..FileSet::flat(
                "datafiles",
                tables,
                table_bytes,
                FileSizeDistribution::Constant,
            )
        },
        FileSet {
            tree: random_tree(1024.0),
            ..FileSet::flat("logfile", logs, log_bytes, FileSizeDistribution::Constant)
        },
    ];
    Ok(Workload::Files(FileLoop {
        events_per_s: events(settings)?,
        ..looped("oltp", sets, groups)
    }))
}

fn videoserver(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let file_bytes = settings.bytes_within("filesize", 1, FILE_MAX)?;
    let active = settings.count_within("numactivevids", 1, FILES_MAX)?;
    let passive = settings.count_within("numpassivevids", 2, FILES_MAX)?;
    let videos = |name: &str, entries, width, prealloc| FileSet {
        tree: random_tree(width),
        prealloc,
        ..FileSet::flat(name, entries, file_bytes, FileSizeDistribution::Constant)
    };
    let writes = [
        FileOp::Delete,
        FileOp::Create,
        FileOp::WriteWhole {
            piece_bytes: piece(settings, "writeiosize")?,
        },
        FileOp::Close,
        FileOp::Delay {
            ns: settings.time("repintval").0,
        },
    ];
    let writes = writes.map(|op| FileLoopOp::on(op, 1, 1));
    let read = FileLoopOp {
        opened: FileLoopOpenMode::Once,
        ..FileLoopOp::from(FileOp::Read {
            bytes: piece(settings, "readiosize")?,
            random: false,
        })
    };
    let limit = FileOp::LimitBytes { bytes: LIMIT_BYTES };
    let readers = threads_of(settings, "nthreads")?;
    let groups = vec![
        threads_that("vidwriter", 1, writes.into()),
        threads_that("vidreaders", readers, vec![read, FileLoopOp::from(limit)]),
    ];
    let sets = vec![
        videos("activevids", active, 4.0, 1.0),
        videos("passivevids", passive, 20.0, 0.5),
    ];
    Ok(Workload::Files(FileLoop {
        events_per_s: events(settings)?,
        ..looped("videoserver", sets, groups)
    }))
}
