// SPDX-License-Identifier: Apache-2.0
//! Every workload that is known by name.

use plimsoll_core::nearest::nearest;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::{
    basic, bonnie, boot, build, copy, filebench, ior, iozone, mdtest, requirements, sgpdd, stamp,
    sysbench,
};

/// Rooms of known workloads, in the order of lists.
const ROOMS: &[&[WorkloadDefinition]] = &[
    basic::KNOWN,
    bonnie::KNOWN,
    iozone::KNOWN,
    sgpdd::KNOWN,
    ior::KNOWN,
    sysbench::KNOWN,
    stamp::KNOWN,
    filebench::KNOWN,
    mdtest::KNOWN,
    copy::KNOWN,
    build::KNOWN,
    boot::KNOWN,
    requirements::KNOWN,
];

/// Every workload that is known by name.
pub fn known() -> impl Iterator<Item = &'static WorkloadDefinition> {
    ROOMS.iter().copied().flatten()
}

/// Workload of this name.
///
/// # Errors
/// When there is none; the nearest known name comes with the error.
pub fn find(name: &str) -> Result<&'static WorkloadDefinition, ClassicsError> {
    let names = || known().map(|known| known.name);
    known()
        .find(|known| known.name == name)
        .ok_or_else(|| ClassicsError::UnknownWorkload {
            name: name.into(),
            nearest: nearest(name, names()).map(Into::into),
            known: names().collect::<Vec<_>>().join(", "),
        })
}
