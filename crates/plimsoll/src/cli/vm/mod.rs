// SPDX-License-Identifier: Apache-2.0
//! `plimsoll vm`: virtual machines as nodes.
//!
//! Manual: `docs/vm.md`.

mod appliance;
mod inventory;
mod shell;
mod up;

use super::raze::verdict;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::fault::{FaultCommand, FaultKind};
use plimsoll_core::units;
use plimsoll_lab::vm::{self, VmError, VmGroup, VmState, image};
use plimsoll_machine::host::Host;
use plimsoll_machine::journal::StateDir;
use plimsoll_run::trying;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run virtual machines as nodes.
///
/// Each VM has its own kernel, disks that survive a power cut, and a network cable that can be
/// pulled.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll vm up --node-count 3 --client-count 1 -o lab.toml
  plimsoll stack up nfs --on lab.toml
  plimsoll run randwrite nfs --clients c1 --on lab.toml
  plimsoll vm shell n1 dmesg
  plimsoll vm off n1
  plimsoll vm on n1
  plimsoll vm down
  plimsoll vm appliance -o node --key ~/.ssh/id_ed25519.pub")]
pub(super) struct VmArgs {
    #[command(subcommand)]
    verb: VmCommand,
}

#[derive(Debug, clap::Subcommand)]
enum VmCommand {
    /// Start VMs, and write an inventory file that names them.
    Up(up::VmUpArgs),
    /// Show which VMs are up, and their state.
    Status(VmStatusArgs),
    /// Take all VMs down, and delete their disks.
    Down(VmDownArgs),
    /// Build the VM image if it is missing, and print its path.
    Image(VmImageArgs),
    /// Build a bootable node for other hypervisors (qcow2 and OVA).
    Appliance(appliance::VmApplianceArgs),
    /// Run a command in a VM, or open a shell.
    Shell(shell::VmShellArgs),
    /// Cut the power of a VM.
    Off(VmNameArgs),
    /// Switch on a VM that is off.
    ///
    /// The VM keeps its disks.
    On(VmNameArgs),
    /// Switch a VM on or off, as the `power` command of an inventory.
    #[command(hide = true)]
    Power(VmPowerArgs),
    /// Suspend a VM.
    Pause(VmNameArgs),
    /// Resume a suspended VM.
    Resume(VmNameArgs),
    /// Plug in or pull the network cable of a VM.
    Link(VmLinkArgs),
    /// Inject, clear or probe a fault on a VM.
    Fault(VmFaultArgs),
    /// Cut the power of VMs on request of other VMs (internal).
    #[command(hide = true)]
    PowerSwitch(PowerSwitch),
}

#[derive(Debug, clap::Args)]
struct PowerSwitch {
    /// Directory of the VMs' files.
    #[arg(long)]
    dir: PathBuf,
    /// Identifier of the VMs' journal.
    #[arg(long)]
    id: String,
    /// Names of the VMs.
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct VmNameArgs {
    /// Name of the VM, such as n1 or c1.
    #[arg(value_name = "NAME")]
    name: String,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct VmPowerArgs {
    /// State directory of the VMs.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    #[command(flatten)]
    machine: VmNameArgs,
    /// New state of the VM's power.
    #[arg(value_name = "on|off")]
    word: PowerWord,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PowerWord {
    On,
    Off,
}

#[derive(Debug, clap::Args)]
struct VmFaultArgs {
    /// State directory of the VMs (default: that of the current user).
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    machine: VmNameArgs,
    /// Fault to inject, clear or probe.
    ///
    /// One of link-down, one-way, partition, delay, loss, disk-slow, disk-hung, disk-errors,
    /// disk-full, clock-step.
    #[arg(value_name = "FAULT", value_parser = super::inject::fault_kind)]
    fault: FaultKind,
    /// Action on the fault.
    #[arg(value_name = "try|on|off")]
    word: FaultWord,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FaultWord {
    /// Probe whether the fault is possible
    Try,
    /// Inject the fault
    On,
    /// Clear the fault
    Off,
}

#[derive(Debug, clap::Args)]
struct VmLinkArgs {
    #[command(flatten)]
    machine: VmNameArgs,
    /// New state of the cable.
    #[arg(value_name = "up|down")]
    state: LinkState,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LinkState {
    /// Plugged in
    Up,
    /// Pulled
    Down,
}

#[derive(Debug, clap::Args)]
struct VmStatusArgs {
    /// Print the status as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct VmDownArgs {
    /// Print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct VmImageArgs {
    /// Remove all images.
    #[arg(long, conflicts_with = "renew")]
    remove: bool,
    /// Build the image again, from current packages.
    #[arg(long)]
    renew: bool,
    /// Print the checksum of the image's recipe; change nothing.
    #[arg(long, conflicts_with_all = ["renew", "remove"])]
    recipe: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &VmArgs) -> CliResult {
    let state = context::state_dir()?;
    match &args.verb {
        VmCommand::Up(args) => up::main(args, &state),
        VmCommand::Status(args) => show(args, &state),
        VmCommand::Down(args) => lower(args, &state),
        VmCommand::Image(args) => make_image(args, &state),
        VmCommand::Appliance(args) => appliance::main(args, &state),
        VmCommand::Shell(args) => shell::main(args, &state),
        VmCommand::Off(name) => power(&state, name, PowerWord::Off),
        VmCommand::On(name) => power(&state, name, PowerWord::On),
        VmCommand::Power(args) => power(&StateDir::new(&args.state), &args.machine, args.word),
        VmCommand::Pause(one) => {
            on_lab(&state, "pause the machine", |lab| lab.pause(&one.name))?;
            one.done("paused")
        }
        VmCommand::Resume(one) => {
            on_lab(&state, "resume the machine", |lab| lab.resume(&one.name))?;
            one.done("running")
        }
        VmCommand::Link(link) => {
            let is_up = matches!(link.state, LinkState::Up);
            let tell = |lab: &VmGroup| lab.link(&link.machine.name, is_up);
            on_lab(&state, "change the machine's link", tell)?;
            link.machine
                .done(if is_up { "plugged in" } else { "pulled" })
        }
        VmCommand::Fault(args) => fault(args, &state),
        VmCommand::PowerSwitch(args) => {
            let (dir, id) = (args.dir.clone(), args.id.clone());
            let clock = plimsoll_machine::host::SystemClock::new();
            let mut switch = vm::VmPowerSwitch::new(dir, id, &args.names);
            let served = switch.serve(&clock);
            served.map_err(doing(
                CliExitCode::Failed,
                "serve the power switch of the machines",
            ))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl VmNameArgs {
    /// New condition of a machine, its cable or a fault of it.
    fn done(&self, condition: &str) -> CliResult {
        if self.json {
            terminal::print_json(
                &serde_json::json!({ "machine": self.name, "condition": condition }),
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn power(state: &StateDir, machine: &VmNameArgs, word: PowerWord) -> CliResult {
    let (hosts, name) = (&mut context::nodes(), &machine.name);
    match word {
        PowerWord::Off => {
            let off =
                |lab: &VmGroup| lab.off(name, plimsoll_machine::host::HostResolver::here(hosts));
            on_lab(state, "cut the power of the machine", off)?;
            machine.done("off")
        }
        PowerWord::On => {
            let _stop = context::stop_flag()?;
            on_lab(state, "switch the machine on", |lab| lab.on(name, hosts))?;
            machine.done("running")
        }
    }
}

fn fault(args: &VmFaultArgs, state: &StateDir) -> CliResult {
    let named = args.state.as_ref().map(StateDir::new);
    let word = match args.word {
        FaultWord::Try => FaultCommand::Try,
        FaultWord::On => FaultCommand::On,
        FaultWord::Off => FaultCommand::Off,
    };
    let (name, fault) = (&args.machine.name, args.fault);
    let host = context::host();
    let what = match word {
        FaultCommand::Try => format!("probe {fault} on machine {name}"),
        FaultCommand::On => format!("inject {fault} into machine {name}"),
        FaultCommand::Off => format!("clear {fault} on machine {name}"),
    };
    on_lab(named.as_ref().unwrap_or(state), &what, |lab| {
        lab.fault(name, fault, word, &host)
    })?;
    args.machine.done(match word {
        FaultCommand::Try => "fault possible",
        FaultCommand::On => "fault injected",
        FaultCommand::Off => "fault cleared",
    })
}

fn find(state: &StateDir) -> Result<VmGroup, VmError> {
    VmGroup::find(state, context::host().clock())
}

/// Does something with machines that are up.
fn on_lab(
    state: &StateDir,
    what: &str,
    work: impl FnOnce(&VmGroup) -> Result<(), VmError>,
) -> Result<(), CliError> {
    let done = find(state).and_then(|lab| work(&lab));
    done.map_err(trying(what))
}

fn show(args: &VmStatusArgs, state: &StateDir) -> CliResult {
    let failed = || doing(CliExitCode::Failed, "query the machines");
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
            VmState::Running => "running",
            VmState::Paused => "paused",
            VmState::Off => "off",
            VmState::Odd(why) => why,
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

fn lower(args: &VmDownArgs, state: &StateDir) -> CliResult {
    if args.dry_run {
        super::raze::print_steps(state, args.json, Default::default(), |record| {
            record.header.kind == plimsoll_machine::journal::JournalScope::Machines
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C does not stop half way: undoing is bounded, and its rest would have to be done later.
    let _stop = context::stop_flag()?;
    let razed = vm::down(state, &mut context::nodes()).map_err(trying("take the machines down"))?;
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "down": razed.is_clean(), "left": razed.problems() }),
        );
    } else if razed.is_clean() {
        terminal::print("The machines are down.");
    }
    verdict(&razed.problems())
}

fn make_image(args: &VmImageArgs, state: &StateDir) -> CliResult {
    let unreadable = |error| CliError::new(CliExitCode::Failed, format!("use the images: {error}"));
    if args.recipe {
        let recipe = image::recipe();
        match args.json {
            true => terminal::print_json(&serde_json::json!({ "recipe": recipe })),
            false => terminal::print(&recipe),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if (args.remove || args.renew) && find(state).is_ok() {
        return Err(
            CliError::usage("remove images: machines that are up boot from one")
                .hint("take them down first: plimsoll vm down"),
        );
    }
    if args.remove {
        let count = image::remove_but(state, None).map_err(unreadable)?;
        match args.json {
            true => terminal::print_json(&serde_json::json!({ "removed": count })),
            false => terminal::print(&format!("Removed {count} images.")),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let stop = context::stop_flag()?;
    let found = match args.renew {
        false => up::image(state, &stop, &mut context::nodes())?,
        true => {
            // The old ones are there until the new one is.
            let made = up::new_image(state, &stop, &mut context::nodes())?;
            image::remove_but(state, Some(&made)).map_err(unreadable)?;
            made
        }
    };
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "dir": found.dir, "bytes": found.size_bytes,
            "recipe": found.recipe, "kernel": found.kernel }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print(&format!(
        "{}\n{}, recipe {}, kernel {}",
        found.dir.display(),
        units::size(found.size_bytes as f64),
        found.recipe,
        found.kernel
    ));
    Ok(ExitCode::SUCCESS)
}
