// SPDX-License-Identifier: Apache-2.0
//! Starts an agent on a node, by a command that gives a shell there.
//!
//! The shell reads its lines from the same stream the program and the messages come by. It is
//! given one line at a time, and nothing more before its answer has come: shells read ahead.

use plimsoll_core::plan::PlanNode;
use std::fs::File;
use std::io::Read;
use std::process::Child;
use std::time::Duration;

use super::channel::{AgentChannel, AgentChannelError};
use super::message::{AgentRequest, AgentResponse, PROTOCOL, written};
use super::program::AgentProgram;
use super::stream::{AgentPipes, AgentStream};
use super::{COPY_DIR, COPY_MARK, MADE_FILE, READY_LINE, trouble};
use crate::host::MARK_FILE;
use crate::host::clock::{HostTimeSource, SystemClock};
use crate::host::command::{self, HostCommand, SearchPath};
use crate::host::error::HostError;

/// How long a shell may take to answer: logging in over a slow line takes seconds, and ssh itself
/// gives up after the ten we give it.
const SHELL_LIMIT: Duration = Duration::from_secs(30);

/// How long copying may take. Some ten megabytes at 1 Mbit/s need four minutes.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Mark of the command that holds a connection. No journal has it: connections outlive undertakings.
const CONNECTION_MARK: &str = "plimsoll-connection";

/// Most lines that a login script may print before the first answer.
const NOISE_LINES: usize = 200;

/// A copy that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentUpload {
    /// Its size.
    pub bytes: u64,
    /// How long copying took.
    pub took: Duration,
}

/// The way to an agent: over the pipes of a command, or over a connection that it made itself.
#[derive(Debug)]
pub(super) struct AgentConnection {
    node: String,
    /// The command that holds it, if one does.
    shell: Option<AgentShell>,
    pub(super) channel: Option<AgentChannel<Box<dyn AgentStream>>>,
    clock: SystemClock,
}

/// A command that runs, with what it writes beside its output.
#[derive(Debug)]
struct AgentShell {
    child: Child,
    errors: File,
}

impl AgentConnection {
    /// Connects, copies the program if it is not there, and greets the agent.
    pub(super) fn open(
        node: &PlanNode,
        prefix: &[String],
        search: &SearchPath,
        program: &AgentProgram,
    ) -> Result<(AgentConnection, Option<AgentUpload>), HostError> {
        check_dir(&node.dir)?;
        program.check_portable()?;
        let mut connection = AgentConnection::start(&node.name, prefix, search)?;
        let uploaded = connection.become_agent(&node.dir, program)?;
        connection.greet(&program.build)?;
        Ok((connection, uploaded))
    }

    /// Greets an agent that has connected to us.
    pub(super) fn over(
        node: &str,
        stream: Box<dyn AgentStream>,
        build: &str,
    ) -> Result<AgentConnection, HostError> {
        let mut connection = AgentConnection {
            node: node.into(),
            shell: None,
            channel: Some(AgentChannel::over(stream)),
            clock: SystemClock::new(),
        };
        connection.greet(build)?;
        Ok(connection)
    }

    fn start(node: &str, prefix: &[String], search: &SearchPath) -> Result<Self, HostError> {
        let Some((name, args)) = prefix.split_first() else {
            return Err(HostError::State(format!(
                "no connection settings for node {node}"
            )));
        };
        let path = if name.contains('/') {
            name.into()
        } else {
            search.require(name)?
        };
        let mut args = args.to_vec();
        args.push("sh".into());
        let failed = HostError::doing(format!("run '{}'", prefix.join(" ")));
        let errors = command::memory_file().map_err(&failed)?;
        let ready = HostCommand {
            program: path,
            args,
            env: &std::collections::BTreeMap::new(),
            state: None,
            mark: CONNECTION_MARK,
            shown: prefix.join(" "),
        };
        let mut child = ready.spawn_piped(&errors).map_err(&failed)?;
        let output = child.stdout.take().expect("it was started with pipes");
        let input = child.stdin.take().expect("it was started with pipes");
        let stream: Box<dyn AgentStream> = Box::new(AgentPipes {
            input: output,
            output: input,
        });
        Ok(AgentConnection {
            node: node.into(),
            shell: Some(AgentShell { child, errors }),
            channel: Some(AgentChannel::over(stream)),
            clock: SystemClock::new(),
        })
    }

    /// Ends the command that holds it, once it had this long to end by itself, and closes it.
    pub(super) fn close(&mut self, patience: Duration) {
        // Without its streams an agent ends.
        self.channel = None;
        let Some(shell) = &mut self.shell else {
            return;
        };
        if !matches!(
            command::wait(&mut shell.child, patience, &self.clock),
            Ok(Some(_))
        ) {
            command::end_group(&mut shell.child, &self.clock);
        }
    }

    /// The last words of the command that holds it.
    fn last_words(&mut self) -> String {
        let shell = self.shell.as_mut();
        shell.map_or_else(String::new, |shell| command::last_lines(&mut shell.errors))
    }

    fn channel(&mut self) -> &mut AgentChannel<Box<dyn AgentStream>> {
        self.channel.as_mut().expect("it is taken only at the end")
    }

    /// An error of this node, with the last words of the command when it has ended.
    pub(super) fn trouble(&mut self, doing: &str, broken: &AgentChannelError) -> HostError {
        let what = match broken {
            // The command ends a moment after its output: its last words are then complete.
            AgentChannelError::Closed if self.shell.is_some() => {
                if let Some(shell) = &mut self.shell {
                    let _ = command::wait(&mut shell.child, Duration::from_secs(2), &self.clock);
                }
                trouble::in_words(&self.last_words())
            }
            other => other.to_string(),
        };
        self.error(&format!("could not {doing}: {what}"))
    }

    fn error(&self, what: &str) -> HostError {
        HostError::OnNode {
            node: self.node.clone(),
            what: what.into(),
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), HostError> {
        let bytes = format!("{line}\n");
        let sent = self.channel().send_bytes(bytes.as_bytes(), SHELL_LIMIT);
        sent.map_err(|broken| self.trouble("connect", &broken))
    }

    /// The rest of the first line that begins with one of these words, and which word it was.
    fn answer<'a>(
        &mut self,
        words: &[&'a str],
        (doing, limit): (&str, Duration),
    ) -> Result<(&'a str, String), HostError> {
        for _ in 0..NOISE_LINES {
            let line = self.channel().line(limit);
            let line = line.map_err(|broken| self.trouble(doing, &broken))?;
            let found = words.iter().find_map(|word| {
                let rest = line.strip_prefix(word)?;
                Some((*word, rest.trim().to_owned()))
            });
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(self.error("its shell prints too much before it runs a command"))
    }

    fn become_agent(
        &mut self,
        dir: &str,
        program: &AgentProgram,
    ) -> Result<Option<AgentUpload>, HostError> {
        self.tell(&look_line(dir, &program.build))?;
        let (_, found) = self.answer(&["plimsoll-node"], ("connect", SHELL_LIMIT))?;
        let (machine, has) = found.split_once(' ').unwrap_or((&found, ""));
        if machine != program.machine {
            return Err(self.error(&format!(
                "it is a machine of type {machine}, and this program is for {}; use nodes of one \
                 type, or run plimsoll from a machine of type {machine}",
                program.machine
            )));
        }
        if let Some(at) = has.strip_prefix("foreign") {
            return Err(self.error(&format!(
                "its directory {dir} is not safe to work in:{at} belongs to another user, or other users may \
                 write there; give a directory of your own, as dir in the inventory"
            )));
        }
        let uploaded = if has == "have" {
            None
        } else {
            Some(self.upload(dir, program)?)
        };
        self.tell(BECOME_LINE)?;
        Ok(uploaded)
    }

    fn upload(&mut self, dir: &str, program: &AgentProgram) -> Result<AgentUpload, HostError> {
        const DOING: &str = "copy the program to it";
        let began = self.clock.now();
        let mut bytes = Vec::new();
        let read = File::open(&program.path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(HostError::io("read", &program.path))?;
        self.tell(&take_line(bytes.len()))?;
        let ends = ["plimsoll-send", "plimsoll-have", "plimsoll-failed"];
        let mut end = self.answer(&ends, (DOING, SHELL_LIMIT))?.0;
        if end == "plimsoll-send" {
            let sent = self.channel().send_bytes(&bytes, COPY_LIMIT);
            sent.map_err(|broken| self.trouble(DOING, &broken))?;
            end = self.answer(&ends[1..], (DOING, COPY_LIMIT))?.0;
        }
        if end != "plimsoll-have" {
            let words = self.last_words();
            return Err(self.error(&format!(
                "could not copy the program into {dir}: {words}; give a directory that can be \
                 written and has room, as dir in the inventory"
            )));
        }
        Ok(AgentUpload {
            bytes: bytes.len() as u64,
            took: self.clock.now().saturating_sub(began),
        })
    }

    fn greet(&mut self, build: &str) -> Result<(), HostError> {
        let ends = [READY_LINE, "plimsoll-failed"];
        if self.answer(&ends, ("start the agent", SHELL_LIMIT))?.0 != READY_LINE {
            let words = self.last_words();
            return Err(self.error(&format!(
                "the copy of the program does not run there: {words}; give a directory on a file \
                 system that is not mounted noexec, as dir in the inventory"
            )));
        }
        let hello = AgentRequest::Hello {
            protocol: PROTOCOL,
            build: build.into(),
        };
        let answer = self.ask(&hello, SHELL_LIMIT);
        match answer.map_err(|broken| self.trouble("start the agent", &broken))? {
            AgentResponse::Hello {
                protocol: PROTOCOL,
                build: theirs,
            } if theirs == build => Ok(()),
            AgentResponse::Hello { build: theirs, .. } => Err(self.error(&format!(
                "the agent is build {theirs}, and this program is build {build}; remove \
                 {COPY_DIR} in the node's directory"
            ))),
            other => Err(self.error(&format!(
                "protocol error: the agent answered Hello with {other:?}"
            ))),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(
        &mut self,
        request: &AgentRequest,
        limit: Duration,
    ) -> Result<AgentResponse, AgentChannelError> {
        self.send(request)?;
        self.receive(limit)
    }

    /// Sends a request.
    pub(super) fn send(&mut self, request: &AgentRequest) -> Result<(), AgentChannelError> {
        self.channel().send(&written(request), SHELL_LIMIT)
    }

    /// Waits for an answer.
    pub(super) fn receive(&mut self, limit: Duration) -> Result<AgentResponse, AgentChannelError> {
        let answer = self.channel().receive(limit, None)?;
        if let Some(shell) = &self.shell {
            command::forget_loud(&shell.errors);
        }
        AgentResponse::read(&answer)
            .map_err(|text| AgentChannelError::Io(std::io::Error::other(text)))
    }
}

/// Accepts only directories that need no quoting, because they become part of shell command lines.
fn check_dir(dir: &str) -> Result<(), HostError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    let climbs = dir.split('/').any(|part| part == "..");
    if dir.starts_with('/') && dir.len() > 1 && dir.chars().all(is_safe) && !climbs {
        return Ok(());
    }
    Err(HostError::State(format!(
        "'{dir}' cannot be the directory of a node: it must be absolute, without '..', and made of \
         letters, digits and /._-+@ only"
    )))
}

/// The first line: what machine is it, and has it got this build? Only a copy of our own user counts. No user
/// but this one and root may change its place or the way to it from the root directory (as
/// [`crate::host::check_way`] has it). An emptied copy, which a power cut can leave, does not count: a shell
/// runs an empty program without an error. The paths that later lines use are the ones that were checked,
/// with links resolved. `gone` removes what was made for a copy that cannot be used; what others have there
/// stays.
fn look_line(dir: &str, build: &str) -> String {
    let dir = dir.trim_end_matches('/');
    let alone = r#"alone() { Q=$1; E=$2; while :; do S=$(stat -c '%u %a %g' "$Q") || return 1; set -- $S; case $1 in 0|"$I") ;; *) return 1;; esac; case "$E$2" in no[1357]???) ;; *[2367]) return 1;; *[2367]?) [ "$3" = "$G" ] || return 1;; esac; [ "$Q" != / ] || return 0; E=no; Q=${Q%/*}; Q=${Q:-/}; done; }"#;
    let gone = format!(
        r#"gone() {{ M=no; [ -e "$A/{MADE_FILE}" ] && M=yes; rm -f "$T" "$F" "$A/{MADE_FILE}"; [ "$(ls -A "$A")" != {MARK_FILE} ] || rm -f "$A/{MARK_FILE}"; rmdir "$A"; [ $M = no ] || rmdir "$D"; printf '\nplimsoll-failed\n'; }}"#
    );
    let place = r#"if [ -d "$D" ]; then E=yes; P="$D"; else E=no; P=${D%/*}; P=${P:-/}; fi; H=send; if R=$(cd "$P" && pwd -P); then [ $E = yes ] && [ ! -L "$D" ] && D="$R"; [ $E = yes ] || D="${R%/}/${D##*/}"; if [ -L "$D" ]; then Q="$D"; H=foreign; elif ! alone "$R" $E; then H=foreign; fi; fi"#;
    format!(
        r#"U=$(umask); umask 077; D="{dir}"; I=$(id -u); G=-; [ "$(id -un)" != "$(id -gn)" ] || G=$(id -g); {alone}; {place}; A="$D/{COPY_DIR}"; F="$A/plimsoll-{build}"; {gone}; if [ $H = send ] && [ -f "$F" ] && [ ! -L "$F" ] && [ -x "$F" ] && [ -s "$F" ] && [ -O "$F" ] && [ -O "$A" ] && [ ! -L "$A" ]; then if alone "$A" yes; then H=have; else H=foreign; fi; fi; [ $H != foreign ] || H="foreign $Q"; printf '\nplimsoll-node %s %s\n' "$(uname -m)" "$H""#
    )
}

/// The second line: take `bytes` bytes as the program, whole or not at all, even if the power fails.
fn take_line(bytes: usize) -> String {
    format!(
        r#"T="$F.$$"; N=; {{ [ -d "$D" ] || {{ mkdir "$D" && N=new; }}; }} && {{ [ -d "$A" ] || {{ mkdir "$A" && echo {COPY_MARK} >"$A/{MARK_FILE}" && {{ [ -z "$N" ] || : >"$A/{MADE_FILE}"; }}; }}; }} && [ -O "$A" ] && [ ! -L "$A" ] && alone "$A" yes && printf '\nplimsoll-send\n' && head -c {bytes} >"$T" && [ "$(wc -c <"$T")" -eq {bytes} ] && chmod 700 "$T" && {{ sync "$T" || sync; }} && mv "$T" "$F" && printf '\nplimsoll-have\n' || gone"#
    )
}

/// The last line: become the agent, with the user's own mask for new files, if the copy runs at all.
const BECOME_LINE: &str =
    r#"if "$F" --version >/dev/null; then umask "$U"; exec "$F" serve "$D"; else gone; fi"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;

    #[test]
    fn directories_that_a_shell_would_misread_are_refused() {
        check_dir("/var/lib/plimsoll").unwrap();
        for dir in [
            "",
            "/",
            "relative",
            "/a b",
            "/a;reboot",
            "/a'b",
            "/$HOME",
            "/a/../b",
        ] {
            assert!(check_dir(dir).is_err(), "{dir}");
        }
    }

    /// A shell's words about a node's directory.
    fn found(dir: &Path) -> String {
        let line = look_line(dir.to_str().unwrap(), "abc");
        let search = SearchPath::new("".as_ref());
        let host = crate::host::LocalHost::new(search);
        let said = host.output("sh", &["-c", &line], SHELL_LIMIT).unwrap();
        let last = said.lines().last().unwrap();
        let words = last.splitn(3, ' ').nth(2);
        words.unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_worked_in() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let dir = base.join("node");
        assert_eq!(found(&dir), "send");
        assert_eq!(found(&base.join("no/node")), "send");
        fs::create_dir(&dir).unwrap();
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (mode, expect) in [
            (0o755, true),
            (0o702, false),
            (0o1777, false),
            (0o700, true),
        ] {
            chmod(&dir, mode);
            assert_eq!(found(&dir) == "send", expect, "{mode:o}");
        }
        for (mode, expect) in [(0o702, false), (0o1777, true), (0o700, true)] {
            chmod(&base, mode);
            assert_eq!(found(&dir) == "send", expect, "{mode:o}");
        }
        symlink(&dir, base.join("link")).unwrap();
        assert!(found(&base.join("link")).starts_with("foreign"));
        // A copy counts in such a place alone, and as a file.
        let copy = dir.join(COPY_DIR);
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("plimsoll-abc"), "x").unwrap();
        chmod(&copy.join("plimsoll-abc"), 0o700);
        chmod(&copy, 0o700);
        assert_eq!(found(&dir), "have");
        chmod(&copy, 0o777);
        assert_eq!(found(&dir), format!("foreign {}", copy.display()));
    }

    #[test]
    fn a_directory_of_another_user_is_not_worked_in() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().canonicalize().unwrap().join("node");
        fs::create_dir_all(dir.join("ours")).unwrap();
        if chown(&dir, Some(12_345), None).is_err() {
            println!("SKIPPED: only root can give a directory away");
            return;
        }
        for below in [dir.clone(), dir.join("ours"), dir.join("new")] {
            assert_eq!(found(&below), format!("foreign {}", dir.display()));
        }
    }
}
