// SPDX-License-Identifier: Apache-2.0
//! A screen of cells as rows of text for a terminal.

use plimsoll_console::terminal::ScreenRow;
use ratatui::buffer::{Buffer, Cell, CellWidth};
use ratatui::style::{Color, Modifier};

/// Rows of cells as text, without blanks at their ends.
pub(super) fn rows(screen: &Buffer, is_coloured: bool) -> Vec<ScreenRow> {
    let area = screen.area;
    let row = |y: u16| {
        let (mut text, mut blanks, mut width, mut skipped) = (String::new(), 0, 0, 0);
        let mut style = String::new();
        for x in 0..area.width {
            let cell = &screen[(x, y)];
            // A wide character covers the cells after it.
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            let columns = usize::from(cell.cell_width());
            skipped = columns.saturating_sub(1);
            if cell.symbol() == " " {
                blanks += 1;
                continue;
            }
            text.push_str(&" ".repeat(std::mem::take(&mut blanks)));
            let wanted = if is_coloured {
                sequence(cell)
            } else {
                String::new()
            };
            if wanted != style {
                text.push_str("\x1b[0m");
                text.push_str(&wanted);
                style = wanted;
            }
            text.push_str(cell.symbol());
            width = usize::from(x) + columns.max(1);
        }
        if !style.is_empty() {
            text.push_str("\x1b[0m");
        }
        ScreenRow { text, width }
    };
    (0..area.height).map(row).collect()
}

/// Escape sequence that sets the style of a cell; empty for plain text.
fn sequence(cell: &Cell) -> String {
    let mut codes = Vec::new();
    if cell.modifier.contains(Modifier::BOLD) {
        codes.push("1");
    }
    if cell.modifier.contains(Modifier::DIM) {
        codes.push("2");
    }
    match cell.fg {
        Color::Red => codes.push("31"),
        Color::Green => codes.push("32"),
        Color::Cyan => codes.push("36"),
        _ => {}
    }
    match codes.is_empty() {
        true => String::new(),
        false => format!("\x1b[{}m", codes.join(";")),
    }
}
