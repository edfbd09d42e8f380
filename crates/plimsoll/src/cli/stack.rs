// SPDX-License-Identifier: Apache-2.0
//! `plimsoll stack`: storage systems, brought up on this machine and taken down again.

mod check;
pub(super) mod list;

use super::measure::kept;
use super::trust::TrustArgs;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignSpec, CampaignStacks};
use plimsoll_core::plan::{HERE, Plan};
use plimsoll_core::units;
use plimsoll_core::written::WrittenSize;
use plimsoll_lab::stacks::{self, NodeInventory, StackConfig, StackPlacement};
use plimsoll_machine::host::HostResolver;
use plimsoll_machine::journal::StateDir;
use plimsoll_run::trying;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Bring up, test, change and take down storage systems.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll stack list
  plimsoll stack up local iscsi raid1
  plimsoll stack up raid1 --size 4G --dry-run
  plimsoll stack up nfs --on lab.toml
  plimsoll stack status
  plimsoll stack degrade raid1
  plimsoll stack rebuild raid1
  plimsoll stack down raid1")]
pub(super) struct StackArgs {
    #[command(subcommand)]
    verb: StackCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StackCommand {
    /// List stacks and layers, and what this machine lacks for them.
    List(list::StackListArgs),
    /// Show the settings of a stack or a layer.
    Show(list::StackShowArgs),
    /// Test data integrity, syncs, access and node failure of stacks.
    ///
    /// The stacks must keep data, syncs must reach the disk, other users must have no access, and a
    /// node may fail.
    Check(check::StackCheckArgs),
    /// Bring stacks up.
    Up(StackUpArgs),
    /// Show which stacks are up, and their state.
    Status(StackStatusArgs),
    /// Take stacks down.
    Down(StackDownArgs),
    /// Add a node to a stack, and spread the data over all nodes.
    Grow(StackGrowArgs),
    /// Stop the last node, so that the stack runs degraded.
    Degrade(StackChangeArgs),
    /// Restart the stopped node, and bring its data up to date.
    Rebuild(StackChangeArgs),
    /// Read all data of a stack, and verify copies or checksums.
    ///
    /// Exit code 12 if errors cannot be repaired.
    Scrub(StackChangeArgs),
    /// Take a snapshot of the data of a stack.
    Snapshot(StackChangeArgs),
    /// Move the service of a stack to another node.
    ///
    /// For example before maintenance.
    Switch(StackChangeArgs),
    /// Restore the data of a lost node on its replacement.
    ///
    /// The new machine has the name and address of the lost node.
    Replace(StackReplaceArgs),
}

#[derive(Debug, clap::Args)]
struct StackReplaceArgs {
    #[command(flatten)]
    change: StackChangeArgs,
    /// Node to restore, by its name in the inventory.
    #[arg(value_name = "NODE")]
    node: String,
}

#[derive(Debug, clap::Args)]
struct StackChangeArgs {
    /// Name of the stack, as given to plimsoll stack up.
    #[arg(value_name = "STACK")]
    name: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct StackGrowArgs {
    #[command(flatten)]
    change: StackChangeArgs,
    /// Inventory file that defines one more machine.
    ///
    /// For stacks on machines of an inventory.
    #[arg(long, value_name = "FILE.toml")]
    on: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct StackUpArgs {
    /// Stacks to bring up.
    ///
    /// Names as in `plimsoll stack list`, with settings and layers (`nbd(read_delay=5ms)`,
    /// `gluster(distribute)+crypt`), or files that define your own stacks (`./mine.toml`).
    #[arg(required = true, value_name = "STACK")]
    names: Vec<String>,
    #[command(flatten)]
    shape: StackOptionArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct StackStatusArgs {
    /// Print the status as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct StackDownArgs {
    /// Stacks to take down, by the names given to plimsoll stack up.
    #[arg(required = true, value_name = "STACK")]
    names: Vec<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Size of each node's disk, where no other is given.
const SIZE_BYTES: u64 = 2 << 30;
/// First port, where no other is given.
const FIRST_PORT: u16 = 13_260;

/// Where the files of stacks lie and how large they are.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stacks")]
pub(super) struct StackOptionArgs {
    /// Size of each node's disk (default: 2G).
    #[arg(long = "size", value_parser = units::parse_size, value_name = "SIZE", hide_short_help = true)]
    size_bytes: Option<u64>,
    /// Directory for the nodes' disks: the storage that is measured in the end.
    ///
    /// Default: stacks/ in the state directory. The state directory is `PLIMSOLL_STATE`, else
    /// /var/lib/plimsoll for root and ~/.local/state/plimsoll for other users.
    #[arg(long = "dir", value_name = "DIR", hide_short_help = true)]
    base: Option<PathBuf>,
    /// First port to use on the loopback address (default: 13260).
    ///
    /// Ports in use are skipped.
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), hide_short_help = true)]
    first_port: Option<u16>,
    /// Machines for the servers of stacks (default: as the stack chooses).
    ///
    /// `here`: this machine. `netns`: this machine, each server in its own network namespace.
    /// FILE.toml: the machines of an inventory file (docs/stacks/inventory.md).
    #[arg(long = "on", value_name = "here|netns|FILE.toml")]
    on: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

impl StackOptionArgs {
    /// Which files may start programs.
    pub(super) fn trust(&self) -> &TrustArgs {
        &self.trust
    }

    /// The same options, wherever the program goes: a word of --on that is a file is one.
    pub(super) fn kept(&self) -> StackOptionArgs {
        let file = |on: &String| match StackPlacement::named(on) {
            None => kept(Path::new(on)).display().to_string(),
            Some(_) => on.clone(),
        };
        StackOptionArgs {
            base: self.base.as_deref().map(kept),
            on: self.on.as_ref().map(file),
            trust: self.trust.kept(),
            ..self.clone()
        }
    }

    /// Puts what was given into a campaign.
    pub(super) fn apply(&self, spec: &mut CampaignSpec) {
        let stacks = &mut spec.stacks;
        let directory = self.base.as_ref().map(|path| path.display().to_string());
        stacks.size = self.size_bytes.map(WrittenSize).or(stacks.size);
        stacks.dir = directory.or(stacks.dir.take());
        stacks.port = self.first_port.or(stacks.port);
        stacks.on = self.on.clone().or(stacks.on.take());
    }

    pub(super) fn options(&self, state: &StateDir) -> Result<stacks::StackUpOptions, CliError> {
        let mut spec = CampaignSpec::default();
        self.apply(&mut spec);
        stack_options(&spec.stacks, state)
    }
}

/// How stacks are brought up.
pub(super) fn stack_options(
    of: &CampaignStacks,
    state: &StateDir,
) -> Result<stacks::StackUpOptions, CliError> {
    let base = of
        .dir
        .as_ref()
        .map_or_else(|| state.stacks(), PathBuf::from);
    let usual = stacks::StackUpOptions::new(base);
    Ok(stacks::StackUpOptions {
        size_bytes: of.size.map_or(SIZE_BYTES, |size| size.0),
        first_port: of.port.unwrap_or(FIRST_PORT),
        place: of.on.as_deref().map(place).transpose()?,
        ..usual
    })
}

fn place(text: &str) -> Result<StackPlacement, CliError> {
    if let Some(place) = StackPlacement::named(text) {
        return Ok(place);
    }
    let path = Path::new(text);
    if path.extension().is_none() && !path.exists() {
        return Err(CliError::invalid(format!(
            "--on: expected 'here', 'netns' or an inventory file, got '{text}'"
        )));
    }
    Ok(StackPlacement::Inventory(Box::new(super::inventory::read(
        path,
    )?)))
}

pub(super) fn main(args: &StackArgs) -> CliResult {
    let state = context::state_dir()?;
    match &args.verb {
        StackCommand::List(args) => list::list(args),
        StackCommand::Show(args) => list::show(args),
        StackCommand::Check(args) => check::main(args),
        StackCommand::Up(up) => raise(up, &state),
        StackCommand::Status(status) => show(status, &state),
        StackCommand::Down(down) => lower(down, &state),
        StackCommand::Grow(args) => {
            let more = args.on.as_deref().map(super::inventory::read).transpose()?;
            change(
                &args.change,
                stacks::StackChange::Grow,
                more.as_ref(),
                &state,
            )
        }
        StackCommand::Degrade(args) => change(args, stacks::StackChange::Degrade, None, &state),
        StackCommand::Rebuild(args) => change(args, stacks::StackChange::Rebuild, None, &state),
        StackCommand::Scrub(args) => change(args, stacks::StackChange::Scrub, None, &state),
        StackCommand::Snapshot(args) => change(args, stacks::StackChange::Snapshot, None, &state),
        StackCommand::Switch(args) => change(args, stacks::StackChange::Switch, None, &state),
        StackCommand::Replace(args) => {
            let verb = stacks::StackChange::Replace(&args.node);
            change(&args.change, verb, None, &state)
        }
    }
}

fn raise(args: &StackUpArgs, state: &StateDir) -> CliResult {
    let options = args.shape.options(state)?;
    let mut hosts = context::nodes();
    let choices = choices(&args.names)?;
    args.shape
        .trust
        .check_stacks(choices.iter(), args.dry_run)?;
    if args.dry_run {
        return show_plans(args, &choices, &options, &mut hosts);
    }
    // A step under way is finished, so that nothing is left half made.
    let stop = context::stop_flag()?;
    hosts.heed(&stop);
    let mut came_up = Vec::new();
    for choice in &choices {
        let name = choice.parts.to_string();
        let up = match stacks::up(choice, &options, state, &mut hosts)
            .map_err(trying(format!("bring up the stack {name}")))
        {
            Err(failure) if failure.code == CliExitCode::Interrupted => {
                terminal::say(&failure.to_string());
                return undo(&choices[..came_up.len()], state, &mut hosts);
            }
            other => other?,
        };
        if stop.load(Ordering::Relaxed) {
            return undo(&choices[..=came_up.len()], state, &mut hosts);
        }
        if !args.json {
            let place = match up.made.place() {
                "" => "for load from another machine (--clients)",
                place => &format!("at {place}"),
            };
            terminal::print(&format!("{name} is up {place}\n  {}", up.made.description));
            if let (Some(StackPlacement::Inventory(_)), Some(who)) =
                (&options.place, choice.stack.lets_in(choice))
            {
                terminal::print(&format!("  {who}"));
            }
        }
        came_up
            .push(serde_json::json!({ "name": up.name, "mount_dir": up.mount_dir(), "address": up.made.address,
                "id": up.id }));
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "up": came_up }));
    }
    Ok(ExitCode::SUCCESS)
}

/// After Ctrl-C: what this command brought up goes down again.
fn undo(choices: &[StackConfig], state: &StateDir, hosts: &mut dyn HostResolver) -> CliResult {
    let mut left = Vec::new();
    for choice in choices.iter().rev() {
        match stacks::down(&choice.parts.to_string(), state, hosts) {
            Ok(razed) => left.extend(razed.problems()),
            Err(error) => left.push(error.to_string()),
        }
    }
    super::raze::verdict(&left)?;
    super::done(CliExitCode::Interrupted)
}

/// The stacks of these names, before anything is done with any.
pub(super) fn choices(names: &[String]) -> Result<Vec<StackConfig>, CliError> {
    let one = |name: &String| StackConfig::parse(name).map_err(CliError::invalid);
    names.iter().map(one).collect()
}

fn show_plans(
    args: &StackUpArgs,
    choices: &[StackConfig],
    options: &stacks::StackUpOptions,
    hosts: &mut dyn HostResolver,
) -> CliResult {
    let mut would = Vec::new();
    for choice in choices {
        let name = choice.parts.to_string();
        let plan = stacks::manage::plan(choice, options, hosts)
            .map_err(trying(format!("plan the stack {name}")))?
            .plan;
        if !args.json {
            terminal::print(&steps_of(&name, &plan));
        }
        would.push(serde_json::json!({ "name": name, "plan": plan }));
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "would": would }));
    }
    Ok(ExitCode::SUCCESS)
}

/// The steps of something, a line for each.
pub(super) fn steps_of(name: &str, plan: &Plan) -> String {
    let mut text = format!("{name}:\n");
    for step in &plan.steps {
        let node = match step.node.as_str() {
            HERE => String::new(),
            node => format!("on {node}: "),
        };
        let _ = writeln!(text, "  {:<44} {node}{}", step.why, step.apply);
    }
    text
}

fn print_plan(name: &str, plan: &Plan, json: bool) {
    if json {
        terminal::print_json(&serde_json::json!({ "name": name, "plan": plan }));
    } else {
        terminal::print(&steps_of(name, plan));
    }
}

/// Changes a stack, with machines that `more` names where it grows onto such.
fn change(
    args: &StackChangeArgs,
    verb: stacks::StackChange<'_>,
    more: Option<&NodeInventory>,
    state: &StateDir,
) -> CliResult {
    let choice = StackConfig::parse(&args.name).map_err(CliError::invalid)?;
    let name = choice.parts.to_string();
    let mut hosts = context::nodes();
    let failed = || trying(format!("{verb} the stack {name}"));
    if args.dry_run {
        let plan = stacks::change::planned(&name, verb, more, state, &mut hosts);
        print_plan(&name, &plan.map_err(failed())?, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C does not stop half way: a step that was begun has to be finished or undone.
    let _stop = context::stop_flag()?;
    let mut watch = |moment: stacks::StackChangeEvent<'_>| match moment {
        stacks::StackChangeEvent::TakesBack { verb } => {
            terminal::say(&format!("take back '{verb}', which was cut off"));
        }
        stacks::StackChangeEvent::GoesOn => {
            terminal::say(&format!("go on with '{}', which was cut off", verb.name()));
        }
        stacks::StackChangeEvent::Step(step) if !args.json => terminal::say(&step.why),
        stacks::StackChangeEvent::Step(_) => {}
    };
    let changed = stacks::change(&name, verb, more, state, &mut hosts, &mut watch);
    let scrubbed = match verb {
        stacks::StackChange::Scrub => stacks::change::scrubbed(&name, state, &mut hosts),
        _ => None,
    };
    if let (Err(_), Some(found)) = (&changed, scrubbed.filter(|found| found.left > 0)) {
        return Err(CliError::sentence(
            CliExitCode::BadData,
            format!("data verification failed on {name}: {}", found_words(found)),
        ));
    }
    let made = changed.map_err(failed())?;
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "name": name, "verb": verb.name(), "made": made,
            "corrected": scrubbed.map(|found| found.corrected) }),
        );
    } else {
        terminal::print(&format!("{name}: {verb} is done\n  {}", made.description));
        let found = scrubbed.map(|found| format!("  {}", found_words(found)));
        found.iter().for_each(|line| terminal::print(line));
    }
    Ok(ExitCode::SUCCESS)
}

/// Result of reading all data, in words.
fn found_words(found: stacks::ScrubCount) -> String {
    match (found.corrected, found.left) {
        (0, 0) => "all data were read without an error".into(),
        (corrected, 0) => format!("{corrected} errors were found and repaired"),
        (corrected, left) => format!("{left} errors cannot be repaired; {corrected} were repaired"),
    }
}

fn show(args: &StackStatusArgs, state: &StateDir) -> CliResult {
    let all = stacks::status(state, &mut context::nodes()).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("read {}: {error}", state.path().display()),
        )
    })?;
    if args.json {
        let list: Vec<_> = all
            .iter()
            .map(|s| {
                serde_json::json!({ "name": s.name, "standing": s.standing, "since": s.since,
                    "mount_dir": s.mount_dir, "problems": s.problems, "degraded": s.degraded, "told": s.told,
                    "nodes": s.nodes.iter().map(|node| &node.name).collect::<Vec<_>>() })
            })
            .collect();
        terminal::print_json(&serde_json::json!({ "stacks": list }));
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        terminal::print(&format!("No stack is up. There are {}.", stacks::names()));
    }
    for status in &all {
        let health = match (status.problems.as_slice(), status.degraded.as_slice()) {
            ([], []) => "healthy".into(),
            ([], lacking) => format!("degraded: {}", lacking.join("; ")),
            (problems, _) => problems.join("; "),
        };
        let place = status.mount_dir.as_deref().filter(|dir| !dir.is_empty());
        let place = place.unwrap_or("-");
        terminal::print(&format!(
            "{:<8} {place}  since {}  {health}",
            status.name, status.since
        ));
        for line in &status.told {
            terminal::print(&format!("         {line}"));
        }
    }
    let is_sick =
        |status: &stacks::StackStatus| !(status.problems.is_empty() && status.degraded.is_empty());
    let sick = all.iter().any(is_sick);
    if sick {
        super::done(CliExitCode::Failed)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

fn lower(args: &StackDownArgs, state: &StateDir) -> CliResult {
    if args.dry_run {
        let wanted: Vec<String> = choices(&args.names)?
            .iter()
            .map(|choice| format!("stack '{}'", choice.parts))
            .collect();
        super::raze::print_steps(state, args.json, Default::default(), |record| {
            wanted.contains(&record.header.kind.to_string())
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C does not stop half way: undoing is bounded, and its rest would have to be done later.
    let _stop = context::stop_flag()?;
    let mut hosts = context::nodes();
    let mut left = Vec::new();
    let mut undone = Vec::new();
    for choice in choices(&args.names)? {
        let name = choice.parts.to_string();
        let razed = stacks::down(&name, state, &mut hosts).map_err(doing(
            CliExitCode::Usage,
            format!("take down the stack {name}"),
        ))?;
        left.extend(razed.problems());
        undone.push(serde_json::json!({ "name": name, "steps_undone": razed.undone }));
        if !args.json && razed.is_clean() {
            terminal::print(&format!("{name} is down"));
        }
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "down": undone, "left": left }));
    }
    super::raze::verdict(&left)
}
