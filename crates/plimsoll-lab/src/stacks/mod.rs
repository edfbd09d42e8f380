// SPDX-License-Identifier: Apache-2.0
//! Stacks: recipes that make a directory to measure on. One folder per stack.
//!
//! Invariants: a recipe is a pure function from options and facts to a plan; everything it makes
//! lies in one marked directory of the base directory, carries the identifier of its journal in
//! its marks and names, and has an undo. How plans are carried out is in [`plimsoll_machine::raise`]; how a
//! stack is brought up and down, with all checks before it, is in [`manage`].

pub mod ceph;
pub mod change;
pub mod client;
pub mod crypt;
pub mod drbd;
pub mod gluster;
mod inventory;
pub mod iscsi;
mod kernel_disk;
#[cfg(test)]
mod levels_tests;
pub mod local;
pub mod lustre;
pub mod manage;
pub mod nbd;
mod needs;
pub mod nfs;
pub(crate) mod node;
pub mod nvmetcp;
pub mod own;
pub mod raid;
pub mod san;
mod sandbox;
pub(crate) mod site;
#[cfg(test)]
pub(crate) mod snapshot;
mod spec;
pub mod tenant;

pub use change::{ChangeError, StackChangeEvent, change};
pub use client::ClientPlace;
pub use inventory::NodeInventory;
pub use manage::{
    DownError, StackInstance, StackStatus, UpError, down, hold, hold_alone, status, up,
};
pub use needs::StackRequirements;
pub use site::{SiteError, StackPlacement, link_of};
pub use spec::{SpecError, StackConfig};

use plimsoll_core::plan::{Plan, StackNodes, StackOutputs};
use plimsoll_core::settings::{SettingDefinition, SettingLevels, SettingValues};
use std::fmt;
use std::path::PathBuf;

use plimsoll_machine::host::HostResolver;
use plimsoll_machine::journal::JournalContents;

/// All stacks, in the order in which they are listed.
pub const ALL: &[&dyn StackRecipe] = &[
    &local::LocalStack,
    &nbd::NbdStack,
    &iscsi::IscsiStack,
    &nvmetcp::NvmeTcpStack,
    &nfs::NfsStack,
    &raid::RAID1,
    &raid::RAID5,
    &raid::RAID10,
    &gluster::GlusterStack,
    &drbd::DrbdStack,
    &ceph::CephStack,
    &lustre::LustreStack,
    &san::SanStack,
    &own::OwnStack,
];

/// All layers, in the order in which they are listed.
pub const LAYERS: &[&dyn LayerRecipe] = &[&tenant::TenantLayer, &crypt::CryptLayer];

/// A stack by its name.
pub fn find(name: &str) -> Option<&'static dyn StackRecipe> {
    ALL.iter().copied().find(|stack| stack.name() == name)
}

/// A layer by its name.
pub fn find_layer(name: &str) -> Option<&'static dyn LayerRecipe> {
    LAYERS.iter().copied().find(|layer| layer.name() == name)
}

/// All stacks in one line.
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|stack| stack.name()).collect();
    names.join(", ")
}

/// All layers in one line.
pub fn layer_names() -> String {
    let names: Vec<&str> = LAYERS.iter().map(|layer| layer.name()).collect();
    names.join(", ")
}

/// Smallest size of a node: btrfs needs about 110 MiB on each of two devices, and below this the
/// file systems change their layout.
pub const MIN_SIZE_BYTES: u64 = 256 << 20;

/// Room left over in the base directory: a full disk harms others and changes the measurement.
const SPARE_BYTES: u64 = 512 << 20;

/// Options of the user besides the stack itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackUpOptions {
    /// Where the image files lie: this disk is what is measured in the end.
    pub base_dir: PathBuf,
    /// Size of each server's disk.
    pub size_bytes: u64,
    /// TCP ports of the loopback address are taken from here on, passing over those in use.
    pub first_port: u16,
    /// Where the servers are; the stack's own choice when `None`.
    pub place: Option<StackPlacement>,
}

impl StackUpOptions {
    /// 2 GiB per server, ports from 13260, the stack's own place.
    pub fn new(base_dir: PathBuf) -> Self {
        StackUpOptions {
            base_dir,
            size_bytes: 2 << 30,
            first_port: 13_260,
            place: None,
        }
    }
}

/// How many nodes and ports a stack takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackFootprint {
    /// Servers.
    pub servers: u16,
    /// TCP ports of each, where they share an address.
    pub ports: u16,
    /// Default place of the servers.
    pub place: StackPlacement,
}

impl StackFootprint {
    /// Servers on this machine, where no place is given.
    fn here(servers: u16, ports: u16) -> StackFootprint {
        StackFootprint {
            servers,
            ports,
            place: StackPlacement::Here,
        }
    }
}

/// The input of a recipe.
#[derive(Debug, Clone)]
pub struct StackPlanInput<'a> {
    /// Identifier of the journal: lower-case letters, digits and `-`.
    pub id: &'a str,
    /// The chosen stack.
    pub choice: &'a StackConfig,
    /// Size of each server's disk.
    pub size_bytes: u64,
    /// The nodes.
    pub site: &'a StackNodes,
    /// Whether the client's kernel can mount NFS, and has what helps it.
    pub kernel_has_nfs: bool,
    /// Whether the client's kernel has RAID arrays of its own, and what makes them.
    pub kernel_has_md: bool,
}

impl StackPlanInput<'_> {
    /// The marked directory of the stack on the client. Servers on the same machine may use it too.
    pub fn dir(&self) -> String {
        self.dir_on(&self.site.client.dir)
    }

    /// The marked directory of the stack below this base directory of a node.
    pub fn dir_on(&self, base: &str) -> String {
        let name = self.choice.parts.file_name();
        format!("{}/plimsoll-{name}", base.trim_end_matches('/'))
    }

    /// The mark of a process.
    pub fn mark(&self, process: &str) -> String {
        format!("plimsoll-{}-{process}", self.id)
    }

    /// The settings of the base.
    pub fn settings(&self) -> &SettingValues {
        &self.choice.settings
    }
}

/// Why a stack cannot be made here: everything that is missing, each with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreconditionError(pub Vec<String>);

impl fmt::Display for PreconditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for PreconditionError {}

/// Fails when one of these settings is given although it says something of another kind of the stack, so
/// that nothing is named after what it is not.
fn not_given(
    settings: &SettingValues,
    names: &[&str],
    is_for: &str,
) -> Result<(), PreconditionError> {
    let given = names.iter().filter(|name| settings.is_given(name));
    let unmet: Vec<String> = given
        .map(|name| format!("{name}={} is for {is_for}", settings.text(name)))
        .collect();
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(unmet))
    }
}

/// One step of the ladder from the bare disk to the whole stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackLadderRung {
    /// The part it adds: `disk`, `export`, `transport`, `redundancy`, `tenant`.
    pub adds: String,
    /// The stack up to here, as [`StackConfig::parse`] reads it.
    pub stack: String,
}

impl StackLadderRung {
    fn new(adds: &str, stack: impl Into<String>) -> Self {
        StackLadderRung {
            adds: adds.into(),
            stack: stack.into(),
        }
    }
}

/// A change of a stack that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackChange<'a> {
    /// Nodes are added, and the data spread over all.
    Grow,
    /// A node goes: the last one.
    Degrade,
    /// The node comes back, and gets what it missed.
    Rebuild,
    /// Everything is read and held against its checksums or copies.
    Scrub,
    /// The data as they are now are kept beside those that change.
    Snapshot,
    /// The service moves to another node, as planned.
    Switch,
    /// The node of this name is another machine now, with nothing on it, and gets what it lacks.
    Replace(&'a str),
}

impl StackChange<'_> {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            StackChange::Grow => "grow",
            StackChange::Degrade => "degrade",
            StackChange::Rebuild => "rebuild",
            StackChange::Scrub => "scrub",
            StackChange::Snapshot => "snapshot",
            StackChange::Switch => "switch",
            StackChange::Replace(_) => "replace",
        }
    }
}

impl fmt::Display for StackChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The counts of a scrub, which reads everything in a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubCount {
    /// Errors that were repaired.
    pub corrected: u64,
    /// Errors that are left.
    pub left: u64,
}

/// Access to servers without authentication.
pub(crate) const ANYBODY: &str = "anyone who reaches its servers' ports can read and write everything, \
     because they authenticate nobody: use a network that only the lab is in";

/// A recipe.
pub trait StackRecipe: fmt::Debug + Sync {
    /// Its name: lower-case letters and digits.
    fn name(&self) -> &'static str;

    /// Its parts, in one line, for lists.
    fn about(&self) -> &'static str;

    /// Its settings.
    fn settings(&self) -> &'static [SettingDefinition] {
        &[]
    }

    /// Values of its settings that `plimsoll tune` tries, and what they do to durability.
    fn levels(&self) -> &'static [SettingLevels] {
        &[]
    }

    /// How many nodes it takes.
    ///
    /// # Errors
    /// When the settings do not go together.
    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError>;

    /// Whether its servers must be machines of an inventory: what serves is their kernel, and a kernel
    /// does it for one at a time.
    fn needs_machines(&self, _choice: &StackConfig) -> bool {
        false
    }

    /// Requirements on the client before it can be planned.
    fn needs(&self, _choice: &StackConfig) -> StackRequirements {
        StackRequirements::default()
    }

    /// Requirements on each server.
    fn server_needs(&self, _choice: &StackConfig) -> StackRequirements {
        StackRequirements::default()
    }

    /// The steps, and what they make. Steps that make the nodes themselves are not among them.
    ///
    /// # Errors
    /// When the settings and the machines do not allow it.
    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError>;

    /// Requirements on a machine that becomes one more client; `None` where there can only be one.
    fn client_needs(&self, _choice: &StackConfig) -> Option<StackRequirements> {
        None
    }

    /// Whether only one machine at a time can be such a client.
    fn has_one_client(&self, _choice: &StackConfig) -> bool {
        false
    }

    /// The steps that make one more client of it while it is up, on another machine, and where it
    /// is measured there. What one client writes the others see.
    ///
    /// # Errors
    /// When it can have one only, or the machine does not allow it.
    fn client(
        &self,
        _order: &StackPlanInput<'_>,
        _place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        Err(PreconditionError(vec![format!(
            "{} supports one client only",
            self.name()
        )]))
    }

    /// The steps of a change of it while it is up, and what it is made of afterwards. `record` is
    /// its journal so far: what it made, its nodes, the changes before. Where the stack grows, the
    /// order has the nodes of afterwards, and the steps that make the new ones are not among those
    /// given back. Undoing a step must be safe when it did not happen or happened twice; when a
    /// step fails, those of this change are undone, and the stack stays as it was.
    ///
    /// # Errors
    /// When it cannot be done, or not in this state.
    fn change(
        &self,
        verb: StackChange<'_>,
        _order: &StackPlanInput<'_>,
        _record: &JournalContents,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        Err(PreconditionError(vec![format!(
            "{} cannot {verb}: only stacks with several nodes can",
            self.name()
        )]))
    }

    /// Parts it lacks for safety, although it serves: copies, disks, servers. Servers whose
    /// processes are gone are known without it.
    fn lacks(
        &self,
        _order: &StackPlanInput<'_>,
        _record: &JournalContents,
        _hosts: &mut dyn HostResolver,
    ) -> Vec<String> {
        Vec::new()
    }

    /// Counts of the last scrub ([`StackChange::Scrub`]).
    fn scrubbed(
        &self,
        _order: &StackPlanInput<'_>,
        _record: &JournalContents,
        _hosts: &mut dyn HostResolver,
    ) -> Option<ScrubCount> {
        None
    }

    /// Access that its servers on other machines give to the network unasked; `None` where they ask
    /// for a secret.
    fn lets_in(&self, _choice: &StackConfig) -> Option<&'static str> {
        None
    }

    /// How many nodes are added when it grows.
    fn growth(&self, _choice: &StackConfig) -> u16 {
        1
    }

    /// The ladder to this stack without layers, from below; the last rung is the stack itself.
    fn rungs(&self, choice: &StackConfig) -> Vec<StackLadderRung> {
        let whole = StackLadderRung::new(self.name(), choice.parts.base.to_string());
        vec![StackLadderRung::new("disk", "local"), whole]
    }
}

/// Something that is put over a stack.
pub trait LayerRecipe: fmt::Debug + Sync {
    /// Its name: lower-case letters and digits.
    fn name(&self) -> &'static str;

    /// Its parts, in one line, for lists.
    fn about(&self) -> &'static str;

    /// Its settings.
    fn settings(&self) -> &'static [SettingDefinition] {
        &[]
    }

    /// The stacks it can be put over; all when `None`.
    fn only_over(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Requirements on the client before it can be planned.
    fn needs(&self, settings: &SettingValues) -> StackRequirements;

    /// Adds its steps, and makes what it makes of what is below. A layer that the stack builds in
    /// itself adds nothing here.
    ///
    /// # Errors
    /// When the settings and the machines do not allow it.
    fn add(
        &self,
        plan: &mut Plan,
        made: &mut StackOutputs,
        order: &StackPlanInput<'_>,
        settings: &SettingValues,
    ) -> Result<(), PreconditionError>;
}
