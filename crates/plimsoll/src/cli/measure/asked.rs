// SPDX-License-Identifier: Apache-2.0
//! Workloads and targets asked for, read and checked before anything is done.

use super::super::design::check_designable;
use super::super::trust::TrustArgs;
use super::MeasureOptions;
use plimsoll_console::command_line;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_engine::DataCheck;
use plimsoll_run::campaign::{self, WorkloadRequest};
use plimsoll_run::campaign_file::WorkloadVariant;
use plimsoll_run::spec::{RateScale, TargetSpec, WorkloadSpec};
use std::path::Path;

/// The workloads of a run.
pub(super) fn requests(job: &MeasureOptions<'_>) -> Result<Vec<WorkloadRequest>, CliError> {
    let (length, trust) = (job.timing.length, job.shape.trust());
    let named = job.workloads.iter().map(|text| asked(text, length, trust));
    let mut all: Vec<WorkloadRequest> = named.collect::<Result<_, _>>()?;
    // Workloads that a person types need no consent.
    check_programs(job, command_line::file().as_deref(), &all)?;
    let variants = job.campaign.variants.iter();
    let variants = variants.map(|one| varied(one, length, trust));
    let variants: Vec<WorkloadRequest> = variants.collect::<Result<_, _>>()?;
    check_programs(job, job.campaign.file, &variants)?;
    all.extend(variants);
    if all.is_empty() {
        all.push(sessions_alone());
    }
    for one in &mut all {
        one.most = job
            .load_line
            .as_ref()
            .map(|goal| (goal.largest, goal.sustained));
    }
    Ok(all)
}

/// Refuses workloads of a file that would start programs, unless it is trusted.
fn check_programs(
    job: &MeasureOptions<'_>,
    file: Option<&Path>,
    asked: &[WorkloadRequest],
) -> Result<(), CliError> {
    let Some(file) = file else {
        return Ok(());
    };
    let starts: Vec<String> = asked.iter().flat_map(campaign::commands_of).collect();
    job.shape.trust().check(file, &starts, job.dry_run)
}

/// Looks at what was asked for before anything is done.
pub(super) fn check_asked(
    job: &MeasureOptions<'_>,
    targets: &[TargetSpec],
    asked: &[WorkloadRequest],
) -> Result<(), CliError> {
    check_labels(asked)?;
    if job.load_line.is_some() {
        asked.iter().try_for_each(check_multiple)?;
    }
    if job.campaign.closed_and_open {
        let check = |one| campaign::check_both_loops(one).map(drop);
        asked.iter().try_for_each(check)?;
    }
    // Without a pilot the trials keep their own length.
    if job.design.goal.is_some() {
        check_designable(asked.iter().map(|one| &one.workload))?;
    }
    super::conditioning::check(job, asked)?;
    if !job.timing.force_model {
        asked.iter().try_for_each(refuse_untrue)?;
    }
    if job.timing.data_check() != DataCheck::Off {
        check_verifiable(targets, asked)?;
    }
    Ok(())
}

/// Request without a workload: only the sessions that feel a fault run.
fn sessions_alone() -> WorkloadRequest {
    WorkloadRequest {
        workload: Workload::idle("sessions"),
        scale: Some(1.0),
        notes: Vec::new(),
        length: None,
        most: None,
    }
}

/// Data to be verified must be stamped, and kept somewhere.
fn check_verifiable(targets: &[TargetSpec], asked: &[WorkloadRequest]) -> Result<(), CliError> {
    let keeps_nothing = |target: &TargetSpec| {
        matches!(
            target,
            TargetSpec::Null | TargetSpec::Nop | TargetSpec::Sim(_)
        )
    };
    if targets.iter().any(keeps_nothing) {
        return Err(CliError::invalid(
            "--verify-data does not work on null, nop or sim, which keep no data: give a directory, \
             a new file, a device or a stack",
        ));
    }
    asked.iter().try_for_each(|asked| {
        plimsoll_engine::can_check_data(&asked.workload)
            .map_err(failed(CliExitCode::Usage))
            .map_err(|failure| failure.hint("leave out --verify-data for this workload"))
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
    let spec = WorkloadSpec::parse_trusting(text, trust.paths())?;
    let scale = match spec.scale {
        RateScale::Fixed(scale) => Some(scale),
        RateScale::Auto => None,
    };
    Ok(WorkloadRequest {
        workload: spec.workload,
        scale,
        notes: spec.notes,
        length: length.or(spec.length),
        most: None,
    })
}

/// A workload of a campaign file, which says where it stands when it cannot be read.
fn varied(
    one: &WorkloadVariant,
    length: Option<Nanos>,
    trust: &TrustArgs,
) -> Result<WorkloadRequest, CliError> {
    let read = asked(&one.text, length.or(one.length), trust);
    let mut request = read.map_err(|failure| one.about(&failure))?;
    let name = one.named(request.workload.name());
    request.workload.rename(name);
    Ok(request)
}
