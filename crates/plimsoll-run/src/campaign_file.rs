// SPDX-License-Identifier: Apache-2.0
//! Reads a campaign file into the words of the command line: targets, workloads and conditions. What is
//! wrong is told with the file, the line and the key.

use plimsoll_agent::failure::{CliError, CliExitCode};
use plimsoll_core::campaign_file::{
    CampaignFile, CampaignOrder, CampaignParameter, CampaignSetting, CampaignTarget,
    CampaignWorkload, settings_choices,
};
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::units::{self, Nanos};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

use crate::spec::{TargetSpec, check_characters};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Systems, and workloads, of one campaign at most.
const ENTRIES_MAX: usize = 200;

/// What a campaign file asks for.
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
}

/// A workload of a campaign file with one choice of its settings.
#[derive(Debug, Clone)]
pub struct WorkloadVariant {
    /// As on the command line.
    pub text: String,
    /// How long its trials are, where the file says.
    pub length: Option<Nanos>,
    /// What it is called instead of its own name.
    name: Option<String>,
    /// The settings of which there are others, too: `nthreads=4`.
    choice: String,
    /// Where it stands.
    place: CampaignFilePlace,
}

/// Where something stands in a campaign file.
#[derive(Debug, Clone)]
pub struct CampaignFilePlace {
    file: PathBuf,
    line: usize,
    key: String,
}

impl CampaignFilePlace {
    /// The failure with the place before it.
    pub fn about(&self, failure: &CliError) -> CliError {
        let text = format!("{self}: {}", failure.text());
        CliError {
            hint: failure.hint.clone(),
            ..CliError::sentence(failure.code, text)
        }
    }

    fn invalid(&self, reason: impl std::fmt::Display) -> CliError {
        CliError::sentence(CliExitCode::Usage, format!("{self}: {reason}"))
    }
}

impl std::fmt::Display for CampaignFilePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "campaign {}, line {}, {}",
            self.file.display(),
            self.line,
            self.key
        )
    }
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
        let about = |error: std::io::Error| {
            CliError::usage(format!("read campaign {}: {error}", file.display()))
        };
        let bytes = std::fs::metadata(file).map_err(about)?.len();
        if bytes > MAX_BYTES {
            return Err(CliError::usage(format!(
                "read campaign {}: it has {bytes} bytes, more than any campaign",
                file.display()
            )));
        }
        let text = std::fs::read_to_string(file).map_err(about)?;
        check_characters(file, &text)?;
        CampaignPlan::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<CampaignPlan, CliError> {
        let places = CampaignFileText { file, text };
        let form: CampaignFile = toml::from_str(text).map_err(|error| places.misread(&error))?;
        if !FormatVersion::CAMPAIGN.reads(form.format) {
            return Err(places.at(&[Step::Key("format")]).invalid(format!(
                "its format is {} and this program reads up to {}",
                form.format,
                FormatVersion::CAMPAIGN
            )));
        }
        let (targets, workloads) = (targets(&places, &form.target)?, &form.workload);
        if workloads.is_empty() {
            let reason = "expected at least one [[workload]]";
            return Err(places.at(&[Step::Key("workload")]).invalid(reason));
        }
        let blocks = form.blocks.filter(|blocks| !(1..=1000).contains(blocks));
        if let Some(blocks) = blocks {
            let reason = format!("invalid value '{blocks}': expected a number from 1 to 1000");
            return Err(places.at(&[Step::Key("blocks")]).invalid(reason));
        }
        let margin = form
            .margin
            .filter(|margin| !(*margin > 0.0 && *margin < 1.0));
        if let Some(margin) = margin {
            let reason = format!("invalid value '{margin}': expected a fraction between 0 and 1");
            return Err(places.at(&[Step::Key("margin")]).invalid(reason));
        }
        Ok(CampaignPlan {
            targets,
            workloads: variants(&places, workloads)?,
            conditions: conditions(&places, &form.under)?,
            blocks: form.blocks,
            margin: form.margin,
            control: form.control,
            order: form.order,
        })
    }
}

/// Every target with every choice of its settings.
fn targets(
    places: &CampaignFileText<'_>,
    asked: &[CampaignTarget],
) -> Result<Vec<String>, CliError> {
    let mut targets: Vec<String> = Vec::new();
    for (number, one) in asked.iter().enumerate() {
        let entry = [Step::Key("target"), Step::Item(number)];
        let at = |key| places.at(&[entry[0], entry[1], Step::Key(key)]);
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
            .at(&[Step::Key("target")])
            .invalid("expected at least one [[target]]")),
        1..=ENTRIES_MAX => Ok(targets),
        many => Err(places.at(&[Step::Key("target")]).invalid(format!(
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
    places: &CampaignFileText<'_>,
    asked: &[CampaignWorkload],
) -> Result<Vec<WorkloadVariant>, CliError> {
    let mut variants = Vec::new();
    for (number, one) in asked.iter().enumerate() {
        let entry = [Step::Key("workload"), Step::Item(number)];
        let at = |key| places.at(&[entry[0], entry[1], Step::Key(key)]);
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
        return Err(places.at(&[Step::Key("workload")]).invalid(format!(
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
    places: &CampaignFileText<'_>,
    entry: &[Step<'_>; 2],
    settings: &BTreeMap<String, CampaignParameter>,
) -> Result<(), CliError> {
    let empty = settings
        .iter()
        .find(|(_, values)| values.values().is_empty());
    let Some((name, _)) = empty else {
        return Ok(());
    };
    let place = places.at(&[entry[0], entry[1], Step::Key("settings"), Step::Key(name)]);
    Err(place.invalid("expected a value, or a list of at least one"))
}

fn conditions(
    places: &CampaignFileText<'_>,
    names: &[String],
) -> Result<Vec<StackConditionKind>, CliError> {
    let mut conditions = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let place = || places.at(&[Step::Key("under"), Step::Item(number)]);
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

/// A step on the way to a value.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

/// The text of a file, in which places are found again.
struct CampaignFileText<'a> {
    file: &'a Path,
    text: &'a str,
}

impl CampaignFileText<'_> {
    /// Where a value stands, or the nearest value around it.
    fn at(&self, steps: &[Step<'_>]) -> CampaignFilePlace {
        CampaignFilePlace {
            file: self.file.into(),
            line: self.line_of(self.offset_of(steps).unwrap_or(0)),
            key: key(steps),
        }
    }

    fn line_of(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    fn offset_of(&self, steps: &[Step<'_>]) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        let (Step::Key(first), rest) = (steps.first()?, &steps[1..]) else {
            return None;
        };
        let top = table.get_ref().iter();
        let (_, mut found) = top.into_iter().find(|(key, _)| key.get_ref() == first)?;
        for step in rest {
            let inside: &DeValue<'_> = found.get_ref();
            let next = match step {
                Step::Key(key) => inside.get(*key),
                Step::Item(number) => inside.get(*number),
            };
            let Some(next) = next else { break };
            found = next;
        }
        Some(found.span().start)
    }

    /// What is wrong with the form: the reader's words name the key and what was expected.
    fn misread(&self, error: &toml::de::Error) -> CliError {
        let line = self.line_of(error.span().map_or(0, |span| span.start));
        let text = format!(
            "campaign {}, line {line}: {}",
            self.file.display(),
            error.message()
        );
        CliError::sentence(CliExitCode::Usage, text)
    }
}

/// `workload 2, settings.depth`.
fn key(steps: &[Step<'_>]) -> String {
    let mut key = String::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Item(number) => {
                key.push(' ');
                key.push_str(&(number + 1).to_string());
            }
            Step::Key(name) => {
                let is_below_item = matches!(steps.get(place.wrapping_sub(1)), Some(Step::Item(_)));
                let before = match (place, is_below_item) {
                    (0, _) => "",
                    (_, true) => ", ",
                    (_, false) => ".",
                };
                key.push_str(before);
                key.push_str(name);
            }
        }
    }
    key
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
