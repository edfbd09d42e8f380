// SPDX-License-Identifier: Apache-2.0
//! Written files name every key that their schema knows.

use super::NewFileKind;
use clap::ValueEnum as _;
use serde_json::Value;

/// Definitions of a schema that the file of a kind writes out, besides the schema's own keys. A model is
/// made by a program and a file loop by a name, so of workloads it is block I/O.
fn written_out(kind: NewFileKind) -> &'static [&'static str] {
    match kind {
        NewFileKind::Campaign => &[
            "CampaignBuild",
            "CampaignClients",
            "CampaignConditioning",
            "CampaignDesign",
            "CampaignFaults",
            "CampaignLoadLine",
            "CampaignStacks",
            "CampaignTarget",
            "CampaignTrial",
            "CampaignWorkload",
        ],
        NewFileKind::Workload => &[
            "BlockIoWorkload",
            "BlockIoGroup",
            "BlockIoMixEntry",
            "BlockIoExtent",
            "BlockIoContent",
            "SyncPolicy",
        ],
        NewFileKind::Inventory => &["InventoryNode"],
        NewFileKind::Stack => &["StackFileStep"],
        NewFileKind::Mapping => &[
            "MappingTime",
            "MappingDevice",
            "MappingLong",
            "MappingColumn",
        ],
    }
}

/// Words of choices that the comments of the workload list.
const CHOICES: [&str; 8] = [
    "ArrivalProcess",
    "BlockIoFileCreation",
    "BlockIoFinalOp",
    "BlockIoOffsetSharing",
    "BlockIoOpKind",
    "BlockIoRegion",
    "BlockIoStopCondition",
    "OffsetPattern",
];

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|found| found == word)
}

#[test]
fn every_key_of_the_schema_is_written_and_explained() {
    for kind in NewFileKind::value_variants() {
        let schema: Value = serde_json::from_str(kind.facts().schema).unwrap();
        let objects = written_out(*kind).iter().map(|name| {
            let found = &schema["definitions"][name];
            assert!(found.is_object(), "{name}");
            found
        });
        for object in std::iter::once(&schema).chain(objects) {
            let keys = object["properties"].as_object().unwrap().keys();
            for key in keys {
                let is_set = |line: &str| {
                    let line = line.trim_start_matches("# ");
                    line.starts_with(&format!("{key} ="))
                        || line.starts_with(&format!("[{key}"))
                        || line.starts_with(&format!("[[{key}]]"))
                        || line.contains(&format!("{{ {key} ="))
                        || line.contains(&format!(", {key} ="))
                        || line.contains(&format!(".{key}]]"))
                };
                let is_there = kind.facts().text.lines().any(is_set);
                assert!(is_there, "{}: {key}", kind.facts().name);
            }
        }
    }
}

#[test]
fn every_choice_of_a_workload_is_named() {
    let kind = NewFileKind::Workload;
    let schema: Value = serde_json::from_str(kind.facts().schema).unwrap();
    for name in CHOICES {
        for choice in schema["definitions"][name]["oneOf"].as_array().unwrap() {
            let word = choice["const"].as_str().map(str::to_owned);
            let word = word.unwrap_or_else(|| choice["required"][0].as_str().unwrap().to_owned());
            // The requests of a trace are no thing to write by hand.
            let is_named = word == "trace" || has_word(kind.facts().text, &word);
            assert!(is_named, "{name}: {word}");
        }
    }
}
