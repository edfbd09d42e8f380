// SPDX-License-Identifier: Apache-2.0
//! Messages between a controller and its agents, without their transport.
//!
//! Both sides are the same build, which the greeting checks, so there is one version and no
//! compatibility: a message that is not understood is a fault.

use plimsoll_core::event::PHASES_MAX;
use plimsoll_core::load::{AgentEvent, AgentTask};
use plimsoll_core::plan::{PlanAction, PlanCommand, PlanStep, StackSelfTest};
use plimsoll_core::target::{MachineFacts, TargetFacts};
use plimsoll_core::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

use crate::host::{DeviceFlushCount, HostProcessUsage, StrangerReport};

/// Version of the messages. The greeting itself must stay as it is for ever: it is how two
/// versions find out that they are two.
pub(crate) const PROTOCOL: u32 = 5;

/// A secret: debug output does not show its text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSecret(pub(crate) String);

impl fmt::Debug for AgentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentSecret")
    }
}

/// A request to an agent. One answer follows each, unless its comment names others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentRequest {
    /// First of all: who is there?
    Hello {
        /// Version of the messages.
        protocol: u32,
        /// Which build of the program asks.
        build: String,
    },
    /// Is the connection alive?
    Ping,
    /// Carry out a step of the journal `id`, noted before.
    Apply {
        /// Identifier of the journal.
        id: String,
        /// The step.
        step: Box<PlanStep>,
        /// The text of the file that it copies, if it copies one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<AgentSecret>,
        /// Programs that commands of this journal may name besides those of recipes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        programs: Vec<String>,
    },
    /// Undo with this action, and mark what it undoes as undone.
    Undo {
        /// Identifier of the journal.
        id: String,
        /// The action.
        action: Box<PlanAction>,
    },
    /// Carry out an action that needs no undoing: a look, or one that was noted before.
    CarryOut {
        /// Identifier of the journal.
        id: String,
        /// The action.
        action: Box<PlanAction>,
    },
    /// Which processes have this mark?
    Marked(String),
    /// Where is this program?
    FindProgram(String),
    /// Where is this module of qemu?
    FindQemuModule(String),
    /// Does this file exist?
    Exists(String),
    /// Can the kernel mount file systems of this type?
    KnowsFileSystem(String),
    /// Are actions carried out as root?
    IsRoot,
    /// The facts of this directory.
    Target(String),
    /// The facts of this export, seen from there.
    Export(String),
    /// The use of the processes with this mark.
    Usage(String),
    /// How often did the disk below this directory flush?
    Flushes(String),
    /// The output of this command.
    Look {
        /// Identifier of the journal it is asked for.
        id: String,
        /// The command.
        cmd: PlanCommand,
    },
    /// Where does one of these texts stand?
    FindText {
        /// Below these directories.
        dirs: Vec<String>,
        /// The texts.
        texts: Vec<String>,
    },
    /// The gains of another user, against the promise of this self-test.
    Strange(Box<StackSelfTest>),
    /// Find free ports in a row.
    FreePorts {
        /// From here on.
        from: u16,
        /// How many.
        count: u16,
    },
    /// The facts of the machine.
    Machine,
    /// The time on the clock that instants are on.
    Clock,
    /// Do this with the data plane. [`AgentResponse::Told`] follows, as often as there is something to
    /// report, and until the last one only [`AgentRequest::Clock`], [`AgentRequest::Start`] and
    /// [`AgentRequest::Halt`] are understood.
    Begin(Box<AgentTask>),
    /// Start what is prepared at this instant. No answer.
    Start(Nanos),
    /// Stop what was begun; what was measured is reported. No answer.
    Halt,
    /// The end.
    Bye,
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentResponse {
    /// To [`AgentRequest::Hello`].
    Hello {
        /// Version of the messages.
        protocol: u32,
        /// Which build of the program answers.
        build: String,
    },
    /// It is done.
    Done,
    /// Processes.
    Processes(Vec<u32>),
    /// A path, if there is one.
    Path(Option<String>),
    /// Yes or no.
    Is(bool),
    /// Facts of a directory or an export.
    Target(Box<TargetFacts>),
    /// A port.
    Port(u16),
    /// The use of processes.
    Usage(HostProcessUsage),
    /// How often a disk was flushed, where that is counted.
    Flushes(Option<DeviceFlushCount>),
    /// Where a text stands, if anywhere.
    Place(Option<String>),
    /// The gains of another user.
    Stranger(StrangerReport),
    /// The output of a command.
    Said(String),
    /// A command was carried out and did not end with 0.
    Ended {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// Its last words.
        output: String,
    },
    /// Facts of the machine.
    Machine(Box<MachineFacts>),
    /// The time on the clock.
    Clock(Nanos),
    /// Reports of a task.
    Told(Box<AgentEvent>),
    /// It could not be done, and why.
    Failed(String),
}

impl AgentRequest {
    /// Understands a message.
    ///
    /// # Errors
    /// When it is none of ours, in words.
    pub fn read(message: &[u8]) -> Result<AgentRequest, String> {
        serde_json::from_slice(message).map_err(|error| format!("malformed request: {error}"))
    }
}

impl AgentResponse {
    /// Understands a message.
    ///
    /// # Errors
    /// When it is none of ours, in words.
    pub fn read(message: &[u8]) -> Result<AgentResponse, String> {
        let answer = serde_json::from_slice(message)
            .map_err(|error| format!("malformed response: {error}"))?;
        if let AgentResponse::Told(told) = &answer
            && let AgentEvent::Played(played) = &**told
            && played.result.phases.len() > PHASES_MAX
        {
            return Err(format!("malformed response: more than {PHASES_MAX} phases"));
        }
        Ok(answer)
    }
}

/// A message as bytes.
pub(crate) fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::{KindStats, OpStats, TrialInterval};
    use plimsoll_core::op::OpKind;

    #[test]
    fn the_greeting_stays_as_it_is() {
        let hello = AgentRequest::Hello {
            protocol: 1,
            build: "ab".into(),
        };
        let text = r#"{"hello":{"protocol":1,"build":"ab"}}"#;
        assert_eq!(written(&hello), text.as_bytes());
        assert_eq!(AgentRequest::read(text.as_bytes()), Ok(hello));
    }

    /// Operations of one kind that took every time there is.
    fn full() -> KindStats {
        let mut all = KindStats::default();
        let times = (0..37).flat_map(|shift| (64..128).map(move |n| Nanos(n << shift >> 6)));
        for time in times {
            all.service.record_many(time, u64::MAX >> 20);
        }
        all.response = all.service.clone();
        all.lag = all.service.clone();
        all
    }

    #[test]
    fn the_largest_histograms_of_many_kinds_fit_into_a_message_and_arrive_whole() {
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Fsync, OpKind::Stat];
        let second = TrialInterval {
            start: Nanos(0),
            length: Nanos::SECOND,
            stats: OpStats(kinds.map(|kind| (kind, full())).into()),
        };
        assert!(second.stats.0[&OpKind::Read].service.buckets().count() > 1_800);
        let answer = AgentResponse::Told(Box::new(AgentEvent::Second(second)));
        let message = written(&answer);
        // A hundred such phases also fit into one message.
        assert!(
            message.len() * 100 < super::super::MESSAGE_MAX,
            "{}",
            message.len()
        );
        assert_eq!(AgentResponse::read(&message), Ok(answer));
    }

    /// Bytes of the message of a false node.
    const HOSTILE_BYTES: usize = 8 << 20;

    /// As many empty histograms as fit into a message: of all there is they were the largest for
    /// their bytes.
    fn hostile() -> String {
        let empty = r#"{"buckets":[],"sum_ns":0,"min_ns":0,"max_ns":0}"#;
        let kind = format!(
            r#"{{"bytes":0,"errors":0,"service":{empty},"response":{empty},"lag":{empty}}}"#
        );
        let node = format!(
            r#"{{"node":"n","clock":{{"ns":0,"uncertainty":0}},"began_ns":0,"length":1,"stats":{{"read":{kind}}},"generator":{{"engine":"","user_cpu_ns":0,"system_cpu_ns":0,"not_submitted":0}}}}"#
        );
        let nodes = vec![node.as_str(); HOSTILE_BYTES / node.len()].join(",");
        format!(
            r#"{{"told":{{"played":{{"result":{{"trial":{{"block":0,"place":0,"arm":"a","workload":"w"}},"length":1,"prepare":0,"stats":{{}},"generator":{{"engine":"","user_cpu_ns":0,"system_cpu_ns":0,"not_submitted":0}},"fidelity":[],"interrupted":false,"nodes":[{nodes}]}},"began_at":null}}}}}}"#
        )
    }

    /// Starts itself again under a limit, which holds for a whole process.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "this program again, under a limit"
    )]
    fn a_message_takes_a_stated_multiple_of_its_bytes() {
        const LIMITED: &str = "PLIMSOLL_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_some() {
            let answer = AgentResponse::read(hostile().as_bytes()).unwrap();
            assert!(matches!(answer, AgentResponse::Told(_)));
            return;
        }
        let name = "host::agent::message::tests::a_message_takes_a_stated_multiple_of_its_bytes";
        // The multiple, and the test program with the stacks of its threads.
        let limit = 16 * HOSTILE_BYTES + (320 << 20);
        let mut limited = std::process::Command::new("prlimit");
        limited.arg(format!("--as={limit}"));
        limited.arg(std::env::current_exe().unwrap());
        limited.args(["--exact", name, "--test-threads=1"]);
        match limited.env(LIMITED, "1").output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => eprintln!("SKIPPED: prlimit cannot be started: {error}"),
        }
    }

    #[test]
    fn what_is_not_understood_is_a_fault() {
        for text in [
            "",
            "{}",
            "null",
            r#"{"shell":"reboot"}"#,
            r#"{"hello":{"protocol":1,"build":"","more":1}}"#,
            r#"{"free_ports":{"from":70000,"count":1}}"#,
            r#"{"start":-1}"#,
            r#"{"begin":{"prove":{"name":"a","place":"tape","seed":1}}}"#,
            r#"{"told":{"prepared":{}}}"#,
        ] {
            assert!(AgentRequest::read(text.as_bytes()).is_err(), "{text}");
            assert!(AgentResponse::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
