// SPDX-License-Identifier: Apache-2.0
//! Who may write to what has an access control list: its mode alone does not tell.

use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// The kernel's name of the list, as `acl(5)` means it.
const NAME: &str = "system.posix_acl_access";

/// Longer lists are not read; who has one may write.
const BYTES_MAX: usize = 64 << 10;

// The forms of linux/posix_acl_xattr.h and linux/posix_acl.h: a version, then entries of a tag, what it
// allows and a number, all of the lowest byte first.
const VERSION: u32 = 2;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const USER: u16 = 0x02;
const OWN_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const WRITE: u16 = 2;

/// A user or a group that a list lets write, beside the owner and everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AclWriter {
    User(u32),
    /// The group of the file.
    OwnGroup,
    Group(u32),
    /// The list cannot be understood.
    Unknown,
}

/// Whom the list of this file lets write; none when it has no list.
pub(super) fn writers(open: &OwnedFd) -> Result<Option<Vec<AclWriter>>, Errno> {
    // Attributes cannot be asked of a handle that only names a place.
    let path = format!("/proc/self/fd/{}", open.as_raw_fd());
    let mut bytes = vec![0; BYTES_MAX];
    match rustix::fs::getxattr(path, NAME, &mut bytes) {
        Ok(n_bytes) => Ok(Some(read(&bytes[..n_bytes]))),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(vec![AclWriter::Unknown])),
        Err(errno) => Err(errno),
    }
}

fn read(bytes: &[u8]) -> Vec<AclWriter> {
    let Some((head, entries)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return vec![AclWriter::Unknown];
    };
    if u32::from_le_bytes(*head) != VERSION || entries.len() % ENTRY_BYTES != 0 {
        return vec![AclWriter::Unknown];
    }
    let entries = entries.chunks_exact(ENTRY_BYTES).map(|entry| {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let number = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (half(0), half(2), number)
    });
    // A right outside of the mask belongs to no user or group of the list.
    let mask = entries.clone().find(|(tag, ..)| *tag == MASK);
    let allowed = mask.map_or(u16::MAX, |(_, allowed, _)| allowed);
    let writing = entries.filter(|(_, allows, _)| allows & allowed & WRITE != 0);
    let writers = writing.filter_map(|(tag, _, number)| match tag {
        USER => Some(AclWriter::User(number)),
        OWN_GROUP => Some(AclWriter::OwnGroup),
        GROUP => Some(AclWriter::Group(number)),
        _ => None,
    });
    writers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = entries.iter().flat_map(|(tag, allows, number)| {
            let halves = [tag.to_le_bytes(), allows.to_le_bytes()].concat();
            [halves, number.to_le_bytes().to_vec()].concat()
        });
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    #[test]
    fn users_and_groups_that_may_write_are_found_as_the_mask_allows() {
        let entries = [
            (0x01, 7, u32::MAX),
            (USER, 7, 65_534),
            (USER, 5, 12),
            (OWN_GROUP, 5, u32::MAX),
            (GROUP, 2, 50),
            (MASK, 7, u32::MAX),
            (0x20, 5, u32::MAX),
        ];
        let expect = [AclWriter::User(65_534), AclWriter::Group(50)];
        assert_eq!(read(&list(&entries)), expect);
        let masked = entries.map(|(tag, allows, number)| match tag {
            MASK => (tag, 5, number),
            _ => (tag, allows, number),
        });
        assert_eq!(read(&list(&masked)), []);
    }

    #[test]
    fn what_is_no_list_is_taken_for_one_that_lets_write() {
        let long = [list(&[(USER, 4, 7)]), vec![0]].concat();
        for bytes in [&[][..], &[1, 0, 0, 0], &long] {
            assert_eq!(read(bytes), [AclWriter::Unknown]);
        }
    }
}
