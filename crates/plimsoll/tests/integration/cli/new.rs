// SPDX-License-Identifier: Apache-2.0
//! `plimsoll new`: the files it writes are ones that the program takes.

use crate::support::{Lab, skipped, text};

/// Kinds with their default names, and what a user tries first.
const KINDS: [(&str, &str, &[&str]); 4] = [
    (
        "campaign",
        "campaign.toml",
        &["compare", "--campaign", "campaign.toml", "--dry-run"],
    ),
    (
        "workload",
        "workload.toml",
        &["run", "workload.toml", "null", "--dry-run"],
    ),
    (
        "inventory",
        "lab.toml",
        &["stack", "up", "raid1", "--on", "lab.toml", "--dry-run"],
    ),
    (
        "stack",
        "stack.toml",
        &["stack", "up", "./stack.toml", "--dry-run"],
    ),
];

#[test]
fn every_file_is_accepted_by_the_program_and_by_its_schema() {
    let lab = Lab::new();
    for (kind, file, try_it) in KINDS {
        let made = lab.json(&["new", kind, "--json"]);
        assert_eq!(made["file"], file);
        assert_eq!(made["try"], format!("plimsoll {}", try_it.join(" ")));
        let written = std::fs::read_to_string(lab.path(file)).unwrap();
        let schema = written
            .lines()
            .next()
            .unwrap()
            .strip_prefix("#:schema ")
            .unwrap();
        let schema = std::fs::read_to_string(lab.path(schema)).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
        let id = schema["$id"].as_str().unwrap();
        assert!(id.starts_with(&format!("urn:plimsoll:{kind}")), "{id}");
        let output = lab.run(try_it);
        let errors = text(&output.stderr);
        // The machines of the inventory are made up: it was read when they are to be reached.
        if kind == "inventory" {
            assert_eq!(output.status.code(), Some(1), "{errors}");
            let is_read = ["on node n1", "plimsoll-agent is missing"]
                .iter()
                .any(|words| errors.contains(words));
            assert!(is_read, "{errors}");
            continue;
        }
        // A stack of commands is planned only where its programs are.
        if kind == "stack" && !output.status.success() && errors.contains("mkfs.ext4") {
            skipped("new stack", &errors);
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{kind}: {errors}");
    }
    // It is no dry run alone: a workload and a campaign of simulated devices are played.
    let short = ["--for", "200ms", "--warmup", "0s", "-o", "out"];
    let output = lab.run(&[&["run", "workload.toml", "null"][..], &short].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn nothing_is_written_over() {
    let lab = Lab::new();
    std::fs::write(lab.path("campaign.toml"), "mine").unwrap();
    let output = lab.run(&["new", "campaign"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it exists"));
    assert_eq!(
        std::fs::read_to_string(lab.path("campaign.toml")).unwrap(),
        "mine"
    );
    // Nor over a file of others where the schema goes.
    lab.directory(".plimsoll");
    std::fs::write(lab.path(".plimsoll/stack.schema.json"), "{}").unwrap();
    let output = lab.run(&["new", "stack"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!lab.path("stack.toml").exists());
    // In a file of another name the comments name that one.
    let output = lab.run(&["new", "campaign", "other.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = std::fs::read_to_string(lab.path("other.toml")).unwrap();
    assert!(written.contains("--campaign other.toml") && !written.contains("campaign.toml"));
    let output = lab.run(&["new", "workload", "nowhere/w.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn a_mapping_is_begun_for_a_table_and_given_instead_of_it() {
    let lab = Lab::new();
    let rows = (0..40).map(|n| format!("2026-11-21 00:00:{n:02},{},{n},7\n", 100 + n));
    let heading = "Time,sda reads/s,written,cpu\n".to_owned();
    std::fs::write(lab.path("disks.csv"), heading + &rows.collect::<String>()).unwrap();
    let made = lab.json(&["new", "mapping", "disks.csv", "--json"]);
    assert_eq!(made["file"], "disks.mapping.toml");
    assert_eq!(made["try"], "plimsoll profile disks.mapping.toml");
    assert_eq!(made["schema"], ".plimsoll/mapping.schema.json");
    let profile = lab.json(&["profile", "disks.mapping.toml", "--json"]);
    assert_eq!(profile["profile"]["disk"], "sda");
    // Columns whose names do not tell their meaning are filled in by hand.
    let begun = std::fs::read_to_string(lab.path("disks.mapping.toml")).unwrap();
    let open = "# [[column]]\n# name = \"written\"\n# its name does not say whether it counts operations or bytes\n\
                # metric = \"\"\n# kind = \"\"\n# unit = \"\"\n";
    assert!(begun.contains(open), "{begun}");
    let filled = "[[column]]\nname = \"written\"\ndevice = \"sda\"\nmetric = \"write-bytes\"\nkind = \"rate\"\n\
                  unit = \"MiB\"\n";
    std::fs::write(lab.path("disks.mapping.toml"), begun.replace(open, filled)).unwrap();
    let output = lab.run(&["profile", "disks.mapping.toml", "--parquet", "table"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = |file: &str| {
        let profile = lab.json(&["profile", file, "--json"]);
        profile["profile"]["components"].clone()
    };
    assert_eq!(shown("disks.mapping.toml"), shown("table"));
    // `fit` accepts the mapping as well, and reports the facts that it lacks.
    let output = lab.run(&["fit", "disks.mapping.toml", "--disk", "sda"]);
    assert!(
        text(&output.stderr).contains("was not recorded"),
        "{}",
        text(&output.stderr)
    );
    for (arguments, hint) in [
        (&["new", "mapping"][..], "plimsoll new mapping disks.csv"),
        (&["new", "mapping", "disks.csv"], "it exists"),
        (&["new", "mapping", "gone.csv"], "gone.csv"),
    ] {
        let output = lab.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(hint),
            "{}",
            text(&output.stderr)
        );
    }
}
