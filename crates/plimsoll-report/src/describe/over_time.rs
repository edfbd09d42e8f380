// SPDX-License-Identifier: Apache-2.0
//! The figures of a device over the time of its recording.

use plimsoll_core::model::ModelPhaseSpan;
use plimsoll_core::profile::{DiskProfile, ProfilePoint};
use plimsoll_core::units::{Nanos, clock_duration};

use crate::model::{
    ChartQuantity, ChartSeriesStyle, ReportChart, ReportFigure, ReportItem, ReportSection,
    TimelineChart, TimelineLine, TimelinePanel,
};

/// Most panels of a first screen.
const PANELS_FIRST: usize = 2;

/// A figure of a point.
type TimelineValueFn = fn(&ProfilePoint) -> Option<f64>;

/// One line of a panel: name, figure, its highest single interval.
type TimelineLineSpec = (&'static str, TimelineValueFn, Option<TimelineValueFn>);

const PANELS: [(&str, ChartQuantity, &[TimelineLineSpec]); 6] = [
    (
        "operations",
        ChartQuantity::Rate,
        &[
            ("read", |p| p.reads_per_s, Some(|p| p.reads_peak_per_s)),
            ("write", |p| p.writes_per_s, Some(|p| p.writes_peak_per_s)),
        ],
    ),
    (
        "throughput",
        ChartQuantity::Throughput,
        &[
            ("read", |p| p.read_bytes_per_s, None),
            ("write", |p| p.write_bytes_per_s, None),
        ],
    ),
    (
        "mean size",
        ChartQuantity::Size,
        &[
            ("read", |p| p.read_size_bytes, None),
            ("write", |p| p.write_size_bytes, None),
        ],
    ),
    ("busy", ChartQuantity::Share, &[("busy", |p| p.busy, None)]),
    (
        "mean queue",
        ChartQuantity::Number,
        &[("queue", |p| p.queue, None)],
    ),
    (
        "mean response",
        ChartQuantity::Duration,
        &[
            ("read", |p| p.read_response_ms.map(|ms| ms * 1e6), None),
            ("write", |p| p.write_response_ms.map(|ms| ms * 1e6), None),
        ],
    ),
];

/// The section; `None` when there is nothing to be drawn.
pub(super) fn section(profile: &DiskProfile) -> Option<ReportSection> {
    let mut section = ReportSection::new("Over time", "");
    section
        .items
        .push(ReportItem::Chart(figure(profile, PANELS.len())?));
    Some(section)
}

/// As many panels as a first screen has room for.
pub(super) fn first_figure(profile: &DiskProfile) -> Option<ReportFigure> {
    Some(figure(profile, PANELS_FIRST)?.compact())
}

fn figure(profile: &DiskProfile, panels_max: usize) -> Option<ReportFigure> {
    let length_s = profile.points.last()?.to_s;
    let panels = PANELS.iter().filter_map(|row| panel(profile, row));
    let panels: Vec<TimelinePanel> = panels.take(panels_max).collect();
    let busiest = busiest(panels.first()?)?;
    let mut lines = panels.iter().flat_map(|p| &p.lines);
    let thin = match lines.any(|line| !line.peaks.is_empty()) {
        true => " Thin lines: the busiest interval of each step.",
        false => "",
    };
    let chart = TimelineChart {
        from: profile.from.clone(),
        length_s,
        panels,
        marks: marks(profile),
    };
    let title = "When does the device work, and how much?";
    let chart = ReportChart::Timeline(chart);
    Some(ReportFigure::new(title, format!("{busiest}{thin}"), chart))
}

/// The highest step of a panel, and how far into the recording it lies.
fn busiest(panel: &TimelinePanel) -> Option<String> {
    let steps = panel.lines.iter().flat_map(|line| {
        let steps = line.steps.iter();
        steps.map(|(from, _, value)| (line.ink.label(), *from, *value))
    });
    let (name, from, value) = steps.max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!(
        "Most {}: {name} with {}, {} after the start.",
        panel.title,
        panel.quantity.show(value),
        clock_duration(Nanos::from_secs_f64(from))
    ))
}

/// Where the phases are that stand out from the first, the one of most of the time.
fn marks(profile: &DiskProfile) -> Vec<(String, f64, f64)> {
    let Some(start) = seconds(&profile.from) else {
        return Vec::new();
    };
    let others = profile.phases.iter().skip(1);
    let stretches = others.flat_map(|phase| phase.stretches.iter().map(|s| (&phase.name, s)));
    let mark = |(name, stretch): (&String, &ModelPhaseSpan)| {
        let (from, to) = (seconds(&stretch.from)?, seconds(&stretch.to)?);
        Some((name.clone(), from - start, to - start))
    };
    stretches.filter_map(mark).collect()
}

/// Seconds of `2010-07-14T11:00:02+10:00` since a day long ago; `None` of any other text.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i32>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = super::without_zone(time).splitn(3, ':');
    let mut whole = || clock.next()?.parse::<i32>().ok();
    let (hours, minutes) = (whole()?, whole()?);
    let seconds: f64 = clock.next()?.parse().ok()?;
    // Years begin in March, so that the odd day is the last; each month then has its first day.
    let (year, month) = match month {
        ..3 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day;
    let second = f64::from(hours * 3_600 + minutes * 60) + seconds;
    let zone = super::zone_s(text).unwrap_or_default();
    Some(f64::from(days) * 86_400.0 + second - zone)
}

fn panel(
    profile: &DiskProfile,
    (title, quantity, lines): &(&str, ChartQuantity, &[TimelineLineSpec]),
) -> Option<TimelinePanel> {
    // Colours stand for directions in every panel; what has none gets the third.
    let colour = |name: &str| match name {
        "read" => 0,
        "write" => 1,
        _ => 2,
    };
    let steps = |figure: TimelineValueFn| -> Vec<(f64, f64, f64)> {
        let known = profile.points.iter();
        known
            .filter_map(|p| Some((p.from_s, p.to_s, figure(p)?)))
            .collect()
    };
    // Where every step is one interval, its peak is its mean.
    let is_joined = (profile.points.len() as u64) < profile.intervals;
    let line = |(name, figure, peak): &TimelineLineSpec| TimelineLine {
        ink: ChartSeriesStyle {
            name: (*name).into(),
            colour: colour(name),
            control: false,
        },
        steps: steps(*figure),
        peaks: peak.filter(|_| is_joined).map(steps).unwrap_or_default(),
    };
    let lines: Vec<TimelineLine> = lines
        .iter()
        .map(line)
        .filter(|l| !l.steps.is_empty())
        .collect();
    (!lines.is_empty()).then(|| TimelinePanel {
        title: (*title).into(),
        quantity: *quantity,
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_apart_by_what_lies_between_them() {
        let apart = |a: &str, b: &str| seconds(b).unwrap() - seconds(a).unwrap();
        for (a, b, expect) in [
            (
                "2010-07-14T11:00:02+10:00",
                "2010-07-14T11:00:32+10:00",
                30.0,
            ),
            (
                "2010-12-31T23:59:59+00:00",
                "2011-01-01T00:00:00+00:00",
                1.0,
            ),
            (
                "2024-02-28T12:00:00+00:00",
                "2024-03-01T12:00:00+00:00",
                172_800.0,
            ),
            (
                "2016-02-16T03:03:24.37+00:00",
                "2016-02-16T03:03:25.12+00:00",
                0.75,
            ),
            (
                "2025-10-26T02:30:00+02:00",
                "2025-10-26T02:30:00+01:00",
                3_600.0,
            ),
        ] {
            assert!(
                (apart(a, b) - expect).abs() < 1e-6,
                "{a} to {b}: {}",
                apart(a, b)
            );
        }
        assert_eq!(seconds("its start"), None);
        assert_eq!(seconds("2010-07-14T11"), None);
    }
}
