// SPDX-License-Identifier: Apache-2.0
//! Settings of a workload, a stack or a layer: declared with their defaults, read from words,
//! checked once.

use crate::nearest::nearest;
use crate::units::{self, Nanos};

/// Longest time that is taken: 31 years. Deadlines stay far from the end of the clock.
const SECONDS_MAX: f64 = 1e9;

/// Error of a setting, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error(
        "unknown setting '{setting}' of {owner}{}; available: {known}",
        hint(nearest.as_deref())
    )]
    Unknown {
        /// The owner of the setting.
        owner: String,
        /// The requested setting.
        setting: String,
        /// The most similar name that is known.
        nearest: Option<String>,
        /// All its settings.
        known: String,
    },
    /// The value cannot be used.
    #[error("invalid value '{value}' for {setting} of {owner}: {reason}")]
    Value {
        /// The owner of the setting.
        owner: String,
        /// The setting.
        setting: String,
        /// The given value.
        value: String,
        /// The reason why it cannot be used.
        reason: String,
    },
}

/// Words that point at the nearest known name.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean '{name}'?)"))
}

/// A setting that something has.
#[derive(Debug, Clone, Copy)]
pub struct SettingDefinition {
    /// Its name: that of the original program's option or variable, without dashes.
    pub name: &'static str,
    /// Type and unit of its values.
    pub unit: SettingUnit,
    /// Its value when none is given, as a user would write it; empty: none.
    pub default: &'static str,
    /// Its effect, in a few words.
    pub help: &'static str,
}

/// A setting on one line.
pub const fn setting(
    name: &'static str,
    unit: SettingUnit,
    default: &'static str,
    help: &'static str,
) -> SettingDefinition {
    SettingDefinition {
        name,
        unit,
        default,
        help,
    }
}

/// A value of a setting that is worth trying where speed matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingLevel {
    /// The value, as a user would write it.
    pub value: &'static str,
    /// Loss that an acknowledged write risks at this value and not at a safer one; empty: none.
    pub risk: &'static str,
}

/// The values of one setting that are worth trying, the one that tells most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingLevels {
    /// The setting.
    pub setting: &'static str,
    /// Its values, the default among them where a stack may come with another one.
    pub levels: &'static [SettingLevel],
}

/// A value at which an acknowledged write is as safe as at any other.
pub const fn level(value: &'static str) -> SettingLevel {
    SettingLevel { value, risk: "" }
}

/// A value that weakens durability: what an acknowledged write may lose at it.
pub const fn risky(value: &'static str, risk: &'static str) -> SettingLevel {
    SettingLevel { value, risk }
}

/// The values of one setting, on one line.
pub const fn levels(setting: &'static str, levels: &'static [SettingLevel]) -> SettingLevels {
    SettingLevels { setting, levels }
}

/// Type and unit of the values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingUnit {
    /// Bytes; a number without a unit counts multiples of this many.
    Size(u64),
    /// A whole number.
    Count,
    /// A whole number; this one when the option stands alone.
    CountOr(&'static str),
    /// A decimal number.
    Number,
    /// A time of up to 1e9 s; a number without a unit counts seconds.
    Time,
    /// On when named without a value, or with `on`, `yes`, `true` or `1`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Any text; the only unit of settings that may be given more than once.
    List,
}

/// The settings of one workload, stack or layer, resolved: what was given, else the defaults.
#[derive(Debug, Clone)]
pub struct SettingValues {
    owner: String,
    declared: &'static [SettingDefinition],
    given: Vec<(String, String)>,
}

impl SettingValues {
    /// Checks what was given for `owner` against what is declared.
    ///
    /// # Errors
    /// A name that is not declared (with the nearest that is), a value that is not of its unit, or
    /// one of several for a setting that is no list.
    pub fn new(
        owner: &str,
        declared: &'static [SettingDefinition],
        given: &[(String, String)],
    ) -> Result<Self, SettingError> {
        let settings = SettingValues {
            owner: owner.into(),
            declared,
            given: given.to_vec(),
        };
        for (name, value) in given {
            let Some(setting) = declared.iter().find(|setting| setting.name == name) else {
                return Err(SettingError::Unknown {
                    owner: owner.into(),
                    setting: name.clone(),
                    nearest: nearest(name, declared.iter().map(|s| s.name)).map(Into::into),
                    known: declared
                        .iter()
                        .map(|s| s.name)
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            };
            settings.check(setting, value)?;
            let times = given.iter().filter(|(other, _)| other == name).count();
            if times > 1 && setting.unit != SettingUnit::List {
                let reason = "given more than once; for several values give several workloads";
                return Err(settings.wrong(name, value, reason));
            }
        }
        Ok(settings)
    }

    fn check(&self, setting: &SettingDefinition, value: &str) -> Result<(), SettingError> {
        let wrong = |reason: String| Err(self.wrong(setting.name, value, &reason));
        match setting.unit {
            SettingUnit::Size(each) => parse_size(value, each).map_or_else(wrong, |_| Ok(())),
            SettingUnit::Count | SettingUnit::CountOr(_) => match value.parse::<u64>() {
                Ok(_) => Ok(()),
                Err(_) => wrong("expected an integer".into()),
            },
            SettingUnit::Number => match value.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(()),
                _ => wrong("expected a number".into()),
            },
            SettingUnit::Time => parse_time(value).map_or_else(wrong, |_| Ok(())),
            SettingUnit::Flag => match parse_flag(value) {
                Some(_) => Ok(()),
                None => wrong("expected on or off".into()),
            },
            SettingUnit::Choice(words) if words.contains(&value) => Ok(()),
            SettingUnit::Choice(words) => wrong(format!("expected one of {}", words.join(", "))),
            SettingUnit::Text | SettingUnit::List => Ok(()),
        }
    }

    /// An error about the value of a setting, as whatever error the caller has.
    pub fn wrong<E: From<SettingError>>(&self, name: &str, value: &str, reason: &str) -> E {
        let error = SettingError::Value {
            owner: self.owner.clone(),
            setting: name.into(),
            value: value.into(),
            reason: reason.into(),
        };
        error.into()
    }

    /// Whether there is such a setting.
    pub fn is_declared(&self, name: &str) -> bool {
        self.declared.iter().any(|setting| setting.name == name)
    }

    /// Whether the user gave it.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(key, _)| key == name)
    }

    /// Every value given for a setting, in order; the default when none was and there is one.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        let given = self.given.iter().filter(|(key, _)| key == name);
        let given: Vec<&str> = given.map(|(_, value)| value.as_str()).collect();
        let default = self.declared(name).default;
        if given.is_empty() && !default.is_empty() {
            return vec![default];
        }
        given
    }

    /// The last value of a setting, or its default; empty when there is neither.
    pub fn text(&self, name: &str) -> &str {
        self.texts(name).last().copied().unwrap_or_default()
    }

    /// Bytes; 0 when there is neither a value nor a default.
    pub fn bytes(&self, name: &str) -> u64 {
        let SettingUnit::Size(each) = self.declared(name).unit else {
            unreachable!("'{name}' is declared as a size");
        };
        parse_size(self.text(name), each).unwrap_or(0)
    }

    /// A whole number; 0 when there is neither a value nor a default.
    pub fn count(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A whole number that must lie within these limits.
    ///
    /// # Errors
    /// When it does not.
    pub fn count_within(&self, name: &str, low: u32, high: u32) -> Result<u32, SettingError> {
        let value = self.count(name);
        match u32::try_from(value) {
            Ok(count) if (low..=high).contains(&count) => Ok(count),
            _ => Err(self.wrong(
                name,
                self.text(name),
                &format!("expected an integer from {low} to {high}"),
            )),
        }
    }

    /// Bytes that must lie within these limits.
    ///
    /// # Errors
    /// When they do not.
    pub fn bytes_within(&self, name: &str, low: u64, high: u64) -> Result<u64, SettingError> {
        let value = self.bytes(name);
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        let (low, high) = (units::size(low as f64), units::size(high as f64));
        Err(self.wrong(
            name,
            self.text(name),
            &format!("expected a size from {low} to {high}"),
        ))
    }

    /// A decimal number; 0 when there is neither a value nor a default.
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// A time; 0 when there is neither a value nor a default.
    pub fn time(&self, name: &str) -> Nanos {
        parse_time(self.text(name)).unwrap_or_default()
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        parse_flag(self.text(name)).unwrap_or(false)
    }

    /// All settings with their values, in the order of their declaration, for the record.
    pub fn resolved(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for setting in self.declared {
            for text in self.texts(setting.name) {
                all.push((setting.name.to_owned(), text.to_owned()));
            }
        }
        all
    }

    fn declared(&self, name: &str) -> &'static SettingDefinition {
        let found = self.declared.iter().find(|setting| setting.name == name);
        found.expect("a setting is declared before it is asked for")
    }
}

fn parse_size(text: &str, each: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) => number.checked_mul(each).ok_or_else(|| "too large".into()),
        Err(_) => units::parse_size(text),
    }
}

fn parse_time(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > SECONDS_MAX => Err("expected at most 1e9 seconds".into()),
        Ok(seconds) if seconds >= 0.0 => Ok(Nanos::from_secs_f64(seconds)),
        _ => units::parse_duration(text),
    }
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "" | "off" | "no" | "false" | "0" => Some(false),
        "on" | "yes" | "true" | "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[SettingDefinition] = &[
        SettingDefinition {
            name: "s",
            unit: SettingUnit::Size(1 << 20),
            default: "300",
            help: "file size",
        },
        SettingDefinition {
            name: "threads",
            unit: SettingUnit::Count,
            default: "16",
            help: "threads",
        },
        SettingDefinition {
            name: "i",
            unit: SettingUnit::List,
            default: "",
            help: "tests",
        },
        SettingDefinition {
            name: "time",
            unit: SettingUnit::Time,
            default: "",
            help: "time",
        },
        SettingDefinition {
            name: "D",
            unit: SettingUnit::Flag,
            default: "",
            help: "direct",
        },
    ];

    fn given(pairs: &[(&str, &str)]) -> Result<SettingValues, SettingError> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        SettingValues::new("demo", DECLARED, &pairs.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn values_have_units_defaults_and_limits() {
        let settings = given(&[("s", "64"), ("i", "0"), ("i", "2"), ("D", "on")]).unwrap();
        assert_eq!(settings.bytes("s"), 64 << 20);
        assert_eq!(settings.texts("i"), ["0", "2"]);
        assert_eq!((settings.count("threads"), settings.flag("D")), (16, true));
        assert!(settings.count_within("threads", 1, 8).is_err());
        let settings = given(&[("s", "1GiB")]).unwrap();
        assert_eq!(settings.bytes("s"), 1 << 30);
        assert!(!settings.flag("D") && settings.texts("i").is_empty());
    }

    #[test]
    fn mistakes_are_named_with_the_way_out() {
        let error = given(&[("thread", "1")]).unwrap_err().to_string();
        assert!(error.contains("threads"), "{error}");
        let error = given(&[("threads", "many")]).unwrap_err().to_string();
        assert!(
            error == "invalid value 'many' for threads of demo: expected an integer",
            "{error}"
        );
        for (pairs, word) in [
            (&[("s", "8"), ("s", "9")][..], "more than once"),
            (&[("time", "1e300")], "at most"),
            (&[("time", "1000000h")], "too long"),
            (&[("time", "-1")], "'-1'"),
        ] {
            let error = given(pairs).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
