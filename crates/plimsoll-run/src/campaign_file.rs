// SPDX-License-Identifier: Apache-2.0
//! Campaign files, and the words of their systems and workloads. Errors name the file, the line and the key.

use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::campaign::{
    CampaignProblem, CampaignSetting, CampaignSpec, CampaignWorkload, joined, settings_choices,
};
use plimsoll_core::units::Nanos;
use plimsoll_lab::stacks::StackPlacement;
use std::path::{Path, PathBuf};

use crate::toml_file::{self, TomlFilePlace, TomlFileText};
use crate::trust::STANDARD_INPUT;

/// Name of such a file in errors.
const KIND: &str = "campaign";

/// A campaign file.
#[derive(Debug, Clone)]
pub struct CampaignFile {
    /// Its path.
    pub path: PathBuf,
    /// Machines that it reaches by itself, as the keys that say so.
    pub reaches: Vec<String>,
    text: String,
}

impl CampaignFile {
    /// Reads a campaign. Its rules are not looked at.
    ///
    /// # Errors
    /// When the file cannot be read, or has not the form of a campaign.
    pub fn read(path: &Path) -> Result<(CampaignFile, CampaignSpec), CliError> {
        CampaignFile::of_text(path, toml_file::read(KIND, path)?)
    }

    /// Reads a campaign from standard input.
    ///
    /// # Errors
    /// As [`CampaignFile::read`].
    pub fn of_standard_input() -> Result<(CampaignFile, CampaignSpec), CliError> {
        let path = Path::new(STANDARD_INPUT);
        CampaignFile::of_text(path, toml_file::read_from(KIND, path, std::io::stdin())?)
    }

    /// Whether it was read from standard input.
    pub fn is_standard_input(&self) -> bool {
        self.path == Path::new(STANDARD_INPUT)
    }

    fn of_text(path: &Path, text: String) -> Result<(CampaignFile, CampaignSpec), CliError> {
        let mut file = CampaignFile {
            path: path.into(),
            reaches: Vec::new(),
            text,
        };
        let spec = file.parsed()?;
        file.reaches = reached_by(&spec);
        Ok((file, spec))
    }

    /// The campaign of a run folder, with the seed that was drawn for it.
    ///
    /// # Errors
    /// When it is none, or one of a version that did not keep campaigns.
    pub fn of_run(folder: &Path) -> Result<(CampaignFile, CampaignSpec), CliError> {
        let manifest = plimsoll_archive::manifest(folder);
        let manifest = manifest.map_err(failed(CliExitCode::Usage))?;
        let Some(spec) = manifest.campaign else {
            let text = format!("run {}: an older version measured it", folder.display());
            return Err(
                CliError::usage(text).hint("it did not keep the campaign; type its command again")
            );
        };
        let file = CampaignFile {
            path: folder.join("manifest.json"),
            reaches: reached_by(&spec),
            text: String::new(),
        };
        let seed = Some(manifest.seed.0.into());
        Ok((file, CampaignSpec { seed, ..spec }))
    }

    /// Whether a file of TOML is a workload or a model, which has one `[workload]`.
    pub fn is_workload(path: &Path) -> bool {
        let text = toml_file::read(KIND, path).ok();
        let table = text.and_then(|text| text.parse::<toml::Table>().ok());
        table.is_some_and(|table| table.get("workload").is_some_and(toml::Value::is_table))
    }

    fn parsed(&self) -> Result<CampaignSpec, CliError> {
        toml::from_str(&self.text).map_err(|error| self.places().misread(&error))
    }

    fn places(&self) -> TomlFileText<'_> {
        TomlFileText {
            kind: KIND,
            file: &self.path,
            text: &self.text,
        }
    }

    /// Where a key stands.
    pub fn place(&self, key: &str) -> TomlFilePlace {
        self.places().at_key(key)
    }

    /// A mistake, where it stands.
    pub fn words(&self, problem: &CampaignProblem) -> String {
        let place = self.place(&problem.at);
        // The place says the key, which an invalid value is of.
        let own = |key: &str| key.to_owned();
        let words = problem.words(&own);
        let words = words.replacen(
            &format!(" for {}: expected", own(&problem.at)),
            ": expected",
            1,
        );
        format!("{place}: {words}")
    }
}

/// Machines that a campaign reaches: hosts of a scheduler and machines of an inventory by commands, servers
/// of others by their addresses.
fn reached_by(spec: &CampaignSpec) -> Vec<String> {
    let clients = spec.clients.iter();
    let clients = clients.map(|clients| format!("what clients.on = \"{}\" starts", clients.on));
    let on = spec.stacks.on.iter();
    let on = on.filter(|on| StackPlacement::named(on).is_none());
    let on = on.map(|on| format!("ssh to the machines of stacks.on = \"{on}\""));
    let servers = spec.target.iter().filter(|one| one.target.contains("://"));
    let servers = servers.map(|one| format!("a connection to {}", one.target));
    clients.chain(on).chain(servers).collect()
}

/// Refuses a campaign with mistakes, telling all of them, each in words.
///
/// # Errors
/// When there are some.
pub fn refuse_problems(
    problems: &[CampaignProblem],
    words: &dyn Fn(&CampaignProblem) -> String,
) -> Result<(), CliError> {
    let told: Vec<String> = problems.iter().map(words).collect();
    let text = match &told[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("{} mistakes:\n  {}", several.len(), several.join("\n  ")),
    };
    let failure = CliError::sentence(CliExitCode::Usage, text);
    let hints = problems.iter().find_map(|problem| problem.hint);
    Err(match hints {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The campaign as a file of its own.
pub fn campaign_text(spec: &CampaignSpec) -> Result<String, CliError> {
    let text = toml::to_string(spec);
    text.map_err(|error| CliError::new(CliExitCode::Failed, format!("write the campaign: {error}")))
}

/// A workload of a campaign with one choice of its settings.
#[derive(Debug, Clone)]
pub struct WorkloadVariant {
    /// As on the command line.
    pub text: String,
    /// How long its trials are, where the campaign says.
    pub length: Option<Nanos>,
    /// Its key in the campaign.
    pub key: String,
    /// Name that replaces the workload's own.
    name: Option<String>,
    /// The settings that have more than one value in the campaign: `nthreads=4`.
    choice: String,
}

impl WorkloadVariant {
    /// Every workload of a campaign with every choice of its settings.
    pub fn all(spec: &CampaignSpec) -> Vec<WorkloadVariant> {
        let each = spec.workload.iter().enumerate();
        each.flat_map(|(at, one)| WorkloadVariant::choices(at, one))
            .collect()
    }

    fn choices(at: usize, one: &CampaignWorkload) -> Vec<WorkloadVariant> {
        let variant = |choice: Vec<(&str, &CampaignSetting)>| {
            let varies =
                |(name, _): &&(&str, &CampaignSetting)| one.settings[*name].values().len() > 1;
            let varying: Vec<(&str, &CampaignSetting)> =
                choice.iter().filter(varies).copied().collect();
            WorkloadVariant {
                text: one.text(&choice),
                length: one.length.map(|time| time.0),
                key: format!("workload[{at}].workload"),
                name: one.name.clone(),
                choice: joined(&varying).replace(',', " "),
            }
        };
        settings_choices(&one.settings)
            .into_iter()
            .map(variant)
            .collect()
    }

    /// Its name in reports, where the workload is called `own`, which may tell its settings already.
    pub fn named(&self, own: &str) -> String {
        match (&self.name, self.choice.is_empty()) {
            (Some(name), true) => name.clone(),
            (Some(name), false) => format!("{name} {}", self.choice),
            (None, true) => own.into(),
            (None, false) if own.contains('=') => own.into(),
            (None, false) => format!("{own} {}", self.choice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Nanos;

    const WHOLE: &str = r#"format = "1.0"
blocks = 7
margin = 0.1
control = false
under = ["healthy", "slow"]

[[target]]
target = "sim(flash)"
settings = { units = [2, 4] }

[[target]]
target = "null"

[[workload]]
workload = "randread"
for = "2s"
settings = { size = "8M", depth = [1, 8] }

[[workload]]
workload = "varmail"
name = "mail"
"#;

    fn spec(text: &str) -> Result<CampaignSpec, String> {
        let file = CampaignFile {
            path: "c.toml".into(),
            reaches: Vec::new(),
            text: text.into(),
        };
        let spec = file.parsed().map_err(|failure| failure.text())?;
        let words = |problem: &CampaignProblem| file.words(problem);
        refuse_problems(&spec.problems(), &words).map_err(|failure| failure.text())?;
        Ok(spec)
    }

    #[test]
    fn a_file_is_the_words_of_a_command_line() {
        let spec = spec(WHOLE).unwrap();
        let targets: Vec<String> = spec.target.iter().flat_map(|one| one.texts()).collect();
        assert_eq!(
            targets,
            ["sim(flash,units=2)", "sim(flash,units=4)", "null"]
        );
        let variants = WorkloadVariant::all(&spec);
        let workloads: Vec<(&str, String)> = (variants.iter())
            .map(|one| (one.text.as_str(), one.named("own")))
            .collect();
        assert_eq!(
            workloads,
            [
                ("randread,depth=1,size=8M", "own depth=1".into()),
                ("randread,depth=8,size=8M", "own depth=8".into()),
                ("varmail", "mail".into()),
            ]
        );
        assert_eq!(variants[0].length, Some(Nanos(2_000_000_000)));
        assert_eq!((spec.blocks, spec.margin), (Some(7), Some(0.1)));
        assert_eq!((spec.conditions().len(), spec.control), (2, false));
    }

    #[test]
    fn what_is_wrong_is_told_with_line_key_and_what_was_expected() {
        let cases = [
            (
                "blocks = 7",
                "blocks = 0",
                "line 2, blocks: invalid value '0': expected a number from 1",
            ),
            (
                "blocks = 7",
                "blcks = 7",
                "line 2: unknown field `blcks`, expected one of",
            ),
            (
                "blocks = 7",
                "blocks = \"x\"",
                "line 2, blocks: invalid type: string",
            ),
            (
                "margin = 0.1",
                "margin = 1.5",
                "line 3, margin: invalid value '1.5'",
            ),
            (
                "\"slow\"]",
                "\"sloow\"]",
                "line 5, under 2: invalid value 'sloow': expected one of healthy",
            ),
            (
                "[2, 4]",
                "[]",
                "line 9, target 1, settings.units: expected a value",
            ),
            (
                "[2, 4]",
                "[2, 2]",
                "line 8, target 1, target: 'sim(flash,units=2)' is given twice",
            ),
            ("\"2s\"", "\"2 parsecs\"", "line 16, workload 1, for: "),
            (
                "\"randread\"",
                "\"job.fio\"",
                "line 17, workload 1, settings: settings belong to a workload by name",
            ),
            (
                "format = \"1.0\"",
                "format = \"9.0\"",
                "line 1, format: its format is 9.0",
            ),
        ];
        for (from, to, expect) in cases {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE, "{from}");
            let failure = spec(&text).unwrap_err();
            let expect = format!("campaign c.toml, {expect}");
            assert!(failure.starts_with(&expect), "{failure}\n{expect}");
        }
    }

    #[test]
    fn all_mistakes_are_told_at_a_time() {
        let text = WHOLE
            .replace("blocks = 7", "blocks = 0")
            .replace("margin = 0.1", "margin = 2.0");
        let told = spec(&text.replace("\"slow\"", "\"sloow\"")).unwrap_err();
        assert!(
            told.starts_with("3 mistakes:\n  campaign c.toml, line 2, blocks"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 4, "{told}");
    }
}
