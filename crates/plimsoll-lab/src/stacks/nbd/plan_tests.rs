// SPDX-License-Identifier: Apache-2.0
//! The plan of `nbd` as text, and settings that cannot be.

use crate::fake::FakeHost;
use crate::stacks::{StackConfig, StackUpOptions, manage, snapshot};

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("nbd"));
}

#[test]
fn the_plan_of_a_slow_and_bad_disk_is_the_committed_one() {
    let stack =
        "nbd(fs=xfs,read_delay=5ms,write_delay=2ms,rate=50MB,write_errors=0.5,fail_after=5s)";
    snapshot::assert_beside!("plan_slow", snapshot::text_of(stack));
}

#[test]
fn the_plan_of_a_disk_behind_usb_is_the_committed_one() {
    let stack = "nbd(rate=28M,burst=100ms,read_delay=8ms,write_delay=1ms,threads=1,read_ahead=4M)";
    snapshot::assert_beside!("plan_usb", snapshot::text_of(stack));
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_is_done() {
    for (stack, expect) in [
        ("nbd(read_delay=500us)", "whole milliseconds"),
        ("nbd(read_errors=101)", "from 0 to 100"),
        ("nbd(burst=100ms)", "none is set"),
        ("nbd(rate=28M,burst=1ms)", "from 10ms to 1h"),
        ("nbd(fail_after=0)", "from 1s to 1h"),
        ("nbd(fail_after=2h)", "from 1s to 1h"),
    ] {
        let choice = StackConfig::parse(stack).unwrap();
        let options = StackUpOptions::new("/base".into());
        let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    }
    let options = StackUpOptions {
        size_bytes: 256 << 20,
        ..StackUpOptions::new("/base".into())
    };
    let choice = StackConfig::parse("nbd(xfs)").unwrap();
    let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
    assert!(error.to_string().contains("300 MiB"), "{error}");
}
