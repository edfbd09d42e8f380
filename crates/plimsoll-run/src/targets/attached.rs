// SPDX-License-Identifier: Apache-2.0
//! Remote disks (iSCSI, NBD) as targets: attached for the run, and from then on treated as
//! any block device.

use super::device::{self, DestroyConsent};
use super::place::{self, shown};
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_agent::run_id::run_header;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::target::DeviceIdentity;
use plimsoll_core::target::TargetFacts;
use plimsoll_lab::attach::{
    self, NbdServerAddress, RemoteDiskAddress, RemoteDiskAttachment, RemoteDiskEndpoint,
    RemoteDiskTransport,
};
use plimsoll_machine::device::DeviceFacts;
use plimsoll_machine::host::{HostPool, LocalHost};
use plimsoll_machine::journal::{Journal, StateDir};
use plimsoll_machine::raise::{AppliedPlan, raise};
use std::fmt::Display;
use std::rc::Rc;

#[derive(Debug, Clone)]
struct AttachTarget {
    address: RemoteDiskAddress,
}

pub(super) fn read(
    text: &str,
    _origin: LoadOrigin,
) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    if !RemoteDiskAddress::is_meant(text) {
        return Ok(None);
    }
    let address = text.parse().map_err(CliError::invalid)?;
    Ok(Some(Rc::new(AttachTarget { address })))
}

impl TargetKind for AttachTarget {
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        let given = survey.given;
        if !survey.bench.is_here() {
            return Err(CliError::usage(format!(
                "use target '{given}' from nodes: one device is not each node's own; give a directory or a new \
                 file that is on all of them"
            )));
        }
        survey.consent.check_given(&self.address.to_string())?;
        attach::check(&self.address, survey.bench.local()).map_err(cannot(&self.address))?;
        place::check_one_file(given, survey.asked, "")?;
        Ok(Box::new(self.clone()))
    }
}

impl ResolvedTarget for AttachTarget {
    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        let attach = format!("attach {}, and detach it at the end", intent.given);
        let attach = Some(attach).filter(|_| !intent.is_control);
        attach.into_iter().chain([intent.overwrite()]).collect()
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let request = raising.request;
        let (attached, host) = raising.bench.attached(&self.address, request)?;
        let (found, identity) = attached.look(request.consent, host)?;
        let raised = device::raised(&found.path, &found, identity);
        Ok(RaisedTarget {
            description: attached.description(&found),
            facts: Some(attached.target_facts(&found)),
            servers: server(&self.address).into_iter().collect(),
            ..raised
        })
    }
}

/// The machine that serves a disk, where it is reached over a network.
fn server(address: &RemoteDiskAddress) -> Option<String> {
    match &address.kind {
        RemoteDiskTransport::Iscsi(iscsi) => Some(iscsi.host.clone()),
        RemoteDiskTransport::Nbd { server, .. } => match server {
            NbdServerAddress::Tcp(host, _) => Some(host.clone()),
            NbdServerAddress::Unix(_) => None,
        },
    }
}

/// A disk while it is attached.
#[derive(Debug)]
pub(super) struct AttachedDisk {
    /// Where it is.
    pub(super) address: RemoteDiskAddress,
    peer: RemoteDiskEndpoint,
    attachment: RemoteDiskAttachment,
    /// Steps that have to be undone in the end.
    pub(super) standing: AppliedPlan,
}

fn cannot<E: Display>(address: &RemoteDiskAddress) -> impl Fn(E) -> CliError {
    move |error| CliError::usage(format!("use target '{address}': {error}"))
}

/// Attaches it. `id` names the journal that undoes it, and the directory its client works in.
pub(super) fn attach(
    address: &RemoteDiskAddress,
    id: &str,
    state: &StateDir,
    nodes: &mut HostPool,
) -> Result<AttachedDisk, CliError> {
    let peer = attach::peer(address).map_err(cannot(address))?;
    // Not among the stacks: their base directory may be too deep for the path of a socket.
    let dir = shown(&std::env::temp_dir().join(format!("plimsoll-{id}")))?;
    let attachment = RemoteDiskAttachment::of(address, &peer, &dir, id);
    let journal = Journal::create(state, run_header(id)).map_err(doing(
        CliExitCode::Failed,
        format!("begin the journal of {address}"),
    ))?;
    let standing = raise(&attachment.plan, None, nodes, journal)
        .map_err(doing(CliExitCode::Failed, format!("attach {address}")))?;
    Ok(AttachedDisk {
        address: address.clone(),
        peer,
        attachment,
        standing,
    })
}

impl AttachedDisk {
    /// Facts and identity of its block device, if the user allows its contents to be destroyed.
    pub(super) fn look(
        &self,
        consent: &DestroyConsent,
        host: &LocalHost,
    ) -> Result<(DeviceFacts, DeviceIdentity), CliError> {
        let what = format!("attach {}", self.address);
        let path = self
            .attachment
            .device()
            .map_err(doing(CliExitCode::Failed, what))?;
        let (found, identity) = device::facts(&path, host)?;
        consent.covers(&self.address.to_string(), &found)?;
        Ok((found, identity))
    }

    /// Description in one line.
    pub(super) fn description(&self, found: &DeviceFacts) -> String {
        let what = match &self.address.kind {
            RemoteDiskTransport::Iscsi(iscsi) => {
                format!("iSCSI disk {} of {}", iscsi.lun, iscsi.target)
            }
            RemoteDiskTransport::Nbd { export, .. } if export.is_empty() => "NBD disk".into(),
            RemoteDiskTransport::Nbd { export, .. } => format!("NBD disk {export}"),
        };
        format!(
            "{what} at {}, client in user space: {}",
            self.peer,
            device::description(found)
        )
    }

    /// The same as facts about a target.
    pub(super) fn target_facts(&self, found: &DeviceFacts) -> TargetFacts {
        TargetFacts {
            mount_source: self.address.to_string(),
            ..device::target_facts(found)
        }
    }
}
