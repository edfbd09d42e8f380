// SPDX-License-Identifier: Apache-2.0
//! Required contents of a report, checked on made-up results, and its exact text against snapshots.

use crate::common::{Size, results};
use crate::phases::{of_phases, of_programs};
use plimsoll_core::clock_offset::ClockOffset;
use plimsoll_core::event::{ClientLoadNodeLoss, ClientLoadNodeResult};
use plimsoll_core::event::{RunFolderContents, ServerUse};
use plimsoll_core::evidence::{CpuUse, LoadThreadUse, MachineUse};
use plimsoll_core::others::{NeighbourDiskUse, NeighbourUse};
use plimsoll_core::target::StorageTarget;
use plimsoll_core::units::Nanos;
use plimsoll_report::{build, build_interim, csv, html, terminal};

const SMALL: Size = Size {
    arms: 2,
    workloads: 2,
    blocks: 3,
    seconds: 6,
    busy: 0.2,
};

fn page(results: &RunFolderContents) -> String {
    html(&build(results))
}

/// The page without the script, which is made elsewhere, and its hash.
fn without_script(page: &str) -> String {
    let (before, rest) = page.split_once("<script>").unwrap();
    let after = rest.rsplit_once("</script>").unwrap().1;
    let (head, hashed) = before.split_once("'sha256-").unwrap();
    let hashed = hashed.split_once('\'').unwrap().1;
    format!("{head}'sha256-'{hashed}<script></script>{after}")
}

fn text(results: &RunFolderContents) -> String {
    terminal(&build(results), 100, false, false)
}

/// Compares a text with the snapshot of this name.
fn snapshot(name: &str, found: &str) {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, found);
    });
}

#[test]
fn the_reports_of_fixed_results_are_as_they_were() {
    let results = results(SMALL);
    snapshot("report.html", &without_script(&page(&results)));
    snapshot("report.txt", &text(&results));
    snapshot("report.csv", &csv(&results));
}

#[test]
fn a_busy_machine_and_a_system_in_memory_are_headlines() {
    let mut results = results(SMALL);
    assert!(!text(&results).contains("noisy machine"));
    for trial in &mut results.trials {
        trial.others = Some(NeighbourUse {
            length: trial.length,
            cpus: 4,
            cpu_ns: trial.length.0 * 4 * 71 / 100,
            disk: Some(NeighbourDiskUse {
                disk: "vda".into(),
                length: Nanos(1000),
                busy: Nanos(400),
            }),
            ..NeighbourUse::default()
        });
    }
    let words = "other processes used 71 % of the CPUs and 40 % of vda during the trials";
    assert!(text(&results).contains(words), "{}", text(&results));
    let facts = results.manifest.arms[0].facts.as_mut().unwrap();
    facts.file_system = "tmpfs".into();
    let report = build(&results);
    let first = &report.headline[0];
    assert!(first.text.contains("is memory (tmpfs)"), "{}", first.text);
    assert!(!text(&results).contains("bypasses the client"));
}

#[test]
fn what_a_system_is_spread_over_is_listed_up_to_a_limit() {
    let mut results = results(SMALL);
    assert!(!page(&results).contains("Storage targets of"));
    let facts = results.manifest.arms[0].facts.as_mut().unwrap();
    facts.striping = "each file over 4 object storage targets".into();
    facts.targets = (0..70_u64)
        .map(|n| StorageTarget {
            name: format!("work-OST{n:04x}"),
            size_bytes: (n + 1) << 30,
            free_bytes: 1 << 30,
            is_away: n == 1,
        })
        .collect();
    let page = page(&results);
    for expect in [
        "each file over 4 object",
        "work-OST0000",
        ">away<",
        "work-OST003f",
        "and 6 targets more",
    ] {
        assert!(page.contains(expect), "{expect}");
    }
    assert!(!page.contains("work-OST0040<"));
}

#[test]
fn what_each_storage_target_moved_stands_among_the_servers() {
    let mut results = results(SMALL);
    for trial in &mut results.trials {
        let used = |(name, moved_bytes, still_s): (&str, u64, u64)| ServerUse {
            server: name.into(),
            length: Nanos(6 * Nanos::SECOND.0),
            cpu_ns: 0,
            thread_share_max: 0.0,
            resident_bytes: 0,
            grown_bytes: 0,
            moved_bytes,
            still: Nanos(still_s * Nanos::SECOND.0),
            processes_lost: 0,
            resident_steps: Vec::new(),
        };
        let targets = [("work-OST0000", 90 << 20, 0), ("work-OST0001", 10 << 20, 3)];
        trial.servers = targets.map(used).to_vec();
    }
    let text = text(&results);
    for expect in [
        "work-OST0000",
        "15.0 MiB/s",
        "the busiest server moved 1.80 times the mean",
        "stalled server: work-OST0001",
        "bytes of the busiest server, of the mean",
    ] {
        assert!(text.contains(expect), "{expect}: {text}");
    }
}

#[test]
fn load_from_nodes_is_told_by_node_and_a_lost_one_next_to_the_answer() {
    let mut results = results(SMALL);
    for trial in &mut results.trials {
        let node = |(name, began_ns): (&str, i64)| ClientLoadNodeResult {
            node: name.into(),
            clock: ClockOffset {
                ns: 7,
                uncertainty: Nanos(40_000),
            },
            began_ns: Some(began_ns),
            length: trial.length,
            stats: trial.stats.clone(),
            generator: trial.generator.clone(),
            lost: None,
        };
        trial.nodes = [("n1", 10_000), ("n2", 100_000)].map(node).into();
    }
    let found = text(&results);
    for expect in [
        "by node",
        "within 90.0 µs",
        "known to ±40.0 µs",
        "index 1.00",
    ] {
        assert!(found.contains(expect), "{expect}: {found}");
    }
    assert!(!found.contains("was lost"));
    results.trials[0].nodes[1].lost = Some(ClientLoadNodeLoss {
        after: Nanos(3 * Nanos::SECOND.0),
        why: "the other side ended".into(),
    });
    results.trials[0].failed = Some("node n2: the other side ended".into());
    for found in [text(&results), page(&results)] {
        assert!(found.contains("Node n2 was lost 3 s after the start"));
    }
}

#[test]
fn the_reports_of_phases_and_of_programs_are_as_they_were() {
    for (name, results, words) in [
        ("phases", of_phases(), ["write and files", "write"]),
        ("programs", of_programs(), ["unpack", "copy"]),
    ] {
        let (page, text, table) = (page(&results), text(&results), csv(&results));
        assert_well_formed(&page);
        // The table has one line for each kind of operation of a trial, and no phases.
        for told in [&page, &text] {
            assert!(
                words.iter().all(|word| told.contains(word)),
                "{name}: {told}"
            );
        }
        assert!(
            !page.contains("<tree>"),
            "{name}: what programs are given is escaped"
        );
        snapshot(&format!("{name}.html"), &without_script(&page));
        snapshot(&format!("{name}.txt"), &text);
        snapshot(&format!("{name}.csv"), &table);
    }
}

/// Checks that tags nest, and returns the text outside the data block and the style.
fn assert_well_formed(page: &str) -> String {
    let mut open: Vec<String> = Vec::new();
    let mut outside = String::new();
    let mut rest = page.strip_prefix("<!doctype html>").unwrap();
    while let Some(start) = rest.find('<') {
        outside.push_str(&rest[..start]);
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}>");
        } else if !tag.ends_with('/') {
            open.push(name.clone());
        }
        if tag.matches('"').count() % 2 == 1 {
            panic!("a quote is open in <{tag}>");
        }
        if !tag.starts_with('/') && (name == "script" || name == "style") {
            let close = rest.find(&format!("</{name}>")).unwrap();
            rest = &rest[close..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    outside
}

fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"plimsoll-data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_from_elsewhere() {
    for arms in [1, 2, 3] {
        let page = page(&results(Size { arms, ..SMALL }));
        assert_well_formed(&page);
        let foreign = without_script(&page).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!foreign.contains(word), "{word}");
        }
        assert!(
            !foreign.contains("NaN") && !foreign.contains("inf "),
            "a bare non-number"
        );
        assert_eq!(
            data(&page)["trials"].as_array().unwrap().len(),
            if arms == 1 { 6 } else { (arms + 1) * 6 }
        );
    }
}

#[test]
fn names_from_outside_cannot_become_markup() {
    let mut results = results(SMALL);
    let evil = "</script><script>alert('x')</script>";
    results.manifest.arms[0].name = evil.into();
    results.manifest.arms[1].control_of = Some(evil.into());
    results.warnings[0].text = "\u{1b}[2Jgone & <b>".into();
    for trial in &mut results.trials {
        if trial.trial.arm == "local" {
            trial.trial.arm = evil.into();
        }
    }
    results.comparisons.clear();
    let page = page(&results);
    assert_well_formed(&page);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"));
    let tip =
        "data-tip=\"&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;, block 1: ";
    for attribute in [
        tip,
        "data-series=\"&lt;/script&gt;",
        "data-legend=\"&lt;/script&gt;",
    ] {
        assert!(page.contains(attribute), "{attribute}");
    }
    assert_eq!(data(&page)["arms"][0]["name"], evil);
    assert!(!text(&results).contains('\u{1b}'));
}

#[test]
fn a_killed_run_says_so_and_shows_what_was_finished() {
    let mut results = results(SMALL);
    results.complete = false;
    results.comparisons.clear();
    let last = results.trials.pop().unwrap();
    results.trials.last_mut().unwrap().interrupted = true;
    for found in [text(&results), assert_well_formed(&page(&results))] {
        assert!(found.contains("This run is incomplete"));
        assert!(
            found.contains("16 of 18 trials ended as planned"),
            "{found}"
        );
        let cut = format!("at place {} of the order, after 6 s", last.trial.place + 1);
        assert!(found.contains(&cut) && found.contains("Stopped by the user"));
        assert!(found.contains("Verdict by workload and system"));
    }
}

#[test]
fn nothing_is_missing_of_a_run_that_goes_on() {
    let mut results = results(SMALL);
    results.complete = false;
    results.comparisons.clear();
    results.trials.pop().unwrap();
    let report = build_interim(&results);
    assert!(report.answer.text.starts_with("So far: "), "{report:?}");
    assert!(report.answer.next.is_empty(), "{report:?}");
    let doubts = report.answer.doubts.iter();
    let mut doubts = doubts.map(|doubt| (doubt.text.as_str(), doubt.section.as_str()));
    let interim = "The run goes on: its results are interim and no verdict";
    assert!(doubts.any(|doubt| doubt == (interim, "findings")));
    let page = assert_well_formed(&html(&report));
    for ended in ["incomplete", "Aborted", "What to do next"] {
        assert!(!page.contains(ended), "{ended}: {page}");
    }
    results.trials.clear();
    let report = build_interim(&results);
    assert_eq!(report.answer.text, "No trial has ended yet.");
    assert_well_formed(&html(&report));
}

#[test]
fn a_run_of_nothing_is_still_a_report() {
    let mut results = results(Size { arms: 1, ..SMALL });
    results.complete = false;
    results.trials.clear();
    results.intervals.clear();
    assert_well_formed(&page(&results));
    assert!(text(&results).contains("0 of 6 trials"));
}

#[test]
fn one_system_is_measured_and_not_judged() {
    let results = results(Size {
        arms: 1,
        blocks: 1,
        ..SMALL
    });
    let text = text(&results);
    assert!(text.contains("[measured]") && text.contains("one system, so no verdict"));
    assert!(!text.contains("Verdict by workload"), "{text}");
}

#[test]
fn unsupported_percentiles_are_withheld_with_a_reason() {
    let results = results(Size {
        arms: 1,
        blocks: 1,
        seconds: 2,
        busy: 0.05,
        workloads: 1,
    });
    let text = text(&results);
    assert!(
        text.contains("too few operations for a 95 % interval"),
        "{text}"
    );
    assert!(csv(&results).contains(",,"), "an empty field");
}

#[test]
fn failures_stand_out() {
    let mut results = results(Size { arms: 3, ..SMALL });
    assert!(text(&results).contains("FAIL 2/3"));
    for trial in &mut results.trials {
        for stats in trial.stats.0.values_mut() {
            stats.lag = stats.response.clone();
        }
        trial.generator.not_submitted = 7;
    }
    let told = text(&results);
    assert!(
        told.contains("Consistent with late load generator"),
        "{told}"
    );
}

#[test]
fn lines_keep_to_the_width_of_the_terminal() {
    let report = build(&results(Size { arms: 3, ..SMALL }));
    for width in [80, 120, 200] {
        let long = terminal(&report, width, false, false);
        let long: Vec<&str> = long.lines().filter(|l| l.chars().count() > width).collect();
        assert!(long.is_empty(), "{width}: {long:#?}");
    }
    assert!(terminal(&report, 100, true, false).contains("\u{1b}[1m"));
}

/// All values of an attribute.
fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    let start = format!(" {attribute}=\"");
    let parts = page.split(&start).skip(1);
    parts.map(|rest| rest.split_once('"').unwrap().0).collect()
}

#[test]
fn names_of_places_are_unique_and_every_link_leads_to_one() {
    let mut results = results(Size { arms: 3, ..SMALL });
    // Labels that come to the same name, and one that a place of the page has.
    results.manifest.entries[1].label = "nas-×40".into();
    for trial in &mut results.trials {
        if trial.trial.workload == "varmail" {
            trial.trial.workload = "nas-×40".into();
        }
    }
    results.comparisons.clear();
    let page = page(&results);
    let ids = values(&page, "id");
    let once: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
    assert!(
        once.contains("verdicts") && once.contains("workload-nas-40-2"),
        "{ids:?}"
    );
    for link in values(&page, "href") {
        assert!(once.contains(link.trim_start_matches('#')), "{link}");
    }
    for name in values(&page, "aria-labelledby") {
        assert!(once.contains(name), "{name}");
    }
}

#[test]
fn the_first_screen_answers_with_its_uncertainty_and_a_command() {
    let report = build(&results(SMALL));
    let answer = &report.answer;
    assert!(
        answer.text.contains(" is best on ") && answer.text.contains(" to "),
        "{}",
        answer.text
    );
    let names: Vec<&str> = answer.facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["How sure", "At what load", "Limited by"]);
    assert!(
        answer.facts[0].1.contains("at 95 % confidence"),
        "{:?}",
        answer.facts
    );
    assert!(answer.facts[1].1.contains("ops/s"), "{:?}", answer.facts);
    let figure = answer.figure.as_ref().unwrap();
    assert!(
        figure
            .title
            .starts_with("Which systems are better than local"),
        "{}",
        figure.title
    );
    assert!(!answer.next.is_empty() && answer.next.len() <= 2);
    for step in &answer.next {
        assert!(step.command.starts_with("plimsoll "), "{}", step.command);
    }
    assert!(answer.doubts.len() <= 3);
    let page = html(&report);
    let (_, screen) = page.split_once("id=\"answer\"").unwrap();
    let screen = screen.split_once("</section>").unwrap().0;
    for part in [
        "class=\"said",
        "<svg",
        "What to do next",
        "class=\"command\"",
        "What to doubt",
    ] {
        assert!(screen.contains(part), "{part}");
    }
    let said = terminal(&report, 100, false, true);
    let (first, last) = (
        said.find(" is best on ").unwrap(),
        said.rfind("Next: ").unwrap(),
    );
    assert!(
        first < said.find("── ").unwrap() && last > said.rfind("── ").unwrap(),
        "{said}"
    );
}

#[test]
fn one_system_faults_and_ladders_have_answers_of_their_own() {
    let one = build(&results(Size { arms: 1, ..SMALL }));
    assert!(
        one.answer.text.contains("local on nas"),
        "{}",
        one.answer.text
    );
    assert!(one.answer.figure.is_some());
    let faults = build(&under_faults());
    let text = &faults.answer.text;
    assert!(
        text.starts_with("raid1 lost acknowledged writes after 1 of 3 faults"),
        "{text}"
    );
    assert!(
        text.contains(
            "When a server is killed, writes stop on local for 200 ms (median of 6 faults"
        ),
        "{text}"
    );
    let figure = faults.answer.figure.as_ref().unwrap();
    assert!(figure.title.contains("outage"), "{}", figure.title);
    let page = html(&faults);
    for part in [
        "id=\"integrity\"",
        "Acknowledged, verified, lost",
        "write outage of 30",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let mut ladder = results(SMALL);
    ladder.manifest.ladder = vec!["disk".into(), "redundancy".into()];
    let ladder = build(&ladder);
    assert!(
        ladder.answer.text.contains("+redundancy: "),
        "{}",
        ladder.answer.text
    );
    assert!(html(&ladder).contains("How much does each layer add?"));
    let mut none = results(Size { arms: 1, ..SMALL });
    none.trials.clear();
    assert!(build(&none).answer.text.contains("No trial was completed"));
}

#[test]
fn every_chart_is_a_question_with_an_answer_and_a_table() {
    let page = page(&results(Size { arms: 3, ..SMALL }));
    let figures: Vec<&str> = page.split("<figure ").skip(1).collect();
    assert!(figures.len() > 8, "{}", figures.len());
    for figure in figures {
        let figure = figure.split_once("</figure>").unwrap().0;
        let caption = figure.split_once("</figcaption>").unwrap().0;
        assert!(caption.contains("?</strong>"), "{caption}");
        assert!(!caption.contains("<span></span>"), "{caption}");
        let is_beside = ["answer-chart", "verdicts-chart"]
            .iter()
            .any(|id| figure.contains(id));
        let has_own = figure.contains("The chart as a table");
        assert!(
            has_own || is_beside || caption.contains("How long do the slowest"),
            "{caption}"
        );
    }
    for part in [
        "class=\"heat ",
        "class=\"area ",
        " data-n=\"",
        "scope=\"row\"",
        "Raw data",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_campaign_of_a_hundred_trials_is_a_page_below_a_megabyte() {
    let size = Size {
        arms: 3,
        workloads: 1,
        blocks: 25,
        seconds: 10,
        busy: 0.1,
    };
    let results = results(size);
    assert_eq!(results.trials.len(), 100);
    let page = page(&results);
    assert!(page.len() < 1_000_000, "{}", page.len());
    let data = data(&page);
    let told = data["trials"].as_array().unwrap().len() as u64;
    let left_out = data["trials_left_out"].as_u64().unwrap_or(0);
    assert_eq!(told + left_out, 100);
    assert!(data.to_string().len() < 320_000);
}

#[test]
fn a_large_run_is_a_small_page() {
    let size = Size {
        arms: 9,
        workloads: 1,
        blocks: 10,
        seconds: 60,
        busy: 0.1,
    };
    let bytes = page(&results(size)).len();
    assert!(bytes < 1_500_000, "{bytes}");
}

/// The same results with a fault in every trial of the first workload: the outage of `raid1` is longer, and
/// lost a block once.
fn under_faults() -> RunFolderContents {
    let mut results = results(SMALL);
    let entry = &mut results.manifest.entries[0];
    let (old, new) = (entry.label.clone(), format!("{} under kill", entry.label));
    entry.label.clone_from(&new);
    let injection = r#"{"fault":"kill","length":10000000000,"recovery_timeout":120000000000,
        "sessions":1,"rate":20.0,"block_bytes":4096,"file_bytes":1048576}"#;
    entry.inject = Some(serde_json::from_str(injection).unwrap());
    let mut lost = 1;
    for trial in results
        .trials
        .iter_mut()
        .filter(|t| t.trial.workload == old)
    {
        trial.trial.workload.clone_from(&new);
        let is_slow = trial.trial.arm == "raid1";
        let length = if is_slow {
            30_000_000_000_u64
        } else {
            200_000_000
        };
        let missing = u64::from(is_slow && std::mem::take(&mut lost) == 1);
        let stall = format!(r#"{{"from":0,"length":{length},"is_open":false}}"#);
        let fault = format!(
            r#"{{"fault":"kill","victim":"n1","done_within":1,"lasted":1,"healed_in":1,
            "healed_under_load":true,"outage":{{"fault_at":0,"fault_is_known":true,"sessions":[{{
            "session":"s","write_stall":{stall},"read_stall":null,"errors":0,"unended":0,
            "first_error_after":null,"reopened":0,"survived":true}}],"unavailable":null,
            "brown_out":{{"lasted":{length}}},"backlog_p99":null,"resolution":50000000}},
            "check":{check}}}"#,
            check = {
                let mut check = plimsoll_core::ledger::LedgerCheck::default();
                check.data.written = 100;
                check.data.checked = 100;
                for _ in 0..missing {
                    check
                        .data
                        .bad
                        .count(plimsoll_core::data_check::DataFlaw::Lost);
                }
                serde_json::to_string(&check).unwrap()
            }
        );
        trial.fault = Some(serde_json::from_str(&fault).unwrap());
    }
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    results
}

#[test]
fn faults_are_among_the_verdicts_and_each_has_what_was_lost() {
    let results = under_faults();
    let said = text(&results);
    for expect in [
        "× lower write outage than",
        "× lower degraded time than",
        "local: 6 of 6 survived",
        "raid1: acknowledged writes were lost after 1 of 3 faults",
        "raid1: every fault",
        "How faults were measured",
    ] {
        let found = said.contains(expect) || page(&results).contains(expect);
        assert!(found, "{expect}: {said}");
    }
    assert!(!said.contains("write outage: write outage"), "{said}");
    assert!(!text(&self::results(SMALL)).contains("every fault"));
}

#[test]
fn what_all_systems_share_is_said_apart_and_a_control_is_not_listed() {
    let mut results = results(SMALL);
    for trial in &mut results.trials {
        let length = trial.length;
        trial.others = Some(NeighbourUse {
            length,
            cpus: 2,
            cpu_ns: length.0,
            ..NeighbourUse::default()
        });
        let is_held_back = trial.trial.arm == "raid1";
        trial.machines = vec![MachineUse {
            length,
            cpu_count: 2,
            cpus: vec![CpuUse {
                cpu: 0,
                busy: length,
            }],
            load_threads: Some(LoadThreadUse {
                ran: Nanos(length.0 / 10),
                waited: Nanos(length.0 / 10),
            }),
            cpu_limit_hits: is_held_back.then_some(100),
            cpu_limit_waited: is_held_back.then_some(length),
            ..MachineUse::default()
        }];
    }
    let limited = |results: &RunFolderContents| {
        let facts = build(results).answer.facts.into_iter();
        let mut facts = facts.filter(|(name, _)| name == "Limited by");
        facts.next().map(|(_, text)| text).unwrap_or_default()
    };
    assert_eq!(
        limited(&results),
        "consistent with throttled CPU (raid1); not known (local); in all trials CPU taken by other \
         programs: not the reason for a difference"
    );
    let mut of_one = results.clone();
    for trial in &mut of_one.trials {
        if trial.trial.workload != "varmail" {
            trial.others = None;
        }
    }
    let told = limited(&of_one);
    assert!(
        told.contains("; in all trials of varmail CPU taken by"),
        "{told}"
    );
    for trial in &mut results.trials {
        trial.interrupted = true;
    }
    assert_eq!(limited(&results), "", "nothing was measured to its end");
}
