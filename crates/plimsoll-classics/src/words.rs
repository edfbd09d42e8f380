// SPDX-License-Identifier: Apache-2.0
//! A workload in words: `varmail,nfiles=50000` or, as its users type it, `iozone -i 0 1 -t 4 -e`.

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::registry::find;
use plimsoll_core::settings::SettingUnit;

/// A name and what was set, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicSpec {
    /// Name of the workload.
    pub name: String,
    /// Settings and their values.
    pub given: Vec<(String, String)>,
}

impl ClassicSpec {
    /// Takes the text apart. After the name come, behind commas, `setting=value` or the name of a
    /// flag; or, behind spaces, options as on the command line of the original: `-x value`,
    /// `-x=value`, `--name=value`, flags alone, and further values of the option before.
    ///
    /// # Errors
    /// When the name is not known, a setting has no value, or a value has no setting.
    pub fn parse(text: &str) -> Result<Self, ClassicsError> {
        let text = text.trim();
        let end = text
            .find(|c: char| c == ',' || c.is_whitespace())
            .unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let known = find(name)?;
        let rest = rest.trim();
        let given = match rest.strip_prefix(',') {
            Some(list) => listed(known, list)?,
            None => options(known, rest)?,
        };
        Ok(ClassicSpec {
            name: name.into(),
            given,
        })
    }

    /// Label of the workload in reports: its name with the settings that were given.
    pub fn label(&self) -> String {
        let set = self.given.iter().map(|(key, value)| match value.as_str() {
            "on" => key.clone(),
            value => format!("{key}={value}"),
        });
        let mut label = self.name.clone();
        for word in set {
            label.push(' ');
            label.push_str(&word);
        }
        label
    }
}

fn shape(known: &WorkloadDefinition, reason: String) -> ClassicsError {
    ClassicsError::Shape {
        workload: known.name.into(),
        reason,
    }
}

/// The value of a setting that is named without one: of flags, of options with a count for that case, and of
/// unknown settings, which are reported as unknown later.
fn alone<'a>(known: &WorkloadDefinition, name: &str) -> Option<&'a str> {
    let found = known.settings.iter().find(|setting| setting.name == name);
    match found.map(|setting| setting.unit) {
        None | Some(SettingUnit::Flag) => Some("on"),
        Some(SettingUnit::CountOr(value)) => Some(value),
        Some(_) => None,
    }
}

fn listed(known: &WorkloadDefinition, list: &str) -> Result<Vec<(String, String)>, ClassicsError> {
    let mut given = Vec::new();
    for item in list.split(',') {
        let item = item.trim();
        match item.split_once('=') {
            Some((key, value)) => given.push((key.into(), value.into())),
            None => match alone(known, item) {
                Some(value) => given.push((item.into(), value.into())),
                None => {
                    return Err(shape(
                        known,
                        format!("'{item}' needs a value: {item}=VALUE"),
                    ));
                }
            },
        }
    }
    Ok(given)
}

fn is_known(known: &WorkloadDefinition, name: &str) -> bool {
    known.settings.iter().any(|setting| setting.name == name)
}

/// The option that values belong to.
enum OptionParseState {
    /// It must still get one.
    Empty(String),
    /// It has the one that stands for none; a value replaces it.
    Alone(String),
    /// It has one, and may get more.
    Filled(String),
}

fn options(known: &WorkloadDefinition, rest: &str) -> Result<Vec<(String, String)>, ClassicsError> {
    let mut given: Vec<(String, String)> = Vec::new();
    let mut open: Option<OptionParseState> = None;
    let closed = |open: Option<OptionParseState>| match open {
        Some(OptionParseState::Empty(name)) => {
            Err(shape(known, format!("option -{name} needs a value")))
        }
        _ => Ok(()),
    };
    for word in rest.split_whitespace() {
        let option = word.trim_start_matches('-');
        let dashed = word.starts_with('-');
        let is_option = dashed && (option.parse::<f64>().is_err() || is_known(known, option));
        if let Some((key, value)) = option.split_once('=') {
            closed(open.take())?;
            given.push((key.into(), value.into()));
        } else if is_option {
            closed(open.take())?;
            open = Some(match alone(known, option) {
                None => OptionParseState::Empty(option.into()),
                Some(value) => {
                    given.push((option.into(), value.into()));
                    OptionParseState::Alone(option.into())
                }
            });
        } else {
            open = Some(take_value(known, &mut given, open.take(), word)?);
        }
    }
    closed(open)?;
    Ok(given)
}

fn take_value(
    known: &WorkloadDefinition,
    given: &mut Vec<(String, String)>,
    open: Option<OptionParseState>,
    word: &str,
) -> Result<OptionParseState, ClassicsError> {
    let name = match open {
        Some(OptionParseState::Empty(name) | OptionParseState::Filled(name)) => name,
        Some(OptionParseState::Alone(name)) if alone(known, &name) != Some("on") => {
            given.pop();
            name
        }
        _ => return Err(shape(known, format!("'{word}' belongs to no option"))),
    };
    given.push((name.clone(), word.into()));
    Ok(OptionParseState::Filled(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Vec<(String, String)> {
        ClassicSpec::parse(text).unwrap().given
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        list.iter().map(own).collect()
    }

    #[test]
    fn lists_and_options_mean_the_same() {
        let expect = pairs(&[("bs", "8k"), ("direct", "on"), ("depth", "4")]);
        for text in [
            "randread,bs=8k,direct,depth=4",
            "randread -bs 8k -direct -depth 4",
            "randread --bs=8k --direct --depth=4",
            " randread  bs=8k -direct depth=4 ",
        ] {
            assert_eq!(given(text), expect, "{text}");
        }
        assert!(given("randread").is_empty());
        let label = ClassicSpec::parse("randread,bs=8k,direct").unwrap().label();
        assert_eq!(label, "randread bs=8k direct");
    }

    #[test]
    fn an_option_may_have_several_values() {
        let expect = pairs(&[("bs", "4k"), ("bs", "8k"), ("depth", "1")]);
        assert_eq!(given("randread -bs 4k 8k -depth 1"), expect);
    }

    #[test]
    fn an_option_may_stand_alone_or_with_a_value() {
        for (text, expect) in [
            ("bonnie++ -f -s 64", &[("f", "0"), ("s", "64")]),
            ("bonnie++ -f 2 -s 64", &[("f", "2"), ("s", "64")]),
            ("bonnie++,f,s=64", &[("f", "0"), ("s", "64")]),
        ] {
            assert_eq!(given(text), pairs(expect), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expect) in [
            ("randraed,bs=8k", "did you mean 'randread'"),
            ("randread,bs", "bs=VALUE"),
            ("randread -bs -direct", "-bs needs a value"),
            ("randread -bs", "-bs needs a value"),
            ("randread 7", "'7' belongs to no option"),
            ("randread -direct 7", "'7' belongs to no option"),
        ] {
            let error = ClassicSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
        let error = crate::parse_on("randread,bsize=8k", None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("available: bs, "), "{error}");
    }
}
