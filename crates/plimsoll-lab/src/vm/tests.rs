// SPDX-License-Identifier: Apache-2.0
//! Plans of machines against committed text, and limits.

use super::*;
use crate::fake::FakeHost;
use crate::stacks::snapshot;

fn wanted() -> VmGroupSpec {
    VmGroupSpec {
        nodes: 1,
        clients: 1,
        memory_bytes: 640 << 20,
        disk_bytes: 1 << 30,
        disks: 2,
    }
}

fn planned(wanted: &VmGroupSpec) -> plan::VmGroupPlan<'_> {
    let commands = VmCommandTemplate {
        program: ["/bin/plimsoll", "vm"].map(String::from).into(),
        options: Vec::new(),
    };
    plan::VmGroupPlan::new(
        wanted,
        ("vm-1", "/state/machines", 7),
        VmNetworkKind::Bridge,
        &commands,
    )
}

#[test]
fn without_root_machines_are_joined_among_themselves() {
    let wanted = wanted();
    let commands = VmCommandTemplate {
        program: Vec::new(),
        options: Vec::new(),
    };
    let steps_of = |id| {
        let place = (id, "/state/machines", 7);
        let planned = plan::VmGroupPlan::new(&wanted, place, VmNetworkKind::Group, &commands);
        let steps = planned.steps("/image", VmAcceleration::Emulation).steps;
        steps
            .iter()
            .map(|step| step.apply.to_string())
            .collect::<Vec<_>>()
    };
    let group_of = |line: &str| -> Option<String> {
        let (_, rest) = line.split_once("-netdev socket,mcast=")?;
        Some(rest.split_once(',')?.0.to_owned())
    };
    let steps = steps_of("vm-1");
    let groups: Vec<String> = steps.iter().filter_map(|line| group_of(line)).collect();
    assert_eq!(groups.len(), 2, "{steps:#?}");
    assert_eq!(groups[0], groups[1]);
    let (address, port) = groups[0].split_once(':').unwrap();
    assert!(address.starts_with("239.192."), "{address}");
    assert!((20_000..40_000).contains(&port.parse::<u16>().unwrap()));
    // Two sets of machines do not hear each other.
    let others = steps_of("vm-2");
    let other = others.iter().find_map(|line| group_of(line)).unwrap();
    assert_ne!(other, groups[0]);
    let needs_root = |line: &&String| line.contains("bridge") || line.contains("ip link");
    assert_eq!(steps.iter().filter(needs_root).count(), 0, "{steps:#?}");
}

#[test]
fn machines_are_made_by_these_steps() {
    let wanted = wanted();
    let steps = planned(&wanted).steps("/state/images/abc", VmAcceleration::Emulation);
    let text = snapshot::steps(&steps);
    // Options of QEMU with their values, one a line.
    let lines = text.lines().map(|line| match line.contains(machine::QEMU) {
        true => line.replace(" -", "\n          -") + "\n",
        false => format!("{line}\n"),
    });
    let text: String = lines.collect();
    snapshot::assert_beside!("plan", text);
}

#[test]
fn a_probe_is_a_machine_without_anything() {
    let cmd = machine::probe(VmAcceleration::Kvm, "/image", "/console");
    let expect = "qemu-system-x86_64 -machine q35 -accel kvm -cpu host -smp 1 -m 128 -nodefaults \
        -no-user-config -display none -no-reboot \
        -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny -kernel /image/vmlinuz -initrd /image/initrd \
        -append 'console=ttyS0 quiet panic=-1 plimsoll.probe' -serial file:/console";
    assert_eq!(cmd.to_string(), expect);
}

#[test]
fn nodes_and_clients_have_names_and_addresses_of_their_own() {
    let wanted = VmGroupSpec {
        nodes: 2,
        clients: 2,
        ..wanted()
    };
    let nodes = planned(&wanted).nodes;
    let all: Vec<String> = nodes
        .iter()
        .map(|node| format!("{} {}", node.name, node.address))
        .collect();
    assert_eq!(
        all,
        [
            "n1 10.92.7.1",
            "n2 10.92.7.2",
            "c1 10.92.7.101",
            "c2 10.92.7.102"
        ]
    );
    let words = ["/bin/plimsoll", "vm", "shell", "c2"].map(String::from);
    assert_eq!(
        nodes[3].reach,
        plimsoll_core::plan::NodeTransport::Agent(words.into())
    );
}

#[test]
fn only_the_steps_of_one_machine_start_it_again() {
    let wanted = wanted();
    let steps = planned(&wanted).steps("/image", VmAcceleration::Kvm).steps;
    let again = steps.iter().filter(|step| plan::starts(step, "c1"));
    let again: Vec<&str> = again.map(|step| &*step.why).collect();
    let expect = [
        "start machine c1",
        "wait until machine c1 is ready",
        "check that machine c1 is ready",
    ];
    assert_eq!(again, expect);
}

#[test]
fn what_cannot_be_made_is_refused() {
    wanted().check().unwrap();
    let refused = |change: fn(&mut VmGroupSpec), expect: &str| {
        let mut wanted = wanted();
        change(&mut wanted);
        let error = wanted.check().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    refused(|w| (w.nodes, w.clients) = (0, 0), "at least one");
    refused(|w| w.nodes = 21, "too many");
    refused(|w| w.memory_bytes = 1 << 20, "--memory");
    refused(|w| w.disk_bytes = 1 << 20, "--disk");
    refused(|w| w.disks = 9, "--disks");
    plan::check_dir("/var/lib/plimsoll/plimsoll-machines").unwrap();
    for dir in ["/a,b", &"/long".repeat(20)] {
        let error = plan::check_dir(dir).unwrap_err().to_string();
        assert!(error.contains("PLIMSOLL_STATE"), "{error}");
    }
}

#[test]
fn memory_is_read_as_the_kernel_tells_it() {
    let told = "MemTotal:       100 kB\nMemAvailable:      2048 kB\n";
    assert_eq!(available_bytes(told), Some(2 << 20));
    assert_eq!(available_bytes("MemTotal: 1 kB\n"), None);
    let wanted = VmGroupSpec {
        memory_bytes: 1 << 50,
        ..wanted()
    };
    let error = check_memory(&wanted).unwrap_err().to_string();
    assert!(error.contains("are available"), "{error}");
}

#[test]
fn without_qemu_or_machines_the_error_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    host.missing.insert(machine::QEMU.into());
    let error = check(&wanted(), &state, &host).unwrap_err().to_string();
    assert!(error.contains("apt-get install qemu-system-x86"), "{error}");
    for error in [
        VmGroup::find(&state, &host.clock).unwrap_err(),
        down(&state, &mut host).unwrap_err(),
    ] {
        assert!(error.to_string().contains("vm up"), "{error}");
    }
}

#[test]
fn machines_that_a_stack_has_a_part_on_stay() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    let wanted = wanted();
    let header = |kind: JournalScope, nodes: Vec<PlanNode>| JournalHeader {
        kind,
        nodes,
        ..image::run_header("t", "t", &FakeHost::new())
    };
    let nodes = planned(&wanted).nodes;
    let run = JournalScope::Run("r".into());
    let user = Journal::create(&state, header(run, nodes[1..].to_vec())).unwrap();
    let machines = Journal::create(&state, header(JournalScope::Machines, nodes)).unwrap();
    // Whatever is razed goes in this order.
    let files = state.journal_files().unwrap();
    assert_eq!(files, [user.path(), machines.path()]);
    let error = down(&state, &mut host).unwrap_err().to_string();
    assert!(error.starts_with("run 'r' has a part on them"), "{error}");
    user.remove().unwrap();
    check_unused(&state).unwrap();
}
