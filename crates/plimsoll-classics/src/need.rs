// SPDX-License-Identifier: Apache-2.0
//! The requirement that words on the command line name.

use plimsoll_core::load_line::LoadLineRequirement;
use plimsoll_core::nearest::nearest;
use plimsoll_core::settings::{SettingValues, hint};

use crate::error::ClassicsError;
use crate::requirements::{REQUIREMENTS, RequirementDefinition};
use crate::words::ClassicSpec;

/// The requirement that these words name, with the settings in them: `etcd,iops=500`.
///
/// # Errors
/// When nothing is known by that name (the nearest that is comes with the error), or a setting is unknown
/// or wrong.
pub fn find_requirement(
    text: &str,
) -> Result<(&'static RequirementDefinition, LoadLineRequirement), ClassicsError> {
    let name = text.split([',', ' ']).next().unwrap_or_default();
    let found = REQUIREMENTS.iter().find(|one| one.workload.name == name);
    let Some(found) = found else {
        return Err(unknown(name));
    };
    let words = ClassicSpec::parse(text)?;
    let settings = SettingValues::new(name, found.workload.settings, &words.given)?;
    // A setting out of its range is an error here, before anything is looked at.
    (found.workload.build)(&settings)?;
    Ok((found, found.told(&settings)))
}

fn unknown(name: &str) -> ClassicsError {
    let names = || REQUIREMENTS.iter().map(|one| one.workload.name);
    let known = names().collect::<Vec<_>>().join(", ");
    ClassicsError::Requirement(format!(
        "unknown requirement '{name}'{}; available: {known}",
        hint(nearest(name, names()))
    ))
}
