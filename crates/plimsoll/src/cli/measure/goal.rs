// SPDX-License-Identifier: Apache-2.0
//! Load line of a campaign, as its search wants it.

use plimsoll_classics::find_requirement;
use plimsoll_console::failure::CliError;
use plimsoll_core::campaign::CampaignSpec;
use plimsoll_core::load_line::LoadLineGoal;
use plimsoll_core::units::Nanos;
use plimsoll_run::campaign::load_line_seconds;

/// Share of a budget that is for trials; the rest is for what lies between them.
const BUDGET_SHARE: f64 = 0.8;

/// Times of a search: how long a multiple must be held, where no time is given, and the trials that follow
/// from that.
struct LoadLineTimes {
    sustained: Nanos,
    /// Trials that locate the line are this part of those near it, which are a tenth of a stay.
    short_part: u64,
    /// Bounds of both in seconds.
    short_s: (u64, u64),
    trial_s: (u64, u64),
    /// Most time of all trials of a search, where no budget is given, in stays.
    budget_stays: u64,
}

/// Of any load.
const LOAD_LINE: LoadLineTimes = LoadLineTimes {
    sustained: Nanos(600 * Nanos::SECOND.0),
    short_part: 4,
    short_s: (4, 15),
    trial_s: (8, 60),
    budget_stays: 24,
};

/// Of a requirement, which is to be met and not to be located.
const REQUIREMENT: LoadLineTimes = LoadLineTimes {
    sustained: Nanos(60 * Nanos::SECOND.0),
    short_part: 2,
    short_s: (4, u64::MAX / Nanos::SECOND.0),
    trial_s: (8, u64::MAX / Nanos::SECOND.0),
    budget_stays: 12,
};

/// The goal of the searches of a workload, where the campaign has some.
///
/// # Errors
/// When the workload is to be a requirement and is unknown as one.
pub(super) fn load_line_goal(
    spec: &CampaignSpec,
    workload: &str,
) -> Result<Option<LoadLineGoal>, CliError> {
    let Some(line) = &spec.load_line else {
        return Ok(None);
    };
    let found = match line.requirement.0.is_empty() {
        true => None,
        false => Some(find_requirement(workload).map_err(|error| {
            CliError::invalid(error).hint("plimsoll fit-for --list tells all, with their settings")
        })?),
    };
    let times = match found {
        Some(_) => &REQUIREMENT,
        None => &LOAD_LINE,
    };
    let sustained = spec.trial.length.map_or(times.sustained, |time| time.0);
    let part = load_line_seconds(Nanos(sustained.0 / 10));
    let second = Nanos::SECOND.0;
    let seconds =
        |ns: u64, (least, most): (u64, u64)| Nanos((ns / second).clamp(least, most) * second);
    let (mut limits, mut requirement) = (spec.limits(), None);
    if let Some((definition, mut need)) = found {
        need.has_own_limits = !limits.is_empty();
        if limits.is_empty() {
            limits = definition.slos();
        }
        requirement = Some(need);
    }
    let sustained = Nanos(10 * part.0);
    let budget = match line.budget {
        None => Nanos(times.budget_stays * sustained.0),
        Some(all) => {
            let share = BUDGET_SHARE * all.0.as_secs_f64();
            Nanos::from_secs_f64(share / searches(spec) as f64)
        }
    };
    Ok(Some(LoadLineGoal {
        limits,
        smallest: line.from,
        largest: line.to,
        width: line.width,
        short: seconds(part.0 / times.short_part, times.short_s),
        trial: seconds(part.0, times.trial_s),
        sustained,
        budget,
        costs: line.costs.clone(),
        requirement,
    }))
}

/// How many load lines are searched.
fn searches(spec: &CampaignSpec) -> usize {
    let arms = spec.systems() + usize::from(spec.control);
    (arms * spec.workloads() * spec.under.len().max(1)).max(1)
}
