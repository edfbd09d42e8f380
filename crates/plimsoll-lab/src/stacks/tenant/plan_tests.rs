// SPDX-License-Identifier: Apache-2.0
//! The plan of `gluster+tenant` as text, and what each switch adds.

use crate::stacks::snapshot;
use plimsoll_core::plan::StackSelfTest;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!(
        "plan",
        snapshot::text_of("gluster(distribute,nodes=1)+tenant(uid_map)")
    );
}

#[test]
fn no_key_stands_in_a_plan() {
    let planned = snapshot::planned("gluster+tenant");
    let text = serde_json::to_string(&planned.plan).unwrap();
    assert!(text.contains("key.pem") && !text.contains("PRIVATE"));
}

#[test]
fn strangers_try_from_a_node_that_is_no_server() {
    for text in ["gluster+tenant", "gluster(tls=off)+tenant"] {
        let made = snapshot::planned(text).made;
        let mut tried = 0;
        for proof in &made.proofs {
            if let StackSelfTest::Refused { node, .. } = proof {
                tried += 1;
                assert!(made.servers.iter().all(|server| server.node != *node));
            }
        }
        assert!(tried >= 6, "{text}: {tried}");
    }
}
