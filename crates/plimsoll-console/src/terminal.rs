// SPDX-License-Identifier: Apache-2.0
//! The only place that prints: results to standard output, what goes on beside them to standard error.

use crate::failure::{CliError, CliExitCode};
use plimsoll_core::text::{printable, printable_coloured, printable_json, printable_lines};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Prints a result, in which names from files, nodes and programs are only text.
pub fn print(text: &str) {
    write_out(&printable_lines(text));
}

/// Prints a result that a renderer coloured.
pub fn print_coloured(text: &str) {
    write_out(&printable_coloured(text));
}

/// Output of a command that is a part of another one, kept instead of printed.
static CAPTURED: Mutex<Option<String>> = Mutex::new(None);

/// Does something and gives what it printed, which is not printed.
pub fn captured<T>(work: impl FnOnce() -> T) -> (T, String) {
    let swap = |text: Option<String>| {
        let mut captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *captured, text)
    };
    swap(Some(String::new()));
    let done = work();
    (done, swap(None).unwrap_or_default())
}

/// First failure to print results.
static UNPRINTED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// The exit code of a program that is at its end with this one. Results that could not be printed are a
/// failure: who keeps them in a file on a full disk has only a part.
pub fn ended(code: ExitCode) -> ExitCode {
    let unprinted = UNPRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(error) = &*unprinted else {
        return code;
    };
    let failure = CliError::new(
        CliExitCode::Failed,
        format!("write to standard output: {error}"),
    );
    say(&failure.to_string());
    // A code that says more stays.
    match code == ExitCode::SUCCESS {
        true => failure.code.into(),
        false => code,
    }
}

/// A reader that went away (a closed pipe) is no failure.
fn write_out(text: &str) {
    let mut captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(captured) = captured.as_mut() {
        captured.push_str(text);
        captured.push('\n');
        return;
    }
    drop(captured);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let mut failure = UNPRINTED.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        _ => {}
    }
}

/// Prints a result for machines.
pub fn print_json(value: &serde_json::Value) {
    let text = serde_json::to_string_pretty(value).expect("values are plain data");
    write_out(&printable_json(&text));
}

/// Says what is going on or went wrong, beside the results, above the screen that is drawn.
pub fn say(text: &str) {
    let drawn = locked();
    let mut all = format!("{}{}\n", erasing(&drawn), printable_lines(text));
    drawn.iter().for_each(|row| all.extend([&*row.text, "\n"]));
    let _ = std::io::stderr().lock().write_all(all.as_bytes());
}

/// The same in place of the line before, on a terminal.
pub fn say_over(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", printable(text));
    let _ = err.flush();
}

/// Whether results are read on a terminal, and not by a program or a file.
pub fn is_read_here() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether results may be coloured: a terminal whose user did not ask for plain text.
pub fn colour() -> bool {
    is_read_here() && may_style()
}

/// Whether a screen may have styles.
pub fn may_style() -> bool {
    std::env::var_os("NO_COLOR").is_none()
}

/// Columns as the user set them, else those of the terminal, else a common width.
pub fn width() -> usize {
    let set = std::env::var("COLUMNS").ok();
    let set = set.and_then(|text| text.parse().ok());
    let found = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        size.map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0)
    };
    set.or_else(found).unwrap_or(100).clamp(60, 200)
}

/// A row of a screen.
#[derive(Debug)]
pub struct ScreenRow {
    /// Its characters, with the sequences that set their style.
    pub text: String,
    /// The columns that it takes.
    pub width: usize,
}

/// The screen that is drawn below everything printed.
static DRAWN: Mutex<Vec<ScreenRow>> = Mutex::new(Vec::new());

/// Whether standard error is a terminal on which rows can be drawn again.
pub fn can_redraw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
}

/// Columns and rows of the screen that fit on the terminal, with one row for the cursor.
pub fn size() -> (u16, u16) {
    let found = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let found = found.filter(|size| size.ws_col > 0 && size.ws_row > 1);
    found.map_or((80, 23), |size| (size.ws_col.min(200), size.ws_row - 1))
}

/// Draws a screen in place of the one before, below everything printed. Not from the background, where the
/// terminal is another's: then it is drawn anew below what that one printed.
pub fn draw(screen: Vec<ScreenRow>) {
    let mut drawn = locked();
    let mut err = std::io::stderr().lock();
    let group = rustix::termios::tcgetpgrp(std::io::stderr());
    if group.is_ok_and(|group| group != rustix::process::getpgrp()) {
        drawn.clear();
        return;
    }
    let mut text = erasing(&drawn);
    *drawn = screen;
    drawn.iter().for_each(|row| text.extend([&*row.text, "\n"]));
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

/// Removes the screen.
pub fn erase() {
    let mut drawn = locked();
    let text = erasing(&drawn);
    drawn.clear();
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

/// One that panicked while it drew has left rows that can be drawn over.
fn locked() -> MutexGuard<'static, Vec<ScreenRow>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Escape sequence that moves the cursor to the first drawn row and clears everything from there.
fn erasing(drawn: &[ScreenRow]) -> String {
    if drawn.is_empty() {
        return String::new();
    }
    // A terminal that has become narrower has broken rows in two.
    let columns = usize::from(size().0);
    let rows = drawn.iter().map(|row| row.width.div_ceil(columns).max(1));
    format!("\r\x1b[{}A\x1b[J", rows.sum::<usize>())
}
