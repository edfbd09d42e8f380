// SPDX-License-Identifier: Apache-2.0
//! A user's own stack: his commands, written down in a file, carried out and undone as the steps of
//! every other stack.
//!
//! Manual: `docs/stacks/own.md`. Invariants: a command is a list of words and never a line for a
//! shell; the programs it names may be run on behalf of this stack's journal and no other.

mod file;
#[cfg(test)]
mod tests;

pub use file::OwnStackSpec;

use plimsoll_core::plan::{
    self, Plan, PlanAction, PlanCommand, PlanReadinessCheck, StackFileStep, StackOutputs,
    StackServer,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit};

use super::{
    PreconditionError, StackConfig, StackFootprint, StackLadderRung, StackPlanInput, StackRecipe,
    StackRequirements, node,
};
use file::limit_s;

/// Name of the stack, and of the setting that names its file.
pub(super) const NAME: &str = "own";
pub(super) const FILE: &str = "file";

/// The stack `own`.
#[derive(Debug)]
pub struct OwnStack;

const SETTINGS: &[SettingDefinition] = &[SettingDefinition {
    name: FILE,
    unit: SettingUnit::Text,
    default: "",
    help: "absolute path of the file that describes it",
}];

fn definition(choice: &StackConfig) -> Result<&OwnStackSpec, PreconditionError> {
    choice.own.as_deref().ok_or_else(|| {
        let text = "a stack of your own is named by its file: plimsoll stack up ./mine.toml";
        PreconditionError(vec![text.into()])
    })
}

impl StackRecipe for OwnStack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a stack of your own, from a file with its commands: plimsoll stack up ./mine.toml"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        let definition = definition(choice)?;
        Ok(StackFootprint::here(definition.nodes, definition.ports))
    }

    fn needs(&self, _: &StackConfig) -> StackRequirements {
        // Its programs are looked for by name; they decide whether it needs root.
        StackRequirements::default()
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let definition = definition(order.choice)?;
        let mut plan = Plan::default();
        let mut servers = Vec::new();
        node::add_dir(&mut plan, &order.dir());
        for server in &order.site.servers {
            if !server.reach.is_this_machine() {
                node::add_dir_on(&mut plan, server, &order.dir_on(&server.dir));
            }
        }
        for (number, step) in definition.step.iter().enumerate() {
            let node = OwnStackPlaceholders::new(order, step.node);
            servers.extend(add(&mut plan, order, &node, (number, step))?);
        }
        let client = OwnStackPlaceholders::new(order, None);
        let mount_dir = client.word(&definition.mount_dir);
        let file_system = definition.file_system.clone();
        if !file_system.is_empty() {
            let path = mount_dir.clone();
            let file_system = file_system.clone();
            let is = PlanAction::mount_is(path, file_system, Vec::new());
            plan.step("check that the file system is mounted", is, None);
        }
        let made = StackOutputs {
            mount_dir,
            file_system,
            description: definition.description.clone(),
            servers,
            ..StackOutputs::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, choice: &StackConfig) -> Vec<StackLadderRung> {
        vec![StackLadderRung::new(NAME, choice.parts.base.to_string())]
    }
}

/// The values of words in braces on one node.
struct OwnStackPlaceholders<'a> {
    node: &'a plan::PlanNode,
    values: [String; file::PLACEHOLDERS.len()],
}

impl<'a> OwnStackPlaceholders<'a> {
    fn new(order: &'a StackPlanInput<'_>, number: Option<u16>) -> Self {
        let server = number.and_then(|n| order.site.servers.get(usize::from(n).checked_sub(1)?));
        let node = server.unwrap_or(&order.site.client);
        OwnStackPlaceholders {
            node,
            values: [
                order.dir_on(&node.dir),
                order.size_bytes.to_string(),
                node.address.clone(),
                node.first_port.to_string(),
            ],
        }
    }

    fn word(&self, word: &str) -> String {
        let pairs = file::PLACEHOLDERS.iter().zip(&self.values);
        pairs.fold(word.to_owned(), |word, (name, value)| {
            word.replace(&format!("{{{name}}}"), value)
        })
    }

    fn command(&self, words: &[String]) -> Option<PlanCommand> {
        let (program, args) = words.split_first()?;
        Some(PlanCommand::new(
            program,
            args.iter().map(|word| self.word(word)),
        ))
    }
}

/// Adds one step of the file; gives the server it starts.
fn add(
    plan: &mut Plan,
    order: &StackPlanInput<'_>,
    node: &OwnStackPlaceholders<'_>,
    (number, step): (usize, &StackFileStep),
) -> Result<Option<StackServer>, PreconditionError> {
    let command = |words: &Option<Vec<String>>| node.command(words.as_deref().unwrap_or_default());
    let on = &node.node.name;
    let limit_s = limit_s(step).map_err(|reason| PreconditionError(vec![reason]))?;
    let check = command(&step.check);
    let mut server = None;
    if let Some(apply) = command(&step.apply) {
        let undo = command(&step.undo).map(|undo| {
            let undo = undo.within_s(limit_s);
            match &check {
                // A step that was not made need not be undone, and none is undone twice.
                Some(check) => PlanAction::RunIf {
                    when: check.clone(),
                    run: undo,
                },
                None => PlanAction::Run(undo),
            }
        });
        plan.step_on(
            on,
            &step.why,
            PlanAction::Run(apply.within_s(limit_s)),
            undo,
        );
    }
    if let (Some(cmd), Some(ready)) = (command(&step.start), command(&step.ready)) {
        let mark = order.mark(&format!("own{number}"));
        server = Some(StackServer {
            name: cmd.program.rsplit('/').next().unwrap_or_default().into(),
            ..StackServer::on(on, vec![mark.clone()])
        });
        let start = PlanAction::Start {
            cmd,
            mark: mark.clone(),
            log: format!("{}/own{number}.log", order.dir_on(&node.node.dir)),
            ready: PlanReadinessCheck::Succeeds(ready),
        };
        plan.step_on(on, &step.why, start, Some(PlanAction::Stop { mark }));
    }
    if let Some(check) = check {
        let why = format!("check the result of: {}", step.why);
        plan.step_on(on, &why, PlanAction::Run(check), None);
    }
    Ok(server)
}
