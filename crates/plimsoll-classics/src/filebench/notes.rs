// SPDX-License-Identifier: Apache-2.0
//! Where the numbers of a loop differ from those of filebench, for the output of its run. The page
//! `docs/workloads/filebench.md` has all differences; here are those that can be seen in results.

use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::FileLoopOpenMode;

const START: &str = "unlike in filebench, files begin outside the page cache (there with what the \
    layout has left in it, so a set that fits into memory is faster there), and random bytes are \
    written (there zeros, which some storage does not store)";
const DESCRIPTORS: &str = "each thread opens each file of a set that is used in turn once; filebench \
    keeps 128 descriptors in each thread, and opening them counts as operations at the beginning";
const COMPUTING: &str = "computing (hog) is left out, so threads ask for more than in filebench \
    where the processor is what they wait for";
const AIO: &str = "asynchronous writes are made one by one and waited for; filebench has up to 20 of \
    them in flight in each writer, and its aiowait waits for none on Linux";

/// Of what is in the loop itself.
pub(crate) fn of_loop(files: &FileLoop) -> Vec<String> {
    let mut ops = files.groups.iter().flat_map(|group| &group.ops);
    let rotates = ops.any(|op| op.opened == FileLoopOpenMode::Rotating);
    let mut notes = vec![START.to_owned()];
    notes.extend(rotates.then(|| DESCRIPTORS.to_owned()));
    notes
}

/// Of a personality by its name.
pub(crate) fn of_personality(name: &str, files: &FileLoop) -> Vec<String> {
    let mut notes = of_loop(files);
    if name == "oltp" {
        notes.extend([COMPUTING, AIO].map(String::from));
    }
    notes
}

/// Of flowops that have no full counterpart.
pub(super) fn of_flowops<'a>(kinds: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (mut computes, mut is_async) = (false, false);
    for kind in kinds {
        computes |= kind == "hog";
        is_async |= kind == "aiowrite";
    }
    let notes = [(computes, COMPUTING), (is_async, AIO)];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so);
    notes.map(|(_, text)| text.to_owned()).collect()
}

/// Of a mean size that filebench reads only up to its unit.
pub(super) fn of_mean(text: &str, bytes: Option<f64>) -> Option<String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (number.len() < text.len()).then(|| {
        let bytes = bytes.unwrap_or(0.0);
        format!("mean:{text} is {bytes} bytes here; filebench itself does not read the unit and takes {number} bytes")
    })
}

/// Of sets that the text puts into several places.
pub(super) fn of_paths(paths: &[String]) -> Option<String> {
    let other = paths.iter().find(|path| **path != paths[0])?;
    Some(format!(
        "the text puts its sets into several places ('{}', '{other}'); here all are on the one target",
        paths[0]
    ))
}

/// Of a set that says what is in the page cache.
pub(super) fn of_cached(has_cached: bool) -> Option<String> {
    let text = "'cached' has no effect: all files begin outside the page cache";
    has_cached.then(|| text.to_owned())
}
