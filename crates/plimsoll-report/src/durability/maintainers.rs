// SPDX-License-Identifier: Apache-2.0
//! A loss that breaks a promise, as a text that the maintainers of a server can act on.

use super::name;
use plimsoll_core::durability::{DurabilityLosses, DurabilityResult, DurabilityRow};
use plimsoll_core::units;
use std::fmt::Write as _;

/// The text in Markdown; none where every setting kept its promise.
pub fn durability_issue(result: &DurabilityResult) -> Option<String> {
    let broken: Vec<&DurabilityRow> = result
        .rows
        .iter()
        .filter(|row| row.breaks_its_promise())
        .collect();
    if broken.is_empty() {
        return None;
    }
    let mut text = format!(
        "# {}: acknowledged writes are lost when the power fails\n",
        result.server
    );
    let version = match result.version.as_str() {
        "" => String::new(),
        version => format!(" ({version})"),
    };
    let _ = writeln!(text, "\n* Server: {}{version}", result.about);
    let _ = writeln!(
        text,
        "* One server on one machine, kernel {}",
        result.kernel
    );
    let _ = writeln!(
        text,
        "* Load: {} for {}, values counted as safe from the moment the client was told so",
        super::plural(result.clients.into(), "writer"),
        units::duration(result.load_time)
    );
    for row in broken {
        tell(&mut text, row, result);
    }
    text.push_str(
        "\n## The method\n\nThe data lie on a disk that logs every write and flush. After the load the contents of \
         the disk at an instant are made from that log, the server is started on them, and every value that had been \
         acknowledged before that instant is read. Copies on other nodes are left out of account.\n",
    );
    Some(text)
}

fn tell(text: &mut String, row: &DurabilityRow, result: &DurabilityResult) {
    let _ = writeln!(text, "\n## {}\n", name(row, result));
    let promise = match (row.may_lose.as_str(), row.promised) {
        ("", _) => "no acknowledged write is lost".to_owned(),
        (allowed, Some(window)) => {
            format!("{allowed}; nothing older than {}", units::duration(window))
        }
        (allowed, None) => allowed.to_owned(),
    };
    let _ = writeln!(text, "Expected: {promise}.\n");
    let lossy = row
        .losses
        .iter()
        .filter(|losses| row.breaks_its_promise_by(losses));
    for losses in lossy {
        let _ = writeln!(text, "{}", found(losses));
    }
    let settings: Vec<String> = row
        .settings
        .iter()
        .map(|(name, value)| format!(" --set '{name}={value}'"))
        .collect();
    let _ = writeln!(
        text,
        "\nTo repeat it:\n\n    plimsoll durability '{}'{} --cut-disks {} --clients {} --for {}ms --seed {} --blocks 0",
        result.server,
        settings.concat(),
        result.cut_disks.name(),
        result.clients,
        result.load_time.0 / 1_000_000,
        result.seed
    );
}

fn found(losses: &DurabilityLosses) -> String {
    let kinds: Vec<String> = losses
        .flaws
        .iter()
        .map(|(flaw, states)| format!("{flaw} in {states}"))
        .collect();
    let mut text = format!(
        "* {}: {} of {} states lost acknowledged writes, in {} of {} loads ({}).",
        losses.model.describe(),
        losses.states_with_losses,
        losses.states,
        losses.loads_with_losses,
        losses.loads,
        kinds.join(", ")
    );
    if let Some(window) = losses.window {
        let _ = write!(
            text,
            " The oldest lost write was acknowledged {} before the cut.",
            units::duration(window)
        );
    }
    for (what, words) in [("First example", &losses.example), ("Cause", &losses.cause)] {
        if !words.is_empty() {
            let _ = write!(text, " {what}: {}.", words.trim_end_matches('.'));
        }
    }
    text
}
