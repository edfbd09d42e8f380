// SPDX-License-Identifier: Apache-2.0
//! `plimsoll stack list|show`: which stacks and layers there are, and what can be set.

use crate::cli::workloads;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::settings::{SettingDefinition, SettingLevel, SettingLevels};
use plimsoll_lab::stacks::{self, StackConfig, StackPlacement};
use std::fmt::Write;
use std::process::ExitCode;

/// Width of the column of names.
const NAMES: usize = 12;

#[derive(Debug, clap::Args)]
pub(super) struct StackListArgs {
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct StackShowArgs {
    /// Name of the stack or layer.
    #[arg(value_name = "STACK")]
    name: String,
    /// Print the settings as JSON.
    #[arg(long)]
    json: bool,
}

/// A stack or a layer, as both are shown.
pub(in super::super) struct StackListEntry {
    pub(in super::super) name: &'static str,
    pub(in super::super) about: &'static str,
    pub(in super::super) settings: &'static [SettingDefinition],
    pub(in super::super) levels: &'static [SettingLevels],
}

impl StackListEntry {
    /// The values of a setting that `plimsoll tune` tries.
    fn levels_of(&self, setting: &str) -> &'static [SettingLevel] {
        let of = self.levels.iter().find(|levels| levels.setting == setting);
        of.map_or(&[], |levels| levels.levels)
    }
}

pub(in super::super) fn stacks() -> Vec<StackListEntry> {
    let one = |stack: &&'static dyn stacks::StackRecipe| StackListEntry {
        name: stack.name(),
        about: stack.about(),
        settings: stack.settings(),
        levels: stack.levels(),
    };
    stacks::ALL.iter().map(one).collect()
}

pub(in super::super) fn layers() -> Vec<StackListEntry> {
    let one = |layer: &&'static dyn stacks::LayerRecipe| StackListEntry {
        name: layer.name(),
        about: layer.about(),
        settings: layer.settings(),
        levels: &[],
    };
    stacks::LAYERS.iter().map(one).collect()
}

/// The nodes that a stack has as it comes.
fn nodes(name: &str) -> u16 {
    let choice = StackConfig::parse(name).ok();
    let shape = choice.and_then(|choice| choice.stack.shape(&choice).ok());
    shape.map_or(0, |shape| shape.servers)
}

/// A stack or a layer that forms may offer, as it comes.
fn offered(known: &StackListEntry) -> serde_json::Value {
    let missing = missing(known.name);
    let settings: Vec<_> = known.settings.iter().map(workloads::offered).collect();
    serde_json::json!({ "name": known.name, "text": known.about, "settings": settings,
        "ready": missing.is_empty(), "missing": missing })
}

pub(in super::super) fn offered_stacks() -> Vec<serde_json::Value> {
    let offer = |known: StackListEntry| {
        let mut offered = offered(&known);
        offered["nodes"] = nodes(known.name).into();
        offered
    };
    stacks().into_iter().map(offer).collect()
}

pub(in super::super) fn offered_layers() -> Vec<serde_json::Value> {
    layers().iter().map(offered).collect()
}

/// Requirements of a stack with its defaults that are missing here; empty when it can be made.
fn missing(name: &str) -> Vec<String> {
    let Ok(choice) = StackConfig::parse(name) else {
        return Vec::new();
    };
    let place = choice
        .stack
        .shape(&choice)
        .map_or(StackPlacement::Here, |s| s.place);
    let found = stacks::manage::needs(&choice, &place).check(&context::host());
    let mut missing = found.err().map_or_else(Vec::new, |unmet| unmet.0);
    if choice.stack.needs_machines(&choice) {
        let machines = "it needs machines of their own: --on FILE (plimsoll vm up makes some)";
        missing.insert(0, machines.into());
    }
    missing
}

pub(super) fn list(args: &StackListArgs) -> CliResult {
    if args.json {
        let shown = |known: StackListEntry| {
            serde_json::json!({ "name": known.name, "about": known.about,
                "missing": missing(known.name) })
        };
        let stacks: Vec<_> = stacks().into_iter().map(shown).collect();
        let layers: Vec<_> = layers().into_iter().map(shown).collect();
        terminal::print_json(&serde_json::json!({ "stacks": stacks, "layers": layers }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::from("Stacks:\n");
    for known in stacks() {
        let _ = writeln!(text, "  {:<NAMES$}{}", known.name, known.about);
        for one in missing(known.name) {
            let _ = writeln!(text, "  {:<NAMES$}  not here: {one}", "");
        }
    }
    if !stacks::LAYERS.is_empty() {
        text.push_str("Layers, put over a stack with +:\n");
        for known in layers() {
            let _ = writeln!(text, "  {:<NAMES$}{}", known.name, known.about);
        }
    }
    text.push_str("plimsoll stack show NAME lists the settings.");
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: &StackShowArgs) -> CliResult {
    let mut all = stacks().into_iter().chain(layers());
    let Some(known) = all.find(|known| known.name == args.name) else {
        // The words of the reader, with the nearest name.
        let error = StackConfig::parse(&args.name).err();
        return Err(CliError::invalid(error.map_or_else(
            || {
                format!(
                    "'{}' is more than one stack or layer: name one alone",
                    args.name
                )
            },
            |error| error.to_string(),
        )));
    };
    if args.json {
        let settings: Vec<_> = known
            .settings
            .iter()
            .map(|setting| {
                let level = |level: &SettingLevel| {
                    serde_json::json!({ "value": level.value, "risk": level.risk })
                };
                let levels: Vec<_> = known.levels_of(setting.name).iter().map(level).collect();
                serde_json::json!({ "name": setting.name, "default": setting.default,
                    "takes": crate::cli::workloads::unit(setting.unit), "help": setting.help,
                    "levels": levels })
            })
            .collect();
        terminal::print_json(
            &serde_json::json!({ "name": known.name, "about": known.about,
            "settings": settings, "missing": missing(known.name) }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: {}\n", known.name, known.about);
    if known.settings.is_empty() {
        text.push_str("No settings.\n");
    }
    for setting in known.settings {
        let default = match setting.default {
            "" => String::new(),
            value => format!(" [{value}]"),
        };
        let takes = crate::cli::workloads::unit(setting.unit);
        let _ = writeln!(
            text,
            "  {}{default}: {} ({takes})",
            setting.name, setting.help
        );
        let levels = known.levels_of(setting.name);
        if !levels.is_empty() {
            let values: Vec<&str> = levels.iter().map(|level| level.value).collect();
            let _ = writeln!(text, "      tune tries {}", values.join(", "));
        }
        for level in levels.iter().filter(|level| !level.risk.is_empty()) {
            let _ = writeln!(text, "      {} may lose {}", level.value, level.risk);
        }
    }
    for one in missing(known.name) {
        let _ = writeln!(text, "Not here: {one}");
    }
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}
