// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what an NFS server sends: records and answers must neither panic nor hang, nor claim
//! to have moved more than was asked.

use plimsoll_nfs::StableHow;
use plimsoll_nfs::wire::{RpcRecordScan, RpcReply, RpcRequest, answer, number_of, record};

/// Bytes asked for, and the longest record that is taken.
const ASKED_BYTES: u32 = 512;
const RECORD_MAX: usize = 1536;

/// Runs the target on one input.
pub fn nfs_reply(input: &[u8]) {
    let mut bytes = input.to_vec();
    let mut from = 0;
    // Each record is longer than nothing, so this ends with the input.
    while let Ok(RpcRecordScan::Record { start, end, next }) = record(&mut bytes, from, RECORD_MAX)
    {
        assert!(from < next && start <= end && end <= next);
        from = next;
        let bytes = &bytes[start..end];
        let _ = number_of(bytes);
        let asks = [
            RpcRequest::Read {
                offset: 0,
                len: ASKED_BYTES,
            },
            RpcRequest::Write {
                offset: 0,
                stable: StableHow::Unstable,
            },
            RpcRequest::Commit,
        ];
        for ask in asks {
            match answer(bytes, ask, ASKED_BYTES) {
                Ok(RpcReply::Read { data, .. }) => assert!(data.len() <= ASKED_BYTES as usize),
                Ok(RpcReply::Written { count, .. }) => assert!(count <= ASKED_BYTES),
                _ => {}
            }
        }
    }
}
