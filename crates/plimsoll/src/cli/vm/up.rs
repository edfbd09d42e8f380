// SPDX-License-Identifier: Apache-2.0
//! `plimsoll vm up`: image, acceleration, machines, inventory.

use super::inventory;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_core::plan::PlanStep;
use plimsoll_core::units;
use plimsoll_lab::vm::image::VmImage;
use plimsoll_lab::vm::{self, VmAcceleration, VmCommandTemplate, VmGroupSpec};
use plimsoll_machine::host::{Host, HostResolver, HostTimeSource, SystemClock};
use plimsoll_machine::journal::StateDir;
use plimsoll_run::trying;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, clap::Args)]
pub(super) struct VmUpArgs {
    /// Number of VMs that run servers: n1, n2, ...
    #[arg(long, default_value_t = 3, value_name = "N")]
    node_count: u16,
    /// Number of VMs that generate load: c1, ...
    #[arg(long, default_value_t = 1, value_name = "N")]
    client_count: u16,
    /// Memory of each VM.
    #[arg(long, default_value = "640M", value_parser = units::parse_size, value_name = "SIZE")]
    memory: u64,
    /// Size of each disk.
    #[arg(long, default_value = "1G", value_parser = units::parse_size, value_name = "SIZE")]
    disk: u64,
    /// Number of raw disks per VM, in addition to its data disk.
    #[arg(long, default_value_t = 1, value_name = "N")]
    disks: u16,
    /// Virtualization to use.
    #[arg(long, default_value = "auto", value_name = "auto|kvm|tcg")]
    accel: Accel,
    /// Inventory file to write.
    ///
    /// The command overwrites only a file that it wrote itself.
    #[arg(short, long, default_value = "lab.toml", value_name = "FILE.toml")]
    output: PathBuf,
    /// Print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Accel {
    /// KVM if a VM boots with it, otherwise emulation
    Auto,
    /// Virtualization by the processor
    Kvm,
    /// Emulation of the processor
    Tcg,
}

impl VmUpArgs {
    fn wanted(&self) -> VmGroupSpec {
        VmGroupSpec {
            nodes: self.node_count,
            clients: self.client_count,
            memory_bytes: self.memory,
            disk_bytes: self.disk,
            disks: self.disks,
        }
    }
}

pub(super) fn main(args: &VmUpArgs, state: &StateDir) -> CliResult {
    inventory::refuse_foreign(&args.output)?;
    let failed = || trying("bring the machines up");
    let mut hosts = context::nodes();
    let wanted = args.wanted();
    vm::check(&wanted, state, hosts.here()).map_err(failed())?;
    let commands = commands(state)?;
    if args.dry_run {
        return show_steps(args, &commands, (state, hosts.here()));
    }
    // A step under way is finished, so that nothing is left half made.
    let stop = context::stop_flag()?;
    hosts.heed(&stop);
    let image = image(state, &stop, &mut hosts)?;
    let accelerated = accelerated(args.accel, state, &image, &mut hosts)?;
    let clock = SystemClock::new();
    let began = clock.now();
    let mut told = |step: &PlanStep| {
        if step.why.starts_with("start") || step.why.starts_with("wait") {
            progress(&clock, &step.why);
        }
    };
    let made = (&image, accelerated);
    let lab = vm::up(&wanted, made, &commands, (state, &mut hosts), &mut told).map_err(failed())?;
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        drop(lab);
        let razed = vm::down(state, &mut hosts).map_err(failed())?;
        super::verdict(&razed.problems())?;
        return super::super::done(CliExitCode::Interrupted);
    }
    let address = lab.address();
    let text = inventory::written(address.as_deref(), lab.nodes());
    plimsoll_archive::write_result(&args.output, text).map_err(|error| {
        CliError::new(
            CliExitCode::Failed,
            format!("write {}: {error}", args.output.display()),
        )
        .hint("the machines are up; take them down with: plimsoll vm down")
    })?;
    let names: Vec<&str> = lab.nodes().iter().map(|node| &*node.name).collect();
    let file = args.output.display();
    let stack = match address {
        Some(_) => "nfs",
        None => {
            terminal::say(
                "without root this machine is not in their network: load comes from the clients \
                 (--clients c1)",
            );
            "nvmetcp"
        }
    };
    let took = clock.now().saturating_sub(began).as_secs_f64();
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "machines": names, "inventory": args.output, "took_s": took }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print(&format!(
        "{} are up after {took:.1} s; {file} names them. Go on with:\n  plimsoll stack up {stack} --on {file}\n  \
         plimsoll vm shell {}\n  plimsoll vm down",
        names.join(", "),
        names[0]
    ));
    Ok(ExitCode::SUCCESS)
}

/// Steps that would be carried out. Whether this machine's processor can be used is not tried.
fn show_steps(
    args: &VmUpArgs,
    commands: &VmCommandTemplate,
    (state, host): (&StateDir, &dyn Host),
) -> CliResult {
    let acceleration = match args.accel {
        Accel::Kvm => VmAcceleration::Kvm,
        Accel::Auto | Accel::Tcg => VmAcceleration::Emulation,
    };
    let mut notes = Vec::new();
    let image_dir = match found_image(state)? {
        Some(image) => image.dir,
        None => {
            notes.push("an image would be made first: plimsoll vm image");
            PathBuf::from("IMAGE")
        }
    };
    if args.accel == Accel::Auto {
        notes.push(
            "a machine would be booted on this processor first; these are the steps when it does not",
        );
    }
    let made_of = (image_dir.as_path(), acceleration);
    let steps = vm::steps(&args.wanted(), made_of, commands, (state, host))
        .map_err(trying("plan the machines"))?;
    if args.json {
        terminal::print_json(&serde_json::json!({
            "would": [{ "name": "machines", "plan": steps }], "notes": notes }));
        return Ok(ExitCode::SUCCESS);
    }
    notes.iter().for_each(|note| terminal::print(note));
    terminal::print(&super::super::stack::steps_of("machines", &steps));
    Ok(ExitCode::SUCCESS)
}

fn accelerated(
    wanted: Accel,
    state: &StateDir,
    image: &VmImage,
    hosts: &mut dyn HostResolver,
) -> Result<VmAcceleration, CliError> {
    if wanted == Accel::Tcg {
        return Ok(VmAcceleration::Emulation);
    }
    let (found, why) = vm::acceleration(state, image, hosts).map_err(doing(
        CliExitCode::Failed,
        "find an accelerator for the machines",
    ))?;
    if (wanted, found) == (Accel::Kvm, VmAcceleration::Emulation) {
        return Err(
            CliError::new(CliExitCode::Failed, format!("use KVM: {why}"))
                .hint("leave out --accel kvm: emulation works anywhere, slowly"),
        );
    }
    terminal::say(&format!("machines run by {found}: {why}"));
    Ok(found)
}

/// The image, built first where there is none.
pub(super) fn image(
    state: &StateDir,
    stop: &AtomicBool,
    hosts: &mut dyn HostResolver,
) -> Result<VmImage, CliError> {
    match found_image(state)? {
        Some(found) => Ok(found),
        None => new_image(state, stop, hosts),
    }
}

/// The image, built whether there is one or not.
pub(super) fn new_image(
    state: &StateDir,
    stop: &AtomicBool,
    hosts: &mut dyn HostResolver,
) -> Result<VmImage, CliError> {
    terminal::say("making the image of the machines: once, some four minutes");
    let clock = SystemClock::new();
    let mut told = |step: &PlanStep| progress_of(&clock, step);
    let made = vm::image::make(state, stop, hosts, &mut told).map_err(|error| {
        // The step under way was ended, and whatever it says of that is no failure.
        match stop.load(Ordering::Relaxed) {
            true => CliError::sentence(
                CliExitCode::Interrupted,
                "interrupted while the image was made; nothing of it is left",
            ),
            false => doing(CliExitCode::Failed, "make the image of the machines")(error),
        }
    })?;
    progress(&clock, "the image is made");
    Ok(made)
}

fn found_image(state: &StateDir) -> Result<Option<VmImage>, CliError> {
    let unreadable =
        |error| CliError::new(CliExitCode::Failed, format!("look for an image: {error}"));
    vm::image::find(state).map_err(unreadable)
}

/// Tells of a step that takes a while.
pub(super) fn progress_of(clock: &SystemClock, step: &PlanStep) {
    if !step.why.starts_with("write") {
        progress(clock, &step.why);
    }
}

fn progress(clock: &SystemClock, what: &str) {
    terminal::say(&format!("{:6.1} s  {what}", clock.now().as_secs_f64()));
}

/// How machines are reached and switched: by this program, with this state directory.
fn commands(state: &StateDir) -> Result<VmCommandTemplate, CliError> {
    let program = std::env::current_exe().map_err(|error| {
        CliError::new(CliExitCode::Failed, format!("find this program: {error}"))
    })?;
    let state = std::path::absolute(state.path())
        .map_err(|error| CliError::new(CliExitCode::Failed, format!("find the state: {error}")))?;
    Ok(VmCommandTemplate {
        program: vec![program.display().to_string(), "vm".into()],
        options: vec!["--state".into(), state.display().to_string()],
    })
}
