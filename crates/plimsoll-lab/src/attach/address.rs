// SPDX-License-Identifier: Apache-2.0
//! Addresses of remote disks (iSCSI, NBD), as people write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const ISCSI: &str = "iscsi://";
const NBD: &str = "nbd://";
const NBD_UNIX: &str = "nbd+unix://";

/// Port of iSCSI where the address names none.
const ISCSI_PORT: u16 = 3260;

/// Port of NBD where the address names none.
const NBD_PORT: u16 = 10_809;

/// Longest name of an initiator or a target (RFC 7143, 4.2.7.1).
const ISCSI_NAME_MAX: usize = 223;

/// Initiator name where the address does not say.
const INITIATOR: &str = "iqn.2026-01.lab.plimsoll:client";

/// A remote disk, exported by a server that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteDiskAddress {
    /// As it was written.
    text: String,
    /// Where, and which.
    pub kind: RemoteDiskTransport,
    /// Bytes in a sector of the disk: 512 or 4096.
    pub sector_bytes: u32,
}

/// How a disk is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteDiskTransport {
    /// A logical unit of an iSCSI target.
    Iscsi(IscsiLunAddress),
    /// An export of an NBD server.
    Nbd {
        /// Where the server listens.
        server: NbdServerAddress,
        /// Name of the export; empty for the one the server gives to who names none.
        export: String,
    },
}

/// A logical unit of an iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiLunAddress {
    /// Name or number of the portal, without brackets.
    pub host: String,
    /// Port of the portal.
    pub port: u16,
    /// Name of the target.
    pub target: String,
    /// Number of the logical unit.
    pub lun: u8,
    /// Our initiator name.
    pub initiator: String,
    /// The account, and the file whose only line is its secret.
    pub chap: Option<(String, PathBuf)>,
}

/// Where an NBD server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NbdServerAddress {
    /// Name or number without brackets, and port.
    Tcp(String, u16),
    /// A socket of this machine.
    Unix(PathBuf),
}

/// An error in an address, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid address '{text}': {reason}; the form is {form}")]
pub struct RemoteDiskAddressError {
    text: String,
    reason: String,
    form: &'static str,
}

fn form(text: &str) -> &'static str {
    if text.starts_with(ISCSI) {
        "iscsi://[USER@]HOST[:PORT]/TARGET/LUN[?secret_file=PATH&initiator=NAME&sectors=4096]"
    } else if text.starts_with(NBD_UNIX) {
        "nbd+unix:///[EXPORT]?socket=PATH[&sectors=4096]"
    } else {
        "nbd://HOST[:PORT][/EXPORT][?sectors=4096]"
    }
}

impl RemoteDiskAddress {
    /// Whether a text is meant as such an address.
    pub fn is_meant(text: &str) -> bool {
        [ISCSI, NBD, NBD_UNIX].iter().any(|s| text.starts_with(s))
    }
}

impl fmt::Display for RemoteDiskAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for RemoteDiskAddress {
    type Err = RemoteDiskAddressError;

    fn from_str(text: &str) -> Result<Self, RemoteDiskAddressError> {
        read(text).map_err(|reason| RemoteDiskAddressError {
            text: text.into(),
            reason,
            form: form(text),
        })
    }
}

/// The parameters that may follow the question mark.
#[derive(Debug, Default)]
struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    fn read(text: &'a str, known: &[&str]) -> Result<Self, String> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(format!("expected only {} after ?", known.join(", ")));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("{name} is given twice"));
            }
            pairs.push((name, value));
        }
        Ok(Query(pairs))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn sector_bytes(&self) -> Result<u32, String> {
        match self.get("sectors") {
            None | Some("512") => Ok(512),
            Some("4096") => Ok(4096),
            Some(other) => Err(format!("invalid sectors '{other}': expected 512 or 4096")),
        }
    }
}

fn read(text: &str) -> Result<RemoteDiskAddress, String> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let (kind, query) = if let Some(rest) = path.strip_prefix(ISCSI) {
        let query = Query::read(query, &["secret_file", "initiator", "sectors"])?;
        (RemoteDiskTransport::Iscsi(read_iscsi(rest, &query)?), query)
    } else if let Some(rest) = path.strip_prefix(NBD_UNIX) {
        let query = Query::read(query, &["socket", "sectors"])?;
        let export = rest
            .strip_prefix('/')
            .ok_or("expected three slashes first")?;
        let socket = query.get("socket").ok_or("socket=PATH is missing")?;
        let server = NbdServerAddress::Unix(path_of("socket", socket)?.into());
        let export = word("the export", export)?.into();
        (RemoteDiskTransport::Nbd { server, export }, query)
    } else if let Some(rest) = path.strip_prefix(NBD) {
        let query = Query::read(query, &["sectors"])?;
        let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = host_and_port(server, NBD_PORT)?;
        let export = word("the export", export)?.into();
        let server = NbdServerAddress::Tcp(host, port);
        (RemoteDiskTransport::Nbd { server, export }, query)
    } else {
        return Err("it does not begin with iscsi://, nbd:// or nbd+unix://".into());
    };
    Ok(RemoteDiskAddress {
        text: text.into(),
        kind,
        sector_bytes: query.sector_bytes()?,
    })
}

fn read_iscsi(rest: &str, query: &Query<'_>) -> Result<IscsiLunAddress, String> {
    let (server, path) = rest.split_once('/').ok_or("the target is missing")?;
    let (user, server) = match server.split_once('@') {
        Some((user, server)) => (Some(user), server),
        None => (None, server),
    };
    let (host, port) = host_and_port(server, ISCSI_PORT)?;
    let (target, lun) = path
        .rsplit_once('/')
        .ok_or("the logical unit number (LUN) is missing")?;
    let lun = lun.parse();
    let lun = lun.map_err(|_| "the logical unit number (LUN) must be from 0 to 255")?;
    Ok(IscsiLunAddress {
        host,
        port,
        target: iscsi_name("the target", target)?,
        lun,
        initiator: iscsi_name("initiator", query.get("initiator").unwrap_or(INITIATOR))?,
        chap: chap(user, query.get("secret_file"))?,
    })
}

fn chap(user: Option<&str>, secret: Option<&str>) -> Result<Option<(String, PathBuf)>, String> {
    match (user, secret) {
        (None, None) => Ok(None),
        (Some(user), _) if user.contains(':') => {
            let text = "an address must not contain a secret, because others can see it; put it into a \
                        file: secret_file=PATH";
            Err(text.into())
        }
        (Some(""), _) => Err("the user name is empty".into()),
        (Some(user), Some(file)) => {
            let (user, file) = (word("the user", user)?, path_of("secret_file", file)?);
            Ok(Some((user.into(), file.into())))
        }
        (Some(_), None) => {
            Err("a user needs a secret, in a file of one line: secret_file=PATH".into())
        }
        (None, Some(_)) => Err("a secret needs a user: USER@HOST".into()),
    }
}

/// Words go into comma-separated option lists of the client, so a comma would begin another option.
fn word<'a>(what: &str, text: &'a str) -> Result<&'a str, String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    if text.chars().all(is_safe) {
        Ok(text)
    } else {
        Err(format!("{what} may have only letters, digits and /._-+@:"))
    }
}

fn path_of<'a>(what: &str, text: &'a str) -> Result<&'a str, String> {
    if !text.starts_with('/') {
        return Err(format!("{what} must be an absolute path"));
    }
    word(what, text)
}

fn iscsi_name(what: &str, text: &str) -> Result<String, String> {
    let begins = ["iqn.", "eui.", "naa."].iter().any(|t| text.starts_with(t));
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ".-:_".contains(c);
    if begins && text.len() <= ISCSI_NAME_MAX && text.chars().all(is_safe) {
        Ok(text.into())
    } else {
        Err(format!("{what} is not an iSCSI name (iqn.…, eui.…, naa.…)"))
    }
}

/// A host and a port; IPv6 addresses are in brackets.
fn host_and_port(text: &str, default: u16) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("unmatched [")?;
            (
                host,
                after.strip_prefix(':').or(after.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || !host.chars().all(is_safe) {
        return Err("the host is missing or not a valid name".into());
    }
    let port = match port {
        Some("") => default,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err("invalid port".into()),
        },
        None => return Err("invalid port".into()),
    };
    Ok((host.into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_defaults() {
        let iscsi = |text: &str| match text.parse::<RemoteDiskAddress>().unwrap().kind {
            RemoteDiskTransport::Iscsi(found) => found,
            other @ RemoteDiskTransport::Nbd { .. } => panic!("{other:?}"),
        };
        let plain = iscsi("iscsi://nas/iqn.2001-04.com.example:a.b/0");
        assert_eq!((&*plain.host, plain.port, plain.lun), ("nas", 3260, 0));
        assert_eq!(plain.initiator, INITIATOR);
        assert_eq!(plain.chap, None);
        let full = iscsi("iscsi://joe@[fe80::1]:99/naa.5001/7?secret_file=/s&initiator=iqn.x");
        assert_eq!((&*full.host, full.port, full.lun), ("fe80::1", 99, 7));
        assert_eq!(full.chap, Some(("joe".into(), "/s".into())));
        assert_eq!(full.initiator, "iqn.x");
        for (text, server, export, sectors) in [
            (
                "nbd://h",
                NbdServerAddress::Tcp("h".into(), 10_809),
                "",
                512,
            ),
            (
                "nbd://h:5/a/b?sectors=4096",
                NbdServerAddress::Tcp("h".into(), 5),
                "a/b",
                4096,
            ),
            (
                "nbd+unix:///?socket=/x",
                NbdServerAddress::Unix("/x".into()),
                "",
                512,
            ),
            (
                "nbd+unix:///e?socket=/x",
                NbdServerAddress::Unix("/x".into()),
                "e",
                512,
            ),
        ] {
            let read: RemoteDiskAddress = text.parse().unwrap();
            let expect = RemoteDiskTransport::Nbd {
                server,
                export: export.into(),
            };
            assert_eq!((read.kind, read.sector_bytes), (expect, sectors), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_form() {
        for (text, reason) in [
            ("iscsi://nas", "the target is missing"),
            ("iscsi://nas/iqn.a", "(LUN) is missing"),
            ("iscsi://nas/iqn.a/256", "from 0 to 255"),
            ("iscsi://nas/disk/1", "not an iSCSI name"),
            ("iscsi://nas/iqn.a,b/1", "not an iSCSI name"),
            (
                "iscsi://a:b@nas/iqn.a/1?secret_file=/s",
                "must not contain a secret",
            ),
            ("iscsi://a@nas/iqn.a/1", "secret_file=PATH"),
            ("iscsi://nas/iqn.a/1?secret_file=/s", "USER@HOST"),
            ("iscsi://a@nas/iqn.a/1?secret_file=s", "absolute path"),
            ("iscsi://nas/iqn.a/1?sectors=520", "512 or 4096"),
            (
                "iscsi://nas/iqn.a/1?lun=1",
                "expected only secret_file, initiator, sectors after ?",
            ),
            ("iscsi://:1/iqn.a/1", "the host is missing"),
            ("nbd://h:0", "invalid port"),
            ("nbd://h:x", "invalid port"),
            ("nbd://[::1", "unmatched ["),
            ("nbd://[::1]5", "invalid port"),
            ("nbd://h/a,b", "letters, digits"),
            ("nbd://h?sectors=512&sectors=512", "twice"),
            ("nbd+unix:///e", "socket=PATH is missing"),
            ("nbd+unix://e?socket=/x", "three slashes"),
        ] {
            let told = text.parse::<RemoteDiskAddress>().unwrap_err().to_string();
            assert!(told.contains(reason), "{text}: {told}");
            assert!(told.contains("; the form is "), "{told}");
        }
    }
}
