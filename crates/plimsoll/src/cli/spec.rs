// SPDX-License-Identifier: Apache-2.0
//! What people write for a workload and a target, and what is meant by it.

use crate::failure::Failure;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::workload::{Workload, WorkloadFile};
use plimsoll_lab::stacks;
use std::path::{Path, PathBuf};

/// Largest workload file read: a model of ten million intervals.
const WORKLOAD_MAX_BYTES: u64 = 1 << 30;

/// A workload and the factor on its rates.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadSpec {
    pub(crate) workload: Workload,
    pub(crate) scale: Scale,
}

/// The factor on the rates of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Fixed(f64),
    /// The largest round factor that the slowest system should still carry.
    Auto,
}

impl WorkloadSpec {
    /// Reads `varmail`, `nas.toml`, `nas.toml@12` or `nas.toml@auto`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let (name, scale) = match text.rsplit_once('@') {
            Some((name, factor)) => (name, Some(parse_scale(text, factor)?)),
            None => (text, None),
        };
        let workload = if Path::new(name).exists() {
            read_workload(Path::new(name))?
        } else {
            plimsoll_classics::workload(name, &[]).map_err(Failure::usage)?
        };
        if scale.is_some() && !matches!(workload, Workload::Model(_)) {
            return Err(Failure::usage(format!(
                "use '{text}': only a fitted model has rates to multiply; '{name}' runs as fast as the storage lets it"
            )));
        }
        Ok(WorkloadSpec {
            workload,
            scale: scale.unwrap_or(Scale::Fixed(1.0)),
        })
    }
}

fn parse_scale(text: &str, factor: &str) -> Result<Scale, Failure> {
    if factor == "auto" {
        return Ok(Scale::Auto);
    }
    match factor.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(Scale::Fixed(value)),
        _ => Err(Failure::usage(format!(
            "read the factor in '{text}': after @ comes a number above 0, or auto"
        ))),
    }
}

fn read_workload(path: &Path) -> Result<Workload, Failure> {
    let shown = path.display();
    let facts = std::fs::metadata(path)
        .map_err(|error| Failure::usage(format!("read workload {shown}: {error}")))?;
    if facts.len() > WORKLOAD_MAX_BYTES {
        return Err(Failure::usage(format!(
            "read workload {shown}: it has {} bytes, more than any workload",
            facts.len()
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("read workload {shown}: {error}")))?;
    let file: WorkloadFile = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("read workload {shown}: {error}")))?;
    if !FormatVersion::WORKLOAD.reads(file.format) {
        return Err(Failure::usage(format!(
            "read workload {shown}: its format is {} and this program reads up to {}",
            file.format,
            FormatVersion::WORKLOAD
        )));
    }
    Ok(file.workload)
}

/// Where a workload runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetSpec {
    Directory(PathBuf),
    /// A new file; it is made for the run and removed after it.
    File(PathBuf),
    /// A stack by its name.
    Stack(String),
    /// Nothing: measures plimsoll itself.
    Null,
    /// Nothing, by way of the kernel's rings: measures plimsoll with its system calls.
    Nop,
    /// A simulated disk in virtual time.
    Sim,
}

impl TargetSpec {
    /// Reads a directory, a file that does not exist yet, the name of a stack, `null` or `sim`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "null" => return Ok(TargetSpec::Null),
            // Not in the help: only a measurement of the program itself wants it.
            "nop" => return Ok(TargetSpec::Nop),
            "sim" => return Ok(TargetSpec::Sim),
            name if stacks::find(name).is_some() => return Ok(TargetSpec::Stack(name.into())),
            _ => {}
        }
        let path = PathBuf::from(text);
        match std::fs::metadata(&path) {
            Ok(facts) if facts.is_dir() => Ok(TargetSpec::Directory(path)),
            Ok(facts) => Err(refuse_existing(text, &facts)),
            // A link that leads nowhere is something of the user's, too.
            Err(_) if path.is_symlink() => Err(Failure::usage(format!(
                "use target '{text}': it is a symbolic link that leads nowhere"
            ))),
            Err(_) if path.parent().is_some_and(|p| p.as_os_str().is_empty() || p.is_dir()) && text.contains('/') => {
                Ok(TargetSpec::File(path))
            }
            Err(error) => Err(Failure::usage(format!("use target '{text}': {error}"))
                .hint(format!("a target is a directory, a new file (written as ./name), or one of the stacks: {}", stack_names()))),
        }
    }
}

fn refuse_existing(text: &str, facts: &std::fs::Metadata) -> Failure {
    use std::os::unix::fs::FileTypeExt;
    if facts.file_type().is_block_device() {
        return Failure::usage(format!(
            "use target '{text}': it is a block device, and writing to it would destroy what it holds"
        ))
        .hint("make a file system on it and give its mount point; devices themselves are not supported yet");
    }
    Failure::usage(format!(
        "use target '{text}': it exists, and plimsoll only writes to files it made"
    ))
    .hint("give a directory, or the path of a file that does not exist yet")
}

/// All stacks in one line.
pub(crate) fn stack_names() -> String {
    stacks::ALL.map(|stack| stack.name()).join(", ")
}
