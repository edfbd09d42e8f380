// SPDX-License-Identifier: Apache-2.0
//! Blocks that are designed by a pilot, and how they end.

use crate::support::{Lab, program, skipped, text, timed};

/// Two devices that are not alike, so that their ratio scatters; few operations, in virtual time.
const SLOW: &str = "sim(queue,servers=1,service=11ms,law=exponential)";
const FAST: &str = "sim(queue,servers=1,service=5ms,law=exponential)";
const DISK: &str = "sim(disk)";

fn compare<'a>(targets: [&'a str; 2], folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let [a, b] = targets;
    let start = ["compare", a, b, "-w", "randread,size=64m,depth=1"];
    let end = ["--no-self-test", "--seed", "5", "-o", folder];
    [&start[..], &end, more].concat()
}

fn manifest_of(lab: &Lab, folder: &str) -> serde_json::Value {
    let page = lab.run(&["report", folder, "--json"]);
    assert_eq!(page.status.code(), Some(0), "{}", text(&page.stderr));
    serde_json::from_slice(&page.stdout).expect("--json prints JSON")
}

/// The events of one kind in a run folder.
fn events(lab: &Lab, folder: &str, kind: &str) -> Vec<serde_json::Value> {
    let lines = std::fs::read_to_string(lab.path(folder).join("events.jsonl"))
        .expect("a run folder has events");
    let values = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("events are JSON"));
    values
        .filter_map(|mut event| event.get_mut(kind).map(serde_json::Value::take))
        .collect()
}

#[test]
fn an_effect_is_designed_by_a_pilot_and_ends_with_a_reason() {
    let lab = Lab::new();
    let output = lab.run(&compare([SLOW, DISK], "r", &["--effect", "8%"]));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    // The forecast is printed after the pilot and before the next block.
    let at = |what: &str| {
        told.find(what)
            .unwrap_or_else(|| panic!("'{what}' in {told}"))
    };
    assert!(at("pilot: 9 trials in 3 blocks") < at("design: "), "{told}");
    assert!(
        at("block 3 ·") < at("should find differences from"),
        "{told}"
    );
    assert!(
        at("should find differences from") < at("block 4 ·"),
        "{told}"
    );
    assert!(at("ended after ") > at("block 9 ·"), "{told}");
    let design = &events(&lab, "r", "designed")[0];
    let ended = &events(&lab, "r", "blocks_ended")[0];
    assert!(["precision_reached", "limit_reached"].contains(&ended["cause"].as_str().unwrap()));
    let trials = events(&lab, "r", "trial_ended");
    let blocks = ended["blocks"].as_u64().unwrap();
    assert!(
        (9..=design["blocks"].as_u64().unwrap()).contains(&blocks),
        "{ended} {design}"
    );
    assert_eq!(trials.len() as u64, 3 * blocks);
    let last = trials.last().unwrap();
    assert_eq!(last["length"], design["length"]);
    // The same in the report: rule, reason, design.
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    for said in [
        "two stages (Stein)",
        "ended after",
        "should find differences from",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let json = manifest_of(&lab, "r");
    assert_eq!(json["policy"]["stopping"], "two_stage");
    assert_eq!(json["design"]["ended"]["blocks"], ended["blocks"]);
    assert_eq!(json["complete"], true);
}

#[test]
fn looks_at_any_time_end_with_the_verdict() {
    let lab = Lab::new();
    let more = [
        "--stop", "anytime", "--blocks", "40", "--for", "1s", "--warmup", "0s",
    ];
    let output = lab.run(&compare([SLOW, FAST], "r", &more));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("every system has a verdict"), "{told}");
    let ended = &events(&lab, "r", "blocks_ended")[0];
    assert_eq!(ended["cause"], "verdict_reached");
    assert!(ended["blocks"].as_u64().unwrap() < 20, "{ended}");
    let json = manifest_of(&lab, "r");
    assert_eq!(json["comparisons"][0]["verdict"], "different", "{json}");
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("Stopping rule: anytime"));
}

#[test]
fn what_is_given_wins_over_the_design() {
    let lab = Lab::new();
    let given = [
        "--effect", "0.3", "--stop", "fixed", "--blocks", "7", "--for", "4s",
    ];
    let more = [&given[..], &["--warmup", "500ms"]].concat();
    let output = lab.run(&compare([SLOW, DISK], "r", &more));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let said = "(--for 4.00 s, --warmup 500 ms, --blocks 7 as given)";
    assert!(told.contains(said), "{told}");
    let trials = events(&lab, "r", "trial_ended");
    assert_eq!(trials.len(), 21);
    assert!(
        trials[9..]
            .iter()
            .all(|trial| trial["length"] == 4_000_000_000u64)
    );
    let design = &events(&lab, "r", "designed")[0];
    assert_eq!(design["warmup"], 500_000_000);
    assert_eq!(events(&lab, "r", "blocks_ended")[0]["cause"], "planned");
}

#[test]
fn a_budget_limits_what_is_designed() {
    let lab = Lab::new();
    let more = ["--effect", "0.1%", "--budget", "2m"];
    let (output, took) = timed(|| lab.run(&compare([SLOW, DISK], "r", &more)));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("the 0.1 % that were asked for are out of reach"),
        "{told}"
    );
    assert!(told.contains("the budget allows no more blocks"), "{told}");
    let seconds: f64 = events(&lab, "r", "trial_ended")
        .iter()
        .map(|trial| trial["length"].as_f64().unwrap() / 1e9)
        .sum();
    // Trials run in virtual time. The budget also pays for the real time that their simulation takes.
    let least = (120.0 - took.as_secs_f64()) * 2.0 / 3.0;
    assert!((least..=121.0).contains(&seconds), "{seconds} {took:?}");
}

/// A run that dies after the pilot goes on with the design that it had; one that dies within it, with
/// the trials that it had.
#[test]
fn a_design_outlives_the_run_that_made_it() {
    let lab = Lab::new();
    let more = ["--effect", "8%"];
    let args = compare([SLOW, DISK], "r", &more);
    let whole = lab.run(&args);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    let path = lab.path("r/events.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap();
    let designed = lines
        .lines()
        .position(|line| line.contains("\"designed\""))
        .unwrap();
    for (kept, is_designed) in [(designed + 6, true), (designed - 2, false)] {
        // Lines that a kill leaves: those up to there, the last one torn.
        let mut rest: String = lines.split_inclusive('\n').take(kept).collect();
        rest.push_str("{\"crc32c\"");
        std::fs::write(&path, rest).unwrap();
        let resumed = lab.run(&args);
        let told = text(&resumed.stderr);
        assert_eq!(resumed.status.code(), Some(0), "{told}");
        assert!(told.contains("resuming the run in"), "{told}");
        assert_eq!(told.contains("design: "), !is_designed, "{told}");
        assert_eq!(
            told.contains("designed by the pilot: "),
            is_designed,
            "{told}"
        );
        let designs = events(&lab, "r", "designed");
        assert_eq!(designs.len(), 1);
        let json = manifest_of(&lab, "r");
        assert_eq!(json["complete"], true);
        let blocks = json["design"]["ended"]["blocks"].as_u64().unwrap();
        let trials = events(&lab, "r", "trial_ended");
        let mut places: Vec<u64> = trials
            .iter()
            .map(|trial| trial["trial"]["place"].as_u64().unwrap())
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len() as u64, 3 * blocks);
    }
}

#[test]
fn a_dry_run_shows_the_pilot() {
    let lab = Lab::new();
    let output = lab.run(&compare(
        [SLOW, DISK],
        "r",
        &["--effect", "5%", "--dry-run"],
    ));
    let plan = text(&output.stdout);
    assert!(
        plan.contains("9 trials") && plan.contains("as a pilot"),
        "{plan}"
    );
}

#[test]
fn wrong_wishes_are_refused_with_one_error() {
    let lab = Lab::new();
    let refused = |more: &[&str], expect: &str| {
        let output = lab.run(&compare([SLOW, DISK], "r", more));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {told}");
        assert!(told.contains(expect), "{more:?}: {told}");
        assert!(!lab.path("r").exists());
    };
    refused(&["--effect", "5"], "such as 5% or 0.05");
    refused(&["--effect", "0%"], "such as 5% or 0.05");
    refused(&["--effect=-5%"], "such as 5% or 0.05");
    refused(&["--stop", "soon"], "two-stage");
    refused(&["--stop", "two-stage"], "needs --effect");
    refused(
        &["--stop", "anytime"],
        "needs --effect or --budget or --blocks",
    );
    refused(&["--effect", "5%", "--blocks", "3"], "at least 6");
    refused(
        &["--effect", "5%", "--fault", "kill"],
        "do not work with --fault",
    );
    refused(
        &["-w", "ior-easy", "--effect", "5%"],
        "end when their work is done",
    );
}

/// A terminal of its own for the program: with the key it ends, reports, and leaves the terminal as it
/// was; without one it reads nothing.
#[test]
fn a_key_ends_a_run_that_still_reports_and_restores_the_terminal() {
    let lab = Lab::new();
    if program("script", &["--version"]).is_none() {
        return skipped("q on a terminal", "script (util-linux) is missing here");
    }
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    for (term, shows_screen) in [("dumb", false), ("xterm", true)] {
        let folder = lab.path(term).display().to_string();
        let state = lab.path("state").display().to_string();
        let line = format!(
            "stty cols 80 rows 24; stty -a > {folder}.before; TERM={term} PLIMSOLL_STATE={state} {plimsoll} compare null null -w randread,size=1m \
         --for 1s --warmup 0s --blocks 500 --no-self-test -o {folder}; echo code $?; stty -a > {folder}.after"
        );
        // The key comes when some trials are done.
        let keys = format!(
            "for i in $(seq 600); do test $(grep -c trial_ended {folder}/events.jsonl 2>/dev/null || echo 0) \
         -ge 3 && break; sleep 0.1; done; printf xq; sleep 10"
        );
        let command = format!("( {keys} ) | timeout 150 script -qec '{line}' /dev/null");
        let told = program("sh", &["-c", &command]).unwrap_or_default();
        assert!(told.contains("press q to end the run"), "{told}");
        assert!(told.contains("code 0"), "{told}");
        assert!(told.contains("Report: "), "{told}");
        assert_eq!(told.contains("▸ null"), shows_screen, "{told}");
        let report = &told[told.find("Report: ").unwrap()..];
        assert!(
            !report.contains('\u{1b}'),
            "nothing is drawn over the report: {report}"
        );
        let mode = |when: &str| std::fs::read_to_string(format!("{folder}.{when}")).unwrap();
        assert_eq!(mode("before"), mode("after"));
        assert_eq!(manifest_of(&lab, term)["complete"], false);
    }
}
