// SPDX-License-Identifier: Apache-2.0
//! An open way is found, whatever it is; a closed one is not called open.

use super::*;
use rustix::process::geteuid;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;

fn proof(dirs: &[&Path], exports: &[&str]) -> StackSelfTest {
    StackSelfTest::Closed {
        node: "here".into(),
        dirs: dirs.iter().map(|dir| dir.display().to_string()).collect(),
        marks: Vec::new(),
        addresses: Vec::new(),
        exports: exports.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_directory_that_others_may_enter_is_found_and_a_closed_one_is_not() {
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (mode, is_open) in [(0o700, false), (0o711, true), (0o755, true)] {
        let dir = base.path().join(format!("{mode:o}"));
        fs::DirBuilder::new().mode(mode).create(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(dir.join(super::super::MARK_FILE), "x").unwrap();
        let report = look(&proof(&[&dir], &[])).unwrap();
        assert_eq!(!report.gained.is_empty(), is_open, "{mode:o}: {report:?}");
        assert!(report.places >= 1);
    }
    // Only the thread that looked had another user.
    assert_eq!(geteuid(), rustix::process::getuid());
}

/// Device files that hold no data are open to all on any machine: the source of what FUSE mounts is one.
#[test]
fn a_character_device_is_not_taken_for_a_disk() {
    assert!(File::open("/dev/null").is_ok());
    for path in ["/dev/null", "/dev/fuse", "/proc", "plimsoll"] {
        assert!(!holds_data(Path::new(path)), "{path}");
    }
    let root = rustix::fs::stat("/").unwrap().st_dev;
    let (major, minor) = (rustix::fs::major(root), rustix::fs::minor(root));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    if let Some(name) = link.ok().as_deref().and_then(Path::file_name) {
        assert!(holds_data(&Path::new("/dev").join(name)));
    }
}

/// Answers one connection with these bytes, whatever it is asked.
fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let _ = stream.and_then(|mut stream| {
                stream.write_all(bytes)?;
                std::io::copy(&mut stream, &mut std::io::sink())
            });
        }
    });
    at
}

#[test]
fn a_server_of_nbd_that_asks_for_no_key_is_found() {
    const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
    const MAGIC: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07";
    let answer = |kind: &[u8]| {
        let all = [GREETING, MAGIC, kind, &[0; 4]].concat();
        &*Box::leak(all.into_boxed_slice())
    };
    for (bytes, is_open) in [
        (answer(b"\0\0\0\x01"), true),
        (answer(b"\x80\0\0\x06"), true),
        (answer(b"\x80\0\0\x05"), false),
        (answer(b"\x80\0\0\x02"), false),
        (b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53", true),
        (b"SSH-2.0-something else altogether\n", false),
        (b"", false),
    ] {
        let gained = protocols::nbd(answering(bytes)).unwrap_or(None);
        assert_eq!(gained.is_some(), is_open, "{bytes:?}");
    }
}

#[test]
fn a_server_of_gluster_that_takes_any_port_is_found() {
    let carried_out = b"\x80\0\0\x18\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let denied = b"\x80\0\0\x14\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
    for (bytes, is_open) in [(&carried_out[..], true), (&denied[..], false)] {
        let gained = protocols::gluster(answering(bytes)).unwrap_or(None);
        assert_eq!(gained.is_some(), is_open, "{bytes:?}");
    }
}

#[test]
fn a_refused_login_is_no_session() {
    let mut refused = vec![0_u8; 48];
    refused[0] = 0x23;
    refused[36] = 2;
    let bytes: &'static [u8] = Box::leak(refused.into_boxed_slice());
    assert_eq!(protocols::iscsi(answering(bytes)).unwrap(), None);
}

#[test]
fn an_address_that_nobody_can_understand_is_not_called_closed() {
    let report = look(&proof(&[], &["nothing"])).unwrap();
    assert_eq!(report.unknown.len(), 1, "{report:?}");
}
