// SPDX-License-Identifier: Apache-2.0
//! The examples of the repository run as they are.

use crate::support::{Lab, text};
use std::path::Path;

#[test]
fn every_workload_among_the_examples_runs() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads");
    let lab = Lab::new();
    let mut count = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let out = lab.path(&format!("run-{count}"));
        let places = [path.to_str().unwrap(), "null", "-o", out.to_str().unwrap()];
        let short = ["--for", "100ms", "--warmup", "0s"];
        let output = lab.run(&[&["run"], &places[..], &short].concat());
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            text(&output.stderr)
        );
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn every_campaign_of_the_gallery_is_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lab = Lab::new();
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("examples/gallery")).unwrap() {
        let path = entry.unwrap().path();
        let campaign = std::fs::read_to_string(&path).unwrap();
        // As from the root of the repository, with its directories in the place of the test.
        let examples = root.join("examples/").display().to_string();
        let campaign = campaign
            .replace("\"examples/", &format!("\"{examples}"))
            .replace("target/gallery/", "");
        for place in ["a", "b"] {
            lab.directory(place);
        }
        std::fs::write(lab.path("campaign.toml"), campaign).unwrap();
        let output = lab.run(&["run", "campaign.toml", "--dry-run"]);
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", path.display());
        assert!(
            text(&output.stdout).contains("Nothing was done"),
            "{errors}"
        );
        count += 1;
    }
    assert_eq!(count, 8);
}
