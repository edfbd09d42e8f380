// SPDX-License-Identifier: Apache-2.0
//! Limits of the control groups that hold this program, and how often they were reached: of version 1 and of
//! version 2 of the kernel's groups, and of all groups above its own. Looks only.
//!
//! Formats: `admin-guide/cgroup-v2.rst`, `admin-guide/cgroup-v1/{memory,blkio-controller}.rst` and
//! `scheduler/sched-bwc.rst` of the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_core::evidence::{DiskLimit, DiskLimitKind, MachineUse, MemoryLimitUse};

use super::memory_group::holding;

/// A limit of memory of version 1 that is none.
const NO_MEMORY_LIMIT: u64 = 1 << 62;

/// Files of version 1 that limit disks, and the words of version 2.
const DISK_LIMITS: [(DiskLimitKind, &str, &str); 4] = [
    (DiskLimitKind::Reads, "read_iops", "riops"),
    (DiskLimitKind::Writes, "write_iops", "wiops"),
    (DiskLimitKind::ReadBytes, "read_bps", "rbps"),
    (DiskLimitKind::WrittenBytes, "write_bps", "wbps"),
];

/// One look at the limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupCounters {
    /// How often processor time was used up, and the nanoseconds for which it then was waited for.
    pub cpu: Option<(u64, u64)>,
    /// The limit of memory.
    pub memory: Option<MemoryLimitUse>,
    /// Limits of disks; none where they cannot be read.
    pub disks: Option<Vec<DiskLimit>>,
}

impl GroupCounters {
    /// Looks now.
    pub(super) fn now() -> GroupCounters {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, groups) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let holding = |controller| holding(&mounts, &groups, controller);
        GroupCounters {
            cpu: cpu(&holding("cpu")),
            memory: memory(&holding("memory")),
            disks: disk_limits(&holding("blkio")),
        }
    }
}

/// Sums over groups that can be held back.
fn cpu(groups: &[PathBuf]) -> Option<(u64, u64)> {
    let of = |group: &PathBuf| throttled(&fs::read_to_string(group.join("cpu.stat")).ok()?);
    let all = groups.iter().filter_map(of);
    all.reduce(|a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)))
}

fn throttled(text: &str) -> Option<(u64, u64)> {
    let ns = valued(text, "throttled_time");
    let us = || valued(text, "throttled_usec").map(|us| us.saturating_mul(1000));
    Some((valued(text, "nr_throttled")?, ns.or_else(us)?))
}

/// The figure of a name in lines of both.
fn valued(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(found, _)| *found == name)?;
    value.trim().parse().ok()
}

fn memory(groups: &[PathBuf]) -> Option<MemoryLimitUse> {
    let text = |group: &Path, file: &str| fs::read_to_string(group.join(file)).ok();
    let number = |group: &Path, file: &str| text(group, file)?.trim().parse::<u64>().ok();
    let limit = |group: &Path| {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        let limits = files.iter().filter_map(|file| number(group, file));
        limits.min().filter(|bytes| *bytes < NO_MEMORY_LIMIT)
    };
    let hits = |group: &Path| {
        let events = text(group, "memory.events").unwrap_or_default();
        let of_second = ["max", "high"].map(|name| valued(&events, name).unwrap_or(0));
        let of_first = number(group, "memory.failcnt").unwrap_or(0);
        of_second.into_iter().fold(of_first, u64::saturating_add)
    };
    let limited = || {
        groups
            .iter()
            .filter_map(|group| Some((limit(group)?, hits(group))))
    };
    let own = text(groups.first()?, "memory.stat")?;
    // Of version 1 with the groups below, as version 2 counts.
    let pages = valued(&own, "total_workingset_refault_file")
        .or_else(|| valued(&own, "workingset_refault_file"))?;
    Some(MemoryLimitUse {
        limit_bytes: limited().map(|(bytes, _)| bytes).min()?,
        hits: limited().fold(0, |sum, (_, hits)| sum.saturating_add(hits)),
        read_again_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
    })
}

fn disk_limits(groups: &[PathBuf]) -> Option<Vec<DiskLimit>> {
    let mut all = Vec::new();
    for group in groups {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        let files = DISK_LIMITS
            .iter()
            .map(|(kind, file, _)| (kind, read(&format!("blkio.throttle.{file}_device"))));
        for (kind, text) in files {
            all.extend(of_first(&text.unwrap_or_default(), *kind, name_of));
        }
        all.extend(of_second(&read("io.max").unwrap_or_default(), name_of));
    }
    all.truncate(MachineUse::DISKS_MAX);
    // The group that holds all others may have no such files: it has no limits.
    (!groups.is_empty()).then_some(all)
}

/// Lines of version 1: `8:16 200`.
fn of_first(
    text: &str,
    what: DiskLimitKind,
    name: impl Fn(&str) -> Option<String>,
) -> Vec<DiskLimit> {
    let one = |line: &str| {
        let (device, per_s) = line.split_once(' ')?;
        Some(DiskLimit {
            disk: name(device)?,
            what,
            per_s: per_s.trim().parse().ok()?,
        })
    };
    text.lines().filter_map(one).collect()
}

/// Lines of version 2: `8:16 rbps=2097152 wbps=max riops=max wiops=120`.
fn of_second(text: &str, name: impl Fn(&str) -> Option<String>) -> Vec<DiskLimit> {
    let one = |line: &str| {
        let (device, words) = line.split_once(' ')?;
        let disk = name(device)?;
        let limit = |word: &str| {
            let (key, per_s) = word.split_once('=')?;
            let (what, ..) = DISK_LIMITS.iter().find(|(_, _, word)| *word == key)?;
            Some(DiskLimit {
                disk: disk.clone(),
                what: *what,
                per_s: per_s.parse().ok()?,
            })
        };
        Some(words.split(' ').filter_map(limit).collect::<Vec<_>>())
    };
    text.lines().filter_map(one).flatten().collect()
}

/// The kernel's name of the device `major:minor`.
fn name_of(device: &str) -> Option<String> {
    let link = fs::read_link(Path::new("/sys/dev/block").join(device)).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_disks_are_read_from_groups_of_both_versions() {
        let name = |device: &str| (device == "8:16").then(|| "sdb".to_owned());
        let limit = |what, per_s| DiskLimit {
            disk: "sdb".into(),
            what,
            per_s,
        };
        let first = of_first("8:16 200\n9:9 1\n", DiskLimitKind::Reads, name);
        assert_eq!(first, [limit(DiskLimitKind::Reads, 200)]);
        let second = of_second("8:16 rbps=2097152 wbps=max riops=max wiops=120\n", name);
        let expected = [
            limit(DiskLimitKind::ReadBytes, 2_097_152),
            limit(DiskLimitKind::Writes, 120),
        ];
        assert_eq!(second, expected);
    }

    #[test]
    fn throttled_time_is_read_in_the_units_of_both_versions() {
        let first = "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n";
        assert_eq!(throttled(first), Some((4, 5000)));
        let second = "usage_usec 7\nnr_periods 9\nnr_throttled 4\nthrottled_usec 5\n";
        assert_eq!(throttled(second), Some((4, 5000)));
        assert_eq!(throttled("usage_usec 7\n"), None);
    }

    #[test]
    fn the_lowest_limit_of_memory_and_the_hits_of_all_groups_count() {
        let dir = tempfile::tempdir().unwrap();
        let (own, above) = (dir.path().join("above/own"), dir.path().join("above"));
        fs::create_dir_all(&own).unwrap();
        for (group, file, text) in [
            (&own, "memory.max", "max\n"),
            (&own, "memory.stat", "file 1\nworkingset_refault_file 3\n"),
            (&own, "memory.events", "low 0\nhigh 0\nmax 9\n"),
            (&above, "memory.max", "4096\n"),
            (&above, "memory.events", "low 0\nhigh 2\nmax 5\n"),
        ] {
            fs::write(group.join(file), text).unwrap();
        }
        let found = memory(&[own.clone(), above.clone()]).unwrap();
        let page = rustix::param::page_size() as u64;
        assert_eq!((found.limit_bytes, found.hits), (4096, 7));
        assert_eq!(found.read_again_bytes, 3 * page);
        fs::write(above.join("memory.max"), "max\n").unwrap();
        assert_eq!(memory(&[own, above]), None);
    }
}
