// SPDX-License-Identifier: Apache-2.0
//! Mistakes in the words of a command line: what is wrong, and what to type in its place.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use plimsoll_core::nearest::nearest;
use plimsoll_core::text::enumerated;

/// Words that are commands of other programs, and how the same is done here.
const FOREIGN_COMMANDS: [(&str, &str); 7] = [
    ("version", "plimsoll --version prints it"),
    ("init", "plimsoll new writes a commented file to begin with"),
    (
        "list",
        "plimsoll workloads and plimsoll stack list print lists",
    ),
    (
        "ls",
        "plimsoll workloads and plimsoll stack list print lists",
    ),
    ("bench", "plimsoll run WORKLOAD TARGET runs one workload"),
    ("start", "plimsoll run WORKLOAD TARGET runs one workload"),
    ("clean", "plimsoll raze removes all that plimsoll made"),
];

/// Options that have another name than a user may remember.
const RENAMED_OPTIONS: [(&str, &str, &str); 8] = [
    ("export", "--to", "--format"),
    ("push", "--to", "--server"),
    ("loadline", "--from", "--min"),
    ("loadline", "--to", "--max"),
    ("fit-for", "--from", "--min"),
    ("fit-for", "--to", "--max"),
    ("", "--no-verify", "--no-self-test"),
    ("", "--verify-data", "--check-data"),
];

/// The error of the parser, with a way out where one is known.
pub(super) fn text(error: &clap::Error, words: &[String]) -> String {
    let command = &MistakenCommand::of(words);
    let mended = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(error, command),
        ErrorKind::UnknownArgument => unknown_argument(error, command),
        ErrorKind::MissingRequiredArgument => missing_argument(error, command),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => wrong_value(error, command),
        _ => None,
    };
    let plain = || {
        let text = error.render().to_string();
        let text = text.replace("\n\nFor more information, try '--help'.", "");
        text.trim_end().to_owned()
    };
    mended.map_or_else(plain, |mended| {
        format!("error: {}\n  hint: {}", mended.error, mended.hint)
    })
}

/// An error in words of plimsoll, and its way out.
struct ExplainedMistake {
    error: String,
    hint: String,
}

/// The command that the words name, as far as they name one.
struct MistakenCommand {
    root: clap::Command,
    /// Its names, `plimsoll` the first of them.
    names: Vec<String>,
    command: clap::Command,
}

impl MistakenCommand {
    fn of(words: &[String]) -> MistakenCommand {
        let commands = super::commands_named(words);
        let names = commands.iter().map(|command| command.get_name().to_owned());
        MistakenCommand {
            names: names.collect(),
            root: commands[0].clone(),
            command: commands[commands.len() - 1].clone(),
        }
    }

    fn name(&self) -> String {
        self.names.join(" ")
    }

    fn has(&self, option: &str) -> bool {
        has_option(&self.command, option)
    }

    /// The first of the examples in its help.
    fn example(&self) -> Option<String> {
        let help = self.command.get_after_help()?.to_string();
        let line = help.lines().map(str::trim);
        let mut lines = line.filter(|line| line.starts_with("plimsoll "));
        lines.next().map(|line| format!("for example: {line}"))
    }

    /// Other commands that have this option, by their names.
    fn others_with(&self, option: &str) -> Vec<&str> {
        let commands = self.root.get_subcommands();
        let shown = commands.filter(|command| !command.is_hide_set());
        let with = shown.filter(|command| has_option(command, option));
        with.map(clap::Command::get_name).collect()
    }
}

fn has_option(command: &clap::Command, option: &str) -> bool {
    let long = option.strip_prefix("--");
    let mut arguments = command.get_arguments();
    arguments.any(|argument| long.is_some() && argument.get_long() == long)
}

/// A text that the parser gives with its error.
fn named(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

fn unknown_command(error: &clap::Error, command: &MistakenCommand) -> Option<ExplainedMistake> {
    let word = named(error, ContextKind::InvalidSubcommand)?;
    let foreign = FOREIGN_COMMANDS.iter().find(|(known, _)| *known == word);
    let commands = command.command.get_subcommands();
    let shown = commands.filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    // Of a short name half of the letters are soon wrong.
    let begins = |name: &&str| name.starts_with(&word) || word.starts_with(name);
    let near = nearest(&word, names.iter().copied()).or_else(|| names.iter().copied().find(begins));
    let hint = match (foreign, near) {
        (Some((_, hint)), _) if command.names.len() == 1 => (*hint).to_owned(),
        (_, Some(near)) => format!("did you mean {} {near}?", command.name()),
        _ if plimsoll_classics::find(&word).is_ok() => {
            format!("{word} is a workload: plimsoll run {word} TARGET")
        }
        _ => format!("{} --help lists the commands", command.name()),
    };
    Some(ExplainedMistake {
        error: format!("{} has no command '{word}'", command.name()),
        hint,
    })
}

fn unknown_argument(error: &clap::Error, command: &MistakenCommand) -> Option<ExplainedMistake> {
    let word = named(error, ContextKind::InvalidArg)?;
    let name = command.name();
    if !word.starts_with('-') {
        let help = || format!("{name} -h shows its arguments");
        return Some(ExplainedMistake {
            error: format!("{name} does not take the argument '{word}'"),
            hint: command.example().unwrap_or_else(help),
        });
    }
    let own = command.command.get_arguments();
    let own = own.filter(|argument| !argument.is_hide_set());
    let own = own.filter_map(clap::Arg::get_long);
    let near = nearest(word.trim_start_matches('-'), own);
    let others = command.others_with(&word);
    let mut renamed = RENAMED_OPTIONS.iter();
    let renamed = renamed.find(|(of, old, new)| {
        *old == word && command.has(new) && (of.is_empty() || name.ends_with(of))
    });
    let hint = match (renamed, near) {
        (Some((_, _, new)), _) => format!("it is called {new} now"),
        (None, Some(near)) if others.is_empty() => format!("did you mean --{near}?"),
        _ if !others.is_empty() => format!(
            "{} {} {word}; {name} -h lists the options of this command",
            enumerated(&others),
            if others.len() == 1 { "has" } else { "have" }
        ),
        _ => format!("{name} -h lists the options"),
    };
    Some(ExplainedMistake {
        error: format!("{name} has no option {word}"),
        hint,
    })
}

fn missing_argument(error: &clap::Error, command: &MistakenCommand) -> Option<ExplainedMistake> {
    let missing = match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(texts) => texts.clone(),
        ContextValue::String(text) => vec![text.clone()],
        _ => return None,
    };
    let is_one = missing.len() == 1;
    Some(ExplainedMistake {
        error: format!(
            "{}: {} {} missing",
            command.name(),
            enumerated(&missing),
            if is_one { "is" } else { "are" }
        ),
        hint: command.example()?,
    })
}

/// A value that an option does not take, or none: with what the option is for.
fn wrong_value(error: &clap::Error, command: &MistakenCommand) -> Option<ExplainedMistake> {
    let option = named(error, ContextKind::InvalidArg)?;
    let long = option.split(' ').next()?.trim_start_matches('-');
    let mut arguments = command.command.get_arguments();
    let argument = arguments.find(|argument| argument.get_long() == Some(long))?;
    let text = error.render().to_string();
    let first = text.trim_start_matches("error: ").split("\n\n").next()?;
    Some(ExplainedMistake {
        error: first.to_owned(),
        hint: format!("{option}: {}", argument.get_help()?),
    })
}
