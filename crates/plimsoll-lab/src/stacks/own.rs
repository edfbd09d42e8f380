// SPDX-License-Identifier: Apache-2.0
//! A user's own stack: his commands, written down in a file, carried out and undone as the steps of
//! every other stack.
//!
//! Manual: `docs/stacks/own.md`. Invariants: a command is a list of words and never a line for a
//! shell; the programs it names may be run on behalf of this stack's journal and no other.

mod file;
#[cfg(test)]
mod tests;

pub use file::Definition;

use plimsoll_core::plan::{self, Action, Cmd, Made, Plan, Ready, Server};
use plimsoll_core::settings::{Setting, Unit};

use super::{Choice, Needs, Order, Place, Rung, Shape, Stack, Unmet, node};
use file::Entry;

/// Name of the stack, and of the setting that names its file.
pub(super) const NAME: &str = "own";
pub(super) const FILE: &str = "file";

/// The stack `own`.
#[derive(Debug)]
pub struct Own;

const SETTINGS: &[Setting] = &[Setting {
    name: FILE,
    unit: Unit::Text,
    default: "",
    help: "the file that describes it: its absolute path",
}];

fn definition(choice: &Choice) -> Result<&Definition, Unmet> {
    choice.own.as_deref().ok_or_else(|| {
        let text = "a stack of your own is named by its file: plimsoll stack up ./mine.toml";
        Unmet(vec![text.into()])
    })
}

impl Stack for Own {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a stack of your own, from a file with its commands: plimsoll stack up ./mine.toml"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        let definition = definition(choice)?;
        Ok(Shape {
            servers: definition.nodes(),
            ports: definition.ports(),
            place: Place::Here,
        })
    }

    fn needs(&self, _: &Choice) -> Needs {
        // Its programs are looked for by name; whether it takes root is told by them.
        Needs::default()
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
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
            let step = step.get_ref();
            let node = Words::new(order, step.node);
            servers.extend(add(&mut plan, order, &node, (number, step))?);
        }
        let client = Words::new(order, None);
        let mount_dir = client.word(definition.mount_dir.get_ref());
        let file_system = definition.file_system.clone();
        if !file_system.is_empty() {
            let path = mount_dir.clone();
            let file_system = file_system.clone();
            let is = Action::MountIs {
                path,
                file_system,
                sources: Vec::new(),
            };
            plan.step("see the file system mounted", is, None);
        }
        let made = Made {
            mount_dir,
            file_system,
            description: definition.description.get_ref().clone(),
            servers,
            ..Made::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, choice: &Choice) -> Vec<Rung> {
        vec![Rung::new(NAME, choice.parts.base.to_string())]
    }
}

/// What words in braces stand for on one node.
struct Words<'a> {
    node: &'a plan::Node,
    values: [String; file::PLACEHOLDERS.len()],
}

impl<'a> Words<'a> {
    fn new(order: &'a Order<'_>, number: Option<u16>) -> Self {
        let server = number.and_then(|n| order.site.servers.get(usize::from(n).checked_sub(1)?));
        let node = server.unwrap_or(&order.site.client);
        Words {
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

    fn command(&self, words: &[String]) -> Option<Cmd> {
        let (program, args) = words.split_first()?;
        Some(Cmd::new(program, args.iter().map(|word| self.word(word))))
    }
}

/// Adds one step of the file; gives the server it starts.
fn add(
    plan: &mut Plan,
    order: &Order<'_>,
    node: &Words<'_>,
    (number, step): (usize, &Entry),
) -> Result<Option<Server>, Unmet> {
    let command = |words: &Option<Vec<String>>| node.command(words.as_deref().unwrap_or_default());
    let on = &node.node.name;
    let limit_s = step.limit_s().map_err(|reason| Unmet(vec![reason]))?;
    let check = command(&step.check);
    let mut server = None;
    if let Some(apply) = command(&step.apply) {
        let undo = command(&step.undo).map(|undo| {
            let undo = undo.within_s(limit_s);
            match &check {
                // What was not made need not be undone, and is not twice.
                Some(check) => Action::RunIf {
                    when: check.clone(),
                    run: undo,
                },
                None => Action::Run(undo),
            }
        });
        plan.step_on(on, &step.why, Action::Run(apply.within_s(limit_s)), undo);
    }
    if let (Some(cmd), Some(ready)) = (command(&step.start), command(&step.ready)) {
        let mark = order.mark(&format!("own{number}"));
        server = Some(Server {
            name: cmd.program.rsplit('/').next().unwrap_or_default().into(),
            node: on.clone(),
            marks: vec![mark.clone()],
            asked: None,
            restore: Vec::new(),
        });
        let start = Action::Start {
            cmd,
            mark: mark.clone(),
            log: format!("{}/own{number}.log", order.dir_on(&node.node.dir)),
            ready: Ready::Succeeds(ready),
        };
        plan.step_on(on, &step.why, start, Some(Action::Stop { mark }));
    }
    if let Some(check) = check {
        let why = format!("see that it did {}", step.why);
        plan.step_on(on, &why, Action::Run(check), None);
    }
    Ok(server)
}
