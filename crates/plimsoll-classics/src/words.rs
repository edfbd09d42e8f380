// SPDX-License-Identifier: Apache-2.0
//! A workload in words: `varmail,nfiles=50000` or, as its users type it, `iozone -i 0 1 -t 4 -e`.

use crate::error::Error;
use crate::settings::Unit;
use crate::{Known, find};

/// A name and what was set, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Name of the workload.
    pub name: String,
    /// Settings and their values.
    pub given: Vec<(String, String)>,
}

impl Words {
    /// Takes the text apart. After the name come, behind commas, `setting=value` or the name of a
    /// flag; or, behind spaces, options as on the command line of the original: `-x value`,
    /// `-x=value`, `--name=value`, flags alone, and further values of the option before.
    ///
    /// # Errors
    /// When the name is not known, a setting has no value, or a value has no setting.
    pub fn parse(text: &str) -> Result<Self, Error> {
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
        Ok(Words {
            name: name.into(),
            given,
        })
    }

    /// What a report calls the workload: the name with what was set.
    #[must_use]
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

fn shape(known: &Known, reason: String) -> Error {
    Error::Shape {
        workload: known.name.into(),
        reason,
    }
}

fn is_flag(known: &Known, name: &str) -> bool {
    let found = known.settings.iter().find(|setting| setting.name == name);
    found.is_some_and(|setting| setting.unit == Unit::Flag)
}

fn listed(known: &Known, list: &str) -> Result<Vec<(String, String)>, Error> {
    let mut given = Vec::new();
    for item in list.split(',') {
        let item = item.trim();
        match item.split_once('=') {
            Some((key, value)) => given.push((key.into(), value.into())),
            // A setting that nobody knows is told as such later.
            None if is_flag(known, item) || !is_known(known, item) => {
                given.push((item.into(), "on".into()));
            }
            None => {
                return Err(shape(
                    known,
                    format!("'{item}' needs a value: {item}=VALUE"),
                ));
            }
        }
    }
    Ok(given)
}

fn is_known(known: &Known, name: &str) -> bool {
    known.settings.iter().any(|setting| setting.name == name)
}

fn options(known: &Known, rest: &str) -> Result<Vec<(String, String)>, Error> {
    let mut given: Vec<(String, String)> = Vec::new();
    // The option that values belong to, and whether it still has none.
    let mut open: Option<(String, bool)> = None;
    let missing = |open: &Option<(String, bool)>| match open {
        Some((name, true)) => Err(shape(known, format!("option -{name} needs a value"))),
        _ => Ok(()),
    };
    for word in rest.split_whitespace() {
        let option = word.trim_start_matches('-');
        let is_option = word.starts_with('-') && option.parse::<f64>().is_err();
        let is_option = is_option || is_known(known, option) && word.starts_with('-');
        if let Some((key, value)) = option.split_once('=') {
            missing(&open)?;
            given.push((key.into(), value.into()));
            open = None;
        } else if is_option {
            missing(&open)?;
            open = Some((option.into(), true));
            if is_flag(known, option) || !is_known(known, option) {
                given.push((option.into(), "on".into()));
                open = None;
            }
        } else if let Some((name, needs)) = &mut open {
            given.push((name.clone(), word.into()));
            *needs = false;
        } else {
            return Err(shape(known, format!("'{word}' belongs to no option")));
        }
    }
    missing(&open)?;
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Vec<(String, String)> {
        Words::parse(text).unwrap().given
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
        let label = Words::parse("randread,bs=8k,direct").unwrap().label();
        assert_eq!(label, "randread bs=8k direct");
    }

    #[test]
    fn an_option_may_have_several_values() {
        let expect = pairs(&[("bs", "4k"), ("bs", "8k"), ("depth", "1")]);
        assert_eq!(given("randread -bs 4k 8k -depth 1"), expect);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expect) in [
            ("randraed,bs=8k", "did you mean 'randread'"),
            ("randread,bs", "bs=VALUE"),
            ("randread -bs -direct", "-bs needs a value"),
            ("randread -bs", "-bs needs a value"),
            ("randread 7", "'7' belongs to no option"),
        ] {
            let error = Words::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
        let error = crate::parse("randread,bsize=8k").unwrap_err().to_string();
        assert!(
            error.contains("did you mean 'bs'") || error.contains("it has bs"),
            "{error}"
        );
    }
}
