// SPDX-License-Identifier: Apache-2.0
//! Recordings as the programs that made them read them.
//!
//! PCP's own archives (Debian: `pcp-testsuite`, in the folder `PLIMSOLL_PCP_ARCHIVES`) are held against
//! `pmlogsummary` (Debian: `pcp`; scripts/setup.sh unpacks both), the forms of `sadf` against its columns,
//! and `iostat`, started here, against a reader of columns that knows nothing but their names (Debian:
//! `sysstat`). Where one of them is absent, the test says so.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_trace::pcp::PcpArchive;
use plimsoll_trace::{CounterSource, DiskAverages, DiskMetric, MetricAverages, OpenRecording};

/// Archives in which two groups of a logger write each counter.
const WRITTEN_TWICE: [&str; 7] = [
    "20180127.08.40",
    "20180415.09.16",
    "20180416.10.00",
    "pcp-pidstat-process-args",
    "pcp-pidstat-timezone",
    "pcp-tapestat-archive",
    "pcp-zeroconf",
];

/// Archives of which pmlogsummary prints averages of disks and nothing is compared, and why.
const UNREAD: [(&str, &str); 4] = [
    (
        "20071023-08-06-36",
        "only disk.dev.total_bytes, which tells neither reads from writes nor operations",
    ),
    (
        "ac15",
        "only disk.all.blkread and blkwrite, blocks of a size that is not recorded",
    ),
    (
        "bozo.client_v2",
        "value blocks in another byte order, of which pmlogsummary makes 6.8e16 operations per second",
    ),
    ("pcp-vmstat", "as ac15"),
];

fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {what}\n");
}

fn archives() -> Option<PathBuf> {
    let told = std::env::var_os("PLIMSOLL_PCP_ARCHIVES").map(PathBuf::from);
    let folder = told.unwrap_or("/var/lib/pcp/testsuite/archives".into());
    if folder.is_dir() {
        return Some(folder);
    }
    skip("PCP's archives are missing: scripts/setup.sh test unpacks them");
    None
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who judges an archive"
)]
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let Ok(output) = command.env("S_TIME_FORMAT", "ISO").args(args).output() else {
        skip(&format!("{program} is missing"));
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// By metric and disk: both averages, and their unit.
type Printed = BTreeMap<(String, String), ([f64; 2], f64)>;

/// Figures that pmlogsummary prints.
fn summary(base: &Path) -> Option<Printed> {
    let of = |metrics| printed("pmlogsummary", &["-b", "-p6", base.to_str()?, metrics]);
    let mut text = of("disk.dev")?;
    if !text.contains("disk.dev.") {
        // Of some nothing is recorded but all disks together.
        text = of("disk.all")?;
    }
    let line = |line: &str| {
        let (metric, rest) = line.split_once(' ')?;
        let (disk, rest) = match rest.strip_prefix("[\"") {
            Some(rest) => rest.split_once("\"] ")?,
            None => ("all disks", rest.trim_start()),
        };
        let mut words = rest.split(' ');
        let mut average = || words.next()?.parse::<f64>().ok();
        let averages = [average()?, average()?];
        let unit = if rest.contains("Kbyte") { 1024.0 } else { 1.0 };
        Some(((metric.to_owned(), disk.to_owned()), (averages, unit)))
    };
    Some(text.lines().filter_map(line).collect())
}

/// Whether an average is the printed one. Six decimals are printed, and times of the third version
/// are cut to microseconds.
fn is_printed(found: f64, printed: f64) -> bool {
    (found - printed).abs() <= 1e-6 + 2e-6 * printed.abs()
}

/// Differences of one archive, and how many averages were compared; `None` where pmlogsummary prints none.
fn compare(base: &Path, differs: &mut Vec<String>) -> Option<usize> {
    let summary = summary(base).filter(|summary| !summary.is_empty())?;
    let Ok(archive) = PcpArchive::open(base) else {
        return Some(0);
    };
    let found = archive.averages(&archive.disks(), &archive.times().span());
    let found = found.unwrap();
    let name = base.file_name().unwrap().to_string_lossy();
    let is_joined = WRITTEN_TWICE.contains(&&*name);
    let mut compared = 0;
    for DiskAverages { disk, figures } in &found {
        for (
            metric,
            MetricAverages {
                stochastic, time, ..
            },
        ) in figures
        {
            let mut key = (metric.pcp_name().to_owned(), disk.clone());
            if disk == "all disks" {
                key.0 = key.0.replace("disk.dev", "disk.all");
            }
            let Some((printed, unit)) = summary.get(&key) else {
                continue;
            };
            compared += 1;
            // The mean of rates takes records milliseconds apart for as much as ten seconds.
            let is_stochastic = is_joined || is_printed(stochastic / unit, printed[0]);
            if !is_stochastic || !is_printed(time / unit, printed[1]) {
                let found = [stochastic / unit, time / unit];
                differs.push(format!("{name} {key:?}: {found:?}, printed {printed:?}"));
            }
        }
    }
    Some(compared)
}

#[test]
fn averages_are_those_that_pmlogsummary_prints() {
    let Some(folder) = archives() else {
        return;
    };
    let mut differs = Vec::new();
    let mut compared = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "index")
        {
            let base = path.with_extension("");
            let name = base.file_name().unwrap().to_string_lossy().into_owned();
            compared.extend(compare(&base, &mut differs).map(|n| (name, n)));
        }
    }
    if compared.is_empty() {
        // It is not installed, which was said.
        return;
    }
    let all: usize = compared.values().sum();
    let _ = writeln!(
        std::io::stderr(),
        "{all} pairs of averages of {} archives",
        compared.len()
    );
    let unread = compared.iter().filter(|(_, n)| **n == 0);
    let unread: Vec<&str> = unread.map(|(name, _)| &**name).collect();
    let reasons: Vec<&str> = UNREAD.iter().map(|(name, _)| *name).collect();
    assert_eq!(unread, reasons);
    for name in WRITTEN_TWICE {
        assert!(compared[name] > 0, "{name} has no averages");
    }
    assert!(
        differs.is_empty(),
        "{} differ:\n{}",
        differs.len(),
        differs.join("\n")
    );
}

#[test]
fn counters_cannot_do_more_than_a_disk_in_archives_written_twice() {
    let Some(folder) = archives() else {
        return;
    };
    for name in WRITTEN_TWICE {
        let archive = PcpArchive::open(&folder.join(name)).unwrap();
        let span = archive.times().span();
        let whole_s = (span.to_unix_ns - span.from_unix_ns) as f64 / 1e9;
        for found in archive.averages(&archive.disks(), &span).unwrap() {
            let reads = found.figure(DiskMetric::Reads).unwrap();
            assert!(
                reads.seconds > 0.5 * whole_s,
                "{name}: {reads:?} of {whole_s} s"
            );
            let busy = found
                .figure(DiskMetric::Active)
                .map_or(0.0, |busy| busy.time);
            assert!(busy <= 1.0, "{name}: busy {busy}");
        }
    }
}

#[test]
fn a_disk_that_cut_metadata_does_not_name_is_told_with_the_damage() {
    let Some(folder) = archives() else {
        return;
    };
    let copy = tempfile::tempdir().unwrap();
    for ending in ["0", "index", "meta"] {
        let name = format!("dm-io.{ending}");
        let mut bytes = std::fs::read(folder.join(&name)).unwrap();
        if ending == "meta" {
            bytes.truncate(bytes.len() / 2);
        }
        std::fs::write(copy.path().join(name), bytes).unwrap();
    }
    let whole = PcpArchive::open(&folder.join("dm-io")).unwrap();
    let told = match PcpArchive::open(&copy.path().join("dm-io")) {
        Ok(cut) => {
            let of_whole = whole.disks();
            let missing = of_whole.iter().find(|disk| !cut.disks().contains(disk));
            let missing = missing.expect("half of the names are cut off");
            let error = cut.series(missing, &cut.times().span()).unwrap_err();
            error.to_string()
        }
        Err(error) => error.to_string(),
    };
    assert!(
        told.contains("dm-io.meta") && told.contains("at byte"),
        "{told}"
    );
}

/// The counters of a text, and its file.
fn opened(text: &str) -> (tempfile::NamedTempFile, Box<dyn CounterSource>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    match plimsoll_trace::open(file.path()).unwrap() {
        OpenRecording::Counters(counters) => (file, counters),
        OpenRecording::Requests(_) => panic!("it is of counters"),
    }
}

#[test]
fn every_form_of_sadf_and_sar_tells_what_its_columns_do() {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").unwrap_or_default();
    let path = Path::new(&root).join("traces/counters/sa.bin");
    let path = path.to_str().unwrap();
    let of_sadf = ["-d", "-j", "-x", "-p"].map(|form| printed("sadf", &[form, path, "--", "-d"]));
    let of_sar = ["-d", "-dp"].map(|form| printed("sar", &[form, "-f", path]));
    let forms = [
        "sadf -d", "sadf -j", "sadf -x", "sadf -p", "sar -d", "sar -dp",
    ];
    let forms: Vec<_> = forms
        .into_iter()
        .zip(of_sadf.into_iter().chain(of_sar))
        .collect();
    let [(_, Some(columns)), ..] = &forms[..] else {
        return;
    };
    if columns.is_empty() {
        return skip("traces/counters/sa.bin is absent; set PLIMSOLL_TEST_DATA");
    }
    // Host, length, time, disk, operations, KiB read, KiB written; every length is one second.
    let mut sums: BTreeMap<&str, ([f64; 3], f64)> = BTreeMap::new();
    for line in columns.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(';').collect();
        assert_eq!(words[1], "1");
        let (sum, n) = sums.entry(words[3]).or_default();
        for (sum, word) in sum.iter_mut().zip(&words[4..7]) {
            *sum += word.parse::<f64>().unwrap();
        }
        *n += 1.0;
    }
    assert!(sums.len() > 1);
    for (form, text) in &forms {
        let (_file, found) = opened(text.as_ref().unwrap());
        assert_eq!(found.disks().len(), sums.len(), "{form}");
        let span = found.times().span();
        for averages in found.averages(&found.disks(), &span).unwrap() {
            let ([ops, read_kib, written_kib], n) = sums[&*averages.disk];
            for (metric, sum) in [
                (DiskMetric::Ops, ops),
                (DiskMetric::ReadBytes, read_kib * 1024.0),
                (DiskMetric::WriteBytes, written_kib * 1024.0),
            ] {
                let whole = averages.figure(metric).unwrap().whole;
                let disk = &averages.disk;
                assert!(
                    (whole - sum).abs() <= 1e-6 * sum,
                    "{form} {disk}: {whole} {sum} {n}"
                );
            }
        }
    }
}

/// The values in these columns, by disk, without the first `skipped` reports.
fn under(text: &str, names: [&str; 2], skipped: u32) -> BTreeMap<String, Vec<[f64; 2]>> {
    let mut places = None;
    let mut reports = 0;
    let mut found: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Device") {
            places = Some(names.map(|name| words.iter().position(|word| *word == name).unwrap()));
            reports += 1;
        } else if words.is_empty() {
            places = None;
        } else if let Some(places) = places.filter(|_| reports > skipped && !line.starts_with(' '))
        {
            let row = found.entry(words[0].to_owned()).or_default();
            row.push(places.map(|place| words[place].replace(',', ".").parse().unwrap()));
        }
    }
    found
}

/// Two block devices of this machine.
fn two_devices() -> Option<[String; 2]> {
    let devices = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let names = devices.lines();
    let mut names = names.filter_map(|line| line.split_whitespace().nth(2));
    let both = names.next().zip(names.next());
    if both.is_none() {
        skip("this machine has no block device, or one");
    }
    both.map(|(first, second)| [first.into(), second.into()])
}

/// Asserts that exactly these rows of these disks are read, in their order.
fn assert_rows(text: &str, expect: &BTreeMap<String, Vec<[f64; 2]>>) {
    assert_units(
        text,
        expect,
        [(DiskMetric::Reads, 1.0), (DiskMetric::WriteBytes, 1024.0)],
    );
}

fn assert_units(
    text: &str,
    expect: &BTreeMap<String, Vec<[f64; 2]>>,
    columns: [(DiskMetric, f64); 2],
) {
    let (_file, found) = opened(text);
    let disks: Vec<String> = expect.keys().cloned().collect();
    let mut named = found.disks();
    named.sort();
    assert_eq!(named, disks, "groups are none");
    for (disk, rows) in expect {
        let series = found.series(disk, &found.times().span()).unwrap();
        for (i, (metric, unit)) in columns.into_iter().enumerate() {
            let intervals = &series.column(metric).unwrap().intervals;
            assert_eq!(intervals.len(), rows.len(), "{text}");
            for (interval, row) in intervals.iter().zip(rows) {
                assert!((interval.rate() - row[i] * unit).abs() < 1e-6, "{text}");
            }
        }
    }
}

/// Intervals of two seconds, here and below: on a busy machine two reports that were to be a second apart may
/// have the same one as their time.
#[test]
fn iostat_with_a_group_tells_what_stands_in_its_columns() {
    let Some([first, second]) = two_devices() else {
        return;
    };
    let args = ["-xt", "-g", "both", &first, &second, "2", "3"];
    if let Some(text) = printed("iostat", &args) {
        assert_rows(&text, &under(&text, ["r/s", "wkB/s"], 1));
    }
}

#[test]
fn every_form_of_iostat_tells_what_stands_in_its_columns() {
    let Some([first, second]) = two_devices() else {
        return;
    };
    let (kib, mib) = (1024.0, 1024.0 * 1024.0);
    for (form, names, columns) in [
        (
            "-dt",
            ["tps", "kB_wrtn/s"],
            [(DiskMetric::Ops, 1.0), (DiskMetric::WriteBytes, kib)],
        ),
        (
            "-dmt",
            ["tps", "MB_read/s"],
            [(DiskMetric::Ops, 1.0), (DiskMetric::ReadBytes, mib)],
        ),
        (
            "-xdt",
            ["f/s", "rkB/s"],
            [(DiskMetric::Flushes, 1.0), (DiskMetric::ReadBytes, kib)],
        ),
        (
            "-xdmt",
            ["wrqm/s", "wMB/s"],
            [
                (DiskMetric::WriteMerges, 1.0),
                (DiskMetric::WriteBytes, mib),
            ],
        ),
        (
            "-xdtN",
            ["%util", "aqu-sz"],
            [(DiskMetric::Active, 0.01), (DiskMetric::QueueTime, 1.0)],
        ),
    ] {
        let Some(text) = printed("iostat", &[form, &first, &second, "2", "2"]) else {
            return;
        };
        let expect = under(&text, names, 1);
        assert_eq!(expect.len(), 2, "{text}");
        assert_units(&text, &expect, columns);
    }
}

#[test]
fn the_first_report_of_iostat_counts_if_it_is_not_since_the_start() {
    let Some([first, second]) = two_devices() else {
        return;
    };
    let Some(text) = printed("iostat", &["-xty", &first, &second, "2", "3"]) else {
        return;
    };
    let expect = under(&text, ["r/s", "wkB/s"], 0);
    assert_eq!(expect[&first].len(), 3);
    assert_rows(&text, &expect);
    // As journald prints it.
    let prefixed = |line: &str| format!("Nov 27 13:26:19 vm iostat[123]: {line}\n");
    assert_rows(&text.lines().map(prefixed).collect::<String>(), &expect);
    let json = printed("iostat", &["-xty", "-o", "JSON", &first, "2", "3"]).unwrap();
    let (_file, found) = opened(&json);
    let span = found.times().span();
    let series = found.series(&first, &span).unwrap();
    let reads = &series.column(DiskMetric::Reads).unwrap().intervals;
    let values = json.split("\"r/s\": ").skip(1);
    let values = values.map(|text| text[..text.find(',').unwrap()].parse::<f64>().unwrap());
    let rates: Vec<f64> = reads
        .iter()
        .map(plimsoll_trace::CounterInterval::rate)
        .collect();
    assert_eq!(rates, values.collect::<Vec<f64>>(), "{json}");
    assert_eq!(rates.len(), 3);
}
