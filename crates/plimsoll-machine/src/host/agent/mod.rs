// SPDX-License-Identifier: Apache-2.0
//! Other machines: a copy of the agent carries out requests there, over one pipe each way.
//!
//! A node is reached by a command that gives a shell on it, `ssh HOST` or `docker exec -i BOX`, to
//! which the word `sh` is added. The shell is asked, in a few fixed lines, to name its processor, to
//! take the agent when it has not got it, and to become the agent: one connection, no port, no
//! quoting that depends on the command. From then on both sides speak in [`AgentFrameParser`].
//!
//! Invariants: the agent is the same build as its controller. It notes every step in a journal of
//! its own, in the node's directory, before it begins, so that either side can undo without the
//! other. It ends when its connection does; the copy of the program goes as soon as no journal is
//! left, and stays until then, so that `plimsoll raze` can be run there. What it does with the data
//! plane is given to it as a [`AgentTaskRunner`](crate::agent_server::AgentTaskRunner): the lab
//! does not know the engine. How nodes are named and chosen is not here.

pub(crate) mod channel;
mod client;
mod connect;
mod frame;
pub(crate) mod message;
mod program;
mod stream;
mod tasks;
mod trouble;

pub use channel::{AgentChannel, AgentChannelError};
pub use client::AgentHost;
pub use connect::AgentUpload;
pub use frame::{AgentFrameParser, FrameError, MESSAGE_MAX, framed};
pub use message::{AgentRequest, AgentResponse};
pub use program::AgentProgram;
pub use stream::AgentStream;

/// Directory in a node's directory that holds the copy of the program.
pub(crate) const COPY_DIR: &str = "plimsoll-agent";

/// The text of the mark file in [`COPY_DIR`]: no journal made that directory.
pub(crate) const COPY_MARK: &str = "plimsoll-agent";

/// The agent's first line: from here on only the agent reads the input.
pub(crate) const READY_LINE: &str = "plimsoll-agent";

/// File in [`COPY_DIR`] that says that the node's directory was made for it, and goes with it.
pub(crate) const MADE_FILE: &str = "made";
