// SPDX-License-Identifier: Apache-2.0
//! Forms become these arguments, and no others.

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

fn run(form: Value) -> Result<String, String> {
    let form: RunForm = serde_json::from_value(form).map_err(|error| error.to_string())?;
    let args = form.args("D/1", &offered()).map_err(|error| error.text)?;
    Ok(args.join(" "))
}

#[test]
fn forms_of_runs_become_arguments() {
    let cases = [
        (
            json!({ "kind": "compare", "targets": ["sim(a=1)", "raid1"], "workloads": ["varmail,nfiles=9"],
                "options": { "length": "2s", "blocks": 3, "seed": "7", "under": ["healthy", "degraded"] } }),
            "compare --output=D/1 --for=2s --blocks=3 --under=healthy,degraded --seed=7 \
             --workload=varmail,nfiles=9 -- sim(a=1) raid1",
        ),
        (
            json!({ "kind": "run", "targets": ["/mnt/a"], "workloads": ["varmail"], "options": {} }),
            "run --output=D/1 -- varmail /mnt/a",
        ),
        (
            json!({ "kind": "loadline", "targets": ["null"], "workloads": ["varmail"],
                "options": { "slo": ["p99 < 20ms", "errors < 0.1%"], "budget": "1h" } }),
            "loadline --output=D/1 --budget=1h --slo=p99 < 20ms --slo=errors < 0.1% --workload=varmail -- null",
        ),
        (
            json!({ "kind": "failover", "targets": ["gluster(volume=replicate)+crypt"],
                "options": { "fault": "kill", "repeat": 2, "length": null } }),
            "failover --output=D/1 --fault=kill --repeat=2 -- gluster(volume=replicate)+crypt",
        ),
    ];
    for (form, expect) in cases {
        assert_eq!(run(form).unwrap(), expect);
    }
}

#[test]
fn what_the_server_trusts_is_trusted_by_what_it_starts() {
    let form = json!({ "kind": "run", "targets": ["./own.toml"], "workloads": ["varmail"] });
    let form: RunForm = serde_json::from_value(form).unwrap();
    let trusting = ServerCatalogue {
        trusted: vec!["./own.toml".into()],
        ..offered()
    };
    let args = form.args("D/1", &trusting).unwrap();
    let words = "run --output=D/1 --trust=./own.toml -- varmail ./own.toml";
    assert_eq!(args.join(" "), words);
}

#[test]
fn a_form_starts_no_program_and_names_no_file() {
    let of = |targets: &[&str], workloads: &[&str], options: Value| json!({ "kind": "compare", "targets": targets, "workloads": workloads, "options": options });
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
        of(&["null"], &["varmail"], json!({ "length": "-1s" })),
        of(&["null"], &["varmail"], json!({ "length": ["1s", "2s"] })),
        of(&["null"], &["varmail"], json!({ "seed": "1 --destroy" })),
        of(&["null"], &["varmail"], json!({ "slo": "p99 < 20ms" })),
        of(&["null"], &["varmail"], json!({ "fault": "melt" })),
        of(&["null"], &["varmail"], json!({ "destroy": "/dev/sda" })),
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
    check_campaign(&spec, &offered()).is_ok()
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
