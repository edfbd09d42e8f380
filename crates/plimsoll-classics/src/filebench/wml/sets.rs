// SPDX-License-Identifier: Apache-2.0
//! `define fileset` and `define file`.

use plimsoll_core::num::round_u64;
use plimsoll_core::workload::files::{FileSet, FileSizeDistribution, FileTreeLayout};

use super::{WmlAttributes, WmlValue};
use crate::error::ClassicsError;
use crate::filebench::personalities::GAMMA_SHAPE;

/// How the set is laid out is ours to decide (`path`, `paralloc`, `reuse`, `trusttree`, `cached`): the target
/// is given on the command line, and every run begins with fresh files.
const KNOWN: &[&str] = &[
    "name",
    "path",
    "size",
    "filesize",
    "entries",
    "dirwidth",
    "dirgamma",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "cached",
];

/// Size of files that have none in their text.
const SIZE_DEFAULT: u64 = 1024;
/// More directories than the engine lays out side by side.
const DIRECTORIES_MAX: u32 = 1_000_000;

pub(super) fn set(attributes: &WmlAttributes, is_file: bool) -> Result<FileSet, ClassicsError> {
    attributes.only(KNOWN)?;
    let Some(name) = attributes.text("name") else {
        return attributes.fault("it needs a name");
    };
    let size = attributes.find("size").or(attributes.find("filesize"));
    let (mean_bytes, sizes) = match size {
        Some(WmlValue::Number(bytes)) if *bytes >= 0.0 => (*bytes, FileSizeDistribution::Constant),
        Some(WmlValue::Gamma { mean, shape, .. }) => (*mean, FileSizeDistribution::Gamma(*shape)),
        None => (SIZE_DEFAULT as f64, FileSizeDistribution::Constant),
        _ => return attributes.fault("'size' needs a number or a cvar-gamma"),
    };
    let entries = match (is_file, attributes.has("entries")) {
        (true, false) => 1,
        (false, true) => attributes.count("entries", 0)?,
        (true, true) => return attributes.fault("a file has no 'entries'"),
        (false, false) => return attributes.fault("it needs 'entries'"),
    };
    let prealloc = match attributes.find("prealloc") {
        None => 0.0,
        Some(WmlValue::Flag(flag)) => f64::from(u8::from(*flag)),
        Some(_) => attributes.number("prealloc")?.unwrap_or(0.0) / 100.0,
    };
    let shape = match attributes.number("dirgamma")? {
        None => GAMMA_SHAPE,
        Some(thousandths) => thousandths / 1000.0,
    };
    let tree = match attributes.number("dirwidth")? {
        None | Some(0.0) if is_file => FileTreeLayout::Flat,
        // filebench puts one file into each directory then.
        None | Some(0.0) if entries > DIRECTORIES_MAX => {
            return attributes.fault("without 'dirwidth' each file has a directory of its own, of which there may be 1000000");
        }
        None | Some(0.0) => FileTreeLayout::Even(entries),
        Some(width) => FileTreeLayout::Random { width, shape },
    };
    Ok(FileSet {
        prealloc,
        tree,
        read_only: attributes.flag("readonly"),
        ..FileSet::flat(&name, entries, round_u64(mean_bytes), sizes)
    })
}
