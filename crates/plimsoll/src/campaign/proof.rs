// SPDX-License-Identifier: Apache-2.0
//! The write-verify that precedes every measurement: concurrent writes come back as they were written.

use super::arms::stopped;
use super::{ArmSet, CampaignOptions};
use crate::context;
use crate::failure::{CliError, CliExitCode, failed};
use plimsoll_core::event::RunWarning;
use plimsoll_core::rng::Seed;
use plimsoll_engine::TargetLocation;
use plimsoll_engine::{DataFlaw, VerifyOptions, VerifyReport};
use plimsoll_lab::host::HostResolver as _;
use plimsoll_lab::proofs::{self, SelfTestDepth, SelfTestResult, SelfTestStatus};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes the writes are spread over.
pub(super) const VERIFY_BYTES: u64 = 16 << 20;
/// Writes and reads: about a second on a slow system, with enough in flight to show data that
/// lands in the wrong place.
const OPERATIONS: u64 = 1_500;
const DEPTH: u32 = 16;

/// Proves each system once: that it keeps data, then what its recipe says must be seen of it. With
/// [`SelfTestDepth::Whole`] also what stops nodes for a while. Gives what was seen, arm by
/// arm. The seed differs by run and system: blocks that an earlier run or another system left must
/// not pass for those of this one.
pub(crate) fn prove(
    arms: &ArmSet,
    id: &str,
    settings: &CampaignOptions,
    depth: SelfTestDepth,
    stop: &AtomicBool,
) -> Result<Vec<(String, Vec<SelfTestResult>)>, CliError> {
    let mut all = Vec::new();
    for (name, target) in arms.probed() {
        let seed = settings.seed.derive(&format!("verify {id} {name}"), 0);
        arms.load().prove(name, &target.targets(), seed, stop)?;
        if target.is_only_on_nodes() {
            continue;
        }
        let Some((made, nodes)) = target.made() else {
            continue;
        };
        let mut reached = context::nodes();
        reached.meet(nodes);
        let proved = proofs::prove(made, target.directory.as_deref(), id, depth, &mut reached);
        all.push((name.to_owned(), proved));
    }
    Ok(all)
}

/// Sees whether a place keeps what is written to it; fine where it keeps nothing, or is no
/// directory.
pub(super) fn write_verify(
    name: &str,
    place: TargetLocation<'_>,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let options = VerifyOptions {
        bytes: VERIFY_BYTES,
        operations: OPERATIONS,
        depth: DEPTH,
        seed,
    };
    let verified = match place {
        TargetLocation::Directory { path, direct_align } => {
            plimsoll_engine::verify(path, direct_align, &options, stop)
        }
        TargetLocation::Nfs { address, directory } => {
            let address = address.parse().map_err(CliError::invalid)?;
            plimsoll_engine::verify_export(&address, directory, &options, stop)
        }
        _ => return Ok(()),
    };
    let report = verified.map_err(failed(CliExitCode::Failed))?;
    if stop.load(Ordering::Relaxed) {
        return Err(stopped());
    }
    judge(name, &report)
}

/// The first self-test that failed is the reason to trust no figure of that system.
pub(crate) fn refuse_failed(all: &[(String, Vec<SelfTestResult>)]) -> Result<(), CliError> {
    let failed = |proved: &&SelfTestResult| {
        proved.is_about_data && matches!(proved.outcome, SelfTestStatus::Failed(_))
    };
    let mut found = all.iter().filter_map(|(name, proved)| {
        let first = proved.iter().find(failed)?;
        let SelfTestStatus::Failed(seen) = &first.outcome else {
            return None;
        };
        Some((name, &first.what, seen))
    });
    match found.next() {
        None => Ok(()),
        Some((name, what, seen)) => Err(CliError::sentence(
            CliExitCode::BadData,
            format!("self-test failed on {name}: expected that {what}; observed: {seen}"),
        )
        .hint("nothing was measured; `plimsoll stack check` runs all self-tests again")),
    }
}

/// What could not be seen, and what is not as it must be and yet no reason to trust no figure, as remarks
/// for the report.
pub(crate) fn unseen(all: &[(String, Vec<SelfTestResult>)]) -> Vec<RunWarning> {
    let mut unseen = Vec::new();
    for (name, proved) in all {
        for one in proved {
            let text = match &one.outcome {
                SelfTestStatus::Unseen(why) => {
                    format!("self-test '{}' was not possible: {why}", one.what)
                }
                SelfTestStatus::Failed(seen) if !one.is_about_data => {
                    format!("self-test '{}' failed: {seen}", one.what)
                }
                _ => continue,
            };
            unseen.push(RunWarning {
                about: name.clone(),
                text,
            });
        }
    }
    unseen
}

fn judge(name: &str, report: &VerifyReport) -> Result<(), CliError> {
    if report.passed() {
        return Ok(());
    }
    if report.interrupted && report.bad.total() == 0 && report.errors == 0 {
        let text =
            format!("the write-verify of {name} was not done in time; its result is unknown");
        return Err(CliError::sentence(CliExitCode::BadData, text)
            .hint("--no-verify measures without it, at your own risk"));
    }
    let first = report.findings.first().map_or_else(String::new, |finding| {
        format!(
            "; first: {} at byte {}",
            words(finding.flaw),
            finding.offset
        )
    });
    let text = format!(
        "write-verify failed on {name}: {} bad blocks of {} written, {} errors{first}",
        report.bad.total(),
        report.written,
        report.errors
    );
    Err(CliError::sentence(CliExitCode::BadData, text)
        .hint("nothing was measured: results of a system that loses data are meaningless"))
}

fn words(flaw: DataFlaw) -> String {
    match flaw {
        DataFlaw::Stale => "an acknowledged write is missing".into(),
        DataFlaw::Torn => "a write is there in part".into(),
        DataFlaw::Misplaced { belongs_at } => format!("what belongs at byte {belongs_at} lies"),
        DataFlaw::Wrong => "something that was never written lies".into(),
        DataFlaw::Unreadable => "an acknowledged write cannot be read".into(),
        // Found by checks of ledgers only.
        other => format!("what is {} lies", other.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::data_check::BadBlocks;
    use plimsoll_engine::VerifyFinding;

    #[test]
    fn a_slow_system_is_not_accused_of_losing_data() {
        let whole = VerifyReport {
            written: 9,
            checked: 9,
            ..VerifyReport::default()
        };
        assert!(judge("a", &whole).is_ok());
        let slow = VerifyReport {
            interrupted: true,
            ..whole.clone()
        };
        assert!(
            judge("a", &slow)
                .unwrap_err()
                .message
                .contains("not done in time")
        );
        let finding = VerifyFinding {
            offset: 4096,
            flaw: DataFlaw::Misplaced { belongs_at: 512 },
        };
        let bad = VerifyReport {
            bad: BadBlocks {
                misplaced: 1,
                ..BadBlocks::default()
            },
            findings: vec![finding],
            ..whole
        };
        let failure = judge("a", &bad).unwrap_err();
        assert_eq!(failure.code, CliExitCode::BadData);
        assert!(failure.message.contains("byte 512") && failure.message.contains("byte 4096"));
    }
}
