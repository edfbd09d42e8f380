// SPDX-License-Identifier: Apache-2.0
//! Server files: how a server is started on a data directory, and how a witness asks it.
//!
//! Manual: `docs/durability.md`. A file is foreign text: it starts nothing by being read.

use plimsoll_core::format::FormatVersion;
use plimsoll_core::nearest::nearest;
use plimsoll_core::units::{self, Nanos};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Largest server file.
pub const SERVER_FILE_MAX: usize = 256 << 10;
/// Most settings, and most values of one.
const SETTINGS_MAX: usize = 64;
/// Longest name or value: it becomes a variable of scripts.
const WORD_MAX: usize = 64;

/// The setting that every server has: the file system below its data.
pub const FILE_SYSTEM: &str = "file_system";
/// The setting that every server has: how that is mounted.
pub const MOUNT_OPTIONS: &str = "mount_options";
/// File systems that can be made here.
pub const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// A server file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFile {
    /// [`FormatVersion::DURABILITY`] of its author.
    pub format: FormatVersion,
    /// Name of the server.
    pub name: String,
    /// Its description.
    #[serde(default)]
    pub about: String,
    /// Programs that must be there.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Debian packages or other sources that bring them, in words.
    #[serde(default)]
    pub install: String,
    /// Directories of programs beside the usual ones.
    #[serde(default)]
    pub path: Vec<PathBuf>,
    /// Script whose first line of output is the version.
    #[serde(default)]
    pub version: String,
    /// Script that fills an empty data directory.
    #[serde(default)]
    pub prepare: String,
    /// Script that becomes the server.
    #[serde(default)]
    pub start: String,
    /// Script that ends with 0 when the server answers.
    #[serde(default)]
    pub ready: String,
    /// Script that writes and prints what is acknowledged.
    #[serde(default)]
    pub ack: String,
    /// Script that prints what is there.
    #[serde(default)]
    pub have: String,
    /// The witness of plimsoll that takes the place of all scripts.
    #[serde(default)]
    pub witness: Option<BuiltInWitness>,
    /// The setting whose values are compared where nothing else is asked for.
    #[serde(default, rename = "vary")]
    pub first_setting: Option<String>,
    /// Settings, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, ServerSetting>,
}

/// Witnesses that are part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltInWitness {
    /// Files in a directory.
    Files,
}

/// A setting of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetting {
    /// Its effect.
    #[serde(default)]
    pub about: String,
    /// Its values; the first is the default.
    pub values: Vec<String>,
    /// Losses that the manual allows, by value; `VALUE+SETTING=VALUE` where they depend on another setting.
    #[serde(default)]
    pub loses: BTreeMap<String, String>,
    /// The longest window of loss that the server's manual promises.
    #[serde(default)]
    pub window: BTreeMap<String, String>,
}

/// Reads a server file.
///
/// # Errors
/// When it is none, with every mistake, one a line.
pub fn read(text: &str) -> Result<ServerFile, String> {
    if text.len() > SERVER_FILE_MAX {
        return Err(format!("it has more than {SERVER_FILE_MAX} bytes"));
    }
    let mut file: ServerFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut mistakes = Vec::new();
    if !FormatVersion::DURABILITY.reads(file.format) {
        mistakes.push(format!(
            "format {} is not one that this version reads ({})",
            file.format,
            FormatVersion::DURABILITY
        ));
    }
    check_scripts(&file, &mut mistakes);
    if file.settings.len() > SETTINGS_MAX {
        mistakes.push(format!("it has more than {SETTINGS_MAX} settings"));
    }
    if let Some(name) = file
        .first_setting
        .as_ref()
        .filter(|name| !file.settings.contains_key(*name))
    {
        mistakes.push(format!("vary: there is no setting '{name}'"));
    }
    for (name, setting) in &file.settings {
        check_setting(name, setting, &mut mistakes);
        check_conditions(&file, name, setting, &mut mistakes);
    }
    if !mistakes.is_empty() {
        return Err(mistakes.join("\n"));
    }
    add_file_system(&mut file);
    Ok(file)
}

fn check_scripts(file: &ServerFile, mistakes: &mut Vec<String>) {
    if file.name.is_empty() || !is_word(&file.name) {
        mistakes.push("name: expected letters, digits, '-' and '_'".into());
    }
    let scripts = [
        ("start", &file.start),
        ("ack", &file.ack),
        ("have", &file.have),
    ];
    for (key, script) in scripts {
        match (file.witness.is_some(), script.is_empty()) {
            (false, true) => mistakes.push(format!("{key}: is missing")),
            (true, false) => {
                mistakes.push(format!("{key}: the witness of plimsoll needs no script"));
            }
            _ => {}
        }
    }
    for dir in file.path.iter().filter(|dir| !dir.is_absolute()) {
        mistakes.push(format!("path: '{}' is not absolute", dir.display()));
    }
}

fn check_setting(name: &str, setting: &ServerSetting, mistakes: &mut Vec<String>) {
    let key = format!("settings.{name}");
    if !is_variable(name) {
        mistakes.push(format!("{key}: expected letters, digits and '_'"));
    }
    if [FILE_SYSTEM, MOUNT_OPTIONS].contains(&name) {
        mistakes.push(format!("{key}: every server has it already"));
    }
    if setting.values.is_empty() || setting.values.len() > SETTINGS_MAX {
        mistakes.push(format!("{key}.values: expected 1 to {SETTINGS_MAX} values"));
    }
    for value in setting.values.iter().filter(|value| !is_word(value)) {
        mistakes.push(format!(
            "{key}.values: '{}' is not of letters, digits and -_.,=:/",
            value.escape_default()
        ));
    }
    for (table, values) in [("loses", &setting.loses), ("window", &setting.window)] {
        let is_unknown = |key: &&String| !setting.values.iter().any(|value| value == value_of(key));
        for value in values.keys().filter(is_unknown) {
            mistakes.push(format!("{key}.{table}: '{value}' is not one of its values"));
        }
    }
    for (value, window) in &setting.window {
        if let Err(why) = units::parse_duration(window) {
            mistakes.push(format!("{key}.window.{value}: {why}"));
        }
        if !setting.loses.contains_key(value) {
            mistakes.push(format!(
                "{key}.window.{value}: 'loses' does not have this value"
            ));
        }
    }
}

/// The value that an entry of `loses` is about.
fn value_of(key: &str) -> &str {
    key.split('+').next().unwrap_or_default()
}

/// The other settings that an entry of `loses` depends on, as `name=value`.
fn conditions_of(key: &str) -> impl Iterator<Item = &str> {
    key.split('+').skip(1)
}

fn check_conditions(
    file: &ServerFile,
    name: &str,
    setting: &ServerSetting,
    mistakes: &mut Vec<String>,
) {
    let is_known = |condition: &str| {
        let other = condition.split_once('=');
        other.is_some_and(|(name, value)| {
            let other = file.settings.get(name);
            other.is_some_and(|other| other.values.iter().any(|known| known == value))
        })
    };
    let conditions = setting.loses.keys().flat_map(|key| conditions_of(key));
    for condition in conditions.filter(|condition| !is_known(condition)) {
        mistakes.push(format!(
            "settings.{name}.loses: '{}' is not SETTING=VALUE of another setting",
            condition.escape_default()
        ));
    }
}

fn is_variable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() <= WORD_MAX && name.chars().all(is_letter)
}

fn is_word(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,=:/".contains(c);
    !word.is_empty() && word.len() <= WORD_MAX && word.chars().all(is_plain)
}

/// The settings that every server has.
fn add_file_system(file: &mut ServerFile) {
    let file_system = ServerSetting {
        about: "file system below its data".into(),
        values: FILE_SYSTEMS.map(String::from).to_vec(),
        ..ServerSetting::default()
    };
    let risk = "whatever the file system has in the disk's cache when the power fails";
    let mount_options = ServerSetting {
        about: "options that it is mounted with".into(),
        values: ["defaults", "nobarrier", "data=writeback", "data=journal"]
            .map(String::from)
            .to_vec(),
        loses: BTreeMap::from([("nobarrier".into(), risk.into())]),
        ..ServerSetting::default()
    };
    file.settings.insert(FILE_SYSTEM.into(), file_system);
    file.settings.insert(MOUNT_OPTIONS.into(), mount_options);
}

/// The promise that a server's manual makes with some settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerPromise {
    /// The losses that it allows; empty where it claims to be safe.
    pub may_lose: String,
    /// The longest window of loss that it allows.
    pub window: Option<Nanos>,
}

/// Values of all settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerSettings(pub BTreeMap<String, String>);

impl ServerFile {
    /// The first value of each setting.
    pub fn defaults(&self) -> ServerSettings {
        let first = |(name, setting): (&String, &ServerSetting)| {
            (
                name.clone(),
                setting.values.first().cloned().unwrap_or_default(),
            )
        };
        ServerSettings(self.settings.iter().map(first).collect())
    }

    /// The same with one changed, by `name=value`.
    ///
    /// # Errors
    /// When there is no such setting, or no such value.
    pub fn with(&self, settings: &ServerSettings, word: &str) -> Result<ServerSettings, String> {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("'{word}' is not of the form NAME=VALUE"))?;
        let setting = self.setting(name)?;
        // Options of mounts are many; the file system says which it knows.
        let is_free = name == MOUNT_OPTIONS && is_word(value);
        if !is_free && !setting.values.iter().any(|known| known == value) {
            let known = setting.values.join(", ");
            return Err(format!(
                "'{value}' is not a value of {name}: expected {known}"
            ));
        }
        let mut changed = settings.clone();
        changed.0.insert(name.to_owned(), value.to_owned());
        Ok(changed)
    }

    /// A setting by its name.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn setting(&self, name: &str) -> Result<&ServerSetting, String> {
        self.settings.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.settings.keys().map(String::as_str).collect();
            let meant = nearest(name, names.iter().copied())
                .map(|meant| format!(" (did you mean {meant}?)"))
                .unwrap_or_default();
            format!(
                "{} has no setting '{name}'{meant}: expected one of {}",
                self.name,
                names.join(", ")
            )
        })
    }

    /// The losses that the manual allows with these settings, and the longest window that it promises;
    /// empty where they claim to be safe.
    pub fn promise(&self, settings: &ServerSettings) -> ServerPromise {
        let mut risks = Vec::new();
        let mut windows = Vec::new();
        for (name, setting) in &self.settings {
            let value = settings.value(name);
            let is_met = |condition: &str| {
                let other = condition.split_once('=');
                other.is_some_and(|(name, value)| settings.value(name) == value)
            };
            let applies = |key: &str| value_of(key) == value && conditions_of(key).all(is_met);
            if let Some((key, risk)) = setting.loses.iter().find(|(key, _)| applies(key)) {
                risks.push(format!(
                    "{name}={} may lose {risk}",
                    key.replace('+', " with ")
                ));
                let window = setting.window.get(key);
                windows.push(window.and_then(|text| units::parse_duration(text).ok()));
            }
        }
        // One that promises no window may lose anything.
        let window = windows.into_iter().min_by_key(|window| window.is_some());
        ServerPromise {
            may_lose: risks.join("; "),
            window: window.flatten(),
        }
    }
}

impl ServerSettings {
    /// The value of a setting; empty where there is none.
    pub fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = r#"
format = "1.0"
name = "store"
start = "exec stored"
ack = "load"
have = "list"
[settings.sync]
values = ["always", "1s", "never"]
loses = { 1s = "the last second", never = "anything" }
window = { 1s = "1s" }
"#;

    #[test]
    fn a_file_is_read_with_the_settings_that_all_have() {
        let file = read(STORE).unwrap();
        let settings = file.defaults();
        assert_eq!(settings.value("sync"), "always");
        assert_eq!(settings.value(FILE_SYSTEM), "ext4");
        assert_eq!(file.promise(&settings), ServerPromise::default());
        let weak = file.with(&settings, "sync=1s").unwrap();
        let ServerPromise { may_lose, window } = file.promise(&weak);
        assert_eq!(may_lose, "sync=1s may lose the last second");
        assert_eq!(window, Some(Nanos::SECOND));
        let weaker = file.with(&weak, "mount_options=nobarrier").unwrap();
        assert_eq!(file.promise(&weaker).window, None);
    }

    #[test]
    fn a_loss_may_depend_on_another_setting() {
        let more = "values = [\"1s\", \"1h\"]\nloses = { \"1h+sync=1s\" = \"an hour\" }\n";
        let file = read(&format!("{STORE}[settings.log]\n{more}")).unwrap();
        let hour = file.with(&file.defaults(), "log=1h").unwrap();
        assert_eq!(file.promise(&hour), ServerPromise::default());
        let both = file.with(&hour, "sync=1s").unwrap();
        let told = file.promise(&both).may_lose;
        assert!(
            told.contains("log=1h with sync=1s may lose an hour"),
            "{told}"
        );
        let wrong = more.replace("sync=1s", "sync=1m");
        let error = read(&format!("{STORE}[settings.log]\n{wrong}")).unwrap_err();
        assert!(error.contains("'sync=1m' is not SETTING=VALUE"), "{error}");
    }

    #[test]
    fn the_file_of_the_manual_can_be_read() {
        let manual = include_str!("../../../docs/durability.md");
        let (_, rest) = manual.split_once("```ini\n").unwrap();
        let (text, _) = rest.split_once("```\n").unwrap();
        let file = read(text).unwrap();
        assert_eq!(file.first_setting.as_deref(), Some("sync"));
        assert_eq!(file.settings["sync"].loses.len(), 2);
    }

    #[test]
    fn unknown_settings_and_values_are_told_with_what_is_there() {
        let file = read(STORE).unwrap();
        let settings = file.defaults();
        let error = file.with(&settings, "syn=1s").unwrap_err();
        assert!(error.contains("did you mean sync?"), "{error}");
        let error = file.with(&settings, "sync=2s").unwrap_err();
        assert!(error.contains("expected always, 1s, never"), "{error}");
        assert!(
            file.with(&settings, "sync")
                .unwrap_err()
                .contains("NAME=VALUE")
        );
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = r#"
format = "9.0"
name = "a b"
vary = "sync"
path = ["bin"]
[settings.file_system]
values = []
loses = { on = "all" }
window = { on = "soon" }
"#;
        let error = read(text).unwrap_err();
        for part in [
            "format 9.0",
            "name:",
            "start: is missing",
            "ack: is missing",
            "have: is missing",
            "path: 'bin'",
            "vary: there is no setting 'sync'",
            "settings.file_system: every server",
            "settings.file_system.values: expected 1",
            "settings.file_system.loses: 'on'",
            "settings.file_system.window.on:",
        ] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
        assert!(read("name = 1").unwrap_err().contains("name"));
        let unknown = format!("stop = \"kill\"\n{STORE}");
        assert!(read(&unknown).unwrap_err().contains("stop"));
    }
}
