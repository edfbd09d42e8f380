// SPDX-License-Identifier: Apache-2.0
//! Meaning of the name of a column: a figure of a disk, its unit and how it counts.
//!
//! Names are those of sysstat and of clouds as they are, and any others by their words:
//! `node_disk_read_bytes_total`, `sda writes/s`, `Data Disk Queue Depth`. A word that is not known, and is no
//! name of a disk, makes a column one of something else. What a name leaves open is never guessed.

use MappingKind::{Counter, Mean, Rate, Sample, Sum};
use MappingMetric::{
    Busy, DiscardBytes, Discards, Flushes, Idle, Ops, Queue, ReadBytes, ReadMerges, ReadTime,
    Reads, TotalTime, WriteBytes, WriteMerges, WriteTime, Writes,
};
use MappingUnit::{
    B, GiB, KiB, Kilobyte, MiB, Microseconds, Milliseconds, Nanoseconds, One, Percent, Seconds,
    Sectors, Share,
};
use plimsoll_core::mapping::{MappingDimension, MappingKind, MappingMetric, MappingUnit};

use super::super::meaning::{ColumnMeaning, of_sysstat};
use super::figures::{METRICS, TableFigure};

/// Disk and figure in the name of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NamedFigure {
    /// The disk that it names.
    pub(super) device: Option<String>,
    /// The figure, or what the name leaves open.
    pub(super) figure: Result<ColumnFigure, &'static str>,
}

/// A figure as a mapping file says it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColumnFigure {
    pub(super) metric: MappingMetric,
    pub(super) kind: MappingKind,
    pub(super) unit: MappingUnit,
}

const OPEN_KIND: &str = "whether it is per second (…/s), a counter (…_total) or of each interval";
const OPEN_WHAT: &str = "whether it counts operations or bytes";
const OPEN_KILO: &str = "whether a kB has 1000 or 1024 bytes (kB or KiB)";
const OPEN_UNIT: &str = "its unit (…_ms, …_seconds, %)";

/// Names of clouds: AWS, sums of each period (EBS volumes and instances, the user guides of EBS and EC2).
const CLOUD: [(&str, MappingMetric, MappingKind, MappingUnit); 12] = [
    ("VolumeReadOps", Reads, Sum, One),
    ("VolumeWriteOps", Writes, Sum, One),
    ("VolumeReadBytes", ReadBytes, Sum, B),
    ("VolumeWriteBytes", WriteBytes, Sum, B),
    ("VolumeTotalReadTime", ReadTime, Sum, Seconds),
    ("VolumeTotalWriteTime", WriteTime, Sum, Seconds),
    ("VolumeIdleTime", Idle, Sum, Seconds),
    ("VolumeQueueLength", Queue, Rate, One),
    ("EBSReadOps", Reads, Sum, One),
    ("EBSWriteOps", Writes, Sum, One),
    ("EBSReadBytes", ReadBytes, Sum, B),
    ("EBSWriteBytes", WriteBytes, Sum, B),
];

/// The table of intervals that `plimsoll profile --parquet` writes.
const INTERVALS: [(&str, MappingMetric, MappingKind, MappingUnit); 9] = [
    ("ops", Ops, Sum, One),
    ("reads", Reads, Sum, One),
    ("writes", Writes, Sum, One),
    ("read_bytes", ReadBytes, Sum, B),
    ("write_bytes", WriteBytes, Sum, B),
    ("busy", Busy, Rate, Share),
    ("queue", Queue, Rate, One),
    ("read_time_s", ReadTime, Sum, Seconds),
    ("write_time_s", WriteTime, Sum, Seconds),
];

/// Whether a cloud calls a metric so, whose times mark beginnings.
pub(super) fn is_of_cloud(name: &str) -> bool {
    CLOUD.iter().any(|(known, ..)| *known == name.trim())
}

/// Figure of a column of this name; `None` for other columns. In a table whose rows have both ends
/// of their interval a plain number is the amount counted in it.
pub(super) fn named(name: &str, has_intervals: bool) -> Option<NamedFigure> {
    let name = name.trim();
    let known = CLOUD
        .iter()
        .chain(INTERVALS.iter().filter(|_| has_intervals));
    let exact = known
        .filter(|(known, ..)| *known == name)
        .map(|(_, metric, kind, unit)| (*metric, *kind, *unit))
        .next();
    let exact = exact.map(|(metric, kind, unit)| ColumnFigure { metric, kind, unit });
    if let Some(figure) = exact.or_else(|| of_sysstat(name).and_then(sysstat)) {
        return Some(NamedFigure {
            device: None,
            figure: Ok(figure),
        });
    }
    // `sda r/s`
    if let Some((disk, rest)) = name.split_once(char::is_whitespace)
        && is_disk(disk)
        && let Some(figure) = of_sysstat(rest.trim()).and_then(sysstat)
    {
        return Some(NamedFigure {
            device: Some(disk.into()),
            figure: Ok(figure),
        });
    }
    let found = FigureWords::of(name)?;
    Some(NamedFigure {
        figure: found.figure(has_intervals)?,
        device: found.device,
    })
}

/// The same as a mapping file says it.
fn sysstat(meaning: ColumnMeaning) -> Option<ColumnFigure> {
    let (disk_metric, kind, scale) = match meaning {
        ColumnMeaning::Rate(metric, scale) => (metric, Rate, scale),
        ColumnMeaning::Each(_, metric, scale) => (metric, Mean, scale),
        ColumnMeaning::Sample(metric) => (metric, Sample, 1.0),
    };
    let metric = METRICS.iter().find(|(_, known)| *known == disk_metric)?.0;
    let unit = [One, KiB, MiB, Sectors, Milliseconds, Percent];
    let same = |unit: &MappingUnit| {
        let figure = TableFigure::of(metric, kind, *unit);
        figure.is_ok_and(|figure| (figure.scale - scale).abs() < f64::EPSILON * scale)
    };
    let unit = unit.into_iter().find(same)?;
    Some(ColumnFigure { metric, kind, unit })
}

/// Kind of operation in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
    Discard,
    Flush,
}

/// Meaning of the words of a name.
#[derive(Debug, Default)]
struct FigureWords {
    device: Option<String>,
    way: Option<Way>,
    /// `reads` counts operations, where `read` could also be of bytes.
    is_plural: bool,
    unit: Option<MappingUnit>,
    is_kilo_open: bool,
    kind: Option<MappingKind>,
    /// The first words of those of [`MARKS`] that are among them.
    marks: Vec<&'static str>,
}

/// Words that stand for the same as the first of them.
const MARKS: [&str; 10] = [
    "ops op operations operation ios iops requests completed transfers",
    "time ticks",
    "latency await response",
    "average avg mean",
    "io",
    "weighted",
    "queue queued inflight outstanding flight progress now",
    "busy util utilization utilisation active",
    "idle",
    "merges merged",
];
/// Words that say nothing more.
const FILLERS: &str = "disk disks node volume device dev number of the in composite storage block physical depth \
                       length per current";
const UNITS: [(&str, MappingUnit); 11] = [
    ("b byte bytes", B),
    ("kib kibibytes", KiB),
    ("mib mebibytes", MiB),
    ("gib gibibytes", GiB),
    ("sectors", Sectors),
    ("ns nanoseconds", Nanoseconds),
    ("us µs microseconds", Microseconds),
    ("ms msec milliseconds", Milliseconds),
    ("s sec seconds", Seconds),
    ("% percent pct", Percent),
    ("ratio share", Share),
];
/// Units of which programs mean different things.
const OPEN_UNITS: &str = "kb mb gb kilobytes megabytes gigabytes";

/// Whether a word is one of a list.
fn is_among(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

impl FigureWords {
    /// `None` where a word is not known.
    fn of(name: &str) -> Option<FigureWords> {
        let mut found = FigureWords::default();
        let words = words(name);
        for (place, word) in words.iter().enumerate() {
            let last = place + 1 == words.len();
            let before = place.checked_sub(1).and_then(|before| words.get(before));
            found.add(word, before.map(|word| &*word.lower), last)?;
        }
        Some(found)
    }

    fn add(&mut self, word: &NameWord, before: Option<&str>, is_last: bool) -> Option<()> {
        let lower = &*word.lower;
        if before == Some("per") && is_among(lower, "s sec second") {
            self.kind = Some(Rate);
            return Some(());
        }
        let unit = UNITS.iter().find(|(words, _)| is_among(lower, words));
        match lower {
            "read" | "reads" | "rd" => self.way = Some(Way::Read),
            "write" | "writes" | "written" | "wr" => self.way = Some(Way::Write),
            "discard" | "discards" | "discarded" => self.way = Some(Way::Discard),
            "flush" | "flushes" => self.way = Some(Way::Flush),
            "rate" => self.kind = Some(Rate),
            "total" if is_last => self.kind = Some(Counter),
            "total" if before.is_none() => {}
            "counter" | "cumulative" => self.kind = Some(Counter),
            "sum" | "delta" | "increase" => self.kind = Some(Sum),
            _ if is_among(lower, OPEN_UNITS) => {
                (self.unit, self.is_kilo_open) = (Some(Kilobyte), true);
            }
            _ if unit.is_some() => self.unit = unit.map(|(_, unit)| *unit),
            _ if is_among(lower, FILLERS) => {}
            _ => match MARKS.iter().find(|words| is_among(lower, words)) {
                Some(words) => self.marks.extend(words.split_whitespace().next()),
                None if is_disk(&word.text) && self.device.is_none() => {
                    self.device = Some(word.text.clone());
                }
                None => return None,
            },
        }
        self.is_plural |= is_among(lower, "reads writes discards flushes");
        if lower == "iops" {
            self.kind = Some(Rate);
        }
        Some(())
    }

    /// The figure, what is open of it, or `None` where it is no figure of a disk.
    fn figure(&self, has_intervals: bool) -> Option<Result<ColumnFigure, &'static str>> {
        let has = |mark: &str| self.marks.contains(&mark);
        let ways = |read, write| match self.way {
            Some(Way::Read) => Some(read),
            Some(Way::Write) => Some(write),
            _ => None,
        };
        let is_bytes = self
            .unit
            .is_some_and(|unit| unit.scale().0 == MappingDimension::Bytes);
        let metric = match () {
            () if has("merges") => ways(ReadMerges, WriteMerges)?,
            () if has("idle") => Idle,
            () if has("busy")
                || has("time") && has("io") && self.way.is_none() && !has("weighted") =>
            {
                Busy
            }
            () if has("queue") || has("weighted") => Queue,
            () if has("latency") || has("time") => match self.way {
                None if has("io") => TotalTime,
                _ => ways(ReadTime, WriteTime)?,
            },
            () if is_bytes && self.way == Some(Way::Discard) => DiscardBytes,
            () if is_bytes => ways(ReadBytes, WriteBytes)?,
            () if has("ops") || self.is_plural => match self.way {
                Some(Way::Read) => Reads,
                Some(Way::Write) => Writes,
                Some(Way::Discard) => Discards,
                Some(Way::Flush) => Flushes,
                None if self.kind == Some(Rate) || has("io") => Ops,
                None => return None,
            },
            () => return self.way.map(|_| Err(OPEN_WHAT)),
        };
        let is_mean =
            has("latency") || has("average") && metric.dimension() == MappingDimension::Time;
        let kind = match metric {
            Queue if !has("weighted") => Some(if has("average") { Rate } else { Sample }),
            ReadTime | WriteTime | TotalTime if is_mean => Some(Mean),
            Busy | Idle if matches!(self.unit, Some(Percent | Share)) => Some(Rate),
            _ => self.kind.or(has_intervals.then_some(Sum)),
        };
        let unit = match (metric.dimension(), self.unit) {
            (MappingDimension::Operations, _) => Some(One),
            _ if metric == Queue && !has("weighted") => Some(One),
            (dimension, unit) => unit.filter(|unit| unit.scale().0 == dimension),
        };
        Some(match (kind, unit) {
            _ if self.is_kilo_open && is_bytes => Err(OPEN_KILO),
            (_, None) => Err(OPEN_UNIT),
            (None, _) => Err(OPEN_KIND),
            (Some(kind), Some(unit)) => Ok(ColumnFigure { metric, kind, unit }),
        })
    }
}

/// A word of a name.
struct NameWord {
    text: String,
    lower: String,
}

/// The words of a name: between blanks, signs and changes of case; `/` is *per*.
fn words(name: &str) -> Vec<NameWord> {
    let plain = name
        .replace("I/O", "IO")
        .replace("i/o", "io")
        .replace('/', " per ");
    let is_part = |c: char| c.is_alphanumeric() || c == '%' || c == '-';
    let mut words = Vec::new();
    let parts = plain
        .split(|c: char| !is_part(c))
        .filter(|part| !part.is_empty());
    for part in parts {
        let is_whole = is_disk(part) || is_unit(part);
        let mut from = 0;
        let cuts = part
            .char_indices()
            .zip(part.chars().skip(1))
            .filter(|((_, a), b)| {
                !is_whole && (a.is_lowercase() && b.is_uppercase() || *a == '-' || *b == '-')
            });
        let ends: Vec<usize> = cuts.map(|((at, a), _)| at + a.len_utf8()).collect();
        for end in ends.into_iter().chain([part.len()]) {
            let text = part[from..end].trim_matches('-');
            if !text.is_empty() {
                words.push(NameWord {
                    text: text.into(),
                    lower: text.to_lowercase(),
                });
            }
            from = end;
        }
    }
    words
}

fn is_unit(word: &str) -> bool {
    let lower = word.to_lowercase();
    is_among(&lower, OPEN_UNITS) || UNITS.iter().any(|(words, _)| is_among(&lower, words))
}

/// Whether a word is what kernels and clouds call disks.
fn is_disk(word: &str) -> bool {
    let rest_of = |start: &&str| word.strip_prefix(*start);
    let letters = |rest: &str, most: usize| {
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        (1..=most).contains(&letters) && rest[letters..].bytes().all(|byte| byte.is_ascii_digit())
    };
    let lettered = [("sd", 3), ("vd", 2), ("xvd", 2), ("hd", 1)];
    let is_lettered = lettered
        .iter()
        .any(|(start, most)| rest_of(start).is_some_and(|rest| letters(rest, *most)));
    let numbered = [
        "nvme", "dm-", "md", "mmcblk", "rbd", "nbd", "zd", "loop", "da", "ada", "disk", "vol-",
    ];
    let mut rests = numbered.iter().filter_map(rest_of);
    is_lettered || rests.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Role of a column other than a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnRole {
    Time,
    Begin,
    End,
    Device,
    Host,
    Metric,
    Value,
}

const ROLES: [(ColumnRole, &str); 7] = [
    (ColumnRole::Time, "time timestamp ts date datetime clock at"),
    (ColumnRole::Begin, "from start begin"),
    (ColumnRole::End, "to end until"),
    (
        ColumnRole::Device,
        "device disk dev drive diskname devicename volume volumeid",
    ),
    (ColumnRole::Host, "host hostname server instance machine"),
    (ColumnRole::Metric, "metric series metricname field itemid"),
    (ColumnRole::Value, "value"),
];
/// Words that may stand behind a time: its unit and zone.
const TIME_WORDS: &str = "unix epoch utc gmt s ms us ns";

/// Role of a column of this name other than a figure, and of a time the words behind it.
pub(super) fn role(name: &str) -> Option<(ColumnRole, Vec<String>)> {
    let words: Vec<String> = words(name).into_iter().map(|word| word.lower).collect();
    let (first, rest) = words.split_first()?;
    let joined = words.concat();
    let is_timely = rest.iter().all(|word| is_among(word, TIME_WORDS));
    let found = ROLES.iter().find(|(role, names)| match role {
        ColumnRole::Time | ColumnRole::Begin | ColumnRole::End => {
            is_timely && is_among(first, names)
        }
        _ => is_among(&joined, names),
    });
    found.map(|(role, _)| (*role, rest.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Disk, metric, kind and unit of a name, or what it leaves open.
    fn told(name: &str, has_intervals: bool) -> String {
        let Some(NamedFigure { device, figure }) = named(name, has_intervals) else {
            return "nothing".into();
        };
        let device = device.map_or(String::new(), |device| device + " ");
        match figure {
            Ok(ColumnFigure { metric, kind, unit }) => {
                format!("{device}{metric:?} {kind:?} {unit:?}")
            }
            Err(open) => format!("{device}{open}"),
        }
    }

    #[test]
    fn names_say_what_they_are() {
        for (name, expect) in [
            ("r/s", "Reads Rate One"),
            ("rkB/s", "ReadBytes Rate KiB"),
            ("w_await", "WriteTime Mean Milliseconds"),
            ("%util", "Busy Rate Percent"),
            ("aqu-sz", "Queue Rate One"),
            ("node_disk_reads_completed_total", "Reads Counter One"),
            ("node_disk_read_bytes_total", "ReadBytes Counter B"),
            ("node_disk_written_bytes_total", "WriteBytes Counter B"),
            (
                "node_disk_read_time_seconds_total",
                "ReadTime Counter Seconds",
            ),
            ("node_disk_io_time_seconds_total", "Busy Counter Seconds"),
            (
                "node_disk_io_time_weighted_seconds_total",
                "Queue Counter Seconds",
            ),
            ("node_disk_io_now", "Queue Sample One"),
            ("node_disk_reads_merged_total", "ReadMerges Counter One"),
            (
                "node_disk_discarded_sectors_total",
                "DiscardBytes Counter Sectors",
            ),
            ("node_disk_flush_requests_total", "Flushes Counter One"),
            ("Composite Disk Read Bytes/sec", "ReadBytes Rate B"),
            ("Composite Disk Write Operations/Sec", "Writes Rate One"),
            ("VolumeTotalReadTime", "ReadTime Sum Seconds"),
            ("write_await_ms", "WriteTime Mean Milliseconds"),
            ("readIOPS", "Reads Rate One"),
            ("write_mib_per_second", "WriteBytes Rate MiB"),
            ("sda writes/s", "sda Writes Rate One"),
            ("nvme0n1 r/s", "nvme0n1 Reads Rate One"),
            ("dm-0 read sectors total", "dm-0 ReadBytes Counter Sectors"),
            ("{device=\"sdb\"} write bytes/s", "sdb WriteBytes Rate B"),
            ("io in progress", "Queue Sample One"),
            ("disk busy percent", "Busy Rate Percent"),
        ] {
            assert_eq!(told(name, false), expect, "{name}");
        }
        assert_eq!(told("writes", true), "Writes Sum One");
    }

    #[test]
    fn what_names_leave_open_is_told_and_other_things_are_none() {
        for (name, expect) in [
            ("reads", OPEN_KIND),
            ("write_kb_per_sec", OPEN_KILO),
            ("read MB/s", OPEN_KILO),
            ("read_await", OPEN_UNIT),
            ("disk busy", OPEN_UNIT),
            ("read", OPEN_WHAT),
            ("process_read_bytes_total", "nothing"),
            ("http_requests_total", "nothing"),
            ("hdfs_read_bytes_total", "nothing"),
            ("cpu_busy_percent_user", "nothing"),
            ("net bits/s", "nothing"),
            ("time", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(told(name, false), expect, "{name}");
        }
    }

    #[test]
    fn roles_of_columns_are_known_by_their_names() {
        for (name, expect) in [
            ("Time", Some(ColumnRole::Time)),
            ("@timestamp", Some(ColumnRole::Time)),
            ("timestamp_ms", Some(ColumnRole::Time)),
            ("Time (UTC)", Some(ColumnRole::Time)),
            ("from_unix_ns", Some(ColumnRole::Begin)),
            ("to_unix_ns", Some(ColumnRole::End)),
            ("VolumeId", Some(ColumnRole::Device)),
            ("hostname", Some(ColumnRole::Host)),
            ("time zone", None),
            ("uptime", None),
            ("io_time_ms", None),
        ] {
            assert_eq!(role(name).map(|(role, _)| role), expect, "{name}");
        }
    }
}
