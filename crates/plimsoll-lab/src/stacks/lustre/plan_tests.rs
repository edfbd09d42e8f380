// SPDX-License-Identifier: Apache-2.0
//! The plan of `lustre` as text, and what cannot be asked of it.

use crate::host::FakeHost;
use crate::stacks::{Choice, Options, manage, snapshot};

#[test]
fn the_plan_is_the_committed_one() {
    let stack = "lustre(mount=/lustre/scratch/,stripe_count=4,stripe_size=4MiB)";
    snapshot::check(stack, "lustre", "plan.txt");
}

#[test]
fn all_targets_are_asked_for_by_none() {
    let made = snapshot::planned("lustre(stripe_count=0)");
    assert!(made.made.description.contains("all storage targets"));
    assert!(format!("{:?}", made.plan).contains("\"-1\""));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    for (stack, why) in [
        ("lustre(mount=scratch)", "absolute"),
        ("lustre(stripe_count=2001)", "from 0 to 2000"),
        ("lustre(stripe_size=100KiB)", "multiple of 64KiB"),
        ("lustre(stripe_size=4GiB)", "it is from"),
    ] {
        let choice = Choice::parse(stack).unwrap();
        let options = Options::new("/var/lib/plimsoll".into());
        let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        assert!(error.to_string().contains(why), "{stack}: {error}");
    }
}
