// SPDX-License-Identifier: Apache-2.0
//! Network namespaces, bridges and the pairs of interfaces between them, made and removed.
//!
//! A namespace is ours by its name, which holds the identifier of the journal; an interface by its
//! hardware address, which is made from that and its name: of all marks an interface can have, the
//! kernel gives it this one in the moment it makes it. Whatever lacks it stays.
//!
//! Who may send into the network of a bridge is said by two rules of routing for that network alone: what
//! root of this machine sends goes there, and nothing else, neither of other users nor from other
//! networks. Nothing else is touched: no firewall, no forwarding.

use std::fs;
use std::net::UdpSocket;
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

/// Makes a bridge with an address.
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
    if let Some(network) = network_of(address) {
        // First: nobody gets in before they are there.
        let mut rule = vec!["rule", "add", "to", &network];
        ip(host, id, &[&rule[..], &FOR_ROOT].concat())?;
        rule.extend(FOR_OTHERS);
        ip(host, id, &rule)?;
    }
    ip(host, id, &["address", "add", address, "dev", name])?;
    ip(host, id, &["link", "set", name, "up"])
}

/// Routing rules of a bridge's network: packets of local root processes are routed, all others refused.
const FOR_ROOT: [&str; 8] = [
    "iif", "lo", "uidrange", "0-0", "priority", "10918", "table", "main",
];
const FOR_OTHERS: [&str; 3] = ["priority", "10919", "prohibit"];

/// The network of an address with a prefix of 24 bits, as are those of our bridges.
fn network_of(address: &str) -> Option<String> {
    let (first, _) = address.strip_suffix("/24")?.rsplit_once('.')?;
    Some(format!("{first}.0/24"))
}

/// Removes the rules of a network; fine when absent.
fn remove_rules(host: &LocalHost, id: &str, network: &str) -> Result<(), HostError> {
    for priority in ["10918", "10919"] {
        let rules = host.helper_of(id, "ip", &["rule", "show", "priority", priority], LIMIT)?;
        let is_it = |line: &&str| line.contains(&format!(" to {network} "));
        for _ in rules.lines().filter(is_it) {
            ip(
                host,
                id,
                &["rule", "delete", "to", network, "priority", priority],
            )?;
        }
    }
    Ok(())
}

/// The network that the bridge of this name is for, which is made from its number; `None` for other
/// interfaces.
fn network_of_bridge(name: &str) -> Option<String> {
    let number: u8 = name.strip_prefix("plimsoll")?.parse().ok()?;
    Some(format!("10.92.{number}.0/24"))
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
        // Somebody else's, who was faster: of ours there is nothing.
        return Ok(());
    }
    if place.exists() {
        ip(host, id, &["link", "delete", name])?;
    }
    match network_of_bridge(name) {
        Some(network) => remove_rules(host, id, &network),
        None => Ok(()),
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
#[must_use]
pub fn address_towards(address: &str) -> Option<String> {
    // Connecting a datagram socket chooses a route and sends nothing; any port does.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// Third numbers of the networks `10.92.N.0/24` that some interface or route of this machine has.
#[must_use]
pub fn networks_in_use() -> Vec<u8> {
    // The table gives networks as hexadecimal numbers in the order of bytes of the machine.
    let table = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let destination = |line: &str| {
        let field = line.split_whitespace().nth(1)?;
        let [a, b, c, _] = u32::from_str_radix(field, 16).ok()?.to_ne_bytes();
        (a == 10 && b == 92).then_some(c)
    };
    table.lines().filter_map(destination).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_bridge_are_for_its_own_network() {
        let of_address = network_of("10.92.7.254/24");
        assert_eq!(of_address.as_deref(), Some("10.92.7.0/24"));
        assert_eq!(of_address, network_of_bridge("plimsoll7"));
        for other in ["plimsoll7n1", "eth0", "plimsoll", "plimsoll256"] {
            assert_eq!(network_of_bridge(other), None, "{other}");
        }
    }

    #[test]
    fn every_interface_has_a_mark_of_its_own() {
        let marks = ["a b", "a c", "ab b"].map(|text| {
            let (id, name) = text.split_once(' ').unwrap_or_default();
            mark(id, name)
        });
        assert!(marks[0] != marks[1] && marks[0] != marks[2]);
        assert_eq!(marks[0], mark("a", "b"));
        // Bits that say: one device, and nobody's factory.
        assert!(
            marks
                .iter()
                .all(|mark| mark.starts_with("02:") && mark.len() == 17)
        );
    }
}
