// SPDX-License-Identifier: Apache-2.0
//! filebench's workload language, as far as the personalities shipped with 1.5-alpha3 use it.
//!
//! Understood: `set $name=value` with sizes, numbers, true and false, words, other variables and
//! `cvar(type=cvar-gamma,parameters=mean:…;gamma:…)`; `set mode quit` with `timeout`, `firstdone`
//! and `alldone`; `define fileset`, `define file`, `define process` with threads and flowops;
//! `eventgen`; `run` and `psrun`; `echo`, `usage`, `create …` and `quit`, which change nothing here.
//! Anything else is an error with line and word: a workload that does half of what its text says
//! would be worse than none.
//!
//! As in filebench, a variable in a definition has the value that it has when the run begins,
//! which may be set behind the definition; elsewhere it has the value of that moment.

mod definitions;
mod flowops;
mod sets;
mod tokens;
mod written;

use std::collections::BTreeMap;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::units::{Nanos, parse_size};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{FileLoop, FileLoopNoFilePolicy};

use super::notes;
use crate::error::ClassicsError;
use crate::parts::looped;
use definitions::{ThreadText, WmlDefinition, WmlProcess, WmlProgram};
use flowops::WmlFlowop;
use tokens::{WmlToken, tokens};

pub use written::rewritten;

/// Longer texts are no workload files.
const BYTES_MAX: usize = 1 << 20;
/// Run time of `run` without a number in filebench 1.5.
const RUN_SECONDS: f64 = 60.0;

/// A workload and how its file is run.
#[derive(Debug, Clone, PartialEq)]
pub struct WmlScript {
    /// The workload, named `filebench`.
    pub workload: Workload,
    /// Run time that `run` or `psrun` gives; `None` where the text has neither.
    pub length: Option<Nanos>,
    /// Where it differs from what filebench does, one sentence each.
    pub notes: Vec<String>,
}

type Variables = BTreeMap<String, WmlValue>;

/// The value of a variable or attribute.
#[derive(Debug, Clone, PartialEq)]
enum WmlValue {
    /// Sizes in bytes.
    Number(f64),
    Flag(bool),
    Text(String),
    /// Content of the variable of this name when the run begins.
    Variable(String),
    /// A gamma distribution.
    Gamma {
        mean: f64,
        shape: f64,
        /// As it is written: filebench reads no units there.
        parameters: String,
    },
}

/// Attributes of a definition, in order.
#[derive(Debug, Clone)]
struct WmlAttributes {
    line: usize,
    /// Owner of the attributes, for errors.
    of: String,
    /// A name alone is a flag that is set.
    list: Vec<(String, WmlValue)>,
}

/// Reads a workload file.
///
/// # Errors
/// The line and the word that is not understood, or what does not go together.
pub fn parse(text: &str) -> Result<WmlScript, ClassicsError> {
    Parser::read(text)?.script()
}

fn at(line: usize, reason: String) -> ClassicsError {
    ClassicsError::Line { line, reason }
}

struct Parser {
    tokens: Vec<(WmlToken, usize)>,
    at: usize,
    variables: Variables,
    /// As they were when the run began.
    at_run: Option<Variables>,
    definitions: Vec<WmlDefinition>,
    without_file: FileLoopNoFilePolicy,
    length: Option<Nanos>,
    /// `run` or `psrun` with its numbers.
    run: Option<String>,
    notes: Vec<String>,
}

impl Parser {
    /// Reads all statements of a text.
    fn read(text: &str) -> Result<Parser, ClassicsError> {
        if text.len() > BYTES_MAX {
            return Err(at(1, format!("the file is longer than {BYTES_MAX} bytes")));
        }
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            variables: Variables::new(),
            at_run: None,
            definitions: Vec::new(),
            without_file: FileLoopNoFilePolicy::Fail,
            length: None,
            run: None,
            notes: Vec::new(),
        };
        while parser.at < parser.tokens.len() {
            parser.statement()?;
        }
        Ok(parser)
    }

    fn peek(&self) -> Option<&WmlToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// The line of the next token, or the last line.
    fn line(&self) -> usize {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |(_, line)| *line)
    }

    fn fault<T>(&self, reason: &str) -> Result<T, ClassicsError> {
        let found = match self.peek() {
            Some(token) => format!("{reason}, not {token}"),
            None => format!("{reason}, but the text ends"),
        };
        Err(at(self.line(), found))
    }

    fn is(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&WmlToken::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), ClassicsError> {
        if self.is(sign) {
            return Ok(());
        }
        self.fault(&format!("expected '{sign}'"))
    }

    fn word(&mut self, what: &str) -> Result<String, ClassicsError> {
        let Some(WmlToken::Word(word)) = self.peek() else {
            return self.fault(&format!("expected {what}"));
        };
        let word = word.clone();
        self.at += 1;
        Ok(word)
    }

    fn statement(&mut self) -> Result<(), ClassicsError> {
        let line = self.line();
        let word = self.word("a command")?;
        match word.as_str() {
            "set" => self.set(),
            "define" => self.define(),
            "eventgen" => self.eventgen(line),
            "run" | "psrun" => self.run(&word, line),
            "echo" | "usage" => self.raw_value().map(|_| ()),
            "create" => match self.word("what is created")?.as_str() {
                "files" | "fileset" | "processes" => Ok(()),
                other => Err(at(line, format!("'create {other}' is not known"))),
            },
            "quit" => {
                self.at = self.tokens.len();
                Ok(())
            }
            other => Err(at(line, format!("the command '{other}' is not supported"))),
        }
    }

    fn set(&mut self) -> Result<(), ClassicsError> {
        let line = self.line();
        if let Some(WmlToken::Word(word)) = self.peek() {
            let word = word.clone();
            self.at += 1;
            let rest = (self.word("'quit'")?, self.word("a mode")?);
            self.without_file = match (word.as_str(), rest.0.as_str(), rest.1.as_str()) {
                ("mode", "quit", "timeout") => FileLoopNoFilePolicy::Fail,
                ("mode", "quit", "firstdone") => FileLoopNoFilePolicy::EndRun,
                ("mode", "quit", "alldone") => FileLoopNoFilePolicy::EndThread,
                (word, what, mode) => {
                    let reason = format!("'set {word} {what} {mode}' is not supported");
                    return Err(at(line, reason));
                }
            };
            return Ok(());
        }
        let Some(WmlToken::Variable(name)) = self.peek() else {
            return self.fault("expected a variable");
        };
        let name = name.clone();
        self.at += 1;
        self.expect('=')?;
        let value = self.value()?;
        self.variables.insert(name, value);
        Ok(())
    }

    /// A value as it is at this place of the text.
    fn value(&mut self) -> Result<WmlValue, ClassicsError> {
        let line = self.line();
        let value = self.raw_value()?;
        resolved(&value, &self.variables, line)
    }

    fn raw_value(&mut self) -> Result<WmlValue, ClassicsError> {
        let line = self.line();
        let value = match self.peek() {
            Some(WmlToken::Text(text)) => WmlValue::Text(text.clone()),
            Some(WmlToken::Word(word)) if word == "cvar" => {
                self.at += 1;
                return self.cvar(line);
            }
            Some(WmlToken::Word(word)) => value_of(word),
            Some(WmlToken::Variable(name)) => WmlValue::Variable(name.clone()),
            _ => return self.fault("expected a value"),
        };
        self.at += 1;
        Ok(value)
    }

    /// Distribution behind the word `cvar`.
    fn cvar(&mut self, line: usize) -> Result<WmlValue, ClassicsError> {
        self.expect('(')?;
        let attributes = self.attributes("cvar", line)?;
        self.expect(')')?;
        let attributes = attributes.resolved(&self.variables)?;
        attributes.only(&["type", "parameters"])?;
        match attributes.text("type").as_deref() {
            Some("cvar-gamma") => {}
            other => {
                let name = other.unwrap_or("without a type");
                return Err(at(
                    line,
                    format!("cvar {name} is not supported: only cvar-gamma is"),
                ));
            }
        }
        let (mut mean, mut shape) = (None, None);
        let parameters = attributes.text("parameters").unwrap_or_default();
        for parameter in parameters.split(';').filter(|text| !text.is_empty()) {
            let value = |text: &str| parse_size(text).ok().map(|size| size as f64);
            match parameter.split_once(':') {
                Some(("mean", text)) => {
                    mean = value(text);
                    self.notes.extend(notes::of_mean(text, mean));
                }
                Some(("gamma", text)) => shape = text.parse().ok(),
                _ => {
                    return Err(at(
                        line,
                        format!("cvar-gamma has no parameter '{parameter}'"),
                    ));
                }
            }
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:;+-".contains(c);
        match (mean, shape) {
            (Some(mean), Some(shape))
                if f64::is_finite(shape) && parameters.chars().all(is_plain) =>
            {
                Ok(WmlValue::Gamma {
                    mean,
                    shape,
                    parameters,
                })
            }
            _ => Err(at(
                line,
                format!("cvar-gamma needs parameters=mean:SIZE;gamma:SHAPE, not '{parameters}'"),
            )),
        }
    }

    fn attributes(&mut self, of: &str, line: usize) -> Result<WmlAttributes, ClassicsError> {
        let mut list = Vec::new();
        loop {
            let name = self.word("an attribute")?;
            let value = if self.is('=') {
                self.raw_value()?
            } else {
                WmlValue::Flag(true)
            };
            list.push((name, value));
            if !self.is(',') {
                let of = of.to_owned();
                return Ok(WmlAttributes { line, of, list });
            }
        }
    }

    fn define(&mut self) -> Result<(), ClassicsError> {
        let line = self.line();
        let what = self.word("what is defined")?;
        match what.as_str() {
            "fileset" | "file" => {
                let attributes = self.attributes(&what, line)?;
                let is_file = what == "file";
                self.definitions
                    .push(WmlDefinition::Files(attributes, is_file));
                Ok(())
            }
            "process" => self.process(line),
            other => Err(at(line, format!("'define {other}' is not supported"))),
        }
    }

    fn process(&mut self, line: usize) -> Result<(), ClassicsError> {
        let attributes = self.attributes("process", line)?;
        self.expect('{')?;
        let mut threads = Vec::new();
        while !self.is('}') {
            let line = self.line();
            match self.word("'thread'")?.as_str() {
                "thread" => threads.push(self.thread(line)?),
                other => return Err(at(line, format!("expected 'thread', not '{other}'"))),
            }
        }
        let process = WmlProcess {
            attributes,
            threads,
        };
        self.definitions.push(WmlDefinition::Process(process));
        Ok(())
    }

    fn thread(&mut self, line: usize) -> Result<ThreadText, ClassicsError> {
        let attributes = self.attributes("thread", line)?;
        self.expect('{')?;
        let mut flowops = Vec::new();
        while !self.is('}') {
            let line = self.line();
            match self.word("'flowop'")?.as_str() {
                "flowop" => {}
                other => return Err(at(line, format!("expected 'flowop', not '{other}'"))),
            }
            let kind = self.word("the kind of flowop")?;
            let attributes = self.attributes(&format!("flowop {kind}"), line)?;
            flowops.push(WmlFlowop { kind, attributes });
        }
        Ok(ThreadText {
            attributes,
            flowops,
        })
    }

    fn eventgen(&mut self, line: usize) -> Result<(), ClassicsError> {
        let attributes = self.attributes("eventgen", line)?;
        self.definitions.push(WmlDefinition::Events(attributes));
        Ok(())
    }

    fn run(&mut self, word: &str, line: usize) -> Result<(), ClassicsError> {
        if self.length.is_some() {
            return Err(at(line, format!("a second '{word}' is not supported")));
        }
        let mut seconds = RUN_SECONDS;
        let mut numbers = Vec::new();
        while let Some(WmlToken::Word(_) | WmlToken::Variable(_)) = self.peek() {
            let before = self.at;
            let WmlValue::Number(number) = self.value()? else {
                self.at = before;
                break;
            };
            numbers.push(number);
        }
        match (word, &numbers[..]) {
            (_, []) => {}
            ("run", [length]) | ("psrun", [_, length]) => seconds = *length,
            // The period of its reports alone.
            ("psrun", [_]) => {}
            _ => return Err(at(line, format!("'{word}' has too many numbers"))),
        }
        if seconds <= 0.0 {
            return Err(at(
                line,
                format!("'{word} {seconds}' has no end; give it a time"),
            ));
        }
        let numbers = numbers.iter().map(|number| format!(" {number}"));
        self.run = Some(numbers.fold(word.to_owned(), |run, number| run + &number));
        self.length = Some(Nanos::from_secs_f64(seconds));
        self.at_run = Some(self.variables.clone());
        Ok(())
    }

    fn script(mut self) -> Result<WmlScript, ClassicsError> {
        let line = self.line();
        let variables = self.at_run.as_ref().unwrap_or(&self.variables);
        let defined = WmlProgram::new(&self.definitions, variables)?;
        if defined.threads.is_empty() {
            return Err(at(line, "the text defines no process with a thread".into()));
        }
        let groups = flowops::groups(&defined.threads, &defined.sets)?;
        let files = FileLoop {
            events_per_s: defined.events_per_s,
            without_file: self.without_file,
            ..looped("filebench", defined.sets, groups)
        };
        self.notes.extend(defined.notes);
        self.notes.extend(notes::of_loop(&files));
        Ok(WmlScript {
            workload: Workload::Files(files),
            length: self.length,
            notes: self.notes,
        })
    }
}

/// Value, with a variable replaced by its content in `variables`.
fn resolved(
    value: &WmlValue,
    variables: &Variables,
    line: usize,
) -> Result<WmlValue, ClassicsError> {
    match value {
        WmlValue::Variable(name) => match variables.get(name) {
            Some(value) => Ok(value.clone()),
            None => Err(at(line, format!("the variable ${name} has no value"))),
        },
        value => Ok(value.clone()),
    }
}

fn value_of(word: &str) -> WmlValue {
    match word {
        "true" => return WmlValue::Flag(true),
        "false" => return WmlValue::Flag(false),
        _ => {}
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let digits = word.trim_end_matches(|c: char| "kKmMgGtTbB".contains(c));
    if let Ok(number) = word.parse::<f64>()
        && word.chars().all(is_number)
    {
        return WmlValue::Number(number);
    }
    match parse_size(word) {
        Ok(bytes) if digits.chars().all(is_number) => WmlValue::Number(bytes as f64),
        _ => WmlValue::Text(word.into()),
    }
}

impl WmlAttributes {
    fn fault<T>(&self, reason: &str) -> Result<T, ClassicsError> {
        Err(at(self.line, format!("{}: {reason}", self.of)))
    }

    /// The same while variables hold these.
    fn resolved(&self, variables: &Variables) -> Result<WmlAttributes, ClassicsError> {
        let value = |(name, value): &(String, WmlValue)| {
            Ok((name.clone(), resolved(value, variables, self.line)?))
        };
        Ok(WmlAttributes {
            line: self.line,
            of: self.of.clone(),
            list: self
                .list
                .iter()
                .map(value)
                .collect::<Result<_, ClassicsError>>()?,
        })
    }

    /// That there are no attributes but these.
    fn only(&self, known: &[&str]) -> Result<(), ClassicsError> {
        let other = self
            .list
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()));
        match other {
            Some((name, _)) => self.fault(&format!("the attribute '{name}' is not supported")),
            None => Ok(()),
        }
    }

    fn find(&self, name: &str) -> Option<&WmlValue> {
        let found = self.list.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.find(name)? {
            WmlValue::Text(text) => Some(text.clone()),
            WmlValue::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>, ClassicsError> {
        match self.find(name) {
            None => Ok(None),
            Some(WmlValue::Number(number)) if *number >= 0.0 => Ok(Some(*number)),
            Some(_) => self.fault(&format!("'{name}' needs a number")),
        }
    }

    fn flag(&self, name: &str) -> bool {
        match self.find(name) {
            Some(WmlValue::Flag(flag)) => *flag,
            Some(WmlValue::Number(number)) => *number > 0.0,
            _ => false,
        }
    }

    fn count(&self, name: &str, default: u32) -> Result<u32, ClassicsError> {
        match self.number(name)? {
            None => Ok(default),
            Some(number) if number.fract() == 0.0 && number <= f64::from(u32::MAX) => {
                Ok(saturating_u32(plimsoll_core::num::round_u64(number)))
            }
            Some(_) => self.fault(&format!("'{name}' needs a whole number below 2^32")),
        }
    }
}

#[cfg(test)]
mod tests;
