// SPDX-License-Identifier: Apache-2.0
//! Exports of NFS servers as targets: plimsoll itself is the client.

use super::place::look_at;
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use crate::request::WorkloadRequest;
use plimsoll_console::failure::{CliError, CliExitCode, doing, failed};
use plimsoll_core::plan::{HERE, Plan, PlanAction};
use plimsoll_core::target::{NodeTarget, TargetFacts};
use plimsoll_core::workload::Workload;
use plimsoll_machine::host::HostResolver as _;
use plimsoll_nfs::NfsAddress;
use std::rc::Rc;

#[derive(Debug)]
struct ExportTarget {
    address: NfsAddress,
}

#[derive(Debug)]
struct ResolvedExport {
    address: NfsAddress,
    facts: TargetFacts,
}

pub(super) fn read(
    text: &str,
    _origin: LoadOrigin,
) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    if !NfsAddress::is_meant(text) {
        return Ok(None);
    }
    let address = text.parse().map_err(CliError::invalid)?;
    Ok(Some(Rc::new(ExportTarget { address })))
}

impl TargetKind for ExportTarget {
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        check(survey.given, survey.asked)?;
        let address = self.address.clone();
        let facts = match survey.bench.is_here() {
            true => facts(&address)?,
            false => facts_on_nodes(survey, &address)?,
        };
        survey.need(survey.given, facts.free_bytes);
        Ok(Box::new(ResolvedExport { address, facts }))
    }
}

/// Facts about the export as the first node sees it, when all nodes reach it.
fn facts_on_nodes(
    survey: &mut TargetSurvey<'_>,
    address: &NfsAddress,
) -> Result<TargetFacts, CliError> {
    let mut first = None;
    for node in survey.bench.load_nodes().to_vec() {
        let about = format!("{} on node {}", look_at(survey.given), node.name);
        let host = survey.bench.hosts().on(&node.name);
        let found = host.and_then(|host| host.export(&address.to_string()));
        let found = found.map_err(doing(CliExitCode::Usage, about))?;
        first.get_or_insert(found);
    }
    Ok(first.unwrap_or_default())
}

impl ResolvedTarget for ResolvedExport {
    fn facts(&self) -> Option<&TargetFacts> {
        Some(&self.facts)
    }

    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        vec![intent.make_directory()]
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let address = self.address.to_string();
        let directory = raising.directory.clone();
        let mut nodes = Vec::new();
        for node in raising.bench.load_nodes() {
            let own = format!("{directory}-{}", node.name);
            nodes.push(add_directory(raising.plan, &node.name, &address, own));
        }
        let here = raising.bench.is_here();
        let here = here.then(|| add_directory(raising.plan, HERE, &address, directory));
        Ok(RaisedTarget {
            description: "an NFS export; plimsoll is the client".into(),
            here,
            servers: vec![self.address.host.clone()],
            ..RaisedTarget::on_nodes(nodes, self.facts.clone())
        })
    }
}

/// Refuses workloads that need a mounted directory.
pub(super) fn check(given: &str, asked: &[WorkloadRequest]) -> Result<(), CliError> {
    let is_program = |one: &&WorkloadRequest| matches!(one.workload, Workload::Commands(_));
    match asked.iter().find(is_program) {
        None => Ok(()),
        Some(one) => Err(CliError::usage(format!(
            "run {} on {given}: a program needs a mounted directory, and here plimsoll is the client",
            one.workload.name()
        ))),
    }
}

/// Facts about an export. It is mounted to find them, and nothing is changed.
pub(super) fn facts(address: &NfsAddress) -> Result<TargetFacts, CliError> {
    plimsoll_machine::host::facts::export(&address.to_string()).map_err(failed(CliExitCode::Failed))
}

/// Adds the step that makes a directory on an export from this node.
pub(super) fn add_directory(
    plan: &mut Plan,
    node: &str,
    address: &str,
    directory: String,
) -> NodeTarget {
    let (address, name) = (address.to_owned(), directory.clone());
    let undo = PlanAction::RemoveRemoteDir {
        address: address.clone(),
        name: name.clone(),
    };
    let make = PlanAction::MakeRemoteDir {
        address: address.clone(),
        name,
    };
    plan.step_on(node, "create a directory on the export", make, Some(undo));
    NodeTarget::Export {
        address,
        directory: directory.into(),
    }
}
