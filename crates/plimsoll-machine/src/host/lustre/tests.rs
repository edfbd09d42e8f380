// SPDX-License-Identifier: Apache-2.0
//! Outputs of the programs of Lustre, whole and damaged, and programs that pretend to be them.

use super::*;
use crate::host::{SearchPath, SystemClock};
use crate::watch::{ServerWatchScope, watch};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const DF: &str = "\
UUID                   1K-blocks        Used   Available Use% Mounted on
scratch-MDT0000_UUID        4000000      100000     3500000   3% /scratch[MDT:0]
scratch-OST0000_UUID        8000000     2000000     5900000  26% /scratch[OST:0]
scratch-OST0001_UUID        8000000     1000000     6900000  13% /scratch[OST:1]
OST0002             : inactive device
scratch-OST0003_UUID: Resource temporarily unavailable

filesystem_summary:     16000000     3000000    12800000  19% /scratch
";

const STATS: &str = "\
osc.scratch-OST0000-osc-ffff90a1b2c3d000.stats=
snapshot_time             1780000000.000000001 secs.nsecs
req_waittime              12 samples [usec] 40 900 4000 900000
read_bytes                2 samples [bytes] 4096 1048576 1052672 7
write_bytes               3 samples [bytes] 100 100 300
osc.scratch-OST0001-osc-ffff90a1b2c3d000.stats=
snapshot_time             1780000000.000000001 secs.nsecs
write_bytes               0 samples [bytes]
osc.scratch-OST0000-osc-ffff90a1b2c3e000.stats=
read_bytes                1 samples [bytes] 8 8 8
";

fn facts(file_system: &str, mount_source: &str) -> TargetFacts {
    TargetFacts {
        path: "/scratch/dir".into(),
        mount_point: "/scratch".into(),
        mount_source: mount_source.into(),
        file_system: file_system.into(),
        mount_options: "rw".into(),
        device: "0:50".into(),
        size_bytes: 1 << 34,
        free_bytes: 1 << 33,
        direct_align_bytes: 4096,
        ..TargetFacts::default()
    }
}

#[test]
fn the_name_of_a_file_system_stands_behind_its_servers() {
    for (source, expect) in [
        ("10.0.0.5@tcp:/scratch", Some("scratch")),
        (
            "10.0.0.5@tcp:10.0.0.6@tcp:/scratch/group/me",
            Some("scratch"),
        ),
        ("10.0.0.5@o2ib1,10.1.0.5@tcp:/a-b_c", Some("a-b_c")),
        ("10.0.0.5@tcp:/", None),
        ("10.0.0.5@tcp:/w*", None),
        ("10.0.0.5@tcp:/longerthan8", None),
        ("/dev/loop3", None),
    ] {
        assert_eq!(name(&facts("lustre", source)), expect, "{source}");
    }
    assert_eq!(name(&facts("nfs", "10.0.0.5:/scratch")), None);
}

#[test]
fn targets_are_read_with_their_room_and_those_that_are_away() {
    let found = targets(DF).unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|t| (&*t.name, t.size_bytes >> 10, t.free_bytes >> 10, t.is_away))
        .collect();
    let expect = [
        ("scratch-MDT0000", 4_000_000, 3_500_000, false),
        ("scratch-OST0000", 8_000_000, 5_900_000, false),
        ("scratch-OST0001", 8_000_000, 6_900_000, false),
        ("OST0002", 0, 0, true),
        ("scratch-OST0003", 0, 0, true),
    ];
    assert_eq!(shown, expect);
}

#[test]
fn a_list_of_targets_that_is_none_is_refused() {
    for (text, why) in [
        ("", "lists no targets"),
        ("UUID 1K-blocks Used\n", "lists no targets"),
        (
            "scratch-OST0000_UUID 8.0G 1.0G 7.0G 1% /scratch[OST:0]\n",
            "8.0G",
        ),
        (
            "scratch-OST0000_UUID 18446744073709551615 0 0 1% /w\n",
            "OST0000",
        ),
        ("scratch-OST0000_UUID 1 2 3 4 5\n", "1 2 3 4 5"),
        ("scratch-OST0000_UUID\n", "OST0000"),
    ] {
        let error = targets(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let mut many = String::new();
    for n in 0..=TARGETS_MAX {
        writeln!(many, "w-OST{n:04x}_UUID 1 1 1 1% /w[OST:{n}]").unwrap();
    }
    assert!(targets(&many).unwrap_err().contains("more than 8192"));
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert!(targets(&long).unwrap_err().contains("exceeds 16 MiB"));
}

#[test]
fn striping_is_told_in_words() {
    for (text, expect) in [
        (
            "stripe_count:  4 stripe_size:   1048576 pattern: raid0 stripe_offset: -1\n",
            "each file over 4 object storage targets in stripes of 1.00 MiB",
        ),
        (
            "/scratch/dir\nlmm_stripe_count:  -1\nlmm_stripe_size:   0\n",
            "each file over all object storage targets in stripes of the file system's size",
        ),
        (
            "lcm_entry_count: 2\nstripe_count: 1 stripe_size: 65536\n\
             stripe_count: -1 stripe_size: 65536\n",
            "files in 2 differently striped parts",
        ),
    ] {
        assert_eq!(striping(text).unwrap(), expect);
    }
    for text in ["", "stripe_count: many stripe_size: 1", "stripe_count:"] {
        assert!(
            striping(text).unwrap_err().contains("no stripe count"),
            "{text}"
        );
    }
}

#[test]
fn what_was_moved_is_summed_over_the_connections_of_each_target() {
    let moved = traffic(STATS).unwrap();
    let shown: Vec<_> = moved
        .iter()
        .map(|(name, bytes)| (&**name, *bytes))
        .collect();
    let expect = [
        ("scratch-OST0000", 1_052_672 + 300 + 8),
        ("scratch-OST0001", 0),
    ];
    assert_eq!(shown, expect);
    assert!(traffic("").unwrap().is_empty());
    for line in [
        "read_bytes 2 samples [bytes] 1 2 many",
        "read_bytes 2 samples [bytes] 1",
    ] {
        let text = format!("osc.w-OST0000-osc-f.stats=\n{line}\n");
        assert!(traffic(&text).unwrap_err().contains(line));
    }
}

/// A host whose path begins with these programs, as shell scripts.
///
/// Another process writes them: what a test beside this one starts would inherit a file that we have
/// open, and nothing can be executed while anybody has it open for writing.
#[expect(
    clippy::disallowed_methods,
    reason = "a test, and the shell ends at once"
)]
fn host_with(dir: &Path, programs: &[(&str, String)]) -> LocalHost {
    for (name, script) in programs {
        let path = dir.join(name);
        let words = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod 755 \"$2\"";
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", words, "sh", script])
            .arg(&path)
            .status();
        assert!(written.unwrap().success(), "{name} is not written");
    }
    LocalHost::new(SearchPath::new(dir.as_os_str()))
}

#[test]
fn the_facts_of_a_mount_come_from_its_programs_or_say_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "case \"$1 $2\" in\n\"df /scratch\") cat <<'END'\n{DF}END\n;;\n\
         \"getstripe -d\") echo stripe_count: 2 stripe_size: 65536;;\n*) exit 1;;\nesac"
    );
    let host = host_with(dir.path(), &[("lfs", script)]);
    let mut found = facts("lustre", "10.0.0.5@tcp:/scratch");
    add_facts(&host, &mut found);
    assert_eq!(found.targets.len(), 5);
    assert!(found.striping.contains("over 2 object"), "{found:?}");
    let host = host_with(dir.path(), &[("lfs", "echo no server; exit 5".into())]);
    let mut found = facts("lustre", "10.0.0.5@tcp:/scratch");
    add_facts(&host, &mut found);
    assert_eq!(found.targets, []);
    assert_eq!(found.striping.matches("no server").count(), 2, "{found:?}");
    let mut other = facts("ext4", "/dev/vda1");
    add_facts(&host, &mut other);
    assert_eq!(other, facts("ext4", "/dev/vda1"));
}

#[test]
fn what_each_target_moved_meanwhile_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    // From look to look one target moves a mebibyte, and the other a few bytes.
    let script = format!(
        "test \"$1 $2\" = 'get_param osc.scratch-OST*.stats' || exit 1\n\
         echo >>{count}\nn=$(wc -l <{count})\n\
         echo osc.scratch-OST0000-osc-f.stats=\n\
         echo write_bytes $n samples [bytes] 1 1 $((n * 1048576)) 1\n\
         echo osc.scratch-OST0001-osc-f.stats=\n\
         echo read_bytes $n samples [bytes] 1 1 $n 1",
        count = count.display()
    );
    let mut host = host_with(dir.path(), &[("lctl", script)]);
    let subjects = ServerWatchScope {
        servers: &[],
        client_programs: &[],
        lustre: Some("scratch"),
    };
    let stop = AtomicBool::new(true);
    let used = watch(&subjects, &mut host, &SystemClock::new(), &stop).servers;
    let names: Vec<&str> = used.iter().map(|one| &*one.server).collect();
    assert_eq!(names, ["scratch-OST0000", "scratch-OST0001"]);
    let looks = fs::read_to_string(&count).unwrap().len() as u64;
    assert_eq!(looks, 2, "one before and one after");
    assert_eq!((used[0].moved_bytes, used[1].moved_bytes), (1 << 20, 1));
    assert_eq!(used[0].still.0, 0);
    assert_eq!(used[1].still, used[1].length);
}
