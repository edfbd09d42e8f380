// SPDX-License-Identifier: Apache-2.0
//! `plimsoll gate`: whether a candidate is worse than its reference, for continuous integration.

use super::design::{BlockDesignArgs, BlockDesignChoice};
use super::loadline::fraction;
use super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningArgs, MeasureOptions, TrialTimingArgs, asked,
    measure, policy,
};
use super::stack::StackOptionArgs;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::campaign_file::{CampaignBuild, CampaignOrder};
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::gate::{GateOutcome, GateVerdict};
use plimsoll_core::units::Nanos;
use plimsoll_run::campaign::{DestroyConsent, commands_of};
use plimsoll_run::campaign_file::{CampaignPlan, WorkloadVariant};
use plimsoll_run::gate::{GateBuild, GateWorkshop};
use plimsoll_stats::compare_all;
use plimsoll_stats::gate::{gate_confidence, gate_rows, gate_verdict};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The campaign file that is read where no workload is given.
const CAMPAIGN: &str = "gate.toml";
/// Where builds are made.
const DIRECTORY: &str = "plimsoll-gate";
/// No trial starts after, where nobody says.
const BUDGET: Nanos = Nanos(20 * 60 * Nanos::SECOND.0);
/// Most blocks of workloads that end by themselves, where nobody says.
const BLOCKS_MOST: u32 = 40;

/// Say whether a candidate is worse than its reference: regression, no regression, or cannot tell.
///
/// For continuous integration. Both are measured in the same randomised blocks, with an A/A control, as
/// many as the noise asks for. Two targets are compared as they are; where the campaign file has [build], two
/// builds of a program: of the working directory, and of the commit, branch, directory or program that
/// --against names. A regression is a worsening that is shown, and not shown to be smaller than --effect.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll gate --against main
  plimsoll gate --against main --campaign bench/self-watch.toml --effect 5% --junit junit.xml
  plimsoll gate --against ./prog-1.2 --candidate ./prog-1.3 --markdown comment.md
  plimsoll gate --candidate /mnt/new --against /mnt/old -w nas.toml --budget 20m

Exit codes: 0 no regression, 10 regression, 11 cannot tell; others: the gate itself is broken.
docs/ci.md has the campaign file, and jobs for build servers.")]
pub(super) struct GateArgs {
    /// Reference that the candidate is compared with: a target; with [build] a commit, branch or
    /// tag of the git repository here, or a program or directory that is built already.
    #[arg(long, value_name = "REFERENCE")]
    against: String,
    /// The candidate: a target; with [build] a program or directory that is built already (default: the
    /// working directory is built).
    #[arg(long, value_name = "CANDIDATE")]
    candidate: Option<String>,
    /// Workload to run, see plimsoll run --help. May be repeated.
    #[arg(short, long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Read workloads, and how a program is built, from FILE (default: gate.toml, if no workload is given).
    #[arg(long, value_name = "FILE", conflicts_with = "workloads")]
    campaign: Option<PathBuf>,
    /// The smallest worsening that matters. Blocks are as many as find it in four of five runs.
    #[arg(long, default_value = "5%", value_parser = fraction, value_name = "SIZE")]
    effect: f64,
    /// Most blocks (default: what the budget allows; of workloads that end by themselves 40).
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=1000))]
    blocks: Option<u32>,
    #[command(flatten)]
    timing: TrialTimingArgs,
    #[command(flatten)]
    conditioning: ConditioningArgs,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Keep builds in DIR; a clone of the repository stays there for the next gate.
    #[arg(long, default_value = DIRECTORY, value_name = "DIR")]
    directory: PathBuf,
    /// Write a comment for a pull request to FILE.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write test cases to FILE, as JUnit.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Overwrite the files of --markdown and --junit.
    #[arg(long)]
    force: bool,
    /// Write the run folder to DIR (default: ./plimsoll-results/<time>).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
    /// Print what would be done, in which order; build and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Plan of a gate, from the command line or a campaign file.
struct GatePlan {
    /// The campaign file.
    file: Option<PathBuf>,
    variants: Vec<WorkloadVariant>,
    build: Option<CampaignBuild>,
    balanced: bool,
    blocks: Option<u32>,
}

impl GatePlan {
    fn of(args: &GateArgs) -> Result<GatePlan, CliError> {
        if !args.workloads.is_empty() {
            return Ok(GatePlan {
                file: None,
                variants: Vec::new(),
                build: None,
                balanced: true,
                blocks: args.blocks,
            });
        }
        let file = args.campaign.as_deref().unwrap_or(Path::new(CAMPAIGN));
        if args.campaign.is_none() && !file.exists() {
            let text = format!("gate without workloads: there is no {CAMPAIGN} here");
            let hint = "give -w WORKLOAD or --campaign FILE; docs/ci.md shows a file";
            return Err(CliError::usage(text).hint(hint));
        }
        let plan = CampaignPlan::read(file)?;
        if !plan.targets.is_empty() || !plan.conditions.is_empty() {
            let text = format!(
                "campaign {}: a gate has its systems from --candidate and --against, and no conditions",
                file.display()
            );
            return Err(CliError::invalid(text).hint("remove [[target]] and 'under'"));
        }
        Ok(GatePlan {
            file: Some(file.into()),
            variants: plan.workloads,
            build: plan.build,
            balanced: plan.order == CampaignOrder::Balanced,
            blocks: args.blocks.or(plan.blocks),
        })
    }

    /// Refuses a build, and what is measured of it, by a file that is not trusted.
    fn check_build(&self, args: &GateArgs) -> Result<(), CliError> {
        let (Some(file), Some(build)) = (&self.file, &self.build) else {
            return Ok(());
        };
        // Workloads that cannot be read yet are checked again before they are started.
        let read = self.variants.iter();
        let read = read.filter_map(|one| asked(&one.text, None, args.shape.trust()).ok());
        let build = std::iter::once(build.command.clone());
        let starts = build.chain(read.flat_map(|one| commands_of(&one)));
        let starts: Vec<String> = starts.collect();
        args.shape.trust().check(file, &starts, args.dry_run)
    }

    /// How many workloads, and whether one of them is over when its work is done.
    fn shape(&self, args: &GateArgs) -> (usize, bool) {
        let texts = args
            .workloads
            .iter()
            .chain(self.variants.iter().map(|one| &one.text));
        // Workloads that cannot be read are refused, with their place, when they are to be played.
        let ends = texts.clone().any(|text| {
            asked(text, None, args.shape.trust())
                .is_ok_and(|one| one.workload.ends_by_itself() || one.workload.metric().is_none())
        });
        (texts.count(), ends)
    }
}

pub(super) fn main(args: &GateArgs) -> CliResult {
    let plan = GatePlan::of(args)?;
    for file in args.markdown.iter().chain(&args.junit) {
        plimsoll_console::output::check_output(file, args.force)?;
    }
    plan.check_build(args)?;
    let systems = match &plan.build {
        None => targets(args)?,
        Some(build) if args.dry_run => return Ok(show(args, build)),
        Some(build) => builds(args, build)?,
    };
    let (count, ends_by_itself) = plan.shape(args);
    let budget = args.timing.budget().or(Some(BUDGET));
    let seed = args.timing.given_seed();
    let timing = args.timing.of_part(args.timing.length(), budget, seed);
    let given = timing.given(plan.blocks, systems.len());
    let design = match ends_by_itself {
        true => BlockDesignChoice::stages(args.effect, &given),
        false => BlockDesignArgs::two_stages(args.effect).choice(&given)?,
    };
    let named = [&systems[0], &systems[1]].map(|one| one.directory.display().to_string());
    let measured = measure(&MeasureOptions {
        targets: &named,
        workloads: &args.workloads,
        control: true,
        blocks: plan.blocks.unwrap_or(BLOCKS_MOST),
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: None,
        whole: false,
        timing: &timing,
        shape: &args.shape,
        source: &ClientLoadArgs::HERE,
        consent: DestroyConsent::of(&[]),
        policy: VerdictPolicy {
            confidence: gate_confidence(count),
            ..policy(args.effect)?
        },
        design,
        campaign: CampaignChoice {
            variants: &plan.variants,
            file: plan.file.as_deref(),
            balanced: plan.balanced,
            closed_and_open: false,
        },
        conditioning: args.conditioning.choice(),
        output: args.output.as_deref(),
        json: args.json,
        dry_run: args.dry_run,
        quiet: args.json,
        ladder: &[],
    })?;
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

/// Prints and writes the outcome; the exit code says it, too.
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
    match args.json {
        true => terminal::print_json(&serde_json::json!(outcome)),
        false => terminal::print(plimsoll_report::gate_text(&outcome).trim_end()),
    }
    match outcome.verdict {
        GateVerdict::NoRegression => Ok(ExitCode::SUCCESS),
        GateVerdict::CannotTell => super::done(CliExitCode::Inconclusive),
        GateVerdict::Regression => super::done(CliExitCode::Different),
    }
}
