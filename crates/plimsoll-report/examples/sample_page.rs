// SPDX-License-Identifier: Apache-2.0
//! Writes a sample page and the same for a terminal, from made-up results, into a folder:
//! `cargo run -p plimsoll-report --example sample_page -- FOLDER`.

use std::path::PathBuf;

#[path = "../tests/integration/common.rs"]
mod common;

fn main() -> std::io::Result<()> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .unwrap_or_else(|| ".".into())
        .into();
    let sizes = [
        ("sample", (3, 3, 5)),
        ("single", (1, 1, 1)),
        ("many", (10, 1, 10)),
    ];
    for (name, (arms, workloads, blocks)) in sizes {
        let size = common::Size {
            arms,
            workloads,
            blocks,
            seconds: 60,
            busy: 1.0,
        };
        let results = common::results(size);
        let report = plimsoll_report::build(&results);
        let write = |ending: &str, text: String| {
            std::fs::write(folder.join(format!("{name}.{ending}")), text)
        };
        write("html", plimsoll_report::html(&report))?;
        write("txt", plimsoll_report::terminal(&report, 110, false, false))?;
        write("csv", plimsoll_report::csv(&results))?;
    }
    Ok(())
}
