// SPDX-License-Identifier: Apache-2.0
//! The classic programs by name, small, from their words to their texts: each is played on a real
//! directory, does exactly the operations it stands for, and tells about them.

use std::sync::atomic::AtomicBool;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::{EngineChoice, prepare};

static GO: AtomicBool = AtomicBool::new(false);

/// Plays the words in a fresh directory: the phases, and the text where there is one.
fn play(words: &str) -> (Vec<PhaseResult>, Option<String>) {
    let directory = tempfile::tempdir().unwrap();
    let workload = plimsoll_classics::parse_on(words, None).unwrap();
    let place = OpenTarget::in_directory(directory.path(), 0).unwrap();
    let mut prepared = prepare(place, &workload, None, Seed(1), EngineChoice::Auto, &GO).unwrap();
    let options = RunOptions {
        length: Nanos::SECOND,
        ..RunOptions::default()
    };
    let outcome = prepared.run(&options, &GO, &mut |_| {}).unwrap();
    prepared.remove().unwrap();
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "{words}"
    );
    assert_eq!(
        (outcome.stats.errors(), &outcome.failed),
        (0, &None),
        "{words}"
    );
    let Workload::Series(series) = workload else {
        panic!("{words}: a series");
    };
    let text = plimsoll_classics::text(&series.classic.unwrap(), &outcome.phases);
    (outcome.phases, text)
}

/// Plays the words and holds each phase against the operations it should have done; kinds that
/// are not named are free.
fn check(words: &str, expect: &[(&str, &[(OpKind, u64)])]) {
    let (phases, text) = play(words);
    let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
    let expected: Vec<&str> = expect.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected, "{words}");
    for (phase, (name, kinds)) in phases.iter().zip(expect) {
        for (kind, ops) in *kinds {
            let found = phase.stats.0.get(kind).map_or(0, |stats| stats.ops());
            assert_eq!(found, *ops, "{words}: {kind} of {name}");
        }
    }
    assert!(text.is_some_and(|text| text.lines().count() > 1), "{words}");
}

/// Without the byte phases: a million operations each at the least.
#[test]
fn bonnie_does_its_phases() {
    let (fsync, close, sync) = ((OpKind::Fsync, 1), (OpKind::Close, 1), (OpKind::SyncAll, 1));
    check(
        "bonnie++ -s 1:64k:40:2 -f 0 -n 1:600:600:2:512",
        &[
            ("put_block", &[(OpKind::Write, 16), fsync, close]),
            (
                "rewrite",
                &[(OpKind::Read, 16), (OpKind::Write, 16), fsync, close],
            ),
            (
                "get_block",
                &[(OpKind::Read, 16), (OpKind::Write, 0), fsync, close],
            ),
            (
                "seeks",
                &[(OpKind::Read, 40), (OpKind::Fsync, 2), (OpKind::Close, 2)],
            ),
            (
                "seq_create",
                &[(OpKind::Create, 1024), (OpKind::WriteWhole, 1024), sync],
            ),
            (
                "seq_stat",
                &[(OpKind::Stat, 1024), (OpKind::ReadWhole, 1024)],
            ),
            ("seq_del", &[(OpKind::Delete, 1024), sync]),
            (
                "ran_create",
                &[(OpKind::Create, 1024), (OpKind::WriteWhole, 1024), sync],
            ),
            (
                "ran_stat",
                &[(OpKind::Stat, 1024), (OpKind::ReadWhole, 1024)],
            ),
            ("ran_del", &[(OpKind::Delete, 1024), sync]),
        ],
    );
}

#[test]
fn iozone_does_every_record_of_every_child() {
    let writes: &[(OpKind, u64)] = &[(OpKind::Write, 48), (OpKind::Read, 0), (OpKind::Fsync, 3)];
    let reads: &[(OpKind, u64)] = &[(OpKind::Read, 48), (OpKind::Write, 0), (OpKind::Fsync, 3)];
    check(
        "iozone -i 0 1 2 -t 3 -s 64 -r 4 -x -e",
        &[
            ("write", writes),
            ("rewrite", writes),
            ("read", reads),
            ("reread", reads),
            ("random_read", reads),
            ("random_write", writes),
        ],
    );
    // Files that no test wrote are there all the same.
    let (phases, _) = play("iozone,i=1,+n,s=64,r=4,x");
    assert_eq!(phases[0].stats.bytes(), 64 << 10);
}

#[test]
fn a_survey_fills_its_cells() {
    check(
        "sgpdd-survey,size=1,rszlo=64,rszhi=64,crglo=2,crghi=2,thrlo=4,thrhi=4",
        &[
            (
                "rsz=64K crg=2 thr=4 write",
                &[(OpKind::Write, 16), (OpKind::Read, 0)],
            ),
            (
                "rsz=64K crg=2 thr=4 read",
                &[(OpKind::Read, 16), (OpKind::Write, 0)],
            ),
        ],
    );
}

#[test]
fn ior_and_sysbench_do_what_was_asked() {
    for (words, transfers) in [
        ("ior-easy,t=4k,b=16k,s=2,workers=3", 24),
        ("ior-easy,t=4k,b=16k,workers=3,C=off,z", 12),
        ("ior-easy,t=4k,b=16k,workers=3,F=off", 12),
        ("ior-hard,s=10,workers=3", 30),
    ] {
        let write = [
            (OpKind::Write, transfers),
            (OpKind::Fsync, 3),
            (OpKind::Close, 3),
        ];
        let read = [
            (OpKind::Read, transfers),
            (OpKind::Fsync, 0),
            (OpKind::Close, 3),
        ];
        check(words, &[("write", &write), ("read", &read)]);
    }
    let small = "file-total-size=1m,threads=2,events=50,time=0";
    for (mode, kind, syncs) in [
        ("seqwr", OpKind::Write, 2),
        ("seqrewr", OpKind::Write, 2),
        ("seqrd", OpKind::Read, 0),
        ("rndrd", OpKind::Read, 0),
        ("rndwr", OpKind::Write, 2),
    ] {
        let words = format!("sysbench-fileio,file-test-mode={mode},{small}");
        check(&words, &[(mode, &[(kind, 50), (OpKind::Fsync, syncs)])]);
    }
}
