// SPDX-License-Identifier: Apache-2.0
//! Directories, of this machine or of each node: an arm works in one of its own below.

use super::place::{self, PlaceFacts};
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_console::failure::CliError;
use plimsoll_core::plan::PlanAction;
use plimsoll_core::target::{NodeTarget, TargetFacts};
use plimsoll_machine::host::{file_system_of, medium};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

#[derive(Debug)]
struct DirectoryTarget {
    path: PathBuf,
}

#[derive(Debug)]
struct ResolvedDirectory {
    path: PathBuf,
    found: PlaceFacts,
}

pub(super) fn read(text: &str, origin: LoadOrigin) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    let path = PathBuf::from(text);
    let is_meant = match origin {
        LoadOrigin::Here => path.is_dir(),
        LoadOrigin::Nodes => path.is_absolute(),
    };
    if !is_meant {
        return Ok(None);
    }
    if origin == LoadOrigin::Here && is_run_folder(&path) {
        let failure = format!("use target '{text}': it is the folder of a run");
        return Err(
            CliError::usage(failure).hint(format!("plimsoll report {text} shows its results"))
        );
    }
    Ok(Some(Rc::new(DirectoryTarget { path })))
}

/// Whether a directory is what an earlier run left.
fn is_run_folder(path: &Path) -> bool {
    path.join("manifest.json").is_file() && path.join("events.jsonl").is_file()
}

impl TargetKind for DirectoryTarget {
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        if survey.bench.is_here() {
            check_mounted(survey.given, &self.path)?;
        }
        let found = PlaceFacts::of(survey, &self.path)?;
        let path = self.path.clone();
        Ok(Box::new(ResolvedDirectory { path, found }))
    }
}

/// Refuses a mount point of the machine's table without its mount.
fn check_mounted(given: &str, root: &Path) -> Result<(), CliError> {
    let is_empty = fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
    let Some(point) = medium::unmounted(root).filter(|_| is_empty) else {
        return Ok(());
    };
    if root.canonicalize().is_ok_and(|root| root != point) {
        return Ok(());
    }
    let point = point.display();
    Err(CliError::usage(format!(
        "use target '{given}': /etc/fstab names {point} as a mount point, and nothing is mounted there"
    ))
    .hint(format!(
        "mount it (mount {point}); to measure the file system below it, give a directory in it"
    )))
}

impl ResolvedTarget for ResolvedDirectory {
    fn facts(&self) -> Option<&TargetFacts> {
        Some(self.found.first())
    }

    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        vec![intent.make_directory()]
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        if !raising.bench.is_here() {
            return self.raise_on_nodes(raising);
        }
        raising.claim(&self.path)?;
        let directory = place::absolute(&self.path)?.join(&raising.directory);
        let mut step = place::directory_step(&directory, "create a directory")?;
        // A disk of the user's may be pulled while it is measured.
        if let Some(file_system) = file_system_of(&self.path) {
            let path = place::shown(&directory)?;
            step.undo = Some(PlanAction::RemoveDirOf { path, file_system });
        }
        raising.plan.steps.push(step);
        Ok(RaisedTarget::in_directory(
            directory,
            self.found.first().clone(),
        ))
    }
}

impl ResolvedDirectory {
    fn raise_on_nodes(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let mut nodes = Vec::new();
        for (node, facts) in raising.bench.load_nodes().iter().zip(self.found.all()) {
            let own = format!("{}-{}", raising.directory, node.name);
            let path = place::shown(&self.path.join(own))?;
            place::add_directory(raising.plan, node, &path);
            nodes.push(NodeTarget::Directory {
                path: path.into(),
                direct_align_bytes: facts.direct_align_bytes,
            });
        }
        Ok(RaisedTarget::on_nodes(nodes, self.found.first().clone()))
    }
}
