// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what comes over the wire between a controller and an agent, in pieces of any
//! length: neither side may panic, hang, or hold more than came.

use plimsoll_machine::host::agent::{AgentFrameParser, AgentRequest, AgentResponse, framed};

/// Runs the target on one input.
pub fn agent(input: &[u8]) {
    let Some((&piece, stream)) = input.split_first() else {
        return;
    };
    // Also as a whole message, which random bytes seldom are.
    let _ = (AgentRequest::read(stream), AgentResponse::read(stream));
    let whole = framed(stream).unwrap_or_default();
    for bytes in [stream, &whole] {
        let mut frames = AgentFrameParser::default();
        'stream: for part in bytes.chunks(usize::from(piece) + 1) {
            frames.push(part);
            loop {
                match frames.next_message() {
                    Ok(Some(message)) => {
                        let _ = (AgentRequest::read(&message), AgentResponse::read(&message));
                    }
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
            assert!(frames.waiting() <= bytes.len());
        }
    }
}
