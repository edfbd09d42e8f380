// SPDX-License-Identifier: Apache-2.0
//! Tunable settings of a target, with the values they have and those worth trying.
//!
//! A target is a stack or a simulated device. Either is written as parts with settings, and a change is the
//! same text with another value in it: so every run of a search is a run that anybody can repeat.

use plimsoll_console::failure::CliError;
use plimsoll_core::settings::{SettingDefinition, SettingLevels, SettingUnit, SettingValues};
use plimsoll_engine::sim::{self, SimDeviceSpec};
use plimsoll_lab::stacks::StackConfig;

/// A value that is worth trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningLevel {
    /// The value.
    pub value: String,
    /// Loss of acknowledged writes that the value risks; empty: none.
    pub risk: String,
}

/// A setting, the value it has, and others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningSetting {
    /// Its name; of a simulated device with its part: `cache.size`.
    pub name: String,
    /// The part it belongs to.
    part: usize,
    /// Its name in that part.
    own_name: String,
    /// The value it has now.
    pub from: String,
    /// Loss of acknowledged writes that the present value risks.
    pub from_risk: String,
    /// Values that it has not, the one that tells most first.
    pub levels: Vec<TuningLevel>,
}

/// One change of a target: which setting, and its value.
pub type TuningChange<'a> = (&'a TuningSetting, &'a str);

/// A target whose settings can be changed.
#[derive(Debug, Clone)]
pub struct TuningTarget {
    parts: Vec<TuningPart>,
    is_simulated: bool,
    settings: Vec<TuningSetting>,
}

/// A part as it was written.
#[derive(Debug, Clone)]
struct TuningPart {
    name: String,
    given: Vec<(String, String)>,
}

impl TuningTarget {
    /// Reads a stack or a simulated device.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<TuningTarget, CliError> {
        if SimDeviceSpec::is_meant(text) {
            return simulated(text);
        }
        let choice = StackConfig::parse(text).map_err(CliError::invalid)?;
        let part = |part: &plimsoll_core::plan::StackPart| TuningPart {
            name: part.name.clone(),
            given: part.given.clone(),
        };
        let layers = choice.parts.layers.iter();
        let parts = std::iter::once(&choice.parts.base).chain(layers).map(part);
        let stack = choice.stack;
        let of = (stack.settings(), stack.levels());
        Ok(TuningTarget {
            parts: parts.collect(),
            is_simulated: false,
            settings: settings_of((0, ""), of, &choice.settings),
        })
    }

    /// Its settings that have values worth trying.
    pub fn settings(&self) -> &[TuningSetting] {
        &self.settings
    }

    /// Whether it is a device in virtual time.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Its text with these changes.
    pub fn with(&self, changes: &[TuningChange<'_>]) -> String {
        let mut parts = self.parts.clone();
        for (setting, value) in changes {
            let given = &mut parts[setting.part].given;
            let value = (*value).to_owned();
            match given.iter_mut().find(|(name, _)| *name == setting.own_name) {
                Some((_, old)) => *old = value,
                None => given.push((setting.own_name.clone(), value)),
            }
        }
        self.written(&parts)
    }

    fn written(&self, parts: &[TuningPart]) -> String {
        let words = |part: &TuningPart, open: &str, close: &str| {
            let pairs = part
                .given
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let pairs: Vec<String> = pairs.collect();
            match pairs.is_empty() {
                true => part.name.clone(),
                false => format!("{}{open}{}{close}", part.name, pairs.join(",")),
            }
        };
        match self.is_simulated {
            true => {
                let parts: Vec<String> = parts.iter().map(|part| words(part, ",", "")).collect();
                format!("sim({})", parts.join("+"))
            }
            false => {
                let parts: Vec<String> = parts.iter().map(|part| words(part, "(", ")")).collect();
                parts.join("+")
            }
        }
    }

    /// Looks whether these changes go together, before anything is made.
    ///
    /// # Errors
    /// With the reason when they do not.
    pub fn check(&self, changes: &[TuningChange<'_>]) -> Result<(), String> {
        let text = self.with(changes);
        if self.is_simulated {
            let read: Result<SimDeviceSpec, _> = text.parse();
            return read.map(drop).map_err(|error| error.to_string());
        }
        let choice = StackConfig::parse(&text).map_err(|error| error.to_string())?;
        let shape = choice.stack.shape(&choice);
        shape.map(drop).map_err(|error| error.to_string())
    }
}

/// A simulated device, part by part.
fn simulated(text: &str) -> Result<TuningTarget, CliError> {
    let read: Result<SimDeviceSpec, _> = text.parse();
    read.map_err(CliError::invalid)?;
    let inside = text
        .strip_prefix("sim(")
        .and_then(|rest| rest.strip_suffix(')'));
    let mut target = TuningTarget {
        parts: Vec::new(),
        is_simulated: true,
        settings: Vec::new(),
    };
    for (number, piece) in inside.unwrap_or("queue").split('+').enumerate() {
        let mut words = piece.split(',').map(str::trim);
        let name = words.next().unwrap_or_default();
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            (name.trim().to_owned(), value.trim().to_owned())
        };
        let given: Vec<(String, String)> = words.map(pair).collect();
        let known = sim::parts().iter().find(|part| part.name == name);
        let known = known.ok_or_else(|| CliError::invalid(format!("unknown part '{name}'")))?;
        let values = SettingValues::new(name, known.settings, &given);
        let values = values.map_err(CliError::invalid)?;
        let of = (known.settings, known.levels);
        target
            .settings
            .extend(settings_of((number, name), of, &values));
        target.parts.push(TuningPart {
            name: name.to_owned(),
            given,
        });
    }
    Ok(target)
}

/// The settings of one part that have values worth trying besides the one they have.
fn settings_of(
    (part, prefix): (usize, &str),
    (declared, levels): (&'static [SettingDefinition], &'static [SettingLevels]),
    values: &SettingValues,
) -> Vec<TuningSetting> {
    let mut all = Vec::new();
    for of in levels {
        let Some(setting) = declared.iter().find(|setting| setting.name == of.setting) else {
            continue;
        };
        let from = values.text(setting.name).to_owned();
        let is_it = |value: &str| is_same(setting.unit, declared, (setting.name, &from, value));
        let own = of.levels.iter().find(|level| is_it(level.value));
        let others = of.levels.iter().filter(|level| !is_it(level.value));
        let others = others.map(|level| TuningLevel {
            value: level.value.into(),
            risk: level.risk.into(),
        });
        all.push(TuningSetting {
            name: match prefix {
                "" => setting.name.to_owned(),
                prefix => format!("{prefix}.{}", setting.name),
            },
            part,
            own_name: setting.name.to_owned(),
            from_risk: own.map_or(String::new(), |own| own.risk.into()),
            levels: others.collect(),
            from,
        });
    }
    all
}

/// Whether two texts are one value: `0` and `0s` are.
fn is_same(
    unit: SettingUnit,
    declared: &'static [SettingDefinition],
    (name, one, other): (&str, &str, &str),
) -> bool {
    let value = |text: &str| {
        let given = [(name.to_owned(), text.to_owned())];
        let values = SettingValues::new("", declared, &given).ok()?;
        Some(match unit {
            SettingUnit::Size(_) => values.bytes(name).to_string(),
            SettingUnit::Count | SettingUnit::CountOr(_) => values.count(name).to_string(),
            SettingUnit::Number => values.number(name).to_string(),
            SettingUnit::Time => values.time(name).0.to_string(),
            SettingUnit::Flag => values.flag(name).to_string(),
            _ => values.text(name).to_owned(),
        })
    };
    one == other || (value(one).is_some() && value(one) == value(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let target = TuningTarget::parse(text).unwrap();
        target.settings().iter().map(|s| s.name.clone()).collect()
    }

    #[test]
    fn a_change_is_the_same_text_with_another_value() {
        for (text, setting, value, expect) in [
            ("nbd", "cache", "writeback", "nbd(cache=writeback)"),
            (
                "nbd(xfs,read_delay=5ms)",
                "read_delay",
                "0",
                "nbd(fs=xfs,read_delay=0)",
            ),
            (
                "sim(queue,servers=2+cache)",
                "queue.servers",
                "16",
                "sim(queue,servers=16+cache)",
            ),
            (
                "sim(queue+cache)",
                "cache.size",
                "1G",
                "sim(queue+cache,size=1G)",
            ),
        ] {
            let target = TuningTarget::parse(text).unwrap();
            let setting = target
                .settings()
                .iter()
                .find(|s| s.name == setting)
                .unwrap();
            let changed = target.with(&[(setting, value)]);
            assert_eq!(changed, expect);
            target.check(&[(setting, value)]).unwrap();
            TuningTarget::parse(&changed).unwrap();
        }
    }

    #[test]
    fn a_value_that_it_has_already_is_not_tried() {
        let target = TuningTarget::parse("nbd(write_delay=0ms,cache=writeback)").unwrap();
        let of = |name: &str| target.settings().iter().find(|s| s.name == name).unwrap();
        assert!(of("write_delay").levels.is_empty());
        let values: Vec<&str> = of("cache").levels.iter().map(|l| &*l.value).collect();
        assert_eq!(values, ["none"]);
        assert!(!of("cache").from_risk.is_empty());
        assert!(names("local").is_empty());
        assert!(names("sim").contains(&"queue.servers".to_owned()));
        assert!(TuningTarget::parse("nosuch").is_err());
    }

    #[test]
    fn every_level_of_every_simulated_part_can_be_had() {
        for base in ["queue", "flash", "disk"] {
            for layers in ["stripe+mirror", "raid5+cache+network+throttle"] {
                let target = TuningTarget::parse(&format!("sim({base}+{layers})")).unwrap();
                assert!(target.settings().len() >= 5, "{base}+{layers}");
                for setting in target.settings() {
                    for level in &setting.levels {
                        target.check(&[(setting, &level.value)]).unwrap();
                    }
                }
            }
        }
    }
}
