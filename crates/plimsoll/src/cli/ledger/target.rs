// SPDX-License-Identifier: Apache-2.0
//! The targets of a ledger: what is there is looked at, and nothing is made.

use super::file_error;
use crate::campaign::{Consent, check_device, check_place, device_facts};
use crate::context;
use crate::failure::Failure;
use plimsoll_engine::Address;
use plimsoll_engine::DeviceIdentity;
use plimsoll_engine::Place;
use plimsoll_lab::host::facts;
use plimsoll_lab::stacks::Choice;
use std::path::{Path, PathBuf};

/// A target.
pub(super) struct Target {
    /// As the user called it.
    pub(super) given: String,
    what: What,
}

enum What {
    Directory {
        path: PathBuf,
        align: u32,
    },
    File {
        path: PathBuf,
        align: u32,
    },
    Device {
        path: PathBuf,
        align: u32,
        identity: DeviceIdentity,
        exclusive: bool,
    },
    Nfs(Address),
}

impl Target {
    /// A target that is to be written to.
    pub(super) fn to_write(text: &str, consent: &Consent) -> Result<Self, Failure> {
        Self::of(text, Some(consent))
    }

    /// A target that is only read. A device may be in use.
    pub(super) fn to_read(text: &str) -> Result<Self, Failure> {
        Self::of(text, None)
    }

    fn of(text: &str, consent: Option<&Consent>) -> Result<Self, Failure> {
        let given = text.to_owned();
        if Address::is_meant(text) {
            let what = What::Nfs(text.parse().map_err(Failure::usage)?);
            return Ok(Target { given, what });
        }
        let path = PathBuf::from(text);
        if !path.exists() && Choice::parse(text).is_ok() {
            let why = format!(
                "it is a stack, and ledgers know files only: name the directory that `plimsoll stack up \
                 '{text}'` tells; a file of that name is ./{text}"
            );
            return Err(file_error(&path, &why));
        }
        if facts::is_block_device(&path) {
            let what = of_device(path, consent)?;
            return Ok(Target { given, what });
        }
        let is_directory = path.is_dir();
        let directory = match path.parent() {
            _ if is_directory => path.clone(),
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !is_directory && consent.is_none() && !path.is_file() {
            let why = "it is no directory, file, block device or nfs:// address";
            return Err(file_error(&path, &why));
        }
        if consent.is_some() {
            check_place(text, &directory)?;
        }
        let found = facts::target(&directory).map_err(|error| file_error(&path, &error))?;
        let align = match found.direct_align_bytes {
            0 if is_directory && consent.is_some() => facts::direct_align_in(&directory),
            align => align,
        };
        let what = match is_directory {
            true => What::Directory { path, align },
            false => What::File { path, align },
        };
        Ok(Target { given, what })
    }

    /// Where the engine works.
    fn place(&self) -> Place<'_> {
        match &self.what {
            What::Directory { path, align } => Place::Directory {
                path,
                direct_align: *align,
            },
            What::File { path, align } => Place::File {
                path,
                direct_align: *align,
            },
            What::Device {
                path,
                align,
                identity,
                exclusive,
            } => Place::Device {
                path,
                direct_align: *align,
                identity,
                exclusive: *exclusive,
            },
            What::Nfs(address) => Place::Nfs {
                address,
                directory: Path::new(""),
            },
        }
    }

    /// Whether a new file at `path` would lie on this target.
    pub(super) fn holds(&self, path: &Path) -> bool {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let own = match &self.what {
            What::Directory { path, .. } => path.clone(),
            What::File { path, .. } => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."))
                .to_path_buf(),
            What::Device { path, .. } => {
                let device = facts::device_of(path);
                return device.is_some() && device == facts::device_of(directory);
            }
            What::Nfs(_) => return false,
        };
        let of = |path: &Path| facts::target(path).ok().map(|found| found.device);
        let device = of(&own);
        device.is_some() && device == of(directory)
    }
}

fn of_device(path: PathBuf, consent: Option<&Consent>) -> Result<What, Failure> {
    let host = context::host();
    let (found, identity) = match consent {
        Some(consent) => check_device(&path, consent, &host)?,
        None => device_facts(&path, &host)?,
    };
    Ok(What::Device {
        path,
        align: found.block_bytes,
        identity,
        exclusive: consent.is_some(),
    })
}

/// Where the engine works, each with its name.
pub(super) fn places(targets: &[Target]) -> Vec<(Place<'_>, String)> {
    targets
        .iter()
        .map(|target| (target.place(), target.given.clone()))
        .collect()
}
