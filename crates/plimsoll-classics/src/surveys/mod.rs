// SPDX-License-Identifier: Apache-2.0
//! The other surveys of the Lustre I/O kit as equivalents on ordinary files: objects are files,
//! targets are directories. Each page under `docs/workloads/` says what that changes.

mod mds;
mod obdfilter;
mod ost;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::workload::series::ClassicProgram;

use crate::known::WorkloadDefinition;

pub(crate) const KNOWN: &[WorkloadDefinition] = &[obdfilter::KNOWN, ost::KNOWN, mds::KNOWN];

/// The text of a survey; `None` when it is not one of them or a phase is missing.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    match classic.program.as_str() {
        obdfilter::NAME => obdfilter::text(classic, phases),
        ost::NAME => ost::text(classic, phases),
        mds::NAME => mds::text(classic, phases),
        _ => None,
    }
}
