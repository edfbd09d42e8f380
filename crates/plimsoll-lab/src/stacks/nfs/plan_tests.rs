// SPDX-License-Identifier: Apache-2.0
//! The plans of `nfs` as text, and what cannot be planned.

use crate::fake::FakeHost;
use crate::stacks::manage::plan;
use crate::stacks::{StackConfig, StackPlacement, StackUpOptions, snapshot};
use plimsoll_core::fault::FaultKind;

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::assert_beside!("plan", snapshot::text_of("nfs"));
}

fn planned(
    text: &str,
    file_systems: &[&str],
    place: Option<StackPlacement>,
) -> Result<String, String> {
    let choice = StackConfig::parse(text).unwrap();
    let options = StackUpOptions {
        place,
        ..StackUpOptions::new("/var/lib/plimsoll/stacks".into())
    };
    let mut host = FakeHost::new();
    host.file_systems = file_systems.iter().map(ToString::to_string).collect();
    let planned = plan(&choice, &options, &mut host).map_err(|error| error.to_string())?;
    let steps = planned.plan.steps.iter();
    let steps: Vec<String> = steps.map(|step| step.apply.to_string()).collect();
    Ok(format!("{}\n{}", planned.made.place(), steps.join("\n")))
}

#[test]
fn a_kernel_that_can_mounts_the_export() {
    for (text, expect) in [
        ("nfs", "vers=3,"),
        ("nfs(version=4)", "vers=4,"),
        ("nfs(sync)", "nolock,sync "),
        ("nfs(client=kernel,transfer=64k)", "rsize=65536,wsize=65536"),
    ] {
        let plan = planned(text, &["nfs"], None).unwrap();
        assert!(plan.contains(expect), "{plan}");
        assert!(plan.lines().next().unwrap().ends_with("/mnt"), "{plan}");
    }
}

#[test]
fn elsewhere_there_is_an_address() {
    for (text, file_systems, expect) in [
        ("nfs", &[][..], "/export?mountport=20048"),
        ("nfs(client=own)", &["nfs"], "/export?mountport=20048"),
        ("nfs(sync)", &[], "/export?mountport=20048&sync"),
    ] {
        let plan = planned(text, file_systems, None).unwrap();
        let place = plan.lines().next().unwrap();
        assert!(place.starts_with("nfs://10.92."), "{place}");
        assert!(place.ends_with(expect), "{place}");
        assert!(!plan.contains("mount -t"), "{plan}");
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_is_done() {
    for (text, place, expect) in [
        (
            "nfs(version=4)",
            None,
            "version 4 needs the kernel's client",
        ),
        ("nfs(client=kernel)", None, "this kernel has no NFS client"),
        ("nfs(version=4,client=own)", None, "version 3 only"),
        ("nfs(transfer=2m)", None, "transfer"),
        ("nfs", Some(StackPlacement::Here), "--on netns"),
        ("nfs(async)", None, "async needs server=knfsd"),
        ("nfs(server=knfsd)", None, "--on FILE"),
    ] {
        let error = planned(text, &[], place).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
    }
}

#[test]
fn a_kernel_serves_on_a_machine_of_its_own() {
    let text = "nfs(server=knfsd)";
    let planned = snapshot::planned_on_machines(text, &[]).unwrap();
    let steps = snapshot::steps(&planned.plan);
    snapshot::assert_beside!("plan_knfsd", steps.replace(&planned.id, "example-1"));
    let made = &planned.made;
    assert_eq!(
        made.address.as_deref(),
        Some("nfs://10.0.0.1/srv/bench/plimsoll-nfs-server-knfsd-8fee/export?mountport=20048")
    );
    assert!(made.description.contains("a machine's kernel"), "{made:?}");
    for (text, expect) in [
        (
            "nfs(server=knfsd,async,transfer=64k)",
            "up /srv/bench/plimsoll-nfs-server-knfsd-",
        ),
        (
            "nfs(server=knfsd,async,transfer=64k)",
            "/export 3 async 65536",
        ),
        ("nfs(server=knfsd,version=4)", "/export 4 sync 1048576"),
        (
            "nfs(server=knfsd,version=4)",
            "10.0.0.1:/srv/bench/plimsoll-nfs-",
        ),
    ] {
        let planned = snapshot::planned_on_machines(text, &["nfs"]).unwrap();
        let steps = snapshot::steps(&planned.plan);
        assert!(steps.contains(expect), "{steps}");
    }
}

#[test]
fn a_kernel_serves_again_after_its_power_was_cut() {
    let mut planned = snapshot::planned_on_machines("nfs(server=knfsd)", &[]).unwrap();
    let site = &mut planned.ask.site;
    site.servers[0].power = vec!["switch".into()];
    let server = &planned.made.servers[0];
    let fault_plan = crate::faults::plan(FaultKind::PowerCut, server, &planned.made, site).unwrap();
    let heal: Vec<String> = fault_plan
        .heal
        .iter()
        .map(|(_, action)| action.to_string())
        .collect();
    let begin = ["switch on", "sh ", "rpcbind -f", "rpc.mountd -F", "sh "];
    assert_eq!(heal.len(), begin.len(), "{heal:?}");
    for (action, begin) in heal.iter().zip(begin) {
        assert!(action.starts_with(begin), "{action}");
    }
    let error = crate::faults::plan(FaultKind::Kill, server, &planned.made, site).unwrap_err();
    assert!(error.to_string().contains("choose power-cut"), "{error}");
}
