// SPDX-License-Identifier: Apache-2.0
//! The plans of md as text, and their changes on a fake machine with md.

use crate::fake::FakeHost;
use crate::stacks::{StackChange, StackConfig, StackUpOptions, change, manage, snapshot, up};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::journal::{JournalContents, StateDir};
use std::fmt::Write as _;

fn with_md() -> FakeHost {
    let mut host = FakeHost::new();
    host.has_md = true;
    host
}

/// The plan of a stack on a machine with md.
fn planned(text: &str) -> Result<String, String> {
    let choice = StackConfig::parse(text).unwrap();
    let options = StackUpOptions::new("/var/lib/plimsoll/stacks".into());
    let planned = manage::plan(&choice, &options, &mut with_md());
    let planned = planned.map_err(|error| error.to_string())?;
    let text = format!(
        "{}\n{}",
        planned.made.description,
        snapshot::steps(&planned.plan)
    );
    Ok(text.replace(&planned.id, "example-1"))
}

#[test]
fn the_plans_are_the_committed_ones() {
    snapshot::assert_beside!("plan_md_raid1", planned("raid1").unwrap());
    let stack = "raid5(nbd,md,consistency=journal,fs=xfs,chunk=64KiB)";
    snapshot::assert_beside!("plan_md_raid5", planned(stack).unwrap());
    snapshot::assert_beside!("plan_md_raid10", planned("raid10(md)").unwrap());
}

#[test]
fn each_policy_has_its_words_and_its_levels() {
    for (stack, expect) in [
        (
            "raid5(md,consistency=ppl)",
            "--consistency-policy=ppl --bitmap=none",
        ),
        (
            "raid1(md,consistency=resync)",
            "--consistency-policy=resync --bitmap=none",
        ),
        ("raid10(md)", "--chunk=512K --bitmap=internal"),
    ] {
        let text = planned(stack).unwrap();
        assert!(text.contains(expect), "{stack}: {text}");
    }
    for (stack, why) in [
        ("raid1(md,consistency=ppl)", "no parity"),
        ("raid10(md,consistency=journal)", "no parity"),
        ("raid5(md,chunk=5000)", "power of two"),
        ("raid5(md,chunk=2KiB)", "power of two"),
    ] {
        let error = planned(stack).unwrap_err();
        assert!(error.contains(why), "{stack}: {error}");
    }
}

#[test]
fn without_md_it_is_btrfs_unless_md_was_asked_for() {
    let options = StackUpOptions::new("/var/lib/plimsoll/stacks".into());
    let plan = |text: &str| {
        let choice = StackConfig::parse(text).unwrap();
        manage::plan(&choice, &options, &mut FakeHost::new())
    };
    assert_eq!(plan("raid1").unwrap().made.file_system, "btrfs");
    let error = plan("raid1(md)").unwrap_err().to_string();
    assert!(error.contains("this kernel has no md"), "{error}");
    assert!(planned("raid1(btrfs)").unwrap().starts_with("btrfs raid1"));
}

#[test]
fn changes_follow_each_other_and_all_is_undone() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = with_md();
    let choice = StackConfig::parse("raid1").unwrap();
    up(
        &choice,
        &StackUpOptions::new("/base".into()),
        &state,
        &mut host,
    )
    .unwrap();
    let record = || JournalContents::read(&state.journal_files().unwrap()[0]).unwrap();
    let mut text = String::new();
    for verb in [
        StackChange::Scrub,
        StackChange::Degrade,
        StackChange::Rebuild,
    ] {
        writeln!(text, "\n{verb}").unwrap();
        let from = record().entries.len();
        change("raid1", verb, None, &state, &mut host, &mut |_| {}).unwrap();
        for entry in &record().entries[from..] {
            writeln!(text, "  {}\n    {}", entry.step.why, entry.step.apply).unwrap();
        }
    }
    for verb in [
        StackChange::Grow,
        StackChange::Snapshot,
        StackChange::Rebuild,
    ] {
        change("raid1", verb, None, &state, &mut host, &mut |_| {}).unwrap_err();
    }
    let text = text.replace(&record().header.id, "example-1");
    snapshot::assert_beside!("changes_md", text);
    for razed in raze_all(&state, &mut host).unwrap() {
        assert!(razed.result.unwrap().is_clean());
    }
    assert!(host.state.is_empty(), "{:?}", host.state);
}
