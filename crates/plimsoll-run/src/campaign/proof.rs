// SPDX-License-Identifier: Apache-2.0
//! The proof that precedes every measurement: concurrent writes come back as they were written.

use super::ArmSet;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::RunWarning;
use plimsoll_core::rng::Seed;
use plimsoll_lab::proofs::{self, SelfTestDepth, SelfTestResult, SelfTestStatus};
use plimsoll_machine::host::HostResolver as _;
use std::sync::atomic::AtomicBool;

/// Proves each system once: that it keeps data, then what its recipe says must be seen of it. With
/// [`SelfTestDepth::Whole`] also what takes nodes away for a while. Gives what was seen, arm by
/// arm. The seed differs by run and system: blocks that an earlier run or another system left must
/// not pass for those of this one.
pub fn prove(
    arms: &ArmSet,
    id: &str,
    seed: Seed,
    depth: SelfTestDepth,
    stop: &AtomicBool,
) -> Result<Vec<(String, Vec<SelfTestResult>)>, CliError> {
    let mut all = Vec::new();
    for (name, target) in arms.probed() {
        let seed = seed.derive(&format!("verify {id} {name}"), 0);
        arms.load().prove(name, target.reach(), seed, stop)?;
        let Some(stack) = target.stack.as_ref().filter(|_| target.here.is_some()) else {
            continue;
        };
        let mut reached = context::nodes();
        reached.meet(&stack.nodes);
        let directory = target.directory();
        let proved = proofs::prove(&stack.made, directory, id, depth, &mut reached);
        all.push((name.to_owned(), proved));
    }
    Ok(all)
}

/// The first proof that failed is the reason to trust no figure of that system.
pub fn refuse_failed(all: &[(String, Vec<SelfTestResult>)]) -> Result<(), CliError> {
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

/// Self-tests that were not possible, and failed ones that do not make the figures untrustworthy,
/// as remarks for the report.
pub fn unseen(all: &[(String, Vec<SelfTestResult>)]) -> Vec<RunWarning> {
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
