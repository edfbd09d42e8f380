// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench NAME`: what the generator costs, held against other programs and against
//! gates.
//!
//! Each round runs every program once, the next round in the opposite order, so that what drifts
//! on the machine falls on all of them; what is judged is the median of the ratios within rounds.
//! Absolute figures are those of the machine and of its other load that day.

mod fidelity;
mod files;
mod fit;
mod ingest;
mod long;
mod ours;
mod pacing;
mod rivals;
mod speed;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use ours::Plimsoll;
use rivals::TIoUring;
use table::{Row, Sample};

/// Why a bench could not be carried out.
pub(crate) type Failure = String;

/// Removes a folder that a bench made, as far as it goes.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of ours that makes its folders itself, and does not use the lab"
)]
pub(crate) fn clear(folder: &std::path::Path) {
    let _ = std::fs::remove_dir_all(folder);
}

const HELP: &str = "cargo xtask bench NAME [OPTION VALUE]...
  null      operations per second on nothing, against fio's null engine
  read      direct 4 KiB random reads at depth 32 and 1, against fio and t/io_uring
  nop       requests that do nothing in the kernel, against t/io_uring
  arrivals  rate and distribution of Poisson arrivals
  issue     how late requests are issued at 100,000/s, and what pacing costs
  files     files laid out per second, against a bare loop and bonnie++
  ingest    PCP archives (--archive, else one that it makes) read, against pmlogsummary
  fit       requests (--requests) fitted and checked, as text and as a Parquet table
  fidelity  packed requests (--trace) against the recorded ones on simulated flash
  decisions how models of counters alone rank simulated devices (--trace)
  long      whether memory and processor time stay flat (--minutes)
options
  --dir DIR         where files are made (target/bench)
  --rounds N        rounds (8)
  --seconds S       length of each measured part (3)
  --minutes M       length of the long run (10)
  --count N         files of the files bench; may be repeated (10000, 1000000)
  --archive BASE    archive of the ingest bench; may be repeated, for one that is compressed, too
  --trace FILE      recorded requests; may be repeated
  --requests N      requests of the fit bench (4000000)
  --plimsoll FILE   the program (built for release when absent)
  --t-io-uring FILE t/io_uring (target/fio/t/io_uring; scripts/setup.sh bench builds it)
  --out DIR         where the result goes (bench)";

/// Options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    dir: PathBuf,
    rounds: u32,
    seconds: u32,
    minutes: u32,
    counts: Vec<u32>,
    archives: Vec<String>,
    traces: Vec<String>,
    requests: u32,
    plimsoll: Option<PathBuf>,
    t_io_uring: PathBuf,
    out: PathBuf,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let root = super::root();
        let mut options = Options {
            dir: crate::target().join("bench"),
            rounds: 8,
            seconds: 3,
            minutes: 10,
            counts: Vec::new(),
            archives: Vec::new(),
            traces: Vec::new(),
            requests: 4_000_000,
            plimsoll: None,
            t_io_uring: crate::target().join("fio/t/io_uring"),
            out: root.join("bench"),
        };
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("'{}' needs a value", pair[0]));
            };
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!(
                    "{name} needs a whole number above 0, not '{value}'"
                )),
            };
            match name.as_str() {
                "--dir" => options.dir = value.into(),
                "--rounds" => options.rounds = number()?,
                "--seconds" => options.seconds = number()?,
                "--minutes" => options.minutes = number()?,
                "--count" => options.counts.push(number()?),
                "--archive" => options.archives.push(value.into()),
                "--trace" => options.traces.push(value.into()),
                "--requests" => options.requests = number()?,
                "--plimsoll" => options.plimsoll = Some(value.into()),
                "--t-io-uring" => options.t_io_uring = value.into(),
                "--out" => options.out = value.into(),
                _ => return Err(format!("'{name}' is not an option\n{HELP}")),
            }
        }
        if options.counts.is_empty() {
            options.counts = vec![10_000, 1_000_000];
        }
        Ok(options)
    }
}

/// Resources that all benches use.
#[derive(Debug)]
pub(crate) struct Bench {
    options: Options,
    plimsoll: Plimsoll,
    t_io_uring: Option<TIoUring>,
}

/// Runs the bench that `args` name.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some((name, rest)) = args.split_first() else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    match carry_out(name, rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("error: failed to {fault}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(name: &str, rest: &[String]) -> Result<bool, Failure> {
    let bench: fn(&Bench) -> Result<Vec<Row>, Failure> = match name {
        "null" => speed::null,
        "read" => speed::read,
        "nop" => speed::nop,
        "arrivals" => pacing::arrivals,
        "issue" => pacing::issue,
        "files" => files::files,
        "ingest" => ingest::ingest,
        "fit" => fit::fit,
        "fidelity" => fidelity::fidelity,
        "decisions" => fidelity::decisions,
        "long" => long::long,
        _ => return Err(format!("find the bench '{name}'\n{HELP}")),
    };
    let options = Options::parse(rest)?;
    std::fs::create_dir_all(&options.dir)
        .map_err(|error| format!("make {}: {error}", options.dir.display()))?;
    let bench_set = Bench {
        plimsoll: Plimsoll::find(&options)?,
        t_io_uring: TIoUring::find(&options.t_io_uring),
        options,
    };
    let rows = bench(&bench_set)?;
    table::print(&rows);
    let path = table::save(&bench_set.options.out, name, &rows)?;
    eprintln!("written to {}", path.display());
    Ok(rows.iter().all(Row::passed))
}

/// A program that is run once in every round.
pub(crate) type Player<'a> = (&'static str, Box<dyn Fn() -> Result<Sample, Failure> + 'a>);

impl Bench {
    /// Runs every player once per round, every other round in reverse. The samples by player, in
    /// the order of the rounds.
    fn rounds(&self, players: &[Player<'_>]) -> Result<Vec<Vec<Sample>>, Failure> {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); players.len()];
        for round in 0..self.options.rounds {
            let mut order: Vec<usize> = (0..players.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for place in order {
                let (name, play) = &players[place];
                let sample = play()?;
                eprintln!("round {} {name}: {sample}", round + 1);
                samples[place].push(sample);
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_named() {
        let parse = |text: &str| {
            let args: Vec<String> = text.split_whitespace().map(Into::into).collect();
            Options::parse(&args)
        };
        let options = parse("--rounds 3 --count 5 --count 7 --dir /x").unwrap();
        assert_eq!((options.rounds, options.seconds), (3, 3));
        assert_eq!(options.counts, [5, 7]);
        assert_eq!(options.dir, PathBuf::from("/x"));
        for (text, expect) in [
            ("--rounds", "needs a value"),
            ("--rounds 0", "above 0"),
            ("--fast 1", "not an option"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(expect), "{fault}");
        }
    }
}
