// SPDX-License-Identifier: Apache-2.0
//! Defaults of a user or a team, from a file: values of options, and the folder of results.
//!
//! They apply to commands whose campaign comes from options. They do not apply to campaign files, published
//! experiments and gates, which mean the same on every machine.

use plimsoll_console::context::variable;
use plimsoll_console::failure::CliError;
use plimsoll_machine::host::check_way;
use plimsoll_run::toml_file;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Options that may have a default. None of them starts a program, overwrites a device or is a secret.
const OPTIONS: [&str; 9] = [
    "blocks", "budget", "effect", "fail-on", "for", "margin", "slo", "stop", "width",
];

/// Commands that take them.
const COMMANDS: [&str; 6] = [
    "compare", "failover", "fit-for", "layers", "loadline", "tune",
];

/// The folder that the file names.
static RESULTS: OnceLock<PathBuf> = OnceLock::new();

/// The folder of a run that has no -o.
pub(super) fn results_folder(name: impl AsRef<Path>) -> PathBuf {
    results().join(name)
}

/// The folder that such runs are in.
pub(super) fn results() -> &'static Path {
    RESULTS
        .get()
        .map_or(Path::new("plimsoll-results"), PathBuf::as_path)
}

/// Defaults of options for one command.
pub(super) struct OptionDefaults {
    file: PathBuf,
    /// Names of options without dashes, with their values.
    values: Vec<OptionDefault>,
}

struct OptionDefault {
    option: String,
    texts: Vec<String>,
}

/// The file: that of `PLIMSOLL_CONFIG`, of the user, or of the machine.
fn file() -> Option<PathBuf> {
    if let Some(path) = variable("PLIMSOLL_CONFIG") {
        // As people write that there is to be none.
        return Some(path).filter(|path| *path != Path::new("/dev/null"));
    }
    // A relative directory counts as none, by the specification of XDG.
    let of_xdg = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let of_user = of_xdg.or_else(|| Some(variable("HOME")?.join(".config")));
    let of_user = of_user.map(|directory| directory.join("plimsoll/config.toml"));
    let of_machine = PathBuf::from("/etc/plimsoll/config.toml");
    of_user
        .into_iter()
        .chain([of_machine])
        .find(|path| path.exists())
}

impl OptionDefaults {
    /// The defaults for the command that these words name.
    ///
    /// # Errors
    /// When the file cannot be read, or has a key that it may not have.
    pub(super) fn of(words: &[String]) -> Result<Option<OptionDefaults>, CliError> {
        let Some(file) = file() else {
            return Ok(None);
        };
        // It says where root writes its results: no other user may change it.
        check_way(&file)
            .map_err(|error| CliError::usage(format!("read the configuration: {error}")))?;
        let text = toml_file::read("configuration", &file)?;
        let wrong = |reason: String| {
            CliError::invalid(format!("configuration {}: {reason}", file.display()))
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        let mut unknown = table
            .keys()
            .filter(|key| !["results", "options"].contains(&key.as_str()));
        if let Some(key) = unknown.next() {
            let text = format!("unknown key '{key}'; it may have results and [options]");
            return Err(wrong(text));
        }
        if let Some(results) = table.get("results") {
            let path = results.as_str().map(PathBuf::from);
            let path = path.filter(|path| path.is_absolute());
            let path = path.ok_or_else(|| wrong("results: expected an absolute path".into()))?;
            let _ = RESULTS.set(path);
        }
        let command = words.first().map_or("", String::as_str);
        let values = match table.get("options") {
            None => Vec::new(),
            Some(toml::Value::Table(options)) => values_for(command, options).map_err(wrong)?,
            Some(_) => return Err(wrong("options: expected a table".into())),
        };
        let takes_none = !COMMANDS.contains(&command) || words.iter().any(|w| w == "--campaign");
        let is_empty = values.is_empty() || takes_none;
        Ok((!is_empty).then_some(OptionDefaults { file, values }))
    }

    /// The command line with them.
    pub(super) fn apply(&self, program: clap::Command, command: &str) -> clap::Command {
        program.mut_subcommand(command, |command| {
            self.values.iter().fold(command, |command, value| {
                command.mut_args(
                    |argument| match argument.get_long() == Some(&value.option) {
                        true => argument.required(false).default_values(value.texts.clone()),
                        false => argument,
                    },
                )
            })
        })
    }

    /// The line that reports the defaults in use and the file that they come from.
    pub(super) fn notice(&self) -> String {
        let told = self.values.iter().map(|value| {
            format!(
                "--{} {}",
                value.option,
                value.texts.join(&format!(" --{} ", value.option))
            )
        });
        let told: Vec<String> = told.collect();
        format!("defaults of {}: {}", self.file.display(), told.join(" "))
    }
}

/// Values for a command: those of all commands, then its own.
fn values_for(command: &str, options: &toml::Table) -> Result<Vec<OptionDefault>, String> {
    let mut values: Vec<OptionDefault> = Vec::new();
    let own = options.get(command).and_then(toml::Value::as_table);
    for (name, value) in options {
        match value {
            toml::Value::Table(inner) if COMMANDS.contains(&name.as_str()) => {
                inner.keys().try_for_each(|option| check_option(option))?;
            }
            toml::Value::Table(_) => {
                return Err(format!(
                    "options.{name}: expected one of the commands {}",
                    COMMANDS.join(", ")
                ));
            }
            _ => check_option(name)?,
        }
    }
    let program = super::definition();
    let known = program.find_subcommand(command);
    let has = |option: &str| {
        known.is_some_and(|known| {
            known
                .get_arguments()
                .any(|one| one.get_long() == Some(option))
        })
    };
    let all = options.iter().filter(|(_, value)| !value.is_table());
    for (option, value) in all.chain(own.into_iter().flatten()) {
        if !has(option) {
            continue;
        }
        values.retain(|before| before.option != *option);
        values.push(OptionDefault {
            option: option.clone(),
            texts: texts(option, value)?,
        });
    }
    Ok(values)
}

fn check_option(option: &str) -> Result<(), String> {
    match OPTIONS.contains(&option) {
        true => Ok(()),
        false => Err(format!(
            "options: '{option}' can have no default; these can: {}",
            OPTIONS.join(", ")
        )),
    }
}

fn texts(option: &str, value: &toml::Value) -> Result<Vec<String>, String> {
    match value {
        toml::Value::String(text) => Ok(vec![text.clone()]),
        toml::Value::Integer(number) => Ok(vec![number.to_string()]),
        toml::Value::Float(number) => Ok(vec![number.to_string()]),
        toml::Value::Array(all) => {
            let each = all.iter().map(|one| texts(option, one));
            Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => Err(format!(
            "options.{option}: expected a text, a number or a list of them"
        )),
    }
}
