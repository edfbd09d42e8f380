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
