// SPDX-License-Identifier: Apache-2.0
//! New files, of this machine or of each node: made for the run, and removed after it.

use super::place::{self, NEW_FILE, PlaceFacts};
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_console::failure::CliError;
use plimsoll_core::plan::{HERE, PlanAction, PlanStep};
use plimsoll_core::target::{NodeTarget, TargetFacts};
use std::path::{Path, PathBuf};
use std::rc::Rc;

#[derive(Debug)]
struct FileTarget {
    path: PathBuf,
}

#[derive(Debug)]
struct ResolvedFile {
    path: PathBuf,
    found: PlaceFacts,
}

pub(super) fn read(text: &str, origin: LoadOrigin) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    let Some(path) = text.strip_prefix(NEW_FILE).map(PathBuf::from) else {
        return Ok(None);
    };
    match origin {
        LoadOrigin::Here => check_new(text, &path)?,
        // Nodes are looked at later; a path must mean the same on all of them.
        LoadOrigin::Nodes if !path.is_absolute() => return Ok(None),
        LoadOrigin::Nodes => {}
    }
    Ok(Some(Rc::new(FileTarget { path })))
}

/// Refuses what is there, or has no directory to be made in.
fn check_new(text: &str, path: &Path) -> Result<(), CliError> {
    if path.is_symlink() && !path.exists() {
        return Err(place::leads_nowhere(text));
    }
    if path.exists() {
        return Err(place::refuse_existing(text));
    }
    let parent = place::parent_of(path);
    if path.file_name().is_none() || !parent.is_dir() {
        return Err(CliError::usage(format!(
            "use target '{text}': there is no directory {} to make it in",
            parent.display()
        )));
    }
    if parent.starts_with("/dev") && !parent.starts_with("/dev/shm") {
        return Err(place::no_device(text));
    }
    Ok(())
}

impl TargetKind for FileTarget {
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        let why = ", and nothing is there";
        place::check_one_file(survey.given, survey.asked, why)?;
        let found = PlaceFacts::of(survey, place::parent_of(&self.path))?;
        let path = self.path.clone();
        Ok(Box::new(ResolvedFile { path, found }))
    }
}

impl ResolvedTarget for ResolvedFile {
    fn facts(&self) -> Option<&TargetFacts> {
        Some(self.found.first())
    }

    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        match intent.is_control {
            // It is the base's file.
            true => Vec::new(),
            false => vec![intent.make(&self.path.display().to_string())],
        }
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let facts = self.found.first().clone();
        if raising.bench.is_here() {
            let path = place::shown(&place::absolute(&self.path)?)?;
            raising.make_once(step_on(HERE, path));
            let reach = file(self.path.clone(), &facts);
            return Ok(RaisedTarget::here(reach, facts));
        }
        let mut nodes = Vec::new();
        let machines = raising.bench.load_nodes().to_vec();
        for (node, facts) in machines.iter().zip(self.found.all()) {
            // Nodes may share the file system.
            let path = format!("{}-{}", place::shown(&self.path)?, node.name);
            nodes.push(file(path.clone().into(), facts));
            raising.make_once(step_on(&node.name, path));
        }
        Ok(RaisedTarget::on_nodes(nodes, facts))
    }
}

fn file(path: PathBuf, facts: &TargetFacts) -> NodeTarget {
    NodeTarget::File {
        path,
        direct_align_bytes: facts.direct_align_bytes,
    }
}

fn step_on(node: &str, path: String) -> PlanStep {
    let make = PlanAction::MakeFile {
        path: path.clone(),
        bytes: 0,
    };
    PlanStep::on(
        node,
        "create the file",
        make,
        Some(PlanAction::RemoveFile(path)),
    )
}
