// SPDX-License-Identifier: Apache-2.0
//! The plans of `ceph` as text, its changes on a pretended machine, and what cannot be asked of it.

use crate::fake::FakeHost;
use crate::stacks::{
    StackChange, StackConfig, StackPlacement, StackUpOptions, change, manage, snapshot, up,
};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::journal::StateDir;

#[test]
fn the_plans_are_the_committed_ones() {
    snapshot::assert_beside!("plan", snapshot::text_of("ceph"));
    snapshot::assert_beside!(
        "plan_rbd",
        snapshot::text_of("ceph(rbd,replicas=2,osds=2,fs=xfs)")
    );
}

#[test]
fn the_settings_of_the_daemons_follow_what_was_chosen() {
    let planned = snapshot::planned("ceph(replicas=2,cache=64MiB,client_cache=0)");
    let text = format!("{:?}", planned.plan);
    for line in [
        "osd_pool_default_size = 2",
        "osd_pool_default_min_size = 1",
        "bluestore_cache_size = 67108864",
        "bluestore_block_size = 2147483648",
        "client_oc = false",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn a_daemon_goes_and_comes_back_and_all_is_undone() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    let choice = StackConfig::parse("ceph").unwrap();
    up(
        &choice,
        &StackUpOptions::new("/base".into()),
        &state,
        &mut host,
    )
    .unwrap();
    let mut change = |verb| change("ceph", verb, None, &state, &mut host, &mut |_| {});
    let text = change(StackChange::Rebuild).unwrap_err().to_string();
    assert!(text.contains("no node was stopped"), "{text}");
    change(StackChange::Degrade).unwrap();
    let text = change(StackChange::Degrade).unwrap_err().to_string();
    assert!(text.contains("start it first"), "{text}");
    change(StackChange::Rebuild).unwrap();
    change(StackChange::Grow).unwrap();
    change(StackChange::Degrade).unwrap();
    let text = change(StackChange::Grow).unwrap_err().to_string();
    assert!(text.contains("osd.3 is stopped"), "{text}");
    let text = change(StackChange::Scrub).unwrap_err().to_string();
    assert!(text.contains("cannot scrub"), "{text}");
    for razed in raze_all(&state, &mut host).unwrap() {
        assert!(razed.result.unwrap().is_clean());
    }
    assert!(host.state.is_empty(), "{:?}", host.state);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let refused = |text: &str, place: Option<StackPlacement>, size_bytes: u64| {
        let choice = StackConfig::parse(text).unwrap();
        let options = StackUpOptions {
            place,
            size_bytes,
            ..StackUpOptions::new("/var/lib/plimsoll".into())
        };
        let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        error.to_string()
    };
    for (stack, place, size_bytes, why) in [
        ("ceph", Some(StackPlacement::Here), 2 << 30, "--on netns"),
        ("ceph", None, 512 << 20, "--size 1GiB"),
        ("ceph(osds=2)", None, 2 << 30, "from 3 to 12"),
        ("ceph(pg_num=0)", None, 2 << 30, "from 1 to 64"),
        ("ceph(cache=1)", None, 2 << 30, "from 16.0 MiB"),
        ("ceph", None, 1 << 41, "choose a smaller size"),
    ] {
        let text = refused(stack, place, size_bytes);
        assert!(text.contains(why), "{stack}: {text}");
    }
}
