// SPDX-License-Identifier: Apache-2.0
//! Price of durability: for each value that weakens it, the gain, and the losses in cuts of power.
//!
//! Gains are a comparison with the stack as it was given. Losses are counted by the ledger of
//! sessions of their own, in runs that bring everything up anew for each cut: a system that lost
//! its data once would lose no more.

use super::course::{TuningCourse, TuningRun};
use super::search::{faster, keep};
use super::text::{shown, speed, table};
use super::{TuneArgs, possible_here, sign};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::campaign::CampaignFaults;
use plimsoll_core::comparison::{ArmComparison, RatioEstimate};
use plimsoll_core::event::{RunFolderContents, TrialResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::written::{WrittenSize, WrittenTime};
use plimsoll_lab::stacks::{StackConfig, StackPlacement};
use plimsoll_run::tuning::{TuningSetting, TuningTarget};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Blocks of the comparison.
const BLOCKS: u32 = 5;

/// How long a server stays without power.
const OFF: Nanos = Nanos(1_000_000_000);

/// Sessions whose writes are in the ledger, and synced writes of each a second.
const SESSIONS: u32 = 2;
const RATE: f64 = 50.0;

/// Their blocks and files.
const BLOCK_BYTES: u64 = 4 << 10;
const FILE_BYTES: u64 = 4 << 20;

/// A value that weakens durability, and the one beside which it is held.
struct PricedLevel {
    setting: String,
    safe: String,
    weak: String,
    risk: String,
    safe_target: String,
    weak_target: String,
}

/// How the power of servers is cut here.
enum PowerCut {
    /// Their machines are switched off.
    Machines,
    /// They are killed, and take along the write cache of their disks.
    Cache(&'static [(&'static str, &'static str)]),
    /// Not at all.
    Unknown,
}

/// Losses of a target in cuts of power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CutLosses {
    cuts: u64,
    cuts_with_losses: u64,
    /// After which a file system was read-only, had errors, or could not be mounted.
    file_systems_failed: u64,
    written: u64,
    lost: u64,
}

/// Gain and losses of a level, as far as they are known.
struct DurabilityPrice {
    gain: Option<RatioEstimate>,
    verdict: String,
    safe: CutLosses,
    weak: CutLosses,
}

pub(super) fn main(args: &TuneArgs, target: &TuningTarget, course: &TuningCourse) -> CliResult {
    let (levels, left_out) = levels(args, target)?;
    if levels.is_empty() {
        let mut text = format!(
            "no setting of {} is known to weaken durability",
            args.target
        );
        if !left_out.is_empty() {
            let _ = write!(text, " here: {}", left_out.join("; "));
        }
        return Err(CliError::invalid(text));
    }
    let cut = power_cut(args)?;
    if args.attempt.dry_run {
        return Ok(plan(args, &levels, &left_out, &cut));
    }
    let (gains, code) = match gains(args, target, &levels, course)? {
        ControlFlow::Continue(results) => (Some(results), None),
        ControlFlow::Break(code) => (None, Some(code)),
    };
    let mut losses = BTreeMap::new();
    // Prices known until the cuts fail or stop are shown first.
    let cut_off = match code {
        Some(code) => Ok(Some(code)),
        None => cuts(args, (&levels, &cut), course, &mut losses),
    };
    let price = |level: &PricedLevel| price_of(level, gains.as_ref(), &losses, (course, &cut));
    let prices: Vec<DurabilityPrice> = levels.iter().map(price).collect();
    show(args, (&levels, &prices, &left_out), &cut, course)?;
    if course.has_left.get() {
        let text = "a cut of power left something behind that could not be removed";
        return Err(CliError::sentence(CliExitCode::NotCleaned, text)
            .hint("its stack is down: plimsoll raze removes the rest"));
    }
    Ok(cut_off?.unwrap_or(ExitCode::SUCCESS))
}

/// Every value that weakens durability, beside the value that the stack has; where that is one, beside the
/// first safe one.
fn levels(
    args: &TuneArgs,
    target: &TuningTarget,
) -> Result<(Vec<PricedLevel>, Vec<String>), CliError> {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    let is_wanted = |name: &str| {
        args.settings.is_empty() || args.settings.iter().any(|word| word.trim() == name)
    };
    for setting in target.settings().iter().filter(|one| is_wanted(&one.name)) {
        for (safe, weak, risk) in pairs(setting) {
            let changed = if weak == setting.from { &safe } else { &weak };
            let changes = [(setting, changed.as_str())];
            // Settings that go together may still lack something on these machines.
            let possible = target.check(&changes).and_then(|()| {
                match args.attempt.dry_run || target.is_simulated() {
                    true => Ok(()),
                    false => possible_here(args, &target.with(&changes)),
                }
            });
            if let Err(reason) = possible {
                left_out.push(format!("{}={changed}: {reason}", setting.name));
                continue;
            }
            let of = |value: &str| match value == setting.from {
                true => target.with(&[]),
                false => target.with(&[(setting, value)]),
            };
            all.push(PricedLevel {
                setting: setting.name.clone(),
                safe_target: of(&safe),
                weak_target: of(&weak),
                safe,
                weak,
                risk,
            });
        }
    }
    for word in &args.settings {
        let known = target.settings().iter().any(|one| one.name == word.trim());
        if !known {
            return Err(CliError::invalid(format!(
                "unknown setting '{word}' of {}: expected the name of one",
                args.target
            )));
        }
    }
    Ok((all, left_out))
}

/// Safe and weak values of a setting, and what the weak one risks.
fn pairs(setting: &TuningSetting) -> Vec<(String, String, String)> {
    if setting.from_risk.is_empty() {
        let weak = setting.levels.iter().filter(|level| !level.risk.is_empty());
        return weak
            .map(|level| {
                (
                    setting.from.clone(),
                    level.value.clone(),
                    level.risk.clone(),
                )
            })
            .collect();
    }
    let safe = setting.levels.iter().find(|level| level.risk.is_empty());
    let of = |level: &plimsoll_run::tuning::TuningLevel| {
        (
            level.value.clone(),
            setting.from.clone(),
            setting.from_risk.clone(),
        )
    };
    safe.map(of).into_iter().collect()
}

/// How power is cut where the stack is to be.
fn power_cut(args: &TuneArgs) -> Result<PowerCut, CliError> {
    let Ok(choice) = StackConfig::parse(&args.target) else {
        return Ok(PowerCut::Unknown);
    };
    let options = args.shape.options(&context::state_dir()?)?;
    if let Some(StackPlacement::Inventory(inventory)) = &options.place
        && inventory
            .machines
            .iter()
            .all(|machine| !machine.power.is_empty())
    {
        return Ok(PowerCut::Machines);
    }
    Ok(match choice.stack.losing_power(&choice) {
        Some(settings) => PowerCut::Cache(settings),
        None => PowerCut::Unknown,
    })
}

impl PowerCut {
    /// A target of a level as its power is cut. What the level itself says of the cache stays.
    fn target(&self, level: &PricedLevel, target: &str) -> String {
        match self {
            PowerCut::Cache(settings)
                if !settings.iter().any(|(name, _)| *name == level.setting) =>
            {
                TuningTarget::with_given(target, settings)
            }
            _ => target.to_owned(),
        }
    }

    /// Description of the cut.
    fn words(&self) -> String {
        match self {
            PowerCut::Machines => "the machine of a server is switched off".into(),
            PowerCut::Cache(settings) => {
                let words: Vec<String> = settings
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                format!(
                    "a server is killed, and loses what its write cache had not been told to flush ({}, \
                     where no other is given); what it had handed to the kernel stays",
                    words.join(", ")
                )
            }
            PowerCut::Unknown => {
                "cannot be told here: a killed server leaves its writes in the kernel. Give \
                 machines whose power can be cut: --on FILE (plimsoll vm up makes some)"
                    .into()
            }
        }
    }
}

/// The stack as it is given, and every other one, under the workload.
fn gains(
    args: &TuneArgs,
    target: &TuningTarget,
    levels: &[PricedLevel],
    course: &TuningCourse,
) -> Result<ControlFlow<ExitCode, RunFolderContents>, CliError> {
    let mut targets = vec![target.with(&[])];
    for level in levels {
        for one in [&level.safe_target, &level.weak_target] {
            if !targets.contains(one) {
                targets.push(one.clone());
            }
        }
    }
    let run = TuningRun {
        name: "gain",
        targets: &targets,
        control: true,
        blocks: BLOCKS,
        cut: None,
    };
    course.run(args, &run)
}

/// Cuts power, and adds up what each target lost; an exit code where the user stopped it.
fn cuts(
    args: &TuneArgs,
    (levels, cut): (&[PricedLevel], &PowerCut),
    course: &TuningCourse,
    losses: &mut BTreeMap<String, CutLosses>,
) -> Result<Option<ExitCode>, CliError> {
    let fault = match cut {
        PowerCut::Machines => FaultKind::PowerCut,
        PowerCut::Cache(_) => FaultKind::Kill,
        PowerCut::Unknown => return Ok(None),
    };
    let mut targets: Vec<String> = Vec::new();
    for level in levels {
        for one in [&level.safe_target, &level.weak_target] {
            let one = cut.target(level, one);
            if !targets.contains(&one) {
                targets.push(one);
            }
        }
    }
    for number in 1..=args.cuts {
        if course.is_over(args) {
            return Ok(None);
        }
        let run = TuningRun {
            name: &format!("cut-{number}"),
            targets: &targets,
            control: false,
            blocks: 1,
            cut: Some(injection(fault)),
        };
        match course.run(args, &run) {
            Ok(ControlFlow::Break(code)) => return Ok(Some(code)),
            Ok(ControlFlow::Continue(results)) => add(losses, &results),
            Err(failure) => {
                // The cuts before the one that failed are as good as any.
                if let Some(results) = course.left_of(&run) {
                    add(losses, &results);
                }
                return Err(failure);
            }
        }
    }
    Ok(None)
}

fn injection(fault: FaultKind) -> CampaignFaults {
    CampaignFaults {
        inject: vec![fault.to_string()],
        duration: Some(WrittenTime(OFF)),
        sessions: Some(SESSIONS),
        rate: Some(RATE),
        block: Some(WrittenSize(BLOCK_BYTES)),
        file_size: Some(WrittenSize(FILE_BYTES)),
        ..CampaignFaults::default()
    }
}

fn add(losses: &mut BTreeMap<String, CutLosses>, results: &RunFolderContents) {
    for arm in &results.manifest.arms {
        let of = |trial: &&TrialResult| trial.trial.arm == arm.name;
        let cuts = results
            .trials
            .iter()
            .filter(of)
            .filter_map(|trial| Some((trial.fault.as_ref()?, trial.failed.is_some())));
        let all = losses.entry(arm.target.clone()).or_default();
        for (fault, has_failed) in cuts {
            let lost = fault.check.data.bad.total();
            all.cuts += 1;
            // Nothing else can fail where nothing is played beside the sessions, and no observer looks on.
            all.file_systems_failed += u64::from(has_failed);
            all.cuts_with_losses += u64::from(lost > 0);
            all.written += fault.check.data.written;
            all.lost += lost;
        }
    }
}

fn price_of(
    level: &PricedLevel,
    gains: Option<&RunFolderContents>,
    losses: &BTreeMap<String, CutLosses>,
    (course, cut): (&TuningCourse, &PowerCut),
) -> DurabilityPrice {
    let row = gains.and_then(|results| {
        let base = results.manifest.arms.first()?;
        let weak_is_base = base.target == level.weak_target;
        let other = if weak_is_base {
            &level.safe_target
        } else {
            &level.weak_target
        };
        let mut arms = results.manifest.arms.iter();
        let arm = arms.find(|arm| arm.target == *other && arm.control_of.is_none())?;
        let is_it = |row: &&ArmComparison| row.arm == arm.name && !row.is_control;
        let row = results.comparisons.iter().find(is_it)?;
        Some((row.clone(), weak_is_base))
    });
    let gain = row.as_ref().and_then(|(row, weak_is_base)| {
        let sign = sign(course.metric) * if *weak_is_base { -1.0 } else { 1.0 };
        Some(faster(row.ratio?, sign))
    });
    let of = |target: &str| {
        losses
            .get(&cut.target(level, target))
            .copied()
            .unwrap_or_default()
    };
    DurabilityPrice {
        gain,
        verdict: row.map_or("not measured".into(), |(row, _)| row.verdict.name().into()),
        safe: of(&level.safe_target),
        weak: of(&level.weak_target),
    }
}

/// Losses in words: a cell of the table.
fn lost(losses: CutLosses) -> String {
    match losses.cuts {
        0 => "cannot tell".into(),
        cuts => {
            let file_systems = match losses.file_systems_failed {
                0 => String::new(),
                failed => format!("; file system failed in {failed}"),
            };
            format!(
                "{} of {} in {} of {cuts} cuts{file_systems}",
                losses.lost, losses.written, losses.cuts_with_losses
            )
        }
    }
}

fn show(
    args: &TuneArgs,
    (levels, prices, left_out): (&[PricedLevel], &[DurabilityPrice], &[String]),
    cut: &PowerCut,
    course: &TuningCourse,
) -> Result<(), CliError> {
    let value = as_json(args, (levels, prices, left_out), cut, course);
    if course.folder.is_dir() {
        keep(course, &value)?;
    }
    if args.attempt.json {
        terminal::print_json(&value);
        return Ok(());
    }
    let row = |(level, price): (&PricedLevel, &DurabilityPrice)| {
        [
            level.setting.clone(),
            shown(&level.safe),
            level.weak.clone(),
            speed(price.gain),
            price.verdict.clone(),
            lost(price.weak),
            lost(price.safe),
        ]
    };
    let rows: Vec<[String; 7]> = levels.iter().zip(prices).map(row).collect();
    let mut text = format!(
        "What durability costs {} under {}\n\n",
        args.target, args.workload
    );
    text += &table(
        &[
            "setting",
            "safe",
            "weaker",
            "gain",
            "verdict",
            "acknowledged writes lost",
            "safe: lost",
        ],
        &rows,
    );
    let _ = writeln!(text, "\nPower cuts: {}.", cut.words());
    for level in levels {
        let _ = writeln!(
            text,
            "{}={} may lose {}.",
            level.setting, level.weak, level.risk
        );
    }
    for line in left_out {
        let _ = writeln!(text, "Left out: {line}");
    }
    let _ = write!(text, "Results: {}/tuning.json", course.folder.display());
    terminal::print(&text);
    Ok(())
}

fn losses_json(losses: CutLosses) -> Value {
    json!({ "cuts": losses.cuts, "cuts_with_losses": losses.cuts_with_losses,
        "file_systems_failed": losses.file_systems_failed, "written": losses.written,
        "lost": losses.lost })
}

fn as_json(
    args: &TuneArgs,
    (levels, prices, left_out): (&[PricedLevel], &[DurabilityPrice], &[String]),
    cut: &PowerCut,
    course: &TuningCourse,
) -> Value {
    let row = |(level, price): (&PricedLevel, &DurabilityPrice)| {
        json!({ "setting": level.setting, "safe": level.safe, "weak": level.weak,
            "risk": level.risk, "gain": price.gain, "verdict": price.verdict,
            "weak_lost": losses_json(price.weak), "safe_lost": losses_json(price.safe) })
    };
    let rows: Vec<Value> = levels.iter().zip(prices).map(row).collect();
    json!({ "target": args.target, "workload": args.workload, "metric": course.metric,
        "seed": course.seed, "prices": rows, "power_cuts": cut.words(), "left_out": left_out,
        "folder": course.folder })
}

fn plan(args: &TuneArgs, levels: &[PricedLevel], left_out: &[String], cut: &PowerCut) -> ExitCode {
    if args.attempt.json {
        let row = |level: &PricedLevel| {
            json!({ "setting": level.setting, "safe": level.safe, "weak": level.weak,
                "risk": level.risk, "cut": cut.target(level, &level.weak_target) })
        };
        let rows: Vec<Value> = levels.iter().map(row).collect();
        terminal::print_json(&json!({ "target": args.target, "prices": rows,
            "power_cuts": cut.words(), "left_out": left_out }));
        return ExitCode::SUCCESS;
    }
    let row = |level: &PricedLevel| {
        [
            level.setting.clone(),
            shown(&level.safe),
            level.weak.clone(),
            level.risk.clone(),
        ]
    };
    let rows: Vec<[String; 4]> = levels.iter().map(row).collect();
    let mut text = String::from("Nothing was done. It would price:\n");
    text += &table(&["setting", "safe", "weaker", "may lose"], &rows);
    for line in left_out {
        let _ = writeln!(text, "left out: {line}");
    }
    let _ = writeln!(
        text,
        "with {} power cuts of each: {}.",
        args.cuts,
        cut.words()
    );
    for level in levels {
        let _ = writeln!(text, "  {}", cut.target(level, &level.weak_target));
    }
    terminal::print(&text);
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_is_gone_is_said_beside_the_writes() {
        let kept = CutLosses {
            cuts: 5,
            written: 900,
            ..CutLosses::default()
        };
        assert_eq!(lost(kept), "0 of 900 in 0 of 5 cuts");
        let gone = CutLosses {
            cuts_with_losses: 5,
            file_systems_failed: 4,
            lost: 700,
            ..kept
        };
        assert_eq!(
            lost(gone),
            "700 of 900 in 5 of 5 cuts; file system failed in 4"
        );
        assert_eq!(losses_json(gone)["file_systems_failed"], 4);
        assert_eq!(lost(CutLosses::default()), "cannot tell");
    }
}
