// SPDX-License-Identifier: Apache-2.0
//! The agent as a file, which is copied to other machines: for which processor it is, whether it needs
//! anything there, and which build it is.
//!
//! It lies beside the program, whose build made both. The identifier that the linker gives a build is
//! compared, since a copy that is there already is used again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::host::error::HostError;

/// The file this process runs from, also when its name is gone.
const OURSELVES: &str = "/proc/self/exe";

/// Name of the agent.
const AGENT_FILE: &str = "plimsoll-agent";

/// Longest program header table and note segment we read: real ones have some hundred bytes.
const PART_MAX: u64 = 1 << 16;

const SEGMENT_INTERPRETER: u32 = 3;
const SEGMENT_NOTE: u32 = 4;
const NOTE_BUILD_ID: u32 = 3;

/// A program as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProgram {
    /// Its file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The processor it is for, as `uname -m` names it.
    pub machine: &'static str,
    /// Whether it runs without libraries of the machine.
    pub is_static: bool,
    /// Identifier of its build, hexadecimal; empty when the linker gave none.
    pub build: String,
}

impl AgentProgram {
    /// The program this process runs.
    ///
    /// # Errors
    /// When it cannot be read or is of a kind we do not know.
    pub fn this() -> Result<AgentProgram, HostError> {
        AgentProgram::of(Path::new(OURSELVES))
    }

    /// The agent that lies beside the program this process runs.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn beside() -> Result<AgentProgram, HostError> {
        let ours = std::env::current_exe().map_err(HostError::io("find", Path::new(OURSELVES)))?;
        let path = ours.with_file_name(AGENT_FILE);
        if !path.exists() {
            return Err(HostError::State(format!(
                "{} is missing: it is what is copied to nodes, and has to lie beside {}; `make build` \
                 makes both",
                path.display(),
                ours.display()
            )));
        }
        AgentProgram::of(&path)
    }

    /// The program in a file.
    ///
    /// # Errors
    /// When it cannot be read or is of a kind we do not know.
    pub fn of(path: &Path) -> Result<AgentProgram, HostError> {
        let mut file = File::open(path).map_err(HostError::io("open", path))?;
        let bytes = file
            .metadata()
            .map_err(HostError::io("look at", path))?
            .len();
        let (machine, segments) = read_segments(&mut file).map_err(HostError::io("read", path))?;
        let mut build = String::new();
        for segment in segments.iter().filter(|s| s.kind == SEGMENT_NOTE) {
            let notes = read_at(&mut file, segment.offset, segment.size);
            let notes = notes.map_err(HostError::io("read", path))?;
            if let Some(found) = build_id(&notes) {
                build = found;
            }
        }
        Ok(AgentProgram {
            path: path.into(),
            bytes,
            machine,
            is_static: !segments.iter().any(|s| s.kind == SEGMENT_INTERPRETER),
            build,
        })
    }

    /// Fails when it cannot run on another machine.
    pub(super) fn check_portable(&self) -> Result<(), HostError> {
        let refuse = |why: &str| {
            Err(HostError::Refused {
                what: "copy this program to a node".into(),
                why: why.into(),
            })
        };
        if !self.is_static {
            return refuse(
                "it is linked with libraries of this machine, which a node may not have; use the \
                 static program that `make build` makes",
            );
        }
        if self.build.is_empty() {
            return refuse(
                "it has no build identifier, so copies of two builds could not be distinguished; use \
                 the program that `make build` makes",
            );
        }
        Ok(())
    }
}

struct AgentElfSegment {
    kind: u32,
    offset: u64,
    size: u64,
}

/// The processor and the segments of an ELF file for 64 bits, little end first.
fn read_segments(file: &mut File) -> io::Result<(&'static str, Vec<AgentElfSegment>)> {
    let unknown = |what: &str| io::Error::other(format!("unknown kind of program: {what}"));
    let head = read_at(file, 0, 64)?;
    if head[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return Err(unknown("not ELF for 64 bits, little end first"));
    }
    let machine = match short(&head, 18) {
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        21 => "ppc64le",
        number => return Err(unknown(&format!("processor {number}"))),
    };
    let (at, size, count) = (long(&head, 32), short(&head, 54), short(&head, 56));
    if size < 56 {
        return Err(unknown("short segment headers"));
    }
    let table = read_at(file, at, u64::from(size) * u64::from(count))?;
    let segment = |entry: &[u8]| AgentElfSegment {
        kind: word(entry, 0),
        offset: long(entry, 8),
        size: long(entry, 32),
    };
    let segments = table.chunks_exact(size.into()).map(segment).collect();
    Ok((machine, segments))
}

fn read_at(file: &mut File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    if size > PART_MAX {
        return Err(io::Error::other("a part of it is too long"));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The build identifier among the notes of a segment.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const HEAD: usize = 12;
    while notes.len() >= HEAD {
        let padded = |size: u32| (size as usize).checked_next_multiple_of(4);
        let (name_size, size) = (word(notes, 0), word(notes, 4));
        let kind = word(notes, 8);
        let name = notes.get(HEAD..)?.get(..name_size as usize)?;
        let begin = HEAD.checked_add(padded(name_size)?)?;
        let content = notes.get(begin..)?.get(..size as usize)?;
        if kind == NOTE_BUILD_ID && name == b"GNU\0" {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(begin.checked_add(padded(size)?)?..)?;
    }
    None
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_is_understood_and_refused_when_it_is_not_static() {
        let program = AgentProgram::this().unwrap();
        assert_eq!(program.machine, std::env::consts::ARCH);
        assert!(program.bytes > 1000);
        let dynamic = AgentProgram {
            is_static: false,
            ..program.clone()
        };
        let error = dynamic.check_portable().unwrap_err().to_string();
        assert!(error.contains("make build"), "{error}");
        let nameless = AgentProgram {
            is_static: true,
            build: String::new(),
            ..program
        };
        let error = nameless.check_portable().unwrap_err().to_string();
        assert!(error.contains("build identifier"), "{error}");
    }

    #[test]
    fn a_build_identifier_is_found_among_notes() {
        let note = |kind: u8, name: &[u8], content: &[u8]| {
            let mut bytes = vec![0; 12];
            bytes[0] = u8::try_from(name.len()).unwrap();
            bytes[4] = u8::try_from(content.len()).unwrap();
            bytes[8] = kind;
            for part in [name, content] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let other = note(1, b"GNU\0", b"abcde");
        let ours = note(3, b"GNU\0", &[0xab, 0x01]);
        assert_eq!(
            build_id(&[other.clone(), ours.clone()].concat()),
            Some("ab01".into())
        );
        assert_eq!(build_id(&other), None);
        for end in 0..ours.len() - 2 {
            assert_eq!(build_id(&ours[..end]), None, "cut at {end}");
        }
        assert_eq!(build_id(&[0xff; 40]), None);
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0x7f; 64]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(AgentProgram::of(&path).is_err());
        }
    }
}
