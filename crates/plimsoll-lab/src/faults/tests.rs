// SPDX-License-Identifier: Apache-2.0
//! What is planned for which fault on which provider.

use super::*;

fn node(name: &str, reach: Reach, address: &str) -> Node {
    Node {
        name: name.into(),
        reach,
        address: address.into(),
        dir: "/lab".into(),
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 0,
        power: Vec::new(),
        fence: Vec::new(),
    }
}

fn server(number: u8) -> Server {
    Server {
        name: format!("n{number}"),
        node: format!("n{number}"),
        marks: vec![format!("mark{number}")],
    }
}

fn stop(mark: &str) -> Action {
    Action::Stop { mark: mark.into() }
}

/// Two servers; losing n1 takes something here with it.
fn ground(reach: impl Fn(u8) -> Reach) -> (Made, Site) {
    let made = Made {
        mount_dir: "/lab/mnt".into(),
        servers: vec![server(1), server(2)],
        proofs: vec![Proof::Survives {
            node: "n1".into(),
            lose: vec![("n1".into(), stop("mark1")), (HERE.into(), stop("client1"))],
            restore: vec![("n1".into(), Action::MakeDir("back".into()))],
        }],
        ..Made::default()
    };
    let site = Site {
        client: node(HERE, Reach::Here, "10.92.7.254"),
        servers: vec![
            node("n1", reach(1), "10.92.7.1"),
            node("n2", reach(2), "10.92.7.2"),
        ],
    };
    (made, site)
}

fn namespaces() -> (Made, Site) {
    ground(|n| Reach::Namespace(format!("plimsoll-id-n{n}")))
}

#[test]
fn killing_spares_the_others_and_healing_begins_with_what_is_left() {
    let (made, site) = namespaces();
    let blow = plan(Fault::Kill, &server(1), &made, &site).unwrap();
    let kill = Action::Kill {
        mark: "mark1".into(),
    };
    assert_eq!(blow.strike, [("n1".to_owned(), kill)]);
    let heal: Vec<String> = blow.heal.iter().map(|(_, a)| a.to_string()).collect();
    assert_eq!(
        heal,
        [
            "end the processes marked mark1",
            "end the processes marked client1",
            "mkdir back"
        ]
    );
    assert!(!blow.ends_sessions(&made));
}

#[test]
fn a_server_that_nothing_replaces_is_not_killed() {
    let (made, site) = namespaces();
    for fault in [Fault::Kill, Fault::Stop] {
        let error = plan(fault, &server(2), &made, &site).unwrap_err();
        assert!(error.to_string().contains("nothing takes the place of n2"));
    }
    // It may stand still: it brings itself back.
    let blow = plan(Fault::Slow, &server(2), &made, &site).unwrap();
    assert_eq!(blow.beat, Some(SLOW));
}

#[test]
fn links_are_those_of_the_nodes_and_only_namespaces_have_them() {
    let (made, site) = namespaces();
    let blow = plan(Fault::LinkDown, &server(2), &made, &site).unwrap();
    let shown = |list: &[(String, Action)]| -> Vec<String> {
        list.iter()
            .map(|(at, action)| format!("{at}: {action}"))
            .collect()
    };
    assert_eq!(shown(&blow.strike), ["here: ip link set plimsoll7n2 down"]);
    assert_eq!(shown(&blow.heal), ["here: ip link set plimsoll7n2 up"]);
    let deaf = plan(Fault::OneWay, &server(2), &made, &site).unwrap();
    assert_eq!(
        shown(&deaf.strike),
        [
            "n2: ip route add blackhole 10.92.7.1",
            "n2: ip route add blackhole 10.92.7.254"
        ]
    );
    let (made, site) = ground(|_| Reach::Here);
    for fault in [Fault::LinkDown, Fault::OneWay, Fault::Flap] {
        let error = plan(fault, &server(2), &made, &site).unwrap_err();
        assert!(error.to_string().contains("--on netns"), "{error}");
    }
}

#[test]
fn power_is_cut_where_a_command_for_it_is_named() {
    let (made, mut site) = ground(|_| Reach::Agent(vec!["ssh".into()]));
    let error = plan(Fault::PowerCut, &server(1), &made, &site).unwrap_err();
    assert!(error.to_string().contains("power = [...]"), "{error}");
    site.servers[0].power = vec!["switch".into(), "n1".into()];
    let blow = plan(Fault::PowerCut, &server(1), &made, &site).unwrap();
    assert_eq!(blow.strike[0].1.to_string(), "switch n1 off");
    let heal: Vec<String> = blow.heal.iter().map(|(_, a)| a.to_string()).collect();
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
fn healing_that_unmounts_ends_the_sessions() {
    let (mut made, site) = namespaces();
    let Proof::Survives { restore, .. } = &mut made.proofs[0] else {
        panic!("it is the only one");
    };
    restore.insert(0, (HERE.into(), Action::Unmount("/lab/mnt".into())));
    let blow = plan(Fault::Kill, &server(1), &made, &site).unwrap();
    assert!(blow.ends_sessions(&made));
}
