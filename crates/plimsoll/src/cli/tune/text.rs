// SPDX-License-Identifier: Apache-2.0
//! Text on a search: before it, and after it as a table and as JSON.

use super::course::TuningCourse;
use super::search::{TuningProof, TuningReport, keep, time_of};
use super::{TuneArgs, TuningChoice, sign};
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::comparison::RatioEstimate;
use plimsoll_run::tuning::TuningTarget;
use plimsoll_stats::screening::{ScreeningDesign, ScreeningEffect};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// Plan of a search.
pub(super) fn plan(
    args: &TuneArgs,
    (target, choices, left_out): (&TuningTarget, &[TuningChoice], &[String]),
    (design, targets): (&ScreeningDesign, &[String]),
    course: &TuningCourse,
) -> CliResult {
    if args.attempt.json {
        let choice = |choice: &TuningChoice| {
            json!({ "setting": choice.setting.name, "from": choice.setting.from,
                "to": choice.level.value, "risk": choice.level.risk })
        };
        let choices: Vec<Value> = choices.iter().map(choice).collect();
        terminal::print_json(&json!({ "target": target.with(&[]), "settings": choices,
            "left_out": left_out, "combinations": targets, "seed": course.seed }));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 4]> = choices
        .iter()
        .map(|choice| {
            let safe = if choice.level.risk.is_empty() {
                "kept"
            } else {
                "weaker"
            };
            let (setting, level) = (&choice.setting, &choice.level);
            [
                setting.name.clone(),
                shown(&setting.from),
                level.value.clone(),
                safe.into(),
            ]
        })
        .collect();
    let mut text = String::from("Nothing was done. It would try:\n");
    text += &table(&["setting", "from", "to", "durability"], &rows);
    for line in left_out {
        let _ = writeln!(text, "left out: {line}");
    }
    let _ = writeln!(
        text,
        "in {} combinations{}, several times each (seed {}):",
        targets.len(),
        if design.is_folded() {
            " (folded over)"
        } else {
            ""
        },
        course.seed
    );
    for target in targets {
        let _ = writeln!(text, "  {target}");
    }
    text += "then prove up to five changes, each against the first of them.";
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// Announcement of a search that is about to begin.
pub(super) fn announcement(report: &TuningReport<'_>) -> String {
    let rows = report.design.rows().len();
    format!(
        "{} settings in {rows} combinations, {} for each time they are all run; seed {}; recorded in {}",
        report.choices.len(),
        time_of(report, rows),
        report.course.seed,
        report.course.folder.display()
    )
}

/// Prints and keeps what was found.
pub(super) fn show(report: &TuningReport<'_>) -> Result<(), CliError> {
    let value = as_json(report);
    if report.screening.is_some() {
        keep(report.course, &value)?;
    }
    if report.args.attempt.json {
        terminal::print_json(&value);
    } else {
        terminal::print(&as_text(report));
    }
    Ok(())
}

fn proof_of<'a>(report: &'a TuningReport<'_>, choice: usize) -> Option<&'a TuningProof> {
    let mut proofs = report.proofs.iter();
    proofs.find(|proof| proof.choice == Some(choice))
}

/// How much faster a change makes it, by the screening.
fn screened(report: &TuningReport<'_>, effect: &ScreeningEffect) -> RatioEstimate {
    let sign = sign(report.course.metric);
    let (one, other) = (sign * effect.interval.low, sign * effect.interval.high);
    RatioEstimate::of_logs(sign * effect.estimate, one.min(other), one.max(other))
}

/// All that proved better, in one target: that of the last proof of them.
fn suggestion<'a>(report: &'a TuningReport<'_>) -> Option<&'a TuningProof> {
    let together = report.proofs.iter().find(|proof| proof.choice.is_none());
    let mut better: Vec<&TuningProof> = report.proofs.iter().filter(|p| p.is_better).collect();
    let gain = |proof: &TuningProof| proof.faster.map_or(f64::INFINITY, |f| f.estimate);
    better.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    together
        .filter(|proof| proof.is_better)
        .or(better.first().copied())
}

fn as_json(report: &TuningReport<'_>) -> Value {
    let of = |(at, choice): (usize, &TuningChoice)| {
        let effect = report.screening.as_ref().map(|found| &found.effects[at]);
        let screened = effect.map(|effect| screened(report, effect));
        json!({
            "setting": choice.setting.name,
            "from": choice.setting.from,
            "to": choice.level.value,
            "risk": choice.level.risk,
            "screening": screened,
            "screening_p_value": effect.map(|effect| effect.family_p_value),
            "proof": proof_of(report, at).map(proof_json),
        })
    };
    let settings: Vec<Value> = report.choices.iter().enumerate().map(of).collect();
    let together = report.proofs.iter().find(|proof| proof.choice.is_none());
    json!({
        "target": report.target.with(&[]),
        "workload": report.args.workload,
        "metric": report.course.metric,
        "seed": report.course.seed,
        "combinations": report.design.rows().len(),
        "folded": report.design.is_folded(),
        "screening_runs": report.screening.as_ref().map(|found| found.runs),
        "one_at_a_time_runs": report.design.one_at_a_time(report.blocks),
        "proof_runs": report.proof_runs,
        "deviation": report.screening.as_ref().map(|found| found.deviation),
        "detectable": report.screening.as_ref().map(|found| found.detectable.exp_m1()),
        "settings": settings,
        "together": together.map(proof_json),
        "suggestion": suggestion(report).map(|proof| proof.target.clone()),
        "left_out": report.left_out,
        "complete": !report.is_cut_short,
        "folder": report.course.folder,
    })
}

fn proof_json(proof: &TuningProof) -> Value {
    json!({
        "target": proof.target,
        "faster": proof.faster,
        "verdict": proof.verdict,
        "better": proof.is_better,
        "reason": proof.reason,
    })
}

fn as_text(report: &TuningReport<'_>) -> String {
    let mut text = format!(
        "What would make {} faster under {}?\n\n",
        report.target.with(&[]),
        report.args.workload
    );
    text += &settings_table(report);
    text.push('\n');
    if let Some(found) = &report.screening {
        let _ = writeln!(
            text,
            "Screened in {} runs (one setting at a time would need {:.0} for the same precision); effects \
             above {:.0} % would have been found. {} runs of proof.",
            found.runs,
            report.design.one_at_a_time(report.blocks),
            100.0 * found.detectable.exp_m1(),
            report.proof_runs
        );
    }
    for line in report.left_out {
        let _ = writeln!(text, "Left out: {line}");
    }
    if let Some(together) = report.proofs.iter().find(|proof| proof.choice.is_none()) {
        let _ = writeln!(
            text,
            "All together: {}, {}.",
            speed(together.faster),
            together.verdict.name()
        );
    }
    let _ = match suggestion(report) {
        Some(proof) => writeln!(text, "Use {}: {}.", proof.target, speed(proof.faster)),
        None if report.is_cut_short => {
            writeln!(
                text,
                "It ended early: the same command with the same -o goes on."
            )
        }
        None => writeln!(text, "Nothing that was tried proved faster."),
    };
    if suggestion(report).is_some() {
        text += "It is proved for this workload and this machine; run tune again from there to look \
                 for more.\n";
    }
    let _ = write!(
        text,
        "Results: {}/tuning.json",
        report.course.folder.display()
    );
    text
}

fn settings_table(report: &TuningReport<'_>) -> String {
    let mut order: Vec<usize> = (0..report.choices.len()).collect();
    let gain = |at: &usize| {
        let found = report.screening.as_ref();
        found.map_or(0.0, |found| {
            sign(report.course.metric) * found.effects[*at].estimate
        })
    };
    order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let row = |at: usize| {
        let choice = &report.choices[at];
        let effect = report.screening.as_ref().map(|found| &found.effects[at]);
        let proof = proof_of(report, at);
        let verdict = match proof {
            None => "not proved".to_owned(),
            Some(proof) if proof.is_better => "faster".into(),
            Some(proof) => proof.verdict.name().into(),
        };
        [
            choice.setting.name.clone(),
            shown(&choice.setting.from),
            choice.level.value.clone(),
            effect.map_or("–".into(), |effect| speed(Some(screened(report, effect)))),
            proof.map_or("–".into(), |proof| speed(proof.faster)),
            verdict,
            if choice.level.risk.is_empty() {
                "kept"
            } else {
                "weaker"
            }
            .into(),
        ]
    };
    let rows: Vec<[String; 7]> = order.into_iter().map(row).collect();
    table(
        &[
            "setting",
            "from",
            "to",
            "screening",
            "proof",
            "verdict",
            "durability",
        ],
        &rows,
    )
}

/// A value as people read it: one that is not there has a mark.
pub(super) fn shown(value: &str) -> String {
    if value.is_empty() {
        "–".into()
    } else {
        value.into()
    }
}

/// How much faster, with its interval.
pub(super) fn speed(faster: Option<RatioEstimate>) -> String {
    match faster {
        Some(f) => format!("×{:.2} ({:.2} to {:.2})", f.estimate, f.low, f.high),
        None => "no ratio".into(),
    }
}

/// Columns as wide as their widest cell.
pub(super) fn table<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| {
            let pad = width.saturating_sub(cell.chars().count());
            format!("{cell}{}", " ".repeat(pad))
        });
        let padded: Vec<String> = padded.collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(*head);
    for row in rows {
        text += &line(row.each_ref().map(String::as_str));
    }
    text
}
