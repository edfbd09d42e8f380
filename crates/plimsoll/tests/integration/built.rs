// SPDX-License-Identifier: Apache-2.0
//! The program as users have it: static, with its agent beside it, so that it can be copied to other
//! machines. Both were built with these tests.

use std::path::Path;
use std::process::Output;

/// Both outputs of a program.
pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

pub(crate) fn program() -> &'static Path {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    let agent = program.with_file_name("plimsoll-agent");
    assert!(
        agent.exists(),
        "{}: cargo build --workspace --bins",
        agent.display()
    );
    program
}
