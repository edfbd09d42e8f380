// SPDX-License-Identifier: Apache-2.0
//! The original programs as engines: they are run on the target, timed, and their output is read.
//! The same readers take in results that someone kept.

mod read;
mod sandbox;
mod split;

pub use read::{ProgramOutputFormat, ProgramOutputResult, read};
pub use sandbox::{SANDBOX_JOB, SandboxJobSource, sandboxed};

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandWorkload, WorkloadCommand};

use self::sandbox::TARGET;
use crate::error::ClassicsError;
use crate::{filebench, fio};

/// Prefixes that may stand before the colon, each with its use.
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

/// Whose a job file is.
#[derive(Debug, Clone, Copy)]
pub enum JobTrust<'a> {
    /// An untrusted job with this text. The load that it describes is written anew for the program, which
    /// runs in a view of the machine in which it can change nothing but the target.
    Stranger(&'a str),
    /// Of one who may start programs here: the program is given the file as it is.
    Trusted,
}

/// The job file that `PREFIX:REST` names, of programs that have one.
///
/// # Errors
/// When the words cannot be taken apart.
pub fn job_file(prefix: &str, rest: &str) -> Result<Option<String>, ClassicsError> {
    if !matches!(prefix, "fio" | "filebench") {
        return Ok(None);
    }
    let words = split::words(rest).map_err(|reason| wrong(prefix, rest, &reason))?;
    Ok(words.into_iter().find(|word| !word.starts_with('-')))
}

fn wrong(prefix: &str, rest: &str, reason: &str) -> ClassicsError {
    ClassicsError::Shape {
        workload: format!("{prefix}:{rest}"),
        reason: reason.into(),
    }
}

/// The workload that `PREFIX:REST` stands for. `job` is what [`job_file`] names.
///
/// # Errors
/// When the prefix is not known, the arguments set something that Plimsoll sets, or a line of an untrusted
/// job does more than describe a load.
pub fn workload(
    prefix: &str,
    rest: &str,
    job: Option<JobTrust<'_>>,
) -> Result<Workload, ClassicsError> {
    let wrong = |reason: &str| wrong(prefix, rest, reason);
    let words = split::words(rest).map_err(|reason| wrong(&reason))?;
    if words.is_empty() {
        return Err(wrong("nothing follows the colon"));
    }
    let name = format!("{prefix}:{}", rest.trim());
    let made = match prefix {
        "fio" => fio_commands(&words, job, &wrong)?,
        "filebench" => filebench_commands(&words, job, &wrong)?,
        "bonnie++" => {
            let argv = bonnie(&words).map_err(wrong)?;
            alone(argv, CommandOutputFormat::Bonnie)
        }
        "iozone" => {
            let argv = iozone(words).map_err(wrong)?;
            alone(argv, CommandOutputFormat::Iozone)
        }
        "cmd" => alone(shell(rest), CommandOutputFormat::Time),
        "size" => alone(shell(rest), CommandOutputFormat::Size),
        _ => {
            let known: Vec<&str> = PREFIXES.iter().map(|(name, _)| *name).collect();
            return Err(wrong(&format!("expected one of {}", known.join(", "))));
        }
    };
    let OriginalCommands {
        prepare,
        argv,
        output,
    } = made;
    Ok(Workload::Commands(CommandWorkload {
        name,
        prepare: prepare.into_iter().collect(),
        phases: vec![command(prefix, argv, output)],
        finish: Vec::new(),
        data_bytes: 0,
    }))
}

/// The commands of an original program.
struct OriginalCommands {
    prepare: Option<WorkloadCommand>,
    argv: Vec<String>,
    output: CommandOutputFormat,
}

fn alone(argv: Vec<String>, output: CommandOutputFormat) -> OriginalCommands {
    OriginalCommands {
        prepare: None,
        argv,
        output,
    }
}

fn shell(line: &str) -> Vec<String> {
    vec!["sh".into(), "-c".into(), line.trim().into()]
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

/// Where the job that was written for a program lies.
const JOB: &str = "{tmp}/job";

/// Writes a job into a directory of ours, for a program that runs in a view of the machine.
fn write_job(text: String) -> WorkloadCommand {
    let words = ["sh", "-c", "printf %s \"$1\" >\"$2\"", "sh"].map(String::from);
    let argv = [&words[..], &[text, JOB.into()]].concat();
    command("write the job", argv, CommandOutputFormat::Time)
}

/// A program that runs an untrusted job, which was written anew.
fn on_job(text: String, program: &[&str], output: CommandOutputFormat) -> OriginalCommands {
    OriginalCommands {
        prepare: Some(write_job(text)),
        argv: sandboxed(Some("{dir}"), SandboxJobSource::File(JOB), program),
        output,
    }
}

fn fio_commands(
    words: &[String],
    job: Option<JobTrust<'_>>,
    wrong: &dyn Fn(&str) -> ClassicsError,
) -> Result<OriginalCommands, ClassicsError> {
    let output = CommandOutputFormat::Fio;
    let set_here = [
        "--directory",
        "--output-format",
        "--output",
        "--client",
        "--server",
        "--daemonize",
    ];
    let name_of = |word: &'_ String| word.split('=').next().unwrap_or_default().to_owned();
    let mut names = words.iter().map(name_of);
    if let Some(name) = names.find(|name| set_here.contains(&name.as_str())) {
        return Err(wrong(&format!("{name} is set by plimsoll; take it out")));
    }
    match job {
        None => Err(wrong("it names no job file")),
        Some(JobTrust::Trusted) => {
            let own = ["fio", "--directory={dir}", "--output-format=json+"].map(String::from);
            let rest = words.iter().map(|word| match word.starts_with('-') {
                true => word.clone(),
                false => from_here(word),
            });
            Ok(alone(own.into_iter().chain(rest).collect(), output))
        }
        Some(JobTrust::Stranger(text)) => {
            let (defaults, files): (Vec<String>, Vec<String>) = words
                .iter()
                .cloned()
                .partition(|word| word.starts_with('-'));
            if files.len() > 1 {
                return Err(wrong(
                    "it names more than one job file; run them one by one",
                ));
            }
            let directory = format!("--directory={TARGET}");
            let program = ["fio", &directory, "--output-format=json+", SANDBOX_JOB];
            Ok(on_job(fio::rewritten(text, &defaults)?, &program, output))
        }
    }
}

fn bonnie(words: &[String]) -> Result<Vec<String>, &'static str> {
    let mut argv = ["bonnie++", "-d", "{dir}", "-q"].map(String::from).to_vec();
    for word in words {
        if word.starts_with("-d") {
            return Err("-d is the target, which is given on the command line of plimsoll");
        }
        if word.starts_with("-x") {
            return Err("-x repeats inside a trial; repeat with --blocks instead");
        }
    }
    // As root it refuses to run without a user.
    if !words.iter().any(|word| word.starts_with("-u")) {
        argv.extend(["-u".into(), "{user}".into()]);
    }
    argv.extend(words.iter().cloned());
    Ok(argv)
}

fn iozone(words: Vec<String>) -> Result<Vec<String>, &'static str> {
    let throughput = ["-t", "-l", "-u"];
    if !words
        .iter()
        .any(|word| throughput.iter().any(|option| word.starts_with(option)))
    {
        return Err("only its throughput report is read: add -t and the number of processes");
    }
    Ok(std::iter::once("iozone".to_owned()).chain(words).collect())
}

/// With shuffled addresses its processes do not find the memory they share, and hang.
const FILEBENCH: [&str; 4] = ["setarch", "-R", "filebench", "-f"];

fn filebench_commands(
    words: &[String],
    job: Option<JobTrust<'_>>,
    wrong: &dyn Fn(&str) -> ClassicsError,
) -> Result<OriginalCommands, ClassicsError> {
    let output = CommandOutputFormat::Filebench;
    match (words, job) {
        ([file], Some(JobTrust::Trusted)) => Ok(OriginalCommands {
            prepare: Some(set_directory(file)),
            argv: FILEBENCH
                .into_iter()
                .chain([JOB])
                .map(String::from)
                .collect(),
            output,
        }),
        ([_], Some(JobTrust::Stranger(text))) => {
            let program: Vec<&str> = FILEBENCH.into_iter().chain([SANDBOX_JOB]).collect();
            Ok(on_job(
                filebench::rewritten(text, TARGET)?,
                &program,
                output,
            ))
        }
        _ => Err(wrong("filebench takes one workload file")),
    }
}

/// Workload files of filebench say where to run themselves: the line that does is set to the target.
fn set_directory(file: &str) -> WorkloadCommand {
    const SET_DIRECTORY: &str = "awk -v dir=\"$1\" '/^[ \\t]*set[ \\t]+\\$dir[ \\t]*=/ { print \"set $dir=\" dir; next } { print }' \"$2\" > \"$3\"";
    let words = ["sh", "-c", SET_DIRECTORY, "sh", "{dir}"].map(String::from);
    let argv = [&words[..], &[from_here(file), JOB.into()]].concat();
    command("set the directory", argv, CommandOutputFormat::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB_TEXT: &str = "[a]\nrw=read\nsize=1m\n";

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
            ("filebench", "v.f", "setarch -R filebench -f {tmp}/job"),
        ] {
            let made = workload(prefix, rest, Some(JobTrust::Trusted)).unwrap();
            let Workload::Commands(commands) = made else {
                panic!("programs are commands");
            };
            assert_eq!(commands.phases[0].argv.join(" "), expect);
        }
    }

    #[test]
    fn the_job_of_a_stranger_is_written_anew_and_runs_in_a_view() {
        let job = Some(JobTrust::Stranger(JOB_TEXT));
        let made = workload("fio", "/x/a.fio --runtime=5", job).unwrap();
        let Workload::Commands(commands) = made else {
            panic!("programs are commands");
        };
        let prepare = &commands.prepare[0].argv;
        assert_eq!(
            prepare[4..],
            ["[a]\nruntime=5\nrw=read\nsize=1m\n", "{tmp}/job"]
        );
        let argv = commands.phases[0].argv.join(" ");
        assert!(argv.starts_with("bwrap --unshare-pid"), "{argv}");
        let end = "--bind {dir} /target --ro-bind {tmp}/job /job --chdir /target -- \
                   fio --directory=/target --output-format=json+ /job";
        assert!(argv.ends_with(end), "{argv}");
        assert!(!argv.contains("/x/a.fio"), "{argv}");
        assert_eq!(
            job_file("fio", "--x=1 'a b.fio'").unwrap().as_deref(),
            Some("a b.fio")
        );
        assert_eq!(job_file("cmd", "a").unwrap(), None);
    }

    #[test]
    fn what_is_set_here_or_not_known_is_refused() {
        let job = Some(JobTrust::Stranger(JOB_TEXT));
        for (prefix, rest, word) in [
            ("fio", "", "nothing"),
            ("fio", "a.fio --directory=/x", "--directory"),
            ("fio", "a.fio --exec_prerun=id", "exec_prerun"),
            ("fio", "a.fio b.fio", "more than one"),
            ("bonnie++", "-d /x", "-d"),
            ("bonnie++", "-x 3", "--blocks"),
            ("iozone", "-a", "-t"),
            ("filebench", "a b", "one workload file"),
            ("cmd", "echo 'open", "quote"),
            ("dbench", "4", "expected one of"),
        ] {
            let error = workload(prefix, rest, job).unwrap_err().to_string();
            assert!(error.contains(word), "{prefix}:{rest}: {error}");
        }
    }
}
