// SPDX-License-Identifier: Apache-2.0
//! The plan of `san` as text, the configuration of its cluster, and the cases that its scripts refuse.

use plimsoll_core::plan::{NodeTransport, PlanAction, PlanNode, PlanStep, StackSelfTest};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::fake::FakeHost;
use crate::stacks::manage::{StackPlan, plan};
use crate::stacks::{
    NodeInventory, StackChange, StackConfig, StackPlacement, StackUpOptions, change, snapshot, up,
};
use plimsoll_machine::journal::StateDir;

fn machines(count: u8, fence: &[&str]) -> StackPlacement {
    let machine = |number: u8| PlanNode {
        name: format!("n{number}"),
        reach: NodeTransport::Agent(vec!["ssh".into(), format!("storage{number}")]),
        address: format!("10.92.1.{number}"),
        power: Vec::new(),
        fence: fence.iter().map(ToString::to_string).collect(),
        fence_next: Vec::new(),
        faults: Vec::new(),
        dir: "/srv/bench".into(),
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 0,
    };
    StackPlacement::Inventory(Box::new(NodeInventory {
        file: "lab.toml".into(),
        address: Some("10.92.1.254".into()),
        is_apart: false,
        machines: (1..=count).map(machine).collect(),
    }))
}

fn planned(text: &str, place: StackPlacement) -> Result<StackPlan, String> {
    let choice = StackConfig::parse(text).map_err(|error| error.to_string())?;
    let options = StackUpOptions {
        place: Some(place),
        ..StackUpOptions::new("/var/lib/plimsoll/stacks".into())
    };
    plan(&choice, &options, &mut FakeHost::new()).map_err(|error| error.to_string())
}

/// A file that the plan writes on a node.
fn written(planned: &StackPlan, node: &str, name: &str) -> String {
    let found = planned
        .plan
        .steps
        .iter()
        .find_map(|step| match &step.apply {
            PlanAction::WriteFile { path, text, .. }
                if step.node == node && path.ends_with(name) =>
            {
                Some(text.clone())
            }
            _ => None,
        });
    found.unwrap().replace(&planned.id, "example-1")
}

#[test]
fn the_plan_is_the_committed_one() {
    let planned = planned("san", machines(2, &["/lab/power"])).unwrap();
    let text = snapshot::steps(&planned.plan).replace(&planned.id, "example-1");
    let text = text.replace(&planned.id.to_uppercase(), "EXAMPLE-1");
    // The contents of files are looked at below.
    snapshot::assert_beside!("plan", text);
}

#[test]
fn everything_of_a_node_is_undone_and_nobody_is_fenced_for_going() {
    let planned = planned("san(raid=5,witness)", machines(4, &["/lab/power"])).unwrap();
    let undone: Vec<(&str, String)> = planned
        .plan
        .steps
        .iter()
        .rev()
        .filter_map(|step| Some((&*step.node, step.undo.as_ref()?.to_string())))
        .collect();
    let first_of = |word: &str| {
        undone
            .iter()
            .position(|(_, undo)| undo.contains(word))
            .unwrap()
    };
    let unmount = undone
        .iter()
        .position(|(_, undo)| undo.starts_with("umount"))
        .unwrap();
    let daemon = undone
        .iter()
        .position(|(_, undo)| undo.contains("n4-cluster"))
        .unwrap();
    let order = [
        unmount,
        first_of("stop-all"),
        daemon,
        first_of("/run clear"),
    ];
    assert!(order.is_sorted(), "{order:?} of {undone:#?}");
    for node in ["n1", "n2", "n3"] {
        let clears = |(at, undo): &&(&str, String)| *at == node && undo.contains("/run clear");
        assert_eq!(undone.iter().filter(clears).count(), 1, "{node}");
    }
}

#[test]
fn two_nodes_ask_each_other_and_three_vote() {
    let two = planned("san", machines(2, &["/lab/power"])).unwrap();
    let ring = written(&two, "n1", "/ring.conf");
    assert!(ring.contains("two_node: 1\n  wait_for_all: 1"), "{ring}");
    let kept = written(&two, "n2", "/cib.xml");
    assert!(
        kept.contains("name=\"priority-fencing-delay\" value=\"3s\""),
        "{kept}"
    );
    assert!(
        kept.contains("index=\"1\" devices=\"fence-n1\"") && !kept.contains("index=\"2\""),
        "{kept}"
    );
    let any = planned("san(prefer=any)", machines(2, &["/lab/power"])).unwrap();
    let kept = written(&any, "n2", "/cib.xml");
    for part in [
        "name=\"priority-fencing-delay\" value=\"0s\"",
        "id=\"fence-n1-pcmk_delay_max\" name=\"pcmk_delay_max\" value=\"6s\"",
    ] {
        assert!(kept.contains(part), "{part} in {kept}");
    }
    let voted = planned("san(witness,token=5s)", machines(3, &["/lab/power"])).unwrap();
    let ring = written(&voted, "n3", "/ring.conf");
    assert!(
        !ring.contains("two_node") && ring.contains("token: 5000"),
        "{ring}"
    );
    let kept = written(&voted, "n3", "/cib.xml");
    for part in [
        "name=\"priority-fencing-delay\" value=\"0s\"",
        "rsc=\"legs\" node=\"n3\" score=\"-INFINITY\"",
        "name=\"clone-max\" value=\"2\"",
        "id=\"fence-n3-command\" name=\"command\" value=\"/lab/power\"",
        "id=\"fence-n3-addresses\" name=\"addresses\" value=\"10.92.1.1 10.92.1.2 10.92.1.3\"",
        "name=\"sure_s\" value=\"28\"",
    ] {
        assert!(kept.contains(part), "{part} in {kept}");
    }
    // A vote is no disk.
    let survives = |proof: &&StackSelfTest| matches!(proof, StackSelfTest::Survives { .. });
    assert_eq!(voted.made.proofs.iter().filter(survives).count(), 2);
    assert!(
        !voted
            .plan
            .steps
            .iter()
            .any(|s| s.node == "n3" && s.apply.to_string().contains("fallocate"))
    );
}

#[test]
fn every_node_has_settings_of_its_own_for_the_same_array() {
    let planned = planned("san(raid=5)", machines(3, &["/lab/power"])).unwrap();
    let of = |node: &str| written(&planned, node, "/settings");
    assert!(
        of("n2").contains("level='5'\n") && of("n2").contains("node=n2\nmark="),
        "{}",
        of("n2")
    );
    let as_third = of("n1").replace("node=n1", "node=n3");
    assert_eq!(as_third.replace("-n1-cluster", "-n3-cluster"), of("n3"));
    let uuid = of("n1")
        .lines()
        .find(|line| line.starts_with("uuid="))
        .map(str::len);
    assert_eq!(uuid, Some("uuid=''".len() + 35));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let two = || machines(2, &["/lab/power"]);
    for (text, place, why) in [
        ("san", StackPlacement::Here, "it needs machines"),
        ("san", machines(2, &[]), "no fence command for n1"),
        ("san(raid=5)", two(), "it needs 3 servers"),
        ("san(raid=5,nodes=2)", two(), "RAID 5"),
        ("san(nodes=5)", two(), "RAID 1"),
        ("san(token=100ms)", two(), "from 1s to 60s"),
        ("san(service=10.92.1.2/24)", two(), "the address of a node"),
        ("san(service=10.92.1.50)", two(), "expected a prefix length"),
        ("san(service=shelf/24)", two(), "expected an IPv4 address"),
    ] {
        let error = planned(text, place).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// The agent, as the cluster calls it.
#[expect(
    clippy::disallowed_methods,
    reason = "a test of the script itself, not of a plan"
)]
fn agent(words: &[&str], parameters: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stacks/san/node/leg");
    let mut command = Command::new("sh");
    command
        .arg(script)
        .args(words)
        .env("OCF_RESKEY_CRM_meta_on_node", "n1");
    for (name, value) in parameters {
        command.env(format!("OCF_RESKEY_{name}"), value);
    }
    command.output().unwrap()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test of the script itself, not of a plan"
)]
fn power_is_cut_by_whose_cable_is_there() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stacks/san/node/fence");
    // The loopback interface always has a carrier, and an address of no interface is ignored: the command
    // runs.
    for addresses in [
        "--addresses=127.0.0.1",
        "--addresses=192.0.2.1",
        "--addresses=",
    ] {
        for (command, code) in [("true", 0), ("false", 1)] {
            let command = format!("--command={command}");
            let words = ["--action=off", "--plug=n2", &command, addresses];
            let cut = Command::new("sh")
                .arg(&script)
                .args(words)
                .output()
                .unwrap();
            assert_eq!(cut.status.code(), Some(code), "{words:?}: {cut:?}");
        }
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test of the script itself, not of a plan"
)]
fn who_has_no_carrier_cuts_nobodys_power() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stacks/san/node/fence");
    // A network of its own, with a cable whose other end is down, then up.
    let world = "mount -t sysfs none /sys && ip link add ours0 type veth peer name end0 \
                 && ip address add 192.0.2.1/24 dev ours0 && ip link set ours0 up || exit 77
        cut() { sh \"$0\" --action=off --plug=n2 --command=true \"--addresses=192.0.2.9 192.0.2.1\"; }
        cut && exit 1
        ip link set end0 up && cut";
    let alone = ["--map-root-user", "--mount", "--net", "sh", "-c", world];
    let tried = Command::new("unshare").args(alone).arg(&script).output();
    let made = tried.as_ref().is_ok_and(|tried| {
        let refused = String::from_utf8_lossy(&tried.stderr).contains("unshare:");
        tried.status.code() != Some(77) && !refused
    });
    if !made {
        let why = "SKIPPED: a pulled cable: no network of its own can be made here";
        writeln!(std::io::stderr(), "{why}").unwrap();
        return;
    }
    let tried = tried.unwrap();
    assert!(tried.status.success(), "{tried:?}");
    let said = String::from_utf8_lossy(&tried.stderr);
    assert_eq!(said.matches("the others decide").count(), 1, "{said}");
}

/// The codes of the resource agent API 1.1.
#[test]
fn the_agent_keeps_to_the_codes_of_its_standard() {
    let code = |words: &[&str]| agent(words, &[]).status.code();
    assert_eq!(code(&["meta-data"]), Some(0));
    assert_eq!(code(&["usage"]), Some(0));
    assert_eq!(code(&["dance"]), Some(3), "unimplemented");
    assert_eq!(code(&[]), Some(2), "no action");
    assert_eq!(code(&["start"]), Some(6), "not configured");
    assert_eq!(code(&["monitor"]), Some(6));
    assert_eq!(
        code(&["stop"]),
        Some(0),
        "what was never configured is stopped"
    );
    let described = String::from_utf8(agent(&["meta-data"], &[]).stdout).unwrap();
    for name in [
        "disks",
        "addresses",
        "iqn",
        "service",
        "serial",
        "uuid",
        "md",
        "sure_s",
        "hold",
        "export",
        "fs",
        "nfs",
    ] {
        assert!(
            described.contains(&format!("<parameter name=\"{name}\"")),
            "{name}"
        );
    }
    for action in [
        "start",
        "stop",
        "promote",
        "demote",
        "monitor",
        "meta-data",
        "validate-all",
    ] {
        assert!(
            described.contains(&format!("<action name=\"{action}\"")),
            "{action}"
        );
    }
}

/// Carries out some lines with the functions of the agent, in which commands of the cluster are functions.
#[expect(
    clippy::disallowed_methods,
    reason = "a test of the script itself, not of a plan"
)]
fn with_agent(lines: &str, parameters: &[(&str, &str)]) -> String {
    let text = include_str!("node/leg");
    let functions = text.split("\ncase $1 in\nmeta-data)").next().unwrap();
    let run = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{functions}\nrun=$0\n{lines}"))
        .arg(run.path())
        .env("OCF_RESKEY_CRM_meta_on_node", "n1");
    for (name, value) in parameters {
        command.env(format!("OCF_RESKEY_{name}"), value);
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

/// Node states in versions of pacemaker: before 2.1.7, and since.
const MEMBERS: [&str; 2] = [
    "<node_state id=\"2\" uname=\"n2\" in_ccm=\"true\" crmd=\"online\" join=\"member\" expected=\"member\"/>",
    "<node_state id=\"2\" uname=\"n2\" in_ccm=\"1700000000\" crmd=\"1700000001\" join=\"member\" expected=\"member\"/>",
];

#[test]
fn the_agent_knows_members_and_who_is_out_in_every_version() {
    let joining = MEMBERS[1].replace("crmd=\"1700000001\"", "crmd=\"0\"");
    let cases = [
        (MEMBERS[0], "0 1"),
        (MEMBERS[1], "0 1"),
        (&joining, "0 0"),
        ("in_ccm=\"false\" crmd=\"offline\" expected=\"down\"", "1 0"),
        ("in_ccm=\"0\" crmd=\"0\" expected=\"down\"", "1 0"),
        (
            "in_ccm=\"false\" crmd=\"offline\" expected=\"member\"",
            "0 0",
        ),
        ("", "0 0"),
    ];
    for (state, expect) in cases {
        let lines = format!("read_state '{state}'; echo $is_out $is_member");
        assert_eq!(with_agent(&lines, &[]).trim(), expect, "{state}");
    }
}

#[test]
fn a_member_is_waited_for_anew_with_every_note() {
    let lines = format!(
        "crm_attribute() {{ :; }}; cibadmin() {{ echo '{}'; }}; notes=
        echo 1 >$run/noted-n2
        may_leave n2 && echo long
        note_stale n2; may_leave n2 || echo anew",
        MEMBERS[0]
    );
    // The machine runs for longer than a second.
    assert_eq!(with_agent(&lines, &[("sure_s", "1")]), "long\nanew\n");
}

#[test]
fn an_array_begins_without_a_leg_only_where_that_is_known_to_be_safe() {
    let begins = |level: &str, prepared: &str| {
        let lines = format!(
            "cibadmin() {{ echo \"$state\"; }}; crm_attribute() {{ echo noted >&2; }}
            runs() {{ [ -e $run/began ]; }}; mdadm() {{ : >$run/began; }}; disk=/dev/own
            join() {{ case $there in *\" $1 \"*) leg=/dev/$1 ;; *) return 1 ;; esac; }}
            state='in_ccm=\"false\" expected=\"down\" admin_epoch=\"1\"'; there=
            {prepared}
            assemble 2>/dev/null && echo began || echo refused"
        );
        let addresses = "n1=192.0.2.1 n2=192.0.2.2 n3=192.0.2.3";
        let parameters = [("addresses", addresses), ("level", level)];
        with_agent(&lines, &parameters).trim().to_owned()
    };
    // The others are fenced, and it has seen them: their notes, if any, are known here.
    assert_eq!(begins("1", ": >$run/met"), "began");
    assert_eq!(begins("1", ""), "refused", "it has seen nobody");
    // Both are here.
    let all = "there=' n2 n3 ' state='in_ccm=\"true\" crmd=\"online\"'";
    assert_eq!(begins("1", all), "began");
    assert_eq!(begins("5", all), "began");
    // An array with parity may lack one leg, and a stale leg counts as missing.
    assert_eq!(begins("5", ": >$run/met"), "refused");
    let rebuilt = "there=' n2 ' state='<node id=\"3\" uname=\"n3\">\n<nvpair name=\"leg-stale\" value=\"1\"'; : >$run/met";
    assert_eq!(begins("5", rebuilt), "began");
    let two_lack = rebuilt.replace(" n2 ", " ");
    assert_eq!(begins("5", &two_lack), "refused");
}

#[test]
fn every_parameter_that_a_plan_sets_is_one_of_the_agent() {
    let described = String::from_utf8(agent(&["meta-data"], &[]).stdout).unwrap();
    for text in ["san", "san(export=nfs)"] {
        let planned = planned(text, machines(2, &["/lab/power"])).unwrap();
        let settings = written(&planned, "n1", "/settings");
        let names = settings
            .lines()
            .find_map(|line| line.strip_prefix("parameters='"))
            .unwrap();
        for name in names.trim_end_matches('\'').split(' ') {
            assert!(
                described.contains(&format!("<parameter name=\"{name}\"")),
                "{name}"
            );
        }
    }
}

#[test]
fn a_file_system_is_exported_instead_of_a_disk_where_that_is_asked() {
    let planned = planned("san(export=nfs,fs=xfs)", machines(2, &["/lab/power"])).unwrap();
    let at = "nfs://10.92.1.200/run/plimsoll-san/export?mountport=20048";
    let made = &planned.made;
    assert_eq!((made.address.as_deref(), &*made.mount_dir), (Some(at), ""));
    assert!(made.description.contains(at), "{}", made.description);
    let settings = written(&planned, "n2", "/settings");
    for part in [
        "make_fs='mkfs.xfs -q -K /dev/md127'",
        "export='nfs'",
        "fs='xfs'",
        "n2=/srv/bench/plimsoll-san-export-nfs-fs-xfs-",
    ] {
        assert!(settings.contains(part), "{part} in {settings}");
    }
    // The machine that made the array is asked before anything is made whether it serves already.
    let script = written(&planned, "n1", "/kernel.sh");
    assert!(script.contains("exportfs"), "{script}");
    // No disk comes here.
    let here = |step: &&PlanStep| step.apply.to_string().contains("qemu-storage-daemon");
    assert_eq!(planned.plan.steps.iter().filter(here).count(), 0);
}

/// Kinds of export that must be known, and scripts that must be there.
#[test]
fn the_agent_refuses_an_export_that_it_does_not_know() {
    let known = [
        ("disks", "n1=/d"),
        ("addresses", "n1=10.0.0.1"),
        ("iqn", "iqn.x"),
        ("service", "10.0.0.9/24"),
        ("serial", "S"),
        ("uuid", "U"),
    ];
    let code = |more: &[(&str, &str)]| {
        let parameters = [&known, more].concat();
        agent(&["validate-all"], &parameters).status.code()
    };
    assert_eq!(code(&[("export", "floppy")]), Some(6));
    assert_eq!(code(&[("export", "nfs")]), Some(6), "no script");
    assert_eq!(
        code(&[("export", "nfs"), ("nfs", "n2=/s")]),
        Some(6),
        "none of this node"
    );
}

#[test]
fn a_second_way_to_cut_power_is_tried_second() {
    let StackPlacement::Inventory(mut inventory) = machines(2, &["/lab/power"]) else {
        unreachable!("they are machines of an inventory");
    };
    for machine in &mut inventory.machines {
        machine.fence_next = vec!["/usr/local/sbin/socket".into(), "rack2".into()];
    }
    let planned = planned("san", StackPlacement::Inventory(inventory)).unwrap();
    let kept = written(&planned, "n1", "/cib.xml");
    for part in [
        "target=\"n2\" index=\"1\" devices=\"fence-n2\"",
        "target=\"n2\" index=\"2\" devices=\"fence-n2-next\"",
        "id=\"fence-n2-next-command\" name=\"command\" value=\"/usr/local/sbin/socket rack2\"",
    ] {
        assert!(kept.contains(part), "{part} in {kept}");
    }
}

#[test]
fn what_is_missing_is_started_and_a_new_machine_gets_everything() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    let StackPlacement::Inventory(mut inventory) = machines(2, &["/lab/power"]) else {
        unreachable!("they are machines of an inventory");
    };
    // The pretended machines are one.
    for machine in &mut inventory.machines {
        machine.dir = format!("/srv/{}", machine.name);
    }
    let options = StackUpOptions {
        place: Some(StackPlacement::Inventory(inventory)),
        ..StackUpOptions::new("/base".into())
    };
    up(
        &StackConfig::parse("san").unwrap(),
        &options,
        &state,
        &mut host,
    )
    .unwrap();
    let mut steps = |verb| {
        let plan = change::planned("san", verb, None, &state, &mut host);
        plan.map(|plan| plan.steps)
            .map_err(|error| error.to_string())
    };
    let rebuilt = steps(StackChange::Rebuild).unwrap();
    for node in ["n1", "n2"] {
        let starts =
            |step: &&PlanStep| step.node == node && matches!(step.apply, PlanAction::Start { .. });
        assert_eq!(rebuilt.iter().filter(starts).count(), 2, "{node}");
    }
    let replaced = steps(StackChange::Replace("n2")).unwrap();
    assert!(replaced.iter().all(|step| step.node == "n2"));
    // Steps of the first machine undo this one too, and nothing before the cluster has ended.
    assert!(replaced.iter().all(|step| step.undo.is_none()));
    // On the node itself the first one fails, and nothing may be removed then.
    assert!(matches!(
        (&replaced[0].apply, &replaced[0].back),
        (PlanAction::Run(_), None)
    ));
    assert!(matches!(
        (&replaced[1].apply, &replaced[1].back),
        (PlanAction::MakeDir(_), Some(PlanAction::RemoveDir(_)))
    ));
    let reserves = |step: &PlanStep| step.apply.to_string().contains("fallocate");
    assert_eq!(replaced.iter().filter(|step| reserves(step)).count(), 1);
    let error = steps(StackChange::Replace("n7")).unwrap_err();
    assert!(
        error.contains("node n7 has no leg") && error.contains("n1, n2"),
        "{error}"
    );
}
