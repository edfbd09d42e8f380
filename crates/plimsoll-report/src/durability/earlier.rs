// SPDX-License-Identifier: Apache-2.0
//! The results of the same server before this one.

use super::{gain_cells, loss_cell, losses, name, oldest_loss, time_cell};
use crate::model::{ReportItem, ReportSection, ReportTable, ReportTableCell};
use plimsoll_core::durability::{DeviceModel, DurabilityLosses, DurabilityResult, DurabilityRow};

/// Behind a loss: that the same setting lost nothing the last time, if so.
pub(super) fn earlier_words(
    result: &DurabilityResult,
    row: &DurabilityRow,
    found: &DurabilityLosses,
) -> String {
    // One disk of several that loses its power is another question.
    let alike = |earlier: &&DurabilityResult| earlier.cut_disks == result.cut_disks;
    let last = result
        .earlier
        .iter()
        .rev()
        .filter(alike)
        .find_map(|earlier| {
            let row = earlier.rows.iter().find(|old| old.settings == row.settings);
            Some((earlier, losses(row?, found.model)?))
        });
    match last {
        Some((earlier, before)) if before.states_with_losses == 0 => format!(
            "; it lost nothing in {} on {}{}",
            before.states,
            earlier.began_at,
            of_version(earlier)
        ),
        _ => String::new(),
    }
}

fn of_version(result: &DurabilityResult) -> String {
    match result.version.as_str() {
        "" => String::new(),
        version => format!(" ({version})"),
    }
}

/// A row for each setting of each result, the newest first; none where there is one result.
pub(super) fn earlier_section(result: &DurabilityResult) -> Option<ReportSection> {
    if result.earlier.is_empty() {
        return None;
    }
    let columns = [
        "when",
        "version",
        "setting",
        "#volatile cache",
        "#protected cache",
        "#server killed",
        "#oldest loss",
        "#writes/s",
        "#times as many as the first setting",
    ];
    let mut table = ReportTable::new("Power cuts with losses, result by result", &columns);
    for one in std::iter::once(result).chain(result.earlier.iter().rev()) {
        for row in &one.rows {
            let mut cells = vec![
                ReportTableCell::new(one.began_at.clone()),
                ReportTableCell::new(one.version.clone()),
                ReportTableCell::new(name(row, one)),
            ];
            cells.extend(DeviceModel::ALL.map(|model| loss_cell(losses(row, model))));
            cells.push(time_cell(oldest_loss(row)));
            cells.extend(gain_cells(row, one.clients));
            table.rows.push(cells);
        }
    }
    Some(ReportSection {
        items: vec![ReportItem::Table(table)],
        ..ReportSection::new("Earlier results", "").at("earlier")
    })
}
