// SPDX-License-Identifier: Apache-2.0
//! `plimsoll vm`: virtual machines as nodes.
//!
//! Manual: `docs/vm.md`.

mod appliance;
mod inventory;
mod shell;
mod up;

use super::raze::verdict;
use crate::context;
use crate::failure::{Code, Failure, Outcome, doing, trying};
use crate::terminal;
use plimsoll_core::fault::{Fault, Word};
use plimsoll_core::units;
use plimsoll_lab::host::Host;
use plimsoll_lab::journal::StateDir;
use plimsoll_lab::vm::{self, Condition, Lab, VmError, image};
use std::path::PathBuf;
use std::process::ExitCode;

/// Stand virtual machines up as nodes: kernels of their own, disks that outlive a power cut, a network
/// whose cables can be pulled.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll vm up --nodes 3 --clients 1 -o lab.toml
  plimsoll stack up nfs --on lab.toml
  plimsoll run randwrite nfs --from c1 --on lab.toml
  plimsoll vm shell n1 dmesg
  plimsoll vm off n1
  plimsoll vm on n1
  plimsoll vm down
  plimsoll vm appliance -o node --key ~/.ssh/id_ed25519.pub")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Stand machines up, and write an inventory file that names them.
    Up(up::Up),
    /// Say which machines are up and how they are.
    Status(Status),
    /// Take all machines down, with what is on their disks.
    Down(Down),
    /// Make the image that machines boot from, or say where it is.
    Image(ImageArgs),
    /// Make a node to take away: a disk that boots by itself, as qcow2 and as OVA.
    Appliance(appliance::Appliance),
    /// Run a command in a machine, or get a shell there.
    Shell(shell::Shell),
    /// Cut a machine's power.
    Off(Name),
    /// Switch a machine on that is off, with the disks it had.
    On(Name),
    /// Both, as the `power` of an inventory is asked.
    #[command(hide = true)]
    Power(Power),
    /// Let a machine stand still.
    Pause(Name),
    /// Let a machine go on that stood still.
    Resume(Name),
    /// Plug the cable of a machine's network in, or pull it.
    Link(Link),
    /// Do a fault to a machine, end it, or try whether it could be done.
    Fault(FaultArgs),
    /// Cut the power of machines that others ask for; the plan of machines starts this.
    #[command(hide = true)]
    PowerSwitch(PowerSwitch),
}

#[derive(Debug, clap::Args)]
struct PowerSwitch {
    /// Where the machines' files are.
    #[arg(long)]
    dir: PathBuf,
    /// Identifier of their journal.
    #[arg(long)]
    id: String,
    /// The machines.
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Name {
    /// The machine: n1, c1.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct Power {
    /// The state directory that names the machines.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    #[command(flatten)]
    machine: Name,
    /// Whether it has power.
    #[arg(value_name = "on|off")]
    word: PowerWord,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PowerWord {
    On,
    Off,
}

#[derive(Debug, clap::Args)]
struct FaultArgs {
    /// The state directory that names the machines (default: that of everything).
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    machine: Name,
    /// The fault: link-down, one-way, partition, delay, loss, disk-slow, disk-hung, disk-errors, disk-full,
    /// clock-step.
    #[arg(value_name = "FAULT", value_parser = super::failover::fault)]
    fault: Fault,
    /// Whether it is there.
    #[arg(value_name = "try|on|off")]
    word: FaultWord,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FaultWord {
    Try,
    On,
    Off,
}

#[derive(Debug, clap::Args)]
struct Link {
    #[command(flatten)]
    machine: Name,
    /// Whether it is plugged in.
    #[arg(value_name = "up|down")]
    state: LinkState,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LinkState {
    Up,
    Down,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Down {
    /// Print the steps and do nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct ImageArgs {
    /// Remove all images.
    #[arg(long, conflicts_with = "renew")]
    remove: bool,
    /// Make it anew, with the packages of today.
    #[arg(long)]
    renew: bool,
    /// Print a checksum of what goes into it, and do nothing.
    #[arg(long, conflicts_with_all = ["renew", "remove"])]
    recipe: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let state = context::state_dir()?;
    match &args.verb {
        Verb::Up(args) => up::main(args, &state),
        Verb::Status(args) => show(args, &state),
        Verb::Down(args) => lower(args, &state),
        Verb::Image(args) => make_image(args, &state),
        Verb::Appliance(args) => appliance::main(args, &state),
        Verb::Shell(args) => shell::main(args, &state),
        Verb::Off(name) => power(&state, &name.name, PowerWord::Off),
        Verb::On(name) => power(&state, &name.name, PowerWord::On),
        Verb::Power(args) => power(&StateDir::new(&args.state), &args.machine.name, args.word),
        Verb::Pause(name) => on_lab(&state, "pause the machine", |lab| lab.pause(&name.name)),
        Verb::Resume(name) => on_lab(&state, "resume the machine", |lab| lab.resume(&name.name)),
        Verb::Link(link) => {
            let is_up = matches!(link.state, LinkState::Up);
            let tell = |lab: &Lab| lab.link(&link.machine.name, is_up);
            on_lab(&state, "change the machine's link", tell)
        }
        Verb::Fault(args) => fault(args, &state),
        Verb::PowerSwitch(args) => {
            let (dir, id) = (args.dir.clone(), args.id.clone());
            let clock = plimsoll_lab::host::SystemClock::new();
            let mut switch = vm::Switch::new(dir, id, &args.names);
            let served = switch.serve(&clock);
            served.map_err(doing(Code::Failed, "be the machines' power switch"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn power(state: &StateDir, name: &str, word: PowerWord) -> Outcome {
    let hosts = &mut context::nodes();
    match word {
        PowerWord::Off => {
            let off = |lab: &Lab| lab.off(name, plimsoll_lab::host::Hosts::here(hosts));
            on_lab(state, "cut the power of the machine", off)
        }
        PowerWord::On => {
            let _stop = context::stop_flag()?;
            on_lab(state, "switch the machine on", |lab| lab.on(name, hosts))
        }
    }
}

fn fault(args: &FaultArgs, state: &StateDir) -> Outcome {
    let named = args.state.as_ref().map(StateDir::new);
    let word = match args.word {
        FaultWord::Try => Word::Try,
        FaultWord::On => Word::On,
        FaultWord::Off => Word::Off,
    };
    let (name, fault) = (&args.machine.name, args.fault);
    let host = context::host();
    let what = format!("do {fault} to machine {name}");
    on_lab(named.as_ref().unwrap_or(state), &what, |lab| {
        lab.fault(name, fault, word, &host)
    })
}

fn find(state: &StateDir) -> Result<Lab, VmError> {
    Lab::find(state, context::host().clock())
}

/// Does something with machines that are up.
fn on_lab(state: &StateDir, what: &str, work: impl FnOnce(&Lab) -> Result<(), VmError>) -> Outcome {
    let done = find(state).and_then(|lab| work(&lab));
    done.map_err(trying(what))?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &Status, state: &StateDir) -> Outcome {
    let failed = || doing(Code::Failed, "look at the machines");
    let lab = match find(state) {
        Err(error @ VmError::NotUp) => {
            if args.json {
                terminal::print_json(&serde_json::json!({ "machines": [] }));
            } else {
                let text = error.to_string();
                terminal::print(&format!("{}{}.", text[..1].to_uppercase(), &text[1..]));
            }
            return Ok(ExitCode::SUCCESS);
        }
        other => other.map_err(failed())?,
    };
    let host = context::host();
    let mut list = Vec::new();
    for node in lab.nodes() {
        let condition = lab.condition(&node.name, &host).map_err(failed())?;
        let condition = match &condition {
            Condition::Running => "running",
            Condition::Paused => "paused",
            Condition::Off => "off",
            Condition::Odd(why) => why,
        };
        if !args.json {
            terminal::print(&format!(
                "{:<4} {:<13} {condition}",
                node.name, node.address
            ));
        }
        list.push(
            serde_json::json!({ "name": node.name, "address": node.address,
            "condition": condition }),
        );
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "machines": list, "since": lab.since() }));
    } else {
        terminal::print(&format!("since {}", lab.since()));
    }
    Ok(ExitCode::SUCCESS)
}

fn lower(args: &Down, state: &StateDir) -> Outcome {
    if args.dry_run {
        super::raze::print_steps(state, false, Default::default(), |record| {
            record.header.kind == plimsoll_lab::journal::Kind::Machines
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C does not stop half way: undoing is bounded, and its rest would have to be done later.
    let _stop = context::stop_flag()?;
    let razed = vm::down(state, &mut context::nodes()).map_err(trying("take the machines down"))?;
    if razed.is_clean() {
        terminal::print("The machines are down.");
    }
    verdict(&razed.problems())
}

fn make_image(args: &ImageArgs, state: &StateDir) -> Outcome {
    let unreadable = |error| Failure::new(Code::Failed, format!("use the images: {error}"));
    if args.recipe {
        terminal::print(&image::recipe());
        return Ok(ExitCode::SUCCESS);
    }
    if args.remove || args.renew {
        if find(state).is_ok() {
            return Err(
                Failure::usage("remove images: machines that are up boot from one")
                    .hint("take them down first: plimsoll vm down"),
            );
        }
        let count = image::remove(state).map_err(unreadable)?;
        if args.remove {
            terminal::print(&format!("Removed {count} images."));
            return Ok(ExitCode::SUCCESS);
        }
    }
    let stop = context::stop_flag()?;
    let found = up::image(state, &stop, &mut context::nodes())?;
    terminal::print(&format!(
        "{}\n{}, recipe {}, kernel {}",
        found.dir.display(),
        units::size(found.size_bytes as f64),
        found.recipe,
        found.kernel
    ));
    Ok(ExitCode::SUCCESS)
}
