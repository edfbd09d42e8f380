// SPDX-License-Identifier: Apache-2.0
//! Block devices as targets: writing to one destroys what it holds, so it takes consent.

use super::place;
use super::{
    LoadOrigin, RaisedTarget, ResolvedTarget, TargetIntent, TargetKind, TargetRaising, TargetSurvey,
};
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::target::{DeviceIdentity, NodeTarget, TargetFacts};
use plimsoll_core::units;
use plimsoll_engine::device_identity;
use plimsoll_machine::device::{self, DeviceFacts};
use plimsoll_machine::host::LocalHost;
use plimsoll_machine::host::medium;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

#[derive(Debug)]
struct DeviceTarget {
    path: PathBuf,
}

#[derive(Debug)]
struct ResolvedDevice {
    path: PathBuf,
    /// The device that the consent is for, whatever has its name later.
    identity: DeviceIdentity,
    facts: TargetFacts,
}

pub(super) fn read(text: &str, origin: LoadOrigin) -> Result<Option<Rc<dyn TargetKind>>, CliError> {
    let is_device = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_block_device())
    };
    let path = PathBuf::from(text);
    match origin == LoadOrigin::Here && is_device(&path) {
        true => Ok(Some(Rc::new(DeviceTarget { path }))),
        false => Ok(None),
    }
}

impl TargetKind for DeviceTarget {
    fn resolve(&self, survey: &mut TargetSurvey<'_>) -> Result<Box<dyn ResolvedTarget>, CliError> {
        let (found, identity) = check(&self.path, survey.consent, survey.bench.local())?;
        place::check_one_file(survey.given, survey.asked, "")?;
        survey.need(survey.given, found.bytes);
        Ok(Box::new(ResolvedDevice {
            path: self.path.clone(),
            identity,
            facts: target_facts(&found),
        }))
    }
}

impl ResolvedTarget for ResolvedDevice {
    fn facts(&self) -> Option<&TargetFacts> {
        Some(&self.facts)
    }

    fn intentions(&self, intent: &TargetIntent<'_>) -> Vec<String> {
        vec![intent.overwrite()]
    }

    fn raise(&self, raising: &mut TargetRaising<'_>) -> Result<RaisedTarget, CliError> {
        let (found, identity) = facts(&self.path, raising.bench.local())?;
        if identity != self.identity {
            let text = format!(
                "use target '{}': it is another device now ({identity}) than the one that may be destroyed ({})",
                self.path.display(),
                self.identity
            );
            return Err(CliError::new(CliExitCode::Failed, text));
        }
        Ok(raised(&self.path, &found, identity))
    }
}

/// A device that is written to as a whole. One that is in use is not opened for us alone.
pub(super) fn raised(path: &Path, found: &DeviceFacts, identity: DeviceIdentity) -> RaisedTarget {
    let facts = target_facts(found);
    let reach = NodeTarget::Device {
        path: path.into(),
        direct_align_bytes: facts.direct_align_bytes,
        identity,
        exclusive: !found.in_use,
    };
    RaisedTarget {
        description: description(found),
        devices: vec![found.number.clone()],
        ..RaisedTarget::here(reach, facts)
    }
}

/// Consent of the user to destroy the contents of devices.
#[derive(Debug, Clone, Default)]
pub struct DestroyConsent {
    /// Whether `--destroy` was given at all: devices that hold nothing may be written to.
    pub given: bool,
    /// Devices named again with `--destroy=DEVICE`: they may be written to whatever they hold.
    pub named: Vec<PathBuf>,
}

impl DestroyConsent {
    /// From the values of `--destroy`, empty where it came without one.
    pub fn of(values: &[String]) -> Self {
        let named = values.iter().filter(|value| !value.is_empty());
        DestroyConsent {
            given: !values.is_empty(),
            named: named.map(PathBuf::from).collect(),
        }
    }

    /// Whether the device that is called `shown` was allowed to be destroyed at all.
    pub(super) fn check_given(&self, shown: &str) -> Result<(), CliError> {
        if self.given {
            return Ok(());
        }
        Err(CliError::usage(format!(
            "use target '{shown}': it is a block device, and measuring on it destroys what it holds"
        ))
        .hint("add --destroy if nothing on it is needed"))
    }

    /// Whether the device, which was called `shown`, was allowed to be destroyed with what it holds.
    pub(super) fn covers(&self, shown: &str, found: &DeviceFacts) -> Result<(), CliError> {
        let is_it =
            |named: &PathBuf| named == Path::new(shown) || device::is_same(named, &found.path);
        if self.named.iter().any(is_it) {
            return Ok(());
        }
        self.check_given(shown)?;
        if found.holds.is_empty() {
            return Ok(());
        }
        Err(
            CliError::usage(format!("use target '{shown}': {}", found.holds.join("; "))).hint(
                format!("to destroy it anyway, name it: '--destroy={shown}'"),
            ),
        )
    }
}

/// Facts about a device that the user allows to be destroyed, and by what it is known again: the consent
/// is for this one, whatever has its name later.
pub fn check(
    path: &Path,
    consent: &DestroyConsent,
    host: &LocalHost,
) -> Result<(DeviceFacts, DeviceIdentity), CliError> {
    let (found, identity) = facts(path, host)?;
    consent.covers(&path.display().to_string(), &found)?;
    Ok((found, identity))
}

/// The same without asking for consent.
pub fn facts(path: &Path, host: &LocalHost) -> Result<(DeviceFacts, DeviceIdentity), CliError> {
    let what = || format!("look at target '{}'", path.display());
    let found = device::device(path, host).map_err(doing(CliExitCode::Failed, what()))?;
    let of = |path: &Path| device_identity(path).map_err(doing(CliExitCode::Failed, what()));
    let identity = of(&found.path)?;
    // The facts are of the device itself; that the name still leads to it is seen once more.
    if identity.number != found.number || of(path)? != identity {
        let what = format!("{}: it became another device meanwhile", what());
        return Err(CliError::new(CliExitCode::Failed, what));
    }
    Ok((found, identity))
}

/// How it is made up, in one line.
pub(super) fn description(found: &DeviceFacts) -> String {
    let mut words = vec![match &found.model {
        Some(model) => format!("block device {model}"),
        None => "block device".into(),
    }];
    words.push(units::size(found.bytes as f64));
    words.extend(found.rotational.map(|turns| {
        let kind = if turns {
            "rotational"
        } else {
            "not rotational"
        };
        kind.to_owned()
    }));
    words.extend(found.cache.as_ref().map(|cache| format!("cache {cache}")));
    let scheduler = found.scheduler.as_ref();
    words.extend(scheduler.map(|name| format!("scheduler {name}")));
    words.join(", ")
}

/// The same as facts about a target.
pub(super) fn target_facts(found: &DeviceFacts) -> TargetFacts {
    let below = medium::below(&found.path);
    TargetFacts {
        medium: below.words,
        in_memory: below.in_memory,
        write_cache: medium::write_cache(&below.disks),
        disks: below.disks,
        path: found.path.display().to_string(),
        mount_point: String::new(),
        mount_source: found.path.display().to_string(),
        file_system: "none".into(),
        mount_options: String::new(),
        device: found.number.clone(),
        size_bytes: found.bytes,
        free_bytes: found.bytes,
        direct_align_bytes: found.block_bytes,
        ..TargetFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_something_must_be_named_again() {
        let found = |holds: &[&str]| DeviceFacts {
            path: "/dev/null".into(),
            number: "1:3".into(),
            bytes: 1,
            block_bytes: 512,
            model: None,
            rotational: None,
            cache: None,
            scheduler: None,
            holds: holds.iter().map(ToString::to_string).collect(),
            in_use: false,
        };
        let said = |values: &[&str], holds: &[&str]| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            let failure = DestroyConsent::of(&values).covers("/dev/null", &found(holds));
            failure.map_err(|failure| failure.to_string())
        };
        assert!(said(&[], &[]).unwrap_err().contains("add --destroy"));
        assert!(said(&[""], &[]).is_ok());
        let error = said(&[""], &["it carries ext4"]).unwrap_err();
        assert!(
            error.contains("ext4") && error.contains("--destroy=/dev/null"),
            "{error}"
        );
        // Another device that is named does not help, nor does what is no block device.
        assert!(said(&["", "/dev/zero"], &["it carries ext4"]).is_err());
    }
}
