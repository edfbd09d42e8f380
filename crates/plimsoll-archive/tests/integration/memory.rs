// SPDX-License-Identifier: Apache-2.0
//! Reading a run folder takes memory in proportion to its bytes, whatever its contents.
//!
//! The test starts itself again under a limit of its address space, since a limit holds for a whole
//! process: an allocation beyond it ends that process.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Names the folder in the process with the limit.
const FOLDER: &str = "PLIMSOLL_TEST_FOLDER";
/// Bytes of events that are written.
const EVENTS_BYTES: usize = 12 << 20;
/// Memory that the library promises to take at most, as a multiple of the bytes that are read.
const MULTIPLE: usize = 16;
/// Address space that the test program itself may take, with the stacks of its threads.
const PROGRAM_BYTES: usize = 256 << 20;

/// As many empty histograms as fit: of all possible contents of a folder, they took the most memory per byte.
fn hostile(bytes: usize) -> String {
    let empty = r#"{"buckets":[],"sum_ns":0,"min_ns":0,"max_ns":0}"#;
    let kind =
        format!(r#"{{"bytes":0,"errors":0,"service":{empty},"response":{empty},"lag":{empty}}}"#);
    let phase = format!(
        r#"{{"name":"p","metric":"ops_per_second","value":0,"wall":0,"stats":{{"read":{kind}}},"user_cpu_ns":0,"system_cpu_ns":0,"workers":[]}}"#
    );
    let interval = |place: usize, second: usize| {
        format!(
            "{{\"interval\":{{\"place\":{place},\"interval\":{{\"start\":{second},\"length\":1,\"stats\":{{\"read\":{kind}}}}}}}}}\n"
        )
    };
    let generator = r#"{"engine":"","user_cpu_ns":0,"system_cpu_ns":0,"not_submitted":0}"#;
    let mut text = String::new();
    let mut place = 0;
    while text.len() < bytes {
        let phases = vec![phase.as_str(); 4000].join(",");
        text.extend([format!(
            "{{\"trial_ended\":{{\"trial\":{{\"block\":0,\"place\":{place},\"arm\":\"a\",\"workload\":\"w\"}},\"length\":1,\"prepare\":0,\"stats\":{{\"read\":{kind}}},\"phases\":[{phases}],\"generator\":{generator},\"fidelity\":[],\"interrupted\":false}}}}\n"
        )]);
        (0..2000).for_each(|second| text.push_str(&interval(place, second)));
        place += 1;
    }
    text
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "this program again, under a limit"
)]
fn a_folder_takes_a_stated_multiple_of_its_bytes() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let results = plimsoll_archive::open(Path::new(&folder)).unwrap();
        assert!(results.trials.len() > 2, "{:?}", results.warnings);
        assert!(
            results
                .trials
                .iter()
                .all(|trial| trial.phases.len() == 4000)
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let manifest = r#"{"format":"2.1","program":"","id":"","began_at":"","command":[],"seed":1,
        "generator":"","policy":{"confidence":0.95,"margin":0.05},"machine":{"host":"","kernel":"",
        "cpu":"","cpus":1,"ram_bytes":1,"cpu_governor":null},"versions":{},"arms":[],"entries":[],
        "blocks":1}"#;
    fs::write(folder.path().join("manifest.json"), manifest).unwrap();
    fs::write(folder.path().join("events.jsonl"), hostile(EVENTS_BYTES)).unwrap();
    let limit = MULTIPLE * EVENTS_BYTES + PROGRAM_BYTES;
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--as={limit}"));
    limited.arg(std::env::current_exe().unwrap());
    limited.args([
        "--exact",
        "memory::a_folder_takes_a_stated_multiple_of_its_bytes",
    ]);
    limited.env(FOLDER, folder.path());
    match limited.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("SKIPPED: prlimit cannot be started: {error}"),
    }
}
