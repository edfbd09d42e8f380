// SPDX-License-Identifier: Apache-2.0
//! How and where it was measured.

use plimsoll_core::comparison::StoppingRule;
use plimsoll_core::design::BlockDesign;
use plimsoll_core::units;

use super::next_steps;
use super::view::{ResultsView, grouped};
use crate::model::{ReportItem, ReportSection, ReportTable, ReportTableCell};
use crate::words;

/// The design and the rule of the verdicts.
pub(super) fn method(view: &ResultsView<'_>) -> ReportSection {
    let manifest = &view.results.manifest;
    let policy = &manifest.policy;
    let mut section = ReportSection::new("How it was measured", "").at("method");
    if view.is_comparison() {
        let confidence = words::percent_whole(policy.confidence);
        let alpha = words::percent_whole(1.0 - policy.confidence);
        let text = format!(
            "Randomised complete blocks: each block measures each system once under each \
             workload, in an order drawn from the recorded seed, so that drift of the machine \
             cannot favour one of them. Systems are compared within blocks, by what other \
             arrangements of their names within blocks would have shown, where there are enough, \
             else by a paired t interval, on the logarithms of their ratios; the second entry of \
             the base is averaged with the first. Equivalent: ratios beyond ±{} are rejected on \
             both sides, at {alpha} each. Otherwise different: a ratio of 1 is rejected at {alpha} \
             for all systems of a workload together (Holm), and the estimate lies beyond the A/A \
             bound if the A/A control itself differs. Otherwise inconclusive. The rule was fixed \
             before the first block; the interval of {confidence} holds per comparison.",
            words::percent_whole(policy.margin),
        );
        section.items.push(ReportItem::Text(text));
        let rule = stopping(policy.stopping, manifest.design.as_ref());
        section.items.push(ReportItem::Text(rule));
    }
    let facts = [
        ("Blocks planned", manifest.blocks.to_string()),
        ("Seed", manifest.seed.to_string()),
        ("Random numbers", manifest.generator.clone()),
        ("Began", manifest.began_at.clone()),
        ("Run", manifest.id.clone()),
    ];
    let design = manifest.design.iter().flat_map(design);
    let facts = facts
        .into_iter()
        .chain(design)
        .map(|(k, v)| (k.to_owned(), v));
    let systems = view.arms.iter().map(|arm| arm.arm);
    let systems = systems.filter(|arm| arm.control_of.is_none());
    let lines = systems.filter_map(|arm| {
        let line = arm.facts.as_ref()?.line();
        Some((format!("Target {}", arm.name), line))
    });
    let facts = facts
        .chain(lines)
        .chain(super::conditioning::facts(view))
        .chain(order(view))
        .collect();
    section.items.push(ReportItem::Facts(facts));
    let typed = manifest.command.get(1..).unwrap_or_default();
    if !typed.is_empty() {
        let command = next_steps::line(typed);
        section.items.push(ReportItem::Command(command));
    }
    section
}

/// Files that the whole report was read from, to be compared with a run folder at hand.
pub(super) fn raw_data(view: &ResultsView<'_>) -> Option<ReportSection> {
    let files = &view.results.files;
    let last = files.last()?;
    let lead = "Everything here is computed from these files of the run folder.";
    let mut section = ReportSection::new("Raw data", lead);
    section.page_only = true;
    let mut table = ReportTable::new("Files", &["File", "#Bytes", "SHA-256"]);
    for file in files {
        table.rows.push(vec![
            ReportTableCell::new(file.name.clone()),
            ReportTableCell::new(grouped(file.bytes)).value(file.bytes as f64),
            ReportTableCell::new(file.sha256.clone()),
        ]);
    }
    table.notes.push(
        "Of the first so many bytes: events are appended, and a run that goes on later adds to them.".into(),
    );
    section.items.push(ReportItem::Table(table));
    let check = format!("head -c {} {} | sha256sum", last.bytes, last.name);
    section.items.push(ReportItem::Command(check));
    Some(section)
}

/// When the blocks end, and what that promises.
fn stopping(rule: StoppingRule, design: Option<&BlockDesign>) -> String {
    let rule = match rule {
        StoppingRule::Fixed => {
            "Stopping rule: fixed. The number of blocks was known before they began."
        }
        StoppingRule::TwoStage => {
            "Stopping rule: two stages (Stein). The noise of the first blocks, not their \
             differences, set the number of blocks; tests and intervals are taken at 4.5 % instead \
             of 5 % for that look."
        }
        StoppingRule::Anytime => {
            "Stopping rule: anytime. After each block there is a look, by a test in which at most \
             5 % of all runs ever call equal systems different, however many looks there are; the \
             interval holds at all of them together."
        }
    };
    let ended = design.and_then(|design| design.ended);
    let ended = ended.map(|ended| format!(" The run {}.", ended.sentence()));
    let order = match design {
        Some(_) => {
            " Within blocks each system follows each other one equally often (Williams \
                    squares)."
        }
        None => "",
    };
    format!("{rule}{}{order}", ended.unwrap_or_default())
}

/// Goal of the block design, and the pilot, given values and forecast behind it.
fn design(design: &BlockDesign) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if design.pilot_blocks > 0 {
        facts.push(("Asked for", design.question()));
        facts.push(("Blocks of the pilot", design.pilot_blocks.to_string()));
    }
    if !design.given.is_empty() {
        facts.push(("Given, not designed", design.given.join(", ")));
    }
    if let Some(found) = &design.found {
        facts.push(("Design", found.forecast.clone()));
    }
    facts
}

/// The order in which trials ended, a line per block.
fn order(view: &ResultsView<'_>) -> Vec<(String, String)> {
    // Searches have no blocks: which trial comes next follows from those before.
    let in_blocks = view.results.trials.iter().filter(|t| t.load_line.is_none());
    let mut trials: Vec<_> = in_blocks.map(|t| &t.trial).collect();
    trials.sort_by_key(|t| t.place);
    let mut blocks: Vec<(u32, Vec<String>)> = Vec::new();
    let several = view.results.manifest.entries.len() > 1;
    for trial in trials {
        let name = if several {
            format!("{}/{}", view.name_of(&trial.arm), trial.workload)
        } else {
            view.name_of(&trial.arm)
        };
        match blocks.last_mut() {
            Some((block, names)) if *block == trial.block => names.push(name),
            _ => blocks.push((trial.block, vec![name])),
        }
    }
    let line = |(block, names): &(u32, Vec<String>)| {
        (format!("Order, block {}", block + 1), names.join(", "))
    };
    blocks.iter().map(line).collect()
}

/// Descriptions of the systems and their targets.
pub(super) fn arms(view: &ResultsView<'_>) -> ReportSection {
    let mut section = ReportSection::new("The systems", "").at("systems");
    section.page_only = true;
    let mut table = ReportTable::new(
        "Systems and their targets",
        &[
            "System",
            "Description",
            "Mounted",
            "#Size",
            "#Free",
            "#Direct I/O",
        ],
    );
    for arm in view.arms.iter().map(|a| a.arm) {
        let name = ReportTableCell::new(view.name_of(&arm.name)).detail(match &arm.control_of {
            Some(of) => format!("{of} measured a second time"),
            None => String::new(),
        });
        let made = ReportTableCell::new(arm.description.clone()).detail(arm.target.clone());
        let mut row = vec![name, made];
        if let Some(facts) = &arm.facts {
            let mounted = format!("{} on {}", facts.file_system, facts.mount_source);
            let mut detail = format!(
                "{}, device {}, {}",
                facts.mount_point, facts.device, facts.mount_options
            );
            if !facts.striping.is_empty() {
                detail = format!("{detail}; {}", facts.striping);
            }
            row.push(ReportTableCell::new(mounted).detail(detail));
            row.push(ReportTableCell::new(units::size(facts.size_bytes as f64)));
            row.push(ReportTableCell::new(units::size(facts.free_bytes as f64)));
            row.push(ReportTableCell::new(match facts.direct_align_bytes {
                0 => "no".into(),
                bytes => format!("by {}", units::size(f64::from(bytes))),
            }));
        } else {
            row.extend((0..4).map(|_| ReportTableCell::new("–")));
        }
        table.rows.push(row);
    }
    section.items.push(ReportItem::Table(table));
    section.items.extend(targets(view).map(ReportItem::Table));
    section
}

/// Storage targets of a system that are shown; the others are counted.
const TARGETS_SHOWN: usize = 64;

/// Storage targets that the systems are spread over, where known.
fn targets(view: &ResultsView<'_>) -> Option<ReportTable> {
    let mut table = ReportTable::new(
        "Storage targets of the systems",
        &["System", "Target", "#Size", "#Free"],
    );
    let once = view.arms.iter().map(|a| a.arm);
    for arm in once.filter(|arm| arm.control_of.is_none()) {
        let targets = arm.facts.as_ref().map_or(&[][..], |facts| &facts.targets);
        for (n, target) in targets.iter().take(TARGETS_SHOWN).enumerate() {
            let name = if n == 0 {
                arm.name.clone()
            } else {
                String::new()
            };
            let room = |bytes: u64| match target.is_away {
                true => ReportTableCell::new("away"),
                false => ReportTableCell::new(units::size(bytes as f64)),
            };
            let sizes = [room(target.size_bytes), room(target.free_bytes)];
            let names = [
                ReportTableCell::new(name),
                ReportTableCell::new(target.name.clone()),
            ];
            table.rows.push(names.into_iter().chain(sizes).collect());
        }
        if targets.len() > TARGETS_SHOWN {
            let more = words::count(targets.len() - TARGETS_SHOWN, "target");
            table.notes.push(format!("{}: and {more} more.", arm.name));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Where it was measured, and with which versions.
pub(super) fn machine(view: &ResultsView<'_>) -> ReportSection {
    let manifest = &view.results.manifest;
    let machine = &manifest.machine;
    let mut section = ReportSection::new("Machine and versions", "").at("machine");
    section.page_only = true;
    let governor = machine.cpu_governor.clone();
    let mut facts = vec![
        ("Host".to_owned(), machine.host.clone()),
        ("Kernel".to_owned(), machine.kernel.clone()),
        (
            "Processor".to_owned(),
            format!("{} × {}", machine.cpus, machine.cpu),
        ),
        ("Memory".to_owned(), units::size(machine.ram_bytes as f64)),
        (
            "Frequency governor".to_owned(),
            governor.unwrap_or_else(|| "none found".into()),
        ),
        ("Plimsoll".to_owned(), manifest.program.clone()),
    ];
    facts.extend(manifest.versions.clone());
    section.items.push(ReportItem::Facts(facts));
    section
}
