// SPDX-License-Identifier: Apache-2.0
//! The question of a command: a server, what its data lie on, and the settings of each row.

use super::DurabilityArgs;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::text;
use plimsoll_durability::bench::{BenchDisk, BenchFileSystem, BenchStack};
use plimsoll_durability::server_file::{
    self, FILE_SYSTEM, FILE_SYSTEMS, MOUNT_OPTIONS, ServerFile, ServerSetting, ServerSettings,
};
use plimsoll_durability::view::ServerScript;
use plimsoll_durability::{LabelledSettings, shipped_server, shipped_servers};
use plimsoll_lab::stacks::{self, StackConfig, StackUpOptions, manage};
use plimsoll_machine::host::mounts;
use plimsoll_run::tuning::{TuningChange, TuningTarget};
use std::path::{Path, PathBuf};

/// The server whose witness is part of the program.
const FILES: &str = "files";

/// Mount options that decide on what is durable.
const DURABLE_OPTIONS: [&str; 5] = ["data=", "commit=", "barrier", "nobarrier", "journal_"];

/// A server, and what its data lie on.
#[derive(Debug)]
pub(super) struct DurabilitySubject {
    /// The server. The settings of the stack are among its own.
    pub(super) file: ServerFile,
    /// The storage that its speed is measured on, where the command names it.
    pub(super) storage: Option<PathBuf>,
    stack: Option<TuningTarget>,
    base: ServerSettings,
}

/// Where stacks are made.
#[derive(Debug)]
pub(super) struct StackDirs<'a> {
    /// Those that are cut.
    pub(super) cut: &'a Path,
    /// Those that are measured.
    pub(super) gain: Option<&'a Path>,
}

impl DurabilitySubject {
    /// Reads what a command asks about, without the changes of `--set`.
    pub(super) fn read(subject: &str, args: &DurabilityArgs) -> Result<Self, CliError> {
        let mut read = Self::of(subject, args)?;
        if let Some(stack) = &args.over {
            if read.stack.is_some() {
                return Err(CliError::invalid(format!(
                    "{subject} is a stack itself: leave out --over"
                )));
            }
            read.put_on(stack)?;
        }
        for word in &args.set {
            read.base = read
                .file
                .with(&read.base, word)
                .map_err(|why| CliError::invalid(format!("--set: {why}")))?;
        }
        Ok(read)
    }

    fn of(subject: &str, args: &DurabilityArgs) -> Result<Self, CliError> {
        let path = Path::new(subject);
        let is_path = subject.contains('/') && !subject.contains('(');
        if let Some(text) = shipped_server(subject) {
            return Ok(Self::alone(parse(subject, text)?));
        }
        if is_path && path.is_dir() {
            return directory(path);
        }
        if is_path || subject.ends_with(".toml") {
            return Ok(Self::alone(user_file(path, args)?));
        }
        let base = subject.split(['(', '+']).next().unwrap_or_default();
        if stacks::find(base).is_none() {
            let known: Vec<&str> = shipped_servers().collect();
            let text = format!(
                "unknown server or stack '{subject}': expected one of {}, a stack (plimsoll stack list), \
                 a server file, or a directory",
                known.join(", ")
            );
            return Err(CliError::invalid(text));
        }
        let mut read = Self::alone(files()?);
        read.put_on(subject)?;
        subject.clone_into(&mut read.file.name);
        read.file.about = "files on a stack".into();
        // The stack is what is asked about.
        read.file.first_setting = None;
        Ok(read)
    }

    fn alone(file: ServerFile) -> Self {
        DurabilitySubject {
            base: file.defaults(),
            file,
            storage: None,
            stack: None,
        }
    }

    /// Puts the data on a stack, whose settings take the place of those of a file system.
    fn put_on(&mut self, stack: &str) -> Result<(), CliError> {
        let target = TuningTarget::parse(stack)?;
        if target.is_simulated() {
            return Err(CliError::invalid(format!(
                "{stack}: a simulated device has no disk that could be cut"
            )));
        }
        for name in [FILE_SYSTEM, MOUNT_OPTIONS] {
            self.file.settings.remove(name);
        }
        for setting in target.settings() {
            let mut made = ServerSetting {
                about: format!("of {stack}"),
                ..ServerSetting::default()
            };
            let levels = setting.levels.iter();
            let levels = levels.map(|level| (level.value.clone(), level.risk.clone()));
            let from = (setting.from.clone(), setting.from_risk.clone());
            for (value, risk) in std::iter::once(from).chain(levels) {
                made.values.push(value.clone());
                if !risk.is_empty() {
                    made.loses.insert(value, risk);
                }
            }
            self.file.settings.insert(setting.name.clone(), made);
        }
        self.base = self.file.defaults();
        self.stack = Some(target);
        Ok(())
    }

    /// The rows of a command, on disks that are laid out but not made. A value that was not asked for and
    /// cannot be had here is left out, and `leave_out` hears why.
    pub(super) fn rows(
        &self,
        args: &DurabilityArgs,
        dirs: &StackDirs<'_>,
        leave_out: &dyn Fn(&str),
    ) -> Result<Vec<LabelledSettings>, CliError> {
        let is_asked = args.vary.is_some() || self.stack.is_none();
        let mut rows = Vec::new();
        for label in self.labels(args)? {
            match self.row(&label, args, dirs) {
                Ok(row) => rows.push(row),
                Err(error) if is_asked || label.is_empty() => return Err(error),
                Err(error) => leave_out(&format!("{label} is left out: {}", error.text())),
            }
        }
        Ok(rows)
    }

    /// The setting of each row as `name=value`; empty for the settings as they are.
    fn labels(&self, args: &DurabilityArgs) -> Result<Vec<String>, CliError> {
        let Some(vary) = args.vary.as_ref().or(self.file.first_setting.as_ref()) else {
            return Ok(self.weak_values());
        };
        let (name, values) = match vary.split_once('=') {
            Some((name, values)) => (name, values.split(',').map(String::from).collect()),
            None => (vary.as_str(), Vec::new()),
        };
        let setting = self
            .file
            .setting(name)
            .map_err(|why| CliError::invalid(format!("--vary: {why}")))?;
        let values: Vec<String> = match values.is_empty() {
            true => setting.values.clone(),
            false => values,
        };
        Ok(values
            .iter()
            .map(|value| format!("{name}={value}"))
            .collect())
    }

    /// Of a stack: as it is, and each value that weakens it.
    fn weak_values(&self) -> Vec<String> {
        let mut labels = vec![String::new()];
        if let Some(stack) = &self.stack {
            for setting in stack.settings() {
                // Where it has a weak value already, the safe ones beside it.
                let is_weak = !setting.from_risk.is_empty();
                let others = setting.levels.iter();
                let others = others.filter(|level| level.risk.is_empty() == is_weak);
                labels.extend(others.map(|level| format!("{}={}", setting.name, level.value)));
            }
        }
        labels
    }

    fn row(
        &self,
        label: &str,
        args: &DurabilityArgs,
        dirs: &StackDirs<'_>,
    ) -> Result<LabelledSettings, CliError> {
        let settings = match label {
            "" => Ok(self.base.clone()),
            word => self.file.with(&self.base, word),
        };
        let settings = settings.map_err(|why| CliError::invalid(format!("--vary: {why}")))?;
        let Some(target) = &self.stack else {
            let disk = BenchDisk::FileSystem(BenchFileSystem {
                name: settings.value(FILE_SYSTEM).into(),
                options: settings.value(MOUNT_OPTIONS).into(),
            });
            return Ok(LabelledSettings {
                label: label.into(),
                settings,
                disk,
                fast: None,
            });
        };
        let is_changed = |change: &TuningChange<'_>| change.0.from != change.1;
        let changes: Vec<TuningChange<'_>> = target
            .settings()
            .iter()
            .map(|setting| (setting, settings.value(&setting.name)))
            .filter(is_changed)
            .collect();
        let words = target.with(&changes);
        let disk = stack_in(&words, dirs.cut, args.disk_size)?;
        let fast = dirs
            .gain
            .map(|dir| stack_in(&words, dir, args.disk_size))
            .transpose()?;
        Ok(LabelledSettings {
            label: label.into(),
            settings,
            disk: BenchDisk::Stack(Box::new(disk)),
            fast,
        })
    }
}

/// A stack as it is going to be made in this directory.
fn stack_in(words: &str, dir: &Path, disk_bytes: u64) -> Result<BenchStack, CliError> {
    let choice = StackConfig::parse(words).map_err(CliError::invalid)?;
    let options = StackUpOptions {
        size_bytes: disk_bytes,
        ..StackUpOptions::new(dir.into())
    };
    let planned = manage::plan(&choice, &options, &mut context::nodes())
        .map_err(doing(CliExitCode::Usage, format!("plan {words}")))?;
    let stack = BenchStack {
        id: planned.id,
        plan: planned.plan,
        mount_dir: planned.made.mount_dir.into(),
    };
    match stack.refusal() {
        None => Ok(stack),
        Some(why) => Err(CliError::invalid(format!("{words}: {why}"))),
    }
}

/// Files in a directory: on a disk with the same file system, mounted in the same way. Their speed is that
/// of the directory itself.
fn directory(path: &Path) -> Result<DurabilitySubject, CliError> {
    let what = || format!("look at {}", path.display());
    let real = path
        .canonicalize()
        .map_err(doing(CliExitCode::Failed, what()))?;
    let mount = mounts::containing(&real).map_err(doing(CliExitCode::Failed, what()))?;
    let mount = mount.filter(|mount| FILE_SYSTEMS.contains(&&*mount.file_system));
    let Some(mount) = mount else {
        return Err(CliError::invalid(format!(
            "{}: its file system is none that can be made on a logged disk: expected one of {}",
            path.display(),
            FILE_SYSTEMS.join(", ")
        )));
    };
    let decides = |option: &&str| DURABLE_OPTIONS.iter().any(|one| option.starts_with(one));
    let options: Vec<&str> = mount.options.split(',').filter(decides).collect();
    let mut read = DurabilitySubject::alone(files()?);
    read.base
        .0
        .insert(FILE_SYSTEM.into(), mount.file_system.clone());
    if !options.is_empty() {
        read.base.0.insert(MOUNT_OPTIONS.into(), options.join(","));
    }
    read.file.about = format!(
        "files on a disk with the file system of {} ({}, {})",
        path.display(),
        mount.file_system,
        read.base.value(MOUNT_OPTIONS)
    );
    read.storage = Some(real);
    Ok(read)
}

fn files() -> Result<ServerFile, CliError> {
    parse(FILES, shipped_server(FILES).unwrap_or_default())
}

fn parse(subject: &str, text: &str) -> Result<ServerFile, CliError> {
    server_file::read(text)
        .map_err(|why| CliError::invalid(format!("server file {subject}: {why}")))
}

/// A server file of a user, which is trusted.
fn user_file(path: &Path, args: &DurabilityArgs) -> Result<ServerFile, CliError> {
    let file = parse(&path.display().to_string(), &text_of(path)?)?;
    let starts: Vec<String> = ServerScript::ALL
        .into_iter()
        .map(|script| (script, script.text(&file)))
        .filter(|(_, text)| !text.is_empty())
        .map(|(script, text)| format!("{}: {}", script.name(), text.trim()))
        .collect();
    args.trust.check(path, &starts, args.dry_run)?;
    Ok(file)
}

/// The text of a server file: a regular file, not too large, that would act on no terminal.
fn text_of(path: &Path) -> Result<String, CliError> {
    let about = |why: &dyn std::fmt::Display| {
        CliError::usage(format!("read server file {}: {why}", path.display()))
    };
    let facts = std::fs::metadata(path).map_err(|error| about(&error))?;
    if !facts.is_file() || facts.len() > server_file::SERVER_FILE_MAX as u64 {
        return Err(about(&"it is no regular file, or too large"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| about(&error))?;
    match text::printable_lines(&text) == text {
        true => Ok(text),
        false => Err(about(&"it has control characters")),
    }
}
