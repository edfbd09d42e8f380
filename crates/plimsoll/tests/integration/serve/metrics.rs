// SPDX-License-Identifier: Apache-2.0
//! Metrics for Prometheus: its own parser reads them, and the dashboard asks for no others.

use super::started;
use crate::client::TestServer;
use crate::support::{pause, skipped};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Metrics of a running campaign.
fn told() -> String {
    let server = TestServer::start();
    let (_, run) = started(
        &server,
        &json!({ "trial": { "for": "1s" }, "blocks": 500, "seed": 7 }),
    );
    server.events_until(&format!("/api/v1/runs/{run}/events"), "event: second");
    for _ in 0..3000 {
        let metrics = server.get("/metrics");
        assert_eq!(metrics.status, 200, "{metrics:?}");
        assert!(!metrics.body.contains(&server.token));
        if metrics
            .body
            .contains("plimsoll_response_time_seconds_bucket")
        {
            return metrics.body;
        }
        pause(100);
    }
    panic!("no response times are told");
}

/// Names of the samples in a text for Prometheus.
fn names(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| Some(line.split(['{', ' ']).next()?.to_owned()))
        .collect()
}

/// Our names in an expression of a query.
fn asked(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("plimsoll_"))
        .map(String::from)
        .collect()
}

#[test]
fn prometheus_reads_what_it_is_told_and_the_dashboard_asks_for_nothing_else() {
    let text = told();
    let dashboard = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/grafana/plimsoll.json"
    );
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let queries: Vec<&str> = targets
        .filter_map(|target| target["expr"].as_str())
        .collect();
    assert!(queries.len() >= 6, "{queries:?}");
    let wanted: BTreeSet<String> = queries.iter().flat_map(|query| asked(query)).collect();
    let known = names(&text);
    let missing: Vec<&String> = wanted.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?} in {text}");
    parsed(&text);
}

/// Has Prometheus' own library for Python read a text.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]
fn parsed(text: &str) {
    const READ: &str = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families\n\
        print(sum(len(f.samples) for f in text_string_to_metric_families(sys.stdin.read())))";
    let is_there = |python: &str| {
        let probe = Command::new(python)
            .args(["-c", "import prometheus_client.openmetrics.parser"])
            .output();
        probe.is_ok_and(|output| output.status.success())
    };
    // Debian's packages are for Debian's own.
    let Some(python) = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|python| is_there(python))
    else {
        let why =
            "Prometheus' library for Python is missing (apt-get install python3-prometheus-client)";
        return skipped("prometheus_reads_what_it_is_told", why);
    };
    let mut command = Command::new(python);
    command
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it was found");
    child
        .stdin
        .take()
        .expect("it reads and answers")
        .write_all(text.as_bytes())
        .expect("it reads and answers");
    let output = child.wait_with_output().expect("it reads and answers");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{text}");
    let samples: usize = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("it reads and answers");
    assert_eq!(
        samples,
        text.lines().filter(|line| !line.starts_with('#')).count()
    );
}
