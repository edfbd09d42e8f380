// SPDX-License-Identifier: Apache-2.0
//! The plan of `raid1` as text.

use crate::stacks::snapshot;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::check("raid1", "raid1", "plan.txt");
}
