// SPDX-License-Identifier: Apache-2.0
//! The plans of `lustre` as text, and what cannot be asked of it.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommandArg, StackSelfTest};

use crate::fake::FakeHost;
use crate::stacks::manage::{StackPlan, plan};
use crate::stacks::{StackConfig, StackPlacement, StackUpOptions, snapshot};

#[test]
fn the_plans_are_the_committed_ones() {
    let stack = "lustre(mount=/lustre/scratch/,stripe_count=4,stripe_size=4MiB)";
    snapshot::assert_beside!("plan", snapshot::text_of(stack));
    let stack = "lustre(files,nid=10.0.0.5@tcp,stripe_count=0)";
    snapshot::assert_beside!("plan_here", snapshot::text_of(stack));
}

/// A machine that can mount Lustre.
fn able() -> FakeHost {
    let mut host = FakeHost::new();
    host.file_systems.insert("lustre".into());
    host
}

fn planned(
    text: &str,
    place: Option<StackPlacement>,
    host: &mut FakeHost,
) -> Result<StackPlan, String> {
    let choice = StackConfig::parse(text).unwrap();
    let options = StackUpOptions {
        place,
        ..StackUpOptions::new("/var/lib/plimsoll/stacks".into())
    };
    plan(&choice, &options, host).map_err(|error| error.to_string())
}

fn machines() -> Option<StackPlacement> {
    Some(snapshot::machines())
}

#[test]
fn on_machines_each_target_is_made_on_its_own() {
    let planned = planned("lustre(files)", machines(), &mut able()).unwrap();
    let text = snapshot::steps(&planned.plan);
    snapshot::assert_beside!("plan_machines", text);
    // A disk on which a file does not lie has nothing to flush.
    let proofs = &planned.made.proofs;
    assert!(matches!(proofs[..], [StackSelfTest::SecondClient { .. }]));
    let few = planned_error("lustre(files,osts=3)", machines(), &mut able());
    assert!(few.contains("it needs 4 servers"), "{few}");
}

fn planned_error(text: &str, place: Option<StackPlacement>, host: &mut FakeHost) -> String {
    planned(text, place, host).unwrap_err()
}

/// The files that a plan makes, attaches and formats.
fn files_of(plan: &Plan) -> [Vec<String>; 3] {
    let [mut made, mut attached, mut formatted] = [const { Vec::new() }; 3];
    for step in &plan.steps {
        match &step.apply {
            PlanAction::AttachLoop(file) => attached.push(format!("{} {file}", step.node)),
            PlanAction::Run(cmd) => match (&*cmd.program, cmd.args.last()) {
                ("fallocate", Some(PlanCommandArg::Text(file))) => {
                    made.push(format!("{} {file}", step.node));
                }
                (program, Some(last)) if program.starts_with("mkfs") => {
                    let PlanCommandArg::LoopOf(file) = last else {
                        panic!("{cmd} formats something else");
                    };
                    formatted.push(format!("{} {file}", step.node));
                    let words = &cmd.args[..cmd.args.len() - 1];
                    let is_option = |arg: &PlanCommandArg| matches!(arg, PlanCommandArg::Text(text) if text.starts_with("--"));
                    assert!(words.iter().all(is_option), "{cmd}");
                }
                _ => {}
            },
            _ => {}
        }
    }
    [made, attached, formatted]
}

#[test]
fn what_is_formatted_is_a_file_that_the_plan_made() {
    for (text, place) in [
        ("lustre(files,nid=10.0.0.5@tcp,osts=5)", None),
        ("lustre(files)", machines()),
    ] {
        let planned = planned(text, place, &mut able()).unwrap();
        let [made, attached, formatted] = files_of(&planned.plan);
        assert_eq!(formatted.len(), planned.ask.site.servers.len());
        assert_eq!((&made, &attached), (&formatted, &formatted));
        let unique: std::collections::BTreeSet<_> = formatted.iter().collect();
        assert_eq!(unique.len(), formatted.len());
    }
    let [_, _, formatted] = files_of(&snapshot::planned("lustre").plan);
    assert!(
        formatted.is_empty(),
        "of what is mounted nothing is formatted"
    );
}

#[test]
fn two_stacks_have_two_names() {
    let name = |text: &str| {
        let plan = planned(text, None, &mut able()).unwrap().plan;
        let text = snapshot::steps(&plan);
        let (_, rest) = text.split_once("--fsname=").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    };
    let one = name("lustre(files,nid=10.0.0.5@tcp)");
    assert!(one.len() <= 8 && one.starts_with("pl"), "{one}");
    assert_ne!(one, name("lustre(files,nid=10.0.0.5@tcp,osts=3)"));
}

#[test]
fn all_targets_are_asked_for_by_none() {
    let made = snapshot::planned("lustre(stripe_count=0)");
    assert!(made.made.description.contains("all storage targets"));
    assert!(format!("{:?}", made.plan).contains("\"-1\""));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    for (stack, place, why) in [
        ("lustre(mount=scratch)", None, "absolute"),
        ("lustre(stripe_count=2001)", None, "from 0 to 2000"),
        ("lustre(stripe_size=100KiB)", None, "multiple of 64KiB"),
        ("lustre(stripe_size=4GiB)", None, "expected a size from"),
        ("lustre(osts=3)", None, "osts needs servers=files"),
        ("lustre(files,mount=/x)", None, "needs servers=mounted"),
        ("lustre(files,osts=0)", None, "from 1 to 12"),
        ("lustre(files)", None, "set nid"),
        ("lustre(files,nid=10.0.0.5)", None, "expected an address"),
        ("lustre(files,nid=0@lo)", None, "expected an address"),
        ("lustre(files,nid=127.0.0.1@tcp)", None, "can reach"),
        ("lustre(files,nid=a b@tcp)", None, "expected an address"),
        (
            "lustre(files)",
            Some(StackPlacement::Namespaces),
            "--on here",
        ),
        ("lustre", machines(), "leave out --on"),
    ] {
        let error = planned_error(stack, place, &mut able());
        assert!(error.contains(why), "{stack}: {error}");
    }
}

#[test]
fn what_is_missing_is_said_with_where_it_comes_from() {
    let stack = "lustre(files,nid=10.0.0.5@tcp)";
    let error = planned_error(stack, None, &mut FakeHost::new());
    assert!(error.contains("the kernel cannot mount lustre"), "{error}");
    for (program, package) in [
        ("mkfs.lustre", "lustre-server-utils"),
        ("lctl", "lustre-client-utils"),
    ] {
        let mut host = able();
        host.missing.insert(program.into());
        let error = planned_error(stack, None, &mut host);
        let expect = format!("{program} is missing: Debian has no Lustre");
        assert!(error.contains(&expect), "{error}");
        assert!(error.contains(package), "{error}");
    }
}
