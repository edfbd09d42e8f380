// SPDX-License-Identifier: Apache-2.0
//! The kernel's tracer, listened to: events of the block layer, page by page, as each processor
//! keeps them.
//!
//! Invariants: only the instance of our own plan is set; reading never waits. What pages mean is not
//! known here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plimsoll_core::plan::{Plan, PlanAction, TRACING};

use crate::host::{HostError, tracing};

/// Buffers of all processors together: two seconds of some million events per second.
const BUFFERS_KIB: usize = 256 << 10;
/// Least and most of one processor. At 100,000 requests per second 8 MiB last for half a second.
const BUFFER_KIB: (usize, usize) = (1 << 10, 8 << 10);
/// A page of the kernel's buffers, also on machines whose memory has larger ones.
const PAGE_BYTES: usize = 64 << 10;
/// Pages that are read of one processor at once at most: the whole of its buffer.
const PAGES_MAX: usize = (BUFFER_KIB.1 << 10) / 4096;

/// The plan of an instance for the journal `id`, and the instance's name.
pub fn plan(id: &str) -> (Plan, String) {
    let name = format!("plimsoll-{id}");
    let mut plan = Plan::default();
    plan.step(
        "create an instance of the kernel's tracer",
        PlanAction::MakeTracing(name.clone()),
        Some(PlanAction::RemoveTracing(name.clone())),
    );
    (plan, name)
}

/// Whether requests can be traced here.
///
/// # Errors
/// When they cannot: with what is missing, and what helps.
pub fn check(events: &[&str]) -> Result<(), HostError> {
    let state = |text: &str| Err(HostError::State(text.into()));
    if !rustix::process::geteuid().is_root() {
        return state("tracing in the kernel needs root; run it with sudo");
    }
    if !Path::new(TRACING).join("instances").exists() {
        return state(
            "the kernel's tracer is not mounted; mount it with: \
             mount -t tracefs nodev /sys/kernel/tracing",
        );
    }
    let known = |event: &&&str| Path::new(TRACING).join("events/block").join(event).exists();
    match events.iter().find(|event| !known(event)) {
        None => Ok(()),
        Some(event) => Err(HostError::State(format!(
            "this kernel has no event block/{event}: it was built without BLK_DEV_IO_TRACE"
        ))),
    }
}

/// A tracer that is running.
#[derive(Debug)]
pub struct BlockTracer {
    folder: PathBuf,
    /// The pages of each processor.
    pipes: Vec<File>,
    page: Vec<u8>,
}

impl BlockTracer {
    /// Begins to trace `events` of the block layer, in the order in which they happen to a request,
    /// on the devices with these numbers (major << 20 | minor), in an instance that is there. Times
    /// are of the monotonic clock.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin(
        instance: &str,
        events: &[&str],
        devices: &[u32],
    ) -> Result<BlockTracer, HostError> {
        let folder = tracing::folder(instance);
        let processors = processors(&folder)?;
        let each = (BUFFERS_KIB / processors.len().max(1)).clamp(BUFFER_KIB.0, BUFFER_KIB.1);
        let set = |file: &str, value: &str| {
            let path = folder.join(file);
            fs::write(&path, value).map_err(HostError::io("set", &path))
        };
        set("trace_clock", "mono")?;
        set("buffer_size_kb", &each.to_string())?;
        let filter: Vec<String> = devices
            .iter()
            .map(|number| format!("dev == {number}"))
            .collect();
        let filter = filter.join(" || ");
        let mut pipes = Vec::new();
        for processor in processors {
            let path = processor.join("trace_pipe_raw");
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let pipe = OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(&path);
            pipes.push(pipe.map_err(HostError::io("open", &path))?);
        }
        for event in events {
            set(&format!("events/block/{event}/filter"), &filter)?;
        }
        // The last kind first, so that a request that is seen to begin is also seen to end.
        for event in events.iter().rev() {
            set(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(BlockTracer {
            folder,
            pipes,
            page: vec![0; PAGE_BYTES],
        })
    }

    /// Gives every page that is there, processor by processor, each of which in its order.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<(), HostError> {
        for pipe in &mut self.pipes {
            for _ in 0..PAGES_MAX {
                match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(n) => take(&self.page[..n]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        return Err(HostError::io("read the events in", &self.folder)(error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Events that found no room, so far.
    pub fn lost(&self) -> u64 {
        let processors = processors(&self.folder).unwrap_or_default().into_iter();
        let stats = processors.filter_map(|path| fs::read_to_string(path.join("stats")).ok());
        stats.map(|text| lost_in(&text)).sum()
    }

    /// Ends the tracing; what is in the buffers can still be read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<(), HostError> {
        let path = self.folder.join("tracing_on");
        fs::write(&path, "0").map_err(HostError::io("set", &path))
    }
}

/// A file of the tracer by its place below its folder.
///
/// # Errors
/// When it cannot be read.
pub fn file(place: &str) -> Result<String, HostError> {
    let path = Path::new(TRACING).join(place);
    let read = || -> io::Result<String> {
        // In pieces that hold all of it: some of these files end behind the first, however short.
        let (mut file, mut bytes) = (File::open(&path)?, Vec::new());
        let mut piece = vec![0; PAGE_BYTES];
        loop {
            match file.read(&mut piece)? {
                0 => break,
                n => bytes.extend_from_slice(&piece[..n]),
            }
        }
        String::from_utf8(bytes).map_err(io::Error::other)
    };
    read().map_err(HostError::io("read", &path))
}

/// The folders of the processors.
fn processors(folder: &Path) -> Result<Vec<PathBuf>, HostError> {
    let folder = folder.join("per_cpu");
    let entries = fs::read_dir(&folder).map_err(HostError::io("list", &folder))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

/// Events lost by a processor's statistics: overwritten, or refused.
fn lost_in(stats: &str) -> u64 {
    let counted = ["overrun:", "commit overrun:", "dropped events:"];
    let figures = stats.lines().filter_map(|line| {
        let value = counted.iter().find_map(|name| line.strip_prefix(name))?;
        value.trim().parse::<u64>().ok()
    });
    figures.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_added_up() {
        let stats = "entries: 9\noverrun: 3\ncommit overrun: 1\nbytes: 65692\n\
                     oldest event ts: 35373.539224\ndropped events: 2\nread events: 7\n";
        assert_eq!(lost_in(stats), 6);
        assert_eq!(lost_in(""), 0);
    }
}
