// SPDX-License-Identifier: Apache-2.0
//! Meaning of the columns of the programs, and the rates that follow from a row of them.

use crate::series::DiskMetric;
use DiskMetric::{
    Active, DiscardBytes, Discards, Flushes, Idle, InFlight, Ops, QueueLength, QueueTime,
    ReadBytes, ReadMerges, ReadTime, Reads, TotalTime, WriteBytes, WriteMerges, WriteTime, Writes,
};

/// Meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ColumnMeaning {
    /// Per second, in this many base units.
    Rate(DiskMetric, f64),
    /// The mean time of each of these operations in this many seconds; the counter of their time
    /// rises by it at every one.
    Each(DiskMetric, DiskMetric, f64),
    /// Seen at the instant of the row.
    Sample(DiskMetric),
}
use ColumnMeaning::{Each, Rate, Sample};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
const SECTOR: f64 = 512.0;
const PERCENT: f64 = 0.01;
const MILLI: f64 = 0.001;

/// Values of one disk in one line, with their meaning.
pub(super) type DiskRowValues = Vec<(ColumnMeaning, f64)>;

/// A column of iostat or sadf, of any version since 9, as text or JSON. Source: their manual pages.
pub(super) fn of_sysstat(name: &str) -> Option<ColumnMeaning> {
    Some(match name {
        "r/s" => Rate(Reads, 1.0),
        "w/s" => Rate(Writes, 1.0),
        "d/s" => Rate(Discards, 1.0),
        "f/s" => Rate(Flushes, 1.0),
        "rrqm/s" => Rate(ReadMerges, 1.0),
        "wrqm/s" => Rate(WriteMerges, 1.0),
        "tps" => Rate(Ops, 1.0),
        "rkB/s" | "rkB" | "kB_read/s" => Rate(ReadBytes, KIB),
        "wkB/s" | "wkB" | "kB_wrtn/s" => Rate(WriteBytes, KIB),
        "dkB/s" | "dkB" | "kB_dscd/s" => Rate(DiscardBytes, KIB),
        "rMB/s" | "MB_read/s" => Rate(ReadBytes, MIB),
        "wMB/s" | "MB_wrtn/s" => Rate(WriteBytes, MIB),
        "dMB/s" | "MB_dscd/s" => Rate(DiscardBytes, MIB),
        "rsec/s" | "rd_sec/s" | "rd_sec" | "Blk_read/s" => Rate(ReadBytes, SECTOR),
        "wsec/s" | "wr_sec/s" | "wr_sec" | "Blk_wrtn/s" => Rate(WriteBytes, SECTOR),
        "r_await" => Each(Reads, ReadTime, MILLI),
        "w_await" => Each(Writes, WriteTime, MILLI),
        "await" => Each(Ops, TotalTime, MILLI),
        "aqu-sz" | "avgqu-sz" => Rate(QueueTime, 1.0),
        "%util" | "util" | "util-percent" => Rate(Active, PERCENT),
        _ => return None,
    })
}

/// A column that a program prints, with `before` columns of the same name to its left: of sysstat, of iostat
/// of FreeBSD and Solaris (with `-x`), of `zpool iostat`, or of collectl (`-sD`). Source: their manual pages.
pub(super) fn of_printed(name: &str, before: usize) -> Option<ColumnMeaning> {
    Some(match (name, before) {
        ("kr/s", _) => Rate(ReadBytes, KIB),
        ("kw/s", _) => Rate(WriteBytes, KIB),
        ("Mr/s", _) => Rate(ReadBytes, MIB),
        ("Mw/s", _) => Rate(WriteBytes, MIB),
        ("ms/r", _) => Each(Reads, ReadTime, MILLI),
        ("ms/w", _) => Each(Writes, WriteTime, MILLI),
        ("svc_t", _) => Each(Ops, TotalTime, MILLI),
        ("%b", _) => Rate(Active, PERCENT),
        ("read", 0) => Rate(Reads, 1.0),
        ("write", 0) => Rate(Writes, 1.0),
        ("read", 1) => Rate(ReadBytes, 1.0),
        ("write", 1) => Rate(WriteBytes, 1.0),
        ("IOs", 0) => Rate(Reads, 1.0),
        ("IOs", 1) => Rate(Writes, 1.0),
        ("KBytes", 0) => Rate(ReadBytes, KIB),
        ("KBytes", 1) => Rate(WriteBytes, KIB),
        ("Merged", 0) => Rate(ReadMerges, 1.0),
        ("Merged", 1) => Rate(WriteMerges, 1.0),
        ("Wait", 0) => Each(Reads, ReadTime, MILLI),
        ("Wait", 1) => Each(Writes, WriteTime, MILLI),
        ("Util", _) => Rate(Active, PERCENT),
        _ => return of_sysstat(name),
    })
}

/// Counters of Windows and of esxtop by their English names, then those of Windows in German. Source: the
/// programs' own descriptions of the counters, and the German list of Windows as published with scripts
/// for its registry (`Perflib\CurrentLanguage`, 198 to 222, 1400 and 1482).
const PDH: [(&str, ColumnMeaning); 39] = [
    ("Disk Reads/sec", Rate(Reads, 1.0)),
    ("Reads/sec", Rate(Reads, 1.0)),
    ("Disk Writes/sec", Rate(Writes, 1.0)),
    ("Writes/sec", Rate(Writes, 1.0)),
    ("Disk Transfers/sec", Rate(Ops, 1.0)),
    ("Commands/sec", Rate(Ops, 1.0)),
    ("Disk Read Bytes/sec", Rate(ReadBytes, 1.0)),
    ("Disk Write Bytes/sec", Rate(WriteBytes, 1.0)),
    ("MBytes Read/sec", Rate(ReadBytes, MIB)),
    ("MBytes Written/sec", Rate(WriteBytes, MIB)),
    ("% Disk Read Time", Rate(ReadTime, PERCENT)),
    ("% Disk Write Time", Rate(WriteTime, PERCENT)),
    ("% Idle Time", Rate(Idle, PERCENT)),
    ("Avg. Disk Queue Length", Rate(QueueTime, 1.0)),
    ("Avg. Disk sec/Read", Each(Reads, ReadTime, 1.0)),
    ("Avg. Disk sec/Write", Each(Writes, WriteTime, 1.0)),
    ("Avg. Disk sec/Transfer", Each(Ops, TotalTime, 1.0)),
    ("Average Guest MilliSec/Read", Each(Reads, ReadTime, MILLI)),
    ("Average MilliSec/Read", Each(Reads, ReadTime, MILLI)),
    (
        "Average Guest MilliSec/Write",
        Each(Writes, WriteTime, MILLI),
    ),
    ("Average MilliSec/Write", Each(Writes, WriteTime, MILLI)),
    (
        "Average Guest MilliSec/Command",
        Each(Ops, TotalTime, MILLI),
    ),
    ("Average MilliSec/Command", Each(Ops, TotalTime, MILLI)),
    ("Current Disk Queue Length", Sample(QueueLength)),
    ("Active Commands", Sample(InFlight)),
    ("# of Outstanding Commands", Sample(InFlight)),
    ("Lesevorgänge/s", Rate(Reads, 1.0)),
    ("Schreibvorgänge/s", Rate(Writes, 1.0)),
    ("Übertragungen/s", Rate(Ops, 1.0)),
    ("Bytes gelesen/s", Rate(ReadBytes, 1.0)),
    ("Bytes geschrieben/s", Rate(WriteBytes, 1.0)),
    ("Lesezeit (%)", Rate(ReadTime, PERCENT)),
    ("Schreibzeit (%)", Rate(WriteTime, PERCENT)),
    ("Leerlaufzeit (%)", Rate(Idle, PERCENT)),
    (
        "Durchschnittl. Warteschlangenlänge des Datenträgers",
        Rate(QueueTime, 1.0),
    ),
    ("Mittlere Sek./Lesevorgänge", Each(Reads, ReadTime, 1.0)),
    (
        "Mittlere Sek./Schreibvorgänge",
        Each(Writes, WriteTime, 1.0),
    ),
    ("Mittlere Sek./Übertragung", Each(Ops, TotalTime, 1.0)),
    ("Aktuelle Warteschlangenlänge", Sample(QueueLength)),
];

/// A counter of Windows or of esxtop; case does not matter in their names.
pub(super) fn of_pdh(name: &str) -> Option<ColumnMeaning> {
    let name = name.trim();
    let known = PDH.iter().find(|(known, _)| is_named(known, name));
    known.map(|(_, meaning)| *meaning)
}

/// Whether a name is this one, in any case. Letters that are no ASCII are any other such letter: of an
/// encoding that is not known they have become something else.
pub(super) fn is_named(known: &str, name: &str) -> bool {
    let folded = |text: &str| -> Vec<char> {
        let fold = |letter: char| match letter.is_ascii() {
            true => letter.to_ascii_lowercase(),
            false => '?',
        };
        text.chars().map(fold).collect()
    };
    known.eq_ignore_ascii_case(name) || (!known.is_ascii() && folded(known) == folded(name))
}

/// A column of a disk in collectl's plot format. Source: its manual page; times are in milliseconds.
pub(super) fn of_collectl(name: &str) -> Option<ColumnMeaning> {
    Some(match name {
        "Reads" => Rate(Reads, 1.0),
        "Writes" => Rate(Writes, 1.0),
        "RMerge" => Rate(ReadMerges, 1.0),
        "WMerge" => Rate(WriteMerges, 1.0),
        "RKBytes" => Rate(ReadBytes, KIB),
        "WKBytes" => Rate(WriteBytes, KIB),
        "WaitR" => Each(Reads, ReadTime, MILLI),
        "WaitW" => Each(Writes, WriteTime, MILLI),
        "Util" => Rate(Active, PERCENT),
        _ => return None,
    })
}

/// A section of nmon, or its continuation with more disks.
pub(super) fn of_nmon(section: &[u8]) -> Option<ColumnMeaning> {
    let digits = section
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit());
    Some(match &section[..section.len() - digits.count()] {
        b"DISKREAD" => Rate(ReadBytes, KIB),
        b"DISKWRITE" => Rate(WriteBytes, KIB),
        b"DISKXFER" => Rate(Ops, 1.0),
        b"DISKBUSY" => Rate(Active, PERCENT),
        _ => return None,
    })
}

/// A column of dstat or dool by its group: bytes, or bits, are of `dsk`, operations of `io`.
pub(super) fn of_dstat(group: &str, name: &str, is_of_bits: bool) -> Option<ColumnMeaning> {
    let byte = if is_of_bits { 0.125 } else { 1.0 };
    Some(match (group, name) {
        ("dsk", "read") => Rate(ReadBytes, byte),
        ("dsk", "writ") => Rate(WriteBytes, byte),
        ("io", "read") => Rate(Reads, 1.0),
        ("io", "writ") => Rate(Writes, 1.0),
        _ => return None,
    })
}

/// The rates per second, and the samples, of one disk. Of two columns with the same meaning the first
/// counts. Figures for each operation count only where there are operations.
pub(super) fn rates(row: &[(ColumnMeaning, f64)]) -> Vec<(DiskMetric, f64)> {
    let mut into = Vec::new();
    let add = |into: &mut Vec<(DiskMetric, f64)>, metric, value: f64| {
        if value.is_finite() && value >= 0.0 && !into.iter().any(|(known, _)| *known == metric) {
            into.push((metric, value));
        }
    };
    for (meaning, value) in row {
        match meaning {
            Rate(metric, unit) => add(&mut into, *metric, value * unit),
            Sample(metric) => add(&mut into, *metric, *value),
            Each(..) => {}
        }
    }
    let rate = |into: &[(DiskMetric, f64)], wanted| {
        let found = into.iter().find(|(metric, _)| *metric == wanted);
        found.map(|(_, value)| *value)
    };
    for (meaning, value) in row {
        let Each(ops, time, unit) = meaning else {
            continue;
        };
        let both = || Some(rate(&into, Reads)? + rate(&into, Writes)?);
        let ops = rate(&into, *ops).or_else(|| if *ops == Ops { both() } else { None });
        if let Some(ops) = ops {
            add(&mut into, *time, value * unit * ops);
        }
    }
    into
}

/// A number as iostat prints it for people: `26.0k`, `17.1%`; of bytes in the unit of its column.
pub(super) fn human(text: &[u8], column: Option<ColumnMeaning>) -> Option<f64> {
    let (last, rest) = text.split_last()?;
    let bytes = match last {
        b'%' => return number(rest),
        b's' => SECTOR,
        b'B' => 1.0,
        b'k' | b'K' => KIB,
        b'M' => MIB,
        b'G' => MIB * 1024.0,
        b'T' => MIB * MIB,
        b'P' => MIB * MIB * 1024.0,
        _ => return number(text),
    };
    let unit = match column {
        Some(Rate(metric, unit)) if metric.is_bytes() => unit,
        _ => 1.0,
    };
    number(rest).map(|value| value * bytes / unit)
}

/// A number as programs print it in any locale: `12.5`, `12,5`.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?.trim();
    let is_number = |byte: u8| byte.is_ascii_digit() || b".,-+eE".contains(&byte);
    if text.is_empty() || text.len() > 40 || !text.bytes().all(is_number) {
        return None;
    }
    let value: f64 = text.replace(',', ".").parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_each_operation_become_rates_of_their_sum() {
        let row = |names: &[(&str, f64)]| {
            let row: Vec<_> = names
                .iter()
                .map(|(n, v)| (of_sysstat(n).unwrap(), *v))
                .collect();
            rates(&row)
        };
        let found = row(&[
            ("r_await", 2.0),
            ("r/s", 100.0),
            ("rkB/s", 4.0),
            ("rsec/s", 9.0),
        ]);
        assert_eq!(
            found,
            [(Reads, 100.0), (ReadBytes, 4096.0), (ReadTime, 0.2)]
        );
        let found = row(&[
            ("r/s", 100.0),
            ("w/s", 300.0),
            ("await", 10.0),
            ("w_await", -1.0),
        ]);
        assert_eq!(found, [(Reads, 100.0), (Writes, 300.0), (TotalTime, 4.0)]);
        assert_eq!(row(&[("r_await", 2.0)]), []);
    }

    #[test]
    fn numbers_for_people_are_in_the_unit_of_their_column() {
        let (kib, mib) = (Rate(ReadBytes, KIB), Rate(WriteBytes, MIB));
        for (text, column, expect) in [
            ("26.0k", Some(kib), Some(26.0)),
            ("2,5M", Some(kib), Some(2560.0)),
            ("512.0B", Some(kib), Some(0.5)),
            ("1.0G", Some(mib), Some(1024.0)),
            ("17.1%", Some(Rate(Active, PERCENT)), Some(17.1)),
            ("12.5", Some(Rate(Reads, 1.0)), Some(12.5)),
            ("k", Some(kib), None),
            ("", None, None),
        ] {
            assert_eq!(human(text.as_bytes(), column), expect, "{text}");
        }
    }

    #[test]
    fn numbers_come_in_two_locales() {
        for (text, expect) in [
            ("12.5", Some(12.5)),
            (" 12,5 ", Some(12.5)),
            ("", None),
            ("nan", None),
            ("1.2.3", None),
            ("1e999", None),
        ] {
            assert_eq!(number(text.as_bytes()), expect, "{text}");
        }
    }
}
