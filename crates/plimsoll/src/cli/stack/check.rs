// SPDX-License-Identifier: Apache-2.0
//! `plimsoll stack check`: everything that must be seen of a stack before it is trusted.

use super::StackOptionArgs;
use plimsoll_agent::run_id;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::rng::Seed;
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestResult, SelfTestStatus};
use plimsoll_run::campaign::{self, ArmRequest, ClientLoadGenerators};
use plimsoll_run::targets::{DestroyConsent, RaiseRequest, StackTarget, TargetBench, TargetKind};
use std::fmt::Write;
use std::process::ExitCode;
use std::rc::Rc;

#[derive(Debug, clap::Args)]
pub(super) struct StackCheckArgs {
    /// Stacks to test.
    ///
    /// Stacks that are not up are brought up, and taken down at the end.
    #[arg(required = true, value_name = "STACK")]
    names: Vec<String>,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Skip tests that stop nodes for a time.
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &StackCheckArgs) -> CliResult {
    let choices = super::choices(&args.names)?;
    args.shape.trust.check_stacks(choices.iter(), false)?;
    let targets: Vec<Rc<dyn TargetKind>> = choices
        .into_iter()
        .map(|choice| Rc::new(StackTarget::of(choice)) as Rc<dyn TargetKind>)
        .collect();
    let state = context::state_dir()?;
    let id = run_id::run_id();
    let seed = Seed(0).derive(&id, 0);
    let options = args.shape.options(&state)?;
    let mut bench = TargetBench::new(context::nodes(), options);
    let consent = DestroyConsent::default();
    let stop = context::stop_flag()?;
    let request = ArmRequest {
        given: &args.names,
        names: &[],
        targets: &targets,
        control: false,
        asked: &[],
        consent: &consent,
        keep_free: 0.0,
    };
    let arms = request.resolve(&Rc::new(ClientLoadGenerators::here()), &mut bench)?;
    let depth = if args.quick {
        SelfTestDepth::Quick
    } else {
        SelfTestDepth::Whole
    };
    let request = RaiseRequest {
        id: &id,
        state: &state,
        asked: &[],
        consent: &consent,
        stop: &stop,
    };
    let proved = arms
        .raise(&mut bench, &request)
        .and_then(|arms| campaign::prove(&arms, &id, seed, depth, &stop));
    let left = bench.lower(&state);
    let proved = proved?;
    if args.json {
        print_json(&proved);
    } else {
        terminal::print(&as_text(&proved));
    }
    crate::cli::raze::verdict(&left)?;
    let failed = |one: &SelfTestResult| matches!(one.outcome, SelfTestStatus::Failed(_));
    match proved.iter().find(|(_, all)| all.iter().any(failed)) {
        None => Ok(ExitCode::SUCCESS),
        Some((name, _)) => Err(CliError::sentence(
            CliExitCode::BadData,
            format!("self-test failed on {name}; see above"),
        )),
    }
}

/// The word for what was seen, and the detail.
fn words(seen: &SelfTestStatus) -> (&'static str, &str) {
    match seen {
        SelfTestStatus::Passed(text) => ("yes", text),
        SelfTestStatus::Failed(text) => ("NO", text),
        SelfTestStatus::Unseen(text) => ("not seen", text),
    }
}

fn as_text(proved: &[(String, Vec<SelfTestResult>)]) -> String {
    let mut text = String::new();
    for (name, all) in proved {
        let _ = writeln!(
            text,
            "{name}:\n  yes       it keeps what is written, 16 at once"
        );
        for one in all {
            let (word, detail) = words(&one.outcome);
            let _ = writeln!(text, "  {word:<9} {}: {detail}", one.what);
        }
    }
    text
}

fn print_json(proved: &[(String, Vec<SelfTestResult>)]) {
    let one = |one: &SelfTestResult| {
        let (word, detail) = words(&one.outcome);
        serde_json::json!({ "what": one.what, "seen": word, "detail": detail })
    };
    let stacks: Vec<_> = proved
        .iter()
        .map(|(name, all)| {
            let proofs: Vec<_> = all.iter().map(one).collect();
            serde_json::json!({ "name": name, "proofs": proofs })
        })
        .collect();
    terminal::print_json(&serde_json::json!({ "stacks": stacks }));
}
