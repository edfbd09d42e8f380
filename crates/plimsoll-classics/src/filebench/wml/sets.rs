// SPDX-License-Identifier: Apache-2.0
//! `define fileset` and `define file`.

use plimsoll_core::num::round_u64;
use plimsoll_core::workload::files::{FileSet, Sizes, Tree};

use super::{Attributes, Value};
use crate::error::Error;
use crate::filebench::personalities::GAMMA_SHAPE;

/// How the set is laid out is ours to decide (`path`, `paralloc`, `reuse`, `trusttree`): the target
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
];

pub(super) fn set(attributes: &Attributes, is_file: bool) -> Result<FileSet, Error> {
    attributes.only(KNOWN)?;
    let Some(name) = attributes.text("name") else {
        return attributes.fault("it needs a name");
    };
    let size = attributes.find("size").or(attributes.find("filesize"));
    let (mean_bytes, sizes) = match size {
        Some(Value::Number(bytes)) if *bytes >= 0.0 => (*bytes, Sizes::Constant),
        Some(Value::Gamma { mean, shape }) => (*mean, Sizes::Gamma(*shape)),
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
        Some(Value::Flag(flag)) => f64::from(u8::from(*flag)),
        Some(_) => attributes.number("prealloc")?.unwrap_or(0.0) / 100.0,
    };
    let shape = match attributes.number("dirgamma")? {
        None => GAMMA_SHAPE,
        Some(thousandths) => thousandths / 1000.0,
    };
    let tree = match attributes.number("dirwidth")? {
        None | Some(0.0) => Tree::Flat,
        Some(width) => Tree::Random { width, shape },
    };
    Ok(FileSet {
        prealloc,
        tree,
        read_only: attributes.flag("readonly"),
        ..FileSet::flat(&name, entries, round_u64(mean_bytes), sizes)
    })
}
