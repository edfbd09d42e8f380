// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what a peer says before it has shown a token, and a true greeting in which bytes were
//! changed: no panic, no hang, and nothing longer than came.

use plimsoll_fleet::FleetHello;

const TRUE: &[u8] =
    br#"{"greeting":1,"token":"t0k3n","build":"0.1.0","rank":7,"host":"node7","dir":"/tmp/plimsoll-fleet-1"}"#;

/// Runs the target on one input.
pub fn greeting(input: &[u8]) {
    let _ = FleetHello::read(input);
    // Random bytes are seldom JSON: a byte for the place of a change, one for what is there then.
    let mut changed = TRUE.to_vec();
    for change in input.chunks_exact(2) {
        let at = usize::from(change[0]) % changed.len();
        changed[at] = change[1];
    }
    if let Some(hello) = FleetHello::read(&changed) {
        let again = serde_json::to_vec(&hello).expect("it came as JSON");
        assert!(FleetHello::read(&again) == Some(hello));
    }
}
