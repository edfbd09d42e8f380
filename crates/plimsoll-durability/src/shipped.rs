// SPDX-License-Identifier: Apache-2.0
//! Server files that are part of the program.

use crate::server_file::{self, ServerFile};

/// Their texts by name.
const SHIPPED: [(&str, &str); 8] = [
    (
        "files",
        include_str!("../../../examples/servers/files.toml"),
    ),
    (
        "postgresql",
        include_str!("../../../examples/servers/postgresql.toml"),
    ),
    (
        "sqlite",
        include_str!("../../../examples/servers/sqlite.toml"),
    ),
    ("etcd", include_str!("../../../examples/servers/etcd.toml")),
    (
        "redis",
        include_str!("../../../examples/servers/redis.toml"),
    ),
    ("qemu", include_str!("../../../examples/servers/qemu.toml")),
    (
        "seaweedfs",
        include_str!("../../../examples/servers/seaweedfs.toml"),
    ),
    (
        "versitygw",
        include_str!("../../../examples/servers/versitygw.toml"),
    ),
];

/// The names of servers whose files are part of the program.
pub fn shipped_servers() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of one of them.
pub fn shipped_server(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

/// Every shipped file, read.
///
/// # Errors
/// When one cannot be read, which is a defect.
pub fn read_shipped() -> Result<Vec<ServerFile>, String> {
    SHIPPED
        .iter()
        .map(|(_, text)| server_file::read(text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_file_can_be_read_and_has_its_own_name() {
        let files = read_shipped().unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, shipped_servers().collect::<Vec<_>>());
    }
}
