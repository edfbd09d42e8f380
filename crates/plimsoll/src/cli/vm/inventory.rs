// SPDX-License-Identifier: Apache-2.0
//! The inventory file of virtual machines.

use plimsoll_console::failure::CliError;
use plimsoll_core::plan::{NodeTransport, PlanNode};
use std::fmt::Write;
use std::path::Path;

/// How a file begins that was written here, and may be written over.
const FIRST_LINE: &str = "# Virtual machines of `plimsoll vm up`.";

/// Refuses to write over a file that is not ours.
pub(super) fn refuse_foreign(path: &Path) -> Result<(), CliError> {
    let found = std::fs::read_to_string(path);
    let is_ours = found.is_ok_and(|text| text.starts_with(FIRST_LINE));
    if is_ours || !path.exists() {
        return plimsoll_console::output::check_directory_of(path);
    }
    let text = format!(
        "write {}: it exists and is not of this command",
        path.display()
    );
    Err(CliError::usage(text).hint("name another file with -o"))
}

/// Text of the file.
pub(super) fn written(address_here: Option<&str>, nodes: &[PlanNode]) -> String {
    let mut text = format!("{FIRST_LINE} Its next one may replace this file.\n");
    let _ = match address_here {
        Some(address) => writeln!(text, "address = {}", quoted(address)),
        None => writeln!(text, "apart = true"),
    };
    for node in nodes {
        let NodeTransport::Agent(words) = &node.reach else {
            continue;
        };
        let _ = write!(
            text,
            "\n[[node]]\nname = {}\ncommand = [{}]\npower = [{}]\nfence = [{}]\nfaults = [{}]\n\
             address = {}\ndir = {}\n",
            quoted(&node.name),
            list(words),
            list(&node.power),
            list(&node.fence),
            list(&node.faults),
            quoted(&node.address),
            quoted(&node.dir)
        );
    }
    text
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(", ")
}

/// A string as the file has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_an_inventory() {
        let words = ["/a b/\"plimsoll\"", "vm", "shell", "n1"].map(String::from);
        let node = PlanNode {
            name: "n1".into(),
            reach: NodeTransport::Agent(words.to_vec()),
            address: "10.92.7.1".into(),
            dir: "/data/plimsoll".into(),
            free_bytes: 0,
            direct_align_bytes: 0,
            first_port: 0,
            power: words.to_vec(),
            fence: vec!["/lab/power".into()],
            fence_next: Vec::new(),
            faults: words[1..].to_vec(),
        };
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("lab.toml");
        refuse_foreign(&file).unwrap();
        let nodes = [node];
        std::fs::write(&file, written(None, &nodes)).unwrap();
        let read = super::super::super::inventory::read(&file).unwrap();
        assert_eq!((read.address, read.is_apart), (None, true));
        std::fs::write(&file, written(Some("10.92.7.254"), &nodes)).unwrap();
        let read = super::super::super::inventory::read(&file).unwrap();
        assert_eq!(read.address.as_deref(), Some("10.92.7.254"));
        assert!(!read.is_apart);
        assert_eq!(read.machines, nodes);
        refuse_foreign(&file).unwrap();
        std::fs::write(&file, "[[node]]\n").unwrap();
        assert!(refuse_foreign(&file).is_err());
    }
}
