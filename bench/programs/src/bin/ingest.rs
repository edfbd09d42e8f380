// SPDX-License-Identifier: Apache-2.0
//! Reads a recording of counters and prints the averages of every disk, as pmlogsummary does: what
//! reading alone costs. Its last line is the most memory it held. `cargo xtask bench ingest`
//! measures it.
#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::path::Path;
use std::process::ExitCode;

use plimsoll_trace::pcp::PcpArchive;
use plimsoll_trace::{CounterSource, TraceError};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        println!("usage: ingest ARCHIVE");
        return ExitCode::from(2);
    };
    match print(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(path: &Path) -> Result<(), TraceError> {
    let archive = PcpArchive::open(path)?;
    for averages in archive.averages(&archive.disks(), &archive.times().span())? {
        for (metric, figure) in &averages.figures {
            let (metric, disk) = (metric.pcp_name(), &averages.disk);
            println!("{metric} [\"{disk}\"] {:.3}", figure.time);
        }
    }
    if let Some(damage) = archive.damage() {
        println!("{damage}");
    }
    // The kernel's own count of this process, in KiB.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("peak {}", peak.unwrap_or("unknown").trim());
    Ok(())
}
