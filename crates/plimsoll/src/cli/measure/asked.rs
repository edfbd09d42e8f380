// SPDX-License-Identifier: Apache-2.0
//! Workloads and targets asked for, read and checked before anything is done.

use super::super::design::check_designable;
use super::super::trust::TrustArgs;
use super::goal::load_line_goal;
use super::{CampaignMeasurement, RunAttempt};
use plimsoll_console::command_line;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::DataCheck;
use plimsoll_run::campaign;
use plimsoll_run::campaign_file::WorkloadVariant;
use plimsoll_run::request::{WorkloadRequest, commands_of};
use plimsoll_run::spec;
use plimsoll_run::targets::TargetKind;
use std::rc::Rc;

/// The workloads of a campaign. Those of a file start no program unless it is trusted; those that a person
/// types need no consent.
pub(super) fn requests(
    spec: &CampaignSpec,
    attempt: &RunAttempt<'_>,
) -> Result<Vec<WorkloadRequest>, CliError> {
    let variants = WorkloadVariant::all(spec);
    let each = variants.iter().map(|one| varied(one, spec, attempt));
    let mut all: Vec<WorkloadRequest> = each.collect::<Result<_, _>>()?;
    let part_of = command_line::file();
    let file = attempt.file.as_ref().map(|file| file.path.as_path());
    if let Some(file) = file.or(part_of.as_deref()) {
        let programs = all.iter().flat_map(commands_of);
        // Options that reach machines were typed.
        let reached = attempt.file.iter().flat_map(|file| file.reaches.clone());
        let starts: Vec<String> = programs.chain(reached).collect();
        attempt
            .trust
            .check(file, &starts, attempt.dry_run || attempt.save.is_some())?;
    }
    if all.is_empty() {
        // Only the sessions that feel a fault run.
        all.push(Workload::idle("sessions").into());
    }
    Ok(all)
}

/// Looks at what was asked for before anything is done.
pub(super) fn check_asked(job: &CampaignMeasurement<'_>) -> Result<(), CliError> {
    let (spec, asked) = (&job.spec, &job.asked);
    check_labels(asked)?;
    if spec.load_line.is_some() {
        asked.iter().try_for_each(check_multiple)?;
    }
    if spec.closed_and_open {
        let check = |one| campaign::check_both_loops(one).map(drop);
        asked.iter().try_for_each(check)?;
    }
    // Without a pilot the trials keep their own length.
    if job.design.goal.is_some() {
        check_designable(asked.iter().map(|one| &one.workload))?;
    }
    let each = asked.iter().map(|one| &one.workload);
    each.clone()
        .try_for_each(|one| super::conditioning::check_one(spec, one))?;
    if !job.attempt.force_model {
        asked.iter().try_for_each(refuse_untrue)?;
    }
    if spec.trial.verify_data != DataCheck::Off {
        check_verifiable(&job.targets, asked)?;
    }
    Ok(())
}

/// Data to be verified must be stamped, and kept somewhere.
fn check_verifiable(
    targets: &[Rc<dyn TargetKind>],
    asked: &[WorkloadRequest],
) -> Result<(), CliError> {
    if !targets.iter().all(|target| target.keeps_data()) {
        return Err(CliError::invalid(
            "--check-data does not work on null, nop or sim, which keep no data: give a directory, \
             a new file, a device or a stack",
        ));
    }
    asked.iter().try_for_each(|asked| {
        plimsoll_engine::can_check_data(&asked.workload)
            .map_err(failed(CliExitCode::Usage))
            .map_err(|failure| failure.hint("leave out --check-data for this workload"))
    })
}

/// Figures of a load that is not the recorded one answer another question.
fn refuse_untrue(asked: &WorkloadRequest) -> Result<(), CliError> {
    let Workload::Model(model) = &asked.workload else {
        return Ok(());
    };
    let missed: Vec<&str> = model.missed().map(|line| line.metric.as_str()).collect();
    let [first, rest @ ..] = &missed[..] else {
        return Ok(());
    };
    let more = match rest.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Err(CliError::sentence(
        CliExitCode::Gate,
        format!("the model {} missed a gate: {first}{more}", model.name),
    )
    .hint("fit it to another window, or use --force-model, which the report notes"))
}

/// A load line needs a workload that can be multiplied.
fn check_multiple(asked: &WorkloadRequest) -> Result<(), CliError> {
    let name = asked.workload.name();
    match (asked.workload.multiple(), asked.scale) {
        (Err(why), _) => Err(CliError::invalid(format!(
            "workload '{name}' has no load line: it {why}"
        ))),
        (Ok(_), None) => Err(CliError::invalid(format!(
            "invalid factor '@auto' for '{name}': loadline tries the factors itself"
        ))),
        (Ok(_), Some(_)) => Ok(()),
    }
}

/// Two workloads of one name would be one in the report.
fn check_labels(asked: &[WorkloadRequest]) -> Result<(), CliError> {
    let labels: Vec<String> = asked.iter().map(campaign::label_of).collect();
    match labels
        .iter()
        .enumerate()
        .find(|(at, label)| labels[..*at].contains(label))
    {
        None => Ok(()),
        Some((_, label)) => Err(CliError::invalid(format!(
            "workload '{label}' is given twice: give each workload once"
        ))
        .hint("if two files have one name, fit one of them with another --name")),
    }
}

pub(in super::super) fn asked(
    text: &str,
    length: Option<Nanos>,
    trust: &TrustArgs,
) -> Result<WorkloadRequest, CliError> {
    let read = spec::workload_trusting(text, trust.paths())?;
    Ok(WorkloadRequest {
        length: length.or(read.length),
        ..read
    })
}

/// A workload of a campaign; of a file, the error says where it stands.
fn varied(
    one: &WorkloadVariant,
    spec: &CampaignSpec,
    attempt: &RunAttempt<'_>,
) -> Result<WorkloadRequest, CliError> {
    let goal = load_line_goal(spec, &one.text)?;
    let length = spec.trial.length.map(|time| time.0);
    let read = asked(&one.text, length.or(one.length), attempt.trust);
    let mut request = read.map_err(|failure| match &attempt.file {
        Some(file) => file.place(&one.key).about(&failure),
        None => failure,
    })?;
    let name = one.named(request.workload.name());
    request.workload.rename(name);
    request.goal = goal;
    Ok(request)
}
