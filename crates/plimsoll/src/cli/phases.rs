// SPDX-License-Identifier: Apache-2.0
//! Phases of a recording as text.

use std::fmt::Write;

use plimsoll_core::model::{Phase, Rates, Stretch};
use plimsoll_core::num::ratio;
use plimsoll_core::units;

/// Most windows of a phase that are listed.
const WINDOWS_MAX: usize = 6;

/// Appends the phases: their rates and sizes, their own load above the base's, their windows.
pub(super) fn append(text: &mut String, phases: &[Phase]) {
    if phases.is_empty() {
        let _ = writeln!(text, "\nPhases\n  none: the load was alike throughout");
        return;
    }
    let _ = writeln!(
        text,
        "\n{:<32}{:>9}{:>12}{:>10}{:>12}{:>7}",
        "Phases", "reads/s", "mean size", "writes/s", "mean size", "time"
    );
    for phase in phases {
        let share = format!("{:.0} %", phase.share * 100.0);
        row(text, &phase.name, phase.load, &share);
        if let Some(own) = phase.own.and_then(|own| clear(own, phase.load)) {
            row(text, "  more than the base", own, "");
        }
        windows(text, &phase.stretches);
    }
}

/// What is clearly more than the base's: less than a twentieth is the difference of two large
/// figures, and its mean size a quotient of two such. `None` where nothing is left.
fn clear(own: [Rates; 2], load: [Rates; 2]) -> Option<[Rates; 2]> {
    const SHARE_MIN: f64 = 0.05;
    let is_clear = |at: usize| own[at].ops_per_s > SHARE_MIN * load[at].ops_per_s;
    let part = |at: usize| match is_clear(at) {
        true => own[at],
        false => Rates::default(),
    };
    (is_clear(0) || is_clear(1)).then(|| [part(0), part(1)])
}

fn row(text: &mut String, name: &str, [read, write]: [Rates; 2], share: &str) {
    let size = |rates: Rates| match rates.ops_per_s {
        ops if ops > 0.0 => units::size(ratio(rates.bytes_per_s, ops)),
        _ => "–".into(),
    };
    let line = format!(
        "  {name:<30}{:>9}{:>12}{:>10}{:>12}{share:>7}",
        units::rate(read.ops_per_s),
        size(read),
        units::rate(write.ops_per_s),
        size(write),
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

fn windows(text: &mut String, stretches: &[Stretch]) {
    let mut listed: Vec<String> = stretches.iter().take(WINDOWS_MAX).map(window).collect();
    if let Some(more) = stretches.len().checked_sub(WINDOWS_MAX + 1) {
        listed.push(format!("and {} more", more + 1));
    }
    for two in listed.chunks(2) {
        let _ = writeln!(text, "      {}", two.join(", "));
    }
}

/// A window in the recording's zone, whose offset stands at the top of the text; the day of the
/// end only where it is another.
fn window(stretch: &Stretch) -> String {
    let parts = |time: &str| {
        let (day, time) = time.split_once('T')?;
        Some((day.to_owned(), time.get(..8)?.to_owned()))
    };
    match (parts(&stretch.from), parts(&stretch.to)) {
        (Some(from), Some(to)) if from.0 == to.0 => format!("{} {} to {}", from.0, from.1, to.1),
        (Some(from), Some(to)) => format!("{} {} to {} {}", from.0, from.1, to.0, to.1),
        _ => format!("{} to {}", stretch.from, stretch.to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_name_a_day_once_and_long_lists_end() {
        let stretch = |from: &str, to: &str| Stretch {
            first: 0,
            intervals: 1,
            from: from.into(),
            to: to.into(),
        };
        let short = stretch("2010-07-14T11:00:32+10:00", "2010-07-14T11:02:32+10:00");
        let long = stretch("2010-07-14T23:00:32+10:00", "2010-07-15T01:02:32+10:00");
        assert_eq!(window(&short), "2010-07-14 11:00:32 to 11:02:32");
        assert_eq!(window(&long), "2010-07-14 23:00:32 to 2010-07-15 01:02:32");
        let phase = |name: &str, n, own| Phase {
            name: name.into(),
            stretches: vec![short.clone(); n],
            share: 0.5,
            load: [
                Rates {
                    ops_per_s: 100.0,
                    bytes_per_s: 819_200.0,
                },
                Rates::default(),
            ],
            own,
        };
        let own = [
            Rates {
                ops_per_s: 50.0,
                bytes_per_s: 819_200.0,
            },
            Rates::default(),
        ];
        assert_eq!(clear([Rates::default(); 2], own), None);
        let mut text = String::new();
        append(
            &mut text,
            &[phase("base", 7, None), phase("scan", 1, Some(own))],
        );
        assert!(text.contains("and 1 more"), "{text}");
        assert!(
            text.contains("8.00 KiB") && text.contains("more than the base"),
            "{text}"
        );
        let mut none = String::new();
        append(&mut none, &[]);
        assert!(none.contains("alike throughout"), "{none}");
    }
}
