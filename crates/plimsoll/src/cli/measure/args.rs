// SPDX-License-Identifier: Apache-2.0
//! Options that all measuring commands have: those of trials, which go into the campaign, and those of one
//! attempt at it.

use super::super::progress::ProgressMode;
use super::super::trust::TrustArgs;
use super::{ClientLoadArgs, choices};
use plimsoll_console::context;
use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::{CampaignSpec, CampaignTarget};
use plimsoll_core::data_check::DataCheck;
use plimsoll_core::op::EngineChoice;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::written::WrittenTime;
use plimsoll_run::campaign_file::CampaignFile;
use plimsoll_run::targets::DestroyConsent;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How operations reach the kernel.
const ENGINES: [(&str, EngineChoice); 3] = [
    ("auto", EngineChoice::Auto),
    ("uring", EngineChoice::Uring),
    ("sync", EngineChoice::Sync),
];

/// When what is written is verified, where it is.
const DATA_CHECKS: [(&str, DataCheck); 2] =
    [("end", DataCheck::End), ("always", DataCheck::Always)];

/// How long, from which seed, with which engine.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Trials")]
pub(in crate::cli) struct TrialTimingArgs {
    /// Measure each trial for TIME (default: 10s, or as the workload file sets).
    ///
    /// Under a fault the default is 22s longer than the fault. Workloads that end by themselves
    /// need no length.
    #[arg(long = "for", id = "length", value_parser = units::parse_duration, value_name = "TIME")]
    length: Option<Nanos>,
    /// Warm up for TIME before the measured part (default: a tenth of --for, at most 1s).
    ///
    /// For workloads that run as fast as they can. With --effect the default is the time that the
    /// pilot finds necessary.
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME", hide_short_help = true)]
    warmup: Option<Nanos>,
    /// Seed of all random numbers (default: drawn and printed).
    #[arg(long)]
    seed: Option<u64>,
    /// Engine that submits operations: uring (io_uring), sync (system calls) or auto (default).
    ///
    /// auto selects the engine that suits the workload.
    #[arg(long, value_parser = choices(&ENGINES), hide_short_help = true)]
    engine: Option<EngineChoice>,
    /// Skip the self-test that writes and reads back blocks before every measurement.
    #[arg(long = "no-self-test", hide_short_help = true)]
    no_verify: bool,
    /// Do not record disk counters during the trials.
    ///
    /// By default the counters of the disks below the targets are recorded into the run folder once
    /// a second.
    #[arg(long, hide_short_help = true)]
    no_record: bool,
    /// Check the data that a block workload writes.
    ///
    /// `end` stamps every sector and reads everything back after each trial. `always` also checks
    /// every read during the trial. Bad blocks end the command with exit code 12. The check costs
    /// CPU time for every byte written (with `always` also for every byte read), 32 bytes of memory
    /// per block, and the time to read everything back. Use it to test data integrity. Do not
    /// compare its results with those of runs without it.
    #[arg(long = "check-data", value_name = "WHEN", value_parser = choices(&DATA_CHECKS), hide_short_help = true)]
    verify_data: Option<DataCheck>,
    /// Also run every workload with half and with double the client's CPUs.
    ///
    /// Each variant is a separate workload in every block. If the result changes with the CPUs, the
    /// report states that it measures the client. If the machine has too few CPUs, the report names
    /// the skipped variant.
    #[arg(long, hide_short_help = true)]
    prove_client: bool,
}

impl TrialTimingArgs {
    /// Puts what was given into a campaign.
    pub(in crate::cli) fn apply(&self, spec: &mut CampaignSpec) {
        let trial = &mut spec.trial;
        trial.length = self.length.map(WrittenTime).or(trial.length);
        trial.warmup = self.warmup.map(WrittenTime).or(trial.warmup);
        trial.engine = self.engine.unwrap_or(trial.engine);
        trial.verify_data = self.verify_data.unwrap_or(trial.verify_data);
        trial.verify &= !self.no_verify;
        trial.record &= !self.no_record;
        trial.prove_client |= self.prove_client;
        spec.seed = self.seed.map(Into::into).or(spec.seed.take());
    }

    pub(in crate::cli) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// How long, where that was given.
    pub(in crate::cli) fn length(&self) -> Option<Nanos> {
        self.length
    }

    /// The time before it, where that was given.
    pub(in crate::cli) fn warmup(&self) -> Option<Nanos> {
        self.warmup
    }
}

/// One attempt at a campaign: where it is recorded, how long it may take, how it is shown.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Run")]
pub(in crate::cli) struct RunAttemptArgs {
    /// Start no further trial after TIME, counted from the start of the command.
    ///
    /// The same campaign with the same -o runs the remaining trials. With --effect or --stop of
    /// compare and layers, the blocks are designed to fit into TIME.
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    pub(in crate::cli) budget: Option<Nanos>,
    /// Play a model although it missed a gate in plimsoll fit or verify.
    ///
    /// The report notes this at its top.
    #[arg(long, hide_short_help = true)]
    force_model: bool,
    /// Measure although another run uses the same directory.
    ///
    /// The report notes this.
    #[arg(long, hide_short_help = true)]
    shared: bool,
    /// Form of the progress display on standard error.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        hide_short_help = true
    )]
    progress: ProgressMode,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    ///
    /// If DIR holds an interrupted run of the same campaign, the command resumes that run.
    #[arg(short, long, value_name = "DIR")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Write the campaign of these options to FILE.toml, and measure nothing.
    ///
    /// plimsoll run FILE.toml runs the campaign. Options of one attempt (-o, --budget, --progress,
    /// --shared, --force-model, --destroy, --trust) are not in the file.
    #[arg(long, value_name = "FILE.toml")]
    pub(in crate::cli) save: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Print the full report on a terminal (default: a one-screen summary).
    #[arg(long, hide_short_help = true)]
    full: bool,
    /// Print the planned steps in order; change nothing.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

/// Consent to overwrite devices.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Run")]
pub(in crate::cli) struct DestroyArgs {
    /// Allow block devices among the targets to be overwritten.
    ///
    /// A device that is in use, or holds a file system, a partition table or a RAID signature, must
    /// be named again: --destroy=/dev/sdx.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "DEVICE", hide_short_help = true)]
    destroy: Vec<String>,
}

/// Everything that may differ between two attempts at one campaign, consent and trust among it.
pub(in crate::cli) struct RunAttempt<'a> {
    pub(in crate::cli) output: Option<PathBuf>,
    pub(in crate::cli) save: Option<&'a Path>,
    pub(in crate::cli) json: bool,
    pub(in crate::cli) full: bool,
    pub(in crate::cli) dry_run: bool,
    /// Leave the page, and print nothing of the results: they are a part of something.
    pub(in crate::cli) quiet: bool,
    pub(in crate::cli) budget: Option<Nanos>,
    pub(in crate::cli) progress: ProgressMode,
    pub(in crate::cli) shared: bool,
    pub(in crate::cli) force_model: bool,
    pub(in crate::cli) consent: DestroyConsent,
    pub(in crate::cli) trust: &'a TrustArgs,
    /// Where hosts of a scheduler connect, and how long they are waited for.
    pub(in crate::cli) source: &'a ClientLoadArgs,
    /// The file that the campaign is from.
    pub(in crate::cli) file: Option<CampaignFile>,
    /// Share of each file system that stays free.
    pub(in crate::cli) keep_free: f64,
    /// Ends the run early, where something watches it.
    pub(in crate::cli) ender: Option<&'a RunEnder>,
}

/// Ends a run as the key on its terminal does: what was measured is reported.
pub(in crate::cli) struct RunEnder {
    /// Set by it, and by Ctrl-C.
    pub(in crate::cli) stop: Arc<AtomicBool>,
    was_used: AtomicBool,
}

impl RunEnder {
    /// One that nothing has used yet.
    ///
    /// # Errors
    /// When signals cannot be watched for.
    pub(in crate::cli) fn new() -> Result<RunEnder, CliError> {
        Ok(RunEnder {
            stop: context::stop_flag()?,
            was_used: AtomicBool::new(false),
        })
    }

    pub(in crate::cli) fn end(&self) {
        self.was_used.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(in crate::cli) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }
}

impl RunAttemptArgs {
    /// One that overwrites no device.
    pub(in crate::cli) fn attempt<'a>(&'a self, trust: &'a TrustArgs) -> RunAttempt<'a> {
        RunAttempt {
            output: self.output.clone(),
            save: self.save.as_deref(),
            json: self.json,
            full: self.full,
            dry_run: self.dry_run,
            quiet: false,
            budget: self.budget,
            progress: self.progress,
            shared: self.shared,
            force_model: self.force_model,
            consent: DestroyConsent::of(&[]),
            trust,
            source: &ClientLoadArgs::HERE,
            file: None,
            keep_free: 0.0,
            ender: None,
        }
    }
}

/// Targets as they were typed, the first of them with these names.
///
/// # Errors
/// When there are more names than targets.
pub(in crate::cli) fn named_targets(
    targets: &[String],
    names: &[String],
) -> Result<Vec<CampaignTarget>, CliError> {
    if names.len() > targets.len() {
        let text = format!(
            "--name is given {} times for {} targets",
            names.len(),
            targets.len()
        );
        return Err(CliError::invalid(text).hint("give one for each target, in their order"));
    }
    let mut named: Vec<CampaignTarget> = targets.iter().map(Into::into).collect();
    for (target, name) in named.iter_mut().zip(names) {
        target.name = Some(name.clone());
    }
    Ok(named)
}

impl DestroyArgs {
    pub(in crate::cli) fn consent(&self) -> DestroyConsent {
        DestroyConsent::of(&self.destroy)
    }
}
