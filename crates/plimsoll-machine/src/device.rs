// SPDX-License-Identifier: Apache-2.0
//! Facts about block devices, first of all what would be lost by writing to one. Looks only.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{HostError, LocalHost, mounts};

/// How long the program that looks for signatures may take: a disk that sleeps needs seconds.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// Sector of the kernel's size files, whatever the device has.
const SIZE_SECTOR_BYTES: u64 = 512;

/// Facts of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device itself, links followed.
    pub path: PathBuf,
    /// `major:minor`.
    pub number: String,
    /// Size.
    pub bytes: u64,
    /// Logical block: what direct I/O is aligned to.
    pub block_bytes: u32,
    /// Maker's name of the disk, where it has one.
    pub model: Option<String>,
    /// Whether it turns, as far as the kernel knows: not of what stands behind a loop device.
    pub rotational: Option<bool>,
    /// How its cache is treated: `write back` (a flush makes durable) or `write through`.
    pub cache: Option<String>,
    /// The scheduler of its requests.
    pub scheduler: Option<String>,
    /// Why writing to it would destroy something or disturb another user, each a clause such as
    /// "it carries ext4".
    pub holds: Vec<String>,
    /// Whether it or one of its partitions is in use: mounted, swap, or a part of something
    /// else.
    pub in_use: bool,
}

/// Looks at a block device.
///
/// # Errors
/// When it does not exist, is no block device, or the kernel reports nothing of it.
pub fn device(path: &Path, host: &LocalHost) -> Result<DeviceFacts, HostError> {
    let path = path.canonicalize().map_err(look(path))?;
    let number = crate::host::facts::device_of(&path)
        .filter(|_| crate::host::facts::is_block_device(&path))
        .ok_or_else(|| HostError::State(format!("{} is not a block device", path.display())))?;
    let system = PathBuf::from(format!("/sys/dev/block/{number}"));
    let read =
        |name: &str| fs::read_to_string(system.join(name)).map(|text| text.trim().to_owned());
    let figure = |name: &str| -> Result<u64, HostError> {
        let text = read(name).map_err(look(&system.join(name)))?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        text.parse()
            .map_err(|_| look(&system.join(name))(invalid()))
    };
    let around = Around::look().map_err(look(&path))?;
    let (used, in_use) = around.usage(&path, &number, &system);
    let mut holds = signatures(&path, host);
    holds.extend(used);
    // A partition has its queue's facts in the disk that it is a part of.
    let queue = |name: &str| {
        let own = read(&format!("queue/{name}"));
        own.or_else(|_| read(&format!("../queue/{name}"))).ok()
    };
    let block = queue("logical_block_size").and_then(|text| text.parse().ok());
    // A loop device says what it is itself, which nothing behind it need be.
    let is_loop = system.join("loop").exists();
    let rotational = queue("rotational").filter(|_| !is_loop);
    Ok(DeviceFacts {
        bytes: figure("size")?.saturating_mul(SIZE_SECTOR_BYTES),
        block_bytes: plimsoll_core::num::saturating_u32(block.unwrap_or(SIZE_SECTOR_BYTES)),
        model: read("device/model").ok().filter(|text| !text.is_empty()),
        rotational: rotational.map(|text| text == "1"),
        cache: queue("write_cache"),
        scheduler: queue("scheduler").as_deref().map(chosen),
        path,
        number,
        holds,
        in_use,
    })
}

/// The word in brackets of a list such as `[none] mq-deadline`; the whole where there are none.
fn chosen(list: &str) -> String {
    let inside = list
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(list, |(word, _)| word).to_owned()
}

fn look(at: &Path) -> impl FnOnce(io::Error) -> HostError {
    HostError::io("look at", at)
}

/// Contents of the device, as far as its signatures tell.
fn signatures(path: &Path, host: &LocalHost) -> Vec<String> {
    let Some(shown) = path.to_str() else {
        return vec!["its name is not valid UTF-8, so it cannot be checked".into()];
    };
    // Without an option that says so, wipefs only lists what it knows.
    let args = ["--noheadings", "--output", "TYPE", shown];
    match host.output("wipefs", &args, LOOK_LIMIT) {
        Ok(text) => {
            let mut kinds: Vec<&str> = text.lines().map(str::trim).collect();
            kinds.retain(|kind| !kind.is_empty());
            kinds.dedup();
            kinds
                .into_iter()
                .map(|kind| format!("it carries {kind}"))
                .collect()
        }
        // A device that could not be looked at may hold anything.
        Err(error) => vec![format!("what it carries is unknown ({error})")],
    }
}

/// Who uses devices on this machine now.
struct Around {
    mounts: Vec<mounts::HostMountInfo>,
    /// The kernel's table of swap spaces, as it is.
    swaps: String,
}

impl Around {
    fn look() -> io::Result<Self> {
        Ok(Around {
            mounts: mounts::mounts()?,
            swaps: fs::read_to_string("/proc/swaps").unwrap_or_default(),
        })
    }

    /// Who uses one device or partition, `it` being its name in the text: mounts, swap, and
    /// devices made of it. `system` is its folder in sysfs.
    fn users(&self, it: &str, path: &Path, number: &str, system: &Path) -> Vec<String> {
        let mut users = Vec::new();
        let is_it = |mount: &&mounts::HostMountInfo| {
            mount.device == number
                || Path::new(&mount.source)
                    .canonicalize()
                    .is_ok_and(|source| source == path)
        };
        for mount in self.mounts.iter().filter(is_it) {
            users.push(format!("{it} is mounted on {}", mount.point.display()));
        }
        let is_swap = |line: &str| {
            let name = line.split_whitespace().next();
            name.is_some_and(|name| Path::new(name) == path)
        };
        if self.swaps.lines().any(is_swap) {
            users.push(format!("{it} is swap space"));
        }
        for holder in names(&system.join("holders")) {
            users.push(format!("{holder} is made of {it}"));
        }
        users
    }

    /// Contents of a device and its partitions besides signatures, and whether any of them is in use. A
    /// partition without users is listed, because writing destroys it, but does not count as use.
    fn usage(&self, path: &Path, number: &str, system: &Path) -> (Vec<String>, bool) {
        let mut holds = self.users("it", path, number, system);
        let mut in_use = !holds.is_empty();
        for part in names(system) {
            let folder = system.join(&part);
            if !folder.join("partition").exists() {
                continue;
            }
            holds.push(format!("it has the partition {part}"));
            let number = fs::read_to_string(folder.join("dev")).unwrap_or_default();
            // The kernel writes an exclamation mark where the name has a slash.
            let node = Path::new("/dev").join(part.replace('!', "/"));
            let users = self.users(
                &format!("its partition {part}"),
                &node,
                number.trim(),
                &folder,
            );
            in_use |= !users.is_empty();
            holds.extend(users);
        }
        (holds, in_use)
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether two paths lead to the same block device.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|data| data.rdev());
    crate::host::facts::is_block_device(one)
        && crate::host::facts::is_block_device(other)
        && number(one) == number(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_stands_in_brackets() {
        for (list, expect) in [("[none] mq-deadline", "none"), ("none", "none")] {
            assert_eq!(chosen(list), expect);
        }
        assert_eq!(chosen("mq-deadline [kyber] none"), "kyber");
    }

    #[test]
    fn a_disk_is_in_use_where_one_of_its_partitions_is() {
        let swaps = "Filename Type Size Used Priority\n/dev/zz2 partition 9 0 -2\n";
        for (parts, mounted, held, expect, in_use) in [
            (&[][..], "", "", &[][..], false),
            (&["zz1"], "", "", &["it has the partition zz1"], false),
            (
                &["zz1"],
                "900:1",
                "",
                &[
                    "it has the partition zz1",
                    "its partition zz1 is mounted on /m",
                ],
                true,
            ),
            (&[], "900:0", "", &["it is mounted on /m"], true),
            (
                &["zz2"],
                "",
                "",
                &[
                    "it has the partition zz2",
                    "its partition zz2 is swap space",
                ],
                true,
            ),
            (
                &["zz1"],
                "",
                "zz1/holders/dm-7",
                &[
                    "it has the partition zz1",
                    "dm-7 is made of its partition zz1",
                ],
                true,
            ),
            (&[], "", "holders/md9", &["md9 is made of it"], true),
        ] {
            let system = tempfile::tempdir().unwrap();
            for part in parts {
                let folder = system.path().join(part);
                fs::create_dir_all(folder.join("holders")).unwrap();
                fs::write(folder.join("partition"), "1\n").unwrap();
                fs::write(folder.join("dev"), format!("900:{}\n", &part[2..])).unwrap();
            }
            fs::create_dir_all(system.path().join("holders")).unwrap();
            if !held.is_empty() {
                fs::create_dir(system.path().join(held)).unwrap();
            }
            let around = Around {
                mounts: mount_of(mounted),
                swaps: swaps.into(),
            };
            let told = around.usage(Path::new("/dev/zz"), "900:0", system.path());
            let expect: Vec<String> = expect.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(told, (expect, in_use), "{parts:?} {mounted} {held}");
        }
    }

    fn mount_of(number: &str) -> Vec<mounts::HostMountInfo> {
        let mount = mounts::HostMountInfo {
            device: number.into(),
            point: "/m".into(),
            options: "rw".into(),
            file_system: "ext4".into(),
            source: "none".into(),
        };
        if number.is_empty() {
            Vec::new()
        } else {
            vec![mount]
        }
    }
}
