// SPDX-License-Identifier: Apache-2.0
//! Recordings, their models, and what simulated devices make of both.

use std::path::{Path, PathBuf};

use plimsoll_core::model::{
    ModelFacts, ModelReplay, PackedGapPrecision, ReplayAddressSpace, WorkloadModel,
};
use plimsoll_core::num::{ratio, round_u64, to_usize};
use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDeviceSpec;
use plimsoll_engine::sim::SimDeviceModel as _;
use plimsoll_fit::{TraceFitOptions, TraceSurvey};
use plimsoll_trace::TraceError;
use plimsoll_trace::requests::{self, TraceSorter};

/// Alignment of what is played: a sector.
const ALIGN: u32 = 512;

/// A recording of requests and its busiest device.
#[derive(Debug, Clone)]
pub(crate) struct FidelityTrace {
    path: PathBuf,
    /// Its file, without what its name ends in.
    pub(crate) name: String,
    pub(crate) survey: TraceSurvey,
    /// The busiest device.
    pub(crate) disk: String,
}

impl FidelityTrace {
    pub(crate) fn open(path: &Path) -> Result<FidelityTrace, TraceError> {
        let survey = plimsoll_fit::survey(&mut *requests::open(path)?)?;
        let busiest = survey.devices.iter().max_by_key(|device| device.requests);
        let stem = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(FidelityTrace {
            path: path.into(),
            name: stem.split('.').next().unwrap_or_default().into(),
            disk: busiest
                .map(|device| device.name.clone())
                .unwrap_or_default(),
            survey,
        })
    }

    /// The model of the recorded requests.
    pub(crate) fn requests(&self, keep: TraceFitOptions) -> Result<WorkloadModel, TraceError> {
        let mut reader = TraceSorter::new(requests::open(&self.path)?);
        let (survey, disk) = (&self.survey, &self.disk);
        let fitted = plimsoll_fit::fit_requests(&mut reader, survey, disk, &self.name, keep);
        Ok(fitted?.model)
    }

    /// The model that keeps them as they are.
    pub(crate) fn exactly(&self) -> Result<WorkloadModel, TraceError> {
        self.requests(TraceFitOptions {
            gaps: Some(PackedGapPrecision::Exact),
            shuffle: None,
            open_loop: true,
        })
    }

    /// Model fitted, blind and by default, to the counters that would have been recorded.
    pub(crate) fn counters(&self, interval: Nanos) -> Result<WorkloadModel, TraceError> {
        let mut reader = TraceSorter::new(requests::open(&self.path)?);
        let (survey, disk) = (&self.survey, &self.disk);
        let counters = plimsoll_fit::count_requests(&mut reader, survey, disk, interval)?;
        let fitted = plimsoll_fit::fit(
            &*counters,
            &plimsoll_fit::FitOptions {
                disk: disk.clone(),
                window: counters.times().span(),
                name: self.name.clone(),
                facts: ModelFacts::assumed(1 << 30),
            },
        );
        Ok(fitted?.model)
    }
}

/// The whole of a model.
pub(crate) fn requests_of(model: &WorkloadModel, scale: f64, seed: Seed) -> ModelReplay {
    model.play(
        &model.whole(scale),
        &ReplayAddressSpace::AsRecorded,
        ALIGN,
        seed,
    )
}

/// Response times of a play, in order of size.
#[derive(Debug, Clone)]
pub(crate) struct ResponseTimes(Vec<u64>);

impl ResponseTimes {
    /// Plays the whole of a model, open loop, with no limit to what is in flight.
    pub(crate) fn of(
        model: &WorkloadModel,
        scale: f64,
        device: &SimDeviceSpec,
        seed: Seed,
    ) -> ResponseTimes {
        ResponseTimes::to(requests_of(model, scale, seed), device, seed)
    }

    /// Response times to these requests, which come in order.
    pub(crate) fn to(
        requests: impl Iterator<Item = OpRequest>,
        device: &SimDeviceSpec,
        seed: Seed,
    ) -> ResponseTimes {
        let mut device = device.device(seed);
        let response = |request: OpRequest| {
            let end = device.serve(request.intended_at, &request);
            end.since(request.intended_at).0
        };
        let mut all: Vec<u64> = requests.map(response).collect();
        all.sort_unstable();
        ResponseTimes(all)
    }

    /// The mean, ns; 0 when nothing was played.
    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|ns| *ns as f64).sum();
        ratio(sum, self.0.len() as f64)
    }

    /// The quantile `q` in 0..=1, ns.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = to_usize(round_u64(q * last as f64));
        self.0.get(at).map_or(0.0, |ns| *ns as f64)
    }
}
