// SPDX-License-Identifier: Apache-2.0
//! Recordings on nodes: one file, or archive, for each.

use super::screen::CaptureScreen;
use super::{CaptureDestination, RecordArgs};
use crate::cli::inventory;
use plimsoll_agent::recorder::CaptureSink as _;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_console::terminal;
use plimsoll_core::load::AgentEvent;
use plimsoll_core::recording::CaptureStats;
use plimsoll_run::campaign::ClientLoadGenerators;
use plimsoll_run::recorder::CaptureOutput;
use std::path::{Path, PathBuf};

/// Recording of one node.
struct NodeCapture {
    place: CaptureDestination,
    output: CaptureOutput,
    /// Last tally that the node reported.
    tally: CaptureStats,
}

pub(super) fn record(args: &RecordArgs) -> Result<(), CliError> {
    let Some(file) = &args.on else {
        return Err(CliError::invalid(
            "--nodes needs --on FILE.toml, the inventory that names its nodes",
        )
        .hint("docs/stacks/inventory.md describes the file"));
    };
    let nodes = inventory::read(file)?.nodes(&args.nodes);
    let nodes = nodes.map_err(doing(CliExitCode::Usage, "find the nodes of --nodes"))?;
    let mut parts = Vec::new();
    for node in &nodes {
        let place = CaptureDestination {
            node: Some(node.name.clone()),
            file: named(&args.output(), &node.name, nodes.len()),
        };
        place.check(args)?;
        parts.push(NodeCapture {
            output: place.output(args),
            place,
            tally: CaptureStats::default(),
        });
    }
    let stop = context::stop_flag()?;
    let mut screen = CaptureScreen::new(args.json, parts.len());
    let loaders = ClientLoadGenerators::reach(nodes)?;
    let recorded = loaders.record(&args.task(), &stop, &mut |n, told| {
        let part = &mut parts[n];
        match told {
            // Not before: a node that refuses never began.
            AgentEvent::Recording(head) => {
                part.output.begin(*head)?;
                screen.begin(&args.what(part.place.node.as_deref()), &part.place.file);
                Ok(())
            }
            AgentEvent::Recorded(recorded, tally) => {
                screen.tell(n, &recorded, &tally);
                part.output.take(*recorded, &tally)?;
                part.tally = *tally;
                Ok(())
            }
            // Nothing else is reported of a recording.
            _ => Ok(()),
        }
    });
    screen.end();
    // The agents clean up and end before their results are reported.
    drop(loaders);
    let (ended, failure) = match recorded {
        Ok(ended) => (ended, None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    finish(args, parts, ended, failure)
}

/// Ends the files of all, says what came of each, and gives the first failure.
fn finish(
    args: &RecordArgs,
    parts: Vec<NodeCapture>,
    ended: Vec<Result<CaptureStats, CliError>>,
    mut failure: Option<CliError>,
) -> Result<(), CliError> {
    let mut ended = ended
        .into_iter()
        .map(Some)
        .chain(std::iter::repeat_with(|| None));
    let mut told = Vec::new();
    for part in parts {
        let (tally, lost) = match ended.next().flatten() {
            Some(Ok(tally)) => (tally, None),
            Some(Err(failure)) => (part.tally, Some(failure)),
            None => (part.tally, None),
        };
        if !part.output.has_begun() {
            failure = failure.or(lost);
            continue;
        }
        match part.place.end(args, part.output, &tally) {
            Ok(mut shown) => {
                shown["incomplete"] = lost.as_ref().map(CliError::text).into();
                told.push(shown);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
        let kept = format!(
            "what had come of it is kept in {}",
            part.place.file.display()
        );
        let lost = lost.map(|lost| lost.hint(kept));
        failure = failure.or(lost);
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "recordings": told }));
    }
    failure.map_or(Ok(()), Err)
}

/// The name of one node's recording: that which was asked for, with the node's where there are
/// several.
fn named(asked: &Path, node: &str, count: usize) -> PathBuf {
    if count == 1 {
        return asked.to_owned();
    }
    let stem = asked.file_stem().unwrap_or_default().to_string_lossy();
    let name = match asked.extension() {
        Some(ending) => format!("{stem}-{node}.{}", ending.to_string_lossy()),
        None => format!("{stem}-{node}"),
    };
    asked.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_nodes_has_a_name_of_its_own() {
        for (asked, count, expect) in [
            ("nas", 1, "nas"),
            ("d/nas", 2, "d/nas-n1"),
            ("d/sda.parquet", 2, "d/sda-n1.parquet"),
        ] {
            assert_eq!(named(Path::new(asked), "n1", count), Path::new(expect));
        }
    }
}
