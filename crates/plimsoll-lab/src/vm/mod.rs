// SPDX-License-Identifier: Apache-2.0
//! Virtual machines of this machine as nodes: kernels of their own, disks that a power cut leaves as
//! they are, and a network whose cables can be pulled.
//!
//! They are made by a plan as everything is, in one journal; each QEMU is a daemon of it. Nothing here
//! is a second kind of host: a node of them is reached by a command that gives a shell (`port`).
//! Invariant: a request to machines that are up is made while their journal is held, so that no other process
//! takes them down meanwhile. An open port outlives that hold on purpose.

pub mod appliance;
pub mod boot;
mod harm;
pub mod image;
mod machine;
mod plan;
pub mod port;
mod power;
mod switch;

pub use machine::VmAcceleration;
pub use plan::VmGroupSpec;
pub use switch::VmPowerSwitch;

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{Plan, PlanAction, PlanNode, PlanStep};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::stacks::{PreconditionError, StackRequirements, manage::new_id};
use image::{VmImage, text_of};
use plan::VmNetworkKind;
use plimsoll_machine::host::{
    Host, HostError, HostProcessId, HostResolver, HostTimeSource, processes, rfc3339,
};
use plimsoll_machine::journal::{
    self, Journal, JournalContents, JournalError, JournalHeader, JournalScope, StateDir,
};
use plimsoll_machine::raise::{RaiseError, RazeReport, list, raise, raise_telling, raze};
use port::VmSerialPort;
use power::VmQmpCommand;

/// Serial ports of a machine that commands come by: how many programs may be connected to it at once.
pub const PORTS: u16 = 8;

/// Programs that the steps of machines name.
const TRUSTED: [&str; 2] = [machine::QEMU, "ip"];

/// How long a machine may take to answer that has said that it is ready. On a machine that works with
/// all it has, seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How long trying whether this machine's processor can be used may take; it takes one second where
/// it works.
const PROBE_LIMIT_S: u32 = 6;

/// Memory that QEMU takes besides that of its machine.
const OVERHEAD_BYTES: u64 = 150 << 20;

/// Why machines could not be brought up or sent something; completes "failed to ...: ".
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// They are up.
    #[error("virtual machines are up already; take them down with: plimsoll vm down")]
    AlreadyUp,
    /// They are not.
    #[error("no virtual machine is up; start some with: plimsoll vm up -o lab.toml")]
    NotUp,
    /// Something is missing.
    #[error(transparent)]
    Unmet(#[from] PreconditionError),
    /// On this machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// With their journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed; what was begun has been undone.
    #[error(transparent)]
    Raise(#[from] Box<RaiseError>),
    /// The request cannot be met.
    #[error("{0}")]
    Wanted(String),
    /// They are not as they must be.
    #[error("{0}")]
    State(String),
}

/// Machines that are up.
#[derive(Debug)]
pub struct VmGroup {
    record: JournalContents,
    dir: String,
    /// Keeps them from being taken down.
    _held: File,
}

/// How a machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmState {
    /// Its processor works.
    Running,
    /// It stands still.
    Paused,
    /// It has no power.
    Off,
    /// QEMU is there and says something else, or nothing.
    Odd(String),
}

/// Where the files of the machines are: sockets, logs and disks.
fn dir_of(state: &StateDir) -> PathBuf {
    state.path().join("plimsoll-machines")
}

fn journal_file(state: &StateDir) -> PathBuf {
    state.journals().join(JournalScope::Machines.file_name())
}

/// Chooses what carries out the machines' instructions, and says why. The processor of this machine is
/// believed only when a machine has booted on it.
///
/// # Errors
/// When what the attempt made cannot be removed.
pub fn acceleration(
    state: &StateDir,
    image: &VmImage,
    hosts: &mut dyn HostResolver,
) -> Result<(VmAcceleration, String), VmError> {
    let emulation = |why: String| Ok((VmAcceleration::Emulation, why));
    let device = Path::new("/dev/kvm");
    if !device.exists() {
        return emulation("there is no /dev/kvm".into());
    }
    if let Err(error) = File::options().read(true).write(true).open(device) {
        return emulation(format!("/dev/kvm cannot be used: {error}"));
    }
    let id = new_id("vmprobe", hosts.here());
    let dir = text_of(&state.path().join(format!("plimsoll-{id}")));
    let console = format!("{dir}/console");
    let probe = machine::probe(VmAcceleration::Kvm, &text_of(&image.dir), &console);
    let mut plan = Plan::default();
    let remove = Some(PlanAction::RemoveDir(dir.clone()));
    plan.step("create a folder", PlanAction::MakeDir(dir), remove);
    let run = PlanAction::Run(probe.within_s(PROBE_LIMIT_S));
    plan.step("boot a machine on this processor", run, None);
    hosts.trust(&id, &TRUSTED.map(String::from));
    let journal = Journal::create(state, image::run_header(&id, "vm-probe", hosts.here()))?;
    let standing = match raise(&plan, None, hosts, journal) {
        Ok(standing) => standing,
        Err(error) => {
            image::razed_whole(&error.razed)?;
            return emulation(format!("KVM cannot boot a machine here: {}", brief(&error)));
        }
    };
    let said = fs::read_to_string(&console).unwrap_or_default();
    image::razed_whole(&raze(standing.journal, hosts))?;
    if said.contains("plimsoll-probed") {
        Ok((VmAcceleration::Kvm, "a machine has booted on it".into()))
    } else {
        emulation("a machine on KVM ended before it had booted".into())
    }
}

/// Why an attempt failed, without the command: the user did not give it.
fn brief(error: &RaiseError) -> String {
    let plimsoll_machine::raise::StepError::Host(source) = &error.source else {
        return error.source.to_string();
    };
    match source {
        HostError::TimedOut { seconds, .. } => format!("it did not start within {seconds} s"),
        HostError::Failed { status, output, .. } => format!("it ended with {status} ({output})"),
        other => other.to_string(),
    }
}

/// Checks all that can be known before anything is made.
///
/// # Errors
/// When something is missing, or they are up.
pub fn check(wanted: &VmGroupSpec, state: &StateDir, host: &dyn Host) -> Result<(), VmError> {
    wanted.check()?;
    match JournalContents::read(&journal_file(state)) {
        Ok(record) if record.standing => return Err(VmError::AlreadyUp),
        Ok(record) if record.at_work() => {
            return Err(VmError::State(format!(
                "process {} is bringing virtual machines up; wait for it or end it",
                record.worker().pid
            )));
        }
        Ok(_) => {
            return Err(VmError::State(
                "virtual machines were left unfinished; clean up with: plimsoll vm down".into(),
            ));
        }
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error.into()),
    }
    let mut programs = vec![machine::QEMU, "setsid", "grep"];
    if VmNetworkKind::of(host) == VmNetworkKind::Bridge {
        programs.extend(["ip", "nft"]);
    }
    let needs = StackRequirements {
        programs,
        ..StackRequirements::default()
    };
    needs.check(host)?;
    check_memory(wanted)
}

fn check_memory(wanted: &VmGroupSpec) -> Result<(), VmError> {
    let path = Path::new("/proc/meminfo");
    let text = fs::read_to_string(path).map_err(HostError::io("read", path))?;
    let Some(available) = available_bytes(&text) else {
        return Ok(());
    };
    let each = wanted.memory_bytes + OVERHEAD_BYTES;
    let all = each * u64::from(wanted.nodes + wanted.clients);
    if all <= available {
        return Ok(());
    }
    Err(VmError::State(format!(
        "{} machines of {} MiB take {} MiB with what QEMU needs, and {} MiB are available; take \
         fewer, or less --memory",
        wanted.nodes + wanted.clients,
        wanted.memory_bytes >> 20,
        all >> 20,
        available >> 20
    )))
}

/// Memory that can be had without swapping, from `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// How machines are reached and switched from this one: the words before and after the verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmCommandTemplate {
    /// The program and what says that machines are meant.
    pub program: Vec<String>,
    /// The options that name the state directory.
    pub options: Vec<String>,
}

impl VmCommandTemplate {
    fn of(&self, verb: &str, name: &str) -> Vec<String> {
        let ends = [verb.to_owned()].into_iter().chain(self.options.clone());
        let words = self.program.iter().cloned().chain(ends);
        words.chain([name.to_owned()]).collect()
    }

    fn shell_of(&self, name: &str) -> Vec<String> {
        self.of("shell", name)
    }

    fn power_of(&self, name: &str) -> Vec<String> {
        self.of("power", name)
    }

    fn faults_of(&self, name: &str) -> Vec<String> {
        self.of("fault", name)
    }
}

/// The steps that would bring machines up, from an image in this directory.
///
/// # Errors
/// When the state directory cannot hold their sockets, or no network is free.
pub fn steps(
    wanted: &VmGroupSpec,
    (image_dir, acceleration): (&Path, VmAcceleration),
    commands: &VmCommandTemplate,
    (state, host): (&StateDir, &dyn Host),
) -> Result<Plan, VmError> {
    let id = new_id("vm", host);
    let dir = text_of(&dir_of(state));
    let planned = planned(wanted, (&id, &dir), commands, host)?;
    Ok(planned.steps(&text_of(image_dir), acceleration))
}

fn planned<'a>(
    wanted: &'a VmGroupSpec,
    (id, dir): (&'a str, &'a str),
    commands: &VmCommandTemplate,
    host: &dyn Host,
) -> Result<plan::VmGroupPlan<'a>, VmError> {
    plan::check_dir(dir)?;
    let network = crate::stacks::site::free_network(id)?;
    Ok(plan::VmGroupPlan::new(
        wanted,
        (id, dir, network),
        VmNetworkKind::of(host),
        commands,
    ))
}

/// Brings machines up. They stay when this process ends. `watch` gets each step before it is
/// begun; `commands` are how the machines are reached and switched.
///
/// # Errors
/// When they are up, something is missing, or a step fails: then what was begun is undone.
pub fn up(
    wanted: &VmGroupSpec,
    (image, acceleration): (&VmImage, VmAcceleration),
    commands: &VmCommandTemplate,
    (state, hosts): (&StateDir, &mut dyn HostResolver),
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<VmGroup, VmError> {
    let id = new_id("vm", hosts.here());
    let dir = text_of(&dir_of(state));
    let planned = planned(wanted, (&id, &dir), commands, hosts.here())?;
    let header = JournalHeader {
        kind: JournalScope::Machines,
        nodes: planned.nodes.clone(),
        format: FormatVersion::JOURNAL,
        id: id.clone(),
        owner: HostProcessId::this(),
        began_at: rfc3339(hosts.here().clock().unix_seconds()),
        mount_dir: None,
        ask: None,
    };
    let steps = planned.steps(&text_of(&image.dir), acceleration);
    hosts.trust(&id, &TRUSTED.map(String::from));
    let journal = Journal::create(state, header)?;
    drop(raise_telling(&steps, None, hosts, journal, watch)?);
    let lab = VmGroup::find(state, hosts.here().clock())?;
    let mut names = lab.nodes().iter().map(|node| &node.name);
    let clocks = names.try_for_each(|name| lab.set_clock(name, Duration::ZERO, hosts.here()));
    if let Err(error) = clocks {
        drop(lab);
        image::razed_whole(&down(state, hosts)?)?;
        return Err(error);
    }
    Ok(lab)
}

/// Takes the machines down, with all that is on their disks.
///
/// # Errors
/// When there are none, another process is at work on them, or a stack stands on them. What could not
/// be undone is in the result.
pub fn down(state: &StateDir, hosts: &mut dyn HostResolver) -> Result<RazeReport, VmError> {
    check_unused(state)?;
    match Journal::open(&journal_file(state), hosts.here().clock()) {
        Err(error) if error.is_absent() => Err(VmError::NotUp),
        Err(error) => Err(error.into()),
        Ok(journal) => Ok(raze(journal, hosts)),
    }
}

/// Fails when something has a part on a machine: without the machine it could not be undone.
fn check_unused(state: &StateDir) -> Result<(), VmError> {
    let Ok(machines) = JournalContents::read(&journal_file(state)) else {
        return Ok(());
    };
    let ours: Vec<_> = machines.header.nodes.iter().map(|n| &n.reach).collect();
    let found = list(state).map_err(HostError::io("read", &state.journals()))?;
    let records = found.into_iter().filter_map(|found| found.record.ok());
    let is_user = |record: &JournalContents| {
        let mut nodes = record.header.nodes().iter();
        record.header.kind != JournalScope::Machines
            && nodes.any(|node| ours.contains(&&node.reach))
    };
    let users: Vec<String> = records
        .filter(is_user)
        .map(|record| record.header.kind.to_string())
        .collect();
    if users.is_empty() {
        return Ok(());
    }
    Err(VmError::State(format!(
        "{} has a part on them; take it down first (plimsoll stack down), with its machines switched \
         on, or all of it with: plimsoll raze",
        users.join(", ")
    )))
}

impl VmGroup {
    /// The machines that are up, kept from being taken down until this is dropped.
    ///
    /// # Errors
    /// When there are none.
    pub fn find(state: &StateDir, clock: &dyn HostTimeSource) -> Result<VmGroup, VmError> {
        let path = journal_file(state);
        let held = match journal::hold(&path, clock) {
            Err(error) if error.is_absent() => return Err(VmError::NotUp),
            other => other?,
        };
        Ok(VmGroup {
            record: JournalContents::read(&path)?,
            dir: text_of(&dir_of(state)),
            _held: held,
        })
    }

    /// The machines, as nodes without facts yet.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.record.header.nodes
    }

    /// Address of this machine in their network, if it is in it.
    pub fn address(&self) -> Option<String> {
        let is_bridge = |step: &PlanStep| matches!(step.apply, PlanAction::MakeBridge { .. });
        let mut entries = self.record.entries.iter();
        let is_in = entries.any(|entry| is_bridge(&entry.step));
        let first = self.nodes().first().filter(|_| is_in)?;
        Some(plan::address_here(&first.address))
    }

    /// When they were brought up, RFC 3339.
    pub fn since(&self) -> &str {
        &self.record.header.began_at
    }

    fn check_name(&self, name: &str) -> Result<(), VmError> {
        if self.nodes().iter().any(|node| node.name == name) {
            return Ok(());
        }
        let known: Vec<&str> = self.nodes().iter().map(|node| &*node.name).collect();
        Err(VmError::Wanted(format!(
            "unknown machine '{name}'; available: {}",
            known.join(", ")
        )))
    }

    fn mark(&self, name: &str) -> String {
        plan::mark(&self.record.header.id, name)
    }

    fn file(&self, name: &str, what: &str) -> PathBuf {
        machine::file_in(&self.dir, name, what).into()
    }

    /// How a machine is.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn condition(&self, name: &str, host: &dyn Host) -> Result<VmState, VmError> {
        self.check_name(name)?;
        if host.marked(&self.mark(name)).is_empty() {
            return Ok(VmState::Off);
        }
        let told = power::tell(&self.file(name, "qmp"), VmQmpCommand::Status);
        Ok(match told {
            Ok(said) => match said["status"].as_str() {
                Some("running") => VmState::Running,
                Some("paused") => VmState::Paused,
                _ => VmState::Odd(said.to_string()),
            },
            Err(error) => VmState::Odd(error.to_string()),
        })
    }

    /// Cuts the power of a machine: what it had not written is gone.
    ///
    /// # Errors
    /// When there is none of this name, or its process does not end.
    pub fn off(&self, name: &str, host: &dyn Host) -> Result<(), VmError> {
        self.check_name(name)?;
        processes::kill(&self.mark(name), host.clock())?;
        // A socket of a machine means that it is on.
        let _ = fs::remove_file(self.file(name, "qmp"));
        Ok(())
    }

    /// Starts a machine that is off, with the disks it had, and waits until it is ready. As with any
    /// switch, one that is on stays so.
    ///
    /// # Errors
    /// When it does not start.
    pub fn on(&self, name: &str, hosts: &mut dyn HostResolver) -> Result<(), VmError> {
        self.check_name(name)?;
        let is_on = !hosts.here().marked(&self.mark(name)).is_empty();
        if is_on {
            // It may still be starting: then that is waited for.
            if self.sh(name, "true", hosts.here()).is_ok() {
                return Ok(());
            }
        } else {
            for what in ["qmp", "console"] {
                let _ = fs::remove_file(self.file(name, what));
            }
        }
        let id = &self.record.header.id;
        hosts.trust(id, &TRUSTED.map(String::from));
        let here = hosts.on(plimsoll_core::plan::HERE)?;
        // Its start steps are in the journal, and are undone from there however often they ran.
        for entry in &self.record.entries {
            let is_start = matches!(entry.step.apply, PlanAction::Start { .. });
            if plan::starts(&entry.step, name) && !(is_start && is_on) {
                here.carry_out(id, &entry.step.apply)?;
            }
        }
        self.set_clock(name, Duration::ZERO, hosts.here())
    }

    /// Lets a machine stand still.
    ///
    /// # Errors
    /// When it is off, or QEMU refuses.
    pub fn pause(&self, name: &str) -> Result<(), VmError> {
        self.tell(name, VmQmpCommand::Pause).map(drop)
    }

    /// Lets a machine go on that stood still.
    ///
    /// # Errors
    /// When it is off, or QEMU refuses.
    pub fn resume(&self, name: &str) -> Result<(), VmError> {
        self.tell(name, VmQmpCommand::Resume).map(drop)
    }

    /// Plugs the cable of a machine's network in, or pulls it.
    ///
    /// # Errors
    /// When it is off, or QEMU refuses.
    pub fn link(&self, name: &str, is_up: bool) -> Result<(), VmError> {
        self.tell(name, VmQmpCommand::Link(is_up)).map(drop)
    }

    fn tell(&self, name: &str, order: VmQmpCommand<'_>) -> Result<serde_json::Value, VmError> {
        self.check_name(name)?;
        let socket = self.file(name, "qmp");
        power::tell(&socket, order).map_err(|error| {
            VmError::State(format!(
                "machine {name} does not respond: {error}; is it on?"
            ))
        })
    }

    /// An exclusive port for commands in a machine.
    ///
    /// # Errors
    /// When it is off or does not answer, or too many programs are connected to it.
    pub fn port(&self, name: &str, host: &dyn Host) -> Result<VmSerialPort, VmError> {
        self.check_name(name)?;
        Ok(VmSerialPort::open(
            &self.dir,
            name,
            host.clock(),
            ANSWER_LIMIT,
        )?)
    }

    /// Sets the clock of a machine, which starts with whole seconds only, and would otherwise be set
    /// after a while.
    fn set_clock(&self, name: &str, ahead: Duration, host: &dyn Host) -> Result<(), VmError> {
        let now = (host.clock().unix_time() + ahead).as_secs_f64();
        self.sh(name, &format!("date -u -s @{now:.3}"), host)
    }
}

#[cfg(test)]
mod tests;
