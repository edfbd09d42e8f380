// SPDX-License-Identifier: Apache-2.0
//! Forms become these arguments, and no others.

#[path = "../../../plimsoll-core/src/campaign/check/tests/mistakes.rs"]
mod mistakes;

use super::*;
use crate::catalogue::{FaultOffer, LayerOffer, StackOffer, WorkloadOffer};
use plimsoll_core::campaign::{CampaignClients, CampaignParameter, CampaignSetting};
use serde_json::{Value, json};

fn offered() -> ServerCatalogue {
    let named = |name: &str| StackOffer {
        name: name.into(),
        text: String::new(),
        nodes: 2,
        settings: Vec::new(),
        ready: true,
        missing: Vec::new(),
    };
    ServerCatalogue {
        workloads: vec![WorkloadOffer {
            name: "varmail".into(),
            text: String::new(),
            settings: Vec::new(),
        }],
        stacks: vec![named("raid1"), named("gluster")],
        layers: vec![LayerOffer {
            name: "crypt".into(),
            text: String::new(),
            settings: Vec::new(),
            ready: true,
            missing: Vec::new(),
        }],
        faults: vec![FaultOffer {
            name: "kill".into(),
            text: String::new(),
        }],
        conditions: vec!["healthy".into(), "degraded".into()],
        inventories: vec!["lab.toml".into()],
        targets: vec!["/mnt/a".into(), "./own.toml".into()],
        trusted: Vec::new(),
    }
}

fn run(form: Value) -> Result<String, RequestError> {
    let form: RunForm =
        serde_json::from_value(form).map_err(|error| RequestError::invalid(error.to_string()))?;
    let (args, campaign) = form.args(Path::new("D/1"), &offered())?;
    let read: CampaignSpec = toml::from_str(&campaign).unwrap();
    assert_eq!(Some(read), misread::read(&form.campaign).0);
    Ok(args.join(" "))
}

fn of(targets: &[&str], workloads: &[&str], keys: Value) -> Value {
    let target: Vec<Value> = targets.iter().map(|one| json!({ "target": one })).collect();
    let workload = workloads.iter().map(|one| json!({ "workload": one }));
    let workload: Vec<Value> = workload.collect();
    let mut campaign = json!({ "format": "1.2", "target": target, "workload": workload });
    let all = campaign.as_object_mut().unwrap();
    let Value::Object(keys) = keys else {
        panic!("keys of a campaign: {keys}");
    };
    all.extend(keys);
    json!({ "campaign": campaign })
}

#[test]
fn a_form_is_a_campaign_that_the_program_reads() {
    let mut form = of(
        &["sim(a=1)", "raid1"],
        &["varmail,nfiles=9"],
        json!({
        "blocks": 3, "seed": 7, "under": ["healthy", "degraded"], "trial": { "for": "2s" } }),
    );
    assert_eq!(
        run(form.clone()).unwrap(),
        "run --output=D/1 --trust=- -- -"
    );
    form["budget"] = json!("1h");
    let words = "run --output=D/1 --budget=1h --trust=- -- -";
    assert_eq!(run(form).unwrap(), words);
    let lines = json!({ "load_line": { "limits": ["p99 < 20ms", "errors < 0.1%"] } });
    assert!(run(of(&["null"], &["varmail"], lines)).is_ok());
    let faults = json!({ "blocks": 2, "faults": { "inject": ["kill"] } });
    assert!(run(of(&["gluster(volume=replicate)+crypt"], &[], faults)).is_ok());
}

#[test]
fn what_the_server_trusts_is_trusted_by_what_it_starts() {
    let form = of(&["./own.toml"], &["varmail"], json!({}));
    let form: RunForm = serde_json::from_value(form).unwrap();
    let trusting = ServerCatalogue {
        trusted: vec!["./own.toml".into()],
        ..offered()
    };
    let (args, _) = form.args(Path::new("D/1"), &trusting).unwrap();
    let words = "run --output=D/1 --trust=./own.toml --trust=- -- -";
    assert_eq!(args.join(" "), words);
}

#[test]
fn all_mistakes_of_a_form_are_told_each_with_its_key() {
    let keys = json!({ "blocks": 0, "under": ["melted", "healthy"], "faults": { "inject": ["melt"] },
        "trial": { "for": "0s" } });
    let refused = run(of(&["null", "/etc"], &["varmail"], keys)).unwrap_err();
    let at: Vec<&str> = refused.mistakes.iter().map(|one| &*one.at).collect();
    let expected = [
        "blocks",
        "under",
        "trial.for",
        "under[0]",
        "faults.inject[0]",
        "target[1]",
    ];
    assert_eq!(at, expected, "{refused:?}");
    let refused = run(of(&["null", "/etc"], &["varmail", "cmd:x"], json!({}))).unwrap_err();
    let at: Vec<&str> = refused.mistakes.iter().map(|one| &*one.at).collect();
    assert_eq!(at, ["target[1]", "workload[1]"]);
    assert_eq!(refused.text, "2 mistakes: see the fields");
    // In the form of values as well, wherever another one stands.
    let keys = json!({ "blocks": "many", "sed": 7, "margin": "wide", "under": ["melted", 5], "trial": { "for": 3, "warmup": "x" },
        "design": { "effect": 1 } });
    let mut form = of(&["/etc"], &["varmail"], keys);
    form["budget"] = json!("soon");
    let refused = run(form).unwrap_err();
    let told: Vec<String> = refused
        .mistakes
        .iter()
        .map(|one| format!("{}: {}", one.at, one.text))
        .collect();
    for (at, text) in [
        ("blocks", "expected a whole number"),
        ("sed", "unknown field `sed`"),
        ("margin", "expected a number"),
        ("under[0]", "'melted'"),
        ("under[1]", "expected a string"),
        ("trial.for", "expected a string"),
        ("trial.warmup", "expected a time"),
        ("target[0]", "/etc"),
        ("budget", "expected a time"),
    ] {
        let is_it = |line: &&String| line.starts_with(&format!("{at}: ")) && line.contains(text);
        assert!(told.iter().find(is_it).is_some(), "{at}, {text}: {told:#?}");
    }
}

/// The mistakes that are planted in files.
#[test]
fn a_mistake_of_a_file_is_one_of_a_form() {
    let (mut by_key, mut beyond) = (0, 0);
    for (head, tables, key) in mistakes::MISTAKES {
        let about = format!("{head} {tables}");
        // JSON has no such numbers.
        if about.contains("nan") || about.contains("inf\n") || about.ends_with("inf") {
            continue;
        }
        let text = mistakes::campaign_text(head, tables);
        let campaign: Value = toml::from_str(&text).unwrap();
        let refused = run(json!({ "campaign": campaign })).unwrap_err();
        match refused.mistakes.is_empty() {
            // Clients and builds are asked for on no page.
            true => beyond += 1,
            false => {
                let is_told = refused.mistakes.iter().any(|one| one.at == *key);
                assert!(is_told, "{about}, {key}: {refused:?}");
                by_key += 1;
            }
        }
    }
    assert!(by_key >= 60 && beyond < 10, "{by_key} {beyond}");
}

#[test]
fn a_form_starts_no_program_and_names_no_file() {
    let cases = [
        of(&["/etc"], &["varmail"], json!({})),
        of(&["./mine.toml"], &["varmail"], json!({})),
        of(&["--destroy=/dev/sda"], &["varmail"], json!({})),
        of(&["raid1/../../x"], &["varmail"], json!({})),
        of(&["raid1+evil"], &["varmail"], json!({})),
        of(&["sim(/etc/passwd)"], &["varmail"], json!({})),
        of(&["null"], &["cmd:reboot"], json!({})),
        of(&["null"], &["fio:/tmp/x"], json!({})),
        of(&["null"], &["varmail,dir=/etc"], json!({})),
        of(&["null"], &["varmail,dir=.."], json!({})),
        of(&["null"], &["/tmp/x.toml"], json!({})),
        of(&["null"], &["--workload"], json!({})),
        of(&["null"], &["varmail;reboot"], json!({})),
        of(
            &["null"],
            &["varmail"],
            json!({ "trial": { "for": "-1s" } }),
        ),
        of(
            &["null"],
            &["varmail"],
            json!({ "trial": { "for": ["1s", "2s"] } }),
        ),
        of(&["null"], &["varmail"], json!({ "seed": "1 --destroy" })),
        of(
            &["null"],
            &["varmail"],
            json!({ "faults": { "inject": ["melt"] } }),
        ),
        of(&["null"], &["varmail"], json!({ "under": ["melted"] })),
        of(&["null"], &["varmail"], json!({ "destroy": "/dev/sda" })),
        of(&["null"], &["varmail"], json!({ "trust": ["x"] })),
        of(&[], &["varmail"], json!({})),
        of(&["null"; 40], &["varmail"], json!({})),
    ];
    for form in cases {
        let refused = run(form.clone());
        assert!(refused.is_err(), "{form}: {refused:?}");
    }
}

/// The campaign of one workload on one target, changed.
fn campaign(target: &str, workload: &str, change: impl FnOnce(&mut CampaignSpec)) -> bool {
    let mut spec = CampaignSpec {
        target: vec![(&target.to_owned()).into()],
        workload: vec![(&workload.to_owned()).into()],
        ..CampaignSpec::default()
    };
    change(&mut spec);
    check_campaign(&spec, &offered(), Vec::new()).is_ok()
}

#[test]
fn only_what_a_form_could_start_is_gone_on_with() {
    assert!(campaign("null", "varmail,nfiles=9", |_| ()));
    assert!(campaign("raid1+crypt", "varmail", |spec| spec
        .under
        .push("degraded".into())));
    for (target, workload) in [
        ("/etc", "varmail"),
        ("null", "cmd:reboot"),
        ("null", "/tmp/x.toml"),
        ("./mine.toml", "varmail"),
    ] {
        assert!(!campaign(target, workload, |_| ()), "{target} {workload}");
    }
    let changes: [fn(&mut CampaignSpec); 6] = [
        |spec| spec.directory = Some("/elsewhere".into()),
        |spec| spec.stacks.on = Some("lab.toml".into()),
        |spec| spec.stacks.dir = Some("/etc".into()),
        |spec| {
            let on = "exec:1:reboot".into();
            spec.clients = Some(CampaignClients { on, lose: None });
        },
        |spec| {
            let each = CampaignSetting::Text("/etc".into());
            let each = CampaignParameter::Each(vec![CampaignSetting::Whole(1), each]);
            spec.workload[0].settings.insert("dir".into(), each);
        },
        |spec| spec.target.push((&"sim(/etc/passwd)".to_owned()).into()),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert!(!campaign("null", "varmail", change), "{at}");
    }
}

#[test]
fn forms_of_stacks_become_arguments() {
    let args = |form: Value, is_plan| {
        let form: StackForm = serde_json::from_value(form).map_err(|error| error.to_string())?;
        let args = form.args(is_plan, &offered());
        args.map(|args| args.join(" ")).map_err(|error| error.text)
    };
    let form = json!({ "stack": "raid1", "layers": ["crypt"], "settings": { "level": 5, "scrub": true },
        "size": "2G", "inventory": "lab.toml" });
    assert_eq!(
        args(form, true).unwrap(),
        "stack up --size=2G --on=lab.toml --dry-run --json -- raid1(level=5,scrub=on)+crypt"
    );
    for form in [
        json!({ "stack": "./mine.toml" }),
        json!({ "stack": "raid1", "inventory": "/etc/shadow" }),
        json!({ "stack": "raid1", "size": "--dry-run" }),
        json!({ "stack": "raid1", "layers": ["x"] }),
        json!({ "stack": "raid1", "settings": { "a": "b)+x(" } }),
        json!({ "stack": "--help" }),
        json!({ "stack": "raid1", "destroy": true }),
    ] {
        assert!(args(form.clone(), false).is_err(), "{form}");
    }
    assert!(change_args("raid1", "down", &offered()).is_ok());
    assert!(change_args("raid1", "raze", &offered()).is_err());
    assert!(change_args("-x", "down", &offered()).is_err());
}
