// SPDX-License-Identifier: Apache-2.0
//! Files of strangers, made by the dozen: every key that a file can have, set to what would start a program
//! if anything expanded it or took it for a command. What shows that nothing did is a file that is not
//! there.

use crate::support::{Lab, text};
use plimsoll_core::mapping::MappingFile;
use plimsoll_lab::stacks::StackConfig;
use plimsoll_run::campaign_file::CampaignFile;
use plimsoll_run::experiment_file;
use plimsoll_run::spec;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

/// How deep keys are looked for: models of models repeat themselves.
const DEPTH: usize = 12;

/// A key by its way from the top of the file; an empty name is an element of a list.
type Key = Vec<String>;

/// A kind of file.
struct FileKind {
    name: &'static str,
    schema: &'static str,
    /// A file that is read.
    whole: fn(&Lab) -> String,
    /// Whether a file is read by the program's own reader.
    reads: fn(&Path) -> bool,
    /// How the program is made to use it, without starting anything for long.
    used: fn(&str) -> Vec<String>,
    /// Keys whose commands the command line grants by naming the file.
    granted: &'static [&'static str],
}

macro_rules! schema {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schemas/",
            $name,
            ".schema.json"
        ))
    };
}

fn words(text: &str, file: &str) -> Vec<String> {
    text.split(' ')
        .map(|word| word.replace("FILE", file))
        .collect()
}

const KINDS: [FileKind; 7] = [
    FileKind {
        name: "campaign",
        schema: schema!("campaign"),
        whole: |_| {
            "format = \"1.1\"\nblocks = 1\nmargin = 0.1\ncontrol = true\norder = \"random\"\n\
             [[target]]\ntarget = \"sim(flash)\"\nsettings = { units = 2 }\n[[target]]\ntarget = \"null\"\n\
             [[workload]]\nworkload = \"randread\"\nname = \"n\"\nfor = \"100ms\"\nsettings = { size = \"1M\" }\n"
                .into()
        },
        reads: |path| CampaignFile::read(path).is_ok_and(|(_, spec)| spec.problems().is_empty()),
        used: |file| {
            words(
                "compare --campaign FILE --warmup 0s --no-self-test --no-record",
                file,
            )
        },
        granted: &[],
    },
    FileKind {
        name: "gate",
        schema: schema!("campaign"),
        whole: |_| {
            "format = \"1.1\"\n[build]\ncommand = \"true\"\nfiles = [\"x\"]\n\
             [[workload]]\nworkload = \"randread\"\n"
                .into()
        },
        reads: |path| CampaignFile::read(path).is_ok_and(|(_, spec)| spec.problems().is_empty()),
        used: |file| words("gate --against null --candidate null --campaign FILE", file),
        granted: &[],
    },
    FileKind {
        name: "experiment",
        schema: schema!("experiment"),
        whole: |lab| std::fs::read_to_string(super::repro::example(lab)).unwrap(),
        reads: |path| experiment_file::read(path).is_ok(),
        used: |file| words("repro FILE --dry-run", file),
        granted: &[],
    },
    FileKind {
        name: "stack",
        schema: schema!("stack"),
        whole: |_| {
            "description = \"d\"\nmount_dir = \"{dir}/mnt\"\nfile_system = \"\"\nnodes = 0\nports = 0\n\
             [[step]]\nwhy = \"w\"\napply = [\"mkdir\", \"{dir}/mnt\"]\ncheck = [\"test\", \"-d\", \"{dir}/mnt\"]\n\
             undo = [\"rmdir\", \"{dir}/mnt\"]\nlimit = \"5s\"\n\
             [[step]]\nwhy = \"v\"\nstart = [\"sleep\", \"9\"]\nready = [\"true\"]\n"
                .into()
        },
        reads: |path| StackConfig::parse(&path.display().to_string()).is_ok(),
        used: |file| words("stack up FILE", file),
        granted: &[],
    },
    FileKind {
        name: "inventory",
        schema: schema!("inventory"),
        whole: |_| {
            "address = \"127.0.0.1\"\napart = false\nssh_config = \"none\"\n\
             [[node]]\nname = \"n1\"\nssh = \"localhost\"\naddress = \"127.0.0.1\"\ndir = \"/var/lib/plimsoll\"\n"
                .into()
        },
        reads: |_| true,
        used: |file| words("stack up nbd --on FILE --dry-run", file),
        granted: &["command", "power", "fence", "fence_next", "faults"],
    },
    FileKind {
        name: "workload",
        schema: schema!("workload"),
        whole: |lab| {
            lab.run(&["new", "workload", "whole.toml"]);
            std::fs::read_to_string(lab.path("whole.toml")).unwrap()
        },
        reads: |path| spec::workload(&path.display().to_string()).is_ok(),
        used: |file| words("run FILE null --for 100ms --warmup 0s --no-record", file),
        granted: &[],
    },
    FileKind {
        name: "mapping",
        schema: schema!("mapping"),
        whole: |lab| {
            let row = |at: u64| format!("{},{},2\n", 1_795_220_000 + 10 * at, 5 + at % 3);
            let table = std::iter::once("t,r,w\n".to_owned()).chain((0..30).map(row));
            std::fs::write(lab.path("table.csv"), table.collect::<String>()).unwrap();
            "recording = \"table.csv\"\n[time]\ncolumn = \"t\"\nunit = \"s\"\n[device]\nname = \"sda\"\n\
             [[column]]\nname = \"r\"\nmetric = \"reads\"\nkind = \"rate\"\n\
             [[column]]\nname = \"w\"\nmetric = \"writes\"\nkind = \"rate\"\n"
                .into()
        },
        reads: |path| {
            let text = std::fs::read_to_string(path).unwrap();
            toml::from_str::<MappingFile>(&text).is_ok()
        },
        used: |file| words("profile FILE --json", file),
        granted: &[],
    },
];

/// Every key that a schema allows.
fn keys(schema: &Value) -> BTreeSet<Key> {
    let mut found = BTreeSet::new();
    walk(schema, schema, &mut Vec::new(), &mut found);
    found
}

fn walk(whole: &Value, here: &Value, way: &mut Key, found: &mut BTreeSet<Key>) {
    if way.len() > DEPTH {
        return;
    }
    if let Some(name) = here["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        walk(whole, &whole["definitions"][name], way, found);
    }
    for choice in ["allOf", "anyOf", "oneOf"] {
        for one in here[choice].as_array().into_iter().flatten() {
            walk(whole, one, way, found);
        }
    }
    let mut below = |name: &str, one: &Value| {
        way.push(name.into());
        found.insert(way.clone());
        walk(whole, one, way, found);
        way.pop();
    };
    for (name, one) in here["properties"].as_object().into_iter().flatten() {
        below(name, one);
    }
    if here["additionalProperties"].is_object() {
        below("any", &here["additionalProperties"]);
    }
    if here["items"].is_object() {
        below("", &here["items"]);
    }
}

/// The file with one key set.
fn with_key(value: &mut toml::Value, key: &[String], to: &toml::Value) {
    let Some((first, rest)) = key.split_first() else {
        *value = to.clone();
        return;
    };
    if first.is_empty() {
        if !value.is_array() {
            *value = toml::Value::Array(Vec::new());
        }
        let list = value.as_array_mut().unwrap();
        if list.is_empty() {
            list.push(toml::Value::Table(toml::Table::new()));
        }
        return with_key(&mut list[0], rest, to);
    }
    if !value.is_table() {
        *value = toml::Value::Table(toml::Table::new());
    }
    let empty = toml::Value::Table(toml::Table::new());
    let table = value.as_table_mut().unwrap();
    with_key(table.entry(first.clone()).or_insert(empty), rest, to);
}

/// Values that would make the sentinel: each as it is, among metacharacters, and with blanks and
/// capitals or as a list.
fn attacks(sentinel: &str) -> Vec<toml::Value> {
    let touch = format!("touch {sentinel}");
    let mut all: Vec<toml::Value> = Vec::new();
    for plain in [
        format!("cmd:{touch}"),
        format!("$({touch})"),
        format!(";{touch}"),
    ] {
        all.push(format!("x`{touch}`|{plain}&&{touch}\n{touch}").into());
        all.push(match plain.starts_with('$') {
            true => toml::Value::Array(["sh", "-c", &plain].map(toml::Value::from).into()),
            false => format!(" \t{}", plain.replace("cmd", "CMD")).into(),
        });
        all.push(plain.into());
    }
    all
}

/// Those beside them that other kinds of file could fall for.
fn more_attacks(sentinel: &str) -> Vec<toml::Value> {
    let touch = format!("touch {sentinel}");
    let words = ["sh", "-c", &touch].map(toml::Value::from);
    vec![
        format!("-oProxyCommand={touch}").into(),
        format!("size:{touch}").into(),
        format!(" cmd:{touch}").into(),
        toml::Value::Array(words.into()),
    ]
}

/// Counts of the files of a kind.
#[derive(Debug, Default)]
struct AttackCounts {
    keys: usize,
    files: usize,
    read: usize,
    used: usize,
    refused: usize,
}

fn attack(lab: &Lab, kind: &FileKind) -> AttackCounts {
    let sentinel = lab.path("SENTINEL");
    let whole: toml::Value = toml::from_str(&(kind.whole)(lab)).unwrap();
    let schema: Value = serde_json::from_str(kind.schema).unwrap();
    let mut counts = AttackCounts::default();
    let path = lab.path("stranger.toml");
    let shown = sentinel.display().to_string();
    let mut all = attacks(&shown);
    let keys = keys(&schema);
    if keys.len() < 100 {
        all.extend(more_attacks(&shown));
    }
    for key in keys {
        if key.iter().any(|name| kind.granted.contains(&name.as_str())) {
            continue;
        }
        counts.keys += 1;
        for (at, value) in all.iter().enumerate() {
            let mut file = whole.clone();
            with_key(&mut file, &key, value);
            std::fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
            counts.files += 1;
            if !(kind.reads)(&path) {
                continue;
            }
            counts.read += 1;
            // Experiments are only shown, in a third of the disguises: they have hundreds of keys.
            if kind.name == "experiment" && !(at + counts.keys).is_multiple_of(3) {
                continue;
            }
            use_it(lab, kind, at, &mut counts);
            assert!(
                !sentinel.exists(),
                "{}: {key:?} = {value} was started",
                kind.name
            );
        }
    }
    counts
}

/// Has the program use the file: as it is where that is short, else dry.
fn use_it(lab: &Lab, kind: &FileKind, at: usize, counts: &mut AttackCounts) {
    let mut words = (kind.used)("./stranger.toml");
    // Every third is really carried out, without trust, and all of what only reads.
    let is_short = kind.name == "mapping" || words.iter().any(|word| word == "--dry-run");
    if !at.is_multiple_of(3) && !is_short {
        words.push("--dry-run".into());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = lab.command(&words);
    let path = std::env::var("PATH").unwrap_or_default();
    // Nothing is to be reached, whatever host a file names.
    command.env("PATH", format!("{}:{path}", lab.path("bin").display()));
    let output = command.output().unwrap();
    counts.used += 1;
    counts.refused += usize::from(output.status.code() == Some(2));
    let code = output.status.code();
    assert!(
        matches!(code, Some(0..=14)),
        "{words:?}: {code:?} {}",
        text(&output.stderr)
    );
}

/// Attacks by files of these kinds, which leave everything as it was.
fn check(kinds: &[&str]) {
    let lab = Lab::new();
    lab.directory("bin");
    let ssh = lab.path("bin/ssh");
    std::fs::write(&ssh, "#!/bin/sh\nexit 255\n").unwrap();
    std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(lab.path("victim"), "precious").unwrap();
    for kind in KINDS.iter().filter(|kind| kinds.contains(&kind.name)) {
        let counts = attack(&lab, kind);
        let line = format!("{}: {counts:?}", kind.name);
        let _ = writeln!(std::io::stderr(), "{line}");
        assert!(counts.used > 0 && counts.files >= 3 * counts.keys, "{line}");
    }
    let victim = std::fs::read_to_string(lab.path("victim")).unwrap();
    assert_eq!(victim, "precious");
    assert!(lab.run(&["raze"]).status.success());
}

#[test]
fn no_key_of_a_strangers_campaign_starts_a_program() {
    check(&["campaign", "gate"]);
}

#[test]
fn no_key_of_a_strangers_experiment_starts_a_program() {
    check(&["experiment"]);
}

#[test]
fn no_key_of_a_strangers_stack_or_inventory_starts_a_program() {
    check(&["stack", "inventory"]);
}

#[test]
fn no_key_of_a_strangers_workload_starts_a_program() {
    check(&["workload"]);
}

#[test]
fn no_key_of_a_strangers_mapping_starts_a_program() {
    check(&["mapping"]);
}
