// SPDX-License-Identifier: Apache-2.0
//! The messages of ssh when it cannot connect, as one error with what to do.

/// A message of `ssh`, and its meaning with what to do.
const KNOWN: [(&str, &str); 9] = [
    (
        // Its warning is long; this line of it is near the end.
        "has changed and you have requested strict checking",
        "its host key differs from the one that is known. If the machine was reinstalled, compare the \
         new fingerprint and remove the old key with ssh-keygen -R; if not, somebody may intercept \
         the connection",
    ),
    (
        "host key is known for",
        "its host key is not known. Connect once by hand with ssh, compare the fingerprint with \
         that of the machine (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), and accept it",
    ),
    (
        "Host key verification failed",
        "its host key is not known. Connect once by hand with ssh, compare the fingerprint with \
         that of the machine (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), and accept it",
    ),
    (
        "Permission denied (",
        "it does not accept our key, and plimsoll asks for no password. Make `ssh` work without \
         one: ssh-copy-id, ssh-add, or IdentityFile in the ssh configuration",
    ),
    (
        "Could not resolve hostname",
        "its name cannot be resolved. Give an address, or HostName in the ssh configuration",
    ),
    (
        "Connection refused",
        "connection refused. Start sshd on it, or give Port in the ssh configuration",
    ),
    (
        "Connection timed out",
        "it does not answer. Check that it runs and that no firewall blocks it",
    ),
    (
        "No route to host",
        "no route to it. Check that it runs and which network it is in",
    ),
    (
        "Network is unreachable",
        "no route to it. Check which network it is in",
    ),
];

/// The fault in our words, from the command's output; its own words when they are not known.
pub(super) fn in_words(words: &str) -> String {
    let known = KNOWN.iter().find(|(sign, _)| words.contains(sign));
    match known {
        Some((_, meaning)) => (*meaning).into(),
        None if words.is_empty() => "the command that connects to it ended without output".into(),
        None => format!("the command that connects to it said: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_becomes_what_to_do() {
        for (said, expect) in [
            (
                "No ED25519 host key is known for 10.0.0.1 and you have requested strict checking. \
                 | Host key verification failed.",
                "not known. Connect once",
            ),
            (
                "Host key for a has changed and you have requested strict checking. | Host key \
                 verification failed.",
                "differs from the one that is known",
            ),
            ("root@a: Permission denied (publickey).", "ssh-copy-id"),
            ("ssh: connect to host a port 22: Connection refused", "sshd"),
            ("Error: No such container: box", "No such container: box"),
            ("", "without output"),
        ] {
            let text = in_words(said);
            assert!(text.contains(expect), "{said}: {text}");
        }
    }
}
