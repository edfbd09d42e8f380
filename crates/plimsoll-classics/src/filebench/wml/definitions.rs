// SPDX-License-Identifier: Apache-2.0
//! What a text defines, as it is written, and what that is when the run begins.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::workload::files::FileSet;

use super::flowops::{Flowop, Thread};
use super::{Attributes, Variables, sets};
use crate::error::Error;
use crate::filebench::notes;

/// A definition as it is written.
#[derive(Debug)]
pub(super) enum Definition {
    /// `define fileset`, or, when it is so, `define file`.
    Files(Attributes, bool),
    Process(Process),
    /// `eventgen`.
    Events(Attributes),
}

/// `define process`.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) attributes: Attributes,
    pub(super) threads: Vec<ThreadText>,
}

/// A thread of a process as it is written.
#[derive(Debug)]
pub(super) struct ThreadText {
    pub(super) attributes: Attributes,
    pub(super) flowops: Vec<Flowop>,
}

/// What all definitions together are.
#[derive(Debug, Default)]
pub(super) struct Defined {
    pub(super) sets: Vec<FileSet>,
    pub(super) threads: Vec<Thread>,
    pub(super) events_per_s: Option<f64>,
    pub(super) notes: Vec<String>,
}

impl Defined {
    /// With the values that variables have when the run begins.
    pub(super) fn new(definitions: &[Definition], variables: &Variables) -> Result<Self, Error> {
        let mut defined = Defined::default();
        let mut paths = Vec::new();
        for definition in definitions {
            match definition {
                Definition::Files(attributes, is_file) => {
                    let attributes = attributes.resolved(variables)?;
                    defined.sets.push(sets::set(&attributes, *is_file)?);
                    paths.extend(attributes.text("path"));
                    defined
                        .notes
                        .extend(notes::of_cached(attributes.has("cached")));
                }
                Definition::Process(process) => defined.process(process, variables)?,
                Definition::Events(attributes) => {
                    let attributes = attributes.resolved(variables)?;
                    attributes.only(&["rate"])?;
                    let rate = attributes.number("rate")?.unwrap_or(0.0);
                    defined.events_per_s = (rate > 0.0).then_some(rate);
                }
            }
        }
        let kinds = defined.threads.iter().flat_map(|thread| &thread.flowops);
        let kinds = kinds.map(|flowop| flowop.kind.as_str());
        let told = notes::of_flowops(kinds);
        defined.notes.extend(told);
        defined.notes.extend(notes::of_paths(&paths));
        defined.notes.dedup();
        Ok(defined)
    }

    fn process(&mut self, process: &Process, variables: &Variables) -> Result<(), Error> {
        let attributes = process.attributes.resolved(variables)?;
        attributes.only(&["name", "instances"])?;
        let processes = attributes.count("instances", 1)?;
        for text in &process.threads {
            let thread = text.attributes.resolved(variables)?;
            thread.only(&["name", "memsize", "instances", "useism"])?;
            let threads = u64::from(thread.count("instances", 1)?) * u64::from(processes);
            let flowop = |flowop: &Flowop| {
                Ok(Flowop {
                    kind: flowop.kind.clone(),
                    attributes: flowop.attributes.resolved(variables)?,
                })
            };
            self.threads.push(Thread {
                line: thread.line,
                name: thread.text("name").unwrap_or_else(|| "thread".into()),
                threads: saturating_u32(threads),
                processes,
                flowops: text
                    .flowops
                    .iter()
                    .map(flowop)
                    .collect::<Result<_, Error>>()?,
            });
        }
        Ok(())
    }
}
