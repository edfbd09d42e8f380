// SPDX-License-Identifier: Apache-2.0
//! Which of the hosts an agent is on, as what carries it says in the environment.

/// Variables that say it, those of the innermost carrier first: an agent that mpiexec started within a
/// Slurm job has both.
const VARIABLES: [&str; 9] = [
    "PLIMSOLL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
    "JOB_COMPLETION_INDEX",
    "PBS_TASKNUM",
];

/// The number, if one is named. One that makes no sense counts as none.
pub(crate) fn from(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    VARIABLES
        .iter()
        .find_map(|name| variable(name)?.trim().parse().ok())
}

/// Numbers as a person would write them: `0, 3-7`.
pub(crate) fn listed(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_range() {
        assert_eq!(listed(&[0, 3, 4, 5, 9]), "0, 3-5, 9");
        assert_eq!(listed(&[]), "");
    }

    #[test]
    fn the_innermost_carrier_says_the_rank() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                let found = pairs.iter().find(|(set, _)| *set == name)?;
                Some(found.1.to_owned())
            }
        };
        assert_eq!(from(set(&[("SLURM_PROCID", "3")])), Some(3));
        assert_eq!(
            from(set(&[("SLURM_PROCID", "0"), ("PMIX_RANK", "7")])),
            Some(7)
        );
        assert_eq!(
            from(set(&[("PMIX_RANK", "-1"), ("JOB_COMPLETION_INDEX", "2")])),
            Some(2)
        );
        assert_eq!(from(set(&[("HOSTNAME", "9")])), None);
    }
}
