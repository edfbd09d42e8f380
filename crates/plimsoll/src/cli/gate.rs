// SPDX-License-Identifier: Apache-2.0
//! `plimsoll gate`: whether a candidate is worse than its reference, for continuous integration.

use super::loadline::fraction;
use super::measure::{
    ConditioningArgs, RunAttempt, RunAttemptArgs, TrialTimingArgs, asked, measure,
};
use super::stack::StackOptionArgs;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignBuild, CampaignDesign, CampaignSpec};
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::gate::{GateOutcome, GateVerdict};
use plimsoll_core::units::Nanos;
use plimsoll_core::written::WrittenTime;
use plimsoll_run::campaign_file::{CampaignFile, WorkloadVariant, refuse_problems};
use plimsoll_run::gate::{GateBuild, GateWorkshop};
use plimsoll_run::request::{WorkloadRequest, commands_of};
use plimsoll_stats::compare_all;
use plimsoll_stats::gate::{gate_confidence, gate_rows, gate_verdict};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The campaign file that is read where no workload is given.
const CAMPAIGN: &str = "gate.toml";
/// Where builds are made.
const DIRECTORY: &str = "plimsoll-gate";
/// Default of --budget: no trial starts later.
const BUDGET: Nanos = Nanos(20 * 60 * Nanos::SECOND.0);

/// Check whether a candidate is slower than its reference.
///
/// For continuous integration. Candidate and reference are measured in the same randomised blocks,
/// with an A/A control. The noise sets the number of blocks, within --budget (default: 20m). Two
/// targets are compared as they are. If the campaign file has [build], two builds of a program are
/// compared: the working directory, and the commit, branch, directory or program of --against. A
/// regression is a proven worsening that is not proven to be smaller than --effect.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll gate --against /mnt/old --candidate /mnt/new -w nas.toml --budget 20m
  plimsoll gate --against main
  plimsoll gate --against main --campaign bench/self-watch/gate.toml --effect 5% --junit junit.xml
  plimsoll gate --against ./prog-1.2 --candidate ./prog-1.3 --markdown comment.md

Exit codes: 0 no regression, 10 regression, 11 cannot tell, 12 a system lost or changed data; others: the
gate itself is broken. docs/ci.md describes the campaign file, and jobs for build servers.")]
pub(super) struct GateArgs {
    /// Reference of the comparison: a target; with [build] a commit, branch, tag or build.
    ///
    /// Commit, branch and tag are those of the git repository here. A build is a program or
    /// directory that is already built.
    #[arg(long, value_name = "REFERENCE")]
    against: String,
    /// Candidate: a target; with [build] a program or directory (default: working directory).
    ///
    /// A given program or directory is already built. The working directory is built by the
    /// command.
    #[arg(long, value_name = "CANDIDATE")]
    candidate: Option<String>,
    /// Workload to run, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Read workloads and build instructions from FILE (default: gate.toml, if there is no -w).
    #[arg(long, value_name = "FILE", conflicts_with = "workloads")]
    campaign: Option<PathBuf>,
    /// Smallest worsening that matters.
    ///
    /// There are as many blocks as it takes to find this worsening in four of five runs.
    #[arg(long, default_value = "5%", value_parser = fraction, value_name = "SIZE")]
    effect: f64,
    /// Maximum number of blocks (default: as many as the budget allows).
    ///
    /// For workloads that end by themselves the default is 40.
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000))]
    blocks: Option<u32>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    attempt: RunAttemptArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Directory for builds.
    ///
    /// A clone of the repository stays there for the next gate.
    #[arg(long, default_value = DIRECTORY, value_name = "DIR", help_heading = "Files")]
    directory: PathBuf,
    /// Write a pull request comment to FILE.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    markdown: Option<PathBuf>,
    /// Write test cases to FILE in JUnit format.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    junit: Option<PathBuf>,
    /// Overwrite existing files.
    ///
    /// For the files of --markdown and --junit.
    #[arg(long, help_heading = "Files")]
    force: bool,
}

impl GateArgs {
    /// The campaign without its systems: workloads of the command line, or a file.
    fn workloads(&self) -> Result<(Option<CampaignFile>, CampaignSpec), CliError> {
        if !self.workloads.is_empty() {
            let spec = CampaignSpec {
                workload: self.workloads.iter().map(Into::into).collect(),
                ..CampaignSpec::default()
            };
            return Ok((None, spec));
        }
        let path = self.campaign.as_deref().unwrap_or(Path::new(CAMPAIGN));
        if self.campaign.is_none() && !path.exists() {
            let text = format!("gate without workloads: there is no {CAMPAIGN} here");
            let hint = "give -w WORKLOAD or --campaign FILE; docs/ci.md shows a file";
            return Err(CliError::usage(text).hint(hint));
        }
        let (file, spec) = CampaignFile::read(path)?;
        if !spec.target.is_empty() || !spec.under.is_empty() {
            let text = format!(
                "campaign {}: a gate has its systems from --candidate and --against, and no conditions",
                path.display()
            );
            return Err(CliError::invalid(text).hint("remove [[target]] and 'under'"));
        }
        Ok((Some(file), spec))
    }

    /// Refuses a build, and what is measured of it, by a file that is not trusted.
    fn check_build(&self, file: &CampaignFile, spec: &CampaignSpec) -> Result<(), CliError> {
        let Some(build) = &spec.build else {
            return Ok(());
        };
        refuse_problems(&spec.problems(), &|problem| file.words(problem))?;
        let build = std::iter::once(build.command.clone());
        let read = self.read(spec);
        let starts: Vec<String> = build.chain(read.iter().flat_map(commands_of)).collect();
        let trust = self.shape.trust();
        trust.check(&file.path, &starts, self.attempt.dry_run)
    }

    /// The workloads that can be read; the others are refused, with their place, when they are to be played.
    fn read(&self, spec: &CampaignSpec) -> Vec<WorkloadRequest> {
        let variants = WorkloadVariant::all(spec);
        let read = variants.iter();
        read.filter_map(|one| asked(&one.text, None, self.shape.trust()).ok())
            .collect()
    }

    /// The campaign of these systems.
    fn campaign(&self, found: CampaignSpec, systems: &[GateBuild; 2]) -> CampaignSpec {
        let read = self.read(&found);
        let ends_by_itself = |one: &WorkloadRequest| {
            one.workload.ends_by_itself() || one.workload.metric().is_none()
        };
        let names = [&systems[0], &systems[1]].map(|one| one.directory.display().to_string());
        let mut spec = CampaignSpec {
            blocks: self.blocks.or(found.blocks),
            margin: Some(self.effect),
            confidence: Some(gate_confidence(found.workloads())),
            control: true,
            design: Some(CampaignDesign {
                effect: Some(self.effect),
                budget: Some(WrittenTime(BUDGET)),
                pilot: !read.iter().any(ends_by_itself),
                ..CampaignDesign::default()
            }),
            target: names.iter().map(Into::into).collect(),
            build: None,
            ..found
        };
        self.timing.apply(&mut spec);
        self.conditioning.apply(&mut spec);
        self.shape.apply(&mut spec);
        spec
    }
}

pub(super) fn main(args: &GateArgs) -> CliResult {
    let (file, found) = args.workloads()?;
    for file in args.markdown.iter().chain(&args.junit) {
        plimsoll_console::output::check_output(file, args.force)?;
    }
    if let Some(file) = &file {
        args.check_build(file, &found)?;
    }
    if found.build.is_some() && args.attempt.save.is_some() {
        let text = "--save does not work with [build], whose systems are there once they are built";
        return Err(CliError::invalid(text).hint("give --candidate and --against as directories"));
    }
    let systems = match &found.build {
        None => targets(args)?,
        Some(build) if args.attempt.dry_run => return Ok(show(args, build)),
        Some(build) => builds(args, build)?,
    };
    let measured = measure(
        &args.campaign(found, &systems),
        &RunAttempt {
            quiet: args.attempt.json,
            file,
            ..args.attempt.attempt(args.shape.trust())
        },
    )?;
    match measured {
        ControlFlow::Continue(results) => concluded(args, &results, &systems),
        ControlFlow::Break(code) => Ok(code),
    }
}

/// Two targets as they are, the reference first.
fn targets(args: &GateArgs) -> Result<[GateBuild; 2], CliError> {
    let Some(candidate) = &args.candidate else {
        return Err(
            CliError::invalid("gate needs --candidate, the target that is judged")
                .hint("with [build] in a campaign file, the working directory is built instead"),
        );
    };
    let target = |name: &String| GateBuild {
        directory: PathBuf::from(name),
        name: name.clone(),
    };
    Ok([target(&args.against), target(candidate)])
}

/// Two builds, the reference first.
fn builds(args: &GateArgs, build: &CampaignBuild) -> Result<[GateBuild; 2], CliError> {
    let (host, stop) = (context::host(), context::stop_flag()?);
    let workshop = GateWorkshop {
        host: &host,
        stop: &stop,
        build,
        directory: &args.directory,
        say: terminal::say,
    };
    let reference = workshop.reference(&args.against)?;
    let candidate = workshop.candidate(args.candidate.as_deref())?;
    Ok([reference, candidate])
}

/// Dry run: prints the planned build.
fn show(args: &GateArgs, build: &CampaignBuild) -> ExitCode {
    let directory = args.directory.display();
    let candidate = args.candidate.as_deref().unwrap_or("the working directory");
    terminal::print(&format!(
        "reference: {}\ncandidate: {candidate}\nbuilt by: {}\ncopied to {directory}/reference and \
         {directory}/candidate: {}\nthen compared in blocks with an A/A control, to find a worsening of {:.1} %",
        args.against,
        build.command,
        build.files.join(", "),
        100.0 * args.effect,
    ));
    ExitCode::SUCCESS
}

/// Prints and writes the outcome; returns its exit code.
fn concluded(
    args: &GateArgs,
    results: &RunFolderContents,
    [reference, candidate]: &[GateBuild; 2],
) -> CliResult {
    let comparisons = compare_all(&results.manifest, &results.trials);
    let rows = gate_rows(&comparisons, args.effect);
    let outcome = GateOutcome {
        candidate: candidate.name.clone(),
        reference: reference.name.clone(),
        effect: args.effect,
        confidence: results.manifest.policy.confidence,
        verdict: gate_verdict(&rows),
        rows,
    };
    let write = |file: &Option<PathBuf>, text: &dyn Fn() -> String| match file {
        None => Ok(()),
        Some(path) => plimsoll_archive::write_result(path, text()).map_err(|error| {
            let text = format!("write {}: {error}", path.display());
            CliError::new(CliExitCode::Failed, text)
        }),
    };
    write(&args.markdown, &|| {
        plimsoll_report::gate_markdown(results, &outcome)
    })?;
    write(&args.junit, &|| {
        plimsoll_report::gate_junit(results, &outcome)
    })?;
    match args.attempt.json {
        true => terminal::print_json(&serde_json::json!(outcome)),
        false => terminal::print(plimsoll_report::gate_text(&outcome).trim_end()),
    }
    match outcome.verdict {
        GateVerdict::NoRegression => Ok(ExitCode::SUCCESS),
        GateVerdict::CannotTell => super::done(CliExitCode::Inconclusive),
        GateVerdict::Regression => super::done(CliExitCode::Different),
    }
}
