// SPDX-License-Identifier: Apache-2.0
//! Checks of this machine: what works, what is missing, and how to install it.
//!
//! Values only: how they are shown is the caller's. Whether `io_uring` works is the engine's
//! knowledge; here stands what the kernel says about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::stacks::{self, StackConfig, StackRequirements};
use plimsoll_core::settings::SettingValues;
use plimsoll_machine::busy;
use plimsoll_machine::host::facts;
use plimsoll_machine::host::{Host, remedy_of};

/// Memory below which page cache and load compete on a machine with all stacks up.
const ENOUGH_RAM_BYTES: u64 = 2 << 30;

/// Room for both stacks of iSCSI nodes with their default size.
const ENOUGH_ROOM_BYTES: u64 = 8 << 30;

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorCheck {
    /// The subject of the check.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// The state that was found.
    pub found: String,
    /// The purpose that needs it.
    pub needed_for: String,
    /// The command that helps, if there is one.
    pub remedy: Option<String>,
}

/// Looks at everything; `dir` is where data would lie.
pub fn checks(host: &dyn Host, dir: &Path) -> Vec<DoctorCheck> {
    let mut checks = vec![uring(), root(host)];
    checks.extend(room(dir));
    checks.push(ram());
    checks.push(quiet(host));
    for (device, needed_for, remedy) in [
        ("/dev/fuse", "stacks of network disks", "modprobe fuse"),
        (
            "/dev/loop-control",
            "stacks of network disks",
            "modprobe loop",
        ),
    ] {
        let ok = host.exists(Path::new(device));
        checks.push(check(device, ok, present(ok), needed_for, remedy));
    }
    checks.extend(installed(|needs| &needs.programs, |n| host.find_program(n)));
    let find_module = |name: &str| host.find_qemu_module(name);
    checks.extend(installed(|needs| &needs.qemu_modules, find_module));
    checks
}

fn check(
    name: &str,
    ok: bool,
    found: impl Into<String>,
    needed_for: &str,
    remedy: &str,
) -> DoctorCheck {
    DoctorCheck {
        name: name.into(),
        ok,
        found: found.into(),
        needed_for: needed_for.into(),
        remedy: (!ok && !remedy.is_empty()).then(|| remedy.into()),
    }
}

fn present(ok: bool) -> &'static str {
    if ok { "present" } else { "absent" }
}

fn uring() -> DoctorCheck {
    // Absent before Linux 6.6, where it could only be forbidden otherwise.
    let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let setting = setting.map(|text| text.trim().to_string());
    let (ok, found) = match setting.as_deref() {
        Ok("0") => (true, "allowed to all"),
        Ok("1") => (
            rustix::process::geteuid().is_root(),
            "allowed to root and one group",
        ),
        Ok(_) => (false, "forbidden by the kernel setting"),
        Err(_) => (true, "no setting forbids it"),
    };
    let remedy = "sysctl kernel.io_uring_disabled=0";
    check(
        "io_uring",
        ok,
        found,
        "load at high queue depth with little CPU",
        remedy,
    )
}

fn root(host: &dyn Host) -> DoctorCheck {
    let found = if host.is_root() { "root" } else { "not root" };
    let needed_for = "loop devices, mounts and FUSE of the stacks of network disks";
    check("root", host.is_root(), found, needed_for, "sudo plimsoll …")
}

fn room(dir: &Path) -> Vec<DoctorCheck> {
    // A missing directory will be made on the same file system as its nearest ancestor.
    let existing = dir.ancestors().find(|part| part.exists()).unwrap_or(dir);
    let facts = match facts::target(existing) {
        Ok(facts) => facts,
        Err(error) => {
            let remedy = format!("mkdir -p {}", dir.display());
            return vec![check(
                "data directory",
                false,
                error.to_string(),
                "all data",
                &remedy,
            )];
        }
    };
    let align = facts.direct_align_bytes;
    let direct = match align {
        0 => format!("does not work in {} ({})", facts.path, facts.file_system),
        bytes => format!("works in {} in units of {bytes} bytes", facts.path),
    };
    let direct = DoctorCheck {
        name: "direct I/O".into(),
        ok: align > 0,
        found: direct,
        needed_for: "measuring the disk instead of the page cache".into(),
        remedy: (align == 0).then(|| "choose a directory on another file system".into()),
    };
    let free = format!("{} MiB in {}", facts.free_bytes >> 20, facts.path);
    let enough = facts.free_bytes >= ENOUGH_ROOM_BYTES;
    let needed_for = "image files of stacks and data of workloads";
    let remedy = "choose a directory with more free space";
    vec![
        direct,
        check("free space", enough, free, needed_for, remedy),
    ]
}

fn ram() -> DoctorCheck {
    let bytes = facts::machine().ram_bytes;
    let found = format!("{} MiB", bytes >> 20);
    check(
        "memory",
        bytes >= ENOUGH_RAM_BYTES,
        found,
        "stacks under load",
        "",
    )
}

/// Time in which it is seen what others do.
const BUSY_LOOK: Duration = Duration::from_millis(500);

fn quiet(host: &dyn Host) -> DoctorCheck {
    let others = busy::during(BUSY_LOOK, host.clock());
    check(
        "quiet machine",
        others.disturbance().is_none(),
        others.line(),
        "results that other work does not disturb",
        "stop what is running (top, iotop), or measure later",
    )
}

/// Requirements of every stack and every layer with default settings, by its name.
fn needs_of_all() -> Vec<(String, StackRequirements)> {
    let of_stack = |stack: &&'static dyn stacks::StackRecipe| {
        let choice = StackConfig::parse(stack.name()).ok()?;
        let shape = stack.shape(&choice).ok()?;
        let needs = stacks::manage::needs(&choice, &shape.place);
        Some((stack.name().to_owned(), needs))
    };
    let of_layer = |layer: &&'static dyn stacks::LayerRecipe| {
        let settings = SettingValues::new(layer.name(), layer.settings(), &[]).ok()?;
        Some((format!("+{}", layer.name()), layer.needs(&settings)))
    };
    let stacks = stacks::ALL.iter().filter_map(of_stack);
    stacks
        .chain(stacks::LAYERS.iter().filter_map(of_layer))
        .collect()
}

/// Everything that packages bring: what `needed` chooses of the needs of all stacks.
fn installed(
    needed: impl Fn(&StackRequirements) -> &[&'static str],
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<DoctorCheck> {
    let all = needs_of_all();
    let mut names: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|(_, needs)| needed(needs)) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let one = |name: &&str| {
        let users = all.iter().filter(|(_, needs)| needed(needs).contains(name));
        let users: Vec<&str> = users.map(|(user, _)| user.as_str()).collect();
        let needed_for = format!("stacks {}", users.join(", "));
        let path = find(name);
        let found = path
            .as_ref()
            .map_or_else(|| "absent".into(), |p| p.display().to_string());
        check(name, path.is_some(), found, &needed_for, &remedy_of(name))
    };
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn what_is_absent_is_named_with_its_package() {
        let mut host = FakeHost::new();
        host.missing.insert("nbdfuse".into());
        host.missing.insert("block-iscsi.so".into());
        let checks = checks(&host, Path::new("/"));
        let nbdfuse = checks.iter().find(|c| c.name == "nbdfuse").unwrap();
        assert!(!nbdfuse.ok);
        assert_eq!(
            nbdfuse.remedy.as_deref(),
            Some("apt-get install libnbd-bin")
        );
        let users = &nbdfuse.needed_for;
        assert!(users.contains("nbd") && users.contains("raid1"), "{users}");
        let module = checks.iter().find(|c| c.name == "block-iscsi.so").unwrap();
        assert!(!module.ok);
        let remedy = "apt-get install qemu-block-extra";
        assert_eq!(module.remedy.as_deref(), Some(remedy));
        let users = &module.needed_for;
        assert!(!users.contains("nbd") && users.contains("iscsi"), "{users}");
        let tgtd = checks.iter().find(|c| c.name == "tgtd").unwrap();
        assert!(tgtd.ok && tgtd.remedy.is_none());
        for name in [
            "io_uring",
            "direct I/O",
            "free space",
            "memory",
            "root",
            "/dev/fuse",
        ] {
            assert!(checks.iter().any(|c| c.name == name), "{name}");
        }
    }
}
