// SPDX-License-Identifier: Apache-2.0
//! The tutorial "Comparing storage performance" of Performance Co-Pilot, whole: recorded averages,
//! models, their verification beside that of the published job, and two configurations compared.

use super::super::design::BlockDesignChoice;
use super::super::measure::{
    CampaignChoice, ClientLoadArgs, ConditioningChoice, MeasureOptions, measure, policy,
};
use super::super::model_file;
use super::super::verify::{JobFidelity, JobFile, JobSectionMapping, of_model};
use super::tables;
use super::{CliError, CliResult, ReproArgs};
use crate::terminal;
use crate::terminal::{print, print_coloured, say};
use plimsoll_agent::failure::{CliExitCode, failed};
use plimsoll_agent::run_id;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::model::{FidelityReport, ModelFacts};
use plimsoll_core::profile::DiskProfile;
use plimsoll_fit::{FitOptions, RecordingSelection};
use plimsoll_report::ReportDocument;
use plimsoll_report::model::{
    ReportAnswer, ReportFinding, ReportItem, ReportSection, ReportSeverity,
};
use plimsoll_run::campaign::DestroyConsent;
use plimsoll_trace::OpenRecording;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes the load is spread over: small enough for the stacks of a small machine.
const WORKING_SET_BYTES: u64 = 512 << 20;
/// Blocks of the comparison, where nobody says.
const BLOCKS: u32 = 3;
/// A figure of the published spreadsheet: its name, its digits, and where ours stands.
type Published = (&'static str, &'static str, fn(&DiskProfile) -> Option<f64>);

/// A component of the tutorial's load.
pub(super) struct TutorialComponent {
    pub(super) title: &'static str,
    /// Name of its model, and of its file.
    model: &'static str,
    recording: &'static str,
    disk: &'static str,
    from: &'static str,
    to: &'static str,
    /// Sections of the published job that stand for it.
    sections: &'static [&'static str],
    pub(super) published: &'static [Published],
}

const COMPONENTS: [TutorialComponent; 3] = [
    TutorialComponent {
        title: "File server (NAS), 11:00 to 12:00",
        model: "nas",
        recording: "nasdata",
        disk: "sdi",
        from: "11:00",
        to: "12:00",
        sections: &["nas_read_load", "nas_write_load"],
        published: &[
            ("reads/s", "84.987851", |p| {
                Some(p.directions.first()?.ops_per_s?.stochastic)
            }),
            ("read KiB/s", "2521.440829", |p| {
                Some(p.directions.first()?.bytes_per_s?.stochastic / 1024.0)
            }),
            ("writes/s", "40.046553", |p| {
                Some(p.directions.get(1)?.ops_per_s?.stochastic)
            }),
            ("write KiB/s", "1233.424685", |p| {
                Some(p.directions.get(1)?.bytes_per_s?.stochastic / 1024.0)
            }),
            ("busy share", "0.13912", |p| Some(p.utilisation?.stochastic)),
        ],
    },
    TutorialComponent {
        title: "Database, interactive, 11:10 to 11:55",
        model: "db",
        recording: "dbdata",
        disk: "F:",
        from: "11:10",
        to: "11:55",
        sections: &["db_load"],
        published: &[
            ("reads/s", "145.142408", |p| {
                Some(p.directions.first()?.ops_per_s?.stochastic)
            }),
            ("read bytes/s", "1255955.8", |p| {
                Some(p.directions.first()?.bytes_per_s?.stochastic)
            }),
            ("writes/s", "82.343775", |p| {
                Some(p.directions.get(1)?.ops_per_s?.stochastic)
            }),
            ("write bytes/s", "803580.8", |p| {
                Some(p.directions.get(1)?.bytes_per_s?.stochastic)
            }),
            ("mean queue", "2.094444", |p| {
                Some(p.queue.as_ref()?.average.stochastic)
            }),
            ("idle share", "0.531372", |p| {
                Some(1.0 - p.utilisation?.stochastic)
            }),
        ],
    },
    TutorialComponent {
        title: "Database, reporting, 11:00 to 11:05",
        model: "reporting",
        recording: "dbdata",
        disk: "F:",
        from: "11:00",
        to: "11:05",
        sections: &["bi_load"],
        published: &[
            ("reads/s", "863.729369", |p| {
                Some(p.directions.first()?.ops_per_s?.stochastic)
            }),
            ("read bytes/s", "42983866.7", |p| {
                Some(p.directions.first()?.bytes_per_s?.stochastic)
            }),
            ("writes/s", "67.330524", |p| {
                Some(p.directions.get(1)?.ops_per_s?.stochastic)
            }),
            ("write bytes/s", "650304.4", |p| {
                Some(p.directions.get(1)?.bytes_per_s?.stochastic)
            }),
            ("mean queue", "9.2", |p| {
                Some(p.queue.as_ref()?.average.stochastic)
            }),
            ("idle share", "0.283327", |p| {
                Some(1.0 - p.utilisation?.stochastic)
            }),
        ],
    },
];

/// What was made of a component.
pub(super) struct TutorialComponentResult {
    pub(super) component: &'static TutorialComponent,
    pub(super) profile: DiskProfile,
    pub(super) ours: FidelityReport,
    pub(super) published: JobFidelity,
    file: PathBuf,
}

pub(super) fn main(args: &ReproArgs) -> CliResult {
    let data = data(args)?;
    let id = run_id::run_id();
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from("plimsoll-results").join(format!("pcp-model-{id}")));
    plimsoll_archive::make_directory(folder.parent().unwrap_or(Path::new("")))
        .and_then(|()| DirBuilder::new().mode(0o700).create(&folder))
        .map_err(|error| CliError::usage(format!("make {}: {error}", folder.display())))?;
    let tutorial = data.join("pcp/diskmodel");
    let mut done = Vec::new();
    for component in &COMPONENTS {
        done.push(component_done(component, &tutorial, &folder)?);
    }
    let compared = compared(args, &done, &folder);
    let results = compared.as_ref().ok().and_then(Option::as_ref);
    let table = data.join("published/pcp-fio.csv");
    let report = report(&done, results, &table, &id);
    let width = terminal::width();
    print_coloured(&plimsoll_report::terminal(
        &report,
        width,
        terminal::colour(),
        false,
    ));
    let page = folder.join("pcp-model.html");
    plimsoll_archive::write_result(&page, plimsoll_report::html(&report)).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("write {}: {error}", page.display()),
        )
    })?;
    print(&format!("Page: {}", page.display()));
    compared?;
    if done.iter().any(|done| done.ours.missed().next().is_some()) {
        return super::super::done(CliExitCode::Gate);
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder with the recordings and the published job.
fn data(args: &ReproArgs) -> Result<PathBuf, CliError> {
    let set = || std::env::var_os("PLIMSOLL_TEST_DATA").map(PathBuf::from);
    let hint = "scripts/fetch-recordings.sh DIR fetches them from Debian's package pcp-doc; then give \
                --data DIR";
    let folder = args.data.clone().or_else(set).ok_or_else(|| {
        CliError::usage("find the recordings of the tutorial: no folder is given").hint(hint)
    })?;
    for file in ["nasdata.meta", "dbdata.meta", "model.fio"] {
        let path = folder.join("pcp/diskmodel").join(file);
        if !path.is_file() {
            let text = format!(
                "find the recordings of the tutorial: there is no {}",
                path.display()
            );
            return Err(CliError::usage(text).hint(hint));
        }
    }
    Ok(folder)
}

fn component_done(
    component: &'static TutorialComponent,
    tutorial: &Path,
    folder: &Path,
) -> Result<TutorialComponentResult, CliError> {
    let recording = tutorial.join(component.recording);
    let opened = plimsoll_trace::open(&recording).map_err(failed(CliExitCode::Usage))?;
    let OpenRecording::Counters(counters) = opened else {
        return Err(CliError::usage(format!(
            "read {}: it holds no counters",
            recording.display()
        )));
    };
    let window = counters
        .times()
        .window(Some(component.from), Some(component.to))
        .map_err(failed(CliExitCode::Usage))?;
    let options = FitOptions {
        disk: component.disk.into(),
        window,
        name: component.model.into(),
        facts: ModelFacts::assumed(WORKING_SET_BYTES),
    };
    let mut fitted = plimsoll_fit::fit(&*counters, &options).map_err(failed(CliExitCode::Usage))?;
    let file = folder.join(component.model).with_extension("toml");
    model_file::write(&file, &mut fitted.model)?;
    let part = RecordingSelection {
        disk: Some(component.disk.into()),
        from: Some(component.from.into()),
        to: Some(component.to.into()),
        of_model: false,
    };
    let (ours, _) = of_model(&fitted.model, &recording, part.clone())?;
    let map = JobSectionMapping {
        sections: component.sections.iter().map(|s| (*s).to_owned()).collect(),
        part,
    };
    let published = JobFile::read(&tutorial.join("model.fio"))?.hold(&map, &recording, None)?;
    Ok(TutorialComponentResult {
        component,
        profile: fitted.profile,
        ours,
        published,
        file,
    })
}

/// The configurations that are compared: those that were given, else two stacks where they can be
/// stood up.
fn targets(args: &ReproArgs) -> Vec<String> {
    if args.no_compare {
        return Vec::new();
    }
    if !args.targets.is_empty() || !rustix::process::geteuid().is_root() {
        return args.targets.clone();
    }
    ["local", "raid1"].map(str::to_owned).to_vec()
}

fn compared(
    args: &ReproArgs,
    done: &[TutorialComponentResult],
    folder: &Path,
) -> Result<Option<RunFolderContents>, CliError> {
    let targets = targets(args);
    if targets.is_empty() {
        say("note: the comparison is left out: give two targets, such as two directories");
        return Ok(None);
    }
    // The database's scan asks for more than a small machine's disks carry; its figures would be of
    // an overload.
    let played = done
        .iter()
        .filter(|done| done.component.model != "reporting");
    let workloads: Vec<String> = played.map(|done| done.file.display().to_string()).collect();
    let measured = measure(&MeasureOptions {
        targets: &targets,
        workloads: &workloads,
        control: true,
        blocks: args.blocks.unwrap_or(BLOCKS),
        inject: Vec::new(),
        conditions: Vec::new(),
        load_line: None,
        whole: false,
        timing: &args.timing,
        shape: &args.shape,
        source: &ClientLoadArgs::HERE,
        consent: DestroyConsent::of(&args.destroy),
        policy: policy(0.05)?,
        design: BlockDesignChoice::default(),
        campaign: CampaignChoice::default(),
        conditioning: ConditioningChoice::default(),
        output: Some(&folder.join("comparison")),
        json: false,
        dry_run: false,
        quiet: false,
        ladder: &[],
    })?;
    Ok(measured.continue_value())
}

fn report(
    done: &[TutorialComponentResult],
    results: Option<&RunFolderContents>,
    published: &Path,
    id: &str,
) -> ReportDocument {
    let mut sections = vec![
        section(
            "1. What was recorded",
            "The averages of the tutorial's spreadsheet, counted again from the recordings: means of the rates of all intervals.",
            vec![ReportItem::Table(tables::baseline(done))],
        ),
        section(
            "2. The components, and what their averages hide",
            "One model for each component: all of its intervals.",
            vec![ReportItem::Table(tables::components(done))],
        ),
    ];
    let verifications = done.iter().map(tables::verification);
    let items =
        verifications.flat_map(|(table, why)| [ReportItem::Table(table), ReportItem::Text(why)]);
    sections.push(section(
        "3. Is the model the load that was recorded?",
        "The error of each metric: of our model, and of the job file that the tutorial publishes.",
        items.collect(),
    ));
    let compared = results.map(|results| ReportItem::Table(tables::compared(results)));
    let theirs = tables::published(published);
    let lead = "Response times count from the moment a request was due; the published ones from its submission, of one job of four, on other hardware.";
    sections.push(section(
        "4. Two configurations under the load",
        lead,
        compared.into_iter().chain(theirs).collect(),
    ));
    ReportDocument {
        title: "Comparing storage performance: the tutorial of Performance Co-Pilot, done again"
            .into(),
        subtitle: format!("plimsoll repro pcp-model · {id}"),
        answer: ReportAnswer::default(),
        headline: done.iter().map(headline).collect(),
        sections,
        data: tables::data(done, results).to_string(),
    }
}

fn section(title: &str, lead: &str, items: Vec<ReportItem>) -> ReportSection {
    ReportSection {
        items,
        ..ReportSection::new(title, lead)
    }
}

fn headline(done: &TutorialComponentResult) -> ReportFinding {
    let missed = done.ours.missed().count();
    let theirs = done.published.verification.missed().count();
    let all = done.published.verification.lines.len();
    ReportFinding {
        mark: if missed == 0 { "passed" } else { "FAILED" }.into(),
        tone: if missed == 0 {
            ReportSeverity::Good
        } else {
            ReportSeverity::Bad
        },
        text: format!(
            "{}: our model misses {missed} of {} gates, the published job {theirs} of {all}",
            done.component.title,
            done.ours.lines.len()
        ),
        detail: tables::claims(&done.published),
    }
}
