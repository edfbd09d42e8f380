// SPDX-License-Identifier: Apache-2.0
//! The examples of `docs/recordings.md` are what the page says they are.

use std::path::Path;

use plimsoll_trace::OpenRecording;

/// Format and text of each example: a line with the format in backquotes, then a fenced text.
fn examples(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (place, _) in page.match_indices("\n\n```text\n") {
        let format = page[..place].rsplit('\n').next().unwrap();
        let text = &page[place + "\n\n```text\n".len()..];
        let end = text.find("```").unwrap();
        found.push((format.trim_matches('`'), &text[..end]));
    }
    found
}

#[test]
fn every_example_is_read_as_the_format_it_is_given_for() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recordings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples = examples(&page);
    assert!(examples.len() >= 16, "{}", examples.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    for (format, text) in examples {
        std::fs::write(&path, text).unwrap();
        match plimsoll_trace::open(&path).unwrap() {
            OpenRecording::Requests(mut requests) => {
                assert_eq!(requests.about().format, format);
                let mut found = Vec::new();
                while requests.read(&mut found).unwrap() {}
                assert!(!found.is_empty(), "{format}");
                assert_eq!(requests.warnings(), [] as [&str; 0], "{format}");
            }
            OpenRecording::Counters(counters) => {
                assert_eq!(counters.about().format, format);
                let disk = &counters.disks()[0];
                let series = counters.series(disk, &counters.times().span()).unwrap();
                assert!(!series.columns.is_empty(), "{format}");
            }
        }
    }
}
