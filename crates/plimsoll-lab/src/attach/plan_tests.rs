// SPDX-License-Identifier: Apache-2.0
//! The plans of attached disks as text, and their undoing on a pretended machine.

use super::{RemoteDiskAddress, RemoteDiskAttachment, check, peer};
use crate::fake::FakeHost;
use crate::stacks::snapshot;
use std::fmt::Write as _;

fn attachment(text: &str) -> RemoteDiskAttachment {
    let address: RemoteDiskAddress = text.parse().unwrap();
    let peer = peer(&address).unwrap();
    RemoteDiskAttachment::of(&address, &peer, "/base/plimsoll-example-1", "example-1")
}

#[test]
fn the_plans_are_the_committed_ones() {
    let mut text = String::new();
    for address in [
        "iscsi://joe@127.0.0.1/iqn.2001-04.com.example:disk/1?secret_file=/etc/chap&sectors=4096",
        "nbd://[::1]:9/export",
        "nbd+unix:///?socket=/run/nbd.sock",
    ] {
        let steps = snapshot::steps(&attachment(address).plan);
        writeln!(text, "{address}\n{steps}").unwrap();
    }
    snapshot::assert_beside!("plan", text);
}

#[test]
fn what_is_missing_is_said_before_anything_is_tried() {
    let address: RemoteDiskAddress = "iscsi://a@h/iqn.a/1?secret_file=/s".parse().unwrap();
    let mut host = FakeHost::new();
    host.missing.insert("nbdfuse".into());
    host.missing.insert("/s".into());
    let unmet = check(&address, &host).unwrap_err();
    assert!(unmet.0[0].contains("nbdfuse is missing"), "{unmet}");
    assert!(unmet.0[1].contains("no /s"), "{unmet}");
}
