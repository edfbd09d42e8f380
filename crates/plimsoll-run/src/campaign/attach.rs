// SPDX-License-Identifier: Apache-2.0
//! Remote disks (iSCSI, NBD) as targets: attached for the run, and from then on treated as
//! any block device.

use super::arms::shown;
use super::device::{self, DestroyConsent};
use plimsoll_agent::run_id::run_header;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::target::DeviceIdentity;
use plimsoll_core::target::TargetFacts;
use plimsoll_lab::attach::{
    self, RemoteDiskAddress, RemoteDiskAttachment, RemoteDiskEndpoint, RemoteDiskTransport,
};
use plimsoll_machine::device::DeviceFacts;
use plimsoll_machine::host::{HostPool, LocalHost};
use plimsoll_machine::journal::{Journal, StateDir};
use plimsoll_machine::raise::{AppliedPlan, raise};
use std::fmt::Display;

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

/// Errors that can be found before it is attached.
pub(super) fn check(
    address: &RemoteDiskAddress,
    consent: &DestroyConsent,
    host: &LocalHost,
) -> Result<(), CliError> {
    consent.check_given(&address.to_string())?;
    attach::check(address, host).map_err(cannot(address))
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
