// SPDX-License-Identifier: Apache-2.0
//! Workloads as people write them, and their meaning.

use crate::request::WorkloadRequest;
use crate::toml_file::{TomlFileText, control_character};
use plimsoll_classics::originals::{self, JobTrust};
use plimsoll_classics::{ClassicsError, filebench, fio};
use plimsoll_console::failure::CliError;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::model::PackedRequests;
use plimsoll_core::settings::SettingError;
use plimsoll_core::workload::commands::WorkloadCommand;
use plimsoll_core::workload::{Workload, WorkloadFile};
use plimsoll_machine::host::{Host as _, LocalHost, SearchPath, remedy_of};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Largest workload file read: a model of ten million intervals.
const WORKLOAD_MAX_BYTES: u64 = 1 << 30;

/// Most bytes of packed requests: some 400 million of them.
const PACKED_MAX_BYTES: u64 = 1 << 30;

/// Reads the name of a workload with its settings (`varmail,nfiles=9000`), a file
/// (`nas.toml`, `nas.toml@12`, `nas.toml@auto`, `mail.f`, `db.fio`), or an original program
/// (`fio:db.fio`), whose job is written anew.
///
/// # Errors
/// When it is none of these, or cannot be read.
pub fn workload(text: &str) -> Result<WorkloadRequest, CliError> {
    workload_trusting(text, &[])
}

/// The same; job files that are among `trusted` are given to original programs as they are.
///
/// # Errors
/// As [`workload`].
pub fn workload_trusting(text: &str, trusted: &[PathBuf]) -> Result<WorkloadRequest, CliError> {
    let (name, factor) = match text.rsplit_once('@') {
        Some((name, factor)) if Path::new(name).is_file() || !text.contains([',', ' ', ':']) => {
            (name, Some(factor))
        }
        _ => (text, None),
    };
    let scale = factor.map(|factor| parse_scale(text, factor)).transpose()?;
    let request = read_or_make(name, trusted)?;
    let Some(scale) = scale else {
        return Ok(request);
    };
    match request.workload {
        Workload::Model(_) => Ok(WorkloadRequest { scale, ..request }),
        _ => Err(CliError::usage(format!(
            "use '{text}': only a fitted model has rates to multiply; '{name}' runs as fast as the storage lets it"
        ))),
    }
}

/// A file is read, a program before a colon is run itself, anything else is known by name.
fn read_or_make(name: &str, trusted: &[PathBuf]) -> Result<WorkloadRequest, CliError> {
    let path = Path::new(name);
    if path.is_file() {
        return read_file(path);
    }
    if let Some((prefix, rest)) = name.split_once(':')
        && originals::PREFIXES
            .iter()
            .any(|(known, _)| *known == prefix)
    {
        return Ok(original(prefix, rest, trusted)?.into());
    }
    let memory = plimsoll_machine::host::facts::machine().ram_bytes;
    let looks_like_a_file = path.extension().is_some() || name.contains('/');
    let made = plimsoll_classics::parse_on(name, Some(memory)).map_err(|error| {
        if looks_like_a_file && !name.contains([',', ' ']) {
            return CliError::usage(format!("read workload {name}: there is no such file"));
        }
        let hint = hint_for(&error);
        CliError::invalid(error).hint(hint)
    })?;
    if let Workload::Commands(commands) = &made {
        check_files(commands.prepare.iter())?;
    }
    Ok(WorkloadRequest {
        notes: plimsoll_classics::notes(&made),
        ..made.into()
    })
}

/// A way out of words that make no workload.
fn hint_for(error: &ClassicsError) -> String {
    let ClassicsError::Setting(error) = error else {
        return "`plimsoll workloads` lists all; a workload may also be a file: a model made by plimsoll fit, \
                a fio job (.fio), filebench's .f"
            .into();
    };
    match error {
        SettingError::Unknown { setting, .. } if plimsoll_classics::find(setting).is_ok() => {
            format!("{setting} is a workload: give each with a -w, and its settings after its name")
        }
        SettingError::Unknown { owner, .. } | SettingError::Value { owner, .. } => {
            format!("`plimsoll workloads {owner}` lists its settings")
        }
    }
}

/// Reads a file by the language of its ending, or else its content.
fn read_file(path: &Path) -> Result<WorkloadRequest, CliError> {
    let text = read_text(path)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let about = |error: plimsoll_classics::ClassicsError| about(path, &within(&error));
    let ending = match path.extension().and_then(|ending| ending.to_str()) {
        Some(known @ ("fio" | "f" | "iolog" | "toml")) => Some(known),
        _ if fio::is_log(&text) => Some("iolog"),
        _ if fio::is_job(&text) => Some("fio"),
        other => other,
    };
    match ending {
        Some("fio") => {
            let job = fio::job(&stem, &text).map_err(about)?;
            Ok(WorkloadRequest {
                notes: job.notes,
                ..job.workload.into()
            })
        }
        Some("f") => {
            let mut script = filebench::parse(&text).map_err(about)?;
            script.workload.rename(stem.into_owned());
            Ok(WorkloadRequest {
                length: script.length,
                notes: script.notes,
                ..script.workload.into()
            })
        }
        Some("iolog") => Ok(fio::read_log(&stem, &text).map_err(about)?.into()),
        _ => Ok(read_toml(path, &text)?.into()),
    }
}

/// Error inside a file whose name is in the words before it.
fn within(error: &plimsoll_classics::ClassicsError) -> String {
    match error {
        plimsoll_classics::ClassicsError::Line { line, reason } => format!("line {line}: {reason}"),
        plimsoll_classics::ClassicsError::Shape { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// Refuses files of the user, as arguments of commands, that cannot be read.
fn check_files<'a>(commands: impl Iterator<Item = &'a WorkloadCommand>) -> Result<(), CliError> {
    for word in commands.flat_map(|command| command.argv.iter().skip(1)) {
        let file = word.strip_prefix("{here}/").unwrap_or(word);
        if file.len() < word.len() || file.starts_with('/') {
            std::fs::File::open(file).map_err(|error| about(Path::new(file), &error))?;
        }
    }
    Ok(())
}

/// An original program, with its job file where it has one.
fn original(prefix: &str, rest: &str, trusted: &[PathBuf]) -> Result<Workload, CliError> {
    let file = originals::job_file(prefix, rest).map_err(CliError::invalid)?;
    let file = file.as_deref().map(Path::new);
    let text = file.map(read_text).transpose()?;
    let is_trusted = file.is_some_and(|file| is_among(file, trusted));
    let job = text.as_deref().map(|text| match is_trusted {
        true => JobTrust::Trusted,
        false => JobTrust::Stranger(text),
    });
    let workload = originals::workload(prefix, rest, job).map_err(|error| match (&error, file) {
        (ClassicsError::Line { .. }, Some(file)) => about(file, &within(&error)).hint(format!(
            "{prefix}: takes only what describes a load from a file; --trust {} gives it to {prefix} as it is, \
             with every program it starts and every place it names",
            file.display()
        )),
        _ => CliError::invalid(error),
    })?;
    check_programs(&workload)?;
    Ok(workload)
}

/// Whether a file is one of these, by whichever name.
fn is_among(file: &Path, trusted: &[PathBuf]) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let known = real(file);
    known.is_some() && trusted.iter().any(|path| real(path) == known)
}

/// Refuses an original program that is not installed, before anything is made for it.
fn check_programs(workload: &Workload) -> Result<(), CliError> {
    let Workload::Commands(commands) = workload else {
        return Ok(());
    };
    let host = LocalHost::new(SearchPath::new(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    for program in commands.phases.iter().flat_map(programs_of) {
        if host.find_program(program).is_none() {
            return Err(CliError::usage(format!(
                "run {}: {program} is missing: {}",
                commands.name,
                remedy_of(program)
            )));
        }
    }
    Ok(())
}

/// Programs that a command starts: its own, and those that this and the next start in turn.
fn programs_of(command: &WorkloadCommand) -> Vec<&str> {
    let mut programs = Vec::new();
    let mut words = command.argv.iter().map(String::as_str);
    while let Some(program) = words.next() {
        programs.push(program);
        match program {
            "bwrap" => while words.next().is_some_and(|word| word != "--") {},
            "setarch" => {
                words.next();
            }
            _ => break,
        }
    }
    programs
}

/// A factor on the rates of a model; `None` where it is to be found.
fn parse_scale(text: &str, factor: &str) -> Result<Option<f64>, CliError> {
    if factor == "auto" {
        return Ok(None);
    }
    match factor.parse::<f64>() {
        Ok(value) if (1e-6..=1e6).contains(&value) => Ok(Some(value)),
        _ => Err(CliError::invalid(format!(
            "invalid factor in '{text}': expected a number from 0.000001 to 1000000 after @, \
             or auto"
        ))),
    }
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("read workload {}: {error}", path.display()))
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = std::fs::metadata(path)
        .map_err(|error| about(path, &error))?
        .len();
    if bytes > WORKLOAD_MAX_BYTES {
        let text = format!("it has {bytes} bytes, more than any workload");
        return Err(about(path, &text));
    }
    std::fs::read_to_string(path).map_err(|error| about(path, &error))
}

fn read_toml(path: &Path, text: &str) -> Result<Workload, CliError> {
    let file: WorkloadFile = toml::from_str(text).map_err(|error| not_read(path, text, &error))?;
    if let Some(reason) = control_character(text) {
        return Err(about(path, &reason));
    }
    if !FormatVersion::WORKLOAD.reads(file.format) {
        let text = format!(
            "its format is {} and this program reads up to {}",
            file.format,
            FormatVersion::WORKLOAD
        );
        return Err(about(path, &text));
    }
    let mut workload = file.workload;
    if let Workload::Commands(_) = workload {
        let text = "it names programs to start, which a workload file may not";
        return Err(about(path, &text).hint("give the command line yourself: -w 'cmd:COMMAND'"));
    }
    if let Workload::Model(model) = &mut workload
        && let Some(packed) = &mut model.requests
    {
        attach(path, packed)?;
    }
    Ok(workload)
}

/// Why a file is no workload: its mistake, or that it holds distributions, as models once did.
fn not_read(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let table: Option<toml::Table> = toml::from_str(text).ok();
    let model = table
        .as_ref()
        .and_then(|file| file.get("workload")?.get("model"));
    if model.and_then(|model| model.get("parametric")).is_none() {
        let file = TomlFileText {
            kind: "workload",
            file: path,
            text,
        };
        return file.misread(error);
    }
    let text = "it holds distributions of requests ([workload.model.parametric]), which this \
                version cannot play";
    about(path, &text).hint("fit the recording again, without --parametric: plimsoll fit RECORDING")
}

/// Reads the packed requests of a model from the file beside it.
fn attach(model: &Path, packed: &mut PackedRequests) -> Result<(), CliError> {
    let name = Path::new(&packed.file);
    // A name, never a way to somewhere else.
    let is_name = name
        .file_name()
        .is_some_and(|file| file == name.as_os_str());
    if !is_name {
        let text = format!(
            "its requests are in '{}', which is not a file name",
            packed.file
        );
        return Err(about(model, &text));
    }
    let file = model.with_file_name(name);
    let hint = format!("it belongs beside {}", model.display());
    let missing = |error| about(&file, &error).hint(hint.clone());
    // A model says how long its file is; what is longer is another one, and is not read.
    let facts = std::fs::metadata(&file).map_err(missing)?;
    let most = packed.packed_bytes().min(PACKED_MAX_BYTES);
    if !facts.is_file() || facts.len() > most {
        let text = format!("it is not the file of {most} bytes that belongs to the model");
        return Err(about(&file, &text));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&file)
        .and_then(|opened| opened.take(most).read_to_end(&mut bytes))
        .map_err(missing)?;
    packed.attach(bytes).map_err(|error| about(&file, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_and_what_runs_in_it_are_looked_for() {
        let programs = |words: &str| {
            let command = WorkloadCommand {
                name: "x".into(),
                argv: words.split(' ').map(String::from).collect(),
                output: plimsoll_core::workload::commands::CommandOutputFormat::Time,
                moves: None,
            };
            programs_of(&command).join(" ")
        };
        for (words, expect) in [
            ("fio a.fio", "fio"),
            ("bwrap --bind a b -- fio /job", "bwrap fio"),
            (
                "bwrap --chdir / -- setarch -R filebench -f /job",
                "bwrap setarch filebench",
            ),
            ("bwrap", "bwrap"),
        ] {
            assert_eq!(programs(words), expect);
        }
    }

    #[test]
    fn only_a_trusted_job_file_is_given_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [mine, other] = ["mine.fio", "other.fio"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "[a]\nrw=read\nsize=1m\nexec_prerun=true\n").unwrap();
            path
        });
        let link = folder.path().join("link.fio");
        std::os::unix::fs::symlink(&mine, &link).unwrap();
        let made = |file: &Path, trusted: &[PathBuf]| {
            original("fio", &file.display().to_string(), trusted)
        };
        for file in [&mine, &link] {
            match made(file, std::slice::from_ref(&mine)) {
                Ok(Workload::Commands(commands)) => {
                    assert!(commands.prepare.is_empty());
                    let last = commands.phases[0].argv.last();
                    assert_eq!(last, Some(&file.display().to_string()));
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert!(error.message.contains("is missing"), "{error}"),
            }
        }
        for (file, trusted) in [(&mine, vec![]), (&other, vec![mine.clone()])] {
            let error = made(file, &trusted).unwrap_err();
            assert!(error.message.contains("line 4: 'exec_prerun"), "{error}");
        }
    }
}
