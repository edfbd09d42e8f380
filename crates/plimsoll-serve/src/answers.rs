// SPDX-License-Identifier: Apache-2.0
//! What the server answers, as types that the page's client knows, too: `web/src/generated/answers.ts` is
//! made from them, and a test compares it with what is committed.

use crate::board::{NamedSeries, RunProgressFacts};
use crate::runs::RunFacts;
use serde::Serialize;

/// The server itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerFacts {
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) runs: String,
    pub(crate) started_at: String,
}

/// An arm of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunArmFacts {
    pub(crate) name: String,
    pub(crate) colour: String,
    pub(crate) control: bool,
}

/// A run with how far it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunDetailFacts {
    #[serde(flatten)]
    pub(crate) run: RunFacts,
    pub(crate) progress: RunProgressFacts,
    pub(crate) arms: Vec<RunArmFacts>,
    pub(crate) workloads: Vec<String>,
    /// The job that runs it, if this server started it.
    pub(crate) job: Option<String>,
}

/// A section of a report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSectionFacts {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) html: String,
}

/// A report in parts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSectionsFacts {
    pub(crate) answer: String,
    pub(crate) sections: Vec<RunSectionFacts>,
}

/// A stretch of the seconds of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSeriesFacts {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) full_to_s: f64,
    pub(crate) quantity: &'static str,
    /// The share of the run that was read so far.
    pub(crate) read: f64,
    pub(crate) series: Vec<NamedSeries>,
}

/// A node of a stack.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackNodeFacts {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) text: String,
}

/// A stack that is up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackFacts {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) nodes: Vec<StackNodeFacts>,
    pub(crate) outputs: Vec<String>,
    pub(crate) text: String,
}

/// A step of a plan.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackStepFacts {
    pub(crate) node: String,
    pub(crate) why: String,
}

/// What would bring a stack up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackPlanFacts {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) steps: Vec<StackStepFacts>,
    pub(crate) text: String,
}

#[cfg(test)]
mod tests;
