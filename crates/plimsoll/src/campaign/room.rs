// SPDX-License-Identifier: Apache-2.0
//! Whether the data of a run fit where they shall go, known before anything is written.

use super::Asked;
use super::proof::VERIFY_BYTES;
use crate::failure::Failure;
use plimsoll_core::units;
use plimsoll_core::workload::Workload;
use std::collections::BTreeMap;

/// Room a target must have besides the data, as a factor: file systems need some for themselves.
const ROOM: f64 = 1.1;

/// Bytes the workloads keep on one arm at the same time: one data file serves all that need one.
pub(super) fn data_bytes(asked: &[Asked]) -> u64 {
    let (mut file, mut trees) = (VERIFY_BYTES, 0);
    for one in asked {
        match &one.workload {
            Workload::Files(files) => trees += files.data_set_bytes() * 2,
            Workload::Series(_) | Workload::Commands(_) => {
                trees += one.workload.data_set_bytes();
            }
            other => file = file.max(other.data_set_bytes()),
        }
    }
    file + trees
}

/// What several arms need of the same places.
#[derive(Debug, Default)]
pub(super) struct Room(BTreeMap<String, (u64, u64)>);

impl Room {
    /// Adds a need of `bytes` in `place`, which has `free` bytes.
    pub(super) fn need(&mut self, place: &str, bytes: u64, free: u64) {
        let entry = self.0.entry(place.to_owned()).or_insert((0, free));
        *entry = (entry.0.saturating_add(bytes), entry.1.min(free));
    }

    /// Whether all fits.
    ///
    /// # Errors
    /// Names the first place that is too small, with both figures.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let full = |(needed, free): &(u64, u64)| *needed as f64 * ROOM > *free as f64;
        match self.0.iter().find(|(_, figures)| full(figures)) {
            None => Ok(()),
            Some((place, (needed, free))) => Err(Failure::usage(format!(
                "use target '{place}': the data need {} and {} are free",
                units::size(*needed as f64 * ROOM),
                units::size(*free as f64)
            ))
            .hint("make room, choose another target or a larger --size, or fit the model with a smaller --working-set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_needed_for_one_data_file_and_every_tree() {
        let asked = |name: &str| Asked {
            workload: plimsoll_classics::workload(name, &[]).unwrap(),
            scale: None,
            notes: Vec::new(),
            length: None,
        };
        let file = data_bytes(&[asked("randread"), asked("randwrite")]);
        assert_eq!(file, 1 << 30);
        assert!(data_bytes(&[asked("randread"), asked("varmail")]) > file);
    }

    #[test]
    fn arms_that_share_a_place_need_room_together() {
        let mut room = Room::default();
        room.need("a", 100, 200);
        room.need("b", 100, 120);
        assert!(room.check().is_ok());
        room.need("a", 100, 200);
        assert!(room.check().unwrap_err().message.contains("'a'"));
    }
}
