// SPDX-License-Identifier: Apache-2.0
//! The environment that a process was started with, as the kernel shows it.
//!
//! `exec` gives a process new memory, then lets go on who started it, and writes the environment after
//! that: for a moment `/proc/<pid>/environ` is empty. On a busy machine the moment lasts for
//! milliseconds, and a look just then must not take a process of ours for a stranger.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::time::Duration;

use super::clock::{HostTimeSource, SystemClock};

/// How long a process may take to get its environment. The kernel reads the beginning of the program's
/// interpreter meanwhile, from a disk that may be busy. What takes longer counts as being without.
const SETTLE: Duration = Duration::from_secs(3);

/// Time between two looks at a process that is just becoming another program.
const LOOK: Duration = Duration::from_millis(1);

/// More than environments have: what the kernel gives in one call is of one moment.
const AT_ONCE: usize = 1 << 18;

/// A process that is ending and has given its memory back (`PF_EXITING`).
const EXITING: u64 = 0x4;

/// A thread of the kernel (`PF_KTHREAD`), in the flags of a process.
pub(crate) const KERNEL_THREAD: u64 = 0x0020_0000;

/// Fields of `/proc/<pid>/stat`, counted from the state.
const FLAGS: usize = 6;
/// Where its program lies in its memory: 0 until the kernel has written the environment, and a moment longer.
const CODE_START: usize = 23;
/// Where its environment begins in its memory.
const ENVIRONMENT_START: usize = 47;
/// Where it ends.
const ENVIRONMENT_END: usize = 48;

/// A variable in the environment that a process was started with.
pub(crate) fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let read = || {
        File::open(format!("/proc/{pid}/environ"))
            .and_then(whole)
            .ok()
    };
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let environment = settled(read, stat, &SystemClock::new())?;
    let mut variables = environment.split(|&byte| byte == 0);
    variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?;
        Some(value.strip_prefix(b"=")?.to_vec())
    })
}

/// All of a file that has the environment of a process, in one call where that is possible: between two,
/// the process may become another program, and the second call finds an end where there was none.
fn whole(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; AT_ONCE];
    let length = file.read(&mut bytes)?;
    bytes.truncate(length);
    if length == AT_ONCE {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The environment that `read` gives, again and again while the process is becoming another program, as
/// far as `stat` can tell. `None` when it ended or may not be looked into.
fn settled(
    read: impl Fn() -> Option<Vec<u8>>,
    stat: impl Fn() -> Option<String>,
    clock: &dyn HostTimeSource,
) -> Option<Vec<u8>> {
    let began = clock.now();
    loop {
        let environment = read()?;
        if !environment.is_empty() || !is_to_come(&stat()?) || clock.now() > began + SETTLE {
            return Some(environment);
        }
        clock.pause(LOOK);
    }
}

/// Whether a process of which an empty environment was read has one, or will have one.
fn is_to_come(stat: &str) -> bool {
    // The name is in parentheses and may itself contain any character.
    let rest = stat.rfind(')').and_then(|end| stat.get(end + 2..));
    let fields: Vec<&str> = rest.unwrap_or_default().split_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let is_ended = matches!(fields.first(), Some(&("Z" | "X" | "x")));
    let has_memory = number(FLAGS).is_some_and(|flags| flags & (EXITING | KERNEL_THREAD) == 0);
    let is_becoming = number(CODE_START) == Some(0);
    let has_environment = number(ENVIRONMENT_START) < number(ENVIRONMENT_END);
    !is_ended && has_memory && (is_becoming || has_environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The text of a process with these flags, its program here, and an environment of this length.
    fn stat(state: &str, flags: u64, code: u64, length: u64) -> String {
        let zeros = |from: usize, to: usize| "0 ".repeat(to - from - 1);
        let before = zeros(FLAGS, CODE_START);
        let between = zeros(CODE_START, ENVIRONMENT_START);
        let end = 80 + length;
        format!("7 (a) b) {state} 1 7 7 0 -1 {flags} {before}{code} {between}80 {end} 0\n")
    }

    /// Time that passes with pauses alone.
    #[derive(Debug, Default)]
    struct PausesOnly(Cell<Duration>);

    impl HostTimeSource for PausesOnly {
        fn now(&self) -> Duration {
            self.0.get()
        }

        fn unix_time(&self) -> Duration {
            self.0.get()
        }

        fn pause(&self, length: Duration) {
            self.0.set(self.0.get() + length);
        }
    }

    #[test]
    fn a_process_that_is_becoming_another_program_is_looked_at_again() {
        // Into setsid, then into the daemon: each exec leaves it without for a moment.
        let looks = [&b""[..], b"", b"PATH=/\0", b"never read"];
        let n_looked = Cell::new(0);
        let read = || {
            n_looked.set(n_looked.get() + 1);
            Some(looks[n_looked.get() - 1].to_vec())
        };
        let n_asked = Cell::new(0);
        let stat = || {
            n_asked.set(n_asked.get() + 1);
            // At the second question the first exec is through, and the second one begins.
            let is_through = n_asked.get() > 1;
            Some(stat(
                "R",
                0,
                u64::from(is_through),
                7 * u64::from(is_through),
            ))
        };
        let clock = PausesOnly::default();
        let found = settled(read, stat, &clock);
        assert_eq!(found.as_deref(), Some(&b"PATH=/\0"[..]));
        assert_eq!((n_looked.get(), clock.now()), (3, 2 * LOOK));
    }

    #[test]
    fn a_process_without_an_environment_is_not_waited_for() {
        for (text, looks_again) in [
            (stat("R", 0, 0, 0), true),
            (stat("D", 0, 0, 0), true),
            (stat("S", 0, 4_096, 10), true),
            // Started without one, as `env -i` does.
            (stat("S", 0, 4_096, 0), false),
            (stat("Z", 0, 0, 0), false),
            (stat("D", EXITING, 0, 0), false),
            (stat("S", KERNEL_THREAD, 0, 0), false),
            ("7 (cut) S".into(), false),
            (String::new(), false),
        ] {
            let clock = PausesOnly::default();
            let found = settled(|| Some(Vec::new()), || Some(text.clone()), &clock);
            assert_eq!(found, Some(Vec::new()));
            assert_eq!(clock.now() > SETTLE, looks_again, "{text}");
        }
        let gone = settled(|| None, || None, &PausesOnly::default());
        assert_eq!(gone, None);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "processes of its own are looked at"
    )]
    fn what_was_just_started_is_known_at_once() {
        for n in 0..100 {
            let value = format!("no-{n}");
            let mut child = std::process::Command::new("sleep")
                .arg("60")
                .env("PLIMSOLL_ENVIRON_TEST", &value)
                .spawn()
                .unwrap();
            let found = variable(child.id(), "PLIMSOLL_ENVIRON_TEST");
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found.as_deref(), Some(value.as_bytes()));
        }
    }
}
