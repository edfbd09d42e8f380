// SPDX-License-Identifier: Apache-2.0
//! `plimsoll import`: results that other programs printed become a run folder like any other.
//!
//! Everything is read before anything is written: a folder with half of the results would look
//! like a whole one.

use plimsoll_agent::run_id;
use plimsoll_archive::RunFolderWriter;
use plimsoll_classics::originals::{self, ProgramOutputFormat, ProgramOutputResult};
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    ArmEntry, GeneratorStats, OpStats, RunEvent, RunFolderContents, RunListener, RunManifest,
    RunWarning, TrialId, TrialResult, WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use plimsoll_core::target::MachineFacts;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandWorkload, WorkloadCommand};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest file read.
const FILE_MAX_BYTES: u64 = 256 << 20;
/// Text for values that no output contains.
const UNKNOWN: &str = "not recorded";

/// Convert results of other benchmark programs into a run folder.
///
/// Each file is one system; consecutive runs in one file are its blocks. The command reads fio's
/// JSON and JSON+, bonnie++'s CSV (1.96 to 1.98), iozone's throughput report, filebench's IO
/// Summary, sgpdd-survey's summary, elbencho's CSV and JSON, every operation of warp (--full), and
/// IO500's result_summary.txt, result.txt or the directory that holds them. Files may be
/// compressed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll import old-array.json new-array.json -o migration
  plimsoll import bonnie-2019.csv --format bonnie
  plimsoll import warp-old.csv.zst warp-new.csv.zst
  plimsoll import results/2026.11.02-10.15.00      # of IO500

The blocks of an import are neither randomised nor paired in time: a verdict is only as good as the
procedure that made the files.")]
pub(super) struct ImportArgs {
    /// Output files of other programs.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the run folder to DIR (default: plimsoll-results/<time>).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Program that wrote the files.
    #[arg(long, default_value = "auto", value_parser = ["auto", "fio", "bonnie", "iozone", "filebench", "sgpdd", "elbencho", "warp", "io500"])]
    format: String,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// A file, read.
struct ImportFile {
    arm: String,
    path: PathBuf,
    format: ProgramOutputFormat,
    readings: Vec<ProgramOutputResult>,
}

pub(super) fn main(args: &ImportArgs) -> CliResult {
    let given = ProgramOutputFormat::ALL
        .into_iter()
        .find(|format| format.name() == args.format);
    let mut sources: Vec<ImportFile> = Vec::new();
    for path in &args.files {
        let source = source(path, given, &sources)?;
        sources.push(source);
    }
    let id = run_id::run_id();
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| super::defaults::results_folder(&id));
    let manifest = manifest(&id, &sources);
    let is_same = |before: &RunFolderContents| before.manifest.arms == manifest.arms;
    let writer = match super::measure::interrupted(&folder)?.filter(is_same) {
        Some(_) => RunFolderWriter::restart(&folder),
        None => {
            plimsoll_archive::check_free(&folder).map_err(failed(CliExitCode::Usage))?;
            RunFolderWriter::create(&folder, &manifest)
        }
    };
    let writer = writer.map_err(failed(CliExitCode::Failed))?;
    write(writer, &manifest, &sources)?;
    let results = plimsoll_archive::open(&folder).map_err(failed(CliExitCode::Failed))?;
    let page = super::report::write_page(&results, &folder)?;
    if args.json {
        terminal::print_json(&super::report::as_json(&results, &folder));
    } else {
        terminal::print(&super::report::as_text(&results, false));
        terminal::print(&format!("Report: {}", page.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn source(
    path: &Path,
    given: Option<ProgramOutputFormat>,
    before: &[ImportFile],
) -> Result<ImportFile, CliError> {
    let wrong = |error: &dyn std::fmt::Display| {
        CliError::usage(format!("import {}: {error}", path.display()))
    };
    if !path.exists() {
        let text = format!("there is no file or folder {}", path.display());
        return Err(CliError::invalid(text)
            .hint("give the output of fio, bonnie++, iozone or another program"));
    }
    let bytes = contents(&file_of(path)).map_err(|reason| wrong(&reason))?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(format) = given.or_else(|| ProgramOutputFormat::guess(&text)) else {
        return Err(wrong(&"unknown format").hint(
            "known formats: fio's JSON, bonnie++'s CSV, iozone's throughput report, filebench's IO Summary, sgpdd-survey's summary, elbencho's CSV and JSON, warp's CSV and IO500's results; --format says which it is",
        ));
    };
    if let Some(first) = before.first()
        && first.format != format
    {
        let (own, other) = (format.program(), first.format.program());
        return Err(wrong(&format!(
            "it is of {own}, and {} of {other}: their results cannot be compared",
            first.path.display()
        ))
        .hint("import the files of each program by themselves"));
    }
    let readings = originals::read(format, &text).map_err(|error| wrong(&error))?;
    let stem = system_of(path);
    let taken = |name: &String| before.iter().any(|source| source.arm == *name);
    let mut arm = stem.clone();
    for number in 2.. {
        if !taken(&arm) {
            break;
        }
        arm = format!("{stem} {number}");
    }
    Ok(ImportFile {
        arm,
        path: path.into(),
        format,
        readings,
    })
}

/// Name of a system: its directory, or its file without suffixes of format and compression.
fn system_of(path: &Path) -> String {
    let name = |name: Option<&std::ffi::OsStr>| {
        name.map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned())
    };
    if path.is_dir() {
        return name(path.file_name());
    }
    let whole = name(path.file_name());
    let packed = [".gz", ".xz", ".bz2", ".zst"];
    let bare = packed.iter().find_map(|suffix| whole.strip_suffix(suffix));
    name(Path::new(bare.unwrap_or(&whole)).file_stem())
}

/// Where the results are: of IO500 in a file of the directory that it makes for each run.
fn file_of(path: &Path) -> PathBuf {
    let names = ["result_summary.txt", "result.txt"];
    let mut files = names.iter().map(|name| path.join(name));
    match files.find(|file| file.is_file()) {
        Some(file) if path.is_dir() => file,
        _ => path.into(),
    }
}

/// All of a file, decompressed. It is opened once and checked as it was opened; its reported size is
/// not relied on, since a file may grow while it is read.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let own = |error: std::io::Error| error.to_string();
    let mut options = File::options();
    // Without this flag, opening a named pipe without a writer would block.
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = options
        .read(true)
        .custom_flags(nonblock)
        .open(path)
        .map_err(own)?;
    if !file.metadata().map_err(own)?.is_file() {
        return Err("it is not a regular file; save the output in one first".into());
    }
    let mut bytes = Vec::new();
    let content = plimsoll_trace::decompressed(file).map_err(own)?;
    let mut limited = content.take(FILE_MAX_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(own)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err("it is larger than 256 MiB, more than any output".into());
    }
    Ok(bytes)
}

fn manifest(id: &str, sources: &[ImportFile]) -> RunManifest {
    let arm = |source: &ImportFile| {
        let host = source
            .readings
            .iter()
            .map(|r| r.host.as_str())
            .find(|host| !host.is_empty());
        let on = host.map_or(String::new(), |host| format!(" on {host}"));
        ArmEntry {
            name: source.arm.clone(),
            target: source.path.display().to_string(),
            description: format!("results of {}{on}, imported", source.format.program()),
            control_of: None,
            facts: None,
        }
    };
    let blocks = sources
        .iter()
        .map(|source| source.readings.len())
        .max()
        .unwrap_or(0);
    RunManifest {
        format: FormatVersion::RUN,
        program: env!("CARGO_PKG_VERSION").into(),
        id: id.into(),
        began_at: jiff::Zoned::now()
            .strftime("%Y-%m-%dT%H:%M:%S%:z")
            .to_string(),
        command: std::env::args().collect(),
        seed: Seed(0),
        generator: "none: nothing was drawn".into(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: UNKNOWN.into(),
            kernel: UNKNOWN.into(),
            cpu: UNKNOWN.into(),
            cpus: 0,
            ram_bytes: 0,
            cpu_governor: None,
        },
        versions: BTreeMap::new(),
        arms: sources.iter().map(arm).collect(),
        entries: vec![entry(sources)],
        blocks: saturating_u32(blocks as u64),
        balanced: false,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
        design: None,
    }
}

/// All files are of one format.
fn entry(sources: &[ImportFile]) -> WorkloadEntry {
    let format = sources[0].format;
    let program = format.program();
    let output = match format {
        ProgramOutputFormat::Fio => CommandOutputFormat::Fio,
        ProgramOutputFormat::Bonnie => CommandOutputFormat::Bonnie,
        ProgramOutputFormat::Iozone => CommandOutputFormat::Iozone,
        ProgramOutputFormat::Filebench => CommandOutputFormat::Filebench,
        // These are not run by plimsoll.
        ProgramOutputFormat::Sgpdd
        | ProgramOutputFormat::Elbencho
        | ProgramOutputFormat::Warp
        | ProgramOutputFormat::Io500 => CommandOutputFormat::Time,
    };
    let lengths = sources
        .iter()
        .flat_map(|source| &source.readings)
        .map(ProgramOutputResult::length);
    WorkloadEntry {
        label: program.into(),
        scale: 1.0,
        length: lengths.max().unwrap_or_default(),
        workload: Workload::Commands(CommandWorkload {
            name: program.into(),
            prepare: Vec::new(),
            phases: vec![WorkloadCommand {
                name: program.into(),
                argv: vec![program.into(), "(imported)".into()],
                output,
                moves: None,
            }],
            finish: Vec::new(),
            data_bytes: 0,
        }),
        inject: None,
        condition: None,
        load_line: None,
        client: None,
        load_loop: None,
    }
}

fn write(
    mut writer: RunFolderWriter,
    manifest: &RunManifest,
    sources: &[ImportFile],
) -> Result<(), CliError> {
    let mut trials = Vec::new();
    // Block by block, as runs are recorded.
    for block in 0..manifest.blocks {
        for source in sources {
            let Some(reading) = source.readings.get(block as usize) else {
                continue;
            };
            let place = saturating_u32(trials.len() as u64);
            let result = trial(source, reading, block, place);
            writer.event(&RunEvent::TrialBegan(result.trial.clone()));
            writer.event(&RunEvent::TrialEnded(Box::new(result.clone())));
            trials.push(result);
            for note in &reading.notes {
                let warning = RunWarning {
                    about: source.arm.clone(),
                    text: note.clone(),
                };
                writer.event(&RunEvent::Warning(warning));
            }
        }
    }
    let text = "these results were imported: what they ran on, in which order and how was not recorded; nothing was randomised or paired in time";
    writer.event(&RunEvent::Warning(RunWarning {
        about: String::new(),
        text: text.into(),
    }));
    let comparisons = plimsoll_stats::compare_all(manifest, &trials);
    writer.event(&RunEvent::Finished {
        interrupted: false,
        comparisons,
    });
    match writer.take_failure() {
        None => Ok(()),
        Some(failure) => Err(CliError::new(CliExitCode::Failed, failure)),
    }
}

fn trial(
    source: &ImportFile,
    reading: &ProgramOutputResult,
    block: u32,
    place: u32,
) -> TrialResult {
    let mut stats = OpStats::default();
    reading
        .phases
        .iter()
        .for_each(|phase| stats.merge(&phase.stats));
    let cpu = |pick: fn(&plimsoll_core::event::PhaseResult) -> u64| {
        reading.phases.iter().map(pick).fold(0, u64::saturating_add)
    };
    TrialResult {
        length: reading.length(),
        stats,
        phases: reading.phases.clone(),
        generator: GeneratorStats {
            engine: format!("imported from {}", source.path.display()),
            user_cpu_ns: cpu(|phase| phase.user_cpu_ns),
            system_cpu_ns: cpu(|phase| phase.system_cpu_ns),
            ..GeneratorStats::default()
        },
        ..TrialResult::of(TrialId {
            block,
            place,
            arm: source.arm.clone(),
            workload: source.format.program().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_called_as_their_files_and_directories() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("2026.01.01-10.00.00");
        std::fs::create_dir(&made).unwrap();
        assert_eq!(system_of(&made), "2026.01.01-10.00.00");
        for (path, name) in [
            ("x/old.json", "old"),
            ("warp-a.csv.zst", "warp-a"),
            ("a.b.txt", "a.b"),
            (".gz", "file"),
        ] {
            assert_eq!(system_of(Path::new(path)), name);
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        for path in ["/dev/zero", "/", "/proc/self/nothing"] {
            assert!(contents(Path::new(path)).is_err(), "{path}");
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(!contents(&own).unwrap().is_empty());
    }
}
