// SPDX-License-Identifier: Apache-2.0
//! An NFS server that is stood up for the test, and plimsoll as its client.

use crate::support::{Lab, blocks, skipped, text};

/// Requirements of the stack that are missing here.
pub(crate) fn missing(lab: &Lab, stack: &str) -> Vec<String> {
    let doctor = lab.json(&["doctor", "--json"]);
    let checks = doctor["checks"]
        .as_array()
        .expect("doctor lists checks")
        .iter();
    let is_missing = |check: &&serde_json::Value| {
        let needed_for = check["needed_for"].as_str().unwrap_or("");
        check["ok"] == false && needed_for.contains(stack)
    };
    let names = checks.filter(is_missing);
    names
        .map(|check| check["name"].as_str().unwrap_or("?").to_owned())
        .collect()
}

#[test]
fn blocks_and_files_on_an_export_without_a_mount() {
    const STACK: &str = "nfs(client=own)";
    let lab = Lab::new();
    let missing = missing(&lab, "nfs");
    if !missing.is_empty() {
        let why = format!("missing here: {}", missing.join(", "));
        return skipped("an NFS export without a mount", &why);
    }
    let up = lab.json(&["stack", "up", STACK, "--json"]);
    let address = up["up"][0]["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with("nfs://10.92."), "{address}");
    let workload = lab.path("small.toml");
    std::fs::write(&workload, blocks("small", 4 << 20, 0.5, true)).unwrap();
    let workload = workload.to_str().unwrap();
    // The stack's name, and the address alone, as for a server that Plimsoll did not start.
    for (target, folder) in [(STACK, "a"), (address.as_str(), "b")] {
        let args = ["run", workload, target, "--for", "300ms", "--warmup", "0s"];
        let args = [
            &args[..],
            &["--check-data", "always", "--json", "-o", folder],
        ]
        .concat();
        let json = lab.json(&args);
        let trial = &json["trials"][0];
        let check = &trial["data_check"];
        assert!(check["written"].as_u64().unwrap() > 0, "{check}");
        assert!(check["checked"].as_u64().unwrap() > 0, "{check}");
        assert_eq!(check["errors"], 0, "{check}");
        assert!(
            check["bad"].as_object().unwrap().values().all(|n| *n == 0),
            "{check}"
        );
        let told = text(&lab.run(&["report", folder]).stdout);
        assert!(told.contains("NFSv3 in this program"), "{told}");
    }
    let files = [
        "run",
        "varmail,nfiles=500",
        &address,
        "--for",
        "300ms",
        "-o",
        "c",
    ];
    let ran = lab.run(&files);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let served = lab.path("state/stacks");
    let stack = std::fs::read_dir(served).unwrap().next().unwrap().unwrap();
    let left = std::fs::read_dir(stack.path().join("export")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".plimsoll"], "the runs have left something");
    let down = lab.run(&["stack", "down", STACK]);
    assert_eq!(down.status.code(), Some(0), "{}", text(&down.stderr));
}

#[test]
fn an_address_that_is_none_is_refused_with_its_form() {
    let lab = Lab::new();
    for (address, why) in [
        ("nfs://nas", "the export is missing"),
        (
            "nfs://nas/data?version=4",
            "only mountport, uid, gid and sync",
        ),
    ] {
        let output = lab.run(&["run", "randread", address]);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains(why) && told.contains("nfs://HOST[:PORT]/EXPORT"),
            "{told}"
        );
    }
    // No server listens on these ports.
    let output = lab.run(&["run", "randread", "nfs://127.0.0.1:9/x?mountport=9"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("127.0.0.1:9"), "{told}");
}
