// SPDX-License-Identifier: Apache-2.0
//! A run folder is read back as it was written, and as far as it got when it was cut off.

use plimsoll_archive::{ArchiveError, RunFolderFollower, RunFolderWriter, is_being_written, open};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::{
    OpStats, RunEvent, RunListener, RunManifest, RunWarning, TrialId, TrialInterval, TrialResult,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use std::fs;
use std::path::Path;

fn manifest() -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: "0.1.0".into(),
        id: "t1".into(),
        began_at: "2026-01-01T00:00:00Z".into(),
        command: vec!["plimsoll".into(), "run".into()],
        seed: Seed(1),
        generator: plimsoll_core::rng::GENERATOR.into(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: "h".into(),
            kernel: "k".into(),
            cpu: "c".into(),
            cpus: 2,
            ram_bytes: 1,
            cpu_governor: None,
        },
        versions: [].into(),
        arms: Vec::new(),
        entries: Vec::new(),
        blocks: 1,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
        design: None,
        balanced: false,
    }
}

fn stats() -> OpStats {
    let mut stats = OpStats::default();
    for ns in [1_000, 2_000, 70_000] {
        let request = OpRequest {
            kind: OpKind::Read,
            file: 0,
            offset: 0,
            len: 4096,
            intended_at: Nanos(0),
        };
        stats.0.entry(OpKind::Read).or_default().record(&OpSample {
            request,
            submitted_at: Nanos(10),
            completed_at: Nanos(ns),
            result: Ok(4096),
        });
    }
    stats
}

fn trial() -> TrialId {
    TrialId {
        block: 0,
        place: 0,
        arm: "a".into(),
        workload: "w".into(),
    }
}

fn events() -> Vec<RunEvent> {
    let interval = TrialInterval {
        start: Nanos(0),
        length: Nanos::SECOND,
        stats: stats(),
    };
    let result = TrialResult {
        length: Nanos::SECOND,
        prepare: Nanos(5),
        stats: stats(),
        ..TrialResult::of(trial())
    };
    vec![
        RunEvent::TrialBegan(trial()),
        RunEvent::Interval { place: 0, interval },
        RunEvent::TrialEnded(Box::new(result)),
        RunEvent::Warning(RunWarning {
            about: "a".into(),
            text: "mind".into(),
        }),
        RunEvent::Finished {
            interrupted: false,
            comparisons: Vec::new(),
        },
    ]
}

fn written(folder: &Path, events: &[RunEvent]) {
    let mut writer = RunFolderWriter::create(folder, &manifest()).expect("an empty folder");
    events.iter().for_each(|e| writer.event(e));
    assert!(writer.take_failure().is_none());
}

#[test]
fn what_was_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &events());
    let results = open(folder.path()).unwrap();
    assert_eq!(results.manifest, manifest());
    assert_eq!(results.trials[0].stats, stats());
    assert_eq!(results.intervals[&0][0].response, stats().response());
    assert_eq!(results.warnings.len(), 1);
    assert!(results.complete);
}

#[test]
fn a_run_cut_at_any_byte_is_read_up_to_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &events());
    let path = folder.path().join("events.jsonl");
    let whole = fs::read(&path).unwrap();
    // Without its newline a line is there still.
    let whole_lines = |n: usize| whole[..=n].iter().filter(|b| **b == b'\n').count();
    for cut in (0..whole.len() - 1).step_by(7) {
        fs::write(&path, &whole[..cut]).unwrap();
        let results = open(folder.path()).unwrap();
        assert_eq!(
            results.trials.len(),
            usize::from(whole_lines(cut) >= 3),
            "cut at {cut}"
        );
        assert!(!results.complete);
    }
}

#[test]
fn a_run_that_was_cut_off_goes_on_behind_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let [began, second, ended, mind, finished] = events().try_into().unwrap();
    written(folder.path(), &[began.clone(), second.clone()]);
    // A torn line, longer than what is looked at in one piece.
    let path = folder.path().join("events.jsonl");
    let torn = [fs::read(&path).unwrap(), vec![b'{'; 200_000]].concat();
    fs::write(&path, torn).unwrap();
    let mut writer = RunFolderWriter::resume(folder.path()).expect("a run folder");
    for event in [began, second, ended, mind, finished] {
        writer.event(&event);
    }
    assert!(writer.take_failure().is_none());
    let results = open(folder.path()).unwrap();
    assert_eq!((results.trials.len(), results.warnings.len()), (1, 1));
    assert!(results.complete);
    assert!(RunFolderWriter::resume(tempfile::tempdir().unwrap().path()).is_err());
}

/// The events file of a folder, changed.
fn change(folder: &Path, change: impl Fn(&str) -> String) {
    let path = folder.join("events.jsonl");
    let text = fs::read_to_string(&path).expect("it was written");
    fs::write(&path, change(&text)).expect("it can be written again");
}

#[test]
fn a_damaged_line_is_left_out_with_its_number_and_all_others_stand() {
    let folder = tempfile::tempdir().unwrap();
    let mut told = events();
    let ended = told[2].clone();
    told.insert(4, ended);
    written(folder.path(), &told);
    // A changed digit of the first result is still valid JSON: only the checksum shows it.
    change(folder.path(), |text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[2] = lines[2].replacen("\"bytes\":12288", "\"bytes\":12289", 1);
        lines.join("\n") + "\n"
    });
    let results = open(folder.path()).unwrap();
    assert_eq!(results.trials.len(), 1);
    assert_eq!(results.trials[0].stats, stats());
    assert!(results.complete);
    let warning = &results.warnings[0].text;
    assert!(
        warning.contains("line 3") && warning.contains("checksum"),
        "{warning}"
    );
    assert_eq!(results.warnings.len(), 2);
}

#[test]
fn a_line_that_is_twice_there_or_missing_or_elsewhere_is_told_and_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trial = |place: u32| {
        let id = TrialId { place, ..trial() };
        RunEvent::TrialEnded(Box::new(TrialResult::of(id)))
    };
    let told: Vec<RunEvent> = (0..5).map(trial).collect();
    written(folder.path(), &told);
    let path = folder.path().join("events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Another run of the same plan, whose results are the same.
    let other = tempfile::tempdir().unwrap();
    let mut manifest = manifest();
    manifest.id = "another".into();
    let mut writer = RunFolderWriter::create(other.path(), &manifest).unwrap();
    told.iter().for_each(|event| writer.event(event));
    let foreign = fs::read_to_string(other.path().join("events.jsonl")).unwrap();
    let foreign: Vec<&str> = foreign.lines().collect();
    let cases: [(&str, Vec<&str>, &[u32]); 6] = [
        ("as it was", lines.clone(), &[0, 1, 2, 3, 4]),
        (
            "twice",
            [&lines[..2], &lines[1..]].concat(),
            &[0, 1, 2, 3, 4],
        ),
        (
            "the whole twice",
            [&lines[..], &lines[..]].concat(),
            &[0, 1, 2, 3, 4],
        ),
        ("missing", [&lines[..1], &lines[2..]].concat(), &[0, 3, 4]),
        (
            "swapped",
            vec![lines[0], lines[2], lines[1], lines[3], lines[4]],
            &[0, 4],
        ),
        (
            "foreign",
            [&lines[..2], &foreign[2..3], &lines[2..]].concat(),
            &[0, 1, 3, 4],
        ),
    ];
    for (what, lines, places) in cases {
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let found = open(folder.path()).unwrap();
        let counted: Vec<u32> = found.trials.iter().map(|one| one.trial.place).collect();
        // None counts twice, and no line that is out of its place does.
        let is_part = counted.iter().all(|place| places.contains(place));
        assert!(is_part && counted.is_sorted(), "{what}: {counted:?}");
        let is_told = !found.warnings.is_empty();
        assert_eq!(is_told, what != "as it was", "{what}: {:?}", found.warnings);
        assert!(counted.len() >= 2, "{what}: {counted:?}");
    }
}

#[test]
fn a_link_in_a_folder_of_somebody_else_leads_nowhere_and_a_pipe_is_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    for name in ["events.jsonl", "manifest.json"] {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &events());
        let path = folder.path().join(name);
        let refused = |what: &str| {
            for found in [
                open(folder.path()).map(drop),
                RunFolderWriter::resume(folder.path()).map(drop),
                RunFolderFollower::open(folder.path()).map(drop),
            ] {
                let told = found.unwrap_err().to_string();
                assert!(
                    told.contains("not a regular file"),
                    "{name}, {what}: {told}"
                );
            }
        };
        let text = fs::read(&path).unwrap();
        fs::write(&victim, [&text[..], b"no end"].concat()).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        refused("a link");
        assert_eq!(fs::read(&victim).unwrap().len(), text.len() + 6, "{name}");
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        refused("a pipe");
    }
}

#[test]
fn no_flipped_bit_changes_a_number_silently() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &events());
    let whole = open(folder.path()).unwrap();
    for name in ["events.jsonl", "manifest.json"] {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for bit in (0..bytes.len() * 8).step_by(11) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).unwrap();
            let Ok(found) = open(folder.path()) else {
                continue;
            };
            assert_eq!(found.manifest, whole.manifest, "{name}, bit {bit}");
            let is_told = |warning: &RunWarning| warning.text.contains("damaged");
            let told = found.warnings.iter().any(is_told) || !found.complete;
            let same = found.trials == whole.trials && found.intervals == whole.intervals;
            assert!(told || same, "{name}, bit {bit}");
        }
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn folders_without_checksums_are_read_as_before() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &events());
    let bare = |line: &str| {
        let (_, rest) = line.split_at("{'crc32c':'01234567',".len());
        format!("{{{rest}\n")
    };
    change(folder.path(), |text| text.lines().map(bare).collect());
    let read = open(folder.path()).unwrap();
    assert!(
        read.trials.is_empty(),
        "a line of this format has a checksum"
    );
    let path = folder.path().join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let text = bare(&text).replacen(&format!("\"{}\"", FormatVersion::RUN), "\"2.1\"", 1);
    fs::write(&path, text).unwrap();
    let results = open(folder.path()).unwrap();
    assert_eq!(results.trials.len(), 1);
    assert!(results.complete && results.warnings.len() == 1);
}

#[test]
fn other_folders_newer_formats_and_occupied_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(open(folder.path()), Err(ArchiveError::NotARun(_))));
    written(folder.path(), &[]);
    assert!(matches!(
        RunFolderWriter::create(folder.path(), &manifest()),
        Err(ArchiveError::Occupied(_))
    ));
    let path = folder.path().join("manifest.json");
    let newer = fs::read_to_string(&path).unwrap().replacen(
        &format!("\"{}\"", FormatVersion::RUN),
        "\"1.7\"",
        1,
    );
    fs::write(&path, newer).unwrap();
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("1.7") && error.contains("newer plimsoll"),
        "{error}"
    );
    fs::write(&path, "{").unwrap();
    assert!(matches!(
        open(folder.path()),
        Err(ArchiveError::Damaged { .. })
    ));
}

#[test]
fn who_follows_a_run_gets_every_event_once_and_waits_for_the_end_of_a_line() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let mut writer = RunFolderWriter::create(&folder, &manifest()).unwrap();
    let mut follower = RunFolderFollower::open(&folder).unwrap();
    assert_eq!(follower.look(1 << 20).unwrap(), None);
    let all = events();
    let (first, rest) = all.split_at(2);
    first.iter().for_each(|event| writer.event(event));
    assert_eq!(follower.look(1 << 20).unwrap().unwrap(), first);
    assert!(is_being_written(&folder).unwrap());
    let other = RunFolderWriter::resume(&folder).unwrap_err().to_string();
    assert!(other.contains("another program is writing it"), "{other}");
    rest.iter().for_each(|event| writer.event(event));
    drop(writer);
    assert!(!is_being_written(&folder).unwrap());
    // In pieces of seven bytes, which end in the middle of lines.
    let mut seen = Vec::new();
    while let Some(some) = follower.look(7).unwrap() {
        seen.extend(some);
    }
    assert_eq!(seen, rest);
    assert_eq!((follower.damaged(), follower.share_read()), (0, 1.0));
    // A line that was cut off goes when the run is resumed; what follows it is seen.
    let path = folder.join("events.jsonl");
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"crc32c\":\"0000");
    fs::write(&path, &torn).unwrap();
    assert_eq!(follower.look(1 << 20).unwrap(), None);
    let mut writer = RunFolderWriter::resume(&folder).unwrap();
    let warning = RunEvent::Warning(RunWarning {
        about: String::new(),
        text: "resumed".into(),
    });
    writer.event(&warning);
    assert_eq!(follower.look(1 << 20).unwrap(), Some(vec![warning]));
    assert_eq!(follower.damaged(), 0);
}

#[test]
fn a_run_that_was_killed_before_it_began_can_be_begun_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("r");
    fs::create_dir(&folder).unwrap();
    // Half of a manifest under the name that it has until it is whole, and no event.
    fs::write(folder.join(".manifest.json.77-0.tmp"), "{\"crc").unwrap();
    fs::write(folder.join("events.jsonl"), "").unwrap();
    let writer = RunFolderWriter::create(&folder, &manifest()).unwrap();
    let again = RunFolderWriter::create(&folder, &manifest());
    assert!(matches!(again, Err(ArchiveError::Occupied(_))), "{again:?}");
    drop(writer);
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["events.jsonl", "manifest.json"]);
    // Events without a manifest may belong to another program, so they are not overwritten.
    let other = place.path().join("o");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("events.jsonl"), "x").unwrap();
    let refused = RunFolderWriter::create(&other, &manifest());
    assert!(
        matches!(refused, Err(ArchiveError::Occupied(_))),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(other.join("events.jsonl")).unwrap(), "x");
}

#[test]
fn what_no_run_plans_is_left_out_with_its_number_or_refused() {
    let named = |block, place| TrialId {
        block,
        place,
        ..trial()
    };
    let ended = |trial| RunEvent::TrialEnded(Box::new(TrialResult::of(trial)));
    let mut huge = TrialResult::of(trial());
    huge.generator.user_cpu_ns = u64::MAX;
    for (event, words) in [
        (
            RunEvent::TrialBegan(named(1, 0)),
            "block 1 is none of the 1 that are planned",
        ),
        (ended(named(u32::MAX, 0)), "block 4294967295 is none"),
        (
            ended(named(0, 1000)),
            "trial 1000 is none that can be planned",
        ),
        (
            RunEvent::TrialEnded(Box::new(huge)),
            "18446744073709551615 at \"user_cpu_ns\"",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        written(&path, &[ended(trial()), event, ended(trial())]);
        let results = open(&path).unwrap();
        let told = &results.warnings[0].text;
        assert!(
            told.contains("events.jsonl") && told.contains("line 2"),
            "{told}"
        );
        assert!(told.contains(words), "{told}");
        assert_eq!((results.trials.len(), results.warnings.len()), (2, 1));
        let mut follower = RunFolderFollower::open(&path).unwrap();
        assert_eq!(follower.look(1 << 20).unwrap().unwrap().len(), 2);
        assert_eq!((follower.damaged(), follower.share_read()), (1, 1.0));
    }
    type Change = fn(&mut RunManifest);
    let refused: [(Change, &str); 4] = [
        (|of| of.blocks = 1001, "blocks is 1001"),
        (|of| of.policy.margin = -1.0, "margin is -1"),
        (|of| of.policy.confidence = 1.0, "confidence is 1"),
        (|of| of.machine.ram_bytes = u64::MAX, "\"ram_bytes\""),
    ];
    for (change, words) in refused {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let mut manifest = manifest();
        change(&mut manifest);
        RunFolderWriter::create(&path, &manifest).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(
            error.contains("manifest.json") && error.contains(words),
            "{error}"
        );
        assert!(RunFolderFollower::open(&path).is_err());
        assert!(plimsoll_archive::manifest(&path).is_err());
    }
}

#[test]
fn a_plan_may_promise_more_than_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let manifest = RunManifest {
        blocks: BlockDesign::BLOCKS_MAX,
        seed: Seed(u64::MAX),
        ..manifest()
    };
    let mut writer = RunFolderWriter::create(&path, &manifest).unwrap();
    events().iter().for_each(|event| writer.event(event));
    let mut follower = RunFolderFollower::open(&path).unwrap();
    assert_eq!(follower.look(1 << 20).unwrap().unwrap(), events());
    assert_eq!((follower.damaged(), follower.share_read()), (0, 1.0));
    assert_eq!(open(&path).unwrap().trials.len(), 1);
}
