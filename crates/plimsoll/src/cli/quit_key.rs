// SPDX-License-Identifier: Apache-2.0
//! `q` on a terminal ends a run; what was measured is reported as usual.
//!
//! The keyboard is read key by key while a run goes on, so the terminal must be as it was before when
//! it is over, however it ends: after a panic the guard is dropped, SIGINT, SIGTERM and SIGHUP end the
//! run in order, and SIGQUIT is let through only when the terminal is restored.

use plimsoll_console::context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use std::io::{IsTerminal as _, Stdin, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How often it is seen whether the run is over.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// The key.
const QUIT: u8 = b'q';

/// Watches for the key while it lives.
#[derive(Debug)]
pub(super) struct QuitKey {
    is_over: Arc<AtomicBool>,
    pressed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl QuitKey {
    /// Sets `stop` when the key is pressed. Does nothing where the standard input is no terminal.
    pub(super) fn watch(stop: &Arc<AtomicBool>) -> QuitKey {
        let mut key = QuitKey {
            is_over: Arc::default(),
            pressed: Arc::default(),
            thread: None,
        };
        if stdin().is_terminal() {
            let stop = Arc::clone(stop);
            let (is_over, pressed) = (Arc::clone(&key.is_over), Arc::clone(&key.pressed));
            key.thread = Some(std::thread::spawn(move || {
                if read_until(&is_over) {
                    pressed.store(true, Ordering::Relaxed);
                    stop.store(true, Ordering::Relaxed);
                }
            }));
        }
        key
    }

    /// Whether there is a terminal to press it on.
    pub(super) fn is_there(&self) -> bool {
        self.thread.is_some()
    }

    /// Whether it was pressed.
    pub(super) fn was_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed)
    }
}

impl Drop for QuitKey {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread restores the terminal even if it panics, so its result does not matter.
            let _ = thread.join();
        }
    }
}

/// Whether the key was pressed before it is over.
fn read_until(is_over: &AtomicBool) -> bool {
    let Ok(wants_death) = context::quit_flag() else {
        return false;
    };
    let mut keyboard = RawKeyboard {
        input: stdin(),
        before: None,
    };
    while !is_over.load(Ordering::Relaxed) {
        if wants_death.load(Ordering::Relaxed) {
            keyboard.restore();
            context::die_of_quit();
        }
        if keyboard.key() == Some(QUIT) {
            return true;
        }
    }
    false
}

/// The keyboard, read key by key.
struct RawKeyboard {
    input: Stdin,
    /// How the terminal was, once it has been changed.
    before: Option<Termios>,
}

impl RawKeyboard {
    /// The next key, if one is pressed within a moment.
    fn key(&mut self) -> Option<u8> {
        // Who reads or changes a terminal from the background is stopped by the kernel.
        if self.is_ours() {
            self.change();
        }
        let mut ready = [PollFd::new(&self.input, PollFlags::IN)];
        let found = poll(&mut ready, Some(&POLL)).is_ok_and(|count| count > 0);
        if !found || !self.is_ours() || self.before.is_none() {
            if found {
                // Nothing may be read now: do not spin on what lies there.
                std::thread::park_timeout(std::time::Duration::from_millis(100));
            }
            return None;
        }
        let mut byte = [0];
        match rustix::io::read(&self.input, &mut byte) {
            Ok(1) => Some(byte[0]),
            _ => None,
        }
    }

    fn is_ours(&self) -> bool {
        tcgetpgrp(&self.input).is_ok_and(|group| group == getpgrp())
    }

    /// Has keys passed on at once, not shown. Again after the run was in the background.
    fn change(&mut self) {
        let Ok(now) = tcgetattr(&self.input) else {
            return;
        };
        if !now.local_modes.contains(LocalModes::ICANON) {
            return;
        }
        let mut raw = now.clone();
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        if tcsetattr(&self.input, OptionalActions::Now, &raw).is_ok() {
            self.before = Some(now);
        }
    }

    fn restore(&mut self) {
        // In the background the terminal is another's, who sets it as it likes.
        if let Some(before) = self.before.take().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.input, OptionalActions::Now, &before);
        }
    }
}

impl Drop for RawKeyboard {
    fn drop(&mut self) {
        self.restore();
    }
}
