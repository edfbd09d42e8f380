// SPDX-License-Identifier: Apache-2.0
//! What a recording does not contain is played at its sensitivity bounds, beside the model itself.
//!
//! A sensitivity bound is one more workload of the same experiment, in a few of its blocks; the report makes
//! a band of it.

use super::WorkloadRequest;
use plimsoll_core::model::SensitivityBound;
use plimsoll_core::workload::Workload;

/// Which sensitivity bounds of a model are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SensitivityBoundMode {
    /// The kindest and the harshest.
    Ends,
    /// Every one, at most four.
    All,
    /// None.
    Off,
}

impl SensitivityBoundMode {
    fn of(self, workload: &Workload) -> Vec<SensitivityBound> {
        let Workload::Model(model) = workload else {
            return Vec::new();
        };
        let mut corners = match self {
            SensitivityBoundMode::Off => Vec::new(),
            SensitivityBoundMode::Ends | SensitivityBoundMode::All => model.corners(),
        };
        if self == SensitivityBoundMode::Ends && corners.len() > 2 {
            // They come kindest first.
            corners.drain(1..corners.len() - 1);
        }
        corners
    }
}

/// What was asked for, each model followed by its corners.
pub fn with_corners(
    asked: Vec<WorkloadRequest>,
    corners: SensitivityBoundMode,
) -> Vec<WorkloadRequest> {
    let mut all = Vec::new();
    for one in asked {
        let of_it = corners.of(&one.workload);
        let (scale, length) = (one.scale, one.length);
        all.push(one);
        all.extend(of_it.into_iter().map(|corner| WorkloadRequest {
            workload: Workload::Model(Box::new(corner.model)),
            scale,
            notes: Vec::new(),
            length,
            is_corner: true,
            most: None,
        }));
    }
    all
}
