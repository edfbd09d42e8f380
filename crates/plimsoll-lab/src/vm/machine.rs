// SPDX-License-Identifier: Apache-2.0
//! One virtual machine as options of QEMU: a pure function from what it is to a list of words.

use plimsoll_core::plan::PlanCommand;

use super::{PORTS, power};

/// Kernel calls that QEMU may make on this machine: a user who breaks out of the guest starts no
/// program here and gets no more rights.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The program.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// Serial number of the disk that holds what a node keeps; the others are `d1`, `d2`, ...
pub(super) const DATA: &str = "data";

/// The executor of the machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmAcceleration {
    /// This machine's processor.
    Kvm,
    /// A program: some ten to a hundred times slower, anywhere.
    Emulation,
}

impl VmAcceleration {
    /// Kernel parameters about its processor.
    pub(super) fn kernel_words(self) -> &'static str {
        match self {
            VmAcceleration::Kvm => "",
            // The speed of an emulated time stamp counter is measured when the kernel boots. On a busy
            // machine the measurement fails: a clock was seen that ran three times too fast. The
            // emulated HPET counts what the clock of this machine counts. Its memory is that of a
            // process of this machine, which guards it already.
            VmAcceleration::Emulation => {
                "clocksource=hpet tsc=unstable no_timer_check mitigations=off "
            }
        }
    }

    /// Values of `-accel` and `-cpu`.
    fn options(self) -> (&'static str, &'static str) {
        match self {
            VmAcceleration::Kvm => ("kvm", "host"),
            // Translated code of 256 MB at most: with less, what a cluster manager starts all the time
            // is translated again and again. The plainest processor is the fastest to imitate.
            VmAcceleration::Emulation => ("tcg,thread=multi,tb-size=256", "qemu64"),
        }
    }
}

plimsoll_core::named::named_variants! {
    VmAcceleration, Display,
    /// As people read it.
    name:
    Kvm => "KVM",
    Emulation => "emulation",
}

/// The configuration shared by all machines.
#[derive(Debug, Clone, Copy)]
pub(super) struct VmCommonConfig<'a> {
    /// Folder of the image.
    pub(super) image: &'a str,
    /// Folder for sockets, logs and disks.
    pub(super) dir: &'a str,
    pub(super) acceleration: VmAcceleration,
    pub(super) memory_mib: u64,
    /// Disks besides the one for data.
    pub(super) disks: u16,
    /// `n1=10.92.7.1,c1=10.92.7.101`
    pub(super) hosts: &'a str,
}

/// One machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct VmConfig<'a> {
    pub(super) name: &'a str,
    /// With the length of the network's prefix.
    pub(super) address: &'a str,
    /// Last two numbers of its hardware address.
    pub(super) hardware: (u8, u8),
    /// The end of its network on this machine, as the value of `-netdev`.
    pub(super) cable: &'a str,
}

impl VmCommonConfig<'_> {
    /// A file of a machine: `n1.qmp`.
    pub(super) fn file(&self, machine: &str, what: &str) -> String {
        file_in(self.dir, machine, what)
    }

    /// Files of a machine's disks, with their serial numbers.
    pub(super) fn disks(&self, machine: &str) -> Vec<(String, String)> {
        let more = (1..=self.disks).map(|n| format!("d{n}"));
        let file = |serial: String| (self.file(machine, &format!("{serial}.img")), serial);
        std::iter::once(DATA.to_owned())
            .chain(more)
            .map(file)
            .collect()
    }

    /// The command that is this machine.
    pub(super) fn command(&self, machine: &VmConfig<'_>) -> PlanCommand {
        let mut words = basic(self.acceleration, self.memory_mib);
        words.extend(boot(self.image, &self.kernel_line(machine)));
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        add("-name", format!("plimsoll-{}", machine.name));
        let console = self.file(machine.name, "console");
        add(
            "-chardev",
            format!("file,id=console,path={console},append=on"),
        );
        add("-serial", "chardev:console".into());
        // All machines read the same file and none writes it, so it needs no lock.
        let root = format!("file={}/root.erofs,format=raw,if=none", self.image);
        add(
            "-drive",
            format!("{root},id=root,readonly=on,file.locking=off"),
        );
        add("-device", "virtio-blk-pci,drive=root".into());
        for (file, serial) in self.disks(machine.name) {
            // Past this machine's page cache, so that a disk is one; what it was asked to keep is kept.
            let how = "if=none,cache=none,aio=threads,discard=unmap";
            let (node, device) = (power::file_node(&serial), power::device(&serial));
            add(
                "-drive",
                format!("file={file},format=raw,id={serial},node-name={node},{how}"),
            );
            add(
                "-device",
                format!("virtio-blk-pci,id={device},drive={serial},serial={serial}"),
            );
        }
        let (network, number) = machine.hardware;
        add("-netdev", format!("{},id=net0", machine.cable));
        let address = format!("52:54:00:92:{network:02x}:{number:02x}");
        add(
            "-device",
            format!("virtio-net-pci,id=nic0,netdev=net0,mac={address},romfile="),
        );
        add("-device", "virtio-rng-pci".into());
        add(
            "-device",
            format!("virtio-serial-pci,max_ports={}", 2 * PORTS),
        );
        let shells = (0..PORTS).map(|n| (format!("port{n}"), format!("plimsoll.{n}")));
        for (id, port) in shells.chain([("power".into(), "plimsoll.power".into())]) {
            let path = self.file(machine.name, &id);
            add(
                "-chardev",
                format!("socket,id={id},path={path},server=on,wait=off"),
            );
            add(
                "-device",
                format!("virtserialport,chardev={id},name={port}"),
            );
        }
        let control = self.file(machine.name, "qmp");
        add("-qmp", format!("unix:{control},server=on,wait=off"));
        PlanCommand::new(QEMU, words)
    }

    /// The kernel's command line, which it passes on to the scripts of the image.
    fn kernel_line(&self, machine: &VmConfig<'_>) -> String {
        format!(
            "{}ipv6.disable=1 plimsoll.name={} plimsoll.address={} plimsoll.hosts={}",
            self.acceleration.kernel_words(),
            machine.name,
            machine.address,
            self.hosts
        )
    }
}

/// A file of a machine in a folder.
pub(super) fn file_in(dir: &str, machine: &str, what: &str) -> String {
    format!("{dir}/{machine}.{what}")
}

/// A machine with a processor, memory and nothing else.
pub(super) fn basic(acceleration: VmAcceleration, memory_mib: u64) -> Vec<String> {
    let (accel, cpu) = acceleration.options();
    let memory = memory_mib.to_string();
    let words = ["-machine", "q35", "-accel", accel, "-cpu", cpu];
    let more = ["-smp", "1", "-m", &memory, "-nodefaults", "-no-user-config"];
    let rest = ["-display", "none", "-no-reboot", "-sandbox", SANDBOX];
    let all = words.into_iter().chain(more).chain(rest);
    all.map(str::to_owned).collect()
}

pub(super) fn boot(image: &str, line: &str) -> [String; 6] {
    // When its kernel panics it ends, instead of standing there.
    let line = format!("console=ttyS0 quiet panic=-1 {line}");
    let [kernel, initrd] = ["vmlinuz", "initrd"].map(|name| format!("{image}/{name}"));
    let words = ["-kernel", &kernel, "-initrd", &initrd, "-append", &line];
    words.map(str::to_owned)
}

/// A machine that boots as far as the first program of the image, says so and ends.
pub(super) fn probe(acceleration: VmAcceleration, image: &str, console: &str) -> PlanCommand {
    let mut words = basic(acceleration, 128);
    words.extend(boot(image, "plimsoll.probe"));
    words.extend(["-serial".into(), format!("file:{console}")]);
    PlanCommand::new(QEMU, words)
}
