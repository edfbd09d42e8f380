// SPDX-License-Identifier: Apache-2.0
//! The choices of forms, as the measuring program knows them, which is asked for them.

use serde::{Deserialize, Serialize};

/// Everything that forms offer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerCatalogue {
    /// Workloads by name; none that starts other programs.
    pub(crate) workloads: Vec<WorkloadOffer>,
    /// Storage systems by name.
    pub(crate) stacks: Vec<StackOffer>,
    /// Layers over them.
    pub(crate) layers: Vec<LayerOffer>,
    /// Faults of servers.
    pub(crate) faults: Vec<FaultOffer>,
    /// Conditions of servers, for trials under them.
    pub(crate) conditions: Vec<String>,
    /// Inventory files that may be used.
    pub(crate) inventories: Vec<String>,
    /// Targets that may be used, beside stacks and simulated devices.
    pub(crate) targets: Vec<String>,
    /// Files that may start programs.
    #[serde(skip)]
    pub(crate) trusted: Vec<String>,
}

/// A setting with its usual value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SettingOffer {
    /// Its name.
    pub(crate) name: String,
    /// Its value where none is given.
    pub(crate) value: String,
    /// Its effect, and the form of its values.
    pub(crate) text: String,
}

/// A workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WorkloadOffer {
    /// Its name.
    pub(crate) name: String,
    /// Its load, in words.
    pub(crate) text: String,
    /// Its settings.
    pub(crate) settings: Vec<SettingOffer>,
}

/// A storage system.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackOffer {
    /// Its name.
    pub(crate) name: String,
    /// A description.
    pub(crate) text: String,
    /// The nodes that it has as it comes.
    pub(crate) nodes: u16,
    /// Its settings.
    pub(crate) settings: Vec<SettingOffer>,
    /// Whether it can be made here.
    pub(crate) ready: bool,
    /// Programs and modules that it lacks here.
    pub(crate) missing: Vec<String>,
}

/// A layer over a storage system.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LayerOffer {
    /// Its name.
    pub(crate) name: String,
    /// Its effect.
    pub(crate) text: String,
    /// Its settings.
    pub(crate) settings: Vec<SettingOffer>,
    /// Whether it can be made here.
    pub(crate) ready: bool,
    /// Programs and modules that it lacks here.
    pub(crate) missing: Vec<String>,
}

/// A fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FaultOffer {
    /// Its name.
    pub(crate) name: String,
    /// Its effect.
    pub(crate) text: String,
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
}
