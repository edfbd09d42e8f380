// SPDX-License-Identifier: Apache-2.0
//! Addresses of exports, as people write them: `nfs://host[:port]/export`.

use std::fmt;
use std::str::FromStr;

/// How every address begins.
const SCHEME: &str = "nfs://";

/// The port of NFS where the address names none.
pub(crate) const NFS_PORT: u16 = 2049;

/// Longest path of an export (`MNTPATHLEN` of RFC 1813).
const EXPORT_MAX: usize = 1024;

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsAddress {
    /// Name or number of the server, without brackets.
    pub host: String,
    /// Port of NFS; 2049 when `None`.
    pub port: Option<u16>,
    /// Port of the mount protocol; the server's port mapper is asked when `None`.
    pub mount_port: Option<u16>,
    /// Path of the export, with its slash.
    pub export: String,
    /// The identity we present to the server (user, group); this process's when `None`.
    pub ids: Option<(u32, u32)>,
    /// Whether every write is to be durable when it is answered.
    pub sync: bool,
}

/// The fault of an address, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsAddressError {
    text: String,
    reason: &'static str,
}

impl fmt::Display for NfsAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid address '{}': {}; the form is nfs://HOST[:PORT]/EXPORT\
             [?mountport=PORT&uid=NUMBER&gid=NUMBER&sync]",
            self.text, self.reason
        )
    }
}

impl std::error::Error for NfsAddressError {}

impl NfsAddress {
    /// Whether a text is meant as such an address.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }
}

impl FromStr for NfsAddress {
    type Err = NfsAddressError;

    fn from_str(text: &str) -> Result<Self, NfsAddressError> {
        let wrong = |reason| NfsAddressError {
            text: text.into(),
            reason,
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("it does not begin with nfs://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let slash = rest
            .find('/')
            .ok_or_else(|| wrong("the export is missing"))?;
        let (server, export) = rest.split_at(slash);
        let (host, port) = split_server(server).ok_or_else(|| wrong("invalid port"))?;
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err(wrong("the host is missing or no name of a host"));
        }
        if export.len() > EXPORT_MAX || export.contains('\0') {
            return Err(wrong("the export is too long or has a zero byte"));
        }
        let mut address = NfsAddress {
            host: host.into(),
            port,
            mount_port: None,
            export: export.into(),
            ids: None,
            sync: false,
        };
        address.read_query(query).map_err(wrong)?;
        Ok(address)
    }
}

impl NfsAddress {
    fn read_query(&mut self, query: &str) -> Result<(), &'static str> {
        let (mut uid, mut gid) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "mountport" => {
                    self.mount_port = Some(port(value).ok_or("invalid mountport")?);
                }
                "uid" => uid = Some(value.parse().map_err(|_| "uid is not a number")?),
                "gid" => gid = Some(value.parse().map_err(|_| "gid is not a number")?),
                "sync" if value.is_empty() => self.sync = true,
                _ => return Err("expected only mountport, uid, gid and sync after ?"),
            }
        }
        self.ids = match (uid, gid) {
            (None, None) => None,
            (Some(uid), Some(gid)) => Some((uid, gid)),
            _ => return Err("uid and gid go together"),
        };
        Ok(())
    }
}

/// Host and port of `host`, `host:port`, `[address]` or `[address]:port`.
fn split_server(server: &str) -> Option<(&str, Option<u16>)> {
    if let Some(inside) = server.strip_prefix('[') {
        let (host, rest) = inside.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(number) => Some((host, Some(port(number)?))),
            None if rest.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match server.split_once(':') {
        Some((host, number)) => Some((host, Some(port(number)?))),
        None => Some((server, None)),
    }
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

impl fmt::Display for NfsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        if host.contains(':') {
            write!(f, "{SCHEME}[{host}]")?;
        } else {
            write!(f, "{SCHEME}{host}")?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.export)?;
        let mut separator = '?';
        if let Some(port) = self.mount_port {
            write!(f, "{separator}mountport={port}")?;
            separator = '&';
        }
        if let Some((uid, gid)) = self.ids {
            write!(f, "{separator}uid={uid}&gid={gid}")?;
            separator = '&';
        }
        if self.sync {
            write!(f, "{separator}sync")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for (text, host, port, mount_port, export, ids) in [
            ("nfs://nas/data?sync", "nas", None, None, "/data", None),
            ("nfs://nas/", "nas", None, None, "/", None),
            (
                "nfs://10.0.0.1:12049/a/b?mountport=12050",
                "10.0.0.1",
                Some(12_049),
                Some(12_050),
                "/a/b",
                None,
            ),
            (
                "nfs://[fe80::1]:2049/x?uid=7&gid=8",
                "fe80::1",
                Some(2049),
                None,
                "/x",
                Some((7, 8)),
            ),
        ] {
            let expect = NfsAddress {
                host: host.into(),
                port,
                mount_port,
                export: export.into(),
                ids,
                sync: text.ends_with("?sync"),
            };
            assert_eq!(text.parse(), Ok(expect.clone()));
            assert_eq!(expect.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_reason() {
        for (text, reason) in [
            ("http://nas/data", "begin with nfs://"),
            ("nfs://nas", "export is missing"),
            ("nfs:///data", "host is missing"),
            ("nfs://nas:0/data", "invalid port"),
            ("nfs://nas:70000/data", "invalid port"),
            ("nfs://[fe80::1/data", "invalid port"),
            ("nfs://nas/data?version=4", "only"),
            ("nfs://nas/data?uid=1", "go together"),
            ("nfs://nas/data?mountport=x", "invalid mountport"),
        ] {
            let error = text.parse::<NfsAddress>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains(text), "{error}");
        }
    }
}
