// SPDX-License-Identifier: Apache-2.0
//! Runs the release program and reads what it prints for machines.

use std::path::{Path, PathBuf};

use plimsoll_core::format::FormatVersion;
use plimsoll_core::workload::{Workload, WorkloadFile};
use serde_json::Value;

use super::rivals::run_for_output;
use super::table::Sample;
use super::{Failure, Options};

/// The program and where it may write.
#[derive(Debug)]
pub(crate) struct Plimsoll {
    program: PathBuf,
    folder: PathBuf,
}

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Ran(Value);

impl Plimsoll {
    /// The program that was named, or the one of this tree, built.
    pub(crate) fn find(options: &Options) -> Result<Self, Failure> {
        let program = match &options.plimsoll {
            Some(program) => program.clone(),
            None => build()?,
        };
        Ok(Plimsoll {
            program,
            folder: options.dir.clone(),
        })
    }

    /// Where the program is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs `workload` on `target` for a measured part of `seconds`.
    pub(crate) fn run(
        &self,
        workload: &Workload,
        target: &str,
        seconds: u32,
    ) -> Result<Ran, Failure> {
        let file = self.write(workload)?;
        let results = self.folder.join("results");
        let state = self.folder.join("state");
        // Leftovers of a bench that was interrupted.
        crate::bench::clear(&results);
        let length = format!("{seconds}s");
        let output = results.display().to_string();
        let args = [
            "run",
            &file,
            target,
            "--no-self-test",
            "--json",
            "--warmup",
            "500ms",
            "--for",
            &length,
            "-o",
            &output,
        ];
        let variables = [("PLIMSOLL_STATE", state.as_path())];
        let text = run_for_output(&self.program.display().to_string(), &args, &variables)?;
        crate::bench::clear(&results);
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| format!("read what plimsoll printed: {error}"))?;
        Ok(Ran(value["trials"][0].clone()))
    }

    /// When the first `count` operations of `workload` were meant to start and when they were
    /// issued, in nanoseconds after the start.
    pub(crate) fn issues(
        &self,
        workload: &Workload,
        count: usize,
    ) -> Result<Vec<[f64; 2]>, Failure> {
        let (file, count) = (self.write(workload)?, count.to_string());
        let args = ["run", &file, "--trace-issues", &count, "--json"];
        let text = run_for_output(&self.program.display().to_string(), &args, &[])?;
        serde_json::from_str(&text).map_err(|error| format!("read what plimsoll printed: {error}"))
    }

    /// Writes `workload` to a file and says which.
    fn write(&self, workload: &Workload) -> Result<String, Failure> {
        let file = self.folder.join("workload.toml");
        let text = toml::to_string(&WorkloadFile {
            format: FormatVersion::WORKLOAD,
            workload: workload.clone(),
        });
        let text = text.map_err(|error| format!("write the workload: {error}"))?;
        std::fs::write(&file, text).map_err(|error| format!("write the workload: {error}"))?;
        Ok(file.display().to_string())
    }

    /// Starts the program in the background instead; for runs that are watched.
    pub(crate) fn start(
        &self,
        workload: &str,
        target: &str,
        length: &str,
    ) -> Result<std::process::Child, Failure> {
        let output = self.folder.join("results");
        crate::bench::clear(&output);
        let output = output.display().to_string();
        let args = [
            "run",
            workload,
            target,
            "--no-self-test",
            "--json",
            "--for",
            length,
            "-o",
            &output,
        ];
        let mut command = super::rivals::command(&self.program.display().to_string());
        command
            .args(args)
            .env("PLIMSOLL_STATE", self.folder.join("state"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command
            .spawn()
            .map_err(|error| format!("start plimsoll: {error}"))
    }
}

fn build() -> Result<PathBuf, Failure> {
    let args = ["build", "--release", "-p", "plimsoll"];
    let built = crate::cargo(&args).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("build plimsoll".into());
    }
    Ok(crate::built().join("plimsoll"))
}

impl Ran {
    /// A number by its path, 0 when it is not there.
    pub(crate) fn number(&self, path: &str) -> f64 {
        self.0.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Operations, time and processor time.
    pub(crate) fn sample(&self) -> Sample {
        Sample {
            ops: self.number("/ops"),
            seconds: self.number("/length_ns") / 1e9,
            user_ns: self.number("/generator/user_cpu_ns"),
            system_ns: self.number("/generator/system_cpu_ns"),
            outside_ns: Some(self.number("/generator/outside_ns")),
        }
    }
}

/// Operations of each interval (one second) of the run that was recorded below `results`; for reads
/// of one size.
pub(crate) fn ops_by_interval(results: &Path) -> Result<Vec<f64>, Failure> {
    let path = results.join("events.jsonl");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("read {}: {error}", path.display()))?;
    Ok(text.lines().filter_map(ops_of_interval).collect())
}

/// `None` for events that are no intervals.
fn ops_of_interval(line: &str) -> Option<f64> {
    let event: Value = serde_json::from_str(line).ok()?;
    let buckets = event.pointer("/interval/interval/stats/read/service/buckets")?;
    let count = |bucket: &Value| bucket.get(1).and_then(Value::as_f64);
    buckets.as_array()?.iter().map(count).sum()
}

/// Makes the directory `name` in `folder`, empty.
pub(crate) fn fresh(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(name);
    crate::bench::clear(&path);
    std::fs::create_dir_all(&path).map_err(|error| format!("make {}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_an_interval_are_those_of_its_buckets() {
        let line = r#"{"interval":{"place":0,"interval":{"start":0,"stats":{"read":
            {"bytes":12288,"service":{"buckets":[[10,2],[20,1]]}}}}}}"#;
        assert_eq!(ops_of_interval(line), Some(3.0));
        assert_eq!(ops_of_interval(r#"{"trial_began":{"block":0}}"#), None);
        assert_eq!(ops_of_interval("{"), None);
    }
}
