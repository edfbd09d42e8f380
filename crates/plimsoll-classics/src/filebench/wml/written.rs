// SPDX-License-Identifier: Apache-2.0
//! Untrusted workload files, written anew for filebench. filebench gets no byte of the original: the parsed
//! load is written out again, and Plimsoll decides where its files lie.

use std::fmt::Write;

use super::definitions::{WmlDefinition, WmlProcess};
use super::{Parser, Variables, WmlAttributes, WmlValue, at};
use crate::error::ClassicsError;
use plimsoll_core::workload::files::FileLoopNoFilePolicy;

/// Longest script: it becomes one argument of a command, of which Linux takes 128 KiB.
const SCRIPT_MAX: usize = 100_000;
/// Longest name.
const NAME_MAX: usize = 100;

/// The workload file in which filebench does what `text` says, on files below `target`.
///
/// # Errors
/// As for [`super::parse`], and names that would be more than names.
pub fn rewritten(text: &str, target: &str) -> Result<String, ClassicsError> {
    let parser = Parser::read(text)?;
    let variables = parser.at_run.as_ref().unwrap_or(&parser.variables);
    let mut script = WmlText {
        target,
        variables,
        sizes: String::new(),
        text: String::new(),
    };
    script.all(&parser)?;
    let all = script.sizes + &script.text;
    // Which attributes there may be is checked where they are carried out.
    parser.script()?;
    if all.len() > SCRIPT_MAX {
        let reason = format!("what it defines is longer than {SCRIPT_MAX} bytes");
        return Err(at(1, reason));
    }
    Ok(all)
}

struct WmlText<'a> {
    target: &'a str,
    variables: &'a Variables,
    /// Distributions, which filebench takes from variables only.
    sizes: String,
    text: String,
}

impl WmlText<'_> {
    fn all(&mut self, parser: &Parser) -> Result<(), ClassicsError> {
        match parser.without_file {
            FileLoopNoFilePolicy::Fail => {}
            FileLoopNoFilePolicy::EndRun => self.text += "set mode quit firstdone\n",
            FileLoopNoFilePolicy::EndThread => self.text += "set mode quit alldone\n",
        }
        for definition in &parser.definitions {
            match definition {
                WmlDefinition::Files(attributes, is_file) => {
                    let what = if *is_file { "file" } else { "fileset" };
                    let place = format!("path={}", self.target);
                    self.line(&format!("define {what} {place},"), attributes)?;
                }
                WmlDefinition::Process(process) => self.process(process)?,
                WmlDefinition::Events(attributes) => self.line("eventgen ", attributes)?,
            }
        }
        if let Some(run) = &parser.run {
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "{run}");
        }
        Ok(())
    }

    fn process(&mut self, process: &WmlProcess) -> Result<(), ClassicsError> {
        self.line("define process ", &process.attributes)?;
        self.text += "{\n";
        for thread in &process.threads {
            self.line("thread ", &thread.attributes)?;
            self.text += "{\n";
            for flowop in &thread.flowops {
                let of = &flowop.attributes;
                check_name(&flowop.kind).or_else(|reason| of.fault(&reason))?;
                self.line(&format!("flowop {} ", flowop.kind), of)?;
            }
            self.text += "}\n";
        }
        self.text += "}\n";
        Ok(())
    }

    /// A line with attributes. `path` is left out: Plimsoll decides where the files lie.
    fn line(&mut self, begin: &str, attributes: &WmlAttributes) -> Result<(), ClassicsError> {
        let attributes = attributes.resolved(self.variables)?;
        let mut words = Vec::new();
        for (name, value) in &attributes.list {
            if name == "path" {
                continue;
            }
            let word = check_name(name).and_then(|()| self.attribute(name, value));
            words.push(word.or_else(|reason| attributes.fault(&reason))?);
        }
        let _ = writeln!(self.text, "{begin}{}", words.join(","));
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &WmlValue) -> Result<String, String> {
        Ok(match value {
            WmlValue::Number(number) => format!("{name}={number}"),
            WmlValue::Flag(true) => name.to_owned(),
            WmlValue::Flag(false) => format!("{name}=false"),
            WmlValue::Text(text) => {
                check_name(text)?;
                format!("{name}={text}")
            }
            WmlValue::Variable(variable) => return Err(format!("${variable} has no value")),
            WmlValue::Gamma { parameters, .. } => {
                let number = self.sizes.lines().count();
                let _ = writeln!(
                    self.sizes,
                    "set $size{number}x=cvar(type=cvar-gamma,parameters={parameters})"
                );
                format!("{name}=$size{number}x")
            }
        })
    }
}

/// A name of a set is the name of a directory, and leads nowhere else.
fn check_name(text: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins && text.len() <= NAME_MAX && text.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "'{text}' is not passed on to filebench: expected a name of letters, digits, '_', '.' and '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "set $dir=/etc\nset $size=cvar(type=cvar-gamma,parameters=mean:16k;gamma:1.5)\n\
        set $n=5\nset mode quit firstdone\nusage \"`id`\"\necho \"$(id)\"\n\
        define fileset name=many,path=$dir,size=$size,entries=$n,prealloc,dirwidth=20\n\
        eventgen rate=10\n\
        define process name=p,instances=1 { thread name=t,memsize=10m,instances=2 {\n\
        flowop openfile name=a,filesetname=many,fd=1\nflowop readwholefile name=b,fd=1,iosize=1m\n\
        flowop closefile name=c,fd=1\n flowop eventlimit name=d } }\npsrun -10 $n\n";

    #[test]
    fn what_was_understood_is_written_and_nothing_else() {
        let written = rewritten(SCRIPT, "/target").unwrap();
        let expect = "set $size0x=cvar(type=cvar-gamma,parameters=mean:16k;gamma:1.5)\n\
            set mode quit firstdone\n\
            define fileset path=/target,name=many,size=$size0x,entries=5,prealloc,dirwidth=20\n\
            eventgen rate=10\n\
            define process name=p,instances=1\n{\nthread name=t,memsize=10485760,instances=2\n{\n\
            flowop openfile name=a,filesetname=many,fd=1\nflowop readwholefile name=b,fd=1,iosize=1048576\n\
            flowop closefile name=c,fd=1\nflowop eventlimit name=d\n}\n}\npsrun -10 5\n";
        assert_eq!(written, expect);
        // It says the same as what it was made from.
        let load = |text: &str| super::super::parse(text).unwrap().workload;
        assert_eq!(load(&written), load(SCRIPT));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["../x", "\"a b\"", "\"a\n system\"", "/etc", "\"$x\""] {
            let text = SCRIPT.replace("many", name);
            let error = rewritten(&text, "/target").unwrap_err().to_string();
            assert!(error.contains("not passed on"), "{name}: {error}");
        }
        let error = rewritten(&format!("system \"id\"\n{SCRIPT}"), "/target");
        assert!(error.unwrap_err().to_string().contains("'system'"));
    }
}
