// SPDX-License-Identifier: Apache-2.0
//! Runs other programs and reads what they print.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Failure;
use super::table::Sample;

/// A command of this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it runs other programs"
)]
pub(crate) fn command(program: &str) -> Command {
    Command::new(program)
}

/// Output of `program`.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String, Failure> {
    run_for_output(program, args, &[])
}

/// Output of `program` with these variables set.
pub(crate) fn run_for_output(
    program: &str,
    args: &[&str],
    variables: &[(&str, &Path)],
) -> Result<String, Failure> {
    let mut command = command(program);
    command.args(args).envs(variables.iter().copied());
    let output = command.output();
    let output = output.map_err(|error| format!("run {program}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("run {program} {}: {said}", args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program of `bench/programs`, built.
pub(crate) fn measurement(name: &str) -> Result<PathBuf, Failure> {
    let mut cargo = command("cargo");
    cargo.args([
        "build",
        "--release",
        "-p",
        "plimsoll-measurements",
        "--bin",
        name,
    ]);
    match cargo.status() {
        Ok(status) if status.success() => Ok(crate::built().join(name)),
        _ => Err(format!("build {name} of bench/programs")),
    }
}

/// Runs fio on one job of these options.
pub(crate) fn fio(options: &[&str], seconds: u32) -> Result<Sample, Failure> {
    let runtime = format!("--runtime={seconds}");
    let mut args = vec!["--name=bench", "--time_based=1", "--output-format=json"];
    args.push(&runtime);
    args.extend_from_slice(options);
    parse_fio(&output("fio", &args)?)
}

fn parse_fio(text: &str) -> Result<Sample, Failure> {
    // Warnings may precede the document.
    let json = text.find('{').map_or("", |start| &text[start..]);
    let value: Value = serde_json::from_str(json).map_err(|e| format!("read fio's JSON: {e}"))?;
    let job = &value["jobs"][0];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let job_ns = number(&job["job_runtime"]) * 1e6;
    let sample = Sample {
        ops: number(&job["read"]["total_ios"]) + number(&job["write"]["total_ios"]),
        seconds: number(&job["read"]["runtime"]).max(number(&job["write"]["runtime"])) / 1e3,
        user_ns: number(&job["usr_cpu"]) / 100.0 * job_ns,
        system_ns: number(&job["sys_cpu"]) / 100.0 * job_ns,
        outside_ns: None,
    };
    match sample.ops > 0.0 && sample.seconds > 0.0 {
        true => Ok(sample),
        false => Err("find operations in fio's JSON".into()),
    }
}

/// The bare ring loop that comes with fio's sources.
#[derive(Debug)]
pub(crate) struct TIoUring(PathBuf);

impl TIoUring {
    /// The program at `path`, if there is one.
    pub(crate) fn find(path: &Path) -> Option<Self> {
        path.is_file().then(|| TIoUring(path.to_path_buf()))
    }

    /// Runs it; the processor time is that of the whole process, in ticks of 10 ms.
    pub(crate) fn run(&self, options: &[&str], seconds: u32) -> Result<Sample, Failure> {
        // It prints a rate once a second, and the last one only if it gets to it.
        let seconds = seconds + 1;
        let length = format!("-r{seconds}");
        let mut args = vec![length.as_str()];
        args.extend_from_slice(options);
        let before = children_ticks();
        let text = output(&self.0.display().to_string(), &args)?;
        let after = children_ticks();
        let rates = parse_rates(&text);
        if rates.is_empty() {
            return Err(format!("find rates in what t/io_uring printed: {text}"));
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        Ok(Sample {
            ops: mean * f64::from(seconds),
            seconds: f64::from(seconds),
            user_ns: (after.0 - before.0) * 1e7,
            system_ns: (after.1 - before.1) * 1e7,
            outside_ns: None,
        })
    }
}

/// The rates of lines such as `IOPS=163.46K, BW=638MiB/s, IOS/call=7/8`.
fn parse_rates(text: &str) -> Vec<f64> {
    let rate = |line: &str| {
        let figure = line.trim().strip_prefix("IOPS=")?.split(',').next()?;
        let (digits, factor) = match figure.as_bytes().last()? {
            b'K' => (&figure[..figure.len() - 1], 1e3),
            b'M' => (&figure[..figure.len() - 1], 1e6),
            _ => (figure, 1.0),
        };
        Some(digits.parse::<f64>().ok()? * factor)
    };
    text.lines().filter_map(rate).collect()
}

/// User and system ticks of the children that have ended (man 5 proc: fields 16 and 17).
pub(crate) fn children_ticks() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = after_name.split(' ').skip(13);
    let mut next = || fields.next().and_then(|f| f.parse().ok()).unwrap_or(0.0);
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rivals_print_is_read() {
        let text = "polled=0, fixedbufs=1\nIOPS=163.46K, BW=638MiB/s, IOS/call=7/8\n\
                    IOPS=900, BW=3MiB/s\nIOPS=11.20M, BW=1\nMaximum IOPS=11.2M\n";
        assert_eq!(parse_rates(text), [163_460.0, 900.0, 11_200_000.0]);
        let fio = "note: something\n{\"jobs\":[{\"job_runtime\":2000,\"usr_cpu\":10.0,\
                   \"sys_cpu\":40.0,\"read\":{\"total_ios\":1000,\"runtime\":2000},\
                   \"write\":{\"total_ios\":0,\"runtime\":0}}]}";
        let sample = parse_fio(fio).unwrap();
        assert_eq!((sample.per_second(), sample.cpu_ns()), (500.0, 1e6));
        assert!(parse_fio("no document").is_err());
        assert!(parse_fio("{\"jobs\":[]}").is_err());
    }
}
