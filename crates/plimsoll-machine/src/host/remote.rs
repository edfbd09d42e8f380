// SPDX-License-Identifier: Apache-2.0
//! Directories of ours on exports that no kernel mounts: marked, made and removed as [`super::dirs`]
//! does it on this machine.

use plimsoll_nfs::{NfsAddress, NfsFileHandle, NfsMount, NfsSession};
use rustix::io::Errno;
use std::io;

use super::MARK_FILE;
use super::error::HostError;

/// Deeper than any tree that workloads make.
const DEPTH_MAX: u32 = 80;

/// Most bytes of a mark that are read.
const MARK_BYTES: u32 = 256;

/// Creates `name`, which must not exist, with the mark of the journal `id`.
pub(crate) fn make(address: &str, name: &str, id: &str) -> Result<(), HostError> {
    let mut place = HostNfsParentDir::find(address, name)?;
    if place.look(name)?.is_some() {
        return Err(HostError::State(format!(
            "{name} on {address} exists already; remove it or choose another place"
        )));
    }
    let early = temporary(name, id);
    let made = (|| {
        let (session, root) = (&mut place.session, place.root);
        let directory = session.make_directory(&root, &early)?;
        session.write_new(&directory, MARK_FILE, &format!("{id}\n"))?;
        session.rename(&root, &early, name)
    })();
    made.map_err(|e| place.fault("create", e))
}

/// Removes `name` and all in it if it carries the mark of the journal `id`; fine when absent.
pub(crate) fn remove(address: &str, name: &str, id: &str) -> Result<(), HostError> {
    let mut place = HostNfsParentDir::find(address, name).map_err(|error| match error {
        HostError::Io { what, source } => HostError::Io {
            what: format!(
                "{what} to remove {name} there (if that server is gone for good, so is what was \
                 made on it: remove this run's journal from the state directory)"
            ),
            source,
        },
        other => other,
    })?;
    let early = temporary(name, id);
    place.remove_tree(&early)?;
    let Some(directory) = place.look(name)? else {
        return Ok(());
    };
    if place.mark(&directory).as_deref() != Some(id) {
        return Err(HostError::Refused {
            what: format!("remove {name} on {address}"),
            why: format!("its file {MARK_FILE} does not name {id}, so it is not ours"),
        });
    }
    let renamed = place.session.rename(&place.root, name, &early);
    renamed.map_err(|e| place.fault("rename", e))?;
    place.remove_tree(&early)
}

/// A name beside `name` that is ours because it holds the identifier.
fn temporary(name: &str, id: &str) -> String {
    format!(".{name}.plimsoll-{id}")
}

/// A connection to the directory above.
struct HostNfsParentDir<'a> {
    address: &'a str,
    name: &'a str,
    session: NfsSession,
    root: NfsFileHandle,
}

impl<'a> HostNfsParentDir<'a> {
    fn find(address: &'a str, name: &'a str) -> Result<Self, HostError> {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(HostError::Refused {
                what: format!("use '{name}' on {address}"),
                why: "it is not the name of a directory".into(),
            });
        }
        let wanted: NfsAddress = address
            .parse()
            .map_err(|error| HostError::State(format!("could not {error}")))?;
        let io = HostError::doing(format!("mount {address}"));
        let share = NfsMount::mount(&wanted).map_err(&io)?;
        Ok(HostNfsParentDir {
            address,
            name,
            session: share.session().map_err(&io)?,
            root: share.root(),
        })
    }

    fn fault(&self, verb: &str, source: io::Error) -> HostError {
        HostError::Io {
            what: format!("{verb} {} on {}", self.name, self.address),
            source,
        }
    }

    /// The directory of this name, if it is there.
    fn look(&mut self, name: &str) -> Result<Option<NfsFileHandle>, HostError> {
        match self.session.find(&self.root, name) {
            Ok((handle, _)) => Ok(Some(handle)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(self.fault("look at", error)),
        }
    }

    /// The identifier in its mark.
    fn mark(&mut self, directory: &NfsFileHandle) -> Option<String> {
        let (file, _) = self.session.find(directory, MARK_FILE).ok()?;
        let text = self.session.read_short(&file, MARK_BYTES).ok()?;
        text.lines().next().map(Into::into)
    }

    fn remove_tree(&mut self, name: &str) -> Result<(), HostError> {
        let root = self.root;
        let removed = remove_below(&mut self.session, &root, name, 0);
        removed.map_err(|e| self.fault("remove", e))
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOENT.raw_os_error())
}

/// Removes a name and all below it; what is gone already is fine.
fn remove_below(
    session: &mut NfsSession,
    above: &NfsFileHandle,
    name: &str,
    depth: u32,
) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("directories are nested too deeply"));
    }
    let fine_when_absent = |result: io::Result<()>| match result {
        Err(error) if is_absent(&error) => Ok(()),
        other => other,
    };
    let (handle, attributes) = match session.find(above, name) {
        Err(error) if is_absent(&error) => return Ok(()),
        other => other?,
    };
    if !attributes.is_directory {
        return fine_when_absent(session.remove(above, name));
    }
    // The mark goes last, so that what is cut off is known as ours.
    let mut names = session.list(&handle)?;
    names.sort_by_key(|name| name == MARK_FILE);
    for inside in names {
        remove_below(session, &handle, &inside, depth + 1)?;
    }
    fine_when_absent(session.remove_directory(above, name))
}
