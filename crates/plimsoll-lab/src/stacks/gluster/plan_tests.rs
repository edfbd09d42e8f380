// SPDX-License-Identifier: Apache-2.0
//! The plan of `gluster` as text, its ladder, and what cannot be asked of it.

use crate::fake::FakeHost;
use crate::stacks::{StackConfig, StackPlacement, StackUpOptions, manage, snapshot};
use plimsoll_core::plan::StackSelfTest;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("gluster"));
}

#[test]
fn the_ladder_leads_to_the_stack() {
    let check = |text: &str, expect: &[(&str, &str)]| {
        let choice = StackConfig::parse(text).unwrap();
        let rungs = choice.stack.rungs(&choice);
        let found: Vec<_> = rungs.iter().map(|r| (&*r.adds, &*r.stack)).collect();
        assert_eq!(found, expect, "{text}");
        for rung in &rungs {
            StackConfig::parse(&rung.stack).unwrap();
        }
    };
    let export = "gluster(volume=distribute,nodes=1)";
    check(
        "gluster(disperse)",
        &[
            ("disk", "local"),
            ("export", export),
            ("transport", "gluster(volume=distribute,nodes=3)"),
            ("redundancy", "gluster(volume=disperse)"),
        ],
    );
    check(
        "gluster(distribute,io_cache)",
        &[
            ("disk", "local"),
            ("export", "gluster(io_cache=on,volume=distribute,nodes=1)"),
            ("transport", "gluster(volume=distribute,io_cache=on)"),
        ],
    );
    check(
        "gluster(distribute,nodes=1)",
        &[("disk", "local"), ("export", export)],
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let refused = |text: &str, place: Option<StackPlacement>| {
        let choice = StackConfig::parse(text).unwrap();
        let options = StackUpOptions {
            place,
            ..StackUpOptions::new("/var/lib/plimsoll".into())
        };
        let error = manage::plan(&choice, &options, &mut FakeHost::new()).unwrap_err();
        error.to_string()
    };
    let text = refused("gluster(disperse,nodes=4)", None);
    assert!(text.contains("multiple"), "{text}");
    let text = refused("gluster(nodes=0)", None);
    assert!(text.contains("from 1 to 12"), "{text}");
    let choice = StackConfig::parse("gluster").unwrap();
    let deep = StackUpOptions::new(format!("/{}", "d".repeat(80)).into());
    let error = manage::plan(&choice, &deep, &mut FakeHost::new()).unwrap_err();
    assert!(
        error.to_string().contains("too long for sockets"),
        "{error}"
    );
    let text = refused("gluster", Some(StackPlacement::Here));
    assert!(text.contains("--on netns"), "{text}");
}

#[test]
fn what_redundancy_promises_is_to_be_proved() {
    for (text, survives) in [("gluster", 3), ("gluster(distribute)", 0)] {
        let proofs = snapshot::planned(text).made.proofs;
        let count = proofs
            .iter()
            .filter(|p| matches!(p, StackSelfTest::Survives { .. }));
        assert_eq!(count.count(), survives, "{text}");
        assert!(
            proofs
                .iter()
                .any(|p| matches!(p, StackSelfTest::SecondClient { .. }))
        );
    }
}
