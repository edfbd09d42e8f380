// SPDX-License-Identifier: Apache-2.0
//! The write-verify of a target: concurrent writes come back as they were written.

use plimsoll_console::failure::{CliError, CliExitCode, failed, stopped};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_engine::{DataFlaw, VerifyOptions, VerifyReport};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes the writes are spread over.
pub const VERIFY_BYTES: u64 = 16 << 20;
/// Writes and reads: about a second on a slow system, with enough in flight to show data that
/// lands in the wrong place.
const OPERATIONS: u64 = 1_500;
const DEPTH: u32 = 16;

/// Sees whether a target keeps what is written to it; fine where it keeps nothing, or is no
/// directory.
pub(crate) fn write_verify(
    name: &str,
    target: &NodeTarget,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let options = VerifyOptions {
        bytes: VERIFY_BYTES,
        operations: OPERATIONS,
        depth: DEPTH,
        seed,
    };
    let verified = match target {
        NodeTarget::Directory {
            path,
            direct_align_bytes,
        } => plimsoll_engine::verify(path, *direct_align_bytes, &options, stop),
        NodeTarget::Export { address, directory } => {
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

fn judge(name: &str, report: &VerifyReport) -> Result<(), CliError> {
    if report.passed() {
        return Ok(());
    }
    if report.interrupted && report.bad.total() == 0 && report.errors == 0 {
        let text =
            format!("the write-verify of {name} was not done in time; its result is unknown");
        return Err(CliError::sentence(CliExitCode::BadData, text)
            .hint("--no-self-test measures without it, at your own risk"));
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
