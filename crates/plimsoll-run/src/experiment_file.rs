// SPDX-License-Identifier: Apache-2.0
//! Reads an experiment file, and holds what only all of it together can show: that tables are whole, that
//! figures name parts that there are, and that every question has an answer for every figure.

use plimsoll_console::failure::CliError;
use plimsoll_core::experiment::{
    ExperimentCommand, ExperimentCondition, ExperimentFigure, ExperimentFile, ExperimentPart,
    ExperimentQuestion, ExperimentTable, placeholders,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::nearest::nearest;
use plimsoll_core::units;
use std::collections::BTreeSet;
use std::path::Path;

use crate::toml_file::{self, TomlFilePlace, TomlFileStep, TomlFileText};
use TomlFileStep::{Item, Key};

/// Name of such a file in errors.
const KIND: &str = "experiment";

/// Reads the experiment in a file.
///
/// # Errors
/// The mistake, with the file, the line and the key.
pub fn read(file: &Path) -> Result<ExperimentFile, CliError> {
    parse(file, &toml_file::read(KIND, file)?)
}

/// Reads the text of an experiment; `file` is what errors call it.
///
/// # Errors
/// As [`read`].
pub fn parse(file: &Path, text: &str) -> Result<ExperimentFile, CliError> {
    let places = TomlFileText {
        kind: KIND,
        file,
        text,
    };
    let form: ExperimentFile = toml::from_str(text).map_err(|error| places.misread(&error))?;
    if !FormatVersion::EXPERIMENT.reads(form.format) {
        return Err(places.at(&[Key("format")]).invalid(format!(
            "its format is {} and this program reads up to {}",
            form.format,
            FormatVersion::EXPERIMENT
        )));
    }
    check_name(&form.name, || places.at(&[Key("name")]))?;
    let parts = parts(&places, &form.part)?;
    for (number, table) in form.table.iter().enumerate() {
        check_table(&places, number, table, &parts)?;
    }
    for (number, question) in form.question.iter().enumerate() {
        check_question(&places, number, question, &parts)?;
    }
    Ok(form)
}

/// Small letters, digits and hyphens: it becomes the name of a folder.
fn check_name(name: &str, place: impl Fn() -> TomlFilePlace) -> Result<(), CliError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 40 && name.chars().all(is_plain) {
        return Ok(());
    }
    let reason = "expected up to 40 small letters, digits and hyphens";
    Err(place().invalid(format!("invalid value '{name}': {reason}")))
}

/// The names of the parts.
fn parts<'a>(
    places: &TomlFileText<'_>,
    parts: &'a [ExperimentPart],
) -> Result<BTreeSet<&'a str>, CliError> {
    let mut names = BTreeSet::new();
    for (number, part) in parts.iter().enumerate() {
        let at = |key| places.at(&[Key("part"), Item(number), Key(key)]);
        check_name(&part.name, || at("name"))?;
        if !names.insert(part.name.as_str()) {
            return Err(at("name").invalid(format!("'{}' is given twice", part.name)));
        }
        for (key, command) in [("quick", &part.quick), ("full", &part.full)] {
            if let Some(command) = command {
                check_command(command).map_err(|reason| at(key).invalid(reason))?;
            }
        }
    }
    match names.is_empty() {
        true => Err(places
            .at(&[Key("part")])
            .invalid("expected at least one [[part]]")),
        false => Ok(names),
    }
}

fn check_command(command: &ExperimentCommand) -> Result<(), String> {
    let all = [
        &command.before[..],
        std::slice::from_ref(&command.run),
        &command.after,
    ]
    .concat();
    for words in all {
        match words.first().map(String::as_str) {
            None => return Err("expected the words of a command".into()),
            Some("repro" | "serve") => {
                return Err(format!("'{}' cannot be a part of an experiment", words[0]));
            }
            Some(_) => {}
        }
        let added = ["-o", "--output", "--json", "--dry-run"];
        if let Some(word) = words.iter().find(|word| added.contains(&word.as_str())) {
            return Err(format!("leave out {word}: it is added where it is needed"));
        }
    }
    if !(command.minutes > 0.0 && command.minutes < 1e6) {
        return Err(format!(
            "invalid value '{}' for minutes: expected a number above 0",
            command.minutes
        ));
    }
    let memory = command.memory.as_deref().map(units::parse_size);
    memory.transpose().map(drop)
}

fn check_table(
    places: &TomlFileText<'_>,
    number: usize,
    table: &ExperimentTable,
    parts: &BTreeSet<&str>,
) -> Result<(), CliError> {
    let at = |key| places.at(&[Key("table"), Item(number), Key(key)]);
    check_name(&table.name, || at("name"))?;
    check_figure(&table.ours, parts).map_err(|reason| at("ours").invalid(reason))?;
    for (place, column) in table.column.iter().enumerate() {
        let at = [
            Key("table"),
            Item(number),
            Key("column"),
            Item(place),
            Key("ours"),
        ];
        check_figure(&column.ours, parts).map_err(|reason| places.at(&at).invalid(reason))?;
    }
    for (place, row) in table.row.iter().enumerate() {
        let entry = [Key("table"), Item(number), Key("row"), Item(place)];
        let at = |key| places.at(&[entry[0], entry[1], entry[2], entry[3], Key(key)]);
        let figures: Vec<&str> = row.figures().collect();
        if figures.len() != table.column.len() {
            return Err(at("published").invalid(format!(
                "these are {} figures: expected one for each of {} columns",
                figures.len(),
                table.column.len()
            )));
        }
        let is_number = |text: &&&str| **text != "-" && text.parse::<f64>().is_err();
        if let Some(wrong) = figures.iter().find(is_number) {
            let reason = format!("invalid value '{wrong}': expected a number, or - for none");
            return Err(at("published").invalid(reason));
        }
        if row.labels.len() != table.labels.len() {
            return Err(at("labels").invalid(format!(
                "these are {} labels: expected one for each of {} headings",
                row.labels.len(),
                table.labels.len()
            )));
        }
        check_figure(&row.ours, parts).map_err(|reason| at("ours").invalid(reason))?;
    }
    let row_labels = table.row.iter().filter_map(|row| row.labels.first());
    check_base(table.base_row.as_ref(), row_labels).map_err(|r| at("base_row").invalid(r))?;
    let columns = table.column.iter().map(|column| &column.name);
    check_base(table.base_column.as_ref(), columns).map_err(|r| at("base_column").invalid(r))?;
    match (&table.base_row, &table.base_column) {
        (Some(_), Some(_)) => {
            Err(at("base_column").invalid("a table has one base: leave out base_row"))
        }
        _ => Ok(()),
    }
}

/// The base of the ratios is there.
fn check_base<'a>(
    base: Option<&String>,
    mut known: impl Iterator<Item = &'a String>,
) -> Result<(), String> {
    match base {
        Some(base) if !known.any(|name| name == base) => Err(format!("there is no '{base}'")),
        _ => Ok(()),
    }
}

/// The parts that it names are there.
fn check_figure(figure: &ExperimentFigure, parts: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(part) = &figure.part
        && !parts.contains(part.as_str())
    {
        let near = nearest(part, parts.iter().copied());
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        return Err(format!("there is no part '{part}'{hint}"));
    }
    if figure
        .json
        .as_ref()
        .is_some_and(|json| !json.starts_with('/'))
    {
        return Err("json: expected a JSON pointer such as '/suggestion'".into());
    }
    match &figure.over {
        Some(over) => check_figure(over, parts),
        None => Ok(()),
    }
}

fn check_question(
    places: &TomlFileText<'_>,
    number: usize,
    question: &ExperimentQuestion,
    parts: &BTreeSet<&str>,
) -> Result<(), CliError> {
    let entry = [Key("question"), Item(number)];
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (place, evidence) in question.evidence.iter().enumerate() {
        let at = |key| places.at(&[entry[0], entry[1], Key("evidence"), Item(place), Key(key)]);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if evidence.name.is_empty() || !evidence.name.chars().all(is_word) {
            let reason = "expected letters, digits and _";
            return Err(at("name").invalid(format!("invalid value '{}': {reason}", evidence.name)));
        }
        if !names.insert(&evidence.name) {
            return Err(at("name").invalid(format!("'{}' is given twice", evidence.name)));
        }
        if evidence.ours.part.is_none() {
            return Err(at("ours").invalid("expected the part that it is of"));
        }
        check_figure(&evidence.ours, parts).map_err(|reason| at("ours").invalid(reason))?;
    }
    let whole = places.at(&entry);
    match (&question.cannot_tell, question.answer.split_last()) {
        (Some(_), None) => return Ok(()),
        (Some(_), Some(_)) => {
            return Err(whole.invalid("a question has answers, or cannot_tell, not both"));
        }
        (None, None) => {
            return Err(
                whole.invalid("expected [[question.answer]], or cannot_tell with the reason")
            );
        }
        (None, Some((last, _))) if last.when.is_some() => {
            let reason = "the last answer is for all other figures: leave out its 'when'";
            return Err(whole.invalid(reason));
        }
        (None, Some(_)) => {}
    }
    for (place, answer) in question.answer.iter().enumerate() {
        let at = |key| places.at(&[entry[0], entry[1], Key("answer"), Item(place), Key(key)]);
        let is_last = place + 1 == question.answer.len();
        if answer.when.is_none() && !is_last {
            return Err(at("says").invalid("only the last answer has no 'when'"));
        }
        let known = |name: &str| match names.contains(name) {
            true => Ok(()),
            false => Err(format!("there is no evidence '{name}'")),
        };
        if let Some(when) = &answer.when {
            let read = ExperimentCondition::parse(when).and_then(|condition| {
                let mut clauses = condition.clauses.iter();
                clauses.try_for_each(|clause| known(&clause.name))
            });
            read.map_err(|reason| at("when").invalid(reason))?;
        }
        let named =
            placeholders(&answer.says).and_then(|named| named.into_iter().try_for_each(known));
        named.map_err(|reason| at("says").invalid(reason))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"format = "1.0"
name = "tiny"
title = "Two devices"
source = { author = "A. Author", year = 2012, published = "a page" }

[[part]]
name = "reads"
what = "random reads"
quick = { run = ["compare", "sim(flash)", "-w", "randread"], minutes = 0.1 }

[[table]]
name = "reads"
title = "Reads"
labels = ["system"]
unit = "1/s"
base_row = "one"
ours = { part = "reads", metric = "operations" }

[[table.column]]
name = "reads"

[[table.row]]
labels = ["one"]
published = "12.0"

[[question]]
asks = "Why?"

[[question.evidence]]
name = "rate"
what = "rate"
ours = { part = "reads", metric = "operations" }

[[question.answer]]
when = "rate > 1"
says = "It is {rate}."

[[question.answer]]
says = "No."
"#;

    fn read(text: &str) -> Result<ExperimentFile, String> {
        parse(Path::new("e.toml"), text).map_err(|failure| failure.text())
    }

    #[test]
    fn a_file_is_read_whole() {
        let file = read(WHOLE).unwrap();
        assert_eq!(file.table[0].row[0].figures().collect::<Vec<_>>(), ["12.0"]);
        assert_eq!(file.question[0].answer.len(), 2);
    }

    /// Text of a file, its replacement, and the expected error.
    const WRONG: [(&str, &str, &str); 15] = [
        ("\"1.0\"", "\"2.0\"", "line 1, format: its format is 2.0"),
        ("\"tiny\"", "\"Tiny\"", "line 2, name: invalid value 'Tiny'"),
        (
            "unit = \"1/s\"",
            "unit = \"1/min\"",
            "line 15, table 1, unit: unknown variant `1/min`",
        ),
        (
            "\"randread\"]",
            "\"randread\", \"-o\"]",
            "line 9, part 1, quick: leave out -o",
        ),
        (
            "[\"compare\"",
            "[\"repro\"",
            "line 9, part 1, quick: 'repro' cannot be",
        ),
        (
            "minutes = 0.1",
            "minutes = 0",
            "line 9, part 1, quick: invalid value '0'",
        ),
        (
            "\"12.0\"",
            "\"12.0 3\"",
            "line 24, table 1, row 1, published: these are 2 figures",
        ),
        (
            "\"12.0\"",
            "\"12,0\"",
            "line 24, table 1, row 1, published: invalid value '12,0'",
        ),
        (
            "labels = [\"one\"]",
            "labels = []",
            "line 23, table 1, row 1, labels: these are 0",
        ),
        (
            "base_row = \"one\"",
            "base_row = \"two\"",
            "line 16, table 1, base_row: there is no 'two'",
        ),
        (
            "ours = { part = \"reads\", metric = \"operations\" }",
            "ours = { part = \"read\" }",
            "line 17, table 1, ours: there is no part 'read'; did you mean 'reads'?",
        ),
        (
            "rate > 1",
            "rat > 1",
            "line 35, question 1, answer 1, when: there is no evidence 'rat'",
        ),
        (
            "rate > 1",
            "rate > x",
            "line 35, question 1, answer 1, when: invalid condition",
        ),
        (
            "{rate}",
            "{rates}",
            "line 36, question 1, answer 1, says: there is no evidence",
        ),
        (
            "says = \"No.\"",
            "when = \"rate < 1\"\nsays = \"No.\"",
            "line 26, question 1: the last",
        ),
    ];

    #[test]
    fn what_is_wrong_is_told_with_line_key_and_what_was_expected() {
        for (from, to, expect) in WRONG {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE, "{from}");
            let failure = read(&text).unwrap_err();
            let expect = format!("experiment e.toml, {expect}");
            assert!(failure.starts_with(&expect), "{failure}\n{expect}");
        }
    }
}
