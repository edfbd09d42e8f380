// SPDX-License-Identifier: Apache-2.0
//! Whether a TCP port of the loopback address is free, and who has it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

use super::error::HostError;
use super::{command, processes};

/// The port of the mount protocol of NFS that clients of our exports know without asking for it.
pub const MOUNT_PORT: u16 = 20_048;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Fails when someone listens on the port, naming the process where that can be found out.
pub(crate) fn check_free(port: u16) -> Result<(), HostError> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let user = holder(port).map_or_else(
                || "a process that only root can identify".to_string(),
                |pid| format!("process {pid} ({})", command::name_of(pid)),
            );
            Err(HostError::State(format!(
                "TCP port {port} of 127.0.0.1 is in use by {user}; end it or choose another port"
            )))
        }
        Err(source) => Err(HostError::Io {
            what: format!("open TCP port {port} of 127.0.0.1"),
            source,
        }),
    }
}

/// Ports that this process has chosen. Between the choice and the server that listens there another process
/// of ours must not choose the same, so each has a socket with its number for a name, which ends
/// with this process.
static CHOSEN: Mutex<BTreeMap<u16, UnixDatagram>> = Mutex::new(BTreeMap::new());

/// The first of `count` ports in a row, from `from` on, that are free on the loopback address, and that no
/// other process of ours has chosen.
pub(crate) fn find_free(from: u16, count: u16) -> Result<u16, HostError> {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first = from;
    while let Some(end) = first.checked_add(count) {
        let mut more = BTreeMap::new();
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let mut is_ours = |port: u16| chosen.contains_key(&port) || choose(port, &mut more);
        let taken = (first..end)
            .rev()
            .find(|&port| !(is_free(port) && is_ours(port)));
        match taken {
            None => {
                chosen.append(&mut more);
                return Ok(first);
            }
            Some(taken) => first = taken.saturating_add(1),
        }
        if first == u16::MAX {
            break;
        }
    }
    Err(HostError::State(format!(
        "there are no {count} free TCP ports in a row from {from} on; choose a lower first port"
    )))
}

/// Whether the port is this process's, where it is free.
fn choose(port: u16, chosen: &mut BTreeMap<u16, UnixDatagram>) -> bool {
    let name = SocketAddr::from_abstract_name(format!("plimsoll-port-{port}"));
    match name.and_then(|name| UnixDatagram::bind_addr(&name)) {
        Ok(socket) => {
            chosen.insert(port, socket);
            true
        }
        // Without such names, or without a descriptor to spare, it is only not kept from others.
        Err(error) => error.kind() != ErrorKind::AddrInUse,
    }
}

/// Whether a process listens on the port in the network of this process.
pub(crate) fn is_listening(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines()
            .any(|line| listening_inode(line, port).is_some())
    })
}

/// Ports on which a process itself listens.
pub(crate) fn listened_on(pid: u32) -> Vec<u16> {
    let found = listening(pid).into_iter();
    found.map(|(_, port)| port).collect()
}

/// Addresses and ports on which a process itself listens, in its own network.
pub(crate) fn listening(pid: u32) -> Vec<(IpAddr, u16)> {
    let sockets: Vec<String> = sockets_of(pid).collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines() {
            if let Some((port, inode)) = listener(line)
                && sockets.contains(&format!("socket:[{inode}]"))
                && let Some(address) = local_address(line)
            {
                found.push((address, port));
            }
        }
    }
    found
}

/// The own address in a line of `/proc/net/tcp` or `tcp6`: words of 32 bits as the processor has them.
fn local_address(line: &str) -> Option<IpAddr> {
    let (digits, _) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
    let word = |at| u32::from_str_radix(digits.get(at..at + 8)?, 16).ok();
    if digits.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?.to_ne_bytes()).into());
    }
    let mut bytes = [0; 16];
    for (n, four) in bytes.chunks_exact_mut(4).enumerate() {
        four.copy_from_slice(&word(8 * n)?.to_ne_bytes());
    }
    let address = Ipv6Addr::from(bytes);
    // A socket for both versions has an address of version 4 in that of version 6.
    Some(
        address
            .to_ipv4_mapped()
            .map_or(address.into(), IpAddr::from),
    )
}

/// The files behind the descriptors of a process.
fn sockets_of(pid: u32) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    entries.filter_map(|entry| {
        let link = fs::read_link(entry.ok()?.path()).ok()?;
        Some(link.to_str()?.to_owned())
    })
}

/// The process that listens on the port, found through the inode of its socket.
fn holder(port: u16) -> Option<u32> {
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(text.lines().filter_map(|line| listening_inode(line, port)));
    }
    let links: Vec<String> = inodes.iter().map(|i| format!("socket:[{i}]")).collect();
    let mut all = processes::all().into_iter();
    all.find(|pid| sockets_of(*pid).any(|link| links.contains(&link)))
}

/// The inode in a line of `/proc/net/tcp` when it is a listener on `port`.
fn listening_inode(line: &str, port: u16) -> Option<String> {
    let (found, inode) = listener(line)?;
    (found == port).then_some(inode)
}

/// The port and the inode in a line of `/proc/net/tcp` when it is a listener.
fn listener(line: &str) -> Option<(u16, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port_hex) = fields.get(1)?.rsplit_once(':')?;
    let port = u16::from_str_radix(port_hex, 16).ok()?;
    let inode = fields.get(9).map(|inode| (*inode).to_string())?;
    (*fields.get(3)? == LISTENING).then_some((port, inode))
}

#[cfg(test)]
mod tests {
    use super::super::clock::{HostTimeSource as _, SystemClock};
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_port_that_another_process_has_chosen_is_passed_over() {
        let port = find_free(23_000, 1).unwrap();
        assert_eq!(find_free(port, 1).unwrap(), port, "it is ours");
        // Another process chooses the next one.
        let mut theirs = BTreeMap::new();
        let mut is_theirs = |&next: &u16| check_free(next).is_ok() && choose(next, &mut theirs);
        let next = (port + 1..).find(&mut is_theirs).unwrap();
        assert!(find_free(next, 1).unwrap() > next);
        assert!(find_free(port, next - port + 1).unwrap() > next);
        drop(theirs);
        assert_eq!(find_free(next, 1).unwrap(), next, "that process has ended");
    }

    #[test]
    fn a_port_in_use_names_its_process() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = check_free(port).unwrap_err().to_string();
        let ourselves = format!("process {} (", std::process::id());
        assert!(error.contains(&ourselves), "{error}");
        assert!(is_listening(std::process::id(), port));
        assert!(listened_on(std::process::id()).contains(&port));
        let here = (IpAddr::from(Ipv4Addr::LOCALHOST), port);
        assert!(listening(std::process::id()).contains(&here));
        assert_ne!(find_free(port, 2).unwrap(), port);
        drop(listener);
        // A process that a test beside this one is starting may share the socket for a moment.
        let clock = SystemClock::new();
        while let Err(error) = check_free(port) {
            assert!(clock.now() < Duration::from_secs(60), "{error}");
            clock.pause(Duration::from_millis(5));
        }
    }
}
