// SPDX-License-Identifier: Apache-2.0
//! The reference of the guide, made from the program: `UPDATE_SNAPSHOTS=1 cargo test -p plimsoll --bin
//! plimsoll reference` writes `docs/reference/` anew. Also: every command that the pages show is one that the
//! program takes, and every command that prints has `--json`.

#[path = "../../tests/integration/cli/docs/commands.rs"]
mod commands;
#[path = "../../../plimsoll-core/src/schemas/committed.rs"]
mod committed;

use super::{Cli, stack, with_negatives, workloads};
use clap::{Arg, Command, CommandFactory as _};
use commands::{DocCommand, DocTestMode};
use plimsoll_console::failure::EXIT_CODES;
use plimsoll_core::settings::SettingDefinition;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- Made by a test from the program: \
    UPDATE_SNAPSHOTS=1 cargo test -p plimsoll --bin plimsoll reference -->\n";

/// Commands that print no result of their own.
const WITHOUT_JSON: [(&str, &str); 5] = [
    ("plimsoll serve", "programs ask its API"),
    ("plimsoll vm shell", "it prints what the command prints"),
    ("plimsoll repro", "its page and tables are files"),
    ("plimsoll man", "it prints pages"),
    ("plimsoll completions", "it prints scripts"),
];

fn program() -> Command {
    let mut program = with_negatives(Cli::command());
    program.build();
    program
}

/// The visible commands that do something, with their names.
fn leaves(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    let below: Vec<&Command> = command
        .get_subcommands()
        .filter(|one| is_shown(one))
        .collect();
    if below.is_empty() || !command.is_subcommand_required_set() && name != "plimsoll" {
        found.push((name.into(), command.clone()));
    }
    for one in below {
        leaves(one, &format!("{name} {}", one.get_name()), found);
    }
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Compares a page with what is committed, or writes it.
fn check(name: &str, text: &str) {
    committed::check(&format!("docs/reference/{name}"), text);
}

/// Text of help as Markdown: what looks like an element of a page is text.
fn prose(text: &str) -> String {
    let escaped = text.replace('<', "&lt;").replace('*', "\\*");
    escaped.replace('|', "\\|")
}

/// A value of a table, as it is typed.
fn typed(text: &str) -> String {
    match text {
        "" => "–".into(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}

fn option(arg: &Arg) -> String {
    let value = || {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        names.join(" ")
    };
    let takes = arg.get_action().takes_values();
    let mut name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => value(),
    };
    if takes && !arg.is_positional() {
        let _ = write!(name, " {}", value());
    }
    let help = arg.get_long_help().or(arg.get_help());
    let mut help = help.map(ToString::to_string).unwrap_or_default();
    if !help.ends_with('.') {
        help.push('.');
    }
    let mut text = format!("* `{name}`: {}", prose(&help).replace("\n\n", "\n\n  "));
    let choices: Vec<_> = arg.get_possible_values();
    if takes && !choices.is_empty() {
        let names: Vec<&str> = choices.iter().map(|choice| choice.get_name()).collect();
        let _ = write!(text, " One of `{}`.", names.join("`, `"));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|d| d.to_string_lossy())
        .collect();
    if takes && !defaults.is_empty() {
        let _ = write!(text, " Default: `{}`.", defaults.join(" "));
    }
    text.push('\n');
    text
}

fn section(name: &str, command: &Command) -> String {
    let level = if name.split(' ').count() > 2 {
        "###"
    } else {
        "##"
    };
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\n{level} {name}\n\n{}\n", prose(&about));
    let args = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let (places, options): (Vec<&Arg>, Vec<&Arg>) = args.partition(|arg| arg.is_positional());
    let mut usage = command.clone();
    let usage = usage.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let usage = if usage.starts_with("plimsoll") {
        usage.into()
    } else {
        format!("plimsoll {usage}")
    };
    let _ = write!(text, "\n```text\n{usage}\n```\n");
    for args in [places, options] {
        if !args.is_empty() {
            text.push('\n');
        }
        text.extend(args.into_iter().map(option));
    }
    if let Some(after) = command.get_after_help().filter(|_| name != "plimsoll") {
        let _ = write!(text, "\n```text\n{}\n```\n", after.to_string().trim_end());
    }
    for below in command.get_subcommands().filter(|one| is_shown(one)) {
        text.push_str(&section(&format!("{name} {}", below.get_name()), below));
    }
    text
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    let program = program();
    let mut text = format!(
        "{HEAD}\n# Commands and options\n\nWhat `plimsoll COMMAND --help` says, of all commands. What ends a \
         command with which code: [exit codes](exit-codes.md).\n"
    );
    for command in program.get_subcommands().filter(|one| is_shown(one)) {
        text.push_str(&section(
            &format!("plimsoll {}", command.get_name()),
            command,
        ));
    }
    check("commands.md", &text);
}

#[test]
fn the_reference_of_exit_codes_is_what_the_program_says() {
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in EXIT_CODES.lines().skip(1) {
        let line = line.trim();
        match line.split_once(' ') {
            Some((code, words)) if code.parse::<u8>().is_ok() => {
                rows.push((code.into(), words.trim().into()));
            }
            _ => {
                let (_, words) = rows.last_mut().unwrap();
                let _ = write!(words, " {line}");
            }
        }
    }
    assert!(rows.len() >= 10);
    let mut text = format!("{HEAD}\n# Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for (code, words) in rows {
        let _ = writeln!(text, "| {code} | {words} |");
    }
    text.push_str(
        "\nAlso with `--json`: a command that fails prints its words to standard error and nothing to standard \
         output ([JSON](../json.md#failures)).\n",
    );
    check("exit-codes.md", &text);
}

fn settings(text: &mut String, settings: &[SettingDefinition]) {
    if settings.is_empty() {
        text.push_str("\nIt has no settings.\n");
        return;
    }
    text.push_str("\n| setting | default | value | meaning |\n| --- | --- | --- | --- |\n");
    for one in settings {
        let value = workloads::unit(one.unit);
        let (default, help) = (typed(one.default), prose(one.help));
        let _ = writeln!(text, "| `{}` | {default} | {value} | {help} |", one.name);
    }
}

#[test]
fn the_reference_of_workloads_is_what_the_program_says() {
    let mut text = format!(
        "{HEAD}\n# Settings of workloads\n\nWhat `plimsoll workloads NAME` says, of all workloads: give settings \
         after commas, `varmail,nfiles=50000`. The pages of the [workloads](../workloads/README.md) say what they \
         do.\n"
    );
    for known in plimsoll_classics::known() {
        let _ = write!(text, "\n## {}\n\n{}\n", known.name, prose(known.about));
        settings(&mut text, known.settings);
    }
    check("workloads.md", &text);
}

#[test]
fn the_reference_of_stacks_is_what_the_program_says() {
    let mut text = format!(
        "{HEAD}\n# Settings of stacks and layers\n\nWhat `plimsoll stack show NAME` says, of all stacks and layers: \
         give settings in parentheses, layers after `+`: `'raid5(transport=nbd)+crypt'`. The pages of the \
         [stacks](../stacks/README.md) say what they are made of. *Levels* are what `plimsoll tune` tries.\n"
    );
    for (heading, known) in [
        ("Stacks", stack::list::stacks()),
        ("Layers", stack::list::layers()),
    ] {
        let _ = write!(text, "\n## {heading}\n");
        for one in known {
            let _ = write!(text, "\n### {}\n\n{}\n", one.name, prose(one.about));
            settings(&mut text, one.settings);
            for levels in one.levels.iter().filter(|of| of.levels.len() > 1) {
                let values: Vec<&str> = levels.levels.iter().map(|level| level.value).collect();
                let _ = write!(
                    text,
                    "\nLevels of `{}`: `{}`.\n",
                    levels.setting,
                    values.join("`, `")
                );
            }
        }
    }
    check("stacks.md", &text);
}

/// Whether clap takes the words; help and version count as taken.
fn parse(words: &[String]) -> Result<(), String> {
    match program().try_get_matches_from(words) {
        Err(error) if error.use_stderr() => Err(error.to_string()),
        _ => Ok(()),
    }
}

#[test]
fn every_command_of_the_pages_is_one_that_the_program_takes() {
    let commands = commands::all().unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
    let mut faults = Vec::new();
    for command in commands
        .iter()
        .filter(|command| command.words[0] == "plimsoll")
    {
        if let Err(error) = parse(&command.words) {
            faults.push(format!(
                "{}:{}: {}\n{error}",
                command.page, command.line, command.text
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    check("examples.md", &table(&commands));
}

/// Which commands of which page are tested how.
fn table(commands: &[DocCommand]) -> String {
    let mut pages: BTreeMap<&str, Vec<&DocCommand>> = BTreeMap::new();
    for command in commands {
        pages.entry(&command.page).or_default().push(command);
    }
    let count = |of: &[&DocCommand], wanted: fn(&DocTestMode) -> bool| {
        of.iter().filter(|command| wanted(&command.mode)).count()
    };
    let columns: [fn(&DocTestMode) -> bool; 4] = [
        |mode| *mode == DocTestMode::Run,
        |mode| *mode == DocTestMode::DryRun,
        |mode| matches!(mode, DocTestMode::Parse(_)),
        |mode| matches!(mode, DocTestMode::Ours | DocTestMode::Other),
    ];
    let mut text = format!(
        "{HEAD}\n# How the commands of these pages are tested\n\nEvery command that a page shows is tried by a test: \
         *run* as it stands, with `--dry-run` added, or only *parsed*, where it would need machines, root, another \
         program or hours. *Others* are programs and scripts beside plimsoll; those of this repository must be \
         there.\n\n| page | run | dry run | parsed | others |\n| --- | --- | --- | --- | --- |\n"
    );
    let all: Vec<&DocCommand> = commands.iter().collect();
    let sums = columns.map(|wanted| count(&all, wanted));
    for (page, of) in &pages {
        let [run, dry, parsed, others] = columns.map(|wanted| count(of, wanted));
        let _ = writeln!(
            text,
            "| [{page}](../../{page}) | {run} | {dry} | {parsed} | {others} |"
        );
    }
    let [run, dry, parsed, others] = sums;
    let _ = writeln!(text, "| all | {run} | {dry} | {parsed} | {others} |");
    text.push_str("\n## Only parsed\n\n| command | because |\n| --- | --- |\n");
    let mut seen = Vec::new();
    for command in commands {
        if let DocTestMode::Parse(why) = command.mode {
            let shown = command.words.join(" ");
            if !seen.contains(&shown) {
                let _ = writeln!(text, "| {} | {why} |", typed(&shown));
                seen.push(shown);
            }
        }
    }
    text
}

#[test]
fn every_example_of_the_help_is_one_that_the_program_takes() {
    let mut found = Vec::new();
    leaves(&program(), "plimsoll", &mut found);
    let (mut count, mut faults) = (0, Vec::new());
    let mut all = vec![program()];
    while let Some(command) = all.pop() {
        let after = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        for line in after
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("plimsoll "))
        {
            count += 1;
            let words = commands::words(line).unwrap();
            if let Err(error) = parse(&words) {
                faults.push(format!("{}: {line}\n{error}", command.get_name()));
            }
        }
        all.extend(command.get_subcommands().cloned());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 50, "{count}");
}

#[test]
fn every_command_that_prints_a_result_has_json() {
    let mut found = Vec::new();
    leaves(&program(), "plimsoll", &mut found);
    let lacking: Vec<&String> = found
        .iter()
        .filter(|(_, command)| {
            !command
                .get_arguments()
                .any(|arg| arg.get_long() == Some("json"))
        })
        .map(|(name, _)| name)
        .filter(|name| !WITHOUT_JSON.iter().any(|(known, _)| known == name))
        .collect();
    assert!(lacking.is_empty(), "without --json: {lacking:?}");
    assert!(found.len() > 40, "{}", found.len());
}
