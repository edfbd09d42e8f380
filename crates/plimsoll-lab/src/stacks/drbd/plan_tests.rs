// SPDX-License-Identifier: Apache-2.0
//! The plan of `drbd` as text, and what brings its halves back.

use crate::faults;
use crate::stacks::snapshot;
use plimsoll_core::fault::FaultKind;

#[test]
fn the_plan_is_the_committed_one() {
    let planned = snapshot::planned_on_machines("drbd", &[]).unwrap();
    let steps = snapshot::steps(&planned.plan).replace(&planned.id, "example-1");
    snapshot::assert_beside!("plan", steps);
    let place = "nfs://10.0.0.1/srv/bench/plimsoll-drbd/export?mountport=20048";
    assert_eq!(planned.made.place(), place);
}

#[test]
fn it_goes_on_without_the_second_machine_alone_and_both_come_back() {
    let mut planned = snapshot::planned_on_machines("drbd", &[]).unwrap();
    let (site, made) = (&mut planned.ask.site, &planned.made);
    for node in &mut site.servers {
        node.power = vec!["switch".into(), node.name.clone()];
    }
    let heal = |number: usize| -> Vec<String> {
        let fault_plan =
            faults::plan(FaultKind::PowerCut, &made.servers[number], made, site).unwrap();
        let heal = fault_plan.heal.iter();
        heal.map(|(on, action)| format!("{on}: {action}")).collect()
    };
    assert!(!faults::is_survivable("n1", made));
    assert!(faults::is_survivable("n2", made));
    let second = heal(1);
    assert_eq!(second[0], "here: switch n2 on");
    assert!(
        second[1..].iter().all(|text| text.starts_with("n2: ")),
        "{second:?}"
    );
    assert!(
        second.last().unwrap().contains("drbd.sh whole"),
        "{second:?}"
    );
    // A half that met the other again knows which of them is newer; only then it may be used.
    let first = heal(0);
    let place = |word: &str| first.iter().position(|text| text.contains(word)).unwrap();
    let order = [
        "losetup",
        "drbd.sh up",
        "drbd.sh met",
        "drbd.sh primary",
        "mount -t ext4",
    ];
    let places = order.map(place);
    assert!(places.is_sorted(), "{first:?}");
    assert!(places[4] < place("kernel.sh up"), "{first:?}");
}
