// SPDX-License-Identifier: Apache-2.0
//! Sends a CHAP account to tgtd. Its program tgtadm takes the password as an argument only, where every
//! user of the machine can read it; the control socket takes it from us.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::error::HostError;

/// How long tgtd may take: it only notes it.
const LIMIT: Duration = Duration::from_secs(5);

/// Length of the fixed part of a request, and where its fields are (tgt 1.0.40 and later).
const REQUEST_BYTES: usize = 120;
const MODE_AT: usize = 0;
const DRIVER_AT: usize = 8;
const LENGTH_AT: usize = 72;

/// The mode of accounts. The operation "new", at 4, is 0, as are all fields it has no use for.
const MODE_ACCOUNT: u32 = 7;

/// Makes an account of this name with the line in the file `secret` as its password.
pub(super) fn tell_account(socket: &Path, user: &str, secret: &Path) -> Result<(), HostError> {
    let line = fs::read_to_string(secret).map_err(HostError::io("read", secret))?;
    let request = request(user, line.trim_end());
    let answer =
        exchange(socket, &request).map_err(HostError::io("send a CHAP account to", socket))?;
    if answer == 0 {
        return Ok(());
    }
    Err(HostError::State(format!(
        "tgtd at {} refused the account {user} with error {answer}",
        socket.display()
    )))
}

fn request(user: &str, password: &str) -> Vec<u8> {
    let words = format!("user={user},password={password}\0");
    let mut request = vec![0_u8; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(MODE_AT, &MODE_ACCOUNT.to_ne_bytes());
    put(DRIVER_AT, b"iscsi");
    let length = u32::try_from(REQUEST_BYTES + words.len()).unwrap_or(u32::MAX);
    put(LENGTH_AT, &length.to_ne_bytes());
    request.extend_from_slice(words.as_bytes());
    request
}

/// Sends a request, and gives the number of the error in the answer; 0 for none.
fn exchange(socket: &Path, request: &[u8]) -> std::io::Result<u32> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(request)?;
    let mut error = [0_u8; 4];
    stream.read_exact(&mut error)?;
    Ok(u32::from_ne_bytes(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_its_length() {
        let request = request("plimsoll", &"0".repeat(32));
        assert_eq!(request.len(), 120 + 56);
        assert_eq!(request[LENGTH_AT..LENGTH_AT + 4], 176_u32.to_ne_bytes());
        assert!(request.ends_with(b"password=00000000000000000000000000000000\0"));
    }

    #[test]
    fn a_refusal_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let secret = dir.path().join("secret");
        // Nothing that the name of a directory holds by chance.
        let words = "no-name-has-this";
        fs::write(&secret, format!("{words}\n")).unwrap();
        tell_account(&socket, "u", &secret).unwrap_err();
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 153];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&3_u32.to_ne_bytes()).unwrap();
        });
        let error = tell_account(&socket, "u", &secret).unwrap_err().to_string();
        assert!(error.contains("error 3"), "{error}");
        assert!(!error.contains(words), "{error}");
        served.join().unwrap();
    }
}
