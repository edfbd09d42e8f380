// SPDX-License-Identifier: Apache-2.0
//! Charts in characters.

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::text::printable;
use plimsoll_core::units::sparkline;

use super::Page;
use crate::model::{
    CentralTendency, DotChart, ForestChart, ForestRow, ReportSeverity, ReportTable,
    ReportTableCell, TimeSeriesChart, TimelineChart, TimelineLine,
};
use crate::words;

/// Room for the names of arms.
const NAMES: usize = 22;

/// A name cut or filled to the room for names.
fn name(text: &str) -> String {
    let text = printable(text);
    let length = text.chars().count();
    if length > NAMES {
        let mut cut: String = text.chars().take(NAMES - 1).collect();
        cut.push('…');
        cut
    } else {
        format!("{text}{}", " ".repeat(NAMES - length))
    }
}

impl Page {
    pub(super) fn forest(&mut self, forest: &ForestChart) {
        let rows = || forest.groups.iter().flat_map(|g| &g.rows);
        let texts = rows()
            .map(|row| row.text.chars().count())
            .max()
            .unwrap_or(0);
        let room = self.width.saturating_sub(NAMES + texts + 6);
        if room < 20 {
            return;
        }
        let margin = 1.0 + forest.margin;
        let (mut from, mut to) = (1.0 / margin.powi(2), margin.powi(2));
        for ratio in rows().filter_map(|row| row.ratio) {
            from = from.min(ratio.low.max(ratio.estimate / 3.0));
            to = to.max(ratio.high.min(ratio.estimate * 3.0));
        }
        let at = |value: f64| {
            let share = (value / from).ln() / (to / from).ln();
            to_usize(round_u64(share.clamp(0.0, 1.0) * (room - 1) as f64))
        };
        self.line("");
        let caption = format!(
            "Times as good as {}, better → (logarithmic; ░: margin of ±{})",
            forest.base,
            words::percent_whole(forest.margin)
        );
        let caption = self.paint(ReportSeverity::Plain, true, &caption);
        self.line(&caption);
        for group in &forest.groups {
            let title = format!("{}: {}", group.title, group.metric);
            self.wrapped(ReportSeverity::Muted, "", &title);
            for row in &group.rows {
                let bar = bar(row, room, (at(1.0 / margin), at(1.0), at(margin)), &at);
                let bar = self.paint(row.tone, false, &bar);
                let text = printable(&row.text);
                self.line(&format!("  {}  {bar}  {text}", name(&row.label)));
            }
        }
    }

    pub(super) fn dots(&mut self, dots: &DotChart) {
        let mut columns = vec![dots.row.to_owned()];
        columns.extend(dots.panels.iter().map(|p| format!("#{}", p.title)));
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let middle = match dots.middle {
            CentralTendency::Mean => "Mean",
            CentralTendency::Median => "Median",
        };
        let title = format!(
            "{middle} over {each}s (range over {each}s)",
            each = dots.each
        );
        let mut table = ReportTable::new(&title, &columns);
        for (i, ink) in dots.arms.iter().enumerate() {
            let mut row = vec![ReportTableCell::new(ink.label())];
            for panel in &dots.panels {
                let values: Vec<f64> = panel
                    .values
                    .get(i)
                    .into_iter()
                    .flatten()
                    .map(|v| v.1)
                    .collect();
                let mut cell = words::spread(&values, panel.quantity);
                let middle = dots.middle.of(values);
                cell.text = middle.map_or("–".into(), |middle| panel.quantity.show(middle));
                row.push(cell);
            }
            table.rows.push(row);
        }
        self.table(&table);
    }

    pub(super) fn series(&mut self, title: &str, series: &TimeSeriesChart) {
        self.line("");
        let caption = self.paint(ReportSeverity::Plain, true, title);
        self.line(&caption);
        for panel in &series.panels {
            let first = panel.blocks.first().map(|(_, line)| line);
            let line = if panel.middle.is_empty() {
                first
            } else {
                Some(&panel.middle)
            };
            let Some(line) = line.filter(|l| !l.is_empty()) else {
                continue;
            };
            let values: Vec<f64> = line.iter().map(|p| p.1).collect();
            let room = self.width.saturating_sub(NAMES + 30).clamp(10, 60);
            let each = values.len().div_ceil(room).max(1);
            let mean = |c: &[f64]| c.iter().sum::<f64>() / c.len() as f64;
            let shown: Vec<f64> = values.chunks(each).map(mean).collect();
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(0.0, f64::max);
            let range = words::between(min, max, series.quantity);
            let name = name(&panel.ink.name);
            self.line(&format!("  {name}  {}  {range}", sparkline(&shown)));
        }
    }
}

impl Page {
    /// Every line by its highest values.
    pub(super) fn timeline(&mut self, title: &str, timeline: &TimelineChart) {
        self.line("");
        let caption = self.paint(ReportSeverity::Plain, true, title);
        self.line(&caption);
        let room = self.width.saturating_sub(NAMES + 20).clamp(10, 80);
        for panel in &timeline.panels {
            for line in &panel.lines {
                let columns = columns(line, timeline.length_s, room);
                let highest = columns.iter().copied().fold(0.0, f64::max);
                let name = name(&match panel.lines.len() {
                    1 => panel.title.clone(),
                    _ => format!("{}, {}", panel.title, line.ink.name),
                });
                let highest = panel.quantity.show(highest);
                self.line(&format!("  {name}  {}  ≤ {highest}", sparkline(&columns)));
            }
        }
    }
}

/// The highest value in each of `room` equal parts of the time; nothing counts as 0.
fn columns(line: &TimelineLine, length_s: f64, room: usize) -> Vec<f64> {
    let steps = match line.peaks.is_empty() {
        true => &line.steps,
        false => &line.peaks,
    };
    let room = room.min(steps.len()).max(1);
    let mut columns = vec![0.0f64; room];
    for (from, to, value) in steps {
        let middle = f64::midpoint(*from, *to);
        let place = plimsoll_core::num::ratio(middle, length_s) * room as f64;
        let place = to_usize(plimsoll_core::num::floor_u64(place)).min(room - 1);
        columns[place] = columns[place].max(*value);
    }
    columns
}

/// `   ░├──┊░──●────┤  `, with the margin as shade and 1 as a dotted line.
fn bar(
    row: &ForestRow,
    room: usize,
    (low, one, high): (usize, usize, usize),
    at: &dyn Fn(f64) -> usize,
) -> String {
    let mut cells = vec![' '; room];
    cells[low..=high].fill('░');
    cells[one] = '┊';
    if let Some(ratio) = row.ratio {
        let (from, to) = (at(ratio.low), at(ratio.high));
        cells[from..=to].fill('─');
        cells[from] = '├';
        cells[to] = '┤';
        cells[at(ratio.estimate)] = '●';
    }
    cells.into_iter().collect()
}
