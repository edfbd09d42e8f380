// SPDX-License-Identifier: Apache-2.0
//! The commands of README and manual: found, split into words, and sorted by how a test carries them out.
//!
//! Commands are in blocks marked `sh`, in blocks all of whose lines are commands, in indented blocks, and
//! behind `$ ` in a transcript. A command in any other form fails [`all`], so that none is passed over.

use std::path::{Path, PathBuf};

/// How a command of a page is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DocTestMode {
    /// Carried out as it stands.
    Run,
    /// Carried out with `--dry-run` added: everything is read and checked, and nothing is measured.
    DryRun,
    /// Its arguments are parsed, because of this.
    Parse(&'static str),
    /// A file or target of the repository, which must be there.
    Ours,
    /// Another program, about which this repository can say nothing.
    Other,
}

/// A command of a page.
#[derive(Debug, Clone)]
pub(crate) struct DocCommand {
    /// The page, from the root of the repository.
    pub(crate) page: String,
    pub(crate) line: usize,
    /// The whole line, continued lines joined.
    pub(crate) text: String,
    /// The words of its first program; of `ssh HOST plimsoll …` those behind the host.
    pub(crate) words: Vec<String>,
    pub(crate) mode: DocTestMode,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Programs of others that pages name beside ours.
const OTHERS: [&str; 32] = [
    "apt",
    "apt-get",
    "cargo",
    "createdb",
    "curl",
    "dpkg",
    "echo",
    "export",
    "fallocate",
    "fio",
    "gh",
    "git",
    "grep",
    "install",
    "iscsiadm",
    "mdbook",
    "mkdir",
    "mount",
    "openssl",
    "pip",
    "pg_dump",
    "pg_restore",
    "pgbench",
    "podman",
    "python3",
    "rsync",
    "sha256sum",
    "skopeo",
    "ssh",
    "systemctl",
    "tar",
    "umount",
];

/// The program of a build, which a test need not have.
const OF_A_BUILD: &str = "target/release/plimsoll";

/// Why commands of a kind are not carried out by the test, by their first words: the first row that fits.
const PARSED: [(&str, &str); 20] = [
    ("serve", "it serves until it is stopped"),
    ("push", "it needs a server"),
    ("team", "it needs a database"),
    ("history", "it needs a database"),
    ("record --nodes", "it needs nodes"),
    (
        "record --requests",
        "it needs root and the kernel's tracer, and takes minutes",
    ),
    ("record", "it takes as long as it says"),
    ("ledger", "it needs a fault between its commands"),
    ("failover", "it injects faults into servers as root"),
    ("vm", "it starts machines"),
    ("man", "it writes into directories of its user"),
    (
        "repro",
        "it repeats an experiment, which takes minutes and more",
    ),
    ("stack down", "it needs a stack that is up"),
    ("stack switch", "it needs a stack that is up"),
    ("stack grow", "it needs a stack that is up"),
    ("stack check", "it brings stacks up as root"),
    ("stack degrade", "it needs a stack that is up"),
    ("stack rebuild", "it needs a stack that is up"),
    ("import", "it needs results of other programs"),
    ("raze", "it would take down what others use"),
];

/// Commands that end within seconds as they stand.
const RUN: [&str; 16] = [
    "completions",
    "workloads",
    "doctor",
    "fit-for --list",
    "fit",
    "verify",
    "profile",
    "merge",
    "export",
    "mix",
    "new",
    "report",
    "diff",
    "stack list",
    "stack show",
    "stack status",
];

/// Commands that have --dry-run.
const DRY_RUN: [&str; 10] = [
    "check",
    "run",
    "compare",
    "gate",
    "loadline",
    "fit-for",
    "layers",
    "tune",
    "durability",
    "stack up",
];

/// Parts of a command that need another machine, a device, an export, a stack that is up or a program of
/// others, which even a dry run looks for.
const ELSEWHERE: [(&str, &str); 17] = [
    ("prometheus:http", "it needs a server of monitoring"),
    ("--clients", "it needs nodes"),
    ("--on lab.toml", "it needs nodes"),
    ("--on examples/labs", "it needs nodes"),
    ("nfs://", "it needs an export"),
    ("iscsi://", "it needs a disk of a server"),
    ("nbd://", "it needs a disk of a server"),
    ("/dev/sd", "it needs a disk to destroy"),
    ("--under", "it needs stacks, as root"),
    ("--fault", "it needs stacks, as root"),
    ("fio:", "it needs fio"),
    ("bonnie++:", "it needs bonnie++"),
    ("lustre", "it needs Lustre"),
    ("build,", "it needs sources to build"),
    ("copy-large,host", "it needs another machine"),
    ("cmd:", "it runs any program"),
    ("gate --against main", "it needs sources to build"),
];

fn mode(words: &[String]) -> Result<DocTestMode, String> {
    let program = words[0].as_str();
    if program == OF_A_BUILD {
        return Ok(DocTestMode::Other);
    }
    if program != "plimsoll" {
        return match program {
            "make" => Ok(DocTestMode::Ours),
            _ if ["scripts/", "bench/", "examples/"]
                .iter()
                .any(|with| program.starts_with(with)) =>
            {
                Ok(DocTestMode::Ours)
            }
            _ if OTHERS.contains(&program) => Ok(DocTestMode::Other),
            _ => Err(format!(
                "'{program}' is neither plimsoll nor a program that the test knows"
            )),
        };
    }
    let rest = words[1..].join(" ");
    let begins = |with: &str| rest == with || rest.starts_with(&format!("{with} "));
    if rest == "repro" || rest.contains("--trace-ops") || rest == "raze --dry-run" {
        return Ok(DocTestMode::Run);
    }
    if let Some((_, why)) = PARSED.iter().find(|(with, _)| begins(with)) {
        return Ok(DocTestMode::Parse(why));
    }
    if let Some((_, why)) = ELSEWHERE.iter().find(|(part, _)| rest.contains(part)) {
        return Ok(DocTestMode::Parse(why));
    }
    if RUN.iter().any(|with| begins(with)) || rest.contains("--dry-run") {
        return Ok(DocTestMode::Run);
    }
    if DRY_RUN.iter().any(|with| begins(with)) {
        return Ok(DocTestMode::DryRun);
    }
    Err(format!(
        "the test does not know how to try 'plimsoll {rest}'"
    ))
}

/// The pages whose commands count: README, the manual with its stacks, the examples. Results tell what was
/// run when they were measured, and decisions what was decided.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = ["README.md", "SECURITY.md", "examples/README.md"]
        .map(str::to_owned)
        .to_vec();
    for folder in ["docs", "crates/plimsoll-lab/src/stacks", "examples"] {
        collect(Path::new(folder), &mut pages);
    }
    pages.sort();
    pages.dedup();
    pages
}

fn collect(folder: &Path, pages: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let name = entry.unwrap().file_name();
        let path = folder.join(&name);
        let skipped = [
            "docs/results",
            "docs/design",
            "docs/method",
            "docs/reference",
            "docs/book",
        ];
        if skipped.iter().any(|skipped| path == Path::new(skipped)) {
            continue;
        }
        if root().join(&path).is_dir() {
            collect(&path, pages);
        } else if name.to_string_lossy().ends_with(".md") {
            pages.push(path.display().to_string());
        }
    }
}

/// All commands of all pages.
///
/// # Errors
/// With every line that has a form the test does not know.
pub(crate) fn all() -> Result<Vec<DocCommand>, Vec<String>> {
    let (mut commands, mut faults) = (Vec::new(), Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        for (line, found) in lines(&text) {
            let read = found.and_then(|text| {
                let words = words(&text)?;
                let mode = mode(&words)?;
                Ok(DocCommand {
                    page: page.clone(),
                    line,
                    text,
                    words,
                    mode,
                })
            });
            match read {
                Ok(command) => commands.push(command),
                Err(fault) => faults.push(format!("{page}:{line}: {fault}")),
            }
        }
    }
    if faults.is_empty() {
        Ok(commands)
    } else {
        Err(faults)
    }
}

/// Whether a line of any block begins as a command of ours does.
fn looks_ours(line: &str) -> bool {
    let known = ["plimsoll", "make", "scripts/"];
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let first = line.split(' ').next().unwrap_or_default();
    let is_ours = first == "plimsoll" && !line.starts_with("plimsoll node");
    is_ours
        || known[1..]
            .iter()
            .any(|known| first == *known || (known.ends_with('/') && first.starts_with(known)))
}

/// Whether a line is blank, goes on with the line before, or begins with a program that the test knows.
fn is_known(line: &str) -> bool {
    line.is_empty() || line.starts_with(' ') || {
        let first = words(line).ok().and_then(|words| words.first().cloned());
        first.is_some_and(|first| {
            OTHERS.contains(&first.as_str()) || looks_ours(&first) || first == OF_A_BUILD
        })
    }
}

/// The command lines of a page with their numbers, continued lines joined.
fn lines(text: &str) -> Vec<(usize, Result<String, String>)> {
    let mut found = Vec::new();
    for (start, kind, block) in blocks(text) {
        let all_commands = match kind.as_str() {
            "sh" => true,
            // Indented blocks: output and formulas have this form as well.
            "" => block.iter().any(|line| looks_ours(line)),
            "text" => block.iter().all(|line| is_known(line)),
            _ => false,
        };
        let mut number = start;
        let mut rest = block.iter();
        while let Some(first) = rest.next() {
            let at = number;
            number += 1;
            let mut line = (*first).to_owned();
            while line.ends_with('\\') {
                line.pop();
                line.push_str(rest.next().map_or("", |next| next.trim_start()));
                number += 1;
            }
            let is_blank = line.trim().is_empty() || line.starts_with('#');
            match line.strip_prefix("$ ") {
                Some(command) => found.push((at, Ok(command.to_owned()))),
                None if all_commands && !is_blank => found.push((at, Ok(line))),
                None if looks_ours(&line) => {
                    let fault = format!("a command in a block of '{kind}': mark the block as sh");
                    found.push((at, Err(fault)));
                }
                None => {}
            }
        }
    }
    found
}

/// The blocks of code of a page: number of the first line, what kind (empty: indented), lines.
fn blocks(text: &str) -> Vec<(usize, String, Vec<&str>)> {
    let mut blocks: Vec<(usize, String, Vec<&str>)> = Vec::new();
    let mut fence: Option<usize> = None;
    let (mut was_blank, mut was_indented) = (true, false);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => {
                    let kind = if kind.is_empty() { "text" } else { kind };
                    blocks.push((number + 1, kind.trim().to_owned(), Vec::new()));
                    Some(blocks.len())
                }
            };
        } else if fence.is_some() {
            blocks.last_mut().unwrap().2.push(line);
        } else if let Some(code) = line.strip_prefix("    ")
            && (was_blank || was_indented)
        {
            if !was_indented {
                blocks.push((number, String::new(), Vec::new()));
            }
            blocks.last_mut().unwrap().2.push(code);
            was_indented = true;
            continue;
        }
        was_indented = false;
        was_blank = line.trim().is_empty();
    }
    blocks
}

/// The words of the first program of a line, as a shell splits them; without `sudo`, settings of the
/// environment, and the way by ssh.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some(other) => word.push(other),
                        None => return Err(format!("the quotation in '{line}' does not end")),
                    }
                }
            }
            ' ' => words.extend(word.take()),
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '>' | '<' => {
                // The number before a redirection is no argument.
                if word.as_deref() == Some("2") && c == '>' {
                    word = None;
                }
                break;
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    let is_setting = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        })
    };
    let mut rest: &[String] = &words;
    while let Some(first) = rest.first()
        && (is_setting(first) || first == "sudo")
    {
        rest = &rest[1..];
    }
    if rest.first().is_some_and(|first| first == "ssh") {
        let at = rest.iter().position(|word| word == "plimsoll");
        rest = &rest[at.unwrap_or(rest.len())..];
    }
    if rest.is_empty() {
        return Err(format!("'{line}' names no program"));
    }
    Ok(rest.to_vec())
}
