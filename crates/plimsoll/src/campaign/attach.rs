// SPDX-License-Identifier: Apache-2.0
//! Disks that somebody else serves as targets: attached for the run, and from then on treated as
//! any block device.

use super::arms::shown;
use super::device::{self, Consent};
use crate::failure::{Code, Failure, doing};
use crate::run_id::run_header;
use plimsoll_core::target::TargetFacts;
use plimsoll_engine::DeviceIdentity;
use plimsoll_lab::attach::{self, Address, Attachment, Kind, Peer};
use plimsoll_lab::device::DeviceFacts;
use plimsoll_lab::host::{LocalHost, Nodes};
use plimsoll_lab::journal::{Journal, StateDir};
use plimsoll_lab::raise::{Standing, raise};
use std::fmt::Display;

/// A disk while it is attached.
#[derive(Debug)]
pub(super) struct Attached {
    /// Where it is.
    pub(super) address: Address,
    peer: Peer,
    attachment: Attachment,
    /// What has to be undone in the end.
    pub(super) standing: Standing,
}

fn cannot<E: Display>(address: &Address) -> impl Fn(E) -> Failure {
    move |error| Failure::usage(format!("use target '{address}': {error}"))
}

/// What can be known to be wrong before it is attached.
pub(super) fn check(address: &Address, consent: &Consent, host: &LocalHost) -> Result<(), Failure> {
    consent.check_given(&address.to_string())?;
    attach::check(address, host).map_err(cannot(address))
}

/// Attaches it. `id` names the journal that undoes it, and the directory its client works in.
pub(super) fn attach(
    address: &Address,
    id: &str,
    state: &StateDir,
    nodes: &mut Nodes,
) -> Result<Attached, Failure> {
    let peer = attach::peer(address).map_err(cannot(address))?;
    // Not among the stacks: their base directory may be too deep for the path of a socket.
    let dir = shown(&std::env::temp_dir().join(format!("plimsoll-{id}")))?;
    let attachment = Attachment::of(address, &peer, &dir, id);
    let journal = Journal::create(state, run_header(id)).map_err(doing(
        Code::Failed,
        format!("begin the journal of {address}"),
    ))?;
    let standing = raise(&attachment.plan, None, nodes, journal)
        .map_err(doing(Code::Failed, format!("attach {address}")))?;
    Ok(Attached {
        address: address.clone(),
        peer,
        attachment,
        standing,
    })
}

impl Attached {
    /// What is known of its block device, if the user allows what it holds to be destroyed.
    pub(super) fn look(
        &self,
        consent: &Consent,
        host: &LocalHost,
    ) -> Result<(DeviceFacts, DeviceIdentity), Failure> {
        let what = format!("attach {}", self.address);
        let path = self
            .attachment
            .device()
            .map_err(doing(Code::Failed, what))?;
        let (found, identity) = device::facts(&path, host)?;
        consent.covers(&self.address.to_string(), &found)?;
        Ok((found, identity))
    }

    /// What it is, in one line.
    pub(super) fn description(&self, found: &DeviceFacts) -> String {
        let what = match &self.address.kind {
            Kind::Iscsi(iscsi) => format!("iSCSI disk {} of {}", iscsi.lun, iscsi.target),
            Kind::Nbd { export, .. } if export.is_empty() => "NBD disk".into(),
            Kind::Nbd { export, .. } => format!("NBD disk {export}"),
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
