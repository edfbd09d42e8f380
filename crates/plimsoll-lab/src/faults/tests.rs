// SPDX-License-Identifier: Apache-2.0
//! Plans for each fault on each provider.

use plimsoll_core::plan::PlanCommand;

use super::*;

fn node(name: &str, reach: NodeTransport, address: &str) -> PlanNode {
    PlanNode {
        name: name.into(),
        reach,
        address: address.into(),
        dir: "/lab".into(),
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 0,
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
    }
}

fn server(number: u8) -> StackServer {
    StackServer {
        name: format!("n{number}"),
        node: format!("n{number}"),
        marks: vec![format!("mark{number}")],
        asked: None,
        restore: Vec::new(),
    }
}

fn stop(mark: &str) -> PlanAction {
    PlanAction::Stop { mark: mark.into() }
}

/// Two servers; losing n1 takes something here with it.
fn ground(reach: impl Fn(u8) -> NodeTransport) -> (StackOutputs, StackNodes) {
    let made = StackOutputs {
        mount_dir: "/lab/mnt".into(),
        servers: vec![server(1), server(2)],
        proofs: vec![StackSelfTest::Survives {
            node: "n1".into(),
            lose: vec![("n1".into(), stop("mark1")), (HERE.into(), stop("client1"))],
            restore: vec![("n1".into(), PlanAction::MakeDir("back".into()))],
        }],
        ..StackOutputs::default()
    };
    let site = StackNodes {
        client: node(HERE, NodeTransport::Here, "10.92.7.254"),
        servers: vec![
            node("n1", reach(1), "10.92.7.1"),
            node("n2", reach(2), "10.92.7.2"),
        ],
    };
    (made, site)
}

fn namespaces() -> (StackOutputs, StackNodes) {
    ground(|n| NodeTransport::Namespace(format!("plimsoll-id-n{n}")))
}

#[test]
fn killing_spares_the_others_and_healing_begins_with_what_is_left() {
    let (made, site) = namespaces();
    let fault_plan = plan(FaultKind::Kill, &server(1), &made, &site).unwrap();
    let kill = PlanAction::Kill {
        mark: "mark1".into(),
    };
    assert_eq!(fault_plan.inject, [("n1".to_owned(), kill)]);
    let heal: Vec<String> = fault_plan.heal.iter().map(|(_, a)| a.to_string()).collect();
    assert_eq!(
        heal,
        [
            "end the processes marked mark1",
            "end the processes marked client1",
            "mkdir back"
        ]
    );
    assert!(!fault_plan.ends_sessions(&made));
}

#[test]
fn a_server_that_nothing_replaces_is_not_killed() {
    let (made, site) = namespaces();
    for fault in [FaultKind::Kill, FaultKind::Stop] {
        let error = plan(fault, &server(2), &made, &site).unwrap_err();
        assert!(error.to_string().contains("n2 has no standby"));
    }
    // It may stand still: it brings itself back.
    let fault_plan = plan(FaultKind::Slow, &server(2), &made, &site).unwrap();
    assert_eq!(fault_plan.cycle, Some(SLOW));
}

#[test]
fn a_server_that_is_asked_to_end_ends_what_came_last_first() {
    let (made, site) = namespaces();
    let mut one = server(1);
    one.marks.push("second".into());
    let fault_plan = plan(FaultKind::Stop, &one, &made, &site).unwrap();
    let said: Vec<String> = fault_plan
        .inject
        .iter()
        .map(|(_, a)| a.to_string())
        .collect();
    assert_eq!(
        said,
        [
            "kill -15 the processes marked second, and wait",
            "kill -15 the processes marked mark1, and wait"
        ]
    );
    assert!(fault_plan.takes_processes);
    assert_eq!(fault_plan.felt_from(1, 2, 3), 2, "as soon as it is asked");
    let killed = plan(FaultKind::Kill, &one, &made, &site).unwrap();
    assert_eq!(killed.felt_from(1, 2, 3), 3);
}

#[test]
fn links_are_those_of_the_nodes_and_only_namespaces_have_them() {
    let (made, site) = namespaces();
    let fault_plan = plan(FaultKind::LinkDown, &server(2), &made, &site).unwrap();
    let shown = |list: &[(String, PlanAction)]| -> Vec<String> {
        list.iter()
            .map(|(at, action)| format!("{at}: {action}"))
            .collect()
    };
    assert_eq!(
        shown(&fault_plan.inject),
        ["here: ip link set plimsoll7n2 down"]
    );
    assert_eq!(
        shown(&fault_plan.heal),
        ["here: ip link set plimsoll7n2 up"]
    );
    let deaf = plan(FaultKind::OneWay, &server(2), &made, &site).unwrap();
    assert_eq!(
        shown(&deaf.inject),
        [
            "n2: ip route add blackhole 10.92.7.1",
            "n2: ip route add blackhole 10.92.7.254"
        ]
    );
    let parted = plan(FaultKind::Partition, &server(2), &made, &site).unwrap();
    assert_eq!(
        shown(&parted.inject),
        [
            "n2: ip route add blackhole 10.92.7.1",
            "n1: ip route add blackhole 10.92.7.2"
        ]
    );
    let late = plan(FaultKind::Delay, &server(2), &made, &site).unwrap();
    assert_eq!(
        shown(&late.inject),
        ["n2: tc qdisc replace dev eth0 root netem delay 50ms"]
    );
    // The kernel is asked before anything is done, and what asks it is taken back.
    assert_eq!(shown(&late.trial[1..]), shown(&late.heal));
    let (made, site) = ground(|_| NodeTransport::Here);
    for fault in [
        FaultKind::LinkDown,
        FaultKind::OneWay,
        FaultKind::Flap,
        FaultKind::Partition,
        FaultKind::Delay,
        FaultKind::Loss,
    ] {
        let error = plan(fault, &server(2), &made, &site).unwrap_err();
        assert!(error.to_string().contains("--on netns"), "{error}");
    }
}

#[test]
fn power_is_cut_where_a_command_for_it_is_named() {
    let (made, mut site) = ground(|_| NodeTransport::Agent(vec!["ssh".into()]));
    let error = plan(FaultKind::PowerCut, &server(1), &made, &site).unwrap_err();
    assert!(error.to_string().contains("power = [...]"), "{error}");
    site.servers[0].power = vec!["switch".into(), "n1".into()];
    let fault_plan = plan(FaultKind::PowerCut, &server(1), &made, &site).unwrap();
    assert_eq!(fault_plan.inject[0].1.to_string(), "switch n1 off");
    let heal: Vec<String> = fault_plan.heal.iter().map(|(_, a)| a.to_string()).collect();
    // Its processes went with it: nothing on it is asked to end.
    assert_eq!(
        heal,
        [
            "switch n1 on",
            "end the processes marked client1",
            "mkdir back"
        ]
    );
}

#[test]
fn a_machine_whose_disks_failed_begins_anew_where_its_power_can_be_switched() {
    let (made, mut site) = ground(|_| NodeTransport::Agent(vec!["ssh".into()]));
    site.servers[0].faults = vec!["hurt".into(), "n1".into()];
    let told = |site: &StackNodes| -> Vec<String> {
        let fault_plan = plan(FaultKind::DiskErrors, &server(1), &made, site).unwrap();
        fault_plan.heal.iter().map(|(_, a)| a.to_string()).collect()
    };
    assert_eq!(told(&site), ["hurt n1 disk-errors off"]);
    site.servers[0].power = vec!["switch".into(), "n1".into()];
    assert_eq!(
        told(&site),
        [
            "hurt n1 disk-errors off",
            "switch n1 off",
            "switch n1 on",
            "end the processes marked client1",
            "mkdir back"
        ]
    );
}

#[test]
fn what_serves_alone_is_moved_and_moved_back_once_all_is_whole() {
    let (made, site) = namespaces();
    let error = plan(FaultKind::FailBack, &server(1), &made, &site).unwrap_err();
    assert!(error.to_string().contains("cannot fail over"), "{error}");
    let asked = Some(PlanCommand::new("ask", ["n1"]));
    let server = StackServer { asked, ..server(1) };
    let fault_plan = plan(FaultKind::FailBack, &server, &made, &site).unwrap();
    let told = |actions: &[(String, PlanAction)]| -> Vec<String> {
        actions
            .iter()
            .map(|(_, action)| action.to_string())
            .collect()
    };
    assert_eq!(told(&fault_plan.inject), ["ask n1 switch"]);
    assert_eq!(told(&fault_plan.heal), ["mkdir back", "ask n1 switch"]);
    assert!(fault_plan.is_felt_at_once && !fault_plan.takes_processes);
}

#[test]
fn machines_are_told_by_the_command_that_was_named_for_it() {
    let (made, mut site) = ground(|_| NodeTransport::Agent(vec!["ssh".into()]));
    let all = [
        (FaultKind::LinkDown, "a link of its own"),
        (FaultKind::DiskHung, "a disk of its own"),
        (FaultKind::ClockStep, "a clock of its own"),
    ];
    for (fault, why) in all {
        let error = plan(fault, &server(1), &made, &site).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    site.servers[0].faults = vec!["hurt".into(), "n1".into()];
    for (fault, _) in all {
        let fault_plan = plan(fault, &server(1), &made, &site).unwrap();
        let [(at, tried)] = &fault_plan.trial[..] else {
            panic!("one command tells: {fault_plan:?}");
        };
        assert_eq!(
            (at.as_str(), tried.to_string()),
            (HERE, format!("hurt n1 {fault} try"))
        );
        assert_eq!(
            fault_plan.inject[0].1.to_string(),
            format!("hurt n1 {fault} on")
        );
        assert_eq!(
            fault_plan.heal[0].1.to_string(),
            format!("hurt n1 {fault} off")
        );
        assert!(!fault_plan.takes_processes);
    }
    site.servers[1].faults = vec!["hurt".into(), "n2".into()];
    let flap = plan(FaultKind::Flap, &server(2), &made, &site).unwrap();
    assert_eq!(flap.cycle, Some(FLAP));
}

#[test]
fn malformed_messages_are_others_each_time_and_tried_by_sending_none() {
    let (made, site) = namespaces();
    let mut fault_plan = plan(FaultKind::Malformed, &server(1), &made, &site).unwrap();
    let what = fault_plan.trial[0].1.to_string();
    assert!(what.starts_with("send 0 malformed messages"), "{what}");
    let before = fault_plan.inject.clone();
    fault_plan.vary();
    assert_ne!(fault_plan.inject, before);
    assert!(fault_plan.heal.is_empty());
}

#[test]
fn the_second_server_is_lost_when_the_first_has_just_come_back() {
    let (mut made, site) = namespaces();
    let error = plan(FaultKind::Double, &server(1), &made, &site).unwrap_err();
    assert!(error.to_string().contains("n2 has no standby"));
    made.proofs.push(StackSelfTest::Survives {
        node: "n2".into(),
        lose: vec![("n2".into(), stop("mark2"))],
        restore: vec![("n2".into(), PlanAction::MakeDir("again".into()))],
    });
    let fault_plan = plan(FaultKind::Double, &server(1), &made, &site).unwrap();
    let said = |list: &[(String, PlanAction)]| -> Vec<String> {
        list.iter().map(|(_, action)| action.to_string()).collect()
    };
    assert_eq!(
        said(&fault_plan.first),
        ["kill -9 the processes marked mark1"]
    );
    assert_eq!(
        fault_plan.felt_from(1, 2, 3),
        1,
        "the first loss is part of it"
    );
    let inject = said(&fault_plan.inject);
    assert_eq!(
        inject[inject.len() - 2..],
        ["mkdir back", "kill -9 the processes marked mark2"]
    );
    assert_eq!(said(&fault_plan.heal)[1..], ["mkdir again"]);
    // An action that only waits would outlast the state that the second loss is to meet.
    let StackSelfTest::Survives { restore, .. } = &mut made.proofs[0] else {
        panic!("it is the first");
    };
    restore.push((
        "n1".into(),
        PlanAction::Await(PlanCommand::new("whole", [""; 0])),
    ));
    let fault_plan = plan(FaultKind::Double, &server(1), &made, &site).unwrap();
    assert_eq!(said(&fault_plan.inject), inject);
    assert_eq!(said(&fault_plan.heal)[1], "mkdir again");
    assert!(matches!(
        fault_plan.heal.last(),
        Some((_, PlanAction::Await(_)))
    ));
    // Where the second was not lost, the first may not be back.
    let halfway = said(&fault_plan.halfway);
    assert!(halfway.contains(&"mkdir back".into()) && halfway.ends_with(&["mkdir again".into()]));
    made.servers.pop();
    let error = plan(FaultKind::Double, &server(1), &made, &site).unwrap_err();
    assert!(error.to_string().contains("the only server"), "{error}");
}

#[test]
fn healing_that_unmounts_ends_the_sessions() {
    let (mut made, site) = namespaces();
    let StackSelfTest::Survives { restore, .. } = &mut made.proofs[0] else {
        panic!("it is the only one");
    };
    restore.insert(0, (HERE.into(), PlanAction::Unmount("/lab/mnt".into())));
    let fault_plan = plan(FaultKind::Kill, &server(1), &made, &site).unwrap();
    assert!(fault_plan.ends_sessions(&made));
}

#[test]
fn servers_that_cut_each_others_power_are_all_brought_back() {
    let (mut made, mut site) = ground(|_| NodeTransport::Agent(vec!["ssh".into()]));
    made.fences = true;
    let second = StackSelfTest::Survives {
        node: "n2".into(),
        lose: vec![("n2".into(), stop("mark2"))],
        restore: vec![("n2".into(), PlanAction::MakeDir("again".into()))],
    };
    made.proofs.push(second);
    for node in &mut site.servers {
        node.power = vec!["switch".into(), node.name.clone()];
        node.faults = vec!["hurt".into(), node.name.clone()];
    }
    // It is there again when the second one is, which is brought back after it.
    let StackSelfTest::Survives { restore, .. } = &mut made.proofs[0] else {
        panic!("it is the first");
    };
    restore.push((
        "n1".into(),
        PlanAction::Await(PlanCommand::new("whole", [""; 0])),
    ));
    let text = |actions: &[(String, PlanAction)]| -> Vec<String> {
        actions.iter().map(|(at, a)| format!("{at}: {a}")).collect()
    };
    let all = ["here: switch n1 on", "here: switch n2 on"];
    let back = ["n1: mkdir back", "n2: mkdir again", "n1: wait for 'whole'"];
    let fault_plan = plan(FaultKind::Partition, &server(1), &made, &site).unwrap();
    assert!(fault_plan.takes_processes);
    let heal = text(&fault_plan.heal);
    // The server that lost the fencing race is off: its power comes first, and the power cut has already
    // undone the actions on it.
    assert!(heal[..2] == all && heal[3..] == back, "{heal:?}");
    // A fault that comes and goes is healed often, and the servers are brought back once.
    let fault_plan = plan(FaultKind::Flap, &server(1), &made, &site).unwrap();
    assert_eq!(
        (fault_plan.heal.len(), text(&fault_plan.after).len()),
        (1, 6)
    );
    assert_eq!(
        text(&fault_plan.after)[2],
        text(&fault_plan.heal)[0],
        "it may have had no power"
    );
    let fault_plan = plan(FaultKind::PowerCut, &server(2), &made, &site).unwrap();
    let heal = text(&fault_plan.heal);
    assert!(
        heal.iter()
            .all(|action| !action.contains("end the processes")),
        "{heal:?}"
    );
}

#[test]
fn a_server_that_others_gave_up_is_brought_back_and_no_other() {
    use crate::fake::FakeHost;
    let (mut made, _) = namespaces();
    let StackSelfTest::Survives { lose, restore, .. } = &mut made.proofs[0] else {
        panic!("it is the only one");
    };
    lose[0].0 = HERE.into();
    restore[0].0 = HERE.into();
    let mut hosts = FakeHost::new();
    hosts.state.marks.insert("mark1".into());
    let heal = given_up(&server(1), &made, &mut hosts).unwrap();
    assert_eq!(heal.len(), 3, "its client is gone: {heal:?}");
    hosts.state.marks.insert("client1".into());
    assert!(given_up(&server(1), &made, &mut hosts).unwrap().is_empty());
    assert!(given_up(&server(2), &made, &mut hosts).unwrap().is_empty());
}
