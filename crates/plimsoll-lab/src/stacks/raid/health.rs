// SPDX-License-Identifier: Apache-2.0
//! Reports of an array about itself: errors of its disks that were met, disks that it lacks, and
//! the counts of a scrub.

use plimsoll_core::plan::{PlanCommand, PlanCommandArg};

use super::super::ScrubCount;
use super::{StackPlanInput, mount_dir};
use plimsoll_machine::host::{HostError, HostResolver};

/// Errors that btrfs counted on its disks: it keeps on serving from the other copy.
pub(super) fn btrfs(order: &StackPlanInput<'_>, hosts: &mut dyn HostResolver) -> Vec<String> {
    let at = mount_dir(order);
    let ask = PlanCommand::new("btrfs", ["device", "stats", &at]);
    match hosts.here().answer(order.id, &ask) {
        Ok(said) => errors(&said),
        Err(error) => vec![format!("the state of the btrfs disks is unknown: {error}")],
    }
}

/// Counts of `btrfs device stats` that are not 0, disk by disk: `[/dev/loop0].corruption_errs  12`.
fn errors(said: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in said.lines() {
        let Some((disk, rest)) = line
            .strip_prefix('[')
            .and_then(|line| line.split_once("]."))
        else {
            continue;
        };
        let mut words = rest.split_whitespace();
        let (Some(name), Some(count)) = (words.next(), words.next()) else {
            continue;
        };
        if count != "0" {
            let name = name.trim_end_matches("_errs").replace("_io", "");
            found.push(format!("btrfs counted {count} {name} errors on {disk}"));
        }
    }
    if !found.is_empty() {
        let remedy = "repair with: plimsoll stack scrub (if a node is stopped, first: plimsoll stack \
                      rebuild)";
        found.push(remedy.into());
    }
    found
}

/// The degraded state of md: `mdadm --detail --test` ends with 1 where disks are missing, with 2
/// where too many are.
pub(super) fn md(
    order: &StackPlanInput<'_>,
    array: PlanCommandArg,
    hosts: &mut dyn HostResolver,
) -> Vec<String> {
    let ask = PlanCommand::new("mdadm", ["--detail".into(), "--test".into(), array]);
    match hosts.here().answer(order.id, &ask) {
        Ok(_) => Vec::new(),
        Err(HostError::Failed { status, .. }) => vec![format!(
            "the md array is degraded or rebuilding (mdadm --detail --test: {status})"
        )],
        Err(error) => vec![format!("the state of the md disks is unknown: {error}")],
    }
}

/// Counts of the last scrub of btrfs.
pub(super) fn scrubbed(
    order: &StackPlanInput<'_>,
    hosts: &mut dyn HostResolver,
) -> Option<ScrubCount> {
    let at = mount_dir(order);
    let ask = PlanCommand::new("btrfs", ["scrub", "status", "-R", &at]);
    counted(&hosts.here().answer(order.id, &ask).ok()?)
}

/// Counts from `btrfs scrub status -R`: `corrected_errors: 12`.
fn counted(said: &str) -> Option<ScrubCount> {
    let count = |wanted: &str| {
        let mut pairs = said.lines().filter_map(|line| line.trim().split_once(": "));
        let (_, count) = pairs.find(|(name, _)| *name == wanted)?;
        count.trim().parse::<u64>().ok()
    };
    Some(ScrubCount {
        corrected: count("corrected_errors")?,
        left: count("uncorrectable_errors")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_were_met_are_told_disk_by_disk() {
        let said = "[/dev/loop0].write_io_errs    0\n[/dev/loop0].read_io_errs     0\n\
            [/dev/loop0].flush_io_errs    0\n[/dev/loop0].corruption_errs  0\n\
            [/dev/loop1].write_io_errs    7\n[/dev/loop1].corruption_errs  12\nnonsense\n";
        let found = errors(said);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "btrfs counted 7 write errors on /dev/loop1");
        assert_eq!(found[1], "btrfs counted 12 corruption errors on /dev/loop1");
        assert!(errors("").is_empty());
    }

    #[test]
    fn what_a_scrub_put_right_and_what_not_is_counted() {
        let said = "UUID: 1\nScrub started: Mon\nStatus: finished\n\tdata_extents_scrubbed: 9\n\
            \tcsum_errors: 12\n\tuncorrectable_errors: 2\n\tcorrected_errors: 10\n";
        let found = ScrubCount {
            corrected: 10,
            left: 2,
        };
        assert_eq!(counted(said), Some(found));
        assert_eq!(counted("Status: running"), None);
    }
}
