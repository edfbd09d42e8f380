// SPDX-License-Identifier: Apache-2.0
//! `plimsoll man`: manual pages, made from the definition of the command line.
//!
//! They are not kept anywhere: a package makes them from the program that it contains, so they cannot be
//! older than it. Manual: `docs/install.md`.

use clap::Command;
use clap_mangen::Man;
use plimsoll_archive::write_result;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, EXIT_CODES};
use plimsoll_console::output::{check_output, refuse_existing};
use plimsoll_console::terminal;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Environment variables that change what the program does.
const ENVIRONMENT: [(&str, &str); 12] = [
    (
        "PLIMSOLL_STATE",
        "Directory of journals and stacks, instead of those under FILES.",
    ),
    (
        "PLIMSOLL_CONFIG",
        "File of defaults for options and results, instead of those under FILES.",
    ),
    (
        "XDG_CONFIG_HOME",
        "The file of defaults is plimsoll/config.toml below it.",
    ),
    (
        "XDG_STATE_HOME",
        "Journals and stacks of ordinary users are kept in plimsoll below it.",
    ),
    (
        "XDG_CACHE_HOME",
        "What workloads that build or copy programs keep for the next run is below it.",
    ),
    (
        "PATH",
        "Where the programs that stacks need are looked for.",
    ),
    (
        "PLIMSOLL_SERVER",
        "The server that runs are pushed to, where --server names none.",
    ),
    ("PLIMSOLL_TOKEN", "The token for that server."),
    (
        "PLIMSOLL_DATABASE",
        "Address of the team's database, where --database names none.",
    ),
    (
        "SLURM_JOB_ID",
        "Set by Slurm in a job: --clients slurm:N uses its nodes and asks for no others.",
    ),
    ("NO_COLOR", "Set to anything: output has no colour."),
    ("COLUMNS", "Width of tables and charts on the terminal."),
];

const FILES: [(&str, &str); 4] = [
    (
        "~/.config/plimsoll/config.toml",
        "Defaults of options, and the folder of results; /etc/plimsoll/config.toml where there is none.",
    ),
    (
        "/var/lib/plimsoll",
        "Journals and stacks of root: what plimsoll raze undoes.",
    ),
    ("~/.local/state/plimsoll", "The same of other users."),
    (
        "plimsoll-results",
        "Run folders, in the directory in which a run was started without -o.",
    ),
];

/// Print a manual page, or write all of them into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll man | man -l -
  plimsoll man stack up | man -l -
  plimsoll man --dir ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Subcommand whose page is printed, such as `compare` or `stack up` (default: plimsoll).
    #[arg(conflicts_with = "dir")]
    command: Vec<String>,
    /// Write the pages of all subcommands into DIR, which must exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long, requires = "dir")]
    force: bool,
}

/// A manual page: the name of its file, and its text.
struct ManualPage {
    file: String,
    roff: String,
}

pub(super) fn main(args: &ManArgs) -> CliResult {
    let root = definition();
    if let Some(dir) = &args.dir {
        let pages = pages_of(&root);
        for page in &pages {
            check_output(&dir.join(&page.file), args.force)?;
        }
        for page in &pages {
            let path = dir.join(&page.file);
            refuse_existing(&path, args.force)?;
            write_result(&path, &page.roff).map_err(|error| {
                CliError::new(
                    CliExitCode::Failed,
                    format!("write {}: {error}", path.display()),
                )
            })?;
        }
        terminal::say(&format!("{} pages in {}", pages.len(), dir.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &root;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            let whole = args.command.join(" ");
            CliError::invalid(format!("unknown subcommand '{whole}'"))
                .hint("see the list: plimsoll --help")
        })?;
    }
    terminal::print(&page_of(command).roff);
    Ok(ExitCode::SUCCESS)
}

/// The command line with the whole name of each subcommand, and without `help`, which has no page.
fn definition() -> Command {
    let mut root = super::definition().disable_help_subcommand(true);
    root.build();
    root
}

/// The page of a command and those of its subcommands.
fn pages_of(command: &Command) -> Vec<ManualPage> {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut pages = vec![page_of(command)];
    pages.extend(shown.flat_map(pages_of));
    pages
}

fn page_of(command: &Command) -> ManualPage {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let version = concat!("plimsoll ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone().disable_help_subcommand(true))
        .title(name.to_uppercase())
        .source(version)
        .manual("Plimsoll Manual");
    let mut out = Vec::new();
    let has_commands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    man.render_title(&mut out)
        .and_then(|()| man.render_name_section(&mut out))
        .and_then(|()| man.render_synopsis_section(&mut out))
        .and_then(|()| man.render_description_section(&mut out))
        .and_then(|()| man.render_options_section(&mut out))
        .and_then(|()| match has_commands {
            true => man.render_subcommands_section(&mut out),
            false => Ok(()),
        })
        .expect("memory takes what is written");
    let mut roff = String::from_utf8(out).expect("roff is text");
    let is_root = name == "plimsoll";
    if !is_root {
        let help = command.get_after_help().map(ToString::to_string);
        after_help(&mut roff, &help.unwrap_or_default());
    }
    if is_root {
        table(&mut roff, "EXIT STATUS", exit_codes());
        let entries = |of: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            owned.collect()
        };
        table(&mut roff, "ENVIRONMENT", entries(&ENVIRONMENT));
        table(&mut roff, "FILES", entries(&FILES));
    } else {
        section(&mut roff, "EXIT STATUS");
        text(&mut roff, "As in plimsoll(1).");
    }
    see_also(&mut roff, command, name);
    ManualPage {
        file: format!("{name}.1"),
        roff,
    }
}

/// Help text after the options: examples as they are typed, all else as notes.
fn after_help(roff: &mut String, help: &str) {
    let is_example = |paragraph: &&str| paragraph.starts_with("Example");
    let paragraphs = || help.split("\n\n").filter(|text| !text.trim().is_empty());
    let notes: Vec<&str> = paragraphs().filter(|p| !is_example(p)).collect();
    if !notes.is_empty() {
        section(roff, "NOTES");
        for note in notes {
            roff.push_str(".PP\n");
            note.lines().for_each(|line| text(roff, line));
        }
    }
    for example in paragraphs().filter(is_example) {
        section(roff, "EXAMPLES");
        roff.push_str(".nf\n");
        // The first line is the heading.
        for line in example.lines().skip(1) {
            text(roff, line.trim_start());
        }
        roff.push_str(".fi\n");
    }
}

/// The rows of `EXIT_CODES`; a meaning goes on in lines that have no code.
fn exit_codes() -> Vec<(String, String)> {
    let mut codes: Vec<(String, String)> = Vec::new();
    for line in EXIT_CODES.lines().skip(1) {
        let words = line.trim();
        match (words.split_once(' '), codes.last_mut()) {
            (Some((code, meaning)), _) if code.parse::<u8>().is_ok() => {
                codes.push((code.into(), meaning.trim().into()));
            }
            (_, Some((_, meaning))) => {
                let _ = write!(meaning, " {words}");
            }
            (_, None) => {}
        }
    }
    codes
}

fn see_also(roff: &mut String, command: &Command, name: &str) {
    let mut others: Vec<String> = Vec::new();
    // `plimsoll-stack-up` belongs to `plimsoll-stack`, `plimsoll-fit-for` to `plimsoll`.
    let parent = name.strip_suffix(command.get_name());
    if let Some(parent) = parent.and_then(|parent| parent.strip_suffix('-')) {
        others.push(format!("{parent}(1)"));
    }
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    others.extend(shown.map(|sub| format!("{name}-{}(1)", sub.get_name())));
    section(roff, "SEE ALSO");
    text(roff, &others.join(", "));
}

fn section(roff: &mut String, heading: &str) {
    let _ = writeln!(roff, ".SH \"{heading}\"");
}

fn table(roff: &mut String, heading: &str, rows: Vec<(String, String)>) {
    section(roff, heading);
    for (term, meaning) in rows {
        roff.push_str(".TP\n.B ");
        text(roff, &term);
        text(roff, &meaning);
    }
}

/// A line of text, of which nothing is read as a request or an escape.
fn text(roff: &mut String, line: &str) {
    if line.starts_with(['.', '\'']) {
        roff.push_str("\\&");
    }
    for c in line.chars() {
        match c {
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            '\'' => roff.push_str("\\(aq"),
            '~' => roff.push_str("\\(ti"),
            '^' => roff.push_str("\\(ha"),
            '`' => roff.push_str("\\(ga"),
            other => roff.push(other),
        }
    }
    roff.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every visible option and value of a command, as it is typed.
    fn typed(command: &Command) -> Vec<String> {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let mut typed = Vec::new();
        for arg in shown {
            typed.extend(arg.get_long().map(|long| format!("--{long}")));
            typed.extend(arg.get_short().map(|short| format!("-{short}")));
            let values = arg.get_possible_values().into_iter();
            typed.extend(values.map(|value| value.get_name().to_owned()));
        }
        typed
    }

    fn visit(command: &Command, pages: &[ManualPage], faults: &mut Vec<String>) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let Some(page) = pages.iter().find(|page| page.file == format!("{name}.1")) else {
            faults.push(format!("{name} has no page"));
            return;
        };
        // As a reader sees it: without escapes and fonts.
        let mut read = page.roff.replace("\\-", "-");
        for font in ["\\fB", "\\fI", "\\fR", "\\&"] {
            read = read.replace(font, "");
        }
        for typed in typed(command) {
            if !read.contains(&typed) {
                faults.push(format!("{name}: its page lacks {typed}"));
            }
        }
        for heading in [
            ".SH NAME",
            ".SH SYNOPSIS",
            ".SH DESCRIPTION",
            ".SH \"SEE ALSO\"",
        ] {
            if !page.roff.contains(heading) {
                faults.push(format!("{name}: its page lacks {heading}"));
            }
        }
        let help = command.get_after_help().map(ToString::to_string);
        for example in help.iter().flat_map(|help| help.lines()) {
            let is_command = example.trim_start().starts_with("plimsoll ");
            let mut line = String::new();
            text(&mut line, example.trim_start());
            if is_command && !page.roff.contains(&line) {
                faults.push(format!("{name}: its page lacks the example {example}"));
            }
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            if !read.contains(&format!("{name}-{}(1)", sub.get_name())) {
                faults.push(format!("{name}: its page lacks {}", sub.get_name()));
            }
            visit(sub, pages, faults);
        }
    }

    #[test]
    fn every_command_option_and_example_is_in_a_page() {
        let root = definition();
        let pages = pages_of(&root);
        let mut faults = Vec::new();
        visit(&root, &pages, &mut faults);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        let names: BTreeSet<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(names.len(), pages.len(), "two pages in one file");
        assert!(!names.iter().any(|name| name.contains("watchdog")));
    }

    #[test]
    fn every_exit_code_stands_in_the_first_page() {
        let codes = exit_codes();
        for line in EXIT_CODES.lines().skip(1) {
            let code = line[..line.len().min(6)].trim();
            assert!(
                code.is_empty() || codes.iter().any(|(known, _)| known == code),
                "{code}"
            );
        }
        assert_eq!(codes.last().map(|(code, _)| code.as_str()), Some("130"));
        let page = page_of(&definition());
        for (code, meaning) in codes {
            let mut row = format!(".B {code}\n");
            text(&mut row, &meaning);
            assert!(page.roff.contains(&row), "{row}");
        }
    }

    /// Variables that are no part of how the program is used: tests', the shell's and the terminal's.
    const UNTOLD: [&str; 4] = ["HOME", "PLIMSOLL_TEST_DATA", "TERM", "UPDATE_SNAPSHOTS"];

    fn read_variables(folder: &Path, read: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read_variables(&path, read);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                for call in ["env::var(\"", "env::var_os(\"", "variable(\""] {
                    let after = source.split(call).skip(1);
                    let names = after.filter_map(|rest| rest.split_once('"'));
                    read.extend(names.map(|(name, _)| name.to_owned()));
                }
            }
        }
    }

    #[test]
    fn every_environment_variable_that_is_read_is_told() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut read = BTreeSet::new();
        for entry in std::fs::read_dir(crates).unwrap() {
            let source = entry.unwrap().path().join("src");
            if source.is_dir() {
                read_variables(&source, &mut read);
            }
        }
        let told: BTreeSet<String> = ENVIRONMENT.iter().map(|(name, _)| (*name).into()).collect();
        read.retain(|name| !UNTOLD.contains(&name.as_str()) && !name.contains(','));
        assert_eq!(read, told);
    }

    #[test]
    fn nothing_is_read_as_a_request() {
        let mut roff = String::new();
        for line in [".hidden", "'quoted'", "a\\b --c ~"] {
            text(&mut roff, line);
        }
        assert_eq!(
            roff,
            "\\&.hidden\n\\&\\(aqquoted\\(aq\na\\eb \\-\\-c \\(ti\n"
        );
    }
}
