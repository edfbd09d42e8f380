// SPDX-License-Identifier: Apache-2.0
//! The disks of this machine by the kernel's names, and what they have counted. Looks only.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

mod layers;

use crate::host::HostError;
pub use layers::DeviceLayerCache;

/// The kernel's counters of all devices.
const STATISTICS: &str = "/proc/diskstats";
/// One folder for each device, partitions included.
const DEVICES: &str = "/sys/class/block";

/// Devices that lie on others, in memory, or hold media that come and go, by how their names begin. A logger
/// of whole disks also leaves them out.
const NO_DISKS: [&str; 8] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "drbd"];

/// Most disks that an error lists: it must stay readable on a large machine.
const LISTED_MAX: usize = 40;

/// The kernel's counters of every device, as it prints them.
///
/// # Errors
/// When the kernel does not report it.
pub fn statistics() -> Result<Vec<u8>, HostError> {
    let path = Path::new(STATISTICS);
    fs::read(path).map_err(HostError::io("read", path))
}

/// Whether a device is a whole disk that lies on no other device of this machine.
pub fn is_whole(name: &str) -> bool {
    // The kernel writes an exclamation mark where a name has a slash.
    let is_part = Path::new(DEVICES)
        .join(name.replace('/', "!"))
        .join("partition")
        .exists();
    !is_part && !NO_DISKS.iter().any(|begin| name.starts_with(begin))
}

/// The kernel's name of a device that is given by that name, by `/dev/NAME`, by a link to it, or by the
/// path of a directory or file that lies on it.
///
/// # Errors
/// When there is no such device; the message lists the whole disks there are.
pub fn name_of(text: &str) -> Result<String, HostError> {
    let path = match text.contains('/') {
        true => Path::new(text).to_owned(),
        false => Path::new("/dev").join(text),
    };
    let named = Path::new(DEVICES).join(text.replace('/', "!"));
    if !text.contains('/') && named.exists() {
        return Ok(text.into());
    }
    let kind = fs::metadata(&path).ok().map(|data| data.file_type());
    let is_place = kind.is_some_and(|kind| kind.is_dir() || kind.is_file());
    let is_named = is_place || kind.is_some_and(|kind| kind.is_block_device());
    let number = is_named
        .then(|| crate::host::facts::device_of(&path))
        .flatten();
    number
        .and_then(|number| name_of_number(&number))
        .ok_or_else(|| {
            let known = whole();
            let more = known.len().saturating_sub(LISTED_MAX);
            let list = known[..known.len() - more].join(", ");
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let reason = match is_place {
                true => "it does not lie on one block device of this machine".into(),
                false => format!("there is no block device '{text}' here"),
            };
            HostError::State(format!("{reason}; whole disks are: {list}{more}"))
        })
}

/// The kernel's name of the device with this number (`major:minor`), if there is one.
pub fn name_of_number(number: &str) -> Option<String> {
    let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    Some(folder.file_name()?.to_string_lossy().replace('!', "/"))
}

/// The kernel's numbers (major << 20 | minor) of a disk and its partitions, under which the block
/// layer shows of its requests.
///
/// # Errors
/// When it is not there, or itself a partition: what is asked of one ends on its disk.
pub fn numbers_of(name: &str) -> Result<Vec<u32>, HostError> {
    let folder = Path::new(DEVICES).join(name.replace('/', "!"));
    if folder.join("partition").exists() {
        return Err(HostError::State(format!(
            "{name} is a partition; name the disk that it is on"
        )));
    }
    let own = number_in(&folder)
        .ok_or_else(|| HostError::State(format!("the kernel has no device number for {name}")))?;
    let parts = fs::read_dir(&folder).into_iter().flatten().flatten();
    let parts = parts.map(|entry| entry.path());
    let parts = parts.filter(|path| path.join("partition").exists());
    let mut numbers: Vec<u32> = parts.filter_map(|path| number_in(&path)).collect();
    numbers.insert(0, own);
    Ok(numbers)
}

fn number_in(folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(major << 20 | minor)
}

/// The names of all whole disks.
fn whole() -> Vec<String> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().replace('!', "/"));
    let mut names: Vec<String> = names.filter(|name| is_whole(name)).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_others_is_no_whole_disk() {
        for (name, expect) in [
            ("sdzz", true),
            ("nvme9n9", true),
            ("loop0", false),
            ("dm-3", false),
            ("md127", false),
            ("zram0", false),
        ] {
            assert_eq!(is_whole(name), expect, "{name}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_with_those_that_are() {
        for text in ["nosuchdisk", "/dev/null", "/nowhere/sda"] {
            let error = name_of(text).unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("whole disks are"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_directory_stands_for_the_device_it_lies_on() {
        let error = name_of("/proc").unwrap_err().to_string();
        assert!(
            error.contains("does not lie on one block device"),
            "{error}"
        );
        let here = tempfile::tempdir().unwrap();
        let path = here.path().to_str().unwrap();
        match crate::host::facts::device_of(here.path()) {
            Some(number) => assert_eq!(name_of(path).unwrap(), name_of_number(&number).unwrap()),
            // Memory or an overlay, as in a container.
            None => assert!(name_of(path).is_err()),
        }
    }
}
