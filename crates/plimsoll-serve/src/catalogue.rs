// SPDX-License-Identifier: Apache-2.0
//! The choices of forms, as whoever starts the server knows them.

use serde::Serialize;

/// Everything that forms offer.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerCatalogue {
    /// Workloads by name; none that starts other programs.
    pub workloads: Vec<WorkloadOffer>,
    /// Storage systems by name.
    pub stacks: Vec<StackOffer>,
    /// Layers over them.
    pub layers: Vec<LayerOffer>,
    /// Faults of servers.
    pub faults: Vec<FaultOffer>,
    /// Conditions of servers, for trials under them.
    pub conditions: Vec<String>,
    /// Inventory files that may be used.
    pub inventories: Vec<String>,
    /// Targets that may be used, beside stacks and simulated devices.
    pub targets: Vec<String>,
    /// Files that may start programs.
    #[serde(skip)]
    pub trusted: Vec<String>,
}

/// A setting with its usual value.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingOffer {
    /// Its name.
    pub name: String,
    /// Its value where none is given.
    pub value: String,
    /// Its effect, and the form of its values.
    pub text: String,
}

/// A workload.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadOffer {
    /// Its name.
    pub name: String,
    /// Its load, in words.
    pub text: String,
    /// Its settings.
    pub settings: Vec<SettingOffer>,
}

/// A storage system.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackOffer {
    /// Its name.
    pub name: String,
    /// A description.
    pub text: String,
    /// The nodes that it has as it comes.
    pub nodes: u16,
    /// Its settings.
    pub settings: Vec<SettingOffer>,
    /// Whether it can be made here.
    pub ready: bool,
    /// Programs and modules that it lacks here.
    pub missing: Vec<String>,
}

/// A layer over a storage system.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerOffer {
    /// Its name.
    pub name: String,
    /// Its effect.
    pub text: String,
    /// Its settings.
    pub settings: Vec<SettingOffer>,
    /// Whether it can be made here.
    pub ready: bool,
    /// Programs and modules that it lacks here.
    pub missing: Vec<String>,
}

/// A fault.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FaultOffer {
    /// Its name.
    pub name: String,
    /// Its effect.
    pub text: String,
}

impl ServerCatalogue {
    /// The options that say so to what is started.
    pub(crate) fn trust(&self) -> impl Iterator<Item = String> {
        self.trusted.iter().map(|file| format!("--trust={file}"))
    }

    pub(crate) fn has_workload(&self, name: &str) -> bool {
        self.workloads.iter().any(|one| one.name == name)
    }

    pub(crate) fn has_stack(&self, name: &str) -> bool {
        self.stacks.iter().any(|one| one.name == name)
    }

    pub(crate) fn has_layer(&self, name: &str) -> bool {
        self.layers.iter().any(|one| one.name == name)
    }

    pub(crate) fn has_fault(&self, name: &str) -> bool {
        self.faults.iter().any(|one| one.name == name)
    }
}
