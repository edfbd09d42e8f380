// SPDX-License-Identifier: Apache-2.0
//! Calls and replies byte by byte, and what a server may not make us believe.

use super::*;

fn accepted(number: u32, body: &[u32]) -> Vec<u8> {
    let header = [number, REPLY, 0, 0, 0, 0];
    let words = header.iter().chain(body);
    words.flat_map(|word| word.to_be_bytes()).collect()
}

fn handle() -> NfsFileHandle {
    NfsFileHandle::new(&[7; 5]).unwrap()
}

#[test]
fn a_call_is_one_record_with_its_length() {
    let mut bytes = Vec::new();
    let credential = credential(3, 4);
    let ask = RpcRequest::Write {
        offset: 9,
        stable: StableHow::File,
    };
    push_call(&mut bytes, 77, &credential, &handle(), ask, b"hello");
    let mark = word_at(&bytes, 0).unwrap();
    assert_eq!((mark & !LAST) as usize, bytes.len() - 4);
    assert_eq!(mark & LAST, LAST);
    assert_eq!(word_at(&bytes, 4), Some(77));
    assert!(bytes.len().is_multiple_of(4));
    assert!(bytes.len() <= 5 + CALL_EXTRA);
    let args = &bytes[28 + credential.len()..];
    let expect: Vec<u8> = [
        &[0, 0, 0, 5, 7, 7, 7, 7, 7, 0, 0, 0][..],
        &9_u64.to_be_bytes(),
        &[0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 5],
        b"hello\0\0\0",
    ]
    .concat();
    assert_eq!(args, expect);
    assert!(NfsFileHandle::new(&[0; 65]).is_none());
}

#[test]
fn answers_are_read() {
    let read = RpcRequest::Read { offset: 0, len: 8 };
    let mut bytes = accepted(1, &[0, 0, 5, 1, 5]);
    bytes.extend_from_slice(b"abcde\0\0\0");
    let data = &b"abcde"[..];
    assert_eq!(
        answer(&bytes, read, 8),
        Ok(RpcReply::Read { data, end: true })
    );
    let write = RpcRequest::Write {
        offset: 0,
        stable: StableHow::Unstable,
    };
    // Attributes before the change and after it.
    let mut body = vec![0, 1];
    body.extend([0; 6]);
    body.push(1);
    body.extend([0; 21]);
    body.extend([8, 0, 1, 2]);
    let expect = RpcReply::Written {
        count: 8,
        committed: StableHow::Unstable,
        verifier: [0, 0, 0, 1, 0, 0, 0, 2],
    };
    assert_eq!(answer(&accepted(1, &body), write, 8), Ok(expect));
    let verifier = [0, 0, 0, 3, 0, 0, 0, 4];
    let committed = accepted(1, &[0, 0, 0, 3, 4]);
    assert_eq!(
        answer(&committed, RpcRequest::Commit, 0),
        Ok(RpcReply::Committed { verifier })
    );
    let full = accepted(1, &[28, 0, 0]);
    let enospc = rustix::io::Errno::NOSPC.raw_os_error();
    assert_eq!(answer(&full, write, 8), Ok(RpcReply::Failed(enospc)));
}

#[test]
fn what_a_server_may_not_say_is_refused() {
    let read = RpcRequest::Read { offset: 0, len: 8 };
    let write = RpcRequest::Write {
        offset: 0,
        stable: StableHow::Unstable,
    };
    let denied: Vec<u8> = [1, REPLY, 1, 1, 5].map(u32::to_be_bytes).concat();
    let long_verifier: Vec<u8> = [1, REPLY, 0, 0, 500].map(u32::to_be_bytes).concat();
    for (bytes, ask, expect) in [
        (accepted(1, &[0, 0, 9, 1, 9]), read, "another length"),
        (accepted(1, &[0, 0, 4, 1, 8]), read, "another length"),
        (accepted(1, &[0, 0, 8, 1, 8]), read, "cut off"),
        (accepted(1, &[0, 7]), read, "neither on nor off"),
        (
            accepted(1, &[0, 0, 0, 9, 2, 1, 1]),
            write,
            "more was written",
        ),
        (accepted(1, &[0, 0, 0, 8, 3, 1, 1]), write, "no known way"),
        (accepted(1, &[0, 0, 0, 8, 2, 1]), write, "cut off"),
        (denied, read, "denied"),
        (long_verifier, read, "verifier is too long"),
        (vec![0; 3], read, "cut off"),
    ] {
        let error = answer(&bytes, ask, 8).unwrap_err();
        assert!(error.0.contains(expect), "{} for {expect}", error.0);
    }
}

#[test]
fn a_record_is_taken_when_all_its_fragments_are_there() {
    let fragment = |last: u32, data: &[u8]| {
        let mark = u32::try_from(data.len()).unwrap() | last;
        [&mark.to_be_bytes()[..], data].concat()
    };
    let whole = [
        fragment(0, b"abc"),
        fragment(0, b"d"),
        fragment(LAST, b"efgh"),
        fragment(LAST, b"next"),
    ]
    .concat();
    let first_end = 4 + 3 + 4 + 1 + 4 + 4;
    for cut in 0..first_end {
        let mut bytes = whole[..cut].to_vec();
        assert_eq!(
            record(&mut bytes, 0, 100),
            Ok(RpcRecordScan::Nothing),
            "{cut}"
        );
        assert_eq!(bytes, whole[..cut], "nothing is moved before all is there");
    }
    let mut bytes = whole.clone();
    let Ok(RpcRecordScan::Record { start, end, next }) = record(&mut bytes, 0, 100) else {
        panic!("it is whole");
    };
    assert_eq!(&bytes[start..end], b"abcdefgh");
    assert_eq!(next, first_end);
    let Ok(RpcRecordScan::Record { start, end, .. }) = record(&mut bytes, next, 100) else {
        panic!("it is whole");
    };
    assert_eq!(&bytes[start..end], b"next");
    assert!(record(&mut whole.clone(), 0, 7).is_err(), "too long");
    assert!(record(&mut fragment(0, b""), 0, 7).is_err(), "empty");
}
