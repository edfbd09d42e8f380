// SPDX-License-Identifier: Apache-2.0
//! A reader of spreadsheets for tests: the cells of one sheet as texts.
//!
//! Knows what our files have, no more: parts packed by deflate, strings in a table of their own.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The cells of a sheet by their place (`B2`), numbers as they are written.
pub(crate) fn cells(path: &Path, sheet: &str) -> BTreeMap<String, String> {
    let file = std::fs::read(path).expect("the spreadsheet was written");
    let part = |name: &str| part(&file, name).unwrap_or_else(|| panic!("{name} is in the file"));
    let book = part("xl/workbook.xml");
    let names: Vec<&str> = elements(&book, "<sheet ")
        .map(|e| attribute(e, "name"))
        .collect();
    let number = names.iter().position(|name| *name == sheet);
    let number = number.unwrap_or_else(|| panic!("{sheet} is one of {names:?}")) + 1;
    let table = part("xl/sharedStrings.xml");
    let strings: Vec<&str> = elements(&table, "<si>")
        .map(|e| between(e, "<t", "</t>"))
        .collect();
    let xml = part(&format!("xl/worksheets/sheet{number}.xml"));
    let cells = elements(&xml, "<c ").map(|cell| {
        let value = match attribute(cell, "t") {
            "s" => {
                strings[between(cell, "<v>", "</v>")
                    .parse::<usize>()
                    .expect("a number")]
            }
            "inlineStr" => between(cell, "<t", "</t>"),
            _ => between(cell, "<v>", "</v>"),
        };
        (
            attribute(cell, "r").to_owned(),
            value.trim_start_matches('>').to_owned(),
        )
    });
    cells.collect()
}

/// Text after each start of an element, up to the next one.
fn elements<'a>(xml: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    xml.split(start).skip(1)
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let head = element.split('>').next().unwrap_or_default();
    between(
        &head[head.find(&format!("{name}=")).unwrap_or(head.len())..],
        "\"",
        "\"",
    )
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(start) else {
        return "";
    };
    rest.split_once(end).map_or("", |(inside, _)| inside)
}

/// A part of the file by its name, found through the directory at the end of the archive.
fn part(file: &[u8], name: &str) -> Option<String> {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
    let end = file.windows(4).rposition(|w| w == b"PK\x05\x06")?;
    let (mut at, entries) = (u32_at(end + 16), u16_at(end + 10));
    for _ in 0..entries {
        let (size, length) = (u32_at(at + 20), u16_at(at + 28));
        if &file[at + 46..at + 46 + length] == name.as_bytes() {
            let header = u32_at(at + 42);
            let data = header + 30 + u16_at(header + 26) + u16_at(header + 28);
            let mut text = String::new();
            let packed = &file[data..data + size];
            let mut reader = flate2::read::DeflateDecoder::new(packed);
            match u16_at(at + 10) {
                0 => text.push_str(std::str::from_utf8(packed).ok()?),
                _ => drop(reader.read_to_string(&mut text).ok()?),
            }
            return Some(text);
        }
        at += 46 + length + u16_at(at + 30) + u16_at(at + 32);
    }
    None
}
