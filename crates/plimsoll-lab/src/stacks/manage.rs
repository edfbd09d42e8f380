// SPDX-License-Identifier: Apache-2.0
//! Bringing stacks up and down by name, and seeing how they are.
//!
//! Invariant: every missing requirement that can be known is reported before anything changes.

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanCommandArg, PlanNode, PlanReadinessCheck, PlanStep,
    ServerQuery, StackNodes, StackOutputs, StackRequest, StackSelfTest,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::node::chain;
use super::site::{add_nodes, site};
use super::{
    PreconditionError, SiteError, StackConfig, StackPlacement, StackPlanInput, StackUpOptions,
};
use plimsoll_machine::host::{
    Host, HostError, HostProcessId, HostResolver, HostTimeSource, rfc3339,
};
use plimsoll_machine::journal::{
    self, Journal, JournalContents, JournalError, JournalHeader, JournalScope, StateDir,
};
use plimsoll_machine::raise::{RaiseError, RazeReport, introduce, list, raise, raze};

/// A stack that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackInstance {
    /// Its name.
    pub name: String,
    /// Identifier of its journal.
    pub id: String,
    /// Its outputs.
    pub made: StackOutputs,
    /// Where its servers are.
    pub nodes: Vec<PlanNode>,
}

impl StackInstance {
    /// The directory to measure on.
    pub fn mount_dir(&self) -> &Path {
        Path::new(&self.made.mount_dir)
    }
}

/// A stack that did not come up; the text completes "failed to bring the stack up: ".
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// It is up.
    #[error(
        "stack '{name}' is already up at {mount_dir}; take it down with: plimsoll stack down '{name}'"
    )]
    AlreadyUp {
        /// Its name.
        name: String,
        /// Where.
        mount_dir: String,
    },
    /// It was up, and something of it has ended, as all of it has when the machine was started anew.
    #[error(
        "stack '{name}' is up but damaged ({why}); take it down with: plimsoll stack down '{name}'"
    )]
    Ended {
        /// Its name.
        name: String,
        /// The problem with it.
        why: String,
    },
    /// A process is bringing it up at this moment.
    #[error("stack '{name}' is being brought up by process {pid}; wait for it or end it")]
    AtWork {
        /// Its name.
        name: String,
        /// The process.
        pid: u32,
    },
    /// A process that is gone left it half made.
    #[error("stack '{name}' was left unfinished; clean up with: plimsoll stack down '{name}'")]
    Unfinished {
        /// Its name.
        name: String,
    },
    /// Something is missing.
    #[error("stack '{name}' cannot be made here: {unmet}")]
    Unmet {
        /// Its name.
        name: String,
        /// The requirements that are missing.
        unmet: PreconditionError,
    },
    /// The stack can be made nowhere, or not in this place.
    #[error(transparent)]
    Wrong(PreconditionError),
    /// The base directory cannot be used.
    #[error(transparent)]
    Base(#[from] HostError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed; what was begun has been undone.
    #[error(transparent)]
    Raise(#[from] Box<RaiseError>),
}

/// A stack that did not go down; the text completes "failed to take the stack down: ".
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// It has no journal.
    #[error("stack '{name}' is not up")]
    NotUp {
        /// Its name.
        name: String,
    },
    /// Its journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How a stack is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackStatus {
    /// Its name.
    pub name: String,
    /// Whether all of it was made.
    pub standing: bool,
    /// The directory to measure on.
    pub mount_dir: Option<String>,
    /// Its outputs, once it is made in full.
    pub made: Option<StackOutputs>,
    /// Where its servers are.
    pub nodes: Vec<PlanNode>,
    /// When it was begun, RFC 3339.
    pub since: String,
    /// Problems with it; empty when it is healthy.
    pub problems: Vec<String>,
    /// Parts it lacks for safety, although it serves.
    pub degraded: Vec<String>,
    /// Reports of its servers about themselves, where they can be asked.
    pub told: Vec<String>,
}

/// A stack as it is going to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackPlan {
    /// Identifier of its journal.
    pub id: String,
    /// The request, and the nodes.
    pub ask: StackRequest,
    /// The steps.
    pub plan: Plan,
    /// The outputs of the steps.
    pub made: StackOutputs,
}

/// The plan of a stack with the facts of its machines, with the base directory made absolute;
/// nothing is changed (other machines are looked at by their agents), and what is up already does
/// not matter.
///
/// # Errors
/// When it cannot be made here.
pub fn plan(
    choice: &StackConfig,
    options: &StackUpOptions,
    hosts: &mut dyn HostResolver,
) -> Result<StackPlan, UpError> {
    let name = choice.parts.to_string();
    let unmet = |unmet| UpError::Unmet {
        name: name.clone(),
        unmet,
    };
    let shape = choice.stack.shape(choice).map_err(UpError::Wrong)?;
    let place = options.place.as_ref().unwrap_or(&shape.place);
    check_machines(choice, place).map_err(UpError::Wrong)?;
    let here = hosts.here();
    needs(choice, place).check(here).map_err(unmet)?;
    let programs = choice
        .own
        .as_ref()
        .map_or_else(Vec::new, |own| own.programs());
    let on_client = choice.own.as_ref().map(|own| match place {
        StackPlacement::Inventory(_) => own.programs_on(None),
        StackPlacement::Here | StackPlacement::Namespaces => own.programs(),
    });
    find_all(on_client.as_deref().unwrap_or_default(), here).map_err(unmet)?;
    let id = new_id(choice.stack.name(), here);
    let options = StackUpOptions {
        base_dir: resolved(&options.base_dir)?,
        ..options.clone()
    };
    let site = site(place, choice, &shape, &options, &id, hosts).map_err(|error| match error {
        SiteError::Unmet(wrong) => UpError::Wrong(wrong),
        SiteError::Host(error) => UpError::Base(error),
    })?;
    let order = StackPlanInput {
        id: &id,
        choice,
        size_bytes: options.size_bytes,
        site: &site,
        kernel_has_nfs: kernel_has_nfs(hosts.here()),
        kernel_has_md: kernel_has_md(hosts.here()),
    };
    let (steps, mut made) = choice.stack.plan(&order).map_err(UpError::Wrong)?;
    let mut plan = Plan::default();
    add_nodes(&mut plan, &site);
    plan.steps.extend(steps.steps);
    for (layer, settings) in &choice.layers {
        let added = layer.add(&mut plan, &mut made, &order, settings);
        added.map_err(UpError::Wrong)?;
    }
    check_uses_machines(place, &site, &plan).map_err(UpError::Wrong)?;
    let ask = StackRequest {
        parts: choice.parts.clone(),
        size_bytes: options.size_bytes,
        site,
        programs,
    };
    Ok(StackPlan {
        id,
        ask,
        plan,
        made,
    })
}

/// A stack that kernels serve must not be put on this machine's.
fn check_machines(choice: &StackConfig, place: &StackPlacement) -> Result<(), PreconditionError> {
    match place {
        StackPlacement::Here | StackPlacement::Namespaces
            if choice.stack.needs_machines(choice) =>
        {
            Err(PreconditionError(vec![
                "its servers run in the kernel, so it needs machines of its own: list them in a file \
                 and give --on FILE (plimsoll vm up creates virtual ones)"
                    .into(),
            ]))
        }
        _ => Ok(()),
    }
}

/// A stack whose servers can only be processes of this machine must not pass for one that is spread
/// over others.
fn check_uses_machines(
    place: &StackPlacement,
    site: &StackNodes,
    plan: &Plan,
) -> Result<(), PreconditionError> {
    let StackPlacement::Inventory(inventory) = place else {
        return Ok(());
    };
    if site.servers.is_empty() {
        return Err(PreconditionError(vec![format!(
            "it has no servers to put on the nodes of {}; leave out --on",
            inventory.file
        )]));
    }
    let idle = |node: &&PlanNode| !plan.steps.iter().any(|step| step.node == node.name);
    match site.servers.iter().find(idle) {
        None => Ok(()),
        Some(node) => Err(PreconditionError(vec![format!(
            "its servers are on this machine, and it does not use node {} of {}; leave out --on",
            node.name, inventory.file
        )])),
    }
}

/// Looks for the programs that a user named.
pub(super) fn find_all(programs: &[String], host: &dyn Host) -> Result<(), PreconditionError> {
    let is_absent = |name: &&String| host.find_program(name).is_none();
    let absent = programs.iter().filter(is_absent);
    let absent: Vec<String> = absent.map(|name| format!("{name} is missing")).collect();
    if absent.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(absent))
    }
}

/// Requirements on this machine for a stack in this place.
pub fn needs(choice: &StackConfig, place: &StackPlacement) -> super::StackRequirements {
    let mut needs = choice.stack.needs(choice);
    for (layer, settings) in &choice.layers {
        needs = needs.and(layer.needs(settings));
    }
    match place {
        // Requirements of its servers are looked for on them.
        StackPlacement::Inventory(_) => needs,
        _ if choice.stack.needs_machines(choice) => needs,
        StackPlacement::Here => needs.and(choice.stack.server_needs(choice)),
        StackPlacement::Namespaces => {
            needs
                .and(choice.stack.server_needs(choice))
                .and(super::StackRequirements {
                    programs: vec!["ip", "nft", "nsenter"],
                    root: true,
                    ..super::StackRequirements::default()
                })
        }
    }
}

/// Whether the kernel can mount NFS, and has what helps it.
pub(super) fn kernel_has_nfs(host: &dyn Host) -> bool {
    host.knows_file_system("nfs") && host.find_program("mount.nfs").is_some()
}

/// Whether the kernel has RAID arrays of its own, and what makes them is there.
pub(super) fn kernel_has_md(host: &dyn Host) -> bool {
    host.knows_md() && host.find_program("mdadm").is_some()
}

/// A unique identifier: marks are made of it, and cleanup ends every process with such a mark.
pub(crate) fn new_id(name: &str, host: &dyn Host) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (seconds, pid) = (host.clock().unix_seconds(), std::process::id());
    // Two threads of one process may begin in the same second.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{seconds:x}-{pid}-{number}")
}

/// The part of a path that exists: the rest will lie on the same file system.
fn existing_part(path: &Path) -> &Path {
    path.ancestors()
        .find(|part| part.exists())
        .unwrap_or(Path::new("/"))
}

/// How often a stack is tried whose network another one took between the look and the step that makes it.
const NETWORK_TRIES: u32 = 3;

/// Brings a stack up. It stays when this process ends.
///
/// # Errors
/// When it is up already, cannot be made here, or a step fails: then what was begun is undone.
pub fn up(
    choice: &StackConfig,
    options: &StackUpOptions,
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> Result<StackInstance, UpError> {
    let mut tries = 1;
    loop {
        match up_once(choice, options, state, hosts) {
            Err(UpError::Raise(error)) if has_lost_network(&error) && tries < NETWORK_TRIES => {
                tries += 1;
            }
            ended => return ended,
        }
    }
}

/// Whether the bridge of a network was there already: another stack that was brought up at the same time
/// chose the same number.
fn has_lost_network(error: &RaiseError) -> bool {
    error.action.contains(" type bridge;")
        && error.razed.is_clean()
        && error.source.to_string().contains("File exists")
}

fn up_once(
    choice: &StackConfig,
    options: &StackUpOptions,
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> Result<StackInstance, UpError> {
    let name = choice.parts.to_string();
    check_not_up(&name, state, hosts)?;
    let planned = plan(choice, options, hosts)?;
    let nodes = planned.ask.site.servers.clone();
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: planned.id.clone(),
        kind: JournalScope::Stack(name.clone()),
        owner: HostProcessId::this(),
        began_at: rfc3339(hosts.here().clock().unix_seconds()),
        mount_dir: Some(planned.made.place().to_owned()),
        ask: Some(planned.ask),
        nodes: Vec::new(),
    };
    let journal = match Journal::create(state, header) {
        // Another process made the journal after the check above.
        Err(JournalError::Exists { .. }) => check_not_up(&name, state, hosts)
            .and(Err(UpError::Unfinished { name: name.clone() }))?,
        other => other?,
    };
    raise(&planned.plan, Some(&planned.made), hosts, journal)?;
    let mut made = planned.made;
    let proofs = closed(&planned.plan.steps, &nodes, &made);
    made.proofs.extend(proofs);
    Ok(StackInstance {
        name,
        id: planned.id,
        made,
        nodes,
    })
}

/// The base directory as an absolute path without links, which the mount table does not have
/// either. What of it does not exist is made by the first step, and goes with it.
fn resolved(base: &Path) -> Result<PathBuf, HostError> {
    let absolute = std::path::absolute(base).map_err(HostError::io("find", base))?;
    let existing = existing_part(&absolute);
    let real = existing
        .canonicalize()
        .map_err(HostError::io("look at", existing))?;
    if !real.is_dir() {
        return Err(HostError::State(format!(
            "{} is not a directory; name one with --dir",
            existing.display()
        )));
    }
    let may = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(&real, may).map_err(|errno| {
        HostError::State(format!(
            "nothing can be made in {}: {}; name another directory with --dir",
            real.display(),
            std::io::Error::from(errno)
        ))
    })?;
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err(HostError::State(format!(
            "{} leads through a directory that does not exist and back; name it without '..'",
            base.display()
        )));
    }
    Ok(real.components().chain(rest.components()).collect())
}

pub(super) fn journal_file(name: &str, state: &StateDir) -> PathBuf {
    state
        .journals()
        .join(JournalScope::Stack(name.into()).file_name())
}

/// The journal contents of a stack.
///
/// # Errors
/// When it has none, or it cannot be read.
pub fn record(name: &str, state: &StateDir) -> Result<JournalContents, JournalError> {
    JournalContents::read(&journal_file(name, state))
}

fn check_not_up(name: &str, state: &StateDir, hosts: &mut dyn HostResolver) -> Result<(), UpError> {
    let path = journal_file(name, state);
    if !path.exists() {
        return Ok(());
    }
    let record = JournalContents::read(&path)?;
    let ended = match record.standing {
        true => problems(&record, hosts).into_iter().next(),
        false => None,
    };
    Err(if let Some(why) = ended {
        UpError::Ended {
            name: name.into(),
            why,
        }
    } else if record.standing {
        UpError::AlreadyUp {
            name: name.into(),
            mount_dir: record.header.mount_dir.unwrap_or_default(),
        }
    } else if record.at_work() {
        UpError::AtWork {
            name: name.into(),
            pid: record.worker().pid,
        }
    } else {
        UpError::Unfinished { name: name.into() }
    })
}

/// Keeps a stack that is up from being taken down or razed until the returned file is dropped or this process
/// ends in any way. Other processes may hold the stack at the same time. The holder must drop the file before
/// it calls [`down`].
///
/// # Errors
/// [`JournalError::NotStanding`] when it is not up; [`JournalError::InUse`] when another process brings it
/// up or takes it down at this moment; else when its journal cannot be read.
pub fn hold(
    name: &str,
    state: &StateDir,
    clock: &dyn HostTimeSource,
) -> Result<File, JournalError> {
    let kind = JournalScope::Stack(name.into());
    match journal::hold(&journal_file(name, state), clock) {
        Err(error) if error.is_absent() => Err(JournalError::NotStanding { kind }),
        other => other,
    }
}

/// Locks a stack exclusively for fault injection: the figures of others would include faults they know
/// nothing of. The lock is released where that is refused.
///
/// # Errors
/// [`JournalError::InUse`] when another process holds it.
pub fn hold_alone(held: &File, name: &str, state: &StateDir) -> Result<(), JournalError> {
    journal::hold_alone(held, &journal_file(name, state))
}

/// The journal of a stack that this process [holds alone](hold_alone), to note what it does to it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn journal_of(
    held: &File,
    name: &str,
    state: &StateDir,
) -> Result<Journal, JournalError> {
    Journal::held_alone(held, &journal_file(name, state))
}

/// Takes a stack down, also one that was left unfinished.
///
/// # Errors
/// When it is not up, or another process is at work on it or holds it. What could not be undone is
/// in the result.
pub fn down(
    name: &str,
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> Result<RazeReport, DownError> {
    let not_up = || DownError::NotUp { name: name.into() };
    let path = journal_file(name, state);
    match Journal::open(&path, hosts.here().clock()) {
        Err(error) if error.is_absent() => Err(not_up()),
        Err(error) => Err(error.into()),
        Ok(journal) => Ok(raze(journal, hosts)),
    }
}

/// How the stacks are that have a journal.
///
/// # Errors
/// When the state directory cannot be read. A journal that cannot be read is not listed here but
/// in [`plimsoll_machine::raise::list`].
pub fn status(state: &StateDir, hosts: &mut dyn HostResolver) -> io::Result<Vec<StackStatus>> {
    let mut all = Vec::new();
    for found in list(state)? {
        let Ok(record) = found.record else { continue };
        let JournalScope::Stack(name) = &record.header.kind else {
            continue;
        };
        all.push(StackStatus {
            name: name.clone(),
            standing: record.standing,
            mount_dir: record.header.mount_dir.clone(),
            since: record.header.began_at.clone(),
            problems: problems(&record, hosts),
            degraded: degraded(&record, hosts),
            told: told(&record, hosts),
            made: made(&record),
            nodes: record.header.nodes().to_vec(),
        });
    }
    Ok(all)
}

/// The names of the stacks that have a journal, without a look at any.
pub fn names_up(state: &StateDir) -> Vec<String> {
    let all = list(state).unwrap_or_default().into_iter();
    let names = all.filter_map(|found| match found.record.ok()?.header.kind {
        JournalScope::Stack(name) => Some(name),
        _ => None,
    });
    names.collect()
}

/// The outputs of a stack, with the self-tests that follow from its steps.
fn made(record: &JournalContents) -> Option<StackOutputs> {
    let mut made = record.made.clone()?;
    let standing = record.entries.iter().filter(|entry| !entry.undone);
    let steps = standing.map(|entry| &entry.step);
    let proofs = closed(steps, record.header.nodes(), &made);
    made.proofs.extend(proofs);
    Some(made)
}

/// That no other user gains anything, for each machine: of whatever the steps made there. Not written down
/// in any recipe, so that none can forget it.
fn closed<'a>(
    steps: impl IntoIterator<Item = &'a PlanStep>,
    nodes: &[PlanNode],
    made: &StackOutputs,
) -> Vec<StackSelfTest> {
    let is_here = |name: &str| {
        let mut found = nodes.iter().filter(|node| node.name == name);
        found.all(|node| node.reach.is_this_machine())
    };
    let mut places: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for step in steps {
        let machine = if is_here(&step.node) {
            HERE
        } else {
            &*step.node
        };
        let (dirs, marks) = places.entry(machine).or_default();
        match &step.apply {
            PlanAction::MakeDir(dir) if !dirs.iter().any(|top| is_in(dir, top)) => {
                dirs.push(dir.clone());
            }
            PlanAction::Start { mark, .. } if !marks.contains(mark) => marks.push(mark.clone()),
            _ => {}
        }
    }
    let proof = |(machine, (dirs, marks)): (&str, (Vec<String>, Vec<String>))| {
        let own = nodes.iter().filter(|node| match machine {
            HERE => node.reach.is_this_machine(),
            name => node.name == name,
        });
        let exports = made.address.iter().filter(|_| machine == HERE);
        StackSelfTest::Closed {
            node: machine.into(),
            dirs,
            marks,
            addresses: own.map(|node| node.address.clone()).collect(),
            exports: exports.cloned().collect(),
        }
    };
    places.into_iter().map(proof).collect()
}

fn is_in(path: &str, dir: &str) -> bool {
    Path::new(path).starts_with(dir)
}

/// Reports of its servers about themselves; for one that does not answer, the error.
fn told(record: &JournalContents, hosts: &mut dyn HostResolver) -> Vec<String> {
    let servers = record.made.iter().flat_map(|made| &made.servers);
    let mut all = Vec::new();
    for server in servers {
        let Some(cmd) = server.question(ServerQuery::How) else {
            continue;
        };
        let said = hosts
            .on(&server.node)
            .and_then(|host| host.answer(&record.header.id, &cmd));
        let said = said.unwrap_or_else(|error| error.to_string());
        all.extend(said.lines().map(|line| format!("{}: {line}", server.name)));
    }
    all
}

/// Problems with a stack: parts not made, daemons gone, mounts gone.
pub fn problems(record: &JournalContents, hosts: &mut dyn HostResolver) -> Vec<String> {
    let mut problems = Vec::new();
    if record.at_work() {
        problems.push(format!("process {} is working on it", record.worker().pid));
    } else if let Some(change) = &record.changing {
        problems.push(format!(
            "'{}' was left unfinished; run the same command again, or take the stack down",
            change.verb
        ));
    } else if !record.standing {
        problems.push("it was left unfinished".into());
    }
    introduce(hosts, record);
    for (n, entry) in record.entries.iter().enumerate() {
        if entry.undone || record.is_over(n) || is_lost(&entry.step.apply, record) {
            continue;
        }
        match hosts.on(&entry.step.node) {
            Ok(host) => problems.extend(problem(&record.header.id, &entry.step.apply, host)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    // A node that cannot be reached says so once for each step.
    problems.dedup();
    if !problems.is_empty() && !record.worker().is_of_this_boot() {
        problems.insert(
            0,
            "this machine was restarted since it was brought up".into(),
        );
    }
    problems
}

/// Whether what a step made ends by itself, sooner or later, since what it depends on was taken away on
/// purpose.
fn is_lost(made: &PlanAction, record: &JournalContents) -> bool {
    let PlanAction::Start { mark, .. } = made else {
        return false;
    };
    chain::server_of(mark).is_some_and(|server| record.is_stopped(&server))
}

/// Parts that a stack lacks for safety, although it serves: lost nodes, lost copies.
fn degraded(record: &JournalContents, hosts: &mut dyn HostResolver) -> Vec<String> {
    let mut lacking = Vec::new();
    let Some(made) = record.made.as_ref().filter(|_| record.standing) else {
        return lacking;
    };
    introduce(hosts, record);
    for server in made
        .servers
        .iter()
        .filter(|server| !server.marks.is_empty())
    {
        if let Ok(host) = hosts.on(&server.node)
            && server.marks.iter().all(|mark| host.marked(mark).is_empty())
        {
            lacking.push(format!("{} is gone: it has no process", server.name));
        }
    }
    let Some(ask) = &record.header.ask else {
        return lacking;
    };
    let Ok(choice) = StackConfig::of(ask.parts.clone()) else {
        return lacking;
    };
    let order = order_of(record, ask, &choice, hosts.here());
    lacking.extend(choice.stack.lacks(&order, record, hosts));
    lacking
}

/// The plan input for the recipe of a stack that is up.
pub(super) fn order_of<'a>(
    record: &'a JournalContents,
    ask: &'a StackRequest,
    choice: &'a StackConfig,
    here: &dyn Host,
) -> StackPlanInput<'a> {
    StackPlanInput {
        id: &record.header.id,
        choice,
        size_bytes: ask.size_bytes,
        site: &ask.site,
        kernel_has_nfs: kernel_has_nfs(here),
        kernel_has_md: kernel_has_md(here),
    }
}

/// The problem with the result of one step.
fn problem(id: &str, made: &PlanAction, host: &mut dyn Host) -> Option<String> {
    match made {
        PlanAction::Start { cmd, mark, log, .. } if host.marked(mark).is_empty() => {
            Some(format!("{} has ended; see {log}", served_by(cmd)))
        }
        // A server that lives but accepts no new connection serves only until its present clients leave.
        PlanAction::Start {
            cmd,
            log,
            ready: PlanReadinessCheck::Succeeds(ask),
            ..
        } if ask.program == "nbdinfo" => match host.answer(id, ask) {
            Err(HostError::Failed { .. }) => {
                Some(format!("{} no longer answers; see {log}", served_by(cmd)))
            }
            _ => None,
        },
        look @ PlanAction::MountIs { .. } => host.carry_out(id, look).err().map(|e| e.to_string()),
        PlanAction::MakeDir(path) if !host.exists(Path::new(path)) => {
            Some(format!("{path} is gone"))
        }
        _ => None,
    }
}

/// The program that serves, which another one may only start.
fn served_by(cmd: &PlanCommand) -> &str {
    match (cmd.program.as_str(), cmd.args.get(1)) {
        ("timeout", Some(PlanCommandArg::Text(program))) => program,
        (program, _) => program,
    }
}

#[cfg(test)]
mod tests;
