// SPDX-License-Identifier: Apache-2.0
//! Holds a value against a schema: the keywords that our schemas use. Another one is a panic, so that
//! nothing is passed over.

use crate::written::{SIZE_PATTERN, TIME_PATTERN};
use serde_json::{Map, Value};

/// Why `value` is not what `schema` describes.
pub(super) fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, schema, value).map_err(|(path, why)| format!("at '{path}': {why}"))
}

/// Where it is wrong, and what is wrong.
type SchemaViolation = (String, String);

fn at(root: &Value, schema: &Value, value: &Value) -> Result<(), SchemaViolation> {
    match schema {
        Value::Bool(true) => Ok(()),
        Value::Object(rules) => rules
            .iter()
            .try_for_each(|(keyword, rule)| holds(root, rules, (keyword, rule), value)),
        other => Err((String::new(), format!("{other} allows nothing"))),
    }
}

fn wrong(is_right: bool, why: impl FnOnce() -> String) -> Result<(), SchemaViolation> {
    is_right.then_some(()).ok_or_else(|| (String::new(), why()))
}

fn holds(
    root: &Value,
    rules: &Map<String, Value>,
    (keyword, rule): (&str, &Value),
    value: &Value,
) -> Result<(), SchemaViolation> {
    let all = || rule.as_array().expect("a list of schemas");
    let fits = |schema: &&Value| at(root, schema, value).is_ok();
    let below = |key: &str, schema: &Value, value: &Value| {
        at(root, schema, value).map_err(|(path, why)| (format!("/{key}{path}"), why))
    };
    match keyword {
        "$schema" | "$id" | "title" | "description" | "default" | "format" | "definitions" => {
            Ok(())
        }
        "$ref" => {
            let pointer = rule.as_str().expect("a reference");
            at(
                root,
                root.pointer(&pointer[1..]).expect("it is defined"),
                value,
            )
        }
        "type" => wrong(is_of(rule, value), || {
            format!("{value} is not of type {rule}")
        }),
        "const" => wrong(rule == value, || format!("{value} is not {rule}")),
        "enum" => wrong(all().contains(value), || {
            format!("{value} is none of {rule}")
        }),
        "allOf" => all().iter().try_for_each(|schema| at(root, schema, value)),
        "anyOf" => wrong(all().iter().any(|schema| fits(&schema)), || {
            format!("{value} is none of the choices")
        }),
        "oneOf" => {
            let count = all().iter().filter(fits).count();
            wrong(count == 1, || format!("{value} is {count} of the choices"))
        }
        "items" => {
            let items = value.as_array().into_iter().flatten().enumerate();
            let each = |(n, item): (usize, &Value)| match rule {
                // Items beyond these are limited by maxItems.
                Value::Array(schemas) => schemas
                    .get(n)
                    .map_or(Ok(()), |one| below(&n.to_string(), one, item)),
                one => below(&n.to_string(), one, item),
            };
            { items }.try_for_each(each)
        }
        "required" => all().iter().filter_map(Value::as_str).try_for_each(|key| {
            let is_there = value
                .as_object()
                .is_none_or(|object| object.contains_key(key));
            wrong(is_there, || format!("lacks {key}"))
        }),
        "properties" | "patternProperties" | "additionalProperties" => {
            let mut keys = value.as_object().into_iter().flatten();
            keys.try_for_each(|(key, value)| match of_key(rules, key) {
                (found, Some(schema)) if found == keyword => below(key, schema, value),
                _ => Ok(()),
            })
        }
        "propertyNames" => {
            let mut keys = value.as_object().into_iter().flatten();
            keys.try_for_each(|(key, _)| below(key, rule, &Value::from(key.as_str())))
        }
        _ => limited(keyword, rule, value),
    }
}

/// Keywords that limit one value, whatever is below it.
fn limited(keyword: &str, rule: &Value, value: &Value) -> Result<(), SchemaViolation> {
    match keyword {
        "minimum" | "maximum" => {
            let number = |of: &Value| of.as_f64();
            let (limit, found) = (number(rule), number(value));
            let beyond = if keyword == "minimum" {
                found < limit
            } else {
                found > limit
            };
            wrong(found.is_none() || !beyond, || {
                format!("{value}: {keyword} {rule}")
            })
        }
        "pattern" => wrong(
            value.as_str().is_none_or(|text| matches(rule, text)),
            || format!("{value} does not match {rule}"),
        ),
        "minItems" | "maxItems" => {
            let (limit, found) = (
                rule.as_u64(),
                value.as_array().map(|items| items.len() as u64),
            );
            let beyond = if keyword == "minItems" {
                found < limit
            } else {
                found > limit
            };
            wrong(found.is_none() || !beyond, || format!("{keyword} {rule}"))
        }
        other => panic!("the keyword {other} is new: {rule}"),
    }
}

/// The schema of a key, and the keyword that has it.
fn of_key<'a>(rules: &'a Map<String, Value>, key: &str) -> (&'static str, Option<&'a Value>) {
    if let Some(found) = rules.get("properties").and_then(|keys| keys.get(key)) {
        return ("properties", Some(found));
    }
    let patterns = rules.get("patternProperties").and_then(Value::as_object);
    let fits = |(pattern, _): &(&String, &Value)| matches(&Value::from(pattern.as_str()), key);
    if let Some((_, found)) = patterns.into_iter().flatten().find(fits) {
        return ("patternProperties", Some(found));
    }
    ("additionalProperties", rules.get("additionalProperties"))
}

fn is_of(types: &Value, value: &Value) -> bool {
    let is_one = |one: &Value| match one.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    };
    types
        .as_array()
        .map_or_else(|| is_one(types), |types| types.iter().any(is_one))
}

/// The few patterns that our schemas have.
fn matches(pattern: &Value, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match pattern.as_str().expect("a pattern") {
        r"^-?\d+$" => digits(text.strip_prefix('-').unwrap_or(text)),
        r"^[0-9]+\.[0-9]+$" => text
            .split_once('.')
            .is_some_and(|(a, b)| digits(a) && digits(b)),
        "^[0-9a-f]{8}$" => {
            text.len() == 8 && text.bytes().all(|b| b"0123456789abcdef".contains(&b))
        }
        TIME_PATTERN => in_units(text, &["", "us", "µs", "ms", "s", "m", "min", "h"]),
        SIZE_PATTERN => {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let letter = unit
                .trim()
                .trim_start_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
            in_units(text, &[unit.trim()])
                && ["", "b", "B", "ib", "iB", "IB", "Ib"].contains(&letter)
        }
        other => panic!("the pattern {other} is new"),
    }
}

/// Whether a text is a number with one of these units.
fn in_units(text: &str, units: &[&str]) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    digits > 0 && number.len() <= digits + 1 && units.contains(&unit.trim())
}
