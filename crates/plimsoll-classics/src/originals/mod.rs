// SPDX-License-Identifier: Apache-2.0
//! The original programs as engines: they are run on the target, timed, and their output is read.
//! The same readers take in results that someone kept.

mod read;
mod split;

pub use read::{ProgramOutputFormat, ProgramOutputResult, read};

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandWorkload, WorkloadCommand};

use crate::error::ClassicsError;

/// What may stand before the colon, and what comes after it.
pub const PREFIXES: [(&str, &str); 6] = [
    ("fio", "fio:FILE runs a job file with fio"),
    (
        "bonnie++",
        "bonnie++:ARGS runs bonnie++ with these arguments",
    ),
    ("iozone", "iozone:ARGS runs iozone with these arguments"),
    (
        "filebench",
        "filebench:FILE runs a workload file with filebench",
    ),
    (
        "cmd",
        "cmd:COMMAND runs a command line with sh and takes its time",
    ),
    (
        "size",
        "size:COMMAND runs a command line with sh and takes the size of what it leaves",
    ),
];

/// The workload that `PREFIX:REST` stands for.
///
/// # Errors
/// When the prefix is not known, or the arguments hold something that is set here.
pub fn workload(prefix: &str, rest: &str) -> Result<Workload, ClassicsError> {
    let wrong = |reason: &str| ClassicsError::Shape {
        workload: format!("{prefix}:{rest}"),
        reason: reason.into(),
    };
    let words = split::words(rest).map_err(|reason| wrong(&reason))?;
    if words.is_empty() {
        return Err(wrong("nothing follows the colon"));
    }
    let (argv, output) = match prefix {
        "fio" => (
            fio(&words).map_err(|reason| wrong(&reason))?,
            CommandOutputFormat::Fio,
        ),
        "bonnie++" => (
            bonnie(&words).map_err(|reason| wrong(&reason))?,
            CommandOutputFormat::Bonnie,
        ),
        "iozone" => (
            iozone(words).map_err(|reason| wrong(&reason))?,
            CommandOutputFormat::Iozone,
        ),
        "filebench" => match &words[..] {
            [file] => return Ok(filebench(&format!("{prefix}:{rest}"), file)),
            _ => return Err(wrong("filebench takes one workload file")),
        },
        "cmd" | "size" => (
            vec!["sh".into(), "-c".into(), rest.trim().into()],
            match prefix {
                "size" => CommandOutputFormat::Size,
                _ => CommandOutputFormat::Time,
            },
        ),
        _ => {
            let known: Vec<&str> = PREFIXES.iter().map(|(name, _)| *name).collect();
            return Err(wrong(&format!("expected one of {}", known.join(", "))));
        }
    };
    Ok(Workload::Commands(CommandWorkload {
        name: format!("{prefix}:{}", rest.trim()),
        prepare: Vec::new(),
        phases: vec![command(prefix, argv, output)],
        finish: Vec::new(),
        data_bytes: 0,
    }))
}

/// The first line (from 1) of a workload file that has the original program start another one:
/// fio's `exec_prerun`, `exec_postrun`, engines and files from elsewhere, filebench's `system`.
#[must_use]
pub fn line_with_a_command<'a>(prefix: &str, text: &'a str) -> Option<(usize, &'a str)> {
    let starts = |line: &str| {
        let (word, rest) = line
            .split_once(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or((line, ""));
        let value = rest.trim_start_matches(|c: char| c == '=' || c.is_whitespace());
        match (prefix, word) {
            ("fio", "exec_prerun" | "exec_postrun" | "include") => true,
            ("fio", "ioengine") => {
                value.starts_with("exec") || value.starts_with("external") || value.contains('/')
            }
            ("filebench", "system") => true,
            _ => false,
        }
    };
    let mut lines = text.lines().map(str::trim).enumerate();
    let found = lines.find(|(_, line)| starts(line));
    found.map(|(at, line)| (at + 1, line))
}

/// A command whose output says what it moved.
fn command(name: &str, argv: Vec<String>, output: CommandOutputFormat) -> WorkloadCommand {
    WorkloadCommand {
        name: name.into(),
        argv,
        output,
        moves: None,
    }
}

/// Files are named from where the user stands, but the program runs on the target.
fn from_here(file: &str) -> String {
    if file.starts_with('/') {
        file.into()
    } else {
        format!("{{here}}/{file}")
    }
}

fn fio(words: &[String]) -> Result<Vec<String>, String> {
    let set_here = [
        "--directory",
        "--output-format",
        "--output",
        "--client",
        "--server",
        "--daemonize",
    ];
    let mut argv = ["fio", "--directory={dir}", "--output-format=json+"]
        .map(String::from)
        .to_vec();
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if set_here.contains(&name) {
            return Err(format!("{name} is set by plimsoll; take it out"));
        }
        argv.push(if word.starts_with('-') {
            word.clone()
        } else {
            from_here(word)
        });
    }
    Ok(argv)
}

fn bonnie(words: &[String]) -> Result<Vec<String>, String> {
    let mut argv = ["bonnie++", "-d", "{dir}", "-q"].map(String::from).to_vec();
    for word in words {
        if word.starts_with("-d") {
            return Err("-d is the target, which is given on the command line of plimsoll".into());
        }
        if word.starts_with("-x") {
            return Err("-x repeats inside a trial; repeat with --blocks instead".into());
        }
    }
    // As root it refuses to run without a user.
    if !words.iter().any(|word| word.starts_with("-u")) {
        argv.extend(["-u".into(), "{user}".into()]);
    }
    argv.extend(words.iter().cloned());
    Ok(argv)
}

fn iozone(words: Vec<String>) -> Result<Vec<String>, String> {
    let throughput = ["-t", "-l", "-u"];
    if !words
        .iter()
        .any(|word| throughput.iter().any(|option| word.starts_with(option)))
    {
        return Err(
            "only its throughput report is read: add -t and the number of processes".into(),
        );
    }
    Ok(std::iter::once("iozone".to_owned()).chain(words).collect())
}

/// Its workload files say where to run themselves: the line that does is set to the target.
fn filebench(name: &str, file: &str) -> Workload {
    const SET_DIRECTORY: &str = "awk -v dir=\"$1\" '/^[ \\t]*set[ \\t]+\\$dir[ \\t]*=/ { print \"set $dir=\" dir; next } { print }' \"$2\" > \"$3\"";
    let job = "{tmp}/workload.f";
    let prepare = ["sh", "-c", SET_DIRECTORY, "sh", "{dir}"]
        .map(String::from)
        .to_vec();
    let prepare = [prepare, vec![from_here(file), job.into()]].concat();
    // With shuffled addresses its processes do not find the memory they share, and hang.
    let run = ["setarch", "-R", "filebench", "-f", job];
    let run = run.map(String::from).to_vec();
    Workload::Commands(CommandWorkload {
        name: name.into(),
        prepare: vec![command(
            "set the directory",
            prepare,
            CommandOutputFormat::Time,
        )],
        phases: vec![command("filebench", run, CommandOutputFormat::Filebench)],
        finish: Vec::new(),
        data_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_commands_on_the_target() {
        for (prefix, rest, expect) in [
            (
                "fio",
                "a.fio",
                "fio --directory={dir} --output-format=json+ {here}/a.fio",
            ),
            (
                "fio",
                "/x/a.fio --runtime=5",
                "fio --directory={dir} --output-format=json+ /x/a.fio --runtime=5",
            ),
            (
                "bonnie++",
                "-s 16 -r 4",
                "bonnie++ -d {dir} -q -u {user} -s 16 -r 4",
            ),
            ("bonnie++", "-u nobody", "bonnie++ -d {dir} -q -u nobody"),
            ("iozone", "-i 0 -t 2", "iozone -i 0 -t 2"),
            ("cmd", " tar xf 'a b' ", "sh -c tar xf 'a b'"),
            (
                "filebench",
                "v.f",
                "setarch -R filebench -f {tmp}/workload.f",
            ),
        ] {
            let Workload::Commands(commands) = workload(prefix, rest).unwrap() else {
                panic!("programs are commands");
            };
            assert_eq!(commands.phases[0].argv.join(" "), expect);
        }
    }

    #[test]
    fn what_is_set_here_or_not_known_is_refused() {
        for (prefix, rest, word) in [
            ("fio", "", "nothing"),
            ("fio", "a.fio --directory=/x", "--directory"),
            ("bonnie++", "-d /x", "-d"),
            ("bonnie++", "-x 3", "--blocks"),
            ("iozone", "-a", "-t"),
            ("filebench", "a b", "one workload file"),
            ("cmd", "echo 'open", "quote"),
            ("dbench", "4", "expected one of"),
        ] {
            let error = workload(prefix, rest).unwrap_err().to_string();
            assert!(error.contains(word), "{prefix}:{rest}: {error}");
        }
    }
}
