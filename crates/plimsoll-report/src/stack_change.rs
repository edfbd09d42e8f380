// SPDX-License-Identifier: Apache-2.0
//! A stack that was changed under load: what the load got before, during and after it.

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_stats::SummaryStats;
use plimsoll_stats::between_runs::mean_ratio;

use crate::model::{
    ChartQuantity, ChartSeriesStyle, ReportAnswer, ReportChart, ReportDocument, ReportDoubt,
    ReportFigure, ReportItem, ReportNextStep, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell, SeriesPanel, TimeSeriesChart,
};
use crate::words;

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// Name of the section with the seconds.
const SECONDS: &str = "seconds";

/// Throughput of a load that went on while a stack was changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackChangeLoad {
    /// The stack, as it was brought up.
    pub stack: String,
    /// Change that was made to the stack, such as `grow`.
    pub change: String,
    /// Stack after the change, in words.
    pub made: String,
    /// The load, in words.
    pub load: String,
    /// Bytes per second of each whole second before the change.
    pub before: Vec<f64>,
    /// The same while it went on.
    pub during: Vec<f64>,
    /// The same after it.
    pub after: Vec<f64>,
    /// The command, to be copied.
    pub command: String,
}

impl StackChangeLoad {
    fn parts(&self) -> [(&'static str, &[f64]); 3] {
        [
            ("before", &self.before),
            ("during", &self.during),
            ("after", &self.after),
        ]
    }
}

/// The report of a change of a stack under load.
#[must_use]
pub fn stack_change_report(seen: &StackChangeLoad) -> ReportDocument {
    let ratio = mean_ratio(&seen.before, &seen.after, CONFIDENCE);
    let mut section =
        ReportSection::new("What did the load get, second by second?", "").at(SECONDS);
    section.items.push(ReportItem::Table(table(seen)));
    let mut method = ReportSection::new("How was it measured?", "").at("method");
    method.items.push(ReportItem::Facts(vec![
        ("Load".into(), seen.load.clone()),
        ("The stack now".into(), seen.made.clone()),
    ]));
    method.items.push(ReportItem::Command(seen.command.clone()));
    ReportDocument {
        title: format!("{}: {} under load", seen.stack, seen.change),
        subtitle: seen.made.clone(),
        answer: answer(seen, ratio.as_ref()),
        headline: Vec::new(),
        sections: vec![section, method],
        data: serde_json::json!({
            "stack": seen.stack, "change": seen.change, "made": seen.made,
            "bytes_per_s": { "before": seen.before, "during": seen.during, "after": seen.after },
            "after_to_before": ratio,
        })
        .to_string(),
    }
}

fn answer(seen: &StackChangeLoad, ratio: Option<&RatioEstimate>) -> ReportAnswer {
    let (change, stack) = (&seen.change, &seen.stack);
    let (tone, text) = match ratio {
        None => (
            ReportSeverity::Care,
            format!("Too few whole seconds were measured around the {change} of {stack}."),
        ),
        Some(ratio) => {
            let tone = match ratio {
                of if of.low > 1.0 => ReportSeverity::Good,
                of if of.high < 1.0 => ReportSeverity::Bad,
                _ => ReportSeverity::Plain,
            };
            let text = format!(
                "After the {change}, {stack} carries {}× the throughput of before ({} CI {}).",
                words::estimate(ratio),
                words::percent_whole(CONFIDENCE),
                words::interval(ratio)
            );
            (tone, text)
        }
    };
    let facts = seen.parts().into_iter().filter_map(|(part, rates)| {
        let of = SummaryStats::of(rates.iter().copied())?;
        Some((capital(part), mean_and_range(&of)))
    });
    ReportAnswer {
        text,
        tone,
        facts: facts.collect(),
        figure: Some(figure(seen)),
        next: vec![ReportNextStep {
            text: "Compare both sizes in randomised blocks: plimsoll compare, with your workload."
                .into(),
            command: String::new(),
        }],
        doubts: vec![ReportDoubt {
            text: "Before and after are one stretch each, not repeated blocks: whatever else changed \
                   meanwhile is in the ratio, and seconds that depend on each other make the interval \
                   too narrow."
                .into(),
            section: SECONDS.into(),
        }],
    }
}

fn figure(seen: &StackChangeLoad) -> ReportFigure {
    let panel = |(colour, (part, rates)): (usize, (&str, &[f64]))| SeriesPanel {
        ink: ChartSeriesStyle {
            name: capital(part),
            colour,
            control: false,
        },
        blocks: vec![(0, seconds(rates))],
        middle: Vec::new(),
    };
    let chart = TimeSeriesChart {
        quantity: ChartQuantity::Throughput,
        log: false,
        panels: (seen.parts().into_iter().enumerate()).map(panel).collect(),
    };
    let means = seen.parts().into_iter().filter_map(|(part, rates)| {
        let of = SummaryStats::of(rates.iter().copied())?;
        Some(format!(
            "{part} {}",
            ChartQuantity::Throughput.show(of.mean)
        ))
    });
    let means: Vec<String> = means.collect();
    let title = format!(
        "What does the {} cost, and what does it bring?",
        seen.change
    );
    let told = match means.is_empty() {
        true => "No whole second was measured.".into(),
        false => format!("Mean throughput: {}.", means.join(", ")),
    };
    ReportFigure::new(title, told, ReportChart::Series(chart)).beside_its_table()
}

fn seconds(rates: &[f64]) -> Vec<(f64, f64)> {
    (rates.iter().enumerate())
        .map(|(second, rate)| (second as f64 + 0.5, *rate))
        .collect()
}

fn table(seen: &StackChangeLoad) -> ReportTable {
    let columns = ["Part", "#Seconds", "#Mean", "#Lowest", "#Highest"];
    let mut table = ReportTable::new("Throughput of the load", &columns);
    for (part, rates) in seen.parts() {
        let count = ReportTableCell::new(rates.len().to_string()).value(rates.len() as f64);
        let mut row = vec![ReportTableCell::new(part), count];
        match SummaryStats::of(rates.iter().copied()) {
            Some(of) => row.extend(
                [of.mean, of.min, of.max]
                    .map(|value| ReportTableCell::number(ChartQuantity::Throughput, value)),
            ),
            None => row.extend([words::dash(), words::dash(), words::dash()]),
        }
        table.rows.push(row);
    }
    table.notes.push(
        "A second that lies in two parts belongs to neither. The ratio is that of the means; its interval \
         is Welch's on the relative deviations of seconds."
            .into(),
    );
    table
}

fn mean_and_range(of: &SummaryStats) -> String {
    let show = |value| ChartQuantity::Throughput.show(value);
    format!(
        "{} ({} to {} in {} s)",
        show(of.mean),
        show(of.min),
        show(of.max),
        of.count
    )
}

fn capital(part: &str) -> String {
    let mut letters = part.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{html, terminal};

    fn grown() -> StackChangeLoad {
        StackChangeLoad {
            stack: "raid5".into(),
            change: "grow".into(),
            made: "4 disks".into(),
            load: "half reads, half writes".into(),
            before: vec![1e8, 1.1e8, 0.9e8, 1e8],
            during: vec![2e7],
            after: vec![1.5e8, 1.6e8, 1.4e8, 1.5e8],
            command: "plimsoll stack grow raid5 --html grow.html".into(),
        }
    }

    #[test]
    fn the_answer_has_the_ratio_with_its_interval() {
        let report = stack_change_report(&grown());
        assert!(
            report.answer.text.contains("1.50× the throughput"),
            "{}",
            report.answer.text
        );
        assert!(
            report.answer.text.contains("95 % CI 1.3"),
            "{}",
            report.answer.text
        );
        assert_eq!(report.answer.tone, ReportSeverity::Good);
        let page = html(&report);
        assert!(page.contains("raid5: grow under load") && page.contains("<svg"));
        let shown = terminal(&report, 100, false, false);
        assert!(
            shown.contains("during") && shown.contains("plimsoll stack grow"),
            "{shown}"
        );
    }

    #[test]
    fn without_seconds_there_is_no_ratio() {
        let mut short = grown();
        short.after.clear();
        let report = stack_change_report(&short);
        assert_eq!(report.answer.tone, ReportSeverity::Care);
        assert!(
            report.answer.text.contains("Too few"),
            "{}",
            report.answer.text
        );
    }
}
