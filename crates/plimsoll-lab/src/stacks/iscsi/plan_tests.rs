// SPDX-License-Identifier: Apache-2.0
//! The plan of `iscsi` as text.

use crate::stacks::snapshot;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("iscsi"));
}

#[test]
fn the_plan_with_a_secret_is_the_committed_one() {
    let stack = "iscsi(btrfs,chap,write_cache=off,sectors=4096,fail_after=5s)";
    snapshot::assert_beside!("plan_chap", snapshot::text_of(stack));
}

#[test]
fn the_plans_of_the_kernels_target_and_its_client_are_the_committed_ones() {
    let text = snapshot::text_of_server_and_client("iscsi(target=lio,fs=xfs)");
    snapshot::assert_beside!("plan_lio", text);
}
