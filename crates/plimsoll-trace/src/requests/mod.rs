// SPDX-License-Identifier: Apache-2.0
//! Recordings of single requests: one module for each format, one door for all.
//!
//! A format is recognised by its first bytes, never by a file's name. Readers stream: they hold a
//! piece of the file and what is needed to match ends with starts, both bounded.

mod input;
mod msr;
mod rows;
mod vscsi;

use std::path::Path;

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use crate::error::TraceError;
use crate::recording::Requests;
pub use input::Input;

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it started, from the recording's origin.
    pub at: Nanos,
    /// From its start to its end, where the source tells.
    pub took: Option<Nanos>,
    /// Read, write, discard or flush (`Kind::Fsync`).
    pub kind: Kind,
    /// On which device: a place in [`Requests::targets`].
    pub target: u16,
    /// How many bytes; 0 for a flush.
    pub bytes: u32,
    /// The first byte on the device.
    pub offset: u64,
}

/// Most devices of one recording.
pub(crate) const TARGETS_MAX: usize = u16::MAX as usize;

/// A format that can be told from its first bytes.
struct Format {
    /// As it is listed to people.
    name: &'static str,
    /// Whether a file that begins so is one. `head` is the whole file if that is shorter than
    /// [`input::HEAD_BYTES`].
    is: fn(head: &[u8]) -> bool,
    /// Begins to read it.
    open: fn(Input) -> Result<Box<dyn Requests>, TraceError>,
}

/// All of them; the first that recognises a file reads it, so the strict stand before the lax.
const FORMATS: &[Format] = &[vscsi::FORMAT, msr::FORMAT];

/// Opens a recording of requests of any known format, packed or not.
///
/// # Errors
/// When the file cannot be read, or is of no known format; the message lists the formats.
pub fn open(path: &Path) -> Result<Box<dyn Requests>, TraceError> {
    let input = Input::open(path)?;
    let format = FORMATS.iter().find(|format| (format.is)(input.head()));
    match format {
        Some(format) => (format.open)(input),
        None => Err(TraceError::Unknown {
            file: input.name().into(),
            formats: FORMATS.iter().map(|format| format.name).collect(),
        }),
    }
}

/// Names of devices by first appearance.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    names: Vec<String>,
    /// The one that was met last: neighbours mostly have the same device.
    last: usize,
}

impl Targets {
    /// The place of a device; `None` when there are too many.
    pub(crate) fn place(&mut self, name: &[u8]) -> Option<u16> {
        let is = |known: &String| known.as_bytes() == name;
        if !self.names.get(self.last).is_some_and(is) {
            self.last = match self.names.iter().position(is) {
                Some(place) => place,
                None if self.names.len() >= TARGETS_MAX => return None,
                None => {
                    self.names.push(String::from_utf8_lossy(name).into_owned());
                    self.names.len() - 1
                }
            };
        }
        u16::try_from(self.last).ok()
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}
