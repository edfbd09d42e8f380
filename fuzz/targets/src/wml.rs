// SPDX-License-Identifier: Apache-2.0
//! Any text as a filebench workload file: the reader must neither panic nor hang, and what it makes
//! of a text must not depend on when it is read. What is written anew for filebench is the same load.

use plimsoll_classics::filebench::{parse, rewritten};

/// Runs the target on one input.
pub fn wml(input: &[u8]) {
    let text = &String::from_utf8_lossy(input);
    let once = parse(text);
    let again = parse(text);
    if let (Ok(once), Ok(script)) = (&once, rewritten(text, "/target")) {
        let load = parse(&script).map(|script| script.workload);
        assert_eq!(load.ok().as_ref(), Some(&once.workload));
    }
    match (once, again) {
        (Ok(once), Ok(again)) => assert_eq!(once, again),
        (once, again) => assert_eq!(once.is_err(), again.is_err()),
    }
}
