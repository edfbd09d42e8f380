// SPDX-License-Identifier: Apache-2.0
//! Load that fio itself makes of the sections of a job file, on its null engine.

use super::job::JobFile;
use plimsoll_classics::fio;
use plimsoll_classics::originals::{
    self, ProgramOutputFormat, SANDBOX_JOB, SandboxJobSource, sandboxed,
};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_fit::{ConstantRate, ConstantRateLoad};
use plimsoll_machine::host::{HostTimedJob, command_mark};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// How much longer than asked for fio may take.
const GRACE: Duration = Duration::from_secs(60);

/// Runs sections of a job file together for `length`, and gives what they did.
pub(super) fn run(
    job: &JobFile,
    sections: &[String],
    length: Nanos,
) -> Result<Vec<ConstantRateLoad>, CliError> {
    let job = fio::on_null(&job.text, sections, length).map_err(|error| {
        CliError::usage(format!("run {} on fio's null engine: {error}", job.shown)).hint(
            "whoever made the file, --measured takes only what describes a load: take the line out",
        )
    })?;
    let what = "run the sections with fio's null engine";
    // In memory, so that nothing is left behind; inherited, so that it can be shown to fio.
    let descriptor =
        memfd_create("job", MemfdFlags::empty()).map_err(doing(CliExitCode::Failed, what))?;
    let mut file = File::from(descriptor);
    file.write_all(job.as_bytes())
        .and_then(|()| file.rewind())
        .map_err(doing(CliExitCode::Failed, what))?;
    let source = SandboxJobSource::Descriptor(file.as_raw_fd());
    let argv = sandboxed(None, source, &["fio", "--output-format=json", SANDBOX_JOB]);
    let stop = context::stop_flag()?;
    let timed = context::host()
        .timed(
            &HostTimedJob {
                argv: &argv,
                directory: Path::new("/"),
                mark: &command_mark("verify"),
                limit: Duration::from_nanos(length.0) + GRACE,
            },
            &stop,
        )
        .map_err(doing(CliExitCode::Failed, what))?;
    let Some(timed) = timed else {
        let text = "interrupted while fio ran the sections";
        return Err(CliError::sentence(CliExitCode::Interrupted, text));
    };
    let readings = originals::read(ProgramOutputFormat::Fio, &timed.output)
        .map_err(doing(CliExitCode::Failed, what))?;
    let phases = readings.iter().flat_map(|reading| &reading.phases);
    Ok(phases.map(steady).collect())
}

fn steady(phase: &PhaseResult) -> ConstantRateLoad {
    let seconds = phase.wall.as_secs_f64();
    let rate = |kind: OpKind| {
        let stats = phase.stats.0.get(&kind);
        stats.map_or(ConstantRate::default(), |stats| ConstantRate {
            ops_per_s: ratio(stats.ops() as f64, seconds),
            bytes_per_s: ratio(stats.bytes as f64, seconds),
        })
    };
    ConstantRateLoad {
        read: rate(OpKind::Read),
        write: rate(OpKind::Write),
        poisson: false,
    }
}
