// SPDX-License-Identifier: Apache-2.0
//! Everything that targets are raised with, and that has to be undone: stacks, attached disks, directories,
//! claims. A run that is killed is razed by the journals.

use super::RaisedTarget;
use super::attached::{self, AttachedDisk};
use super::claims::TargetClaims;
use super::device::DestroyConsent;
use super::raised::RaisedStack;
use crate::lab_failure::trying;
use crate::request::WorkloadRequest;
use plimsoll_agent::run_id;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::RunWarning;
use plimsoll_core::plan::{Plan, PlanNode};
use plimsoll_lab::attach::RemoteDiskAddress;
use plimsoll_lab::stacks::{self, DownError, StackConfig, StackUpOptions};
use plimsoll_machine::host::{Host as _, HostPool, LocalHost, medium};
use plimsoll_machine::journal::{Journal, JournalError, JournalHeader, StateDir};
use plimsoll_machine::raise::{AppliedPlan, raise, raze};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The run that targets are raised for.
#[derive(Debug)]
pub struct RaiseRequest<'a> {
    /// Its name.
    pub id: &'a str,
    /// Where journals are kept.
    pub state: &'a StateDir,
    /// The workloads that are to run.
    pub asked: &'a [WorkloadRequest],
    /// Devices that may be destroyed.
    pub consent: &'a DestroyConsent,
    /// Set when all is to end.
    pub stop: &'a Arc<AtomicBool>,
}

/// Machines, and everything on them that has to be undone.
#[derive(Debug)]
pub struct TargetBench {
    hosts: HostPool,
    /// Machines that the load comes from; none where it comes from this one.
    load_nodes: Vec<PlanNode>,
    options: StackUpOptions,
    raised: Vec<String>,
    attached: Vec<AttachedDisk>,
    directories: Option<AppliedPlan>,
    /// Stacks that are kept from being taken down, by their names.
    held: BTreeMap<String, File>,
    pub(super) claims: TargetClaims,
}

impl TargetBench {
    /// One with these machines, on which nothing was raised yet.
    pub fn new(hosts: HostPool, options: StackUpOptions) -> Self {
        TargetBench {
            hosts,
            load_nodes: Vec::new(),
            options,
            raised: Vec::new(),
            attached: Vec::new(),
            directories: None,
            held: BTreeMap::new(),
            claims: TargetClaims::default(),
        }
    }

    /// The same where a directory may be shared with another run.
    #[must_use]
    pub fn shared(mut self, shared: bool) -> Self {
        self.claims.shared = shared;
        self
    }

    /// From now on the load comes from these machines, which the hosts know.
    pub(crate) fn load_from(&mut self, nodes: &[PlanNode]) {
        self.load_nodes = nodes.to_vec();
    }

    /// Whether the load comes from this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.load_nodes.is_empty()
    }

    pub(crate) fn load_nodes(&self) -> &[PlanNode] {
        &self.load_nodes
    }

    pub(crate) fn hosts(&mut self) -> &mut HostPool {
        &mut self.hosts
    }

    pub(crate) fn local(&self) -> &LocalHost {
        self.hosts.local()
    }

    pub(crate) fn options(&self) -> &StackUpOptions {
        &self.options
    }

    /// Warnings of other runs that work on the same arm or disk.
    pub(crate) fn others(&self) -> &[RunWarning] {
        self.claims.others()
    }

    /// Claims the disks below all targets.
    pub(crate) fn claim_disks<'a>(&mut self, targets: impl Iterator<Item = &'a RaisedTarget>) {
        let mut disks = BTreeSet::new();
        for target in targets {
            disks.extend(target.facts.iter().flat_map(|facts| facts.disks.clone()));
            if self.is_here() && target.stack.is_some() {
                disks.extend(medium::below(&self.options.base_dir).disks);
            }
        }
        disks.iter().for_each(|disk| self.claims.claim_disk(disk));
    }

    /// Carries out the steps of all targets.
    pub(crate) fn make(&mut self, plan: &Plan, request: &RaiseRequest<'_>) -> Result<(), CliError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let header = JournalHeader {
            nodes: self.load_nodes.clone(),
            ..run_id::run_header(request.id)
        };
        let journal = Journal::create(request.state, header)
            .map_err(doing(CliExitCode::Failed, "begin the journal of the run"))?;
        let standing = raise(plan, None, &mut self.hosts, journal).map_err(doing(
            CliExitCode::Failed,
            "make the directories of the run",
        ))?;
        self.directories = Some(standing);
        Ok(())
    }

    /// A disk, attached unless another arm has it already, and this machine.
    pub(super) fn attached(
        &mut self,
        address: &RemoteDiskAddress,
        request: &RaiseRequest<'_>,
    ) -> Result<(&AttachedDisk, &LocalHost), CliError> {
        let is_it = |attached: &AttachedDisk| attached.address == *address;
        let number = match self.attached.iter().position(is_it) {
            Some(number) => number,
            None => {
                let number = self.attached.len();
                let id = format!("{}-disk{}", request.id, number + 1);
                let attached = attached::attach(address, &id, request.state, &mut self.hosts)?;
                self.attached.push(attached);
                number
            }
        };
        Ok((&self.attached[number], self.hosts.local()))
    }

    /// A stack that is up and healthy, brought up where it is not, and kept from being taken down.
    pub(super) fn stack(
        &mut self,
        config: &StackConfig,
        state: &StateDir,
    ) -> Result<RaisedStack, CliError> {
        let name = config.parts.to_string();
        let all = stacks::status(state, &mut self.hosts).map_err(doing(
            CliExitCode::Failed,
            "read the journals of the stacks",
        ))?;
        let (made, nodes, degraded) = match all.into_iter().find(|status| status.name == name) {
            Some(status) if !status.problems.is_empty() => {
                let list = status.problems.join("; ");
                return Err(CliError::new(
                    CliExitCode::Failed,
                    format!("use stack '{name}': {list}"),
                )
                .hint(format!("take it down with: plimsoll stack down '{name}'")));
            }
            Some(status) => (
                status.made.unwrap_or_default(),
                status.nodes,
                status.degraded,
            ),
            None => {
                let up = stacks::up(config, &self.options, state, &mut self.hosts)
                    .map_err(trying(format!("bring up the stack {name}")))?;
                self.raised.push(name.clone());
                (up.made, up.nodes, Vec::new())
            }
        };
        Ok(RaisedStack {
            held: self.hold(&name, state)?,
            name,
            made,
            nodes,
            degraded,
        })
    }

    /// Keeps others from taking the stack down while it is measured.
    fn hold(&mut self, name: &str, state: &StateDir) -> Result<File, CliError> {
        let cannot = || format!("hold the stack {name}");
        if !self.held.contains_key(name) {
            let held = stacks::hold(name, state, self.hosts.local().clock())
                .map_err(doing(CliExitCode::Failed, cannot()))?;
            self.held.insert(name.into(), held);
        }
        self.held[name]
            .try_clone()
            .map_err(doing(CliExitCode::Failed, cannot()))
    }

    /// Undoes everything that was raised here, in reverse; returns what is left. A stack that another run has
    /// begun to use stays for it.
    pub fn lower(&mut self, state: &StateDir) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(standing) = self.directories.take() {
            left.extend(raze(standing.journal, &mut self.hosts).problems());
        }
        while let Some(attached) = self.attached.pop() {
            left.extend(raze(attached.standing.journal, &mut self.hosts).problems());
        }
        self.held.clear();
        self.claims = TargetClaims::default();
        while let Some(name) = self.raised.pop() {
            match stacks::down(&name, state, &mut self.hosts) {
                Ok(razed) => left.extend(razed.problems()),
                Err(DownError::Journal(JournalError::InUse { .. })) => {}
                Err(error) => left.push(format!("stack {name}: {error}")),
            }
        }
        left
    }
}
