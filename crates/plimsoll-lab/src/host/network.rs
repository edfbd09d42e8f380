// SPDX-License-Identifier: Apache-2.0
//! Network namespaces, bridges and the pairs of interfaces between them, made and removed.
//!
//! A namespace is ours by its name, which holds the identifier of the journal; an interface by its
//! alias, which does. Whatever lacks that stays. Nothing else of the network is touched: no route,
//! no rule of a firewall, no forwarding.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::error::HostError;
use super::local::LocalHost;

/// Where the program `ip` keeps names of namespaces.
const NAMES: &str = "/run/netns";

/// How long `ip` may take: it only talks to the kernel.
const LIMIT: Duration = Duration::from_secs(10);

/// The file that a namespace is entered by.
pub(crate) fn namespace_file(name: &str) -> String {
    format!("{NAMES}/{name}")
}

/// Makes a namespace with its loopback interface up.
pub(super) fn make_namespace(host: &LocalHost, id: &str, name: &str) -> Result<(), HostError> {
    check_ours(id, name)?;
    ip(host, id, &["netns", "add", name])?;
    ip(host, id, &["-n", name, "link", "set", "lo", "up"])
}

/// Removes a namespace; fine when absent.
pub(super) fn remove_namespace(host: &LocalHost, id: &str, name: &str) -> Result<(), HostError> {
    check_ours(id, name)?;
    if !Path::new(&namespace_file(name)).exists() {
        return Ok(());
    }
    ip(host, id, &["netns", "delete", name])
}

fn check_ours(id: &str, name: &str) -> Result<(), HostError> {
    if name.contains(id) {
        return Ok(());
    }
    Err(HostError::Refused {
        what: format!("make or remove the namespace {name}"),
        why: format!("its name does not hold {id}, so it is not ours"),
    })
}

/// Makes a bridge with an address.
pub(super) fn make_bridge(
    host: &LocalHost,
    id: &str,
    name: &str,
    address: &str,
) -> Result<(), HostError> {
    let alias = alias(id);
    // The alias comes with the interface: there is no moment in which it is nobody's.
    let made = ip(
        host,
        id,
        &[
            "link", "add", "name", name, "alias", &alias, "type", "bridge",
        ],
    );
    made?;
    ip(host, id, &["address", "add", address, "dev", name])?;
    ip(host, id, &["link", "set", name, "up"])
}

/// Joins a namespace to a bridge.
pub(super) fn join(
    host: &LocalHost,
    id: &str,
    (bridge, link): (&str, &str),
    (namespace, address): (&str, &str),
) -> Result<(), HostError> {
    let alias = alias(id);
    let pair = [
        "link", "add", "name", link, "alias", &alias, "master", bridge, "type", "veth", "peer",
        "name", "eth0", "netns", namespace,
    ];
    ip(host, id, &pair)?;
    ip(host, id, &["link", "set", link, "up"])?;
    ip(
        host,
        id,
        &["-n", namespace, "address", "add", address, "dev", "eth0"],
    )?;
    ip(host, id, &["-n", namespace, "link", "set", "eth0", "up"])
}

/// Removes an interface of ours; fine when absent.
pub(super) fn remove_link(host: &LocalHost, id: &str, name: &str) -> Result<(), HostError> {
    let place = Path::new("/sys/class/net").join(name);
    if !place.exists() {
        return Ok(());
    }
    let found = fs::read_to_string(place.join("ifalias")).unwrap_or_default();
    if found.trim() != alias(id) {
        return Err(HostError::Refused {
            what: format!("remove the interface {name}"),
            why: format!("its alias does not name {id}, so it is not ours"),
        });
    }
    ip(host, id, &["link", "delete", name])
}

fn alias(id: &str) -> String {
    format!("plimsoll-{id}")
}

fn ip(host: &LocalHost, id: &str, args: &[&str]) -> Result<(), HostError> {
    host.helper_of(id, "ip", args, LIMIT).map(|_| ())
}

/// Third numbers of the networks `10.92.N.0/24` that some interface or route of this machine has.
#[must_use]
pub(crate) fn networks_in_use() -> Vec<u8> {
    // The table gives networks as hexadecimal numbers in the order of bytes of the machine.
    let table = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let destination = |line: &str| {
        let field = line.split_whitespace().nth(1)?;
        let [a, b, c, _] = u32::from_str_radix(field, 16).ok()?.to_ne_bytes();
        (a == 10 && b == 92).then_some(c)
    };
    table.lines().filter_map(destination).collect()
}
