// SPDX-License-Identifier: Apache-2.0
//! The plans of `nfs` as text, and what cannot be planned.

use crate::host::FakeHost;
use crate::stacks::manage::plan;
use crate::stacks::{Choice, Options, Place, snapshot};

#[test]
fn the_plan_is_the_committed_one() {
    snapshot::check("nfs", "nfs", "plan.txt");
}

fn planned(text: &str, file_systems: &[&str], place: Option<Place>) -> Result<String, String> {
    let choice = Choice::parse(text).unwrap();
    let options = Options {
        place,
        ..Options::new("/var/lib/plimsoll/stacks".into())
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
        ("nfs", Some(Place::Here), "--on netns"),
    ] {
        let error = planned(text, &[], place).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
    }
}
