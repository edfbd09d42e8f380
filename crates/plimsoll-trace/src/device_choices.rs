// SPDX-License-Identifier: Apache-2.0
//! The devices of a recording of counters that load is to be taken from.

use plimsoll_core::profile::{DeviceClassification, DeviceKind};

use crate::recording::CounterSource;

/// The devices of a recording to choose from, and those whose load is that of these, seen again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceChoices {
    /// Disks, or what there is instead of them.
    pub disks: Vec<String>,
    /// Partitions, volumes, arrays, single ways to a disk: set aside, or bytes would count twice.
    pub set_aside: Vec<(String, DeviceKind)>,
}

impl DeviceChoices {
    /// Of a recording of counters.
    pub fn of(counters: &dyn CounterSource) -> DeviceChoices {
        let names = counters.disks();
        let sides = DeviceClassification::of(&names, &|name| counters.made(name));
        let (again, first): (Vec<_>, Vec<_>) = names
            .into_iter()
            .zip(sides)
            .partition(|(_, side)| side.counted_again);
        DeviceChoices {
            disks: first.into_iter().map(|(name, _)| name).collect(),
            set_aside: (again.into_iter().map(|(name, side)| (name, side.layer))).collect(),
        }
    }
}
