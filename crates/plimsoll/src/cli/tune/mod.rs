// SPDX-License-Identifier: Apache-2.0
//! `plimsoll tune`: which settings of a storage system make a workload faster.
//!
//! Manual: `docs/tune.md`; why it is done so: `docs/method/tuning.md`.

mod course;
mod search;
mod text;

use super::measure::{RunAttemptArgs, TrialTimingArgs, asked};
use super::stack::StackOptionArgs;
use course::TuningCourse;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::nearest::nearest;
use plimsoll_core::settings::hint;
use plimsoll_core::units;
use plimsoll_lab::stacks::{StackConfig, manage};
use plimsoll_run::tuning::{TuningLevel, TuningSetting, TuningTarget};
use plimsoll_stats::screening::SETTINGS_MAX;

/// Find the settings of a stack that make a workload faster.
///
/// Screening changes many settings at once in few runs, each of which counts for all settings. Up
/// to five settings that look better are then each compared with the given stack, and so are all
/// proven settings together. Settings that weaken durability are tried only with --risky.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll tune nbd -w varmail --dry-run
  plimsoll tune 'nfs(transfer=64k)' -w nas.toml --on netns --effect 10% --budget 30m -o tuned
  plimsoll tune iscsi -w randwrite,size=64M --settings threads,read_ahead=1M,max_burst
  plimsoll tune 'sim(disk+raid5+cache)' -w randread,size=1G")]
pub(super) struct TuneArgs {
    /// Stack or simulated device to tune, with its present settings.
    #[arg(value_name = "STACK")]
    target: String,
    /// Workload to make faster, see plimsoll run --help.
    #[arg(short, long = "workload", required = true, value_name = "WORKLOAD")]
    workload: String,
    /// Try only these settings (default: all that plimsoll stack show lists with values to try).
    ///
    /// With `=VALUE`, only that value is tried.
    #[arg(long, value_name = "SETTING[=VALUE],...", value_delimiter = ',')]
    settings: Vec<String>,
    /// Size of the effects to find with a power of 80 %, if the time allows.
    #[arg(long, default_value = "5%", value_parser = effect, value_name = "PERCENT")]
    effect: f64,
    /// Run every combination of the screening a second time, with all settings reversed.
    ///
    /// Settings that work together then cannot pass for other settings. Twice as many stacks are up
    /// at the same time.
    #[arg(long)]
    fold_over: bool,
    /// Also try values that weaken durability.
    ///
    /// plimsoll durability shows what they gain and lose.
    #[arg(long)]
    risky: bool,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
}

/// A change that is tried.
#[derive(Debug, Clone)]
struct TuningChoice {
    setting: TuningSetting,
    level: TuningLevel,
}

fn effect(text: &str) -> Result<f64, String> {
    units::parse_fraction(text)
        .filter(|effect| (0.01..=1.0).contains(effect))
        .ok_or_else(|| "expected a percentage or a fraction from 1% to 100%".into())
}

pub(super) fn main(args: &TuneArgs) -> CliResult {
    if args.attempt.save.is_some() {
        let text = "--save does not work with tune, whose runs follow from the ones before";
        return Err(CliError::invalid(text)
            .hint("leave --save out; -o keeps every run of tune in a folder"));
    }
    let target = TuningTarget::parse(&args.target)?;
    let workload = asked(&args.workload, args.timing.length(), args.shape.trust())?;
    let Some(metric) = workload.workload.metric() else {
        return Err(CliError::invalid(format!(
            "{} has no single figure that could be tuned: it has phases of its own",
            args.workload
        ))
        .hint("give a workload of one phase, such as randwrite or varmail"));
    };
    let (choices, left_out) = choices(args, &target)?;
    if choices.is_empty() {
        let mut failure = CliError::invalid(format!("{} has no settings to try", args.target));
        if !left_out.is_empty() {
            failure = failure.hint(left_out.join("; "));
        }
        return Err(failure);
    }
    let course = TuningCourse::begin(args, metric, workload.length)?;
    search::main(args, (&target, &choices, &left_out), &course)
}

/// Whether more of it is better, as the sign of a gain.
fn sign(metric: ComparisonMetric) -> f64 {
    if metric.more_is_better() { 1.0 } else { -1.0 }
}

/// Changes to try: one value of each setting, as far as they go together; those left out, with
/// reasons.
fn choices(
    args: &TuneArgs,
    target: &TuningTarget,
) -> Result<(Vec<TuningChoice>, Vec<String>), CliError> {
    let mut wanted = match args.settings.is_empty() {
        true => usual(target, args.risky),
        false => named(args, target)?,
    };
    let mut left_out = Vec::new();
    if !args.attempt.dry_run && !target.is_simulated() {
        possible_here(args, &target.with(&[])).map_err(CliError::usage)?;
    }
    let mut choices: Vec<TuningChoice> = Vec::new();
    for choice in wanted.drain(..) {
        let alone = [(&choice.setting, &*choice.level.value)];
        let mut fits = target.check(&alone);
        for other in &choices {
            let both = [alone[0], (&other.setting, &*other.level.value)];
            fits = fits.and_then(|()| target.check(&both));
        }
        if fits.is_ok() && !args.attempt.dry_run && !target.is_simulated() {
            fits = possible_here(args, &target.with(&alone));
        }
        match fits {
            Ok(()) if choices.len() < SETTINGS_MAX => choices.push(choice),
            Ok(()) => left_out.push(format!("{}: too many settings", words_of(&choice))),
            Err(reason) => left_out.push(format!("{}: {reason}", words_of(&choice))),
        }
    }
    Ok((choices, left_out))
}

fn words_of(choice: &TuningChoice) -> String {
    format!("{}={}", choice.setting.name, choice.level.value)
}

/// Whether a stack can be made on these machines.
fn possible_here(args: &TuneArgs, stack: &str) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let choice = StackConfig::parse(stack).map_err(|error| words(&error))?;
    let state = context::state_dir().map_err(|error| words(&error))?;
    let options = args.shape.options(&state).map_err(|error| words(&error))?;
    let planned = manage::plan(&choice, &options, &mut context::nodes());
    planned.map(drop).map_err(|error| words(&error))
}

/// The first value of each setting that is allowed.
fn usual(target: &TuningTarget, risky: bool) -> Vec<TuningChoice> {
    let choice = |setting: &TuningSetting| {
        let mut levels = setting.levels.iter();
        let level = levels.find(|level| risky || level.risk.is_empty())?;
        Some(TuningChoice {
            setting: setting.clone(),
            level: level.clone(),
        })
    };
    target.settings().iter().filter_map(choice).collect()
}

fn named(args: &TuneArgs, target: &TuningTarget) -> Result<Vec<TuningChoice>, CliError> {
    let mut all: Vec<TuningChoice> = Vec::new();
    for word in &args.settings {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (word.trim(), None),
        };
        let known = target.settings().iter();
        let found = known.clone().find(|setting| setting.name == name);
        let setting = found.ok_or_else(|| unknown(args, target, name))?;
        let level = match value {
            Some(value) => named_level(args, setting, value)?,
            None => {
                let mut levels = setting.levels.iter();
                let level = levels.find(|level| args.risky || level.risk.is_empty());
                level.cloned().ok_or_else(|| no_level(setting))?
            }
        };
        if all.iter().any(|other| other.setting.name == name) {
            return Err(CliError::invalid(format!(
                "setting '{name}' is given twice"
            )));
        }
        all.push(TuningChoice {
            setting: setting.clone(),
            level,
        });
    }
    Ok(all)
}

/// A value of the user's own: what it risks is known if it is one of ours.
fn named_level(
    args: &TuneArgs,
    setting: &TuningSetting,
    value: &str,
) -> Result<TuningLevel, CliError> {
    let known = setting.levels.iter().find(|level| level.value == value);
    match known {
        Some(level) if !level.risk.is_empty() && !args.risky => Err(CliError::invalid(format!(
            "{}={value} weakens durability: it may lose {}",
            setting.name, level.risk
        ))
        .hint("give --risky to try it; plimsoll durability shows what it gains and loses")),
        Some(level) => Ok(level.clone()),
        None => Ok(TuningLevel {
            value: value.into(),
            risk: String::new(),
        }),
    }
}

fn no_level(setting: &TuningSetting) -> CliError {
    CliError::invalid(format!(
        "no other value of {} is worth trying without weakening durability",
        setting.name
    ))
    .hint(format!("name one: --settings {}=VALUE", setting.name))
}

fn unknown(args: &TuneArgs, target: &TuningTarget, name: &str) -> CliError {
    let names = || {
        target
            .settings()
            .iter()
            .map(|setting| setting.name.as_str())
    };
    let all: Vec<&str> = names().collect();
    CliError::invalid(format!(
        "unknown setting '{name}' of {}{}; to be tuned: {}",
        args.target,
        hint(nearest(name, names())),
        all.join(", ")
    ))
}
