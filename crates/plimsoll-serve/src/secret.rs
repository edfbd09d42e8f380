// SPDX-License-Identifier: Apache-2.0
//! Secrets of this server, drawn from the kernel.

use plimsoll_remote::secret::ServerSecret;

pub(crate) fn drawn() -> std::io::Result<ServerSecret> {
    plimsoll_history::draw_secret().map(ServerSecret::drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_new() {
        let (one, other) = (drawn().unwrap(), drawn().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert!(!one.is(other.reveal()));
    }
}
