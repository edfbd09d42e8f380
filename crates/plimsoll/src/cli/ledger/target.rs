// SPDX-License-Identifier: Apache-2.0
//! The targets of a ledger: what is there is looked at, and nothing is made.

use super::file_error;
use plimsoll_console::context;
use plimsoll_console::failure::CliError;
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::NfsAddress;
use plimsoll_machine::host::facts;
use plimsoll_run::targets::{self, DestroyConsent, LoadOrigin, NEW_FILE, check_place, device};
use std::path::{Path, PathBuf};

/// A target.
pub(super) struct LedgerTargetSpec {
    /// As the user called it.
    pub(super) given: String,
    what: NodeTarget,
}

impl LedgerTargetSpec {
    /// A target that is to be written to.
    pub(super) fn to_write(text: &str, consent: &DestroyConsent) -> Result<Self, CliError> {
        Self::of(text, Some(consent))
    }

    /// A target that is only read. A device may be in use.
    pub(super) fn to_read(text: &str) -> Result<Self, CliError> {
        Self::of(text, None)
    }

    fn of(text: &str, consent: Option<&DestroyConsent>) -> Result<Self, CliError> {
        let given = text.to_owned();
        if NfsAddress::is_meant(text) {
            let _: NfsAddress = text.parse().map_err(CliError::invalid)?;
            let what = NodeTarget::Export {
                address: given.clone(),
                directory: PathBuf::new(),
            };
            return Ok(LedgerTargetSpec { given, what });
        }
        let path = PathBuf::from(text.strip_prefix(NEW_FILE).unwrap_or(text));
        if !path.exists()
            && let Some(why) = is_no_path(text)
        {
            return Err(file_error(&path, &why));
        }
        if facts::is_block_device(&path) {
            let what = of_device(path, consent)?;
            return Ok(LedgerTargetSpec { given, what });
        }
        let is_directory = path.is_dir();
        let directory = match path.parent() {
            _ if is_directory => path.clone(),
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !is_directory && consent.is_none() && !path.is_file() {
            let why = "it is not a directory, file, block device or nfs:// address";
            return Err(file_error(&path, &why));
        }
        if consent.is_some() {
            check_place(&format!("use target '{text}'"), &directory)?;
        }
        let found = facts::target(&directory).map_err(|error| file_error(&path, &error))?;
        let direct_align_bytes = match found.direct_align_bytes {
            0 if is_directory && consent.is_some() => facts::direct_align_in(&directory),
            align => align,
        };
        let what = match is_directory {
            true => NodeTarget::Directory {
                path,
                direct_align_bytes,
            },
            false => NodeTarget::File {
                path,
                direct_align_bytes,
            },
        };
        Ok(LedgerTargetSpec { given, what })
    }

    /// Whether a new file at `path` would lie on this target.
    pub(super) fn holds(&self, path: &Path) -> bool {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let own = match &self.what {
            NodeTarget::Directory { path, .. } => path.clone(),
            NodeTarget::File { path, .. } => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."))
                .to_path_buf(),
            NodeTarget::Device { path, .. } => {
                let device = facts::device_of(path);
                return device.is_some() && device == facts::device_of(directory);
            }
            _ => return false,
        };
        let of = |path: &Path| facts::target(path).ok().map(|found| found.device);
        let device = of(&own);
        device.is_some() && device == of(directory)
    }
}

/// Why words that name no path are refused.
fn is_no_path(text: &str) -> Option<String> {
    let known = targets::read(text, LoadOrigin::Here).ok();
    let known = known.filter(|_| !text.starts_with(NEW_FILE))?;
    let why = match known.stack() {
        Some(_) => format!(
            "it is a stack, and a ledger needs a directory: name the one that `plimsoll stack up '{text}'` prints"
        ),
        None => "a ledger needs a directory, a file, a block device or an nfs:// address".into(),
    };
    Some(format!("{why}; a file of that name is ./{text}"))
}

fn of_device(path: PathBuf, consent: Option<&DestroyConsent>) -> Result<NodeTarget, CliError> {
    let host = context::host();
    let (found, identity) = match consent {
        Some(consent) => device::check(&path, consent, &host)?,
        None => device::facts(&path, &host)?,
    };
    Ok(NodeTarget::Device {
        path,
        direct_align_bytes: found.block_bytes,
        identity,
        exclusive: consent.is_some(),
    })
}

/// How the engine reaches them, each with its name.
pub(super) fn places(targets: &[LedgerTargetSpec]) -> Vec<(NodeTarget, String)> {
    let each = targets.iter();
    each.map(|target| (target.what.clone(), target.given.clone()))
        .collect()
}
