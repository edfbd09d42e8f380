// SPDX-License-Identifier: Apache-2.0
//! Foreign input of durability: server files, lines of witnesses, requests of a client of the disk.

use plimsoll_durability::disk::{self, DiskShape, LoggedDisk};
use plimsoll_durability::server_file;
use plimsoll_durability::witness::lines;
use std::io::{Cursor, Read, Write};

/// Size of the disk: small, so that ranges lie beyond it.
const DISK_BYTES: u64 = 1 << 16;

/// A connection whose client sends these bytes and reads nothing.
struct Client<'a>(Cursor<&'a [u8]>);

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads them as each of these.
pub fn durability(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(file) = server_file::read(text)
    {
        let settings = file.defaults();
        let _ = file.promise(&settings);
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Err(words) = lines::read(line) {
            assert!(
                !words.chars().any(char::is_control),
                "a control character is shown"
            );
        }
    }
    let (Ok(live), Ok(data)) = (tempfile::tempfile(), tempfile::tempfile()) else {
        return;
    };
    if live.set_len(DISK_BYTES).is_ok() {
        let served = LoggedDisk::new(live, data, DiskShape::one(DISK_BYTES), DISK_BYTES);
        // A client that breaks the protocol is closed.
        let _ = disk::serve(&mut Client(Cursor::new(bytes)), served.part(0));
    }
}
