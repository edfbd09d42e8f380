// SPDX-License-Identifier: Apache-2.0
//! Network namespaces, bridges and the pairs of interfaces between them, made and removed.
//!
//! A namespace is ours by its name, which holds the identifier of the journal; an interface by its hardware
//! address, which is made from that and its name: of all marks an interface can have, the kernel gives it
//! this one in the moment it makes it. Whatever lacks it stays.
//!
//! A table of nftables with the name of a bridge closes its network: sockets of root of this machine send
//! into it, and nothing else does, neither of other users, however they are bound, nor of other networks.
//! Nothing else of the firewall is touched.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
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
        why: format!("its name does not contain {id}, so it is not ours"),
    })
}

/// Makes a bridge with an address, closed to all but root before it has one. The bridge comes first: making
/// it fails where the name is taken, so the table of that name is ours.
pub(super) fn make_bridge(
    host: &LocalHost,
    id: &str,
    name: &str,
    address: &str,
) -> Result<(), HostError> {
    let mark = mark(id, name);
    let make = [
        "link", "add", "name", name, "address", &mark, "type", "bridge",
    ];
    ip(host, id, &make)?;
    nft(host, id, &wall(name))?;
    ip(host, id, &["address", "add", address, "dev", name])?;
    ip(host, id, &["link", "set", name, "up"])
}

/// The rules that close the network of a bridge. Rules of routing would not: a socket that is bound to the
/// bridge passes them, as broadcasts and IPv6 do. Packets of the kernel itself (its answers, its NFS client)
/// go out.
fn wall(bridge: &str) -> String {
    format!(
        r#"table inet {bridge} {{
 chain sent {{
  type filter hook output priority 0
  oifname "{bridge}" meta skuid != 0 reject
 }}
 chain passed {{
  type filter hook forward priority 0
  oifname "{bridge}" iifname != "{bridge}" drop
  iifname "{bridge}" oifname != "{bridge}" drop
 }}
}}"#
    )
}

fn nft(host: &LocalHost, id: &str, rules: &str) -> Result<(), HostError> {
    host.helper_of(id, "nft", &[rules], LIMIT).map(|_| ())
}

/// Whether an interface is the bridge of a network.
fn is_bridge(name: &str) -> bool {
    let number = name.strip_prefix("plimsoll");
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Joins a namespace to a bridge.
pub(super) fn join(
    host: &LocalHost,
    id: &str,
    (bridge, link): (&str, &str),
    (namespace, address): (&str, &str),
) -> Result<(), HostError> {
    let mark = mark(id, link);
    let pair = [
        "link", "add", "name", link, "address", &mark, "master", bridge, "type", "veth", "peer",
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

/// Removes an interface of ours; fine when absent, or when what has its name is not ours.
pub(super) fn remove_link(host: &LocalHost, id: &str, name: &str) -> Result<(), HostError> {
    let place = Path::new("/sys/class/net").join(name);
    let found = fs::read_to_string(place.join("address")).unwrap_or_default();
    if place.exists() && found.trim() != mark(id, name) {
        // Another process was faster and made this one: nothing of ours is there.
        return Ok(());
    }
    if place.exists() {
        ip(host, id, &["link", "delete", name])?;
    }
    match is_bridge(name) {
        // Deleting what is not there fails, so it is there first.
        true => nft(
            host,
            id,
            &format!("add table inet {name}; delete table inet {name}"),
        ),
        false => Ok(()),
    }
}

/// Fails where an interface is not there or not ours.
fn check_link(id: &str, name: &str, what: &str) -> Result<(), HostError> {
    let place = Path::new("/sys/class/net").join(name);
    let found = fs::read_to_string(place.join("address")).unwrap_or_default();
    if found.trim() == mark(id, name) {
        return Ok(());
    }
    Err(HostError::Refused {
        what: format!("{what} the interface {name}"),
        why: "it is not there, or not ours".into(),
    })
}

/// Limits what a pair of interfaces of ours carries, at both ends: each end limits what it sends.
pub(super) fn limit(
    host: &LocalHost,
    id: &str,
    (namespace, link): (&str, &str),
    bytes_per_s: u64,
) -> Result<(), HostError> {
    check_ours(id, namespace)?;
    check_link(id, link, "limit")?;
    let rate = format!("{bytes_per_s}bps");
    // A bucket holds what comes at once: 10 ms of the rate, and no less than two large packets.
    let burst = format!("{}b", (bytes_per_s / 100).max(128 << 10));
    let of = |device| {
        [
            "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst,
            "latency", "100ms",
        ]
    };
    host.helper_of(
        id,
        "tc",
        &[&["-n", namespace][..], &of("eth0")].concat(),
        LIMIT,
    )?;
    host.helper_of(id, "tc", &of(link), LIMIT).map(|_| ())
}

/// Takes an interface of ours down or up.
pub(super) fn set_link(host: &LocalHost, id: &str, name: &str, up: bool) -> Result<(), HostError> {
    check_link(id, name, "switch")?;
    ip(
        host,
        id,
        &["link", "set", name, if up { "up" } else { "down" }],
    )
}

/// Throws away what is sent from a namespace to an address, or no more; fine when it is so already.
pub(super) fn mute(
    host: &LocalHost,
    id: &str,
    (namespace, address): (&str, &str),
    on: bool,
) -> Result<(), HostError> {
    check_ours(id, namespace)?;
    if on {
        let route = ["-n", namespace, "route", "replace", "blackhole", address];
        return ip(host, id, &route);
    }
    let route = ["-n", namespace, "route", "show", "type", "blackhole"];
    let routes = host.helper_of(id, "ip", &route, LIMIT)?;
    let is_it = |line: &str| line.split_whitespace().nth(1) == Some(address);
    if !routes.lines().any(is_it) {
        return Ok(());
    }
    let route = ["-n", namespace, "route", "delete", "blackhole", address];
    ip(host, id, &route)
}

/// Lets what is sent from a namespace be late or lost, or no more; fine when it is so already.
pub(super) fn netem(
    host: &LocalHost,
    id: &str,
    namespace: &str,
    how: &[String],
) -> Result<(), HostError> {
    check_ours(id, namespace)?;
    let words = |list: &[&str]| {
        let begin = ["-n", namespace, "qdisc"];
        let words: Vec<&str> = begin.iter().chain(list).copied().collect();
        host.helper_of(id, "tc", &words, LIMIT)
    };
    if how.is_empty() {
        let shown = words(&["show", "dev", "eth0"])?;
        let is_it = shown.lines().any(|line| line.starts_with("qdisc netem "));
        return match is_it {
            true => words(&["delete", "dev", "eth0", "root"]).map(|_| ()),
            false => Ok(()),
        };
    }
    let mut list = vec!["replace", "dev", "eth0", "root", "netem"];
    list.extend(how.iter().map(String::as_str));
    words(&list).map(|_| ())
}

/// A hardware address that no device has (locally administered), the same for the same interface
/// of the same journal: FNV-1a of both.
fn mark(id: &str, name: &str) -> String {
    let [a, b, c, d, e, ..] = fingerprint(&format!("{id} {name}")).to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

/// FNV-1a of 64 bits: the same for the same text, for ever.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn ip(host: &LocalHost, id: &str, args: &[&str]) -> Result<(), HostError> {
    host.helper_of(id, "ip", args, LIMIT).map(|_| ())
}

/// The address by which a machine of this address is reached from here, found without sending
/// anything; `None` when there is no way to it, or its name is not known.
pub fn address_towards(address: &str) -> Option<String> {
    // Connecting a datagram socket chooses a route and sends nothing; any port does.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// A line of the kernel's table of routes.
struct Route {
    interface: String,
    network: [u8; 4],
    mask: [u8; 4],
}

fn routes(table: &str) -> Vec<Route> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Hexadecimal numbers in the order of bytes of the machine.
        let bytes = |at: usize| Some(u32::from_str_radix(fields.get(at)?, 16).ok()?.to_ne_bytes());
        Some(Route {
            interface: (*fields.first()?).to_owned(),
            network: bytes(1)?,
            mask: bytes(7)?,
        })
    };
    table.lines().filter_map(route).collect()
}

fn route_table() -> String {
    fs::read_to_string("/proc/net/route").unwrap_or_default()
}

/// Third numbers of the networks `10.92.N.0/24` that some interface or route of this machine has.
pub fn networks_in_use() -> Vec<u8> {
    let routes = routes(&route_table()).into_iter();
    let number = |route: Route| match route.network {
        [10, 92, number, _] => Some(number),
        _ => None,
    };
    routes.filter_map(number).collect()
}

/// Interfaces of this machine that are on the network of an address. By others it may only be reached through
/// machines elsewhere, of which one may answer in its place.
pub(super) fn interfaces_on_network_of(address: Ipv4Addr) -> Vec<String> {
    interfaces_in(&route_table(), address)
}

fn interfaces_in(table: &str, address: Ipv4Addr) -> Vec<String> {
    let is_on = |route: &Route| {
        let mask = u32::from_ne_bytes(route.mask);
        mask != 0
            && u32::from_ne_bytes(address.octets()) & mask == u32::from_ne_bytes(route.network)
    };
    let routes = routes(table).into_iter().filter(is_on);
    routes.map(|route| route.interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bridge_has_a_table() {
        assert!(is_bridge("plimsoll7"));
        for other in ["plimsoll7n1", "eth0", "plimsoll", "plimsoll256"] {
            assert!(!is_bridge(other), "{other}");
        }
    }

    #[test]
    fn an_interface_is_on_the_networks_that_it_has_a_route_to() {
        let hex = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let line = |name: &str, network, mask| {
            format!("{name} {} 0 0003 0 0 0 {} 0 0 0", hex(network), hex(mask))
        };
        let table = [
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT".to_owned(),
            line("eth0", [0, 0, 0, 0], [0, 0, 0, 0]),
            line("plimsoll7", [10, 92, 7, 0], [255, 255, 255, 0]),
        ];
        let table = table.join("\n");
        let found = interfaces_in(&table, Ipv4Addr::new(10, 92, 7, 3));
        assert_eq!(found, ["plimsoll7"]);
        assert!(interfaces_in(&table, Ipv4Addr::new(10, 92, 8, 3)).is_empty());
    }

    #[test]
    fn every_interface_has_a_mark_of_its_own() {
        let marks = ["a b", "a c", "ab b"].map(|text| {
            let (id, name) = text.split_once(' ').unwrap_or_default();
            mark(id, name)
        });
        assert!(marks[0] != marks[1] && marks[0] != marks[2]);
        assert_eq!(marks[0], mark("a", "b"));
        // The first byte: an address of one device, assigned locally and not by a manufacturer.
        assert!(
            marks
                .iter()
                .all(|mark| mark.starts_with("02:") && mark.len() == 17)
        );
    }
}
