// SPDX-License-Identifier: Apache-2.0
//! Gates in one line: what was passed says little, what was missed says all.

use plimsoll_core::model::FidelityCheck;

/// How many gates were passed, and which of them was the closest; empty without gates.
pub(super) fn summary<'a>(lines: impl Iterator<Item = &'a FidelityCheck> + Clone) -> String {
    let all = lines.clone().count();
    let passed = lines.clone().filter(|line| line.passed());
    let count = passed.clone().count();
    let share = |line: &FidelityCheck| line.error.abs() / line.gate.max(f64::MIN_POSITIVE);
    if all == 0 {
        return String::new();
    }
    let copies = match lines.filter(|line| line.copy).count() {
        0 => String::new(),
        copies => format!(", {copies} of them on a copy, which shows only that it is played"),
    };
    let others = passed.filter(|line| !line.copy && line.error != 0.0);
    let closest = others.max_by(|a, b| share(a).total_cmp(&share(b)));
    let closest = closest.map(|line| {
        format!(
            ": the closest is {}, off by {:.2} % of {:.0} % allowed",
            line.metric,
            line.error.abs() * 100.0,
            line.gate * 100.0
        )
    });
    format!(
        "{count} of {all} gates passed{copies}{}",
        closest.unwrap_or_default()
    )
}

/// The lines that are printed one by one: all if that is asked for, else those of missed gates.
pub(super) fn told<T>(lines: &[T], gate: fn(&T) -> &FidelityCheck, all: bool) -> Vec<&T> {
    lines
        .iter()
        .filter(|line| all || !gate(line).passed())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(metric: &str, error: f64) -> FidelityCheck {
        FidelityCheck::relative(metric, 1.0, 1.0 + error, 0.1)
    }

    #[test]
    fn passed_gates_are_one_line_and_missed_ones_stand_for_themselves() {
        let lines = [
            line("a", 0.0),
            line("b", 0.05),
            line("c", 0.5),
            line("d", -0.01),
        ];
        let text = summary(lines.iter());
        assert_eq!(
            text,
            "3 of 4 gates passed: the closest is b, off by 5.00 % of 10 % allowed"
        );
        let names = |all| -> Vec<&str> {
            let told = told(&lines, |line| line, all).into_iter();
            told.map(|line| line.metric.as_str()).collect()
        };
        assert_eq!(names(false), ["c"]);
        assert_eq!(names(true).len(), 4);
        assert_eq!(summary([line("a", 0.0)].iter()), "1 of 1 gates passed");
        assert_eq!(summary([].iter()), "");
        let lines = [0.0, 0.02].map(|error| line("a", error).of_its_own());
        assert_eq!(
            summary(lines.iter()),
            "2 of 2 gates passed, 1 of them on a copy, which shows only that it is played: the closest is a, off by \
             2.00 % of 10 % allowed"
        );
    }
}
