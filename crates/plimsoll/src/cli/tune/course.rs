// SPDX-License-Identifier: Apache-2.0
//! The runs of one `tune`: each is a comparison of its own, in a folder of its own below that of the
//! command, and is not repeated when the command is.

use super::TuneArgs;
use crate::cli::measure::{RunAttempt, differing, drawn_seed, measure, policy};
use plimsoll_agent::run_id;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignOrder, CampaignSpec};
use plimsoll_core::comparison::{ComparisonMetric, VerdictPolicy};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use plimsoll_run::campaign::usual_warmup;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time of a trial besides its measured part and its warm-up.
const OVERHEAD: Nanos = Nanos(1_500_000_000);

/// Most blocks of a run, as of every comparison.
const BLOCKS_MOST: u32 = 1000;

/// Default length of trials.
const LENGTH: Nanos = Nanos(10_000_000_000);

/// All runs of one command.
pub(super) struct TuningCourse {
    pub(super) folder: PathBuf,
    pub(super) metric: ComparisonMetric,
    pub(super) seed: Seed,
    pub(super) policy: VerdictPolicy,
    length: Nanos,
    clock: SystemClock,
    stop: Arc<AtomicBool>,
}

/// One run of it.
pub(super) struct TuningRun<'a> {
    /// Its folder.
    pub(super) name: &'a str,
    pub(super) targets: &'a [String],
    pub(super) control: bool,
    pub(super) blocks: u32,
}

/// Results of a run, whole or partial, or none because the user stopped it.
pub(super) type TuningRunResult = ControlFlow<ExitCode, RunFolderContents>;

impl TuningCourse {
    pub(super) fn begin(
        args: &TuneArgs,
        metric: ComparisonMetric,
        length: Option<Nanos>,
    ) -> Result<TuningCourse, CliError> {
        let folder = match &args.attempt.output {
            Some(folder) => folder.clone(),
            None => crate::cli::defaults::results_folder(run_id::run_id()),
        };
        // A search that is continued is the same search.
        let begun = plimsoll_archive::open(&folder.join("screening")).ok();
        let seed = begun.map_or_else(
            || Seed(args.timing.seed().unwrap_or_else(drawn_seed)),
            |found| found.manifest.seed,
        );
        Ok(TuningCourse {
            folder,
            metric,
            seed,
            policy: policy(args.effect.min(0.99))?,
            length: length.unwrap_or(LENGTH),
            clock: SystemClock::new(),
            stop: context::stop_flag()?,
        })
    }

    fn warmup(&self, args: &TuneArgs) -> Nanos {
        let given = args.timing.warmup();
        given.unwrap_or_else(|| usual_warmup(self.length))
    }

    /// Estimated time of `runs` trials.
    pub(super) fn time_of(&self, args: &TuneArgs, runs: u64) -> Nanos {
        let each = self.length.0 + self.warmup(args).0 + OVERHEAD.0;
        Nanos(each.saturating_mul(runs))
    }

    /// How many more trials there is time for; `None`: as many as one likes.
    pub(super) fn runs_left(&self, args: &TuneArgs) -> Option<u64> {
        let left = self.time_left(args)?;
        Some(left.0 / self.time_of(args, 1).0.max(1))
    }

    fn time_left(&self, args: &TuneArgs) -> Option<Nanos> {
        let budget = args.attempt.budget?;
        let gone = u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
        Some(Nanos(budget.0.saturating_sub(gone)))
    }

    pub(super) fn is_over(&self, args: &TuneArgs) -> bool {
        self.time_left(args).is_some_and(|left| left.0 == 0)
    }

    /// The blocks of a run that was interrupted: they follow from the time that was left when it began.
    fn blocks_begun(&self, run: &TuningRun<'_>) -> Option<u32> {
        let begun = plimsoll_archive::open(&self.folder.join(run.name));
        let blocks = begun.ok()?.manifest.blocks;
        (1..=BLOCKS_MOST).contains(&blocks).then_some(blocks)
    }

    /// The campaign of a run.
    fn campaign(&self, args: &TuneArgs, run: &TuningRun<'_>) -> CampaignSpec {
        let mut spec = CampaignSpec {
            blocks: Some(self.blocks_begun(run).unwrap_or(run.blocks)),
            margin: Some(self.policy.margin),
            control: run.control,
            order: CampaignOrder::Random,
            target: run.targets.iter().map(Into::into).collect(),
            workload: vec![(&args.workload).into()],
            ..CampaignSpec::default()
        };
        args.timing.apply(&mut spec);
        args.shape.apply(&mut spec);
        spec.seed = Some(self.seed.0.into());
        spec
    }

    /// Carries a run out, or reads what an earlier command left of it.
    pub(super) fn run(
        &self,
        args: &TuneArgs,
        run: &TuningRun<'_>,
    ) -> Result<TuningRunResult, CliError> {
        let folder = self.folder.join(run.name);
        let spec = self.campaign(args, run);
        if let Some(found) = done_before(&folder, &spec)? {
            return Ok(ControlFlow::Continue(found));
        }
        if self.stop.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(CliExitCode::Interrupted.into()));
        }
        if !args.attempt.json {
            terminal::say(&format!("{}:", run.name));
        }
        measure(
            &spec,
            &RunAttempt {
                output: Some(folder.clone()),
                budget: self.time_left(args),
                quiet: true,
                ..args.attempt.attempt(args.shape.trust())
            },
        )
    }
}

/// A run of this campaign that is whole.
fn done_before(folder: &Path, spec: &CampaignSpec) -> Result<Option<RunFolderContents>, CliError> {
    if !folder.exists() {
        return Ok(None);
    }
    let Ok(mut found) = plimsoll_archive::open(folder) else {
        return Ok(None);
    };
    if !found.complete {
        return Ok(None);
    }
    if let Some(difference) = differing(spec, found.manifest.campaign.as_ref()) {
        let folder = folder.display();
        let text = format!("write {folder}: it holds a run of another campaign: {difference}");
        return Err(CliError::usage(text).hint("give another directory with -o"));
    }
    found.comparisons = plimsoll_stats::compare_all(&found.manifest, &found.trials);
    Ok(Some(found))
}
