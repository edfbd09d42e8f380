// SPDX-License-Identifier: Apache-2.0
//! Command of the workload `boot`: it makes a machine with its disks in a folder, and boots it.

use plimsoll_classics::boot;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, doing};
use plimsoll_console::terminal;
use plimsoll_lab::vm::boot::{FAILED, READY, VmDiskFiles, command};
use plimsoll_lab::vm::image::{self, VmImage};
use plimsoll_lab::vm::{self, VmAcceleration};
use plimsoll_machine::host::{
    HostError, HostTimeSource, HostTimedJob, MARK_VARIABLE, SystemClock, helper_mark,
};
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A machine that is not up by then will not be: under emulation and on a busy machine it takes half a
/// minute.
const LIMIT: Duration = Duration::from_secs(600);

/// Time between two looks at its console.
const LOOK: Duration = Duration::from_millis(2);

/// Make the disks of a virtual machine, or boot it (internal).
#[derive(Debug, clap::Args)]
pub(super) struct BootArgs {
    #[command(subcommand)]
    verb: BootCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BootCommand {
    /// Make the disks of the machine in a folder.
    Prepare { folder: PathBuf },
    /// Boot the machine `boots` times; `tmp` holds files that are not on the target.
    Run {
        folder: PathBuf,
        tmp: PathBuf,
        boots: u32,
    },
}

pub(super) fn main(args: &BootArgs) -> CliResult {
    let state = context::state_dir()?;
    let unreadable =
        |error| CliError::new(CliExitCode::Failed, format!("look for an image: {error}"));
    let image = image::find(&state).map_err(unreadable)?.ok_or_else(|| {
        CliError::new(CliExitCode::Failed, "boot a machine: there is no image")
            .hint("make it with: plimsoll vm image")
    })?;
    match &args.verb {
        BootCommand::Prepare { folder } => {
            let made = VmDiskFiles::in_folder(folder).make(&image);
            made.map_err(doing(CliExitCode::Failed, "make the disks of a machine"))?;
        }
        BootCommand::Run { folder, tmp, boots } => {
            let (by, why) = vm::acceleration(&state, &image, &mut context::nodes()).map_err(
                doing(CliExitCode::Failed, "find an accelerator for the machine"),
            )?;
            let disks = VmDiskFiles::in_folder(folder);
            if by == VmAcceleration::Emulation {
                terminal::print(&boot::note(&format!(
                    "the machine was run by emulation ({why}): most of each time is spent on emulating \
                     the processor"
                )));
            }
            if !disks.allow_direct() {
                terminal::print(&boot::note(
                    "direct I/O does not work on the target: the page cache was dropped before each boot, but \
                     what the machine wrote may be in it",
                ));
            }
            let bench = BootRunner {
                image: &image,
                by,
                disks: &disks,
                tmp,
            };
            for _ in 0..*boots {
                let took = bench
                    .boot()
                    .map_err(doing(CliExitCode::Failed, "boot a machine"))?;
                terminal::print(&boot::line(took.as_secs_f64()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct BootRunner<'a> {
    image: &'a VmImage,
    by: VmAcceleration,
    disks: &'a VmDiskFiles,
    tmp: &'a Path,
}

impl BootRunner<'_> {
    /// The time from starting the machine until it says that it is ready; its power is cut then.
    fn boot(&self) -> Result<Duration, HostError> {
        let console = self.tmp.join("console");
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| HostError::Io { what, source }
        };
        std::fs::write(&console, "").map_err(failed("make its console"))?;
        self.disks.forget().map_err(failed("look at its disks"))?;
        let argv = command(self.image, self.by, self.disks, &console);
        let job = HostTimedJob {
            argv: &argv,
            directory: self.tmp,
            // As this program is marked: who looks for what a run left finds both.
            mark: &std::env::var(MARK_VARIABLE).unwrap_or_else(|_| helper_mark()),
            limit: LIMIT,
        };
        let stop = context::stop_flag().map_err(|failure| HostError::State(failure.to_string()))?;
        let (end, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let host = context::host();
        let (ended, ready) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let ready = await_ready(&console, [&stop, &is_over]);
                end.store(true, Ordering::Relaxed);
                ready
            });
            let over = SetOnDrop(&is_over);
            let ended = host.timed(&job, &end);
            drop(over);
            (ended, watch.join().unwrap_or_default())
        });
        match (ended?, ready) {
            (_, Some(took)) => Ok(took),
            _ => {
                let said = std::fs::read_to_string(&console).unwrap_or_default();
                let last = said.lines().last().unwrap_or("nothing").trim().to_owned();
                Err(HostError::State(format!(
                    "it did not become ready; last output of its console: {last}"
                )))
            }
        }
    }
}

/// The time until a machine that is started now says that it is ready; none when it fails, or one of
/// these says that all is over.
fn await_ready(console: &Path, over: [&AtomicBool; 2]) -> Option<Duration> {
    let clock = SystemClock::new();
    let began = clock.now();
    loop {
        let said = std::fs::read(console).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if said.contains(READY) {
            return Some(clock.now().saturating_sub(began));
        }
        if said.contains(FAILED) || over.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return None;
        }
        clock.pause(LOOK);
    }
}
