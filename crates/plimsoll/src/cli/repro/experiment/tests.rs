// SPDX-License-Identifier: Apache-2.0
//! The experiments that the program has in it are whole, and their figures are the published ones.

use super::*;
use crate::cli::Cli;
use crate::cli::trust::TrustArgs;
use plimsoll_core::experiment::ExperimentTable;
use plimsoll_run::campaign_file::{CampaignFile, WorkloadVariant};
use std::io::Write as _;

fn embedded() -> impl Iterator<Item = (&'static str, ExperimentFile)> {
    EMBEDDED
        .iter()
        .map(|one| (one.name, one.read().unwrap().file))
}

#[test]
fn embedded_experiments_are_whole_and_bear_their_names() {
    for (name, file) in embedded() {
        assert_eq!(name, file.name);
        assert!(!file.question.is_empty(), "{name}");
        for profile in [ExperimentProfile::Quick, ExperimentProfile::Full] {
            let plan = plan(&file, profile, &[]);
            assert!(plan.contains("In all about"), "{plan}");
        }
    }
}

/// Files that commands name are embedded, and campaigns among them are read.
#[test]
fn files_beside_an_experiment_are_there() {
    for one in EMBEDDED {
        let file = one.read().unwrap().file;
        let commands = file.part.iter().flat_map(|part| [&part.quick, &part.full]);
        let runs = commands.flatten().map(|command| &command.run);
        let pairs = runs.flat_map(|words| words.windows(2));
        for (option, word) in pairs.map(|pair| (&pair[0], &pair[1])) {
            let Some(beside) = word.strip_prefix("./") else {
                continue;
            };
            assert!(
                one.files.iter().any(|(name, _)| *name == beside),
                "{}: {word}",
                one.name
            );
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../examples/experiments")
                .join(one.name)
                .join(beside);
            assert!(path.is_file(), "{}: {word}", one.name);
            if option == "--campaign" {
                let (_, spec) = CampaignFile::read(&path).unwrap();
                assert_eq!(spec.problems(), [], "{word}");
                // A campaign that starts programs would be refused: the command of an experiment cannot give
                // --trust.
                for variant in WorkloadVariant::all(&spec) {
                    let request =
                        crate::cli::measure::asked(&variant.text, None, &TrustArgs::default())
                            .unwrap();
                    let started = plimsoll_run::request::commands_of(&request);
                    assert!(started.is_empty(), "{word}: {started:?}");
                }
            }
        }
    }
}

/// The commands of parts are commands that there are.
#[test]
fn the_words_of_parts_are_read_by_the_command_line() {
    use clap::CommandFactory as _;
    for (name, file) in embedded() {
        for part in &file.part {
            for profile in [ExperimentProfile::Quick, ExperimentProfile::Full] {
                let Some(command) = part.command(profile) else {
                    continue;
                };
                let all = command
                    .before
                    .iter()
                    .chain([&command.run])
                    .chain(&command.after);
                for words in all {
                    let program = std::iter::once("plimsoll".to_owned());
                    let words = program.chain(words.iter().cloned());
                    let read = Cli::command().try_get_matches_from(words);
                    let read = read.map(drop).map_err(|error| error.to_string());
                    assert_eq!(read, Ok(()), "{name}, {}", part.name);
                }
            }
        }
    }
}

/// A row as the file of published figures has it.
fn rows(table: &ExperimentTable) -> impl Iterator<Item = Vec<String>> {
    table.row.iter().map(|row| {
        let run = row.run.map(|run| run.to_string());
        let labels = row.labels.iter().cloned().chain(run);
        let figures = row.figures().map(|text| text.trim_matches('-').to_owned());
        labels.chain(figures).collect()
    })
}

/// The fields of a line of CSV; commas inside quotes part nothing.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

#[test]
fn the_figures_are_the_published_ones() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(own), PathBuf::from);
    let folder = root.join("published");
    if !folder.is_dir() {
        let text = "SKIPPED: the_figures_are_the_published_ones: no published figures; set PLIMSOLL_TEST_DATA";
        writeln!(std::io::stderr(), "{text}").unwrap();
        return;
    }
    let mut typed = 0;
    for (name, file) in embedded() {
        let mut sources: Vec<&String> = file
            .table
            .iter()
            .filter_map(|t| t.typed_from.as_ref())
            .collect();
        sources.dedup();
        for source in sources {
            let text = std::fs::read_to_string(folder.join(source)).unwrap();
            let published: Vec<Vec<String>> = text.lines().skip(1).map(fields).collect();
            let tables = file
                .table
                .iter()
                .filter(|t| t.typed_from.as_ref() == Some(source));
            let ours: Vec<Vec<String>> = tables.flat_map(rows).collect();
            assert_eq!(ours, published, "{name}: {source}");
            typed += ours.len();
        }
    }
    assert!(typed > 0);
}
