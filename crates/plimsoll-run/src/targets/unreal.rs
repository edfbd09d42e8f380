// SPDX-License-Identifier: Apache-2.0
//! Targets that keep nothing: `null` and `nop`, which measure plimsoll itself, and devices in virtual time.

use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_console::failure::CliError;
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::SimDeviceSpec;
use std::rc::Rc;

#[derive(Debug, Clone)]
struct UnrealTarget {
    reach: NodeTarget,
    description: String,
}

pub(super) fn read(
    text: &str,
    _origin: LoadOrigin,
) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    let (reach, description) = match text {
        "null" => (NodeTarget::Null, "nothing: operations end at once".into()),
        // Not in the help: only a measurement of the program itself wants it.
        "nop" => (
            NodeTarget::Nop,
            "nothing: requests end at once in the kernel".into(),
        ),
        sim if SimDeviceSpec::is_meant(sim) => {
            let device: SimDeviceSpec = sim.parse().map_err(CliError::invalid)?;
            (NodeTarget::Sim(sim.into()), device.to_string())
        }
        _ => return Ok(None),
    };
    Ok(Some(Rc::new(UnrealTarget { reach, description })))
}

impl TargetKind for UnrealTarget {
    fn keeps_data(&self) -> bool {
        false
    }

    fn resolve(&self, _survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        Ok(Box::new(self.clone()))
    }
}

impl ResolvedTarget for UnrealTarget {
    fn description(&self) -> &str {
        &self.description
    }

    fn intentions(&self, _intent: &TargetIntent<'_>) -> Vec<String> {
        Vec::new()
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let nodes = raising.bench.load_nodes().len();
        Ok(RaisedTarget {
            description: self.description.clone(),
            here: Some(self.reach.clone()),
            nodes: vec![self.reach.clone(); nodes],
            ..RaisedTarget::default()
        })
    }
}
