// SPDX-License-Identifier: Apache-2.0
//! Results in lines like those of IOR 4: options, a row for each access, the rates of both.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::series::ClassicProgram;

use super::{EASY, EASY_SETTINGS, HARD, HARD_SETTINGS, IorOptions};
use crate::parts::{KIB, MIB, bytes, done, find, per_second};
use plimsoll_core::settings::SettingValues;

/// The summary; `None` when it is neither of the two or a phase is missing.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let (name, declared) = match classic.program.as_str() {
        EASY => (EASY, EASY_SETTINGS),
        HARD => (HARD, HARD_SETTINGS),
        _ => return None,
    };
    let settings = SettingValues::new(name, declared, &classic.settings).ok()?;
    let shape = IorOptions::read(&settings).ok()?;
    let mut out = options(&shape);
    out.push_str(
        "\nResults:\n\n\
         access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  total(s)   iter\n\
         ------    ---------  ----       ----------  ---------- ---------  --------   ----\n",
    );
    let mut maxima = String::new();
    for (access, title, kind) in [
        ("write", "Max Write:", OpKind::Write),
        ("read", "Max Read: ", OpKind::Read),
    ] {
        let phase = find(phases, access)?;
        let bytes_per_s = per_second(bytes(&phase.stats, kind), phase.wall);
        let (bw, mb_per_s) = (bytes_per_s / MIB, bytes_per_s / 1e6);
        let per_s = per_second(done(&phase.stats, kind), phase.wall);
        let service_s = phase.stats.0.get(&kind)?.service.mean_ns() / 1e9;
        let block_kib = shape.block_bytes as f64 / KIB;
        let transfer_kib = shape.transfer_bytes as f64 / KIB;
        let total_s = phase.wall.as_secs_f64();
        let _ = writeln!(
            out,
            "{access:<10}{bw:<11.2}{per_s:<11.2}{service_s:<12.6}{block_kib:<11.2}\
             {transfer_kib:<11.2}{total_s:<11.6}0"
        );
        let _ = writeln!(maxima, "{title} {bw:.2} MiB/sec ({mb_per_s:.2} MB/sec)");
    }
    let _ = write!(out, "\n{maxima}");
    Some(out)
}

fn options(shape: &IorOptions) -> String {
    let either = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.into() };
    let mut out = String::from("Options:\n");
    for (option, value) in [
        ("api", "POSIX".into()),
        (
            "access",
            either(
                shape.has_own_files,
                "file-per-process",
                "single-shared-file",
            ),
        ),
        ("segments", shape.segments.to_string()),
        (
            "ordering in a file",
            either(shape.is_random, "random", "sequential"),
        ),
        (
            "ordering inter file",
            either(shape.is_shifted, "constant task offset", "no tasks offsets"),
        ),
        ("nodes", "1".into()),
        ("tasks", shape.workers.to_string()),
        ("repetitions", "1".into()),
        ("xfersize", size(shape.transfer_bytes)),
        ("blocksize", size(shape.block_bytes)),
        ("aggregate filesize", size(shape.total_bytes())),
    ] {
        let _ = writeln!(out, "{option:<20}: {value}");
    }
    out
}

/// `2 MiB`, `47008 bytes`, `1.50 GiB`.
fn size(bytes: u64) -> String {
    for (unit, each) in [("GiB", 1 << 30), ("MiB", 1 << 20)] {
        if bytes >= each {
            return match bytes.is_multiple_of(each) {
                true => format!("{} {unit}", bytes / each),
                false => format!("{:.2} {unit}", bytes as f64 / each as f64),
            };
        }
    }
    if bytes > 0 && bytes.is_multiple_of(1024) {
        return format!("{} KiB", bytes / 1024);
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, result};

    use super::*;

    #[test]
    fn the_summary_has_the_lines_of_the_original() {
        let classic = built(EASY, &[("workers", "2"), ("b", "4m")])
            .classic
            .unwrap();
        let phases = [
            result(
                "write",
                2.0,
                &[
                    (OpKind::Write, 4, 2 << 20, 500_000),
                    (OpKind::Fsync, 2, 0, 7),
                    (OpKind::Close, 2, 0, 7),
                ],
            ),
            result("read", 0.5, &[(OpKind::Read, 4, 2 << 20, 0)]),
        ];
        let text = crate::text(&classic, &phases).unwrap();
        let expect = "\
Options:
api                 : POSIX
access              : file-per-process
segments            : 1
ordering in a file  : sequential
ordering inter file : constant task offset
nodes               : 1
tasks               : 2
repetitions         : 1
xfersize            : 2 MiB
blocksize           : 4 MiB
aggregate filesize  : 8 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   ----
write     4.00       2.00       0.500000    4096.00    2048.00    2.000000   0
read      16.00      8.00       0.000000    4096.00    2048.00    0.500000   0

Max Write: 4.00 MiB/sec (4.19 MB/sec)
Max Read:  16.00 MiB/sec (16.78 MB/sec)
";
        assert_eq!(text, expect);
        assert!(crate::text(&classic, &phases[..1]).is_none());
    }

    #[test]
    fn sizes_read_as_in_the_original() {
        for (bytes, expect) in [
            (47_008, "47008 bytes"),
            (4096, "4 KiB"),
            (2 << 20, "2 MiB"),
            (3 << 29, "1.50 GiB"),
            (4 << 30, "4 GiB"),
        ] {
            assert_eq!(size(bytes), expect);
        }
    }
}
