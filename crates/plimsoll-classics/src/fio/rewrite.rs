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
use super::section::{ASYNCHRONOUS, SYNCHRONOUS};
use crate::error::ClassicsError;

/// Longest line. fio cuts lines at a few thousand bytes and takes the rest for another line.
const LINE_MAX: usize = 1024;
/// Longest name of a job.
const NAME_MAX: usize = 100;
/// Longest job that is written: it becomes one argument of a command, of which Linux takes 128 KiB.
const JOB_MAX: usize = 100_000;

/// Kind of value that an option accepts.
#[derive(Debug, Clone, Copy)]
enum FioValueKind {
    /// 0 or 1.
    Switch,
    /// An engine that does I/O and nothing else.
    Engine,
    /// Numbers with units, and lists and patterns of them.
    Figures,
    /// `rw`.
    Access,
    /// `random_distribution`.
    Distribution,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a file in the target.
    FileName,
    /// The name of a job.
    JobName,
    /// Accepted, but not written: Plimsoll sets it, or it does not affect the load.
    LeftOut,
}

use FioValueKind::{
    Access, Distribution, Engine, Figures, FileName, JobName, LeftOut, OneOf, Switch,
};

const SWITCHES: &[&str] = &[
    "allrandrepeat",
    "buffered",
    "bs_unaligned",
    "clat_percentiles",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "direct",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "do_verify",
    "end_fsync",
    "exitall",
    "exitall_on_error",
    "fsync_on_close",
    "group_reporting",
    "gtod_reduce",
    "invalidate",
    "lat_percentiles",
    "new_group",
    "norandommap",
    "overwrite",
    "randrepeat",
    "rate_ignore_thinktime",
    "refill_buffers",
    "scramble_buffers",
    "serialize_overlap",
    "slat_percentiles",
    "stats",
    "stonewall",
    "thread",
    "time_based",
    "unlink",
    "verify_fatal",
    "zero_buffers",
];

const FIGURES: &[&str] = &[
    "blockalign",
    "bs",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "bwavgtime",
    "cpus_allowed",
    "dedupe_percentage",
    "fdatasync",
    "filesize",
    "fsync",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_low",
    "iopsavgtime",
    "kb_base",
    "loops",
    "nrfiles",
    "number_ios",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "openfiles",
    "percentage_random",
    "percentile_list",
    "ramp_time",
    "randseed",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "runtime",
    "rwmixread",
    "rwmixwrite",
    "significant_figures",
    "size",
    "startdelay",
    "thinktime",
    "thinktime_blocks",
    "thinktime_iotime",
    "thinktime_spin",
    "unit_base",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_interval",
];

/// Options whose values are words.
const WORDS: &[(&str, FioValueKind)] = &[
    (
        "clocksource",
        OneOf(&["gettimeofday", "clock_gettime", "cpu"]),
    ),
    ("cpus_allowed_policy", OneOf(&["shared", "split"])),
    ("description", LeftOut),
    ("directory", LeftOut),
    (
        "fallocate",
        OneOf(&["none", "posix", "keep", "native", "truncate", "0", "1"]),
    ),
    (
        "file_service_type",
        OneOf(&["random", "roundrobin", "sequential"]),
    ),
    ("filename", FileName),
    ("ioengine", Engine),
    ("name", LeftOut),
    ("random_distribution", Distribution),
    (
        "random_generator",
        OneOf(&["tausworthe", "tausworthe64", "lfsr"]),
    ),
    ("rate_process", OneOf(&["linear", "poisson", "thinktime"])),
    ("rw", Access),
    ("rw_sequencer", OneOf(&["sequential", "identical"])),
    ("sync", OneOf(&["0", "1", "none", "sync", "dsync"])),
    ("thinktime_blocks_type", OneOf(&["complete", "issue"])),
    (
        "unified_rw_reporting",
        OneOf(&["none", "mixed", "both", "0", "1", "2"]),
    ),
    (
        "verify",
        OneOf(&[
            "crc16", "crc32", "crc32c", "crc64", "crc7", "md5", "null", "sha1", "sha256", "sha512",
            "xxhash",
        ]),
    ),
    ("wait_for", JobName),
];

/// Options that the null engine's own lines replace, or that have no meaning without files.
const NOT_ON_NULL: &[&str] = &[
    "directory",
    "filename",
    "filename_format",
    "ioengine",
    "ioscheduler",
    "nrfiles",
    "openfiles",
    "ramp_time",
    "runtime",
    "startdelay",
    "stonewall",
    "time_based",
    "wait_for",
];

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
            if !NOT_ON_NULL.contains(&option.name.as_str()) {
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
    let is = |known: &&&str| **known == name;
    let switch = SWITCHES.iter().find(is).map(|known| (*known, Switch));
    let figures = || FIGURES.iter().find(is).map(|known| (*known, Figures));
    let word = || WORDS.iter().find(|(known, _)| *known == name).copied();
    switch.or_else(figures).or_else(word)
}

fn unknown(name: &str) -> String {
    let words = WORDS.iter().map(|(known, _)| known);
    let known = SWITCHES.iter().chain(FIGURES).chain(words).copied();
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
