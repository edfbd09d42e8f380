// SPDX-License-Identifier: Apache-2.0
//! The plan of `local+crypt` as text, and what is to be proved of it.

use crate::stacks::snapshot;
use plimsoll_core::plan::StackSelfTest;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::check("local+crypt", "crypt", "plan.txt");
}

#[test]
fn the_bricks_below_must_not_show_anything() {
    let hidden = |text: &str| {
        let proofs = snapshot::planned(text).made.proofs;
        let is_hidden = |proof: &&StackSelfTest| matches!(proof, StackSelfTest::Hidden { .. });
        proofs.iter().filter(is_hidden).count()
    };
    assert_eq!(hidden("local+crypt"), 1);
    assert_eq!(hidden("gluster+crypt(xchacha)"), 4);
    // Names that are not encrypted are not hidden.
    assert_eq!(hidden("gluster+crypt(names=off)"), 0);
}

#[test]
fn a_second_client_would_see_what_is_encrypted() {
    let made = snapshot::planned("gluster+crypt").made;
    let is_second = |proof: &StackSelfTest| matches!(proof, StackSelfTest::SecondClient { .. });
    assert!(!made.proofs.iter().any(is_second));
}
