// SPDX-License-Identifier: Apache-2.0
//! A machine that is only there to boot: no network, no ports, no journal. Its disks may lie in any folder.
//! The program that starts the machine ends it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::image::{VmImage, text_of};
use super::machine::{self, VmAcceleration};

/// The word on its console when it is up, before its name.
pub const READY: &str = "plimsoll-ready";

/// The word on its console when it will not come up.
pub const FAILED: &str = "plimsoll-failed";

/// Memory of it. It is for booting; what takes more is not ours.
const MEMORY_MIB: u64 = 320;

/// Size of its disk for data, sparse: a file system that it makes when it first boots.
const DATA_BYTES: u64 = 64 << 20;

/// Files of its disks in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmDiskFiles {
    /// A copy of the image's system.
    pub system: PathBuf,
    /// The disk with the data it keeps.
    pub data: PathBuf,
}

impl VmDiskFiles {
    /// Their files in this folder.
    pub fn in_folder(folder: &Path) -> VmDiskFiles {
        VmDiskFiles {
            system: folder.join("system.img"),
            data: folder.join("data.img"),
        }
    }

    /// Makes both: what was there is another machine's no more.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn make(&self, image: &VmImage) -> io::Result<()> {
        fs::copy(image.dir.join("root.erofs"), &self.system)?;
        let data = File::create(&self.data)?;
        data.set_len(DATA_BYTES)?;
        self.forget()
    }

    /// Writes both back and drops them from this machine's page cache.
    ///
    /// # Errors
    /// When one cannot be opened or written back.
    pub fn forget(&self) -> io::Result<()> {
        for path in [&self.system, &self.data] {
            let file = File::open(path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Whether they can be read and written past the page cache.
    pub fn allow_direct(&self) -> bool {
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        let mut options = File::options();
        options.read(true).custom_flags(direct);
        options.open(&self.data).is_ok()
    }
}

/// The command that is such a machine, its console in a file.
pub fn command(
    image: &VmImage,
    acceleration: VmAcceleration,
    disks: &VmDiskFiles,
    console: &Path,
) -> Vec<String> {
    // A comma in a value is written twice.
    let value = |path: &Path| text_of(path).replace(',', ",,");
    let cache = match disks.allow_direct() {
        true => "none",
        false => "writeback",
    };
    let mut words = vec![machine::QEMU.to_owned()];
    words.extend(machine::basic(acceleration, MEMORY_MIB));
    let line = format!(
        "{}ipv6.disable=1 plimsoll.name=boot",
        acceleration.kernel_words()
    );
    words.extend(machine::boot(&text_of(&image.dir), &line));
    words.extend(["-serial".into(), format!("file:{}", value(console))]);
    let drive = |path: &Path, id: &str, more: &str| {
        let how = format!("format=raw,if=none,cache={cache},aio=threads{more}");
        let drive = format!("file={},id={id},{how}", value(path));
        let device = format!("virtio-blk-pci,drive={id},serial={id}");
        ["-drive".into(), drive, "-device".into(), device]
    };
    words.extend(drive(&disks.system, "root", ",readonly=on"));
    words.extend(drive(&disks.data, machine::DATA, ""));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_disks_lie_where_they_are_made_and_begin_anew() {
        let place = tempfile::tempdir().unwrap();
        let image = VmImage {
            dir: place.path().to_path_buf(),
            recipe: "a".into(),
            kernel: "6".into(),
            size_bytes: 5,
        };
        fs::write(place.path().join("root.erofs"), "12345").unwrap();
        let folder = place.path().join("a,b");
        fs::create_dir(&folder).unwrap();
        let disks = VmDiskFiles::in_folder(&folder);
        disks.make(&image).unwrap();
        fs::write(&disks.data, "what a machine wrote").unwrap();
        disks.make(&image).unwrap();
        assert_eq!(fs::read(&disks.system).unwrap(), b"12345");
        let data = fs::read(&disks.data).unwrap();
        assert_eq!(data.len() as u64, DATA_BYTES);
        assert!(data.iter().all(|byte| *byte == 0));
        let words = command(&image, VmAcceleration::Kvm, &disks, Path::new("/c"));
        let line = words.join(" ");
        for part in [
            "a,,b/system.img,id=root,format=raw",
            "readonly=on",
            "serial=data",
            "-serial file:/c",
            "plimsoll.name=boot",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        fs::remove_file(&disks.system).unwrap();
        assert!(disks.forget().is_err());
    }
}
