// SPDX-License-Identifier: Apache-2.0
//! `plimsoll workloads`: what can be run by name, and what can be set.

use plimsoll_classics::{SettingDefinition, SettingUnit, WorkloadDefinition};
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::workload::Workload;
use std::fmt::Write;
use std::process::ExitCode;

/// List the workloads known by name, or the settings of one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll workloads
  plimsoll workloads varmail
  plimsoll run varmail,nfiles=50000,nthreads=32 /mnt/a
  plimsoll run 'iozone -i 0 1 -t 4 -s 64m -r 4k -e' /mnt/a")]
pub(super) struct WorkloadsArgs {
    /// Workload whose settings are listed.
    #[arg(value_name = "WORKLOAD")]
    name: Option<String>,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &WorkloadsArgs) -> CliResult {
    let shown: Vec<&WorkloadDefinition> = match &args.name {
        Some(name) => vec![plimsoll_classics::find(name).map_err(CliError::invalid)?],
        None => plimsoll_classics::known().collect(),
    };
    if args.json {
        let all: Vec<serde_json::Value> = shown.iter().map(|known| as_json(known)).collect();
        terminal::print_json(&serde_json::Value::from(all));
    } else if args.name.is_some() {
        terminal::print(&details(shown[0]));
    } else {
        terminal::print(&list(&shown));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(known: &WorkloadDefinition) -> serde_json::Value {
    let settings = settings_as_json(known.settings);
    serde_json::json!({ "name": known.name, "about": known.about, "settings": settings })
}

/// Settings for programs.
pub(super) fn settings_as_json(settings: &[SettingDefinition]) -> serde_json::Value {
    let setting = |setting: &SettingDefinition| {
        serde_json::json!({ "name": setting.name, "default": setting.default,
            "unit": unit(setting.unit), "help": setting.help })
    };
    settings.iter().map(setting).collect()
}

/// A setting for forms.
pub(super) fn offered(setting: &SettingDefinition) -> serde_json::Value {
    serde_json::json!({ "name": setting.name, "value": setting.default,
        "text": format!("{} ({})", setting.help, unit(setting.unit)) })
}

/// The workloads that forms may offer: none that starts other programs.
pub(super) fn offered_workloads() -> Vec<serde_json::Value> {
    let starts_none = |known: &&WorkloadDefinition| {
        let made = plimsoll_classics::parse_on(known.name, None);
        made.is_ok_and(|workload| !matches!(workload, Workload::Commands(_)))
    };
    let offer = |known: &WorkloadDefinition| {
        let settings: Vec<_> = known.settings.iter().map(offered).collect();
        serde_json::json!({ "name": known.name, "text": known.about, "settings": settings })
    };
    plimsoll_classics::known()
        .filter(starts_none)
        .map(offer)
        .collect()
}

fn list(all: &[&WorkloadDefinition]) -> String {
    let width = all.iter().map(|known| known.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for known in all {
        let _ = writeln!(text, "{:width$}  {}", known.name, known.about);
    }
    text.push_str(
        "\nSettings of one: plimsoll workloads NAME. Also: models made by plimsoll fit (.toml), fio \
         jobs (.fio),\nfilebench's language (.f), and the original programs: fio:FILE, \
         bonnie++:ARGS, iozone:ARGS, filebench:FILE, cmd:COMMAND.",
    );
    text
}

fn details(known: &WorkloadDefinition) -> String {
    let mut text = format!("{}: {}\n\n", known.name, known.about);
    let width =
        |of: fn(&SettingDefinition) -> usize| known.settings.iter().map(of).max().unwrap_or(0);
    let (names, defaults) = (width(|s| s.name.len()), width(|s| s.default.len().max(1)));
    for setting in known.settings {
        let default = if setting.default.is_empty() {
            "–"
        } else {
            setting.default
        };
        let _ = writeln!(
            text,
            "  {:names$}  {default:defaults$}  {} ({})",
            setting.name,
            setting.help,
            unit(setting.unit)
        );
    }
    let _ = write!(text, "\nExample: plimsoll run {}", known.name);
    if let Some(setting) = known.settings.iter().find(|s| !s.default.is_empty()) {
        let _ = write!(text, ",{}={}", setting.name, setting.default);
    }
    text.push_str(" TARGET");
    text
}

/// Format of the values of a unit, in words.
pub(super) fn unit(unit: SettingUnit) -> String {
    match unit {
        SettingUnit::Size(1) => "size in bytes, or with a unit such as 64MiB".into(),
        SettingUnit::Size(each) => format!(
            "size in units of {}, or with a unit such as 64MiB",
            plimsoll_core::units::size(each as f64)
        ),
        SettingUnit::Count => "a whole number".into(),
        SettingUnit::CountOr(alone) => format!("a whole number; alone: {alone}"),
        SettingUnit::Number => "a number".into(),
        SettingUnit::Time => "a time in seconds, or with a unit such as 500ms".into(),
        SettingUnit::Flag => "on or off".into(),
        SettingUnit::Choice(words) => format!("one of {}", words.join(", ")),
        SettingUnit::Text => "text".into(),
        SettingUnit::List => "text; may be given more than once".into(),
    }
}
