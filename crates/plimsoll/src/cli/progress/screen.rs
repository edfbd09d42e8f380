// SPDX-License-Identifier: Apache-2.0
//! The state of a run drawn as rows of cells: pure, so that tests see what a terminal would.

use super::state::{ArmActivity, RunProgressState};
use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::event::ArmEntry;
use plimsoll_core::num::{floor_u64, to_usize};
use plimsoll_core::text::printable;
use plimsoll_core::units::{self, Nanos, clock_duration, three_digits};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table, Widget};
use std::time::Duration;

/// Below this width there is no column of bandwidth.
const WIDE_MIN: u16 = 80;
/// Widest column of names.
const NAME_MAX: u16 = 40;

const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

/// The screen with `width` columns, and at most `height` rows.
pub(super) fn drawn(
    state: &RunProgressState,
    elapsed: Duration,
    (width, height): (u16, u16),
    has_key: bool,
) -> Buffer {
    let arms = arm_rows(state, width);
    let verdicts = verdict_rows(state);
    let mut tail: Vec<Line<'_>> = state
        .notes
        .iter()
        .map(|n| Line::raw(printable(n)))
        .collect();
    if has_key {
        tail.push(Line::styled(
            "press q to end the run and report what was measured",
            FAINT,
        ));
    }
    let tables = [arms.len(), verdicts.len()].map(|rows| match rows {
        0 => 0,
        rows => u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(1),
    });
    let tail_rows = u16::try_from(tail.len()).unwrap_or(u16::MAX);
    let wanted = [2, tables[0], tables[1], tail_rows];
    let all = wanted.into_iter().fold(0, u16::saturating_add);
    let area = Rect::new(0, 0, width, all.min(height));
    let mut buffer = Buffer::empty(area);
    let mut top = 0;
    let mut next = |rows: u16| {
        let at = Rect::new(0, top, width, rows).intersection(area);
        top = top.saturating_add(rows);
        at
    };
    let [head, bar] = [next(1), next(1)];
    heading(state, elapsed, head, &mut buffer);
    progress(state, bar, &mut buffer);
    arm_table(arms, state, width).render(next(tables[0]), &mut buffer);
    verdict_table(verdicts, width).render(next(tables[1]), &mut buffer);
    for line in tail {
        line.render(next(1), &mut buffer);
    }
    buffer
}

/// Current work on the left, progress on the right; text that does not fit ends with `…`.
fn heading(state: &RunProgressState, elapsed: Duration, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let clock = |time: Duration| clock_duration(Nanos::from_secs_f64(time.as_secs_f64().round()));
    let far = match (state.planned, state.left(elapsed)) {
        (Some(planned), Some(left)) => {
            format!("{}/{planned} · ETA {}", state.done, clock(left))
        }
        (Some(planned), None) => format!("{}/{planned} · {}", state.done, clock(elapsed)),
        (None, _) => format!("{} trials · {}", state.done, clock(elapsed)),
    };
    let phase = state.now.as_ref().map(|(_, phase)| phase.name());
    let phase = phase.map_or(String::new(), |phase| format!(" · {phase}"));
    let far = Line::styled(far, STRONG);
    let room = usize::from(area.width).saturating_sub(far.width() + 2);
    let left = cut(
        &printable(&state.place()),
        room.saturating_sub(phase.chars().count()),
    );
    Line::raw(left + &phase).render(area, buffer);
    far.right_aligned().render(area, buffer);
}

/// A text, cut to fit into `columns` columns.
fn cut(text: &str, columns: usize) -> String {
    if Span::raw(text).width() <= columns {
        return text.to_owned();
    }
    let mut shown = text.to_owned();
    while !shown.is_empty() && Span::raw(&*shown).width() + 1 > columns {
        shown.pop();
    }
    shown + "…"
}

/// A bar of trials.
fn progress(state: &RunProgressState, area: Rect, buffer: &mut Buffer) {
    let Some(planned) = state.planned.filter(|planned| *planned > 0) else {
        Line::styled("─".repeat(area.width.into()), FAINT).render(area, buffer);
        return;
    };
    let share = state.done as f64 / planned as f64;
    let full = to_usize(floor_u64(f64::from(area.width) * share));
    let full = full.min(area.width.into());
    Line::from(vec![
        Span::styled("━".repeat(full), Style::new().fg(Color::Cyan)),
        Span::styled("─".repeat(usize::from(area.width) - full), FAINT),
    ])
    .render(area, buffer);
}

/// Columns of names: as wide as the longest, within limits.
fn name_width(state: &RunProgressState, width: u16) -> u16 {
    let names = state.manifest.arms.iter().map(arm_name);
    let longest = names.map(|name| Span::raw(name).width() + 2).max();
    let longest = u16::try_from(longest.unwrap_or(0)).unwrap_or(NAME_MAX);
    longest.clamp(8, NAME_MAX).min(width / 3)
}

fn arm_name(arm: &ArmEntry) -> String {
    match &arm.control_of {
        Some(of) => printable(&format!("{of} (A/A control)")),
        None => printable(&arm.name),
    }
}

/// A row for each arm that has been seen: mark and name, rates, bandwidth, p99, and its line.
fn arm_rows(state: &RunProgressState, width: u16) -> Vec<Row<'static>> {
    let is_now = |arm: &ArmEntry| {
        let now = state.now.as_ref();
        now.is_some_and(|(trial, _)| trial.arm == arm.name)
    };
    let row = |arm: &ArmEntry| {
        let mark = if is_now(arm) { "▸ " } else { "  " };
        let room = usize::from(name_width(state, width)).saturating_sub(2);
        let empty = ArmActivity::default();
        let known = state.arms.get(&arm.name).unwrap_or(&empty);
        let rate = known.ops_per_s.back();
        let has_moved = known.bytes_per_s > 0.0;
        let mut cells = vec![
            Line::raw(format!("{mark}{}", cut(&arm_name(arm), room))),
            right(rate.map(|rate| units::rate(*rate))),
            right(known.p99.map(units::duration)),
        ];
        if width >= WIDE_MIN {
            cells.push(right(
                has_moved.then(|| units::throughput(known.bytes_per_s)),
            ));
        }
        let room = line_width(state, width);
        let skipped = known.ops_per_s.len().saturating_sub(room);
        let shown: Vec<f64> = known.ops_per_s.iter().skip(skipped).copied().collect();
        cells.push(Line::styled(
            units::sparkline(&shown),
            Style::new().fg(Color::Cyan),
        ));
        let style = if is_now(arm) { STRONG } else { Style::new() };
        Row::new(cells).style(style)
    };
    state.manifest.arms.iter().map(row).collect()
}

fn right(text: Option<String>) -> Line<'static> {
    Line::raw(text.unwrap_or_else(|| "–".into())).right_aligned()
}

/// Columns for the line of an arm.
fn line_width(state: &RunProgressState, width: u16) -> usize {
    let figures = if width >= WIDE_MIN {
        9 + 10 + 12 + 4
    } else {
        9 + 10 + 3
    };
    usize::from(width.saturating_sub(name_width(state, width) + figures))
}

fn arm_table(rows: Vec<Row<'static>>, state: &RunProgressState, width: u16) -> Table<'static> {
    let name = Constraint::Length(name_width(state, width));
    let (rate, p99, bandwidth) = (
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(12),
    );
    let rest = Constraint::Fill(1);
    let right = |text: &'static str| Line::raw(text).right_aligned();
    let (widths, titles) = match width >= WIDE_MIN {
        true => (
            vec![name, rate, p99, bandwidth, rest],
            vec![
                Line::raw("  system"),
                right("ops/s"),
                right("p99"),
                right("bandwidth"),
                Line::raw("ops/s of the last seconds"),
            ],
        ),
        false => (
            vec![name, rate, p99, rest],
            vec![
                Line::raw("  system"),
                right("ops/s"),
                right("p99"),
                Line::raw("last seconds"),
            ],
        ),
    };
    Table::new(rows, widths).header(Row::new(titles).style(FAINT))
}

/// Results so far: verdicts as they form, or ranges of load lines. Each row has its subject, the
/// estimate, the metric, and the verdict with its colour.
fn verdict_rows(state: &RunProgressState) -> Vec<[Span<'static>; 4]> {
    let lines = state.lines().map(|(workload, arm, line)| {
        let [low, high] = [line.low, line.high].map(three_digits);
        [
            Span::raw(printable(&format!("  {arm} on {workload}"))),
            Span::raw(format!("×{low} to ×{high}")),
            Span::raw("load line"),
            Span::raw(""),
        ]
    });
    let shown =
        |row: &&ArmComparison| !row.is_control || row.verdict == ComparisonVerdict::Different;
    let verdicts = state.comparisons.iter().filter(shown).map(|row| {
        let name = match row.is_control {
            true => format!("  {} (A/A control) on {}", row.base, row.workload),
            false => format!("  {} on {}", row.arm, row.workload),
        };
        let ratio = row.ratio.map_or_else(
            || "too few blocks".to_owned(),
            |ratio| {
                let [estimate, low, high] =
                    [ratio.estimate, ratio.low, ratio.high].map(three_digits);
                format!("{estimate}× ({low} to {high})")
            },
        );
        let (verdict, colour) = verdict(row);
        [
            Span::raw(printable(&name)),
            Span::raw(ratio),
            Span::raw(row.metric.name()),
            Span::styled(verdict, Style::new().fg(colour)),
        ]
    });
    verdicts.chain(lines).collect()
}

/// The verdict in a word or two, and its colour.
fn verdict(row: &ArmComparison) -> (String, Color) {
    let name = row.verdict.name();
    let is_more = row.ratio.is_some_and(|ratio| ratio.estimate > 1.0);
    match row.verdict {
        ComparisonVerdict::Different if is_more == row.metric.more_is_better() => {
            (format!("{name}: better"), Color::Green)
        }
        ComparisonVerdict::Different => (format!("{name}: worse"), Color::Red),
        ComparisonVerdict::CannotCarry => (name.to_owned(), Color::Red),
        ComparisonVerdict::Equivalent => (name.to_owned(), Color::Green),
        ComparisonVerdict::Inconclusive => (name.to_owned(), Color::Reset),
    }
}

/// Widths of the estimate, the metric and the verdict.
const ESTIMATE: [u16; 3] = [24, 22, 18];

fn verdict_table(rows: Vec<[Span<'static>; 4]>, width: u16) -> Table<'static> {
    let is_wide = width >= WIDE_MIN;
    let [estimate, metric, verdict] = ESTIMATE;
    let figures = estimate + verdict + if is_wide { metric + 3 } else { 2 };
    let longest = rows.iter().map(|row| row[0].width()).max().unwrap_or(0);
    let longest = u16::try_from(longest).unwrap_or(width);
    let name = longest.max(20).min(width.saturating_sub(figures));
    let mut widths = vec![name, estimate, metric, verdict];
    let mut titles = vec![
        "  so far".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    let rows = rows.into_iter().map(|[about, ratio, metric, verdict]| {
        let about = Span::raw(cut(&about.content, name.into()));
        match is_wide {
            true => Row::new(vec![about, ratio, metric, verdict]),
            false => Row::new(vec![about, ratio, verdict]),
        }
    });
    if !is_wide {
        widths.remove(2);
        titles.remove(2);
    }
    Table::new(rows, widths.into_iter().map(Constraint::Length))
        .header(Row::new(titles).style(FAINT))
}
