// SPDX-License-Identifier: Apache-2.0
//! The page of durability, of a result of format 1.0.

use plimsoll_core::durability::{DurabilityFlaw, DurabilityResult};
use plimsoll_report::{durability, durability_issue, durability_junit, html, terminal};

fn result() -> DurabilityResult {
    serde_json::from_str(include_str!("../durability/1.0.json")).unwrap()
}

#[test]
fn the_first_screen_has_gain_and_loss_and_the_model_of_the_device() {
    let text = terminal(&durability(&result()), 100, false, false);
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("durability.txt", text);
    });
    let page = html(&durability(&result()));
    for part in [
        "synchronous_commit=off acknowledges",
        "with a volatile disk cache",
        "on /srv/plimsoll (virtio), without the logging disk",
    ] {
        assert!(page.contains(part), "{part} is not on the page");
    }
}

#[test]
fn a_promise_that_is_broken_comes_first() {
    let mut broken = result();
    broken.rows[1].may_lose.clear();
    assert!(broken.rows[1].breaks_its_promise());
    let answer = durability(&broken).answer.text;
    let begin = "synchronous_commit=off claims to be safe, and acknowledges 3.79 times";
    assert!(answer.starts_with(begin), "{answer}");
    let errors = |result: &DurabilityResult| {
        let cases = durability_junit(result);
        cases.matches("<error type=\"data\"").count()
    };
    assert_eq!(errors(&result()), 0, "a loss that is allowed");
    assert_eq!(durability_issue(&result()), None);
    let issue = durability_issue(&broken).unwrap();
    for part in [
        "Expected: no acknowledged write is lost.",
        "9 of 9 states lost acknowledged writes, in 3 of 3 loads (lost in 9)",
        "--set 'synchronous_commit=off'",
        "--for 2000ms",
    ] {
        assert!(issue.contains(part), "{part} is not in {issue}");
    }
    let lossy = broken.rows[1].losses.iter();
    let lossy = lossy.filter(|losses| losses.states_with_losses > 0);
    assert_eq!(errors(&broken), lossy.count());
    let mut late = result();
    assert!(!late.rows[1].breaks_its_promise());
    let flaws = &mut late.rows[1].losses[1].flaws;
    flaws.insert(DurabilityFlaw::OlderThanPromised, 2);
    assert!(late.rows[1].breaks_its_promise());
    let issue = durability_issue(&late).unwrap();
    assert!(issue.contains("nothing older than 600 ms"), "{issue}");
    let answer = durability(&late).answer.text;
    assert!(
        answer.contains("loses more than its manual says"),
        "{answer}"
    );
}

#[test]
fn a_run_that_judged_nothing_says_so() {
    let mut nothing = result();
    nothing.interrupted = true;
    for row in &mut nothing.rows {
        (row.gain, row.losses) = (None, Vec::new());
    }
    let answer = durability(&nothing).answer;
    assert!(
        answer.text.starts_with("Nothing was judged"),
        "{}",
        answer.text
    );
    assert_eq!(answer.doubts.len(), 1);
}
