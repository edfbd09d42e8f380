// SPDX-License-Identifier: Apache-2.0
//! All formats together: any damage to a file is reported, or changes nothing of what is read.
//!
//! Damage that cannot be detected is left out: whole rows that are missing at an end, a digit that is another
//! one, a request that is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use plimsoll_core::rng::{Rng, Seed};

use crate::pcp::PcpArchive;
use crate::recording::{CounterSource, TraceSource};
use crate::requests::TraceRequest;
use crate::{OpenRecording, counters, pcp, requests};

/// Variants of each kind of damage and each recording.
const ROUNDS: usize = 6;

/// Figures read of a recording, and messages about it.
#[derive(Debug)]
struct DamageReading {
    /// Of every disk and metric its sum and its seconds, or every request of a device, whatever its place.
    figures: Vec<[String; 2]>,
    told: Vec<String>,
}

impl DamageReading {
    fn disks(&self) -> BTreeSet<&str> {
        self.figures.iter().map(|[disk, _]| &**disk).collect()
    }

    /// Whether it has a disk of a name that the whole has not, which shows.
    fn has_others_than(&self, whole: &DamageReading) -> bool {
        !self.disks().is_subset(&whole.disks())
    }

    /// Whether a metric of a disk is not there at all, which shows, and all others are the same.
    fn shows_less_than(&self, whole: &DamageReading) -> bool {
        let are_known = self
            .figures
            .iter()
            .all(|figure| whole.figures.contains(figure));
        are_known && self.disks() == whole.disks()
    }
}

fn of_counters(source: &dyn CounterSource) -> Result<DamageReading, String> {
    let mut told = source.warnings().to_vec();
    told.extend(source.damage().map(ToString::to_string));
    let mut figures = Vec::new();
    for disk in source.disks() {
        let series = source.series(&disk, &source.times().span());
        let series = series.map_err(|error| error.to_string())?;
        told.extend(series.warnings);
        for column in series.columns {
            let dropped = column.dropped();
            let name = format!("{:?}", column.metric);
            let why = || format!("{disk} {name}: {dropped} intervals do not count");
            told.extend((dropped > 0).then(why));
            let counted = column.intervals.iter().filter(|interval| interval.counts());
            let [sum, seconds] = counted.fold([0.0, 0.0], |[sum, seconds], interval| {
                [sum + interval.difference, seconds + interval.seconds()]
            });
            let samples: f64 = column.samples.iter().map(|sample| sample.value).sum();
            let figure = format!("{name}: {sum:.6e} in {seconds:.6e} s, {samples:.6e}");
            figures.push([disk.clone(), figure]);
        }
    }
    Ok(DamageReading { figures, told })
}

fn of_requests(source: &mut dyn TraceSource) -> Result<DamageReading, String> {
    let mut found = Vec::new();
    while source.read(&mut found).map_err(|error| error.to_string())? {}
    let name = |target: u16| &source.targets()[usize::from(target)];
    let mut figures: Vec<[String; 2]> = found
        .iter()
        .map(|request| {
            let one = TraceRequest {
                target: 0,
                ..*request
            };
            [name(request.target).clone(), format!("{one:?}")]
        })
        .collect();
    figures.sort();
    let mut told = source.warnings().to_vec();
    told.extend(source.damage().map(ToString::to_string));
    told.extend((source.lost() > 0).then(|| format!("{} were lost", source.lost())));
    Ok(DamageReading { figures, told })
}

fn of_file(bytes: &[u8]) -> Result<DamageReading, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    of_path(file.path())
}

fn of_path(path: &Path) -> Result<DamageReading, String> {
    match crate::open(path).map_err(|error| error.to_string())? {
        OpenRecording::Counters(counters) => of_counters(&*counters),
        OpenRecording::Requests(mut requests) => of_requests(&mut *requests),
    }
}

/// Of an archive whose volume is damaged.
fn of_volume(bytes: &[u8]) -> Result<DamageReading, String> {
    let archive = pcp::handmade_archive();
    let archive = PcpArchive::from_bytes("made", archive.meta, vec![bytes.to_vec()]);
    of_counters(&archive.map_err(|error| error.to_string())?)
}

const MAPPING: &str = "recording = \"nas.csv\"\n[time]\ncolumn = \"Time\"\n[[column]]\nname = \"nas ops\"\n\
    device = \"sda\"\nmetric = \"reads\"\nkind = \"rate\"\n";
const MAPPED: &[u8] = b"Time,nas ops,lat\n2026-11-21T01:00:00Z,7,2\n2026-11-21T01:01:00Z,9,4\n\
    2026-11-21T01:02:00Z,9,4\n";

/// Of a table that a mapping file explains.
fn of_mapped(bytes: &[u8]) -> Result<DamageReading, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nas.csv"), bytes).unwrap();
    let mapping = folder.path().join("nas.toml");
    std::fs::write(&mapping, MAPPING).unwrap();
    of_path(&mapping)
}

/// The requests of a recording, as a table.
#[cfg(feature = "parquet")]
fn parquet_of(bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (spool, table) = (folder.path().join("spool"), folder.path().join("table"));
    std::fs::write(&spool, bytes).unwrap();
    let Ok(OpenRecording::Requests(mut requests)) = crate::open(&spool) else {
        panic!("it is of requests");
    };
    requests::parquet::write(&mut *requests, &table).unwrap();
    std::fs::read(table).unwrap()
}

/// Of one whose metadata are.
fn of_meta(bytes: &[u8]) -> Result<DamageReading, String> {
    let archive = pcp::handmade_archive();
    let archive = PcpArchive::from_bytes("made", bytes.to_vec(), archive.volumes);
    of_counters(&archive.map_err(|error| error.to_string())?)
}

type TextLines = Vec<Vec<u8>>;

/// Damages a text; whether it could.
type TextDamage = fn(&mut TextLines, &mut Rng) -> bool;

fn pick(rng: &mut Rng, n: usize) -> usize {
    usize::try_from(rng.below(n.max(1) as u64)).unwrap()
}

/// Where the words of a line stand.
fn words(line: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, byte) in line.iter().chain(b" ").enumerate() {
        let is_part = !b" \t\r\n,;:\"=[]{}()<>/\\|+".contains(byte);
        match (begin, is_part) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                found.push(from..at);
                begin = None;
            }
            _ => {}
        }
    }
    found
}

fn is_number(word: &[u8]) -> bool {
    let text = str::from_utf8(word).unwrap_or("");
    text.parse::<f64>().is_ok() && text.as_bytes()[0].is_ascii_digit()
}

/// The lines that hold figures.
fn rows(lines: &TextLines) -> Vec<usize> {
    let has_figures = |line: &Vec<u8>| {
        let figures = words(line)
            .into_iter()
            .filter(|word| is_number(&line[word.clone()]));
        figures.count() >= 2
    };
    (0..lines.len())
        .filter(|n| has_figures(&lines[*n]))
        .collect()
}

/// Any of the rows, and the places of the words in it that are of this kind.
fn any_row(
    lines: &TextLines,
    rng: &mut Rng,
    numbers: bool,
) -> Option<(usize, Vec<std::ops::Range<usize>>)> {
    let rows = rows(lines);
    let row = *rows.get(pick(rng, rows.len()))?;
    let found = words(&lines[row]).into_iter();
    let found: Vec<_> = found
        .filter(|word| is_number(&lines[row][word.clone()]) == numbers)
        .collect();
    (!found.is_empty()).then_some((row, found))
}

fn cut_inside_a_line(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let n = pick(rng, lines.len());
    let whole = lines[n].trim_ascii_end().len();
    if whole < 2 {
        return false;
    }
    lines[n].truncate(1 + pick(rng, whole - 1));
    lines.truncate(n + 1);
    true
}

fn number_that_is_none(lines: &mut TextLines, rng: &mut Rng) -> bool {
    const OTHERS: [&[u8]; 7] = [
        b"inf", b"-5", b"1e999", b"abc", b"0x7f", b"1.2.3", b"\x1b[2J",
    ];
    let Some((row, numbers)) = any_row(lines, rng, true) else {
        return false;
    };
    let place = numbers[pick(rng, numbers.len())].clone();
    lines[row].splice(place, OTHERS[pick(rng, OTHERS.len())].iter().copied());
    true
}

fn digit_that_is_none(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let Some((row, numbers)) = any_row(lines, rng, true) else {
        return false;
    };
    let place = numbers[pick(rng, numbers.len())].clone();
    let at = place.start + pick(rng, place.len());
    lines[row][at] ^= [0x80, 0x40][pick(rng, 2)];
    true
}

fn field_that_is_lost(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let Some((row, numbers)) = any_row(lines, rng, true) else {
        return false;
    };
    let place = numbers[pick(rng, numbers.len())].clone();
    // With the sign before it, which parts it from its neighbour.
    lines[row].drain(place.start.saturating_sub(1)..place.end);
    true
}

fn word_and_number_swapped(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let Some((row, numbers)) = any_row(lines, rng, true) else {
        return false;
    };
    let all = words(&lines[row]);
    let others: Vec<_> = all
        .into_iter()
        .filter(|word| !numbers.contains(word))
        .collect();
    if others.is_empty() {
        return false;
    }
    let (a, b) = (
        &numbers[pick(rng, numbers.len())],
        &others[pick(rng, others.len())],
    );
    let (a, b) = if a.start < b.start { (a, b) } else { (b, a) };
    let line = &lines[row];
    lines[row] = [
        &line[..a.start],
        &line[b.clone()],
        &line[a.end..b.start],
        &line[a.clone()],
        &line[b.end..],
    ]
    .concat();
    true
}

fn rows_swapped(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let rows = rows(lines);
    let (a, b) = (pick(rng, rows.len()), pick(rng, rows.len()));
    let is_other = a != b && !rows.is_empty();
    if is_other {
        lines.swap(rows[a], rows[b]);
    }
    is_other
}

fn row_doubled(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let rows = rows(lines);
    let Some(row) = rows.get(pick(rng, rows.len())) else {
        return false;
    };
    let again = lines[*row].clone();
    lines.insert(*row, again);
    true
}

fn ends_of_windows(lines: &mut TextLines, _: &mut Rng) -> bool {
    for line in lines
        .iter_mut()
        .filter(|line| line.ends_with(b"\n") && !line.ends_with(b"\r\n"))
    {
        line.insert(line.len() - 1, b'\r');
    }
    true
}

fn zeros_of_a_crash(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let mut all = lines.concat();
    let from = pick(rng, all.len());
    let to = (from + 1 + pick(rng, 200)).min(all.len());
    all[from..to].fill(0);
    *lines = vec![all];
    true
}

/// From the middle of a row to a later row, behind a word with another place in it.
fn hole(lines: &mut TextLines, rng: &mut Rng) -> bool {
    let rows = rows(lines);
    if rows.len() < 2 {
        return false;
    }
    let first = pick(rng, rows.len() - 1);
    let second = first + 1 + pick(rng, rows.len() - first - 1);
    let (first, second) = (rows[first], rows[second]);
    let (before, behind) = (words(&lines[first]), words(&lines[second]));
    let (from, to) = (pick(rng, before.len()), pick(rng, behind.len()));
    if before.len() != behind.len() || from == to {
        return false;
    }
    let rest = lines[second][behind[to].start..].to_vec();
    lines[first].truncate(before[from].start);
    lines[first].extend(rest);
    lines.drain(first + 1..=second);
    true
}

fn unit_that_is_none(lines: &mut TextLines, rng: &mut Rng) -> bool {
    const UNITS: [&[u8]; 7] = [
        b"bytes", b"Bytes", b"kB", b"KB", b"seconds", b"_ms", b"sec/s",
    ];
    let text = lines.concat();
    let has = |unit: &&&[u8]| text.windows(unit.len()).any(|part| part == **unit);
    let found: Vec<&&[u8]> = UNITS.iter().filter(has).collect();
    let Some(unit) = found.get(pick(rng, found.len())) else {
        return false;
    };
    for line in lines {
        for at in 0..line.len() {
            if line[at..].starts_with(unit) {
                line[at + 1] = b'q';
            }
        }
    }
    true
}

const OF_TEXTS: [(&str, TextDamage); 11] = [
    ("cut inside a line", cut_inside_a_line),
    ("a number that is none", number_that_is_none),
    ("a digit that is none", digit_that_is_none),
    ("a field is lost", field_that_is_lost),
    ("a word and a number are swapped", word_and_number_swapped),
    (SWAPPED, rows_swapped),
    ("a row is doubled", row_doubled),
    ("lines end as on Windows", ends_of_windows),
    ("zeros of a crash", zeros_of_a_crash),
    ("a hole", hole),
    ("a unit that is none", unit_that_is_none),
];

const SWAPPED: &str = "rows are swapped";
const BY_PLACE: &str =
    "rows have their time, their disk or their turn from the place where they stand";

/// Damage that leaves no trace: format, damage, reason.
const UNSEEN: [(&str, &str, &str); 13] = [
    ("iostat text", SWAPPED, BY_PLACE),
    ("sar -d text", SWAPPED, BY_PLACE),
    ("nmon file", SWAPPED, BY_PLACE),
    ("fio I/O log", SWAPPED, BY_PLACE),
    ("blkparse text", SWAPPED, BY_PLACE),
    ("text of darshan-dxt-parser", SWAPPED, BY_PLACE),
    (
        "dstat or dool CSV",
        SWAPPED,
        "the first row is since the start of the machine",
    ),
    ("collectl plot text (-P)", SWAPPED, "the same"),
    (
        "iostat text",
        "a row is doubled",
        "without times a device that comes again begins a report",
    ),
    (
        "fio I/O log",
        "a field is lost",
        "of a wait, one of two numbers is enough",
    ),
    (
        "CSV of InfluxDB",
        "a field is lost",
        "a time without seconds is one",
    ),
    (
        "nmon file",
        "a hole",
        "two rows that are not read become one",
    ),
    (
        "biosnoop output (bcc, bpftrace)",
        "a hole",
        "the rest of one row and of another make one",
    ),
];

/// A recording to be damaged.
struct DamageFixture {
    format: String,
    bytes: Vec<u8>,
    is_text: bool,
    is_of_requests: bool,
    read: fn(&[u8]) -> Result<DamageReading, String>,
}

fn fixtures() -> Vec<DamageFixture> {
    let fixture = |format: &str, bytes: Vec<u8>, is_of_requests: bool| DamageFixture {
        format: format.into(),
        is_text: bytes.is_ascii() && !bytes.contains(&0),
        bytes,
        is_of_requests,
        read: of_file,
    };
    let counters = counters::FIXTURES.iter();
    let mut all: Vec<_> = counters
        .map(|(format, text)| fixture(format, text.as_bytes().to_vec(), false))
        .collect();
    let requests = requests::fixtures().into_iter();
    let requests = requests.filter(|(_, bytes)| !bytes.starts_with(b"PAR1"));
    all.extend(requests.map(|(format, bytes)| fixture(format, bytes, true)));
    #[cfg(feature = "parquet")]
    all.push(fixture(
        "Parquet of requests",
        parquet_of(requests::MSR),
        true,
    ));
    all.push(DamageFixture {
        read: of_mapped,
        ..fixture("mapped table", MAPPED.to_vec(), false)
    });
    let archive = pcp::handmade_archive();
    for (read, bytes) in [
        (of_volume as fn(&[u8]) -> _, archive.volumes.concat()),
        (of_meta, archive.meta.clone()),
    ] {
        all.push(DamageFixture {
            read,
            is_text: false,
            ..fixture("PCP archive", bytes, false)
        });
    }
    all
}

/// The damaged bytes, and what was done; `None` where that cannot be done to it.
fn damaged(fixture: &DamageFixture, kind: usize, rng: &mut Rng) -> Option<(&'static str, Vec<u8>)> {
    let bytes = &fixture.bytes;
    if !fixture.is_text {
        let end = 1 + pick(rng, bytes.len() - 1);
        return (kind == 0).then(|| ("cut", bytes[..end].to_vec()));
    }
    let (name, damage) = OF_TEXTS[kind];
    if fixture.is_of_requests && name == "a row is doubled" {
        return None;
    }
    let mut lines: TextLines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let is_done = damage(&mut lines, rng);
    let found = lines.concat();
    (is_done && found != *bytes).then_some((name, found))
}

const SILENT: &str = "silent";

/// Outcome of reading a damaged recording.
fn outcome(found: &Result<DamageReading, String>, whole: &DamageReading) -> &'static str {
    match found {
        Err(_) => "refused",
        Ok(found) if found.told.iter().any(|said| !whole.told.contains(said)) => "told",
        Ok(found) if found.figures == whole.figures => "read the same",
        Ok(found) if found.shows_less_than(whole) => "shown without a metric",
        Ok(found) if found.has_others_than(whole) => "shown with another disk",
        Ok(_) => SILENT,
    }
}

/// The first lines and figures that differ.
fn differences(
    bytes: &[u8],
    damaged: &[u8],
    found: &Result<DamageReading, String>,
    whole: &DamageReading,
) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (before, after) = (text(bytes), text(damaged));
    let pair = before
        .lines()
        .zip(after.lines())
        .find(|(one, other)| one != other);
    let found = found.as_ref().map_or(&[][..], |found| &found.figures);
    let only = |some: &[[String; 2]], others: &[[String; 2]]| -> Vec<[String; 2]> {
        let only = some.iter().filter(|figure| !others.contains(figure));
        only.take(3).cloned().collect()
    };
    format!(
        "{pair:?}\n{:?} for {:?}",
        only(found, &whole.figures),
        only(&whole.figures, found)
    )
}

#[test]
fn nothing_of_many_kinds_of_damage_to_any_format_is_silent() {
    let mut rng = Rng::new(Seed(20_261_127));
    let (mut counts, mut silent) = (BTreeMap::new(), Vec::new());
    for fixture in fixtures() {
        let whole = (fixture.read)(&fixture.bytes).unwrap();
        for kind in (0..OF_TEXTS.len()).cycle().take(OF_TEXTS.len() * ROUNDS) {
            let Some((name, bytes)) = damaged(&fixture, kind, &mut rng) else {
                continue;
            };
            let found = (fixture.read)(&bytes);
            let is_known = |(format, damage, _): &(&str, &str, &str)| {
                *format == fixture.format && *damage == name
            };
            let outcome = match outcome(&found, &whole) {
                SILENT if UNSEEN.iter().any(is_known) => "without a trace",
                other => other,
            };
            *counts.entry(outcome).or_insert(0) += 1;
            if outcome == SILENT {
                let what = differences(&fixture.bytes, &bytes, &found, &whole);
                silent.push(format!("{}, {name}:\n{what}", fixture.format));
            }
        }
    }
    let all: usize = counts.values().sum();
    let _ = writeln!(std::io::stderr(), "{all} damaged recordings: {counts:?}");
    assert!(
        silent.is_empty(),
        "{} are silent:\n{}",
        silent.len(),
        silent.join("\n\n")
    );
    assert!(
        all >= 2_000
            && ["told", "refused", "read the same"]
                .iter()
                .all(|kind| counts[kind] >= 200)
    );
}
