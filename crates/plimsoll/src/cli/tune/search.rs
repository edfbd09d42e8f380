// SPDX-License-Identifier: Apache-2.0
//! The search: screening, then a proof of what looks better, then all together that proved better.

use super::course::{TuningCourse, TuningRun};
use super::{TuneArgs, TuningChoice, sign, text};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict, RatioEstimate};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::num::{floor_u64, saturating_u32};
use plimsoll_core::rng::Rng;
use plimsoll_core::units;
use plimsoll_run::tuning::TuningTarget;
use plimsoll_stats::screening::{ScreeningDesign, ScreeningResult, candidates, screen};
use plimsoll_stats::student;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Suggestions that are proved, at most.
const SUGGESTIONS_MAX: usize = 5;

/// Most rows of a design that is always folded over: this number of stacks at a time does no harm.
const FOLDED_MAX: usize = 16;

/// Blocks of the first screening: two distinguish bursts, and what settings do together, from noise.
const BLOCKS: u32 = 2;

/// Most blocks of the second screening, and of a proof.
const BLOCKS_MAX: u64 = 20;

/// Fewest blocks of a proof: with fewer no arrangement of labels is rare enough.
const PROOF_BLOCKS_MIN: u64 = 5;

/// Power with which effects are to be found.
const POWER: f64 = 0.8;

/// Outcome of testing one suggestion.
pub(super) struct TuningProof {
    /// Number of the choice; of all together none.
    pub(super) choice: Option<usize>,
    /// The target with the change.
    pub(super) target: String,
    /// How much faster it is, with an interval; above 1 is faster.
    pub(super) faster: Option<RatioEstimate>,
    pub(super) verdict: ComparisonVerdict,
    pub(super) is_better: bool,
    pub(super) reason: String,
}

/// The contents of the final report.
pub(super) struct TuningReport<'a> {
    pub(super) args: &'a TuneArgs,
    pub(super) target: &'a TuningTarget,
    pub(super) choices: &'a [TuningChoice],
    pub(super) left_out: &'a [String],
    pub(super) course: &'a TuningCourse,
    pub(super) design: &'a ScreeningDesign,
    pub(super) blocks: usize,
    pub(super) screening: Option<ScreeningResult>,
    pub(super) proofs: Vec<TuningProof>,
    pub(super) proof_runs: usize,
    /// Whether something is missing: the user stopped it, or the time was over.
    pub(super) is_cut_short: bool,
}

pub(super) fn main(
    args: &TuneArgs,
    (target, choices, left_out): (&TuningTarget, &[TuningChoice], &[String]),
    course: &TuningCourse,
) -> CliResult {
    let mut rng = Rng::new(course.seed.derive("tuning", 0));
    let settings = choices.len();
    let plain = ScreeningDesign::plackett_burman(settings, false, &mut rng.clone());
    let rows = plain.as_ref().map_or(0, |design| design.rows().len());
    let is_folded = args.fold_over || target.is_simulated() || 2 * rows <= FOLDED_MAX;
    let design = ScreeningDesign::plackett_burman(settings, is_folded, &mut rng)
        .expect("settings are counted before");
    let targets: Vec<String> = design
        .rows()
        .iter()
        .map(|row| combination(target, choices, |at| row[at]))
        .collect();
    if args.attempt.dry_run {
        return text::plan(
            args,
            (target, choices, left_out),
            (&design, &targets),
            course,
        );
    }
    let mut report = TuningReport {
        args,
        target,
        choices,
        left_out,
        course,
        design: &design,
        blocks: 0,
        screening: None,
        proofs: Vec::new(),
        proof_runs: 0,
        is_cut_short: false,
    };
    if !args.attempt.json {
        terminal::say(&text::announcement(&report));
    }
    let code = look(&mut report, &targets)?;
    report.is_cut_short |= code.is_some();
    text::show(&report)?;
    Ok(code.unwrap_or(ExitCode::SUCCESS))
}

/// The target with all choices that are wanted.
fn combination(
    target: &TuningTarget,
    choices: &[TuningChoice],
    wants: impl Fn(usize) -> bool,
) -> String {
    let wanted = choices.iter().enumerate().filter(|(at, _)| wants(*at));
    let changes: Vec<_> = wanted
        .map(|(_, one)| (&one.setting, &*one.level.value))
        .collect();
    target.with(&changes)
}

/// Screens, proves, and proves together; an exit code where the user stopped it.
fn look(report: &mut TuningReport<'_>, targets: &[String]) -> Result<Option<ExitCode>, CliError> {
    if let Some(code) = screened(report, targets)? {
        return Ok(Some(code));
    }
    let Some(screening) = report.screening.clone() else {
        report.is_cut_short = true;
        return Ok(None);
    };
    let chosen = candidates(&screening, sign(report.course.metric), SUGGESTIONS_MAX);
    if chosen.is_empty() {
        return Ok(None);
    }
    let arms: Vec<(Option<usize>, String)> = chosen
        .iter()
        .map(|at| {
            (
                Some(*at),
                combination(report.target, report.choices, |one| one == *at),
            )
        })
        .collect();
    if let Some(code) = proved(report, "proof", &arms, &screening)? {
        return Ok(Some(code));
    }
    let better = report.proofs.iter().filter(|proof| proof.is_better);
    let better: Vec<usize> = better.filter_map(|proof| proof.choice).collect();
    if better.len() < 2 {
        return Ok(None);
    }
    let all = combination(report.target, report.choices, |at| better.contains(&at));
    proved(report, "together", &[(None, all)], &screening)
}

/// The first screening, and a second where the first was too noisy for the effect that is sought.
fn screened(
    report: &mut TuningReport<'_>,
    targets: &[String],
) -> Result<Option<ExitCode>, CliError> {
    let (args, course, design) = (report.args, report.course, report.design);
    let mut values: Vec<Vec<Option<f64>>> = vec![Vec::new(); targets.len()];
    let mut blocks = BLOCKS;
    for name in ["screening", "screening-more"] {
        let run = TuningRun {
            name,
            targets,
            control: false,
            blocks,
        };
        let results = match course.run(args, &run)? {
            ControlFlow::Break(code) => return Ok(Some(code)),
            ControlFlow::Continue(results) => results,
        };
        take(&mut values, &results, course);
        report.blocks += usize::try_from(blocks).unwrap_or(0);
        report.screening = screen(design, &values, course.policy.confidence);
        report.is_cut_short |= !results.complete;
        let Some(found) = &report.screening else {
            break;
        };
        let more = more_blocks(report, found);
        if name == "screening" && more > 0 && results.complete {
            blocks = more;
        } else {
            break;
        }
    }
    Ok(None)
}

/// Adds the values of a run, block by block, in the order of the rows.
fn take(values: &mut [Vec<Option<f64>>], results: &RunFolderContents, course: &TuningCourse) {
    let manifest = &results.manifest;
    for (row, arm) in values.iter_mut().zip(&manifest.arms) {
        let value = |block: u32| {
            let mut trials = results.trials.iter().rev();
            let found = trials
                .find(|t| t.trial.block == block && t.trial.arm == arm.name && t.is_comparable());
            found.map(|trial| trial.value(course.metric))
        };
        row.extend((0..manifest.blocks).map(value));
    }
}

/// Blocks that are missing until effects of the size that is sought are found, as far as there is time for
/// them and for the proofs.
fn more_blocks(report: &TuningReport<'_>, found: &ScreeningResult) -> u32 {
    let sought = report.args.effect.ln_1p();
    let done = report.blocks as f64;
    // More blocks make noise smaller, and not what settings do together.
    let by_noise = found.detectable * found.noise / found.deviation.max(f64::MIN_POSITIVE);
    let wanted = done * (by_noise / sought).powi(2);
    let rows = report.design.rows().len() as u64;
    let affordable = report
        .course
        .runs_left(report.args)
        .map_or(BLOCKS_MAX, |runs| {
            // Half of what is left is for the proofs.
            runs / 2 / rows
        });
    let missing = floor_u64((wanted - done).max(0.0).ceil());
    saturating_u32(missing.min(affordable).min(BLOCKS_MAX))
}

/// Compares changes with the target as it was given, each in every block.
fn proved(
    report: &mut TuningReport<'_>,
    name: &str,
    arms: &[(Option<usize>, String)],
    screening: &ScreeningResult,
) -> Result<Option<ExitCode>, CliError> {
    let (args, course) = (report.args, report.course);
    if course.is_over(args) {
        report.is_cut_short = true;
        return Ok(None);
    }
    let targets: Vec<String> = std::iter::once(report.target.with(&[]))
        .chain(arms.iter().map(|(_, target)| target.clone()))
        .collect();
    let run = TuningRun {
        name,
        targets: &targets,
        control: true,
        blocks: proof_blocks(report, arms, screening),
    };
    let results = match course.run(args, &run)? {
        ControlFlow::Break(code) => return Ok(Some(code)),
        ControlFlow::Continue(results) => results,
    };
    report.is_cut_short |= !results.complete;
    report.proof_runs += results.trials.len();
    let sign = sign(course.metric);
    for (choice, target) in arms {
        let arm = results.manifest.arms.iter();
        let arm = arm
            .clone()
            .find(|arm| arm.target == *target && arm.control_of.is_none());
        let row = arm.and_then(|arm| {
            let mut rows = results.comparisons.iter();
            rows.find(|row| row.arm == arm.name && !row.is_control)
        });
        if let Some(row) = row {
            report.proofs.push(proof(*choice, target, row, sign));
        }
    }
    Ok(None)
}

/// Outcome of a change, from its comparison.
fn proof(choice: Option<usize>, target: &str, row: &ArmComparison, sign: f64) -> TuningProof {
    let faster = row.ratio.map(|ratio| faster(ratio, sign));
    let saves = row.base_is_overloaded() && !row.arm_is_overloaded();
    let is_better = match row.verdict {
        ComparisonVerdict::Different => faster.is_some_and(|faster| faster.estimate > 1.0),
        ComparisonVerdict::CannotCarry => saves,
        _ => false,
    };
    TuningProof {
        choice,
        target: target.to_owned(),
        faster,
        verdict: row.verdict,
        is_better,
        reason: row.reason.clone(),
    }
}

/// How much faster the arm is than its base.
fn faster(ratio: RatioEstimate, sign: f64) -> RatioEstimate {
    match sign > 0.0 {
        true => ratio,
        false => ratio.inverse(),
    }
}

/// Blocks that a proof needs for the smallest gain that it is to show, from the noise of the screening.
fn proof_blocks(
    report: &TuningReport<'_>,
    arms: &[(Option<usize>, String)],
    screening: &ScreeningResult,
) -> u32 {
    let gains = arms.iter().filter_map(|(choice, _)| *choice);
    let gains = gains.map(|at| screening.effects[at].estimate.abs());
    let least = gains.fold(f64::INFINITY, f64::min);
    // Not all of a gain may be there when it is the only change.
    let sought = report.args.effect.ln_1p().max(0.5 * least).min(1.0);
    let level = 0.025 / arms.len().max(1) as f64;
    let factor = student::quantile(1.0 - level, 30) + student::quantile(POWER, 30);
    // The base is there twice.
    let wanted = 1.5 * (factor * screening.noise / sought).powi(2);
    let wanted = floor_u64(wanted.min(1e6).ceil()).clamp(PROOF_BLOCKS_MIN, BLOCKS_MAX);
    let affordable = report.course.runs_left(report.args);
    let affordable = affordable.map_or(wanted, |runs| runs / (arms.len() as u64 + 2));
    saturating_u32(wanted.min(affordable).max(2))
}

/// Writes the results beside the run folders.
pub(super) fn keep(course: &TuningCourse, value: &serde_json::Value) -> Result<(), CliError> {
    let path = course.folder.join("tuning.json");
    let text = serde_json::to_string_pretty(value).expect("values are plain data");
    let what = format!("write {}", path.display());
    plimsoll_archive::write_result(&path, text).map_err(doing(CliExitCode::Failed, what))
}

/// Estimated time of `runs` trials, in words; those of a simulated target take virtual time.
pub(super) fn time_of(report: &TuningReport<'_>, runs: usize) -> String {
    match report.target.is_simulated() {
        true => "virtual time".into(),
        false => {
            let time = report.course.time_of(report.args, runs as u64);
            format!("about {}", units::clock_duration(time))
        }
    }
}
