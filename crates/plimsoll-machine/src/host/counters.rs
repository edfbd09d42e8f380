// SPDX-License-Identifier: Apache-2.0
//! The kernel's counters of this machine until now: processors, the threads of this program,
//! links, TCP, disks. Looks only; one look reads a dozen small files.
//!
//! Formats: `Documentation/filesystems/proc.rst`, `admin-guide/iostats.rst`, `admin-guide/md.rst`
//! and `scheduler/sched-stats.rst` of the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::disks;
use super::group_limits::GroupCounters;

/// Sectors of the kernel's counters, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// Folder of the processors.
const CPUS: &str = "/sys/devices/system/cpu";
/// Folder of the network interfaces.
const LINKS: &str = "/sys/class/net";

/// One look at this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineCounters {
    /// Nanoseconds in which each processor ran something, by number.
    pub cpus: BTreeMap<u32, u64>,
    /// For each thread of this program: nanoseconds on a processor, and waiting for one.
    pub threads: BTreeMap<u32, (u64, u64)>,
    /// Frequency now, as a share of the highest, over all processors that tell it.
    pub frequency: Option<f64>,
    /// How often a processor was slowed because of heat.
    pub heat_throttles: Option<u64>,
    /// Limits of our groups of processes.
    pub group: GroupCounters,
    /// TCP segments: sent in all, and of these sent again.
    pub tcp: Option<(u64, u64)>,
    /// Links other than the loopback and the members of bridges and bonds, whose bytes those count.
    pub links: BTreeMap<String, LinkCounters>,
    /// Devices.
    pub disks: BTreeMap<String, DeviceCounters>,
    /// Arrays that copy or check their members, and what they do; `None` where the kernel has no
    /// arrays.
    pub array_syncs: Option<Vec<String>>,
}

/// One network interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Packets dropped, both ways.
    pub dropped: u64,
}

/// One device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads and writes that ended.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds with something in flight.
    pub busy_ms: u64,
    /// Milliseconds of all requests together.
    pub request_ms: u64,
    /// Writes that ended, and their milliseconds.
    pub writes: (u64, u64),
    /// Reads and writes in flight now.
    pub in_flight: u64,
    /// Discards that ended, and their milliseconds; newer kernels count them.
    pub discards: Option<(u64, u64)>,
    /// The same of flushes.
    pub flushes: Option<(u64, u64)>,
}

impl MachineCounters {
    /// Looks now. What cannot be read is left out.
    pub fn now() -> MachineCounters {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        MachineCounters {
            cpus: cpus(&read("/proc/stat")),
            threads: threads(),
            frequency: frequency(),
            heat_throttles: heat_throttles(),
            group: GroupCounters::now(),
            tcp: tcp(&read("/proc/net/snmp")),
            links: links(&read("/proc/net/dev"), |name| {
                is_member(Path::new(LINKS), name)
            }),
            disks: disks_now(),
            array_syncs: fs::read_to_string("/proc/mdstat")
                .ok()
                .map(|text| array_syncs(&text)),
        }
    }
}

/// Processors of this machine, those included that this program may not use.
pub fn cpu_count() -> u32 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    plimsoll_core::num::saturating_u32(cpus(&text).len() as u64)
}

/// The counters of all devices.
pub fn disks_now() -> BTreeMap<String, DeviceCounters> {
    devices(&disks::statistics().unwrap_or_default())
}

/// Requests that a disk takes at once: those of a queue times its queues. Devices that hand requests on
/// have no queue.
pub fn queue_slots(name: &str) -> Option<u32> {
    let device = Path::new("/sys/class/block").join(name.replace('/', "!"));
    let queues = fs::read_dir(device.join("mq")).ok()?.count() as u64;
    let each = number_in(&device.join("queue/nr_requests"))?;
    let slots = each.saturating_mul(queues);
    (slots > 0).then(|| plimsoll_core::num::saturating_u32(slots))
}

/// Bits per second of a link, where it says so.
pub fn link_bits_per_s(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new(LINKS).join(name).join("speed")).ok()?;
    // In megabits; −1 where the speed is unknown.
    let mbits: u64 = text.trim().parse().ok()?;
    (mbits > 0).then(|| mbits.saturating_mul(1_000_000))
}

/// Nanoseconds in which each processor ran something.
fn cpus(text: &str) -> BTreeMap<u32, u64> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let one = |line: &str| {
        let (name, ticks) = line.split_once(' ')?;
        let number: u32 = name.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = ticks
            .split_whitespace()
            .map_while(|w| w.parse().ok())
            .collect();
        let of = |field: usize| ticks.get(field).copied().unwrap_or(0);
        // User, nice, system, interrupts; not idle, waiting, steal.
        let busy = of(0) + of(1) + of(2) + of(5) + of(6);
        Some((number, busy.saturating_mul(tick_ns)))
    };
    text.lines().filter_map(one).collect()
}

/// The scheduler's counters of every thread of this program.
fn threads() -> BTreeMap<u32, (u64, u64)> {
    let folder = fs::read_dir("/proc/self/task").into_iter().flatten();
    let one = |entry: fs::DirEntry| {
        let thread: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let mut words = text.split_whitespace().map_while(|w| w.parse().ok());
        Some((thread, (words.next()?, words.next()?)))
    };
    folder.flatten().filter_map(one).collect()
}

/// The numbers of the processors of which the kernel has a folder.
fn numbered_cpus() -> impl Iterator<Item = std::path::PathBuf> {
    let folder = fs::read_dir(CPUS).into_iter().flatten().flatten();
    folder.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Frequency now as a share of the highest.
fn frequency() -> Option<f64> {
    let shares: Vec<f64> = numbered_cpus()
        .filter_map(|cpu| {
            let now = number_in(&cpu.join("cpufreq/scaling_cur_freq"))?;
            let most = number_in(&cpu.join("cpufreq/cpuinfo_max_freq")).filter(|most| *most > 0)?;
            Some(now as f64 / most as f64)
        })
        .collect();
    let count = shares.len() as f64;
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / count)
}

fn heat_throttles() -> Option<u64> {
    let counts: Vec<u64> = numbered_cpus()
        .filter_map(|cpu| number_in(&cpu.join("thermal_throttle/core_throttle_count")))
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Segments sent in all and again, by the names in the first of the two lines of TCP.
fn tcp(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let pairs: BTreeMap<&str, &str> = names
        .split_whitespace()
        .zip(values.split_whitespace())
        .collect();
    let of = |name: &str| pairs.get(name)?.parse::<u64>().ok();
    Some((of("OutSegs")?, of("RetransSegs")?))
}

/// Whether a link is a port of a bridge or a member of a bond, which counts the same traffic again.
fn is_member(links: &Path, name: &str) -> bool {
    links.join(name).join("master").exists()
}

fn links(text: &str, is_member: impl Fn(&str) -> bool) -> BTreeMap<String, LinkCounters> {
    let one = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest
            .split_whitespace()
            .map_while(|w| w.parse().ok())
            .collect();
        let of = |field: usize| fields.get(field).copied();
        let counted = LinkCounters {
            received: of(0)?,
            sent: of(8)?,
            dropped: of(3)? + of(11)?,
        };
        Some((name.trim().to_owned(), counted))
    };
    let all = text.lines().filter_map(one);
    all.filter(|(name, _)| name != "lo" && !is_member(name))
        .collect()
}

fn devices(text: &[u8]) -> BTreeMap<String, DeviceCounters> {
    let text = String::from_utf8_lossy(text);
    let one = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?.to_owned();
        let fields: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let of = |field: usize| fields.get(field).copied();
        let counted = DeviceCounters {
            requests: of(0)? + of(4)?,
            read_bytes: of(2)?.saturating_mul(SECTOR_BYTES),
            written_bytes: of(6)?.saturating_mul(SECTOR_BYTES),
            busy_ms: of(9)?,
            request_ms: of(3)? + of(7)?,
            writes: (of(4)?, of(7)?),
            in_flight: of(8)?,
            discards: of(11).zip(of(14)),
            flushes: of(15).zip(of(16)),
        };
        Some((name, counted))
    };
    text.lines().filter_map(one).collect()
}

/// Arrays of `/proc/mdstat` with something under way: `md0: resync`.
fn array_syncs(text: &str) -> Vec<String> {
    const ACTIONS: [&str; 4] = ["resync", "recovery", "check", "reshape"];
    let mut array = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((name, _)) = line.split_once(" : ") {
            array = name.trim();
        }
        let is_under_way = |action: &&&str| {
            let words = format!("{action} =");
            // A command that waits for its turn shows no figures.
            line.contains(&words)
        };
        if let Some(action) = ACTIONS.iter().find(is_under_way) {
            found.push(format!("{array}: {action}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_understood() {
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 50 10 15 450 2 3 4 20 5 0\ncpu11 1 0 0 9\nintr 1\n";
        assert_eq!(cpus(stat), [(0, 82 * tick), (11, tick)].into());
        let snmp = "Ip: A B\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 1000 12 0\n";
        assert_eq!(tcp(snmp), Some((1000, 12)));
        assert_eq!(tcp("Tcp: OutSegs\n"), None);
        let dev = "Inter-| Receive\n face |bytes packets\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  \
            eth0:100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0\n  port: 100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0\n";
        let eth0 = LinkCounters {
            received: 100,
            sent: 200,
            dropped: 8,
        };
        let is_member = |name: &str| name == "port";
        assert_eq!(links(dev, is_member), [("eth0".to_owned(), eth0)].into());
        let stat = b" 254 0 vda 10 1 80 5 20 2 160 7 3 9 12 4 0 8 6 2 1\n 7 0 loop0 x\n";
        let vda = DeviceCounters {
            requests: 30,
            read_bytes: 80 * 512,
            written_bytes: 160 * 512,
            busy_ms: 9,
            request_ms: 12,
            writes: (20, 7),
            in_flight: 3,
            discards: Some((4, 6)),
            flushes: Some((2, 1)),
        };
        assert_eq!(devices(stat), [("vda".to_owned(), vda)].into());
    }

    #[test]
    fn only_an_array_that_is_at_work_is_named() {
        let text = "Personalities : [raid1]\n\
            md1 : active raid1 vdc[1] vdb[0]\n      1024 blocks [2/2] [UU]\n      \
            [==>....]  check = 12.6% (130/1024) finish=0.1min speed=100K/sec\n\
            md2 : active raid1 vde[1] vdd[0]\n      1024 blocks [2/2] [UU]\n      \tresync=DELAYED\n\
            unused devices: <none>\n";
        assert_eq!(array_syncs(text), ["md1: check"]);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let counted = MachineCounters::now();
        assert!(!counted.cpus.is_empty());
        assert!(counted.threads.contains_key(&std::process::id()));
    }
}
