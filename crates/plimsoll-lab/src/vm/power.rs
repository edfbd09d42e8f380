// SPDX-License-Identifier: Apache-2.0
//! Commands to a running machine, over the control socket of QEMU (QMP: a JSON object a
//! line each way).

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take. QEMU answers while its machine runs, in some milliseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Longest line that is read.
const LINE_MAX: u64 = 1 << 16;

/// The error of a disk that cannot read or write.
const EIO: i32 = 5;

/// Most lines (events) before an answer.
const LINES_MAX: usize = 1000;

/// The most that a disk does. 0: as much as it can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VmDiskLimits {
    pub(super) requests_per_s: u64,
    pub(super) bytes_per_s: u64,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VmQmpCommand<'a> {
    /// Stand still.
    Pause,
    /// Go on.
    Resume,
    /// The cable of its network is plugged in, or not.
    Link(bool),
    /// How it is.
    Status,
    /// Which disks it has.
    Disks,
    /// The limits of this disk. Requests that they hold back go on when the limits are lifted.
    Throttle(&'a str, VmDiskLimits),
    /// Make what fails every request, above the file of this disk.
    Breaker(&'a str),
    /// Give it to the machine as this disk.
    Break(&'a str),
    /// Give the file to the machine as this disk again.
    Mend(&'a str),
    /// Take away what fails every request.
    NoBreaker(&'a str),
}

/// The driver of QEMU that fails requests.
pub(super) const BREAKER: &str = "blkdebug";

/// The name of the file of a disk in QEMU.
pub(super) fn file_node(disk: &str) -> String {
    format!("disk-{disk}")
}

/// The name in QEMU of the disk as its machine sees it.
pub(super) fn device(disk: &str) -> String {
    format!("device-{disk}")
}

fn breaker_node(disk: &str) -> String {
    format!("errors-{disk}")
}

/// Has a disk be what this node is.
fn be(disk: &str, node: &str) -> Value {
    json!({
        "execute": "qom-set",
        "arguments": {
            "path": format!("/machine/peripheral/{}", device(disk)),
            "property": "drive",
            "value": node,
        },
    })
}

fn breaker(disk: &str) -> Value {
    let rule = |kind| {
        json!({
            "event": "none", "iotype": kind, "errno": EIO, "once": false, "immediately": true,
        })
    };
    let kinds = ["read", "write", "write-zeroes", "discard", "flush"];
    let rules: Vec<Value> = kinds.into_iter().map(rule).collect();
    json!({
        "execute": "blockdev-add",
        "arguments": {
            "driver": BREAKER,
            "node-name": breaker_node(disk),
            "image": file_node(disk),
            "inject-error": rules,
        },
    })
}

impl VmQmpCommand<'_> {
    fn written(self) -> Value {
        match self {
            VmQmpCommand::Pause => json!({ "execute": "stop" }),
            VmQmpCommand::Resume => json!({ "execute": "cont" }),
            VmQmpCommand::Link(up) => {
                json!({ "execute": "set_link", "arguments": { "name": "nic0", "up": up } })
            }
            VmQmpCommand::Status => json!({ "execute": "query-status" }),
            VmQmpCommand::Disks => json!({ "execute": "query-block" }),
            VmQmpCommand::Throttle(disk, limits) => json!({
                "execute": "block_set_io_throttle",
                "arguments": {
                    "device": disk,
                    "iops": limits.requests_per_s, "iops_rd": 0, "iops_wr": 0,
                    "bps": limits.bytes_per_s, "bps_rd": 0, "bps_wr": 0,
                },
            }),
            VmQmpCommand::Breaker(disk) => breaker(disk),
            VmQmpCommand::Break(disk) => be(disk, &breaker_node(disk)),
            VmQmpCommand::Mend(disk) => be(disk, &file_node(disk)),
            VmQmpCommand::NoBreaker(disk) => json!({
                "execute": "blockdev-del", "arguments": { "node-name": breaker_node(disk) },
            }),
        }
    }
}

/// Tells the machine behind this socket something; gives what it returned.
pub(super) fn tell(socket: &Path, order: VmQmpCommand<'_>) -> io::Result<Value> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut from = BufReader::new(stream.try_clone()?);
    talk(&mut from, &stream, &order.written())
}

fn talk(from: &mut impl BufRead, mut to: impl Write, order: &Value) -> io::Result<Value> {
    let greeting = line(from)?;
    if greeting.get("QMP").is_none() {
        return Err(io::Error::other(format!(
            "not QEMU: it greets with {greeting}"
        )));
    }
    writeln!(to, "{}", json!({ "execute": "qmp_capabilities" }))?;
    answer(from)?;
    writeln!(to, "{order}")?;
    answer(from)
}

/// The return value of the command; events in between are skipped.
fn answer(from: &mut impl BufRead) -> io::Result<Value> {
    for _ in 0..LINES_MAX {
        let mut said = line(from)?;
        if let Some(returned) = said.get_mut("return") {
            return Ok(returned.take());
        }
        if let Some(error) = said.get("error") {
            let text = error.get("desc").and_then(Value::as_str);
            let text = text.unwrap_or("it gave no reason");
            return Err(io::Error::other(format!("QEMU refused: {text}")));
        }
    }
    Err(io::Error::other("QEMU sent only events, and no response"))
}

fn line(mut from: &mut impl BufRead) -> io::Result<Value> {
    let mut bytes = Vec::new();
    io::Read::take(&mut from, LINE_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str = "{\"QMP\": {\"version\": {}}}\r\n{\"return\": {}}\r\n";

    fn told(said: &str) -> (io::Result<Value>, String) {
        let mut sent = Vec::new();
        let said = talk(
            &mut said.as_bytes(),
            &mut sent,
            &VmQmpCommand::Link(false).written(),
        );
        (said, String::from_utf8(sent).unwrap())
    }

    #[test]
    fn an_order_is_told_after_the_greeting_and_events_are_passed_over() {
        let event = "{\"timestamp\": {\"seconds\": 1}, \"event\": \"NIC_RX_FILTER_CHANGED\"}\r\n";
        let said = format!("{GREETING}{event}{{\"return\": {{\"status\": \"running\"}}}}\r\n");
        let (returned, sent) = told(&said);
        assert_eq!(returned.unwrap(), json!({ "status": "running" }));
        let lines: Vec<Value> = sent
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({ "execute": "qmp_capabilities" }));
        assert_eq!(
            lines[1],
            json!({ "execute": "set_link", "arguments": { "name": "nic0", "up": false } })
        );
    }

    #[test]
    fn every_other_answer_is_an_error() {
        let refused = format!("{GREETING}{{\"error\": {{\"desc\": \"Device not found\"}}}}\n");
        for (said, expect) in [
            ("", "end of file"),
            ("{\"return\": {}}\n", "not QEMU"),
            ("HTTP/1.1 400\n", "expected value"),
            (GREETING, "end of file"),
            (&GREETING[..20], "end of file"),
            (&refused, "refused: Device not found"),
        ] {
            let error = told(said).0.unwrap_err().to_string();
            assert!(error.contains(expect), "{said}: {error}");
        }
        let noise = format!("{GREETING}{}", "{\"event\": 1}\n".repeat(LINES_MAX));
        assert!(told(&noise).0.unwrap_err().to_string().contains("events"));
    }
}
