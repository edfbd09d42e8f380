// SPDX-License-Identifier: Apache-2.0
//! Definitions of a text as written, and as resolved when the run begins.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::workload::files::FileSet;

use super::flowops::{WmlFlowop, WmlThread};
use super::{Variables, WmlAttributes, sets};
use crate::error::ClassicsError;
use crate::filebench::notes;

/// A definition as it is written.
#[derive(Debug)]
pub(super) enum WmlDefinition {
    /// `define fileset`, or, when it is so, `define file`.
    Files(WmlAttributes, bool),
    Process(WmlProcess),
    /// `eventgen`.
    Events(WmlAttributes),
}

/// `define process`.
#[derive(Debug)]
pub(super) struct WmlProcess {
    pub(super) attributes: WmlAttributes,
    pub(super) threads: Vec<ThreadText>,
}

/// A thread of a process as it is written.
#[derive(Debug)]
pub(super) struct ThreadText {
    pub(super) attributes: WmlAttributes,
    pub(super) flowops: Vec<WmlFlowop>,
}

/// File sets, threads, event rate and notes of all definitions together.
#[derive(Debug, Default)]
pub(super) struct WmlProgram {
    pub(super) sets: Vec<FileSet>,
    pub(super) threads: Vec<WmlThread>,
    pub(super) events_per_s: Option<f64>,
    pub(super) notes: Vec<String>,
}

impl WmlProgram {
    /// With the values that variables have when the run begins.
    pub(super) fn new(
        definitions: &[WmlDefinition],
        variables: &Variables,
    ) -> Result<Self, ClassicsError> {
        let mut defined = WmlProgram::default();
        let mut paths = Vec::new();
        for definition in definitions {
            match definition {
                WmlDefinition::Files(attributes, is_file) => {
                    let attributes = attributes.resolved(variables)?;
                    defined.sets.push(sets::set(&attributes, *is_file)?);
                    paths.extend(attributes.text("path"));
                    defined
                        .notes
                        .extend(notes::of_cached(attributes.has("cached")));
                }
                WmlDefinition::Process(process) => defined.process(process, variables)?,
                WmlDefinition::Events(attributes) => {
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

    fn process(
        &mut self,
        process: &WmlProcess,
        variables: &Variables,
    ) -> Result<(), ClassicsError> {
        let attributes = process.attributes.resolved(variables)?;
        attributes.only(&["name", "instances"])?;
        let processes = attributes.count("instances", 1)?;
        for text in &process.threads {
            let thread = text.attributes.resolved(variables)?;
            thread.only(&["name", "memsize", "instances", "useism"])?;
            let threads = u64::from(thread.count("instances", 1)?) * u64::from(processes);
            let flowop = |flowop: &WmlFlowop| {
                Ok(WmlFlowop {
                    kind: flowop.kind.clone(),
                    attributes: flowop.attributes.resolved(variables)?,
                })
            };
            self.threads.push(WmlThread {
                line: thread.line,
                name: thread.text("name").unwrap_or_else(|| "thread".into()),
                threads: saturating_u32(threads),
                processes,
                flowops: text
                    .flowops
                    .iter()
                    .map(flowop)
                    .collect::<Result<_, ClassicsError>>()?,
            });
        }
        Ok(())
    }
}
