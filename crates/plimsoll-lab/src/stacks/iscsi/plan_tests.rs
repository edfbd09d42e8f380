// SPDX-License-Identifier: Apache-2.0
//! The plan of `iscsi` as text.

use crate::stacks::snapshot;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::check("iscsi", "iscsi", "plan.txt");
}

#[test]
fn the_plan_with_a_secret_is_the_committed_one() {
    let stack = "iscsi(btrfs,chap,write_cache=off,sectors=4096,fail_after=5s)";
    snapshot::check(stack, "iscsi", "plan_chap.txt");
}
