// SPDX-License-Identifier: Apache-2.0
//! The client's types are those of the server.

#[path = "../../../plimsoll-core/src/schemas/committed.rs"]
mod committed;

use super::*;
use crate::board::SecondNews;
use crate::catalogue::ServerCatalogue;
use crate::jobs::JobFacts;
use crate::runs::RunListFacts;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A type as TypeScript writes it.
fn written(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.trim_start_matches("#/$defs/").to_owned();
    }
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    if let Some(choices) = choices.and_then(Value::as_array) {
        return union(choices.iter().map(written));
    }
    if let Some(words) = schema["enum"].as_array() {
        return union(words.iter().map(Value::to_string));
    }
    if let Some(word) = schema.get("const") {
        return word.to_string();
    }
    match &schema["type"] {
        Value::Array(kinds) => union(kinds.iter().map(|kind| simple(kind, schema))),
        kind => simple(kind, schema),
    }
}

fn union(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" | ")
}

fn simple(kind: &Value, schema: &Value) -> String {
    match kind.as_str().expect("every schema has a type") {
        "integer" | "number" => "number".into(),
        "array" => match written(&schema["items"]) {
            items if items.contains(' ') => format!("({items})[]"),
            items => format!("{items}[]"),
        },
        plain @ ("string" | "boolean" | "null") => plain.into(),
        other => panic!("the client has no such type yet: {other} in {schema}"),
    }
}

/// A named type.
fn declared(name: &str, schema: &Value) -> String {
    let Some(fields) = schema["properties"].as_object() else {
        return format!("export type {name} = {};\n", written(schema));
    };
    let required = schema["required"]
        .as_array()
        .expect("fields that are always there");
    let mut out = format!("export interface {name} {{\n");
    for (field, of) in fields {
        assert!(
            required.iter().any(|one| one == field),
            "{name}.{field} may be absent"
        );
        writeln!(out, "  {field}: {};", written(of)).unwrap();
    }
    out + "}\n"
}

fn all() -> Map<String, Value> {
    let mut generator = SchemaSettings::default().for_serialize().into_generator();
    generator.subschema_for::<ServerFacts>();
    generator.subschema_for::<ServerCatalogue>();
    generator.subschema_for::<RunListFacts>();
    generator.subschema_for::<RunDetailFacts>();
    generator.subschema_for::<RunSectionsFacts>();
    generator.subschema_for::<RunSeriesFacts>();
    generator.subschema_for::<SecondNews>();
    generator.subschema_for::<SeriesPageFacts>();
    generator.subschema_for::<StackFacts>();
    generator.subschema_for::<StackPlanFacts>();
    generator.subschema_for::<JobFacts>();
    generator.take_definitions(true)
}

#[test]
fn the_types_of_the_client_are_those_of_the_server() {
    let head = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Made from the types of plimsoll-serve by its tests (UPDATE_SNAPSHOTS=1). Not to be edited.",
    ];
    let mut text = format!("{}\n", head.join("\n"));
    for (name, schema) in all() {
        write!(text, "\n{}", declared(&name, &schema)).unwrap();
    }
    committed::check("web/src/generated/answers.ts", &text);
}
