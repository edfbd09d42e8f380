// SPDX-License-Identifier: Apache-2.0
//! Instances of the kernel's tracer, made and removed.
//!
//! An instance has buffers and settings of its own: the tracing of other users is untouched, and all settings
//! go with the instance. It is ours by its name, which holds the identifier of the journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::plan::TRACING;

use super::clock::HostTimeSource;
use super::error::HostError;

/// How long an instance may stay busy: its readers are ours, and gone.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// The folder of an instance.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(TRACING).join("instances").join(name)
}

/// Makes an instance that must not exist yet.
pub(super) fn make(id: &str, name: &str) -> Result<(), HostError> {
    check_ours(id, name)?;
    let folder = folder(name);
    fs::create_dir(&folder).map_err(HostError::io("make", &folder))
}

/// Removes an instance; fine when absent.
pub(super) fn remove(id: &str, name: &str, clock: &dyn HostTimeSource) -> Result<(), HostError> {
    check_ours(id, name)?;
    let folder = folder(name);
    let began = clock.now();
    loop {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy
                    && clock.now().saturating_sub(began) < BUSY_LIMIT =>
            {
                clock.pause(PAUSE);
            }
            result => return result.map_err(HostError::io("remove", &folder)),
        }
    }
}

fn check_ours(id: &str, name: &str) -> Result<(), HostError> {
    if name.contains(id) && !name.contains('/') {
        return Ok(());
    }
    Err(HostError::Refused {
        what: format!("make or remove the tracing instance {name}"),
        why: format!("its name does not contain {id}, so it is not ours"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemClock;

    #[test]
    fn what_is_not_ours_is_refused() {
        for name in ["other", "id-1/../other"] {
            for result in [
                make("id-1", name),
                remove("id-1", name, &SystemClock::new()),
            ] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("not ours"), "{error}");
            }
        }
    }
}
