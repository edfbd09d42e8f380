// SPDX-License-Identifier: Apache-2.0
//! The power switch of the machines: a daemon that any of them may ask to cut another's power, as the
//! members of a cluster must before they take over what that one had.
//!
//! A machine writes a line `off n2 WORD` to its port, and reads `WORD off` once the other's process is
//! gone; `status n2 WORD` is answered with `WORD on` or `WORD off`, anything else with `WORD refused`.
//! The other side is `guest/power`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::machine::file_in;
use super::plan::mark;
use plimsoll_machine::host::{HostError, HostTimeSource, processes};

/// Time between two looks: what a machine that asks waits for at most.
const LOOK: Duration = Duration::from_millis(50);

/// Longest line.
const LINE_MAX: usize = 200;

/// A console longer than this is emptied: a machine may print without end.
const CONSOLE_MAX: u64 = 8 << 20;

/// Name of the file that appears when it works.
pub(super) const READY: &str = "switch.ready";

/// A switch.
#[derive(Debug)]
pub struct VmPowerSwitch {
    dir: PathBuf,
    id: String,
    lines: Vec<VmPowerLink>,
}

/// The connection to one machine, with the bytes it sent.
#[derive(Debug)]
struct VmPowerLink {
    name: String,
    stream: Option<UnixStream>,
    heard: Vec<u8>,
}

impl VmPowerSwitch {
    /// A switch for the machines of the journal `id` whose files are in `dir`.
    pub fn new(dir: PathBuf, id: String, names: &[String]) -> Self {
        let line = |name: &String| VmPowerLink {
            name: name.clone(),
            stream: None,
            heard: Vec::new(),
        };
        VmPowerSwitch {
            dir,
            id,
            lines: names.iter().map(line).collect(),
        }
    }

    /// Listens and switches until it is ended.
    ///
    /// # Errors
    /// When it cannot say that it is ready.
    pub fn serve(&mut self, clock: &dyn HostTimeSource) -> Result<(), HostError> {
        let ready = self.dir.join(READY);
        fs::write(&ready, "").map_err(HostError::io("write", &ready))?;
        // The file disappears with the folder of the machines: then no machine is left to serve.
        while ready.exists() {
            self.look(clock);
            clock.pause(LOOK);
        }
        Ok(())
    }

    fn look(&mut self, clock: &dyn HostTimeSource) {
        let names: Vec<String> = self.lines.iter().map(|line| line.name.clone()).collect();
        let power = VmPowerControl {
            id: &self.id,
            names: &names,
            clock,
        };
        for line in &mut self.lines {
            let file = |what: &str| file_in(&self.dir.to_string_lossy(), &line.name, what);
            keep_short(Path::new(&file("console")));
            if line.stream.is_none() {
                line.heard.clear();
                line.stream = connect(Path::new(&file("power"))).ok();
            }
            if line.serve(&power).is_err() {
                // It went off, or is not there yet.
                line.stream = None;
            }
        }
    }
}

/// The machines that can be switched.
struct VmPowerControl<'a> {
    id: &'a str,
    names: &'a [String],
    clock: &'a dyn HostTimeSource,
}

impl VmPowerControl<'_> {
    /// Whether a machine has it.
    fn has(&self, name: &str) -> bool {
        !processes::marked(&mark(self.id, name)).is_empty()
    }

    /// The answer to a line, where it is one; what it asks for is done then.
    fn answer(&self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace();
        let (order, name, word) = (words.next()?, words.next()?, words.next()?);
        let is_known = self.names.iter().any(|known| known == name);
        let said = match order {
            "off" if is_known => match processes::kill(&mark(self.id, name), self.clock) {
                Ok(_) => "off",
                Err(_) => "refused",
            },
            "status" if is_known && self.has(name) => "on",
            "status" if is_known => "off",
            _ => "refused",
        };
        Some(format!("{word} {said}\n"))
    }
}

impl VmPowerLink {
    fn serve(&mut self, power: &VmPowerControl<'_>) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let mut bytes = [0; 512];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.heard.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        while let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
            // Requests of a machine that has lost power are void: two could end each other.
            if !power.has(&self.name) {
                self.heard.clear();
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            if let Some(answer) = power.answer(&String::from_utf8_lossy(&line)) {
                stream.write_all(answer.as_bytes())?;
            }
        }
        if self.heard.len() > LINE_MAX {
            self.heard.clear();
        }
        Ok(())
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn keep_short(console: &Path) {
    // QEMU appends to it, so what comes next begins at the new end.
    if fs::metadata(console).is_ok_and(|data| data.len() > CONSOLE_MAX)
        && let Ok(file) = File::options().write(true).open(console)
    {
        let _ = file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::host::{MARK_VARIABLE, SystemClock};
    use std::os::unix::net::UnixListener;
    use std::process::Stdio;

    /// A process in the place of a machine's, ended with the test.
    struct VmProcessFixture(std::process::Child);

    impl VmProcessFixture {
        /// Once it has ended, nothing has its mark.
        fn end(mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    impl Drop for VmProcessFixture {
        fn drop(&mut self) {
            // Who switched it off has waited for it, and another process may have its number.
            if let Ok(None) = self.0.try_wait() {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test, and what it starts it ends"
    )]
    fn machine(id: &str, name: &str) -> VmProcessFixture {
        let mut sleep = std::process::Command::new("sleep");
        let mark = mark(id, name);
        let sleep = sleep.arg("600").env(MARK_VARIABLE, &mark);
        let sleep = sleep.stdout(Stdio::null()).stderr(Stdio::null());
        let machine = VmProcessFixture(sleep.spawn().unwrap());
        // A process just started has no environment for a moment, and so is not on yet.
        let clock = SystemClock::new();
        while processes::marked(&mark).is_empty() {
            assert!(clock.now() < Duration::from_secs(60), "{name} has no mark");
            clock.pause(Duration::from_millis(1));
        }
        machine
    }

    #[test]
    fn what_is_asked_is_answered_with_its_word_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("n1.power")).unwrap();
        let names = ["n1", "n2"].map(String::from);
        let id = format!("test-{}", std::process::id());
        let process = machine(&id, "n1");
        let mut switch = VmPowerSwitch::new(dir.path().into(), id.clone(), &names);
        let clock = SystemClock::new();
        switch.look(&clock);
        let (mut line, _) = listener.accept().unwrap();
        for (asked, expect) in [
            // Nothing with such a mark runs, and that is what was wanted.
            ("off n2 a1\n", "a1 off\n"),
            ("status n2 a2\n", "a2 off\n"),
            ("off n9 a3\n", "a3 refused\n"),
            ("reboot n2 a4\n", "a4 refused\n"),
            ("noise\n\nstatus n1 a5\n", "a5 on\n"),
        ] {
            line.write_all(asked.as_bytes()).unwrap();
            switch.look(&clock);
            let mut answer = vec![0; expect.len()];
            line.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), expect, "{asked}");
        }
        // A machine that goes off is not obeyed any more, and heard again when it comes back.
        process.end();
        let mut other = machine(&id, "n2");
        line.write_all(b"off n2 a6\n").unwrap();
        switch.look(&clock);
        assert_eq!(line.read(&mut [0; 16]).unwrap(), 0);
        assert!(other.0.try_wait().unwrap().is_none(), "it was switched off");
        let process = machine(&id, "n1");
        switch.look(&clock);
        let (mut line, _) = listener.accept().unwrap();
        line.write_all(b"off n2 b1\n").unwrap();
        switch.look(&clock);
        let mut answer = [0; 7];
        line.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"b1 off\n");
        assert!(processes::marked(&mark(&id, "n2")).is_empty());
        // Who killed it has waited for it.
        let _ = other.0.wait();
        process.end();
    }

    #[test]
    fn a_console_has_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("n1.console");
        fs::write(&console, "short").unwrap();
        keep_short(&console);
        assert_eq!(fs::metadata(&console).unwrap().len(), 5);
        let file = File::options().write(true).open(&console).unwrap();
        file.set_len(CONSOLE_MAX + 1).unwrap();
        keep_short(&console);
        assert_eq!(fs::metadata(&console).unwrap().len(), 0);
    }
}
