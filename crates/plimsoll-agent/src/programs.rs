// SPDX-License-Identifier: Apache-2.0
//! Programs as workloads: each is run in a fresh directory on the target, timed, and its output is
//! read. What they leave is removed before the next trial, so that every trial begins alike.

use plimsoll_classics::boot;
use plimsoll_classics::originals::{self, ProgramOutputFormat};
use plimsoll_console::failure::{CliError, CliExitCode, stopped};
use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{KindStats, OpStats, PhaseResult};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::CommandWorkload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandTransfer, WorkloadCommand};
use plimsoll_machine::host::{
    HostTimedJob, HostTimedResult, LocalHost, MadeDir, command_mark, helper_mark, journal_of,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A program that takes longer than a day will not end.
const LIMIT: Duration = Duration::from_secs(24 * 3_600);
/// Where programs work, below the directory of the arm.
const WORK: &str = "programs";

/// The results of a workload's commands.
#[derive(Debug, Default)]
pub(crate) struct ProgramTrialResult {
    pub(crate) phases: Vec<PhaseResult>,
    /// Time of all commands that were measured. The sum over phases would be more where a program
    /// reports of several that ran side by side, such as both directions of a fio job.
    pub(crate) wall: Nanos,
    /// Remarks of the readers of their outputs, such as phases that were too short to be printed.
    pub(crate) notes: Vec<String>,
}

/// Runs all commands of a workload and gives the results of its phases.
///
/// `directory` is one of ours on the target, `tmp` one of ours elsewhere.
pub(crate) fn run(
    commands: &CommandWorkload,
    directory: &Path,
    tmp: &Path,
    host: &LocalHost,
    stop: &AtomicBool,
) -> Result<ProgramTrialResult, CliError> {
    let program = std::env::current_exe().map_err(|error| {
        CliError::new(CliExitCode::Failed, format!("find this program: {error}"))
    })?;
    run_with(&program, commands, [directory, tmp], host, stop)
}

/// The same, `program` being this one.
fn run_with(
    program: &Path,
    commands: &CommandWorkload,
    [directory, tmp]: [&Path; 2],
    host: &LocalHost,
    stop: &AtomicBool,
) -> Result<ProgramTrialResult, CliError> {
    let work = ProgramWorkDir::create(&directory.join(WORK))?;
    let mark = journal_of(directory).map(|id| command_mark(&id));
    let bench = ProgramRunner {
        host,
        stop,
        names: names(program, directory, [work.0.path(), tmp])?,
        work: work.0.path(),
        mark: mark.unwrap_or_else(helper_mark),
    };
    let played = bench.play(commands);
    // Also after a failure or a stop: what is elsewhere is not taken along by our directories.
    let finished = bench.finish(commands);
    let played = played?;
    finished?;
    work.remove()?;
    Ok(played)
}

/// The empty directory in which a program begins.
struct ProgramWorkDir(MadeDir);

impl ProgramWorkDir {
    fn create(path: &Path) -> Result<Self, CliError> {
        let doing = |error| {
            CliError::new(
                CliExitCode::Failed,
                format!("make {} for programs: {error}", path.display()),
            )
        };
        MadeDir::make(path).map(ProgramWorkDir).map_err(doing)
    }

    fn remove(self) -> Result<(), CliError> {
        self.0.remove().map_err(|error| {
            let what = format!("clean up after programs: {error}");
            CliError::new(CliExitCode::NotCleaned, what)
        })
    }
}

impl Drop for ProgramWorkDir {
    fn drop(&mut self) {
        // After an orderly end it is gone; else the directory above, which is ours, takes it along.
        let _ = self.0.remove();
    }
}

struct ProgramRunner<'a> {
    host: &'a LocalHost,
    stop: &'a AtomicBool,
    names: Vec<(&'static str, String)>,
    work: &'a Path,
    mark: String,
}

impl ProgramRunner<'_> {
    fn play(&self, commands: &CommandWorkload) -> Result<ProgramTrialResult, CliError> {
        for command in &commands.prepare {
            self.time(command, self.stop)?;
        }
        let mut played = ProgramTrialResult::default();
        for command in &commands.phases {
            let timed = self.time(command, self.stop)?;
            let (mut phases, notes) = self.phases(command, &timed)?;
            let wall = match command.output {
                // The time between boots is not theirs.
                CommandOutputFormat::Boots => boot::length(&phases),
                _ => Nanos::from(timed.wall),
            };
            played.wall = played.wall + wall;
            let of_command = |note: String| match commands.phases.len() {
                1 => note,
                _ => format!("{}: {note}", command.name),
            };
            played.notes.extend(notes.into_iter().map(of_command));
            if commands.phases.len() > 1 && ProgramOutputFormat::of(command.output).is_some() {
                for phase in &mut phases {
                    phase.name = format!("{}: {}", command.name, phase.name);
                }
            }
            played.phases.extend(phases);
        }
        Ok(played)
    }

    /// The phases of a command: read from its output, or of the directory that it left.
    fn phases(
        &self,
        command: &WorkloadCommand,
        timed: &HostTimedResult,
    ) -> Result<(Vec<PhaseResult>, Vec<String>), CliError> {
        let (mut phases, notes) = phases(command, timed)?;
        if command.output == CommandOutputFormat::Size {
            let bytes = size_of(self.work).map_err(|error| {
                let what = format!("measure {}: {error}", self.work.display());
                CliError::new(CliExitCode::Failed, what)
            })?;
            for phase in &mut phases {
                phase.metric = ComparisonMetric::OutputSize;
                phase.value = bytes as f64;
            }
        }
        Ok((phases, notes))
    }

    fn finish(&self, commands: &CommandWorkload) -> Result<(), CliError> {
        let never = AtomicBool::new(false);
        for command in &commands.finish {
            self.time(command, &never).map_err(|failure| CliError {
                code: CliExitCode::NotCleaned,
                ..failure
            })?;
        }
        Ok(())
    }

    fn time(
        &self,
        command: &WorkloadCommand,
        stop: &AtomicBool,
    ) -> Result<HostTimedResult, CliError> {
        let fill = |word: &String| {
            self.names
                .iter()
                .fold(word.clone(), |word, (name, path)| word.replace(name, path))
        };
        let argv: Vec<String> = command.argv.iter().map(fill).collect();
        let job = HostTimedJob {
            argv: &argv,
            directory: self.work,
            mark: &self.mark,
            limit: LIMIT,
        };
        let timed = self.host.timed(&job, stop).map_err(|error| {
            CliError::new(
                CliExitCode::Failed,
                format!("run {}: {error}", command.name),
            )
        })?;
        timed.ok_or_else(stopped)
    }
}

/// Bytes of all files below a directory of ours; links are not followed.
fn size_of(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let facts = entry.metadata()?;
            if facts.is_dir() {
                open.push(entry.path());
            } else if facts.is_file() {
                bytes += facts.len();
            }
        }
    }
    Ok(bytes)
}

/// The values of the names in braces.
fn names(
    program: &Path,
    directory: &Path,
    [work, tmp]: [&Path; 2],
) -> Result<Vec<(&'static str, String)>, CliError> {
    let shown = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(CliError::usage(format!(
            "use {}: its name is not text",
            path.display()
        ))),
    };
    let here = std::env::current_dir().map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("find the working directory: {error}"),
        )
    })?;
    // The first directory above ours that is not ours.
    let mut above = directory.ancestors();
    let target = above.find(|path| journal_of(path).is_none());
    let target = std::path::absolute(target.unwrap_or(directory)).map_err(|error| {
        let what = format!("find {}: {error}", directory.display());
        CliError::new(CliExitCode::Failed, what)
    })?;
    Ok(vec![
        ("{dir}", shown(work)?),
        ("{target}", shown(&target)?),
        ("{tmp}", shown(tmp)?),
        ("{cache}", shown(&cache())?),
        ("{here}", shown(&here)?),
        ("{plimsoll}", shown(program)?),
        ("{user}", rustix::process::geteuid().as_raw().to_string()),
    ])
}

/// A directory that outlives runs, as the user's other programs have it.
fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    set.filter(|path| path.is_absolute())
        .or_else(home)
        .unwrap_or_else(|| "/var/cache".into())
        .join("plimsoll")
}

fn unreadable(why: impl std::fmt::Display) -> CliError {
    CliError::sentence(CliExitCode::Failed, why)
}

/// The phases of a command: read from its output, with the remarks of the reader, or else its time.
fn phases(
    command: &WorkloadCommand,
    timed: &HostTimedResult,
) -> Result<(Vec<PhaseResult>, Vec<String>), CliError> {
    if let Some(format) = ProgramOutputFormat::of(command.output) {
        let readings = originals::read(format, &timed.output).map_err(unreadable)?;
        return match <[_; 1]>::try_from(readings) {
            Ok([reading]) => Ok((reading.phases, reading.notes)),
            Err(many) => Err(unreadable(format!(
                "{} ran {} times in one trial",
                format.program(),
                many.len()
            ))
            .hint("repeat with --blocks instead")),
        };
    }
    if command.output == CommandOutputFormat::Boots {
        return boot::read(&timed.output).map_err(unreadable);
    }
    let wall = Nanos::from(timed.wall);
    let mut stats = OpStats::default();
    let (metric, value) = match command.moves {
        None => (ComparisonMetric::WallTime, wall.0 as f64),
        Some(moves) => {
            let (kind, bytes) = match moves {
                CommandTransfer::To(bytes) => (OpKind::Write, bytes),
                CommandTransfer::From(bytes) => (OpKind::Read, bytes),
            };
            stats.0.insert(
                kind,
                KindStats {
                    bytes,
                    ..KindStats::default()
                },
            );
            (
                ComparisonMetric::BytesPerSecond,
                ratio(bytes as f64, wall.as_secs_f64()),
            )
        }
    };
    let phase = PhaseResult {
        name: command.name.clone(),
        metric,
        value,
        wall,
        stats,
        user_cpu_ns: Nanos::from(timed.user).0,
        system_cpu_ns: Nanos::from(timed.system).0,
        workers: Vec::new(),
    };
    Ok((vec![phase], Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_classics::originals::JobTrust;
    use plimsoll_core::workload::Workload;
    use plimsoll_machine::host::SearchPath;
    use std::io::Write;

    fn play(commands: &CommandWorkload) -> Result<ProgramTrialResult, CliError> {
        play_with(Path::new("/nowhere"), commands)
    }

    fn play_with(
        program: &Path,
        commands: &CommandWorkload,
    ) -> Result<ProgramTrialResult, CliError> {
        let [directory, tmp] =
            [(), ()].map(|()| tempfile::tempdir().expect("a temporary directory"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let host = LocalHost::new(SearchPath::new(&path));
        let stop = AtomicBool::new(false);
        let places = [directory.path(), tmp.path()];
        let played = run_with(program, commands, places, &host, &stop);
        let left = std::fs::read_dir(directory.path()).map_or(9, Iterator::count);
        assert_eq!(left, 0, "nothing is left");
        played
    }

    fn skipped(why: &dyn std::fmt::Display) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
    }

    fn shell(name: &str, script: &str, moves: Option<CommandTransfer>) -> WorkloadCommand {
        let argv = ["sh", "-ec", script].map(String::from).to_vec();
        WorkloadCommand {
            name: name.into(),
            argv,
            output: CommandOutputFormat::Time,
            moves,
        }
    }

    #[test]
    fn commands_find_their_places_and_are_timed() {
        let commands = CommandWorkload {
            name: "c".into(),
            prepare: vec![shell("p", "echo 1 > {tmp}/x; echo 2 > {dir}/y", None)],
            phases: vec![
                shell(
                    "time",
                    "test -e {tmp}/x; test -e y; test {user} = $(id -u)",
                    None,
                ),
                shell("copy", "cp {tmp}/x .", Some(CommandTransfer::To(1 << 20))),
            ],
            finish: Vec::new(),
            data_bytes: 0,
        };
        let ProgramTrialResult {
            phases: results,
            wall,
            notes,
        } = play(&commands).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(wall, results[0].wall + results[1].wall);
        let told: Vec<_> = results
            .iter()
            .map(|r| (r.name.as_str(), r.metric))
            .collect();
        assert_eq!(
            told,
            [
                ("time", ComparisonMetric::WallTime),
                ("copy", ComparisonMetric::BytesPerSecond)
            ]
        );
        assert!((results[0].value - results[0].wall.0 as f64).abs() < 1.0);
        assert_eq!(results[1].stats.bytes(), 1 << 20);
        let per_s = f64::from(1 << 20) / results[1].wall.as_secs_f64();
        assert!((results[1].value / per_s - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_the_reader_of_an_output_remarks_is_kept() {
        // The line of a bonnie++ whose rewrite and reads were too short to be printed.
        let line = "1.98,2.00a,m,1,7,64M,,8192,5,,,1000,9,+++++,+++,,,+++++,+++,+++++,+++,\
                    ,,,,,,,,,,,,,,,,,,,,,,,,,,";
        let mut command = shell("b", &format!("echo '{line}'"), None);
        command.output = CommandOutputFormat::Bonnie;
        let commands = CommandWorkload {
            name: "c".into(),
            prepare: Vec::new(),
            phases: vec![command],
            finish: Vec::new(),
            data_bytes: 0,
        };
        let ProgramTrialResult { phases, notes, .. } = play(&commands).unwrap();
        let names: Vec<_> = phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["put_block"]);
        assert!(
            notes.iter().any(|note| note.contains("rewrite")),
            "{notes:?}"
        );
    }

    #[test]
    fn a_failure_ends_the_trial_with_its_words() {
        let commands = CommandWorkload {
            name: "c".into(),
            prepare: vec![shell("p", "echo 1 > {tmp}/x", None)],
            phases: vec![shell("f", "echo no luck >&2; exit 4", None)],
            finish: vec![shell("g", "rm {tmp}/x", None)],
            data_bytes: 0,
        };
        let failure = play(&commands).unwrap_err();
        assert!(failure.message.contains("no luck"), "{failure}");
    }

    #[test]
    fn the_originals_that_are_installed_are_read() {
        let job = Some(JobTrust::Stranger("[x]\nsize=256k\nrw=randrw\n"));
        for (prefix, rest, expect) in [
            ("fio", "a.fio", &["x: read"][..]),
            // It leaves out each figure of a small file that was too short on a fast machine.
            (
                "bonnie++",
                "-s 64 -r 16 -n 0 -f",
                &["put_block", "rewrite", "get_block", "seeks"],
            ),
            ("iozone", "-i 0 -t 1 -s 64k", &["1 initial writers"]),
        ] {
            let Ok(Workload::Commands(commands)) = originals::workload(prefix, rest, job) else {
                panic!("{prefix}:{rest} is a command");
            };
            match play(&commands) {
                Ok(played) => {
                    let named = |phase: &PhaseResult| expect.contains(&&*phase.name);
                    assert!(played.phases.iter().any(named), "{played:?}");
                    // No phase takes longer than the command that reports it.
                    let longest = played.phases.iter().map(|phase| phase.wall).max();
                    assert!(longest <= Some(played.wall), "{played:?}");
                }
                Err(failure) if failure.message.contains("is missing") => {
                    skipped(&failure);
                }
                Err(failure) if failure.message.contains("execvp fio") => {
                    skipped(&"fio is missing");
                }
                // On a fast machine every figure is.
                Err(failure) => assert!(
                    prefix == "bonnie++" && failure.message.contains("too short"),
                    "{failure}"
                ),
            }
        }
    }

    /// The program itself, which lies beside the folder of this test; the tests of the command line
    /// have it built.
    fn itself() -> Option<PathBuf> {
        let test = std::env::current_exe().ok()?;
        let program = test.parent()?.parent()?.join("plimsoll");
        program.exists().then_some(program)
    }

    #[test]
    fn copies_and_builds_run_at_small_size() {
        let Some(program) = itself() else {
            return skipped(&"the program itself is not built");
        };
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("Makefile"), "a: a.c\n\t$(CC) -o a a.c\n").unwrap();
        std::fs::write(source.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
        let source = source.path().display().to_string();
        let rate = ComparisonMetric::BytesPerSecond;
        let time = ComparisonMetric::WallTime;
        for (name, set, expect) in [
            (
                "copy-large",
                ("size", "100000"),
                vec![("to", rate), ("from", rate)],
            ),
            (
                "copy-tree",
                ("size", "200000"),
                vec![("to", rate), ("from", rate)],
            ),
            (
                "build",
                ("src", source.as_str()),
                vec![("unpack", time), ("compile", time), ("remove", time)],
            ),
        ] {
            let given = [(set.0.to_owned(), set.1.to_owned())];
            let Ok(Workload::Commands(commands)) = plimsoll_classics::workload(name, &given) else {
                panic!("{name} is programs");
            };
            match play_with(&program, &commands) {
                Ok(ProgramTrialResult {
                    phases: results, ..
                }) => {
                    let told: Vec<_> = results
                        .iter()
                        .map(|r| (r.name.as_str(), r.metric))
                        .collect();
                    assert_eq!(told, expect, "{name}");
                    assert!(results.iter().all(|r| r.value > 0.0), "{results:?}");
                }
                Err(failure) if failure.message.contains("is missing") => skipped(&failure),
                Err(failure) => panic!("{name}: {failure}"),
            }
        }
    }

    /// Fetches packages, needs root for the last one, and takes minutes.
    #[test]
    #[ignore = "a measurement: fetches packages and takes minutes"]
    fn copies_and_builds_run_as_they_are() {
        let Some(program) = itself() else {
            return skipped(&"the program itself is not built");
        };
        for name in ["copy-large", "copy-tree", "build", "build,mode=chroot"] {
            let Ok(Workload::Commands(commands)) = plimsoll_classics::parse_on(name, None) else {
                panic!("{name} is programs");
            };
            match play_with(&program, &commands) {
                Ok(results) => {
                    for phase in results.phases {
                        let value = phase.metric.show(phase.value);
                        let cpu = Nanos(phase.user_cpu_ns + phase.system_cpu_ns);
                        let line = format!("{name}: {}: {value}, CPU {cpu}", phase.name);
                        let _ = writeln!(std::io::stderr(), "{line}");
                    }
                }
                Err(failure) if failure.message.contains("is missing") => skipped(&failure),
                Err(failure) => panic!("{name}: {failure}"),
            }
        }
    }
}
