// SPDX-License-Identifier: Apache-2.0
//! Limits of the trials of a run: kept, broken, or too few operations to know.

use plimsoll_core::event::{RunManifest, TrialResult};
use plimsoll_core::load_line::{LoadLineQuantity, LoadLineSlo, SloResult, SloVerdict};

/// Every limit of the campaign for every system and workload that has trials.
pub fn slo_results(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<SloResult> {
    let campaign = manifest.campaign.as_ref();
    let limits = campaign.map_or(&[][..], |campaign| &campaign.trial.limits);
    let mut results = Vec::new();
    for entry in &manifest.entries {
        for arm in manifest.arms.iter().filter(|arm| arm.control_of.is_none()) {
            let mine = trials.iter().filter(|trial| {
                let (workload, system) = (&trial.trial.workload, &trial.trial.arm);
                !trial.interrupted && *workload == entry.label && *system == arm.name
            });
            let mine: Vec<&TrialResult> = mine.collect();
            for limit in limits.iter().filter(|_| !mine.is_empty()) {
                // Limits of a campaign are read when it is checked.
                if let Ok(slo) = limit.parse::<LoadLineSlo>() {
                    let (value, verdict) = held_against(&slo, &mine);
                    results.push(SloResult {
                        arm: arm.name.clone(),
                        workload: entry.label.clone(),
                        limit: limit.clone(),
                        value,
                        verdict,
                    });
                }
            }
        }
    }
    results
}

/// The worst value, and whether it is within the limit.
fn held_against(slo: &LoadLineSlo, trials: &[&TrialResult]) -> (Option<f64>, SloVerdict) {
    let known = trials.iter().filter(|trial| is_known(slo, trial));
    let values: Vec<f64> = known.map(|trial| trial.stats.limited(slo)).collect();
    let worst = values.iter().copied().reduce(f64::max);
    let verdict = match worst {
        Some(worst) if worst >= slo.at_most => SloVerdict::Fail,
        _ if values.len() < trials.len() => SloVerdict::Unknown,
        _ => SloVerdict::Pass,
    };
    (worst, verdict)
}

/// Whether a trial has operations enough for the limited quantity.
fn is_known(slo: &LoadLineSlo, trial: &TrialResult) -> bool {
    let all = trial.stats.about(slo);
    match slo.quantity {
        LoadLineQuantity::Quantile(q) => all.response.supports_quantile(q),
        LoadLineQuantity::Mean | LoadLineQuantity::Errors => all.ops() > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::{KindStats, OpStats, TrialId};
    use plimsoll_core::op::OpKind;
    use plimsoll_core::units::Nanos;

    fn trial(operations: u64, slow: u64) -> TrialResult {
        let mut stats = KindStats::default();
        for number in 0..operations {
            let ms = if number < slow { 50 } else { 1 };
            stats.response.record(Nanos(ms * 1_000_000));
        }
        TrialResult {
            stats: OpStats([(OpKind::Read, stats)].into()),
            ..TrialResult::of(TrialId {
                block: 0,
                place: 0,
                workload: "w".into(),
                arm: "a".into(),
            })
        }
    }

    #[test]
    fn a_limit_is_kept_broken_or_not_known() {
        let p99: LoadLineSlo = "p99 < 20ms".parse().unwrap();
        let (good, bad, few) = (trial(1_000, 5), trial(1_000, 20), trial(100, 0));
        let verdict = |trials: &[&TrialResult]| held_against(&p99, trials).1;
        assert_eq!(verdict(&[&good]), SloVerdict::Pass);
        assert_eq!(verdict(&[&good, &bad]), SloVerdict::Fail);
        assert_eq!(
            verdict(&[&few]),
            SloVerdict::Unknown,
            "a p99 of 100 operations"
        );
        assert_eq!(verdict(&[&bad, &few]), SloVerdict::Fail, "broken is broken");
        let writes: LoadLineSlo = "write p99 < 20ms".parse().unwrap();
        assert_eq!(held_against(&writes, &[&good]), (None, SloVerdict::Unknown));
    }
}
