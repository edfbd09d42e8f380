// SPDX-License-Identifier: Apache-2.0
//! Requirements of stacks on a machine, as data, and which of them are missing.

use std::path::Path;

use super::PreconditionError;
use plimsoll_machine::host::{Host, remedy_of};

/// Requirements of a stack on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackRequirements {
    /// Programs.
    pub programs: Vec<&'static str>,
    /// Modules of qemu, by the names of their files.
    pub qemu_modules: Vec<&'static str>,
    /// Device files, each with what to do when it is missing.
    pub devices: Vec<(&'static str, &'static str)>,
    /// Types of file systems that the kernel must be able to mount.
    pub file_systems: Vec<&'static str>,
    /// Files that its daemons may have open at once, each; they have the limit of who starts them.
    pub open_files: u64,
    /// Whether root is needed.
    pub root: bool,
}

impl StackRequirements {
    /// Both together, each thing once.
    #[must_use]
    pub fn and(mut self, other: StackRequirements) -> StackRequirements {
        fn add<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
            for one in more {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        add(&mut self.programs, other.programs);
        add(&mut self.qemu_modules, other.qemu_modules);
        add(&mut self.devices, other.devices);
        add(&mut self.file_systems, other.file_systems);
        self.open_files = self.open_files.max(other.open_files);
        self.root |= other.root;
        self
    }

    /// Everything that is missing.
    ///
    /// # Errors
    /// When something is.
    pub fn check(&self, host: &dyn Host) -> Result<(), PreconditionError> {
        let mut missing = Vec::new();
        let programs = self.programs.iter();
        let programs = programs.filter(|name| host.find_program(name).is_none());
        let modules = self.qemu_modules.iter();
        let modules = modules.filter(|name| host.find_qemu_module(name).is_none());
        let mut by_remedy: Vec<(String, Vec<&str>)> = Vec::new();
        for name in programs.chain(modules) {
            let remedy = remedy_of(name);
            match by_remedy.iter_mut().find(|(known, _)| *known == remedy) {
                Some((_, names)) => names.push(name),
                None => by_remedy.push((remedy, vec![name])),
            }
        }
        for (remedy, names) in by_remedy {
            let verb = if names.len() == 1 { "is" } else { "are" };
            missing.push(format!("{} {verb} missing: {remedy}", names.join(", ")));
        }
        for (device, remedy) in &self.devices {
            if !host.exists(Path::new(device)) {
                missing.push(format!("{device} is missing: {remedy}"));
            }
        }
        for name in &self.file_systems {
            if !host.knows_file_system(name) {
                missing.push(format!(
                    "the kernel cannot mount {name}: install the modules for the kernel in use"
                ));
            }
        }
        if let Some(limit) = host.open_files().filter(|limit| *limit < self.open_files) {
            let need = self.open_files;
            missing.push(format!(
                "the soft limit is {limit} files open at once, and the servers need {need}: \
                 ulimit -n {need}"
            ));
        }
        if self.root && !host.is_root() {
            missing.push("loop devices and mounts need root: run it with sudo".into());
        }
        if missing.is_empty() {
            Ok(())
        } else {
            Err(PreconditionError(missing))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::FakeHost;
    use crate::stacks::StackConfig;

    #[test]
    fn a_missing_program_or_module_is_named_with_its_package() {
        let choice = StackConfig::parse("iscsi").unwrap();
        let needs = crate::stacks::manage::needs(&choice, &crate::stacks::StackPlacement::Here);
        needs.check(&FakeHost::new()).unwrap();
        for (name, package) in [("tgtd", "tgt"), ("block-iscsi.so", "qemu-block-extra")] {
            let mut host = FakeHost::new();
            host.missing.insert(name.into());
            let unmet = needs.check(&host).unwrap_err();
            let expect = format!("{name} is missing: apt-get install {package}");
            assert_eq!(unmet.0, [expect]);
        }
    }

    #[test]
    fn too_few_open_files_are_refused_with_the_limit_and_the_need() {
        let choice = StackConfig::parse("gluster").unwrap();
        let needs = crate::stacks::manage::needs(&choice, &crate::stacks::StackPlacement::Here);
        let mut host = FakeHost::new();
        for (limit, refused) in [(16, true), (64, true), (1024, false), (65_536, false)] {
            host.open_files = Some(limit);
            let unmet = needs.check(&host).err().map_or(vec![], |unmet| unmet.0);
            let said = unmet.iter().any(|line| {
                line.contains(&format!("{limit} files")) && line.ends_with("ulimit -n 1024")
            });
            assert_eq!(said, refused, "{limit}: {unmet:?}");
        }
    }

    #[test]
    fn what_one_package_brings_is_said_once() {
        let choice = StackConfig::parse("lustre(files)").unwrap();
        let needs = crate::stacks::manage::needs(&choice, &crate::stacks::StackPlacement::Here);
        let mut host = FakeHost::new();
        for name in ["lfs", "lctl", "mount.lustre", "mkfs.lustre"] {
            host.missing.insert(name.into());
        }
        let unmet = needs.check(&host).unwrap_err().0;
        assert_eq!(unmet.len(), 3, "{unmet:?}");
        for (said, begin) in unmet.iter().zip([
            "lfs, lctl, mount.lustre are missing: ",
            "mkfs.lustre is missing: ",
            "the kernel cannot mount lustre",
        ]) {
            assert!(said.starts_with(begin), "{said}");
        }
    }
}
