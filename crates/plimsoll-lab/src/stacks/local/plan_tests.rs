// SPDX-License-Identifier: Apache-2.0
//! The plan of `local` as text.

use crate::stacks::snapshot;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("local"));
}
