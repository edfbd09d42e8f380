// SPDX-License-Identifier: Apache-2.0
//! Reports of a Lustre client: the targets its file system is spread over, how new files are
//! striped, and the bytes moved to and from each target. Looks only, by `lfs` and `lctl`.
//!
//! Their output is read with limits; where they are missing or print something else, the reason
//! stands among the facts.

use plimsoll_core::target::{StorageTarget, TargetFacts};
use plimsoll_core::units;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::{HostError, LocalHost};

/// The type of file system, as the kernel names it.
pub const FILE_SYSTEM: &str = "lustre";

/// How long one of the programs may take: it waits for servers that do not answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Most targets of a file system, beyond what the format of its files allows.
const TARGETS_MAX: usize = 8192;

/// Longest output that is read: far more than the counters of [`TARGETS_MAX`] targets.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Longest name of a file system.
const NAME_MAX: usize = 8;

/// Name of the Lustre file system that facts are of: what stands behind the addresses of the
/// management servers in `10.0.0.5@tcp:10.0.0.6@tcp:/scratch/project`. `None` for any other.
pub fn name(facts: &TargetFacts) -> Option<&str> {
    if facts.file_system != FILE_SYSTEM {
        return None;
    }
    let (_, path) = facts.mount_source.rsplit_once(":/")?;
    let name = path.split('/').next()?;
    // It becomes part of a pattern.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ((1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)).then_some(name)
}

/// Adds to facts of a Lustre what it is spread over and how; to any others nothing.
pub fn add_facts(host: &LocalHost, facts: &mut TargetFacts) {
    if facts.file_system != FILE_SYSTEM {
        return;
    }
    let ask = |args: &[&str]| {
        let said = host.output("lfs", args, LIMIT);
        said.map_err(|error: HostError| error.to_string())
    };
    let found = ask(&["df", &facts.mount_point]).and_then(|text| targets(&text));
    let striping = ask(&["getstripe", "-d", &facts.path]).and_then(|text| striping(&text));
    let unknown = |error: String| format!("not known: {error}");
    facts.striping = striping.unwrap_or_else(unknown);
    match found {
        Ok(found) => facts.targets = found,
        Err(error) => facts
            .striping
            .push_str(&["; its targets are not known: ", &error].concat()),
    }
}

/// Bytes that this machine has read from and written to each object storage target of the file
/// system of this name since it was mounted. Empty where `lctl` is missing or may not report them.
pub(crate) fn moved(host: &LocalHost, name: &str) -> BTreeMap<String, u64> {
    let said = host.output(
        "lctl",
        &["get_param", &format!("osc.{name}-OST*.stats")],
        LIMIT,
    );
    let said = said.map_err(|error| error.to_string());
    said.and_then(|text| traffic(&text)).unwrap_or_default()
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("its output exceeds {} MiB", TEXT_BYTES_MAX >> 20));
    }
    Ok(())
}

/// The targets that `lfs df` lists: in each line a target, its KiB in all, used and free, the share used, and
/// its mount point. A target that is away has a note behind a colon.
fn targets(text: &str) -> Result<Vec<StorageTarget>, String> {
    check_length(text)?;
    let mut found = Vec::new();
    for line in text.lines() {
        let (first, rest) = line.split_once([' ', '\t', ':']).unwrap_or((line, ""));
        let name = first.trim_end_matches("_UUID");
        // The heading, and the sum at the end, name no target.
        if !name.contains("MDT") && !name.contains("OST") {
            continue;
        }
        if found.len() == TARGETS_MAX {
            return Err(format!("'lfs df' lists more than {TARGETS_MAX} targets"));
        }
        let numbers: Vec<u64> = rest
            .split_whitespace()
            .map_while(|word| word.parse::<u64>().ok()?.checked_mul(1024))
            .collect();
        let is_away = line[first.len()..].trim_start().starts_with(':');
        let (size_bytes, free_bytes) = match numbers[..] {
            _ if is_away => (0, 0),
            [size, _, free] => (size, free),
            _ => return Err(format!("'lfs df' reports for {name}: '{}'", rest.trim())),
        };
        found.push(StorageTarget {
            name: name.into(),
            size_bytes,
            free_bytes,
            is_away,
        });
    }
    if found.is_empty() {
        return Err("'lfs df' lists no targets".into());
    }
    Ok(found)
}

/// The striping of a directory by `lfs getstripe -d`, in words. It writes names with a colon, each followed
/// by its value; of files in several parts those of each part.
fn striping(text: &str) -> Result<String, String> {
    check_length(text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let values = |name: &str| -> Vec<i64> {
        let pairs = words.windows(2);
        let of_name = pairs.filter(|pair| pair[0].trim_start_matches("lmm_") == name);
        of_name.filter_map(|pair| pair[1].parse().ok()).collect()
    };
    let (counts, sizes) = (values("stripe_count:"), values("stripe_size:"));
    let (&[count, ..], &[bytes, ..]) = (&counts[..], &sizes[..]) else {
        return Err("'lfs getstripe' reports no stripe count and size".into());
    };
    if counts.len() > 1 {
        return Ok(format!(
            "files in {} differently striped parts",
            counts.len()
        ));
    }
    let over = match count {
        -1 => "all object storage targets".into(),
        0 => "as many object storage targets as the file system chooses".into(),
        1 => "one object storage target".into(),
        count => format!("{count} object storage targets"),
    };
    let stripes = match bytes {
        0 => "stripes of the file system's size".into(),
        bytes => format!("stripes of {}", units::size(bytes as f64)),
    };
    Ok(format!("each file over {over} in {stripes}"))
}

/// The counters that `lctl get_param osc.*.stats` lists: for each connection to a target a line with its name
/// and `.stats=`, then one for each counter: name, samples, the word `samples`, unit, and of the values
/// the smallest, the largest and the sum. A target may have several connections: one for each mount.
fn traffic(text: &str) -> Result<BTreeMap<String, u64>, String> {
    check_length(text)?;
    let mut moved: BTreeMap<String, u64> = BTreeMap::new();
    let mut target = None;
    for line in text.lines() {
        if let Some(name) = connection(line) {
            if moved.len() == TARGETS_MAX && !moved.contains_key(name) {
                return Err(format!("'lctl' lists more than {TARGETS_MAX} targets"));
            }
            moved.entry(name.into()).or_default();
            target = Some(name);
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (
            Some(name),
            [
                "read_bytes" | "write_bytes",
                _,
                "samples",
                "[bytes]",
                rest @ ..,
            ],
        ) = (target, &words[..])
        else {
            continue;
        };
        // A counter that never counted has no values.
        let sum: u64 = match rest {
            [] => 0,
            [_, _, sum, ..] => sum.parse().map_err(|_| format!("'lctl' says '{line}'"))?,
            _ => return Err(format!("'lctl' says '{line}'")),
        };
        let all = moved.entry(name.into()).or_default();
        *all = all.saturating_add(sum);
    }
    Ok(moved)
}

/// The target in a heading such as `osc.scratch-OST0003-osc-ffff8800371d7800.stats=`.
fn connection(line: &str) -> Option<&str> {
    let name = line.strip_prefix("osc.")?.strip_suffix(".stats=")?;
    Some(name.split_once("-osc-").map_or(name, |(target, _)| target))
}

#[cfg(test)]
mod tests;
