// SPDX-License-Identifier: Apache-2.0
//! Paths as targets: the words of a path that is none, its facts on each machine, the steps that make
//! something there.

use super::{LoadOrigin, TargetSurvey};
use crate::request::WorkloadRequest;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::nearest::nearest;
use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanNode, PlanStep};
use plimsoll_core::target::TargetFacts;
use plimsoll_lab::stacks;
use plimsoll_machine::host::{HostResolver as _, check_way};
use plimsoll_machine::host::{facts, lustre};
use std::path::{Path, PathBuf};

/// Prefix of the path of a file that is to be made.
pub const NEW_FILE: &str = "file:";

/// Names that are suggested for one that is not there, at most.
const NEAR_MAX: usize = 3;

/// Facts about a directory on every machine that the load comes from, in their order; on this one where it
/// comes from here.
#[derive(Debug)]
pub(super) struct PlaceFacts(Vec<TargetFacts>);

impl PlaceFacts {
    /// Looks at the directory, and adds the room that is needed there.
    ///
    /// # Errors
    /// When it is not there, or cannot be written to.
    pub(super) fn of(survey: &mut TargetSurvey<'_>, root: &Path) -> Result<Self, CliError> {
        match survey.bench.is_here() {
            true => here(survey, root).map(|found| PlaceFacts(vec![found])),
            false => on_nodes(survey, root).map(PlaceFacts),
        }
    }

    /// Those of the first machine.
    pub(super) fn first(&self) -> &TargetFacts {
        &self.0[0]
    }

    /// Those of each.
    pub(super) fn all(&self) -> &[TargetFacts] {
        &self.0
    }
}

fn here(survey: &mut TargetSurvey<'_>, root: &Path) -> Result<TargetFacts, CliError> {
    let given = survey.given;
    check_place(&format!("use target '{given}'"), root)?;
    facts::check_writable(root).map_err(|error| {
        CliError::usage(format!("use target '{given}': it is not writable: {error}"))
    })?;
    let mut found = facts::target(root).map_err(doing(CliExitCode::Failed, look_at(given)))?;
    lustre::add_facts(survey.bench.local(), &mut found);
    let place = found.path.clone();
    survey.need_in(&place, &found);
    Ok(found)
}

fn on_nodes(survey: &mut TargetSurvey<'_>, root: &Path) -> Result<Vec<TargetFacts>, CliError> {
    let mut all = Vec::new();
    for node in survey.bench.load_nodes().to_vec() {
        let about = format!("{} on node {}", look_at(survey.given), node.name);
        let host = survey.bench.hosts().on(&node.name);
        let host = host.map_err(doing(CliExitCode::Usage, &*about))?;
        if !host.exists(root) {
            let text = format!("{about}: there is no {}", root.display());
            return Err(CliError::usage(text));
        }
        let found = host
            .target(root)
            .map_err(doing(CliExitCode::Usage, about))?;
        let place = format!("{} on node {}", found.path, node.name);
        survey.need_in(&place, &found);
        all.push(found);
    }
    Ok(all)
}

/// Root works in no directory that another user could lead elsewhere: any file of this machine could be
/// written over then. `doing` is what is refused.
///
/// # Errors
/// When another user could.
pub fn check_place(doing: &str, root: &Path) -> Result<(), CliError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    check_way(root).map_err(|error| {
        CliError::usage(format!("{doing} as root: {error}")).hint(
            "measure it as its owner, in a directory of that user: setpriv --reuid=USER --regid=GROUP \
             --init-groups --reset-env plimsoll …; or use a directory of root on the same file system, with no \
             directory above it that others may write to",
        )
    })
}

/// Refuses workloads that need a directory. `why` is added where more is to be told.
pub(super) fn check_one_file(
    given: &str,
    asked: &[WorkloadRequest],
    why: &str,
) -> Result<(), CliError> {
    match asked.iter().find(|one| one.workload.needs_directory()) {
        None => Ok(()),
        Some(one) => Err(CliError::usage(format!(
            "run {} on {given}: it needs a directory{why}",
            one.workload.name()
        ))),
    }
}

pub(super) fn look_at(given: &str) -> String {
    format!("look at target '{given}'")
}

/// The directory that holds a path.
pub(crate) fn parent_of(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    let what = format!("find {}", path.display());
    std::path::absolute(path).map_err(doing(CliExitCode::Failed, what))
}

/// A path as the journal keeps it.
pub(super) fn shown(path: &Path) -> Result<String, CliError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CliError::usage(format!(
            "use {}: its name is not valid UTF-8, and the journal could not name it",
            path.display()
        ))
    })
}

/// The step that makes a directory of ours.
///
/// # Errors
/// When its path is not valid UTF-8.
pub(crate) fn directory_step(directory: &Path, why: &str) -> Result<PlanStep, CliError> {
    let path = shown(directory)?;
    Ok(PlanStep::on(
        HERE,
        why,
        PlanAction::MakeDir(path.clone()),
        Some(PlanAction::RemoveDir(path)),
    ))
}

/// Adds the step that makes a directory on a node.
pub(crate) fn add_directory(plan: &mut Plan, node: &PlanNode, path: &str) {
    plan.step_on(
        &node.name,
        "create a directory",
        PlanAction::MakeDir(path.into()),
        Some(PlanAction::RemoveDir(path.into())),
    );
}

/// Why words are no target: a path that is not there is a slip, unless a new file was meant.
pub(super) fn refusal(text: &str, origin: LoadOrigin) -> CliError {
    if origin == LoadOrigin::Nodes {
        return CliError::usage(format!(
            "use target '{text}' from nodes: give a directory that is on all of them by its absolute path, \
             a new file in one (file:/PATH), an NFS export (nfs://host/export), or a stack"
        ));
    }
    let path = Path::new(text);
    match std::fs::metadata(path) {
        Ok(_) => refuse_existing(text),
        // A dangling link is also an existing path of the user.
        Err(_) if path.is_symlink() => leads_nowhere(text),
        Err(_) if path.starts_with("/dev") => {
            no_device(text).hint("lsblk lists the devices of this machine")
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            CliError::usage(format!("use target '{text}': {error}"))
        }
        Err(_) => absent(text, &near(path)),
    }
}

fn absent(text: &str, near: &[String]) -> CliError {
    let failure = CliError::usage(format!(
        "use target '{text}': there is no such file or directory"
    ));
    if !near.is_empty() {
        return failure.hint(format!(
            "did you mean {}? To create a file, give {NEW_FILE}{text}",
            near.join(" or ")
        ));
    }
    if let Some(hint) = meant(text) {
        return failure.hint(hint);
    }
    failure.hint(format!(
        "a target is a directory, a new file ({NEW_FILE}PATH), a block device, an NFS export \
         (nfs://host/export), an existing iSCSI or NBD target (iscsi://host/target/lun, nbd://host/export), \
         or one of the stacks: {}",
        stacks::names()
    ))
}

/// The likely meaning of a word in the place of a target.
fn meant(text: &str) -> Option<String> {
    if let Some((name, target)) = text.split_once('=')
        && Path::new(target).exists()
    {
        return Some(format!(
            "a name for reports is given with -n: {target} -n {name}"
        ));
    }
    let word = text.split([',', ' ', '(', '@']).next().unwrap_or(text);
    if plimsoll_classics::find(word).is_ok() {
        return Some(format!(
            "{word} is a workload: plimsoll run takes the workload first, then the target; other commands \
             take it with -w"
        ));
    }
    let names = stacks::ALL.iter().map(|stack| stack.name());
    nearest(word, names).map(|stack| format!("did you mean the stack {stack}?"))
}

pub(super) fn refuse_existing(text: &str) -> CliError {
    CliError::usage(format!(
        "use target '{text}': it exists, and plimsoll only writes to files it made"
    ))
    .hint("give a directory, or the path of a file that does not exist yet: file:PATH")
}

pub(super) fn leads_nowhere(text: &str) -> CliError {
    CliError::usage(format!(
        "use target '{text}': it is a dangling symbolic link"
    ))
}

pub(super) fn no_device(text: &str) -> CliError {
    CliError::usage(format!("use target '{text}': there is no such device"))
}

/// Existing paths with a similar name, nearest first: in the first directory of the path that lacks
/// the next one.
fn near(path: &Path) -> Vec<String> {
    let missing = path.ancestors().find(|part| parent_of(part).is_dir());
    let Some(missing) = missing.filter(|missing| !missing.exists()) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(parent_of(missing)).into_iter();
    let names = entries.flatten().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let word = missing.file_name().unwrap_or_default().to_string_lossy();
    let mut found: Vec<String> = Vec::new();
    while found.len() < NEAR_MAX
        && let Some(name) = nearest(&word, names.iter().map(String::as_str))
    {
        let name = name.to_owned();
        names.retain(|other| *other != name);
        found.push(missing.with_file_name(&name).display().to_string());
    }
    found
}
