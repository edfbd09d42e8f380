// SPDX-License-Identifier: Apache-2.0
//! Dependencies between requests: numbers of seven bits per byte, after the requests.

use std::sync::Arc;

use crate::num::saturating_u32;
use crate::units::Nanos;

/// Dependency of a later request on the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedDependency {
    /// How many requests later in the recording the one is that waits, 1 or more.
    pub distance: u32,
    /// From the end of the one to the start of the other.
    pub think: Nanos,
}

/// Appends the links of requests, in their order; gives back how many there are.
pub(super) fn write(
    links: impl Iterator<Item = Option<PackedDependency>>,
    bytes: &mut Vec<u8>,
) -> u64 {
    let mut linked = 0;
    for link in links {
        match link {
            Some(link) => {
                linked += 1;
                number(link.distance.max(1).into(), bytes);
                number(link.think.0, bytes);
            }
            None => bytes.push(0),
        }
    }
    linked
}

fn number(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// The links of requests, one for each; none where there are none.
#[derive(Debug, Clone)]
pub struct PackedDependencyReader {
    bytes: Arc<[u8]>,
    at: usize,
}

impl PackedDependencyReader {
    /// Those that begin at byte `at`.
    pub(super) fn new(bytes: Arc<[u8]>, at: usize) -> PackedDependencyReader {
        PackedDependencyReader { bytes, at }
    }

    fn number(&mut self) -> u64 {
        let mut value = 0;
        // Ten bytes hold every number.
        for shift in (0..70).step_by(7) {
            let byte = self.bytes.get(self.at).copied().unwrap_or_default();
            self.at += 1;
            value |= u64::from(byte & 0x7f)
                .checked_shl(shift)
                .unwrap_or_default();
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    /// That of the next request.
    #[inline]
    pub fn next_link(&mut self) -> Option<PackedDependency> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let distance = saturating_u32(self.number());
        (distance > 0).then(|| PackedDependency {
            distance,
            think: Nanos(self.number()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_they_were_written_and_damage_ends() {
        let link = |distance, think| {
            Some(PackedDependency {
                distance,
                think: Nanos(think),
            })
        };
        let links = [
            None,
            link(1, 0),
            link(300, 127),
            None,
            link(u32::MAX, u64::MAX),
        ];
        let mut bytes = vec![9, 9];
        assert_eq!(write(links.into_iter(), &mut bytes), 3);
        let mut read = PackedDependencyReader::new(bytes.into(), 2);
        assert_eq!(links.map(|_| read.next_link()), links);
        assert_eq!(read.next_link(), None);
        let mut damaged = PackedDependencyReader::new(vec![0xff; 7].into(), 0);
        while damaged.at < 7 {
            damaged.next_link();
        }
        assert_eq!(damaged.next_link(), None);
    }
}
