// SPDX-License-Identifier: Apache-2.0
//! The committed JSON schemas of our files: made from the types, fresh and true.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p plimsoll-core schemas` writes them anew; read the difference.
//! Manual: `docs/schemas.md`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::campaign::CampaignSpec;
use crate::durability::DurabilityResult;
use crate::event::{RunEvent, RunManifest, TrialResult};
use crate::experiment::ExperimentFile;
use crate::format::FormatVersion;
use crate::mapping::MappingFile;
use crate::model::{ModelEnvelope, PackedGapPrecision, PackedRequestsWriter, WorkloadModel};
use crate::op::{OpKind, TraceAccess};
use crate::partial::PartialLine;
use crate::plan::{InventoryFile, StackFile};
use crate::run_results::RunResultsDocument;
use crate::units::Nanos;
use crate::workload::{Workload, WorkloadFile};

mod committed;
mod validator;
use validator::validate;

/// A workload file whose workload is a model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only its schema and what it refuses are asked for"
)]
struct ModelFile {
    /// Version of the format.
    format: FormatVersion,
    /// The workload.
    workload: ModelOnly,
}

/// A model as a workload.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only its schema and what it refuses are asked for"
)]
struct ModelOnly {
    /// Fitted from a recording: open loop, one file.
    model: Box<WorkloadModel>,
}

/// File that one schema describes.
struct DescribedFile {
    name: &'static str,
    /// `None` where the file does not say a version.
    version: Option<FormatVersion>,
    title: &'static str,
    schema: fn() -> Value,
    /// Whether the program reads a value.
    reads: fn(Value) -> bool,
}

/// Objects with a checksum as their first key.
const SEALED: [&str; 2] = ["run-manifest", "run-event"];

fn described() -> [DescribedFile; 13] {
    fn file<T: JsonSchema + DeserializeOwned>(
        name: &'static str,
        version: Option<FormatVersion>,
        title: &'static str,
    ) -> DescribedFile {
        DescribedFile {
            name,
            version,
            title,
            schema: of::<T>,
            reads: |value| serde_json::from_value::<T>(value).is_ok(),
        }
    }
    let (run, workload) = (Some(FormatVersion::RUN), Some(FormatVersion::WORKLOAD));
    [
        file::<DurabilityResult>(
            "durability-result",
            Some(FormatVersion::DURABILITY),
            "durability.json of `plimsoll durability`",
        ),
        file::<RunManifest>("run-manifest", run, "manifest.json of a run folder"),
        file::<RunEvent>("run-event", run, "A line of events.jsonl of a run folder"),
        file::<TrialResult>("trial-result", run, "The result of one trial"),
        file::<WorkloadFile>("workload", workload, "A workload file, as JSON"),
        file::<ModelFile>("model", workload, "A model file, as JSON"),
        file::<CampaignSpec>(
            "campaign",
            Some(FormatVersion::CAMPAIGN),
            "A campaign file, as JSON",
        ),
        file::<ExperimentFile>(
            "experiment",
            Some(FormatVersion::EXPERIMENT),
            "An experiment file, as JSON",
        ),
        file::<RunResultsDocument>(
            "run-results",
            Some(FormatVersion::RESULTS),
            "The results of a run: --json, or exported as JSON",
        ),
        file::<PartialLine>(
            "partial",
            Some(FormatVersion::PARTIAL),
            "A line of a partial result of a profile",
        ),
        file::<InventoryFile>("inventory", None, "An inventory file, as JSON"),
        file::<StackFile>("stack", None, "A stack file, as JSON"),
        file::<MappingFile>("mapping", None, "A mapping file, as JSON"),
    ]
}

/// Draft 7: what editors know, also for TOML.
fn of<T: JsonSchema>() -> Value {
    let schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.into()
}

impl DescribedFile {
    fn made(&self) -> Value {
        let mut schema = (self.schema)();
        tidy(&mut schema);
        let version = self.version.map_or(String::new(), |v| format!(":{v}"));
        schema["$id"] = json!(format!("urn:plimsoll:{}{version}", self.name));
        schema["title"] = json!(self.title);
        if SEALED.contains(&self.name) {
            seal(&mut schema);
        }
        schema
    }

    /// Whether a schema and the program agree on a value.
    fn accepts(&self, schema: &Value, value: &Value) -> (Result<(), String>, bool) {
        let mut sealed = value.clone();
        if SEALED.contains(&self.name)
            && let Some(object) = sealed.as_object_mut()
        {
            object.insert("crc32c".into(), json!("0123abcd"));
        }
        (validate(schema, &sealed), (self.reads)(value.clone()))
    }
}

/// Links to items of the program and breaks of lines mean nothing to who reads a schema.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(rules) => {
            if let Some(Value::String(text)) = rules.get_mut("description") {
                *text = plain(text);
            }
            rules.values_mut().for_each(tidy);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn plain(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
    let text = paragraphs.collect::<Vec<_>>().join("\n\n");
    let mut plain = String::new();
    let mut rest = text.as_str();
    // `[word](ITEM)` is the word.
    while let Some((before, (_, after))) = rest
        .split_once("](")
        .and_then(|(before, after)| Some((before, after.split_once(')')?)))
    {
        let (start, word) = before.rsplit_once('[').unwrap_or((before, ""));
        plain.extend([start, word]);
        rest = after;
    }
    plain + rest
}

/// Adds the checksum, which the archive puts in front of the object.
fn seal(schema: &mut Value) {
    let checksum = json!({
        "description": "CRC-32C of all bytes behind the comma that follows; the first key.",
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
    });
    let add = |object: &mut Value| {
        object["properties"]["crc32c"] = checksum.clone();
        let required = object["required"].as_array_mut().expect("it has fields");
        required.insert(0, json!("crc32c"));
    };
    match schema.get_mut("oneOf") {
        Some(variants) => variants
            .as_array_mut()
            .expect("a list")
            .iter_mut()
            .for_each(add),
        None => add(schema),
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn committed_schema(name: &str) -> Value {
    let text = read(&format!("schemas/{name}.schema.json"));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    for file in described() {
        let text = serde_json::to_string_pretty(&file.made()).unwrap() + "\n";
        committed::check(&format!("schemas/{}.schema.json", file.name), &text);
    }
}

/// A file of the repository, as JSON.
fn parsed(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn toml(text: &str) -> Value {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Examples of TOML in a page.
fn examples_of(page: &str) -> Vec<Value> {
    let text = read(page);
    let blocks = text.split("```toml\n").skip(1);
    let examples: Vec<Value> = blocks
        .map(|block| toml(block.split("```").next().unwrap_or_default()))
        .collect();
    assert!(!examples.is_empty(), "{page}");
    examples
}

/// Workloads and models of earlier formats.
const FIXTURES: &str = "crates/plimsoll-core/src/workload/fixtures";

fn examples_in(folder: &str) -> Vec<Value> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let texts = entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.map(|text| toml(&text)).collect()
}

/// Files in the folders of experiments.
fn experiments(is_wanted: fn(&str) -> bool) -> Vec<Value> {
    let mut all = Vec::new();
    for folder in std::fs::read_dir(root().join("examples/experiments")).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".toml") && is_wanted(&name) {
                all.push(toml(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    all
}

/// Object without its checksum.
fn unsealed(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    value.as_object_mut().unwrap().remove("crc32c").unwrap();
    value
}

/// The run folder of the present format that the archive's tests read.
fn recorded_run() -> (Value, Vec<Value>) {
    let folder = format!(
        "crates/plimsoll-archive/tests/fixtures/{}",
        FormatVersion::RUN
    );
    let events = read(&format!("{folder}/events.jsonl"));
    let mut manifest = unsealed(&read(&format!("{folder}/manifest.json")));
    // Older programs played models at their bounds, which readers leave out.
    let entries = manifest["entries"].as_array_mut().unwrap();
    entries.retain(|entry| entry.get("corner_of").is_none());
    (manifest, events.lines().map(unsealed).collect())
}

/// Models as they are written: of counters, of requests.
fn models() -> Vec<Value> {
    let mut small = crate::model::tests::bursty();
    small.envelope = ModelEnvelope::new(small.envelope.cells()[..3].to_vec()).unwrap();
    let recorded: Vec<TraceAccess> = (0..50)
        .map(|i| TraceAccess {
            at: Nanos(i * 1_500_000),
            kind: OpKind::Read,
            offset: i * 7 % 40 * 4_096,
            bytes: 4_096,
        })
        .collect();
    let length = Nanos::SECOND;
    let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
    recorded.iter().for_each(|request| packer.push(request));
    let packed = Some(Box::new(packer.finish(length)));
    let mut requests = small.clone();
    requests.requests = packed;
    let file = |model: WorkloadModel| WorkloadFile {
        format: FormatVersion::WORKLOAD,
        workload: Workload::Model(Box::new(model)),
    };
    // As the program writes them: through TOML.
    let written = |model| toml(&toml::to_string(&file(model)).unwrap());
    [small, requests].map(written).into()
}

/// Values of a file that the program has written or reads.
fn values(name: &str) -> Vec<Value> {
    let (manifest, events) = recorded_run();
    match name {
        "run-manifest" => vec![manifest],
        "run-event" => events,
        "trial-result" => {
            let results = events.iter().filter_map(|event| event.get("trial_ended"));
            results.cloned().collect()
        }
        "workload" => {
            let entries = manifest["entries"].as_array().unwrap().iter();
            let recorded = entries.map(
                |entry| json!({"format": FormatVersion::WORKLOAD, "workload": entry["workload"]}),
            );
            let mut all: Vec<Value> = recorded.collect();
            all.extend(examples_in("examples/workloads"));
            // Beside campaigns, which have several.
            let beside = experiments(|name| name != "experiment.toml");
            all.extend(
                beside
                    .into_iter()
                    .filter(|file| file["workload"].is_object()),
            );
            all.extend(examples_of("docs/workloads/README.md"));
            all.extend(examples_in(FIXTURES));
            all.extend(models());
            all
        }
        "model" => {
            let mut all = examples_in(FIXTURES);
            all.retain(|file| file["workload"].get("model").is_some());
            all.extend(models());
            all
        }
        "campaign" => {
            let mut all = examples_in("examples/campaigns");
            let beside = experiments(|name| name != "experiment.toml").into_iter();
            all.extend(beside.filter(|file| file["workload"].is_array()));
            all.extend(examples_of("docs/campaigns.md"));
            all.extend(examples_of("docs/ci.md"));
            all
        }
        "experiment" => {
            let all = experiments(|name| name == "experiment.toml").into_iter();
            all.chain(examples_of("docs/repro.md")).collect()
        }
        // The export of the report's tests.
        "run-results" => {
            let text = read("crates/plimsoll-report/tests/snapshots/export.json.snap");
            let (_, exported) = text.split_once("\n---\n").unwrap();
            vec![serde_json::from_str(exported).unwrap()]
        }
        "durability-result" => vec![parsed("crates/plimsoll-report/tests/durability/1.0.json")],
        "inventory" => {
            let all = examples_of("docs/stacks/inventory.md").into_iter();
            let all = all.chain(examples_of("docs/stacks/load.md"));
            all.chain(examples_in("examples/labs")).collect()
        }
        "stack" => examples_in("examples/stacks"),
        "mapping" => {
            let all = examples_of("docs/recordings.md").into_iter();
            all.chain(examples_in("examples/mappings")).collect()
        }
        "partial" => {
            let text = read("crates/plimsoll-archive/tests/partial/1.0.part");
            let lines = text.lines().map(serde_json::from_str);
            lines.collect::<Result<_, _>>().unwrap()
        }
        other => panic!("no values of {other}"),
    }
}

/// Where objects are in a value; of a list only the first and the last one are looked into.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            found.push(at.into());
            for (key, value) in keys {
                let key = key.replace('~', "~0").replace('/', "~1");
                objects(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            let ends = [0, items.len().saturating_sub(1)];
            let ends = &ends[..items.len().min(2)];
            ends.iter()
                .for_each(|n| objects(&items[*n], &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

/// An object of a value, by the names on the way to it and its own keys: the same place of the schema,
/// whichever item of a list it is in.
fn place_in_schema(at: &str, keys: &[String]) -> String {
    let names = at.split('/').map(|name| {
        if name.parse::<usize>().is_ok() {
            "0"
        } else {
            name
        }
    });
    format!("{} {}", names.collect::<Vec<_>>().join("/"), keys.join(" "))
}

/// The same value with one mistake each: a key too many, a key too few, a value of another type. Places of
/// the schema that are among `tried` are left out: another example does not tell more of them.
fn mistaken(value: &Value, tried: &mut BTreeSet<String>) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    objects(value, "", &mut places);
    let mut all = Vec::new();
    for at in places {
        let keys: Vec<String> = value
            .pointer(&at)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        if !tried.insert(place_in_schema(&at, &keys)) {
            continue;
        }
        let mut change = |what: String, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut changed = value.clone();
            change(changed.pointer_mut(&at).unwrap().as_object_mut().unwrap());
            all.push((format!("{at}: {what}"), changed));
        };
        change("one key more".into(), &|object| {
            drop(object.insert("misspelt".into(), json!(1)));
        });
        for key in keys {
            change(format!("{key} misspelt"), &|object| {
                let kept = object.remove(&key).unwrap();
                object.insert("misspelt".into(), kept);
            });
            change(format!("without {key}"), &|object| {
                drop(object.remove(&key));
            });
            for other in [json!(null), json!("text"), json!(-1), json!(1.5)] {
                let what = format!("{key} = {other}");
                change(what, &|object| {
                    drop(object.insert(key.clone(), other.clone()));
                });
            }
        }
    }
    all
}

#[test]
fn the_page_of_schemas_lists_each_with_its_format() {
    let page = read("docs/schemas.md");
    for file in described() {
        let link = format!("(../schemas/{}.schema.json)", file.name);
        let row = page.lines().find(|line| line.contains(&link));
        let format = file.version.map_or("has none".into(), |v| v.to_string());
        let ends = format!("| {format} |");
        assert!(row.is_some_and(|row| row.ends_with(&ends)), "{link} {ends}");
    }
}

#[test]
fn what_the_program_writes_and_reads_is_what_the_schemas_say() {
    for file in described() {
        let schema = committed_schema(file.name);
        let values = values(file.name);
        assert!(!values.is_empty());
        let (mut refused, mut tried) = (0, BTreeSet::new());
        for value in &values {
            let (said, is_read) = file.accepts(&schema, value);
            assert!(is_read, "{}: {value}", file.name);
            assert_eq!(said, Ok(()), "{}: {value}", file.name);
            for (what, changed) in mistaken(value, &mut tried) {
                let (said, is_read) = file.accepts(&schema, &changed);
                assert_eq!(said.is_ok(), is_read, "{}, {what}: {said:?}", file.name);
                refused += usize::from(!is_read);
            }
        }
        assert!(refused > 20, "{}: {refused}", file.name);
    }
}

#[test]
fn every_kind_of_event_and_of_workload_is_among_the_values() {
    let (manifest, events) = recorded_run();
    let schema = committed_schema("run-event");
    for variant in schema["oneOf"].as_array().unwrap() {
        let kind = variant["required"][1].as_str().unwrap();
        assert!(
            events.iter().any(|event| event.get(kind).is_some()),
            "{kind}"
        );
    }
    let entries = manifest["entries"].as_array().unwrap();
    for kind in ["model", "blocks", "files", "series", "commands"] {
        assert!(
            entries
                .iter()
                .any(|entry| entry["workload"].get(kind).is_some()),
            "{kind}"
        );
    }
    // The manifest and the events are written as they were read.
    let read: RunManifest = serde_json::from_value(manifest.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), manifest);
    for event in events {
        let read: RunEvent = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), event);
    }
}

#[test]
fn a_sealed_object_without_its_checksum_and_a_misspelt_key_are_refused() {
    let (manifest, _) = recorded_run();
    let schema = committed_schema("run-manifest");
    assert!(
        validate(&schema, &manifest)
            .unwrap_err()
            .contains("lacks crc32c")
    );
    let schema = committed_schema("workload");
    let text = read("examples/workloads/mixed.toml").replace("depth", "dept");
    let error = validate(&schema, &toml(&text)).unwrap_err();
    assert!(error.contains("choices"), "{error}");
    let schema = committed_schema("inventory");
    let text = read("examples/labs/two-hosts.toml").replace("ssh =", "shh =");
    let error = validate(&schema, &toml(&text)).unwrap_err();
    assert!(error.contains("/node/0/shh"), "{error}");
}
