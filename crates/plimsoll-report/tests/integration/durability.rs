// SPDX-License-Identifier: Apache-2.0
//! The page of durability, of a result of format 1.0.

use plimsoll_core::durability::{CutDisks, DurabilityFlaw, DurabilityResult};
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

#[test]
fn a_loss_that_the_last_result_did_not_have_is_told_as_new() {
    let (mut now, last) = (result(), result());
    let mut oldest = result();
    oldest.rows[1].losses = oldest.rows[0].losses.clone();
    let mut middle = oldest.clone();
    middle.version = "15.17".into();
    middle.follow(oldest.clone()).unwrap();
    now.follow(middle).unwrap();
    assert_eq!(now.earlier.len(), 2);
    let page = durability(&now);
    let told = &page.answer.text;
    let new = "; it lost nothing in 9 on 2026-11-29 10:52 (15.17)";
    assert!(told.contains(new), "{told}");
    let text = terminal(&page, 200, false, false);
    assert!(text.contains("result by result"), "{text}");
    // Other cuts are another question.
    let mut others = now.clone();
    others.cut_disks = CutDisks::One;
    let answer = durability(&others).answer.text;
    assert!(!answer.contains("it lost nothing"), "{answer}");
    // The last result decides, not the oldest.
    let mut lost = last.clone();
    lost.follow(oldest).unwrap();
    let mut now = last;
    now.follow(lost).unwrap();
    let told = durability(&now).answer.text;
    assert!(!told.contains("it lost nothing"), "{told}");
    let mut other = result();
    other.server = "redis".into();
    assert!(now.follow(other).unwrap_err().contains("it is of redis"));
}

#[test]
fn a_result_keeps_a_hundred_before_it() {
    let mut last = result();
    for year in 0..120 {
        let mut next = result();
        next.began_at = year.to_string();
        next.follow(last).unwrap();
        last = next;
    }
    assert_eq!(last.earlier.len(), 100);
    assert_eq!(last.earlier[99].began_at, "118");
    assert!(last.earlier.iter().all(|one| one.earlier.is_empty()));
}
