// SPDX-License-Identifier: Apache-2.0
//! Facts about this machine and about places on it, or on exports. Looks only; nothing is changed,
//! except for a nameless file that vanishes when it is closed, and a named one where the caller
//! allows it.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::target::{MachineFacts, TargetFacts};
use plimsoll_nfs::{NfsAddress, NfsMount};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::medium;
use crate::host::memory_group;
use crate::host::{HostError, LocalHost, mounts};

/// How long a program may take to say its version; a slower one is left out.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Sector of the kernel's block statistics, whatever the device has.
const STAT_SECTOR_BYTES: u64 = 512;

/// Alignment assumed where direct I/O works and the kernel does not say which it needs: the page
/// size of the supported machines, which every file system accepts.
const FALLBACK_ALIGN_BYTES: u32 = 4096;

/// File that [`direct_align_in`] makes for a moment.
const PROBE_FILE: &str = "plimsoll.probe";

/// Facts about this machine.
pub fn machine() -> MachineFacts {
    let system = rustix::system::uname();
    let info = rustix::system::sysinfo();
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let cpus = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    MachineFacts {
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        cpu: model.map_or_else(|| "unknown".into(), |(_, name)| name.trim().into()),
        cpus,
        // Memory that a group of processes may not use is not there for it.
        ram_bytes: (info.totalram * u64::from(info.mem_unit))
            .min(memory_group::limit_bytes().unwrap_or(u64::MAX)),
        cpu_governor: fs::read_to_string(governor)
            .ok()
            .map(|text| text.trim().into()),
    }
}

/// Facts about the file system a path (a directory, or a file in it) lies on.
///
/// # Errors
/// When the path does not exist or cannot be looked at.
pub fn target(path: &Path) -> Result<TargetFacts, HostError> {
    let path = path
        .canonicalize()
        .map_err(HostError::io("look at", path))?;
    let data = fs::metadata(&path).map_err(HostError::io("look at", &path))?;
    let dir = match path.parent() {
        Some(parent) if !data.is_dir() => parent,
        _ => &path,
    };
    let mount = mounts::containing(dir)
        .map_err(HostError::io("find the mount of", dir))?
        .ok_or_else(|| HostError::State(format!("{} is on no known mount", dir.display())))?;
    let room = rustix::fs::statvfs(dir).map_err(HostError::sys("find the free space in", dir))?;
    let (major, minor) = device_numbers(data.dev());
    let below = medium::below(dir);
    Ok(TargetFacts {
        medium: below.words,
        in_memory: below.in_memory,
        write_cache: medium::write_cache(&below.disks),
        disks: below.disks,
        path: dir.display().to_string(),
        mount_point: mount.point.display().to_string(),
        mount_source: mount.source,
        file_system: mount.file_system,
        mount_options: mount.options,
        device: format!("{major}:{minor}"),
        size_bytes: room.f_blocks * room.f_frsize,
        free_bytes: room.f_bavail * room.f_frsize,
        direct_align_bytes: direct_align(dir),
        ..TargetFacts::default()
    })
}

/// Alignment direct I/O needs in a directory; 0 where it does not work or cannot be tried.
fn direct_align(dir: &Path) -> u32 {
    // Only a file knows; one without a name leaves no trace, even if we are killed.
    let open = |extra| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | extra;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
    };
    if let Some(align) = open(OFlags::empty()).ok().and_then(stated_align) {
        return align;
    }
    match open(OFlags::DIRECT) {
        Ok(_) => FALLBACK_ALIGN_BYTES,
        Err(_) => 0,
    }
}

/// Facts about an export (`nfs://host/path`) that no kernel mounts. It is mounted for a moment, and
/// nothing is changed.
///
/// # Errors
/// When it is no address, or the server does not let us in.
pub fn export(address: &str) -> Result<TargetFacts, HostError> {
    let wanted: NfsAddress = address
        .parse()
        .map_err(|error| HostError::State(format!("could not {error}")))?;
    let io = HostError::doing(format!("use target '{address}'"));
    let share = NfsMount::mount(&wanted).map_err(&io)?;
    let room = share.room().map_err(&io)?;
    let limits = share.limits();
    let writes = if wanted.sync { "sync" } else { "async" };
    Ok(TargetFacts {
        path: wanted.export.clone(),
        mount_point: address.into(),
        mount_source: format!("{}:{}", wanted.host, wanted.export),
        file_system: "nfs3 (plimsoll)".into(),
        mount_options: format!(
            "vers=3,proto=tcp,rsize={},wsize={},{writes},no cache",
            limits.read_bytes, limits.write_bytes
        ),
        device: address.into(),
        size_bytes: room.size_bytes,
        free_bytes: room.free_bytes,
        direct_align_bytes: 0,
        ..TargetFacts::default()
    })
}

/// Alignment (bytes) direct I/O needs in a directory that is ours; 0 where it does not work.
///
/// For file systems without nameless files (NFS, overlays), where [`target`] cannot try it: a
/// file `plimsoll.probe` is made, written and read around the page cache, and removed.
pub fn direct_align_in(directory: &Path) -> u32 {
    let path = directory.join(PROBE_FILE);
    // One that is there is left over from a probe that was killed.
    let _ = fs::remove_file(&path);
    let align = probe(&path).unwrap_or(0);
    let _ = fs::remove_file(&path);
    align
}

fn probe(path: &Path) -> io::Result<u32> {
    const BYTES: usize = FALLBACK_ALIGN_BYTES as usize;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    // Aligned by hand: the block starts at a multiple of its size in a larger buffer.
    let mut memory = vec![0_u8; 2 * BYTES];
    let at = memory.as_ptr().align_offset(BYTES);
    let block = &mut memory[at..at + BYTES];
    // Some file systems open such a file and then refuse to use it.
    block.fill(0x5a);
    file.write_all_at(block, 0)?;
    block.fill(0);
    file.read_exact_at(block, 0)?;
    if block.iter().any(|&byte| byte != 0x5a) {
        return Ok(0);
    }
    Ok(stated_align(&file).unwrap_or(FALLBACK_ALIGN_BYTES))
}

/// Alignment the kernel says direct I/O on this file needs, 0 for "does not work"; `None` where
/// it does not say.
fn stated_align(file: impl AsFd) -> Option<u32> {
    let said = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_said = said.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    is_said.then_some(said.stx_dio_offset_align)
}

/// Fails when files cannot be created in a directory.
///
/// # Errors
/// With the directory and the reason.
pub fn check_writable(dir: &Path) -> Result<(), HostError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR);
    match opened {
        Ok(_) => Ok(()),
        // No nameless files on this file system (FUSE): ask for the permission only.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)
                .map_err(HostError::sys("write in", dir))
        }
        Err(errno) => Err(HostError::sys("write in", dir)(errno)),
    }
}

/// Whether the path is a block device.
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device())
}

/// Which mount of this machine a path lies on, and of which file system: another one over it is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountIdentity {
    mount: u64,
    device: (u32, u32),
}

/// The mount that a path lies on now; `None` where there is no such path, or the kernel does not report
/// (before Linux 5.8).
pub fn mount_identity(path: &Path) -> Option<MountIdentity> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let said = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), wanted).ok()?;
    let is_said = said.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_said.then_some(MountIdentity {
        mount: said.stx_mnt_id,
        device: (said.stx_dev_major, said.stx_dev_minor),
    })
}

/// Bytes a device has read and written since it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The number (`major:minor`) of the block device below a path, or of the path if it is a block
/// device; `None` where there is none that can be named (memory, network, several devices).
pub fn device_of(path: &Path) -> Option<String> {
    let number = |device| {
        let (major, minor) = device_numbers(device);
        format!("{major}:{minor}")
    };
    let is_known = |number: &String| Path::new(&format!("/sys/dev/block/{number}")).exists();
    let data = fs::metadata(path).ok()?;
    if data.file_type().is_block_device() {
        return Some(number(data.rdev())).filter(is_known);
    }
    if is_known(&number(data.dev())) {
        return Some(number(data.dev()));
    }
    // Some file systems (btrfs) have a number of their own: the mount names the device.
    let mount = mounts::containing(&path.canonicalize().ok()?).ok()??;
    let source = fs::metadata(PathBuf::from(mount.source)).ok()?;
    let several = mount.file_system == "btrfs" && n_btrfs_devices(&number(source.rdev())) != 1;
    let is_device = source.file_type().is_block_device() && !several;
    is_device.then(|| number(source.rdev())).filter(is_known)
}

/// Number of devices of the btrfs that has the device with this number; 0 when unknown.
fn n_btrfs_devices(number: &str) -> usize {
    let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{number}")) else {
        return 0;
    };
    let name = device.file_name().unwrap_or_default();
    let entries = fs::read_dir("/sys/fs/btrfs").into_iter().flatten();
    let devices = entries.flatten().map(|entry| entry.path().join("devices"));
    let of_ours = devices.into_iter().find(|dir| dir.join(name).exists());
    of_ours
        .and_then(|dir| fs::read_dir(dir).ok())
        .map_or(0, Iterator::count)
}

/// Bytes that the device with this number has read and written: compared with the bytes of a client, they
/// show whether a cache answered.
///
/// # Errors
/// When the kernel has no statistics of it.
pub fn device_bytes(number: &str) -> Result<DeviceBytes, HostError> {
    let path = PathBuf::from(format!("/sys/dev/block/{number}/stat"));
    let text = fs::read_to_string(&path).map_err(HostError::io("read", &path))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    match (fields.get(2), fields.get(6)) {
        (Some(read), Some(written)) => Ok(DeviceBytes {
            read_bytes: read * STAT_SECTOR_BYTES,
            written_bytes: written * STAT_SECTOR_BYTES,
        }),
        _ => Err(HostError::State(format!(
            "{} does not look like block statistics",
            path.display()
        ))),
    }
}

/// Whether a device has nothing in flight, by its number; also where the kernel does not count it.
pub fn is_device_idle(number: &str) -> bool {
    let text = fs::read_to_string(format!("/sys/dev/block/{number}/stat")).unwrap_or_default();
    // Field 9 (from 1) of the block statistics: Documentation/block/stat.rst of the kernel.
    let in_flight = text.split_whitespace().nth(8);
    in_flight.is_none_or(|field| field == "0")
}

/// Flushes that a device was asked for, by its number; of a partition those of its disk. `None`
/// where the kernel does not count them (before Linux 5.5, and for devices without requests).
pub fn device_flushes(number: &str) -> Option<u64> {
    let device = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    let whole = match device.join("partition").exists() {
        true => device.parent()?.to_path_buf(),
        false => device,
    };
    let text = fs::read_to_string(whole.join("stat")).ok()?;
    // Field 16 (from 1) of the block statistics: Documentation/block/stat.rst of the kernel.
    text.split_whitespace().nth(15)?.parse().ok()
}

/// Versions of the programs that stacks use, as they say them; absent ones are left out.
pub fn versions(host: &LocalHost) -> BTreeMap<String, String> {
    const ASKED: [(&str, &str); 9] = [
        ("ceph-osd", "--version"),
        ("tgtd", "--version"),
        ("qemu-storage-daemon", "--version"),
        ("nbdfuse", "--version"),
        ("mkfs.btrfs", "--version"),
        ("mkfs.ext4", "-V"),
        ("lfs", "--version"),
        ("losetup", "--version"),
        ("fusermount3", "--version"),
    ];
    let mut versions = BTreeMap::new();
    for (program, option) in ASKED {
        if let Ok(text) = host.output(program, &[option], VERSION_LIMIT)
            && let Some(line) = text.lines().find(|line| !line.trim().is_empty())
        {
            versions.insert(program.into(), line.trim().into());
        }
    }
    versions
}

/// The kernel's split of a device number (the C library's `major` and `minor`).
pub(crate) fn device_numbers(device: u64) -> (u32, u32) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    (saturating_u32(major), saturating_u32(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_facts_that_agree_with_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let facts = target(&file).unwrap();
        assert_eq!(
            facts,
            TargetFacts {
                free_bytes: facts.free_bytes,
                ..target(dir.path()).unwrap()
            }
        );
        assert!(facts.free_bytes <= facts.size_bytes);
        assert!(Path::new(&facts.path).starts_with(&facts.mount_point));
        assert!(facts.direct_align_bytes == 0 || facts.direct_align_bytes.is_power_of_two());
        check_writable(dir.path()).unwrap();
        assert!(!is_block_device(&file));
        let error = target(&dir.path().join("absent")).unwrap_err().to_string();
        assert!(error.contains("absent"), "{error}");
        if let Some(number) = device_of(dir.path()) {
            device_bytes(&number).unwrap();
        }
        assert!(device_bytes("999:999").is_err());
    }

    #[test]
    fn directories_of_one_mount_lie_on_one_mount() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
        for path in [&first, &second] {
            fs::create_dir(path).unwrap();
        }
        assert_eq!(mount_identity(&first), mount_identity(&second));
        assert_ne!(mount_identity(&first), mount_identity(Path::new("/proc")));
        assert_eq!(mount_identity(&dir.path().join("absent")), None);
    }

    #[test]
    fn direct_io_is_probed_in_a_directory_of_ours_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        // Left by a probe that was killed.
        fs::write(dir.path().join(PROBE_FILE), "x").unwrap();
        let probed = direct_align_in(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        match target(dir.path()).unwrap().direct_align_bytes {
            // Without nameless files only the probe shows it.
            0 => assert!(probed == 0 || probed.is_power_of_two()),
            known => assert_eq!(probed, known),
        }
        assert_eq!(direct_align_in(&dir.path().join("absent")), 0);
        // No file can be made there.
        assert_eq!(direct_align_in(Path::new("/proc")), 0);
    }

    #[test]
    fn device_numbers_are_split_as_the_kernel_does() {
        for (device, expect) in [(0x0801, (8, 1)), (0xfe00, (254, 0)), (0x10_3b02, (59, 258))] {
            assert_eq!(device_numbers(device), expect);
        }
    }

    #[test]
    fn the_machine_has_a_kernel_memory_and_processors() {
        let facts = machine();
        assert!(facts.kernel.contains('.') && facts.cpus >= 1);
        assert!(facts.ram_bytes > 1 << 27);
    }
}
