// SPDX-License-Identifier: Apache-2.0
//! A server under one setting after another: what each gains, and what each loses.

use crate::bench::{BenchDisk, BenchStack, DurabilityBench};
use crate::error::DurabilityError;
use crate::gain::{GainPlace, gain_rate};
use crate::loads::DurabilityLoads;
use crate::server_file::{ServerFile, ServerSettings};
use crate::view::ServerView;
use plimsoll_core::comparison::{ComparisonMetric, VerdictPolicy};
use plimsoll_core::durability::{
    CutDisks, DeviceModel, DurabilityGain, DurabilityLosses, DurabilityResult, DurabilityRow,
    DurabilityTotals,
};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_stats::{ArmValues, compare};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The question of a campaign.
#[derive(Debug)]
pub struct DurabilityCampaign<'a> {
    /// The server.
    pub file: &'a ServerFile,
    /// Settings, each with the words that make its row; the first is what gains are compared with.
    pub rows: Vec<LabelledSettings>,
    /// Loads of each row.
    pub loads: u32,
    /// Cuts of each load and model of the device.
    pub cuts: u32,
    /// Models of the device.
    pub models: Vec<DeviceModel>,
    /// The disks whose power fails.
    pub cut_disks: CutDisks,
    /// Length of each load.
    pub length: Nanos,
    /// Writers at a time.
    pub clients: u32,
    /// Where gains are measured, and in how many blocks; nowhere where none.
    pub gain: Option<GainBlocks>,
    /// Root of what is drawn.
    pub seed: Seed,
}

/// Settings of a row.
#[derive(Debug, Clone)]
pub struct LabelledSettings {
    /// `name=value`, or empty where there is one row.
    pub label: String,
    /// Values of all settings.
    pub settings: ServerSettings,
    /// The disks that are cut, with their contents.
    pub disk: BenchDisk,
    /// The same stack on the storage that gains are measured on, where it is one.
    pub fast: Option<BenchStack>,
}

/// The blocks in which gains are measured.
#[derive(Debug, Clone)]
pub struct GainBlocks {
    /// A directory of ours on the storage that was named.
    pub directory: PathBuf,
    /// How many.
    pub blocks: u32,
}

/// Hears how far a campaign is.
pub trait DurabilityListener {
    /// Something begins.
    fn begins(&mut self, text: &str);
    /// The result so far, after each load.
    fn so_far(&mut self, result: &DurabilityResult);
}

impl DurabilityCampaign<'_> {
    /// Rows without figures.
    pub fn empty_rows(&self) -> Vec<DurabilityRow> {
        let row = |row: &LabelledSettings| {
            let promise = self.file.promise(&row.settings);
            DurabilityRow {
                settings: row.settings.0.clone(),
                label: row.label.clone(),
                may_lose: promise.may_lose,
                promised: promise.window,
                gain: None,
                losses: Vec::new(),
                totals: DurabilityTotals::default(),
            }
        };
        self.rows.iter().map(row).collect()
    }

    /// Measures and judges everything into `result`, whose rows are those of the campaign, empty.
    ///
    /// # Errors
    /// When a server or its witness does not work, or this machine does not, or the user stops it: what was
    /// found until then is in `result`.
    pub fn carry_out(
        &self,
        bench: &mut DurabilityBench,
        stop: &AtomicBool,
        result: &mut DurabilityResult,
        listener: &mut dyn DurabilityListener,
    ) -> Result<(), DurabilityError> {
        if let Some(gain) = &self.gain {
            self.measure_gains(bench, gain, stop, result, listener)?;
        }
        for row in 0..self.rows.len() {
            let loads = self.loads_of(row, bench, stop);
            result.version = loads.prepare(bench)?;
            for number in 0..self.loads {
                listener
                    .begins(&self.words(row, &format!("load {} of {}", number + 1, self.loads)));
                let is_first_loss = result.rows[row]
                    .losses
                    .iter()
                    .all(|one| one.cause.is_empty());
                let found = loads.play(bench, number, is_first_loss)?;
                let totals = &mut result.rows[row].totals;
                totals.acknowledged += found.acknowledged;
                totals.acknowledging = totals.acknowledging + found.acknowledging;
                totals.requests += found.logged;
                totals.full_logs += u32::from(found.is_full);
                totals.short_loads += u32::from(found.is_short);
                for of_model in found.models {
                    let losses = losses_of(&mut result.rows[row], of_model.model);
                    losses.add(&of_model.states);
                    if of_model.model == DeviceModel::Volatile && losses.cause.is_empty() {
                        losses.cause.clone_from(&found.cause);
                    }
                }
                listener.so_far(result);
            }
            bench.unmake()?;
        }
        Ok(())
    }

    fn words(&self, row: usize, what: &str) -> String {
        match self.rows[row].label.as_str() {
            "" => format!("{}: {what}", self.file.name),
            label => format!("{}, {label}: {what}", self.file.name),
        }
    }

    fn loads_of<'a>(
        &'a self,
        row: usize,
        bench: &DurabilityBench,
        stop: &'a AtomicBool,
    ) -> DurabilityLoads<'a> {
        let settings = &self.rows[row].settings;
        let view = ServerView {
            scripts: bench.places.scripts(),
            run: bench.places.sockets(),
            path: self.file.path.clone(),
            settings: settings.clone(),
            clients: self.clients,
        };
        DurabilityLoads {
            file: self.file,
            view,
            disk: &self.rows[row].disk,
            cut_disks: self.cut_disks,
            length: Duration::from_nanos(self.length.0),
            cuts: self.cuts,
            models: &self.models,
            promised: self.file.promise(settings).window,
            seed: self.seed.derive("row", row as u64),
            stop,
        }
    }

    /// Blocks of one trial of each row, in an order of their own each.
    fn measure_gains(
        &self,
        bench: &mut DurabilityBench,
        gain: &GainBlocks,
        stop: &AtomicBool,
        result: &mut DurabilityResult,
        listener: &mut dyn DurabilityListener,
    ) -> Result<(), DurabilityError> {
        let mut arms: Vec<ArmValues> = (0..self.rows.len())
            .map(|row| ArmValues {
                name: row.to_string(),
                control_of: None,
                values: Vec::new(),
                places: Vec::new(),
            })
            .collect();
        let mut number = 0;
        for block in 0..gain.blocks {
            let mut order: Vec<usize> = (0..self.rows.len()).collect();
            let seed = self.seed.derive("gain", block.into());
            Rng::new(seed).shuffle(&mut order);
            for row in order {
                let what = format!("speed, block {} of {}", block + 1, gain.blocks);
                listener.begins(&self.words(row, &what));
                let loads = self.loads_of(row, bench, stop);
                let place = GainPlace {
                    directory: &gain.directory,
                    stack: self.rows[row].fast.as_ref(),
                };
                let rate = gain_rate(&loads, bench, place, seed.derive("trial", row as u64))?;
                arms[row].values.push(Some(rate));
                arms[row].places.push(Some(number));
                number += 1;
            }
            take_gains(&arms, result);
            listener.so_far(result);
        }
        Ok(())
    }
}

/// Rates and ratios as of now.
fn take_gains(arms: &[ArmValues], result: &mut DurabilityResult) {
    let metric = ComparisonMetric::OpsPerSecond;
    let compared = compare(
        "acknowledged writes",
        metric,
        arms,
        &VerdictPolicy::default(),
    );
    for (arm, row) in arms.iter().zip(&mut result.rows) {
        let found = compared.iter().find(|one| one.arm == arm.name);
        row.gain = Some(DurabilityGain {
            rates: arm.values.iter().copied().flatten().collect(),
            ratio: found.and_then(|one| one.ratio),
            verdict: found.map(|one| one.verdict),
        });
    }
}

fn losses_of(row: &mut DurabilityRow, model: DeviceModel) -> &mut DurabilityLosses {
    let at = match row.losses.iter().position(|losses| losses.model == model) {
        Some(at) => at,
        None => {
            row.losses.push(DurabilityLosses::new(model));
            row.losses.len() - 1
        }
    };
    &mut row.losses[at]
}
