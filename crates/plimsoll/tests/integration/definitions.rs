// SPDX-License-Identifier: Apache-2.0
//! The file loops that are known by name, operation by operation as the engine asks for them.

use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_engine::{TracedOp, trace_worker};

fn trace(workload: &str, group: u32, count: usize) -> Vec<TracedOp> {
    let workload = plimsoll_classics::parse_on(workload, None).unwrap();
    trace_worker(&workload, (group, 0), Seed(1), count).unwrap()
}

/// Names of the kinds, runs of the same as `kind*count`.
fn kinds(traced: &[TracedOp]) -> String {
    let mut words: Vec<(OpKind, u32)> = Vec::new();
    for op in traced {
        match words.last_mut() {
            Some((kind, count)) if *kind == op.kind => *count += 1,
            _ => words.push((op.kind, 1)),
        }
    }
    let word = |(kind, count): &(OpKind, u32)| match count {
        1 => kind.to_string(),
        count => format!("{kind}*{count}"),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

const READ: &str = "open read_whole close";

#[test]
fn varmail_has_thirteen_operations() {
    // One thread, or a delete could meet a file that another one has open.
    let traced = trace("varmail,nthreads=1", 0, 26);
    let once =
        format!("delete create append fsync close open read_whole append fsync close {READ}");
    assert_eq!(kinds(&traced), format!("{once} {once}"));
    for turn in traced.chunks(13) {
        assert!(turn[1..5].iter().all(|op| op.file == turn[1].file));
        assert!(turn[5..10].iter().all(|op| op.file == turn[5].file));
        assert!(turn[10..].iter().all(|op| op.file == turn[10].file));
        assert!(turn[2].len < 16_384 && turn[7].len < 16_384);
        // The rotor of existing files goes on with every pick.
        assert!(turn[0].file < turn[5].file && turn[5].file < turn[10].file);
    }
    assert!(
        traced[0].file.starts_with("bigfileset/00000001/"),
        "{}",
        traced[0].file
    );
}

#[test]
fn webserver_has_thirty_one_operations_and_one_log() {
    let traced = trace("webserver", 0, 63);
    let reads = [READ; 10].join(" ");
    // The log is opened when it is first needed, and stays open.
    let expect = format!("{reads} open append {reads} append");
    assert_eq!(kinds(&traced), expect);
    let logs = traced.iter().filter(|op| op.kind == OpKind::Append);
    let mut logs: Vec<&str> = logs.map(|op| op.file.as_str()).collect();
    logs.dedup();
    assert_eq!(logs.len(), 1);
    assert!(logs[0].starts_with("logfiles/"), "{logs:?}");
}

#[test]
fn fileserver_has_eleven_operations() {
    let traced = trace("fileserver,nthreads=1", 0, 22);
    let once = format!("create write_whole close open append close {READ} delete stat");
    assert_eq!(kinds(&traced), format!("{once} {once}"));
    assert_eq!(traced[0].file, traced[1].file);
}

#[test]
fn webproxy_has_nineteen_operations_with_or_without_a_limit() {
    let once = format!("delete create append close {}", [READ; 5].join(" "));
    for settings in ["", ",eventrate=1000"] {
        let traced = trace(&format!("webproxy,nthreads=1{settings}"), 0, 38);
        assert_eq!(kinds(&traced), format!("{once} {once}"));
    }
}

#[test]
fn one_file_at_random_is_opened_once_and_used_in_whole_blocks() {
    for (name, kind) in [("randomread", OpKind::Read), ("randomwrite", OpKind::Write)] {
        let traced = trace(&format!("{name},filesize=1m,workingset=64k"), 0, 101);
        assert_eq!(kinds(&traced), format!("open {kind}*100"));
        for op in &traced[1..] {
            assert_eq!((op.offset % 8192, op.len), (0, 8192));
            assert!(op.offset < 65_536);
        }
    }
}

#[test]
fn oltp_reads_write_the_log_and_batches_of_tables() {
    // Ten tables are opened one by one, as their turn comes.
    let opening = ["open read"; 9].join(" ");
    let reads = trace("oltp", 2, 30);
    assert_eq!(kinds(&reads), format!("{opening} open read*11"));
    let batch = trace("oltp", 1, 320);
    let opening = ["open write"; 9].join(" ");
    assert_eq!(kinds(&batch), format!("{opening} open write*301"));
    let tables: Vec<&str> = batch[20..30].iter().map(|op| op.file.as_str()).collect();
    let again: Vec<&str> = batch[30..40].iter().map(|op| op.file.as_str()).collect();
    assert_eq!(tables, again);
    let log = trace("oltp", 0, 4);
    assert_eq!(kinds(&log), "open write*3");
    assert!(log[1..].iter().all(|op| op.len == 256 << 10));
}

#[test]
fn videoserver_streams_and_replaces() {
    let writer = trace("videoserver,filesize=2500k", 0, 8);
    let once = "delete create write_whole close";
    assert_eq!(kinds(&writer), format!("{once} {once}"));
    assert_eq!(writer[2].len, 2500 << 10, "not one byte more");
    let reader = trace("videoserver,filesize=1000k", 1, 7);
    assert_eq!(kinds(&reader), "open read*6");
    let lens: Vec<u64> = reader[1..].iter().map(|op| op.len >> 10).collect();
    assert_eq!(
        lens,
        [256, 256, 256, 232, 0, 256],
        "an empty read at the end"
    );
}

#[test]
fn mdtest_goes_over_its_share_phase_by_phase() {
    let traced = trace("mdtest-hard,n=5,threads=2", 0, 100);
    let phase = |phase| traced.iter().filter(move |op| op.phase == phase).cloned();
    let of = |number| kinds(&phase(number).collect::<Vec<_>>());
    assert_eq!(of(0), ["create write_whole close"; 5].join(" "));
    assert_eq!(of(1), "stat*5");
    assert_eq!(of(2), [READ; 5].join(" "));
    assert_eq!(of(3), "delete*5");
    assert!(
        phase(0)
            .filter(|op| op.kind == OpKind::WriteWhole)
            .all(|op| op.len == 3901)
    );
    let easy = trace("mdtest-easy,n=5,threads=2", 0, 100);
    assert!(
        easy.iter()
            .all(|op| op.file.starts_with("mdtest-easy/00000000/"))
    );
}

#[test]
fn small_files_of_bonnie_are_gone_over_once() {
    let Ok(plimsoll_core::workload::Workload::Series(mut series)) =
        plimsoll_classics::parse_on("bonnie++,s=0,n=1:2000:1000:2,r=0", None)
    else {
        panic!("bonnie++ is a series")
    };
    series.phases.retain(|phase| phase.name.starts_with("seq_"));
    let workload = plimsoll_core::workload::Workload::Series(series);
    let traced = trace_worker(&workload, (0, 0), Seed(1), 10_000).unwrap();
    let of = |phase, kind| {
        let found = traced
            .iter()
            .filter(|op| op.phase == phase && op.kind == kind);
        found.count()
    };
    for (phase, kind, expect) in [
        (0, OpKind::Create, 1024),
        (0, OpKind::WriteWhole, 1024),
        (0, OpKind::Close, 1024),
        (0, OpKind::SyncAll, 1),
        (1, OpKind::Stat, 1024),
        (1, OpKind::ReadWhole, 1024),
        (2, OpKind::Delete, 1024),
        (2, OpKind::SyncAll, 1),
    ] {
        assert_eq!(of(phase, kind), expect, "{phase} {kind}");
    }
    let sizes = traced.iter().filter(|op| op.kind == OpKind::WriteWhole);
    assert!(sizes.clone().all(|op| (1000..=2000).contains(&op.len)));
}
