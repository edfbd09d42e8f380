// SPDX-License-Identifier: Apache-2.0
//! A node as an appliance: a disk that boots by itself, made of the image of the virtual machines, for
//! whatever runs machines (a qcow2 file) or imports them (an OVA file).
//!
//! Nothing is mounted, so all of it can be made without root once the image is there.

mod ovf;

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanStep};
use plimsoll_core::units;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::VmError;
use super::image::{self, VmImage, text_of};
use crate::stacks::{StackRequirements, manage::new_id};
use plimsoll_machine::host::{HostError, HostResolver};
use plimsoll_machine::journal::{Journal, StateDir};
use plimsoll_machine::raise::{raise_telling, raze};

/// The name of the appliance and of its files.
const NAME: &str = "plimsoll-node";

/// The disk in the OVA file.
const DISK_FILE: &str = "plimsoll-node-disk1.vmdk";

/// The kernel's command line: both consoles, and that this is no machine of a lab.
const KERNEL_WORDS: &str = "console=ttyS0 console=tty0 quiet panic=30 ipv6.disable=1 plimsoll.node";

/// The scripts that put the parts together.
const SCRIPTS: [(&str, &str); 2] = [
    ("disk.sh", include_str!("../guest/disk.sh")),
    ("ova.sh", include_str!("../guest/ova.sh")),
];

/// Programs that making one needs on this machine.
const PROGRAMS: [&str; 8] = [
    "sh",
    "mv",
    "mke2fs",
    "sfdisk",
    "grub-mkimage",
    "qemu-img",
    "sha256sum",
    "tar",
];

/// The boot sector that it begins with.
const BOOT_SECTOR: (&str, &str) = (
    "/usr/lib/grub/i386-pc/boot.img",
    "apt-get install grub-pc-bin",
);

/// How long packing may take: all of a system is compressed twice, by a disk that may be slow.
const PACK_LIMIT_S: u32 = 1800;

const MIB: u64 = 1 << 20;

/// Sizes of the disk for what a node keeps. The largest leaves room below the 2 TiB that a partition
/// table of a BIOS can describe.
const DATA_BYTES: std::ops::RangeInclusive<u64> = 256 * MIB..=1 << 40;

/// The appliance that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmApplianceSpec {
    /// The folder for its files; made when it is missing.
    pub dir: PathBuf,
    /// Who may log in: lines of public keys, as `authorized_keys` has them.
    pub keys: String,
    /// Room for what the node keeps, bytes.
    pub data_bytes: u64,
}

impl VmApplianceSpec {
    /// The files that come of it.
    pub fn files(&self) -> [PathBuf; 2] {
        [self.dir.join(qcow2()), self.dir.join(ova())]
    }

    /// Checks all that can be known before anything is made.
    ///
    /// # Errors
    /// When the size is out of range, a key is not a public key of ssh, or there is no key.
    pub fn check(&self) -> Result<(), VmError> {
        if !DATA_BYTES.contains(&self.data_bytes) {
            let size = |bytes: &u64| units::size(*bytes as f64);
            return Err(VmError::State(format!(
                "invalid size {} of the disk for data: expected {} to {}",
                size(&self.data_bytes),
                size(DATA_BYTES.start()),
                size(DATA_BYTES.end())
            )));
        }
        check_keys(&self.keys).map_err(|why| VmError::State(format!("the file of keys {why}")))
    }
}

fn qcow2() -> String {
    format!("{NAME}.qcow2")
}

fn ova() -> String {
    format!("{NAME}.ova")
}

/// Whether one of these keys allows a login, and all lines are ones; the error completes
/// "the file of keys ...".
fn check_keys(text: &str) -> Result<(), String> {
    if text.contains("PRIVATE KEY-----") {
        return Err(
            "contains a private key; give the public one, whose name ends with .pub".into(),
        );
    }
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut any = false;
    for (n, line) in keys {
        if !is_key(line) {
            let n = n + 1;
            return Err(format!(
                "has no public key of ssh in line {n}; ssh-keygen -t ed25519 makes one"
            ));
        }
        any = true;
    }
    if any {
        return Ok(());
    }
    Err("contains no key, so nobody could log in; add the line of a .pub file".into())
}

/// A type and then the key, maybe behind options. Every encoded key begins with the length of its type,
/// which is short.
fn is_key(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_type = |word: &str| {
        let starts = ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"];
        starts.iter().any(|start| word.starts_with(start))
    };
    words
        .windows(2)
        .any(|pair| is_type(pair[0]) && pair[1].starts_with("AAAA"))
}

/// Where the parts of the disk begin, and where it ends: bytes, whole MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VmApplianceLayout {
    boot: u64,
    system: u64,
    data: u64,
    end: u64,
}

impl VmApplianceLayout {
    fn new(kernel_bytes: u64, system_bytes: u64, data_bytes: u64) -> VmApplianceLayout {
        let whole = |bytes: u64| bytes.next_multiple_of(MIB);
        let boot = MIB;
        // A file system takes less than this for so little data.
        let system = boot + whole(kernel_bytes) + 8 * MIB;
        let data = system + whole(system_bytes);
        let end = data + whole(data_bytes);
        VmApplianceLayout {
            boot,
            system,
            data,
            end,
        }
    }

    fn of(image: &VmImage, data_bytes: u64) -> Result<VmApplianceLayout, VmError> {
        let size = |name: &str| {
            let path = image.dir.join(name);
            let found = fs::metadata(&path).map_err(HostError::io("look at", &path));
            found.map(|found| found.len())
        };
        let kernel = size("vmlinuz")? + size("initrd-node")?;
        Ok(VmApplianceLayout::new(
            kernel,
            size("root.erofs")?,
            data_bytes,
        ))
    }

    fn words(self) -> [String; 4] {
        [self.boot, self.system, self.data, self.end].map(|bytes| bytes.to_string())
    }
}

/// Requirements on this machine.
pub fn needs() -> StackRequirements {
    StackRequirements {
        programs: PROGRAMS.to_vec(),
        devices: vec![BOOT_SECTOR],
        ..StackRequirements::default()
    }
}

/// Makes the files; `watch` gets each step before it is begun. When `stop` is set the step under
/// way is ended. Files of an earlier one are replaced, each at once.
///
/// # Errors
/// When something is missing, or a step fails or is ended: then nothing of it is left.
pub fn make(
    wanted: &VmApplianceSpec,
    image: &VmImage,
    stop: &AtomicBool,
    (state, hosts): (&StateDir, &mut dyn HostResolver),
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<(), VmError> {
    wanted.check()?;
    needs().check(hosts.here())?;
    let layout = VmApplianceLayout::of(image, wanted.data_bytes)?;
    let dir = &wanted.dir;
    let dir = std::path::absolute(dir).map_err(HostError::io("find", dir))?;
    let id = new_id("appliance", hosts.here());
    let plan = plan(wanted, &image.dir, (&dir, &id), layout);
    hosts.trust(&id, &PROGRAMS.map(String::from));
    let header = image::run_header(&id, "vm-appliance", hosts.here());
    let journal = Journal::create(state, header)?;
    let raised = image::stoppable(&id, stop, || {
        raise_telling(&plan, None, hosts, journal, watch)
    });
    image::razed_whole(&raze(raised?.journal, hosts))
}

fn plan(
    wanted: &VmApplianceSpec,
    image: &Path,
    (dir, id): (&Path, &str),
    layout: VmApplianceLayout,
) -> Plan {
    let folder = text_of(&dir.join(format!("plimsoll-{id}")));
    let mut plan = Plan::default();
    plan.step(
        "create a folder for the appliance's parts",
        PlanAction::MakeDir(folder.clone()),
        Some(PlanAction::RemoveDir(folder.clone())),
    );
    let descriptor = (format!("{NAME}.ovf"), ovf::descriptor(layout.end));
    let own = [
        ("grub.cfg".to_owned(), grub()),
        ("authorized_keys".to_owned(), wanted.keys.clone()),
        descriptor,
    ];
    let scripts = SCRIPTS.map(|(name, text)| (name.to_owned(), text.to_owned()));
    for (name, text) in scripts.into_iter().chain(own) {
        let path = format!("{folder}/{name}");
        let write = PlanAction::write_file(path, text);
        plan.step(&format!("write {name}"), write, None);
    }
    let mut run = |why: &str, program: &str, words: &[&str]| {
        let words = words.iter().map(|&word| word.to_owned());
        let cmd = PlanCommand::new(program, words).within_s(PACK_LIMIT_S);
        plan.step(why, PlanAction::Run(cmd), None);
    };
    let file = |name: &str| format!("{folder}/{name}");
    let (disk, image, sizes) = (file("disk.sh"), text_of(image), layout.words());
    let sizes = sizes.iter().map(String::as_str);
    let words: Vec<&str> = [&*disk, &*folder, &*image]
        .into_iter()
        .chain(sizes)
        .collect();
    run("assemble the disk image", "sh", &words);
    let (raw, packed) = (file("disk.raw"), file(&qcow2()));
    let convert = ["convert", "-q", "-c", "-O", "qcow2", &raw, &packed];
    run("convert the disk image to qcow2", "qemu-img", &convert);
    let (pack, other) = (file("ova.sh"), file(&ova()));
    run("pack the OVA", "sh", &[&pack, &folder, NAME]);
    let dir = text_of(dir);
    run(
        "move both files to the output directory",
        "mv",
        &["-f", &packed, &other, &dir],
    );
    plan
}

/// The configuration of the boot loader: there is one thing to boot, and no question to a user.
fn grub() -> String {
    format!("set root=(hd0,msdos1)\nlinux /vmlinuz {KERNEL_WORDS}\ninitrd /initrd\nboot\n")
}

#[cfg(test)]
mod tests;
