// SPDX-License-Identifier: Apache-2.0
//! Untrusted jobs, written anew for fio.
//!
//! A job file is a program: fio's options start commands, load libraries, name files and devices, and expand
//! variables. fio therefore gets no byte of it. The job that it gets is written here, from the options that
//! only describe a load, each with a value of its kind. Everything else is refused.

use std::fmt::Write;

use plimsoll_core::nearest::nearest;
use plimsoll_core::units::Nanos;

use super::ini::{self, FioOption, FioSection};
use super::options::FioValueKind::{
    self, Access, Distribution, Engine, Figures, FileName, JobName, LeftOut, OneOf, Switch,
};
use super::options::{FioKnownOption, OPTIONS};
use super::section::{ASYNCHRONOUS, SYNCHRONOUS};
use crate::error::ClassicsError;

/// Longest line. fio cuts lines at a few thousand bytes and takes the rest for another line.
const LINE_MAX: usize = 1024;
/// Longest name of a job.
const NAME_MAX: usize = 100;
/// Longest job that is written: it becomes one argument of a command, of which Linux takes 128 KiB.
const JOB_MAX: usize = 100_000;

/// The job file in which fio does what `text` says, on files in the directory that it is given.
/// `defaults` are options of the command line (`--runtime=5`), which count where a job says nothing.
///
/// # Errors
/// The first line that does more than to describe a load, or that is not understood.
pub fn rewritten(text: &str, defaults: &[String]) -> Result<String, ClassicsError> {
    check_lines(text)?;
    let mut first = String::new();
    for word in defaults {
        let option = ini::option(word.trim_start_matches('-'), 0)?;
        first.extend(line_of(&option)?);
    }
    let mut job = String::new();
    for section in ini::sections(text)? {
        job += &heading(&section)?;
        job += &first;
        for option in &section.options {
            job.extend(line_of(option)?);
        }
    }
    limited(job)
}

/// The job file in which fio does what these sections say, all at once and for `length`, on its null
/// engine: nothing is read or written, all else is as they say it.
///
/// # Errors
/// As for [`rewritten`].
pub fn on_null(text: &str, sections: &[String], length: Nanos) -> Result<String, ClassicsError> {
    check_lines(text)?;
    let milliseconds = length.0.div_ceil(1_000_000);
    let mut job = String::new();
    for section in ini::sections(text)? {
        if !sections.contains(&section.name) {
            continue;
        }
        job += &heading(&section)?;
        for option in &section.options {
            if FioKnownOption::of(&option.name).is_none_or(|known| known.is_on_null) {
                job.extend(line_of(option)?);
            }
        }
        // Writing to a String cannot fail.
        let _ = writeln!(job, "ioengine=null\ntime_based\nruntime={milliseconds}ms");
    }
    limited(job)
}

/// Refuses lines that fio would not read as we do.
fn check_lines(text: &str) -> Result<(), ClassicsError> {
    for (line, text) in (1..).zip(text.lines()) {
        let reason = if text.len() > LINE_MAX {
            format!("it has more than {LINE_MAX} bytes; write shorter lines")
        } else if text.contains(|c: char| c.is_control() && c != '\t') {
            "it has a control character; take it out".to_owned()
        } else {
            continue;
        };
        return Err(ClassicsError::Line { line, reason });
    }
    Ok(())
}

fn limited(job: String) -> Result<String, ClassicsError> {
    if job.len() <= JOB_MAX {
        return Ok(job);
    }
    Err(ClassicsError::Line {
        line: 1,
        reason: format!("all jobs together are longer than {JOB_MAX} bytes; split the file"),
    })
}

fn heading(section: &FioSection) -> Result<String, ClassicsError> {
    let name = &section.name;
    match check_job_name(name) {
        Ok(()) => Ok(format!("[{name}]\n")),
        Err(reason) => Err(ClassicsError::Line {
            line: section.line,
            reason: format!("the job '{name}': {reason}"),
        }),
    }
}

/// The line that says this option to fio; none where it is left out.
fn line_of(option: &FioOption) -> Result<Option<String>, ClassicsError> {
    let FioOption { name, value, .. } = option;
    let Some((name, kind)) = kind_of(name) else {
        return Err(option.wrong(unknown(name)));
    };
    match check(kind, value) {
        Err(reason) => Err(option.wrong(reason)),
        Ok(()) if matches!(kind, LeftOut) => Ok(None),
        Ok(()) => Ok(Some(format!("{name}={value}\n"))),
    }
}

/// The option of this name, as it stands here, and what its value may be.
fn kind_of(name: &str) -> Option<(&'static str, FioValueKind)> {
    let known = FioKnownOption::of(name)?;
    Some((known.name, known.kind?))
}

fn unknown(name: &str) -> String {
    // The first of several that are equally near is proposed.
    let place = |kind: FioValueKind| match kind {
        Switch => 0,
        Figures => 1,
        _ => 2,
    };
    let passed_on = |known: &FioKnownOption| Some((place(known.kind?), known.name));
    let mut known: Vec<_> = OPTIONS.iter().filter_map(passed_on).collect();
    known.sort_unstable();
    let known = known.iter().map(|(_, known)| *known);
    let hint =
        nearest(name, known).map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
    format!("this option is not passed on to fio{hint}; take the line out")
}

fn check(kind: FioValueKind, value: &str) -> Result<(), String> {
    let one_of = |words: &[&str]| match words.contains(&value) {
        true => Ok(()),
        false => Err(format!("expected one of {}", words.join(", "))),
    };
    match kind {
        Switch => one_of(&["0", "1"]),
        Engine => one_of(&[&SYNCHRONOUS[..], &ASYNCHRONOUS, &["mmap"]].concat()),
        Figures => check_figures(value),
        Access => check_access(value),
        Distribution => check_distribution(value),
        OneOf(words) => one_of(words),
        FileName => check_file_name(value),
        JobName => check_job_name(value),
        LeftOut => Ok(()),
    }
}

/// Numbers with their units, with the signs between them that lists and patterns have.
fn check_figures(value: &str) -> Result<(), String> {
    let is_figure = |text: &str| {
        let text = text.trim();
        let digits = text
            .trim_end_matches('%')
            .trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        text.is_empty() || (is_number && text.len() - digits.len() <= UNIT_MAX)
    };
    match !value.is_empty() && value.split([',', ':', '/', '-']).all(is_figure) {
        true => Ok(()),
        false => Err("expected numbers, such as 4k, 70 or 4k/60:64k/40".into()),
    }
}

/// Longest unit, `usec` and its like.
const UNIT_MAX: usize = 5;

fn check_access(value: &str) -> Result<(), String> {
    let (word, step) = value.split_once(':').unwrap_or((value, "1"));
    let known = [
        "read",
        "write",
        "trim",
        "rw",
        "readwrite",
        "randread",
        "randwrite",
        "randtrim",
        "randrw",
        "trimwrite",
    ];
    if !known.contains(&word) {
        return Err(format!("expected one of {}", known.join(", ")));
    }
    check_figures(step)
}

fn check_distribution(value: &str) -> Result<(), String> {
    let (word, figures) = value.split_once(':').unwrap_or((value, "1"));
    let known = ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
    if !known.contains(&word) {
        return Err(format!("expected one of {}", known.join(", ")));
    }
    check_figures(figures)
}

/// A name leads nowhere but into the directory that fio is given.
fn check_file_name(value: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let begins = value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    match begins && value.len() <= NAME_MAX && value.chars().all(is_plain) {
        true => Ok(()),
        false => Err(
            "expected one name of letters, digits, '_', '.' and '-', without directories: the target is given on the command line"
                .into(),
        ),
    }
}

/// fio takes a name that begins with `global` for defaults, and one that is a device for the device.
fn check_job_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _.,+@()=-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if !begins || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            "expected a name of at most {NAME_MAX} letters, digits, spaces and '_.,+@()=-' that begins with a letter or a digit"
        ));
    }
    match name.starts_with("global") {
        true => Err("fio takes this name for [global]; choose another".into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sections_that_are_wanted_go_to_the_null_engine() {
        let text = "[global]\nsize=1g\ndirectory=/x\n[a]\nbs=8k\nioengine=psync\n[b]\nbs=4k\n";
        let job = on_null(text, &["a".to_owned()], Nanos(1_500_000_000)).unwrap();
        assert_eq!(
            job,
            "[a]\nsize=1g\nbs=8k\nioengine=null\ntime_based\nruntime=1500ms\n"
        );
    }

    #[test]
    fn a_load_is_written_as_it_is_said() {
        let text = "; twins\n[global]\ndirectory=/x\nreadwrite=randrw:8\nbssplit=4k/60:64k/40,8k ; sizes\n\
            rwmixread=70\nioengine=libaio\n[a b]\nstonewall\nfilename=twin.data\nruntime=1m\n\
            random_distribution=zipf:1.2\ndescription=anything ${at} all\n[c]\nwait_for=a b\nsize=50%\n";
        let text = text.replace("${at} ", "");
        let common = "rw=randrw:8\nbssplit=4k/60:64k/40,8k\nrwmixread=70\nioengine=libaio\n";
        let expect = format!(
            "[a b]\ntime_based=1\n{common}stonewall=1\nfilename=twin.data\nruntime=1m\n\
             random_distribution=zipf:1.2\n[c]\ntime_based=1\n{common}wait_for=a b\nsize=50%\n"
        );
        let written = rewritten(&text, &["--time_based".to_owned()]).unwrap();
        assert_eq!(written, expect);
        // Nothing is left to be refused.
        assert_eq!(rewritten(&written, &[]).unwrap(), written);
    }

    #[test]
    fn what_is_more_than_a_load_is_refused_with_its_line() {
        let long = format!("# {}", "x".repeat(8_191 - 2));
        for (line, word) in [
            ("exec_prerun=id", "exec_prerun"),
            ("Exec_Prerun = id", "not passed on"),
            ("${X}exec_prerun=id", "${X}"),
            ("$(X)exec_prerun=id", "not passed on"),
            ("ioengine=${E}exec", "${E}"),
            ("ioengine=exec", "expected one of"),
            ("ioengine=external:./x.so", "expected one of"),
            ("ioengine=libaio\u{b}", "control"),
            ("program=/bin/id", "not passed on"),
            ("include x.fio", "other files"),
            ("filename=/dev/sda", "one name"),
            ("filename=a:/dev/sda", "one name"),
            ("filename=..", "one name"),
            ("filename=.", "one name"),
            ("write_bw_log=/x", "not passed on"),
            ("write_iolog=/x", "not passed on"),
            ("read_iolog=/x", "not passed on"),
            ("iomem=mmap:/x", "not passed on"),
            ("bs=4k%include", "expected numbers"),
            ("bs=4k,/etc/passwd", "expected numbers"),
            ("size=", "expected numbers"),
            ("time_based=yes", "one of 0, 1"),
            ("rw=read:/x", "expected numbers"),
            ("wait_for=/dev/sda", "expected a name"),
            ("random_distribution=zipf:$X", "expected numbers"),
            ("rate_process=poissonx", "expected one of"),
            (&long, "1024 bytes"),
            ("nrfile=4", "did you mean 'nrfiles'"),
        ] {
            let text = format!("[a]\nrw=read\n{line}\n");
            let error = rewritten(&text, &[]).unwrap_err().to_string();
            assert!(
                error.starts_with("line 3: ") && error.contains(word),
                "{line}: {error}"
            );
        }
        for name in [
            "/dev/sda",
            "globals",
            ".",
            "..",
            "a\\b",
            "-x",
            &"x".repeat(300),
        ] {
            let error = rewritten(&format!("[{name}]\nrw=read\n"), &[]).unwrap_err();
            assert!(error.to_string().contains("line 1: "), "{name}: {error}");
        }
        let many = "[a]\nrw=read\n".repeat(900) + &"bs=4k\n".repeat(9_000).repeat(2);
        assert!(rewritten(&many, &[]).is_err());
    }
}
