// SPDX-License-Identifier: Apache-2.0
//! Reads a campaign file into the words of the command line: targets, workloads and conditions. What is
//! wrong is told with the file, the line and the key.

use plimsoll_console::failure::CliError;
use plimsoll_core::campaign_file::{
    CampaignBuild, CampaignFile, CampaignOrder, CampaignParameter, CampaignSetting, CampaignTarget,
    CampaignWorkload, settings_choices,
};
use plimsoll_core::event::RunManifest;
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::units::{self, Nanos};
use std::collections::BTreeMap;
use std::path::{Component, Path};

use crate::spec::TargetSpec;
use crate::toml_file::{self, TomlFilePlace, TomlFileStep, TomlFileText};

/// Name of such a file in errors.
const KIND: &str = "campaign";

/// Systems, and workloads, of one campaign at most.
const ENTRIES_MAX: usize = 200;

/// Targets, workloads and settings that a campaign file asks for.
#[derive(Debug)]
pub struct CampaignPlan {
    /// The targets, as on the command line.
    pub targets: Vec<String>,
    /// The workloads.
    pub workloads: Vec<WorkloadVariant>,
    /// Conditions by their faults; of a healthy system none.
    pub conditions: Vec<StackConditionKind>,
    /// Number of blocks, where the file says.
    pub blocks: Option<u32>,
    /// Equivalence margin, where the file says.
    pub margin: Option<f64>,
    /// Whether there is an A/A control.
    pub control: bool,
    /// In which order the systems of a block come.
    pub order: CampaignOrder,
    /// How a gate builds what the workloads start.
    pub build: Option<CampaignBuild>,
}

/// A workload of a campaign file with one choice of its settings.
#[derive(Debug, Clone)]
pub struct WorkloadVariant {
    /// As on the command line.
    pub text: String,
    /// How long its trials are, where the file says.
    pub length: Option<Nanos>,
    /// Name that replaces the workload's own.
    name: Option<String>,
    /// The settings of which there are others, too: `nthreads=4`.
    choice: String,
    /// Where it stands.
    place: TomlFilePlace,
}

impl WorkloadVariant {
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

    /// The failure with the place of the workload before it.
    pub fn about(&self, failure: &CliError) -> CliError {
        self.place.about(failure)
    }
}

impl CampaignPlan {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<CampaignPlan, CliError> {
        let text = toml_file::read(KIND, file)?;
        CampaignPlan::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<CampaignPlan, CliError> {
        let places = TomlFileText {
            kind: KIND,
            file,
            text,
        };
        let form: CampaignFile = toml::from_str(text).map_err(|error| places.misread(&error))?;
        if !FormatVersion::CAMPAIGN.reads(form.format) {
            return Err(places.at(&[TomlFileStep::Key("format")]).invalid(format!(
                "its format is {} and this program reads up to {}",
                form.format,
                FormatVersion::CAMPAIGN
            )));
        }
        check_build(&places, form.build.as_ref())?;
        let targets = match (&form.build, form.target.is_empty()) {
            // Its systems are two builds.
            (Some(_), true) => Vec::new(),
            _ => targets(&places, &form.target)?,
        };
        let workloads = &form.workload;
        if workloads.is_empty() {
            let reason = "expected at least one [[workload]]";
            return Err(places.at(&[TomlFileStep::Key("workload")]).invalid(reason));
        }
        let blocks = form
            .blocks
            .filter(|blocks| !(1..=RunManifest::BLOCKS_MAX).contains(blocks));
        if let Some(blocks) = blocks {
            let most = RunManifest::BLOCKS_MAX;
            let reason = format!("invalid value '{blocks}': expected a number from 1 to {most}");
            return Err(places.at(&[TomlFileStep::Key("blocks")]).invalid(reason));
        }
        let margin = form
            .margin
            .filter(|margin| !(*margin > 0.0 && *margin < 1.0));
        if let Some(margin) = margin {
            let reason = format!("invalid value '{margin}': expected a fraction between 0 and 1");
            return Err(places.at(&[TomlFileStep::Key("margin")]).invalid(reason));
        }
        Ok(CampaignPlan {
            targets,
            workloads: variants(&places, workloads)?,
            conditions: conditions(&places, &form.under)?,
            blocks: form.blocks,
            margin: form.margin,
            control: form.control,
            order: form.order,
            build: form.build,
        })
    }
}

/// Built files are copied to a directory by their last names: two of one name would be one.
fn check_build(places: &TomlFileText<'_>, build: Option<&CampaignBuild>) -> Result<(), CliError> {
    let Some(build) = build else {
        return Ok(());
    };
    let at = |key| places.at(&[TomlFileStep::Key("build"), TomlFileStep::Key(key)]);
    if build.command.trim().is_empty() {
        return Err(at("command").invalid("expected a command line"));
    }
    if build.files.is_empty() {
        return Err(at("files").invalid("expected at least one path"));
    }
    let mut names = Vec::new();
    for file in &build.files {
        let path = Path::new(file);
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let name = path.file_name().filter(|_| is_below);
        let Some(name) = name else {
            let reason = format!("invalid value '{file}': expected a path below the sources");
            return Err(at("files").invalid(reason));
        };
        if names.contains(&name) {
            let reason = format!("'{file}': two files have this name");
            return Err(at("files").invalid(reason));
        }
        names.push(name);
    }
    Ok(())
}

/// Every target with every choice of its settings.
fn targets(places: &TomlFileText<'_>, asked: &[CampaignTarget]) -> Result<Vec<String>, CliError> {
    let mut targets: Vec<String> = Vec::new();
    for (number, one) in asked.iter().enumerate() {
        let entry = [TomlFileStep::Key("target"), TomlFileStep::Item(number)];
        let at = |key| places.at(&[entry[0], entry[1], TomlFileStep::Key(key)]);
        check_lists(places, &entry, &one.settings)?;
        if one.target.contains('+') && !one.settings.is_empty() {
            let reason =
                "give the settings of a stack with layers in its text: 'raid1(level=5)+crypt'";
            return Err(at("settings").invalid(reason));
        }
        for choice in settings_choices(&one.settings) {
            let text = with_settings(&one.target, &choice);
            if targets.contains(&text) {
                return Err(at("target").invalid(format!("'{text}' is given twice")));
            }
            // A path of nodes is looked at when they are reached.
            if !choice.is_empty() {
                TargetSpec::parse(&text).map_err(|failure| at("target").about(&failure))?;
            }
            targets.push(text);
        }
    }
    match targets.len() {
        0 => Err(places
            .at(&[TomlFileStep::Key("target")])
            .invalid("expected at least one [[target]]")),
        1..=ENTRIES_MAX => Ok(targets),
        many => Err(places.at(&[TomlFileStep::Key("target")]).invalid(format!(
            "these are {many} systems: expected at most {ENTRIES_MAX}"
        ))),
    }
}

/// `raid1`, `raid1(level=5)`: settings go between parentheses, behind those that are there.
fn with_settings(target: &str, choice: &[(&str, &CampaignSetting)]) -> String {
    let words = joined(choice);
    match (words.is_empty(), target.strip_suffix(')')) {
        (true, _) => target.into(),
        (false, Some(open)) => format!("{open},{words})"),
        (false, None) => format!("{target}({words})"),
    }
}

fn joined(choice: &[(&str, &CampaignSetting)]) -> String {
    let words = choice.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(",")
}

/// Every workload with every choice of its settings.
fn variants(
    places: &TomlFileText<'_>,
    asked: &[CampaignWorkload],
) -> Result<Vec<WorkloadVariant>, CliError> {
    let mut variants = Vec::new();
    for (number, one) in asked.iter().enumerate() {
        let entry = [TomlFileStep::Key("workload"), TomlFileStep::Item(number)];
        let at = |key| places.at(&[entry[0], entry[1], TomlFileStep::Key(key)]);
        check_lists(places, &entry, &one.settings)?;
        if !one.settings.is_empty() && !takes_settings(&one.workload) {
            let reason = "settings belong to a workload by name, such as 'varmail'; a file or a program has its own";
            return Err(at("settings").invalid(reason));
        }
        let parsed = one.length.as_deref().map(units::parse_duration);
        let length = parsed
            .transpose()
            .map_err(|reason| at("for").invalid(reason))?;
        for choice in settings_choices(&one.settings) {
            let words = joined(&choice);
            let text = match words.is_empty() {
                true => one.workload.clone(),
                false => format!("{},{words}", one.workload),
            };
            let varies =
                |(name, _): &&(&str, &CampaignSetting)| one.settings[*name].values().len() > 1;
            let varying: Vec<(&str, &CampaignSetting)> =
                choice.iter().filter(varies).copied().collect();
            variants.push(WorkloadVariant {
                text,
                length,
                name: one.name.clone(),
                choice: joined(&varying).replace(',', " "),
                place: at("workload"),
            });
        }
    }
    if variants.len() > ENTRIES_MAX {
        return Err(places.at(&[TomlFileStep::Key("workload")]).invalid(format!(
            "these are {} workloads: expected at most {ENTRIES_MAX}",
            variants.len()
        )));
    }
    Ok(variants)
}

fn takes_settings(workload: &str) -> bool {
    !workload.contains([' ', ':', '@', '/']) && Path::new(workload).extension().is_none()
}

/// Every list of values has some.
fn check_lists(
    places: &TomlFileText<'_>,
    entry: &[TomlFileStep<'_>; 2],
    settings: &BTreeMap<String, CampaignParameter>,
) -> Result<(), CliError> {
    let empty = settings
        .iter()
        .find(|(_, values)| values.values().is_empty());
    let Some((name, _)) = empty else {
        return Ok(());
    };
    let place = places.at(&[
        entry[0],
        entry[1],
        TomlFileStep::Key("settings"),
        TomlFileStep::Key(name),
    ]);
    Err(place.invalid("expected a value, or a list of at least one"))
}

fn conditions(
    places: &TomlFileText<'_>,
    names: &[String],
) -> Result<Vec<StackConditionKind>, CliError> {
    let mut conditions = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let place = || places.at(&[TomlFileStep::Key("under"), TomlFileStep::Item(number)]);
        let Some(kind) = StackConditionKind::find(name) else {
            let known = StackConditionKind::names();
            let reason = format!("invalid value '{name}': expected one of {known}");
            return Err(place().invalid(reason));
        };
        if conditions.contains(&kind) {
            return Err(place().invalid(format!("'{name}' is given twice")));
        }
        conditions.push(kind);
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn plan(text: &str) -> Result<CampaignPlan, String> {
        CampaignPlan::parse(Path::new("c.toml"), text).map_err(|failure| failure.text())
    }

    #[test]
    fn a_file_is_the_words_of_a_command_line() {
        let plan = plan(WHOLE).unwrap();
        assert_eq!(
            plan.targets,
            ["sim(flash,units=2)", "sim(flash,units=4)", "null"]
        );
        let workloads: Vec<(&str, String)> = (plan.workloads.iter())
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
        assert_eq!(plan.workloads[0].length, Some(Nanos(2_000_000_000)));
        assert_eq!((plan.blocks, plan.margin), (Some(7), Some(0.1)));
        assert_eq!((plan.conditions.len(), plan.control), (2, false));
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
                "line 2: invalid type: string",
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
            (
                "units = [2, 4]",
                "unit = 2",
                "line 8, target 1, target: unknown setting 'unit'",
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
            let failure = plan(&text).unwrap_err();
            let expect = format!("campaign c.toml, {expect}");
            assert!(failure.starts_with(&expect), "{failure}\n{expect}");
        }
    }
}
