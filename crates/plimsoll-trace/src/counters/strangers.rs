// SPDX-License-Identifier: Apache-2.0
//! Recordings as strangers have them: started again, with other clocks, locales and orders.

use super::tests::{IOSTAT, IOSTAT_JSON, PERFMON, SADF_JSON, open, series, sums};
use super::*;
use crate::input::RecordingInput;
use crate::series::IntervalVerdict;
use DiskMetric::{Active, Flushes, Ops, ReadBytes, Reads, WriteBytes, Writes};
use std::fmt::Write as _;

/// One start of `iostat -xt 1`: the average since the machine was started, then `reports` reports of
/// 100 reads/s and 5 writes/s.
fn iostat_run(time: &dyn Fn(u64) -> String, reports: u64) -> String {
    let first = time(0);
    let date = first.split(' ').next().unwrap();
    let mut out = format!("Linux 6.18 (vm) \t{date} \t_x86_64_\t(2 CPU)\n\n");
    for report in 0..=reports {
        let reads = if report == 0 { "7777.00" } else { "100.00" };
        let _ = write!(
            out,
            "{}\navg-cpu:  %user   %nice\n          32.91    4.66\n\nDevice r/s rkB/s w/s wkB/s %util\n\
             sda {reads} 400.00 5.00 20.00 25.00\n\n",
            time(report)
        );
    }
    out
}

/// Seconds after 11/21/26 00:00:00 as sysstat prints them in English.
fn english(from_s: u64) -> impl Fn(u64) -> String {
    move |at| {
        let s = from_s + at;
        format!("11/21/26 {:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

/// Operations that counted, the time in which they did in seconds, and intervals that did not.
fn kept(text: &str, disk: &str, metric: DiskMetric) -> (u64, u64, u64) {
    let series = series(&open(text), disk);
    let column = series.column(metric).unwrap();
    let kept = column.intervals.iter().filter(|i| i.counts());
    let (ops, seconds) = kept.fold((0.0, 0.0), |(ops, s), i| {
        (ops + i.difference, s + i.seconds())
    });
    let whole = |value: f64| plimsoll_core::num::round_u64(value);
    (whole(ops), whole(seconds), column.dropped())
}

#[test]
fn every_start_of_iostat_loses_its_first_report_whatever_lies_between() {
    for gap_s in [0, 1, 2, 30, 3_600, 80_000] {
        let text = iostat_run(&english(0), 45) + &iostat_run(&english(45 + gap_s), 45);
        let (reads, seconds, _) = kept(&text, "sda", Reads);
        // Ends that fall into one second are one.
        assert!((9_000..=9_100).contains(&reads), "{gap_s}: {reads}");
        assert!((90..=91).contains(&seconds), "{gap_s}: {seconds}");
    }
    // Cut off in the middle of a line when the machine was, and started again behind it.
    let first = iostat_run(&english(0), 45);
    let text = first[..first.len() - 20].to_owned() + &iostat_run(&english(70), 45);
    let (reads, seconds, _) = kept(&text, "sda", Reads);
    assert_eq!((reads, seconds), (44 * 100 + 45 * 100, 89));
    // 24 times a day, from cron.
    let cron: String = (0..24)
        .map(|hour| iostat_run(&english(hour * 3_600), 45))
        .collect();
    assert_eq!(kept(&cron, "sda", Writes), (24 * 45 * 5, 24 * 45, 23));
}

#[test]
fn json_documents_stand_one_behind_the_other_whole_or_cut_off() {
    let later = IOSTAT_JSON.replace("00:15", "01:15");
    let cut = &IOSTAT_JSON[..IOSTAT_JSON.rfind("\n]}]}}").unwrap()];
    for first in [IOSTAT_JSON, cut] {
        let text = format!("{first}\n{later}");
        assert_eq!(kept(&text, "sda", Reads), (400, 4, 1));
        assert_eq!(sums(&text, "sda")[0], (Reads, 400.0));
    }
    let later = SADF_JSON.replace("00:15", "01:15");
    assert_eq!(
        kept(&format!("{SADF_JSON}{later}"), "sda", Ops),
        (420, 4, 1)
    );
}

#[test]
fn keys_of_json_stand_in_any_order() {
    let sorted = r#"{"sysstat":{"hosts":[{"date":"11/21/26","nodename":"vm","statistics":[
 {"avg-cpu":{"user":1.0},"disk":[{"aqu-sz":9.0,"disk_device":"sda","r/s":9999.0,"rkB/s":1.0}],
  "timestamp":"11/21/26 00:15:32"},
 {"disk":[{"aqu-sz":0.06,"d/s":1.0,"dkB/s":4.0,"disk_device":"sda","f/s":1.0,"r/s":100.0,
  "r_await":0.5,"rkB/s":1000.0,"util":25.0,"w/s":5.0,"w_await":2.0,"wkB/s":40.0}],
  "timestamp":"11/21/26 00:15:34"}]}]}}"#;
    assert_eq!(sums(sorted, "sda"), sums(IOSTAT_JSON, "sda"));
    let file = open(sorted);
    assert_eq!(file.times().span(), open(IOSTAT_JSON).times().span());
    let told = file.warnings().join("; ");
    assert!(!told.contains("no times"), "{told}");
    let sorted = r#"{"sysstat":{"hosts":[{"nodename":"vm","statistics":[
 {"disk":[{"aqu-sz":0.06,"await":0.5,"disk-device":"sda","dkB":4.0,"rkB":1000.0,"tps":105.0,
  "util-percent":25.0,"wkB":40.0}],
  "timestamp":{"date":"2026-11-21","interval":2,"time":"00:15:34","utc":1}}],"timezone":"UTC"}]}}"#;
    assert_eq!(sums(sorted, "sda"), sums(SADF_JSON, "sda"));
}

#[test]
fn days_that_stand_first_are_found_by_midnights_and_by_numbers() {
    let days = [
        ("11/12/26", "12/12/26"),
        ("12/11/26", "13/11/26"),
        ("30/11/26", "01/12/26"),
    ];
    for (first, second) in days {
        let time = |at: u64| match at {
            0..20 => format!("{first} 23:59:{:02}", at + 40),
            _ => format!("{second} 00:00:{:02}", at - 20),
        };
        assert_eq!(
            kept(&iostat_run(&time, 44), "sda", Reads),
            (4_400, 44, 0),
            "{first}"
        );
    }
    let both = iostat_run(&|at| format!("25/11/26 00:00:{at:02}"), 9)
        + &iostat_run(&|at| format!("11/26/26 00:00:{at:02}"), 9);
    let error = CounterFile::from_bytes("f", both.into())
        .unwrap_err()
        .to_string();
    assert!(error.contains("several recordings"), "{error}");
    let japanese = iostat_run(&|at| format!("2026年11月21日 00時00分{at:02}秒"), 9);
    assert_eq!(kept(&japanese, "sda", Reads), (900, 9, 0));
    assert!(!open(&japanese).warnings().join(" ").contains("no times"));
}

#[test]
fn a_clock_that_is_set_back_loses_an_interval_and_says_so() {
    let time = |at: u64| english(0)(if at < 30 { 7_200 + at } else { 3_601 + at });
    let text = iostat_run(&time, 60);
    assert_eq!(kept(&text, "sda", Reads), (59 * 100, 59, 1));
    let told = open(&text).warnings().join("; ");
    assert!(told.contains("its times go back by 3597 s"), "{told}");
    // The same for a clock that is set forward.
    let time = |at: u64| english(0)(if at < 30 { at } else { at + 3_600 });
    assert_eq!(
        kept(&iostat_run(&time, 60), "sda", Reads),
        (59 * 100, 59, 1)
    );
    // Summer time ends in a log of perfmon.
    let mut log = PERFMON[..PERFMON.find("\r\n").unwrap() + 2].to_owned();
    for (clock, at) in [(2, 0..40), (1, 40..80)] {
        for s in at {
            let minute = s % 40;
            let _ = write!(
                log,
                "\"10/25/2026 0{clock}:{minute:02}:00.000\",\"10\",\"1\",\"0\",\"0\",\"0\",\"0\",\"90\",\"1\"\r\n"
            );
        }
    }
    let (reads, seconds, dropped) = kept(&log, "0 C: D:", Reads);
    assert_eq!((reads, seconds, dropped), (78 * 600, 78 * 60, 1));
}

#[test]
fn times_in_no_order_are_refused() {
    let mut text = String::new();
    for i in 0..60u64 {
        let at = 1_795_220_132 + i * 37 % 60;
        let _ = write!(text, "{at}\n8 0 sda {i} 0 {i} 1 1 0 1 1 0 1 1\n");
    }
    let error = CounterFile::from_bytes("f", text.into())
        .unwrap_err()
        .to_string();
    assert!(error.contains("sort or separate"), "{error}");
}

#[test]
fn a_counter_counts_in_an_interval_a_hundred_times_its_neighbours_and_a_rate_does_not() {
    let at = |i: u64| 1_795_220_132 + i + if i < 20 { 0 } else { 100 };
    let mut totals = String::new();
    let mut perfmon = PERFMON[..PERFMON.find("\r\n").unwrap() + 2].to_owned();
    for i in 0..40 {
        let (reads, s) = (i * 100, at(i));
        let _ = write!(totals, "{s}\n8 0 sda {reads} 0 {reads} 1 1 0 1 1 0 1 1\n");
        let s = s % 600;
        let row = "\"100\",\"1\",\"0\",\"0\",\"0\",\"0\",\"90\",\"1\"";
        let _ = write!(
            perfmon,
            "\"11/21/2026 00:{:02}:{:02}\",{row}\r\n",
            s / 60,
            s % 60
        );
    }
    assert_eq!(kept(&totals, "sda", Reads), (3_900, 139, 0));
    assert_eq!(kept(&perfmon, "0 C: D:", Reads), (3_800, 38, 1));
    let found = series(&open(&totals), "sda");
    let long = found.column(Reads).unwrap().intervals.iter();
    assert_eq!(
        long.filter(|i| i.verdict == IntervalVerdict::Long).count(),
        1
    );
}

#[test]
fn what_iostat_leaves_out_was_idle_and_what_is_damaged_was_not() {
    let with = |reports: &[u64], line: &str| {
        let mut out = String::new();
        for part in iostat_run(&english(0), 20).split_inclusive("\n\n") {
            let n = out.matches("Device").count() as u64;
            let is_report = part.starts_with("Device") && reports.contains(&n);
            let header = part.find('\n').unwrap() + 1;
            let cut = format!("{}{line}\n", &part[..header]);
            out += if is_report { &cut } else { part };
        }
        out
    };
    let idle = with(&[3, 4, 9, 20], "");
    assert_eq!(kept(&idle, "sda", Reads), (1_600, 20, 0));
    assert_eq!(kept(&idle, "sda", Active).1, 20);
    assert!(open(&idle).warnings().join(" ").contains("iostat -z"));
    let damaged = with(&[3], "sda 100.0x\n");
    assert_eq!(kept(&damaged, "sda", Reads), (1_900, 19, 1));
}

/// Real output of `iostat -xh 1 3` of sysstat 12.6.1, shortened.
const HUMAN: &str = "\
     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device
   86.98      2.2M    17.97  17.1%    1.57    26.0k vda

     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device
   20.83      8.7M    55.09  72.6%    5.88   426.0k vda

     f/s f_await  aqu-sz  %util Device
    1.51    0.09    0.26   4.2% vda

";

#[test]
fn what_iostat_prints_for_people_is_one_report_of_several_parts() {
    let prompt = "me@vm:~$ iostat -dxh 1 3\n";
    let start = "Linux 6.18 (vm) \t11/23/26 \t_x86_64_\t(2 CPU)\n\n";
    for before in [start.to_owned(), prompt.to_owned() + start, String::new()] {
        let text = before + HUMAN + HUMAN + "\n" + HUMAN;
        let found = series(&open(&text), "vda");
        let of = |metric| found.averages(metric).map(|a| (a.time * 1e4).round() / 1e4);
        assert_eq!(of(Reads), Some(86.98));
        assert_eq!(
            of(ReadBytes),
            Some(2.2 * 1024.0 * 1024.0).map(|b: f64| (b * 1e4).round() / 1e4)
        );
        assert_eq!((of(Writes), of(Flushes)), (Some(20.83), Some(1.51)));
        assert_eq!(of(Active), Some(0.042));
        assert_eq!(found.column(Reads).unwrap().intervals.len(), 2);
    }
    assert_eq!(
        sums(&IOSTAT[IOSTAT.find('\n').unwrap()..], "sda"),
        sums(IOSTAT, "sda")
    );
}

#[test]
fn all_disks_of_a_line_of_sadf_are_read() {
    let header = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;await;%util[...]\n";
    let line = |s| {
        format!(
            "vm;1;2026-11-21 00:15:{s} UTC;loop0;0.00;0.00;0.00;0.00;0.00;vda;519.00;80.00;8.00;0.50;82.00\n"
        )
    };
    let text = header.to_owned() + &line(30) + &line(31);
    let file = open(&text);
    assert_eq!(file.disks(), ["loop0", "vda"]);
    assert_eq!(kept(&text, "vda", Ops), (1_038, 2, 0));
    let several = text.replace(";DEV;", ";CPU;%user[...];DEV;");
    let error = CounterFile::from_bytes("f", several.into())
        .unwrap_err()
        .to_string();
    assert!(error.contains("sadf -d -- -d"), "{error}");
}

#[test]
fn performance_counters_come_in_any_case_separator_and_encoding() {
    let expect = sums(PERFMON, "0 C: D:");
    let lower = PERFMON.to_lowercase();
    assert_eq!(sums(&lower, "0 c: d:"), expect);
    let semicolons = PERFMON.replace("\",\"", "\";\"");
    assert_eq!(sums(&semicolons, "0 C: D:"), expect);
    assert_eq!(sums(&semicolons.replace('"', ""), "0 C: D:"), expect);
    assert_eq!(sums(&format!("\r\n{PERFMON}"), "0 C: D:"), expect);
    let marked = format!("\u{feff}{PERFMON}");
    assert_eq!(sums(&marked, "0 C: D:"), expect);
    let utf16: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = CounterFile::from_bytes("f", utf16).unwrap();
    assert_eq!(file.disks(), ["0 C: D:"]);
    for text in [IOSTAT, IOSTAT_JSON] {
        assert_eq!(sums(&format!("\u{feff}{text}"), "sda"), sums(text, "sda"));
    }
    // Two logs, one behind the other.
    let later = PERFMON.replace("11/21", "11/22");
    assert_eq!(
        kept(&format!("{PERFMON}{later}"), "0 C: D:", Reads),
        (400, 4, 1)
    );
}

#[test]
fn totals_of_esxtop_and_volumes_of_windows_are_known_by_their_objects() {
    let column = |object: &str| format!(",\"\\\\esx1\\{object}\\Reads/sec\"");
    let objects = [
        "Physical Disk SCSI Device(naa.6000)",
        "Physical Disk(vmhba1)",
        "Virtual Disk(vm1)",
        "Virtual Disk(vm1:scsi0:0)",
    ];
    let columns: String = objects.iter().map(|o| column(o)).collect();
    let text = format!(
        "\"(PDH-CSV 4.0) (UTC)(0)\"{columns}\n\"11/21/2026 00:15:32\",\"1\",\"1\",\"1\",\"1\"\n\"11/21/2026 00:15:34\",\"1\",\"1\",\"1\",\"1\"\n"
    );
    let file = open(&text);
    let disks = crate::DeviceChoices::of(&file);
    assert_eq!(disks.disks, ["naa.6000"]);
    assert_eq!(disks.set_aside.len(), 3);
}

#[test]
fn loops_over_diskstats_tell_times_in_other_ways() {
    let disk = |n: u64| format!("8 0 sda {} 0 8 1 1 0 1 1 0 1 1\n", n * 10);
    let of = |times: [&str; 3]| -> String {
        let parts = (0..)
            .zip(times)
            .map(|(n, time)| format!("{time}\n{}", disk(n)));
        parts.collect()
    };
    let ms = of(["1795386231230", "1795386232230", "1795386233230"]);
    assert_eq!(kept(&ms, "sda", Reads), (20, 2, 0));
    assert!(
        open(&ms)
            .times()
            .civil(1_795_386_231_230_000_000)
            .starts_with("2026-11-2")
    );
    let undated = [
        of([
            "12345.67 20000.10",
            "12346.67 20001.10",
            "12347.67 20002.10",
        ]),
        of(["23:59:58", "23:59:59", "00:00:00"]),
    ];
    for text in undated {
        assert_eq!(kept(&text, "sda", Reads), (20, 2, 0), "{text}");
        let file = open(&text);
        let times = file.times();
        let span = times.span();
        assert_eq!(times.civil(span.from_unix_ns), "its start");
        assert!(times.civil(span.to_unix_ns).starts_with("2.00 s after"));
        assert_eq!(
            times.window(Some("1s"), None).unwrap().from_unix_ns,
            span.from_unix_ns + 1_000_000_000
        );
    }
    // In front of every line.
    let rows: String = (0..3).map(|s| format!("10:00:0{s} {}", disk(s))).collect();
    assert_eq!(kept(&rows, "sda", Reads), (20, 2, 0));
}

#[test]
fn a_disk_that_is_not_found_may_stand_behind_the_damage() {
    let cut = &IOSTAT_JSON[..IOSTAT_JSON.rfind("\n]}]}}").unwrap()];
    let file = open(cut);
    let error = file.series("sdb", &file.times().span()).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("it has sda; more may stand behind its damage"),
        "{told}"
    );
    assert!(told.contains(&format!("byte {}", cut.len())), "{told}");
}

#[test]
fn what_is_no_recording_gets_the_hint_of_what_it_is_close_to() {
    let input = RecordingInput::new("f".into(), Box::new(&b"\x96\xd5\x75\x21"[..])).unwrap();
    assert!(!is_one(&input));
    let error = CounterFile::from_bytes("f", b"\x96\xd5\x75\x21".to_vec()).unwrap_err();
    assert!(error.to_string().contains("sadf -j FILE"), "{error}");
}

/// Of FreeBSD 14.4, as a project publishes it (the reference output of its collectors); the disks were idle
/// in the second report, so figures of another one are put in.
pub(super) const FREEBSD: &str = "                        extended device statistics
device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b
ada0           0       1      0.2     20.7     4     3     0     3    0   0
pass0          0       0      0.0      0.0     0     0     0     0    0   0
                        extended device statistics
device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b
ada0        12.3     4.5    512.0    128.5   0.4   0.9   0.0   0.5    0   2
pass0          0       0      0.0      0.0     0     0     0     0    0   0
";

/// Of Solaris, as its users publish it.
const SOLARIS: &str = "                 extended device statistics
device    r/s    w/s   Mr/s   Mw/s wait actv  svc_t  %w  %b
sd1       9.9 1474.2    0.1  172.2  8.3  0.8    6.2  88  83
                 extended device statistics
device    r/s    w/s   Mr/s   Mw/s wait actv  svc_t  %w  %b
sd1       0.0 1699.9    0.0  210.9  9.0  1.0    5.8 100  98
                 extended device statistics
device    r/s    w/s   Mr/s   Mw/s wait actv  svc_t  %w  %b
sd1       2.0 1501.4    0.1  173.9  7.8  0.9    5.8  90  88
";

/// Of `zpool iostat -v zroot 5` on FreeBSD 15.1, from vermaden.wordpress.com (2026-08-14), shortened by two
/// of three disks.
pub(super) const ZPOOL: &str = "              capacity     operations     bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
zroot        199G   229G     25    758  3.11M  42.6M
  mirror-0   199G   229G  3.21K  95.9K   402M  5.38G
    ada1p4      -      -     25    693  3.11M  36.5M
----------  -----  -----  -----  -----  -----  -----
              capacity     operations     bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
zroot        199G   229G  2.89K  8.29K   369M   850M
  mirror-0   199G   229G  2.89K  8.29K   369M   850M
    ada1p4      -      -  2.89K    383   369M  37.1M
----------  -----  -----  -----  -----  -----  -----
              capacity     operations     bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
zroot        199G   229G  2.99K  7.30K   378M   827M
  mirror-0   199G   229G  2.99K  7.30K   378M   827M
    ada1p4      -      -  2.99K    185   378M  19.9M
----------  -----  -----  -----  -----  -----  -----
";

/// Asserts the means of reads, writes and their bytes per second.
fn assert_means(text: &str, disk: &str, expect: [f64; 4]) {
    let found = series(&open(text), disk);
    for (metric, mean) in [Reads, Writes, ReadBytes, WriteBytes]
        .into_iter()
        .zip(expect)
    {
        let time = found.averages(metric).unwrap().time;
        assert!(
            (time - mean).abs() <= 1e-9 * mean.max(1.0),
            "{metric:?}: {time} {mean}"
        );
    }
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

#[test]
fn other_systems_print_other_names_of_columns() {
    let file = open(FREEBSD);
    assert_eq!(file.disks(), ["ada0", "pass0"]);
    assert_means(FREEBSD, "ada0", [12.3, 4.5, 512.0 * KIB, 128.5 * KIB]);
    let ada0 = series(&file, "ada0");
    let of = |metric| ada0.averages(metric).unwrap().time;
    assert!((of(Active) - 0.02).abs() < 1e-12);
    assert!((of(DiskMetric::ReadTime) - 12.3 * 0.0004).abs() < 1e-12);
    assert_means(SOLARIS, "sd1", [1.0, 1600.65, 0.05 * MIB, 192.4 * MIB]);
    // With times, as Solaris prints them with -T d: before each report.
    let timed = (0..).zip(
        SOLARIS
            .split_inclusive("83\n")
            .flat_map(|part| part.split_inclusive("98\n")),
    );
    let timed = timed.map(|(at, part)| format!("Thu Aug 13 18:4{at}:35 2026\n{part}"));
    assert_eq!(
        kept(&timed.collect::<String>(), "sd1", Reads),
        (120, 120, 0)
    );
}

#[test]
fn pools_of_zfs_count_without_what_is_inside_of_them() {
    let file = open(ZPOOL);
    assert_eq!(file.disks(), ["zroot"]);
    assert!(file.warnings().join(" ").contains("zpool iostat -v"));
    assert_means(
        ZPOOL,
        "zroot",
        [2.94 * KIB, 7.795 * KIB, 373.5 * MIB, 838.5 * MIB],
    );
    // As scripts have it: zpool iostat -H -p -T u.
    let row = |n: u64| {
        format!(
            "tank\t213674622976\t245887926272\t{n}\t{}\t{}\t40960\n",
            2 * n,
            4096 * n
        )
    };
    let times = (0..).zip([9, 20, 30]);
    let timed = times.map(|(i, n)| format!("{}\n{}", 1_795_220_132u64 + 5 * i, row(n)));
    let expect = [25.0, 50.0, 25.0 * 4096.0, 40_960.0];
    assert_means(&timed.collect::<String>(), "tank", expect);
    assert_means(&[9, 20, 30].map(row).concat(), "tank", expect);
}

#[test]
fn reports_of_json_may_stand_alone_on_lines() {
    let lines: String = IOSTAT_JSON
        .replace('\n', " ")
        .split(" {\"timestamp\"")
        .skip(1)
        .map(|report| {
            format!(
                "{{\"timestamp\"{}\n",
                report.trim_end_matches([',', ']', '}', ' '])
            )
        })
        .map(|line| line.replace(" ]}]}}", "").trim_end().to_owned() + "}]}\n")
        .collect();
    assert_eq!(sums(&lines, "sda"), sums(IOSTAT_JSON, "sda"), "{lines}");
}
