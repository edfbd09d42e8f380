// SPDX-License-Identifier: Apache-2.0
//! A run folder with trials by hand: two systems, three blocks, the second one slower by what is asked for.

use plimsoll_archive::RunFolderWriter;
use plimsoll_core::event::{RunEvent, RunListener as _, TrialId, TrialResult};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use std::path::Path;

/// Writes it. `id` is the run's.
pub(crate) fn run_folder(folder: &Path, id: &str, factor: f64) {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../plimsoll-archive/tests/fixtures/2.6");
    let mut manifest = plimsoll_archive::manifest(&fixture).expect("a manifest");
    manifest.id = id.into();
    manifest.entries.truncate(1);
    manifest.entries[0].inject = None;
    manifest.entries[0].condition = None;
    manifest.arms.retain(|arm| arm.control_of.is_none());
    manifest.arms.truncate(2);
    manifest.design = None;
    manifest.blocks = 3;
    let mut writer = RunFolderWriter::create(folder, &manifest).expect("a writable place");
    let mut place = 0;
    for block in 0..3 {
        for (number, arm) in manifest.arms.iter().enumerate() {
            let mut result = TrialResult::of(TrialId {
                block,
                place,
                arm: arm.name.clone(),
                workload: manifest.entries[0].label.clone(),
            });
            place += 1;
            result.length = Nanos::SECOND;
            let stats = result.stats.0.entry(OpKind::Read).or_default();
            // A drift of the machine that both systems feel.
            let base_ns = 100_000 + 20_000 * u64::from(block);
            let time = match number {
                0 => base_ns,
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a few"
                )]
                _ => (base_ns as f64 * factor) as u64,
            };
            stats.service.record_many(Nanos(time), 500);
            stats.response.record_many(Nanos(time), 500);
            writer.event(&RunEvent::TrialEnded(Box::new(result)));
        }
    }
    writer.event(&RunEvent::Finished {
        interrupted: false,
        comparisons: Vec::new(),
    });
}
