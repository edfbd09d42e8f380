// SPDX-License-Identifier: Apache-2.0
//! The names of the devices in a recording.

use std::collections::BTreeMap;

/// Most devices of one recording.
pub(crate) const TARGETS_MAX: usize = u16::MAX as usize;

/// Longest name of a device: files of a log have long ones.
const TARGET_BYTES_MAX: usize = 1024;

/// Names of devices by first appearance.
#[derive(Debug, Default)]
pub(crate) struct DeviceNameTable {
    names: Vec<String>,
    /// Where a name stands. Names that are not text keep their bytes here.
    places: BTreeMap<Vec<u8>, u16>,
    /// The one that was met last, with its place: neighbours mostly have the same device.
    last: (Vec<u8>, u16),
}

impl DeviceNameTable {
    /// The place of a device; `None` when there are too many, or its name is too long.
    pub(crate) fn place(&mut self, name: &[u8]) -> Option<u16> {
        if self.last.0 == name && !self.names.is_empty() {
            return Some(self.last.1);
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None if self.names.len() >= TARGETS_MAX || name.len() > TARGET_BYTES_MAX => {
                return None;
            }
            None => {
                let place = u16::try_from(self.names.len()).ok()?;
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.places.insert(name.into(), place);
                place
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = place;
        Some(place)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_bounded_in_number_and_name() {
        let mut targets = DeviceNameTable::default();
        for number in 0..TARGETS_MAX {
            let place = targets.place(number.to_string().as_bytes());
            assert_eq!(place.map(usize::from), Some(number));
        }
        assert_eq!(targets.place(b"one more"), None);
        assert_eq!(targets.place(b"7"), Some(7));
        let mut targets = DeviceNameTable::default();
        assert_eq!(targets.place(&[b'x'; TARGET_BYTES_MAX + 1]), None);
        assert_eq!(targets.place(b""), Some(0));
    }
}
