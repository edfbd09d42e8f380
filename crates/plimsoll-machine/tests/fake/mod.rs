// SPDX-License-Identifier: Apache-2.0
//! A host that only remembers, for tests of plans, journals and undoing without a machine.
//!
//! It keeps the rules of a machine that matter for the order of undoing: what is mounted or
//! attached cannot be removed, a loop device in use is not detached, a mount in use stays.

use plimsoll_core::plan::{
    HERE, PlanAction, PlanCommand, PlanCommandArg, PlanNode, PlanReadinessCheck, StackSelfTest,
};
use plimsoll_core::target::TargetFacts;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plimsoll_machine::host::{
    DeviceFlushCount, Host, HostError, HostProcessUsage, HostResolver, HostTimeSource,
    StrangerReport, SystemClock,
};

/// The state of the pretended machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FakeState {
    /// Directories we made, by the journal they belong to.
    pub(crate) dirs: BTreeMap<String, String>,
    /// Files, by the journal that made them; those of commands by none, so that only their
    /// directory can say whose they are.
    pub(crate) files: BTreeMap<String, Option<String>>,
    /// Mount points, with the loop files they use.
    pub(crate) mounts: BTreeMap<String, Vec<String>>,
    /// Files with a loop device.
    pub(crate) loops: BTreeSet<String>,
    /// Members of an array, by the files of their loop devices.
    pub(crate) members: BTreeSet<String>,
    /// Marks of running daemons.
    pub(crate) marks: BTreeSet<String>,
    /// Instances of the kernel's tracer.
    pub(crate) tracers: BTreeSet<String>,
    /// Network namespaces.
    pub(crate) namespaces: BTreeSet<String>,
    /// Interfaces of ours, each with the namespace its other end is in.
    pub(crate) links: BTreeMap<String, Option<String>>,
}

impl FakeState {
    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        *self == FakeState::default()
    }
}

/// When an action fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FakeWhen {
    /// Nothing has been changed.
    Before,
    /// It was done, but the caller gets an error.
    After,
}

/// Records what it is asked and can fail at a given action.
#[derive(Debug, Default)]
pub(crate) struct FakeHost {
    /// Everything asked for so far, as text.
    pub(crate) asked: Vec<String>,
    /// The state now.
    pub(crate) state: FakeState,
    /// Actions (counted from 0 over the life of the host) that fail.
    pub(crate) failing: BTreeMap<usize, FakeWhen>,
    /// Whether its kernel has md.
    pub(crate) has_md: bool,
    /// Where another user has mounted something.
    pub(crate) mounted: BTreeSet<String>,
    /// Programs, modules and files that are not there.
    pub(crate) missing: BTreeSet<String>,
    /// The use of processes, by their mark, look by look; the last stays.
    pub(crate) usages: BTreeMap<String, Vec<HostProcessUsage>>,
    /// Looks at each mark so far.
    looks: RefCell<BTreeMap<String, usize>>,
    /// Flushes of its disk, look by look and then again; empty where they are not counted.
    pub(crate) flushes: Vec<u64>,
    /// Looks at the flushes so far.
    flush_looks: Cell<usize>,
    /// The gains of another user on it.
    pub(crate) stranger: StrangerReport,
    /// Types of file systems that the kernel can mount.
    pub(crate) file_systems: BTreeSet<String>,
    /// Files that a process may have open; none where that is not limited.
    pub(crate) open_files: Option<u64>,
    /// Whether every other node is without power.
    pub(crate) is_alone: bool,
    /// Its clock.
    pub(crate) clock: SystemClock,
}

impl FakeHost {
    /// An empty machine.
    pub(crate) fn new() -> Self {
        FakeHost::default()
    }

    /// The same, failing at the action with this number.
    #[must_use]
    pub(crate) fn failing_at(mut self, number: usize, when: FakeWhen) -> Self {
        self.failing.insert(number, when);
        self
    }

    /// The same, failing at this action from now on, counted from 0.
    #[must_use]
    pub(crate) fn failing_at_next(self, number: usize, when: FakeWhen) -> Self {
        let number = self.asked.len() + number;
        self.failing_at(number, when)
    }

    fn change(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        let state = &mut self.state;
        match action {
            PlanAction::Run(cmd)
            | PlanAction::RunIf { run: cmd, .. }
            | PlanAction::RunUnless { run: cmd, .. } => return run(state, cmd),
            PlanAction::Start { .. }
            | PlanAction::Stop { .. }
            | PlanAction::Kill { .. }
            | PlanAction::Pause { .. }
            | PlanAction::Resume { .. } => return change_processes(state, action),
            PlanAction::MakeDir(path) => {
                check(!state.dirs.contains_key(path), "exists", path)?;
                state.dirs.insert(path.clone(), id.into());
            }
            PlanAction::RemoveDir(_)
            | PlanAction::RemoveDirOf { .. }
            | PlanAction::RemoveRemoteDir { .. } => {
                return clear(state, id, action);
            }
            PlanAction::MakeRemoteDir { address, name } => {
                let path = format!("{address}/{name}");
                check(!state.dirs.contains_key(&path), "exists", &path)?;
                state.dirs.insert(path, id.into());
            }
            PlanAction::MakeFile { path, .. }
            | PlanAction::WriteFile { path, .. }
            | PlanAction::MakeSecret(path)
            | PlanAction::RemoveFile(path) => return change_file(state, (id, path), action),
            PlanAction::AttachLoop(_)
            | PlanAction::DetachLoop(_)
            | PlanAction::StopArray(_)
            | PlanAction::Unmount(_) => return change_disks(state, action),
            PlanAction::MakeNamespace(_)
            | PlanAction::RemoveNamespace(_)
            | PlanAction::MakeBridge { .. }
            | PlanAction::JoinBridge { .. }
            | PlanAction::RemoveLink(_)
            | PlanAction::LimitLink { .. }
            | PlanAction::SetLink { .. } => return change_network(state, action),
            PlanAction::CopySecret { from, to } => {
                check(state.files.contains_key(from), "is missing", from)?;
                return change_file(state, (id, to), action);
            }
            PlanAction::TellAccount { secret, .. } => {
                check(state.files.contains_key(secret), "is missing", secret)?;
            }
            PlanAction::MakeTracing(name) => {
                check(state.tracers.insert(name.clone()), "exists", name)?;
            }
            PlanAction::RemoveTracing(name) => {
                state.tracers.remove(name);
            }
            PlanAction::Await(_) | PlanAction::PortFree(_) | PlanAction::Hurt(_) => {}
            PlanAction::MountIs { path, .. } => {
                let is_mounted = state.mounts.contains_key(path) || self.mounted.contains(path);
                check(is_mounted, "is not mounted", path)?;
            }
        }
        Ok(())
    }
}

fn change_disks(state: &mut FakeState, action: &PlanAction) -> Result<(), HostError> {
    match action {
        PlanAction::AttachLoop(path) => {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let is_there = state.files.contains_key(path) || state.mounts.contains_key(parent);
            check(is_there, "is missing", path)?;
            state.loops.insert(path.clone());
        }
        PlanAction::DetachLoop(path) => {
            let used = state.mounts.values().any(|loops| loops.contains(path));
            let used = used || state.members.contains(path);
            check(!used, "is busy", path)?;
            state.loops.remove(path);
        }
        PlanAction::StopArray(files) => {
            let array = array(files);
            let used = state.mounts.values().any(|used| used.contains(&array));
            check(!used, "is busy", &array)?;
            state.members.retain(|member| !files.contains(member));
        }
        PlanAction::Unmount(path) => {
            let below = format!("{path}/");
            let is_busy = state.loops.iter().any(|file| file.starts_with(&below));
            check(!is_busy, "is busy", path)?;
            state.mounts.remove(path);
        }
        _ => {}
    }
    Ok(())
}

fn start(state: &mut FakeState, (cmd, mark): (&PlanCommand, &str), ready: &PlanReadinessCheck) {
    state.marks.insert(mark.into());
    // nbdfuse mounts a directory with one file; of the others their readiness check shows it.
    if let ("nbdfuse", Some(PlanCommandArg::Text(path))) = (&*cmd.program, cmd.args.first()) {
        let (point, _) = path.rsplit_once('/').unwrap_or_default();
        state.mounts.insert(point.into(), Vec::new());
    }
    if let PlanReadinessCheck::Mounted(path) = ready {
        state.mounts.insert(path.clone(), Vec::new());
    }
}

fn change_file(
    state: &mut FakeState,
    (id, path): (&str, &str),
    action: &PlanAction,
) -> Result<(), HostError> {
    match action {
        PlanAction::MakeFile { .. } => {
            check(!state.files.contains_key(path), "exists", path)?;
            state.files.insert(path.to_owned(), Some(id.into()));
        }
        PlanAction::WriteFile { .. }
        | PlanAction::MakeSecret(_)
        | PlanAction::CopySecret { .. } => {
            check(!state.files.contains_key(path), "exists", path)?;
            check(
                lies_in_ours(state, id, path),
                "is not in a directory of ours",
                path,
            )?;
            state.files.insert(path.to_owned(), None);
        }
        PlanAction::RemoveFile(_) => {
            check(!state.mounts.contains_key(path), "is busy", path)?;
            if is_ours(state, id, path) {
                state.files.remove(path);
            }
        }
        _ => {}
    }
    Ok(())
}

fn change_processes(state: &mut FakeState, action: &PlanAction) -> Result<(), HostError> {
    match action {
        PlanAction::Start {
            cmd, mark, ready, ..
        } => start(state, (cmd, mark), ready),
        PlanAction::Stop { mark } | PlanAction::Kill { mark } => {
            state.marks.remove(mark);
        }
        PlanAction::Pause { mark } | PlanAction::Resume { mark } => {
            check(state.marks.contains(mark), "is not there", mark)?;
        }
        _ => {}
    }
    Ok(())
}

fn change_network(state: &mut FakeState, action: &PlanAction) -> Result<(), HostError> {
    match action {
        PlanAction::MakeNamespace(name) => {
            check(state.namespaces.insert(name.clone()), "exists", name)?;
        }
        PlanAction::RemoveNamespace(name) => {
            state.namespaces.remove(name);
            state
                .links
                .retain(|_, inside| inside.as_ref() != Some(name));
        }
        PlanAction::MakeBridge { name, .. } => {
            check(!state.links.contains_key(name), "exists", name)?;
            state.links.insert(name.clone(), None);
        }
        PlanAction::JoinBridge {
            bridge,
            namespace,
            link,
            ..
        } => {
            check(state.links.contains_key(bridge), "is missing", bridge)?;
            check(
                state.namespaces.contains(namespace),
                "is missing",
                namespace,
            )?;
            state.links.insert(link.clone(), Some(namespace.clone()));
        }
        PlanAction::RemoveLink(name) => {
            state.links.remove(name);
        }
        PlanAction::LimitLink { link, .. } => {
            check(state.links.contains_key(link), "is missing", link)?;
        }
        _ => {}
    }
    Ok(())
}

/// The name under which a mount of an array is noted.
fn array(files: &[String]) -> String {
    format!("array of {}", files.join(", "))
}

fn run(state: &mut FakeState, cmd: &PlanCommand) -> Result<(), HostError> {
    let mut loops = Vec::new();
    for arg in &cmd.args {
        match arg {
            PlanCommandArg::LoopOf(file) => {
                check(state.loops.contains(file), "has no loop device", file)?;
                loops.push(file.clone());
            }
            PlanCommandArg::ArrayOf(files) => {
                let member = files.iter().find(|file| state.members.contains(*file));
                check(member.is_some(), "is in no array", &array(files))?;
                if cmd.program == "mount" {
                    loops.push(array(files));
                }
            }
            PlanCommandArg::Text(_) => {}
        }
    }
    if cmd.program == "mdadm" {
        let has = |word: &str| cmd.args.contains(&PlanCommandArg::from(word));
        if has("--create") || has("--add") || has("--re-add") {
            state.members.extend(loops.clone());
        } else if has("--remove") {
            state.members.retain(|member| !loops.contains(member));
        }
    }
    match (&*cmd.program, cmd.args.last()) {
        ("mount", Some(PlanCommandArg::Text(path))) => {
            state.mounts.insert(path.clone(), loops);
        }
        ("losetup", Some(PlanCommandArg::Text(path))) => {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let is_there = state.files.contains_key(path) || state.mounts.contains_key(parent);
            check(is_there, "is missing", path)?;
            state.loops.insert(path.clone());
        }
        ("fallocate", Some(PlanCommandArg::Text(path))) => {
            state.files.entry(path.clone()).or_default();
        }
        _ => {}
    }
    Ok(())
}

fn clear(state: &mut FakeState, id: &str, action: &PlanAction) -> Result<(), HostError> {
    match action {
        PlanAction::RemoveRemoteDir { address, name } => {
            remove_dir(state, id, &format!("{address}/{name}"))
        }
        other => remove_dir(state, id, other.removed_path().unwrap_or_default()),
    }
}

fn remove_dir(state: &mut FakeState, id: &str, path: &str) -> Result<(), HostError> {
    let Some(owner) = state.dirs.get(path) else {
        return Ok(());
    };
    check(owner == id, "is not ours", path)?;
    let below = |other: &String| Path::new(other).starts_with(path);
    check(!state.mounts.keys().any(below), "has mounts below", path)?;
    state.dirs.retain(|dir, _| !below(dir));
    state.files.retain(|file, _| !below(file));
    Ok(())
}

fn lies_in_ours(state: &FakeState, id: &str, path: &str) -> bool {
    let dir = Path::new(path).parent().and_then(Path::to_str);
    dir.and_then(|dir| state.dirs.get(dir))
        .is_some_and(|owner| owner == id)
}

/// Whether a file was made for the journal `id`, or lies directly in a directory of it.
fn is_ours(state: &FakeState, id: &str, path: &str) -> bool {
    let made = state.files.get(path).and_then(Option::as_ref);
    made.is_some_and(|owner| owner == id) || lies_in_ours(state, id, path)
}

fn check(fine: bool, what: &str, path: &str) -> Result<(), HostError> {
    if fine {
        Ok(())
    } else {
        Err(HostError::State(format!("{path} {what}")))
    }
}

impl Host for FakeHost {
    fn carry_out(&mut self, id: &str, action: &PlanAction) -> Result<(), HostError> {
        let number = self.asked.len();
        self.asked.push(action.to_string());
        let failing = self.failing.get(&number).copied();
        if failing == Some(FakeWhen::Before) {
            return Err(HostError::State(format!("told to fail at {number}")));
        }
        self.change(id, action)?;
        match failing {
            Some(_) => Err(HostError::State(format!("told to fail at {number}"))),
            None => Ok(()),
        }
    }

    fn trust_programs(&mut self, _: &str, _: &[String]) {}

    fn marked(&self, mark: &str) -> Vec<u32> {
        self.state
            .marks
            .contains(mark)
            .then_some(1)
            .into_iter()
            .collect()
    }

    fn usage(&self, mark: &str) -> HostProcessUsage {
        let mut looks = self.looks.borrow_mut();
        let look = looks.entry(mark.into()).or_default();
        let usages = self.usages.get(mark).map_or(&[][..], Vec::as_slice);
        let usage = usages.get(*look).or(usages.last());
        *look += 1;
        usage.copied().unwrap_or_default()
    }

    fn flushes(&self, _: &Path) -> Option<DeviceFlushCount> {
        let look = self.flush_looks.get();
        self.flush_looks.set(look + 1);
        let count = self
            .flushes
            .get(look % self.flushes.len().max(1))
            .copied()?;
        Some(DeviceFlushCount {
            device: "8:0".into(),
            count,
        })
    }

    fn strange(&self, _: &StackSelfTest) -> Result<StrangerReport, HostError> {
        Ok(self.stranger.clone())
    }

    fn answer(&self, _: &str, _: &PlanCommand) -> Result<String, HostError> {
        Ok(String::new())
    }

    fn find_text(&self, _: &[String], _: &[String]) -> Result<Option<String>, HostError> {
        Ok(None)
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        (!self.missing.contains(name)).then(|| Path::new("/usr/bin").join(name))
    }

    fn find_qemu_module(&self, name: &str) -> Option<PathBuf> {
        (!self.missing.contains(name)).then(|| Path::new("/usr/lib/qemu").join(name))
    }

    fn exists(&self, path: &Path) -> bool {
        !self.missing.contains(&path.display().to_string())
    }

    fn knows_file_system(&self, name: &str) -> bool {
        self.file_systems.contains(name)
    }

    fn knows_md(&self) -> bool {
        self.has_md
    }

    fn open_files(&self) -> Option<u64> {
        self.open_files
    }

    fn is_root(&self) -> bool {
        true
    }

    fn target(&self, dir: &Path) -> Result<TargetFacts, HostError> {
        Ok(TargetFacts {
            path: dir.display().to_string(),
            mount_point: "/".into(),
            mount_source: "/dev/pretended".into(),
            file_system: "ext4".into(),
            mount_options: "rw".into(),
            device: "254:0".into(),
            size_bytes: 1 << 41,
            free_bytes: 1 << 40,
            direct_align_bytes: 512,
            ..TargetFacts::default()
        })
    }

    fn free_ports(&self, from: u16, _: u16) -> Result<u16, HostError> {
        Ok(from)
    }

    fn clock(&self) -> &dyn HostTimeSource {
        &self.clock
    }
}

/// All nodes are one pretended machine.
impl HostResolver for FakeHost {
    fn on(&mut self, node: &str) -> Result<&mut dyn Host, HostError> {
        match node {
            HERE => Ok(self),
            _ if self.is_alone => Err(HostError::State(format!("node {node} does not answer"))),
            _ => Ok(self),
        }
    }

    fn meet(&mut self, _: &[PlanNode]) {}

    fn trust(&mut self, _: &str, _: &[String]) {}

    fn here(&self) -> &dyn Host {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_stay_as_on_a_machine() {
        let mut host = FakeHost::new();
        let path = || "/file".to_string();
        host.state.files.insert(path(), None);
        let make = PlanAction::MakeFile {
            path: path(),
            bytes: 1,
        };
        host.carry_out("a", &make).unwrap_err();
        host.carry_out("a", &PlanAction::RemoveFile(path()))
            .unwrap();
        assert_eq!(host.state.files.len(), 1);
        host.state.files.clear();
        host.carry_out("a", &make).unwrap();
        host.carry_out("b", &PlanAction::RemoveFile(path()))
            .unwrap();
        assert_eq!(host.state.files.len(), 1);
        host.carry_out("a", &PlanAction::RemoveFile(path()))
            .unwrap();
        assert!(host.state.is_empty());
    }
}
