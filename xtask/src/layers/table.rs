// SPDX-License-Identifier: Apache-2.0
//! Reads the tables of ARCHITECTURE.md that the code is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Arrows;

/// The modules of each crate, floor by floor, the lowest first.
pub(super) type CrateFloors = BTreeMap<String, Vec<Vec<String>>>;

/// Tables of the page.
#[derive(Debug, PartialEq)]
pub(super) struct LayerTables {
    pub(super) arrows: Arrows,
    pub(super) floors: CrateFloors,
}

pub(super) fn read(root: &Path) -> Result<LayerTables, String> {
    let path = root.join("ARCHITECTURE.md");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("ARCHITECTURE.md: {error}"))
}

fn parse(text: &str) -> Result<LayerTables, String> {
    let mut arrows = Arrows::new();
    for (names, uses) in rows(text, "Arrows")? {
        let uses: BTreeSet<String> = match uses.as_str() {
            "–" => BTreeSet::new(),
            _ => list(&uses),
        };
        for name in list(&names) {
            arrows.insert(name, uses.clone());
        }
    }
    let mut floors = CrateFloors::new();
    for (name, of_crate) in rows(text, "Floors")? {
        let split = of_crate
            .split('/')
            .map(|floor| list(floor).into_iter().collect());
        floors.insert(name, split.collect());
    }
    Ok(LayerTables { arrows, floors })
}

fn list(cell: &str) -> BTreeSet<String> {
    cell.split(',').map(|name| name.trim().to_owned()).collect()
}

/// The rows of the first table of a section, without its head.
fn rows(text: &str, section: &str) -> Result<Vec<(String, String)>, String> {
    let heading = format!("## {section}");
    let of_section = text.lines().skip_while(|line| **line != heading);
    let of_table = of_section
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let mut rows = Vec::new();
    // Its head and the line below it.
    for line in of_table.skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            [name, about] => rows.push((name.to_owned(), about.to_owned())),
            _ => return Err(format!("'{section}': a row has not two columns: {line}")),
        }
    }
    match rows.is_empty() {
        true => Err(format!("there is no table below '{heading}'")),
        false => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::arrows;
    use super::*;

    #[test]
    fn both_tables_are_read() {
        let text = "# A\n\n## Arrows\n\n| crate | may use |\n| --- | --- |\n| core, nfs | – |\n\
            | lab | core, nfs |\n\nText.\n\n## Floors\n\n| crate | floors |\n| --- | --- |\n\
            | lab | host / journal, raise / stacks |\n";
        let read = parse(text).unwrap();
        let expected = arrows(&[("core", &[]), ("nfs", &[]), ("lab", &["core", "nfs"])]);
        assert_eq!(read.arrows, expected);
        let floors = [vec!["host"], vec!["journal", "raise"], vec!["stacks"]];
        assert_eq!(read.floors["lab"], floors);
        assert!(parse("## Arrows\n").unwrap_err().contains("no table"));
        let three = text.replace("| lab | host", "| lab | more | host");
        assert!(parse(&three).unwrap_err().contains("two columns"));
    }
}
