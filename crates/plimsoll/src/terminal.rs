// SPDX-License-Identifier: Apache-2.0
//! The only place that prints: results to standard output, what goes on beside them to standard error.

use plimsoll_core::text::{printable, printable_coloured, printable_json, printable_lines};
use std::io::{IsTerminal, Write};

/// Prints a result, in which names from files, nodes and programs are only text.
pub(crate) fn print(text: &str) {
    write_out(&printable_lines(text));
}

/// Prints a result that a renderer coloured.
pub(crate) fn print_coloured(text: &str) {
    write_out(&printable_coloured(text));
}

/// A reader that went away (a closed pipe) is no failure.
fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// Prints a result for machines.
pub(crate) fn print_json(value: &serde_json::Value) {
    let text = serde_json::to_string_pretty(value).expect("values are plain data");
    write_out(&printable_json(&text));
}

/// Says what is going on or went wrong, beside the results.
pub(crate) fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{}", printable_lines(text));
}

/// The same in place of the line before, on a terminal.
pub(crate) fn say_over(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", printable(text));
    let _ = err.flush();
}

/// Whether results may be coloured: a terminal whose user did not ask for plain text.
pub(crate) fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Columns of the terminal as its user set them, else a common width.
pub(crate) fn width() -> usize {
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    set.unwrap_or(100).clamp(60, 200)
}
