// SPDX-License-Identifier: Apache-2.0
//! The values of a form that have not the form of their keys: all of them, each with its key.
//!
//! A reader ends at the first one. So each value is read alone first, and those that cannot be read are left
//! out.

use crate::error::FormMistake;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::text::printable;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Most values of a form.
const VALUES_MAX: usize = 1000;

/// A step on the way to a value.
#[derive(Debug, Clone)]
enum FormStep {
    Key(String),
    Item(usize),
}

/// The campaign without the values that cannot be read, if it is one then, and these.
pub(super) fn read(form: &Value) -> (Option<CampaignSpec>, Vec<FormMistake>) {
    let mut paths = Vec::new();
    add_values(form, &mut Vec::new(), &mut paths);
    if paths.len() > VALUES_MAX {
        let text = format!("the campaign has more than {VALUES_MAX} values");
        let at = String::new();
        return (None, vec![FormMistake { at, text }]);
    }
    let (mut kept, mut mistakes) = (form.clone(), Vec::new());
    // From the end: what is left out of a list moves what is behind it.
    for (path, value) in paths.into_iter().rev() {
        match CampaignSpec::deserialize(alone(&path, value)) {
            // The keys that it would need beside it are not there.
            Err(error) if !error.to_string().starts_with("missing field") => {
                mistakes.insert(0, mistake(&key(&path), &error));
                leave_out(&mut kept, &path);
            }
            _ => {}
        }
    }
    let whole = CampaignSpec::deserialize(kept);
    if let Err(error) = &whole {
        mistakes.push(mistake("", error));
    }
    (whole.ok(), mistakes)
}

/// A value that cannot be read, in words.
pub(super) fn mistake(at: &str, error: &serde_json::Error) -> FormMistake {
    let text = printable(&error.to_string());
    let (given, expected) = text.rsplit_once("expected ").unwrap_or((&text, ""));
    let text = match expected {
        "u16" | "u32" | "u64" | "i64" => format!("{given}expected a whole number"),
        "f64" => format!("{given}expected a number"),
        _ => text,
    };
    let at = at.to_owned();
    FormMistake { at, text }
}

fn add_values<'a>(
    value: &'a Value,
    path: &mut Vec<FormStep>,
    all: &mut Vec<(Vec<FormStep>, &'a Value)>,
) {
    let inside: Vec<(FormStep, &Value)> = match value {
        Value::Object(table) => {
            let each = table.iter();
            each.map(|(key, value)| (FormStep::Key(key.clone()), value))
                .collect()
        }
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.map(|(at, value)| (FormStep::Item(at), value))
                .collect()
        }
        _ => Vec::new(),
    };
    if inside.is_empty() {
        all.push((path.clone(), value));
    }
    for (step, value) in inside {
        path.push(step);
        add_values(value, path, all);
        path.pop();
    }
}

/// A campaign that has this value alone.
fn alone(path: &[FormStep], value: &Value) -> Value {
    let around = |value: Value, step: &FormStep| match step {
        FormStep::Key(key) => Value::Object(Map::from_iter([(key.clone(), value)])),
        FormStep::Item(_) => Value::Array(vec![value]),
    };
    let mut campaign = path.iter().rev().fold(value.clone(), around);
    if let Value::Object(table) = &mut campaign {
        let format = FormatVersion::CAMPAIGN.to_string();
        table.entry("format").or_insert(json!(format));
    }
    campaign
}

fn leave_out(form: &mut Value, path: &[FormStep]) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let mut inside = Some(form);
    for step in before {
        inside = inside.and_then(|value| match step {
            FormStep::Key(key) => value.get_mut(key),
            FormStep::Item(at) => value.get_mut(*at),
        });
    }
    match (inside, last) {
        (Some(Value::Object(table)), FormStep::Key(key)) => {
            table.remove(key);
        }
        (Some(Value::Array(list)), FormStep::Item(at)) => {
            list.remove(*at);
        }
        _ => {}
    }
}

/// As campaigns name it: `target[0].settings.rpm`.
fn key(path: &[FormStep]) -> String {
    path.iter().fold(String::new(), |before, step| match step {
        FormStep::Key(key) if before.is_empty() => key.clone(),
        FormStep::Key(key) => format!("{before}.{key}"),
        FormStep::Item(at) => format!("{before}[{at}]"),
    })
}
