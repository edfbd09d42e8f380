// SPDX-License-Identifier: Apache-2.0
//! Values worth trying: each is one that the recipe takes, and changes what is done.

use super::{ALL, StackConfig, StackUpOptions, manage, snapshot};
use crate::fake::FakeHost;
use plimsoll_core::settings::SettingValues;

#[test]
fn every_level_is_a_value_of_a_declared_setting_and_stands_there_once() {
    for stack in ALL {
        for levels in stack.levels() {
            let name = levels.setting;
            let mut seen = Vec::new();
            for level in levels.levels {
                let given = [(name.to_owned(), level.value.to_owned())];
                let of = format!("{}({name}={})", stack.name(), level.value);
                if let Err(error) = SettingValues::new(stack.name(), stack.settings(), &given) {
                    panic!("{of}: {error}");
                }
                assert!(!seen.contains(&level.value), "{of} is there twice");
                seen.push(level.value);
            }
            assert!(!seen.is_empty(), "{name} has no level");
            let safe = levels.levels.iter().any(|level| level.risk.is_empty());
            let alone = levels.levels.len() == 1 || safe || name == "sync";
            assert!(alone, "{name} of {} has no safe level", stack.name());
        }
    }
}

/// Fragments that must be in the plan of a stack at a level, and not in that of its default.
#[test]
fn levels_reach_the_programs_that_they_are_of() {
    for (stack, at, fragment) in [
        ("nbd", "cache=writeback", "cache=writeback"),
        ("nbd", "threads=64", "--threads 64"),
        ("nbd", "read_ahead=4MiB", "blockdev --setra 8192"),
        ("nbd", "atime=noatime", "nosuid,nodev,noatime"),
        ("nbd", "barrier=off", "nosuid,nodev,barrier=0"),
        (
            "nbd",
            "journal_data=writeback",
            "nosuid,nodev,data=writeback",
        ),
        ("nbd", "rate=28M,burst=100ms", "burstiness=0.1"),
        ("iscsi", "threads=4", "--nr_iothreads 4"),
        (
            "iscsi",
            "immediate_data=off",
            "--name ImmediateData --value No",
        ),
        (
            "iscsi",
            "max_burst=4MiB",
            "--name MaxBurstLength --value 4194304",
        ),
        ("raid1", "barrier=off", "nosuid,nodev,nobarrier"),
        ("raid1", "read_ahead=0", "blockdev --setra 0"),
        ("raid1", "transport=nbd,cache=writeback", "--filter=cache"),
        ("raid5", "transport=nbd,threads=4", "--threads 4"),
        ("raid10", "threads=64", "--nr_iothreads 64"),
        ("gluster", "io_threads=64", "performance.io-thread-count 64"),
        ("gluster", "flush_behind=on", "performance.flush-behind on"),
        ("gluster", "link_rate=40MB", "tbf rate 41943040bps"),
    ] {
        let text = |name: &str| {
            let steps = snapshot::planned(name).plan.steps;
            let lines: Vec<String> = steps.iter().map(|step| step.apply.to_string()).collect();
            lines.join("\n")
        };
        assert!(!text(stack).contains(fragment), "{stack} has {fragment}");
        let tuned = text(&format!("{stack}({at})"));
        assert!(tuned.contains(fragment), "{stack}({at}):\n{tuned}");
    }
}

#[test]
fn levels_that_do_not_go_together_are_refused_before_anything_is_done() {
    for (stack, expect) in [
        ("nbd(fs=xfs,barrier=off)", "no mount option"),
        ("nbd(fs=btrfs,journal_data=journal)", "is for fs=ext4"),
        ("nbd(threads=0)", "from 1 to 256"),
        ("nbd(read_ahead=1G)", "up to 64MiB"),
        ("nbd(read_ahead=513)", "whole KiB"),
        ("iscsi(max_burst=4k)", "from 64.0 KiB to 16.0 MiB"),
        ("iscsi(target=lio,atime=noatime)", "is for target=tgt"),
        ("raid1(cache=writeback)", "is for transport=nbd"),
        ("nfs(client=own,connections=4)", "is for client=kernel"),
        ("nfs(connections=17)", "from 1 to 16"),
        ("nfs(server=knfsd,attributes=0)", "is for server=ganesha"),
        ("gluster(link_rate=90k)", "at least 100000"),
        ("local+crypt(threads=257)", "from 0 to 256"),
    ] {
        let choice = StackConfig::parse(stack).unwrap();
        let options = StackUpOptions::new("/base".into());
        let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        assert!(error.to_string().contains(expect), "{stack}: {error}");
    }
}

/// A server that is killed can be started again, and its client finds it.
#[test]
fn a_disk_that_loses_its_cache_can_be_started_again() {
    let planned = snapshot::planned("nbd(cache=writeback)");
    let restore = &planned.made.servers[0].restore;
    let starts = restore.iter().filter(|(_, action)| {
        matches!(action, plimsoll_core::plan::PlanAction::Start { cmd, .. }
            if cmd.env.contains_key("TMPDIR") && cmd.program == "timeout")
    });
    assert_eq!(starts.count(), 1, "{restore:?}");
}
