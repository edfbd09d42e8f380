// SPDX-License-Identifier: Apache-2.0
//! The text that is shown where no command is given: what most people want first, on one screen. And all
//! commands by task, for the help of the program.

use std::fmt::Write;

/// Each line with a command is one that the program takes.
pub(super) const FIRST_SCREEN: &str = "\
Find how much load storage carries safely.

  plimsoll check PATH                         what is this storage good for? five minutes
  plimsoll compare A B -w varmail             which system is better under a load, and how sure
  plimsoll record --disk PATH -o REC          record what production does
  plimsoll fit REC -o LOAD.toml               make a load of a recording, with its errors
  plimsoll loadline A B -w LOAD.toml --slo 'p99 < 20ms'
                                              how many times that load each system carries
  plimsoll failover STACK                     what happens when a part fails
  plimsoll durability SERVER                  are acknowledged writes there after a power cut?

A and B are directories, files, disks, exports, stacks (plimsoll stack list) or simulated
devices such as 'sim(flash)'. Each measurement leaves a folder with report.html.

  plimsoll COMMAND --help    options of a command, with examples
  plimsoll --help            all commands, and exit codes
  plimsoll doctor            what this machine can do, and what is missing";

/// All commands by the task they are for.
const TASKS: [(&str, &[&str]); 6] = [
    (
        "Know a load",
        &[
            "record", "profile", "fit", "verify", "merge", "mix", "export",
        ],
    ),
    (
        "Measure",
        &[
            "check", "run", "compare", "loadline", "fit-for", "layers", "tune", "repro",
        ],
    ),
    (
        "Read results",
        &[
            "report", "diff", "import", "serve", "push", "history", "team", "gate",
        ],
    ),
    ("Build storage systems", &["stack", "vm", "raze"]),
    ("Break them", &["failover", "durability", "ledger"]),
    (
        "Begin",
        &["doctor", "new", "workloads", "man", "completions"],
    ),
];

/// The list of commands in the help of the program.
pub(super) fn commands_by_task(program: &clap::Command) -> String {
    let mut text = String::new();
    for (task, names) in TASKS {
        let _ = writeln!(text, "{task}:");
        for name in names {
            let about = program
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn it_is_one_screen_and_names_commands_that_exist() {
        assert!(FIRST_SCREEN.lines().count() <= 24);
        assert!(FIRST_SCREEN.lines().all(|line| line.chars().count() <= 95));
        let command = super::super::Cli::command();
        let named = FIRST_SCREEN
            .lines()
            .filter_map(|line| line.strip_prefix("  plimsoll "))
            .filter_map(|rest| rest.split(' ').next())
            .filter(|name| name.chars().all(|c| c.is_ascii_lowercase()));
        let mut count = 0;
        for name in named {
            assert!(command.find_subcommand(name).is_some(), "{name}");
            count += 1;
        }
        assert_eq!(count, 8, "seven for storage, and doctor");
    }

    #[test]
    fn every_command_is_listed_once_in_a_line_of_its_own() {
        let program = super::super::definition();
        let shown = program
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = TASKS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
        let text = commands_by_task(&program);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
